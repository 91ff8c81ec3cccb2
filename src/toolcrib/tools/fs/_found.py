"""What a search found, as text: whole rows, no more than fit, and a last word on what is not there."""

from collections.abc import Iterable, Mapping

from ._size import size

__all__ = ["BYTES", "fitting", "told"]

BYTES = 50 << 10


def fitting(rows: Iterable[str]) -> list[str]:
    """Return the first rows, as many as fit."""
    kept: list[str] = []
    room = BYTES
    for row in rows:
        room -= len(row.encode("utf-8", "replace")) + (1 if kept else 0)
        if room < 0:
            break
        kept.append(row)
    return kept


def told(rows: list[str], total: int, what: str, notes: Mapping[str, object]) -> str:
    """Return the rows (or `what` stands for none), the word on those that did not fit, and the notes that hold."""
    said = [note for note, holds in notes.items() if holds]
    if len(rows) < total:
        said.insert(0, f"{size(BYTES)} shown, {len(rows)} of {total} rows; narrow the search")
    text = "\n".join(rows) or f"[{what}]"
    return f"{text}\n\n[{'; '.join(said)}]" if said else text
