"""process: look after commands in the background. Every action is one method of the service."""

from typing import Annotated, Any

from pydantic import Field

from toolcrib import Ctx, Result, actions

Id = Annotated[str, "the name of the command, as exec and list give it"]


async def show(ctx: Ctx) -> Result:
    """List your commands in the background, running and ended."""
    listed = await ctx.rpc("process.list", {})
    rows = [
        f"{each['sessionId']}  {each['status']:<9}  {each['runtime']:>7}  {each['name']}" for each in listed["sessions"]
    ]
    return Result.text("\n".join(rows) or "No commands are in the background.", details=listed)


async def poll(
    ctx: Ctx,
    sessionId: Id,  # noqa: N803
    timeoutMs: Annotated[int, Field(ge=0, le=60_000, description="wait so long for output or the end")] = 0,  # noqa: N803
) -> Result:
    """Get what a command has printed since the last poll, and whether it still runs."""
    state = await ctx.rpc("process.poll", {"id": sessionId, "wait": timeoutMs / 1000})
    notes = [f"[{state['missed']:,} bytes before this are not kept any more]"] if state["missed"] else []
    notes += [f"[{state['left']:,} characters before this are not shown; see log]"] if state["left"] else []
    return _output(state, "\n".join([*notes, state["text"].rstrip("\n") or "(no new output)"]))


async def log(
    ctx: Ctx,
    sessionId: Id,  # noqa: N803
    offset: Annotated[int | None, Field(ge=0, description="the line to begin with, counted from 0")] = None,
    limit: Annotated[int | None, Field(ge=1, description="how many lines; alone, the last so many")] = None,
) -> Result:
    """Get lines of what a command has printed; by default the last 200."""
    state = await ctx.rpc("process.log", {"id": sessionId, "offset": offset, "limit": limit})
    last = state["first"] + state["count"]
    seen = f"[lines {state['first']} to {last - 1} of {state['totalLines']}]" if state["count"] else "[no such lines]"
    older = " [older output is not kept here]" if state["truncated"] else ""
    return _output(state, f"{seen}{older}\n{state['text']}".rstrip("\n"))


async def write(
    ctx: Ctx,
    sessionId: Id,  # noqa: N803
    data: Annotated[str, "what to write to its input"] = "",
    eof: Annotated[bool, "say that no more input follows"] = False,
) -> Result:
    """Write to the input of a command, as it is."""
    state = await ctx.rpc("process.write", {"id": sessionId, "data": data, "eof": eof})
    end = " and closed its input" if eof else ""
    return Result.text(f"Wrote {state['bytes']} bytes to {state['sessionId']}{end}.", details=state)


async def send_keys(
    ctx: Ctx,
    sessionId: Id,  # noqa: N803
    keys: Annotated[tuple[str, ...], "keys by their tmux names: Enter, Up, C-c, M-x, F1"] = (),
    hex: Annotated[tuple[str, ...], "bytes in hex: 1b, 0x41"] = (),
    literal: Annotated[str, "text to type first, as it is"] = "",
) -> Result:
    """Press keys: text first, then bytes, then named keys."""
    asked = {"id": sessionId, "keys": list(keys), "hex": list(hex), "literal": literal}
    state = await ctx.rpc("process.keys", asked)
    said = [f"Sent {state['bytes']} bytes to {state['sessionId']}.", *state["warnings"]]
    return Result.text("\n".join(said), details=state)


async def submit(ctx: Ctx, sessionId: Id, data: Annotated[str, "what to write to its input"] = "") -> Result:  # noqa: N803
    """Type a line and press Enter."""
    state = await ctx.rpc("process.submit", {"id": sessionId, "data": data})
    return Result.text(f"Submitted to {state['sessionId']}.", details=state)


async def paste(
    ctx: Ctx,
    sessionId: Id,  # noqa: N803
    text: Annotated[str, "what to paste"],
    bracketed: Annotated[bool | None, "mark it as pasted; by default on a terminal only"] = None,
) -> Result:
    """Paste text, so that an editor takes it as it is."""
    state = await ctx.rpc("process.paste", {"id": sessionId, "text": text, "bracketed": bracketed})
    return Result.text(f"Pasted {state['bytes']} bytes into {state['sessionId']}.", details=state)


async def kill(
    ctx: Ctx,
    sessionId: Id,  # noqa: N803
    signal: Annotated[str, "only send this signal: INT, HUP, KILL, STOP, CONT"] = "",
) -> Result:
    """End a command and all it started: asked to end first, killed a little later."""
    state = await ctx.rpc("process.kill", {"id": sessionId, "signal": signal})
    if signal and state["status"] == "running":
        return Result.text(f"Sent {signal} to {state['sessionId']}, which is still running.", details=state)
    return Result.text(f"{state['sessionId']} {state['sentence']}.", details=state)


async def clear(ctx: Ctx, sessionId: Id) -> Result:  # noqa: N803
    """Forget a command that has ended."""
    state = await ctx.rpc("process.clear", {"id": sessionId})
    return Result.text(f"{state['sessionId']} is forgotten.", details=state)


async def remove(ctx: Ctx, sessionId: Id) -> Result:  # noqa: N803
    """End a command if it still runs, and forget it."""
    state = await ctx.rpc("process.remove", {"id": sessionId})
    return Result.text(f"{state['sessionId']} is ended and forgotten.", details=state)


def _output(state: dict[str, Any], text: str) -> Result:
    """Return output with how the command goes; one that failed is told, though looking at it succeeded."""
    name = state["sessionId"]
    how = f"{name} is still running." if state["status"] == "running" else f"{name} {state['sentence']}."
    more = f" result_get with key {state['key']!r} gives its output from the beginning." if state["key"] else ""
    return Result.text(f"{text}\n\n{how}{more}", details=state)


process = actions(
    "process",
    "Look after commands that exec has sent to the background.",
    {
        "list": show, "poll": poll, "log": log, "write": write, "send-keys": send_keys, "submit": submit,
        "paste": paste, "kill": kill, "clear": clear, "remove": remove,
    },
    group="runtime",
    limit=210_000,
)  # fmt: skip
