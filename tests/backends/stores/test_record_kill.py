"""Killed at any moment, or written to by several processes at once: the record is one unbroken chain."""

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests import prestarted

from toolcrib.backends.stores.record import rows_in
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.services.audit import verify

from .record_world import audit_of, lines_of, verified

SECONDS = 120

_WRITER = """
import asyncio, os, sys
from pathlib import Path
from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.record import RecordFile
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.backends.stores.record import SqliteRecord
from toolcrib.define.caller import Caller
from toolcrib.define.verdict import Grounds
from toolcrib.define.message import Call
from toolcrib.define.record import Decided, Finished, Started
from toolcrib.define.verdict import Verdict

path, file, name, count = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int(sys.argv[4])
grounds = Grounds(lambda: {"tools": [1, 2, 3]})
allow = Verdict("exec", "allow", None, None, None, "", None)

async def call(record, number):
    call = Call(id="c", name="exec", args={"n": "x" * 500}, key=f"{name}-{number}")
    record.write(Decided(call, Caller(), allow, "", grounds))
    await record.write(Started(call, "exec"))
    os.write(1, f"started {call.key}\\n".encode())
    await record.write(Finished(call, "exec", "ok", "", True))
    os.write(1, f"finished {call.key}\\n".encode())

async def main():
    commits = Commits(SqliteFile(path))
    await commits.read(lambda db: None)
    record = SqliteRecord(commits, file=RecordFile(file))
    os.write(1, b"ready\\n")
    sys.stdin.readline()
    for number in range(0, count, 4):
        await asyncio.gather(*(call(record, number + each) for each in range(4)))
    commits.close()

asyncio.run(main())
"""


def started(base: Path, name: str, count: int) -> "subprocess.Popen[str]":
    """Start a process that writes, and wait until it is about to."""
    script = base / "writer.py"
    script.write_text(_WRITER)
    writer = prestarted.Popen(
        [sys.executable, str(script), str(base / "crib.db"), str(base / "record.jsonl"), name, str(count)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert writer.stdout is not None
    assert writer.stdout.readline() == "ready\n"
    return writer


def go(*writers: "subprocess.Popen[str]") -> None:
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()


def test_two_processes_write_one_chain(tmp_path: Path) -> None:
    count = 40
    writers = [started(tmp_path, name, count) for name in "ab"]
    try:
        go(*writers)
        for writer in writers:
            writer.communicate(timeout=SECONDS)
            assert writer.returncode == 0
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    report = verified(tmp_path / "crib.db")
    assert (report.count, report.findings, report.uncertain) == (2 * 3 * count + 1, (), ())
    copied = verify(rows_in(tmp_path / "record.jsonl"))
    assert (copied.count, copied.findings, copied.hash) == (report.count, (), report.hash)
    bodies = [body for _, _, kind, body, _ in lines_of(tmp_path / "crib.db") if kind == "started"]
    owners = [body.partition('"key":"')[2][0] for body in bodies]
    assert owners != sorted(owners), "they took no turns, so nothing was shown"


def killed(base: Path, rounds: int, chance: random.Random) -> None:
    """Kill a writer again and again; what it was told is there, and the chain goes on."""
    base.mkdir()
    told: set[str] = set()
    for number in range(rounds):
        writer = started(base, f"r{number}", 10_000)
        assert writer.stdout is not None
        go(writer)
        heard = [writer.stdout.readline()]
        end = time.monotonic() + chance.uniform(0.0, 0.05)
        while time.monotonic() < end:
            heard.append(writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest, _ = writer.communicate(timeout=SECONDS)
        told |= {line for line in "".join([*heard, rest]).splitlines() if " " in line}
        report = verified(base / "crib.db")
        assert report.findings == ()
        assert len(report.uncertain) <= 4 * (number + 1)
        kept = keys(base / "crib.db")
        assert told <= kept
        copied = verify(rows_in(base / "record.jsonl"))
        assert {finding.wrong for finding in copied.findings} <= {"unreadable"}, "half a line may stand at its end"
        assert copied.count <= report.count
    assert len(told) > rounds


def keys(path: Path) -> set[str]:
    found = set()
    for _, _, kind, body, _ in lines_of(path):
        if kind in ("started", "finished"):
            key = body.partition('"key":"')[2].partition('"')[0]
            found.add(f"{kind} {key}")
    return found


def test_a_writer_that_is_killed_leaves_a_whole_chain(tmp_path: Path) -> None:
    killed(tmp_path / "record", 12, random.Random(1))


@pytest.mark.full
@pytest.mark.timeout(1800)
def test_a_writer_that_is_killed_two_hundred_times_does(tmp_path: Path) -> None:
    for number in range(10):
        killed(tmp_path / f"record{number}", 20, random.Random(number))


def test_a_record_can_be_checked_while_it_is_written(tmp_path: Path) -> None:
    writer = started(tmp_path, "w", 400)
    file = SqliteFile(tmp_path / "crib.db")
    try:
        go(writer)
        assert writer.stdout is not None
        seen = [0]
        while writer.poll() is None and seen[-1] < 600:
            writer.stdout.readline()
            report = asyncio.run(audit_of(file).verify())
            assert report.findings == ()
            seen.append(report.count)
        assert seen == sorted(seen)
        assert len(set(seen)) > 3, "it was over before we looked"
    finally:
        file.close()
        writer.kill()
        writer.communicate(timeout=SECONDS)
