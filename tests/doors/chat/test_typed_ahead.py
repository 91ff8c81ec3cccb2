"""What was typed before a question came, or for another one, is no answer to it."""

import asyncio
import os
import pty
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.completion import DummyCompleter
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.output import DummyOutput

from toolcrib.doors.cli.chat.terminal import PromptTerminal

pytestmark = pytest.mark.anyio

QUESTION = "Run it? "


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        yield keys


class Clock:
    """A clock that stands still until somebody moves it."""

    seconds = 100.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def terminal(keys: PipeInput, tmp_path: Path, clock: Clock) -> PromptTerminal:
    return PromptTerminal(
        history=tmp_path / "history",
        completer=DummyCompleter(),
        live=lambda width, most: [],
        stop=lambda: None,
        colour=False,
        now=clock,
    )


async def begun(terminal: PromptTerminal) -> "asyncio.Task[str | None]":
    """Return a line that is being read: the terminal listens."""
    reading = asyncio.create_task(terminal.line())
    while not terminal._session.app.is_running:
        await asyncio.sleep(0)
    return reading


async def asked(terminal: PromptTerminal) -> "asyncio.Task[str]":
    asking = asyncio.create_task(terminal.ask(QUESTION))
    await asyncio.sleep(0)
    return asking


async def test_a_line_nobody_had_read_when_the_question_came_is_a_message(
    terminal: PromptTerminal, keys: PipeInput
) -> None:
    async with asyncio.timeout(60):
        reading = await begun(terminal)
        keys.send_text("y\r")
        asking = await asked(terminal)
        assert await reading == "y"
        await begun(terminal)
        keys.send_text("no\r")
        assert await asking == "no"


async def test_a_line_that_was_sent_as_the_question_came_is_a_message(
    terminal: PromptTerminal, keys: PipeInput
) -> None:
    async with asyncio.timeout(60):
        reading = await begun(terminal)
        keys.send_text("y\r")
        while not terminal._session.app.is_done:
            await asyncio.sleep(0)
        asking = await asked(terminal)  # Enter was pressed, and the line is on its way
        assert await reading == "y"
        again = await begun(terminal)
        keys.send_text("no\r")
        assert await asking == "no"
        keys.send_text("more\r")
        assert await again == "more", "nothing of the first line comes back"


async def test_an_answer_to_a_question_that_is_gone_answers_no_other(terminal: PromptTerminal, keys: PipeInput) -> None:
    async with asyncio.timeout(60):
        reading = await begun(terminal)
        first = await asked(terminal)
        keys.send_text("y\r")
        while not terminal._session.app.is_done:
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        second = await asked(terminal)
        while terminal._session.app.is_done:
            await asyncio.sleep(0)
        keys.send_text("no\r")
        assert await second == "no"
        reading.cancel()
        await asyncio.wait([reading])


async def test_what_was_being_written_comes_back_behind_the_answer(
    terminal: PromptTerminal, keys: PipeInput, clock: Clock
) -> None:
    async with asyncio.timeout(60):
        reading = await begun(terminal)
        keys.send_text("half a th")
        asking = await asked(terminal)
        clock.seconds += 0.6  # time to read the question
        keys.send_text("no\r")
        assert await asking == "no"
        keys.send_text("ought\r")
        assert await reading == "half a thought"


async def test_whoever_was_writing_ends_their_own_line(terminal: PromptTerminal, keys: PipeInput) -> None:
    async with asyncio.timeout(60):
        reading = await begun(terminal)
        keys.send_text("have a tr")
        asking = await asked(terminal)  # nobody has read it before they press two more keys
        keys.send_text("y\r")
        assert await reading == "have a try"
        reading = await begun(terminal)
        keys.send_text("no\r")
        assert await asking == "no"
        keys.send_text("more\r")
        assert await reading == "more"


PLAIN = """
import asyncio, os, select
from toolcrib.doors.cli.chat.terminal import PlainTerminal

async def main():
    lines = PlainTerminal()
    reading = asyncio.create_task(lines.line())
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    print("ready", flush=True)
    select.select([0], [], [])  # a line was typed, and this loop has not read it yet
    lines.write("exec rm\\n")
    asking = asyncio.create_task(lines.ask("Run it? "))
    print(f"message {await reading}, answer {await asking}", flush=True)

asyncio.run(main())
"""


def test_on_plain_lines_what_was_typed_before_the_question_is_a_message() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", PLAIN], stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        _until(ours, "ready")
        os.write(ours, b"y\n")
        _until(ours, QUESTION)
        os.write(ours, b"no\n")
        assert _until(ours, "answer no").endswith("message y, answer no")
        assert process.wait(60) == 0
    os.close(ours)


def _until(fd: int, words: str) -> str:
    seen = ""
    while words not in seen:
        assert select.select([fd], [], [], 60)[0], seen
        seen += os.read(fd, 1024).decode()
    return seen.rstrip()
