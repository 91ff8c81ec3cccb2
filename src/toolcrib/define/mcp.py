"""Other people's MCP servers as the crib knows them: what they offer, what was pinned, and a link to one."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal, Protocol

import orjson

from toolcrib.lazy import dataclass

Definition = Mapping[str, Any]
"""A tool as its server declares it: name, description, inputSchema ..."""

Standing = Literal["accepted", "changed", "new", "gone"]
"""The state of a pinned tool: unchanged, declared in other words, new, or no longer offered."""

# What of a definition is pinned: all that a model sees, and what could make a tool something else.
_PINNED = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")


def definition_digest(definition: Definition) -> str:
    """Return what a definition is pinned by: it changes with every word that says what the tool is."""
    pinned = {key: definition[key] for key in _PINNED if definition.get(key) is not None}
    return hashlib.sha256(orjson.dumps(pinned, option=orjson.OPT_SORT_KEYS)).hexdigest()


@dataclass(frozen=True, slots=True)
class Pin:
    """One tool of a server as it was accepted. The pin without a tool is the server's own: it was seen."""

    server: str
    tool: str
    digest: str
    definition: Definition
    pinned_at: float


class PinStore(Protocol):
    """Keeps what was accepted of each server."""

    def pins(self, server: str, /) -> Awaitable[tuple[Pin, ...]]:
        """Return the pins of a server, its own first; none when it was never seen."""

    def pin(self, pins: Sequence[Pin], /, *, first: bool = False) -> Awaitable[None]:
        """Keep pins in the place of those before them; they are kept when this returns.

        Those of a server's `first` connection are kept only if it was never seen: of two processes, one is first.
        """

    def list_all(self) -> tuple[Pin, ...]:
        """Return all pins at once, for who cannot wait; raise ToolError when they cannot be read."""


@dataclass(frozen=True, slots=True)
class Offered:
    """What a server offers at one time. `faults` are sentences about what was left out of it."""

    tools: tuple[Definition, ...]
    has_resources: bool = False
    has_prompts: bool = False
    faults: tuple[str, ...] = ()


Progressed = Callable[[float, float | None, str], None]
"""Hears how far a call has come: how much, of how much, in which words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkTerms:
    """How long a server is waited for, in seconds, and how much of it is taken.

    `listing` is for a whole list, `call` for one call: longer than any tool's own deadline, which holds first. What
    arrives unrequested is counted over `window`.
    """

    handshake: float = 30.0
    listing: float = 60.0
    call: float = 3_600.0
    window: float = 10.0
    most_tools: int = 500
    largest_tool: int = 64 * 1024


class Link(Protocol):
    """A connection to one server. What it raises is ToolError, one sentence that holds no secret."""

    @property
    def about(self) -> str:
        """What the server calls itself, and which protocol it speaks."""

    @property
    def is_gone(self) -> bool:
        """Whether the connection is lost."""

    async def fetch_offer(self) -> Offered:
        """Return what the server offers now, within bounds."""

    async def call(self, tool: str, args: Mapping[str, Any], progress: Progressed | None = None, /) -> Any:
        """Return a tool's result as the server sent it; when cancelled, the server is notified."""

    async def ask(self, method: str, params: Mapping[str, Any], /) -> Mapping[str, Any]:
        """Return what the server answers to one of the protocol's other requests."""

    async def wait_closed(self) -> str:
        """Wait until the connection is lost; return why."""

    def diagnostics(self) -> str:
        """Return the last lines that the server wrote for its operator, cleaned and bounded."""

    async def close(self) -> None:
        """End the connection, and the server where we started it; nothing of it is left."""
