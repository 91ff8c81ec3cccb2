"""Replies put together from pieces: what runs, what does not, and what watchers see."""

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcrib.adapter.cards import Target
from toolcrib.adapter.reply import ReplyBuilder
from toolcrib.define.event import CallDelta, Replied, TextDelta, ThinkingDelta, Usage
from toolcrib.define.message import Call, Finish, Message, Thinking
from toolcrib.define.result import Text

TARGET = Target(api="openai", model="m")


def reply(**names: str) -> ReplyBuilder:
    return ReplyBuilder(TARGET, names)


def test_pieces_become_parts_and_events() -> None:
    made = reply()
    events = [
        *made.thinking("I "),
        *made.thinking("think"),
        *made.thinking("", "sig"),
        *made.thinking("again"),
        *made.text("Hel"),
        *made.text("lo"),
        *made.text(""),
    ]
    made.use(Usage(input=3))
    assert events == [
        ThinkingDelta("I "),
        ThinkingDelta("think"),
        ThinkingDelta("again"),
        TextDelta("Hel"),
        TextDelta("lo"),
    ]
    content = (Thinking("I think", "sig"), Thinking("again"), Text("Hello"))
    message = Message(role="assistant", content=content, finish="stop", by="openai/m")
    assert made.end("stop") == Replied(message, Usage(input=3))


def test_a_character_in_two_pieces_is_shown_when_it_is_whole() -> None:
    made = reply()
    events = [
        *made.thinking("\ud83d"),
        *made.thinking("\ude00"),
        *made.text("a\ud83d"),
        *made.call(0, id="a", name="say", piece='{"x": "\ud83d'),
        *made.text("\ude00b\ud83d"),
        *made.text("c"),
        *made.call(0, piece="\ude00"),
        *made.call(0, piece='"}'),
    ]
    assert events == [
        ThinkingDelta("😀"),
        TextDelta("a"),
        CallDelta(0, "say", '{"x": "'),
        TextDelta("😀b"),
        TextDelta("c"),
        CallDelta(0, "say", "😀"),
        CallDelta(0, "say", '"}'),
    ]
    message = made.end("stop").message
    assert message.content == (Thinking("😀"), Text("a😀bc"))
    assert [call.args for call in message.calls] == [{"x": "😀"}]


def test_calls_are_read_slot_by_slot() -> None:
    made = reply(Read="read")
    events = [
        *made.call(0, id="a", name="Read"),
        *made.call(1, id="b", name="ls"),
        *made.call(1, piece="{}"),
        *made.call(0, piece='{"path":'),
        *made.call(0, id="a", name="Read", piece='"x"}', mark="m"),
    ]
    assert events == [
        CallDelta(0, "read", ""),
        CallDelta(1, "ls", ""),
        CallDelta(1, "ls", "{}"),
        CallDelta(0, "read", '{"path":'),
        CallDelta(0, "read", '"x"}'),
    ]
    first, second = made.end("stop").message.calls
    assert first == Call(id="a", name="read", args={"path": "x"}, signature="m")
    assert second == Call(id="b", name="ls")


@pytest.mark.parametrize(
    ("pieces", "calls"),
    [
        # one index for every call, told apart by their ids, or by their names
        ([{"id": "a", "name": "r", "piece": "{}"}, {"id": "b", "name": "r", "piece": "{}"}], [("a", "r"), ("b", "r")]),
        ([{"name": "r", "piece": "{}"}, {"name": "w", "piece": "{}"}], [("call_1", "r"), ("call_2", "w")]),
        # an id or a name that is only said again
        ([{"id": "a", "name": "r"}, {"id": "a", "name": "r", "piece": "{}"}], [("a", "r")]),
        ([{"name": "r"}, {"id": "a", "piece": "{}"}], [("a", "r")]),
        # a name in pieces
        ([{"id": "a", "name": "web_"}, {"name": "fetch"}, {"piece": "{}"}], [("a", "web_fetch")]),
    ],
)
def test_servers_number_and_name_calls_in_their_own_ways(
    pieces: list[dict[str, str]], calls: list[tuple[str, str]]
) -> None:
    made = reply()
    for piece in pieces:
        made.call(0, id=piece.get("id", ""), name=piece.get("name", ""), piece=piece.get("piece", ""))
    assert [(call.id, call.name) for call in made.end("stop").message.calls] == calls


def test_ids_are_given_to_calls_without_and_told_apart() -> None:
    made = reply()
    for slot, own in enumerate(("", "x", "x", "", "call_1", "x_2")):
        made.call(slot, id=own, name="r")
    assert [call.id for call in made.end("calls").message.calls] == [
        "call_1",
        "x",
        "x_2",
        "call_2",
        "call_1_2",
        "x_2_2",
    ]


@pytest.mark.parametrize(
    ("finish", "has_calls", "ended"),
    [
        ("stop", True, "calls"),
        ("calls", False, "stop"),
        ("length", True, "length"),
        ("error", True, "error"),
        ("refused", True, "refused"),
        ("aborted", True, "aborted"),
    ],
)
def test_a_reply_wants_tools_when_it_has_calls_and_is_whole(finish: Finish, has_calls: bool, ended: Finish) -> None:
    made = reply()
    if has_calls:
        made.call(0, id="a", name="r")
    assert made.end(finish).message.finish == ended


def test_the_end_is_said_once() -> None:
    made = reply()
    made.text("a")
    first = made.end("length", "cut")
    assert made.text("b") == made.thinking("c", "d") == made.call(0, name="e") == []
    assert made.end("stop") is first


@pytest.mark.parametrize(
    ("piece", "flaw"),
    [("{", "not valid JSON"), ("[]", "a list"), ('{"a":1}{"a":2}', "not valid JSON"), ("\ud83d", "not")],
)
def test_arguments_that_cannot_be_read_are_a_flaw(piece: str, flaw: str) -> None:
    made = reply()
    made.call(0, id="a", name="r", piece=piece)
    (call,) = made.end("calls").message.calls
    assert flaw in call.parse_error
    assert call.args == {}


def test_a_call_without_a_name_is_a_flaw() -> None:
    made = reply()
    made.call(0, id="a", piece="{}")
    assert made.end("calls").message.calls[0].parse_error == "the call names no tool; name one of those you were given"


def test_half_characters_in_two_pieces_become_one() -> None:
    made = reply()
    assert [*made.text("a\ud83d"), *made.text("\ude00")] == [TextDelta("a"), TextDelta("😀")]
    made.call(0, id="1", name="r", piece='{"a":"\ud83d')
    made.call(0, piece='\ude00"}')
    message = made.end("stop").message
    assert message.content == (Text("a😀"),)
    assert message.calls[0].args == {"a": "😀"}


MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("grow", "words"),
    [
        (lambda made, at: made.text("x" * MIB), "longer than 8,388,608 characters"),
        (lambda made, at: made.thinking("x" * MIB), "longer than 8,388,608 characters"),
        (lambda made, at: made.call(0, piece="x" * MIB), "arguments longer than any tool takes"),
        (lambda made, at: made.call(at, piece="x" * MIB), "calls were longer than 33,554,432 characters"),
        (lambda made, at: made.call(at, name="r"), "more than 64 calls"),
    ],
)
def test_a_reply_beyond_every_measure_is_stopped_and_runs_nothing(grow: object, words: str) -> None:
    made = reply()
    made.call("first", id="a", name="r", piece="{}")
    for at in range(300):
        grow(made, at)  # type: ignore[operator]  # one of the lambdas above
    ended = made.end("stop")
    assert ended.message.finish == "error"
    assert words in ended.error
    assert made.text("more") == []


def test_a_reply_in_very_many_pieces_is_joined_once() -> None:
    made = reply()
    made.call(0, id="a", name="r")
    for _ in range(100_000):
        made.text("x")
        made.call(0, piece=" ")
    message = made.end("stop").message
    assert message.content == (Text("x" * 100_000),)
    assert message.calls == (Call(id="a", name="r"),)


_pieces = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.sampled_from(("", "a", "b")),
        st.sampled_from(("", "r", "w")),
        st.text('{}[]:"ab1,', max_size=5),
    ),
    max_size=12,
)


def check_pieces(pieces: list[tuple[int, str, str, str]]) -> None:
    made = reply()
    events = [event for slot, own, name, piece in pieces for event in made.call(slot, id=own, name=name, piece=piece)]
    ended = made.end("stop").message
    assert len({call.id for call in ended.calls}) == len(ended.calls)
    assert ended.finish == ("calls" if ended.calls else "stop")
    said = sum(len(event.text) for event in events if isinstance(event, CallDelta))
    assert said == sum(len(piece) for *_, piece in pieces)
    assert all(isinstance(event, CallDelta) and event.at < len(ended.calls) for event in events)


@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(pieces=_pieces)
def test_no_piece_is_lost_whatever_the_order(pieces: list[tuple[int, str, str, str]]) -> None:
    check_pieces(pieces)


@settings(max_examples=50, deadline=None, derandomize=True, database=None)
@given(count=st.integers(1, 5), seed=st.integers(0, 1000))
def test_slots_may_be_interleaved_in_any_way(count: int, seed: int) -> None:
    texts = {slot: f'{{"n": {slot}, "text": "{"x" * slot}"}}' for slot in range(count)}
    queues = {slot: [text[at : at + 3] for at in range(0, len(text), 3)] for slot, text in texts.items()}
    made, chance = reply(), random.Random(seed)
    for slot in queues:
        made.call(slot, id=f"c{slot}", name="r")
    while queues:
        slot = chance.choice(list(queues))
        made.call(slot, piece=queues[slot].pop(0))
        if not queues[slot]:
            del queues[slot]
    assert [call.args["n"] for call in made.end("calls").message.calls] == list(range(count))
