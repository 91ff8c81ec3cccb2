"""The judge is bounded: lines made to be slow, deep or endless are answered, and a denial is found in them too."""

import pytest

from toolcrib.policy.command import judge

from .rooms import DEV, LOOK_UP

UNITS = (
    "(", "$(", "`", "{", "[", "((a", "$((a", "${a", "$[", "|", "a|", "&&", ";", "<", ">", "<<a ", "<<-a\n", "'", '"',
    '"$', '"$(', "\\", "\\\n", "\n", "for ", "case ", "x() ", "if ", "a=(", "env ", "unshare ", "bash -c ", "a;", "a ",
    "eval ", "find -exec ", "watch ", "é", "#", "!", "--", "=", "~", "$'", "a\\",
)  # fmt: skip


@pytest.mark.timeout(120)
@pytest.mark.parametrize("unit", UNITS)
def test_any_line_is_answered(unit: str) -> None:
    line = (unit * 20_000)[:20_000]
    assert judge(line, DEV, LOOK_UP).decision in ("ask", "deny")


@pytest.mark.parametrize(
    "line",
    [
        "true; " * 3_000 + "touch x",
        "env " * 3_000 + "touch x",
        "echo a | " * 600 + "touch x",
        "(" * 400 + "touch x" + ")" * 400,
        "echo $(" * 400 + "touch x" + ")" * 400,
        "bash -c '" + "true; " * 1_000 + "touch x'",
    ],
)
def test_a_denial_is_found_at_the_end_of_a_long_line(line: str) -> None:
    assert judge(line, DEV, LOOK_UP).decision == "deny"


def test_ends_of_lines_that_are_taken_away_again_and_again_are_answered() -> None:
    assert judge("$X " + "\\" * 9_000 + "\n" * 9_000, DEV, LOOK_UP).decision == "ask"


def test_more_commands_than_anybody_would_write_are_asked_about() -> None:
    found = judge("true; " * 600, DEV, LOOK_UP)
    assert (found.decision, found.doubt) == ("ask", "it holds more than 500 commands")


def test_shells_in_shells_end_in_a_question() -> None:
    line = "ls"
    for _ in range(9):
        line = "sh -c '" + line.replace("'", "'\\''") + "'"
        if len(line) > 20_000:
            break
    assert judge(line, DEV, LOOK_UP).decision == "ask"
