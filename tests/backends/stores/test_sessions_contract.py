"""What every store of sessions keeps to, in memory and in a file."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.memory import MemorySessions
from toolcrib.backends.stores.sessions import SqliteSessions
from toolcrib.backends.stores.sessions_json import read_log, write_log
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.errors import ToolError
from toolcrib.define.event import Usage
from toolcrib.define.log import (
    Began,
    Body,
    Ended,
    Labelled,
    Line,
    Noted,
    Said,
    SessionHead,
    SessionStore,
    Shortened,
    Switched,
)
from toolcrib.define.message import Call, Message, Thinking
from toolcrib.define.result import Image, Text

pytestmark = pytest.mark.anyio

KEY = "agent:main:main"
HEAD = SessionHead(key=KEY, made_at=100.0, changed_at=100.0, parents=("agent:main:cron:1",))
PICTURE = Image(b"\x89PNG\r\n\x1a\n" + bytes(5_000), "image/png")
CALL = Call("c1", "exec", {"command": "ls", "big": 2**80}, "k1", "mark")
BODIES: tuple[Body, ...] = (
    Said(Message(role="user", content=(Text("half \ud800 a character"), PICTURE), at=1.0)),
    Said(Message(role="assistant", content=(Thinking("hm", "seal"),), calls=(CALL,), finish="calls", by="p/m")),
    Began(CALL),
    Said(Message(role="tool", content=(Text("out", "web:x"), PICTURE), call_id="c1", status="error"), Usage(1, 2), 0.5),
    Shortened("what was", "l1", 12),
    Noted("plugin", {"a": [1, None]}),
    Ended("done", "", Usage(1, 2, 3, 4), None),
)


def said(number: int, parent: int | None = None) -> Line:
    above = number - 1 if parent is None else parent
    message = Message(role="user", content=(Text(f"words {number}"),))
    return Line(f"l{number}", f"l{above}" if above else None, 100.0 + number, Said(message))


def chained(bodies: tuple[Body, ...]) -> tuple[Line, ...]:
    return tuple(
        Line(f"l{at}", f"l{at - 1}" if at > 1 else None, 100.0 + at, body) for at, body in enumerate(bodies, 1)
    )


async def done(waiting: Awaitable[None] | None) -> None:
    if waiting is not None:
        await waiting


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: Any, tmp_path: Path) -> AsyncIterator[SessionStore]:
    if request.param == "memory":
        yield MemorySessions()
        return
    commits = Commits(SqliteFile(tmp_path / "state" / "crib.db"))
    yield SqliteSessions(commits)
    commits.close()


async def test_an_empty_store_holds_nothing(store: SessionStore) -> None:
    assert await store.find(KEY) is None
    assert (await store.list(), await store.lines(KEY), await store.delete(KEY)) == ((), (), False)
    with pytest.raises(ToolError, match="there is no session 'agent:main:main'") as refused:
        await done(store.append(KEY, [said(1)], at=0))
    assert refused.value.code == "not_found"
    assert await store.find(KEY) is None


async def test_every_kind_of_line_comes_back_as_it_was(store: SessionStore) -> None:
    assert await store.make(HEAD) == HEAD
    lines = chained(BODIES)
    for at, line in enumerate(lines):
        await done(store.append(KEY, [line], at=at))
    assert await store.lines(KEY) == lines
    assert await store.find(KEY) == replace(HEAD, count=len(lines), changed_at=lines[-1].at)


async def test_a_session_is_made_once(store: SessionStore) -> None:
    await store.make(HEAD)
    await done(store.append(KEY, [said(1)], at=0))
    again = await store.make(replace(HEAD, made_at=500.0, changed_at=500.0, parents=(), title="other", count=7))
    assert again == replace(HEAD, count=1, changed_at=101.0)
    assert await store.make(replace(HEAD, key="fresh", count=7)) == replace(HEAD, key="fresh")


async def test_title_and_model_are_told_by_the_last_line_that_sets_them(store: SessionStore) -> None:
    await store.make(replace(HEAD, title="first", model="a:b"))
    head = "\ud800 new"
    await done(store.append(KEY, chained((Labelled("x"), Switched("p:m"), Labelled(head))), at=0))
    assert await store.find(KEY) == replace(HEAD, title=head, model="p:m", count=3, changed_at=103.0)
    await done(store.append(KEY, [said(4), Line("l5", "l4", 105.0, Switched(""))], at=3))
    assert await store.find(KEY) == replace(HEAD, title=head, model="", count=5, changed_at=105.0)


async def test_the_latest_sessions_are_listed_first(store: SessionStore) -> None:
    for number, key in enumerate(("a", "b", "c")):
        await store.make(SessionHead(key=key, made_at=float(number), changed_at=float(number)))
    await done(store.append("a", [said(1)], at=0))
    assert [head.key for head in await store.list()] == ["a", "c", "b"]
    assert [head.key for head in await store.list(order="made")] == ["c", "b", "a"]
    assert [head.key for head in await store.list(most=1)] == ["a"]
    assert [(head.count, head.changed_at) for head in await store.list(most=2)] == [(1, 101.0), (0, 2.0)]
    assert await store.list(most=0) == await store.list(most=-1) == ()


async def test_of_equally_old_sessions_the_last_made_is_first(store: SessionStore) -> None:
    for key in ("a", "b", "c"):
        await store.make(SessionHead(key=key, made_at=1.0, changed_at=1.0))
    assert [head.key for head in await store.list()] == ["c", "b", "a"]


async def test_lines_go_where_the_writer_believes_the_session_is_or_nowhere(store: SessionStore) -> None:
    await store.make(HEAD)
    await done(store.append(KEY, [said(1), said(2)], at=0))
    for at in (0, 1, 3, -1):
        with pytest.raises(ToolError, match=rf"has 2 lines, not {at}: somebody else goes on with it") as refused:
            await done(store.append(KEY, [said(3)], at=at))
        assert refused.value.code == "changed"
    await done(store.append(KEY, [said(3)], at=2))
    await done(store.append(KEY, [], at=3))
    assert await store.lines(KEY) == (said(1), said(2), said(3))


async def test_several_lines_are_kept_all_or_none(store: SessionStore) -> None:
    await store.make(HEAD)
    await done(store.append(KEY, [said(1)], at=0))
    assert await refusal_of(store, [said(2), said(3), said(1)]) == "bad_line"
    assert await refusal_of(store, [said(2), said(2)]) == "bad_line"
    assert await refusal_of(store, [said(2), said(3, parent=9)]) == "bad_line"
    assert await refusal_of(store, [said(2), said(4, parent=5), said(5, parent=2)]) == "bad_line"
    assert await refusal_of(store, [Line("l2", "l1", 1.0, Shortened("s", "l7", 1))]) == "bad_line"
    assert await refusal_of(store, [said(2), Line("l3", "l2", 1.0, Noted("n", {1, 2}))]) == "bad_line"
    assert await refusal_of(store, [Line("", "l1", 1.0, Labelled("x"))]) == "bad_line"
    assert await store.lines(KEY) == (said(1),)


async def refusal_of(store: SessionStore, lines: list[Line]) -> str:
    with pytest.raises(ToolError) as refused:
        await done(store.append(KEY, lines, at=1))
    return refused.value.code


async def test_a_branch_hangs_from_an_older_line(store: SessionStore) -> None:
    await store.make(HEAD)
    lines = (said(1), said(2), said(3), said(4, parent=1), said(5), said(6, parent=0))
    await done(store.append(KEY, lines, at=0))
    assert await store.lines(KEY) == lines


async def test_what_is_handed_in_at_once_is_kept_in_that_order(store: SessionStore) -> None:
    await store.make(HEAD)
    waiting = [store.append(KEY, [said(number + 1)], at=number) for number in range(200)]
    await asyncio.gather(*(each for each in waiting if each is not None))
    assert await store.lines(KEY) == tuple(said(number + 1) for number in range(200))


async def test_looking_sees_what_was_handed_in(store: SessionStore) -> None:
    await store.make(HEAD)
    waiting = store.append(KEY, [said(1)], at=0)
    assert await store.lines(KEY) == (said(1),)
    await done(waiting)


async def test_a_plugin_may_go_on_changing_what_it_handed_in(store: SessionStore) -> None:
    await store.make(HEAD)
    data = {"a": [1]}
    waiting = store.append(KEY, [Line("l1", None, 1.0, Noted("n", data))], at=0)
    data["a"].append(2)
    await done(waiting)
    assert (await store.lines(KEY))[0].body == Noted("n", {"a": [1]})


async def test_a_deleted_session_is_gone_and_may_begin_anew(store: SessionStore) -> None:
    await store.make(HEAD)
    await store.make(replace(HEAD, key="other"))
    lines = chained(BODIES)
    await done(store.append(KEY, lines, at=0))
    await done(store.append("other", lines, at=0))
    assert await store.delete(KEY)
    assert not await store.delete(KEY)
    assert (await store.find(KEY), await store.lines(KEY)) == (None, ())
    assert await store.lines("other") == lines  # pictures that both held included
    await store.make(HEAD)
    await done(store.append(KEY, lines, at=0))
    assert await store.lines(KEY) == lines


@pytest.mark.parametrize("key", ["", "..", "../x", "a/b", "a\0b", "\ud800", "x" * 400])
async def test_a_key_that_is_none_is_refused_everywhere(store: SessionStore, key: str) -> None:
    head = replace(HEAD, key=key)

    async def appended() -> None:
        await done(store.append(key, [said(1)], at=0))

    for waiting in (
        store.make(head), store.add(head, ()), store.find(key), store.lines(key), store.delete(key), appended()
    ):  # fmt: skip
        with pytest.raises(ToolError) as refused:
            await waiting
        assert refused.value.code == "bad_key"
    assert await store.list() == ()


async def test_a_whole_session_is_added_or_nothing_of_it(store: SessionStore) -> None:
    lines = chained((*BODIES, Labelled("t")))
    with pytest.raises(ToolError, match="names a line 'l1' that is not before it"):
        await store.add(HEAD, lines[1:])
    assert await store.find(KEY) is None
    added = await store.add(replace(HEAD, count=99), lines)
    assert added == replace(HEAD, count=len(lines), changed_at=lines[-1].at, title="t") == await store.find(KEY)
    with pytest.raises(ToolError, match="there is a session 'agent:main:main' already; choose another key") as refused:
        await store.add(HEAD, ())
    assert refused.value.code == "exists"
    assert await store.lines(KEY) == lines


async def test_a_session_goes_through_a_file_to_another_key(store: SessionStore) -> None:
    lines = chained(BODIES)
    await store.add(HEAD, lines)
    head = await store.find(KEY)
    assert head is not None
    text = "\n".join(write_log(head, await store.lines(KEY)))
    read, again = read_log(text.encode().decode().splitlines())
    await store.add(replace(read, key="copy"), again)
    assert await store.lines("copy") == lines
    assert await store.find("copy") == replace(head, key="copy")


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 3), st.booleans()), max_size=25))
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_two_writers_keep_every_acknowledged_line_in_order(
    kind: str, tmp_path_factory: pytest.TempPathFactory, moves: list[tuple[bool, int, bool]]
) -> None:
    asyncio.run(interleaved(kind, tmp_path_factory, moves))


class Writer:
    """One handle on a store, with its own idea of where the session is, which it looks up anew when it was refused."""

    def __init__(self, store: SessionStore, kept: list[Line]) -> None:
        self.store, self.kept = store, kept
        self.at: int | None = 0
        self.open: list[tuple[Awaitable[None] | None, tuple[Line, ...]]] = []
        self.refused: list[str] = []

    async def append(self, lines: tuple[Line, ...]) -> None:
        if self.at is None:
            self.at = len(await self.store.lines(KEY))
        at, self.at = self.at, self.at + len(lines)
        try:
            self.open.append((self.store.append(KEY, lines, at=at), lines))
        except ToolError as error:
            self.refused.append(error.code)
            self.at = None

    async def settle(self) -> None:
        for waiting, lines in self.open:
            try:
                await done(waiting)
            except ToolError as error:
                self.refused.append(error.code)
                self.at = None
            else:
                self.kept.extend(lines)
        self.open.clear()


async def interleaved(kind: str, folders: pytest.TempPathFactory, moves: list[tuple[bool, int, bool]]) -> None:
    path = folders.mktemp("store") / "crib.db"
    files = [Commits(SqliteFile(path)) for _ in range(2)]
    shared = MemorySessions()
    kept: list[Line] = []
    writers = [Writer(shared if kind == "memory" else SqliteSessions(each), kept) for each in files]
    await writers[0].store.make(HEAD)
    for serial, (second, count, waits) in enumerate(moves):
        writer, other = writers[second], writers[not second]
        await other.settle()  # the order of two processes is known when one has waited
        await writer.append(tuple(Line(f"w{serial}.{at}", None, 1.0, Labelled("x")) for at in range(count)))
        if waits:
            await writer.settle()
    for writer in writers:
        await writer.settle()
        assert set(writer.refused) <= {"changed"}
    assert [await writer.store.lines(KEY) for writer in writers] == [tuple(kept)] * 2
    for each in files:
        each.close()
