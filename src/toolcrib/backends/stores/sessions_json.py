"""Lines of a log as JSON and back, nothing lost: in a store, and in a file with one object a line.

    {"type": "session", "version": 1, "key": "agent:main:main", "made_at": 1.5, "changed_at": 9.5}
    {"type": "said", "id": "a1", "parent": null, "at": 1.5, "message": {"role": "user", "content": [{"text": "hello"}]}}

What has its default is left out. What is not known is never skipped: a newer toolcrib wrote it, and means something.
"""

import base64
import json
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import NoneType
from typing import Any, NoReturn, TypeVar, get_args

import orjson

from toolcrib.define.errors import ToolError
from toolcrib.define.event import Ending, Usage
from toolcrib.define.log import (
    Began,
    Body,
    Ended,
    Labelled,
    Line,
    Noted,
    Said,
    SessionHead,
    Shortened,
    Switched,
    check_lines,
)
from toolcrib.define.message import Call, Finish, Message, Part, Role, Thinking
from toolcrib.define.result import Image, Status, Text
from toolcrib.lazy import regex

T = TypeVar("T")

VERSION = 1
_MAX_DEPTH = 100  # objects and lists inside each other

_Keep = Callable[[bytes], str]
Fetch = Callable[[str], bytes]

_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_HALVES = regex("[\ud800-\udfff]")
_ENDINGS, _ROLES = frozenset(get_args(Ending)), frozenset(get_args(Role))
_STATES, _FINISHES = frozenset(get_args(Status)), frozenset(get_args(Finish))
_COUNTS = ("input", "output", "cached", "written")


def write_log(head: SessionHead, lines: Iterable[Line]) -> Iterator[str]:
    """Give a whole session as texts of one line each, without their ends; pictures are in them."""
    yield to_text(
        {
            "type": "session", "version": VERSION, "key": head.key, "made_at": head.made_at,
            "changed_at": head.changed_at,
            **_non_empty(parents=list(head.parents), title=head.title, model=head.model, source=head.source),
        }
    )  # fmt: skip
    for line in lines:
        yield to_text(line_to_json(line))


def read_log(texts: Iterable[str]) -> tuple[SessionHead, tuple[Line, ...]]:
    """Return the session that was written so, all of it; raise ToolError with the number of the line that is none."""
    head: SessionHead | None = None
    lines: list[Line] = []
    known: set[str] = set()
    number = 0
    for number, text in enumerate(texts, 1):
        try:
            value = from_text(text)
            if head is None:
                head = _head(value)
                continue
            line = line_from_json(value)
            check_lines((line,), known.__contains__)
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


def line_to_json(line: Line, keep: _Keep | None = None) -> dict[str, Any]:
    """Return a line as JSON; pictures are handed to `keep`, which returns the name to fetch them by, or stand in it."""
    kind, body = _body_to_json(line.body, keep)
    return {"type": kind, "id": line.id, "parent": line.parent, "at": _finite(line.at), **body}


def line_from_json(value: Any, fetch: Fetch | None = None) -> Line:
    """Return the line; raise ToolError, without its number, when it is none that this version knows."""
    fields = _Fields(value, "a line")
    body = _body(fields, fetch)
    return fields.done(Line(fields.text("id"), fields.take("parent", str, NoneType), fields.number("at"), body))


# Write


def _body_to_json(body: Body, keep: _Keep | None) -> tuple[str, dict[str, Any]]:
    match body:
        case Said(message, usage, cost):
            return "said", {"message": _message_to_json(message, keep), **_took_to_json(usage, cost)}
        case Began(call):
            return "began", {"call": _call_to_json(call)}
        case Shortened(summary, kept, tokens):
            return "shortened", {"summary": summary, "kept": kept, "tokens": tokens}
        case Switched(model):
            return "switched", {"model": model}
        case Noted(name, data):
            return "noted", {"name": name, "data": _plain(data)}
        case Labelled(title):
            return "labelled", {"title": title}
        case Ended(reason, sentence, usage, cost):
            return "ended", {"reason": reason, "sentence": sentence, **_took_to_json(usage, cost)}


def _message_to_json(message: Message, keep: _Keep | None) -> dict[str, Any]:
    value: dict[str, Any] = {"role": message.role, "content": [_part_to_json(part, keep) for part in message.content]}
    if message.calls:
        value["calls"] = [_call_to_json(call) for call in message.calls]
    if message.call_id is not None:
        value["call_id"] = message.call_id
    if message.status != "ok":
        value["status"] = message.status
    if message.finish != "stop":
        value["finish"] = message.finish
    if message.offers:
        value["offers"] = list(message.offers)
    if message.by:
        value["by"] = message.by
    if message.at:
        value["at"] = _finite(message.at)
    return value


def _part_to_json(part: Part, keep: _Keep | None) -> dict[str, Any]:
    match part:
        case Text(text, source):
            return {"text": text} if source is None else {"text": text, "source": source}
        case Image(data, mime, source):
            kept = {"data": base64.b64encode(data).decode()} if keep is None else {"blob": keep(data)}
            return {**kept, "mime": mime} if source is None else {**kept, "mime": mime, "source": source}
        case Thinking(text, mark):
            return {"thinking": text, **_non_empty(mark=mark)}


def _call_to_json(call: Call) -> dict[str, Any]:
    rest = _non_empty(key=call.key, mark=call.signature, flaw=call.parse_error)
    return {"id": call.id, "name": call.name, "args": _plain(call.args), **rest}


def _took_to_json(usage: Usage | None, cost: float | None) -> dict[str, Any]:
    value: dict[str, Any] = {}
    if usage is not None:
        value["usage"] = {name: count for name in _COUNTS if (count := getattr(usage, name))}
    if cost is not None:
        value["cost"] = _finite(cost)
    return value


def _non_empty(**values: Any) -> dict[str, Any]:
    """Return what is not empty."""
    return {name: value for name, value in values.items() if value}


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise _no_json(f"the number {number}")
    return number


def _plain(value: Any, depth: int = 0) -> Any:
    """Return a value made of plain JSON and nothing else: what a reader would get back, or an error."""
    if value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if depth > _MAX_DEPTH:
        raise _no_json("what is nested too deep")
    if isinstance(value, list | tuple):
        return [_plain(each, depth + 1) for each in value]
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise _no_json("a name that is no text")
        return {key: _plain(each, depth + 1) for key, each in value.items()}
    raise _no_json(repr(value) if isinstance(value, float) else f"a {type(value).__name__}")


# Read


class _Fields:
    """The fields of one object, each taken once; what is left at the end is not known."""

    __slots__ = ("_left", "_what")

    def __init__(self, value: Any, what: str) -> None:
        if type(value) is not dict:
            raise _bad(f"{what} is no object")
        self._left, self._what = value.copy(), what

    def has(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, *kinds: type, default: Any = ...) -> Any:
        """Return the value of a field, of one of these kinds, else of any."""
        value = self._left.pop(name, default)
        if value is ...:
            raise _bad(f"{self._what} has no {name!r}")
        if kinds and type(value) not in kinds:
            raise _bad(f"{name!r} of {self._what} is of another kind")
        return value

    def text(self, name: str, default: Any = ...) -> Any:
        return self.take(name, str, default=default)

    def text_or_none(self, name: str) -> Any:
        return self.take(name, str, NoneType, default=None)

    def number(self, name: str, default: Any = ...) -> Any:
        return self.take(name, float, int, default=default)

    def number_or_none(self, name: str) -> Any:
        return self.take(name, float, int, NoneType, default=None)

    def whole(self, name: str, default: Any = ...) -> Any:
        return self.take(name, int, default=default)

    def list(self, name: str) -> Any:
        return self.take(name, list, tuple, default=())

    def one_of(self, name: str, words: Collection[str], default: Any = ...) -> Any:
        value = self.text(name, default)
        if value not in words:
            raise _bad(f"{name!r} of {self._what} is {value!r:.40}, which is not known")
        return value

    def done(self, made: T) -> T:
        """Return what was made of the fields; raise ToolError when one was not taken."""
        if self._left:
            raise _bad(f"{self._what} has the unknown {next(iter(self._left))!r:.40}")
        return made


def _head(value: Any) -> SessionHead:
    fields = _Fields(value, "the head")
    if fields.text("type") != "session":
        raise _bad("a session begins with its head, of the type 'session'")
    if (version := fields.whole("version")) != VERSION:
        raise _bad(f"it is of version {version}, and {VERSION} is known")
    parents = fields.list("parents")
    if not all(isinstance(each, str) for each in parents):
        raise _bad("'parents' of the head is of another kind")
    head = SessionHead(
        key=fields.text("key"), made_at=fields.number("made_at"), changed_at=fields.number("changed_at"),
        parents=tuple(parents), title=fields.text("title", ""), model=fields.text("model", ""),
        source=fields.text("source", ""),
    )  # fmt: skip
    return fields.done(head)


def _body(fields: _Fields, fetch: Fetch | None) -> Body:
    match fields.text("type"):
        case "said":
            usage = _usage(fields.take("usage")) if fields.has("usage") else None
            return Said(_message(fields.take("message"), fetch), usage, fields.number_or_none("cost"))
        case "began":
            return Began(_call(fields.take("call")))
        case "shortened":
            return Shortened(fields.text("summary"), fields.text("kept"), fields.whole("tokens"))
        case "switched":
            return Switched(fields.text("model"))
        case "noted":
            return Noted(fields.text("name"), fields.take("data"))
        case "labelled":
            return Labelled(fields.text("title"))
        case "ended":
            reason, sentence = fields.one_of("reason", _ENDINGS), fields.text("sentence")
            return Ended(reason, sentence, _usage(fields.take("usage")), fields.number_or_none("cost"))
        case kind:
            raise _bad(f"it has the unknown type {kind!r}")


def _message(value: Any, fetch: Fetch | None) -> Message:
    fields = _Fields(value, "a message")
    message = Message(
        role=fields.one_of("role", _ROLES), content=tuple(_part(each, fetch) for each in fields.list("content")),
        calls=tuple(map(_call, fields.list("calls"))), call_id=fields.text_or_none("call_id"),
        status=fields.one_of("status", _STATES, "ok"), finish=fields.one_of("finish", _FINISHES, "stop"),
        by=fields.text("by", ""), at=fields.number("at", 0.0),
        offers=tuple(map(str, fields.list("offers"))),
    )  # fmt: skip
    return fields.done(message)


def _part(value: Any, fetch: Fetch | None) -> Part:
    fields = _Fields(value, "a part of a message")
    part: Part
    if fields.has("thinking"):
        part = Thinking(fields.text("thinking"), fields.text("mark", ""))
    elif fields.has("mime"):
        part = Image(_data(fields, fetch), fields.text("mime"), fields.text_or_none("source"))
    else:
        part = Text(fields.text("text"), fields.text_or_none("source"))
    return fields.done(part)


def _data(fields: _Fields, fetch: Fetch | None) -> bytes:
    if fetch is not None and fields.has("blob"):
        return fetch(fields.text("blob"))
    try:
        return base64.b64decode(fields.text("data"), validate=True)
    except ValueError as error:
        raise _bad("a picture's data is not base64") from error


def _call(value: Any) -> Call:
    fields = _Fields(value, "a call")
    call = Call(
        fields.text("id"), fields.text("name"), fields.take("args", dict), fields.text("key", ""),
        fields.text("mark", ""), fields.text("flaw", ""),
    )  # fmt: skip
    return fields.done(call)


def _usage(value: Any) -> Usage:
    fields = _Fields(value, "a usage")
    return fields.done(Usage(*(fields.whole(name, 0) for name in _COUNTS)))


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
