"""Tools as the Model Context Protocol lists them."""

from typing import Any

from toolcrib.define.tool import Tool

from .forms import shown

__all__ = ["declare"]


def declare(tool: Tool) -> dict[str, Any]:
    """Return the tool with its schema and the protocol's hints, read from its effects."""
    hints = {
        "readOnlyHint": not tool.effects & {"write", "execute", "send"},
        "destructiveHint": bool(tool.effects & {"write", "execute"}),
        "openWorldHint": bool(tool.effects & {"network", "send", "execute"}),
    }
    declared = {"name": tool.name, "description": tool.description, "inputSchema": shown(tool.shape, "whole")}
    return {**declared, "annotations": hints} | ({"title": tool.label} if tool.label else {})
