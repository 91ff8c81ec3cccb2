"""A bit that flips in a file of sessions is noticed: what was written is read, or a sentence says that it is not."""

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.sessions import SqliteSessions
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.errors import ToolError
from toolcrib.define.log import Line, Said, SessionHead
from toolcrib.define.message import Message
from toolcrib.define.result import Text

KEY = "agent:main:nuts"
HEAD = SessionHead(key=KEY, made_at=1.0, changed_at=1.0, title="About nuts", model="test:m", parents=("main",))
WORDS = "pay Zoë 100 euros, not 900"


def lines() -> list[Line]:
    parents = [None, "l0", "l1"]
    return [
        Line(f"l{at}", parent, float(at), Said(Message(role="user", content=(Text(WORDS),))))
        for at, parent in enumerate(parents)
    ]


def run_in(path: Path) -> tuple[SessionHead | None, tuple[Line, ...], tuple[SessionHead, ...]]:
    async def main() -> tuple[SessionHead | None, tuple[Line, ...], tuple[SessionHead, ...]]:
        commits = Commits(SqliteFile(path))
        try:
            store = SqliteSessions(commits)
            return await store.find(KEY), await store.lines(KEY), await store.list()
        finally:
            commits.close()

    return asyncio.run(main())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    async def main() -> None:
        commits = Commits(SqliteFile(tmp_path / "crib.db"))
        await SqliteSessions(commits).add(HEAD, lines())
        commits.close()

    asyncio.run(main())
    return tmp_path / "crib.db"


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.getLogger("toolcrib").setLevel(logging.CRITICAL + 1)
    yield
    logging.getLogger("toolcrib").setLevel(logging.NOTSET)


@pytest.mark.parametrize("within", ["a line", "the head"])
def test_no_flipped_bit_changes_what_was_said_unseen(path: Path, within: str) -> None:
    data, good = path.read_bytes(), run_in(path)
    mark = WORDS.encode() if within == "a line" else b'"title":"About nuts"'
    start, seen = data.rindex(mark) - 40, 0
    for at in range(start, start + 120):
        bit = 1 << (at % 8)
        path.write_bytes(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])
        read: object
        try:
            read = run_in(path)
        except ToolError as error:
            read = str(error)
            seen += 1
        is_told = isinstance(read, str) and (KEY in read or "crib.db" in read)
        assert is_told or read == good, f"bit {bit} of byte {at}"
        for aside in path.parent.glob("crib.db.broken-*"):
            aside.unlink()
    assert seen > 60, "most of these bytes are what was written"


def test_one_session_that_is_broken_hides_no_other(path: Path) -> None:
    async def main() -> tuple[SessionHead, ...]:
        commits = Commits(SqliteFile(path))
        store = SqliteSessions(commits)
        await store.make(SessionHead(key="other", made_at=2.0, changed_at=2.0))
        await commits.submit(
            lambda db: db.execute(
                "UPDATE sessions SET about = replace(about, 'test:m', 'test:n') WHERE key = ?", (KEY,)
            )
        )
        try:
            with pytest.raises(
                ToolError, match="the session 'agent:main:nuts' cannot be read: it is not as it was written"
            ):
                await store.find(KEY)
            return await store.list()
        finally:
            commits.close()

    assert [head.key for head in asyncio.run(main())] == ["other"]


def test_what_was_written_before_there_were_sums_is_read_as_it_is(path: Path) -> None:
    good = run_in(path)
    db = apsw.Connection(str(path))
    db.execute("UPDATE lines SET body = substr(body, 1, instr(body, char(10)) - 1) WHERE instr(body, char(10))")
    db.execute("UPDATE sessions SET about = substr(about, 1, instr(about, char(10)) - 1) WHERE instr(about, char(10))")
    db.close()
    assert run_in(path) == good


def test_a_text_of_any_table_that_is_no_utf_8_is_told_in_a_sentence(path: Path) -> None:
    file = SqliteFile(path)
    with pytest.raises(ToolError, match=r"'crib\.db' holds a text that is damaged"):
        file.transact(lambda db: db.execute("SELECT CAST(x'ff41' AS TEXT)").fetchall(), writes=False)
    file.close()
