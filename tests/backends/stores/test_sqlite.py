"""The file: whole from the first moment, private, never replaced by an empty one, migrated step by whole step."""

import gc
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.errors import ToolError

TABLES = ("CREATE TABLE notes (text TEXT) STRICT",)


def write(file: SqliteFile, text: str) -> None:
    file.transact(lambda db: db.execute("INSERT INTO notes VALUES (?)", (text,)).fetchall())


def notes(file: SqliteFile) -> list[str]:
    return [
        str(text) for (text,) in file.transact(lambda db: db.execute("SELECT text FROM notes").fetchall(), writes=False)
    ]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "crib.db"


def test_it_waits_for_the_disk_and_is_nobody_elses(path: Path) -> None:
    file = SqliteFile(path, TABLES)
    write(file, "one")
    found = file.transact(lambda db: (db.pragma("journal_mode"), db.pragma("synchronous"), db.pragma("user_version")))
    assert found == ("wal", 2, 1)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert sorted(each.name for each in path.parent.iterdir()) == ["crib.db", "crib.db-shm", "crib.db-wal"]
    file.close()
    assert notes(SqliteFile(path, TABLES)) == ["one"]


def test_looking_makes_no_file(path: Path) -> None:
    assert notes(SqliteFile(path, TABLES)) == []
    assert not path.parent.exists()


def test_a_step_that_fails_leaves_nothing_behind(path: Path) -> None:
    file = SqliteFile(path, TABLES)

    def fail(db: apsw.Connection) -> None:
        db.execute("INSERT INTO notes VALUES ('half')")
        raise ToolError("no")

    with pytest.raises(ToolError, match=r"^no$"):
        file.transact(fail)
    assert notes(file) == []


def damaged(how: Callable[[bytes], bytes]) -> Callable[[Path], int]:
    return lambda path: path.write_bytes(how(path.read_bytes()))


@pytest.mark.parametrize(
    "damage",
    [
        damaged(lambda data: b""),
        damaged(lambda data: b"not a database, but long enough to look at" * 200),
        damaged(lambda data: data[: len(data) // 2]),
        damaged(lambda data: data[:4096] + os.urandom(len(data) - 4096)),
        damaged(lambda data: data[:4096] + bytes(len(data) - 4096)),
        damaged(lambda data: data[:200]),
    ],
    ids=["empty", "text", "half", "noise", "zeros", "stub"],
)
def test_a_broken_file_is_set_aside_and_told_and_never_replaced(path: Path, damage: Callable[[Path], int]) -> None:
    file = SqliteFile(path, TABLES)
    for _ in range(200):
        write(file, "x" * 200)
    file.close()
    good = path.read_bytes()
    damage(path)
    broken = path.read_bytes()
    sentence = "'crib.db' was found broken and set aside as 'crib.db.broken-1', so nothing can be kept; put a good copy"
    for _ in range(2):  # at once, and at every start from now on
        for step in (lambda file: write(file, "two"), notes):
            with pytest.raises(ToolError, match=sentence) as refused:
                step(SqliteFile(path, TABLES))
            assert refused.value.code == "unavailable"
    assert not path.exists()
    assert path.with_name("crib.db.broken-1").read_bytes() == broken
    path.write_bytes(good)
    assert len(notes(SqliteFile(path, TABLES))) == 200


def test_a_file_that_breaks_while_it_is_open_is_set_aside_too(path: Path) -> None:
    file = SqliteFile(path, TABLES)
    write(file, "one")
    file.close()
    write(file, "two")
    shutil.copy(path, path.with_name("copy"))
    path.unlink()
    path.write_bytes(b"")
    with pytest.raises(ToolError, match=r"set aside as 'crib\.db\.broken-1'"):
        write(file, "three")
    path.with_name("copy").replace(path)
    assert notes(file)[:1] == ["one"]


def test_the_owner_may_begin_with_nothing(path: Path) -> None:
    path.parent.mkdir()
    path.write_bytes(b"")
    with pytest.raises(ToolError, match="broken"):
        write(SqliteFile(path, TABLES), "one")
    path.with_name("crib.db.broken-1").unlink()
    file = SqliteFile(path, TABLES)
    write(file, "one")
    assert notes(file) == ["one"]


def test_another_programs_file_is_left_alone(path: Path) -> None:
    path.parent.mkdir()
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    before = path.read_bytes()
    with pytest.raises(ToolError, match=r"'crib\.db' is no store of toolcrib's; keep the store elsewhere"):
        write(SqliteFile(path, TABLES), "one")
    assert path.read_bytes() == before


def test_migrations_are_whole_steps(path: Path) -> None:
    old = SqliteFile(path, TABLES)
    write(old, "one")
    old.close()
    broken = (*TABLES, "ALTER TABLE notes ADD COLUMN at REAL; INSERT INTO nowhere VALUES (1)")
    with pytest.raises(ToolError, match="no such table: nowhere"):
        write(SqliteFile(path, broken), "two")
    assert notes(SqliteFile(path, TABLES)) == ["one"]
    good = SqliteFile(path, (*TABLES, "ALTER TABLE notes ADD COLUMN at REAL", "CREATE TABLE more (x) "))
    both = "INSERT INTO notes VALUES ('two', 1.5); INSERT INTO more VALUES (1)"
    good.transact(lambda db: db.execute(both).fetchall())
    assert notes(good) == ["one", "two"]
    with pytest.raises(ToolError, match=r"'crib\.db' was written by a newer toolcrib; use that one"):
        notes(SqliteFile(path, TABLES))


def test_what_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ToolError, match=r"'crib\.db' cannot be used") as refused:
        write(SqliteFile(tmp_path / "file" / "crib.db", TABLES), "one")
    assert refused.value.code == "unavailable"


def test_a_full_disk_is_told_and_nothing_is_half_written(path: Path) -> None:
    file = SqliteFile(path, TABLES)
    write(file, "one")
    pages = file.transact(lambda db: db.pragma("page_count"))
    file.transact(lambda db: db.pragma("max_page_count", pages) and None)
    with pytest.raises(ToolError, match=r"the disk is full, so 'crib\.db' could not be written"):
        write(file, "x" * 100_000)
    assert notes(file) == ["one"]


@pytest.mark.timeout(120)
def test_a_store_that_is_forgotten_leaves_no_file_open(tmp_path: Path) -> None:
    def opened() -> list[str]:
        links = (str(each.resolve()) for each in Path("/proc/self/fd").iterdir())
        return [link for link in links if link.startswith(str(tmp_path))]

    file = SqliteFile(tmp_path / "crib.db")
    file.transact(lambda db: None)
    assert any(each.endswith("-anchor") for each in opened())
    del file
    while opened():  # the thread that waits for the disk may hold it a little longer
        gc.collect()
