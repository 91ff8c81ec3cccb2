"""Commands that run, written down, so that the next start finds what a crash has left.

The keeper ends everything when we die. This is for when the keeper was killed too. A command is a small file; its
name says which process, its content what it was and who kept it.
"""

import json
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from toolcrib.define.shell import Leftover

from . import tree

__all__ = ["State", "leftovers"]

_SHOWN = 500  # characters of a command line
_SECONDS = 2.0


class State:
    """The commands of one keeper; in `folder`, or in memory only."""

    def __init__(self, folder: str | None) -> None:
        self.folder = folder
        self._held: dict[str, dict[str, object]] = {}
        self._made = False
        self._owner = tree.born(os.getpid()) or (0, 0)

    def add(self, pid: int, born: int, mark: int, shown: str) -> str:
        """Write a command down; return its name."""
        name = f"command-{pid}-{born}.json"
        note: dict[str, object] = {
            "pid": pid, "born": born, "mark": mark, "owner": self._owner, "command": shown[:_SHOWN],
            "started": time.time(),
        }  # fmt: skip
        self._held[name] = note
        folder = self.made()
        if folder is not None:
            with suppress(OSError):  # a full disk is no reason not to run
                fd = os.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
                try:
                    os.write(fd, json.dumps(note).encode())
                finally:
                    os.close(fd)
        return name

    def made(self) -> str | None:
        """Return the folder, made when it was not there; None when there is none or it cannot be made."""
        if self.folder is not None and not self._made:
            with suppress(OSError):
                os.makedirs(self.folder, mode=0o700, exist_ok=True)  # noqa: PTH103
                self._made = True
        return self.folder if self._made else None

    def remove(self, name: str) -> None:
        """Forget a command that ended."""
        self._held.pop(name, None)
        if self.folder is not None:
            with suppress(OSError):
                os.unlink(f"{self.folder}/{name}")  # noqa: PTH108

    def taken(self) -> dict[str, dict[str, object]]:
        """Return the notes by name, for `end`, and forget them."""
        held, self._held = self._held, {}
        return held

    def end(self, notes: dict[str, dict[str, object]]) -> None:
        """Kill what notes name; takes a while."""
        for name, note in notes.items():
            _end(note)
            self.remove(name)


def leftovers(folder: str) -> list[Leftover]:
    """Return the commands that ran when their crib died, after ending what was still there of them."""
    found = []
    for path in sorted(Path(folder).glob("command-*.json")):
        try:
            note = json.loads(path.read_bytes())
            if tree.alive(tuple(note["owner"])):
                continue
            pids = _end(note)
            left = Leftover(pid=note["pid"], command=note["command"], started=note["started"], pids=tuple(pids))
        except (ValueError, KeyError, TypeError):  # torn by the crash: it was about to run
            left = Leftover(pid=0, command="", started=0.0)
        found.append(left)
        path.unlink(missing_ok=True)
    for path in (*Path(folder).glob("output-*"), *Path(folder).glob("settings-*")):
        _remove_old(path)
    return found


def _end(note: dict[str, object]) -> list[int]:
    """Kill the processes of a command, waiting a little until they are gone; return their numbers."""
    leader, mark = (int(str(note["pid"])), int(str(note["born"]))), int(str(note["mark"]))
    ended: set[int] = set()
    until = time.monotonic() + _SECONDS
    while True:
        roots = [pid for pid in tree.marked(mark, leader) if pid != os.getpid()]
        if tree.alive(leader):
            roots.append(leader[0])
        pids = tree.descendants(roots)
        if not pids or time.monotonic() > until:
            return sorted(ended)
        ended.update(pids)
        tree.freeze_and_kill(pids)
        time.sleep(0.01)


def _remove_old(path: Path) -> None:
    """Remove what a crib that is gone has kept: nothing refers to it."""
    owner = path.name.split("-")[1]
    if not owner.isdigit() or tree.stat(int(owner)) is not None:
        return
    with suppress(OSError):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
