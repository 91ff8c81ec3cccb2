"""What a call reaches, by the words of rules: paths, addresses, recipients and commands, whatever a tool calls them.

What a list that takes away looks at is read widely: any text of a tool that says nothing, and any word of a command,
may be a place. A list that gives has none of those.
"""

import fnmatch
import posixpath
import re
import shlex
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from pydantic_core import from_json, to_jsonable_python

from toolcrib.define.egress import decode_fully
from toolcrib.define.errors import ToolError
from toolcrib.define.files import Listing
from toolcrib.define.tool import Tool
from toolcrib.lazy import regex

from .command.parse import spell_out
from .conditions import Place, list_addresses

Resolver = Callable[[str], Awaitable[str]]
Lister = Callable[[str], Awaitable[Listing]]

ANY = "any "  # before the word of a rule, where more counts than a tool declares
_PLACES: Mapping[str, Place] = {"path": "path", "url": "url", "to": "", "command": ""}
_BREAKS = regex(r"/dev/(?:tcp|udp)/|[\s'\"`=<>|&;,(){}$@]+")  # between what may be a place in a command
_LINK = regex(r"[a-z][a-z0-9+.-]*://[^\s'\"<>]*[^\s'\"<>).,;!?]", re.IGNORECASE)
_LINKED_HOST = regex(r"(?:[a-z][a-z0-9+.-]*:)?//(?:[^\s/@'\"<>]*@)?(?:\[[^\s\]]*\]|[\w.%-]+)", re.IGNORECASE)
_RUN_ARGS = frozenset({"cmd", "command", "commands", "script"})  # what a tool that says nothing may call a command
_CHAT_PARTS = regex(r"(?<=.)!|/(?=@)")  # of `nick!account` and `ROOM/@user:server`
_NUMBER = regex(r"([+-]?)0*([0-9]+)")
_GLOB_SIGNS = frozenset("*?[")
_PATH_CHARS, _MAX_RESOLVED, _MAX_GLOBS = 4_096, 1_500, 20


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
        strange = [name for name in args if not name.isidentifier()]
        values = [to_jsonable_python(value, fallback=str) for value in (*args.values(), *left, strange)]
        found = [text for value in values for text in _list_texts(value, numbers=looked.kind == "to")]
        found += [text for each in found for text in _list_texts(_read_json(each), numbers=looked.kind == "to")]
        found += [plain for each in found if (plain := decode_fully(each)) != each]
        if looked.kind == "path":  # `--file=x`, `@x`, `x,y`, but no sentence and no address
            found += [part for each in found if not re.search(r"\s|://", each) for part in _BREAKS.split(each)]
    else:
        chats = here if looked.is_wide else here[:1]
        declared = read_declared(tool, looked.kind, args)
        found = [each for text in declared for each in ((text,) if text else chats)]
    if looked.is_wide and looked.kind == "to":
        found = list(dict.fromkeys([*found, *(name for each in found for name in _list_other_names(each))]))
    elif looked.is_wide and (tool.commands or not _RUN_ARGS.isdisjoint(args)):
        named = [args.get(name) for name in ("env", "cwd", *(_RUN_ARGS if tool.says_nothing else ()))]
        given = _list_texts(to_jsonable_python(named, fallback=str))
        lines = [each for line in (*read_declared(tool, "command", args), *given) for each in spell_out(line)]
        words = [word for line in lines for word in _BREAKS.split(line) if word]
        parts = ((*word.split(":"), word[2:] if word[0] == "-" else "") for word in words)
        found += dict.fromkeys(filter(None, (*words, *(each for part in parts for each in part))))
    if looked.is_wide and looked.kind == "url":
        words = [each for text in found for each in (text, *_LINK.findall(text), *_LINKED_HOST.findall(text))]
        found = list(dict.fromkeys([*words, *(url for each in words for url in list_addresses(each))]))
    return found


def read_declared(tool: Tool, kind: str, args: Mapping[str, Any]) -> list[str]:
    """Return what the parameters say that name what a call reaches of a kind; "" is the chat that it comes from."""
    places = tool.read_places(args) if tool.read_places else {}
    if kind in places:
        return list(places[kind])
    known, found = tool.parameters.get("properties", {}), list[str]()
    for index, name in enumerate(names_of(tool, kind)):
        value = args.get(name)
        if value is None:
            value = known.get(name, {}).get("default") or ("" if kind == "to" and not index else None)
        if kind == "command" and isinstance(value, (list, tuple)):  # the words of one
            found.append(shlex.join(map(str, value)))
        else:
            found += _list_texts(to_jsonable_python(value, fallback=str))
    return found


def _list_other_names(chat: str) -> Iterator[str]:
    """Yield how else a chat or a person may be called: by a part of the id, or as another spelling of a number."""
    parts, number = _CHAT_PARTS.split(chat), _NUMBER.fullmatch(chat)
    yield from filter(None, parts) if len(parts) > 1 else ()
    if number:
        yield from (f"-{number[2]}",) if number[1] == "-" else (number[2], f"+{number[2]}")


def reaches_as_much(tool: Tool, judged: Mapping[str, Any], args: Mapping[str, Any]) -> bool:
    """Tell whether a call that was judged reaches all that one with other arguments would."""
    if tool.says_nothing:
        every = Looked(f"{ANY}to", "", "", "to")
        return {*read_reached(tool, every, args, ())} <= {*read_reached(tool, every, judged, ())}
    return all({*read_declared(tool, kind, args)} <= {*read_declared(tool, kind, judged)} for kind in _PLACES)


def _list_texts(value: Any, *, numbers: bool = False) -> Iterator[str]:
    """Yield every text in a value, names of fields too; with `numbers` these as text."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for name, each in value.items():
            yield str(name)
            yield from _list_texts(each, numbers=numbers)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _list_texts(each, numbers=numbers)
    elif numbers and isinstance(value, int) and not isinstance(value, bool):
        yield str(value)


def _read_json(text: str) -> Any:
    """Return what a text holds that is an object or a list written as JSON."""
    with suppress(ValueError):
        return from_json(text) if text.lstrip()[:1] in ("{", "[") else None
    return None


async def _expand(glob: str, look: Lister) -> list[str]:
    """Return what a glob of a shell stands for in the workspace, by whole names from its root."""
    found = ["."]
    for part in posixpath.normpath(glob).split("/"):
        ahead, found = found[:_MAX_GLOBS], []
        for folder in ahead:
            with suppress(ToolError):
                is_plain = _GLOB_SIGNS.isdisjoint(part)
                names = [part] if is_plain else [posixpath.basename(each.path) for each in (await look(folder)).entries]
                found += [f"{folder}/{name}" for name in names if is_plain or fnmatch.fnmatchcase(name, part)]
    return found[:_MAX_RESOLVED]


async def resolve_wide(
    tool: Tool, values: Sequence[str], args: Mapping[str, Any], resolve: Resolver, look: Lister
) -> list[str]:
    """Return what texts that may be paths lead to, and as they are where that is nowhere in the workspace."""
    base, found = str(args.get("workdir") or "") if tool.commands else "", dict[str, None]()
    globs = [posixpath.join(base, each) for each in values if tool.commands and not _GLOB_SIGNS.isdisjoint(each)]
    for name in [name for each in globs[:_MAX_GLOBS] for name in await _expand(each, look)]:
        with suppress(ToolError):
            found[await resolve(name)] = None
    for index, value in enumerate(values):
        text = value.strip().replace("\\", "/")
        text = f"/{decode_fully(text)[5:].lstrip('/')}" if text[:5].lower() == "file:" else text
        if not text or len(text) > _PATH_CHARS or not text.isprintable():
            continue
        parts = text.split("/")
        is_home = text[0] == "~" or "~" in parts
        if index < _MAX_RESOLVED:
            with suppress(ToolError):
                found[await resolve(text if text == base else posixpath.join(base, text))] = None
                if not (tool.says_nothing or is_home):
                    continue
        is_elsewhere = is_home or ".." in parts or (tool.says_nothing and not parts[0])
        found |= dict.fromkeys("/".join(parts[start:]) for start in range(len(parts) if is_elsewhere else 1))
    return list(found)
