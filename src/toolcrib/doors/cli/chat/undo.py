"""Undo: what stood in files before the tools of this chat changed them, so that the last change can be taken back."""

from collections import deque
from collections.abc import Sequence

from toolcrib.backends.files.local import LocalWorkspace, Make, diff_file
from toolcrib.define.display import escape
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.files import NOWHERE, Change, Entry
from toolcrib.define.ports import Workspace
from toolcrib.lazy import dataclass, replace

_FILE_BYTES = 4 * 1024 * 1024  # bytes of a file that are kept
_MAX_CHANGES = 50  # changes that are kept
_KEPT_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _FileChange:
    """A file before and after a change; None where there was none. `version` is the one it has since."""

    path: str
    before: bytes | None
    after: bytes | None
    version: str


@dataclass(frozen=True, slots=True)
class _Step:
    """One change of one or several files; one that was too large to keep says so in `why_not`."""

    workspace: LocalWorkspace
    files: tuple[_FileChange, ...]
    why_not: str = ""

    @property
    def size(self) -> int:
        return sum(len(each.before or b"") + len(each.after or b"") for each in self.files)


class Undo:
    """Remembers the changes of files in the workspaces it watches, as long as the chat lasts."""

    def __init__(self) -> None:
        self._steps: deque[_Step] = deque()
        self._is_undoing = False

    def watch(self, workspace: Workspace) -> None:
        """Remember from here on what is changed there."""
        if not isinstance(workspace, LocalWorkspace):
            return

        async def around(changes: Sequence[Change], make: Make) -> tuple[Entry, ...]:
            if self._is_undoing:
                return await make(changes)
            return await self._keep_change(workspace, changes, make)

        workspace.around = around

    def diff(self, path: str) -> str:
        """Return what the last change made of this file, as a diff; "" when that is not known."""
        step = self._steps[-1] if self._steps else None
        for each in step.files if step else ():
            if each.path == path:
                return diff_file(path, each.before, each.after)
        return ""

    async def undo(self) -> str:
        """Take the last change back, and say which files it was about; raise CribError when it cannot be done."""
        if not self._steps:
            raise CribError("no file was changed by write, edit or apply_patch since this chat was opened")
        step = self._steps[-1]
        if step.why_not:
            raise CribError(step.why_not)
        self._is_undoing = True
        try:
            entries = await step.workspace.change(
                [Change(path=each.path, data=each.before, expect=each.version) for each in step.files]
            )
        except ToolError as error:
            raise CribError(f"nothing was undone: {error}") from error
        finally:
            self._is_undoing = False
        # others may have changed something meanwhile
        self._steps = deque(each for each in self._steps if each is not step)
        written = iter(entries)
        for each in step.files:
            self._update_version(each, next(written).version if each.before is not None else NOWHERE)
        return ", ".join(f"{escape(each.path)} {_describe_undo(each)}" for each in step.files)

    def _update_version(self, back: _FileChange, version: str) -> None:
        """Let the change before that one know its file again, now that it has another version."""
        for at in range(len(self._steps) - 1, -1, -1):
            step = self._steps[at]
            if any(each.path == back.path for each in step.files):
                files = (
                    replace(each, version=version) if (each.path, each.after) == (back.path, back.before) else each
                    for each in step.files
                )
                self._steps[at] = replace(step, files=tuple(files))
                return

    async def _keep_change(self, workspace: LocalWorkspace, changes: Sequence[Change], make: Make) -> tuple[Entry, ...]:
        before = [await _read(workspace, change.path) for change in changes]
        entries = await make(changes)
        written = iter(entries)
        files, large = list[_FileChange](), list[str]()
        for change, was in zip(changes, before, strict=True):
            entry = next(written) if change.data is not None else None
            path = entry.path if entry else change.path
            if isinstance(was, str) or len(change.data or b"") > _FILE_BYTES:
                large.append(path)
            else:
                files.append(_FileChange(path, was, change.data, entry.version if entry else NOWHERE))
        why_not = f"{escape(large[0])} is too large to be kept, so its last change cannot be undone" if large else ""
        self._steps.append(_Step(workspace, () if large else tuple(files), why_not))
        while len(self._steps) > _MAX_CHANGES or (
            len(self._steps) > 1 and sum(s.size for s in self._steps) > _KEPT_BYTES
        ):
            self._steps.popleft()
        return entries


async def _read(workspace: LocalWorkspace, path: str) -> bytes | str | None:
    """Return what a file holds, None when there is none; a text says why it is not known."""
    try:
        if (await workspace.stat(path)).size > _FILE_BYTES:
            return "too large"
        return await workspace.read(path)
    except ToolError as error:
        return None if error.code == "not_found" else str(error)


def _describe_undo(each: _FileChange) -> str:
    if each.before is None:
        return "is gone again"
    return "is back" if each.after is None else "is as it was"
