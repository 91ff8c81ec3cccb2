"""The processes of a command, read from /proc: children, descendants, sessions, and a mark that every one inherits.

Parents die, and any process can leave its session. The kernel hands a process's timer slack on to what it starts,
across fork and exec; a few nanoseconds of it change nothing. Each command is started with a slack of its own, so an
orphan still says whose it is.
"""

import os
import signal
from collections.abc import Iterable
from contextlib import suppress

Born = tuple[int, int]
"""A process for good: its number and the clock tick it was started at. Numbers are used again."""

_STATE, _PARENT, _SESSION, _STARTED = 0, 1, 3, 19  # fields of /proc/PID/stat, after the name


def stat(pid: int) -> list[str] | None:
    """Return the fields after the name of a process, None when there is no such process."""
    try:
        return read_kernel_file(f"/proc/{pid}/stat").rpartition(b")")[2].decode("ascii").split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def birth(pid: int) -> Born | None:
    """Return the process for good, None when it is gone or only waits to be reaped."""
    fields = stat(pid)
    return (pid, int(fields[_STARTED])) if fields and fields[_STATE] not in "ZX" else None


def is_alive(process: Born) -> bool:
    """Tell whether this very process still runs."""
    return birth(process[0]) == process


def children(pid: int) -> list[int]:
    """Return the children of a process, also those that only wait to be reaped."""
    if not _KERNEL_LISTS:
        return [other for other in _all() if (fields := stat(other)) and int(fields[_PARENT]) == pid]
    try:
        threads = os.listdir(f"/proc/{pid}/task") if pid != os.getpid() else (str(pid),)  # noqa: PTH208
    except (FileNotFoundError, ProcessLookupError):
        return []
    found: list[int] = []
    for thread in threads:
        with suppress(FileNotFoundError, ProcessLookupError):
            found += map(int, read_kernel_file(f"/proc/{pid}/task/{thread}/children").split())
    return found


def descendants(pids: Iterable[int]) -> list[int]:
    """Return the processes and all that came from them, parents first, without those that wait to be reaped.

    A shell that hears of its end after its children do has gone on to the next command by then.
    """
    found: dict[int, None] = {}
    ahead = [*pids][::-1]
    while ahead:
        pid = ahead.pop()
        if pid in found:
            continue
        found[pid] = None
        ahead += children(pid)[::-1]
    return [pid for pid in found if birth(pid)]


def timer_slack(pid: int) -> int | None:
    """Return the timer slack of a process in nanoseconds; None when it is gone or not ours to read."""
    try:
        return int(read_kernel_file(f"/proc/{pid}/timerslack_ns"))
    except (OSError, ValueError):
        return None


def count_memory(pids: Iterable[int], max_bytes: int) -> int:
    """Return the bytes that processes hold together and no file backs.

    The quick sum is above the truth where they share; only when it is above `most` the kernel is asked for shares.
    """
    pids = list(pids)
    quick = sum(_sum_fields(f"/proc/{pid}/status", (b"RssAnon", b"RssShmem", b"VmSwap")) for pid in pids)
    if quick <= max_bytes:
        return quick
    try:
        return sum(_sum_fields(f"/proc/{pid}/smaps_rollup", (b"Pss_Anon", b"Pss_Shmem", b"SwapPss")) for pid in pids)
    except PermissionError:
        return quick


def _sum_fields(path: str, names: tuple[bytes, ...]) -> int:
    """Return the sum of some lines of a file of the kernel, in bytes; 0 when the process is gone."""
    try:
        rows = (line.partition(b":") for line in read_kernel_file(path).splitlines())
        return sum(int(value.split()[0]) << 10 for name, _, value in rows if name in names)
    except (FileNotFoundError, ProcessLookupError):
        return 0


def find_marked(mark: int, leader: Born) -> list[int]:
    """Return every process, wherever it hangs, that carries the mark or the session of a leader and is no older."""
    found = []
    for pid in _all():
        fields = stat(pid)
        if fields is None or fields[_STATE] in "ZX" or int(fields[_STARTED]) < leader[1]:
            continue
        if int(fields[_SESSION]) == leader[0] or (mark and timer_slack(pid) == mark):
            found.append(pid)
    return found


def is_in_session(pid: int, leader: int) -> bool:
    """Tell whether a process is in the session of a leader."""
    fields = stat(pid)
    return fields is not None and int(fields[_SESSION]) == leader


def send(pids: Iterable[int], number: int) -> None:
    """Send a signal to processes; those that are gone do not matter."""
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def freeze_and_kill(roots: Iterable[int]) -> None:
    """Kill processes and all that came from them: stopped first, so that none forks away meanwhile."""
    roots = list(roots)
    seen: set[int] = set()
    for _ in range(20):
        new = set(descendants(roots)) - seen
        if not new:
            break
        send(new, signal.SIGSTOP)
        seen |= new
    send(seen, signal.SIGKILL)


def read_kernel_file(path: str) -> bytes:
    """Return a small file of the kernel; the fewest calls that do."""
    fd = os.open(path, os.O_RDONLY)
    try:
        data = os.read(fd, 65_536)
        while len(data) % 4096 == 0 and (more := os.read(fd, 65_536)):
            data += more
        return data
    finally:
        os.close(fd)


def _all() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208


_KERNEL_LISTS = os.path.exists(f"/proc/self/task/{os.getpid()}/children")  # noqa: PTH110
