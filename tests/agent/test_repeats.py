"""Going round in circles: seen in calls and in words, and not where there is none."""

from collections.abc import Mapping
from typing import Any

import pytest

from toolcrib.adapter.fence import fence, new_token
from toolcrib.agent.limits import REPEATED, Babble, Repeats
from toolcrib.define.message import Call
from toolcrib.define.result import Result, Text

Step = list[tuple[Call, Result]]


def step(name: str = "echo", result: Result = Result.text("same"), **args: Any) -> Step:
    return [(Call("id", name, args), result)]


def stops_at(steps: list[Step], most: int = 5) -> int | None:
    """Return the number of the step that is one too many, counted from one."""
    repeats = Repeats(most)
    return next((at for at, each in enumerate(steps, 1) if repeats.count(each)), None)


def test_the_same_step_is_one_too_many_at_its_fifth_time() -> None:
    assert stops_at([step()] * 9) == 5
    assert stops_at([step()] * 9, most=2) == 2


def test_cycles_of_two_and_three_steps_are_seen_and_longer_ones_are_not() -> None:
    a, b, c, d = (step(word=word) for word in "abcd")
    assert stops_at([a, b] * 9) == 6
    assert stops_at([a, b, c] * 9) == 9
    assert stops_at([a, b] * 9, most=2) == 4
    assert stops_at([a, b, c, d] * 9) is None


def test_a_circle_is_seen_wherever_it_begins() -> None:
    assert stops_at([step(word=str(number)) for number in range(7)] + [step()] * 9) == 12


@pytest.mark.parametrize(
    "other",
    [step("write"), step(word="x"), step(result=Result.text("other")), step(result=Result.error("same")), step() * 2],
)
def test_another_name_argument_result_or_number_of_calls_is_another_step(other: Step) -> None:
    assert stops_at([step(), step(), step(), step(), other] * 3) is None


def test_outside_words_are_the_same_although_every_fence_has_its_own_token() -> None:
    def page() -> Result:
        return Result((Text(fence("news", "web:a.test", new_token()), "web:a.test"),))

    assert stops_at([step(result=page()) for _ in range(9)]) == 5


@pytest.mark.parametrize(
    "result",
    [Result.text("running", details={"status": "running"}), Result.pending("somebody else will answer")],
)
def test_a_command_that_still_runs_may_be_asked_about_for_ever(result: Result) -> None:
    assert stops_at([step("process", result)] * 50) is None
    assert stops_at([step()] * 4 + [step("process", result)] + [step()] * 4) is None


def test_nobody_looks_where_the_limit_is_zero_and_steps_without_results_do_not_count() -> None:
    assert stops_at([step()] * 50, most=0) is None
    assert stops_at([[]] * 50) is None


@pytest.mark.parametrize("args", [{"n": 10**30}, {"s": "\ud800"}, {"deep": {"of": [1, {"x": None}]}}, {1: 2}])
def test_any_arguments_can_be_compared(args: Mapping[Any, Any]) -> None:
    assert stops_at([[(Call("id", "echo", args), Result.text("same"))]] * 9) == 5


def test_the_second_identical_call_says_that_it_was_made_before() -> None:
    repeats = Repeats(5)
    ((call, result),) = step(word="a")
    assert repeats.mark(call, result) is result
    assert repeats.mark(call, result) is result  # of the same reply
    repeats.count(step(word="a"))
    assert repeats.mark(call, Result.text("other")) == Result.text("other")
    assert repeats.mark(call._replace(id="other", key="k"), result) == result._replace(content=(REPEATED,))
    assert repeats.mark(call._replace(args={"word": "b"}), result) is result


def test_a_command_that_still_runs_was_not_asked_about_before() -> None:
    repeats, running = Repeats(5), Result.text("running", details={"status": "running"})
    for _ in range(3):
        assert repeats.mark(Call("id", "process", {}), running) is running
        repeats.count([(Call("id", "process", {}), running)])
    assert Repeats(0).mark(Call("id", "echo"), running) is running


def heard(text: str, piece: int = 50) -> bool:
    babble = Babble()
    return any(babble.hears(text[at : at + piece]) for at in range(0, len(text), piece))


@pytest.mark.parametrize("phrase", ["no, ", "I am sorry. ", "let me check the file again and then go on, " * 5])
def test_a_phrase_over_and_over_is_babble_in_whatever_pieces_it_comes(phrase: str) -> None:
    text = "Well then. " + phrase * (6000 // len(phrase))
    assert heard(text)
    assert heard(text, 1)
    assert heard(text, 5000)


@pytest.mark.parametrize(
    "text",
    [
        "no, " * 20,
        "-" * 5000,
        "0 " * 4000,
        "| " + " | ".join(f"row {number}" for number in range(2000)),
        "\n".join(f"line {number} of the list" for number in range(1000)),
        "    \n" * 2000,
    ],
)
def test_drawings_tables_lists_and_a_little_insistence_are_not(text: str) -> None:
    assert not heard(text)
