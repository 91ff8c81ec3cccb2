"""A conversation made fit for one model, so that the file of a provider has only to spell it.

What `prepared` promises to it:

- an assistant message is followed by one answer for each of its calls, in order, and no answer stands elsewhere
- ids of calls are valid for the API and unique, the same in call and answer; names of calls are names
- every `Thinking` and every `mark` comes from this very model; a thought is never the last word of a reply
- pictures are in what users and tools said, never empty, PNG, JPEG, GIF or WebP as their bytes tell, and only for a
  model that sees
- no text is empty, none has half of a character, and neither have arguments, which are a `dict` of JSON
- a message of a user or a model says something; an answer may be empty
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from toolcrib.define.message import Call, Message, Part, Thinking
from toolcrib.define.result import Image, Result, Text

from .fence.clean import is_writable
from .ids import Ids, rule_for
from .pairing import BROKEN, Exchange, exchanges
from .target import Target
from .wire import whole

__all__ = ["answer", "fitted", "prepared", "wired"]

_DEEPEST = 100  # of values inside each other in arguments; what lies deeper is left out
_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64
_TAKEN = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def prepared(messages: Sequence[Message], target: Target) -> list[Message]:
    """Return the conversation as `target` can take it."""
    return wired(fitted(exchanges(messages), target), Ids(rule_for(target)))


def fitted(conversation: Iterable[Exchange], target: Target) -> list[Exchange]:
    """Return what `target` can take of a conversation whose calls are all answered, under the ids that they have."""
    return [
        Exchange(message, tuple(_fit(each, target) for each in exchange.answers))
        for exchange in conversation
        if (message := _fit(exchange.message, target)).content or message.calls
    ]


def wired(conversation: Iterable[Exchange], ids: Ids) -> list[Message]:
    """Return the messages with their answers behind them, under ids that go over the wire."""
    return [message for each in conversation for message in _with_ids(each, ids)]


def answer(call: Call, result: Result, at: float = 0.0) -> Message:
    """Return what a model is told of a call: the result's content, marked as an error when it is one.

    Details that say `status: error` or `status: timeout` mean a failure, also where whoever made the result did not.
    """
    said = result.details.get("status") if isinstance(result.details, Mapping) else None
    is_failure = isinstance(said, str) and said.strip().lower() in ("error", "timeout")
    status = "error" if is_failure else result.status
    return Message(role="tool", content=result.content, call_id=call.id, status=status, at=at)


def _with_ids(exchange: Exchange, ids: Ids) -> Iterator[Message]:
    message = exchange.message
    calls = tuple(Call(id=ids.next(call.id), name=call.name, args=call.args, mark=call.mark) for call in message.calls)
    yield replace(message, calls=calls) if calls else message
    for call, each in zip(calls, exchange.answers, strict=True):
        yield replace(each, call_id=call.id)


def _fit(message: Message, target: Target) -> Message:
    if message.role == "assistant":
        return _reply(message, target)
    takes = target.sees and message.role in ("user", "tool")
    content = (_told(part, takes=takes, sees=target.sees) for part in message.content)
    return replace(message, content=_spoken(content, blanks=target.api != "anthropic"))


def _reply(message: Message, target: Target) -> Message:
    is_own, is_broken = message.by == target.by, message.finish in BROKEN
    parts: list[Part] = []
    for part in message.content:
        if not isinstance(part, Thinking):
            parts.append(_told(part, takes=False, sees=target.sees))
        elif not is_broken:
            parts.append(Thinking(whole(part.text), whole(part.mark)) if is_own else Text(whole(part.text)))
        elif is_own and part.mark and message.calls:
            # half a thought is nobody's; a whole one goes with the calls that were answered
            parts.append(Thinking(whole(part.text), whole(part.mark)))
    content = _spoken(parts, blanks=False)
    calls = tuple(_called(call, is_own=is_own) for call in message.calls)
    if not calls:
        content = content[: max((at for at, part in enumerate(content, 1) if isinstance(part, Text)), default=0)]
    return replace(message, content=content, calls=calls)


def _spoken(parts: Iterable[Part], *, blanks: bool) -> tuple[Part, ...]:
    """Return the parts without empty texts; nobody takes them, and Anthropic takes none of `blanks` either."""
    return tuple(part for part in parts if not isinstance(part, Text) or (part.text if blanks else part.text.strip()))


def _told(part: Part, *, takes: bool, sees: bool) -> Part:
    """Return a part as it is sent, a picture in words where it is not taken."""
    match part:
        case Image(data=data, mime=mime):
            kind = Image.mime_of(data) or mime
            if not data:
                why = "; there is nothing in it"
            elif not sees:
                why = "; this model cannot see images"
            elif kind not in _TAKEN:
                why = "; models take PNG, JPEG, GIF and WebP"
            elif takes:
                return Image(data, kind)
            else:
                why = ""
            return Text(f"[{whole(kind)}, {len(data):,} bytes{why}]")
        case Thinking(text=text):
            return Text(whole(text))
        case Text(text=text, source=source):
            return part if is_writable(text) else Text(whole(text), source)


def _called(call: Call, *, is_own: bool) -> Call:
    name = _NOT_IN_NAMES.sub("_", call.name)[:_LONGEST_NAME] or "unnamed"
    return Call(id=call.id, name=name, args=_writable(dict(call.args)), mark=whole(call.mark) if is_own else "")


def _writable(args: dict[str, Any]) -> dict[str, Any]:
    try:
        orjson.dumps(args)
    except TypeError:  # half of a character, a number beyond 64 bits, too deep, or not JSON at all
        made: dict[str, Any] = _json(args, _DEEPEST)
        return made
    return args


def _json(value: Any, levels: int) -> Any:
    match value:
        case str():
            return whole(value)
        case bool() | int() | None:
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping() if levels:
            return {whole(str(name)): _json(each, levels - 1) for name, each in value.items()}
        case list() | tuple() if levels:
            return [_json(each, levels - 1) for each in value]
    return None
