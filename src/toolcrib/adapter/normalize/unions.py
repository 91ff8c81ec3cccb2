"""Unions that can be written as one plain schema before anything is read: literals as an enum, objects as an object."""

from typing import Any

__all__ = ["NULL", "UNIONS", "joined_variants"]

UNIONS = ("anyOf", "oneOf")
NULL = {"type": "null"}

_LITERAL = frozenset({"const", "enum", "type", "title"})
_OBJECT = frozenset({"type", "properties", "required"})
_STRINGS: frozenset[type] = frozenset({str})
_TYPES_OF = {"integer": frozenset({int}), "number": frozenset({int, float}), "boolean": frozenset({bool})}


def joined_variants(variants: list[Any]) -> dict[str, Any] | None:
    """Return one schema that takes what any of the variants takes; None where they must be read to be joined."""
    if not variants or type(variants[0]) is not dict:
        return None
    if "const" in variants[0] or "enum" in variants[0]:
        return _joined_literals(variants)
    return _joined_objects(variants) if variants[0].get("type") == "object" else None


def _joined_literals(variants: list[Any]) -> dict[str, Any] | None:
    values: list[Any] = []
    kind = variants[0].get("type")
    for variant in variants:
        if type(variant) is not dict or not _LITERAL.issuperset(variant) or variant.get("type") != kind:
            return None
        if "const" in variant:
            values.append(variant["const"])
        elif type(variant.get("enum")) is list:
            values += variant["enum"]
        else:
            return None
    types = set(map(type, values))
    if kind is None:
        return {"enum": values} if len(types) == 1 else None
    fits = isinstance(kind, str) and types <= _TYPES_OF.get(kind, _STRINGS)
    return {"type": kind, "enum": values} if fits else None


def _joined_objects(variants: list[Any]) -> dict[str, Any] | None:
    members: dict[str, list[Any]] = {}
    required: list[str] | None = None
    for variant in variants:
        if type(variant) is not dict or not _OBJECT.issuperset(variant) or variant.get("type") != "object":
            return None
        inner, names = variant.get("properties", {}), variant.get("required", [])
        if type(inner) is not dict or type(names) is not list or not _STRINGS.issuperset(map(type, names)):
            return None
        for name, schema in inner.items():
            if name in members:
                members[name].append(schema)
            else:
                members[name] = [schema]
        others = set(names)
        required = names if required is None else [name for name in required if name in others]
    properties = {name: one[0] if one.count(one[0]) == len(one) else {"anyOf": one} for name, one in members.items()}
    return {"type": "object", "properties": properties, "required": required or []}
