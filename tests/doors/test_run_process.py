"""toolcrib run as a process: Ctrl-C, pipes that close, and a person at a terminal."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import termios
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from .talking import Say, Talk, call, crib_with, talking
from .test_process import COMMAND, MANIFEST, SECONDS, WAITING, started, surroundings
from .world import plugin_folder

FULL = "tools: {exec: {security: full, ask: 'off'}}"
KEY = "agent:main:talk"


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever runs the tests may have keys; these turns are answered here."""
    for name in list(os.environ):
        if name.endswith("_API_KEY") or name.startswith("TOOLCRIB_") or name == "NO_COLOR":
            monkeypatch.delenv(name)


def told_to(server: Any, role: str) -> list[str]:
    """Return what the model was last told in that role."""
    return [each["content"] for each in server.asked[-1].body["messages"] if each["role"] == role]


def event_of(process: subprocess.Popen[str], kind: str) -> dict[str, Any]:
    """Return the next event of that kind."""
    assert process.stdout is not None
    for line in process.stdout:
        event: dict[str, Any] = json.loads(line)
        if event["type"] == kind:
            return event
    raise AssertionError(f"it ended without {kind}")


def until(process: subprocess.Popen[str], words: str) -> str:
    """Return what stderr says up to these words."""
    assert process.stderr is not None
    heard = ""
    while not heard.endswith(words):
        more = process.stderr.read(1)
        assert more, heard
        heard += more
    return heard


# Ctrl-C


def test_ctrl_c_in_a_command_stops_it_and_the_session_goes_on(tmp_path: Path) -> None:
    replies = call("exec", '{"command": "echo ready; sleep 1000"}'), Say(text="Welcome back.")
    with talking(*replies) as server:
        crib = crib_with(server, tmp_path, FULL)
        with started(["run", "wait", "--config", crib, "--session", KEY, "--json"]) as process:
            progress = event_of(process, "tool_progress")
            pid = progress["result"]["details"]["pid"]
            process.send_signal(signal.SIGINT)
            finished, end = event_of(process, "tool_finished"), event_of(process, "turn_finished")
            rest, err = process.communicate(timeout=SECONDS)
        assert (process.returncode, rest) == (130, "")
        assert err == f"toolcrib: there was no session {KEY!r}, so it begins here\n"
        assert finished["result"]["details"]["code"] == "interrupted"
        assert (end["reason"], end["sentence"]) == ("stopped", "stopped before it was done")
        assert not Path(f"/proc/{pid}").exists()
        with started(["run", "and now?", "--config", crib, "--session", KEY]) as process:
            out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out, err) == (0, "Welcome back.\n", "")
    assert told_to(server, "user") == ["wait", "and now?"]
    (answer,) = told_to(server, "tool")
    assert "ready" in answer
    assert "it was stopped while it ran" in answer


def test_ctrl_c_tells_a_person_how_to_go_on(tmp_path: Path) -> None:
    async def silent(talk: Talk) -> None:
        await talk.hold()

    with (
        talking(call("ls"), silent) as server,
        started(["run", "wait", "--config", crib_with(server, tmp_path), "--session", KEY]) as process,
    ):
        until(process, "  ✓ [the folder is empty]\n")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (130, "")
    assert err == f"toolcrib: stopped before it was done\ngo on with --session {KEY}\n"


@pytest.mark.parametrize("tool", ["dice", "thread"])
def test_ctrl_c_does_not_wait_for_a_body_that_waits(tmp_path: Path, tool: str) -> None:
    ready, tell = os.pipe()
    folder = plugin_folder(tmp_path / "plugins", WAITING.format(ready=tell), manifest=MANIFEST)
    with talking(call(tool)) as server:
        crib = crib_with(server, tmp_path, f"plugins: {{folders: ['{folder}'], allow: [dice]}}")
        with started(["run", "roll", "--config", crib, "--json"], pass_fds=(tell,)) as process:
            os.close(tell)
            assert os.read(ready, 1) == b"x"
            process.send_signal(signal.SIGINT)
            assert event_of(process, "turn_finished")["reason"] == "stopped"
            process.communicate(timeout=SECONDS)
    os.close(ready)
    assert process.returncode == 130


STUBBORN = '''\
import asyncio, os
from toolcrib import Plugin, tool


@tool(effects=set())
async def dice() -> str:
    """Do not let go."""
    os.write({ready}, b"x")
    try:
        await asyncio.Event().wait()
    finally:
        os.write({ready}, b"y")
        await asyncio.Event().wait()
    return "never"


plugin = Plugin(name="dice", tools=(dice,))
'''


def test_a_second_ctrl_c_leaves_at_once(tmp_path: Path) -> None:
    ready, tell = os.pipe()
    folder = plugin_folder(tmp_path / "plugins", STUBBORN.format(ready=tell))
    with talking(call("dice"), Say(text="Back.")) as server:
        crib = crib_with(server, tmp_path, f"plugins: {{folders: ['{folder}'], allow: [dice]}}")
        with started(["run", "roll", "--config", crib, "--session", KEY], pass_fds=(tell,)) as process:
            os.close(tell)
            assert os.read(ready, 1) == b"x"
            process.send_signal(signal.SIGINT)
            assert os.read(ready, 1) == b"y"  # it was told to stop, and does not
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=SECONDS)
        assert process.returncode == 130
        with started(["run", "and now?", "--config", crib, "--session", KEY]) as process:
            out, _ = process.communicate(timeout=SECONDS)
    os.close(ready)
    assert (process.returncode, out) == (0, "Back.\n")
    (answer,) = told_to(server, "tool")
    assert "nobody knows whether it took effect" in answer


# pipes


def test_a_reader_that_has_seen_enough_is_no_error(tmp_path: Path) -> None:
    text = "".join(f"line {number}\n" for number in range(5000))
    with talking(Say(text=text, piece=50)) as server:
        line = f"{' '.join(COMMAND)} run count --config {crib_with(server, tmp_path)} | head -1"
        ran = subprocess.run(["bash", "-c", line], env=surroundings(), capture_output=True, text=True, timeout=SECONDS)
    assert (ran.stdout, ran.stderr) == ("line 0\n", "")


def test_words_come_as_they_are_said(tmp_path: Path) -> None:
    async def halting(talk: Talk) -> None:
        await talk.head()
        await talk.send(b'data: {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Wait"}}]}\n\n')
        await talk.hold()

    with talking(halting) as server, started(["run", "hi", "--config", crib_with(server, tmp_path)]) as process:
        assert process.stdout is not None
        assert process.stdout.read(4) == "Wait"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out) == (130, "\n")
    assert err.startswith("toolcrib: stopped before it was done\ngo on with --session agent:main:run:")


def test_a_pipe_gets_the_words_as_they_are(tmp_path: Path) -> None:
    words = "red: \x1b[31mno\x1b[0m\n"
    with talking(Say(text=words)) as server, started(["run", "hi", "--config", crib_with(server, tmp_path)]) as process:
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out, err) == (0, words, "")


# a terminal


class Terminal:
    """A person's side of a terminal."""

    def __init__(self, fd: int) -> None:
        self._fd, self._bytes = fd, b""

    def until(self, words: str) -> str:
        """Return all that was shown since the last time, up to these words."""
        while words not in self._shown():
            assert self._reads(), self._shown()
        shown, _, rest = self._shown().partition(words)
        self._bytes = rest.encode()
        return shown + words

    def rest(self) -> str:
        """Return what is shown until the program is gone."""
        while self._reads():
            pass
        return self._shown()

    def types(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def _shown(self) -> str:
        return self._bytes.decode(errors="replace").replace("\r\n", "\n")

    def _reads(self) -> bool:
        try:
            more = os.read(self._fd, 4096)
        except OSError:  # what a terminal says when nobody holds its other end any more
            return False
        self._bytes += more
        return bool(more)


@contextlib.contextmanager
def at_a_terminal(
    args: Sequence[str | Path], *, columns: int = 80, **env: str
) -> Iterator[tuple[subprocess.Popen[bytes], Terminal]]:
    """A command whose three streams are one terminal, which is also what Ctrl-C is typed into."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, columns))
    process = subprocess.Popen(
        [*COMMAND, *map(str, args)], env={**surroundings(), **env}, stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    try:
        yield process, Terminal(ours)
    finally:
        process.kill()
        process.wait(SECONDS)
        os.close(ours)


def test_a_terminal_gets_colours_and_the_session(tmp_path: Path) -> None:
    replies = call("ls"), Say(text="Nothing \x1b[2Jhere.")
    with talking(*replies) as server:
        args: list[str | Path] = ["run", "look", "--config", crib_with(server, tmp_path), "--session", KEY]
        with at_a_terminal(args) as (process, terminal):
            shown = terminal.rest()
            assert process.wait(SECONDS) == 0
    assert shown == (
        f"toolcrib: there was no session {KEY!r}, so it begins here\n"
        "\x1b[32m●\x1b[0m \x1b[1mls\x1b[0m\x1b[2m  [allow]\x1b[0m\n"
        "\x1b[2m  ✓ [the folder is empty]\x1b[0m\n"
        "Nothing \\x1b[2Jhere.\n"
        f"\x1b[2m54 tokens; go on with --session {KEY}\x1b[0m\n"
    )


def test_no_color_is_respected_and_lines_fit(tmp_path: Path) -> None:
    for number in range(30):
        Path(f"a file with a rather long name {number}.txt").write_text("x" * 200)
    long = '{"pattern": "%s", "path": ".", "context": 3}' % ("x" * 150)
    replies = call("grep", long), call("read", '{"path": "no such file %s"}' % ("ж" * 60)), Say(text="So it is.")
    with talking(*replies) as server:
        args: list[str | Path] = ["run", "look", "--config", crib_with(server, tmp_path)]
        with at_a_terminal(args, NO_COLOR="1") as (process, terminal):
            shown = terminal.rest()
            assert process.wait(SECONDS) == 1
    assert "\x1b" not in shown
    assert [line for line in shown.splitlines() if len(line) > 80] == []
    assert "…  [allow]\n" in shown


@pytest.mark.parametrize(("answer", "written"), [("y\n", True), ("n\n", False)])
def test_a_question_is_asked_in_place(tmp_path: Path, answer: str, written: bool) -> None:
    with talking(call("write", '{"path": "x.txt", "content": "y"}'), Say(text="So be it.")) as server:
        args: list[str | Path] = ["run", "write", "--config", crib_with(server, tmp_path, "tools: {ask: [write]}")]
        with at_a_terminal(args, NO_COLOR="1") as (process, terminal):
            asked = terminal.until("Change it? [y]es once, [s]ession, [t]ime, [n]o: ")
            assert asked.startswith("● write path=x.txt content=y  [ask]\nwrite, asked by ")
            terminal.types(answer)
            rest = terminal.rest()
            assert process.wait(SECONDS) == (0 if written else 1)
    assert "changes 1 place in 1 file\n  --- /dev/null\n  +++ b/x.txt\n  @@ -0,0 +1 @@\n  +y\n" in asked
    assert Path("x.txt").exists() is written
    assert ("  ✓ " if written else "  ✗ a human refused write\n") in rest
    assert "So be it.\n" in rest


def test_ctrl_c_at_a_question_stops_the_turn(tmp_path: Path) -> None:
    with talking(call("write", '{"path": "x.txt", "content": "y"}')) as server:
        args: list[str | Path] = [
            "run",
            "write",
            "--config",
            crib_with(server, tmp_path, "tools: {ask: [write]}"),
            "--session",
            KEY,
        ]
        with at_a_terminal(args, NO_COLOR="1") as (process, terminal):
            terminal.until("Change it? [y]es once, [s]ession, [t]ime, [n]o: ")
            process.send_signal(signal.SIGINT)
            rest = terminal.rest()
            assert process.wait(SECONDS) == 130
    assert "toolcrib: stopped before it was done\n" in rest
    assert rest.endswith(f"go on with --session {KEY}\n")
    assert not Path("x.txt").exists()


def test_nobody_is_asked_who_does_not_see_the_question(tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with talking(call("write", '{"path": "x.txt", "content": "y"}'), Say(text="I may not.")) as server:
        crib = crib_with(server, tmp_path, "tools: {ask: [write]}")
        with started(["run", "write", "--config", crib], stdin=theirs) as process:
            out, err = process.communicate(timeout=SECONDS)
    os.close(theirs)
    os.close(ours)
    assert (process.returncode, out) == (1, "I may not.\n")
    assert "and there is nobody to ask" in err
