"""Tools as OpenAI's chat completions take them."""

from copy import deepcopy
from typing import Any

from toolcrib.define.tool import Tool

__all__ = ["declare"]


def declare(tool: Tool) -> dict[str, Any]:
    """Return the tool as a function declaration."""
    function = {"name": tool.name, "description": tool.description, "parameters": deepcopy(dict(tool.parameters))}
    return {"type": "function", "function": function}
