"""Tools as OpenAI's chat completions take them."""

from typing import Any

from toolcrib.define.tool import Tool

from .forms import shown

__all__ = ["declare"]


def declare(tool: Tool) -> dict[str, Any]:
    """Return the tool as a function declaration."""
    function = {"name": tool.name, "description": tool.description, "parameters": shown(tool.shape, "portable")}
    return {"type": "function", "function": function}
