"""What a file of sessions does beyond the contract: broken lines, a full disk, several processes, its bounds."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from toolcrib.backends.stores.blobs import MAX_BLOB_BYTES
from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.sessions import SqliteSessions
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.errors import ToolError
from toolcrib.define.log import Line, Said, SessionHead
from toolcrib.define.message import Message
from toolcrib.define.result import Image, Text

pytestmark = pytest.mark.anyio

HEAD = SessionHead(key="s", made_at=1.0, changed_at=1.0)


def said(number: int, text: str = "words") -> Line:
    above = f"l{number - 1}" if number > 1 else None
    return Line(f"l{number}", above, float(number), Said(Message(role="user", content=(Text(text),))))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "crib.db"


@pytest.fixture
def commits(path: Path) -> Iterator[Commits]:
    made = Commits(SqliteFile(path))
    yield made
    made.close()


@pytest.fixture
async def store(commits: Commits) -> SqliteSessions:
    store = SqliteSessions(commits)
    await store.add(HEAD, [said(1), said(2), said(3)])
    return store


@pytest.mark.parametrize(
    ("damage", "complaint"),
    [
        ("UPDATE lines SET body = '{' WHERE number = 2", "line 2 of the session 's' cannot be read: it is not JSON"),
        (
            """UPDATE lines SET body = replace(body, '"said"', '"sung"') WHERE number = 3""",
            "line 3 of the session 's' cannot be read: it has the unknown type 'sung'; it is damaged, or a newer",
        ),
        (
            """UPDATE lines SET body = replace(body, '"at":', '"mood":1,"at":') WHERE number = 1""",
            "line 1 of the session 's' cannot be read: a line has the unknown 'mood'",
        ),
        ("DELETE FROM lines WHERE number = 2", "line 2 of the session 's' is missing"),
    ],
)
async def test_a_line_that_cannot_be_read_is_told_and_nothing_is_dropped(
    store: SqliteSessions, commits: Commits, damage: str, complaint: str
) -> None:
    await commits.submit(lambda db: db.execute(damage).fetchall())
    before = await commits.read(lambda db: db.execute("SELECT * FROM lines").fetchall())
    for _ in range(2):
        with pytest.raises(ToolError, match=complaint) as refused:
            await store.lines("s")
        assert refused.value.code == "broken"
    assert await commits.read(lambda db: db.execute("SELECT * FROM lines").fetchall()) == before
    assert [head.key for head in await store.list()] == ["s"]


async def test_a_picture_that_is_gone_is_told_with_its_line(store: SqliteSessions, commits: Commits) -> None:
    picture = Message(role="user", content=(Image(b"data", "image/png"),))
    await store.append("s", [Line("l4", "l3", 4.0, Said(picture))], at=3)
    await commits.submit(lambda db: db.execute("DELETE FROM blobs").fetchall())
    with pytest.raises(ToolError, match="line 4 of the session 's' cannot be read: nothing is kept under"):
        await store.lines("s")


async def test_a_full_disk_refuses_and_harms_nothing(store: SqliteSessions, commits: Commits, path: Path) -> None:
    pages = await commits.submit(lambda db: db.pragma("page_count"))
    await commits.submit(lambda db: db.pragma("max_page_count", pages) and None)
    with pytest.raises(ToolError, match=r"the disk is full, so 'crib\.db' could not be written"):
        await store.append("s", [said(4, "x" * 100_000)], at=3)
    assert await store.lines("s") == (said(1), said(2), said(3))
    await commits.submit(lambda db: db.pragma("max_page_count", 1_000_000) and None)
    await store.append("s", [said(4, "x" * 100_000)], at=3)
    other = Commits(SqliteFile(path))
    assert await SqliteSessions(other).lines("s") == (said(1), said(2), said(3), said(4, "x" * 100_000))
    other.close()


async def test_another_process_is_seen_at_once_and_never_overwritten(store: SqliteSessions, path: Path) -> None:
    writer = Commits(SqliteFile(path))
    other = SqliteSessions(writer)
    await other.append("s", [said(4, "theirs")], at=3)
    with pytest.raises(ToolError, match="has 4 lines, not 3"):
        await store.append("s", [said(4, "ours")], at=3)
    assert (await store.lines("s"))[3] == said(4, "theirs")
    writer.close()


async def test_a_line_has_a_limit(store: SqliteSessions) -> None:
    huge = Image(bytes(MAX_BLOB_BYTES + 1), "image/png")
    for line in (said(4, "x" * MAX_BLOB_BYTES), Line("l4", "l3", 4.0, Said(Message(role="user", content=(huge,))))):
        with pytest.raises(ToolError) as refused:
            await store.append("s", [line], at=3)
        assert refused.value.code == "too_large"
    assert len(await store.lines("s")) == 3


async def test_looking_makes_no_file(path: Path, commits: Commits) -> None:
    store = SqliteSessions(commits)
    assert (await store.list(), await store.find("s"), await store.lines("s")) == ((), None, ())
    assert not path.parent.exists()


async def test_a_store_of_the_step_before_is_brought_up_to_date(path: Path) -> None:
    old = SqliteFile(path, SqliteFile(path).migrations[:1])
    old.transact(lambda db: db.execute("INSERT INTO grants VALUES ('g', 'd', 1, 2, '{}')").fetchall())
    old.close()
    commits = Commits(SqliteFile(path))
    store = SqliteSessions(commits)
    assert await store.list() == ()
    await store.add(HEAD, [said(1)])
    assert await store.lines("s") == (said(1),)

    def grants(db: apsw.Connection) -> list[Any]:
        return db.execute("SELECT id FROM grants").fetchall()

    assert await commits.read(grants) == [("g",)]
    commits.close()
