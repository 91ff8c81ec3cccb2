"""What changes files beneath a root: one file by a rename, several through the journal."""

import errno
import os
import shutil
import stat as kinds
import time
from collections.abc import Sequence

from toolcrib.define.errors import ToolError
from toolcrib.define.files import NOWHERE, Change, Entry, join_parts
from toolcrib.lazy import dataclass

from .beneath import ResolvedPath
from .disk import MAX_READ_BYTES, Disk
from .journal import FileStep
from .os_errors import as_tool_errors
from .stage import rename_new, stage_file, stat_moved, sync_folder, version_of

_MAX_CHANGES = 1_000


@dataclass(frozen=True, slots=True)
class _Target:
    """Where a change will happen: the path with links resolved, the folders it lacks, and what is there now."""

    real: tuple[str, ...]
    missing: tuple[str, ...]
    before: os.stat_result | None

    @property
    def path(self) -> str:
        return join_parts(self.real)


def change(disk: Disk, changes: Sequence[Change], seen: Sequence[Entry | None]) -> list[Entry]:
    """Apply the changes, all or none; `seen` are the files as the session knows them."""
    if len(changes) > _MAX_CHANGES:
        raise ToolError(f"{len(changes)} files are too many for one change; {_MAX_CHANGES} are allowed")
    for each in changes:
        if each.data is not None and len(each.data) > MAX_READ_BYTES:
            raise ToolError(
                f"{each.path!r} would have {len(each.data)} bytes; a file written at once has at most {MAX_READ_BYTES}",
                code="too_large",
            )
    if len(changes) == 1 and changes[0].expect is None:
        target = _target(disk, changes[0].path)
        if not target.missing:
            return _change_one(disk, changes[0], target)
    with disk.journal.lock():
        disk.journal.recover()
        targets = [_target(disk, each.path) for each in changes]
        for each, target, known in zip(changes, targets, seen, strict=True):
            _check_version(disk, each, target, known if known and known.version == each.expect else None)
        if len(changes) == 1 and not targets[0].missing:
            return _change_one(disk, changes[0], targets[0])
        return _change_several(disk, changes, targets)


def delete(disk: Disk, path: str, *, recursive: bool) -> None:
    """Remove a file, a link itself, or a folder."""
    disk.guard.check_write(path, join_parts(disk.spell(path)))
    with disk.beneath.place(path, follow=False) as place:
        disk.guard.check_write(path, place.path)
        found = _require(place, path)
        if not kinds.S_ISDIR(found.st_mode):
            os.unlink(place.name, dir_fd=place.folder)
        elif recursive:
            shutil.rmtree(place.name, dir_fd=place.folder)
        else:
            os.rmdir(place.name, dir_fd=place.folder)
        sync_folder(place.folder)


def mkdir(disk: Disk, path: str) -> None:
    """Make a folder and those above it."""
    target = _target(disk, path)
    if target.before is None:
        _make(disk, (*target.missing, target.path))
    elif not kinds.S_ISDIR(target.before.st_mode):
        raise ToolError(f"{path!r} exists and is no folder", code="exists")


def move(disk: Disk, path: str, to: str) -> None:
    """Rename a file or a folder, never onto something."""
    goal = _target(disk, to)
    if goal.before is not None:
        raise ToolError(f"{to!r} exists already; delete it first, or choose another name", code="exists")
    disk.guard.check_write(path, join_parts(disk.spell(path)))
    with disk.beneath.place(path, follow=False) as place:
        disk.guard.check_write(path, place.path)
        disk.guard.check_single_name(path, place.path, _require(place, path))
        if goal.real[: len(place.real)] == place.real:
            raise ToolError(f"{path!r} cannot be moved into itself", code="bad_path")
        if disk.guard.may_be_linked(goal.path) and not disk.guard.may_be_linked(place.path):
            raise ToolError(
                f"{to!r} is in a folder where hard links are allowed; copy the file there instead", code="denied"
            )
        _make(disk, goal.missing)
        with disk.beneath.place(goal.path, follow=False) as end, as_tool_errors(to):
            rename_new(place.name, place.folder, end.name, end.folder)
            sync_folder(end.folder)
        sync_folder(place.folder)


def _target(disk: Disk, path: str) -> _Target:
    """Return where a change of this path would happen; refuse what must not be changed."""
    disk.guard.check_read(path)
    if path.endswith("/") and path.strip("/"):
        path = path.rstrip("/")
    real, missing, before = _look_up(disk, path)
    if not real:
        raise ToolError(f"{path!r} is the workspace itself, not a file in it", code="is_folder")
    if ".." in real:
        raise ToolError(f"{path!r} goes back from a folder that does not exist", code="not_found")
    disk.guard.check_write(path, join_parts(real))
    for name in real[len(real) - 1 - len(missing) :] if before is None else ():
        disk.guard.check_new_name(path, name)
    return _Target(real, missing, before)


def resolve_path(disk: Disk, path: str) -> str:
    """Return where a path leads, with the names of what is not there yet."""
    disk.guard.check_read(path)
    real = _look_up(disk, path.rstrip("/") or path)[0]
    if ".." in real:
        raise ToolError(f"{path!r} goes back from a folder that does not exist", code="not_found")
    return join_parts(real)


def _look_up(disk: Disk, path: str) -> tuple[tuple[str, ...], tuple[str, ...], os.stat_result | None]:
    """Return the real parts, the folders that are missing, and what stands at the end."""
    parts = disk.beneath.parts(path)
    for known in range(len(parts), -1, -1):
        try:
            with disk.beneath.place(join_parts(parts[:known])) as place:
                there = place.stat() if place.name else os.fstat(disk.beneath.fd)
                if known == len(parts):
                    return place.real, (), there
                real = place.real if there else place.real[:-1]
                rest = parts[known:] if there else (place.name, *parts[known:])
        except ToolError as error:
            if error.code != "not_found" or not known:
                raise
            continue
        with disk.beneath.place(join_parts((*real, rest[0])), follow=False) as place:
            if rest[0] != ".." and place.stat() is not None:
                raise ToolError(f"{path!r} goes through a link that leads nowhere", code="not_found")
        return (*real, *rest), tuple(join_parts((*real, *rest[:count])) for count in range(1, len(rest))), None
    raise AssertionError("the root is always there")


def _check_version(disk: Disk, each: Change, target: _Target, seen: Entry | None) -> None:
    now = NOWHERE if target.before is None else version_of(target.before)
    if each.expect in (None, now):
        return
    size = target.before.st_size if target.before else None
    if seen and seen.digest and seen.size == size and seen.has_held(disk.read(each.path, 0, None)):
        return  # touched, or given other permissions
    raise ToolError(f"{each.path!r} {_difference(each, target, seen)}", code="changed")


def _difference(each: Change, target: _Target, seen: Entry | None) -> str:
    if each.expect == NOWHERE:
        return "exists already; read it before changing it"
    if target.before is None:
        return "was deleted since it was read"
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(target.before.st_mtime))
    size = f"{target.before.st_size} bytes"
    was = f"it had {seen.size} bytes and now has {size}" if seen else f"it has {size}"
    return f"changed on disk since it was read: {was}, written {when} UTC; read it again before changing it"


def _change_one(disk: Disk, each: Change, target: _Target) -> list[Entry]:
    _check_file(disk, each, target)
    with disk.beneath.place(target.path, follow=False) as place, as_tool_errors(each.path):
        if each.data is None:
            os.unlink(place.name, dir_fd=place.folder)
            _confirm(place, each.path)
            return []
        like = target.before or _stat_like(disk, each)
        try:
            found = _put(disk.beneath.fd, place, each, like)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            found = _put(place.folder, place, each, like)  # another disk is mounted here: stage beside the file
        return [disk.entry(each.path, found, each.data)]


def _put(folder: int, place: ResolvedPath, each: Change, like: os.stat_result | None) -> os.stat_result:
    assert each.data is not None
    with stage_file(folder, each.data, like) as new:
        if each.expect == NOWHERE:
            rename_new(new.name, new.folder, place.name, place.folder)
        else:
            os.rename(new.name, place.name, src_dir_fd=new.folder, dst_dir_fd=place.folder)
        found = stat_moved(new.stat, place.name, place.folder)
    _confirm(place, each.path)
    return found


def _confirm(place: ResolvedPath, path: str) -> None:
    """Wait until the disk has the new names; a disk that does not confirm it must not count as success."""
    try:
        sync_folder(place.folder)
    except OSError as error:
        raise ToolError(
            f"{path!r} was changed, but the disk did not confirm it ({error.strerror}); look at it before going on"
        ) from error


def _change_several(disk: Disk, changes: Sequence[Change], targets: Sequence[_Target]) -> list[Entry]:
    if len({target.real for target in targets}) < len(targets):
        raise ToolError("one change names the same file twice; join the two into one", code="bad_arguments")
    for each, target in zip(changes, targets, strict=True):
        _check_file(disk, each, target)
    steps = [
        FileStep(target.path, each.data, target.before, None if target.before else _stat_like(disk, each))
        for each, target in zip(changes, targets, strict=True)
    ]
    folders = tuple(dict.fromkeys(folder for target in targets for folder in target.missing))
    with as_tool_errors(join_parts(targets[0].real)):
        written = disk.journal.apply(folders, steps)
    return [disk.entry(each.path, new, each.data) for each, new in zip(changes, written, strict=True) if new]


def _check_file(disk: Disk, each: Change, target: _Target) -> None:
    if target.before is None:
        if each.data is None:
            raise ToolError(f"{each.path!r} does not exist", code="not_found")
        if each.path.endswith("/"):
            raise ToolError(f"{each.path!r} ends in a slash; give the name of a file", code="is_folder")
        return
    disk.guard.check_regular(each.path, target.before)
    disk.guard.check_single_name(each.path, target.path, target.before)


def _stat_like(disk: Disk, each: Change) -> os.stat_result | None:
    if each.like is None:
        return None
    with disk.beneath.place(each.like) as place:
        return place.stat()


def _make(disk: Disk, folders: Sequence[str]) -> None:
    for folder in folders:
        with disk.beneath.place(folder, follow=False) as place:
            try:
                os.mkdir(place.name, dir_fd=place.folder)
            except FileExistsError:
                found = place.stat()
                if found is None or not kinds.S_ISDIR(found.st_mode):
                    raise
            sync_folder(place.folder)


def _require(place: ResolvedPath, path: str) -> os.stat_result:
    if not place.name:
        raise ToolError(f"{path!r} is the workspace itself", code="is_folder")
    found = place.stat()
    if found is None:
        raise ToolError(f"{path!r} does not exist", code="not_found")
    return found
