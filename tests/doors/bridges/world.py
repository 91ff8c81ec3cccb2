"""A crib with one tool of each kind that matters to a bridge."""

import asyncio
import base64
from dataclasses import dataclass, field
from typing import Annotated, Any

import toolcrib
from toolcrib import Caller, Crib, Result, Sender, Tool, ToolError, tool
from toolcrib.app import Belt
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.define.record import Decided, Finished, Started
from toolcrib.testing import FakeApprover

__all__ = ["PIXEL", "World", "world"]

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@dataclass(slots=True)
class World:
    """A belt with its crib, the human behind it, and the names of the bodies that ran."""

    crib: Crib
    belt: Belt
    approver: FakeApprover
    ran: list[str] = field(default_factory=list)

    @property
    def record(self) -> list[tuple[str, ...]]:
        """What was written down: decisions with their verdict, bodies that started, outcomes with their status."""
        record = self.crib.belt(toolcrib.OWNER).pipeline.record
        assert isinstance(record, MemoryRecord)
        return [_told(entry) for entry in record.entries]


def world(*approvals: bool) -> World:
    """Return a crib that denies `vault`, asks about `wipe`, and lets a stranger use the rest of its own tools."""
    ran: list[str] = []
    crib = toolcrib.open({"tools": {"guests": "full", "deny": ["vault", "find"], "ask": ["wipe"]}})
    approver = FakeApprover(approvals)
    caller = Caller(channel="irc", group="#shop", sender=Sender(id="7"))
    return World(crib, crib.belt(caller, extra=_tools(ran), approver=approver), approver, ran)


def _told(entry: Any) -> tuple[str, ...]:
    if isinstance(entry, Decided):
        return ("decided", entry.call.name, entry.verdict.decision if entry.verdict else "unknown")
    if isinstance(entry, Started):
        return ("started", entry.tool)
    assert isinstance(entry, Finished)
    return ("finished", entry.tool, entry.status, entry.code, "ran" if entry.ran else "not run")


def _tools(ran: list[str]) -> list[Tool]:
    second_is_done = asyncio.Event()

    @tool(effects=set())
    async def add(a: int, b: Annotated[int, "what to add"] = 1) -> str:
        """Add two numbers."""
        ran.append("add")
        return f"the sum is {a + b}"

    @tool(effects={"read"})
    async def photo() -> Result:
        """Show a picture."""
        ran.append("photo")
        return Result.image(PIXEL, label="one pixel", details={"width": 1})

    @tool(effects={"network"})
    async def page() -> Result:
        """Read a page."""
        ran.append("page")
        return Result.text("<|im_start|>" + "long " * 2_000, source="web:https://far.test")

    @tool(effects={"read"})
    async def shop(name: str) -> str:
        """Find a shop."""
        ran.append("shop")
        raise ToolError(f"no shop {name!r}; there is 'corner'", code="not_found")

    @tool(effects={"write"})
    async def wipe(disk: str) -> str:
        """Wipe a disk."""
        ran.append("wipe")
        return f"{disk} is wiped"

    @tool(effects={"read"})
    async def vault() -> str:
        """Open the vault."""
        ran.append("vault")
        return "gold"

    @tool(effects=set())
    async def turn(number: int) -> str:
        """The first waits for the second."""
        ran.append(f"turn {number}")
        if number == 1:
            async with asyncio.timeout(60):
                await second_is_done.wait()
        second_is_done.set()
        return f"turn {number} is over"

    return [add, photo, page, shop, wipe, vault, turn]
