"""A history made fit for a model: what `prepared` promises to the file of a provider."""

import re
from dataclasses import replace

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcrib.adapter.cards import Api, Target
from toolcrib.adapter.conversation import answer_message, prepare
from toolcrib.define.display import is_encodable
from toolcrib.define.message import Call, Finish, Message, Thinking
from toolcrib.define.result import Image, Result, Text

from .conversations import PIXEL, TARGETS, answered, asked, said
from .histories import histories, targets

CHAT = TARGETS["openai"]
LOST = answered("", "no result of this call was kept; it may not have run", status="error")

_VALID = {
    "openai": r"[ -~]{1,40}",
    "responses": r"[a-zA-Z0-9_-]{1,64}",
    "anthropic": r"[a-zA-Z0-9_-]{1,64}",
    "gemini": r"(?s).{1,1024}",
}


def call(call_id: str, name: str = "read") -> Call:
    return Call(id=call_id, name=name, args={"path": "a"})


def lost(call_id: str) -> Message:
    return replace(LOST, call_id=call_id)


@pytest.mark.parametrize(
    ("history", "sent"),
    [
        # a call without an answer gets one, also the last
        (
            [said(calls=(call("1"), call("2"))), answered("2", "b"), asked("go")],
            [said(calls=(call("1"), call("2"))), lost("1"), answered("2", "b"), asked("go")],
        ),
        ([said(calls=(call("1"),))], [said(calls=(call("1"),)), lost("1")]),
        # answers stand behind their reply, in the order of its calls
        (
            [said(calls=(call("1"), call("2"))), asked("go"), answered("2", "b"), answered("1", "a")],
            [said(calls=(call("1"), call("2"))), answered("1", "a"), answered("2", "b"), asked("go")],
        ),
        # nobody asked, or asked only later, or has an answer already
        ([answered("1", "a"), asked("go")], [asked("go")]),
        ([answered("1", "a"), said(calls=(call("1"),))], [said(calls=(call("1"),)), lost("1")]),
        (
            [said(calls=(call("1"),)), answered("1", "a"), answered("1", "b"), answered("9", "c")],
            [said(calls=(call("1"),)), answered("1", "a")],
        ),
        # a reply that says nothing is no reply
        ([said(), said(""), said("  "), asked("")], []),
    ],
)
def test_every_call_has_its_answer_behind_it_and_nothing_else_has(history: list[Message], sent: list[Message]) -> None:
    assert prepare(history, CHAT) == sent


@pytest.mark.parametrize("finish", ["length", "refused", "error", "aborted"])
def test_a_reply_that_broke_off_keeps_its_words_and_the_calls_that_were_answered(finish: Finish) -> None:
    reply = said(Thinking("half", "x"), "I was", calls=(call("1"), call("2")), finish=finish, by=CHAT.by)
    kept = said(Thinking("half", "x"), "I was", calls=(call("2"),), finish=finish, by=CHAT.by)
    assert prepare([reply, answered("2", "b")], CHAT) == [kept, answered("2", "b")]
    assert prepare([reply, asked("go")], CHAT) == [replace(reply, content=(Text("I was"),), calls=()), asked("go")]
    assert prepare([said(Thinking("half"), calls=(call("1"),), finish=finish, by=CHAT.by)], CHAT) == []


def contents(sent: list[Message]) -> list[tuple[str | None, str]]:
    return [(each.call_id, each.content[0].text) for each in sent if each.role == "tool"]  # type: ignore[union-attr]


def test_two_calls_with_one_id_are_answered_apart_and_in_order() -> None:
    sent = prepare([said(calls=(call("1"), call("1"))), answered("1", "a"), answered("1", "b")], CHAT)
    first, second = (each.id for each in sent[0].calls)
    assert first != second
    assert contents(sent) == [(first, "a"), (second, "b")]


def test_an_id_used_again_later_is_another_call() -> None:
    again = [said(calls=(call("1"),)), answered("1", "a"), said(calls=(call("1"),)), answered("1", "b")]
    sent = prepare(again, CHAT)
    assert [text for _, text in contents(sent)] == ["a", "b"]
    assert sent[0].calls[0].id != sent[2].calls[0].id


def test_an_answer_belongs_to_the_reply_that_asked_last() -> None:
    sent = prepare([said(calls=(call("1"),)), asked("go"), said(calls=(call("1"),)), answered("1", "b")], CHAT)
    assert [text for _, text in contents(sent)] == [LOST.content[0].text, "b"]  # type: ignore[union-attr]
    late = [said(calls=(call("1"),)), said(calls=(call("1"),)), answered("1", "a"), answered("1", "b")]
    assert [text for _, text in contents(prepare(late, CHAT))] == ["a", "b"]


def test_marks_go_back_to_the_model_that_made_them_and_to_no_other() -> None:
    marked = Call(id="1", name="read", args={"path": "a"}, signature="fc_1")
    reply = said(Thinking("hm", "sig"), Thinking("", "sealed"), calls=(marked,), by=CHAT.by)
    assert prepare([reply, answered("1")], CHAT) == [reply, answered("1")]
    other = replace(reply, by="openai/another")
    assert prepare([other, answered("1")], CHAT) == [
        replace(other, content=(Text("hm"),), calls=(call("1"),)),
        answered("1"),
    ]


def test_a_thought_is_never_the_last_word() -> None:
    reply = said("so", Thinking("hm", "sig"), Thinking("hm", "sig"), " ", by=CHAT.by)
    assert prepare([reply], CHAT) == [replace(reply, content=(Text("so"),))]


@pytest.mark.parametrize(
    ("picture", "sees", "told"),
    [
        (Image(PIXEL, "image/jpeg"), True, Image(PIXEL, "image/png")),
        (Image(b"ABC", "image/webp"), True, Image(b"ABC", "image/webp")),
        (Image(PIXEL, "image/png"), False, Text("[image/png, 70 bytes; this model cannot see images]")),
        (Image(b"", "image/png"), True, Text("[image/png, 0 bytes; there is nothing in it]")),
        (Image(b"BM", "image/bmp"), True, Text("[image/bmp, 2 bytes; models take PNG, JPEG, GIF and WebP]")),
    ],
)
def test_a_picture_is_sent_or_told_of(picture: Image, sees: bool, told: Text | Image) -> None:
    target = replace(CHAT, sees=sees)
    history = [
        Message(role="user", content=(picture,)),
        said(calls=(call("1"),)),
        Message(role="tool", content=(picture,), call_id="1"),
    ]
    assert [each.content for each in prepare(history, target)] == [(told,), (), (told,)]


@pytest.mark.parametrize(("api", "kept"), [("openai", 2), ("responses", 2), ("gemini", 2), ("anthropic", 1)])
def test_blanks_are_left_out_where_they_are_refused(api: Api, kept: int) -> None:
    assert len(prepare([asked("  \n"), asked("q")], TARGETS[api])) == kept


def test_details_that_tell_of_a_failure_make_the_answer_an_error() -> None:
    result = Result(content=(Text("x"),), details={"status": "Timeout "})
    assert answer_message(call("1"), result, at=2.0) == Message(
        role="tool", content=(Text("x"),), call_id="1", status="error", at=2.0
    )
    assert answer_message(call("1"), Result.pending("later")).status == "pending"
    assert answer_message(call("1"), Result.json({"status": "failed"})).status == "ok"


def check(history: list[Message], target: Target) -> None:
    """Assert all that the docstring of conversation.py promises."""
    sent = prepare(history, target)
    awaited: list[str] = []
    seen: set[str] = set()
    for message in sent:
        if message.role == "tool":
            assert awaited, "an answer stands where nobody asked"
            assert message.call_id == awaited.pop(0)
        else:
            assert not awaited, "a call was not answered"
            assert message.content or message.calls
        if message.role == "assistant":
            assert message.calls or not isinstance(message.content[-1], Thinking)
            is_own = message.by == target.by
            assert is_own or not any(isinstance(part, Thinking) for part in message.content)
        else:
            assert not any(isinstance(part, Thinking) for part in message.content)
        for part in message.content:
            check_part(part, target, message)
        for each in message.calls:
            assert re.fullmatch("[a-zA-Z0-9]{9}" if is_mistral(target) else _VALID[target.api], each.id)
            assert is_encodable(each.id)
            assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", each.name)
            assert message.by == target.by or not each.signature
            assert is_encodable(str(each.args))
            awaited.append(each.id)
            assert each.id not in seen
            seen.add(each.id)
    assert not awaited
    assert prepare(sent, target) == sent, "what is fit is left as it is"


def check_part(part: Text | Image | Thinking, target: Target, message: Message) -> None:
    if isinstance(part, Image):
        assert target.sees
        assert part.data
        assert message.role in ("user", "tool")
        assert part.mime in ("image/png", "image/jpeg", "image/gif", "image/webp")
        return
    assert is_encodable(part.text)
    if isinstance(part, Text):
        assert part.text
        assert part.text.strip() or (message.role != "assistant" and target.api != "anthropic")


def is_mistral(target: Target) -> bool:
    return target.api == "openai" and "mistral" in target.model


@settings(max_examples=120, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(history=histories, target=targets)
def test_any_history_becomes_one_that_the_model_takes(history: list[Message], target: Target) -> None:
    check(history, target)


@pytest.mark.full
@pytest.mark.timeout(3600)
@settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(history=histories, target=targets)
def test_very_many_histories_become_ones_that_the_model_takes(history: list[Message], target: Target) -> None:
    check(history, target)


@given(history=histories, more=histories, target=targets)
@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
def test_ids_do_not_change_when_the_conversation_goes_on(
    history: list[Message], more: list[Message], target: Target
) -> None:
    # a provider's cache holds only while the beginning stays as it was; an answer that comes late may keep a call
    whole = [each for each in history if each.finish in ("stop", "calls")]
    before = [call.id for each in prepare(whole, target) for call in each.calls]
    after = [call.id for each in prepare([*whole, *more], target) for call in each.calls]
    assert after[: len(before)] == before


@pytest.mark.parametrize("value", [float("nan"), {1, 2}, object()])
def test_arguments_that_are_not_json_do_not_stop_a_conversation(value: object) -> None:
    odd = Call(id="1", name="read", args={"a": [value, "\udc00"], "b": 2**70})
    sent = prepare([said(calls=(odd,)), answered("1")], CHAT)
    assert sent[0].calls[0].args == {"a": [None, ""], "b": 2**70}


def test_arguments_nested_too_deep_are_cut() -> None:
    deep: list[object] = []
    for _ in range(5000):
        deep = [deep]
    sent = prepare([said(calls=(Call(id="1", name="read", args={"a": deep}),))], CHAT)
    assert len(orjson.dumps(sent[0].calls[0].args)) < 500


@st.composite
def _repeated(draw: st.DrawFn) -> list[Message]:
    calls = tuple(call("1") for _ in range(draw(st.integers(1, 6))))
    answers = [answered("1", str(at)) for at in range(draw(st.integers(0, 8)))]
    return [said(calls=calls), *answers]


@settings(max_examples=40, deadline=None, derandomize=True, database=None)
@given(history=_repeated())
def test_answers_to_one_id_are_handed_out_in_order(history: list[Message]) -> None:
    texts = [text for _, text in contents(prepare(history, CHAT))]
    given_texts = [str(at) for at in range(len(history) - 1)][: len(texts)]
    assert texts[: len(given_texts)] == given_texts
