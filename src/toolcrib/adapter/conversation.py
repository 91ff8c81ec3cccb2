"""A conversation made fit for one model, so that the file of a provider has only to spell it.

What `prepare` promises to it:

- an assistant message is followed by one answer for each of its calls, in order, and no answer stands elsewhere
- ids of calls are valid for the API and unique, the same in call and answer; names of calls are names
- every `Thinking` and every `mark` comes from this very model; a thought is never the last word of a reply
- pictures are in messages of users and tools, never empty, PNG, JPEG, GIF or WebP as their bytes tell, and only for a
  model that sees
- no text is empty, none has half of a character, and neither have arguments, which are a `dict` of JSON
- a message of a user or a model says something; an answer may be empty
"""

import math
import re
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha1
from typing import Any

import orjson

from toolcrib.define.display import is_encodable
from toolcrib.define.message import Call, Finish, Message, Part, Thinking
from toolcrib.define.result import Image, Result, Text
from toolcrib.lazy import dataclass, field, regex, replace

from .cards import Target
from .trim import is_failure
from .wire import sanitize

# The first message of a user, for providers that need one before the model's.
OPENING = "(The conversation begins with the reply below.)"
_UNNAMED = "call"
_SUFFIX_CHARS = 8
# Mistral's models are served over OpenAI's API by many; their chat templates refuse any other id.
_MISTRAL_NAMES = regex(r"(?:mi[sx]tral|(?:code|mini|magi|dev|pix|vox)stral|pixtral)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class IdRule:
    """Which characters an id may not hold, what stands for each, and how many there may be; `exact` for no fewer."""

    refused: str
    instead: str = "_"
    limit: int = 64
    exact: bool = False


MISTRAL = IdRule("[^a-zA-Z0-9]", instead="", limit=9, exact=True)
_RULES = {
    "openai": IdRule("[^ -~]", limit=40),
    "responses": IdRule("[^a-zA-Z0-9_-]"),
    "anthropic": IdRule("[^a-zA-Z0-9_-]"),
    "gemini": IdRule("[\ud800-\udfff]", limit=1024),
}


def id_rule_for(target: Target) -> IdRule:
    """Return the rule of the API, or that of the model where it is narrower."""
    return MISTRAL if target.api == "openai" and _MISTRAL_NAMES.search(target.model) else _RULES[target.api]


@dataclass(slots=True)
class CallIds:
    """Gives out ids that the rule takes, every one different; what comes later never changes what came before.

    An id that is valid stays as it is. One that is not is cleaned and cut, and bears a digest when that is taken.
    """

    rule: IdRule
    taken: ChainMap[str, str] = field(default_factory=ChainMap)  # what was given out, for which
    repeats: ChainMap[str, int] = field(default_factory=ChainMap)

    def branch(self) -> "CallIds":
        """Return one that goes on from here and leaves this as it is."""
        return CallIds(self.rule, self.taken.new_child(), self.repeats.new_child())

    def next(self, own: str) -> str:
        """Return what stands for the id of the next call."""
        fit = _clean_id(own, self.rule)
        while fit in self.taken:
            # counted for each id, so that a thousand calls with one id cost no more than a thousand with their own
            again = self.repeats[own] = self.repeats.get(own, -1) + 1
            fit = _distinguish_id(own, again, self.rule)
        self.taken[fit] = own
        return fit


def _clean_id(own: str, rule: IdRule) -> str:
    cleaned = re.sub(rule.refused, rule.instead, own)
    if rule.exact and len(cleaned) < rule.limit:
        return _digest(cleaned)[: rule.limit]
    return cleaned[: rule.limit] or _UNNAMED


def _distinguish_id(own: str, again: int, rule: IdRule) -> str:
    if rule.exact:
        return _digest(f"{own}:{again}")[: rule.limit]
    suffix = _digest(f"{own}:{again}" if again else own)[:_SUFFIX_CHARS]
    return f"{_clean_id(own, rule)[: rule.limit - _SUFFIX_CHARS]}{suffix}"


def _digest(text: str) -> str:
    return sha1(text.encode(errors="surrogatepass"), usedforsecurity=False).hexdigest()


BROKEN: frozenset[Finish] = frozenset({"length", "refused", "error", "aborted"})
_LOST = "no result of this call was kept; it may not have run"

_Slot = tuple[int, int]  # the place of a reply, and of a call in it


@dataclass(frozen=True, slots=True)
class Exchange:
    """A message that is no answer, and the answers to its calls, one for each in the same order."""

    message: Message
    answers: tuple[Message, ...] = ()


def exchanges(messages: Sequence[Message]) -> Iterator[Exchange]:
    """Return the conversation with every call answered."""
    answered = _answers(messages)
    for place, message in enumerate(messages):
        if message.role == "tool":
            continue
        if message.role != "assistant" or not message.calls:
            yield Exchange(replace(message, calls=()) if message.calls else message)
            continue
        pairs = [(call, answered.get((place, index))) for index, call in enumerate(message.calls)]
        if message.finish in BROKEN:
            pairs = [pair for pair in pairs if pair[1] is not None]
        calls = tuple(call for call, _ in pairs)
        answers = tuple(answer or _missing_answer(call, message.at) for call, answer in pairs)
        yield Exchange(message if calls == message.calls else replace(message, calls=calls), answers)


def open_messages(messages: Sequence[Message]) -> list[Message]:
    """Return what a late answer could still change: calls that have none, and whatever else has their ids.

    The pairs of all other ids are made for good: pairing the rest of a conversation behind these messages alone comes
    to the same as pairing it behind all of them.
    """
    answered = _answers(messages)
    still_open = {
        call.id
        for place, message in enumerate(messages)
        if message.role == "assistant"
        for index, call in enumerate(message.calls)
        if (place, index) not in answered
    }
    kept = []
    for message in messages if still_open else ():
        if message.role == "tool" and message.call_id in still_open:
            kept.append(message)
        elif message.role == "assistant":
            calls = tuple(call for call in message.calls if call.id in still_open)
            kept += [replace(message, calls=calls)] if calls else []
    return kept


def _answers(messages: Sequence[Message]) -> dict[_Slot, Message]:
    """Return which answer belongs to which call."""
    found: dict[_Slot, Message] = {}
    threads: dict[str, _Thread] = {}
    for place, message in enumerate(messages):
        if message.role == "assistant":
            asked: dict[str, list[_Slot]] = {}
            for index, call in enumerate(message.calls):
                asked.setdefault(call.id, []).append((place, index))
            for own, slots in asked.items():
                threads.setdefault(own, _Thread()).ask(slots, found)
        elif message.role == "tool" and message.call_id in threads:
            threads[message.call_id].waiting.append(message)
    for thread in threads.values():
        thread.ask([], found)
    return found


@dataclass(slots=True)
class _Thread:
    """All calls with one id, in order. Models reuse ids: an answer belongs to the reply that asked last."""

    open: list[_Slot] = field(default_factory=list)
    latest: int = 0
    waiting: list[Message] = field(default_factory=list)

    def ask(self, slots: list[_Slot], found: dict[_Slot, Message]) -> None:
        """Hand out the answers that came since the last reply with this id, then open the calls of the next one."""
        # more answers than the last reply has calls: the first of them are late ones, to calls that are still open
        first = len(self.open) - max(self.latest, min(len(self.waiting), len(self.open)))
        pairs = list(zip(self.open[first:], self.waiting, strict=False))
        found.update(pairs)
        del self.open[first : first + len(pairs)]
        self.open += slots
        self.latest, self.waiting = len(slots), []


def _missing_answer(call: Call, at: float) -> Message:
    return Message(role="tool", content=(Text(_LOST),), call_id=call.id, status="error", at=at)


_MAX_DEPTH = 100  # of values inside each other in arguments; what lies deeper is left out
_NOT_IN_NAMES = regex(r"[^a-zA-Z0-9_-]")
_MAX_NAME_CHARS = 64
_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})


def prepare(messages: Sequence[Message], target: Target) -> list[Message]:
    """Return the conversation as `target` can take it."""
    return assign_ids(fit_exchanges(exchanges(messages), target), CallIds(id_rule_for(target)))


def fit_exchanges(conversation: Iterable[Exchange], target: Target) -> list[Exchange]:
    """Return what `target` can take of a conversation whose calls are all answered, under the ids that they have."""
    return [
        Exchange(message, tuple(_fit_message(each, target) for each in exchange.answers))
        for exchange in conversation
        if (message := _fit_message(exchange.message, target)).content or message.calls
    ]


def assign_ids(conversation: Iterable[Exchange], ids: CallIds) -> list[Message]:
    """Return the messages with their answers behind them, under ids that go over the wire."""
    return [message for each in conversation for message in _with_ids(each, ids)]


def answer_message(call: Call, result: Result, at: float = 0.0) -> Message:
    """Return the answer to a call for a model: the result's content, marked as an error when it is one."""
    status = "error" if is_failure(result) else result.status
    return Message(role="tool", content=result.framed, call_id=call.id, status=status, at=at, offers=result.offers)


def _with_ids(exchange: Exchange, ids: CallIds) -> Iterator[Message]:
    message = exchange.message
    calls = tuple(
        Call(id=ids.next(call.id), name=call.name, args=call.args, signature=call.signature) for call in message.calls
    )
    yield replace(message, calls=calls) if calls else message
    for call, each in zip(calls, exchange.answers, strict=True):
        yield replace(each, call_id=call.id)


def _fit_message(message: Message, target: Target) -> Message:
    if message.role == "assistant":
        return _fit_reply(message, target)
    takes = target.sees and message.role in ("user", "tool")
    content = (_fit_part(part, takes=takes, sees=target.sees) for part in message.content)
    return replace(message, content=_drop_empty_texts(content, blanks=target.api != "anthropic"))


def _fit_reply(message: Message, target: Target) -> Message:
    is_own, is_broken = message.by == target.by, message.finish in BROKEN
    parts: list[Part] = []
    for part in message.content:
        if not isinstance(part, Thinking):
            parts.append(_fit_part(part, takes=False, sees=target.sees))
        elif not is_broken:
            parts.append(
                Thinking(sanitize(part.text), sanitize(part.signature)) if is_own else Text(sanitize(part.text))
            )
        elif is_own and part.signature and message.calls:
            # half a thought is dropped; a whole one goes with the calls that were answered
            parts.append(Thinking(sanitize(part.text), sanitize(part.signature)))
    content = _drop_empty_texts(parts, blanks=False)
    calls = tuple(_fit_call(call, is_own=is_own) for call in message.calls)
    if not calls:
        content = content[: max((index for index, part in enumerate(content, 1) if isinstance(part, Text)), default=0)]
    return replace(message, content=content, calls=calls)


def _drop_empty_texts(parts: Iterable[Part], *, blanks: bool) -> tuple[Part, ...]:
    """Return the parts without empty texts; no provider takes them, and Anthropic takes none of `blanks` either."""
    return tuple(part for part in parts if not isinstance(part, Text) or (part.text if blanks else part.text.strip()))


def _fit_part(part: Part, *, takes: bool, sees: bool) -> Part:
    """Return a part as it is sent, a picture in words where it is not taken."""
    match part:
        case Image(data=data, mime=mime, source=source):
            kind = Image.mime_of(data) or mime
            if not data:
                why = "; there is nothing in it"
            elif not sees:
                why = "; this model cannot see images"
            elif kind not in _IMAGE_TYPES:
                why = "; models take PNG, JPEG, GIF and WebP"
            elif takes:
                return Image(data, kind, source)
            else:
                why = ""
            return Text(f"[{sanitize(kind)}, {len(data):,} bytes{why}]", source)
        case Thinking(text=text):
            return Text(sanitize(text))
        case Text(text=text, source=source):
            return part if is_encodable(text) else Text(sanitize(text), source)


def _fit_call(call: Call, *, is_own: bool) -> Call:
    name = _NOT_IN_NAMES.sub("_", call.name)[:_MAX_NAME_CHARS] or "unnamed"
    return Call(
        id=call.id, name=name, args=_writable(dict(call.args)), signature=sanitize(call.signature) if is_own else ""
    )


def _writable(args: dict[str, Any]) -> dict[str, Any]:
    try:
        orjson.dumps(args)
    except TypeError:  # half of a character, a number beyond 64 bits, too deep, or not JSON at all
        made: dict[str, Any] = _to_json(args, _MAX_DEPTH)
        return made
    return args


def _to_json(value: Any, levels: int) -> Any:
    match value:
        case str():
            return sanitize(value)
        case bool() | int() | None:
            return value
        case float():
            return value if math.isfinite(value) else None
        case Mapping() if levels:
            return {sanitize(str(name)): _to_json(each, levels - 1) for name, each in value.items()}
        case list() | tuple() if levels:
            return [_to_json(each, levels - 1) for each in value]
    return None
