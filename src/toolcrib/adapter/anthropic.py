"""Tools as Anthropic's messages take them."""

from copy import deepcopy
from typing import Any

from toolcrib.define.tool import Tool

__all__ = ["declare"]


def declare(tool: Tool) -> dict[str, Any]:
    """Return the tool with its schema as `input_schema`."""
    return {"name": tool.name, "description": tool.description, "input_schema": deepcopy(dict(tool.parameters))}
