"""A workspace on this machine's disk: paths resolved beneath a pinned root, writes atomic, changes all or nothing."""

import difflib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from copy import copy

from toolcrib.define.errors import ToolError
from toolcrib.define.files import Change, Entry, Find, Found, Listing, Names, Passage, Search, fold_path, join_parts
from toolcrib.threads import Runner, in_turn

from . import changes as made
from . import tracing
from .disk import Disk, LineMark, Terms
from .search import find_names, search

Make = Callable[[Sequence[Change]], Awaitable[tuple[Entry, ...]]]
Around = Callable[[Sequence[Change], Make], Awaitable[tuple[Entry, ...]]]

_MAX_NOTED, _MAX_MARKS, _MAX_SESSIONS = 4_096, 64, 1_024


class LocalWorkspace:
    """The files beneath a folder, for one session. `run` calls a plain function where it does not block the loop.

    `around` wraps every change of contents: it gets the changes and what makes them, and returns
    what that returned.
    """

    around: Around | None = None

    def __init__(self, disk: Disk, run: Runner = in_turn) -> None:
        self._disk, self._run, self._person = disk, run, ""
        self._noted: dict[str, Entry] = {}
        self._marks: dict[str, LineMark] = {}

    async def stat(self, path: str, /) -> Entry:
        return await self._run(self._disk.stat, path)

    async def read(self, path: str, /, start: int = 0, length: int | None = None) -> bytes:
        return await self._run(tracing.read, self._disk, path, start, length)

    async def lines(self, path: str, /, first: int, most: int, size: int) -> Passage:
        _shorten(self._marks, _MAX_MARKS)
        return await self._run(tracing.read_lines, self._disk, path, (first, most, size), self._marks)

    async def list(self, path: str, /, most: int = 10_000) -> Listing:
        return await self._run(tracing.list_folder, self._disk, path, most)

    async def write(self, path: str, data: bytes, /) -> Entry:
        return (await self.change([Change(path=path, data=data)]))[0]

    async def change(self, changes: Sequence[Change], /) -> tuple[Entry, ...]:
        return await (self.around(changes, self._change) if self.around else self._change(changes))

    async def _change(self, changes: Sequence[Change]) -> tuple[Entry, ...]:
        seen = [self.last_seen(each.path) for each in changes]
        written = await self._run(made.change, self._disk, tuple(changes), seen)
        for entry in written:
            self.note(entry)
        if self._person:
            contents = {each.path: each.data for each in changes if each.data is not None}
            await self._run(tracing.keep_made, self._disk, contents, self._person)
        return tuple(written)

    async def delete(self, path: str, /, *, recursive: bool = False) -> None:
        await self._run(made.delete, self._disk, path, recursive=recursive)

    async def mkdir(self, path: str, /) -> None:
        await self._run(made.mkdir, self._disk, path)

    async def move(self, path: str, to: str, /) -> None:
        await self._run(made.move, self._disk, path, to)

    async def search(self, query: Search, /) -> Found:
        guard = await self._run(lambda: self._disk.guard)
        return await search(self._disk.beneath, guard, query)

    async def find(self, query: Find, /) -> Names:
        guard = await self._run(lambda: self._disk.guard)
        return await find_names(self._disk.beneath, guard, query)

    async def resolve(self, path: str, /) -> str:
        return await self._run(made.resolve_path, self._disk, path)

    async def trace(self, paths: Collection[str], /, *, names: bool = False) -> tuple[str, ...]:
        return await self._run(tracing.trace, self._disk, paths, names=names)

    async def mark(self, contents: Mapping[str, bytes | None], source: str, /) -> None:
        await self._run(tracing.mark, self._disk, contents, source)

    def is_shut(self, path: str, /) -> bool:
        return False

    def of_person(self, person: str) -> "LocalWorkspace":
        """Return the same workspace for who is not the owner; what is written there is kept as theirs."""
        theirs = copy(self)
        theirs._person = person  # noqa: SLF001  its own kind
        return theirs

    def check_inbox(self, path: str) -> None:
        """Raise ToolError for a path that lies among what others sent than this person, to this agent or another."""
        folded = f"{fold_path(path)}/"
        for each in map(fold_path, self._disk.inboxes):
            own = f"{each.removesuffix('inbox')}{self._person}"
            if folded.startswith(f"{each}/") and not folded.startswith(f"{own}/"):
                raise ToolError(
                    f"there is no {path!r} for you: what people send is theirs; yours is in {own}", code="not_found"
                )

    async def owns(self, path: str) -> bool:
        """Tell whether a file came from this person, or is as a call of theirs wrote it."""
        return bool(self._person) and await self._run(tracing.is_of, self._disk, path, self._person)

    def without_links(self) -> "LocalWorkspace":
        """Return the same workspace, in which paths that were resolved are opened as they were judged."""
        strict = copy(self)
        strict._disk = self._disk.strict  # noqa: SLF001  its own kind
        return strict

    def note(self, entry: Entry, /) -> None:
        self._noted.pop(entry.path, None)
        self._noted[entry.path] = entry
        _shorten(self._noted, _MAX_NOTED)

    def last_seen(self, path: str, /) -> Entry | None:
        return self._noted.get(join_parts(self._disk.spell(path)))


class DryRunWorkspace(LocalWorkspace):
    """A workspace in which nothing is changed: what would be is kept in `changes`."""

    def __init__(self, real: LocalWorkspace) -> None:
        super().__init__(real._disk, real._run)  # noqa: SLF001  its own kind
        self._noted, self.changes = dict(real._noted), list[Change]()  # noqa: SLF001

    async def mark(self, contents: Mapping[str, bytes | None], source: str, /) -> None:
        return

    async def change(self, changes: Sequence[Change], /) -> tuple[Entry, ...]:
        self.changes += changes
        kept = [(each.path, each.data) for each in changes if each.data is not None]
        return tuple(Entry(path=path, kind="file", size=len(data)) for path, data in kept)

    async def delete(self, path: str, /, *, recursive: bool = False) -> None:
        raise ToolError("nothing is changed in a rehearsal", code="denied")

    async def mkdir(self, path: str, /) -> None:
        await self.delete(path)

    async def move(self, path: str, to: str, /) -> None:
        await self.delete(path)

    async def diff(self) -> str:
        """Return everything that would be changed, as one unified diff."""
        diffs = list[str]()
        for each in self.changes:
            try:
                before: bytes | None = await self.read(each.path)
            except ToolError as error:
                if error.code != "not_found":
                    diffs.append(f"--- a/{each.path}\nwhat it holds now cannot be shown: {error}")
                    continue
                before = None
            diffs.append(await self._run(diff_file, each.path, before, each.data))
        return "\n".join(diffs)


_DIFF_BYTES = 256 * 1024  # bytes that a diff is made of


def diff_file(path: str, before: bytes | None, after: bytes | None) -> str:
    """Return the change of a file as a unified diff; of one that is too large, how large it was and is."""
    names = (f"a/{path}" if before is not None else "/dev/null", f"b/{path}" if after is not None else "/dev/null")
    sizes = [len(data or b"") for data in (before, after)]
    if sum(sizes) > _DIFF_BYTES:
        return f"--- {names[0]}\n+++ {names[1]}\n{sizes[0]:,} bytes become {sizes[1]:,}, too many to compare"
    old, new = ((data or b"").decode("utf-8", "replace").splitlines() for data in (before, after))
    return "\n".join(difflib.unified_diff(old, new, *names, n=2, lineterm=""))


class Workspaces:
    """The workspaces of a crib: one pinned root for each set of terms, one memory of what was seen for each session."""

    def __init__(self) -> None:
        self._disks: dict[Terms, Disk] = {}
        self._sessions: OrderedDict[tuple[Terms, str], LocalWorkspace] = OrderedDict()

    def open(self, terms: Terms, session: str) -> LocalWorkspace:
        """Return the session's workspace. Nothing on disk is touched before it is used."""
        key = (terms, session)
        if key not in self._sessions:
            self._sessions[key] = LocalWorkspace(self._disks.setdefault(terms, Disk(terms)))
            if len(self._sessions) > _MAX_SESSIONS:
                self._sessions.popitem(last=False)
        self._sessions.move_to_end(key)
        return self._sessions[key].of_person(terms.inbox) if terms.inbox else self._sessions[key]

    def close(self) -> None:
        for disk in self._disks.values():
            disk.close()


def _shorten(kept: dict[str, Entry] | dict[str, LineMark], limit: int) -> None:
    while len(kept) > limit:
        kept.pop(next(iter(kept)))
