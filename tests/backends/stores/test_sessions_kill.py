"""Killed at any moment: no line that was acknowledged is lost, doubled, out of order or unreadable.

The kernel survives a kill, so that a kill alone does not tell what a loss of power would do; the order of system calls
does. Both are shown to find what they are there to find: a store that acknowledges too early, and one that never syncs.
"""

import asyncio
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import prestarted

from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.sessions import SqliteSessions
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.log import Line

STRACE = shutil.which("strace")
SECONDS = 120
KEYS = ("one", "two", "three")

_WORLD = """
import asyncio, os, resource, sys
from pathlib import Path
from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.backends.stores.sessions import SqliteSessions
from toolcrib.define.errors import ToolError
from toolcrib.define.log import Line, Said, SessionHead
from toolcrib.define.message import Message
from toolcrib.define.result import Image, Text

class Hasty(Commits):
    def submit(self, step, /, *, size=0):
        super().submit(step, size=size)
        told = asyncio.get_running_loop().create_future()
        told.set_result(None)
        return told  # before anything was written

def opened(path, how):
    return SqliteSessions({"kept": Commits, "hasty": Hasty}.get(how, Commits)(SqliteFile(path, sync=how != "unsynced")))

def line(key, number):
    parts = (Text("x" * (number % 7) * 300),)
    if number % 5 == 0:
        parts += (Image(f"{key}.{number}".encode() * 500, "image/png"),)
    above = f"{key}.{number - 1}" if number > 1 else None
    return Line(f"{key}.{number}", above, float(number), Said(Message(role="user", content=parts)))

def told(words):
    os.write(1, words.encode() + b"\\n")
"""
_LIVES = (
    _WORLD
    + """
async def life(store, key):
    await store.make(SessionHead(key=key, made_at=0.0, changed_at=0.0))
    at = len(await store.lines(key))
    while True:
        count = at % 3 + 1
        await store.append(key, [line(key, at + 1 + each) for each in range(count)], at=at)
        at += count
        told(f"{key} {at}")
        await asyncio.sleep(0)

async def lives(path):
    store = opened(path, sys.argv[1])
    await asyncio.gather(*(life(store, key) for key in sys.argv[2:]))

for path in sys.stdin:  # once for every life, so that nobody waits for imports
    if (child := os.fork()) == 0:
        told(f"pid {os.getpid()}")
        asyncio.run(lives(Path(path.rstrip("\\n"))))
    os.waitpid(child, 0)
    told("ended -")
"""
)
_ONE = (
    _WORLD
    + """
async def main():
    store = opened(Path(sys.argv[1]), sys.argv[2])
    await store.make(SessionHead(key="one", made_at=0.0, changed_at=0.0))
    os.path.exists("/a-mark")
    for number in range(1, 7):
        await store.append("one", [line("one", number)], at=number - 1)
        told(f"told {number}")

asyncio.run(main())
"""
)
_FULL = (
    _WORLD
    + """
async def main():
    path = Path(sys.argv[1])
    store = opened(path, "kept")
    await store.make(SessionHead(key="one", made_at=0.0, changed_at=0.0))
    await store.append("one", [line("one", 1)], at=0)
    _, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.with_name("crib.db-wal").stat().st_size + 100, most))
    for _ in range(2):
        try:
            await store.append("one", [line("one", 2)], at=1)
        except ToolError as error:
            told(f"refused {error.code}")
    told(f"has {len(await store.lines('one'))}")
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    await store.append("one", [line("one", 2)], at=1)
    told(f"has {len(await store.lines('one'))}")

asyncio.run(main())
"""
)

needs_strace = pytest.mark.skipif(STRACE is None, reason="strace is not installed")


def command(folder: Path, source: str, *args: str) -> list[str]:
    script = folder / "script.py"
    script.write_text(source)
    return [sys.executable, "-SB", str(script), *args]


def surroundings() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


class Lives:
    """A process that lives, is killed, and lives again."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        self.process, self.out, self.rest = process, process.stdout.fileno(), b""
        os.set_blocking(self.out, False)

    def words(self, seconds: float) -> Iterator[tuple[str, str]]:
        """Give what is said, until nothing is for so long."""
        while True:
            line, end, rest = self.rest.partition(b"\n")
            if end:
                self.rest = rest
                name, _, value = line.decode().partition(" ")
                yield name, value
            elif select.select([self.out], [], [], seconds)[0]:
                more = os.read(self.out, 65_536)
                assert more, "the process ended"
                self.rest += more
            else:
                return

    def killed(self, path: Path, chance: random.Random) -> dict[str, int]:
        """Return how many lines of each session were acknowledged in one life, killed at some moment of it."""
        assert self.process.stdin is not None
        self.process.stdin.write(os.fsencode(path) + b"\n")
        self.process.stdin.flush()
        told: dict[str, int] = {}
        pid, after = 0, chance.randrange(25)
        for name, value in self.words(SECONDS):
            if name == "pid":
                pid = int(value)
            elif name == "ended":
                assert pid
                return told
            else:
                told[name] = int(value)
                after -= 1
            if after == 0 and pid:
                for name, value in self.words(chance.random() / 500):  # somewhere before, in or after the next commit
                    told[name] = int(value)
                    if chance.random() < 0.3:
                        break
                os.kill(pid, signal.SIGKILL)
        raise AssertionError("nothing more was said")


@contextmanager
def lives(folder: Path, how: str) -> Iterator[Lives]:
    process = prestarted.Popen(
        command(folder, _LIVES, how, *KEYS), env=surroundings(), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        yield Lives(process)
    finally:
        process.kill()
        process.communicate()


async def found(path: Path) -> dict[str, tuple[Line, ...]]:
    commits = Commits(SqliteFile(path))
    store = SqliteSessions(commits)
    try:
        return {key: await store.lines(key) for key in KEYS}
    finally:
        commits.close()


def losses(folder: Path, how: str, kills: int) -> Iterator[Counter[str]]:
    """Give what was wrong after every kill, by kind. A store lives 20 times."""
    chance = random.Random(random.randrange(1 << 32))  # which follows the seed of the run
    before = dict.fromkeys(KEYS, 0)
    with lives(folder, how) as each:
        for number in range(kills):
            path = folder / f"state{number // 20}" / "crib.db"
            if number % 20 == 0:
                before = dict.fromkeys(KEYS, 0)
            told = each.killed(path, chance)
            wrong: Counter[str] = Counter()
            for key, lines in asyncio.run(found(path)).items():  # and whatever cannot be read is raised
                wrong["lost"] += len(lines) < max(told.get(key, 0), before[key])
                wrong["doubled"] += len({line.id for line in lines}) != len(lines)
                wrong["disordered"] += [line.id for line in lines] != [f"{key}.{n + 1}" for n in range(len(lines))]
                before[key] = len(lines)
            wrong["broken"] += len(list(path.parent.glob("*broken*")))
            wrong["idle"] += number % 20 == 19 and sum(before.values()) < 20  # it did live
            yield +wrong


def test_killed_at_some_moments_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    assert list(losses(tmp_path, "kept", 20)) == [Counter()] * 20


@pytest.mark.full
@pytest.mark.timeout(600)
def test_killed_at_many_moments_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    assert list(losses(tmp_path, "kept", 300)) == [Counter()] * 300


def test_kills_find_a_store_that_acknowledges_too_early(tmp_path: Path) -> None:
    assert any(wrong["lost"] for wrong in losses(tmp_path, "hasty", 200))


def synced(folder: Path, how: str) -> list[bool]:
    """Return for every acknowledgement whether its line was written and synced before, by the calls of all threads."""
    assert STRACE is not None
    log, calls = folder / "calls.log", "write,pwrite64,fsync,fdatasync,stat,newfstatat,statx"
    ran = subprocess.run(
        [STRACE, "-f", "-qq", "-y", "-e", f"trace={calls}", "-o", str(log),
         *command(folder, _ONE, str(folder / "state" / "crib.db"), how)],
        env=surroundings(), capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert ran.stdout.splitlines() == [f"told {number}" for number in range(1, 7)], ran.stderr
    begun: dict[str, str] = {}
    is_marked, written, is_synced, told = False, 0, True, []
    for line in log.read_text().splitlines():
        thread, _, call = line.partition(" ")
        call = call.strip()
        if call.endswith("<unfinished ...>"):
            begun[thread] = call
            continue
        if call.startswith("<..."):
            call = begun.pop(thread) + call
        is_marked = is_marked or "/a-mark" in call
        if not is_marked:
            continue
        if call.startswith("pwrite64") and "crib.db-wal" in call:
            written, is_synced = written + 1, False
        elif call.startswith(("fsync", "fdatasync")) and "crib.db-wal" in call:
            is_synced = True
        elif re.match(r'write\(1.*"told', call):
            told.append(bool(written) and is_synced)
            written = 0
    return told


@needs_strace
def test_nothing_is_acknowledged_before_the_disk_has_it(tmp_path: Path) -> None:
    assert synced(tmp_path, "kept") == [True] * 6


@needs_strace
@pytest.mark.parametrize("how", ["unsynced", "hasty"])
def test_calls_show_a_store_that_does_not_wait_for_the_disk(tmp_path: Path, how: str) -> None:
    assert False in synced(tmp_path, how)


def test_when_nothing_more_can_be_written_it_is_refused_until_there_is_room_again(tmp_path: Path) -> None:
    ran = prestarted.run(
        command(tmp_path, _FULL, str(tmp_path / "state" / "crib.db")), env=surroundings(), capture_output=True,
        text=True, timeout=SECONDS,
    )  # fmt: skip
    assert ran.stdout.splitlines() == ["refused unavailable", "refused unavailable", "has 1", "has 2"], ran.stderr
