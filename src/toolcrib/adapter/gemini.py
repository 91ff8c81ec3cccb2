"""Tools, conversations and replies as Gemini spells them."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from toolcrib.define.event import Replied, ReplyEvent, Usage
from toolcrib.define.message import Finish, Message, Part
from toolcrib.define.result import Image, Text
from toolcrib.define.tool import Tool
from toolcrib.lazy import regex

from .cards import Target
from .conversation import OPENING, prepare
from .names import assign_names, name_for, schema_for
from .reply import BROKE_OFF, ReplyReader
from .trim import error_text
from .wire import as_count, as_list, as_object, as_text, provider_error, sanitize

# Gemini 3 refuses a call without a signature; this stands for the one that another model did not give.
_UNSIGNED = "skip_thought_signature_validator"
_PICTURED = "(The answer is the picture that comes with it.)"
_PICTURES = frozenset({"image/png", "image/jpeg", "image/webp"})
_VERSION = regex(r"gemini-(\d{1,3})")

_Json = dict[str, Any]


def declare(tool: Tool, *, model: str = "") -> dict[str, Any]:
    """Return the tool as a function declaration; one without parameters has no schema at all."""
    declared = {"name": _prefer_names(tool.name)[0], "description": sanitize(tool.description)}
    parameters = schema_for(model, tool, "gemini")
    return {**declared, "parameters": parameters} if parameters["properties"] else declared


def request(messages: Sequence[Message], tools: Sequence[Tool], target: Target) -> dict[str, Any]:
    """Return `systemInstruction`, `contents` and `tools` of a request, without the first and the last where empty."""
    history = prepare(messages, target)
    system = [part for message in history for part in system_parts(message)]
    body: dict[str, Any] = {"systemInstruction": {"parts": system}} if system else {}
    body["contents"] = encode_turns(history, wire_names(tools), target)
    if tools:
        body["tools"] = declare_all(tools, target)
    return body


def declare_all(tools: Sequence[Tool], target: Target) -> list[dict[str, Any]]:
    """Return the tools that a request offers, under the names it shows."""
    names = wire_names(tools)
    offered = [{**declare(tool, model=target.model), "name": names[tool.name]} for tool in tools]
    return [{"functionDeclarations": offered}] if offered else []


def encode_turns(
    messages: Sequence[Message], names: Mapping[str, str], target: Target, *, opens: bool = True
) -> list[dict[str, Any]]:
    """Return the turns; where they do not open the conversation, a user's turn stands before them."""
    return _Contents(names, target, opens=opens).of(messages)


def system_parts(message: Message) -> list[dict[str, str]]:
    """Return what a message adds to the system prompt, which stands apart from the turns here."""
    texts = [part for part in message.content if isinstance(part, Text)] if message.role == "system" else []
    return [{"text": part.text} for part in texts]


def wire_names(tools: Sequence[Tool]) -> dict[str, str]:
    """Return the name that a request shows by the tool's own."""
    return assign_names((tool.name for tool in tools), _prefer_names)


def own_names(tools: Sequence[Tool]) -> dict[str, str]:
    """Return the tools' own names by those that `request` shows."""
    return {shown: own for own, shown in wire_names(tools).items()}


def _prefer_names(name: str) -> Sequence[str]:
    """Return the name, which begins with a letter or an underscore here."""
    return (name,) if name[0].isalpha() or name[0] == "_" else (f"_{name}",)


class _Contents:
    """The turns of one conversation. Models since Gemini 3 want signatures and ids, and take pictures in answers."""

    def __init__(self, names: Mapping[str, str], target: Target, *, opens: bool) -> None:
        version = _VERSION.search(target.model)
        self._is_third = version is not None and int(version[1]) >= 3
        self._names, self._by, self._opens = names, target.by, opens
        self._called: dict[str, _Json] = {}  # by the id of a call, what names it in its answer

    def of(self, history: Sequence[Message]) -> list[_Json]:
        turns: list[_Json] = []
        for are_answers, group in groupby(history, lambda message: message.role == "tool"):
            if are_answers:
                turns += self._answer_turns(group)
                continue
            for message in group:
                if message.role == "assistant":
                    self._add_reply(turns, list(self._reply_parts(message)))
                elif message.role == "user":
                    turns.append({"role": "user", "parts": list(map(_part, message.content))})
        return turns

    def _add_reply(self, turns: list[_Json], parts: list[_Json]) -> None:
        """Add a turn of the model where the provider wants one: after the user's, and only one."""
        if turns and turns[-1]["role"] == "model":
            turns[-1]["parts"] += parts
        else:
            turns += [{"role": "user", "parts": [{"text": OPENING}]}] if self._opens and not turns else []
            turns.append({"role": "model", "parts": parts})

    def _reply_parts(self, message: Message) -> Iterator[_Json]:
        yield from map(_part, message.content)
        unsigned = _UNSIGNED if self._is_third and not any(call.signature for call in message.calls) else ""
        for call in message.calls:
            head = {"id": call.id} if self._is_third and message.by == self._by else {}
            head["name"] = name_for(call.name, self._names, _prefer_names)
            self._called[call.id] = head
            mark = call.signature or unsigned
            yield {"functionCall": {**head, "args": dict(call.args)}} | ({"thoughtSignature": mark} if mark else {})

    def _answer_turns(self, messages: Iterator[Message]) -> Iterator[_Json]:
        """Give all answers to one reply in one turn; before Gemini 3 their pictures follow in another."""
        answers: list[_Json] = []
        beside: list[_Json] = []
        for message in messages:
            answer = {**self._called[message.call_id or ""], "response": _response(message)}
            pictures = [_part(part) for part in message.content if _is_picture(part)]
            if pictures and self._is_third:
                answer["parts"] = pictures
            elif pictures:
                beside += {"text": f"What {answer['name']} answered with:"}, *pictures
            answers.append({"functionResponse": answer})
        yield {"role": "user", "parts": answers}
        if beside:
            yield {"role": "user", "parts": beside}


def _response(message: Message) -> dict[str, str]:
    texts = [_part(part)["text"] for part in message.content if not _is_picture(part)]
    words = "\n".join(texts) if texts or not message.content else _PICTURED
    return {"error": words or error_text("")} if message.status == "error" else {"output": words}


def _is_picture(part: Part) -> bool:
    return isinstance(part, Image) and part.mime in _PICTURES


def _part(part: Part) -> _Json:
    if isinstance(part, Text):
        return {"text": part.text}
    if isinstance(part, Image):
        if part.mime in _PICTURES:
            return {"inlineData": {"mimeType": part.mime, "data": base64.b64encode(part.data).decode()}}
        return {"text": f"[{part.mime}, {len(part.data):,} bytes; this model takes PNG, JPEG and WebP]"}
    # a seal without a thought is the one on the words before it
    thought: _Json = {"text": part.text, "thought": True} if part.text else {"text": ""}
    return {**thought, "thoughtSignature": part.signature} if part.signature else thought


_MAX_ARGUMENT_CHARS = 1024 * 1024  # characters of paths and values
_MAX_PATH_STEPS = 64
_EACH = 16  # characters that a piece costs however short it is
_STEP = regex(r"""\.([^.\[\]'"\s]+)|\[([0-9]{1,6})\]|\['((?:[^'\\]|\\.)*)'\]|\["((?:[^"\\]|\\.)*)"\]""")
_ESCAPED = regex(r"\\(.)")
_VALUES: Mapping[str, tuple[type, ...]] = {"stringValue": (str,), "numberValue": (int, float), "boolValue": (bool,)}

_Path = tuple[str | int, ...]


class _ArgumentPieces:
    """Puts arguments together. `flaw` says why that cannot be done; then the call must not run."""

    def __init__(self) -> None:
        self.flaw = ""
        self._args: dict[str, Any] = {}
        self._size = 0
        self._open: _Path | None = None  # where a text goes on
        self._text: list[str] = []

    def add(self, called: Mapping[str, Any]) -> None:
        """Take what the next chunk says of the call."""
        for name, value in as_object(called.get("args")).items():
            self._put((name,), value)
        for piece in map(as_object, as_list(called.get("partialArgs"))):
            if not self.flaw:
                self._take(piece)

    def whole(self) -> dict[str, Any]:
        """Return the arguments; a text that was not finished is a flaw."""
        if self._open is not None:
            self._spoil(f"the text at {_format_path(self._open)} was not finished")
        return self._args

    def _take(self, piece: Mapping[str, Any]) -> None:
        written = as_text(piece.get("jsonPath"))
        path, value = _parse_path(written), _value(piece)
        self._size += _EACH + len(written) + len(as_text(value))
        if path is None:
            return self._spoil(f"the place {written[:80]!r} is none in an object")
        if self._size > _MAX_ARGUMENT_CHARS:
            return self._spoil(f"they are longer than {_MAX_ARGUMENT_CHARS:,} characters")
        goes_on = piece.get("willContinue") is True
        if value is _NOTHING:
            if not goes_on and path == self._open:
                self._finish()
            return None
        if self._open is not None and path != self._open:
            return self._spoil(f"the text at {_format_path(self._open)} was not finished")
        if not isinstance(value, str):
            self._open = None
            return self._put(path, value)
        self._open = path
        self._text.append(value)
        return None if goes_on else self._finish()

    def _finish(self) -> None:
        path, text = self._open, "".join(self._text)
        self._open, self._text = None, []
        if path is not None:
            self._put(path, text)

    def _put(self, path: _Path, value: Any) -> None:
        """Set the value at a place, the objects and lists on the way made where they are not there."""
        place: Any = self._args
        for step, following in zip(path, (*path[1:], None), strict=True):
            inner = value if following is None else [] if isinstance(following, int) else {}
            if isinstance(place, dict) and isinstance(step, str):
                if following is None or step not in place:
                    place[step] = inner
                place = place[step]
            elif isinstance(place, list) and isinstance(step, int) and step <= len(place):
                if step == len(place):
                    place.append(inner)
                elif following is None:
                    place[step] = inner
                place = place[step]
            else:
                return self._spoil(f"the place {_format_path(path)} does not go with the others")
        return None

    def _spoil(self, why: str) -> None:
        self.flaw = self.flaw or f"the arguments came in pieces that do not fit together: {why}; make the call again"


_NOTHING: Any = object()


def _value(piece: Mapping[str, Any]) -> Any:
    """Return the value that a piece holds, if it holds one."""
    for field, kinds in _VALUES.items():
        if type(piece.get(field)) in kinds:
            return piece[field]
    return None if "nullValue" in piece else _NOTHING


def _parse_path(written: str) -> _Path | None:
    """Return the steps of a path such as `$.points[0].x`, None for anything else."""
    if not written.startswith("$.") and not written.startswith("$["):
        return None
    steps: list[str | int] = []
    at = 1
    while at < len(written):
        step = _STEP.match(written, at)
        if step is None or len(steps) == _MAX_PATH_STEPS:
            return None
        name, index, *quoted = step.groups()
        steps.append(
            name if name is not None else int(index) if index else _ESCAPED.sub(r"\1", "".join(filter(None, quoted)))
        )
        at = step.end()
    return tuple(steps)


def _format_path(path: _Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)[:80].lstrip(".")


_FINISHES: Mapping[str, Finish] = {"STOP": "stop", "MAX_TOKENS": "length"}
_REFUSED = frozenset(
    [
        "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION",
    ]
)  # fmt: skip
_MAX_CALLS = 1_000  # calls; a reply with far fewer is stopped


class ReplyStream(ReplyReader):
    """Reads one streamed reply, chunk by chunk."""

    def __init__(self, target: Target, names: Mapping[str, str] = {}) -> None:
        super().__init__(target, names)
        self._given: list[tuple[str, str]] = []
        self._pieces: _ArgumentPieces | None = None  # of the last call, while it is not finished
        self._reason = self._why = self._blocked = ""

    @property
    def given(self) -> Sequence[tuple[str, str]]:
        """The id and the name of every call so far, as the provider wrote them."""
        return self._given

    def feed(self, chunk: Any) -> list[ReplyEvent]:
        frame = as_object(chunk)
        if frame.get("usageMetadata"):
            self._reply.use(_usage(as_object(frame["usageMetadata"])))
        if frame.get("error"):
            self._error = self._error or provider_error(frame["error"])
        feedback = as_object(frame.get("promptFeedback"))
        if reason := as_text(feedback.get("blockReason")):
            self._blocked = _explain(reason, feedback.get("blockReasonMessage"))
        candidate = as_object(next(iter(as_list(frame.get("candidates"))), None))
        events: list[ReplyEvent] = []
        for part in as_list(as_object(candidate.get("content")).get("parts")):
            events += self._part(as_object(part))
        if reason := as_text(candidate.get("finishReason")):
            self._reason, self._why = reason, _explain(reason, candidate.get("finishMessage"))
        return events

    def end(self) -> Replied:
        self._cut_call()
        if self._error:
            return self._reply.end("error", self._error)
        if self._blocked:
            return self._reply.end("refused", f"the provider refused the conversation: {self._blocked}")
        if not self._reason:
            return self._reply.end("error", BROKE_OFF)
        if self._reason in _FINISHES:
            return self._reply.end(_FINISHES[self._reason])
        if self._reason in _REFUSED:
            return self._reply.end("refused", f"the provider refused to let the model go on: {self._why}")
        return self._reply.end("error", f"the provider broke the reply off: {self._why}")

    def _part(self, part: Mapping[str, Any]) -> list[ReplyEvent]:
        mark, text = as_text(part.get("thoughtSignature")), as_text(part.get("text"))
        if isinstance(part.get("functionCall"), Mapping) and (part["functionCall"] or self._pieces):
            return self._call(part["functionCall"], mark)
        if part.get("thought") is True:
            return self._reply.thinking(text, mark)
        # the seal on words is kept as a thought without words, which goes back in the same place
        return [*self._reply.text(text), *self._reply.thinking("", mark)]

    def _call(self, called: Mapping[str, Any], mark: str) -> list[ReplyEvent]:
        """Take a call, or the next piece of one: what says no other id and no other name goes on with it."""
        id, name = as_text(called.get("id")), as_text(called.get("name"))
        goes_on = called.get("willContinue") is True
        if self._pieces and not (id in ("", self._given[-1][0]) and name in ("", self._given[-1][1])):
            self._cut_call()
        if self._pieces is None:
            if len(self._given) == _MAX_CALLS:
                return []
            self._given.append((id, name))
            if not goes_on and "partialArgs" not in called:
                args = dict(as_object(called.get("args")))
                return self._reply.call(len(self._given), id=id, name=name, args=args, mark=mark)
            self._pieces = _ArgumentPieces()
        pieces, slot = self._pieces, len(self._given)
        pieces.add(called)
        if goes_on:
            return self._reply.call(slot, id=id, name=name, mark=mark)
        self._pieces = None
        events = self._reply.call(slot, id=id, name=name, args=pieces.whole(), mark=mark)
        self._reply.spoil(slot, pieces.flaw)
        return events

    def _cut_call(self) -> None:
        if self._pieces:
            self._reply.spoil(len(self._given), "the arguments broke off before their end; make the call again")
            self._pieces = None


read_reply = ReplyStream.read_whole


def _explain(reason: str, message: Any) -> str:
    return error_text(f"{reason}, {as_text(message)}" if as_text(message) else reason)


def _usage(usage: Mapping[str, Any]) -> Usage:
    return Usage(
        input=as_count(usage.get("promptTokenCount")) + as_count(usage.get("toolUsePromptTokenCount")),
        output=as_count(usage.get("candidatesTokenCount")) + as_count(usage.get("thoughtsTokenCount")),
        cached=as_count(usage.get("cachedContentTokenCount")),
    )
