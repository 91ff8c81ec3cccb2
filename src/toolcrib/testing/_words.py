"""What the fakes say alike."""

from collections.abc import Iterable

__all__ = ["as_bytes", "listed"]


def listed(known: Iterable[str]) -> str:
    """Return what there is, for a sentence about what there is not."""
    return ", ".join(sorted(known)) or "none"


def as_bytes(data: bytes | str) -> bytes:
    """Return what a test wrote as text or as bytes, as bytes."""
    return data.encode() if isinstance(data, str) else data
