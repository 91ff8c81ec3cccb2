"""The lanes of `./check`: tests that start no process (quick), some (processes), or a Chromium (browser).

A file of tests that starts something is listed in lanes.txt with its lane, all others are quick. `--lane` runs those of
one. With `--strict-lane`, as where that lane runs alone, a test fails that starts more than its lane is for. `python -m
tests.lanes` runs every test, notes what each file starts, and writes the list anew.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LANES = ("quick", "processes", "browser")
LIST = Path(__file__).with_name("lanes.txt")
_ROOT = LIST.parents[1]
_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec"})


class ProcessWatch:
    """Knows which file of tests runs, and what it starts: runs those of a lane, or notes the lane of each."""

    def __init__(self, lane: str | None, note: Path | None, *, is_strict: bool = False) -> None:
        self.lane, self.note, self.is_strict = lane, note, is_strict
        self._file, self._needs = "", dict[str, int]()
        self._listed = read_list() if lane else {}
        sys.addaudithook(self._hear)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if event in _STARTS and self._file:
            program = str(args[0]) if args else ""
            needed = LANES.index("browser" if "chrom" in program or "playwright" in program else "processes")
            self._needs[self._file] = max(self._needs.get(self._file, 0), needed)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if self.lane is None or not collection_path.match("test_*.py"):
            return None
        name = collection_path.relative_to(_ROOT).as_posix()
        return self._listed.get(name, "quick") != self.lane or None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._file = item.nodeid.partition("::")[0]
        try:
            return (yield)
        finally:
            if self.note is not None and self._file in self._needs:
                with self.note.open("a") as file:
                    file.write(f"{self._file} {LANES[self._needs[self._file]]}\n")
            self._file = ""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        yield
        if self.lane and self.is_strict and self._needs.get(self._file, 0) > LANES.index(self.lane):
            what = "a browser" if self._needs[self._file] == LANES.index("browser") else "a process"
            pytest.fail(f"{self._file} starts {what}; have `python -m tests.lanes` list it in {LIST.name}")


def read_list() -> dict[str, str]:
    """Return the lane of every file that starts something."""
    return dict(line.split() for line in LIST.read_text().splitlines())


def main() -> int:
    """Run every test, or those that are named, and list what their files start."""
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "started"
        note.touch()
        words = ["-n", "auto", "--dist", "worksteal", "--note-processes", str(note), *sys.argv[1:]]
        status = subprocess.run([sys.executable, "-m", "pytest", *words], check=False).returncode
        known = read_list() if sys.argv[1:] else {}
        for line in note.read_text().splitlines():
            file, lane = line.split()
            known[file] = max(lane, known.get(file, "quick"), key=LANES.index)
        LIST.write_text("".join(f"{file} {lane}\n" for file, lane in sorted(known.items())))
    return status


if __name__ == "__main__":
    raise SystemExit(main())
