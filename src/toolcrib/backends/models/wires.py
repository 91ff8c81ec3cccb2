"""The four APIs as far as HTTP knows them: where they are asked, how a key is shown, when a reply is over."""

from collections.abc import Callable, Mapping
from typing import Any, Literal
from urllib.parse import quote

from toolcrib.adapter import anthropic, gemini, openai, responses
from toolcrib.adapter.cards import Api, Target
from toolcrib.adapter.reply import ReplyReader
from toolcrib.adapter.wire import as_list, as_object, as_text
from toolcrib.define.event import Replied
from toolcrib.lazy import dataclass, field

from .known import is_oauth_token

# How far a reply has come: it goes on; the reason of its end is known, and only counts may follow; nothing follows.
Stage = Literal["open", "closing", "over"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """One API: `path` beneath the base URL for a model, the headers that carry a key, and how its replies are read."""

    path: Callable[[str], str]
    key_headers: Callable[[str], Mapping[str, str]]
    chunks: Callable[[Target, Mapping[str, str]], ReplyReader]
    whole: Callable[[Any, Target, Mapping[str, str]], Replied]
    stage: Callable[[Mapping[str, Any]], Stage]
    headers: Mapping[str, str] = field(default_factory=dict)


def _bearer(key: str) -> Mapping[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _gemini_path(model: str) -> str:
    named = model if "/" in model else f"models/{model}"
    return f"/{quote(named)}:streamGenerateContent?alt=sse"


def _chat_stage(chunk: Mapping[str, Any]) -> Stage:
    if chunk.get("error"):
        return "over"
    is_ended = any(as_object(choice).get("finish_reason") for choice in as_list(chunk.get("choices"))[:1])
    return "closing" if is_ended else "open"


_RESPONSE_ENDS = responses.ENDS | {"error"}


def _anthropic_stage(event: Mapping[str, Any]) -> Stage:
    match as_text(event.get("type")):
        case "error" | "message_stop":
            return "over"
        case "message_delta" if as_object(event.get("delta")).get("stop_reason"):
            return "closing"
    return "open"


def _gemini_stage(chunk: Mapping[str, Any]) -> Stage:
    if chunk.get("error"):
        return "over"
    is_ended = any(as_object(candidate).get("finishReason") for candidate in as_list(chunk.get("candidates"))[:1])
    return "closing" if is_ended or as_object(chunk.get("promptFeedback")).get("blockReason") else "open"


def _anthropic_key(key: str) -> Mapping[str, str]:
    return {**_bearer(key), "anthropic-beta": "oauth-2025-04-20"} if is_oauth_token(key) else {"x-api-key": key}


WIRES: Mapping[Api, Wire] = {
    "openai": Wire(
        path=lambda model: "/chat/completions",
        key_headers=_bearer,
        chunks=openai.ReplyStream,
        whole=openai.read_reply,
        stage=_chat_stage,
    ),
    "responses": Wire(
        path=lambda model: "/responses",
        key_headers=_bearer,
        chunks=responses.ReplyStream,
        whole=responses.read_reply,
        stage=lambda event: "over" if as_text(event.get("type")) in _RESPONSE_ENDS else "open",
    ),
    "anthropic": Wire(
        path=lambda model: "/messages",
        key_headers=_anthropic_key,
        chunks=anthropic.ReplyStream,
        whole=anthropic.read_reply,
        stage=_anthropic_stage,
        headers={"anthropic-version": "2023-06-01"},
    ),
    "gemini": Wire(
        path=_gemini_path,
        key_headers=lambda key: {"x-goog-api-key": key},
        chunks=gemini.ReplyStream,
        whole=gemini.read_reply,
        stage=_gemini_stage,
    ),
}
