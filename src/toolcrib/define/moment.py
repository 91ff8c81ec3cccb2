"""Moment: what the hooks of a plugin are told of a turn and a session."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from .caller import Caller

__all__ = ["MOMENTS", "Moment"]

# The names that `Plugin.hooks` may use; the two around a call are a guard and an observer there.
MOMENTS = (
    "before_agent_start", "agent_end", "before_compaction", "after_compaction", "message_received", "message_sending",
    "message_sent", "before_tool_call", "after_tool_call", "tool_result_persist", "session_start", "session_end",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Something that happens: its name, in whose session, and what is known about it."""

    name: str
    caller: Caller
    data: Mapping[str, Any] = field(default_factory=dict)
