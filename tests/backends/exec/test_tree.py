"""Nothing of a command stays: whatever shape its tree has, however it ends, and whoever dies."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests import prestarted

from toolcrib.backends.exec import tree
from toolcrib.backends.exec.supervisor import SupervisorClient, end_leftovers
from toolcrib.define.shell import CommandLimits

from .shells import COUNTS, KINDS, SHAPES, descriptors, left, marker, opened, ran, started, until

pytestmark = pytest.mark.anyio

# Starts every shape, says so, and waits to be killed.
PARENT = """
import asyncio, sys
from toolcrib.backends.exec.bubblewrap import Bubblewrap
from toolcrib.backends.exec.host import Host
from toolcrib.backends.exec.supervisor import SupervisorClient
from toolcrib.define.shell import Command, CommandLimits

async def main(kind, root, state, *lines):
    supervisor = SupervisorClient(state)
    shell = Host(root, supervisor) if kind == "host" else Bubblewrap(root, supervisor=supervisor)
    for line in lines:
        await shell.start(Command(line=line, env={"PATH": "/usr/bin:/bin"}), CommandLimits(seconds=None))
    print("started", supervisor._pid, flush=True)
    await asyncio.Event().wait()

asyncio.run(main(*sys.argv[1:]))
"""


def zombies() -> list[int]:
    """Return our children that nobody has reaped."""
    return [pid for pid in tree.children(os.getpid()) if (fields := tree.stat(pid)) and fields[0] == "Z"]


async def test_a_parent_hears_of_the_end_before_its_children_do(tmp_path: Path) -> None:
    mark = marker()
    async with opened("host", tmp_path / "ws") as shell:
        running = await started(shell, f"bash -c 'sleep {mark} & wait' & wait")
        await until(lambda: bool(left(mark)))
        in_order = tree.descendants([running.pid])
        assert (in_order[0], in_order[-1], len(in_order)) == (running.pid, *left(mark), 3)
        assert tree.descendants(in_order) == in_order  # how a control group names them: every one a root


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["timeout", "stop", "close"])
async def test_no_process_outlives_its_command(tmp_path: Path, kind: str, way: str) -> None:
    marks = {shape: marker() for shape in SHAPES}
    supervisor = SupervisorClient(str(tmp_path / "state"))
    async with opened(kind, tmp_path / "ws", supervisor=supervisor) as shell:
        await ran(shell, "true")
        before = descriptors()
        limits = CommandLimits(seconds=3.0 if way == "timeout" else None)
        running = {shape: await started(shell, line.format(m=marks[shape]), limits) for shape, line in SHAPES.items()}
        for shape, each in running.items():
            await until(lambda: len(left(marks[shape])) == COUNTS[shape] or each.ended is not None)  # noqa: B023  now
        if way == "close":
            await supervisor.close()
            await until(lambda: all(each.ended is not None for each in running.values()), 60.0)
            before -= 1  # the supervisor's socket
        else:
            for shape, each in running.items():
                ended = await (each.stop() if way == "stop" else each.wait())
                assert (shape, ended.reason, ended.left, left(marks[shape])) == (shape, way, 0, [])
        assert ({shape: left(mark) for shape, mark in marks.items()}, zombies()) == (
            {shape: [] for shape in SHAPES},
            [],
        )
        assert descriptors() <= before  # fewer where something of another test was collected meanwhile
        assert not list((tmp_path / "state").glob("command-*"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_no_process_outlives_the_parent(tmp_path: Path, kind: str, number: int) -> None:
    mark = marker()
    parent, _ = await started_parent(tmp_path, kind, mark)
    parent.send_signal(number)
    parent.wait(60)
    await until(lambda: not left(mark), 60.0)


@pytest.mark.parametrize("kind", KINDS)
async def test_what_was_running_is_told_at_the_next_start(tmp_path: Path, kind: str) -> None:
    mark = marker()
    parent, supervisor = await started_parent(tmp_path, kind, mark)
    assert end_leftovers(str(tmp_path / "state")) == []  # who lives keeps its own
    keepers = [supervisor, *tree.children(supervisor)]
    tree.send(keepers, signal.SIGSTOP)  # the worst day: parent, supervisor and who stands behind it go at once
    parent.kill()
    parent.wait(60)
    tree.send(keepers, signal.SIGKILL)
    found = end_leftovers(str(tmp_path / "state"))
    # who hides whose it is ends when the next supervisor starts
    async with opened(kind, tmp_path / "ws", supervisor=SupervisorClient(str(tmp_path / "next"))) as shell:
        await ran(shell, "true")
    await until(lambda: not left(mark), 60.0)
    assert sorted(each.command for each in found) == sorted(line.format(m=mark) for line in SHAPES.values())
    assert all(each.pid and each.started for each in found)
    assert any(each.pids for each in found) or kind == "sandbox"
    assert end_leftovers(str(tmp_path / "state")) == []
    assert not list((tmp_path / "state").iterdir())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("who", ["behind", "supervisor"])
async def test_a_killed_keeper_takes_its_commands_along_and_the_next_one_works(
    tmp_path: Path, kind: str, who: str
) -> None:
    mark = marker()
    supervisor = SupervisorClient(str(tmp_path / "state"))
    async with opened(kind, tmp_path / "ws", supervisor=supervisor) as shell:
        running = [await started(shell, line.format(m=mark), CommandLimits()) for line in SHAPES.values()]
        await until(lambda: len(left(mark)) == sum(COUNTS.values()))
        os.kill(supervisor._pid if who == "behind" else tree.children(supervisor._pid)[0], signal.SIGKILL)
        ends = [await each.wait() for each in running]
        assert {end.reason for end in ends} == {"lost"}
        await until(lambda: not left(mark), 60.0)
        ended, text = await ran(shell, "echo again")
        assert (ended.ok, text, zombies()) == (True, "again\n", [])


async def test_a_note_that_a_crash_has_torn_is_told_and_removed(tmp_path: Path) -> None:
    (tmp_path / "command-1-2.json").write_text('{"pid": 1')
    assert [each.command for each in end_leftovers(str(tmp_path))] == [""]
    assert not list(tmp_path.iterdir())


async def test_a_note_that_goes_while_it_is_looked_for_is_nothing_left(tmp_path: Path) -> None:
    (tmp_path / "command-1-2.json").symlink_to("gone")  # listed, and then not there
    assert end_leftovers(str(tmp_path)) == []


async def test_a_number_that_is_used_again_is_nobody_we_know(tmp_path: Path) -> None:
    other = subprocess.Popen(["sleep", "1000"])
    try:
        born = tree.birth(other.pid)
        assert born is not None
        note = {"pid": born[0], "born": born[1] - 1, "mark": 0, "owner": [1, -1], "command": "x", "started": 1.0}
        (tmp_path / "command-1-2.json").write_text(json.dumps(note))
        (left_over,) = end_leftovers(str(tmp_path))
        assert (left_over.pids, other.poll()) == ((), None)
    finally:
        other.kill()
        other.wait()


async def started_parent(tmp_path: Path, kind: str, mark: str) -> tuple["subprocess.Popen[str]", int]:
    """Return a process that runs every shape, and the number of its supervisor."""
    async with opened(kind, tmp_path / "ws"):
        pass
    lines = [line.format(m=mark) for line in SHAPES.values()]
    parent = prestarted.Popen(
        [sys.executable, "-c", PARENT, kind, str(tmp_path / "ws"), str(tmp_path / "state"), *lines],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert parent.stdout is not None
    with parent.stdout:
        word, supervisor = parent.stdout.readline().split()
    assert word == "started"
    try:
        await until(lambda: len(left(mark)) == sum(COUNTS.values()))
    except BaseException:
        parent.kill()
        parent.wait()
        raise
    return parent, int(supervisor)
