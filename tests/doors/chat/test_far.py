"""A person at a terminal while a gateway runs: the chat is the gateway's, and so are the questions asked here."""

import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests import prestarted
from tests.doors.talking import Say, call, crib_with, talking

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from .desk import at_the_desk, surroundings_of

FREE = "tools: {exec: {ask: off, security: full}}"
MAKE = call("exec", '{"command": "make all"}')


@pytest.fixture
def folder() -> Iterator[Path]:
    with TemporaryDirectory(prefix="crib-") as beside:
        own = Path(beside) / "shop"
        own.mkdir()
        (own / "Makefile").write_text("all:\n\techo built > made\n")
        yield own


@contextlib.contextmanager
def gateway_in(folder: Path, config: Path, port: int = 0) -> Iterator["subprocess.Popen[str]"]:
    """Start a gateway that works in a folder."""
    words = (str(port), "--config", config)
    process = prestarted.Popen(
        [sys.executable, "-m", "toolcrib", "gateway", "--port", *map(str, words)],
        stderr=subprocess.PIPE, text=True, cwd=folder, env=surroundings_of(folder),
    )  # fmt: skip
    try:
        assert process.stderr is not None
        assert any("the gateway is at" in line for line in process.stderr)
        yield process
    finally:
        process.kill()
        process.communicate()


def toolcrib(folder: Path, *words: str) -> str:
    return prestarted.run(
        [sys.executable, "-m", "toolcrib", *words], capture_output=True, text=True, timeout=60, cwd=folder,
        env=surroundings_of(folder), stdin=subprocess.DEVNULL,
    ).stdout  # fmt: skip


def session_of(folder: Path) -> str:
    """Return the key of the only session there is."""
    (row,) = json.loads(toolcrib(folder, "sessions", "list", "--json"))["sessions"]
    return str(row["key"])


def test_a_chat_is_the_gateways_and_its_questions_are_answered_in_it(folder: Path) -> None:
    with (
        talking(MAKE, Say(text="It is *built*."), Say(text="Good night.")) as server,
        gateway_in(folder, crib_with(server, folder.parent)),
    ):
        with at_the_desk(folder) as desk:
            desk.ready("local:small")
            desk.say("build it")
            desk.until("Run it? [y]es once")
            desk.say("y")
            desk.until("It is built.")
            assert (folder / "made").exists()
            for line, shown in (
                ("/why exec make", "make would be asked about"),
                ("/status", "commands: sandbox"),
                ("/session", "4 messages"),
                ("/tools", "yours ("),
                ("/model nonsense:x", "nonsense"),
                ("/undo", "files are changed by the gateway"),
            ):
                desk.say(line)
                desk.until(shown)
            desk.say("/quit")
            assert desk.left() == 0
        assert "shop-" in toolcrib(folder, "sessions", "list")
        with at_the_desk(folder) as desk:
            desk.ready("Going on with", "It is *built*.")
            desk.say("good night")
            desk.until("Good night.")


def test_what_is_typed_meanwhile_is_heard_by_the_turn_of_the_gateway(folder: Path) -> None:
    waits = "echo begun; while ! test -e go; do sleep 0.1; done"
    with (
        talking(call("exec", f'{{"command": "{waits}"}}'), Say(text="I hurried.")) as server,
        gateway_in(folder, crib_with(server, folder.parent, FREE)),
        at_the_desk(folder) as desk,
    ):
        desk.ready()
        desk.say("wait")
        desk.until("begun")
        desk.say("hurry up")
        desk.until("heard as soon as the calls under way are done")
        (folder / "go").touch()
        desk.until("hurry up  (heard)", "I hurried.")
        assert len(server.asked) == 2


def test_a_turn_of_the_gateway_is_stopped_from_here(folder: Path) -> None:
    with (
        talking(call("exec", '{"command": "echo begun; sleep 600"}'), Say(text="Well.")) as server,
        gateway_in(folder, crib_with(server, folder.parent, FREE)),
        at_the_desk(folder) as desk,
    ):
        desk.ready()
        desk.say("wait")
        desk.until("begun")
        desk.type("\x03")
        desk.until("stopped")
        desk.say("and now")
        desk.until("Well.")
        assert "stopped before it was done" in toolcrib(folder, "sessions", "export", session_of(folder))


def test_a_question_that_was_answered_elsewhere_needs_no_answer_here(folder: Path) -> None:
    with (
        talking(MAKE, Say(text="Heard you.")) as server,
        gateway_in(folder, crib_with(server, folder.parent)),
        at_the_desk(folder) as desk,
    ):
        desk.ready()
        desk.say("build it")
        desk.until("Run it? [y]es once")
        toolcrib(folder, "approvals", "deny", toolcrib(folder, "approvals", "list").split()[0])
        desk.until("needs no answer here any more", "Heard you.")
        assert not (folder / "made").exists()


@pytest.mark.parametrize("words", [("run", "build it"), ("tools call", "exec", '{"command": "make all"}')])
def test_who_runs_or_calls_something_at_a_terminal_is_asked_there(folder: Path, words: tuple[str, ...]) -> None:
    with (
        talking(MAKE, Say(text="It is built.")) as server,
        gateway_in(folder, crib_with(server, folder.parent)),
        at_the_desk(folder, *words[1:], command=words[0]) as desk,
    ):
        desk.until("Run it? [y]es once")
        desk.type("y\r")
        assert desk.left() == 0
        assert (folder / "made").exists()


def test_a_chat_outlives_the_gateway(folder: Path) -> None:
    with talking(Say(text="One."), Say(text="Two.")) as server:
        crib = crib_with(server, folder.parent)
        with gateway_in(folder, crib) as process, at_the_desk(folder) as desk:
            desk.ready()
            desk.say("first")
            desk.until("One.")
            toolcrib(folder, "gateway", "restart")
            assert process.stderr is not None
            assert any("the gateway starts anew" in line for line in process.stderr)
            assert any("the gateway is at" in line for line in process.stderr)
            desk.say("second")
            desk.until("Two.")
            assert toolcrib(folder, "sessions", "export", session_of(folder)).count('"role":"user"') == 2


def test_a_turn_that_a_kill_ended_is_told_as_such_and_the_chat_goes_on(folder: Path) -> None:
    waits = call("exec", '{"command": "echo begun; sleep 600"}')
    with talking(waits, Say(text="Back again.")) as server, socket.create_server(("127.0.0.1", 0)) as free:
        port, crib = free.getsockname()[1], crib_with(server, folder.parent, FREE)
        free.close()
        with contextlib.ExitStack() as stack:
            with gateway_in(folder, crib, port) as process:
                desk = stack.enter_context(at_the_desk(folder))
                desk.ready()
                desk.say("wait")
                desk.until("begun")
                process.kill()
            desk.until("the gateway does not answer; it is tried again")
            with gateway_in(folder, crib, port):
                desk.until("the gateway stopped while this was being answered")
                desk.say("again")
                desk.until("Back again.")
                assert "never kept, so nobody knows" in toolcrib(folder, "sessions", "export", session_of(folder))
