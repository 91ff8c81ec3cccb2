"""cron: jobs that wake an agent later. Every action is one method of the service."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from toolcrib import Ctx, Result, actions
from toolcrib.define.schema.annotations import JsonObject

_MAX_MESSAGES, _MESSAGE_CHARS, _CONTEXT_CHARS = 10, 220, 700
_JOB = (
    'like {"schedule": {"at": "2030-01-01T09:00:00+02:00"} or {"everyMs": 3600000} or {"expr": "0 9 * * 1-5", "tz": '
    '"Europe/Kyiv"}, "payload": {"kind": "systemEvent", "text": ..} to tell this session or {"kind": "agentTurn", '
    '"message": ..} to have it done apart}; may have name, tools {allow, deny}, deleteAfterRun'
)
JobWord = Annotated[str, Field(min_length=1, description="its id")]


async def status(ctx: Ctx) -> Result:
    """Tell whether jobs run."""
    return Result.json(await ctx.rpc("cron.status", {}))


async def show(ctx: Ctx, includeDisabled: bool | None = None) -> Result:  # noqa: N803  as its models know it
    """List jobs."""
    return Result.json(await ctx.rpc("cron.list", {"includeDisabled": bool(includeDisabled)}))


async def add(
    ctx: Ctx,
    job: Annotated[JsonObject, _JOB],
    contextMessages: Annotated[  # noqa: N803
        int | None, Field(ge=0, le=_MAX_MESSAGES, description="last messages that its text is to quote")
    ] = None,
) -> Result:
    """Make a job; it may do no more than you may."""
    if contextMessages:
        job = await _quote(ctx, job, contextMessages)
    return Result.json(await ctx.rpc("cron.add", {"job": job}))


async def update(ctx: Ctx, jobId: JobWord, patch: Annotated[JsonObject, "the fields that change"]) -> Result:  # noqa: N803
    """Change a job."""
    return Result.json(await ctx.rpc("cron.update", {"id": jobId, "patch": patch}))


async def remove(ctx: Ctx, jobId: JobWord) -> Result:  # noqa: N803
    """Take a job away."""
    return Result.json(await ctx.rpc("cron.remove", {"id": jobId}))


async def run_now(ctx: Ctx, jobId: JobWord) -> Result:  # noqa: N803
    """Run a job now, whatever its schedule says."""
    return Result.json(await ctx.rpc("cron.run", {"id": jobId, "mode": "force"}))


async def runs(ctx: Ctx, jobId: JobWord) -> Result:  # noqa: N803
    """List the last runs of a job."""
    return Result.json(await ctx.rpc("cron.runs", {"id": jobId, "limit": 20}))


async def wake(
    ctx: Ctx,
    text: Annotated[str, Field(min_length=1, description="what to say")],
    mode: Literal["now", "next-heartbeat"] | None = None,
) -> Result:
    """Tell the main session something."""
    return Result.json(await ctx.rpc("wake", {"text": text, "mode": mode or "next-heartbeat"}))


async def _quote(ctx: Ctx, job: JsonObject, many: int) -> JsonObject:
    """Return the job with the last messages of this session under its text, where that is what it tells."""
    inner = job.get("job") if isinstance(job.get("job"), Mapping) else job
    payload = inner.get("payload") if isinstance(inner, Mapping) else None
    if not isinstance(inner, Mapping) or not isinstance(payload, Mapping) or not isinstance(payload.get("text"), str):
        return job
    told = await ctx.rpc("sessions.history", {"most": many * 4})
    said = [each for each in told["messages"] if each["role"] in ("user", "assistant") and each["text"].strip()]
    lines, left = list[str](), _CONTEXT_CHARS
    for each in said[-many:]:
        line = f"- {each['role'].title()}: {' '.join(each['text'].split())[:_MESSAGE_CHARS]}"
        if (left := left - len(line)) < 0:
            break
        lines.append(line)
    text: Any = payload["text"] if not lines else "\n".join([payload["text"], "", "Recent context:", *lines])
    return JsonObject({**inner, "payload": {**payload, "text": text}})


cron = actions(
    "cron",
    "Schedule work for later: reminders, and tasks that repeat.",
    {
        "status": status, "list": show, "add": add, "update": update, "remove": remove, "run": run_now, "runs": runs,
        "wake": wake,
    },
    group="automation",
    effects={"write"},
    requires=("setting:cron",),
)  # fmt: skip
