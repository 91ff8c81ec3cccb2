"""Layer 4: how each model sees the tools. Pure functions, one file a provider.

declare(tool, "gemini")      # the JSON that provider takes
losses(tool, "gemini")       # what it cannot express; the arguments are checked against the full schema all the same
"""

from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.define.errors import CribError
from toolcrib.define.names import nearest
from toolcrib.define.tool import Tool

from . import anthropic, gemini, mcp, openai
from .forms import Form, lost

__all__ = ["PROVIDERS", "declare", "losses"]

PROVIDERS: Mapping[str, Callable[[Tool], dict[str, Any]]] = {
    "anthropic": anthropic.declare,
    "gemini": gemini.declare,
    "mcp": mcp.declare,
    "openai": openai.declare,
}
_FORMS: Mapping[str, Form] = {"anthropic": "portable", "gemini": "gemini", "mcp": "whole", "openai": "portable"}


def declare(tool: Tool, provider: str) -> dict[str, Any]:
    """Return the tool as `provider` takes it."""
    return _adapter(provider)(tool)


def losses(tool: Tool, provider: str) -> list[str]:
    """Return what the provider will not be told about the tool's parameters, one clause each."""
    _adapter(provider)
    return lost(tool.shape, _FORMS[provider])


def _adapter(provider: str) -> Callable[[Tool], dict[str, Any]]:
    adapter = PROVIDERS.get(provider)
    if adapter is None:
        meant = nearest(provider, PROVIDERS)
        hint = f"did you mean {meant[0]!r}?" if meant else f"there are {', '.join(PROVIDERS)}"
        raise CribError(f"no adapter for {provider!r}; {hint}")
    return adapter
