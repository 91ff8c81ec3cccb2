"""A terminal for a command, and the screen a person would see on it."""

import fcntl
import os
import struct
import termios
from collections.abc import Callable
from typing import Any

from toolcrib.define.errors import ToolError

_MAX_COLUMNS, _MAX_ROWS = 500, 200
_MAX_FED = 32_768  # bytes the emulator reads at once: it is slow, and older ones have left the screen
_MAX_ANSWERS = 200
_QUESTIONS = (b"\x1b[6n", b"\x1b[5n", b"\x1b[c", b"\x1b[0c")


class PtyTerminal:
    """A pseudo-terminal: `master` is our end. `slave` is held until the command has opened it by its name.

    Without a reader the terminal counts as hung up.
    """

    def __init__(self, size: tuple[int, int]) -> None:
        _size(*size)
        self.master, self.slave = os.openpty()
        self.resize(*size)

    def resize(self, columns: int, rows: int) -> None:
        """Set the size; the command gets a signal."""
        columns, rows = _size(columns, rows)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class PtyScreen:
    """The screen of a terminal, computed on request."""

    def __init__(self, size: tuple[int, int], answer: Callable[[bytes], None]) -> None:
        self._size, self._answer = _size(*size), answer
        self._answers = _MAX_ANSWERS
        self._screen: Any = None
        self._stream: Any = None
        self._waiting = bytearray()

    def add(self, data: bytes) -> None:
        """Take what was printed; a question to the terminal is answered at once, for the program waits."""
        self._waiting += data
        if len(self._waiting) > 2 * _MAX_FED:
            del self._waiting[:-_MAX_FED]
        if self._answers and any(question in data for question in _QUESTIONS):
            try:
                self._feed()
            except ToolError:  # no emulator, no answers; reading the screen says why
                self._answers = 0

    def resize(self, columns: int, rows: int) -> None:
        self._size = _size(columns, rows)
        if self._screen is not None:
            self._screen.resize(self._size[1], self._size[0])

    def text(self) -> str:
        """Return the rows without the blanks at their ends; empty rows at the end are left out."""
        self._feed()
        rows = [row.rstrip() for row in self._screen.display]
        while rows and not rows[-1]:
            rows.pop()
        return "\n".join(rows)

    def _feed(self) -> None:
        if self._screen is None:
            self._make()
        data, self._waiting = bytes(self._waiting[-_MAX_FED:]), bytearray()
        self._stream.feed(data)

    def _make(self) -> None:
        try:
            import pyte  # noqa: PLC0415  an extra
        except ImportError as error:
            raise ToolError(
                "this crib has no terminal emulator; install toolcrib[terminal], or run the command without pty",
                code="unavailable",
            ) from error
        self._screen = pyte.Screen(*self._size)
        self._screen.write_process_input = self._reply
        self._stream = pyte.ByteStream(self._screen)

    def _reply(self, data: str) -> None:
        if self._answers:
            self._answers -= 1
            self._answer(data.encode())


def _size(columns: int, rows: int) -> tuple[int, int]:
    if not (1 <= columns <= _MAX_COLUMNS and 1 <= rows <= _MAX_ROWS):
        raise ToolError(
            f"a terminal has 1 to {_MAX_COLUMNS} columns and 1 to {_MAX_ROWS} rows, not {columns} and {rows}",
            code="bad_arguments",
        )
    return columns, rows
