"""Commits: in order, together, each step whole, and nothing told before the disk has it."""

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import pytest

from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.errors import ToolError

pytestmark = pytest.mark.anyio

TABLES = ("CREATE TABLE notes (number INTEGER PRIMARY KEY, text TEXT UNIQUE NOT NULL) STRICT",)
SECONDS = 120


@pytest.fixture
def file(tmp_path: Path) -> SqliteFile:
    return SqliteFile(tmp_path / "crib.db", TABLES)


@pytest.fixture
def commits(file: SqliteFile) -> Iterator[Commits]:
    made = Commits(file)
    yield made
    made.close()


def note(text: str, db: apsw.Connection) -> str:
    db.execute("INSERT INTO notes (text) VALUES (?)", (text,))
    return text.upper()


def notes(db: apsw.Connection) -> list[str]:
    return [str(text) for (text,) in db.execute("SELECT text FROM notes ORDER BY number")]


def fail(db: apsw.Connection) -> None:
    note("half", db)
    raise ToolError("no", code="no")


async def hold(commits: Commits) -> threading.Event:
    """Hold the writer in a step until the event is set."""
    begun, go = threading.Event(), threading.Event()

    def step(db: apsw.Connection) -> None:
        begun.set()
        assert go.wait(SECONDS)

    commits.submit(step)
    assert await asyncio.to_thread(begun.wait, SECONDS)
    return go


@asynccontextmanager
async def held(commits: Commits) -> AsyncIterator[None]:
    """Hold the writer, so that whatever is handed in meanwhile is written together."""
    go = await hold(commits)
    try:
        yield
    finally:
        go.set()


async def test_steps_are_written_in_the_order_in_which_they_came(commits: Commits, file: SqliteFile) -> None:
    told = await asyncio.gather(*(commits.submit(partial(note, f"n{number}")) for number in range(2_500)))
    assert told == [f"N{number}" for number in range(2_500)]
    assert file.transact(notes) == [f"n{number}" for number in range(2_500)]


async def test_what_waits_is_written_in_one_commit(commits: Commits) -> None:
    count = 0

    def counted() -> bool:
        nonlocal count
        count += 1
        return False

    await commits.submit(lambda db: db.set_commit_hook(counted))
    count = 0
    async with held(commits):
        waiting = [commits.submit(partial(note, str(number))) for number in range(200)]
    await asyncio.gather(*waiting)
    assert count == 2  # the one that held them up, and theirs


async def test_what_one_round_of_the_loop_hands_in_is_one_commit(commits: Commits) -> None:
    count = 0

    def counted() -> bool:
        nonlocal count
        count += 1
        return False

    await commits.submit(lambda db: db.set_commit_hook(counted))
    count = 0
    await asyncio.gather(*(commits.submit(partial(note, str(number))) for number in range(200)))
    assert count == 1


def test_a_loop_that_never_comes_round_again_holds_up_no_other(file: SqliteFile) -> None:
    commits = Commits(file)
    dead = asyncio.new_event_loop()

    async def stops_at_once() -> None:
        dead.stop()
        commits.submit(partial(note, "dead"))

    task = dead.create_task(stops_at_once())
    dead.run_forever()
    assert task.done()
    assert asyncio.run(asyncio.wait_for(submitted(commits, "alive"), SECONDS)) == "ALIVE"
    assert file.transact(notes) == ["dead", "alive"]
    commits.close()
    dead.close()


async def submitted(commits: Commits, text: str) -> str:
    return await commits.submit(partial(note, text))


async def test_a_step_that_fails_is_taken_back_alone(commits: Commits) -> None:
    await commits.submit(partial(note, "taken"))
    async with held(commits):
        ends = [commits.submit(partial(note, "a"))]
        failing: list[asyncio.Future[Any]] = [commits.submit(fail), commits.submit(partial(note, "taken"))]
        ends.append(commits.submit(partial(note, "b")))
    first, last = await asyncio.gather(*ends)
    no, taken = await asyncio.gather(*failing, return_exceptions=True)
    assert (first, last) == ("A", "B")
    assert isinstance(no, ToolError)
    assert no.code == "no"
    assert isinstance(taken, ToolError)
    assert "cannot be used (ConstraintError: UNIQUE constraint failed" in str(taken)
    assert await commits.read(notes) == ["taken", "a", "b"]


async def test_a_step_that_fails_alone_leaves_nothing(commits: Commits) -> None:
    with pytest.raises(ToolError, match=r"^no$"):
        await commits.submit(fail)
    assert await commits.read(notes) == []


async def test_whatever_a_step_raises_reaches_who_waits_and_the_next_is_written(commits: Commits) -> None:
    def stop(db: apsw.Connection) -> None:
        raise StopIteration

    def leave(db: apsw.Connection) -> None:
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match="a function in a thread raised StopIteration"):
        await commits.submit(stop)
    waiting = commits.submit(leave)
    await asyncio.wait([waiting])
    assert isinstance(waiting.exception(), SystemExit)
    assert await commits.submit(partial(note, "on")) == "ON"


async def test_who_stops_waiting_does_not_stop_the_step(commits: Commits) -> None:
    async with held(commits):
        waiting = commits.submit(partial(note, "kept"))
        waiting.cancel()
    assert await commits.read(notes) == ["kept"]
    assert waiting.cancelled()


async def test_a_full_disk_fails_all_that_stood_in_the_commit_and_nothing_else(
    commits: Commits, file: SqliteFile
) -> None:
    await commits.submit(partial(note, "before"))
    pages = await commits.submit(lambda db: db.pragma("page_count"))
    await commits.submit(lambda db: db.pragma("max_page_count", pages) and None)
    async with held(commits):
        waiting = [commits.submit(partial(note, text)) for text in ("small", "x" * 100_000, "small too")]
    for outcome in await asyncio.gather(*waiting, return_exceptions=True):
        assert isinstance(outcome, ToolError)
        assert str(outcome) == "the disk is full, so 'crib.db' could not be written"
    assert await commits.read(notes) == ["before"]
    await commits.submit(lambda db: db.pragma("max_page_count", 1_000_000) and None)
    await commits.submit(partial(note, "after"))
    file.close()
    assert SqliteFile(file.path, TABLES).transact(notes) == ["before", "after"]


async def test_only_so_much_may_wait(file: SqliteFile) -> None:
    commits = Commits(file, most=3, most_bytes=100)
    async with held(commits):
        kept = [commits.submit(partial(note, "one"), size=60)]
        with pytest.raises(ToolError, match=r"2 steps wait for 'crib\.db' already; try again later") as refused:
            commits.submit(partial(note, "two"), size=60)
        assert refused.value.code == "busy"
        kept.append(commits.submit(partial(note, "three"), size=40))
        with pytest.raises(ToolError, match="3 steps wait"):
            commits.submit(partial(note, "four"))
    await asyncio.gather(*kept)
    await commits.submit(partial(note, "five"), size=1_000)  # alone, it may be as large as it is
    assert await commits.read(notes) == ["one", "three", "five"]
    commits.close()


async def test_looking_waits_for_what_was_handed_in_and_holds_up_nothing(commits: Commits) -> None:
    commits.submit(partial(note, "one"))
    begun, go = threading.Event(), threading.Event()

    def look(db: apsw.Connection) -> list[str]:
        seen = notes(db)
        begun.set()
        assert go.wait(SECONDS)
        return seen + notes(db)

    looking = asyncio.create_task(commits.read(look))
    async with asyncio.timeout(SECONDS):
        await asyncio.to_thread(begun.wait, SECONDS)
        assert await commits.submit(partial(note, "two")) == "TWO"
    go.set()
    assert await looking == ["one", "one"]  # as it was when it began


async def test_flush_waits_for_what_was_handed_in_also_when_it_fails(commits: Commits, file: SqliteFile) -> None:
    await commits.flush()
    assert not file.path.exists()
    commits.submit(partial(note, "one"))
    failing = commits.submit(fail)
    await commits.flush()
    assert file.transact(notes) == ["one"]
    assert failing.done()
    assert isinstance(failing.exception(), ToolError)


async def test_closing_writes_the_rest_and_refuses_more(commits: Commits, file: SqliteFile) -> None:
    waiting = [commits.submit(partial(note, str(number))) for number in range(50)]
    commits.close()
    assert len(file.transact(notes)) == 50
    await asyncio.gather(*waiting)
    with pytest.raises(ToolError, match=r"'crib\.db' is closed") as refused:
        commits.submit(partial(note, "late"))
    assert refused.value.code == "closed"
    commits.close()


async def test_closing_lets_go_of_the_file(commits: Commits, file: SqliteFile) -> None:
    await commits.submit(partial(note, "one"))
    await commits.read(notes)
    commits.close()
    # the last to let go takes the journal with it
    assert [path.name for path in file.path.parent.iterdir()] == ["crib.db"]


async def test_who_forgets_it_leaves_no_thread_behind(file: SqliteFile) -> None:
    commits = Commits(file)
    await commits.submit(partial(note, "one"))
    (writer,) = (each for each in threading.enumerate() if each.name == "toolcrib-commits" and each.is_alive())
    del commits
    gc.collect()
    await asyncio.to_thread(writer.join, SECONDS)
    assert not writer.is_alive()


def test_several_loops_may_write_and_one_may_end_before_its_step(file: SqliteFile) -> None:
    commits = Commits(file)

    async def ends_early() -> threading.Event:
        go = await hold(commits)
        commits.submit(partial(note, "orphan"))
        return go

    told: list[str] = []
    threads = [
        threading.Thread(target=lambda text=str(n): told.append(asyncio.run(submitted(commits, text))))
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert sorted(told) == ["0", "1", "2", "3"]
    asyncio.run(ends_early()).set()
    commits.close()
    assert sorted(file.transact(notes)) == ["0", "1", "2", "3", "orphan"]


async def test_another_process_that_holds_the_file_is_waited_for(commits: Commits, file: SqliteFile) -> None:
    await commits.submit(partial(note, "one"))
    other = apsw.Connection(str(file.path))
    other.execute("BEGIN IMMEDIATE")
    waiting = commits.submit(partial(note, "two"))
    other.execute("INSERT INTO notes (text) VALUES ('theirs'); COMMIT")
    assert await waiting == "TWO"
    assert await commits.read(notes) == ["one", "theirs", "two"]
    other.close()
