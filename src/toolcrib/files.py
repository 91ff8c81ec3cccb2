"""What `ctx.workspace` is asked and answers: entries, passages, changes, searches."""

from typing import TYPE_CHECKING

from . import _serve

if TYPE_CHECKING:
    from .define.files import Change, Entry, Find, Listing, Passage, Search
    from .define.marks import defuse
    from .define.ports import Workspace

_HOMES = {
    "define.files": "Change Entry Find Listing Passage Search",
    "define.marks": "defuse",
    "define.ports": "Workspace",
}

__all__ = [
    "Change", "Entry", "Find", "Listing", "Passage", "Search", "Workspace", "defuse",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = _serve(__name__, _HOMES)
