"""Content from outside marks a conversation: from then on, a human is asked about the tools that policy names (G24)."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from toolcrib.define.context import Ctx
from toolcrib.define.message import Message
from toolcrib.define.plugin import Ask, Hook
from toolcrib.define.result import Text
from toolcrib.define.verdict import Selection
from toolcrib.policy.match import Inventory, matcher_for

from .hooks import Ready, ready_guards

__all__ = ["asked_after_outside", "outside_guard", "sources_of"]

_LONGEST = 100  # characters of a source in a question


def asked_after_outside(
    entries: Collection[str], belt: Selection, groups: Mapping[str, frozenset[str]]
) -> frozenset[str]:
    """Return the tools on the belt that the entries of `tools.askAfterOutside` name."""
    if not entries:
        return frozenset()
    return matcher_for(tuple(entries), Inventory(belt.tools, groups)).select(frozenset(belt.tools))


def sources_of(messages: Iterable[Message]) -> dict[str, None]:
    """Return where the texts of these messages came from, as far as it is outside, each once and in order."""
    return {part.source: None for message in messages for part in message.content if type(part) is Text and part.source}


def outside_guard(tools: frozenset[str], sources: Callable[[], Collection[str]]) -> Ready:
    """Return the guard that asks about these tools as soon as there are sources."""

    async def outside(ctx: Ctx, args: Mapping[str, Any]) -> Ask | None:
        """Ask when something from outside could be what the call goes back to."""
        found = list(sources())
        if not found:
            return None
        more = f" and {len(found) - 1} more" if len(found) > 1 else ""
        return Ask(f"content from outside is in this conversation ({found[0][:_LONGEST]}{more}; tools.askAfterOutside)")

    (guard,) = ready_guards([Hook(run=outside, tools=tools)])
    return guard
