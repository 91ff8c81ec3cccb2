"""Agents in Markdown files: a YAML header says what an agent takes and may do, the body is its prompt.

    ---
    name: reviewer
    description: Reads a change and says what is wrong with it.
    tools: [read, grep]
    inputs:
      folder: { type: string, description: what to look at, required: true }
    ---
    You review code. Look at ${folder} ...

A file is read once: what was hashed is what is parsed. Every complaint names its line.
"""

import errno
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from toolcrib.backends.stores.accepted import hash_file, read_plain
from toolcrib.define import agent as agents
from toolcrib.define.display import escape_unprintable
from toolcrib.define.errors import ConfigError, DeclarationError, ToolError
from toolcrib.define.names import canonical, nearest
from toolcrib.define.schema.check import check_of_schema
from toolcrib.lazy import dataclass, field

HeaderPath = tuple[str | int, ...]

_MAX_COMPLAINTS, _MAX_COMPLAINT_CHARS = 20, 400  # complaints about one file, and characters of each

_NO_REMOTE = "agents on other machines are not run; declare one that runs here"
# Keys that such files have elsewhere, and why they mean nothing here.
_ELSEWHERE = {
    "mcp_servers": "servers stand under mcpServers in the configuration; name their tools in `tools`",
    "temperature": "how a model is asked is its own business; name the model in `model`",
    "agent_card_url": f"a remote agent: {_NO_REMOTE}",
    "agent_card_json": f"a remote agent: {_NO_REMOTE}",
    "auth": f"of a remote agent: {_NO_REMOTE}",
}


@dataclass(slots=True)
class Header:
    """What is wrong with one file, collected, and the lines of its keys."""

    file: str
    lines: dict[HeaderPath, int] = field(default_factory=dict)
    complaints: list[str] = field(default_factory=list)
    what: str = "an agent"  # that the file declares

    def say(self, path: HeaderPath, sentence: str, *, line: int | None = None) -> None:
        """Complain about a key, at its line or that of the nearest key around it; line 1 when there is none."""
        while line is None and path:
            line, path = self.lines.get(path), path[:-1]
        if len(self.complaints) < _MAX_COMPLAINTS:
            self.complaints.append(
                f"{escape_unprintable(self.file)}:{line or 1}: {escape_unprintable(sentence)[:_MAX_COMPLAINT_CHARS]}"
            )


def read_header(value: Any, header: Header, keys: "Mapping[str, _Read]") -> dict[str, Any]:
    """Return what the header says by these keys; complaints go to `header`."""
    if not isinstance(value, Mapping):
        one = f"one file declares one {header.what.split()[1]}, as a mapping with its name"
        header.say((), f"the header is {_kind_of(value)}; {one}")
        return {}
    values: dict[str, Any] = {}
    for key, each in value.items():
        if key in _ELSEWHERE:
            header.say((key,), f"{key}: {_ELSEWHERE[key]}")
        elif key not in keys:
            close = nearest(key, keys)
            hint = f"write {close[0]!r}" if close else f"there are {', '.join(keys)}"
            header.say((key,), f"nothing is called {key[:40]!r} here; {hint}")
        else:
            keys[key](key, each, header, values)
    for needed in ("name", "description"):
        if needed not in value:
            header.say((), f"{needed} is missing; write it")
    return values


_Read = Callable[[str, Any, Header, dict[str, Any]], None]


def _kind(key: str, value: Any, header: Header, values: dict[str, Any]) -> None:
    if value == "remote":
        header.say((key,), f"kind: remote: {_NO_REMOTE}")
    elif value != "local":
        header.say((key,), f"kind: should be local, not {value!r}")


def _name(key: str, value: Any, header: Header, values: dict[str, Any]) -> None:
    if not isinstance(value, str) or canonical(value) != value:
        header.say((key,), f"name: {value!r} is none; a name is 1 to 64 of a-z, 0-9, _ and -")
    else:
        values["name"] = value


def _text(own: str) -> _Read:
    def read(key: str, value: Any, header: Header, values: dict[str, Any]) -> None:
        if not isinstance(value, str):
            header.say((key,), f"{key}: should be text, not {_kind_of(value)}")
        elif not value.strip():
            header.say((key,), f"{key}: is blank; write it, or leave the key out")
        else:
            values[own] = value

    return read


def _whole(own: str, times: int = 1) -> _Read:
    def read(key: str, value: Any, header: Header, values: dict[str, Any]) -> None:
        if type(value) is not int or value < 1:
            header.say((key,), f"{key}: should be a whole number above 0, not {value!r}")
        else:
            values[own] = value * times

    return read


def _tools(key: str, value: Any, header: Header, values: dict[str, Any]) -> None:
    if not isinstance(value, list):
        header.say((key,), f"tools: should be a list of names, groups and globs, not {_kind_of(value)}")
        return
    for index, entry in enumerate(value):
        if not isinstance(entry, str) or not entry.strip():
            header.say((key, index), f"tools: {entry!r} names no tool; write a name, a group or a glob")
    values["tools"] = tuple(value)


def _table(check: Callable[[Mapping[str, Any], str], Any]) -> _Read:
    def read(key: str, value: Any, header: Header, values: dict[str, Any]) -> None:
        if _is_declared(key, value, header, check):
            values[key] = value

    return read


def _is_declared(key: str, value: Any, header: Header, check: Callable[[Mapping[str, Any], str], Any]) -> bool:
    """Tell whether a table or a schema can be used; the rows of a table are looked at one by one."""
    if not isinstance(value, Mapping):
        header.say((key,), f"{key}: should be a mapping from names to types, or JSON Schema, not {_kind_of(value)}")
        return False
    if agents.is_schema(value):
        return _is_good((key,), header, partial(check, value, key))
    rows = []
    for name, row in value.items():
        path = (key, name, "type") if isinstance(row, Mapping) and "type" in row else (key, name)
        rows.append(_is_good(path, header, partial(agents.entry_schema, name, row, key)))
    return all(rows)


def _is_good(path: HeaderPath, header: Header, work: Callable[[], Any]) -> bool:
    try:
        work()
    except DeclarationError as error:
        header.say(path, str(error))
        return False
    return True


def _kind_of(value: Any) -> str:
    if value is None:
        return "nothing"
    kinds = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list"}
    return kinds.get(type(value), "a mapping")


_KEYS: Mapping[str, _Read] = {
    "kind": _kind,
    "name": _name,
    "description": _text("description"),
    "display_name": _text("label"),
    "tools": _tools,
    "model": _text("model"),
    "max_turns": _whole("max_turns"),
    "timeout_mins": _whole("timeout", 60),
    "max_tokens": _whole("max_tokens"),
    "inputs": _table(agents.schema_of),
    "query": _text("query"),
    "output": _table(agents.output_schema),
    "output_name": _text("output_name"),
}


def _read_allowed_tools(key: str, value: Any, header: Header, values: dict[str, Any]) -> None:
    _tools(key, value.replace(",", " ").split() if isinstance(value, str) else value, header, values)


# What may stand in a SKILL.md; an unknown key may be meant to limit something, so it is not ignored.
_FOR_PEOPLE = ("license", "compatibility", "metadata", "version", "author", "tags", "homepage", "argument-hint")
_SKILL_KEYS: Mapping[str, _Read] = {
    "name": _name,
    "description": _text("description"),
    "allowed-tools": _read_allowed_tools,
    **dict.fromkeys(_FOR_PEOPLE, lambda *_: None),
}


Parse = Callable[[str, str], tuple[Any, Mapping[HeaderPath, int]]]

MAX_FILE_BYTES = 64 * 1024  # bytes of a file
_MAX_FILES = 256  # files in a folder
_MARK = "---"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFile:
    """One file: the agent it declares, or None and what is wrong, each complaint with its line.

    `digest` is the SHA-256 of its bytes, empty where they could not be read.
    """

    path: Path
    digest: str = ""
    agent: agents.Agent | None = None
    lines: Mapping[HeaderPath, int] = field(default_factory=dict)
    complaints: tuple[str, ...] = ()


def agent_files(folder: Path, parse: Parse) -> tuple[AgentFile, ...]:
    """Read every agent in a folder, in the order of names; a folder that is not there holds none.

    Files that start with `_` or do not end in `.md` are left alone.
    """
    try:
        with os.scandir(folder) as entries:
            names = sorted(each.name for each in entries if each.name.endswith(".md") and not each.name.startswith("_"))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    except OSError as error:
        return (_unreadable(folder, f"it cannot be read ({error.strerror})"),)
    found = tuple(read_agent_file(folder / name, parse) for name in names[:_MAX_FILES])
    if len(names) <= _MAX_FILES:
        return found
    left = f"{len(names)} files are more than the {_MAX_FILES} that are read; the last ones were left out"
    return (*found, _unreadable(folder, left))


def read_agent_file(path: Path, parse: Parse) -> AgentFile:
    """Read one file; `parse` turns the text of a header into its value and the line of every key."""
    try:
        raw = _bytes(path)
    except OSError as error:
        return _unreadable(path, f"it cannot be read ({error.strerror})")
    except DeclarationError as error:
        return _unreadable(path, str(error))
    digest, header = hash_file(raw), Header(str(path))
    text = _decode(raw, header)
    agent = None if text is None else read_agent_text(text, header, parse)
    return AgentFile(path=path, digest=digest, agent=agent, lines=header.lines, complaints=tuple(header.complaints))


def _decode(raw: bytes, header: Header) -> str | None:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        header.say((), "not UTF-8; save it as UTF-8", line=raw.count(b"\n", 0, error.start) + 1)
        return None


def read_skill_file(raw: bytes, header: Header, parse: Parse) -> dict[str, Any]:
    """Return what a SKILL.md says: name, description, text, and tools where it narrows them; complaints as above."""
    text = _decode(raw, header)
    front = None if text is None else _read_front(text, header, parse)
    if front is None:
        return {}
    if not front[1]:
        header.say((), "the text is missing; write it under the header", line=front[2])
    return {**read_header(front[0], header, _SKILL_KEYS), "text": front[1]}


def _unreadable(path: Path, sentence: str) -> AgentFile:
    return AgentFile(path=path, complaints=(f"{escape_unprintable(str(path))}: {sentence}",))


def _bytes(path: Path) -> bytes:
    """Return what a regular file holds. A link is not followed, and a pipe is not waited for."""
    try:
        raw = read_plain(path, MAX_FILE_BYTES)
    except ToolError:
        raise DeclarationError("an agent is a regular file; this is none") from None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise DeclarationError("links are not followed; put the file itself there") from None
        raise
    if len(raw) > MAX_FILE_BYTES:
        raise DeclarationError(f"larger than {MAX_FILE_BYTES // 1024} KiB; an agent is a page of text")
    return raw


def read_agent_text(text: str, header: Header, parse: Parse) -> agents.Agent | None:
    """Return the agent that the text of a file declares, or None after saying everything that is wrong to `header`."""
    front = _read_front(text, header, parse)
    if front is None:
        return None
    values = read_header(front[0], header, _KEYS)
    if not front[1]:
        header.say((), "the prompt is missing; write it under the header", line=front[2])
    if header.complaints:
        return None
    return _make_agent({**values, "prompt": front[1]}, header)


def _read_front(text: str, header: Header, parse: Parse) -> tuple[Any, str, int] | None:
    """Return the value of the header, what comes after it, and the line of that; None after saying what is wrong."""
    cut = _split_header(text.replace("\r\n", "\n").split("\n"))
    if cut is None:
        after = "prompt" if header.what == "an agent" else "text"
        what = f"a file of {header.what} starts with {_MARK}, its keys and another {_MARK}; the {after} comes after"
        header.say((), what)
        return None
    try:
        # an empty line stands for the mark, so that the lines of the header are those of the file
        value, lines = parse(f"\n{cut[0]}\n", header.file)
    except ConfigError as error:
        key = f"{error.place.path}: " if error.place.path else ""
        header.say((), f"{key}{error.message}", line=error.place.line)
        return None
    header.lines.update(lines)
    return value, *cut[1:]


def _make_agent(values: Mapping[str, Any], header: Header) -> agents.Agent | None:
    key = "name"
    try:
        agent = agents.Agent(**values)
        # a file is judged when it is read: a pattern that is none would else be found by the first call
        for key, shape in (("inputs", agents.inputs_shape(agent)), ("output", agents.completion_shape(agent))):  # noqa: B007  used below
            check_of_schema(shape.schema)
    except DeclarationError as error:
        header.say((key,), str(error))
        return None
    return agent


def _split_header(lines: list[str]) -> tuple[str, str, int] | None:
    """Return the text of the header, the body without blanks around it, and the line after the header."""
    if lines[0].rstrip() != _MARK:
        return None
    end = next((index for index, line in enumerate(lines) if index and line.rstrip() == _MARK), None)
    if end is None:
        return None
    return "\n".join(lines[1:end]), "\n".join(lines[end + 1 :]).strip(), end + 2
