"""Tools, conversations and replies as Gemini spells them."""

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from toolcrib.define.message import Message, Part
from toolcrib.define.result import Image, Text
from toolcrib.define.tool import Tool

from .aliases import shown_to
from .conversation import prepared
from .gemini_stream import Chunks, reply_from
from .spelling import spelled, spelling
from .target import Target
from .trim import error_text
from .wire import whole

__all__ = [
    "Chunks", "declare", "declared", "own_names", "reply_from", "request", "shown_names", "system_parts", "turns",
]  # fmt: skip

# Gemini 3 refuses a call without a signature; this stands for the one that another model did not give.
_UNSIGNED = "skip_thought_signature_validator"
_OPENING = "(The conversation begins with the reply below.)"
_PICTURED = "(The answer is the picture that comes with it.)"
_PICTURES = frozenset({"image/png", "image/jpeg", "image/webp"})
_VERSION = re.compile(r"gemini-(\d{1,3})")

_Json = dict[str, Any]


def declare(tool: Tool, *, model: str = "") -> dict[str, Any]:
    """Return the tool as a function declaration; one without parameters has no schema at all."""
    declared: dict[str, Any] = {"name": _wishes(tool.name)[0], "description": whole(tool.description)}
    parameters = shown_to(model, tool, "gemini")
    return {**declared, "parameters": parameters} if parameters["properties"] else declared


def request(messages: Sequence[Message], tools: Sequence[Tool], target: Target) -> dict[str, Any]:
    """Return `systemInstruction`, `contents` and `tools` of a request, without the first and the last where empty."""
    history = prepared(messages, target)
    system = [part for message in history for part in system_parts(message)]
    body: dict[str, Any] = {"systemInstruction": {"parts": system}} if system else {}
    body["contents"] = turns(history, shown_names(tools), target)
    if tools:
        body["tools"] = declared(tools, target)
    return body


def declared(tools: Sequence[Tool], target: Target) -> list[dict[str, Any]]:
    """Return the tools that a request offers, under the names it shows."""
    names = shown_names(tools)
    offered = [{**declare(tool, model=target.model), "name": names[tool.name]} for tool in tools]
    return [{"functionDeclarations": offered}] if offered else []


def turns(
    messages: Sequence[Message], names: Mapping[str, str], target: Target, *, opens: bool = True
) -> list[dict[str, Any]]:
    """Return the turns; where they do not open the conversation, a user's turn stands before them."""
    return _Contents(names, target, opens=opens).of(messages)


def system_parts(message: Message) -> list[dict[str, str]]:
    """Return what a message adds to the system prompt, which stands apart from the turns here."""
    return [{"text": part.text} for part in _texts(message)] if message.role == "system" else []


def shown_names(tools: Sequence[Tool]) -> dict[str, str]:
    """Return the name that a request shows by the tool's own."""
    return spelled((tool.name for tool in tools), _wishes)


def own_names(tools: Sequence[Tool]) -> dict[str, str]:
    """Return the tools' own names by those that `request` shows."""
    return {shown: own for own, shown in shown_names(tools).items()}


def _wishes(name: str) -> Sequence[str]:
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
                turns += self._answered(group)
                continue
            for message in group:
                if message.role == "assistant":
                    self._add_reply(turns, list(self._replied(message)))
                elif message.role == "user":
                    turns.append({"role": "user", "parts": list(map(_part, message.content))})
        return turns

    def _add_reply(self, turns: list[_Json], parts: list[_Json]) -> None:
        """Add a turn of the model where the provider wants one: after the user's, and only one."""
        if turns and turns[-1]["role"] == "model":
            turns[-1]["parts"] += parts
        else:
            turns += [{"role": "user", "parts": [{"text": _OPENING}]}] if self._opens and not turns else []
            turns.append({"role": "model", "parts": parts})

    def _replied(self, message: Message) -> Iterator[_Json]:
        yield from map(_part, message.content)
        unsigned = _UNSIGNED if self._is_third and not any(call.mark for call in message.calls) else ""
        for call in message.calls:
            said = {"id": call.id} if self._is_third and message.by == self._by else {}
            said["name"] = spelling(call.name, self._names, _wishes)
            self._called[call.id] = said
            mark = call.mark or unsigned
            yield {"functionCall": {**said, "args": dict(call.args)}} | ({"thoughtSignature": mark} if mark else {})

    def _answered(self, messages: Iterator[Message]) -> Iterator[_Json]:
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
    said = [_part(part)["text"] for part in message.content if not _is_picture(part)]
    words = "\n".join(said) if said or not message.content else _PICTURED
    return {"error": words or error_text("")} if message.status == "error" else {"output": words}


def _texts(message: Message) -> Iterator[Text]:
    return (part for part in message.content if isinstance(part, Text))


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
    return {**thought, "thoughtSignature": part.mark} if part.mark else thought
