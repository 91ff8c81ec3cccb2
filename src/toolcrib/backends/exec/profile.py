"""What a sandbox is made of, as arguments of bubblewrap: an allow-list, never the whole disk."""

import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache

from toolcrib.backends.files.guard import Access
from toolcrib.define.errors import ToolError
from toolcrib.define.files import join_parts, parts_of, plain
from toolcrib.define.shell import CommandLimits

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_PLACES_WITHIN = (*_SYSTEM, "/etc", "/dev", "/proc", "/sys", "/run", "/var", "/tmp", "/boot", "/home")  # noqa: S108
_KERNEL_KINDS = frozenset(("proc", "sysfs", "devtmpfs", "devpts", "securityfs", "cgroup", "cgroup2", "efivarfs"))
_COVERED = ("irq", "bus", "sysrq-trigger")  # what bubblewrap makes read-only by itself
# how the machine was started and built; keys of this user; what root alone sees of the kernel and its memory
_HIDDEN = (
    "cmdline", "config.gz", "iomem", "kallsyms", "kcore", "keys", "kpagecgroup", "kpagecount", "kpageflags",
    "sched_debug", "slabinfo", "timer_list", "vmallocinfo",
)  # fmt: skip
_HARMLESS = ("pressure",)  # written to by programs that want a wake-up
_PRIVATE, _SHARED = 1 << 30, 256 << 20  # bytes: /tmp and the home folder; shared memory

LARGE = ("alternatives", "ssl/certs")
"""Folders of many names, empty in the copy: the real ones are shown in their place."""

EMPTY_FILE_NAME = ".nothing"
"""An empty file among the copies, shown in place of what is not to be seen."""

# What programs read; none holds a secret.
_NAMES = (
    "ca-certificates", "ssl/openssl.cnf", "pki/tls/certs", "pki/ca-trust/extracted",
    "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "passwd", "group", "nsswitch.conf", "hosts", "host.conf", "gai.conf",
    "protocols", "services", "localtime", "timezone", "locale.alias", "locale.conf", "default/locale", "os-release",
    "debian_version", "lsb-release", "mime.types", "magic", "fonts", "terminfo", "inputrc", "perl", "ghostscript",
    "papersize", "dpkg/origins", "ImageMagick-6", "ImageMagick-7",
)  # fmt: skip
_BEGINNINGS = ("python3", "java-")
_MAX_FILES, _MAX_BYTES = 5_000, 4 << 20


class Settings:
    """Copies of a few of the system's settings, made once: one folder is shown quicker than forty.

    /etc as a sandbox sees it; removed with the last reference.
    """

    def __init__(self) -> None:
        self._remove: Callable[[], object] | None = None
        self._folder = ""

    def close(self) -> None:
        if self._remove is not None:
            self._remove()
            self._remove = None

    def folder(self, parent: str | None) -> str:
        """Return the folder to show as /etc; a new one is made beneath `parent`."""
        if self._remove is None:
            made = tempfile.mkdtemp(prefix=f"settings-{os.getpid()}-", dir=parent)
            self._remove = weakref.finalize(self, shutil.rmtree, made, ignore_errors=True)
            self._folder = f"{made}/etc"
            os.mkdir(self._folder, 0o755)  # noqa: PTH102
            found = sorted(name for name in os.listdir("/etc") if name.startswith(_BEGINNINGS))  # noqa: PTH208
            os.close(os.open(f"{self._folder}/{EMPTY_FILE_NAME}", os.O_CREAT | os.O_WRONLY, 0o444))
            for name in LARGE:
                os.makedirs(f"{self._folder}/{name}")  # noqa: PTH103
            _copy((*_NAMES, *found), self._folder)
        return self._folder


def _copy(names: Iterable[str], folder: str) -> None:
    left = _MAX_FILES
    ahead = list(names)
    while ahead and left:
        name = ahead.pop()
        left -= 1
        source, target = f"/etc/{name}", f"{folder}/{name}"
        with suppress(OSError):  # what cannot be read here is not to be seen there
            os.makedirs(os.path.dirname(target), exist_ok=True)  # noqa: PTH103, PTH120
            found = os.lstat(source)
            if stat.S_ISLNK(found.st_mode):
                os.symlink(os.readlink(source), target)  # noqa: PTH115, PTH211
            elif stat.S_ISDIR(found.st_mode):
                os.makedirs(target, exist_ok=True)  # noqa: PTH103
                ahead += (f"{name}/{entry}" for entry in os.listdir(source))  # noqa: PTH208
            elif os.stat(source).st_size <= _MAX_BYTES:  # noqa: PTH116
                shutil.copyfile(source, target)


def holds_system(root: str) -> bool:
    """Tell whether a folder is or holds a part of the system: shown in a sandbox it covers what is hidden there."""
    mounts: list[str] = []
    with suppress(OSError), open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
        mounts += (place for _, place, kind, *_ in map(str.split, file) if kind in _KERNEL_KINDS)
    holds = root == "/" or any(_within(place, root) for place in (*_PLACES_WITHIN, *mounts))
    return holds or any(_within(root, place) for place in mounts)


def profile(
    *, root: str, access: Access, folders: Sequence[str], settings: str, home: str, limits: CommandLimits
) -> Iterator[str]:
    """Give the arguments: namespaces, the system, a workspace, private folders. The root itself becomes read-only.

    Shown are a workspace as `access` says, further folders, a copy of the settings and a home folder.
    Private folders lie in memory, and hold together no more than the limit of that.
    """
    memory = limits.memory or 8 * _PRIVATE
    private, shared = min(_PRIVATE, memory // 4), min(_SHARED, memory // 8)
    if holds_system(root):
        raise ToolError(
            f"no sandbox can be made around {root!r}, which holds a part of the system; set workspace.root to another "
            "folder, or let commands run unprotected with tools.exec.host: host",
            code="unavailable",
        )
    yield from ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
    yield "--unshare-net"
    yield from ("--die-with-parent", "--cap-drop", "ALL", "--hostname", "sandbox", "--clearenv")
    yield from _system()
    yield from ("--ro-bind", settings, "/etc")
    for name in LARGE:
        yield from ("--ro-bind-try", f"/etc/{name}", f"/etc/{name}")
    yield from ("--dev", "/dev", "--size", str(shared), "--perms", "1777", "--tmpfs", "/dev/shm", "--proc", "/proc")  # noqa: S108
    yield from _covers()
    for name in _hidden_files():
        yield from ("--ro-bind", f"{settings}/{EMPTY_FILE_NAME}", f"/proc/{name}")
    yield from ("--size", str(private), "--perms", "1777", "--tmpfs", "/tmp")  # noqa: S108
    yield from ("--dir", "/run", "--dir", "/var", "--symlink", "../tmp", "/var/tmp")  # noqa: S108
    if _needs_home(home, root):
        yield from ("--size", str(private), "--tmpfs", home)
    for folder in folders:
        yield from ("--ro-bind-try", folder, folder)
    if access == "none":
        yield from ("--size", str(private), "--tmpfs", root)
    else:
        yield from ("--bind" if access == "rw" else "--ro-bind", root, root)
    yield from ("--remount-ro", "/dev", "--remount-ro", "/")


_BINARIES = (
    "/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/games", "/usr/lib/git-core",
)  # fmt: skip
_MANY_IN_ONE = frozenset({"bash", "busybox", "coreutils", "toybox"})  # many programs in one file; what reads our lines


@cache
def find_masked(denied: frozenset[str], own: tuple[str, ...]) -> tuple[str, ...]:
    """Return the files of programs that never run, at the end of their links and under every name of theirs."""
    paths = [f"{folder}/{name}" for folder in _BINARIES for name in sorted(denied)]
    paths += [path for path in own if os.path.basename(path) in denied]  # noqa: PTH119
    files = {os.path.realpath(path) for path in paths if os.path.isfile(path)}  # noqa: PTH113
    nodes = {os.stat(path).st_ino for path in files if os.path.basename(path) not in _MANY_IN_ONE}  # noqa: PTH116, PTH119
    listed = (entry for folder in _BINARIES if nodes and os.path.isdir(folder) for entry in os.scandir(folder))  # noqa: PTH112
    links = {entry.path for entry in listed if not entry.is_symlink() and entry.inode() in nodes}
    return tuple(sorted({path for path in files | links if os.stat(path).st_ino in nodes}))  # noqa: PTH116


def is_seen(path: str, root: str, folders: Sequence[str]) -> bool:
    """Tell whether something on this machine can be seen in the sandbox, at the end of its links too."""
    seen = (*_SYSTEM, "/etc/alternatives", *folders, *((root,) if root else ()))
    return all(any(_within(spelled, place) for place in seen) for spelled in (path, os.path.realpath(path)))


def resolve_inside(root: str, path: str) -> str:
    """Return where a path of the workspace leads, by its spelling; empty when it leads out."""
    parts = plain(parts_of(path, root))
    if parts is None:
        return ""
    return root if not parts else f"{root}/{join_parts(parts)}"


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
def _hidden_files() -> tuple[str, ...]:
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
