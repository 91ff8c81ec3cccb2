"""A terminal for a command: it knows its size, answers questions, and shows a screen instead of escape codes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from toolcrib.backends.exec.pty import PtyScreen
from toolcrib.define.errors import ToolError
from toolcrib.define.shell import Shell

from .shells import KINDS, opened, ran, started, until

pytestmark = pytest.mark.anyio


@pytest.fixture(params=KINDS)
async def shell(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Shell]:
    async with opened(request.param, tmp_path / "ws") as shell:
        yield shell


async def test_a_command_sees_a_terminal_of_its_size(shell: Shell) -> None:
    ended, text = await ran(
        shell, "[ -t 0 ] && [ -t 1 ] && [ -t 2 ] && stty size && : > /dev/tty && tty", pty=(100, 30)
    )
    assert (ended.code, text.split()[:2]) == (0, ["30", "100"])


async def test_the_screen_is_what_a_person_sees(shell: Shell) -> None:
    line = r"printf 'one\ntwo\033[1A\033[1;31mRED\033[0m\033[3;5Hthere\033[1;1H\033[2Kfour'; read x"
    running = await started(shell, line, pty=(40, 10))
    await until(lambda: b"four" in running.tail())
    assert running.screen() == "four\ntwo\n    there"


async def test_it_can_be_typed_to_and_resized(shell: Shell) -> None:
    running = await started(
        shell, "trap 'stty size' WINCH; read x; echo got $x; while :; do read -t 0.1 y; done", pty=(80, 24)
    )
    await running.write(b"hello\r")
    await until(lambda: b"got hello" in running.tail())
    running.resize(120, 50)
    await until(lambda: b"50 120" in running.tail())
    assert "got hello" in running.screen()


async def test_the_interrupt_key_interrupts_and_the_end_key_ends(shell: Shell) -> None:
    running = await started(shell, "trap 'echo interrupted' INT; echo ready; cat; echo after", pty=(80, 24))
    await until(lambda: b"ready" in running.tail())
    await running.write(b"x\r")
    await until(lambda: running.tail().count(b"x") >= 2)
    await running.write(b"\x03")
    ended = await running.wait()
    assert b"interrupted" in running.tail()
    assert ended.reason == "exit"
    running = await started(shell, "cat; echo after", pty=(80, 24))
    await running.write(b"x\r")
    await until(lambda: running.tail().count(b"x") >= 2)
    await running.close_stdin()
    assert (await running.wait()).ok
    assert b"after" in running.tail()


async def test_a_question_for_the_cursor_is_answered(shell: Shell) -> None:
    line = r"""stty -echo raw; printf 'ab\033[6n'; IFS= read -r -d R x; stty sane; printf '%q\n' "$x" """
    ended, text = await ran(shell, line, pty=(80, 24))
    assert ended.ok
    assert "[1\\;3" in text or "[1;3" in text


async def test_without_a_terminal_there_is_no_screen(shell: Shell) -> None:
    running = await started(shell, "true")
    for ask in (running.screen, lambda: running.resize(80, 24)):
        with pytest.raises(ToolError, match="no terminal"):
            ask()
    await running.wait()


def test_endless_questions_are_answered_a_bounded_number_of_times() -> None:
    answers: list[bytes] = []
    screen = PtyScreen((80, 24), answers.append)
    for _ in range(500):
        screen.add(b"\x1b[6n")
    assert len(answers) == 200


def test_a_flood_is_read_from_its_end() -> None:
    screen = PtyScreen((20, 3), lambda _: None)
    for at in range(100_000):
        screen.add(b"%d\r\n" % at)
    assert screen.text() == "99998\n99999"
