"""What the keywords that hold schemas, or settle the kind of value, write into a reading."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from .kinds import chosen_kind
from .merge import NEVER, Losses, Reading, any_of, inside

__all__ = ["READERS", "Reader", "Walking"]

_STRINGS = {str}


class Walking(Protocol):
    """The walk, as far as a keyword needs it."""

    losses: Losses

    def place(self, schema: Any, where: str, depth: int) -> Reading: ...
    def mark(self, reading: Reading) -> None: ...
    def may_enter(self, count: int, where: str, depth: int) -> bool: ...


Reader = Callable[[Walking, Reading, Any, str, int], None]


def _type(walk: Walking, reading: Reading, value: Any, where: str, _: int) -> None:
    names = [value] if isinstance(value, str) else value if isinstance(value, (list, tuple)) else []
    kind = chosen_kind(names, None if where else "object")
    if kind or "null" in names:
        reading["type"] = kind or "null"
    if kind and "null" in names:
        walk.mark(reading)
    told = (kind, "null", "integer") if kind == "number" else (kind, "null")
    if not names or any(name not in told for name in names):
        walk.losses.append((where, "type"))


def _properties(walk: Walking, reading: Reading, value: Any, where: str, depth: int) -> None:
    if not isinstance(value, (dict, Mapping)):
        walk.losses.append((where, "properties"))
        return
    if not walk.may_enter(len(value), where, depth):
        return
    members: dict[str, Reading] = {}
    prefix = inside(where, "") if where else ""
    for name, inner in value.items():
        place = prefix + name or inside("", "")
        made = walk.place(inner, place, depth + 1)
        if made is NEVER:
            walk.losses.append((place, "false"))
        else:
            members[name] = made
    reading["properties"] = members


def _required(walk: Walking, reading: Reading, value: Any, where: str, _: int) -> None:
    if isinstance(value, (list, tuple)):
        reading["required"] = [name for name in value if type(name) is str]
    else:
        walk.losses.append((where, "required"))


def _items(walk: Walking, reading: Reading, value: Any, where: str, depth: int) -> None:
    if isinstance(value, (list, tuple)):
        _prefix_items(walk, reading, value, where, depth)
    else:
        _join(walk, reading, "items", value, where, depth)


def _prefix_items(walk: Walking, reading: Reading, value: Any, where: str, depth: int) -> None:
    """Read one schema for each position as one for all."""
    walk.losses.append((where, "prefixItems"))
    if isinstance(value, (list, tuple)) and value:
        _join(walk, reading, "items", {"anyOf": list(value)}, where, depth)


def _additional(walk: Walking, reading: Reading, value: Any, where: str, depth: int) -> None:
    if isinstance(value, bool):
        reading.setdefault("additionalProperties", value)
    else:
        _join(walk, reading, "additionalProperties", value, where, depth)


def _patterns(walk: Walking, reading: Reading, value: Any, where: str, depth: int) -> None:
    """Read members named by a pattern as a map."""
    walk.losses.append((where, "patternProperties"))
    if isinstance(value, Mapping) and value:
        _join(walk, reading, "additionalProperties", {"anyOf": list(value.values())}, where, depth)


def _join(walk: Walking, reading: Reading, keyword: str, schema: Any, where: str, depth: int) -> None:
    """Read one more schema for every item, or for every further member."""
    if not walk.may_enter(1, where, depth):
        return
    place, before = where + ("[]" if keyword == "items" else "{}"), reading.get(keyword)
    made = walk.place(schema, place, depth + 1)
    if isinstance(before, dict):
        made = any_of([before, made], place, walk.losses)
    if made is not NEVER:
        reading[keyword] = made


def _enum(walk: Walking, reading: Reading, value: Any, where: str, _: int) -> None:
    if not isinstance(value, (list, tuple)) or not value:
        walk.losses.append((where, "enum"))
    elif "enum" not in reading:
        # only texts so far are known to be flat; a tuple says that this is still to be seen to
        reading["enum"] = list(dict.fromkeys(value)) if set(map(type, value)) == _STRINGS else tuple(value)


def _const(_: Walking, reading: Reading, value: Any, _where: str, _depth: int) -> None:
    reading["enum"] = [value] if type(value) is str else (value,)


READERS: Mapping[str, Reader] = {
    "type": _type,
    "properties": _properties,
    "required": _required,
    "items": _items,
    "prefixItems": _prefix_items,
    "additionalProperties": _additional,
    "patternProperties": _patterns,
    "enum": _enum,
    "const": _const,
}
