"""Values as models spell them, turned into the kind that a schema wants where the spelling leaves no doubt.

    a number        from a text that is one: "5", " 2.5 ", "1e3", "0x10"; a whole one also from 5.0 and "5.0"
    true or false   from "true" and "false" ("True" and "False", too), 1 and 0
    a text          from a number, as JSON writes it, and from true and false
    a list, a map   from a text that is one in JSON
    nothing         from null, where null does not fit: models that must fill in every field write it for "not given";
                    and from 0, "", [] and {}, where the member is optional and does not take that value

A value that fits is left alone. Nothing is guessed: null is never 0 or "", true is never 1, and a text is not split
into a list.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import orjson

from toolcrib.define.args import text_from_number, trim
from toolcrib.define.errors import ArgumentError
from toolcrib.lazy import regex

from .annotations import Schema

MAX_LEVELS = 200
_MAX_VALUES = 3_000  # values looked at closely; the others stay as they are, and the check says what is wrong with them
_HOPS = 8  # references from one to the next
_EXACT = 2**53  # up to here a float is the whole number that was written
_MAX_NUMBER_CHARS, _MAX_NUMBER_BITS = 400, 1300  # characters, and the bits they make
_MAX_JSON_CHARS = 1 << 20  # characters
_COMPOSED = frozenset({"$ref", "allOf", "anyOf", "oneOf"})
_NONE: frozenset[str] = frozenset()

_NUMBER = regex(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = regex(r"[+-]?[0-9]+")
_INDEX = regex(r"[0-9]{1,6}")
_BASED = regex(r"0[xX][0-9a-fA-F]+|0[oO][0-7]+|0[bB][01]+")
_PLAIN: Mapping[str, type] = {"string": str, "boolean": bool, "integer": int}
_KINDS = {str: "string", bool: "boolean", int: "integer", dict: "object", list: "array", type(None): "null"}


def coerce(schema: Any, value: Any) -> Any:
    """Return `value` with what does not fit the schema turned into what does, where that is clear."""
    return _Walk(schema).coerce(schema, value)


def is_deep(value: Any, levels: int) -> bool:
    level = [value]
    for _ in range(levels):
        inside = [each.values() if isinstance(each, dict) else each for each in level]
        level = [each for values in inside for each in values if isinstance(each, (dict, list, tuple))]
        if not level:
            return False
    return True


def refuse_deep(value: Any, what: str, levels: int = MAX_LEVELS) -> None:
    """Raise ArgumentError where values are nested too deep."""
    if is_deep(value, levels):
        raise ArgumentError(f"{what} are nested more than {levels} deep; write them flatter")


def target_of(reference: Any, root: Any) -> Any:
    """Return the schema that a `$ref` within `root` means, or None when there is no such place."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    target = root
    for part in reference.split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(target, dict):
            target = target.get(key)
        elif isinstance(target, list) and _INDEX.fullmatch(key) and int(key) < len(target):
            target = target[int(key)]
        else:
            return None
    return target


class _Walk:
    """One walk over a value with its schema beside it, bounded in steps."""

    __slots__ = ("_left", "_root")

    def __init__(self, root: Any) -> None:
        self._root, self._left = root, _MAX_VALUES

    def coerce(self, schema: Any, value: Any, seen: frozenset[str] = _NONE) -> Any:
        """Return the value coerced; `seen` are the references followed since the last step into the value."""
        self._left -= 1
        if self._left < 0 or not isinstance(schema, dict):
            return value
        if not _COMPOSED.isdisjoint(schema):
            value = self._coerce_parts(schema, value, seen)
        if isinstance(value, dict):
            return self._object(schema, value)
        if isinstance(value, (list, tuple)):
            return self._list(schema.get("items"), value)
        made = _scalar(_kinds(schema), value)
        return self.coerce(schema, made, seen) if isinstance(made, (dict, list)) else made  # it was written as text

    def _coerce_parts(self, schema: Schema, value: Any, seen: frozenset[str]) -> Any:
        """Return the value coerced by the schemas that this one is made of."""
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in seen:
            value = self.coerce(target_of(reference, self._root), value, seen | {reference})
        for part in _list_at(schema, "allOf"):
            value = self.coerce(part, value, seen)
        branch = self._branch(_list_at(schema, "anyOf") or _list_at(schema, "oneOf"), value)
        return value if branch is None else self.coerce(branch, value, seen)

    def _object(self, schema: Schema, value: dict[str, Any]) -> dict[str, Any]:
        properties = schema.get("properties")
        known: Schema = properties if isinstance(properties, dict) else {}
        made = dict(value)
        for name, inner in value.items():
            if self._left <= 0:
                break
            own = known[name] if name in known else _extra_schema(schema, name)
            if inner is None and name in known and not self._takes_null(own):
                del made[name]
                continue
            made[name] = self.coerce(own, inner)
            if _is_blank(inner) or _is_blank(made[name]):
                is_optional = name in known and name not in _list_at(schema, "required")
                if is_optional and not self._takes(own, made[name]):
                    del made[name]
        return made

    def _takes(self, schema: Any, value: Any) -> bool:
        """Tell whether a blank is a value here; where the schema cannot be asked alone, it is one."""
        import jsonschema_rs  # noqa: PLC0415  only those who send a blank that does not fit pay for it

        shared = {name: self._root[name] for name in ("$defs", "definitions") if name in self._root}
        try:
            return jsonschema_rs.is_valid({**shared, **schema}, value, validate_formats=True)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, TypeError, ValueError):
            return True

    def _list(self, items: Any, value: Sequence[Any]) -> list[Any]:
        kind = items.get("type") if isinstance(items, dict) and _COMPOSED.isdisjoint(items) else None
        plain = _PLAIN.get(kind) if isinstance(kind, str) else None
        made = []
        for inner in value:
            if type(inner) is plain:
                made.append(inner)
            elif plain is int and type(inner) is float and inner.is_integer():
                made.append(int(inner))
            else:
                made.append(self.coerce(items, inner) if self._left > 0 else inner)
        return made

    def _branch(self, branches: Sequence[Any], value: Any) -> Any:
        """Return the branch of a union that the value is meant for: the only one of its kind, or one it can become."""
        kind, kinds = _kind_of(value), [_kinds(self._follow(branch)) for branch in branches]
        own = [branch for branch, taken in zip(branches, kinds, strict=True) if _takes(taken, kind)]
        if own:
            return own[0] if len(own) == 1 else None
        changed = (branch for branch, taken in zip(branches, kinds, strict=True) if _scalar(taken, value) is not value)
        return next(changed, None)

    def _takes_null(self, schema: Any) -> bool:
        """Tell whether null is a value here, and not just a way to say nothing."""
        schema = self._follow(schema)
        if not isinstance(schema, dict):
            return True
        if "type" in schema:
            return "null" in _kinds(schema)
        branches = _list_at(schema, "anyOf") or _list_at(schema, "oneOf")
        if branches:
            return any(self._takes_null(branch) for branch in branches)
        return None in schema.get("enum", [None]) and schema.get("const") is None

    def _follow(self, schema: Any) -> Any:
        for _ in range(_HOPS):
            if not isinstance(schema, dict) or "$ref" not in schema:
                break
            schema = target_of(schema["$ref"], self._root)
        return schema


def _is_blank(value: Any) -> bool:
    """Tell whether a value is what models write where they have nothing to say: null, 0, "", [] or {}."""
    return not value and value is not False


def _list_at(schema: Schema, keyword: str) -> Sequence[Any]:
    parts = schema.get(keyword)
    return parts if isinstance(parts, (list, tuple)) else ()


def _extra_schema(schema: Schema, name: str) -> Any:
    """Return the schema of a member that `properties` does not list."""
    patterns = schema.get("patternProperties")
    for pattern, inner in patterns.items() if isinstance(patterns, dict) else ():
        compiled = _compile(pattern)
        if compiled is not None and compiled.search(name):
            return inner
    return schema.get("additionalProperties")


@lru_cache(maxsize=256)
def _compile(pattern: str) -> Any:
    """Return the pattern in linear time, or None where it needs more than that: then the values stay as they are."""
    import re2  # noqa: PLC0415  only schemas with patternProperties pay for it

    try:
        return re2.compile(pattern)
    except re2.error:
        return None


def _kinds(schema: Any) -> Sequence[str]:
    kind = schema.get("type") if isinstance(schema, dict) else None
    return (kind,) if isinstance(kind, str) else kind if isinstance(kind, (list, tuple)) else ()


def _kind_of(value: Any) -> str:
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return _KINDS.get(type(value), "")


def _takes(kinds: Sequence[str], kind: str) -> bool:
    return kind in kinds or (kind == "integer" and "number" in kinds)


def _scalar(kinds: Sequence[str], value: Any) -> Any:
    """Return a scalar as the first of these kinds that it can be."""
    if _takes(kinds, _kind_of(value)):
        return int(value) if isinstance(value, float) and "integer" in kinds and "number" not in kinds else value
    for kind in kinds:
        made = _as(kind, value)
        if made is not None:
            return made
    return value


def _as(kind: str, value: Any) -> Any:
    match kind, value:
        case "string", bool():
            return "true" if value else "false"
        case "string", int() if value.bit_length() <= _MAX_NUMBER_BITS:
            return str(int(value))
        case "string", float() if math.isfinite(value):
            return text_from_number(value)
        case "boolean", "true" | "false" | "True" | "False":
            return value in ("true", "True")
        case "boolean", int() | float() if value in (0, 1):
            return value == 1
        case (("integer" | "number"), str()) if len(value) <= _MAX_NUMBER_CHARS:
            return _number(trim(value), whole=kind == "integer")
        case (("array" | "object"), str()) if len(value) <= _MAX_JSON_CHARS and trim(value)[:1] in ("[", "{"):
            return _parse_json(value, list if kind == "array" else dict)
    return None


def _parse_json(text: str, kind: type) -> Any:
    try:
        made = orjson.loads(trim(text))
    except ValueError:  # not JSON, or half of a character
        return None
    refuse_deep(made, "the values in a text")
    return made if type(made) is kind else None


def _number(text: str, *, whole: bool) -> int | float | None:
    if _WHOLE.fullmatch(text):
        return int(text)
    if _BASED.fullmatch(text):
        return int(text, 0)
    number = float(text) if _NUMBER.fullmatch(text) else math.inf
    if not math.isfinite(number):
        return None
    if not whole:
        return number
    return int(number) if number.is_integer() and abs(number) <= _EXACT else None
