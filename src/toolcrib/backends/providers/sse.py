"""Bytes to server-sent events, a piece at a time and within bounds."""

from typing import NamedTuple

__all__ = ["Events", "Sent", "TooLongError"]

_BOM = b"\xef\xbb\xbf"
_EACH = 64  # bytes that a line costs however short it is


class TooLongError(Exception):
    """A line or an event is longer than any that is meant."""


class Sent(NamedTuple):
    """One event: its name, "" for most, and its data as they came."""

    name: str
    data: bytes


class Events:
    """Puts events together from bytes that were cut anywhere.

    `lines` counts the lines that are whole, comments included: a server that sends them is alive.
    """

    def __init__(self, longest: int) -> None:
        self.lines = 0
        self._longest = longest
        self._rest = bytearray()  # a line that goes on
        self._is_after_cr = False
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[Sent]:
        """Take more bytes; return the events that they complete. Raise TooLongError when one has no end."""
        if self._is_after_cr:
            if not piece:
                return []
            piece = piece.removeprefix(b"\n")  # the other half of a line's end
        self._is_after_cr = piece.endswith(b"\r")
        if b"\r" in piece:
            piece = piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        first, *others = piece.split(b"\n")
        self._rest += first
        if len(self._rest) > self._longest:
            raise TooLongError
        if not others:
            return []
        lines = [bytes(self._rest), *others[:-1]]
        self._rest = bytearray(others[-1])
        if not self.lines:
            lines[0] = lines[0].removeprefix(_BOM)
        self.lines += len(lines)
        return [sent for line in lines if (sent := self._line(line))]

    def close(self) -> list[Sent]:
        """Return the event that the end of all bytes completes, if there is one: some servers leave the last mark out.

        It may be half of one; only its reader can tell.
        """
        line, self._rest = bytes(self._rest), bytearray()
        sent = self._line(line if self.lines else line.removeprefix(_BOM)) if line else None
        rest = sent or self._line(b"")
        return [rest] if rest else []

    def _line(self, line: bytes) -> Sent | None:
        """Take a line; return the event that it completes."""
        if not line:
            name, data = self._name, self._data
            self._name, self._data, self._size = "", [], 0
            return Sent(name, b"\n".join(data)) if data else None
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"error":  # llama.cpp tells of a failure in a field of its own
            self._name, field = "error", b"data"
        if field == b"data":
            self._size += len(value) + _EACH
            if self._size > self._longest + _EACH:
                raise TooLongError
            self._data.append(value)
        elif field == b"event":
            self._name = value[:_EACH].decode(errors="replace")
        return None
