"""Spellings of parameters that model families were trained on: shown to those families, accepted from all.

A tool lists other spellings of its parameters (`Tool.aliases`), and `Tool.check` takes any of them from anybody. A
model that writes `file_path` by habit is shown `file_path` in the first place: instead of `path`, not beside it, so
that nothing is asked for twice.
"""

from collections.abc import Mapping
from typing import Any

from toolcrib.define.tool import Tool

__all__ = ["shown_as", "spelled"]

# Words that a provider's or a model's name is recognised by, and the spellings its models know best.
_HABITS: Mapping[tuple[str, ...], frozenset[str]] = {
    ("anthropic", "claude"): frozenset({"file_path", "old_string", "new_string", "replace_all"}),
}


def shown_as(tool: Tool, family: str) -> dict[str, str]:
    """Return the parameters that a model of this family sees under another name: its own name to the one shown.

    `family` is the name of a provider or of a model, as far as anybody knows it: `anthropic`, `openrouter/claude-x`.
    """
    if not tool.aliases:
        return {}
    name = family.lower()
    known = next((habits for words, habits in _HABITS.items() if any(word in name for word in words)), frozenset())
    shown: dict[str, str] = {}
    for other, own in tool.aliases.items():
        if other in known:
            shown.setdefault(own, other)
    return shown


def spelled(schema: dict[str, Any], tool: Tool, family: str) -> dict[str, Any]:
    """Return a declared schema with the parameters under the names that the family knows, in the same order."""
    shown = shown_as(tool, family)
    properties = schema.get("properties")
    if not shown or not isinstance(properties, Mapping):
        return schema
    names = {own: other for own, other in shown.items() if own in properties and other not in properties}
    renamed = {**schema, "properties": {names.get(name, name): inner for name, inner in properties.items()}}
    for keyword in ("required", "propertyOrdering"):
        if isinstance(schema.get(keyword), list):
            renamed[keyword] = [names.get(name, name) for name in schema[keyword]]
    return renamed
