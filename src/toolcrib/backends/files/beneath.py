"""Paths resolved beneath a pinned root, with no moment between a check and its use (TOCTOU).

On Linux the kernel resolves: `openat2` with RESOLVE_BENEATH follows links that stay inside and refuses those that lead
out, whatever is renamed meanwhile. Elsewhere, or where that call is filtered, the path is walked one name at a time on
descriptors that never follow a link; links are read and walked by the same rules. The walk also takes over where the
kernel refuses, for it knows that an absolute link may point back inside, and which link leads out.
"""

import ctypes
import errno
import os
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from copy import copy

from toolcrib.define.errors import ToolError
from toolcrib.define.files import join_parts, outside, parts_of
from toolcrib.lazy import dataclass

from .os_errors import as_tool_errors

_Parts = tuple[str, ...]

_OPENAT2 = 437  # the same number on every architecture that has it
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS, _RESOLVE_BENEATH = 0x02, 0x04, 0x08
_PATH = getattr(os, "O_PATH", 0)
_FOLDER = _PATH | os.O_DIRECTORY | os.O_CLOEXEC
_MAX_LINKS, _MAX_TRIES = 40, 100


@dataclass(frozen=True, slots=True)
class ResolvedPath:
    """A name in an open folder: `real` are the parts of its path with every link resolved."""

    folder: int
    name: str
    real: _Parts

    @property
    def path(self) -> str:
        return join_parts(self.real)

    def stat(self) -> os.stat_result | None:
        """Return what stands there, not following a link; None when nothing does."""
        return stat_name(self.name, self.folder)


def stat_name(name: str, folder: int) -> os.stat_result | None:
    """Return what stands under a name in an open folder, not following a link; None when nothing does."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


class Beneath:
    """A root folder, held open: every path is resolved beneath it. `kernel` says by whom."""

    follows = True

    def __init__(self, root: str, *, kernel: bool | None = None) -> None:
        self.spelled = os.path.abspath(root)  # noqa: PTH100  a spelling, not a place
        self.fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self.path = os.path.realpath(root)
        self.kernel = kernel_opens(self.fd) if kernel is None else kernel

    def close(self) -> None:
        os.close(self.fd)

    def without_links(self) -> "Beneath":
        """Return the same root, beneath which no link is followed: a path that was resolved has none."""
        strict = copy(self)
        strict.follows = False
        return strict

    def parts(self, path: str) -> _Parts:
        """Return the names along a path, relative to the root or absolute beneath it."""
        return parts_of(path, self.path, self.spelled)

    def open(self, path: str, flags: int) -> int:
        """Return a descriptor of what stands at the end of the links. Never blocks, never makes anything."""
        parts = self.parts(path)
        flags |= os.O_CLOEXEC
        if not flags & _PATH:  # openat2 is strict about flags that mean nothing
            flags |= os.O_NONBLOCK | os.O_NOCTTY
        with as_tool_errors(path):
            fd = self._kernel_open(parts, flags) if self.kernel else None
            if fd is not None:
                return fd
            for _ in range(_MAX_TRIES):
                with self._walk(path, parts) as place:
                    try:
                        return os.open(place.name or ".", flags | os.O_NOFOLLOW, dir_fd=place.folder)
                    except OSError as error:
                        if error.errno != errno.ELOOP:  # a link took the place of what the walk saw: look again
                            raise
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))

    @contextmanager
    def place(self, path: str, *, follow: bool = True) -> Iterator[ResolvedPath]:
        """Give the folder and the name a path ends in; a link there is followed, unless it is meant itself.

        The folder must exist, the name need not. The root itself has no name.
        """
        with as_tool_errors(path), self._walk(path, self.parts(path), follow=follow) as place:
            yield place

    def _kernel_open(self, parts: _Parts, flags: int) -> int | None:
        """Open through the kernel; None when it sees a way out or cannot decide, so that the walk may look closer."""
        for _ in range(_MAX_TRIES):
            try:
                return _openat2(self.fd, join_parts(parts), flags, 0 if self.follows else _RESOLVE_NO_SYMLINKS)
            except OSError as error:
                if error.errno == errno.EAGAIN:  # something above was renamed meanwhile
                    continue
                if error.errno in (errno.EXDEV, errno.ELOOP):
                    return None
                raise
        return None

    @contextmanager
    def _walk(self, path: str, parts: _Parts, *, follow: bool = True) -> Iterator[ResolvedPath]:
        with closing(_Walk(self.fd, self.path, self.spelled, path, follows=self.follows)) as walk:
            yield walk.to(parts, follow=follow)


class _Walk:
    """One name after another from the root, each folder opened without following links and held until the end."""

    def __init__(self, root: int, *names: str, follows: bool) -> None:
        self._root, (self._real, self._spelled, self._path), self._follows = root, names, follows
        self._held: list[tuple[int, str]] = []
        self._links = 0

    def close(self) -> None:
        for fd, _ in self._held:
            os.close(fd)
        self._held.clear()

    def to(self, parts: _Parts, *, follow: bool) -> ResolvedPath:
        ahead = list(reversed(parts))
        while ahead:
            part = ahead.pop()
            if part == "..":
                self._up()
                continue
            link = self._link(part) if ahead or follow else None
            if link is not None:
                ahead += reversed(self._follow(link))
            elif ahead:
                self._down(part)
            else:
                return ResolvedPath(self._at, part, (*self._names, part))
        if not self._held:
            return ResolvedPath(self._root, "", ())
        # the path ended in `..` or in a link to a folder above: give that folder by its own name
        fd, name = self._held.pop()
        os.close(fd)
        return ResolvedPath(self._at, name, (*self._names, name))

    @property
    def _at(self) -> int:
        return self._held[-1][0] if self._held else self._root

    @property
    def _names(self) -> _Parts:
        return tuple(name for _, name in self._held)

    def _up(self) -> None:
        if not self._held:
            raise outside(self._path)
        os.close(self._held.pop()[0])

    def _down(self, part: str) -> None:
        self._held.append((os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=self._at), part))

    def _link(self, part: str) -> str | None:
        try:
            return os.readlink(part, dir_fd=self._at)
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno == errno.EINVAL:  # no link
                return None
            raise

    def _follow(self, target: str) -> _Parts:
        if not self._follows:
            why = f"a link took the place of something in {self._path!r} since that was judged; call it again"
            raise ToolError(why, code="changed")
        self._links += 1
        if self._links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        if not target.startswith("/"):
            return tuple(part for part in target.split("/") if part not in ("", "."))
        try:
            inside = parts_of(target, self._real, self._spelled)
        except ToolError:
            raise outside(self._path) from None
        self.close()
        return inside


def kernel_opens(fd: int) -> bool:
    """Tell whether the kernel resolves beneath a folder here; filters and old kernels do not let it."""
    try:
        os.close(_openat2(fd, ".", _FOLDER))
    except OSError:
        return False
    return True


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def _syscall() -> Callable[..., int] | None:
    """Return libc's `syscall`, None where there is none by these numbers."""
    with suppress(OSError, AttributeError):
        if os.uname().sysname == "Linux":
            call = ctypes.CDLL(None, use_errno=True).syscall
            call.restype = ctypes.c_long
            return call
    return None


_CALL = _syscall()


def _openat2(folder: int, path: str, flags: int, more: int = 0) -> int:
    if _CALL is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
    how = _OpenHow(flags, 0, _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | more)
    fd = _CALL(
        ctypes.c_long(_OPENAT2), ctypes.c_int(folder), ctypes.c_char_p(os.fsencode(path)), ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )  # fmt: skip
    if fd < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return fd
