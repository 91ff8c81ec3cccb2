"""Tools as Anthropic's messages take them."""

from typing import Any

from toolcrib.define.tool import Tool

from .forms import shown

__all__ = ["declare"]


def declare(tool: Tool) -> dict[str, Any]:
    """Return the tool with its schema as `input_schema`."""
    return {"name": tool.name, "description": tool.description, "input_schema": shown(tool.shape, "portable")}
