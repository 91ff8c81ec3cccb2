"""A moment for MCP servers that were never seen before, so that their tools are there for the first turn."""

from collections.abc import Callable

from toolcrib.app import Crib
from toolcrib.define.display import escape_controls

__all__ = ["met"]

_SECONDS = 5.0


async def met(crib: Crib, say: Callable[[str], None], seconds: float = _SECONDS) -> None:
    """Wait for servers of which nothing is known yet, a few seconds at most; say for whom, and who did not come.

    All others are not waited for: what they offer was kept when they were first seen.
    """
    service = crib.mcp
    names = service.unmet()
    if not names:
        return
    shown = ", ".join(map(escape_controls, names))
    say(f"meeting the MCP server{'s' if len(names) > 1 else ''} {shown}, {seconds:g} seconds at most")
    await service.ready(seconds, names)
    late = service.unmet()
    for name in names:
        if name in late:
            say(f"{escape_controls(name)} has not answered yet; its tools are there when it has")
        elif why := service.servers[name].why:
            say(escape_controls(why))
