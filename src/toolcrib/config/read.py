"""Reads a configuration file, with everything it includes, into one plain value with the place of every key."""

import errno
import math
import os
import re
import stat
from collections.abc import Mapping
from datetime import date, time
from pathlib import Path
from sys import intern
from types import NoneType
from typing import Any

from toolcrib.config.parse import parse_document
from toolcrib.define.display import escape_unprintable
from toolcrib.define.errors import ConfigError, ConfigLocation
from toolcrib.lazy import dataclass, field, regex

from .positions import MAX_DEPTH, KeyPath, Places, Spot, deep, place

LIMIT = 1 << 20

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # opening a pipe must not wait for its writer
_BOM = b"\xef\xbb\xbf"
_PROBLEMS = {
    errno.ENOENT: "no such file; create it or name another",
    errno.EACCES: "this user may not read it; change its permissions",
    errno.EISDIR: "a directory; name a file in it",
    errno.ENXIO: "not a regular file; name one",
    errno.ELOOP: "its symbolic links lead in a circle; name the file itself",
}


@dataclass(slots=True)
class Room:
    """What may still be read, in bytes, characters or files."""

    left: int = LIMIT

    def take(self, amount: int) -> bool:
        """Uses up `amount`; false if there was not enough left."""
        self.left -= amount
        return self.left >= 0


def _load(path: Path, room: Room, asked: ConfigLocation) -> str:
    """The text of a regular file in UTF-8, its size taken from `room`.

    `asked` is where the file was asked for: an error in opening it names that place.
    """
    name = escape_unprintable(str(path))
    prefix = "" if asked.file == name else f"{name}: "
    try:
        data = _read_bytes(path, room.left + 1)
    except OSError as error:
        problem = _PROBLEMS.get(error.errno or 0) or f"it cannot be read ({error.strerror})"
        raise ConfigError(f"{prefix}{problem}", asked) from None
    except ValueError:
        raise ConfigError(f"{prefix}a file's name cannot hold a NUL character", asked) from None
    if not room.take(len(data)):
        raise ConfigError(f"{prefix}more than 1 MiB with all included files; make it smaller", asked)
    return _decode(data, name)


def _read_bytes(path: Path, limit: int) -> bytes:
    """Return up to `limit` bytes; raise OSError for what is no regular file."""
    with open(path, "rb", opener=lambda name, _: os.open(name, _FLAGS)) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.ENXIO, "not a regular file")
        return file.read(limit)


def _decode(data: bytes, name: str) -> str:
    try:
        return data.removeprefix(_BOM).decode()
    except UnicodeDecodeError as error:
        offset = error.start + (len(_BOM) if data.startswith(_BOM) else 0)
        line = data.count(b"\n", 0, offset) + 1
        raise ConfigError(f"not UTF-8 at byte {offset}; save the file as UTF-8", ConfigLocation(name, line)) from None


_REFERENCE = regex(r"\$(\$\{)|\$\{([A-Za-z_][A-Za-z0-9_]*)\}|\$\{")
_BAD_IN_KEY = regex("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_BAD_IN_TEXT = regex("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")  # newline and tab are fine
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
    asked: ConfigLocation


@dataclass(slots=True)
class _Part:
    """One file's share of a document, by key paths of the whole."""

    value: dict[str, Any] = field(default_factory=dict)
    spots: dict[KeyPath, Spot] = field(default_factory=dict)
    referenced: set[KeyPath] = field(default_factory=set)
    includes: list[Include] = field(default_factory=list)


def _settle(raw: Any, source: Source, env: Mapping[str, str], room: Room) -> _Part:
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
        self.part = _Part()
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


Spots = Mapping[KeyPath, Spot]

_MAX_CHAIN = 8
_MAX_INCLUDES = 256  # small files that include one another many times stay below the limit in bytes for long
_SCHEME = regex(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class Document:
    """A configuration as written: includes merged, references replaced, nothing yet checked against a schema.

    `places` names every key and list item, and the whole as `()`; `referenced` holds the paths of strings
    with a `${NAME}` in them, whose values must never be shown.
    """

    value: Mapping[str, Any]
    places: Mapping[KeyPath, ConfigLocation]
    files: tuple[Path, ...]
    referenced: frozenset[KeyPath]


def read_document(path: Path, env: Mapping[str, str]) -> Document:
    """The document of the file at `path`; raises only `ConfigError`, with the place and what to do."""
    reading = _Reading(env)
    part = reading.part(path, (), (), ConfigLocation(escape_unprintable(str(path))))
    return _document(part, tuple(reading.files))


def document(value: Mapping[str, Any], env: Mapping[str, str]) -> Document:
    """The document of a mapping handed in by a program: the same checks, no file and no `$include`."""
    return _document(_settle(value, Source(), env, Room()), ())


def _document(part: _Part, files: tuple[Path, ...]) -> Document:
    return Document(part.value, Places(part.spots), files, frozenset(part.referenced))


class _Reading:
    """What one call of `read` uses up and remembers."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.files: dict[Path, None] = {}
        self._env = env
        self._includes = Room(_MAX_INCLUDES)
        self._bytes = Room()
        self._characters = Room()

    def part(self, path: Path, prefix: KeyPath, chain: tuple[Path, ...], asked: ConfigLocation) -> _Part:
        """The file's keys beneath `prefix`; `chain` holds the files that include it, outermost first."""
        name = escape_unprintable(str(path))
        text = _load(path, self._bytes, asked)
        self.files[path] = None
        raw, lines = parse_document(text, path.suffix, name)
        part = _settle(raw, Source(name, lines, prefix), self._env, self._characters)
        for include in part.includes:
            for wanted in include.names:
                if not self._includes.take(1):
                    raise ConfigError(f"more than {_MAX_INCLUDES} includes in all; join some files", include.asked)
                file = _resolve_include(path, wanted, (*chain, path), include.asked)
                child = self.part(file, include.path, (*chain, path), include.asked)
                _merge(include, child, part)
        return part


def _resolve_include(including: Path, wanted: str, chain: tuple[Path, ...], asked: ConfigLocation) -> Path:
    """The file that `wanted` names, if it may be included from the file `including`."""
    if wanted.startswith(("/", "~")) or "\\" in wanted or _SCHEME.match(wanted) or "${" in wanted:
        raise ConfigError("an include names a file in this folder or below it; no other form is read", asked)
    if ".." in wanted.split("/"):
        raise ConfigError("an include cannot leave the folder; remove the '..'", asked)
    file = including.parent / wanted
    try:
        folder, target = including.parent.resolve(), file.resolve()
        trail = [link.resolve() for link in chain]
    except (OSError, RuntimeError):
        raise ConfigError("the symbolic links of this include lead nowhere; name the file itself", asked) from None
    if not target.is_relative_to(folder):
        raise ConfigError("a symbolic link leads this include out of the folder; copy the file instead", asked)
    if target in trail:
        names = " → ".join(escape_unprintable(link.name) for link in (*chain[trail.index(target) :], file))
        raise ConfigError(f"files include one another in a circle: {names}; remove one include", asked)
    if len(chain) > _MAX_CHAIN:
        raise ConfigError(f"includes go more than {_MAX_CHAIN} files deep; include this one further up", asked)
    return file


def _merge(include: Include, child: _Part, part: _Part) -> None:
    """Puts an included file's keys beneath the mapping that includes it; no key may have two values."""
    _merge_mappings(include.into, child.value, include.path, (part.spots, child.spots))
    for path, spot in child.spots.items():
        part.spots.setdefault(path, spot)
    part.referenced |= child.referenced


def _merge_mappings(into: dict[str, Any], added: dict[str, Any], path: KeyPath, spots: tuple[Spots, Spots]) -> None:
    for key, value in added.items():
        here = (*path, key)
        if key not in into:
            into[key] = value
            continue
        present = into[key]
        if isinstance(present, dict) and isinstance(value, dict):
            _merge_mappings(present, value, here, spots)
            continue
        first, second = (place(*of[here], ()) for of in spots)
        named = place(*spots[1][here], here)
        raise ConfigError(f"{named.path} stands both in {first} and {second}; keep one of them", named)
