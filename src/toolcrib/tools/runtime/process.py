"""process: look after commands in the background. Every action is one method of the service."""

import re
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from toolcrib import Ctx, Result, actions, vouch_for
from toolcrib.lazy import regex

_HEX_BYTE = regex(r"(?:0x)?[0-9a-f]{1,2}", re.IGNORECASE)
# a key that types no character of a command
_PRESSED = regex(
    r"(?:[cms]-)+.+|\^.|enter|return|kpenter|b?tab|esc(?:ape)?|b(?:ack)?space|delete|dc|up|down|left|right|home|end|f[0-9]+",
    re.IGNORECASE,
)
Id = Annotated[str, "as exec told it"]


async def show(ctx: Ctx) -> Result:
    """Running and ended commands."""
    listed = await ctx.rpc("process.list", {})
    rows = [
        f"{each['sessionId']}  {each['status']:<9}  {each['runtime']:>7}  {each['name']}" for each in listed["sessions"]
    ]
    return _tell("\n".join(rows) or "No commands are in the background.", listed)


async def poll(
    ctx: Ctx,
    sessionId: Id,  # noqa: N803
    timeoutMs: Annotated[int, Field(ge=0, le=60_000, description="wait for output")] = 0,  # noqa: N803
) -> Result:
    """New output, and whether it runs."""
    state = await ctx.rpc("process.poll", {"id": sessionId, "wait": timeoutMs / 1000})
    notes = [f"[{state['missed']:,} bytes before this are not kept any more]"] if state["missed"] else []
    notes += [f"[{state['left']:,} characters before this are not shown; see log]"] if state["left"] else []
    return _output(state, "\n".join([*notes, state["text"].rstrip("\n") or "(no new output)"]))


async def log(
    ctx: Ctx,
    sessionId: Id,  # noqa: N803
    offset: Annotated[int | None, Field(ge=0, description="first line, from 0")] = None,
    limit: Annotated[int | None, Field(ge=1, description="lines")] = None,
) -> Result:
    """Lines of its output, by default the last 200."""
    state = await ctx.rpc("process.log", {"id": sessionId, "offset": offset, "limit": limit})
    last = state["first"] + state["count"]
    seen = f"[lines {state['first']} to {last - 1} of {state['totalLines']}]" if state["count"] else "[no such lines]"
    older = " [older output is not kept here]" if state["truncated"] else ""
    return _output(state, f"{seen}{older}\n{state['text']}".rstrip("\n"))


async def write(
    ctx: Ctx,
    sessionId: Id,  # noqa: N803
    data: str = "",
    eof: Annotated[bool, "close its input"] = False,
) -> Result:
    """Write to its input as it is."""
    state = await ctx.rpc("process.write", {"id": sessionId, "data": data, "eof": eof, "after": ctx.course.taint})
    end = " and closed its input" if eof else ""
    return Result.text(f"Wrote {state['bytes']} bytes to {state['sessionId']}{end}.", details=state)


async def send_keys(
    ctx: Ctx,
    sessionId: Id,  # noqa: N803
    keys: Annotated[tuple[str, ...], "tmux names: Enter, Up, C-c"] = (),
    hex: Annotated[tuple[str, ...], "bytes: 1b, 0x41"] = (),
    literal: str = "",
) -> Result:
    """Press keys: literal, then hex, then keys."""
    asked = {"id": sessionId, "keys": list(keys), "hex": list(hex), "literal": literal, "after": ctx.course.taint}
    state = await ctx.rpc("process.keys", asked)
    lines = [f"Sent {state['bytes']} bytes to {state['sessionId']}.", *state["warnings"]]
    return Result.text("\n".join(lines), details=state)


async def submit(ctx: Ctx, sessionId: Id, data: str = "") -> Result:  # noqa: N803
    """Type a line and Enter."""
    state = await ctx.rpc("process.submit", {"id": sessionId, "data": data, "after": ctx.course.taint})
    return Result.text(f"Submitted to {state['sessionId']}.", details=state)


async def paste(
    ctx: Ctx,
    sessionId: Id,  # noqa: N803
    text: str,
    bracketed: bool | None = None,
) -> Result:
    """Paste text."""
    state = await ctx.rpc(
        "process.paste", {"id": sessionId, "text": text, "bracketed": bracketed, "after": ctx.course.taint}
    )
    return Result.text(f"Pasted {state['bytes']} bytes into {state['sessionId']}.", details=state)


async def kill(
    ctx: Ctx,
    sessionId: Id,  # noqa: N803
    signal: Annotated[str, "only send INT, HUP, KILL, STOP or CONT"] = "",
) -> Result:
    """End it and all it started."""
    state = await ctx.rpc("process.kill", {"id": sessionId, "signal": signal})
    if signal and state["status"] == "running":
        return _tell(f"Sent {signal} to {state['sessionId']}, which is still running.", state)
    return _tell(f"{state['sessionId']} {state['sentence']}.", state)


async def clear(ctx: Ctx, sessionId: Id) -> Result:  # noqa: N803
    """Forget one that has ended."""
    state = await ctx.rpc("process.clear", {"id": sessionId})
    return _tell(f"{state['sessionId']} is forgotten.", state)


async def remove(ctx: Ctx, sessionId: Id) -> Result:  # noqa: N803
    """End and forget it."""
    state = await ctx.rpc("process.remove", {"id": sessionId})
    return _tell(f"{state['sessionId']} is ended and forgotten.", state)


def _tell(text: str, state: dict[str, Any]) -> Result:
    own = vouch_for(text, "nothing that a command printed is shown, and names quote commands of this conversation")
    return Result((own,), state)


def _read_places(args: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the lines that are typed: as text, as bytes, and as keys."""
    data = bytes(int(each, 16) for each in args.get("hex") or () if _HEX_BYTE.fullmatch(each.strip()))
    typed = [args.get(name) or "" for name in ("data", "text", "literal")] + [data.decode(errors="replace")]
    for key in map(str.strip, args.get("keys") or ()):
        typed.append(" " if key.lower() == "space" else "\n" if _PRESSED.fullmatch(key) else key)
    return {"command": "".join(typed).splitlines()}


def _output(state: dict[str, Any], text: str) -> Result:
    """Return output with the state of the command; a failed one is named, though looking at it succeeded."""
    name = state["sessionId"]
    how = f"{name} is still running." if state["status"] == "running" else f"{name} {state['sentence']}."
    more = f" result_get with key {state['key']!r} gives its output from the beginning." if state["key"] else ""
    offers = ("result_get",) if state["key"] else ()
    return Result.text(f"{text}\n\n{how}{more}", details=state)._replace(offers=offers)


process = actions(
    "process",
    "Look after commands in the background.",
    {
        "list": show, "poll": poll, "log": log, "write": write, "send-keys": send_keys, "submit": submit,
        "paste": paste, "kill": kill, "clear": clear, "remove": remove,
    },
    group="runtime",
    commands=("data", "text", "literal", "hex", "keys"),
    read_places=_read_places,
    limit=210_000,
    late="a command is in the background",
)  # fmt: skip
