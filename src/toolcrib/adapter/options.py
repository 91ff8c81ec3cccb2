"""What a request asks besides its conversation and its tools, in the words of each API."""

from collections.abc import Mapping, Sequence
from typing import Any

from toolcrib.define.model import Request

from .caching import cache_key
from .effort import claude_can_be_forced, claude_thinking, gemini_thinking, gpt_effort, gpt_thinks
from .target import Target

__all__ = ["options_of"]

_Json = Mapping[str, Any]

_UNKNOWN_LONGEST = 8_192  # every Claude since 3.5 says that much
_DEFAULT_LONGEST = 32_000  # a provider sets this much of the window aside
_LEAST_LONGEST = 16  # below it OpenAI's responses refuse
_THOUGHTS = ("thinking", "redacted_thinking")


def options_of(request: Request, target: Target, turns: Sequence[_Json]) -> dict[str, Any]:
    """Return the fields of a streaming request that are neither turns, nor system prompt, nor tools.

    `turns` are the last ones of the conversation.
    """
    match target.api:
        case "openai":
            return _openai(request, target)
        case "responses":
            return _responses(request, target)
        case "anthropic":
            return _anthropic(request, target, turns)
        case "gemini":
            return _gemini(request, target)


def _openai(request: Request, target: Target) -> dict[str, Any]:
    made: dict[str, Any] = {"model": target.model, "stream": True, "stream_options": {"include_usage": True}}
    is_own = target.provider == "openai"
    if is_own:
        made |= {"store": False} | _kept(request, target)
    if longest := _bounded(request, target):
        made["max_completion_tokens" if is_own else "max_tokens"] = longest
    if request.tools and request.choice != "auto":
        made["tool_choice"] = request.choice
    if target.provider == "openrouter" and request.effort:
        made["reasoning"] = {"enabled": False} if request.effort == "off" else {"effort": request.effort}
    elif effort := gpt_effort(target.model, request.effort):
        made["reasoning_effort"] = effort
    return made


def _responses(request: Request, target: Target) -> dict[str, Any]:
    made: dict[str, Any] = {"model": target.model, "stream": True, "store": False} | _kept(request, target)
    if longest := _bounded(request, target):
        made["max_output_tokens"] = max(longest, _LEAST_LONGEST)
    if request.tools and request.choice != "auto":
        made["tool_choice"] = request.choice
    if effort := gpt_effort(target.model, request.effort):
        made["reasoning"] = {"effort": effort, "summary": "auto"}
    if gpt_thinks(target.model):
        made["include"] = ["reasoning.encrypted_content"]  # nothing is stored, so thoughts go back with the next one
    return made


def _anthropic(request: Request, target: Target, turns: Sequence[_Json]) -> dict[str, Any]:
    longest = _bounded(request, target) or min(target.longest or _UNKNOWN_LONGEST, _DEFAULT_LONGEST)
    made: dict[str, Any] = {"model": target.model, "stream": True, "max_tokens": longest}
    is_forced = bool(request.tools) and request.choice == "required" and claude_can_be_forced(target.model)
    # who must call a tool cannot think first
    thinking = claude_thinking(target.model, "off" if is_forced else request.effort, longest)
    if thinking.get("thinking", {}).get("type") != "enabled" or _may_think(turns):
        made |= thinking
    if is_forced:
        made["tool_choice"] = {"type": "any"}
    elif request.tools and request.choice == "none":
        made["tool_choice"] = {"type": "none"}
    return made


def _gemini(request: Request, target: Target) -> dict[str, Any]:
    made: dict[str, Any] = {}
    config: dict[str, Any] = {}
    if longest := _bounded(request, target):
        config["maxOutputTokens"] = longest
    if thinking := gemini_thinking(target.model, request.effort):
        config["thinkingConfig"] = thinking
    if config:
        made["generationConfig"] = config
    if request.tools and request.choice != "auto":
        mode = "ANY" if request.choice == "required" else "NONE"
        made["toolConfig"] = {"functionCallingConfig": {"mode": mode}}
    return made


def _bounded(request: Request, target: Target) -> int:
    """Return how long the reply may be, never longer than the model can; 0 for what the provider thinks right."""
    return min(request.longest, target.longest) if target.longest else request.longest


def _kept(request: Request, target: Target) -> dict[str, Any]:
    key = cache_key(request.session, target.keep)
    made = {"prompt_cache_key": key} if key else {}
    return {**made, "prompt_cache_retention": "24h"} if target.keep == "long" and target.provider == "openai" else made


def _may_think(turns: Sequence[_Json]) -> bool:
    """Tell whether thinking by tokens can be asked for: not amid calls that were made without a thought before them."""
    if len(turns) < 2 or turns[-1]["role"] != "user" or isinstance(turns[-1]["content"], str):
        return True
    if all(block["type"] != "tool_result" for block in turns[-1]["content"]):
        return True
    return turns[-2]["content"][0]["type"] in _THOUGHTS
