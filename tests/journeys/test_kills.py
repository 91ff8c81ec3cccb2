"""Killed at any moment of a turn: what was acknowledged is there, what was done is done once, doubts are told.

A kill leaves the kernel alive, so that it does not tell what a loss of power would do; the order of system calls does.
Both are shown to find what they are there to find.
"""

import asyncio
import json
import os
import random
import re
import select
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import prestarted

from .ledger import Ledger, kept_in

SECONDS = 120
PROJECT = Path(__file__).parents[2]
STRACE = shutil.which("strace")
SHOWN = ("turn", "tool", "heard", "end")
MARKS = 3 * 7  # five acknowledgements and two effects a turn

needs_strace = pytest.mark.skipif(STRACE is None, reason="strace is not installed")


class Lives:
    """A process that lives, is killed, and lives again."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        self._in, self._out, self._rest = process.stdin, process.stdout.fileno(), b""
        os.set_blocking(self._out, False)

    def words(self, seconds: float) -> Iterator[str]:
        """Give what is said, until nothing is for so long."""
        while True:
            line, end, rest = self._rest.partition(b"\n")
            if end:
                self._rest = rest
                yield line.decode()
            elif select.select([self._out], [], [], seconds)[0]:
                more = os.read(self._out, 65_536)
                assert more, "the process ended"
                self._rest += more
            else:
                return

    def killed(self, spec: Mapping[str, object], is_time: Callable[[str], bool], wait: float = 0.0) -> list[str]:
        """Return all that was said in one life, killed `wait` seconds after something that says that it is time."""
        self._in.write(json.dumps(spec).encode() + b"\n")
        self._in.flush()
        said: list[str] = []
        pid = 0
        for words in self.words(SECONDS):
            said.append(words)
            if words.startswith("pid "):
                pid = int(words.split()[1])
            elif words.startswith(("ended", "left")):
                return said
            if pid and is_time(words):
                if wait:
                    said += self.words(wait)
                os.kill(pid, signal.SIGKILL)
                pid = 0
        raise AssertionError(f"nothing more was said after {said[-5:]}")


def in_a_call(words: str) -> bool:
    return words.startswith("did ") and words.endswith(" slow")


def after(count: int) -> Callable[[str], bool]:
    """Return what says that it is time after so many words."""
    left = iter(range(count - 1, -1, -1))
    return lambda words: next(left, 0) == 0


def command(*args: str) -> list[str]:
    return [sys.executable, "-SB", "-m", "tests.journeys.life", *args]


def surroundings() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(PROJECT), *filter(None, sys.path)])}


@contextmanager
def lives() -> Iterator[Lives]:
    process = prestarted.Popen(command(), env=surroundings(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        yield Lives(process)
    finally:
        process.kill()
        process.communicate()


def wrong_in(home: Path, ledger: Ledger, said: Sequence[str]) -> list[str]:
    """Return what is wrong after a life that said all that."""
    effects = home / "effects"
    done = effects.read_text().splitlines() if effects.exists() else []
    wrong = ledger.wrong(said, asyncio.run(kept_in(home / "state")), done)
    return [*wrong, *(words for words in said if words.startswith("left"))]


def deaths(folder: Path, how: str, kills: int, seen: Counter[str]) -> Iterator[list[str]]:
    """Give what is wrong after every kill; a session lives 20 times. `seen` counts what there was to look at."""
    chance = random.Random(random.randrange(1 << 32))  # which follows the seed of the run
    ledger = Ledger()
    with lives() as each:
        for number in range(kills):
            home = folder / f"session{number // 20}"
            if number % 20 == 0:
                home.mkdir()
                ledger = Ledger()
            spec = {
                "folder": str(home), "number": number, "seed": chance.randrange(1 << 32), "how": how,
                "reuses_ids": number // 20 % 2 == 1,
            }  # fmt: skip
            if number % 4 == 3:
                said = each.killed(spec, in_a_call)
            else:  # somewhere before, in or after a commit
                said = each.killed(spec, after(chance.randrange(1, 30)), chance.random() / 300)
            yield wrong_in(home, ledger, said)
            seen.update(ledger.seen)
            ledger.seen.clear()


def unharmed(folder: Path, kills: int) -> Counter[str]:
    seen: Counter[str] = Counter()
    assert list(deaths(folder, "kept", kills, seen)) == [[]] * kills
    return seen


def test_killed_at_some_moments_of_a_turn_nothing_is_lost_doubled_or_repeated(tmp_path: Path) -> None:
    seen = unharmed(tmp_path, 20)
    words = ("turn", "tool", "end", "did", "asked", "told uncertain")
    assert {word: seen[word] for word in words if not seen[word]} == {}, "so nothing was shown about it"


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_killed_at_many_moments_of_a_turn_nothing_is_lost_doubled_or_repeated(tmp_path: Path) -> None:
    seen = unharmed(tmp_path, 300)
    words = ("turn", "tool", "end", "did", "asked", "told uncertain", "told unrun", "heard", "shortened")
    assert {word: seen[word] for word in words if seen[word] < 10} == {}, "so little was shown about it"


def test_kills_find_a_crib_that_acknowledges_too_early(tmp_path: Path) -> None:
    early = ("lost or doubled", "nothing says that it began")
    wrong = (complaint for each in deaths(tmp_path, "hasty", 100, Counter()) for complaint in each)
    assert any(words in complaint for complaint in wrong for words in early)


def test_a_command_that_ran_is_ended_and_is_in_doubt_afterwards(tmp_path: Path) -> None:
    fifo, ledger = tmp_path / "fifo", Ledger()
    os.mkfifo(fifo)
    spec = {"folder": str(tmp_path), "number": 0, "seed": 0}
    line = f"echo - 0.1 >> {tmp_path}/effects; echo here > {fifo}; sleep 4321"
    here = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with lives() as each:
            said = each.killed({**spec, "first": line}, lambda words: words == "asked" and bool(heard(here)))
            assert said[-1] == "ended", "no process is left"
            assert wrong_in(tmp_path, ledger, said) == []
            assert ledger.seen["uncertain"] == 1
            said = each.killed({**spec, "number": 1}, lambda words: words == "asked")
            assert wrong_in(tmp_path, ledger, said) == []
            assert ledger.seen["told uncertain"] == 1
    finally:
        os.close(here)


def heard(fd: int) -> bytes:
    """Return what comes through a pipe, once something does."""
    assert select.select([fd], [], [], SECONDS)[0]
    return os.read(fd, 100)


def test_a_process_that_outlives_its_crib_is_found(tmp_path: Path) -> None:
    spec = {"folder": str(tmp_path), "number": 0, "seed": 0, "only": "stray", "patience": 0.1}
    with lives() as each:
        said = each.killed(spec, lambda words: words == "strayed")
    assert any(words.startswith("left") for words in said)


# what a loss of power would leave


def promises(folder: Path, how: str) -> list[bool]:
    """Return for every acknowledgement and every effect whether all that it stands on was written and synced before."""
    assert STRACE is not None
    log, calls = folder / "calls.log", "write,pwrite64,fsync,fdatasync"
    spec = json.dumps({"folder": str(folder), "number": 0, "seed": 0, "how": how})
    ran = subprocess.run(
        [STRACE, "-f", "-qq", "-y", "-e", f"trace={calls}", "-o", str(log), *command(spec)], env=surroundings(),
        capture_output=True, text=True, timeout=SECONDS, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    told = [line.split()[0] for line in ran.stdout.splitlines()]
    assert [word for word in told if word in SHOWN] == ["turn", "tool", "tool", "heard", "end"] * 3, ran.stderr
    begun: dict[str, str] = {}
    has_written, is_synced, kept = False, True, list[bool]()
    for line in log.read_text().splitlines():
        thread, _, call = line.partition(" ")
        call = call.strip()
        is_sync = call.startswith(("fsync", "fdatasync", "<... fsync", "<... fdatasync"))
        if call.endswith("<unfinished ...>"):
            begun[thread] = call
            if is_sync:
                continue  # it counts once it is through
        elif call.startswith("<..."):
            whole = begun.pop(thread, "")
            if not is_sync:
                continue  # it counted when it began
            call = whole
        if "crib.db-wal" in call:
            has_written, is_synced = has_written or not is_sync, is_sync
        elif re.match(r'write\(1<.*"(turn|tool|heard|end) |write\(\d+<.*/effects>', call):
            kept.append(has_written and is_synced)
            has_written = False
    return kept


@needs_strace
def test_nothing_is_shown_or_done_before_the_disk_has_what_it_stands_on(tmp_path: Path) -> None:
    assert promises(tmp_path, "kept") == [True] * MARKS


@needs_strace
@pytest.mark.parametrize("how", ["unsynced", "hasty"])
def test_calls_of_the_system_show_a_crib_that_does_not_wait_for_the_disk(tmp_path: Path, how: str) -> None:
    kept = promises(tmp_path, how)
    assert len(kept) == MARKS
    assert False in kept
