"""A configuration told in toolcrib's layout, and the way back to where each thing stands in its file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from toolcrib.define.errors import ConfigError, Place

from .places import KeyPath, place
from .read import Document, dotted

__all__ = ["Key", "Notes", "Translated"]

Key = KeyPath


@dataclass(frozen=True, slots=True)
class Translated:
    """A configuration in toolcrib's layout; `moved` maps its key paths to those of the file where they differ.

    `ignored` are keys nothing here reads; `eclipsed` are keys that another spelling of the same thing stands before,
    each with that other one. Both are paths of the file.
    """

    document: Document = field(repr=False)
    value: Mapping[str, Any] = field(repr=False)
    moved: Mapping[Key, Key] = field(default_factory=dict)
    ignored: tuple[Key, ...] = ()
    eclipsed: tuple[tuple[Key, Key], ...] = ()

    def key(self, path: Key) -> Key:
        """Return the key path in the file of the thing at `path`."""
        for end in range(len(path), 0, -1):
            theirs = self.moved.get(path[:end])
            if theirs is not None:
                return (*theirs, *path[end:])
        return path

    def origin(self, path: Key) -> str:
        """Return where the thing at `path` stands in the file, as people write it."""
        return dotted(self.key(path))

    def place(self, path: Key) -> Place:
        """Return file, line and key path of the thing at `path`."""
        return _place(self.document, self.key(path))


def _place(document: Document, path: Key) -> Place:
    """Return where the thing at `path` of the file stands: its own line, or that of the nearest key around it."""
    near = next((path[:end] for end in range(len(path), -1, -1) if path[:end] in document.places), None)
    at = Place() if near is None else document.places[near]
    return place(at.file, at.line, path)


class Notes:
    """Collects what moved and what was left out while a file is told anew."""

    def __init__(self, document: Document) -> None:
        self.moved: dict[Key, Key] = {}
        self.ignored: list[Key] = []
        self.eclipsed: list[tuple[Key, Key]] = []
        self._document = document

    def refusal(self, path: Key, sentence: str) -> ConfigError:
        """Return the error that the thing at `path` of the file is."""
        return ConfigError(sentence, _place(self._document, path))

    def names(self, value: Any, path: Key) -> list[str]:
        """Return a list of names, nothing for none."""
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self.refusal(path, "should be a list of names")
        return value
