"""The record as a chain: every row carries the hash of itself and of the row before, so none can be changed unseen."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

__all__ = ["NOTHING", "Head", "Row", "Rows", "hash_after", "text_of"]

NOTHING = "0" * 64  # the hash before the first row


class Row(NamedTuple):
    """One row: its number, the text that its hash is of, and the hash; the number is -1 where it cannot be read."""

    seq: int
    text: bytes
    hash: str


@dataclass(frozen=True, slots=True)
class Head:
    """How many rows there have to be and the hash of the last; `last` is the highest number that is there."""

    count: int
    hash: str
    last: int


class Rows(Protocol):
    """A record, read back."""

    async def head(self) -> Head | None:
        """Return the head, None when it is gone."""
        ...

    async def after(self, seq: int, most: int, /) -> Sequence[Row]:
        """Return the rows behind this number, in their order."""
        ...

    async def before(self, seq: int, most: int, /) -> Sequence[Row]:
        """Return the rows before this number, the last one first."""
        ...


def text_of(seq: int, at: float, kind: bytes, body: bytes) -> bytes:
    """Return the text that a row's hash is of: a line of JSON when nobody meddled with its parts."""
    named = json.dumps(kind.decode("latin-1")).encode()  # whatever stands there, it cannot look like the next part
    return b'{"seq":%d,"at":%s,"kind":%s,"body":%s}' % (seq, repr(at).encode(), named, body)


def hash_after(before: str, text: bytes) -> str:
    """Return the hash of a row that comes after the one with the hash `before`."""
    return hashlib.sha256(before.encode() + b"\n" + text).hexdigest()
