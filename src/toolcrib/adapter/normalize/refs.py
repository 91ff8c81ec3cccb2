"""Where a `$ref` leads within its own document, and what it costs to go there. Nothing is fetched."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from .merge import Losses, SchemaReading

DEFINITIONS = frozenset({"$defs", "definitions"})
_MISSING: Any = object()

_FREE_INLININGS = 16  # definitions that are inlined before any are measured
_MAX_INLINED_CHARS = 200_000  # characters that the rest may add


class RefTarget:
    """A definition: its schema, whether the walk is inside it, and how it was read: where, and what was lost there."""

    __slots__ = ("is_open", "lost", "place", "reading", "schema", "size", "weight")

    def __init__(self, schema: Any, *, is_open: bool = False) -> None:
        self.schema, self.is_open, self.size, self.weight = schema, is_open, -1, -1
        self.reading: SchemaReading | None = None
        self.place = ""
        self.lost: Losses = []


class Definitions:
    """The definitions of one document, found by reference, and what it costs to inline them.

    `scopes` are the schemas around the walk that hold definitions of their own, the innermost last.
    """

    __slots__ = ("_by_name", "_document", "_inlined", "_room", "_targets", "scopes")

    def __init__(self, document: Any) -> None:
        self._document = document
        self._targets = {id(document): RefTarget(document, is_open=True)}
        self._by_name: dict[str, RefTarget] = {}
        self._inlined, self._room = 0, _MAX_INLINED_CHARS
        self.scopes: list[Mapping[str, Any]] = []

    def find(self, reference: Any) -> RefTarget | None:
        """Return what a reference points at.

        A pointer counts from the root, as the check of arguments reads it. Where nothing is there, a definition of
        that name is taken from the schemas around the reference, or from the other of `$defs` and `definitions`:
        servers write both.
        """
        if type(reference) is not str:
            return None
        if reference in self._by_name and not self.scopes:
            return self._by_name[reference]
        found = self._resolve(reference)
        if found is _MISSING:
            return None
        target = self._targets.get(id(found))
        if target is None:
            target = self._targets[id(found)] = RefTarget(found)
        if not self.scopes:
            self._by_name[reference] = target
        return target

    def has_room(self, target: RefTarget, *, again: bool = False) -> bool:
        """Tell whether one more inlining is affordable, and pay for it; `again` is a copy of what was read before."""
        self._inlined += 1
        if again:
            # what was inlined in it counts: definitions that name each other twice would double at every step
            if target.weight < 0:
                target.weight = _size(target.reading)
            self._room -= target.weight
        elif self._inlined > _FREE_INLININGS:
            if target.size < 0:
                target.size = _size(target.schema)
            self._room -= target.size
        return self._room >= 0

    def _resolve(self, reference: str) -> Any:
        document = self._document
        if not reference.startswith("#"):
            own = document.get("$id") if isinstance(document, Mapping) else None
            reference = reference.removeprefix(own.removesuffix("#")) if isinstance(own, str) else reference
        if reference in ("#", "#/"):
            return document
        if not reference.startswith("#/"):
            return _MISSING
        found = _at(document, reference[2:].split("/"))
        return self._resolve_around(reference[2:]) if found is _MISSING else found

    def _resolve_around(self, pointer: str) -> Any:
        word, _, name = pointer.partition("/")
        if word not in DEFINITIONS:
            return _MISSING
        for scope in (*reversed(self.scopes), self._document):
            for where in (word, *sorted(DEFINITIONS - {word})):
                found = _member(scope.get(where), name)
                if found is not _MISSING:
                    return found
        return _MISSING


def _at(value: Any, steps: Sequence[str]) -> Any:
    for step in steps:
        if type(value) is list and step.isascii() and step.isdigit() and len(step) < 10 and int(step) < len(value):
            value = value[int(step)]
        else:
            value = _member(value, step)
            if value is _MISSING:
                return _MISSING
    return value


def _member(mapping: Any, name: str) -> Any:
    """Return the member of that name: as it is spelled, or with the escapes of JSON pointers and addresses undone."""
    if type(mapping) is not dict and not isinstance(mapping, Mapping):
        return _MISSING
    if name in mapping:
        return mapping[name]
    return mapping.get(unquote(name, errors="replace").replace("~1", "/").replace("~0", "~"), _MISSING)


def _size(found: Any) -> int:
    """Return how many characters a definition adds wherever it is inlined."""
    try:
        return 64 + len(repr(found))
    except (RecursionError, ValueError):  # nested beyond all measure, or a number of thousands of digits
        return _MAX_INLINED_CHARS + 1
