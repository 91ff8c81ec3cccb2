"""Bodies unpacked as they come, within bounds: never more at once than a piece, however large they get."""

import zlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from typing import Any

_PIECE_BYTES = 65_536  # bytes that are unpacked at a time


class PackedError(Exception):
    """A body is packed in a way that is not read here, or is not packed as it says."""


@cache
def list_encodings() -> str:
    """Return what `Unpacker` reads, as a request says it; `br` where the extra `web` is there."""
    return "gzip, deflate, br" if find_spec("brotli") else "gzip, deflate"


class Unpacker:
    """Unpacks a body piece by piece. `encoding` is what its header says."""

    def __init__(self, encoding: str) -> None:
        self._unpack = _pass
        match encoding.strip().lower():
            case "" | "identity":
                pass
            case "gzip" | "x-gzip":
                self._unpack = _Zlib(16 + zlib.MAX_WBITS).feed
            case "deflate":
                self._unpack = _Zlib(zlib.MAX_WBITS).feed
            case "br" if find_spec("brotli"):
                self._unpack = _Brotli().feed
            case _:
                what = f"says that it is packed as {encoding.strip()[:40]!r}, which was not asked for"
                raise PackedError(f"the answer {what}")

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Return what the bytes hold, in pieces."""
        return self._unpack(piece)


def _pass(piece: bytes) -> Iterator[bytes]:
    yield piece


class _Zlib:
    def __init__(self, bits: int) -> None:
        self._bits, self._inner, self._is_new = bits, zlib.decompressobj(bits), True

    def feed(self, piece: bytes) -> Iterator[bytes]:
        if self._is_new and piece and self._bits == zlib.MAX_WBITS and piece[0] & 15 != 8:
            self._inner = zlib.decompressobj(-zlib.MAX_WBITS)  # some send deflate without the heading it should have
        self._is_new = self._is_new and not piece
        made = b""
        try:
            while piece or len(made) == _PIECE_BYTES:
                made = self._inner.decompress(piece, _PIECE_BYTES)
                piece = self._inner.unconsumed_tail
                yield made
        except zlib.error:
            raise PackedError("the answer says that it is packed, and it is not") from None


class _Brotli:
    def __init__(self) -> None:
        import brotli  # noqa: PLC0415  an extra

        self._inner: Any = brotli.Decompressor()
        self._error: type[Exception] = brotli.error

    def feed(self, piece: bytes) -> Iterator[bytes]:
        try:
            yield self._inner.process(piece, output_buffer_limit=_PIECE_BYTES)
            while not self._inner.can_accept_more_data():
                yield self._inner.process(b"", output_buffer_limit=_PIECE_BYTES)
        except self._error:
            raise PackedError("the answer says that it is packed, and it is not") from None
