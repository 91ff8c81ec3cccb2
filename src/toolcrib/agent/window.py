"""Window: where every call is handed in, the same for all callers."""

from collections.abc import Callable
from dataclasses import dataclass

from toolcrib.adapter.trim import RESULT_CHARS
from toolcrib.define.event import CallEvent
from toolcrib.define.ports import Approver, Blobs
from toolcrib.define.record import Record

from .hooks import Ready

__all__ = ["Window"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The crib's window: who looks at a call before and after it, and what everybody is bound by.

    `timeout` and `limit` (characters of text for the model) hold for tools that do not state their own. `watch` hears
    how calls go, and has no say in them.
    """

    record: Record
    guards: tuple[Ready, ...] = ()
    observers: tuple[Ready, ...] = ()
    approver: Approver | None = None
    blobs: Blobs | None = None
    redact: Callable[[str], str] = str
    watch: Callable[[CallEvent], None] | None = None
    timeout: float = 120.0
    limit: int = RESULT_CHARS
