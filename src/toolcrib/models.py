"""Models: the port that one of your own implements, and tools and conversations as each provider spells them.

declare(tool, "gemini")      # the JSON that provider takes
losses(tool, "gemini")       # what it cannot express
openai.request(messages, tools, Target(api="openai"))
"""

from typing import TYPE_CHECKING

from . import _serve

if TYPE_CHECKING:
    from .adapter import PROVIDERS, anthropic, declare, gemini, losses, openai, responses
    from .adapter.cards import Target
    from .define.model import Choice, Effort, History, Model, ModelCard, Price, Request, no_requests

_HOMES = {
    "adapter": "PROVIDERS anthropic declare gemini losses openai responses",
    "adapter.cards": "Target",
    "define.model": "Choice Effort History Model ModelCard Price Request no_requests",
}

__all__ = [
    "PROVIDERS", "Choice", "Effort", "History", "Model", "ModelCard", "Price", "Request", "Target", "anthropic",
    "declare", "gemini", "losses", "no_requests", "openai", "responses",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = _serve(__name__, _HOMES)
