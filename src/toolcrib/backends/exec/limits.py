"""Limits of a whole tree, by control groups: at most so many processes, so much memory.

A group is made only beneath our own, and only where dividing it is ours to do: at the root of what we see, or in one
that was delegated. Nothing ever leaves the limits we are under ourselves. Where there is no such group, limits of the
single process stand in.
"""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

from toolcrib.lazy import dataclass

from . import tree

_ROOT = "/sys/fs/cgroup"
_OLD = {"pids": "pids.max", "memory": "memory.limit_in_bytes"}
_NEW = {"pids": "pids.max", "memory": "memory.max"}
_HITS = {"pids": ("pids.events", "max"), "memory": ("memory.events", "oom_kill")}
_OLD_HITS = {"pids": ("pids.events", "max"), "memory": ("memory.oom_control", "oom_kill")}


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """A folder in which groups for `kinds` (pids, memory) can be made, of the `old` layout or the new one."""

    folder: str
    kinds: tuple[str, ...]
    old: bool


def hierarchies() -> tuple[Hierarchy, ...]:
    """Return where groups can be made; each place was tried."""
    found: list[Hierarchy] = []
    try:
        with open("/proc/self/cgroup", encoding="utf-8") as file:  # noqa: PTH123
            lines = file.read().splitlines()
    except OSError:
        return ()
    for line in lines:
        number, names, path = line.split(":", 2)
        kinds = tuple(kind for kind in ("pids", "memory") if kind in names.split(","))
        if kinds:
            found.append(Hierarchy(f"{_ROOT}/{names}{path.rstrip('/')}", kinds, old=True))
        elif number == "0":
            found.append(Hierarchy(f"{_ROOT}{path.rstrip('/')}", _read_enabled(f"{_ROOT}{path}"), old=False))
    return tuple(place for place in found if place.kinds and _may_divide(place.folder) and _works(place))


class Group:
    """The groups of one command, one in each hierarchy."""

    def __init__(self, name: str, limits: Mapping[str, int], places: tuple[Hierarchy, ...]) -> None:
        self.limits = limits
        self.kinds: set[str] = set()
        self._made: list[tuple[str, Hierarchy]] = []
        self._hits: dict[str, int] = {}
        try:
            for place in places:
                own = {kind: limits[kind] for kind in place.kinds if kind in limits}
                if own:
                    self._make(f"{place.folder}/{name}", place, own)
        except OSError:
            self.remove()
            raise

    def _make(self, folder: str, place: Hierarchy, limits: Mapping[str, int]) -> None:
        os.mkdir(folder)  # noqa: PTH102
        self._made.append((folder, place))
        for kind, limit in limits.items():
            _write(f"{folder}/{(_OLD if place.old else _NEW)[kind]}", limit)
            self.kinds.add(kind)

    @contextmanager
    def enter(self) -> Iterator[None]:
        """Be in the groups ourselves meanwhile, so that what we start is in them from the beginning.

        In the old layout a single thread may move, which costs nothing; moving a process makes the kernel wait for
        all processors, some ten milliseconds. The new layout moves processes only: see `join`.
        """
        places = [(folder, place.folder) for folder, place in self._made if place.old]
        try:
            for folder, _ in places:
                _write(f"{folder}/tasks", 0)
            yield
        finally:
            for _, home in places:
                _write(f"{home}/tasks", 0)

    def join(self, pid: int) -> None:
        """Put a process into the groups that we could not enter; what it starts from now on is in them too."""
        for folder, place in self._made:
            if not place.old:
                _write(f"{folder}/cgroup.procs", pid)

    def list_pids(self) -> list[int]:
        """Return the processes in the groups: also those that no longer show whose they are."""
        return [pid for folder, _ in self._made for pid in _list_pids(folder)]

    def hit(self) -> str:
        """Return the kind of limit that was run into since we were asked last, empty when none was."""
        for folder, place in self._made:
            for kind in self.kinds.intersection(place.kinds):
                file, key = (_OLD_HITS if place.old else _HITS)[kind]
                count = _count(f"{folder}/{file}", key)
                before, self._hits[kind] = self._hits.get(kind, 0), count
                if count > before:
                    return "processes" if kind == "pids" else kind
        return ""

    def remove(self) -> None:
        """Take the groups away; one with a process in it stays and is tried by the next start."""
        for folder, _ in self._made:
            with suppress(OSError):
                os.rmdir(folder)  # noqa: PTH106
        self._made.clear()


def remove_stale_groups(place: Hierarchy) -> None:
    """Remove groups whose maker is gone, and end what is left in them."""
    for name in os.listdir(place.folder):  # noqa: PTH208
        prefix, _, rest = name.partition("-")
        maker = rest.partition("-")[0]
        if prefix == "toolcrib" and maker.isdigit() and tree.birth(int(maker)) is None:
            for pid in _list_pids(f"{place.folder}/{name}"):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            with suppress(OSError):
                os.rmdir(f"{place.folder}/{name}")  # noqa: PTH106


def _list_pids(folder: str) -> list[int]:
    with suppress(OSError), open(f"{folder}/cgroup.procs", encoding="ascii") as file:  # noqa: PTH123
        return [int(line) for line in file if int(line) != os.getpid()]
    return []


def _may_divide(folder: str) -> bool:
    """Tell whether a group is ours to divide: the root of what we see, or one that was handed over."""
    if os.path.ismount(folder):
        return True
    for mark in ("trusted.delegate", "user.delegate"):
        with suppress(OSError):
            if os.getxattr(folder, mark) == b"1":
                return True
    return False


def _read_enabled(folder: str) -> tuple[str, ...]:
    """Return what the groups in a folder of the new layout may limit."""
    with suppress(OSError), open(f"{folder}/cgroup.subtree_control", encoding="ascii") as file:  # noqa: PTH123
        names = file.read().split()
        return tuple(kind for kind in ("pids", "memory") if kind in names)
    return ()


def _works(place: Hierarchy) -> bool:
    name = f"toolcrib-{os.getpid()}-try"
    try:
        group = Group(name, {"pids": 1 << 20, "memory": 1 << 40}, (place,))
    except OSError:
        return False
    group.remove()
    return True


def _write(path: str, value: int) -> None:
    fd = os.open(path, os.O_WRONLY)
    try:
        os.write(fd, str(value).encode())
    finally:
        os.close(fd)


def _count(path: str, key: str) -> int:
    with suppress(OSError, ValueError, IndexError), open(path, encoding="ascii") as file:  # noqa: PTH123
        for line in file:
            words = line.split()
            if words[0] == key:
                return int(words[1])
    return 0
