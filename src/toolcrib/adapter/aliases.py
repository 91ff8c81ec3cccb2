"""Spellings of parameters that model families were trained on: shown to those families, accepted from all.

A tool lists other spellings of its parameters (`Tool.aliases`), and `Tool.check` takes any of them from anybody. A
model that writes `file_path` by habit is shown `file_path` in the first place: instead of `path`, not beside it, so
that nothing is asked for twice.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from toolcrib.define.shape import Shape
from toolcrib.define.tool import Tool

from .forms import Form, shown

__all__ = ["shown_as", "shown_to", "spelled"]

# Words that a provider's or a model's name is recognised by, and the spellings its models know best.
_HABITS: Mapping[tuple[str, ...], frozenset[str]] = {
    ("anthropic", "claude"): frozenset({"file_path", "old_string", "new_string", "replace_all"}),
}
_REMEMBERED = 1024  # renamed schemas, the least used forgotten first


def shown_as(tool: Tool, family: str) -> dict[str, str]:
    """Return the parameters that a model of this family sees under another name: its own name to the one shown.

    `family` is the name of a provider or of a model, as far as anybody knows it: `anthropic`, `openrouter/claude-x`.
    """
    if not tool.aliases:
        return {}
    name = family.lower()
    known = next((habits for words, habits in _HABITS.items() if any(word in name for word in words)), frozenset())
    seen: dict[str, str] = {}
    for other, own in tool.aliases.items():
        if other in known:
            seen.setdefault(own, other)
    return seen


def spelled(schema: dict[str, Any], tool: Tool, family: str) -> dict[str, Any]:
    """Return a declared schema with the parameters under the names that the family knows, in the same order."""
    return _renamed(schema, shown_as(tool, family))


def shown_to(family: str, tool: Tool, form: Form) -> dict[str, Any]:
    """Return the tool's schema in a form, spelled for the family. It is shared: who wants to change it copies it."""
    names = shown_as(tool, family)
    return _remembered(tool.shape, form, tuple(names.items())) if names else shown(tool.shape, form)


@lru_cache(maxsize=_REMEMBERED)
def _remembered(shape: Shape, form: Form, names: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    return _renamed(shown(shape, form), dict(names))


def _renamed(schema: dict[str, Any], wished: Mapping[str, str]) -> dict[str, Any]:
    properties = schema.get("properties")
    if not wished or not isinstance(properties, Mapping):
        return schema
    names = {own: other for own, other in wished.items() if own in properties and other not in properties}
    renamed = {**schema, "properties": {names.get(name, name): inner for name, inner in properties.items()}}
    for keyword in ("required", "propertyOrdering"):
        if isinstance(schema.get(keyword), list):
            renamed[keyword] = [names.get(name, name) for name in schema[keyword]]
    return renamed
