"""The header of an agent's file, key by key: what is not known is refused, and every complaint has its line."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from toolcrib.define.agent import output_schema
from toolcrib.define.agent_inputs import entry_schema, is_schema, schema_of
from toolcrib.define.errors import DeclarationError
from toolcrib.define.names import canonical, nearest

__all__ = ["Header", "KeyPath", "printable", "read_header"]

KeyPath = tuple[str | int, ...]

_MOST, _LONGEST = 20, 400  # complaints about one file, and characters of each

_NO_REMOTE = "agents on other machines are not run; declare one that runs here"
# Keys that such files have elsewhere, and why they mean nothing here.
_ELSEWHERE = {
    "mcp_servers": "servers stand under mcpServers in the configuration; name their tools in `tools`",
    "temperature": "how a model is asked is its own business; name the model in `model`",
    "agent_card_url": f"a remote agent: {_NO_REMOTE}",
    "agent_card_json": f"a remote agent: {_NO_REMOTE}",
    "auth": f"of a remote agent: {_NO_REMOTE}",
}


class Header:
    """What is wrong with one file, collected, and the lines of its keys."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.lines: dict[KeyPath, int] = {}
        self._complaints: list[str] = []

    @property
    def complaints(self) -> tuple[str, ...]:
        return tuple(self._complaints)

    def say(self, path: KeyPath, sentence: str, *, line: int | None = None) -> None:
        """Complain about a key, at its line or that of the nearest key around it; line 1 when there is none."""
        while line is None and path:
            line, path = self.lines.get(path), path[:-1]
        if len(self._complaints) < _MOST:
            self._complaints.append(f"{printable(self.file)}:{line or 1}: {printable(sentence)[:_LONGEST]}")


def printable(text: str) -> str:
    """Return `text` with everything that could disturb a terminal written as an escape."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def read_header(value: Any, header: Header) -> dict[str, Any]:
    """Return what the header says as arguments of Agent; every complaint is said to `header`."""
    if not isinstance(value, Mapping):
        header.say((), f"the header is {_kind_of(value)}; one file declares one agent, as a mapping with its name")
        return {}
    said: dict[str, Any] = {}
    for key, each in value.items():
        if key in _ELSEWHERE:
            header.say((key,), f"{key}: {_ELSEWHERE[key]}")
        elif key not in _KEYS:
            close = nearest(key, _KEYS)
            hint = f"write {close[0]!r}" if close else f"there are {', '.join(_KEYS)}"
            header.say((key,), f"nothing is called {key[:40]!r} here; {hint}")
        else:
            _KEYS[key](key, each, header, said)
    for needed in ("name", "description"):
        if needed not in value:
            header.say((), f"{needed} is missing; write it")
    return said


_Read = Callable[[str, Any, Header, dict[str, Any]], None]


def _kind(key: str, value: Any, header: Header, said: dict[str, Any]) -> None:
    if value == "remote":
        header.say((key,), f"kind: remote: {_NO_REMOTE}")
    elif value != "local":
        header.say((key,), f"kind: should be local, not {value!r}")


def _name(key: str, value: Any, header: Header, said: dict[str, Any]) -> None:
    if not isinstance(value, str) or canonical(value) != value:
        header.say((key,), f"name: {value!r} is none; a name is 1 to 64 of a-z, 0-9, _ and -")
    else:
        said["name"] = value


def _text(own: str) -> _Read:
    def read(key: str, value: Any, header: Header, said: dict[str, Any]) -> None:
        if not isinstance(value, str):
            header.say((key,), f"{key}: should be text, not {_kind_of(value)}")
        elif not value.strip():
            header.say((key,), f"{key}: is blank; write it, or leave the key out")
        else:
            said[own] = value

    return read


def _whole(own: str, times: int = 1) -> _Read:
    def read(key: str, value: Any, header: Header, said: dict[str, Any]) -> None:
        if type(value) is not int or value < 1:
            header.say((key,), f"{key}: should be a whole number above 0, not {value!r}")
        else:
            said[own] = value * times

    return read


def _tools(key: str, value: Any, header: Header, said: dict[str, Any]) -> None:
    if not isinstance(value, list):
        header.say((key,), f"tools: should be a list of names, groups and globs, not {_kind_of(value)}")
        return
    for at, entry in enumerate(value):
        if not isinstance(entry, str) or not entry.strip():
            header.say((key, at), f"tools: {entry!r} names no tool; write a name, a group or a glob")
    said["tools"] = tuple(value)


def _inputs(key: str, value: Any, header: Header, said: dict[str, Any]) -> None:
    if _is_declared(key, value, header, _checked_inputs):
        said["inputs"] = value


def _output(key: str, value: Any, header: Header, said: dict[str, Any]) -> None:
    if _is_declared(key, value, header, _checked_output):
        said["output"] = value


def _is_declared(key: str, value: Any, header: Header, check: Callable[[Mapping[str, Any]], Any]) -> bool:
    """Tell whether a table or a schema can be used; the rows of a table are looked at one by one."""
    if not isinstance(value, Mapping):
        header.say((key,), f"{key}: should be a mapping from names to types, or JSON Schema, not {_kind_of(value)}")
        return False
    if is_schema(value):
        return _is_good((key,), header, partial(check, value))
    rows = [
        _is_good(_row(key, name, row), header, partial(entry_schema, name, row, key)) for name, row in value.items()
    ]
    return all(rows)


def _row(key: str, name: str, row: Any) -> KeyPath:
    return (key, name, "type") if isinstance(row, Mapping) and "type" in row else (key, name)


def _is_good(path: KeyPath, header: Header, work: Callable[[], Any]) -> bool:
    try:
        work()
    except DeclarationError as error:
        header.say(path, str(error))
        return False
    return True


def _checked_inputs(value: Mapping[str, Any]) -> None:
    schema_of(value, "inputs")


def _checked_output(value: Mapping[str, Any]) -> None:
    output_schema(value, "output")


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
    "inputs": _inputs,
    "query": _text("query"),
    "output": _output,
    "output_name": _text("output_name"),
}
