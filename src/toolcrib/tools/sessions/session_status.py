"""session_status: how a session stands, as a card; for the owner also a way to let another model answer."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from toolcrib import Ctx, Result, tool


@tool(group="sessions", effects={"read"})
async def session_status(
    ctx: Ctx,
    sessionKey: Annotated[str | None, "the session; this one when left out"] = None,  # noqa: N803
    model: Annotated[
        str | None, "let this model answer from the next turn on; default goes back; only in a session of the owner"
    ] = None,
) -> Result:
    """Show how a session stands: its model, how full it is, what it cost, and how its last turn ended."""
    params = {"key": sessionKey or ""}
    switched: Mapping[str, Any] = {}
    if model is not None and model.strip():
        switched = await ctx.rpc("sessions.switch", params | {"model": model})
    status = await ctx.rpc("sessions.status", params)
    text = "\n".join(_card(status, switched))
    details = {
        "ok": True,
        "sessionKey": status["key"],
        "changedModel": bool(switched.get("changed")),
        "statusText": text,
    }
    return Result.text(text, details=details)


def _card(status: Mapping[str, Any], switched: Mapping[str, Any]) -> Iterator[str]:
    title = f" ({status['title']})" if status["title"] else ""
    yield f"Session: {status['key']}{title}"
    why = ", from the next turn on" if switched.get("changed") else ", chosen for this session"
    yield f"Model: {status['model']}{why if switched.get('changed') or status['switched'] else ''}"
    window = status["window"]
    of = f" of {window:,} ({status['tokens'] * 100 // window}%)" if window else ""
    yield f"Context: {status['messages']:,} messages, about {status['tokens']:,} tokens{of}"
    cost = "cost not known" if status["cost"] is None else f"${status['cost']:.4f}"
    yield f"Used: {status['input']:,} tokens in, {status['output']:,} out, {cost}"
    if status["running"]:
        yield "State: a turn is running"
    elif ended := status["ended"]:
        yield f"State: idle; the last turn ended: {ended['sentence'] or ended['reason']}"
    else:
        yield "State: idle"
    for call in status["uncertain"]:
        yield f"Uncertain: {call['name']} ({call['id']}) was running when the crib stopped"
