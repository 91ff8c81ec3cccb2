"""cron: jobs that wake an agent later. Every action is one method of the service."""

from collections.abc import Mapping
from typing import Any

from toolcrib import Args, Ctx, Result, tool
from toolcrib.tools._parameters import require_argument

_MAX_MESSAGES, _MESSAGE_CHARS, _CONTEXT_CHARS = 10, 220, 700
_ACTIONS = ("status", "list", "add", "update", "remove", "run", "runs", "wake")
_JOB = (
    'like {"schedule": {"at": "2030-01-01T09:00:00+02:00"} or {"everyMs": 3600000} or {"expr": "0 9 * * 1-5", "tz": '
    '"Europe/Kyiv"}, "payload": {"kind": "systemEvent", "text": ..} to tell this session or {"kind": "agentTurn", '
    '"message": ..} to have it done apart and said in this chat, or where channel and to say, or with deliver false '
    "nowhere}; may have name, tools {allow, deny}, deleteAfterRun (add)"
)
_PARAMETERS = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": list(_ACTIONS), "description": "what to do"},
        "includeDisabled": {"type": "boolean", "description": "those that are off, too (list)"},
        "job": {"type": "object", "description": _JOB},
        "contextMessages": {
            "type": "integer", "minimum": 0, "maximum": _MAX_MESSAGES,
            "description": "last messages that its text is to quote (add)",
        },
        "jobId": {"type": "string", "description": "its id (update, remove, run, runs)"},
        "patch": {"type": "object", "description": "the fields that change (update)"},
        "text": {"type": "string", "description": "what to say to the main session (wake)"},
        "mode": {"type": "string", "enum": ["now", "next-heartbeat"], "description": "when it is answered (wake)"},
    },
    "required": ["action"],
    "additionalProperties": False,
}  # fmt: skip


@tool(group="automation", effects={"write"}, requires=("setting:cron",), parameters=_PARAMETERS)
async def cron(ctx: Ctx, args: Args) -> Result:
    """Schedule work for later: reminders, and tasks that repeat. A job may do no more than you may.

    `run` runs one at once; `runs` shows what came of it.
    """
    action = args["action"]
    answer = await ctx.rpc("wake" if action == "wake" else f"cron.{action}", await _params(ctx, action, args))
    return Result.json({name: each for name, each in answer.items() if name != "source"})


async def _params(ctx: Ctx, action: str, args: Args) -> dict[str, Any]:
    """Return what the method of an action is asked with."""
    match action:
        case "status":
            return {}
        case "list":
            return {"includeDisabled": bool(args.get("includeDisabled"))}
        case "add":
            return {"job": await _quote(ctx, require_argument(args, "job"), args.get("contextMessages") or 0)}
        case "update":
            return {"id": require_argument(args, "jobId"), "patch": require_argument(args, "patch")}
        case "wake":
            return {"text": require_argument(args, "text"), "mode": args.get("mode") or "next-heartbeat"}
    more: dict[str, Any] = {"mode": "force"} if action == "run" else {"limit": 20} if action == "runs" else {}
    return {"id": require_argument(args, "jobId"), **more}


async def _quote(ctx: Ctx, job: Mapping[str, Any], many: int) -> Mapping[str, Any]:
    """Return the job with the last messages of this session under its text, where that is what it tells."""
    inner = job["job"] if isinstance(job.get("job"), Mapping) else job
    payload = inner.get("payload")
    if not many or not isinstance(payload, Mapping) or not isinstance(payload.get("text"), str):
        return job
    history = await ctx.rpc("sessions.history", {"most": many * 4, "chars": _MESSAGE_CHARS})
    messages = [each for each in history["messages"] if each["role"] in ("user", "assistant") and each["text"].strip()]
    lines, left = list[str](), _CONTEXT_CHARS
    for each in messages[-many:]:
        line = f"- {each['role'].title()}: {' '.join(each['text'].split())}"
        if (left := left - len(line)) < 0:
            break
        lines.append(line)
    text = "\n".join([payload["text"], "", "Recent context:", *lines]) if lines else payload["text"]
    return {**inner, "payload": {**payload, "text": text}}
