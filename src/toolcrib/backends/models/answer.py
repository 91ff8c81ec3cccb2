"""The body of an answer, whatever it turns out to be: server-sent events, one piece of JSON, a web page, or nothing.

It is read a piece at a time and within bounds, without trust in what its header says.
"""

import contextlib
from typing import Any, NamedTuple

from toolcrib.adapter.wire import as_object

from .failures import FailedError, NotJsonError, ProviderLabel, parse_json, retry_delay
from .wires import Stage, Wire

MAX_EVENT_BYTES = 16 * 1024 * 1024  # bytes of one event, or of a reply that is sent whole

_BOM = b"\xef\xbb\xbf"
_MAX_EVENTS = 300_000  # twice the tokens of the longest reply that any model gives
_QUOTE_BYTES = 400  # bytes of an answer that is none
_DONE = b"[DONE]"
_MAX_ID_BYTES, _MAX_DIGITS = 512, 8
_LINE_COST_BYTES = 64  # bytes that a line costs however short it is


class TooLongError(Exception):
    """A line or an event is longer than any that is meant."""


class ServerEvent(NamedTuple):
    """One event: its name, "" for most, and its data as they came."""

    name: str
    data: bytes


class EventReader:
    """Puts events together from bytes that were cut anywhere.

    `lines` counts the lines that are whole, comments included: a server that sends them is alive. `last_id` is what the
    last event was called, and `retry` after how many seconds the server wants to be asked again, where it gave that.
    """

    def __init__(self, max_bytes: int) -> None:
        self.lines, self.last_id, self.retry = 0, "", 0.0
        self._id = ""
        self._max_bytes = max_bytes
        self._rest = bytearray()  # a line that goes on
        self._is_after_cr = False
        self._name = ""
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, piece: bytes) -> list[ServerEvent]:
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
        if len(self._rest) > self._max_bytes:
            raise TooLongError
        if not others:
            return []
        lines = [bytes(self._rest), *others[:-1]]
        self._rest = bytearray(others[-1])
        if not self.lines:
            lines[0] = lines[0].removeprefix(_BOM)
        self.lines += len(lines)
        return [sent for line in lines if (sent := self._line(line))]

    def close(self) -> list[ServerEvent]:
        """Return the event that the end of all bytes completes, if there is one: some servers leave the last mark out.

        It may be half of one; only its reader can tell.
        """
        line, self._rest = bytes(self._rest), bytearray()
        sent = self._line(line if self.lines else line.removeprefix(_BOM)) if line else None
        rest = sent or self._line(b"")
        return [rest] if rest else []

    def _line(self, line: bytes) -> ServerEvent | None:
        """Take a line; return the event that it completes."""
        if not line:
            name, data, self.last_id = self._name, self._data, self._id
            self._name, self._data, self._size = "", [], 0
            return ServerEvent(name, b"\n".join(data)) if data else None
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"error":  # llama.cpp tells of a failure in a field of its own
            self._name, field = "error", b"data"
        if field == b"data":
            self._size += len(value) + _LINE_COST_BYTES
            if self._size > self._max_bytes + _LINE_COST_BYTES:
                raise TooLongError
            self._data.append(value)
        elif field == b"event":
            self._name = value[:_LINE_COST_BYTES].decode(errors="replace")
        elif field == b"id" and len(value) <= _MAX_ID_BYTES and value.isascii() and value.decode().isprintable():
            self._id = value.decode()
        elif field == b"retry" and value.isdigit() and len(value) <= _MAX_DIGITS:
            self.retry = int(value) / 1_000
        return None


class Answer:
    """Reads one body, piece by piece, into the values that an adapter takes.

    What it is shows in its first byte; what the header says of it is not to be relied upon. `stage` tells how far the
    reply has come, `last` is the value that ended it, and `whole` a reply that was sent in one piece.
    """

    def __init__(self, wire: Wire, label: ProviderLabel) -> None:
        self.stage: Stage = "open"
        self.last: Any = None
        self.whole: Any = None
        self._wire, self._label = wire, label
        self._head = b""
        self._events = EventReader(MAX_EVENT_BYTES)
        self._json: bytearray | None = None
        self._has_begun = False
        self._count = 0  # of events

    @property
    def lines(self) -> int:
        """How many lines are whole: a server that sends bytes and no lines is not getting on."""
        return self._events.lines

    def feed(self, piece: bytes) -> list[Any]:
        """Take more bytes; return the values that they complete."""
        if not self._has_begun:
            piece = self._begin(piece)
        if self._json is not None:
            self._json += piece
            if len(self._json) > MAX_EVENT_BYTES:
                raise self._too_long()
            return []
        try:
            return self._values(self._events.feed(piece))
        except TooLongError:
            raise self._too_long() from None

    def close(self) -> list[Any]:
        """Take the end of the body; return the values that it completes."""
        if self._json is not None:
            return self._read_whole(bytes(self._json))
        values = []
        with contextlib.suppress(FailedError):  # half of an event: the reply broke off, which the caller reports
            values = self._values(self._events.close())
        if not self._count:
            quoted = self._label.quote(self._head.decode(errors="replace")) if self._head.strip() else ""
            if not quoted:
                raise FailedError(f"{self._label.provider} sent an empty answer", 0.0)
            raise FailedError(f"{self._label.address} sent what is no model's answer: {quoted}", 0.0)
        return values

    def _begin(self, piece: bytes) -> bytes:
        """Find out what it is; return what is left to be read."""
        self._head += piece
        start = self._head.removeprefix(_BOM).lstrip()
        if not start or _BOM.startswith(self._head):
            self._head = self._head[-_QUOTE_BYTES:]
            return b""
        self._has_begun = True
        if start[:1] == b"<":
            raise FailedError(
                f"{self._label.address} answered with a web page, which is no model's answer; "
                f"check {self._label.setting}.baseUrl"
            )
        if start[:1] in (b"{", b"["):
            self._json = bytearray()
        self._head = start[:_QUOTE_BYTES]
        return start

    def _values(self, sent: list[ServerEvent]) -> list[Any]:
        values = []
        for event in sent:
            if event.data.strip() == _DONE:
                self._count, self.stage = self._count + 1, "over"
            elif event.data.strip():
                values.append(self._value(event))
            if self.stage == "over":
                break  # what comes after the end counts for nothing
        return values

    def _value(self, event: ServerEvent) -> Any:
        try:
            value = parse_json(event.data)
            if event.name == "error" or as_object(value).get("error"):
                value = parse_json(self._label.redact(event.data.decode()).encode())
        except NotJsonError:
            raise FailedError(f"{self._label.provider} sent an event that is no JSON", 0.0) from None
        if event.name == "error" and not as_object(value).get("error"):
            value = {"type": "error", "error": value}
        self._count += 1
        if self._count > _MAX_EVENTS:
            raise FailedError(f"{self._label.provider} was stopped: it sent more than {_MAX_EVENTS:,} events")
        stage = self._wire.stage(as_object(value))
        if stage != "open":
            self.stage, self.last = stage, value
        return value

    def _read_whole(self, data: bytes) -> list[Any]:
        try:
            value = parse_json(data)
        except NotJsonError:
            raise FailedError(f"{self._label.provider} sent an answer that is cut off, or no JSON", 0.0) from None
        if isinstance(value, list):
            self.last = value[-1] if value else None
            return value
        if error := as_object(value).get("error"):
            message = error if isinstance(error, str) else str(as_object(error).get("message") or error)
            raise FailedError(f"{self._label.provider} answered: {self._label.quote(message)}", retry_delay(value))
        self.whole = value
        return []

    def _too_long(self) -> FailedError:
        return FailedError(
            f"{self._label.provider} was stopped: it sent an event of more than {MAX_EVENT_BYTES:,} bytes"
        )
