"""A person at a real terminal: a chat in a process of its own, on a PTY whose screen is kept by an emulator."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pyte
from tests import prestarted

__all__ = ["Desk", "at_the_desk", "golden", "surroundings_of"]

SECONDS = 60.0  # for anything to appear on the screen
GOLDEN = Path(__file__).parents[2] / "golden" / "chat"
_RENEW = "RENEW_GOLDEN"  # set it, and run the tests, to write the screens anew; then look at the diff


class _Screen(pyte.HistoryScreen):
    """A screen that answers when it is asked where its cursor is, as terminals do."""

    reply: Callable[[str], object] = print

    def write_process_input(self, data: str) -> None:
        self.reply(data)


class Desk:
    """The screen, the keyboard, and the process behind them."""

    def __init__(self, process: "subprocess.Popen[bytes]", fd: int, columns: int, rows: int) -> None:
        self.process, self._fd = process, fd
        self.raw = b""
        self.screen = _Screen(columns, rows, history=5000, ratio=0.5)
        self.screen.reply = lambda data: os.write(fd, data.encode())
        self._stream = pyte.ByteStream(self.screen)

    @property
    def text(self) -> str:
        """Everything on the screen and above it, without blanks at the ends of lines and empty lines at the end."""
        above = ["".join(line[at].data for at in range(self.screen.columns)) for line in self.screen.history.top]
        lines = [line.rstrip() for line in (*above, *self.screen.display)]
        return "\n".join(lines).rstrip() + "\n"

    def ready(self, *words: str) -> None:
        """Wait for a prompt: what is typed before it the terminal itself would write somewhere."""
        self.until("toolcrib chat", *words)
        self.prompted()

    def prompted(self, *words: str) -> None:
        """Wait until these stand on the screen and the next line may be typed behind them."""
        self.until(*words)
        self.until_true(lambda: self.text.endswith(("\n›\n", "\n>\n")), "a prompt")

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._fd, keys.encode())

    def say(self, line: str) -> None:
        """Type a line, see it, and press Enter."""
        self.type(line)
        self.until(line[-60:])
        self.type("\r")

    def until(self, *words: str, seconds: float = SECONDS) -> str:
        """Wait until all these stand on the screen; return it."""
        self.until_true(lambda: all(word in self.text for word in words), f"{words}", seconds)
        return self.text

    def until_true(self, is_so: Callable[[], bool], what: str, seconds: float = SECONDS) -> None:
        """Wait until something is so, reading what is written meanwhile."""
        end = time.monotonic() + seconds
        while not is_so():
            left = end - time.monotonic()
            assert left > 0, f"{what} did not come; the screen:\n{self.text}"
            self._read(left)

    def left(self, seconds: float = SECONDS) -> int:
        """Wait until the process has ended; return its exit code."""
        self.until_true(lambda: self.process.poll() is not None, "the end", seconds)
        self._read(0)
        return self.process.wait()

    def _read(self, seconds: float) -> None:
        # short waits, for a process that ends without a word
        ready, _, _ = select.select([self._fd], [], [], min(seconds, 0.1))
        if not ready:
            return
        try:
            piece = os.read(self._fd, 65_536)
        except OSError:  # the other end is gone
            return
        self.raw += piece
        self._stream.feed(piece)


def surroundings_of(folder: Path) -> dict[str, str]:
    """Return the environment of who sits in a folder: state and home stand beside it."""
    home = folder.parent / "home"
    return {
        "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color", "HOME": str(home),
        "TOOLCRIB_STATE": str(home / "state"), "XDG_CONFIG_HOME": str(home), "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }  # fmt: skip


@contextlib.contextmanager
def at_the_desk(
    folder: Path, *args: str | Path, columns: int = 80, rows: int = 40, env: Mapping[str, str] | None = None,
    command: str = "chat",
) -> Iterator[Desk]:  # fmt: skip
    """Open a chat in a folder, or another command; it never outlives the block."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = prestarted.Popen(
        [sys.executable, "-m", "toolcrib.doors.cli.main", *command.split(), *map(str, args)],
        stdin=slave, stdout=slave, stderr=slave, cwd=folder, start_new_session=True,
        env={**surroundings_of(folder), **(env or {})},
    )  # fmt: skip
    os.close(slave)
    desk = Desk(process, master, columns, rows)
    try:
        yield desk
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        os.close(master)


def golden(name: str, desk: Desk, folder: Path) -> None:
    """Compare a screen with the one that is kept; what differs from run to run is written as one word."""
    if desk.process.poll() is None:
        desk.until_true(lambda: desk.text.endswith("\n›\n"), "a prompt")
    plain = desk.text.replace(str(folder), "FOLDER").replace(str(folder.parent), "BESIDE")
    plain = re.sub(rf"chat:{re.escape(folder.name)}-[0-9a-f]{{8}}:[0-9a-f]{{8}}", "chat:SESSION", plain)
    plain = re.sub(r"\b[0-9]+ s\b", "N s", plain)
    plain = re.sub(r'(?s)environment: "[^"]*"', 'environment: "..."', plain)
    path = GOLDEN / f"{name}.txt"
    if os.environ.get(_RENEW):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(plain, encoding="utf-8")
    assert plain == path.read_text(encoding="utf-8"), f"{path} differs; {_RENEW}=1 writes it anew, to be looked at"
