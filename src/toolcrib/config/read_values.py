"""Checks the value of one parsed file and makes it plain: JSON types only, `${NAME}` replaced, places noted.

No message holds a value: it may be a secret.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, time
from sys import intern
from types import NoneType
from typing import Any

from toolcrib.config.places import MAX_DEPTH, KeyPath, Spot, deep, place
from toolcrib.config.read_file import Room
from toolcrib.define.errors import ConfigError, Place

__all__ = ["Include", "Part", "Source", "settle"]

_REFERENCE = re.compile(r"\$(\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")
_BAD_IN_KEY = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_BAD_IN_TEXT = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # newline and tab are fine
_BAD = "a control character or half a character"
_KINDS: tuple[tuple[type | tuple[type, ...], str], ...] = (
    (NoneType, "null"),
    (bool, "a boolean"),
    ((int, float), "a number"),
    (str, "text"),
    ((list, tuple), "a list"),
    (Mapping, "a mapping"),
    ((date, time), "a date or a time"),
)


@dataclass(frozen=True, slots=True)
class Source:
    """Where a value comes from: the file's name (empty: a program), its lines, and the path it is put at."""

    file: str = ""
    lines: Mapping[KeyPath, int] = field(default_factory=dict)
    prefix: KeyPath = ()


@dataclass(frozen=True, slots=True)
class Include:
    """An `$include` to be carried out: the files named, and the mapping they go into."""

    names: tuple[str, ...]
    into: dict[str, Any]
    path: KeyPath
    asked: Place


@dataclass(slots=True)
class Part:
    """One file's share of a document, by key paths of the whole."""

    value: dict[str, Any] = field(default_factory=dict)
    spots: dict[KeyPath, Spot] = field(default_factory=dict)
    referenced: set[KeyPath] = field(default_factory=set)
    includes: list[Include] = field(default_factory=list)


def settle(raw: Any, source: Source, env: Mapping[str, str], room: Room) -> Part:
    """The checked, plain form of `raw`; `room` bounds what shared values and references may grow to."""
    settler = _Settler(source, env, room)
    if not isinstance(raw, Mapping):
        what = f"this is {_kind(raw)}; a configuration is a mapping of keys to values"
        raise ConfigError(what, place(source.file, None, source.prefix))
    settler.part.spots[source.prefix] = (source.file, None)
    settler.part.value = settler.mapping(raw, source.prefix, None)
    return settler.part


class _Settler:
    """Walks one value; `line` is always that of the path, or of its nearest parent that has one."""

    def __init__(self, source: Source, env: Mapping[str, str], room: Room) -> None:
        self.part = Part()
        self._source = source
        self._env = env
        self._room = room

    def mapping(self, raw: Mapping[Any, Any], path: KeyPath, line: int | None) -> dict[str, Any]:
        settled: dict[str, Any] = {}
        self._check_depth(path, line)
        for key, item in raw.items():
            name = self._key(key, path, line)
            here = (*path, name)
            its_line = self._line(here, line)
            if name == "$include":
                self.part.includes.append(self._include(item, settled, here, its_line))
                continue
            if name in settled:
                raise self._error(here, its_line, "this key stands twice, as a number and as text; keep one of them")
            settled[name] = self._value(item, here, its_line)
        return settled

    def _line(self, path: KeyPath, parents: int | None) -> int | None:
        return self._source.lines.get(path[len(self._source.prefix) :], parents)

    def _error(self, path: KeyPath, line: int | None, message: str) -> ConfigError:
        return ConfigError(message, place(self._source.file, line, path))

    def _check_depth(self, path: KeyPath, line: int | None) -> None:
        if len(path) >= MAX_DEPTH:
            raise self._error(path, line, deep(path, 0).message)

    def _take(self, amount: int, path: KeyPath, line: int | None) -> None:
        if not self._room.take(amount):
            raise self._error(path, line, "with this the configuration passes 1 MiB; make it smaller")

    def _key(self, key: Any, path: KeyPath, line: int | None) -> str:
        if isinstance(key, int) and not isinstance(key, bool):
            key = str(self._integer(key, path, line))
        if not isinstance(key, str):
            raise self._error(path, line, f"a key here is {_kind(key)}; keys are text")
        name = intern(str.__str__(key))  # as the scans do: equal paths are then compared by identity, however long
        its_line = self._line((*path, name), line)
        if not name:
            raise self._error(path, its_line, "a key here is empty; name it or remove it")
        if _BAD_IN_KEY.search(name):
            raise self._error((*path, name), its_line, f"this key holds {_BAD}; remove it")
        self._take(len(name), path, its_line)
        return name

    def _value(self, raw: Any, path: KeyPath, line: int | None) -> Any:
        self.part.spots[path] = (self._source.file, line)
        self._take(1, path, line)
        if raw is None or isinstance(raw, bool):
            return raw
        if isinstance(raw, str):
            return self._text(raw, path, line)
        if isinstance(raw, int):
            return self._integer(raw, path, line)
        if isinstance(raw, float):
            if not math.isfinite(raw):
                raise self._error(path, line, "this number is not finite; write one that is")
            return float(raw)
        if isinstance(raw, Mapping):
            return self.mapping(raw, path, line)
        if isinstance(raw, list | tuple):
            self._check_depth(path, line)
            places = ((*path, index) for index in range(len(raw)))
            return [self._value(item, here, self._line(here, line)) for item, here in zip(raw, places, strict=True)]
        raise self._error(path, line, f"this is {_kind(raw)}; write it as text, in quotes")

    def _integer(self, raw: int, path: KeyPath, line: int | None) -> int:
        if not -(2**63) <= raw < 2**63:
            raise self._error(path, line, "this whole number does not fit 64 bits; write it in quotes if it is an id")
        return int(raw)

    def _text(self, raw: str, path: KeyPath, line: int | None) -> str:
        if _BAD_IN_TEXT.search(raw):
            raise self._error(path, line, f"this text holds {_BAD}; remove it")
        self._take(len(raw), path, line)
        return _REFERENCE.sub(lambda match: self._reference(match, path, line), str.__str__(raw))

    def _reference(self, match: re.Match[str], path: KeyPath, line: int | None) -> str:
        escaped, name = match.groups()
        if escaped:
            return "${"
        if not name:
            what = "a ${ here does not begin a ${NAME}; close it, or write $${ for the characters"
            raise self._error(path, line, what)
        value = self._env.get(name)
        if not value:
            state = "not set" if value is None else "empty"
            raise self._error(path, line, f"the environment variable {name} is {state}; set it")
        if _BAD_IN_TEXT.search(value):
            raise self._error(path, line, f"the environment variable {name} holds {_BAD}; set it without")
        self._take(len(value), path, line)
        self.part.referenced.add(path)
        return value

    def _include(self, item: Any, into: dict[str, Any], path: KeyPath, line: int | None) -> Include:
        if not self._source.file:
            raise self._error(path, line, "a program's configuration cannot include files; merge them before")
        names = item if isinstance(item, list) else [item]
        if not all(isinstance(name, str) and name and not _BAD_IN_KEY.search(name) for name in names):
            raise self._error(path, line, "an include is the name of a file, or a list of names")
        return Include(tuple(names), into, path[:-1], place(self._source.file, line, path))


def _kind(raw: Any) -> str:
    """What a value is, in words, without the value."""
    known = (name for of, name in _KINDS if isinstance(raw, of))
    return next(known, f"of the type {type(raw).__name__}")
