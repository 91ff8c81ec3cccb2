"""apply_patch: change several files at once, all of them or none."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from toolcrib import Ctx, Result, ToolError, tool
from toolcrib.files import Change
from toolcrib.lazy import dataclass, replace

from ._diff import apply_splices, make_diff, render_change
from ._match import quote_path
from ._patch import Hunk, PatchSection, find_splices, read_patch
from ._text import choose_spelling, encode_text, shorten_line

_MAX_DIFF_CHARS = 50_000  # characters of all diffs together
_MAX_FILES_BYTES = 256 * 1024 * 1024  # bytes of all files together


def _read_places(args: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return every path that a patch names."""
    sections = read_patch(args["input"])
    return {"path": [path for each in sections for path in (each.path, each.to) if path is not None]}


@tool(
    group="fs",
    effects={"read", "write"},
    exclusive=True,
    requires=("model:openai",),
    aliases={"patch": "input"},
    paths=("path",),
    read_places=_read_places,
)
async def apply_patch(
    ctx: Ctx,
    input: Annotated[str, "the patch, from '*** Begin Patch' to '*** End Patch'"],
) -> Result:
    """Add, update, move and delete files with one patch; if any part of it does not fit, nothing is changed.

    Between '*** Begin Patch' and '*** End Patch' stand sections: '*** Add File: path' with every line behind a '+',
    '*** Delete File: path', or '*** Update File: path' with hunks (and '*** Move to: path' to rename it). A hunk begins
    with '@@', or '@@ ' and a line that stands before it; then ' ' keeps, '-' removes and '+' adds a line.
    """
    encode_text("the patch", input, "bad_patch")
    sections = read_patch(input)
    patched = _Patched(ctx)
    for section in sections:
        await patched.apply(section)
    if changes := patched.changes():
        await ctx.workspace.change(changes)
    listed = [f"{kind[0].upper()} {quote_path(path)}" for kind, paths in patched.summary.items() for path in paths]
    details = patched.details()
    change = render_change(str(details["diff"]))
    return Result.text("\n".join(["Changed these files:", *listed]), details=details, end=change)


@dataclass(frozen=True, slots=True)
class _File:
    """A file as the patch found it and as it is so far; no data when it does not exist."""

    version: str
    original: bytes | None
    data: bytes | None
    like: str | None = None


class _Patched:
    """The files that a patch touches, as they are after the sections so far; nothing is written yet.

    `summary` are the files that were added, modified and deleted, in the order of the patch.
    """

    def __init__(self, ctx: Ctx) -> None:
        self._ctx, self._workspace = ctx, ctx.workspace
        self._files: dict[str, _File] = {}
        self._diffs: list[str] = []
        self._moved: dict[str, str] = {}
        self._held = 0
        self.summary: dict[str, list[str]] = {"added": [], "modified": [], "deleted": []}

    async def apply(self, section: PatchSection) -> None:
        path = await self._choose(section.path)
        match section.kind:
            case "add":
                await self._create(path, "".join(f"{line}\n" for line in section.lines).encode())
                self._list("added", path)
            case "delete":
                file = await self._load(path)
                self._files[path] = replace(file, data=None)
                self._list("deleted", path)
            case "update":
                await self._update(path, section)

    def changes(self) -> list[Change]:
        """Return what has to be written, and which versions it was made from."""
        return [
            Change(path=path, data=file.data, expect=file.version, like=file.like)
            for path, file in self._files.items()
            if file.data != file.original
        ]

    def details(self) -> dict[str, object]:
        """Return the lists of files, the diff of those that were updated, and the new names."""
        diff = "\n".join(self._diffs)
        diff = shorten_line(diff, _MAX_DIFF_CHARS, f"\n... and {len(diff) - _MAX_DIFF_CHARS} more characters")
        return {"summary": self.summary, "moved": self._moved, "diff": diff}

    def _list(self, kind: str, path: str) -> None:
        if path not in self.summary[kind]:
            self.summary[kind].append(path)

    async def _choose(self, path: str) -> str:
        return await choose_spelling(self._ctx, _plain(path), self._files)

    async def _update(self, path: str, section: PatchSection) -> None:
        file = await self._load(path)
        made, diff = await asyncio.to_thread(_update_bytes, path, file.data or b"", section.hunks)
        self._diffs += [diff] if diff else []
        to = await self._choose(section.to) if section.to is not None else path
        if to == path:
            self._files[path] = replace(file, data=made)
        else:
            await self._create(to, made, like=path)
            self._files[path] = replace(file, data=None)
            self._moved[path] = to
        self._list("modified", to)

    async def _load(self, path: str) -> _File:
        if path not in self._files:
            entry = await self._workspace.stat(path)
            data = await self._workspace.read(path)
            self._held += len(data)
            if self._held > _MAX_FILES_BYTES:
                raise ToolError(
                    f"the files of the patch have more than {_MAX_FILES_BYTES} bytes; split it", code="too_large"
                )
            self._files[path] = _File(entry.version, data, data)
        file = self._files[path]
        if file.data is None:
            raise ToolError(
                f"{quote_path(path)} is gone earlier in the patch; name it as it is by then", code="not_found"
            )
        return file

    async def _create(self, path: str, data: bytes, like: str | None = None) -> None:
        if path not in self._files:
            try:
                await self._load(path)
            except ToolError as error:
                if error.code != "not_found":
                    raise
                self._files[path] = _File("", None, None)
        file = self._files[path]
        if file.data:
            raise ToolError(
                f"{quote_path(path)} exists already; update it, or delete it first in the same patch", code="exists"
            )
        self._files[path] = replace(file, data=data, like=like)


def _update_bytes(path: str, data: bytes, hunks: Sequence[Hunk]) -> tuple[bytes, str]:
    """Return a file with the hunks applied, and the diff of it."""
    splices = find_splices(quote_path(path), data, hunks)
    return apply_splices(data, splices), make_diff(quote_path(path), data, splices).text if splices else ""


def _plain(path: str) -> str:
    """Return a path in the spelling that two names of one file share; where it leads is for the workspace to say."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return ("/" if path.startswith("/") else "") + "/".join(parts) or "."
