"""A command run under strace: what it started, what it opened to write, and what it changed by name."""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

__all__ = ["Trace", "trace"]

# a question mark: where a machine has no such call, that is no mistake
_CALLS = (
    "execve execveat ?open openat openat2 ?creat ?unlink unlinkat ?rename renameat renameat2 ?mkdir mkdirat ?rmdir "
    "?link linkat ?symlink symlinkat ?chmod fchmodat truncate ?mknod mknodat"
)
_STRACE = shutil.which("strace") or "strace is not installed"
_LINE = re.compile(r"^(?:\d+ +)?(?P<call>\w+)\((?P<args>.*)\) += (?P<code>-?\d+)")
_PATH = re.compile(r'"((?:[^"\\]|\\.)*)"')
_WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND")
_HARMLESS = ("/dev/null", "/dev/tty", "/dev/stdout", "/dev/stderr")


@dataclass
class Trace:
    """Paths, as they were named: programs that were started, files opened for reading, and those opened or changed."""

    started: list[str] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    output: bytes = b""


def trace(argv: Sequence[str], folder: Path, env: Mapping[str, str], seconds: float = 120) -> Trace:
    """Run a command to its end, and that of all it started; what failed is left out."""
    with tempfile.TemporaryDirectory() as name:
        told = Path(name) / "told"
        calls = ",".join(_CALLS.split())
        ended = subprocess.run(
            [_STRACE, "-f", "-qq", "-z", "-s", "4096", "-o", str(told), "-e", f"trace={calls}", "--", *argv],
            cwd=folder, env=dict(env), stdin=subprocess.DEVNULL,
            capture_output=True, timeout=seconds, check=False,
        )  # fmt: skip
        found = Trace(output=ended.stdout + ended.stderr)
        for line in told.read_text("utf-8", "backslashreplace").splitlines():
            _read(line, found)
    assert found.started, ended.stderr  # strace itself must have worked
    return found


def _read(line: str, found: Trace) -> None:
    call = _LINE.match(line)
    if call is None or call["code"] == "-1":
        return
    paths = [path.encode().decode("unicode_escape") for path in _PATH.findall(call["args"])]
    if call["call"].startswith("exec"):
        found.started += paths[:1]
    elif call["call"].startswith("open") and not _WRITES.search(call["args"].rpartition('"')[2]):
        found.opened += paths[:1]
    else:
        found.changed += [path for path in paths if path not in _HARMLESS]
