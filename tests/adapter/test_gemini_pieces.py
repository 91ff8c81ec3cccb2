"""Calls whose arguments Gemini streams: whole when they are whole, otherwise never run."""

from collections.abc import Sequence
from typing import Any

import pytest

from toolcrib.adapter import gemini
from toolcrib.adapter.cards import Target
from toolcrib.define.message import Call

TARGET = Target(api="gemini", model="gemini-3-pro")
BROKE_OFF = "the arguments broke off before their end; make the call again"


def read(*called: dict[str, Any]) -> tuple[Call, ...]:
    """Return the calls of a reply that came in these pieces, a chunk each."""
    chunks = gemini.ReplyStream(TARGET)
    for each in called:
        chunks.feed({"candidates": [{"content": {"parts": [{"functionCall": each}]}}]})
    chunks.feed({"candidates": [{"finishReason": "STOP"}]})
    return chunks.end().message.calls


def pieces(*partial: dict[str, Any]) -> Sequence[dict[str, Any]]:
    """Return a call with one piece of its arguments in each chunk."""
    goes_on = [{"partialArgs": [each], "willContinue": True} for each in partial]
    return [{"id": "c", "name": "move", "willContinue": True}, *goes_on, {}]


def text(path: str, value: str, *, more: bool = False) -> dict[str, Any]:
    return {"jsonPath": path, "stringValue": value} | ({"willContinue": True} if more else {})


@pytest.mark.parametrize(
    ("partial", "args"),
    [
        ([], {}),
        ([text("$.to", "Ky", more=True), text("$.to", "iv", more=True), text("$.to", "")], {"to": "Kyiv"}),
        ([text("$.to", "Kyiv", more=True), {"jsonPath": "$.to"}], {"to": "Kyiv"}),
        ([text("$.to", "Lviv"), text("$.to", "Kyiv")], {"to": "Kyiv"}),
        ([{"jsonPath": "$.n", "numberValue": 2.5}, {"jsonPath": "$.m", "numberValue": 3}], {"n": 2.5, "m": 3}),
        ([{"jsonPath": "$.b", "boolValue": False}, {"jsonPath": "$.z", "nullValue": None}], {"b": False, "z": None}),
        ([{"jsonPath": "$.z", "nullValue": "NULL_VALUE"}], {"z": None}),
        (
            [
                text("$.stops[0].name", "a"),
                {"jsonPath": "$.stops[0].at", "numberValue": 1},
                text("$.stops[1].name", "b"),
            ],
            {"stops": [{"name": "a", "at": 1}, {"name": "b"}]},
        ),
        ([text("$['a b']", "x"), text('$["it\\"s"].c', "y")], {"a b": "x", 'it"s': {"c": "y"}}),
        ([text("$.grid[0][0]", "x"), text("$.grid[0][1]", "y")], {"grid": [["x", "y"]]}),
    ],
)
def test_pieces_become_the_arguments_of_one_call(partial: list[dict[str, Any]], args: dict[str, Any]) -> None:
    assert read(*pieces(*partial)) == (Call(id="c", name="move", args=args),)


@pytest.mark.parametrize(
    "partial",
    [
        [text("$.to", "Ky", more=True)],
        [text("$.to", "Ky", more=True), text("$.by", "car")],
        [text("$.to[1]", "Kyiv")],
        [text("$.to", "Kyiv"), text("$.to.name", "x")],
        [text("to", "Kyiv")],
        [text("$", "Kyiv")],
        [text("$..to", "Kyiv")],
        [text("$.to[*]", "Kyiv")],
        [text("$[0]", "Kyiv")],
        [text("$" + ".a" * 100, "Kyiv")],
        [text("$.to", "x" * 600_000, more=True), text("$.to", "x" * 600_000)],
    ],
)
def test_pieces_that_do_not_fit_together_spoil_the_call(partial: list[dict[str, Any]]) -> None:
    (call,) = read(*pieces(*partial))
    assert call.parse_error.startswith("the arguments came in pieces that do not fit together: ")
    assert call.args == {}


def test_a_call_that_breaks_off_is_flawed() -> None:
    started = pieces(text("$.to", "Kyiv"))[:-1]
    assert read(*started) == (Call(id="c", name="move", parse_error=BROKE_OFF),)
    assert read({"name": "ls", "willContinue": True}) == (Call(id="call_1", name="ls", parse_error=BROKE_OFF),)


def test_another_call_ends_the_one_before() -> None:
    started = pieces(text("$.to", "Kyiv"))[:-1]
    assert read(*started, {"id": "d", "name": "ls", "args": {"path": "a"}}, *pieces()) == (
        Call(id="c", name="move", parse_error=BROKE_OFF),
        Call(id="d", name="ls", args={"path": "a"}),
        Call(id="c_2", name="move"),
    )


def test_a_piece_may_come_with_the_name_and_with_whole_arguments() -> None:
    first = {"name": "move", "args": {"by": "car"}, "partialArgs": [text("$.to", "Kyiv")]}
    assert read(first) == (Call(id="call_1", name="move", args={"by": "car", "to": "Kyiv"}),)


def test_calls_are_told_as_the_provider_wrote_them() -> None:
    chunks = gemini.ReplyStream(TARGET, {"_3d": "3d"})
    for each in (*pieces(text("$.to", "Kyiv")), {"name": "_3d"}):
        chunks.feed({"candidates": [{"content": {"parts": [{"functionCall": each}]}}]})
    assert chunks.given == [("c", "move"), ("", "_3d")]
