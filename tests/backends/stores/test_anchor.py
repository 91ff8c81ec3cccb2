"""The end of a store cannot vanish unseen: after a kill, whatever was acknowledged is there, or that it is not is told.

The writer is a real process that is killed; what it left is removed, cut, altered or put back from an older copy.
"""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from toolcrib.agent.replay import judge_from
from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.record import RecordFile, SqliteRecord, SqliteRows
from toolcrib.backends.stores.sqlite import MIGRATIONS, SqliteFile
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.record import Finished
from toolcrib.services.audit import Audit, Report

COUNT = 12
WRITER = """
import asyncio, os, sys
from pathlib import Path
from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.record import SqliteRecord
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.message import Call
from toolcrib.define.record import Finished

async def main():
    record = SqliteRecord(Commits(SqliteFile(Path(sys.argv[1]))))
    while line := sys.stdin.readline():
        await record.write(Finished(Call(id=line.strip(), name="t"), "t", "ok", "", True))
        os.write(1, line.encode())

asyncio.run(main())
"""


class Writer:
    """A process that writes a row for every line it is given, and says so when the row is on the disk."""

    def __init__(self, path: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-B", "-c", WRITER, str(path)], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def write(self, count: int) -> None:
        process = self._process
        assert process.stdin
        assert process.stdout
        for at in range(count):
            process.stdin.write(f"row {at}\n")
            process.stdin.flush()
            assert process.stdout.readline() == f"row {at}\n"

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.communicate(timeout=60)


def written(folder: Path, before: Callable[[Path], object] = lambda path: None) -> Path:
    """Return a store whose writer was killed after twelve rows; `before` is called when it had written six."""
    path = folder / "crib.db"
    writer = Writer(path)
    writer.write(COUNT // 2)
    before(path)
    writer.write(COUNT - COUNT // 2)
    writer.kill()
    return path


def verified(path: Path, *, only_looks: bool = False) -> Report:
    file = SqliteFile(path, only_looks=only_looks)
    try:
        rows = SqliteRows(file)
        return asyncio.run(Audit(rows, is_owner=lambda _: True, rederive=judge_from).verify(replay=True))
    finally:
        file.close()


def add(path: Path) -> None:
    """Write one row more, as the next start would."""

    async def main() -> None:
        commits = Commits(SqliteFile(path))
        try:
            await SqliteRecord(commits).write(Finished(Call(id="more", name="t"), "t", "ok", "", True))
        finally:
            commits.close()

    asyncio.run(main())


def wal(path: Path) -> Path:
    return path.with_name("crib.db-wal")


def anchor(path: Path) -> Path:
    return path.with_name("crib.db-anchor")


def cut(path: Path, size: int) -> None:
    os.truncate(wal(path), max(0, wal(path).stat().st_size - size))


def take(*files: Path) -> None:
    for file in files:
        file.unlink()


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 0x10
    file.write_bytes(data)


FRAME = 4096 + 24
TAKES: dict[str, Callable[[Path], object]] = {
    "the write-ahead file is removed": lambda path: wal(path).unlink(),
    "it is emptied": lambda path: os.truncate(wal(path), 0),
    "only its header is left": lambda path: os.truncate(wal(path), 32),
    "it is cut in half": lambda path: cut(path, wal(path).stat().st_size // 2),
    "its last frame is cut off": lambda path: cut(path, FRAME),
    "one byte of its last frame is cut off": lambda path: cut(path, 1),
    "a byte of its header is flipped": lambda path: flip(wal(path), 20),
    "a byte in its middle is flipped": lambda path: flip(wal(path), wal(path).stat().st_size // 2),
    "a byte of its last frame is flipped": lambda path: flip(wal(path), wal(path).stat().st_size - 9),
    "it is full of zeros": lambda path: wal(path).write_bytes(bytes(wal(path).stat().st_size)),
    "with what readers share": lambda path: take(wal(path), path.with_name("crib.db-shm")),
}


@pytest.mark.parametrize("take", TAKES)
def test_what_a_kill_left_in_the_write_ahead_file_cannot_vanish_unseen(tmp_path: Path, take: str) -> None:
    path = written(tmp_path)
    TAKES[take](path)
    left = wal(path).read_bytes() if wal(path).exists() else None
    for look in (verified, add, verified, lambda path: verified(path, only_looks=True)):  # at every start from now on
        with pytest.raises(ToolError, match=r"'crib\.db' has lost its end.*take 'crib\.db-anchor' away") as refused:
            look(path)
        assert refused.value.code == "unavailable"
    if left is not None:
        assert wal(path).read_bytes() == left, "whoever wants to save something from it still can"
    anchor(path).unlink()  # the owner goes on with what is left
    assert verified(path).findings[-1:] == () or "anchor" in verified(path).findings[-1].sentence
    add(path)
    assert verified(path).findings == ()


def test_an_older_write_ahead_file_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path, lambda path: shutil.copy(wal(path), tmp_path / "old"))
    shutil.copy(tmp_path / "old", wal(path))
    with pytest.raises(ToolError, match="has lost its end"):
        verified(path)


def test_an_older_copy_of_the_whole_database_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "crib.db"
    add(path)
    shutil.copy(path, tmp_path / "old")
    add(path)
    shutil.copy(tmp_path / "old", path)
    with pytest.raises(ToolError, match="has lost its end"):
        add(path)


@pytest.mark.parametrize("names", [("crib.db",), ("crib.db", "crib.db-wal"), ("crib.db", "crib.db-wal", "crib.db-shm")])
def test_a_store_that_was_removed_is_missed(tmp_path: Path, names: tuple[str, ...]) -> None:
    path = written(tmp_path)
    kept = {name: (tmp_path / name).read_bytes() for name in names}
    for name in names:
        (tmp_path / name).unlink()
    for look in (verified, add):
        with pytest.raises(ToolError, match=r"'crib\.db' is gone.*put it back, or take 'crib\.db-anchor' away"):
            look(path)
    for name, data in kept.items():
        (tmp_path / name).write_bytes(data)
    assert verified(path).count == COUNT


def test_the_owner_may_begin_with_nothing(tmp_path: Path) -> None:
    path = written(tmp_path)
    for each in tmp_path.iterdir():
        each.unlink()
    assert (verified(path).count, verified(path).findings) == (0, ())
    add(path)
    assert verified(path).count == 1


@pytest.mark.parametrize("spoil", [Path.unlink, lambda file: flip(file, 3), lambda file: file.write_bytes(b"")])
def test_an_anchor_that_is_gone_or_spoiled_is_told(
    tmp_path: Path, spoil: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    path = written(tmp_path)
    spoil(anchor(path))
    report = verified(path)
    assert (report.count, [each.wrong for each in report.findings]) == (COUNT, ["dropped"])
    assert "nobody can tell whether its end is still there" in report.findings[0].sentence
    assert "nobody can tell whether the end of 'crib.db' is still there" in caplog.text
    add(path)
    assert verified(path).findings == (), "from here on it is known again"


def test_rows_taken_off_the_end_with_the_head_made_to_fit_are_missed(tmp_path: Path) -> None:
    """By somebody who knows SQLite: without the anchor only a hash kept elsewhere could tell."""
    path = written(tmp_path)
    db = apsw.Connection(str(path))
    db.execute("DELETE FROM record WHERE seq > 9")
    db.execute("UPDATE record_head SET count = 9, hash = (SELECT hash FROM record WHERE seq = 9)")
    db.close()
    assert [(each.row, each.wrong) for each in verified(path).findings] == [(10, "dropped")]


def test_a_record_written_anew_to_its_end_is_told(tmp_path: Path) -> None:
    path, other = written(tmp_path), tmp_path / "other"
    other.mkdir()
    for _ in range(COUNT):
        add(other / "crib.db")
    shutil.copy(other / "crib.db", path)
    wal(path).unlink()
    assert [each.wrong for each in verified(path).findings] == ["altered"]


def test_nobody_is_alarmed_without_a_reason(tmp_path: Path) -> None:
    """A kill at any moment, a copy of the folder, a start after a start, two at once, a close: all ordinary."""
    path = written(tmp_path)
    shutil.copytree(tmp_path, tmp_path / "copy")
    assert (verified(path).count, verified(path).findings) == (COUNT, ())
    assert verified(tmp_path / "copy" / "crib.db").count == COUNT
    writers = [Writer(path), Writer(path)]
    for _ in range(5):
        for writer in writers:
            writer.write(1)
        assert verified(path).findings == ()
    for writer in writers:
        writer.kill()
    add(path)
    report = verified(path)
    assert (report.count, report.findings) == (COUNT + 11, ())
    assert not wal(path).exists(), "closed, it is whole"


def test_a_crash_between_the_commit_and_the_anchor_is_no_loss(tmp_path: Path) -> None:
    path = tmp_path / "crib.db"
    add(path)
    before = anchor(path).read_bytes()
    add(path)
    anchor(path).write_bytes(before)
    assert (verified(path).count, verified(path).findings) == (2, ())


def test_a_store_from_before_there_were_anchors_is_taken_up_quietly(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "crib.db"
    old = SqliteFile(path, MIGRATIONS[:4])
    old.transact(lambda db: db.execute("INSERT INTO mcp_pins VALUES ('s', 't', 'd', 'b', 1.0)").fetchall())
    old.close()
    assert not anchor(path).exists()
    assert verified(path).findings == ()
    add(path)
    assert (verified(path).findings, caplog.text) == ((), "")
    assert anchor(path).exists()


def test_the_anchor_is_nobody_elses_and_does_not_grow(tmp_path: Path) -> None:
    path = tmp_path / "crib.db"
    add(path)
    size = anchor(path).stat().st_size
    for _ in range(3):
        add(path)
    assert (anchor(path).stat().st_size, anchor(path).stat().st_mode & 0o777) == (size, 0o600)


@pytest.mark.parametrize("taken", [("crib.db-anchor", "crib.db"), ("crib.db-anchor",)])
def test_where_all_of_a_store_was_removed_the_file_of_lines_knows(tmp_path: Path, taken: tuple[str, ...]) -> None:
    path, lines = tmp_path / "crib.db", tmp_path / "record.jsonl"

    def write(id: str) -> None:
        async def main() -> None:
            commits = Commits(SqliteFile(path))
            try:
                record = SqliteRecord(commits, file=RecordFile(lines))
                await record.write(Finished(Call(id=id, name="t"), "t", "ok", "", True))
            finally:
                commits.close()

        asyncio.run(main())

    for at in range(3):
        write(f"row {at}")
        if at == 1:
            shutil.copy(path, tmp_path / "old")
    before = lines.read_bytes()
    for name in taken:
        (tmp_path / name).unlink()
    if path.exists():
        shutil.copy(tmp_path / "old", path)  # of before the last row
    for _ in range(2):
        with pytest.raises(ToolError, match=r"'record\.jsonl' ends with row 3, and the store has no such row"):
            write("more")
    assert lines.read_bytes() == before


def test_a_file_that_another_makes_at_the_same_moment_is_not_gone(tmp_path: Path) -> None:
    first, late = SqliteFile(tmp_path / "crib.db"), SqliteFile(tmp_path / "crib.db")
    first.transact(lambda db: None)
    late._create()  # there was no file when it looked
    assert late.transact(lambda db: db.pragma("user_version")) == len(MIGRATIONS)
