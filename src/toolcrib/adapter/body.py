"""The body of a request: the bytes that go to a provider for one streamed reply."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from toolcrib.define.message import Message
from toolcrib.define.model import Request
from toolcrib.define.result import Text
from toolcrib.define.tool import Tool

from . import anthropic, gemini, openai, responses
from .caching import marked, marked_turns
from .conversation import prepared
from .options import options_of
from .target import Api, Target
from .written import packed, told

__all__ = ["body_of", "names_of"]

_TURNS: Mapping[Api, bytes] = {
    "openai": b"messages",
    "responses": b"input",
    "anthropic": b"messages",
    "gemini": b"contents",
}
_DECLARED = {
    "openai": openai.declared,
    "responses": responses.declared,
    "anthropic": anthropic.declared,
    "gemini": gemini.declared,
}
_REMEMBERED = 64  # belts, the least used forgotten first


def body_of(request: Request, target: Target) -> bytes:
    """Return the whole JSON body of a streaming request; it costs what is new in the conversation, and copying."""
    tools = tuple(request.tools)
    said = told(request.history, target, _shown(tools, target))
    prompt = prepared([Message(role="system", content=(Text(request.system),))], target) if request.system else []
    fields = options_of(request, target, said.turns) | _system([*prompt, *said.system], target)
    turns = marked_turns(said.turns, target.keep) if target.api == "anthropic" else said.turns
    written: list[bytes | bytearray] = [*map(packed, _opening(prompt, target)), said.done, *map(packed, turns)]
    # joined once, at the end: the turns that are done are most of the bytes, and are copied no more often than needed
    pieces: list[bytes | bytearray] = [packed(fields)[:-1], b',"' if fields else b'"', _TURNS[target.api], b'":[']
    for at, piece in enumerate(piece for piece in written if piece):
        if at:
            pieces.append(b",")
        pieces.append(piece)
    pieces.append(b"]")
    if tools:
        pieces += b',"tools":', _offered(tools, target)
    return b"".join([*pieces, b"}"])


def names_of(request: Request, target: Target) -> Mapping[str, str]:
    """Return the tools' own names by those that the model is shown, for whoever reads its calls."""
    shown = _shown(tuple(request.tools), target) or {tool.name: tool.name for tool in request.tools}
    return {other: own for own, other in shown.items()}


@lru_cache(maxsize=_REMEMBERED)
def _shown(tools: tuple[Tool, ...], target: Target) -> Mapping[str, str]:
    """Return the name that the model is shown by the tool's own; nothing where every tool goes by its own."""
    if target.api == "anthropic":
        return anthropic.shown_names(tools, target)
    return gemini.shown_names(tools) if target.api == "gemini" else {}


@lru_cache(maxsize=_REMEMBERED)
def _offered(tools: tuple[Tool, ...], target: Target) -> bytes:
    declared = _DECLARED[target.api](tools, target)
    return packed(marked(declared, target.keep) if target.api == "anthropic" else declared)


def _opening(prompt: Sequence[Message], target: Target) -> list[dict[str, Any]]:
    """Return the turn that says the system prompt, for those who take it as one."""
    if target.api == "openai":
        return openai.turns(prompt, {}, target)
    return responses.turns(prompt, {}, target) if target.api == "responses" else []


def _system(messages: Sequence[Message], target: Target) -> dict[str, Any]:
    """Return the system prompt, for those who take it apart from the turns."""
    if target.api == "anthropic":
        text = "\n\n".join(filter(None, map(anthropic.system_text, messages)))
        return {"system": marked([{"type": "text", "text": text}], target.keep)} if text else {}
    parts = [part for message in messages for part in gemini.system_parts(message)] if target.api == "gemini" else []
    return {"systemInstruction": {"parts": parts}} if parts else {}
