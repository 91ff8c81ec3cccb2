"""toolcrib chat at a real terminal. What the screens look like is kept in tests/golden/chat.

To renew those: RENEW_GOLDEN=1 pytest tests/doors/chat -n 0, and read the diff.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from tests import prestarted
from tests.doors.talking import Say, call, crib_with, talking
from tests.doors.world import crib_file
from tests.tools.media.pictures import draw, save

from .desk import Desk, at_the_desk, golden

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)
EDIT = 'edit {"path": "prices.py", "oldText": "3", "newText": "4"}'
MOVES = re.compile(rb"\x1b")


@pytest.fixture
def folder() -> Iterator[Path]:
    """A small workspace whose path is short and always as long, so that lines are folded alike in every run."""
    with TemporaryDirectory(prefix="crib-") as beside:
        own = Path(beside) / "shop"
        own.mkdir()
        (own / "prices.py").write_text("def price(item):\n    return 3  # TODO ask the supplier\n")
        yield own


def test_a_request_is_answered(folder: Path) -> None:
    with at_the_desk(folder) as desk:
        desk.ready()
        desk.say("search TODO in *.py")
        desk.until("connects one")
        golden("request", desk, folder)


def test_a_denied_tool_is_told_with_its_why(folder: Path) -> None:
    with talking(call("exec", '{"command": "make"}'), Say(text="Then **not**.")) as server:
        crib = crib_with(server, folder.parent, "tools: {deny: [group:runtime]}")
        with at_the_desk(folder, "--config", crib) as desk:
            desk.ready()
            desk.say("build it")
            desk.prompted("Then not.")
            desk.say("/why exec")
            desk.until("global: deny")
            golden("denied", desk, folder)


def test_an_approval_is_asked_in_place(folder: Path) -> None:
    with at_the_desk(folder) as desk:
        desk.ready()
        desk.say("run echo hi")
        desk.until("Run it?")
        desk.say("y")
        desk.until("connects one.)\n\n›")
        golden("approval", desk, folder)


def test_a_no_is_a_no(folder: Path) -> None:
    with at_the_desk(folder) as desk:
        desk.ready()
        desk.say("run echo hi")
        desk.until("Run it?")
        desk.say("n")
        desk.until("a human refused exec")


def test_a_yes_for_a_time_is_not_asked_again(folder: Path) -> None:
    crib = crib_file(folder.parent, "tools: {ask: [write]}")
    with at_the_desk(folder, "--config", crib) as desk:
        desk.ready()
        desk.say("write hello to a.txt")
        desk.until("Change it?")
        desk.say("t")
        desk.until("For how long")
        desk.say("5m")
        desk.until("connects one")
        desk.say("write hello to a.txt")
        desk.until_true(lambda: desk.text.count("wrote 6 bytes") == 4, "the second time")
        golden("approval_for_a_time", desk, folder)


def test_a_draft_comes_back_when_the_question_is_answered(folder: Path) -> None:
    with (
        talking(call("exec", '{"command": "echo hi"}'), Say(text="Ready.")) as server,
        at_the_desk(folder, "--config", crib_with(server, folder.parent)) as desk,
    ):
        desk.ready()
        desk.type("go\rand th")  # the second line is being written when the question comes
        desk.until("Run it?")
        time.sleep(0.6)  # a person reads it first; what comes sooner belongs to the line that was being written
        desk.say("y")
        desk.until("Ready.", "› and th")


LONG = call("exec", '{"command": "echo working; sleep 60"}')


def test_a_command_is_stopped_in_the_middle(folder: Path) -> None:
    with talking(LONG) as server, at_the_desk(folder, "--config", crib_with(server, folder.parent)) as desk:
        desk.ready()
        desk.say("work")
        desk.until("Run it?")
        desk.say("y")
        desk.until("  working\n")
        golden("running", desk, folder)
        desk.type("\x03")
        desk.until("stopped")
        desk.say("/stop")
        desk.until("Nothing runs.")
        golden("stopped", desk, folder)


def test_a_restart_goes_on_where_it_was(folder: Path) -> None:
    with at_the_desk(folder) as desk:
        desk.ready()
        desk.say("search TODO in *.py")
        desk.until("connects one")
        desk.type("\x04")
        assert desk.left() == 0
    with at_the_desk(folder) as desk:
        desk.ready("Going on with", "prices.py:2:")
        desk.say("read prices.py")
        desk.until(" def price(item):\n     return 3")
        golden("restart", desk, folder)
    with at_the_desk(folder, "--new") as desk:
        desk.ready()
        assert "Going on" not in desk.text


def test_what_is_typed_meanwhile_is_heard_by_the_turn(folder: Path) -> None:
    os.mkfifo(folder / "gate")
    with talking(call("exec", '{"command": "cat gate"}'), Say(text="Both done.")) as server:
        crib = crib_with(server, folder.parent, "tools: {exec: {security: full, ask: 'off'}}")
        with at_the_desk(folder, "--config", crib) as desk:
            desk.ready()
            desk.say("wait at the gate")
            desk.until("… exec cat gate")
            desk.say("and the door")
            desk.until("heard as soon as")
            (folder / "gate").write_text("open\n")
            desk.until("Both done.", " tokens")
            golden("steered", desk, folder)
            words = [message["content"] for message in server.asked[-1].body["messages"] if message["role"] == "user"]
            assert "and the door" in str(words[-1])


def test_a_change_is_shown_as_a_diff_and_undone(folder: Path) -> None:
    before = (folder / "prices.py").read_text()
    with at_the_desk(folder) as desk:
        desk.ready()
        desk.say(EDIT)
        desk.until("connects one.)\n\n›")
        assert "return 4" in (folder / "prices.py").read_text()
        desk.say("/undo")
        desk.until("is as it was")
        golden("undo", desk, folder)
        assert (folder / "prices.py").read_text() == before
        assert b"\x1b[32m+    return 4" in desk.raw
        desk.say("/undo")
        desk.until("no file was changed")


def test_a_file_that_was_changed_since_is_not_undone(folder: Path) -> None:
    with at_the_desk(folder) as desk:
        desk.ready()
        desk.say(EDIT)
        desk.until("connects one.)\n\n›")
        (folder / "prices.py").write_text("mine\n")
        desk.say("/undo")
        desk.until("nothing was undone")
        assert (folder / "prices.py").read_text() == "mine\n"


def test_a_picture_is_named_and_saved(folder: Path) -> None:
    (folder / "dot.png").write_bytes(PNG)
    with (
        talking(call("read", '{"path": "dot.png"}'), Say(text="A dot.")) as server,
        at_the_desk(folder, "--config", crib_with(server, folder.parent)) as desk,
    ):
        desk.ready()
        desk.say("look at dot.png")
        desk.until("A dot.", "saved as")
        [kept] = (folder.parent / "home" / "state" / "pictures").iterdir()
        assert kept.read_bytes() == PNG
        assert kept.stat().st_mode & 0o777 == 0o600
        assert kept.name in desk.text.replace("\n", "").replace(" ", "")


def test_nothing_from_outside_moves_the_cursor_or_sets_the_title(folder: Path) -> None:
    evil = "\x1b]0;mine\x07\x1b[2J\x1b[31mred\x9b5A"
    (folder / "evil.txt").write_text(evil)
    with (
        talking(call("read", '{"path": "evil.txt"}'), Say(text=f"It says {evil} [here](http://x.test/a).")) as server,
        at_the_desk(folder, "--config", crib_with(server, folder.parent)) as desk,
    ):
        desk.ready()
        desk.say("read evil.txt")
        text = desk.until("It says", "http://x.test/a")
        assert "\\x1b]0;mine\\x07" in text.replace("\n", "")
        assert b"\x1b]0" not in desk.raw
        assert b"\x1b]8" not in desk.raw
        assert b"\x1b[2J" not in desk.raw
        assert b"\x1b[31mred" not in desk.raw
        assert b"\xc2\x9b" not in desk.raw


def test_tab_completes_commands_what_they_take_and_paths(folder: Path) -> None:
    with at_the_desk(folder) as desk:
        desk.ready()
        desk.type("/wh\t")
        desk.until("› /why")
        desk.type(" exe\t")
        desk.until("› /why exec")
        desk.type("\x15read pri\t")
        desk.until("› read prices.py")


def test_lines_are_joined_by_a_backslash_or_alt_enter(folder: Path) -> None:
    with (
        talking(Say(text="Heard.")) as server,
        at_the_desk(folder, "--config", crib_with(server, folder.parent)) as desk,
    ):
        desk.ready()
        desk.type("one\\\rtwo\x1b\rthree\r")
        desk.until("Heard.")
        [message] = [each for each in server.asked[-1].body["messages"] if each["role"] == "user"]
        assert "one\ntwo\nthree" in str(message["content"]).replace("\\n", "\n")


def test_what_was_typed_is_kept_for_nobody_else(folder: Path) -> None:
    with at_the_desk(folder) as desk:
        desk.ready()
        desk.say("run echo hi")
        desk.until("Run it?")
        desk.say("y")
        desk.until("connects one")
        desk.say("exit")
        assert desk.left() == 0
    kept = folder.parent / "home" / "state" / "chat_history"
    assert kept.stat().st_mode & 0o777 == 0o600
    assert [line for line in kept.read_text().splitlines() if line.startswith("+")] == ["+run echo hi", "+exit"]
    with at_the_desk(folder) as desk:
        desk.ready("Going on with")
        desk.type("\x1b[A\x1b[A")
        desk.until_true(lambda: desk.text.endswith("\n› run echo hi\n"), "the line before the last")


def test_ctrl_c_throws_a_line_away_then_warns_then_leaves(folder: Path) -> None:
    with at_the_desk(folder) as desk:
        desk.ready()
        desk.type("half a thou")
        desk.until("half a thou")
        desk.type("\x03")
        desk.until_true(lambda: "half" not in desk.text, "an empty line")
        desk.type("\x03")
        desk.until("once more")
        desk.type("\x03")
        assert desk.left() == 0


def test_a_person_in_a_hurry_leaves_at_once(folder: Path) -> None:
    with talking(call("exec", '{"command": "trap \\"\\" TERM INT; echo on; sleep 60"}')) as server:
        crib = crib_with(server, folder.parent, "tools: {exec: {security: full, ask: 'off'}}")
        with at_the_desk(folder, "--config", crib) as desk:
            desk.ready()
            desk.say("never end")
            desk.until("  on\n")
            desk.type("\x03\x03")
            assert desk.left() in (0, 130)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_the_end_of_the_terminal_is_a_farewell(folder: Path, number: signal.Signals) -> None:
    with at_the_desk(folder) as desk:
        desk.ready()
        os.kill(desk.process.pid, number)
        assert desk.left() == 0


def plainly(folder: Path, *args: str, **env: str) -> Desk:
    with at_the_desk(folder, *args, env=env) as desk:
        desk.ready()
        desk.type("run echo hi\n")
        desk.until("Run it?")
        desk.type("y\n")
        desk.prompted("connects one")
        desk.type(f"{EDIT}\n")
        desk.prompted("first at line 2.\n\n>")
        desk.type("/undo\n")
        desk.prompted("is as it was")
        desk.type("/quit\n")
        assert desk.left() == 0
        return desk


def test_a_plain_chat_never_moves_the_cursor(folder: Path) -> None:
    desk = plainly(folder, "--plain")
    assert not MOVES.search(desk.raw)
    golden("plain", desk, folder)


def test_a_dumb_terminal_gets_a_plain_chat(folder: Path) -> None:
    assert not MOVES.search(plainly(folder, TERM="dumb").raw)


def test_a_plain_chat_is_stopped_and_left_by_ctrl_c(folder: Path) -> None:
    with talking(LONG) as server, at_the_desk(folder, "--plain", "--config", crib_with(server, folder.parent)) as desk:
        desk.ready()
        desk.type("work\n")
        desk.until("Run it?")
        desk.type("y\n")
        desk.until("s: working")
        desk.type("\x03")
        desk.until("stopped")
        desk.type("\x03")
        desk.until("once more")
        desk.type("\x03")
        assert desk.left() == 0


def test_without_colour_there_is_none(folder: Path) -> None:
    with at_the_desk(folder, env={"NO_COLOR": "1"}) as desk:
        desk.ready()
        desk.say(EDIT)
        desk.until("connects one.)\n\n›")
        assert not re.search(rb"\x1b\[[0-9;]*\b(3[0-8]|4[0-8]|9[0-7])\b[0-9;]*m", desk.raw)


@pytest.mark.parametrize("columns", [40, 80, 132])
def test_no_line_is_wider_than_the_terminal(folder: Path, columns: int) -> None:
    with at_the_desk(folder, columns=columns, rows=60) as desk:
        desk.ready()
        desk.say("/help")
        desk.until("a slash.")
        desk.say("/tools")
        desk.until("more about one")
        # the emulator would have folded a line that is too long in the middle of a word
        assert "denied (" in desk.text
        assert [line for line in desk.text.splitlines() if len(line) >= columns] == []


def test_a_picture_goes_with_the_next_message_and_no_other(folder: Path) -> None:
    (folder / "my sign.png").write_bytes(save(draw("Nuts", size=(300, 100))))
    with (
        talking(Say(text="It says nuts.")) as server,
        at_the_desk(folder, "--config", crib_with(server, folder.parent, "agents: {main: {imageModel: 'local:small'}}"))
        as desk,
    ):  # fmt: skip
        desk.ready()
        desk.say("/image gone.png")
        desk.until("No such file")
        desk.say("/image my sign.png")
        desk.until("my sign.png goes with your next message.")
        desk.say("what is it?")
        desk.prompted("It says nuts.")  # what it took may stand below it
        desk.say("and now?")
        desk.until_true(lambda: desk.text.count("It says nuts.\n\n") == 2, "the second answer")
    shown = [
        str(each["content"]).count("data:image/png")
        for each in server.asked[-1].body["messages"]
        if each["role"] == "user"
    ]
    assert shown == [1, 0]


def test_other_sessions_wait_while_a_turn_runs(folder: Path) -> None:
    crib_text = "tools: {exec: {security: full, ask: 'off'}}"
    with (
        talking(LONG) as server,
        at_the_desk(folder, "--config", crib_with(server, folder.parent, crib_text)) as desk,
    ):
        desk.ready()
        desk.say("work")
        desk.until("  working\n")
        desk.say("/new")
        desk.until("a turn runs; /stop ends it")
        desk.say("/stop")
        desk.until("stopped before it was done")
        desk.say("/new")
        desk.until_true(lambda: desk.text.count("what else there is") == 2, "a new session")


def test_a_pipe_is_answered_line_by_line(folder: Path) -> None:
    ran = piped(folder, "search TODO in *.py\nread prices.py\n/why exec")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "    def price(item):\n        return 3" in ran.stdout
    assert ran.stdout.endswith(
        "  no layer says anything about it\nEach command line is judged by itself: /why exec git push says how.\n"
    )
    assert "\x1b" not in ran.stdout


def test_lines_of_a_pipe_are_joined_by_a_backslash(folder: Path) -> None:
    with talking(Say(text="Heard.")) as server:
        ran = piped(folder, "one\\\ntwo\n", "--config", str(crib_with(server, folder.parent)))
        assert "Heard." in ran.stdout
        assert "one\\ntwo" in str([each for each in server.asked[-1].body["messages"] if each["role"] == "user"])


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--new", "--session", "agent:main:main"], "both say which session"),
        (["--session", "a/../b"], "holds what no key may"),
        (["--model", "nobody:x"], "nobody"),
    ],
)
def test_a_bad_option_is_told_in_one_sentence(folder: Path, args: list[str], words: str) -> None:
    ran = piped(folder, "", *args)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert words in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_no_other_command_loads_what_a_chat_needs() -> None:
    code = (
        "import sys\nfrom toolcrib.doors.cli.main import run\n"
        "assert run(['--help']) == 0\nassert run(['run', '--help']) == 0\n"
        "print([name for name in ('rich', 'prompt_toolkit', 'toolcrib.doors.cli.chat') if name in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ran.stdout.splitlines()[-1] == "[]"


def piped(folder: Path, text: str, *args: str) -> "subprocess.CompletedProcess[str]":
    home = str(folder.parent)
    env = {"PATH": os.environ["PATH"], "HOME": home, "TOOLCRIB_STATE": f"{home}/state", "XDG_CONFIG_HOME": home}
    command = [sys.executable, "-m", "toolcrib.doors.cli.main", "chat", *args]
    return prestarted.run(command, input=text, capture_output=True, text=True, cwd=folder, env=env, timeout=120)
