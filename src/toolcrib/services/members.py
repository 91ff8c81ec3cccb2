"""Members: the processes that share a state folder. A name tells where its process runs; one of them is the gateway.

    812:5531@9f2c41d07b3a/4026531836#6c0e1d.44be    process, its start, machine / PID namespace, lock . turn

A name of this machine and PID namespace is looked up in /proc. Any other is taken for alive, for nobody here can see
it; but there is one gateway at a time, by a lock that dies with its process. So who held that lock in an earlier turn
is gone, whatever it was called: a container has another name at each start.
"""

import fcntl
import hashlib
import os
import platform
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path
from secrets import token_hex
from typing import Any

import orjson

from toolcrib.define.errors import CribError

LOCK_FILE = "gateway.lock"
_TRIES, _PAUSE_SECONDS = 10, 0.05  # a gateway that starts anew lets go of the lock in that time


class Members:
    """The processes that share a state folder, as one of them sees them; without a folder there is nothing to lock."""

    def __init__(self, folder: Path | None = None) -> None:
        self._path = folder and folder / LOCK_FILE
        self._files: tuple[int, ...] = ()  # the lock file and the folder, both locked
        self._mark = ""  # the lock and our turn at it, once we have it

    @property
    def name(self) -> str:
        """What this process writes beside what it does."""
        return f"{_name_process(os.getpid())}@{_name_place()}{self._mark}"

    def lock(self) -> None:
        """Become the one gateway of the folder until `release`; raise CribError that says who is it now."""
        if self._path is None or self._files:
            return
        for _ in range(_TRIES):
            if (files := _try_lock(self._path)) is not None:
                break
            time.sleep(_PAUSE_SECONDS)
        else:
            holder = _read(self._path)
            who = f" (process {holder.get('pid')} on {holder.get('host')})" if holder else ""
            raise CribError(
                f"another gateway{who} has the state folder {self._path.parent}: one folder has one gateway; "
                "stop that one, or name another folder with TOOLCRIB_STATE"
            )
        turn = {"lock": _read(self._path).get("lock") or token_hex(6), "turn": token_hex(4)}
        os.ftruncate(files[0], 0)
        os.pwrite(files[0], orjson.dumps({**turn, "pid": os.getpid(), "host": platform.node()}), 0)
        self._files, self._mark = files, f"#{turn['lock']}.{turn['turn']}"

    def release(self) -> None:
        """Let another process become the gateway."""
        _close(self._files)
        self._files = ()

    def is_alive(self, name: str) -> bool:
        """Tell whether a process that registered may still be alive; unknown counts as yes."""
        process, _, mark = name.partition("#")
        lock, _, turn = mark.partition(".")
        if lock and self._path is not None and mark != self._mark[1:]:
            latest = _read(self._path)
            if latest.get("lock") == lock and latest.get("turn") != turn:
                return False
        local, _, place = process.partition("@")
        if not local or place not in ("", _name_place()):  # names without a place were written before there was one
            return True
        pid = local.partition(":")[0]
        return pid.isdigit() and local == _name_process(int(pid))


def _try_lock(path: Path) -> tuple[int, ...] | None:
    """Return the lock file and its folder, which nobody makes anew, open and locked; None where another has them."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    opened = list[int]()
    try:
        opened.append(os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600))
        opened.append(os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        for each in opened:
            fcntl.flock(each, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return tuple(opened)
    except OSError as error:
        _close(opened)
        if isinstance(error, BlockingIOError):
            return None
        what = "locked; put the state folder on a local disk" if len(opened) > 1 else "opened"
        raise CribError(f"{path} cannot be {what} ({error.strerror}); it says which gateway has the folder") from None


def _close(files: Iterable[int]) -> None:
    for each in files:
        os.close(each)


def _read(path: Path) -> dict[str, Any]:
    """Return what the latest gateway wrote about itself, nothing where none did."""
    try:
        found = orjson.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _name_process(pid: int) -> str:
    """Return what tells a process from every other one that has its number, "" where that cannot be found out."""
    try:
        return f"{pid}:{Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"
    except OSError:
        return ""


@cache
def _name_place() -> str:
    """Return what tells this machine and this view of its processes from others."""
    machine, namespace = "", 0
    for path in ("/proc/sys/kernel/random/boot_id", "/etc/machine-id"):  # many a container lacks the latter
        with suppress(OSError):
            machine = Path(path).read_text().strip() or machine
    with suppress(OSError):
        namespace = os.stat("/proc/self/ns/pid").st_ino  # noqa: PTH116
    return f"{hashlib.sha256(f'{platform.node()} {machine}'.encode()).hexdigest()[:12]}/{namespace}"
