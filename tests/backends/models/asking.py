"""Asking a provider that a test server plays."""

from collections.abc import Callable, Sequence

from toolcrib.adapter.cards import Api
from toolcrib.backends.models.http import HttpModel, Patience, model_for
from toolcrib.define.event import Replied, ReplyEvent
from toolcrib.define.message import Message
from toolcrib.define.model import History, Model, Request
from toolcrib.define.result import Text
from toolcrib.define.tool import Tool, tool

__all__ = ["KEY", "PROVIDERS", "asked_for", "ended", "heard", "model_at", "runnable"]

KEY = "sk-a-key-that-nobody-may-see"
PROVIDERS: dict[Api, str] = {
    "openai": "openai",
    "responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini": "gemini",
}


@tool(effects=set())
async def note(text: str) -> str:
    """Note a text."""
    return text


def model_at(api: Api, base_url: str, patience: Patience = Patience(), key: str = KEY) -> HttpModel:
    """Return the model of that API behind a base URL."""
    return model_for(PROVIDERS[api], "m", base_url=base_url, api_key=key, env={}, patience=patience)


def asked_for(text: str = "Note it.", tools: Sequence[Tool] = (note,)) -> Request:
    """Return a request with one message and one tool."""
    history = History([Message(role="user", content=(Text(text),))])
    return Request(history=history, tools=tools, system="Be brief.")


async def heard(model: Model, request: Request | None = None) -> tuple[Sequence[ReplyEvent], Replied]:
    """Return all that a model says to a request and its end, which comes once and last."""
    events: list[ReplyEvent] = []
    return events, await ended(model, request, events.append)


async def ended(
    model: Model, request: Request | None = None, hear: Callable[[ReplyEvent], None] = lambda event: None
) -> Replied:
    """Return how a reply ended; `hear` is told what came before."""
    ends: list[Replied] = []
    async for event in model.reply(request or asked_for()):
        assert not ends
        if isinstance(event, Replied):
            ends.append(event)
        else:
            hear(event)
    assert len(ends) == 1
    return ends[0]


def runnable(replied: Replied) -> list[str]:
    """Return the ids of the calls that may run."""
    message = replied.message
    return [call.id for call in message.calls if not call.parse_error] if message.finish == "calls" else []
