"""Tools as Gemini takes them."""

from typing import Any

from toolcrib.define.tool import Tool

from .forms import shown

__all__ = ["declare"]


def declare(tool: Tool) -> dict[str, Any]:
    """Return the tool as a function declaration; one without parameters has no schema at all."""
    declared: dict[str, Any] = {"name": tool.name, "description": tool.description}
    parameters = shown(tool.shape, "gemini")
    return {**declared, "parameters": parameters} if parameters["properties"] else declared
