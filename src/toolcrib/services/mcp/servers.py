"""What is known of one MCP server: how its connection stands, what it offers, and what of that was accepted."""

import asyncio
import shlex
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from toolcrib.define.mcp import Definition, Link, Offered, Pin, Standing, definition_digest
from toolcrib.define.names import tool_name
from toolcrib.lazy import dataclass

ConnectionState = Literal["idle", "connecting", "connected", "waiting", "given up"]

_WHY = {
    "changed": "declares {name} otherwise than it was accepted ({parts}); it is withheld until "
    "`toolcrib mcp accept {server} {tool}`",
    "new": "offers {name}, which it did not when it was first seen; it is withheld until "
    "`toolcrib mcp accept {server} {tool}`",
}


@dataclass(frozen=True, slots=True)
class PendingTool:
    """A tool that waits to be accepted: as it was (None for a new one), and as it is declared now."""

    server: str
    tool: str
    standing: Standing
    before: Definition | None
    after: Definition

    @property
    def parts(self) -> list[str]:
        """What differs, by key; all of it for a new tool."""
        before = self.before or {}
        return sorted(key for key in {*before, *self.after} if before.get(key) != self.after.get(key))


class KnownServer:
    """One server. Until it was connected, what is known of it is what was pinned."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state: ConnectionState = "idle"
        self.why = ""
        self.link: Link | None = None
        self.about, self.diagnostics = "", ""
        self.offered: Offered | None = None
        self.pins: Mapping[str, Pin] = {}
        self.tried_at = 0.0
        self.wake, self.settled, self.changed = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def take(self, pins: Iterable[Pin]) -> None:
        """Take what was accepted."""
        self.pins = {pin.tool: pin for pin in pins}

    def standings(self) -> dict[str, Standing]:
        """Return what became of each tool, by the server's own names."""
        if self.offered is None:
            return {tool: "accepted" for tool in self.pins if tool}
        found: dict[str, Standing] = {}
        for each in self.offered.tools:
            pin = self.pins.get(each["name"])
            found[each["name"]] = (
                "new" if pin is None else "accepted" if pin.digest == definition_digest(each) else "changed"
            )
        return found | {tool: "gone" for tool in self.pins if tool and tool not in found}

    def accepted(self) -> dict[str, Definition]:
        """Return the definitions that may be used, by the server's own names."""
        return {tool: self.pins[tool].definition for tool, at in self.standings().items() if at == "accepted"}

    def has_resources(self) -> bool:
        """Tell whether the server has resources: as it says now, else as it said when it was first seen."""
        if self.offered is not None:
            return self.offered.has_resources
        pin = self.pins.get("")
        return bool(pin and pin.definition.get("resources"))

    def changes(self) -> list[PendingTool]:
        """Return what waits to be accepted."""
        if self.offered is None:
            return []
        at, offered = self.standings(), {each["name"]: each for each in self.offered.tools}
        waiting = [tool for tool in offered if at[tool] in ("changed", "new")]
        return [
            PendingTool(
                self.name, tool, at[tool], self.pins[tool].definition if tool in self.pins else None, offered[tool]
            )
            for tool in waiting
        ]

    def sentences(self) -> list[str]:
        """Return what is wrong with this server, one sentence each."""
        who = f"the MCP server {self.name!r}"
        problems = [f"{who}: {fault}" for fault in (self.offered.faults if self.offered else ())]
        accepted = self.accepted()
        for each in self.changes():
            words = _WHY[each.standing].format(
                name=tool_name(self.name, each.tool, accepted),
                parts=", ".join(each.parts),
                server=_quote_word(self.name),
                tool=_quote_word(each.tool) if not each.tool.startswith("-") else f"-- {_quote_word(each.tool)}",
            )
            problems.append(f"{who} {words}")
        if self.state in ("waiting", "given up"):
            problems.insert(0, self.why)
        return problems

    def to_json(self) -> dict[str, Any]:
        """Return how the server stands, with what it wrote for its operator."""
        accepted = self.accepted()
        tools = [
            {"tool": tool, "name": tool_name(self.name, tool, accepted), "standing": standing}
            for tool, standing in self.standings().items()
        ]
        return {
            "server": self.name,
            "state": self.state,
            "about": self.about,
            "problems": self.sentences(),
            "tools": tools,
            "resources": self.has_resources(),
            "prompts": bool(self.offered and self.offered.has_prompts),
            "said": self.link.diagnostics() if self.link else self.diagnostics,
        }


def _quote_word(text: str) -> str:
    """Return a name as it can be pasted into a shell."""
    return shlex.quote(text if text.isprintable() else ascii(text)[1:-1])
