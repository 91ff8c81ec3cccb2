"""One walk over a foreign schema: every place read, references followed, unions merged, all of it bounded."""

from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.lazy import dataclass, field

from .keywords import (
    ATOMS,
    FITTING,
    KINDS,
    MISFIT,
    NOTES,
    SCALARS,
    SILENT,
    TEXTS,
    choose_kind,
    flatten_enum,
    infer_kind,
)
from .merge import (
    NEVER,
    NULL,
    UNIONS,
    Losses,
    SchemaReading,
    all_of,
    any_of,
    copy_json,
    join_variants,
    lose_nulls,
    member_path,
    settle,
    settle_within,
    yield_kind,
)
from .refs import DEFINITIONS, Definitions, RefTarget

_STRINGS = {str}


# How one keyword is read: the walk, the reading it adds to, its value, and where and how deep it stands.
_Reader = Callable[["SchemaWalk", SchemaReading, Any, str, int], None]


def _read_type(walk: "SchemaWalk", reading: SchemaReading, value: Any, where: str, _: int) -> None:
    names = [value] if isinstance(value, str) else value if isinstance(value, (list, tuple)) else []
    kind = choose_kind(names, None if where else "object")
    if kind or "null" in names:
        reading["type"] = kind or "null"
    if kind and "null" in names:
        walk.mark_nullable(reading)
    known = (kind, "null", "integer") if kind == "number" else (kind, "null")
    if not names or any(name not in known for name in names):
        walk.losses.append((where, "type"))


def _read_properties(walk: "SchemaWalk", reading: SchemaReading, value: Any, where: str, depth: int) -> None:
    if not isinstance(value, (dict, Mapping)):
        walk.losses.append((where, "properties"))
        return
    if not walk.may_enter(len(value), where, depth):
        return
    members: dict[str, SchemaReading] = {}
    prefix = member_path(where, "") if where else ""
    for name, inner in value.items():
        place = prefix + name or member_path("", "")
        made = walk.read(inner, place, depth + 1)
        if made is NEVER:
            walk.losses.append((place, "false"))
        else:
            members[name] = made
    reading["properties"] = members


def _read_required(walk: "SchemaWalk", reading: SchemaReading, value: Any, where: str, _: int) -> None:
    if isinstance(value, (list, tuple)):
        reading["required"] = [name for name in value if type(name) is str]
    else:
        walk.losses.append((where, "required"))


def _read_items(walk: "SchemaWalk", reading: SchemaReading, value: Any, where: str, depth: int) -> None:
    if isinstance(value, (list, tuple)):
        _read_prefix_items(walk, reading, value, where, depth)
    else:
        _join(walk, reading, "items", value, where, depth)


def _read_prefix_items(walk: "SchemaWalk", reading: SchemaReading, value: Any, where: str, depth: int) -> None:
    """Read one schema for each position as one for all."""
    walk.losses.append((where, "prefixItems"))
    if isinstance(value, (list, tuple)) and value:
        _join(walk, reading, "items", {"anyOf": list(value)}, where, depth)


def _read_additional(walk: "SchemaWalk", reading: SchemaReading, value: Any, where: str, depth: int) -> None:
    if isinstance(value, bool):
        reading.setdefault("additionalProperties", value)
    else:
        _join(walk, reading, "additionalProperties", value, where, depth)


def _read_patterns(walk: "SchemaWalk", reading: SchemaReading, value: Any, where: str, depth: int) -> None:
    """Read members named by a pattern as a map."""
    walk.losses.append((where, "patternProperties"))
    if isinstance(value, Mapping) and value:
        _join(walk, reading, "additionalProperties", {"anyOf": list(value.values())}, where, depth)


def _join(walk: "SchemaWalk", reading: SchemaReading, keyword: str, schema: Any, where: str, depth: int) -> None:
    """Read one more schema for every item, or for every further member."""
    if not walk.may_enter(1, where, depth):
        return
    place, before = where + ("[]" if keyword == "items" else "{}"), reading.get(keyword)
    made = walk.read(schema, place, depth + 1)
    if isinstance(before, dict):
        made = any_of([before, made], place, walk.losses)
    if made is not NEVER:
        reading[keyword] = made


def _read_enum(walk: "SchemaWalk", reading: SchemaReading, value: Any, where: str, _: int) -> None:
    if not isinstance(value, (list, tuple)) or not value:
        walk.losses.append((where, "enum"))
    elif "enum" not in reading:
        # only texts so far are known to be flat; a tuple says that this is still to be seen to
        reading["enum"] = list(dict.fromkeys(value)) if set(map(type, value)) == _STRINGS else tuple(value)


def _read_const(_: "SchemaWalk", reading: SchemaReading, value: Any, _where: str, _depth: int) -> None:
    reading["enum"] = [value] if type(value) is str else (value,)


_READERS: Mapping[str, _Reader] = {
    "type": _read_type, "properties": _read_properties, "required": _read_required, "items": _read_items,
    "prefixItems": _read_prefix_items, "additionalProperties": _read_additional, "patternProperties": _read_patterns,
    "enum": _read_enum, "const": _read_const,
}  # fmt: skip


_MAX_DEPTH = 64  # steps into members, items, references and variants
_MAX_PLACES = 5_000  # members, items and variants in all; OpenAI takes no more

_COMPOSITION = frozenset({"$ref", "allOf", *UNIONS, "not", *DEFINITIONS})
_NOTED_WORDS = {keyword: NOTES | {keyword} for keyword in (*UNIONS, "$ref")}
_SAYING_KIND = frozenset({"type", "enum", "const", "properties"})
_TYPES = KINDS | {"null"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """What a provider takes of the portable subset.

    `refused` words are lost, `silent` ones left out without a word; an enum may list the kinds in `enums`. With
    `tells_null` the mark `nullable` stays where a value may be null as well.
    """

    refused: frozenset[str] = frozenset()
    silent: frozenset[str] = SILENT
    enums: frozenset[str] = KINDS
    tells_null: bool = False
    texts: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "texts", TEXTS - self.refused)


class SchemaWalk:
    """The state of one walk: the document, what was lost, and what the places around leave to be settled."""

    __slots__ = (
        "_cuts", "_definitions", "_dialect", "_document", "_loose", "_marks", "_places", "_refused", "_texts",
        "losses",
    )  # fmt: skip

    def __init__(self, document: Any, dialect: Dialect) -> None:
        self.losses: Losses = []
        self._document, self._dialect = document, dialect
        self._texts, self._refused = dialect.texts, dialect.refused
        self._definitions: Definitions | None = None
        self._places = _MAX_PLACES
        self._loose = 0  # unions around this place: nothing is supplied before they are merged
        self._marks = 0  # places that may be null, for the object or array around them to settle
        self._cuts = 0  # places that say less than they would elsewhere

    def root(self) -> SchemaReading:
        """Return the whole document as the reading of an object."""
        document = self._document
        if type(document) is dict and ("$defs" in document or "definitions" in document):
            document = {keyword: value for keyword, value in document.items() if keyword not in DEFINITIONS}
        reading = self.read(document, "", 0)
        if reading["type"] != "object":
            self.losses.append(("", "type"))
            reading = {"type": "object"}
        if "properties" not in reading:
            reading["properties"] = {}
        reading.pop("nullable", None)
        return reading

    def read(self, schema: Any, where: str, depth: int) -> SchemaReading:
        """Return the reading of one place. This loop decides how fast a walk is."""
        if type(schema) is not dict:
            if isinstance(schema, Mapping):
                return self.read(dict(schema), where, depth)
            if schema is False:
                return NEVER
            return self._complete({}, {}, where) if schema is True else self._cut(schema, where, "schema")
        if not _COMPOSITION.isdisjoint(schema):
            return self._compose(schema, where, depth)
        reading: SchemaReading = {}
        texts, refused = self._texts, self._refused
        for keyword, value in schema.items():
            if keyword in texts and type(value) is str:
                reading[keyword] = value
            elif keyword in refused:
                if value is not False and (value is not True or keyword != "additionalProperties"):
                    self.losses.append((where, keyword))
            elif keyword in _READERS:
                _READERS[keyword](self, reading, value, where, depth)
            elif keyword == "default" and type(value) in ATOMS:
                reading[keyword] = value
            else:
                self._keep(reading, keyword, value, where)
        kind = reading.get("type")
        if kind in SCALARS and ("enum" not in reading or (kind == "string" and type(reading["enum"]) is list)):
            return reading
        return self._complete(reading, schema, where)

    def mark_nullable(self, reading: SchemaReading) -> None:
        """Note that a value may be null as well."""
        if "nullable" not in reading:
            reading["nullable"] = True
            self._marks += 1

    def may_enter(self, count: int, where: str, depth: int) -> bool:
        """Tell whether so many places inside may be read, and pay for them."""
        self._places -= count
        if depth < _MAX_DEPTH and self._places >= 0:
            return True
        self._cuts += 1
        self.losses.append((where, "depth" if depth >= _MAX_DEPTH else "size"))
        return False

    def _cut(self, schema: Any, where: str, why: str) -> SchemaReading:
        """Return what is known without going further: the kind of value."""
        self.losses.append((where, why))
        self._cuts += 1
        kind = infer_kind(schema) if isinstance(schema, Mapping) else None
        return self._complete({"type": kind} if kind else {}, {}, where)

    def _keep(self, reading: SchemaReading, keyword: str, value: Any, where: str) -> None:
        if keyword in self._dialect.silent or keyword.startswith("x-"):
            return
        kept = FITTING[keyword](value) if keyword in FITTING else MISFIT
        if kept is MISFIT:
            self.losses.append((where, keyword))
        else:
            reading[keyword] = kept

    def _complete(self, reading: SchemaReading, schema: Mapping[str, Any], where: str) -> SchemaReading:
        """Find the kind of value and make the enum flat; outside of unions, supply what is left open."""
        if "enum" in reading:
            self._flatten_enum(reading, where)
        kind = reading.get("type")
        if kind in SCALARS:
            return reading
        if kind not in _TYPES:
            kind = infer_kind(schema)
            if kind:
                reading["type"] = kind
            else:
                reading.pop("type", None)
        if not self._loose:
            if kind != "object" or "required" in reading:
                settle(reading, where)
            if self._marks and not self._dialect.tells_null:
                self._marks -= lose_nulls(reading, where, self.losses)
            self._marks += kind == "null"
        return reading

    def _flatten_enum(self, reading: SchemaReading, where: str) -> None:
        listed, declared = reading["enum"], reading.get("type")
        spoken = [value for value in listed if value is not None]
        if len(spoken) < len(listed):
            self.mark_nullable(reading)
        kind, kept = flatten_enum(spoken, declared if declared in KINDS else None)
        if kind not in self._dialect.enums:
            kept = []
        if len(kept) < len(spoken):
            self.losses.append((where, "enum"))
        if kept:
            reading["enum"] = list(dict.fromkeys(kept))
        else:
            del reading["enum"]
        if kind or not spoken:
            reading["type"] = kind or "null"

    # References and unions

    def _compose(self, schema: dict[str, Any], where: str, depth: int) -> SchemaReading:
        """Return a place that is put together from others."""
        if depth >= _MAX_DEPTH or self._places < 0:
            return self._cut(schema, where, "depth" if depth >= _MAX_DEPTH else "size")
        if "$ref" in schema and len(schema) == 1:
            return self._follow(schema["$ref"], where, depth)
        for keyword, words in _NOTED_WORDS.items():
            if keyword in schema and words.issuperset(schema):
                noted = self._read_noted(keyword, schema, where, depth)
                if noted is not None:
                    return noted
        if "not" in schema:
            if schema["not"] is True or schema["not"] == {}:
                return NEVER
            self.losses.append((where, "not"))
        if schema.keys().isdisjoint(DEFINITIONS):
            return self._merge(schema, where, depth)
        scopes = self._load_definitions().scopes
        scopes.append(schema)
        reading = self._merge(schema, where, depth)
        scopes.pop()
        return reading

    def _read_noted(self, keyword: str, schema: dict[str, Any], where: str, depth: int) -> SchemaReading | None:
        """Return a place that only notes something about one other schema, or that null will do as well."""
        value, takes_null = schema[keyword], False
        if keyword == "$ref":
            reading = self._follow(value, where, depth)
            if reading is not NEVER:
                reading = dict(reading)  # the definition itself is noted nothing
        elif type(value) is list:
            takes_null = NULL in value
            variants = [each for each in value if each != NULL] if takes_null else value
            is_one = variants and variants.count(variants[0]) == len(variants)
            source = variants[0] if is_one else join_variants(variants)
            if source is None:
                return None
            if not is_one and "properties" in source:
                self.losses.append((where, keyword))  # which members go together is lost
            reading = self.read(source, where, depth + 1)
        else:
            return None
        if reading is NEVER:
            return self.read(NULL, where, depth + 1) if takes_null else NEVER
        for note, noted in schema.items():
            if note == "default" and type(noted) in ATOMS:
                reading[note] = noted
            elif note in NOTES:
                self._keep(reading, note, noted, where)
        if takes_null:
            self.mark_nullable(reading)
        return reading

    def _merge(self, schema: dict[str, Any], where: str, depth: int) -> SchemaReading:
        """Return everything that a place says, itself first, as one."""
        lost = len(self.losses)
        self._loose += 1
        own = {keyword: value for keyword, value in schema.items() if keyword not in _COMPOSITION}
        parts = [self.read(own, where, depth)] if own else []
        if "$ref" in schema:
            parts.append(self._follow(schema["$ref"], where, depth))
        parts += self._variants(schema, "allOf", where, depth)
        wanted = next((part["type"] for part in parts if "type" in part), None) if where else "object"
        for keyword in UNIONS:
            variants = self._variants(schema, keyword, where, depth)
            if variants:
                self._forget_notes(variants, where)
                parts.append(any_of(variants, where, self.losses, word=keyword, wanted=wanted))
        self._loose -= 1
        if where and own and len(parts) > 1 and own.keys().isdisjoint(_SAYING_KIND):
            yield_kind(parts, where, self.losses)
        merged = parts[0] if len(parts) == 1 else all_of(parts, where, self.losses)
        if not self._loose and merged is not NEVER:
            settle_within(merged, where, None if self._dialect.tells_null else self.losses)
            self._marks += "nullable" in merged
            self.losses[lost:] = dict.fromkeys(self.losses[lost:])
        return merged

    def _forget_notes(self, variants: list[SchemaReading], where: str) -> None:
        """Take the notes from literals that become one enum: what is noted on one is not true of all."""
        literals = [variant for variant in variants if "enum" in variant]
        if len(literals) < 2 or any("enum" not in variant and variant != NULL for variant in variants):
            return
        for literal in literals:
            if "description" in literal:
                self.losses.append((where, "description"))
            for note in NOTES:
                literal.pop(note, None)

    def _variants(self, schema: Mapping[str, Any], keyword: str, where: str, depth: int) -> list[SchemaReading]:
        listed = schema.get(keyword, ())
        if not isinstance(listed, (list, tuple)):
            self.losses.append((where, keyword))
            return []
        if not listed or not self.may_enter(len(listed), where, depth):
            return []
        return [self.read(each, where, depth + 1) for each in listed]

    def _load_definitions(self) -> Definitions:
        if self._definitions is None:
            self._definitions = Definitions(self._document)
        return self._definitions

    def _follow(self, reference: Any, where: str, depth: int) -> SchemaReading:
        definitions = self._load_definitions()
        target = definitions.find(reference)
        if target is None:
            return self._cut({}, where, "$ref")
        if target.is_open:
            return self._cut(target.schema, where, "recursion")
        is_read = target.reading is not None and not self._loose
        if not definitions.has_room(target, again=is_read):
            return self._cut(target.schema, where, "size")
        if not is_read:
            return self._enter(target, where, depth)
        self.losses += [(where + place[len(target.place) :], keyword) for place, keyword in target.lost]
        again: SchemaReading = copy_json(target.reading)
        return again

    def _enter(self, target: RefTarget, where: str, depth: int) -> SchemaReading:
        lost, cuts = len(self.losses), self._cuts
        target.is_open = True
        reading = self.read(target.schema, where, depth + 1)
        target.is_open = False
        is_whole = cuts == self._cuts and not self._loose and reading is not NEVER and "nullable" not in reading
        if where and is_whole:
            target.reading, target.place, target.lost = reading, where, self.losses[lost:]
        return reading
