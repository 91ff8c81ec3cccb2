"""Layer 4: how each model sees the tools. Pure functions, one file a provider.

declare(tool, "gemini")      # the JSON that provider takes
losses(tool, "gemini")       # what it cannot express; the arguments are checked against the full schema all the same
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from toolcrib.define.errors import CribError
from toolcrib.define.names import suggest
from toolcrib.define.tool import Tool

from . import anthropic, gemini, mcp, openai, responses
from .forms import Form, can_be_strict, convert_schema

PROVIDERS: Mapping[str, Callable[[Tool], dict[str, Any]]] = {
    "anthropic": anthropic.declare,
    "gemini": gemini.declare,
    "mcp": mcp.declare,
    "openai": openai.declare,
    "responses": responses.declare,
}
_STRICT: Mapping[str, Callable[[Tool], dict[str, Any]]] = {
    "openai": partial(openai.declare, strict=True),
    "responses": partial(responses.declare, strict=True),
}
_FORMS: Mapping[str, Form] = {"gemini": "gemini", "mcp": "whole"}  # the others take the portable one


def declare(tool: Tool, provider: str, *, strict: bool = False) -> dict[str, Any]:
    """Return the tool as `provider` takes it; strict, so that it holds the model to the schema, where it can."""
    return _adapter(provider, strict)(tool)


def losses(tool: Tool, provider: str, *, strict: bool = False) -> list[str]:
    """Return what the provider does not get of the tool's parameters, one clause each."""
    _adapter(provider, strict)
    form = "strict" if strict and can_be_strict(tool.shape) else _FORMS.get(provider, "portable")
    return convert_schema(tool.shape, form).clauses


def _adapter(provider: str, strict: bool) -> Callable[[Tool], dict[str, Any]]:
    adapter = PROVIDERS.get(provider)
    if adapter is None:
        hint = suggest(provider, PROVIDERS, f"there are {', '.join(PROVIDERS)}")
        raise CribError(f"no adapter for {provider!r}{hint}")
    if not strict:
        return adapter
    if provider not in _STRICT:
        raise CribError(f"{provider} has no strict form; {' and '.join(_STRICT)} have one")
    return _STRICT[provider]
