"""The events of a turn as JSON: each says what it is, whatever is in it fits into one line."""

import json
from typing import get_args

import pytest

from toolcrib.adapter.events import event_json, event_line
from toolcrib.define.event import (
    CallDelta,
    Compacted,
    Event,
    Received,
    Replied,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
    Usage,
    Warned,
)
from toolcrib.define.message import Call, Message
from toolcrib.define.result import Image, Result, Text
from toolcrib.define.verdict import Verdict

CALL = Call("1", "read", {"path": "a"})
SAID = Message(role="user", content=(Text("one "), Image(b"x", "image/png"), Text("two")))
USAGE = {"input": 3, "output": 2, "cached": 1, "written": 0}
DENIED = Verdict("exec", "deny", layer="group", rule="exec", origin="tools", reason="because", remedy="do this")

EVENTS: list[tuple[Event, dict[str, object]]] = [
    (TextDelta("hi"), {"type": "text", "text": "hi"}),
    (ThinkingDelta("hm"), {"type": "thinking", "text": "hm"}),
    (CallDelta(1, "read", '{"pa'), {"type": "call", "at": 1, "tool": "read", "text": '{"pa'}),
    (
        Replied(Message(role="assistant", calls=(CALL,), finish="calls"), Usage(3, 2, 1), "", None),
        {
            "type": "replied",
            "finish": "calls",
            "calls": [{"id": "1", "tool": "read", "args": {"path": "a"}}],
            "usage": USAGE,
            "error": "",
        },
    ),
    (
        ToolStarted(CALL, None),
        {"type": "tool_started", "id": "1", "tool": "read", "args": {"path": "a"}, "verdict": None},
    ),
    (
        ToolStarted(CALL, DENIED),
        {
            "type": "tool_started",
            "id": "1",
            "tool": "read",
            "args": {"path": "a"},
            "verdict": {
                "decision": "deny",
                "layer": "group",
                "rule": "exec",
                "origin": "tools",
                "reason": "because",
                "remedy": "do this",
            },
        },
    ),
    (
        ToolProgress(CALL, Result.text("so far")),
        {"type": "tool_progress", "id": "1", "tool": "read", "result": Result.text("so far").to_json()},
    ),
    (
        ToolFinished(CALL, Result.error("no", code="denied")),
        {"type": "tool_finished", "id": "1", "tool": "read", "result": Result.error("no", code="denied").to_json()},
    ),
    (
        TurnStarted("agent:main:main", "openai:gpt-5", SAID),
        {"type": "turn_started", "session": "agent:main:main", "model": "openai:gpt-5", "message": "one two"},
    ),
    (Retrying(2, 1.23456, "busy"), {"type": "retrying", "attempt": 2, "seconds": 1.235, "error": "busy"}),
    (Received(SAID), {"type": "received", "message": "one two"}),
    (Compacted(900, 90), {"type": "compacted", "before": 900, "after": 90}),
    (Warned("soon"), {"type": "warned", "sentence": "soon"}),
    (
        TurnFinished("cost", "so far", "stopped", 4, Usage(3, 2, 1), 0.25),
        {
            "type": "turn_finished",
            "reason": "cost",
            "text": "so far",
            "sentence": "stopped",
            "steps": 4,
            "usage": USAGE,
            "cost": 0.25,
        },
    ),
]


@pytest.mark.parametrize(("event", "value"), EVENTS, ids=lambda each: type(each).__name__)
def test_an_event_is_an_object_that_says_what_it_is(event: Event, value: dict[str, object]) -> None:
    assert event_json(event) == value
    assert json.loads(event_line(event)) == value


def test_every_event_has_its_row() -> None:
    assert {type(event) for event, _ in EVENTS} == set(get_args(Event))


class Odd:
    """What no JSON has."""

    def __str__(self) -> str:
        return "odd"


@pytest.mark.parametrize(
    ("details", "read"),
    [
        (Odd(), "odd"),
        ({"big": 2**70}, {"big": 2**70}),
        ({"half": "\ud800"}, {"half": "\ud800"}),
        ({1: [float("nan"), (Odd(), None, True)]}, {"1": [None, ["odd", None, True]]}),
        ("two\nlines\u2028", "two\nlines\u2028"),
    ],
)
def test_whatever_a_tool_returns_is_one_line_of_json(details: object, read: object) -> None:
    text = event_line(ToolFinished(CALL, Result(details=details)))
    assert "\n" not in text
    assert text.encode()
    assert json.loads(text)["result"]["details"] == read
