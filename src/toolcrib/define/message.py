"""What a conversation is made of."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from .result import Content

__all__ = ["Call", "Message", "Role"]

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A model's wish to run a tool. `key` stays the same when the same call is tried again."""

    id: str
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    key: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One entry of a conversation. `call_id` is set when it answers a call, `at` is seconds since the epoch."""

    role: Role
    content: tuple[Content, ...] = ()
    calls: tuple[Call, ...] = ()
    call_id: str | None = None
    at: float = 0.0
