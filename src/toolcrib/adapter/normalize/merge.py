"""Several readings of one value merged into one: any of them (a union) or all of them (an intersection).

A reading is a schema within the portable subset, but for three things that are settled last: `type` may be missing
(any kind) or "null", `nullable` marks a value that may be null as well, and `required` may name what is not described.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

from .keywords import KINDS, NOTES, SCALARS, choose_kind

SchemaReading = dict[str, Any]
Losses = list[tuple[str, str]]

NEVER: SchemaReading = {"type": "never"}  # no value fits; compared by identity, never changed

_NESTED = (dict, list)
_PATH_CHARS = 400  # characters of a path
_NO_LIMITS = frozenset({*NOTES, "type", "nullable", "enum", "properties", "required", "items", "additionalProperties"})
_LOWER_BOUNDS = frozenset({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"})
_UPPER_BOUNDS = frozenset({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"})


def member_path(where: str, name: str) -> str:
    """Return the path of a member; the root's is empty, so a nameless member is written as quotes."""
    return f"{where[:_PATH_CHARS]}.{name}" if where else name or '""'


def copy_json(value: Any) -> Any:
    """Return a copy of plain JSON that shares nothing that could be changed."""
    if type(value) is dict:
        return {key: copy_json(each) if type(each) in _NESTED else each for key, each in value.items()}
    return [copy_json(each) if type(each) in _NESTED else each for each in value] if type(value) is list else value


def any_of(
    readings: list[SchemaReading], where: str, losses: Losses, *, word: str = "anyOf", wanted: str | None = None
) -> SchemaReading:
    """Return one reading that says what all of them take; where kinds differ, the wanted or the first kind speaks.

    `word` is the keyword to name where the union says more than that.
    """
    if not readings:
        return NEVER
    if readings.count(readings[0]) == len(readings):
        return readings[0]
    kinds = [reading.get("type") for reading in readings]
    kind, alike, nullable = kinds[0], readings, False
    if kind not in KINDS or kinds.count(kind) < len(kinds):
        kind = choose_kind(kinds, wanted)
        nullable = "null" in kinds
        fitting = (kind, "integer") if kind == "number" else (kind,)
        alike = [reading for reading in readings if reading.get("type") in fitting]
        if len(alike) + kinds.count("null") + kinds.count("never") < len(kinds):
            losses.append((where, word))
        if not alike:
            return {"type": "null"} if nullable else NEVER
    if len(alike) == 1:
        merged = alike[0]
    else:
        if kind == "object":
            losses.append((where, word))  # which members go together is lost
        merged = _join_members(alike, kind, lambda one, place: any_of(one, place, losses, word=word), where)
        _widen(merged, alike, where, losses)
    if nullable or [reading for reading in readings if "nullable" in reading]:
        merged["nullable"] = True
    return merged


def all_of(readings: Sequence[SchemaReading], where: str, losses: Losses) -> SchemaReading:
    """Return one reading that says what each of them asks; where they contradict, the first speaks."""
    if any(reading is NEVER for reading in readings):
        return NEVER
    if len(readings) == 2 and readings[0].keys() <= NOTES:
        return {**readings[1], **readings[0]}
    kinds = [kind for reading in readings if (kind := reading.get("type"))]
    kind = "integer" if set(kinds) == {"integer", "number"} else kinds[0] if kinds else None
    fitting = {None, kind, "number"} if kind == "integer" else {None, kind}
    alike = [reading for reading in readings if reading.get("type") in fitting]
    if len(alike) < len(readings):
        losses.append((where, "allOf"))
    merged = _join_members(alike, kind, lambda one, place: all_of(one, place, losses), where)
    _narrow(merged, alike, where, losses)
    if kind is not None and all("nullable" in reading for reading in alike if "type" in reading):
        merged["nullable"] = True
    return merged


def yield_kind(parts: list[SchemaReading], where: str, losses: Losses) -> None:
    """Leave only the notes of the first part where a limit hints at another kind than the others say: it is idle."""
    hinted, stated = parts[0].get("type"), {part["type"] for part in parts[1:] if "type" in part} - {"null", "never"}
    if hinted is not None and stated and hinted not in stated and (hinted, stated) != ("number", {"integer"}):
        losses += [(where, word) for word in parts[0] if word not in NOTES and word != "type"]
        parts[0] = {word: value for word, value in parts[0].items() if word in NOTES}


def _join_members(
    readings: Sequence[SchemaReading],
    kind: str | None,
    merge: Callable[[list[SchemaReading], str], SchemaReading],
    where: str,
) -> SchemaReading:
    """Return the notes of the first reading that has them, and the members of all, each merged the same way."""
    joined: SchemaReading = {} if kind is None else {"type": kind}
    for reading in readings:
        for keyword in reading:
            if keyword in NOTES and keyword not in joined:
                joined[keyword] = reading[keyword]
    if kind in SCALARS:
        return joined
    described = [reading["properties"] for reading in readings if "properties" in reading]
    if described:
        members: dict[str, list[SchemaReading]] = {}
        for properties in described:
            for name, inner in properties.items():
                members.setdefault(name, []).append(inner)
        joined["properties"] = {
            name: one[0] if len(one) == 1 else merge(one, member_path(where, name)) for name, one in members.items()
        }
    items = [reading["items"] for reading in readings if "items" in reading]
    if items:
        joined["items"] = merge(items, f"{where}[]")
    return joined


def _widen(merged: SchemaReading, readings: list[SchemaReading], where: str, losses: Losses) -> None:
    """Write what a union keeps of limits: enums joined, names that all require, ranges that all share."""
    first = readings[0]
    enums = [reading["enum"] for reading in readings if "enum" in reading]
    if len(enums) == len(readings):
        merged["enum"] = list(dict.fromkeys(chain.from_iterable(enums)))
    if merged.get("type") == "object":
        shared = set(first.get("required", ())).intersection(*[reading.get("required", ()) for reading in readings])
        if shared:
            merged["required"] = [name for name in first["required"] if name in shared]
        extra = [reading.get("additionalProperties", True) for reading in readings]
        if True not in extra:
            schemas = [each for each in extra if isinstance(each, dict)]
            merged["additionalProperties"] = any_of(schemas, f"{where}{{}}", losses) if schemas else False
    for keyword in _limits(readings):
        if all(reading.get(keyword) == first.get(keyword) for reading in readings):
            merged[keyword] = first[keyword]
        else:
            losses.append((where, keyword))


def _narrow(merged: SchemaReading, readings: Sequence[SchemaReading], where: str, losses: Losses) -> None:
    """Write what an intersection keeps of limits: values in all enums, every required name, the closest ranges."""
    enums = [reading["enum"] for reading in readings if "enum" in reading]
    if enums:
        common = set(enums[0]).intersection(*enums[1:])
        merged["enum"] = [value for value in enums[0] if value in common] or enums[0]
    required = dict.fromkeys(name for reading in readings for name in reading.get("required", ()))
    if required:
        merged["required"] = list(required)
    extra = [reading["additionalProperties"] for reading in readings if "additionalProperties" in reading]
    schemas = [each for each in extra if isinstance(each, dict)]
    if False in extra or (extra and not schemas):
        merged["additionalProperties"] = False not in extra
    elif schemas:
        merged["additionalProperties"] = all_of(schemas, f"{where}{{}}", losses)
    for keyword in _limits(readings):
        values = [reading[keyword] for reading in readings if keyword in reading]
        choose = max if keyword in _LOWER_BOUNDS else min if keyword in _UPPER_BOUNDS else None
        merged[keyword] = choose(values) if choose else values[0]
        if choose is None and any(value != values[0] for value in values):
            losses.append((where, keyword))


def _limits(readings: Sequence[SchemaReading]) -> list[str]:
    found: dict[str, None] = {}
    for reading in readings:
        if not _NO_LIMITS.issuperset(reading):
            found |= dict.fromkeys(keyword for keyword in reading if keyword not in _NO_LIMITS)
    return list(found)


UNIONS = ("anyOf", "oneOf")
NULL = {"type": "null"}

_LITERAL = frozenset({"const", "enum", "type", "title"})
_OBJECT = frozenset({"type", "properties", "required"})
_STRINGS: frozenset[type] = frozenset({str})
_TYPES_OF = {"integer": frozenset({int}), "number": frozenset({int, float}), "boolean": frozenset({bool})}


def join_variants(variants: list[Any]) -> dict[str, Any] | None:
    """Return one schema that takes what any of the variants takes; None where they must be read to be joined."""
    if not variants or type(variants[0]) is not dict:
        return None
    if "const" in variants[0] or "enum" in variants[0]:
        return _join_literals(variants)
    return _join_objects(variants) if variants[0].get("type") == "object" else None


def _join_literals(variants: list[Any]) -> dict[str, Any] | None:
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


def _join_objects(variants: list[Any]) -> dict[str, Any] | None:
    members: dict[str, list[Any]] = {}
    required: list[str] | None = None
    for variant in variants:
        if type(variant) is not dict or not _OBJECT.issuperset(variant) or variant.get("type") != "object":
            return None
        inner, names = variant.get("properties", {}), variant.get("required", [])
        if type(inner) is not dict or type(names) is not list or not _STRINGS.issuperset(map(type, names)):
            return None
        for name, schema in inner.items():
            members.setdefault(name, []).append(schema)
        others = set(names)
        required = names if required is None else [name for name in required if name in others]
    properties = {name: one[0] if one.count(one[0]) == len(one) else {"anyOf": one} for name, one in members.items()}
    return {"type": "object", "properties": properties, "required": required or []}


def settle(reading: SchemaReading, where: str) -> None:
    """Supply what a reading leaves open: a type, the items of an array, members that are only required."""
    kind = reading.get("type")
    if kind == "object":
        if "required" in reading:
            _describe_required(reading)
    elif kind == "array":
        if "items" not in reading:
            reading["items"] = {"type": "string"}
    elif kind is None:
        # a value of any kind is shown as text; arguments as a whole are an object
        reading["type"] = "string" if where else "object"
    elif kind == "null":
        reading["type"], reading["nullable"] = "string", "only"


def settle_within(reading: SchemaReading, where: str, losses: Losses | None) -> None:
    """Settle a reading and everything in it; with `losses` the marks of null are lost as well."""
    if reading.get("type") not in SCALARS:
        for name, inner in reading.get("properties", {}).items():
            settle_within(inner, member_path(where, name), losses)
        for keyword, sign in (("items", "[]"), ("additionalProperties", "{}")):
            inner = reading.get(keyword)
            if isinstance(inner, dict):
                settle_within(inner, where + sign, losses)
        settle(reading, where)
        if losses is not None:
            lose_nulls(reading, where, losses)


def lose_nulls(reading: SchemaReading, where: str, losses: Losses) -> int:
    """Take the marks of null from what is directly inside and return how many; leaving out is how to say it."""
    kind = reading["type"]
    if kind == "array":
        if not reading["items"].pop("nullable", None):
            return 0
        losses.append((f"{where}[]", "null"))
        return 1
    if kind != "object":
        return 0
    marks, required = 0, reading.get("required", [])
    for name, inner in reading.get("properties", {}).items():
        if "nullable" not in inner:
            continue
        marks += 1
        only = inner.pop("nullable") == "only"
        if only or name in required:
            losses.append((member_path(where, name), "null"))
        if only and name in required:
            required.remove(name)  # nothing but null would do
    if "required" in reading and not required:
        del reading["required"]
    values = reading.get("additionalProperties")
    if isinstance(values, dict) and values.pop("nullable", None):
        losses.append((f"{where}{{}}", "null"))
        marks += 1
    return marks


def _describe_required(reading: SchemaReading) -> None:
    """Describe the members that are required and nothing else: a model that does not see them can only fail."""
    required = reading["required"]
    if not required:
        del reading["required"]
        return
    members = reading.get("properties")
    if members is None:
        members = reading["properties"] = {}
    if len(set(required)) < len(required):
        reading["required"] = required = list(dict.fromkeys(required))
    for name in required:
        if name not in members:
            values = reading.get("additionalProperties")
            members[name] = dict(values) if isinstance(values, dict) else {"type": "string"}
