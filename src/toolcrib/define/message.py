"""What a conversation is made of."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from toolcrib.lazy import dataclass

from .result import Image, Status, Text

Role = Literal["system", "user", "assistant", "tool"]

# Why a reply ended: done, tools are wanted, its length reached, refused, broken off, stopped by us.
# The calls of a reply that ended by length, refused, error or aborted never run (G10).
Finish = Literal["stop", "calls", "length", "refused", "error", "aborted"]


@dataclass(frozen=True, slots=True)
class Thinking:
    """What a model thought aloud. `signature` is its provider's seal on it (a signature, or the thought in cipher)."""

    text: str
    signature: str = ""


Part = Text | Image | Thinking


class Call(NamedTuple):
    """A model's wish to run a tool. `key` stays the same when the same call is tried again.

    `signature` is whatever its provider wants back with the call (a thought signature, an item id); no other reads it.
    `parse_error` says what is wrong with arguments that could not be read; such a call is answered and never run.
    """

    id: str
    name: str
    args: Mapping[str, Any] = MappingProxyType({})
    key: str = ""
    signature: str = ""
    parse_error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One entry of a conversation. `at` is seconds since the epoch.

    An answer of a tool has `call_id`, and the `status` of its result; a reply has its `calls`, the reason it ended and
    `by`, the model that wrote it (`provider/model`): marks go back to that model and to no other; what a user says from
    afar has `by` what its sender calls it, so that it is not taken twice. `offers` are the tools that a result offers,
    or that a user asks for.
    """

    role: Role
    content: tuple[Part, ...] = ()
    calls: tuple[Call, ...] = ()
    call_id: str | None = None
    status: Status = "ok"
    finish: Finish = "stop"
    by: str = ""
    at: float = 0.0
    offers: tuple[str, ...] = ()

    @property
    def plain_text(self) -> str:
        """Its words alone, one part to a line; pictures and thoughts are left out."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


def join_text(message: Message) -> str:
    """Return the words of a message as one text, without a break between its parts."""
    return "".join(part.text for part in message.content if isinstance(part, Text))


def describe_content(message: Message) -> str:
    """Return what a message shows, one part to a line: thoughts are left out, and a picture has a placeholder."""
    parts = (part for part in message.content if not isinstance(part, Thinking))
    return "\n".join(f"[a picture, {part.mime}]" if isinstance(part, Image) else part.text for part in parts)
