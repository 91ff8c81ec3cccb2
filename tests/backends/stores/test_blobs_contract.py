"""What every store of big values keeps to, in memory and in a file; and what the file does beyond that."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib.backends.stores.blobs import SqliteBlobs
from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.memory import InMemoryBlobs
from toolcrib.backends.stores.sessions import SqliteSessions
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.errors import ToolError
from toolcrib.define.log import Line, Said, SessionHead
from toolcrib.define.message import Message
from toolcrib.define.ports import Blobs
from toolcrib.define.result import Image

pytestmark = pytest.mark.anyio

SIZE = 1_000


@pytest.fixture
def commits(tmp_path: Path) -> Iterator[Commits]:
    made = Commits(SqliteFile(tmp_path / "crib.db"))
    yield made
    made.close()


@pytest.fixture(params=["memory", "sqlite"])
def blobs(request: Any, commits: Commits) -> Blobs:
    return InMemoryBlobs(3 * SIZE) if request.param == "memory" else SqliteBlobs(commits, most=3 * SIZE)


async def is_kept(blobs: Blobs, key: str) -> bool:
    try:
        return len(await blobs.get(key)) >= 0
    except ToolError as error:
        if error.code != "not_found":
            raise
        return False


def value(number: int) -> bytes:
    return number.to_bytes(2, "big") * (SIZE // 2)


async def test_what_was_put_comes_back(blobs: Blobs) -> None:
    for data in (b"", b"x", bytes(range(256))):
        key = await blobs.put(data)
        assert await blobs.get(key) == data
        assert await blobs.put(data) == key


@pytest.mark.parametrize("key", ["", "x", "0" * 64, "\ud800", "../x"])
async def test_what_was_never_put_is_told(blobs: Blobs, key: str) -> None:
    with pytest.raises(ToolError, match="nothing is kept under") as refused:
        await blobs.get(key)
    assert refused.value.code == "not_found"


async def test_the_oldest_give_way(blobs: Blobs) -> None:
    keys = [await blobs.put(value(number)) for number in range(5)]
    assert [await is_kept(blobs, key) for key in keys] == [False, False, True, True, True]


async def test_what_is_put_again_stays_longer(commits: Commits) -> None:
    now = 0.0
    blobs = SqliteBlobs(commits, most=2 * SIZE, clock=lambda: now)
    keys = []
    for number in (0, 1, 0, 2):
        now += 1
        keys.append(await blobs.put(value(number)))
    assert [await is_kept(blobs, key) for key in keys] == [True, False, True, True]


async def test_what_was_not_asked_for_again_goes_in_time(commits: Commits) -> None:
    now = 0.0
    blobs = SqliteBlobs(commits, seconds=100, clock=lambda: now)
    old = await blobs.put(b"old")
    now = 100.0
    await blobs.put(b"new")
    assert await is_kept(blobs, old)
    now = 100.5
    await blobs.put(b"newer")
    assert not await is_kept(blobs, old)


async def test_one_value_has_a_limit(commits: Commits) -> None:
    blobs = SqliteBlobs(commits, largest=10)
    await blobs.put(bytes(10))
    with pytest.raises(ToolError, match=r"11 bytes are more than can be kept at once \(10\)") as refused:
        await blobs.put(bytes(11))
    assert refused.value.code == "too_large"


async def test_a_picture_of_a_session_stays_as_long_as_the_session(commits: Commits) -> None:
    sessions, blobs = SqliteSessions(commits), SqliteBlobs(commits, most=SIZE)
    picture = Image(value(7), "image/png")
    key = await blobs.put(picture.data)
    await sessions.make(SessionHead(key="s", made_at=0, changed_at=0))
    lines = (Line("a", None, 0.0, Said(Message(role="user", content=(picture, picture)))),)
    await sessions.append("s", lines, at=0)
    for number in range(3):
        await blobs.put(value(number))
    assert await sessions.lines("s") == lines
    assert await is_kept(blobs, key)
    await sessions.delete("s")
    assert not await is_kept(blobs, key)
    assert await is_kept(blobs, await blobs.put(value(2)))


async def test_a_value_that_is_not_what_it_was_is_told(commits: Commits) -> None:
    blobs = SqliteBlobs(commits)
    key = await blobs.put(b"good")
    await commits.submit(lambda db: db.execute("UPDATE blobs SET data = x'00'").fetchall())
    with pytest.raises(ToolError, match="is damaged") as refused:
        await blobs.get(key)
    assert refused.value.code == "broken"
