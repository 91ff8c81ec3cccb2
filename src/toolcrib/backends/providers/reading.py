"""What a server sent, read without trust: JSON however it is spelled, and bodies unpacked within bounds."""

import json
import zlib
from collections.abc import Iterator
from typing import Any, NoReturn

import orjson

__all__ = ["NotJsonError", "PackedError", "Unpacked", "parsed"]

_PIECE = 65_536  # bytes that are unpacked at a time


class NotJsonError(Exception):
    """A text is no JSON."""


class PackedError(Exception):
    """A body is packed in a way that is not read here, or is not packed as it says."""


def parsed(data: bytes) -> Any:
    """Return the value that the bytes spell.

    Some servers write numbers that JSON does not have, or half of a character where a piece ends; both are read.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data.decode(), parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            raise NotJsonError from None


class Unpacked:
    """Unpacks a body piece by piece, never more of it at once than a piece. `encoding` is what its header says."""

    def __init__(self, encoding: str) -> None:
        self._unpacker: Any = None
        match encoding.strip().lower():
            case "" | "identity":
                pass
            case "gzip" | "x-gzip":
                self._unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
            case "deflate":
                self._unpacker = zlib.decompressobj()
            case _:
                _refuse(f"says that it is packed as {encoding.strip()[:40]!r}, which was not asked for")

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Return what the bytes hold, in pieces."""
        if self._unpacker is None:
            yield piece
            return
        try:
            while piece:
                yield self._unpacker.decompress(piece, _PIECE)
                piece = self._unpacker.unconsumed_tail
        except zlib.error:
            _refuse("says that it is packed, and it is not")


def _refuse(how: str) -> NoReturn:
    raise PackedError(f"the answer {how}")
