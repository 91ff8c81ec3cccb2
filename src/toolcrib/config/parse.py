"""Turns the text of one configuration file into a value and the line of every key, by the file's suffix."""

import tomllib
from sys import intern
from typing import Any

import pyjson5
import yaml

from toolcrib.define.errors import ConfigError
from toolcrib.lazy import dataclass, regex

from .positions import MAX_DEPTH, KeyPath, Scan, deep, line_finder, place, scan_json5, scan_toml, twice

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the same events, some fifteen times as fast
_TAG = "tag:yaml.org,2002:"
_TYPES = {"str": str, "int": int, "float": float, "bool": bool, "null": type(None), "map": dict, "seq": list}
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = regex(r"[-+]?[0-9]+")
_RADIX = regex(r"0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = regex(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = regex(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_TOO_LONG = 1 << 64  # stands for an integer of so many digits that Python will not read it
_MAX_RADIX_CHARS = 1_000  # characters of one that Python reads at any length, and then will not write
_UNPRINTABLE = regex("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def parse_yaml(text: str, file: str) -> tuple[Any, dict[KeyPath, int]]:
    """The value of a YAML text and the line of every key and list item; an empty text is an empty mapping."""
    builder = _Builder(file)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else None
        raise ConfigError(_explain(error, text, line), place(file, line, builder.path)) from None
    except yaml.YAMLError:  # the parser gives an offset in bytes or characters, depending on how it was built
        char = _UNPRINTABLE.search(text)
        line = line_finder(text)(char.start()) if char else None
        raise ConfigError("not valid YAML: a control character stands here; remove it", place(file, line, ())) from None
    return builder.value, builder.lines


def _explain(error: yaml.MarkedYAMLError, text: str, line: int | None) -> str:
    """One sentence about a syntax error; the two commonest have their own."""
    here = "".join(text.split("\n")[line - 1 : line]) if line else ""
    if "alias" in f"{error.context} {error.problem}":
        return "not valid YAML: a bare * starts an alias; put it in quotes"
    if "\t" in here[: len(here) - len(here.lstrip())]:
        return "not valid YAML: a tab cannot indent; use spaces"
    since = error.context_mark
    context = f" {error.context} that starts on line {since.line + 1}" if error.context and since else ""
    return f"not valid YAML: {error.problem}{context}"


@dataclass(slots=True)
class _Open:
    """A mapping or sequence that has not ended; `key` waits for its value."""

    path: KeyPath
    box: dict[str, Any] | list[Any]
    key: str | None = None


class _Builder:
    """Puts events together; depth is bounded here, so that the parser never goes deeper than the limit."""

    def __init__(self, file: str) -> None:
        self.value: Any = {}
        self.lines: dict[KeyPath, int] = {}
        self._file = file
        self._open: list[_Open] = []
        self._documents = 0

    @property
    def path(self) -> KeyPath:
        """The key path of what comes next."""
        if not self._open:
            return ()
        top = self._open[-1]
        if isinstance(top.box, list):
            return (*top.path, len(top.box))
        return top.path if top.key is None else (*top.path, top.key)

    def take(self, event: yaml.Event) -> None:
        match event:
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise self._error(event, "a second document starts here; a configuration is one document")
            case yaml.AliasEvent():
                raise self._error(event, "aliases are not read; write the value out, or put * in quotes")
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.MappingStartEvent() | yaml.SequenceStartEvent():
                self._start(event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._open.pop()
            case _:  # the start and end of the stream and the end of the document say nothing
                pass

    def _scalar(self, event: yaml.ScalarEvent) -> None:
        if self._wants_key():
            self._key(event)
            return
        if not self._open and event.value == "" and event.implicit[0]:
            return  # nothing but comments
        is_text = event.tag in ("!", f"{_TAG}str") or (event.tag is None and not event.implicit[0])
        value = event.value if is_text else _resolve(event.value)
        self._check_tag(event, value)
        self._put(event, value)

    def _key(self, event: yaml.ScalarEvent) -> None:
        is_plain = event.tag is None and event.implicit[0]
        value = _resolve(event.value) if is_plain else event.value
        if event.tag not in (None, "!", f"{_TAG}str"):
            raise self._error(event, "a tag before a key is not read; remove it")
        if value == "<<" and is_plain:
            raise self._error(event, "merge keys are not read; write the keys out")
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise self._error(event, f"the key {event.value[:40]!r} is not text; put it in quotes")
        top = self._open[-1]
        # as written: a group's id is -100123, and a sender's +380 must keep its sign
        name = intern(event.value)
        path, line = (*top.path, name), _line(event)
        if path in self.lines:
            raise twice(path, line, self.lines[path]).error(self._file)
        self.lines[path] = line
        top.key = name

    def _start(self, event: yaml.MappingStartEvent | yaml.SequenceStartEvent) -> None:
        if self._wants_key():
            raise self._error(event, "a list or a mapping cannot be a key; write a text")
        path = self.path
        if len(self._open) >= MAX_DEPTH:
            raise deep(path, _line(event)).error(self._file)
        box: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        self._check_tag(event, box)
        self._put(event, box)
        self._open.append(_Open(path, box))

    def _put(self, event: yaml.NodeEvent, value: Any) -> None:
        if not self._open:
            self.value = value
            return
        top = self._open[-1]
        if isinstance(top.box, list):
            self.lines[self.path] = _line(event)
            top.box.append(value)
        elif top.key is not None:
            top.box[top.key] = value
            top.key = None

    def _wants_key(self) -> bool:
        return bool(self._open) and isinstance(self._open[-1].box, dict) and self._open[-1].key is None

    def _check_tag(self, event: Any, value: Any) -> None:
        if event.tag in (None, "!"):
            return
        if type(value) is not _TYPES.get(event.tag.removeprefix(_TAG)):
            raise self._error(event, "this tag is not read; remove it and write plain text, numbers, lists or mappings")

    def _error(self, event: yaml.Event, message: str) -> ConfigError:
        return ConfigError(message, place(self._file, _line(event), self.path))


def _line(event: yaml.Event) -> int:
    mark = event.start_mark
    return int(mark.line) + 1 if mark else 1


def _resolve(text: str) -> Any:
    """A plain scalar as the core schema of YAML 1.2 reads it."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        try:
            return int(text)
        except ValueError:
            return _TOO_LONG
    if _RADIX.fullmatch(text):
        return int(text, 0) if len(text) < _MAX_RADIX_CHARS else _TOO_LONG
    if _FLOAT.fullmatch(text):
        return float(text)
    if _NOT_FINITE.fullmatch(text):
        return float(text.replace(".", ""))
    return text


_OFFSET = regex(r"near (\d+)")
_DIGITS = regex(r"[0-9_]++|\Z")
_TOML_LINE = regex(r" \(at (?:line (\d+), column \d+|end of document)\)$")


def parse_document(text: str, suffix: str, file: str) -> tuple[Any, dict[KeyPath, int]]:
    """The value of `text` as its format has it, and the line of every key and list item that could be located.

    Raises `ConfigError` for syntax, duplicate keys and nesting over the limit; `file` is the name to show.
    """
    match suffix.lower():
        case ".json5" | ".json":
            return _parse_json5(text, file)
        case ".yaml" | ".yml":
            return parse_yaml(text, file)
        case ".toml":
            return _parse_toml(text.removeprefix("\ufeff"), file)  # the other two skip it themselves
    raise ConfigError(
        f"the suffix {suffix!r} is not known; use .json5, .json, .yaml, .yml or .toml", place(file, None, ())
    )


def _parse_json5(text: str, file: str) -> tuple[Any, dict[KeyPath, int]]:
    scan = scan_json5(text)
    if scan.fault:
        raise scan.fault.error(file)
    try:
        return pyjson5.decode(text, MAX_DEPTH), dict(scan.lines)
    except pyjson5.Json5DecoderException as error:
        # the decoder's own words show its insides; the scan has already passed, so only small things are left
        near = _OFFSET.search(str(error.args[0]))
        line = line_finder(text)(int(near[1])) if near else None
        what = "not valid JSON5: an escape, a number or an unquoted key here is malformed"
        raise ConfigError(what, place(file, line, _nearest(scan, line))) from None


def _parse_toml(text: str, file: str) -> tuple[Any, dict[KeyPath, int]]:
    scan = scan_toml(text)
    if scan.fault and scan.fault.kind == "deep":
        raise scan.fault.error(file)
    try:
        return tomllib.loads(text), dict(scan.lines)
    except tomllib.TOMLDecodeError as error:
        if scan.fault and scan.fault.kind == "twice":
            raise scan.fault.error(file) from None
        words = str(error)
        where = _TOML_LINE.search(words)
        line = int(where[1]) if where and where[1] else text.rstrip().count("\n") + 1
        what = f"not valid TOML: {_TOML_LINE.sub('', words)}"
        raise ConfigError(what, place(file, line, _nearest(scan, line))) from None
    except RecursionError:  # brackets that the scan did not follow
        raise deep((), scan.fault.line if scan.fault else 1).error(file) from None
    except ValueError:  # a whole number of thousands of digits, which Python will not read
        number = max(_DIGITS.finditer(text), key=lambda match: len(match[0]))
        line = line_finder(text)(number.start())
        what = "a whole number here does not fit 64 bits; write it in quotes if it is an id"
        raise ConfigError(what, place(file, line, _nearest(scan, line))) from None


def _nearest(scan: Scan, line: int | None) -> KeyPath:
    """The last key that starts at `line` or before it."""
    known = [path for path, start in scan.lines.items() if line and start <= line]
    return max(known, key=scan.lines.__getitem__, default=())
