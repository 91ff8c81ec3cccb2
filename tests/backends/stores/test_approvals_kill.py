"""Killed at any moment, or raced by another process: what was acknowledged is there, and no yes is spent twice."""

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.racers import race

from toolcrib.backends.stores.approvals import SqliteApprovals
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.approval import Question

STRACE = shutil.which("strace")
SECONDS = 120

_CALLS = "write,pwrite64,fsync,fdatasync,rename,unlink,link,linkat,mkdir,ftruncate,fallocate,openat"

_MARKED = "stat,newfstatat,statx"

_WORLD = """
import asyncio, os, sys
from pathlib import Path
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.backends.stores.approvals import SqliteApprovals
from toolcrib.define.approval import Grant, Question, Yes

async def here(function, /, *args, **named):
    return function(*args, **named)  # strace counts the calls of every thread apart

def question(id):
    return Question(
        id=id, digest="d", tool="exec", reason="", shown="x" * 5000, person="", asked_at=100.0, expires_at=400.0
    )

def told(word):
    os.write(1, word.encode() + b"\\n")

store = SqliteApprovals(SqliteFile(Path(sys.argv[1])), run=here)
"""
_LIFE = (
    _WORLD
    + """
async def main():
    await store.add(question("q"), most=9)
    told("asked")
    grant = Grant(id="g", digest="d", tool="exec", shown="", person="", by="", made_at=100.0, until=200.0)
    await store.say_yes("q", Yes("", "", True, (0,)), now=101.0, grant=grant)
    told("allowed")
    if await store.settle("q", "spent", of=["allowed"], now=102.0):
        told("spent")

os.path.exists("/a-mark")
asyncio.run(main())
"""
)
_RACE = (
    _WORLD
    + """
async def main():
    await store.find("q0")
    told("ready")
    sys.stdin.readline()
    for number in range(int(sys.argv[2])):
        if await store.settle(f"q{number}", "spent", of=["allowed"], now=102.0):
            told(f"q{number}")

asyncio.run(main())
"""
)


def command(script: Path, *args: str) -> list[str]:
    return [sys.executable, "-SB", str(script), *args]


def surroundings() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def traced(script: Path, path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    assert STRACE is not None
    shutil.rmtree(path.parent, ignore_errors=True)
    return subprocess.run(
        [STRACE, "-f", "-qq", "-y", "-e", f"trace={_CALLS},{_MARKED}", *options, *command(script, str(path))],
        env=surroundings(), capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


def calls_of(script: Path, path: Path, log: Path) -> list[tuple[str, int, str]]:
    """Return every call after the mark that changes something: its name, how many of that name came before, and all.

    Those of the first thread alone: the anchor is synced beside it, some times more often than others.
    """
    ran = traced(script, path, "-o", str(log))
    assert (ran.returncode, ran.stdout) == (0, "asked\nallowed\nspent\n"), ran.stderr
    numbers, is_marked, found = Counter[str](), False, []
    lines = [line.split(maxsplit=1) for line in log.read_text().splitlines()]
    for call in (call for thread, call in lines if thread == lines[0][0]):
        name = call.partition("(")[0]
        is_marked = is_marked or "/a-mark" in call
        if name in _CALLS.split(","):
            numbers[name] += 1
            if is_marked:
                found.append((name, numbers[name], call))
    return found


async def state_of(path: Path) -> tuple[Question | None, bool, bool]:
    """Return the question, whether its grant is there, and whether its yes can still be spent, at the next start."""
    store = SqliteApprovals(SqliteFile(path))
    question = await store.find("q")
    granted = await store.use_grant(["d"], 150.0) is not None
    return question, granted, await store.settle("q", "spent", of=["allowed"], now=103.0)


needs_strace = pytest.mark.skipif(STRACE is None, reason="strace is not installed")


def killed_everywhere(base: Path, every: int) -> None:
    script, path = base / "life.py", base / "state" / "crib.db"
    script.write_text(_LIFE)
    calls = calls_of(script, path, base / "calls.log")
    assert len(calls) > 15
    for name, number, call in calls[::every]:
        ran = traced(script, path, "-o", "/dev/null", "-e", f"inject={name}:signal=KILL:when={number}")
        assert ran.returncode != 0, f"was not killed at {call}"
        said = ran.stdout.split()
        question, granted, spends = asyncio.run(state_of(path))
        assert question is not None or "asked" not in said, call
        state = question.state if question else None
        assert granted is (state in ("allowed", "spent")), call  # a grant and its answer are one step
        assert state in ("allowed", "spent") or "allowed" not in said, call
        assert state == "spent" or "spent" not in said, call
        assert said.count("spent") + spends <= 1, call
        assert spends is (state == "allowed"), call
        left = {each.name for each in path.parent.iterdir()} if path.parent.exists() else set()
        assert not any("broken" in each for each in left), call


@needs_strace
def test_killed_at_any_call_what_was_told_is_kept_and_spent_once(tmp_path: Path) -> None:
    killed_everywhere(tmp_path, every=8)


@needs_strace
@pytest.mark.full
@pytest.mark.timeout(600)
def test_killed_at_every_call_what_was_told_is_kept_and_spent_once(tmp_path: Path) -> None:
    killed_everywhere(tmp_path, every=1)


@needs_strace
def test_nothing_is_told_before_the_disk_has_it(tmp_path: Path) -> None:
    script, path = tmp_path / "life.py", tmp_path / "state" / "crib.db"
    script.write_text(_LIFE)
    unsynced, told = False, []
    for name, _, call in calls_of(script, path, tmp_path / "calls.log"):
        if name == "pwrite64" and "crib.db-wal" in call:
            unsynced = True
        elif name in ("fsync", "fdatasync") and "crib.db-wal" in call:
            unsynced = False
        elif name == "write" and (word := re.search(r'"(\w+)\\n"', call)):
            told.append((word[1], unsynced))
    assert told == [("asked", False), ("allowed", False), ("spent", False)]


def test_two_processes_spend_each_yes_once(tmp_path: Path) -> None:
    count, path, script = 40, tmp_path / "crib.db", tmp_path / "race.py"
    script.write_text(_RACE)
    asyncio.run(all_allowed(path, count))
    words = command(script, str(path), str(count))
    won = [told.split() for told in race([(words, surroundings())] * 2)]
    assert sorted(won[0] + won[1]) == sorted(f"q{number}" for number in range(count))


async def all_allowed(path: Path, count: int) -> None:
    store = SqliteApprovals(SqliteFile(path))
    base: dict[str, Any] = {"digest": "d", "tool": "exec", "reason": "", "shown": "", "person": ""}
    for number in range(count):
        await store.add(Question(id=f"q{number}", asked_at=100.0, expires_at=400.0, **base), most=count)
        await store.settle(f"q{number}", "allowed", of=["pending"])
