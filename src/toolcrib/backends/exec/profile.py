"""What a sandbox is made of, as arguments of bubblewrap: an allow-list, never the whole disk."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from toolcrib.backends.files.guard import Access
from toolcrib.define.paths import joined, parts_of, plain

from .etc import LARGE, NOTHING

__all__ = ["View", "environment", "inside", "is_seen", "profile"]

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_COVERED = ("irq", "bus", "sysrq-trigger")  # what bubblewrap makes read-only by itself
_HIDDEN = ("cmdline", "keys")  # how the machine was started; keys of whoever we are
_HARMLESS = ("pressure",)  # written to by whoever wants to be woken
_PRIVATE, _SHARED = 1 << 30, 256 << 20  # bytes: /tmp and the home folder; shared memory


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What a sandbox shows: a workspace and how, further folders, a copy of the settings, a home folder, a network."""

    root: str
    access: Access
    folders: tuple[str, ...]
    settings: str
    home: str
    network: bool


def profile(view: View) -> Iterator[str]:
    """Give the arguments: namespaces, the system, a workspace, private folders. The root itself becomes read-only."""
    yield from ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
    yield from () if view.network else ("--unshare-net",)
    yield from ("--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox", "--clearenv")
    yield from _system()
    yield from ("--ro-bind", view.settings, "/etc")
    for name in LARGE:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    yield from ("--dev", "/dev", "--size", str(_SHARED), "--perms", "1777", "--tmpfs", "/dev/shm", "--proc", "/proc")  # noqa: S108
    yield from _covers()
    for name in _hidden():
        yield from ("--ro-bind", f"{view.settings}/{NOTHING}", f"/proc/{name}")
    yield from ("--size", str(_PRIVATE), "--perms", "1777", "--tmpfs", "/tmp")  # noqa: S108
    yield from ("--dir", "/run", "--dir", "/var", "--symlink", "../tmp", "/var/tmp")  # noqa: S108
    if _needs_home(view.home, view.root):
        yield from ("--size", str(_PRIVATE), "--tmpfs", view.home)
    for folder in view.folders:
        yield from ("--ro-bind-try", folder, folder)
    if view.access == "none":
        yield from ("--size", str(_PRIVATE), "--tmpfs", view.root)
    else:
        yield from ("--bind" if view.access == "rw" else "--ro-bind", view.root, view.root)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/")


def environment(env: Mapping[str, str]) -> Iterator[str]:
    """Give the arguments that set the environment."""
    for name, value in env.items():
        yield from ("--setenv", name, value)


def is_seen(path: str, root: str, folders: Sequence[str]) -> bool:
    """Tell whether something on this machine can be seen in the sandbox, at the end of its links too."""
    seen = (*_SYSTEM, "/etc/alternatives", *folders, *((root,) if root else ()))
    return all(any(_within(spelled, place) for place in seen) for spelled in (path, os.path.realpath(path)))


def inside(root: str, path: str) -> str:
    """Return where a path of the workspace leads, by its spelling; empty when it leads out."""
    parts = plain(parts_of(path, root))
    if parts is None:
        return ""
    return root if not parts else f"{root}/{joined(parts)}"


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


def _needs_home(home: str, root: str) -> bool:
    """Tell whether a private home folder is made: not over what is there already, nor over the workspace."""
    if not home.startswith("/") or os.path.normpath(home) in ("/", "/tmp", root):  # noqa: S108
        return False
    taken = (*_SYSTEM, root, "/dev", "/proc", "/etc", "/run", "/var", "/tmp", "/sys")  # noqa: S108
    return ".." not in home.split("/") and not any(_within(os.path.normpath(home), place) for place in taken)


@cache
def _system() -> tuple[str, ...]:
    args: list[str] = []
    for place in _SYSTEM:
        if os.path.islink(place):  # noqa: PTH114
            args += ("--symlink", os.readlink(place), place)  # noqa: PTH115
        elif os.path.isdir(place):  # noqa: PTH112
            args += ("--ro-bind", place, place)
    return tuple(args)


@cache
def _hidden() -> tuple[str, ...]:
    return tuple(name for name in _HIDDEN if os.path.exists(f"/proc/{name}"))  # noqa: PTH110


@cache
def _covers() -> tuple[str, ...]:
    """Return what keeps /proc from being a way out for root, who can turn its switches without any capability."""
    if os.getuid():
        return ()
    writable = (entry.path for entry in os.scandir("/proc") if _is_switch(entry))
    return tuple(arg for path in writable for arg in ("--ro-bind", path, path))


def _is_switch(entry: "os.DirEntry[str]") -> bool:
    """Tell whether there is something to write to that is not about a single process."""
    if entry.name.isdigit() or entry.is_symlink() or entry.name in (*_COVERED, *_HARMLESS):
        return False
    if entry.name == "sys" or not entry.is_dir():
        return entry.name == "sys" or bool(entry.stat().st_mode & 0o222)
    return any(
        os.lstat(f"{folder}/{name}").st_mode & 0o222 for folder, _, names in os.walk(entry.path) for name in names
    )
