"""One server, connected: the handshake, what it offers, and what it is asked; every list, text and wait is bounded."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import orjson

from toolcrib.define.errors import ToolError
from toolcrib.define.mcp import Definition, LinkTerms, Offered, Progressed

from .peer import Peer

__all__ = ["Linked", "ready"]

_NEWEST = "2025-11-25"
_SPOKEN = ("2024-11-05", "2025-03-26", "2025-06-18", _NEWEST)
_MOST_PAGES = 200
_LARGEST_CURSOR = 4_096


class _Transport(Protocol):
    async def send(self, message: Mapping[str, Any]) -> None: ...
    def said(self) -> str: ...
    async def close(self) -> None: ...


class Linked:
    """A connected server."""

    def __init__(self, peer: Peer, transport: _Transport, terms: LinkTerms) -> None:
        self._peer, self._transport, self._terms = peer, transport, terms
        self._can: Mapping[str, Any] = {}
        self.about = ""

    async def shake_hands(self, agreed: Callable[[str], None]) -> None:
        """Begin the conversation; raise ToolError when the server is none, or speaks another language.

        `agreed` is told the version of the protocol.
        """
        said = await self._peer.request(
            "initialize",
            {
                "protocolVersion": _NEWEST,
                "capabilities": {},  # nothing of ours is for servers: no sampling, no files, no questions
                "clientInfo": {"name": "toolcrib", "version": "1"},  # the release is nobody's business
            },
            self._terms.handshake,
        )
        match said:
            case {"protocolVersion": str(spoken), "capabilities": dict(can)}:
                self._can = can
            case _:
                raise ToolError(f"the MCP server {self._peer.name!r} shook hands with nonsense", code="failed")
        if spoken not in _SPOKEN:
            raise ToolError(
                f"the MCP server {self._peer.name!r} speaks {self._peer.words(spoken)!r} of the protocol, and we speak "
                f"{_SPOKEN[0]} to {_SPOKEN[-1]}",
                code="failed",
            )
        info = said.get("serverInfo")
        name = self._peer.words(info.get("name")) if isinstance(info, dict) else ""
        self.about = f"{name}, protocol {spoken}"
        agreed(spoken)
        await self._peer.notify("notifications/initialized")

    async def offered(self) -> Offered:
        tools: list[Definition] = []
        faults: list[str] = []
        seen: set[str] = set()
        found, is_whole = await self._all("tools/list", "tools") if "tools" in self._can else ([], True)
        if not is_whole:
            faults.append(f"its list of tools has no end; what stands behind {_MOST_PAGES} pages was left out")
        for each in found:
            fault = self._fault(each, seen)
            if fault:
                faults.append(fault)
            elif len(tools) == self._terms.most_tools:
                more = len(found) - found.index(each)
                faults.append(f"it offers {len(found):,} tools or more; {more:,} behind the first ones were left out")
                break
            else:
                seen.add(each["name"])
                tools.append(each)
        return Offered(
            tuple(tools), "resources" in self._can, "prompts" in self._can, tuple(dict.fromkeys(faults))[:20]
        )

    def _fault(self, each: Any, seen: set[str]) -> str:
        """Say why a definition cannot be taken, in a clause; "" when it can."""
        if not isinstance(each, dict) or not isinstance(each.get("name"), str) or not each["name"]:
            return "it offers a tool without a name; it was left out"
        name = repr(self._peer.redact(each["name"])[:64])
        try:
            size = len(orjson.dumps(each))
        except TypeError:
            return f"its tool {name} is declared with what no JSON can hold; it was left out"
        if size > self._terms.largest_tool:
            return f"its tool {name} takes {size:,} bytes to declare; it was left out"
        if each["name"] in seen:
            return f"it offers two tools called {name}; the second was left out"
        return ""

    async def call(self, tool: str, args: Mapping[str, Any], progress: Progressed | None = None, /) -> Any:
        return await self._peer.request("tools/call", {"name": tool, "arguments": args}, self._terms.call, progress)

    async def ask(self, method: str, params: Mapping[str, Any], /) -> Mapping[str, Any]:
        said = await self._peer.request(method, params, self._terms.listing)
        if not isinstance(said, dict):
            raise ToolError(f"the MCP server {self._peer.name!r} answered {method} with no object", code="failed")
        return said

    @property
    def is_gone(self) -> bool:
        return self._peer.lost.done()

    async def gone(self) -> str:
        return await self._peer.gone()

    def said(self) -> str:
        return self._peer.redact(self._transport.said())

    async def close(self) -> None:
        self._peer.lose("was let go")
        await self._transport.close()

    async def _all(self, method: str, key: str) -> tuple[list[Any], bool]:
        """Return a list of many pages, as far as it goes or may go, and whether it came to its end or to enough."""
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(_MOST_PAGES):
            page = await self.ask(method, {"cursor": cursor} if cursor else {})
            each = page.get(key)
            if not isinstance(each, list):
                raise ToolError(f"the MCP server {self._peer.name!r} answered {method} without a list", code="failed")
            found += each
            cursor = page.get("nextCursor")
            if not isinstance(cursor, str) or not cursor or len(cursor) > _LARGEST_CURSOR:
                return found, True
            if len(found) > self._terms.most_tools:
                return found, True
        return found, False


def _nothing(version: str) -> None:
    """Programs have nothing more to be told."""


async def ready(link: Linked, agreed: Callable[[str], None] = _nothing) -> Linked:
    """Return a link once hands were shaken; when that fails, nothing of it is left."""
    try:
        await link.shake_hands(agreed)
    except BaseException:
        await link.close()
        raise
    return link
