"""A workspace that lives in memory."""

import builtins
import fnmatch
import hashlib
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Literal, Self

from toolcrib.define.errors import ToolError
from toolcrib.define.files import (
    NOWHERE,
    Change,
    Entry,
    Find,
    Found,
    Listing,
    MatchedLine,
    Names,
    Passage,
    Search,
    in_order,
    join_parts,
    outside,
    parts_of,
    plain,
)


def list_names(known: Iterable[str]) -> str:
    """Return what there is, for a sentence about what there is not."""
    return ", ".join(sorted(known)) or "none"


def as_bytes(data: bytes | str) -> bytes:
    """Return what a test wrote as text or as bytes, as bytes."""
    return data.encode() if isinstance(data, str) else data


class MemoryWorkspace:
    """A workspace of nothing but `files`: normalised relative path to bytes. Folders are those that files lie in.

    `origins` are the files that go back to something from outside, and to what.
    """

    def __init__(self, files: Mapping[str, bytes | str] | None = None, *, access: Literal["rw", "ro"] = "rw") -> None:
        self.files = {_within(path): as_bytes(data) for path, data in (files or {}).items()}
        self.folders: set[str] = set()
        self.origins: dict[str, str] = {}
        self.access = access
        self._noted: dict[str, Entry] = {}

    async def stat(self, path: str, /) -> Entry:
        known = _within(path, folder=True)
        if known in self.files:
            data = self.files[known]
            return Entry(path=known, kind="file", size=len(data), version=hashlib.sha256(data).hexdigest())
        if known not in self._folders():
            raise ToolError(f"no file {path!r}; there are {list_names(self.files)}", code="not_found")
        return Entry(path=known, kind="folder")

    async def read(self, path: str, /, start: int = 0, length: int | None = None) -> bytes:
        entry = await self.stat(path)
        if entry.kind == "folder":
            raise ToolError(f"{path!r} is a folder; give a file in it", code="is_folder")
        return self.files[entry.path][start : None if length is None else start + length]

    async def lines(self, path: str, /, first: int, most: int, size: int) -> Passage:
        data, entry = await self.read(path), await self.stat(path)
        rows = re.findall(rb"[^\n]*\n|[^\n]+", data)
        wanted: list[bytes] = []
        for row in rows[first - 1 : first - 1 + most]:
            if len(b"".join([*wanted, row]).removesuffix(b"\n")) > size:
                break
            wanted.append(row)
        left = rows[first - 1 + len(wanted) :]
        return Passage(
            data=b"".join(wanted), first=first, count=len(wanted), more=bool(left), total=len(rows), entry=entry,
            long=len(left[0]) if left and most and not wanted else None,
        )  # fmt: skip

    async def list(self, path: str, /, most: int = 10_000) -> Listing:
        entry = await self.stat(path)
        if entry.kind != "folder":
            raise ToolError(f"{path!r} is a file, not a folder", code="not_folder")
        inside = {known for known in (*self.files, *self._folders()) if (posixpath.dirname(known) or ".") == entry.path}
        names = sorted(inside - {"."}, key=in_order)
        return Listing(entries=tuple([await self.stat(known) for known in names[:most]]), total=len(names))

    async def write(self, path: str, data: bytes, /) -> Entry:
        return (await self.change([Change(path=path, data=data)]))[0]

    async def change(self, changes: Sequence[Change], /) -> tuple[Entry, ...]:
        files = dict(self.files)
        for change in changes:
            known = self._writable(change.path)
            version = hashlib.sha256(self.files[known]).hexdigest() if known in self.files else NOWHERE
            if change.expect not in (None, version):
                raise ToolError(f"{change.path!r} is not as it was; read it again", code="changed")
            if known in self._folders():
                raise ToolError(f"{change.path!r} is a folder; give the name of a file", code="is_folder")
            if change.data is not None:
                files[known] = change.data
            elif files.pop(known, None) is None:
                raise ToolError(f"no file {change.path!r}; there are {list_names(self.files)}", code="not_found")
        self.files = files
        written = tuple([await self.stat(change.path) for change in changes if change.data is not None])
        self._noted |= {entry.path: entry for entry in written}
        return written

    async def trace(self, paths: Collection[str], /, *, names: bool = False) -> tuple[str, ...]:
        known = [_within(path, folder=True) for path in paths]
        found = [f"file:{each}" for each in known if each.startswith(("inbox/", "downloads/"))]
        return tuple(found if names else [*found, *(self.origins[each] for each in known if each in self.origins)])

    async def mark(self, contents: Mapping[str, bytes | None], source: str, /) -> None:
        self.origins |= {_within(path): source for path in contents if source}

    async def resolve(self, path: str, /) -> str:
        return _within(path, folder=True)

    async def delete(self, path: str, /, *, recursive: bool = False) -> None:
        known = self._writable(path)
        if (await self.stat(path)).kind == "file":
            del self.files[known]
            return
        if (await self.list(path)).total and not recursive:
            raise ToolError(f"{path!r} is a folder that is not empty", code="is_folder")
        self.files = {each: data for each, data in self.files.items() if not each.startswith(f"{known}/")}
        self.folders = {each for each in self.folders if f"{each}/".startswith(f"{known}/") is False}

    async def mkdir(self, path: str, /) -> None:
        known = self._writable(path)
        if known in self.files:
            raise ToolError(f"{path!r} is a file", code="exists")
        self.folders.add(known)

    async def move(self, path: str, to: str, /) -> None:
        old, new = self._writable(path), self._writable(to)
        await self.stat(path)
        if new in self.files or new in self._folders():
            raise ToolError(f"{to!r} exists already", code="exists")
        moved = {each: new + each.removeprefix(old) for each in self.files if each == old or each.startswith(f"{old}/")}
        self.files = {moved.get(each, each): data for each, data in self.files.items()}
        self.folders = {
            new + each.removeprefix(old) if f"{each}/".startswith(f"{old}/") else each for each in self.folders
        }

    async def search(self, query: Search, /) -> Found:
        pattern = re.compile(
            re.escape(query.pattern) if query.literal else query.pattern, re.IGNORECASE if query.ignore_case else 0
        )
        found: list[MatchedLine] = []
        for path in self._beneath(query.path, query.glob or "*", query.is_shut):
            rows = self.files[path].decode("utf-8", "replace").split("\n")
            hits = [at for at, row in enumerate(rows) if pattern.search(row)]
            near = {at for hit in hits for at in range(hit - query.context, hit + query.context + 1)}
            found += [
                MatchedLine(path=path, number=at + 1, text=rows[at], matched=at in hits)
                for at in sorted(near)
                if 0 <= at < len(rows)
            ]
        return Found(lines=tuple(found[: query.limit]), more=len(found) > query.limit)

    async def find(self, query: Find, /) -> Names:
        paths = self._beneath(query.path, query.pattern, query.is_shut)
        return Names(paths=tuple(paths[: query.limit]), more=len(paths) > query.limit)

    def note(self, entry: Entry, /) -> None:
        self._noted[entry.path] = entry

    def is_shut(self, path: str, /) -> bool:
        """Tell that no rule is about these files."""
        return False

    def without_links(self) -> Self:
        """Return the same files: there are no links among them."""
        return self

    def last_seen(self, path: str, /) -> Entry | None:
        return self._noted.get(_within(path))

    def _beneath(self, path: str, glob: str, is_shut: Callable[[str], bool] | None) -> builtins.list[str]:
        folder = _within(path, folder=True)
        inside = [each for each in sorted(self.files) if folder in (".", each) or each.startswith(f"{folder}/")]
        inside = [each for each in inside if is_shut is None or not is_shut(each)]
        return [each for each in inside if fnmatch.fnmatchcase(each if "/" in glob else posixpath.basename(each), glob)]

    def _folders(self) -> set[str]:
        known = (*self.files, *self.folders)
        return {".", *self.folders, *(path[:index] for path in known for index, char in enumerate(path) if char == "/")}

    def _writable(self, path: str) -> str:
        if self.access != "rw":
            raise ToolError(f"the workspace is read-only; {path!r} cannot be changed", code="denied")
        return _within(path)


def _within(path: str, *, folder: bool = False) -> str:
    """Return the path in one spelling; refuse one that leads out, as every workspace does."""
    parts = plain(parts_of(path))
    if parts is None:
        raise outside(path)
    if not parts and not folder:
        raise ToolError(f"{path!r} is the workspace itself, not a file in it", code="is_folder")
    return join_parts(parts)
