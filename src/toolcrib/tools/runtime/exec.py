"""exec: run a command. The judge has looked at it before; what it let through is kept under the key of the call."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from toolcrib import Ctx, Result, Text, tool, vouch_for

_FACTS = (
    "status", "sessionId", "pid", "startedAt", "cwd", "exitCode", "signal", "timedOut", "durationMs", "limit", "left",
    "bytes", "cut", "key",
)  # fmt: skip


def _render_running(state: Mapping[str, Any]) -> Result:
    details = {name: state[name] for name in ("status", "sessionId", "pid", "startedAt", "cwd", "name", "tail")}
    sentence = f"The command is still running as {state['sessionId']} (pid {state['pid']})."
    how = "Follow it with process: poll for new output, log, write, send-keys, kill."
    text = "\n\n".join([f"{sentence} {how}", *_render_notices(state)])
    own = vouch_for(text, "nothing that it printed is shown, and its notices quote commands of this conversation")
    return Result((own,), details, offers=("process",))


def _render_ended(state: Mapping[str, Any]) -> Result:
    """Tell what a command printed and, unless all went well, how it ended: then it is a failure that keeps both."""
    output = state["text"].rstrip("\n")
    parts = [part for part in (_note_cut(state), output) if part] or ["(no output)"]
    details: dict[str, Any] = {name: state[name] for name in _FACTS}
    offers = ("result_get",) if state["cut"] and state["key"] else ()
    if state["status"] == "completed":
        text = "\n\n".join(["\n".join(parts), *_render_notices(state)])
        head = f"The command {state['sentence']}{'; it printed:' if output else '.'}"
        end = "That is all it printed." if output else ""
        return Result.text(text, details=details, head=head, end=end)._replace(offers=offers)
    sentence = f"The command {state['sentence']}."
    details |= {"error": sentence, "code": state["reason"]}
    text = "\n\n".join(["\n".join(parts), sentence, *_render_notices(state)])
    return Result(content=(Text(text),), details=details, status="error", offers=offers)


def _note_cut(state: Mapping[str, Any]) -> str:
    """Return what stands where output was left out, empty when all is there."""
    if not state["cut"]:
        return ""
    all_lines = state["totalLines"]
    seen = f"{state['lines']:,} of {all_lines:,} lines" if all_lines else f"lines of {state['bytes']:,} bytes"
    rest = f"; result_get with key {state['key']!r} gives the output from its beginning" if state["key"] else ""
    return f"[the last {seen} are shown{rest}]"


def _render_notices(state: Mapping[str, Any]) -> list[str]:
    """Return one sentence for every other command that has ended in the background."""
    return [f"[{each['sessionId']} ({each['name']}) {each['sentence']}]" for each in state["notices"]]


@tool(
    group="runtime",
    aliases={"cwd": "workdir"},
    paths=("workdir",),
    commands=("command",),
    timeout=900.0,  # a command goes to the background long before; waiting for its turn may take a while
    limit=210_000,
)
async def exec(  # noqa: PLR0913  as models know it
    ctx: Ctx,
    command: Annotated[str, Field(min_length=1)],
    workdir: Annotated[str, Field(min_length=1)] = ".",
    env: dict[str, str] | None = None,
    yieldMs: Annotated[int | None, Field(ge=1, description="ms until it goes to the background")] = None,  # noqa: N803
    background: Annotated[bool, "do not wait for its end"] = False,
    timeout: Annotated[float | None, "seconds until it is ended"] = None,
    pty: Annotated[bool, "give it a terminal"] = False,
) -> Result:
    """Run a bash command and return what it prints. One that takes long goes on in the background."""

    def tell(part: Mapping[str, Any]) -> None:
        ctx.progress(Result.text(part["tail"], details={"status": "running", **part}))

    # the command itself is not passed on: what starts is what was judged under this key
    asked = {
        "call": ctx.call.key,
        "wait": None if yieldMs is None else yieldMs / 1000,
        "background": background,
        "seconds": timeout,
        "pty": pty,
    }
    state = await ctx.rpc("process.start", asked, progress=tell)
    return _render_running(state) if state["status"] == "running" else _render_ended(state)
