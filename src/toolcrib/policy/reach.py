"""What a call reaches, by the words of rules: paths, addresses, recipients and commands, whatever a tool calls them.

What a list that takes away looks at is read widely: any text of a tool that says nothing, and any word of a command,
may be a place. A list that gives has none of those.
"""

import posixpath
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic_core import to_jsonable_python

from toolcrib.define.egress import decode_fully
from toolcrib.define.errors import ToolError
from toolcrib.define.tool import Tool

from .conditions import Place, list_addresses

Resolver = Callable[[str], Awaitable[str]]

ANY = "any "  # before the word of a rule, where more counts than a tool declares
_PLACES: Mapping[str, Place] = {"path": "path", "url": "url", "to": "", "command": ""}
_BREAKS = re.compile(r"[\s'\"`=<>|&;,(){}\[\]$]+")  # between what may be a place in a command
_LINK = re.compile(r"[a-z][a-z0-9+.-]*://[^\s'\"<>]+", re.IGNORECASE)
_PATH_CHARS, _MAX_RESOLVED = 4_096, 500


class Looked(NamedTuple):
    """What a condition is held against: one argument, or all that a call reaches of a `kind`; `key` tells which."""

    key: str
    own: str
    place: Place
    kind: str = ""

    @property
    def is_wide(self) -> bool:
        return self.key.startswith(ANY)

    def list_names(self, tool: Tool) -> Sequence[str]:
        """Return the parameters that it is read from."""
        return (*names_of(tool, self.kind), *tool.commands) if self.kind else (self.own,)


def names_of(tool: Tool, kind: str) -> Sequence[str]:
    """Return the parameters that say what a call reaches of a kind."""
    return {"path": tool.paths, "url": tool.urls, "to": tool.recipients, "command": tool.commands}[kind]


def place_of(tool: Tool, name: str, *, takes: bool) -> Looked:
    """Return what a rule means by a name: what a call reaches, or an argument of its own or another name."""
    own = name if name in (*tool.paths, *tool.urls) else tool.aliases.get(name, name)
    kind = "to" if takes and own in tool.recipients else name
    if kind in _PLACES:
        runs, declared = bool(tool.commands) and kind in ("path", "url"), names_of(tool, kind)
        if takes and (runs or (kind == "to" and declared) or (tool.says_nothing and kind != "command")):
            return Looked(f"{ANY}{kind}", own, "path" if kind == "path" else "", kind)
        if declared and not runs:
            return Looked(kind, own, _PLACES[kind], kind)
    return Looked(name, own, "path" if own in tool.paths else "url" if own in tool.urls else "")


def read_reached(tool: Tool, looked: Looked, args: Mapping[str, Any], here: Sequence[str]) -> list[str]:
    """Return what a call reaches of a kind; `here` are the names of the chat that it comes from, its own one first."""
    if tool.says_nothing:
        known = tool.parameters.get("properties", {}).items()
        left = [each.get("default") for name, each in known if args.get(name) is None and isinstance(each, Mapping)]
        said = [to_jsonable_python(value, fallback=str) for value in (*args.values(), *left)]
        found = [text for value in said for text in _list_texts(value)]
    else:
        chats = here if looked.is_wide else here[:1]
        declared = read_declared(tool, looked.kind, args)
        found = [each for text in declared for each in ((text,) if text else chats)]
    if looked.is_wide and looked.kind != "to" and tool.commands:
        words = [word for line in read_declared(tool, "command", args) for word in _BREAKS.split(line) if word]
        found += dict.fromkeys(each for word in words for each in (word, word.partition(":")[0]))
    if looked.is_wide and looked.kind == "url":
        words = [each for text in found for each in (text, *_LINK.findall(text))]
        found = list(dict.fromkeys([*words, *(url for each in words for url in list_addresses(each))]))
    return found


def read_declared(tool: Tool, kind: str, args: Mapping[str, Any]) -> list[str]:
    """Return what the parameters say that name what a call reaches of a kind; "" is the chat that it comes from."""
    places = tool.read_places(args) if tool.read_places else {}
    if kind in places:
        return list(places[kind])
    known, found = tool.parameters.get("properties", {}), list[str]()
    for at, name in enumerate(names_of(tool, kind)):
        value = args.get(name)
        if value is None:
            value = known.get(name, {}).get("default") or ("" if kind == "to" and not at else None)
        found += _list_texts(to_jsonable_python(value, fallback=str))
    return found


def _list_texts(value: Any) -> Iterator[str]:
    """Yield every text in a value, names of fields too."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield str(name)
            yield from _list_texts(each)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _list_texts(each)


async def resolve_wide(tool: Tool, values: Sequence[str], args: Mapping[str, Any], resolve: Resolver) -> list[str]:
    """Return what texts that may be paths lead to, and as they are where that is nowhere in the workspace."""
    base, found = str(args.get("workdir") or "") if tool.commands else "", dict[str, None]()
    for at, value in enumerate(values):
        text = value.strip().replace("\\", "/")
        text = f"/{decode_fully(text)[5:].lstrip('/')}" if text[:5].lower() == "file:" else text
        if not text or len(text) > _PATH_CHARS or not text.isprintable():
            continue
        if at < _MAX_RESOLVED:
            with suppress(ToolError):
                found[await resolve(text if text == base else posixpath.join(base, text))] = None
                if not tool.says_nothing:
                    continue
        parts = text.split("/")
        is_elsewhere = text[0] == "~" or ".." in parts or (tool.says_nothing and not parts[0])
        found |= dict.fromkeys("/".join(parts[start:]) for start in range(len(parts) if is_elsewhere else 1))
    return list(found)
