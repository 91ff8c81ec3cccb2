"""The rules that rows of openclaw-schema name: what ours says at each place, told by theirs and by the schema given.

No line of the adapter is used. `told_plainly` is exact about places where theirs is one schema; `told_as_one` is about
places where theirs is joined of several, or was before they merged it.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

Json = Mapping[str, Any]
Places = Mapping[str, Json]

_KINDS = ("string", "number", "integer", "boolean", "object", "array")
_JOIN = ("anyOf", "oneOf", "allOf")
_NOTES = frozenset({"title", "description", "default"})
_NAMED = frozenset({"properties", "$defs", "definitions", "patternProperties"})
_VALUES = frozenset({"default", "const", "enum", "examples"})
_HINTS = {
    "number": ("exclusiveMinimum", "exclusiveMaximum"),
    "object": ("propertyNames", "dependentRequired", "dependentSchemas"),
    "array": ("prefixItems", "contains", "items"),
}
_NUMBERS = (("boolean", bool), ("integer", int), ("number", float))


def told_plainly(schema: Json, ours: Places, theirs: Places) -> bool:
    """Tell whether ours says at every place that is not joined what theirs says, in words that Gemini takes."""
    return _Beside(schema, ours, theirs).is_plain()


def told_as_one(schema: Json, ours: Places, theirs: Places) -> bool:
    """Tell whether a joined place is one schema: every member, no text that none lists, required what all require."""
    beside = _Beside(schema, ours, theirs)
    joins = any("joined" in said for said in ours.values())
    return not joins and (beside.is_led or all(beside.is_one(at) for at in beside.parts if at in ours))


def schemas_in(value: Any, words: Sequence[str] = ()) -> list[Json]:
    """Return every schema in one, itself first; with `words` only what stands under those, and under those again."""
    if isinstance(value, list):
        return [each for inner in value for each in schemas_in(inner, words)]
    if not isinstance(value, Mapping):
        return []
    inside = {word: inner for word, inner in value.items() if word in (words or value.keys() - _VALUES)}
    lists = (
        [*each.values()] if word in _NAMED and isinstance(each, Mapping) else each for word, each in inside.items()
    )
    return [value, *(each for inner in lists for each in schemas_in(inner, words))]


class _Beside:
    """Ours beside theirs."""

    def __init__(self, schema: Json, ours: Places, theirs: Places) -> None:
        self.root, self.ours, self.theirs = schema, ours, theirs
        self.nodes = schemas_in(schema)
        self.follows = any("$ref" in node for node in self.nodes)
        self.union = [
            each
            for word in _JOIN[:2]
            if isinstance(schema.get(word), list)
            for each in schema[word]
            if isinstance(each, Mapping)
        ]

    @cached_property
    def is_led(self) -> bool:
        """Whether theirs loses what ours says: words beside a reference or a union, one of two definitions."""
        beside = any("$ref" in node and set(node) - _NOTES - {"$ref"} for node in self.nodes)
        listed = any(set(_JOIN) & set(node) and {"enum", "const"} & set(node) for node in self.nodes)
        return listed or (
            self.follows and (beside or sum("$defs" in each or "definitions" in each for each in self.nodes) > 1)
        )

    @cached_property
    def parts(self) -> dict[str, list[Json]]:
        """What the places are joined of that are; at the root also what theirs has merged already."""
        parts: dict[str, list[Json]] = {"root": schemas_in(self.union, _JOIN)} if self.union else {}
        variants = [self.root, *parts.get("root", ())] if self.union else []
        members = [each["properties"] for each in variants if isinstance(each.get("properties"), Mapping)]
        for name in {name: 0 for each in members for name in each}:
            sides = [each[name] for each in members if name in each]
            if len(sides) > 1:
                parts[f"root/{name}"] = schemas_in(sides, _JOIN)
        for at, said in self.theirs.items():
            if "joined" in said:
                parts[at] = [*parts.get(at, ()), *schemas_in(list(said["joined"].values()), _JOIN)]
        return parts

    def is_plain(self) -> bool:
        if self.is_led:
            return True
        said = (at for at in self.theirs if self._speaks(at))
        more = (
            at for at in self.ours if at not in self.theirs and not self._is_joined(at, "root") and not self._is_cut(at)
        )
        return (
            self._is_whole()
            and all(self.ours.get(at) == self._said_at(at) for at in said)
            and all(self.ours[at] == {"type": "string"} and (at.endswith("#") or self._is_required(at)) for at in more)
        )

    def _is_whole(self) -> bool:
        """Tell whether no place of theirs is lost, but for one that no value fits."""
        never = any(
            False in each.values() for node in self.nodes for each in map(node.get, _NAMED) if isinstance(each, Mapping)
        )
        lost = [at for at in self.theirs if at not in self.ours and not at.rpartition("/")[2].isdigit()]
        return all(
            any(at.startswith((f"{up}/", f"{up}#")) for up in self.parts if up != "root") or never for at in lost
        )

    def is_one(self, at: str) -> bool:
        mine, theirs, parts = self.ours[at], self.theirs.get(at, {}), self.parts[at]
        kinds = {kind for each in (theirs, *parts) for kind in _kinds(each)}
        if mine["type"] == "object" and not all(f"{at}/{name}" in self.ours for name in self._members(parts)):
            return False
        if self.follows:
            return True
        leaves = [each for each in parts if not set(_JOIN) & set(each) and each.get("type") not in ("null", ["null"])]
        texts = {text for each in (theirs, *leaves) for text in [*each.get("enum", ()), each.get("const")]}
        is_listed = all({"enum", "const"} & set(each) for each in leaves) and any(
            isinstance(text, str) for text in texts
        )
        return (
            (mine["type"] in kinds or at == "root" or not kinds or (mine["type"] == "string" and "enum" in mine))
            and set(mine.get("enum", ())) <= texts
            and ("enum" in mine or mine["type"] != "string" or not is_listed)
            and self._is_asked(at, leaves)
        )

    def _members(self, parts: Sequence[Json]) -> list[str]:
        members = [each["properties"] for each in parts if isinstance(each.get("properties"), Mapping)]
        return [
            name.replace(".", "%2E")
            for each in members
            for name, inner in each.items()
            if inner is not False and inner != {} and "$ref" not in str(inner) and not name.isdigit()
        ]

    def _is_asked(self, at: str, leaves: Sequence[Json]) -> bool:
        """Tell whether that is required which the place itself requires, or all of what it is joined of."""
        theirs = self.theirs.get(at, {})
        own = {*(_names(theirs) if "joined" in theirs else ()), *(_names(self.root) if at == "root" else ())}
        every = schemas_in(theirs.get("joined", {}).get("allOf", []), _JOIN)
        own |= {name for each in every for name in _names(each)}
        objects = [
            each for each in leaves if {"type", "properties", "required"} & set(each) and _kinds(each) <= {"object"}
        ]
        shared = set.intersection(*({*_names(each)} for each in objects)) if objects else set()
        mine = {*_names(self.ours[at])}
        is_deep = any(set(_JOIN) & set(each) for each in self.parts[at])
        may_lack = "null" in str(self.root) or self.ours[at]["type"] != "object"
        return is_deep or (mine <= own | shared and (may_lack or own | shared <= mine))

    # A place that is not joined

    def _said_at(self, at: str) -> Json | None:
        said = self.theirs[at]
        if "value" in said:
            return {"type": "string"} if said["value"] is not False or self._is_required(at) else None
        kind = self._kind(at)
        texts = [each for each in dict.fromkeys(filter(_is_text, said.get("enum", ()))) if kind == "string"]
        asked = [name for name in dict.fromkeys(_names(said)) if kind == "object" and not self._is_null(at, name)]
        return {
            **{note: said[note] for note in ("title", "description") if isinstance(said.get(note), str)},
            **({"default": said["default"]} if "default" in said else {}),
            "type": kind,
            **({"enum": texts} if texts else {}),
            **({"required": asked} if asked else {}),
            **({"properties": {}} if self._is_empty(at) else {}),
        }

    def _kind(self, at: str) -> str:
        """Return the type of a place: the first that is said, else that of what it lists or holds, else a text."""
        said = self.theirs[at]
        listed = [value for value in said.get("enum", ()) if value is not None]
        if said.get("type") in _KINDS or isinstance(said.get("type"), list):
            known = [
                kind for kind in ([said["type"]] if isinstance(said["type"], str) else said["type"]) if kind in _KINDS
            ]
            if known:
                return "number" if known[0] == "integer" and "number" in known else str(known[0])
        if listed and not any(map(_is_text, listed)):
            return next((name for name, kind in _NUMBERS if all(isinstance(value, kind) for value in listed)), "string")
        if f"{at}#" in self.ours:
            return "array"
        if at == "root" or any(each.startswith(f"{at}/") for each in self.ours):
            return "object"
        besides = said.get("besides", {})
        return next((kind for word in besides for kind, hints in _HINTS.items() if word in hints), "string")

    def _speaks(self, at: str) -> bool:
        """Tell whether theirs says all that is to be known of a place."""
        said = self.theirs[at]
        has_both = any("const" in node and "enum" in node for node in self.nodes) and "enum" in said
        is_position = at.rpartition("/")[2].isdigit()
        return not (self._is_joined(at) or self._is_cut(at) or has_both or is_position)

    def _is_joined(self, at: str, *also: str) -> bool:
        return any(
            at == up or ((up != "root" or up in also) and at.startswith((f"{up}/", f"{up}#"))) for up in self.parts
        )

    def _is_cut(self, at: str) -> bool:
        """Tell whether theirs leaves a reference out at a place, or above it."""
        silent = (up for up, said in self.theirs.items() if set(said) <= _NOTES or said.get("value") is True)
        return self.follows and any(at == up or at.startswith((f"{up}/", f"{up}#")) for up in silent)

    def _is_null(self, at: str, name: str) -> bool:
        said = self.theirs.get(f"{at}/{name}", {})
        if said.get("type") == [] or said.get("joined") in ({"anyOf": []}, {"oneOf": []}):
            return name not in _names(self.ours[at])  # theirs does not tell whether it was null
        return said.get("type") in ("null", ["null"]) or said.get("enum") == [None]

    def _is_required(self, at: str) -> bool:
        up, _, name = at.rpartition("/")
        return name in _names(self.ours.get(up, {}))

    def _is_empty(self, at: str) -> bool:
        holds = any(each.startswith(f"{at}/") for each in self.ours)
        return not holds and (at == "root" or any(each.startswith(f"{at}/") for each in self.theirs))


def _names(said: Json) -> list[str]:
    names = said.get("required", ())
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def _kinds(said: Json) -> set[str]:
    kind = said.get("type")
    return {each for each in (kind if isinstance(kind, list) else [kind]) if each in _KINDS}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)
