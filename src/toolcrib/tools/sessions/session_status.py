"""session_status: how a session stands, as a card."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from toolcrib import Ctx, Result, ToolError, tool


@tool(group="sessions", effects={"read"})
async def session_status(
    ctx: Ctx,
    sessionKey: Annotated[str | None, "this one when left out"] = None,  # noqa: N803
    model: Annotated[str | None, "leave it out"] = None,
) -> Result:
    """Show a session's model, tokens, cost and how its last turn ended."""
    if model is not None and model.strip():  # rules may give models different tools (G8)
        how = "the owner does it with `toolcrib sessions switch KEY MODEL` or /model in a chat"
        raise ToolError(f"which model answers is nothing a tool can change; {how}", code="denied")
    status = await ctx.rpc("sessions.status", {"key": sessionKey or ""})
    text = "\n".join(_card(status))
    details = {"ok": True, "sessionKey": status["key"], "changedModel": False, "statusText": text}
    return Result.text(text, details=details)


def _card(status: Mapping[str, Any]) -> Iterator[str]:
    title = f" ({status['title']})" if status["title"] else ""
    yield f"Session: {status['key']}{title}"
    yield f"Model: {status['model']}{', chosen for this session' if status['switched'] else ''}"
    window = status["window"]
    of = f" of {window:,} ({status['tokens'] * 100 // window}%)" if window else ""
    yield f"Context: {status['messages']:,} messages, about {status['tokens']:,} tokens{of}"
    cost = "cost not known" if status["cost"] is None else f"${status['cost']:.4f}"
    yield f"Used: {status['input']:,} tokens in, {status['output']:,} out, {cost}"
    waits = ", ".join(f"{each['tool']} ({each['handle']})" for each in status.get("pending", ()))
    if status["running"] or waits:
        yield f"State: a turn {f'waits for {waits}' if waits else 'is running'}"
    elif ended := status["ended"]:
        yield f"State: idle; the last turn ended: {ended['sentence'] or ended['reason']}"
    else:
        yield "State: idle"
    for call in status["uncertain"]:
        yield f"Uncertain: {call['name']} ({call['id']}) was running when the crib stopped"
