"""A tool with one parameter of any annotation: what the tables of these tests are about."""

import enum
from typing import Any

from toolcrib.define.tool import Tool, tool

__all__ = ["Colour", "Level", "raw_tool", "tool_taking"]


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


def tool_taking(annotation: Any, *default: Any) -> Tool:
    """Return a tool with one parameter `x` of this annotation, with this default if there is one."""

    def probe(x: Any) -> str:
        """Probe."""
        return repr(x)

    probe.__annotations__ = {"x": annotation}
    probe.__defaults__ = default
    return tool(probe)


def raw_tool(properties: dict[str, Any], required: tuple[str, ...] = (), **root: Any) -> Tool:
    """Return a tool with this raw JSON Schema."""

    def probe(args: Any) -> dict[str, Any]:
        return dict(args)

    schema = {"type": "object", "properties": properties, "required": list(required), **root}
    return tool(name="probe", description="Probe.", parameters=schema)(probe)
