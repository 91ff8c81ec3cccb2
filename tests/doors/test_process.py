"""The command as a process: what a shell, a closed pipe and Ctrl-C make of it."""

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests import prestarted

from toolcrib import __version__

from .world import crib_file, plugin_folder

COMMAND = (sys.executable, "-m", "toolcrib.doors.cli.main")
SECONDS = 120

WAITING = '''\
import asyncio, os, threading
from toolcrib import Plugin, tool


@tool(effects=set())
async def dice() -> str:
    """Wait on the loop."""
    os.write({ready}, b"x")
    await asyncio.Event().wait()
    return "never"


@tool(effects=set())
def thread() -> str:
    """Wait in a thread."""
    os.write({ready}, b"x")
    threading.Event().wait()
    return "never"


plugin = Plugin(name="dice", tools=(dice, thread))
'''
MANIFEST: dict[str, Any] = {
    "tools": [{"name": name, "description": "Wait.", "effects": []} for name in ("dice", "thread")]
}


def surroundings() -> dict[str, str]:
    paths = [path for path in sys.path if path]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def done(*args: str | Path, stdin: int = subprocess.DEVNULL) -> subprocess.CompletedProcess[str]:
    return prestarted.run(
        [*COMMAND, *map(str, args)], env=surroundings(), stdin=stdin, capture_output=True, text=True, timeout=SECONDS
    )


@contextlib.contextmanager
def started(args: Sequence[str | Path], **options: int | tuple[int, ...]) -> Iterator[subprocess.Popen[str]]:
    """A command that runs beside the test, and never longer than it."""
    streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    words = [*COMMAND, *map(str, args)]
    process = prestarted.Popen(words, env=surroundings(), text=True, **streams)  # type: ignore[call-overload]  # options
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_it_runs_as_a_module() -> None:
    ran = done("--version")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"toolcrib {__version__}\n", "")


def test_an_error_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    ran = done("lint", "--config", crib_file(tmp_path, "tools: {denny: [exec]}"))
    expected = f"toolcrib: {tmp_path}/crib.yaml:1: tools.denny: unknown key; did you mean 'deny'?\n"
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", expected)


@pytest.mark.parametrize("command", ["explain", "explain --json", "tour", "tools list", "--help"])
def test_a_reader_that_has_seen_enough_is_no_error(command: str) -> None:
    with started(command.split()) as process:
        assert process.stdout is not None
        process.stdout.close()  # as head does, only sooner
        _, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, err) == (0, "")


def test_head_gets_its_line(tmp_path: Path) -> None:
    pipeline = f"set -o pipefail; {' '.join(COMMAND)} explain | head -1"
    ran = subprocess.run(
        ["bash", "-c", pipeline], env=surroundings(), capture_output=True, text=True, timeout=SECONDS, cwd=tmp_path
    )
    assert ran.stdout.split() == ["tool", "verdict", "layer", "because"]
    assert ran.stderr == ""


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full, started(["explain"], stdout=full.fileno()) as process:
        _, err = process.communicate(timeout=SECONDS)
    assert process.returncode == 2
    assert err.startswith("toolcrib: could not finish (No space left on device)")
    assert len(err.splitlines()) == 1


def test_a_folder_that_is_gone_is_no_obstacle(tmp_path: Path) -> None:
    line = f"mkdir {tmp_path}/gone && cd {tmp_path}/gone && rmdir {tmp_path}/gone && {' '.join(COMMAND)} explain exec"
    ran = subprocess.run(["bash", "-c", line], env=surroundings(), capture_output=True, text=True, timeout=SECONDS)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("exec is allowed")


def test_closed_streams_are_nobodys_terminal(tmp_path: Path) -> None:
    folder = plugin_folder(tmp_path / "plugins")
    crib = crib_file(tmp_path, f"plugins: {{folders: ['{folder}'], allow: [dice]}}\ntools: {{ask: [dice]}}")
    line = f"{' '.join(COMMAND)} tools call dice --config {crib} <&-"
    ran = subprocess.run(["bash", "-c", line], env=surroundings(), capture_output=True, text=True, timeout=SECONDS)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "a human is asked for dice (tools.ask), and there is nobody to ask\n"


def test_what_a_terminal_cannot_show_is_escaped(tmp_path: Path) -> None:
    crib = crib_file(tmp_path, "channels: {telegram: {groups: {'😀': {tools: {deny: [exec]}}}}}")
    env = {**surroundings(), "PYTHONIOENCODING": "latin-1", "PYTHONUTF8": "0"}
    ran = subprocess.run(
        [*COMMAND, "explain", "exec", "--config", str(crib), "--channel", "telegram", "--group", "😀"],
        env=env, capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "channels.telegram.groups.\\U0001f600.tools" in ran.stdout


def test_nothing_but_utf8_is_a_name(tmp_path: Path) -> None:
    ran = subprocess.run(
        [*COMMAND, "explain", "--json", "--sender", b"id:\xff"],
        env=surroundings(),
        capture_output=True,
        timeout=SECONDS,
    )
    assert (ran.returncode, ran.stdout) == (2, b"")
    assert ran.stderr == b"toolcrib: --sender holds a control character or is not UTF-8; write it without\n"


# Ctrl-C


@pytest.mark.parametrize("tool", ["dice", "thread"])
def test_ctrl_c_leaves_at_once_with_130(tmp_path: Path, tool: str) -> None:
    ready, tell = os.pipe()
    folder = plugin_folder(tmp_path / "plugins", WAITING.format(ready=tell), manifest=MANIFEST)
    crib = crib_file(tmp_path, f"plugins: {{folders: ['{folder}'], allow: [dice]}}")
    with started(["tools", "call", tool, "--config", crib, "--json"], pass_fds=(tell,)) as process:
        os.close(tell)
        assert os.read(ready, 1) == b"x"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    os.close(ready)
    assert (process.returncode, out, err) == (130, "", "toolcrib: interrupted\n")


@pytest.mark.parametrize("module", ["click", "orjson"])
def test_ctrl_c_while_it_is_loaded_is_one_sentence_too(tmp_path: Path, module: str) -> None:
    (tmp_path / f"{module}.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    ran = subprocess.run(
        [sys.executable, "-m", "toolcrib", "lint"],
        env={**surroundings(), "PYTHONPATH": str(tmp_path)}, capture_output=True, timeout=SECONDS,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, b"", b"toolcrib: interrupted\n")


@contextlib.contextmanager
def at_a_terminal(crib: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A call whose stdin is a terminal, up to the moment it asks; and the terminal's other end."""
    ours, theirs = pty.openpty()
    with started(["tools", "call", "dice", '{"sides": 20}', "--config", crib], stdin=theirs) as process:
        os.close(theirs)
        assert process.stderr is not None
        asked = ""
        while not asked.endswith("Run it? [y]es once, [s]ession, [t]ime, [n]o: "):
            more = process.stderr.read(1)
            assert more, asked
            asked += more
        assert "sides: 20" in asked
        yield process, ours
    os.close(ours)


@pytest.fixture
def asking(tmp_path: Path) -> Path:
    folder = plugin_folder(tmp_path / "plugins")
    return crib_file(tmp_path, f"plugins: {{folders: ['{folder}'], allow: [dice]}}\ntools: {{ask: [dice]}}")


@pytest.mark.parametrize(
    ("answer", "code", "out", "err"),
    [
        (b"y\n", 0, "20 sides\n", ""),
        (b"n\n", 1, "", "a human refused dice\n"),
        (b"\n", 1, "", "a human refused dice\n"),
    ],
)
def test_a_question_at_a_terminal_is_answered_there(asking: Path, answer: bytes, code: int, out: str, err: str) -> None:
    with at_a_terminal(asking) as (process, terminal):
        os.write(terminal, answer)
        said, told = process.communicate(timeout=SECONDS)
    assert (process.returncode, said, told) == (code, out, err)


def wait_until_it_reads(process: subprocess.Popen[str]) -> None:
    """Return when the process sleeps: after its question, it can only be waiting for the answer."""
    end = time.monotonic() + SECONDS
    while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "S":
        assert time.monotonic() < end


def test_ctrl_c_at_a_question_leaves_with_130(asking: Path) -> None:
    with at_a_terminal(asking) as (process, _):
        wait_until_it_reads(process)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=SECONDS)
    assert (process.returncode, out, err.strip()) == (130, "", "toolcrib: interrupted")


def test_json_never_asks_even_at_a_terminal(asking: Path) -> None:
    ours, theirs = pty.openpty()
    ran = done("tools", "call", "dice", "--config", asking, "--json", stdin=theirs)
    os.close(theirs)
    os.close(ours)
    assert (ran.returncode, json.loads(ran.stdout)["details"]["code"]) == (1, "not_approved")
