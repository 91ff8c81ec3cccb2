"""Reads a configuration file, with everything it includes, into one plain value with the place of every key."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolcrib.config.parse import parse
from toolcrib.config.places import KeyPath, Places, Spot, dotted, place, printable
from toolcrib.config.read_file import Room, load
from toolcrib.config.read_values import Include, Part, Source, settle
from toolcrib.define.errors import ConfigError, Place

__all__ = ["Document", "document", "dotted", "read"]

Spots = Mapping[KeyPath, Spot]

_MAX_CHAIN = 8
_MAX_INCLUDES = 256  # small files that include one another many times stay below the limit in bytes for long
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class Document:
    """A configuration as written: includes merged, references replaced, nothing yet checked against a schema.

    `places` names every key and list item, and the whole as `()`; `referenced` holds the paths of strings
    with a `${NAME}` in them, whose values must never be shown.
    """

    value: Mapping[str, Any]
    places: Mapping[KeyPath, Place]
    files: tuple[Path, ...]
    referenced: frozenset[KeyPath]


def read(path: Path, env: Mapping[str, str]) -> Document:
    """The document of the file at `path`; raises only `ConfigError`, with the place and what to do."""
    reading = _Reading(env)
    part = reading.part(path, (), (), Place(printable(str(path))))
    return _document(part, tuple(reading.files))


def document(value: Mapping[str, Any], env: Mapping[str, str]) -> Document:
    """The document of a mapping handed in by a program: the same checks, no file and no `$include`."""
    return _document(settle(value, Source(), env, Room()), ())


def _document(part: Part, files: tuple[Path, ...]) -> Document:
    return Document(part.value, Places(part.spots), files, frozenset(part.referenced))


class _Reading:
    """What one call of `read` uses up and remembers."""

    def __init__(self, env: Mapping[str, str]) -> None:
        self.files: dict[Path, None] = {}
        self._env = env
        self._includes = Room(_MAX_INCLUDES)
        self._bytes = Room()
        self._characters = Room()

    def part(self, path: Path, prefix: KeyPath, chain: tuple[Path, ...], asked: Place) -> Part:
        """The file's keys beneath `prefix`; `chain` holds the files that include it, outermost first."""
        name = printable(str(path))
        text = load(path, self._bytes, asked)
        self.files[path] = None
        raw, lines = parse(text, path.suffix, name)
        part = settle(raw, Source(name, lines, prefix), self._env, self._characters)
        for include in part.includes:
            for wanted in include.names:
                if not self._includes.take(1):
                    raise ConfigError(f"more than {_MAX_INCLUDES} includes in all; join some files", include.asked)
                file = _included(path, wanted, (*chain, path), include.asked)
                child = self.part(file, include.path, (*chain, path), include.asked)
                _merge(include, child, part)
        return part


def _included(including: Path, wanted: str, chain: tuple[Path, ...], asked: Place) -> Path:
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
        names = " → ".join(printable(link.name) for link in (*chain[trail.index(target) :], file))
        raise ConfigError(f"files include one another in a circle: {names}; remove one include", asked)
    if len(chain) > _MAX_CHAIN:
        raise ConfigError(f"includes go more than {_MAX_CHAIN} files deep; include this one further up", asked)
    return file


def _merge(include: Include, child: Part, part: Part) -> None:
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
