"""From the lines of a log to a conversation: nothing lost, every call answered once, what is not known is told."""

import time

import pytest
from hypothesis import given
from tests.adapter.conversations import TARGETS

from toolcrib.adapter import anthropic, gemini, openai, responses
from toolcrib.adapter.conversation import prepare
from toolcrib.agent.session_log import Conversation, path_to, recall, summary_in
from toolcrib.define.errors import CribError
from toolcrib.define.event import Usage
from toolcrib.define.log import Began, Labelled, Line, Noted, Said, Shortened, Switched
from toolcrib.define.message import Call, Message, join_text

from .logs import Log, logs

_REQUESTS = {
    "openai": openai.request,
    "responses": responses.request,
    "anthropic": anthropic.request,
    "gemini": gemini.request,
}


def told(found: Conversation) -> list[str]:
    """Return what a history says, the summary without the words around it."""
    return [summary_in([each]) or join_text(each) for each in found.history]


def test_a_plain_log_is_its_messages() -> None:
    log = Log()
    log.user("hello")
    log.reply("hi", usage=Usage(100, 5), cost=0.25)
    log.user("read a")
    log.reply("", "c1", usage=Usage(200, 10), cost=0.5)
    log.began("c1")
    log.answer("c1", "a is empty")
    found = recall(log.lines)
    assert told(found) == ["hello", "hi", "read a", "", "a is empty"]
    assert found.ids == ("l0", "l1", "l2", "l3", "l5")
    assert (found.leaf, found.path, found.start) == ("l5", tuple(log.lines), 0)
    assert (found.usage, found.cost) == (Usage(300, 15), 0.75)
    assert found.history.tokens == 210 + 3
    assert (found.uncertain, found.mended, found.summary) == ((), (), "")


def test_an_empty_log_is_an_empty_conversation() -> None:
    found = recall([])
    assert (len(found.history), found.leaf, found.path, found.cost) == (0, None, (), 0.0)


def test_the_path_to_a_line_leaves_the_other_branch_out() -> None:
    log = Log()
    log.user("q1")
    branch = log.reply("a1")
    log.user("q2")
    log.reply("a2")
    log.leaf = branch
    log.user("other")
    assert told(recall(log.lines)) == ["q1", "a1", "other"]
    assert told(recall(log.lines, "l3")) == ["q1", "a1", "q2", "a2"]
    assert told(recall(log.lines, branch)) == ["q1", "a1"]
    assert told(recall(log.lines, "")) == []


@pytest.mark.parametrize(
    ("lines", "leaf", "sentence"),
    [
        ([("a", None)], "z", "the log has no line 'z' to go on from; name one of its 1 lines"),
        ([("a", "z")], None, "line 'a' of the log names the parent 'z', which is not in the log"),
        ([("a", "a")], None, "line 'a' of the log names the parent 'a', which does not stand before it"),
        ([("a", "b"), ("b", "a")], None, "line 'a' of the log names the parent 'b', which does not stand before it"),
        ([("a", None), ("a", None)], None, "two lines of the log are called 'a'"),
    ],
)
def test_lines_that_are_no_tree_are_told_by_name(
    lines: list[tuple[str, str | None]], leaf: str | None, sentence: str
) -> None:
    with pytest.raises(CribError, match=sentence):
        recall([Line(id, parent, 0.0, Noted("x", None)) for id, parent in lines], leaf)


def test_answers_in_any_order_come_in_the_order_of_the_calls() -> None:
    log = Log()
    log.user("read all")
    log.reply("reading", "c1", "c2", "c3")
    for id in ("c3", "c1", "c2"):
        log.began(id)
    log.answer("c2", "two")
    log.user("hurry up")
    log.answer("c3", "three")
    log.answer("c1", "one")
    found = recall(log.lines)
    assert told(found) == ["read all", "reading", "one", "two", "three", "hurry up"]
    assert found.ids == ("l0", "l1", "l8", "l5", "l7", "l6")


def test_a_call_that_began_and_never_ended_is_uncertain_and_one_that_did_not_begin_was_not_run() -> None:
    log = Log()
    log.user("do it")
    log.reply("", "c1", "c2", "c3")
    log.began("c1")
    log.began("c2")
    log.answer("c1", "done")
    found = recall(log.lines)
    assert [call.id for call in found.uncertain] == ["c2"]
    assert [(each.call_id, each.status) for each in found.mended] == [("c2", "error"), ("c3", "error")]
    assert join_text(found.mended[0]).startswith(
        "what came of this call was never kept, so nobody knows whether it took"
    )
    assert join_text(found.mended[1]).startswith("this call was not run")
    assert found.history.since(2) == [found.history[2], *found.mended]


def test_a_call_of_a_reply_that_broke_off_was_not_run() -> None:
    log = Log()
    log.user("do it")
    log.reply("I", "c1", finish="length")
    assert join_text(recall(log.lines).mended[0]) == "this call was not run: the reply that asked for it broke off"


def test_a_call_that_ran_on_another_branch_is_not_said_to_have_never_run() -> None:
    log = Log()
    log.user("do it")
    reply = log.reply("", "c1", "c2")
    log.began("c1")
    log.answer("c1", "done")
    log.reply("next", "c2")  # another call, with an id that was used before
    log.began("c2")
    log.leaf = reply
    log.user("rather not")
    found = recall(log.lines)
    assert join_text(found.mended[0]).startswith("this call ran on another branch of the session")
    assert join_text(found.mended[1]).startswith("this call was not run")
    assert found.uncertain == ()


def test_a_crash_in_the_middle_of_a_turn_that_went_on_later_does_not_move_answers() -> None:
    log = Log()
    log.user("one")
    log.reply("", "c1")
    log.began("c1")
    log.user("two")  # written by whoever did not mend the log
    log.reply("", "c1")
    log.answer("c1", "second")
    found = recall(log.lines)
    assert [join_text(each)[:9] for each in found.history if each.role == "tool"] == ["what came", "second"]


def test_of_two_calls_with_one_id_the_one_that_began_has_the_answer() -> None:
    log = Log()
    first, second = Call("c1", "read", key="k1"), Call("c1", "write", key="k2")
    log.reply("", first, second)
    log.add(Began(second))
    log.answer("c1", "written")
    found = recall(log.lines)
    assert [join_text(each)[:21] for each in found.history.since(1)] == ["this call was not run", "written"]
    assert found.uncertain == ()


def test_a_compaction_is_told_by_its_summary_and_what_it_kept() -> None:
    log = Log()
    log.user("q1")
    log.reply("a1")
    kept = log.user("q2")
    log.reply("a2", usage=Usage(5000, 100))
    log.shortened("SUM", kept)
    log.user("q3")
    found = recall(log.lines)
    assert told(found) == ["SUM", "q2", "a2", "q3"]
    assert found.ids == ("", "l2", "l3", "l5")
    assert join_text(found.history[0]).startswith("[The conversation was shortened.")
    assert found.history.tokens < 100  # what the provider counted before does not count any more
    assert found.usage == Usage(5000, 100)


def test_what_an_earlier_compaction_kept_is_not_lost_by_a_later_one() -> None:
    log = Log()
    log.user("q1")
    kept = log.user("q2")
    log.shortened("FIRST", kept)
    log.user("q3")
    log.shortened("SECOND", kept)
    log.user("q4")
    assert told(recall(log.lines)) == ["SECOND", "q2", "q3", "q4"]


@pytest.mark.parametrize("kept", ["nowhere", ""])
def test_a_compaction_that_keeps_from_nowhere_keeps_all_that_was_shown(kept: str) -> None:
    log = Log()
    log.user("q1")
    second = log.user("q2")
    log.shortened("FIRST", second)
    log.user("q3")
    log.shortened("SECOND", kept)
    assert told(recall(log.lines)) == ["SECOND", "q2", "q3"]


def test_a_compaction_may_keep_nothing() -> None:
    log = Log()
    log.user("q1")
    log.shortened("SUM", "l1")
    log.user("q2")
    assert told(recall(log.lines)) == ["SUM", "q2"]


def test_a_compaction_that_keeps_from_an_answer_on_keeps_its_call() -> None:
    log = Log()
    log.user("q1")
    log.reply("", "c1", "c2")
    log.answer("c2", "two")
    kept = log.answer("c1", "one")
    log.shortened("SUM", kept)
    assert told(recall(log.lines)) == ["SUM", "", "one", "two"]


def test_a_branch_from_before_a_compaction_has_none() -> None:
    log = Log()
    first = log.user("q1")
    log.shortened("SUM", first)
    log.leaf = first
    log.reply("a1")
    assert told(recall(log.lines)) == ["q1", "a1"]


def test_model_and_title_are_the_last_ones_on_the_path_and_what_was_spent_is_spent_on_every_branch() -> None:
    log = Log()
    log.add(Switched("openai:gpt-5"))
    log.add(Labelled("first"))
    branch = log.reply("a", usage=Usage(1, 1), cost=0.5)
    log.add(Switched(""))
    log.reply("b", usage=Usage(2, 2), cost=0.25)
    log.leaf = branch
    log.add(Labelled("second"))
    found = recall(log.lines)
    assert (found.model, found.title, found.usage, found.cost) == ("openai:gpt-5", "second", Usage(3, 3), 0.75)
    assert recall(log.lines, "l4").model == ""
    log.reply("c", usage=Usage(1, 1))
    assert recall(log.lines).cost is None


def test_a_long_log_is_recalled_in_one_pass() -> None:
    log = Log()
    for at in range(10_000):
        log.user("go on")
        log.reply("", "c1")
        log.began("c1")
        log.answer("c1", str(at))
    begun = time.process_time()
    found = recall(log.lines)
    assert len(found.history) == 30_000
    assert time.process_time() - begun < 5


# whatever the log


@given(logs())
def test_nothing_behind_the_kept_point_is_lost(lines: list[Line]) -> None:
    found = recall(lines)
    bodies = [(place, line.body) for place, line in enumerate(found.path)]
    compactions = [body for _, body in bodies if isinstance(body, Shortened)]
    if compactions:
        kept = [place for place, line in enumerate(found.path) if line.id == compactions[-1].kept]
        assert found.start <= min(kept, default=found.start)
    else:
        assert found.start == 0
    expected = [
        body.message
        for place, body in bodies
        if place >= found.start and isinstance(body, Said) and body.message.role != "tool"
    ]
    spoken = [each for each in found.history if each.role != "tool"]
    assert spoken[bool(compactions) :] == expected
    assert summary_in(found.history) == (compactions[-1].summary if compactions else "")


@given(logs())
def test_a_call_has_the_first_answer_that_came_or_one_that_tells_what_is_known(lines: list[Line]) -> None:
    found = recall(lines)
    first: dict[str, Message] = {}
    begun: set[str] = set()
    for line in found.path:
        if isinstance(line.body, Began):
            begun.add(line.body.call.id)
        elif isinstance(line.body, Said) and line.body.message.role == "tool":
            first.setdefault(line.body.message.call_id or "", line.body.message)
    shown = {each.call_id: each for each in found.history if each.role == "tool"}
    for id, message in shown.items():
        assert message is first[id or ""] if id in first else message in found.mended
    assert {call.id for call in found.uncertain} <= begun - first.keys()
    if len(found.path) == len(lines):
        assert {call.id for call in found.uncertain} == (begun & shown.keys()) - first.keys()


@given(logs(reused=True))
def test_every_call_has_one_answer_in_order_and_every_provider_takes_it(lines: list[Line]) -> None:
    found = recall(lines)
    messages = found.history.since(0)
    assert len(found.ids) == len(messages)
    at = 0
    while at < len(messages):
        calls = messages[at].calls
        assert messages[at].role != "tool"
        assert [each.call_id for each in messages[at + 1 : at + 1 + len(calls)]] == [call.id for call in calls]
        at += 1 + len(calls)
    for api, target in TARGETS.items():
        fit = prepare(messages, target)
        assert [_shape(each) for each in fit] == [_shape(each) for each in messages]
        assert _REQUESTS[api](messages, (), target)


@given(logs(reused=True))
def test_what_is_mended_is_found_again_once_it_is_written_down(lines: list[Line]) -> None:
    found = recall(lines)
    log = Log(list(lines), found.leaf)
    for answer in found.mended:
        log.add(Said(answer))
    again = recall(log.lines)
    assert again.history.since(0) == found.history.since(0)
    assert (again.mended, again.uncertain) == ((), ())


@given(logs())
def test_every_line_can_be_gone_on_from(lines: list[Line]) -> None:
    for line in lines:
        path = path_to(lines, line.id)
        assert path[-1] == line
        assert [each.parent for each in path] == [None, *(each.id for each in path[:-1])]
        assert recall(lines, line.id).leaf == line.id


def test_a_summary_is_only_found_where_a_history_begins_with_one() -> None:
    log = Log()
    log.user("hello")
    assert summary_in(recall(log.lines).history) == ""
    assert summary_in([]) == ""


def _shape(message: Message) -> tuple[object, ...]:
    return message.role, join_text(message), tuple((call.name, call.args) for call in message.calls), message.status


def test_an_answer_nobody_asked_for_and_a_second_one_are_left_out() -> None:
    log = Log()
    log.answer("c9", "who asked?")
    log.reply("", Call("c1", "read"))
    log.answer("c1", "first")
    log.answer("c1", "second")
    assert told(recall(log.lines)) == ["", "first"]
