"""Ports as one call sees them: whatever they give back adds to the call where it came from, as far as that is outside.

A tool says nothing of sources: its result has all of those that its call has gathered. What is none of them, although
the call has read from outside, is marked by `vouch_for`, with the reason.
"""

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from itertools import chain
from typing import Any, Protocol, TypeVar

from .errors import ToolError
from .files import Change, Entry, Find, Found, Listing, Names, Passage, Search
from .ports import Progress, Rpc, Workspace
from .result import Content, Result, Text
from .taint import join_sources, split_sources
from .web import Http, Page

T = TypeVar("T")

OWN = ""
"""The source of words that a tool vouches for: none."""


TRACED: ContextVar[list[tuple[str, ...]] | None] = ContextVar("TRACED", default=None)
"""Where a workspace that reads also puts the sources of what it read: one turn of a thread serves for both."""


class SourceSet(Protocol):
    """What one call has read: its `sources`, and the `taint` that its conversation had before it."""

    sources: tuple[str, ...]
    taint: tuple[str, ...]

    def add_sources(self, sources: Iterable[str], /) -> None:
        """Take in where something came from."""


def vouch_for(text: str, reason: str) -> Text:
    """Return words that carry no source, although the call has read from outside; the reason says why none is in them.

    They may hold no foreign text: no name, no title, no error.
    """
    assert reason
    return Text(text, OWN)


def list_sources(answer: Any) -> Iterable[str]:
    """Return where the answer of a method came from, as it says under `sources` or `source`, or each of a list does."""
    if isinstance(answer, list | tuple):
        return chain.from_iterable(map(list_sources, answer))
    if not isinstance(answer, Mapping):
        return ()
    found = answer.get("sources") or answer.get("source") or ()
    return (found,) if isinstance(found, str) else (each for each in found if isinstance(each, str))


def gather_from_rpc(rpc: Rpc, into: SourceSet) -> Rpc:
    """Return the services' methods as this call asks them."""

    async def ask(method: str, params: Mapping[str, Any], /, progress: Progress | None = None) -> Any:
        def tell(part: Any) -> None:
            into.add_sources(list_sources(part))
            if progress is not None:
                progress(part)

        try:
            answer = await rpc(method, params, progress=tell if progress else None)
        except ToolError as error:
            into.add_sources((error.source,) if error.source else ())
            raise
        into.add_sources(list_sources(answer))
        return answer

    return ask


class SourcedWorkspace:
    """A workspace in which what is read is noted, and what is written keeps what the call goes back to."""

    def __init__(self, inner: Workspace, into: SourceSet) -> None:
        self._inner, self._into = inner, into
        self.stat, self.mkdir, self.delete, self.resolve = inner.stat, inner.mkdir, inner.delete, inner.resolve
        self.note, self.is_shut, self.last_seen = inner.note, inner.is_shut, inner.last_seen
        self.trace, self.mark = inner.trace, inner.mark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def without_links(self) -> Workspace:
        return SourcedWorkspace(self._inner.without_links(), self._into)

    async def _gather(self, paths: Iterable[str], *, names: bool = False) -> None:
        self._into.add_sources(await self._inner.trace(tuple(dict.fromkeys(paths)), names=names))

    async def _mark(self, contents: Mapping[str, bytes | None]) -> None:
        sources = join_sources((*self._into.taint, *self._into.sources))
        if sources or any(path.endswith(".md") for path in contents):  # a memory keeps who wrote it
            await self._inner.mark(contents, sources)

    async def _gather_traced(self, reading: Awaitable[T], path: str) -> T:
        """Return what is read, and gather the sources that the reading itself found; else trace the path again."""
        TRACED.set(traced := list[tuple[str, ...]]())
        found = await reading
        TRACED.set(None)
        if traced:
            self._into.add_sources(source for sources in traced for source in sources)
        elif isinstance(found, Listing):
            await self._gather((entry.path for entry in found.entries), names=True)
        else:
            await self._gather((path,))
        return found

    async def read(self, path: str, /, start: int = 0, length: int | None = None) -> bytes:
        return await self._gather_traced(self._inner.read(path, start, length), path)

    async def lines(self, path: str, /, first: int, most: int, size: int) -> Passage:
        return await self._gather_traced(self._inner.lines(path, first, most, size), path)

    async def list(self, path: str, /, most: int = 10_000) -> Listing:
        return await self._gather_traced(self._inner.list(path, most), path)

    async def search(self, query: Search, /) -> Found:
        found = await self._inner.search(query)
        await self._gather(line.path for line in found.lines)
        return found

    async def find(self, query: Find, /) -> Names:
        found = await self._inner.find(query)
        await self._gather(found.paths, names=True)
        return found

    async def write(self, path: str, data: bytes, /) -> Entry:
        await self._mark({path: data})
        return await self._inner.write(path, data)

    async def change(self, changes: Sequence[Change], /) -> tuple[Entry, ...]:
        await self._mark({each.path: each.data for each in changes if each.data is not None})
        return await self._inner.change(changes)

    async def move(self, path: str, to: str, /) -> None:
        sources = (*self._into.taint, *self._into.sources, *await self._inner.trace((path,)))
        if sources:
            is_file = (await self._inner.stat(path)).kind == "file"
            await self._inner.mark({to: await self._inner.read(path) if is_file else None}, join_sources(sources))
        await self._inner.move(path, to)


class SourcedHttp:
    """The way out to the web; every page is from outside."""

    def __init__(self, inner: Http, into: SourceSet) -> None:
        self._inner, self._into = inner, into

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def get(self, url: str, /, **how: Any) -> Page:
        return self._take(await self._inner.get(url, **how))

    async def send(self, method: str, url: str, /, **how: Any) -> Page:
        return self._take(await self._inner.send(method, url, **how))

    def judge_with(self, judge: Any, /) -> Http:
        return SourcedHttp(self._inner.judge_with(judge), self._into)

    def _take(self, page: Page) -> Page:
        self._into.add_sources((f"web:{page.url}",))
        return page


def attribute(result: Result, sources: Iterable[str]) -> Result:
    """Return a result that carries these sources: in each part that has none of its own, but for `vouch_for`.

    What the parts with sources of their own do not name joins the first of these. One without parts carries all of
    them with an empty text. Words around the content are taken into it.
    """
    joined = join_sources(sources)
    head, end = ((Text(words),) if words else () for words in (result.head, result.end))
    content = (*head, *result.content, *end)
    named = split_sources(part.source for part in content if part.source)
    missing = joined if not named.issuperset(split_sources([joined])) else ""
    parts = list[Content]()
    for part in content:
        source = joined if part.source is None else part.source
        if part.source and missing:
            source, missing = join_sources([part.source, missing]), ""
        parts.append(part._replace(source=source or None))
    return result._replace(content=tuple(parts) or (Text("", joined or None),), head="", end="", for_model="")
