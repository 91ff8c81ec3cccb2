"""The quick lane: tests that start no process. Files of tests that do are listed in processes.txt, by `tests.lanes`.

`./check quick` leaves the listed files out and fails where another one starts a process. `python -m tests.lanes` runs
every test, notes what starts one, and writes the list anew.
"""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

LIST = Path(__file__).with_name("processes.txt")
_STARTS = frozenset({"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec"})


class ProcessWatch:
    """Knows which file of tests runs, and whether a process was started meanwhile; `note` is where such files go."""

    def __init__(self, note: Path | None) -> None:
        self.note, self._file, self._starters = note, "", set[str]()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, _: tuple[Any, ...]) -> None:
        if event in _STARTS and self._file:
            self._starters.add(self._file)

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        if self.note is None:
            listed = frozenset(LIST.read_text().split())
            config.hook.pytest_deselected(items=[each for each in items if _file_of(each) in listed])
            items[:] = [each for each in items if _file_of(each) not in listed]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._file = _file_of(item)
        try:
            return (yield)
        finally:
            if self.note is not None and self._file in self._starters:
                with self.note.open("a") as file:
                    file.write(f"{self._file}\n")
            self._file = ""

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        yield
        if self.note is None and self._file in self._starters:
            pytest.fail(f"{self._file} starts a process; have `python -m tests.lanes` list it in {LIST.name}")


def _file_of(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0]


def main() -> int:
    """Run every test, and list the files that start processes."""
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "started"
        note.touch()
        words = ["-n", "auto", "--dist", "worksteal", "--note-processes", str(note), *sys.argv[1:]]
        status = subprocess.run([sys.executable, "-m", "pytest", *words], check=False).returncode
        known = [] if not sys.argv[1:] else LIST.read_text().split()
        LIST.write_text("".join(f"{each}\n" for each in sorted({*known, *note.read_text().split()})))
    return status


if __name__ == "__main__":
    raise SystemExit(main())
