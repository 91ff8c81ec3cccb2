"""The events of a turn as JSON, one object each, for followers in other processes."""

import json
import math
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import asdict
from typing import Any, assert_never

import orjson

from toolcrib.define import event as events
from toolcrib.define.gateway import ServiceAsk, follow_run
from toolcrib.define.message import Call, Message, join_text
from toolcrib.define.result import Result, Text
from toolcrib.define.verdict import Verdict


def event_line(event: events.Event) -> str:
    """Return the event as JSON in one line, whatever a tool has put into the details of its result."""
    value = event_json(event)
    try:
        return orjson.dumps(value, default=str).decode()
    except TypeError:  # a number of more than 64 bits, half a character, a key that is no text
        return json.dumps(_plain(value), allow_nan=False, separators=(",", ":"))


def _plain(value: Any) -> Any:
    """Return the value made of nothing but what JSON has."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (str, int, float)) else str(value)


def event_json(event: events.Event) -> dict[str, Any]:  # noqa: C901  one row for each event
    """Return the event as an object whose `type` says which it is."""
    match event:
        case events.TextDelta(text=text):
            return {"type": "text", "text": text}
        case events.ThinkingDelta(text=text):
            return {"type": "thinking", "text": text}
        case events.CallDelta(at=at, name=name, text=text):
            return {"type": "call", "at": at, "tool": name, "text": text}
        case events.Replied(message=message, usage=usage, error=error):
            reply = {"finish": message.finish, "calls": [_call(call) for call in message.calls]}
            return {"type": "replied", **reply, "usage": asdict(usage), "error": error}
        case events.ToolStarted(call=call, verdict=verdict, label=label):
            record = {name: value for name, value in asdict(verdict).items() if name != "tool"} if verdict else None
            return {"type": "tool_started", **_call(call), "verdict": record, **({"label": label} if label else {})}
        case events.ToolProgress(call=call, partial=partial):
            return {"type": "tool_progress", "id": call.id, "tool": call.name, "result": partial.to_json()}
        case events.ToolFinished(call=call, result=result, markdown=markdown):
            record = {"type": "tool_finished", "id": call.id, "tool": call.name, "result": result.to_json()}
            return {**record, "markdown": True} if markdown else record
        case events.TurnStarted(session=session, model=model, message=message):
            return {"type": "turn_started", "session": session, "model": model, "message": join_text(message)}
        case events.Retrying(attempt=attempt, seconds=seconds, error=error):
            return {"type": "retrying", "attempt": attempt, "seconds": round(seconds, 3), "error": error}
        case events.Received(message=message):
            return {"type": "received", "message": join_text(message)}
        case events.Compacted(before=before, after=after):
            return {"type": "compacted", "before": before, "after": after}
        case events.Warned(sentence=sentence):
            return {"type": "warned", "sentence": sentence}
        case events.TurnFinished():
            return {"type": "turn_finished", **asdict(event)}
    assert_never(event)


def read_event(record: Mapping[str, Any], calls: dict[str, Call]) -> events.Event:
    """Return the event that such an object tells; `calls` keeps those under way: only its start tells all of one."""
    id, rest = record.get("id", ""), {name: value for name, value in record.items() if name != "type"}
    match record["type"]:
        case "tool_started":
            call = calls[id] = Call(id, record["tool"], record["args"], key=id)
            verdict = Verdict(tool=call.name, **record["verdict"]) if record["verdict"] else None
            return events.ToolStarted(call, verdict, record.get("label", ""))
        case "tool_progress":
            return events.ToolProgress(calls[id], Result.from_json(record["result"]))
        case "tool_finished":
            return events.ToolFinished(calls[id], Result.from_json(record["result"]), record.get("markdown", False))
        case "turn_started" | "received" as kind:
            message = Message(role="user", content=(Text(rest.pop("message")),))
            return events.Received(message) if kind == "received" else events.TurnStarted(**rest, message=message)
        case "turn_finished":
            return events.TurnFinished(**{**rest, "usage": events.Usage(**record["usage"])})
        case "replied":
            wanted = tuple(Call(each["id"], each["tool"], each["args"]) for each in record["calls"])
            reply = Message(role="assistant", finish=record["finish"], calls=wanted)
            return events.Replied(reply, events.Usage(**record["usage"]), record["error"])
        case "call":
            return events.CallDelta(record["at"], record["tool"], record["text"])
    return _PLAIN_EVENTS[record["type"]](**rest)


async def follow_turn(ask: ServiceAsk, run: str, session: str) -> AsyncIterator[events.Event]:
    """Yield what happens in a run, as the events that they are in the process of the turn."""
    calls = dict[str, Call]()
    async for record in follow_run(ask, run, session):
        yield read_event(record, calls)


_PLAIN_EVENTS: Mapping[str, Callable[..., events.Event]] = {
    "text": events.TextDelta, "thinking": events.ThinkingDelta, "retrying": events.Retrying,
    "compacted": events.Compacted, "warned": events.Warned,
}  # fmt: skip


def _call(call: Call) -> dict[str, Any]:
    return {"id": call.id, "tool": call.name, "args": dict(call.args)}
