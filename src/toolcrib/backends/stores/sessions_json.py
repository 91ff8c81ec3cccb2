"""Lines of a log as JSON and back, nothing lost: in a store, and in a file with one object a line.

    {"type": "session", "version": 1, "key": "agent:main:main", "made_at": 1.5, "changed_at": 9.5}
    {"type": "said", "id": "a1", "parent": null, "at": 1.5, "message": {"role": "user", "content": [{"text": "hello"}]}}

What has its default is left out. What is not known is never skipped: a newer toolcrib wrote it, and means something.
"""

import base64
import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar, get_args

import orjson

from toolcrib.define import log
from toolcrib.define.errors import ToolError
from toolcrib.define.event import Ending, Usage
from toolcrib.define.message import Call, Finish, Message, Part, Role, Thinking
from toolcrib.define.result import Image, Status, Text

VERSION = 1
_MAX_DEPTH = 100  # objects and lists inside each other

_Keep = Callable[[bytes], str]
Fetch = Callable[[str], bytes]

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_HALVES = re.compile("[\ud800-\udfff]")


def write_log(head: log.SessionHead, lines: Iterable[log.Line]) -> Iterator[str]:
    """Give a whole session as texts of one line each, without their ends; pictures are in them."""
    yield to_text({"type": "session", "version": VERSION, **_HEAD.write(head)})
    for line in lines:
        yield to_text(line_to_json(line))


def read_log(texts: Iterable[str]) -> tuple[log.SessionHead, tuple[log.Line, ...]]:
    """Return the session that was written so, all of it; raise ToolError with the number of the line that is none."""
    head: log.SessionHead | None = None
    lines: list[log.Line] = []
    known: set[str] = set()
    number = 0
    for number, text in enumerate(texts, 1):
        try:
            value = from_text(text)
            if head is None:
                head = _read_head(value)
                continue
            line = line_from_json(value)
            log.check_lines((line,), known.__contains__)
        except ToolError as error:
            raise ToolError(f"line {number}: {error}", code="bad_line") from error
        known.add(line.id)
        lines.append(line)
    if head is None:
        raise ToolError("there is no session in it: it is empty", code="bad_line")
    return head, tuple(lines)


def to_text(value: Any) -> str:
    """Return JSON, given as plain values, in one line that any UTF-8 file takes."""
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # a number of more than 64 bits, half a character, or no JSON
        return _to_text(value)


def _to_text(value: Any) -> str:
    try:
        text = _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise _no_json(f"what is no JSON ({error})") from error
    # half a character, which UTF-8 has no bytes for; two that belong together come back as the one they are
    return text if text.isascii() else _HALVES.sub(lambda half: f"\\u{ord(half[0]):04x}", text)


def from_text(text: str) -> Any:
    """Return what `to_text` wrote; raise ToolError for what is not JSON, and for a name that is given twice."""
    try:
        return json.loads(text, object_pairs_hook=_refuse_duplicates, parse_constant=_not_finite)
    except ValueError as error:
        raise _bad(f"it is not JSON ({error})") from error
    except RecursionError:
        raise _bad("it is nested too deep") from None


def line_to_json(line: log.Line, keep: _Keep | None = None) -> dict[str, Any]:
    """Return a line as JSON; pictures are handed to `keep`, which returns the name to fetch them by, or stand in it."""
    kind = _KINDS[type(line.body)]
    return {"type": kind, **_LINE.write(line), **_SHAPES[kind].write(line.body, keep)}


def line_from_json(value: Any, fetch: Fetch | None = None) -> log.Line:
    """Return the line; raise ToolError, without its number, when it is none that this version knows."""
    left = _LINE.open(value)
    if (kind := _Member("type").take(left, _LINE.what)) not in _SHAPES:
        raise _bad(f"it has the unknown type {kind!r}")
    body = _SHAPES[kind].take(left, fetch)
    return _LINE.finish(left, _LINE.take(left, body=body))


T = TypeVar("T")


class _Member(NamedTuple):
    """One member of an object: its name, the kinds of its value (none for any), and what it is where it is left out."""

    name: str
    kinds: tuple[type, ...] = (str,)
    default: Any = ...
    words: Collection[str] = ()  # of which it is one
    write: Callable[[Any, _Keep | None], Any] | None = None
    read: Callable[[Any, Fetch | None], Any] | None = None
    is_told: bool = False  # also where it is the default

    def take(self, left: dict[str, Any], what: str, fetch: Fetch | None = None) -> Any:
        """Return the value, taken out of an object; raise ToolError for one that is missing or not known."""
        name, kinds, default, words, _, read, _ = self
        if name not in left:
            if default is ...:
                raise _bad(f"{what} has no {name!r}")
            return default
        value = left.pop(name)
        if kinds and type(value) not in kinds:
            raise _bad(f"{name!r} of {what} is of another kind")
        if words and value not in words:
            raise _bad(f"{name!r} of {what} is {value!r:.40}, which is not known")
        return value if read is None else read(value, fetch)


class _Shape(Generic[T]):
    """How things of one type are written and read: `what` complaints call them, and their members by attribute."""

    def __init__(self, what: str, make: Callable[..., T], **members: _Member) -> None:
        self.what, self._make, self._members = what, make, tuple(members.items())

    def write(self, thing: T, keep: _Keep | None = None) -> dict[str, Any]:
        told: dict[str, Any] = {}
        for attribute, (name, _, default, _, write, _, is_told) in self._members:
            value = getattr(thing, attribute)
            if is_told or value != default:
                told[name] = value if write is None else write(value, keep)
        return told

    def read(self, value: Any, fetch: Fetch | None = None) -> T:
        return self.finish(left := self.open(value), self.take(left, fetch))

    def open(self, value: Any) -> dict[str, Any]:
        """Return the members of an object, each to be taken once."""
        if type(value) is not dict:
            raise _bad(f"{self.what} is no object")
        return value.copy()

    def take(self, left: dict[str, Any], fetch: Fetch | None = None, **known: Any) -> T:
        taken = {name: member.take(left, self.what, fetch) for name, member in self._members}
        return self._make(**known, **taken)

    def finish(self, left: dict[str, Any], thing: T) -> T:
        """Return what was made; raise ToolError when a member was not taken."""
        if left:
            raise _bad(f"{self.what} has the unknown {next(iter(left))!r:.40}")
        return thing


def _finite(number: float | None, _: object) -> float | None:
    if number is not None and not math.isfinite(number):
        raise _no_json(f"the number {number}")
    return number


def _plain(value: Any, _: object = None, depth: int = 0) -> Any:
    """Return a value made of plain JSON and nothing else: what a reader would get back, or an error."""
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if depth > _MAX_DEPTH:
        raise _no_json("what is nested too deep")
    if isinstance(value, list | tuple):
        return [_plain(each, depth=depth + 1) for each in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise _no_json("a name that is no text")
        return {key: _plain(each, depth=depth + 1) for key, each in value.items()}
    raise _no_json(repr(value) if isinstance(value, float) else f"a {type(value).__name__}")


def _write_part(part: Part, keep: _Keep | None) -> dict[str, Any]:
    told = _PARTS[type(part)].write(part)
    if not isinstance(part, Image):
        return told
    kept = {"data": base64.b64encode(part.data).decode()} if keep is None else {"blob": keep(part.data)}
    return {**kept, **told}


def _read_part(value: Any, fetch: Fetch | None) -> Any:
    left = _PARTS[Text].open(value)
    shape = _PARTS[Thinking if "thinking" in left else Image if "mime" in left else Text]
    known = {"data": _read_data(left, fetch)} if "mime" in left else {}
    return shape.finish(left, shape.take(left, None, **known))


def _read_data(left: dict[str, Any], fetch: Fetch | None) -> bytes:
    if fetch is not None and "blob" in left:
        return fetch(_Member("blob").take(left, _PART))
    try:
        return base64.b64decode(_Member("data").take(left, _PART), validate=True)
    except ValueError as error:
        raise _bad("a picture's data is not base64") from error


def _read_parents(parents: Sequence[Any], _: object) -> tuple[str, ...]:
    if not all(isinstance(each, str) for each in parents):
        raise _bad("'parents' of the head is of another kind")
    return tuple(parents)


_PART = "a part of a message"
_LIST, _NUMBER, _TEXT_OR_NONE = (list, tuple), (float, int), (str, NoneType)
_AT = _Member("at", _NUMBER, write=_finite)
_COST = _Member("cost", (*_NUMBER, NoneType), None, write=_finite)
_SOURCE = _Member("source", _TEXT_OR_NONE, None)
_MARK = _Member("mark", default="")

_PARTS: Mapping[type, _Shape[Any]] = {
    Text: _Shape(_PART, Text, text=_Member("text"), source=_SOURCE),
    Image: _Shape(_PART, Image, mime=_Member("mime"), source=_SOURCE),
    Thinking: _Shape(_PART, Thinking, text=_Member("thinking"), signature=_MARK),
}
_COUNTS = ("input", "output", "cached", "written")
_USAGE = _Shape("a usage", Usage, **{name: _Member(name, (int,), 0) for name in _COUNTS})
_CALL = _Shape(
    "a call", Call, id=_Member("id"), name=_Member("name"), args=_Member("args", (dict,), write=_plain),
    key=_Member("key", default=""), signature=_MARK, parse_error=_Member("flaw", default=""),
)  # fmt: skip
_CONTENT = _Member(
    "content", _LIST, (), is_told=True, write=lambda parts, keep: [_write_part(part, keep) for part in parts],
    read=lambda parts, fetch: tuple(_read_part(part, fetch) for part in parts),
)  # fmt: skip
_CALLS = _Member(
    "calls", _LIST, (), write=lambda calls, _: [_CALL.write(call) for call in calls],
    read=lambda calls, _: tuple(_CALL.read(call) for call in calls),
)  # fmt: skip
_MESSAGE = _Shape(
    "a message", Message, role=_Member("role", words=get_args(Role)), content=_CONTENT, calls=_CALLS,
    call_id=_Member("call_id", _TEXT_OR_NONE, None), status=_Member("status", default="ok", words=get_args(Status)),
    finish=_Member("finish", default="stop", words=get_args(Finish)), by=_Member("by", default=""),
    at=_AT._replace(default=0.0),
)  # fmt: skip

_SAID = _Member("message", (), write=_MESSAGE.write, read=_MESSAGE.read)
_TOOK = _Member("usage", (), write=_USAGE.write, read=_USAGE.read)
_BODIES: Mapping[str, tuple[type, Mapping[str, _Member]]] = {
    "said": (log.Said, {"message": _SAID, "usage": _TOOK._replace(default=None), "cost": _COST}),
    "began": (log.Began, {"call": _Member("call", (), write=_CALL.write, read=_CALL.read)}),
    "shortened": (
        log.Shortened,
        {"summary": _Member("summary"), "kept": _Member("kept"), "tokens": _Member("tokens", (int,))},
    ),
    "switched": (log.Switched, {"model": _Member("model")}),
    "noted": (log.Noted, {"name": _Member("name"), "data": _Member("data", (), write=_plain)}),
    "labelled": (log.Labelled, {"title": _Member("title")}),
    "ended": (
        log.Ended,
        {
            "reason": _Member("reason", words=get_args(Ending)), "sentence": _Member("sentence"), "usage": _TOOK,
            "cost": _COST,
        },
    ),
}  # fmt: skip
_SHAPES = {kind: _Shape("a line", make, **members) for kind, (make, members) in _BODIES.items()}
_KINDS = {make: kind for kind, (make, _) in _BODIES.items()}
_LINE = _Shape("a line", log.Line, id=_Member("id"), parent=_Member("parent", _TEXT_OR_NONE), at=_AT)
_HEAD = _Shape(
    "the head", log.SessionHead, key=_Member("key"), made_at=_Member("made_at", _NUMBER),
    changed_at=_Member("changed_at", _NUMBER),
    parents=_Member("parents", _LIST, (), write=lambda parents, _: list(parents), read=_read_parents),
    title=_Member("title", default=""), model=_Member("model", default=""),
)  # fmt: skip


def _read_head(value: Any) -> log.SessionHead:
    left = _HEAD.open(value)
    if _Member("type").take(left, _HEAD.what) != "session":
        raise _bad("a session begins with its head, of the type 'session'")
    if (version := _Member("version", (int,)).take(left, _HEAD.what)) != VERSION:
        raise _bad(f"it is of version {version}, and {VERSION} is known")
    return _HEAD.finish(left, _HEAD.take(left))


def _refuse_duplicates(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise _bad("a name is given twice in one object")
    return values


def _not_finite(word: str) -> NoReturn:
    raise _no_json(word)


def _no_json(what: str) -> ToolError:
    return ToolError(f"{what} cannot be kept in a session, only plain JSON can", code="bad_line")


def _bad(what: str) -> ToolError:
    return ToolError(f"{what}; it is damaged, or a newer toolcrib wrote it", code="bad_line")
