"""What a request asks besides its conversation and its tools, in the words of each API."""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from toolcrib.define.model import Effort, Request
from toolcrib.lazy import regex

from .cards import CacheRetention, Target

_JsonObject = Mapping[str, Any]

_MARKED_TURNS = 2
_PLAIN_KEY = regex(r"[A-Za-z0-9._-]{1,64}")


def mark_last_block(blocks: Sequence[_JsonObject], keep: CacheRetention) -> list[_JsonObject]:
    """Return the blocks with a mark on the last."""
    if keep == "none" or not blocks:
        return list(blocks)
    mark = {"type": "ephemeral", "ttl": "1h"} if keep == "long" else {"type": "ephemeral"}
    return [*blocks[:-1], {**blocks[-1], "cache_control": mark}]


def mark_turns(turns: Sequence[_JsonObject], keep: CacheRetention) -> list[_JsonObject]:
    """Return the turns with a mark at the end of the user's last two."""
    made = list(turns)
    users = [at for at, turn in enumerate(turns) if turn["role"] == "user"] if keep != "none" else []
    for at in users[-_MARKED_TURNS:]:
        content = turns[at]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        made[at] = {**turns[at], "content": mark_last_block(blocks, keep)}
    return made


_Version = tuple[int, int]

_GPT = regex(r"gpt-(\d{1,2})(?:\.(\d{1,2}))?(?![\d.])")
_O_SERIES = regex(r"(?:^|/)o\d(?:-|$)")
# family and version stand in either order: claude-3-7-sonnet-20250219, claude-opus-4-6, anthropic/claude-opus-4.6
_CLAUDE = regex(r"claude-(?:([a-z]+)-)?(\d)(?:[-.](\d{1,2})(?!\d))?(?:-([a-z]+))?")
_GEMINI = regex(r"gemini-(\d{1,2})(?:\.(\d{1,2}))?")

_BUDGETS: Mapping[Effort, int] = {"low": 2_048, "medium": 8_192, "high": 16_384}
_MIN_BUDGET = 1_024  # Anthropic takes no smaller one, and the reply needs room beside it
_GEMINI_BUDGETS: Mapping[Effort, int] = {"low": 2_048, "medium": 8_192, "high": 24_576}
_MIN_GEMINI_BUDGET = 128  # what 2.5 Pro thinks at least


def _gpt_thinks(model: str) -> bool:
    name = model.lower()
    version = _version(_GPT, name)
    return bool(_O_SERIES.search(name)) or "gpt-oss" in name or (version >= (5, 0) and "chat" not in name)


def _gpt_effort(model: str, effort: Effort) -> str:
    """Return the word for `effort` that a model of OpenAI's takes, "" when it takes none or nothing is asked."""
    name = model.lower()
    if not effort or not _gpt_thinks(name) or "-pro" in name:
        return ""
    if effort != "off":
        return effort
    version = _version(_GPT, name)
    if version < (5, 0) or "codex" in name:
        return "low"  # these always think
    return "minimal" if version == (5, 0) else "none"


def _claude_thinking(model: str, effort: Effort, max_tokens: int) -> dict[str, Any]:
    """Return the fields that ask a Claude for `effort`; `longest` bounds thoughts and words together.

    Since 4.6 a model decides by itself how much it thinks, and takes a word; before, it takes a number of tokens.
    """
    family, version = _claude(model)
    if version >= (5, 0):
        if effort == "off" and (family == "haiku" or (version == (5, 0) and family in ("opus", "sonnet"))):
            return {"thinking": {"type": "disabled"}}
        word = "low" if effort == "off" else effort  # the others always think
        # they think by default, and do not show it unless they are asked to
        shown: dict[str, Any] = {"thinking": {"type": "adaptive", "display": "summarized"}}
        return {**shown, "output_config": {"effort": word}} if word else shown
    if effort in ("", "off") or version < (3, 7):
        return {}
    if version >= (4, 6):
        return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": effort}}
    budget = min(_BUDGETS[effort], max_tokens - _MIN_BUDGET)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _MIN_BUDGET else {}


def _can_force_claude(model: str) -> bool:
    """Tell whether a Claude can be made to call a tool; those that always think refuse it."""
    family, version = _claude(model)
    return version < (5, 0) or (version == (5, 0) and family in ("opus", "sonnet"))


def _gemini_thinking(model: str, effort: Effort) -> dict[str, Any]:
    """Return the `thinkingConfig` for `effort`, empty when the model takes none or nothing is asked."""
    version = _version(_GEMINI, model.lower())
    is_pro = "pro" in model.lower()
    if not effort or version < (2, 5):
        return {}
    if version < (3, 0):
        if effort == "off":
            return {"thinkingBudget": _MIN_GEMINI_BUDGET if is_pro else 0}
        return {"includeThoughts": True, "thinkingBudget": _GEMINI_BUDGETS[effort]}
    if effort == "off":
        return {"thinkingLevel": "low" if is_pro or version > (3, 6) else "minimal"}
    level = "high" if effort == "medium" and is_pro and version == (3, 0) else effort  # it has no step between
    return {"includeThoughts": True, "thinkingLevel": level}


def _version(pattern: re.Pattern[str], name: str) -> _Version:
    found = pattern.search(name)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def _claude(model: str) -> tuple[str, _Version]:
    found = _CLAUDE.search(model.lower())
    if not found:
        return "", (0, 0)
    return found[1] or found[4] or "", (int(found[2]), int(found[3] or 0))


_UNKNOWN_MAX_TOKENS = 8_192  # every Claude since 3.5 says that much
_DEFAULT_MAX_TOKENS = 32_000  # a provider sets this much of the window aside
_MIN_OUTPUT_TOKENS = 16  # below it OpenAI's responses refuse
_THOUGHTS = ("thinking", "redacted_thinking")


def request_options(request: Request, target: Target, turns: Sequence[_JsonObject]) -> dict[str, Any]:
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
        made |= {"store": False} | _cache_fields(request, target)
    if max_tokens := _max_tokens(request, target):
        made["max_completion_tokens" if is_own else "max_tokens"] = max_tokens
    if request.tools and request.choice != "auto":
        made["tool_choice"] = request.choice
    if target.provider == "openrouter" and request.effort:
        made["reasoning"] = {"enabled": False} if request.effort == "off" else {"effort": request.effort}
    elif effort := _gpt_effort(target.model, request.effort):
        made["reasoning_effort"] = effort
    return made


def _responses(request: Request, target: Target) -> dict[str, Any]:
    made: dict[str, Any] = {"model": target.model, "stream": True, "store": False} | _cache_fields(request, target)
    if max_tokens := _max_tokens(request, target):
        made["max_output_tokens"] = max(max_tokens, _MIN_OUTPUT_TOKENS)
    if request.tools and request.choice != "auto":
        made["tool_choice"] = request.choice
    if effort := _gpt_effort(target.model, request.effort):
        made["reasoning"] = {"effort": effort, "summary": "auto"}
    if _gpt_thinks(target.model):
        made["include"] = ["reasoning.encrypted_content"]  # nothing is stored, so thoughts go back with the next one
    return made


def _anthropic(request: Request, target: Target, turns: Sequence[_JsonObject]) -> dict[str, Any]:
    max_tokens = _max_tokens(request, target) or min(target.longest or _UNKNOWN_MAX_TOKENS, _DEFAULT_MAX_TOKENS)
    made: dict[str, Any] = {"model": target.model, "stream": True, "max_tokens": max_tokens}
    is_forced = bool(request.tools) and request.choice == "required" and _can_force_claude(target.model)
    # who must call a tool cannot think first
    thinking = _claude_thinking(target.model, "off" if is_forced else request.effort, max_tokens)
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
    if max_tokens := _max_tokens(request, target):
        config["maxOutputTokens"] = max_tokens
    if thinking := _gemini_thinking(target.model, request.effort):
        config["thinkingConfig"] = thinking
    if config:
        made["generationConfig"] = config
    if request.tools and request.choice != "auto":
        mode = "ANY" if request.choice == "required" else "NONE"
        made["toolConfig"] = {"functionCallingConfig": {"mode": mode}}
    return made


def _max_tokens(request: Request, target: Target) -> int:
    """Return how long the reply may be, never longer than the model can; 0 for what the provider thinks right."""
    return min(request.longest, target.longest) if target.longest else request.longest


def _cache_fields(request: Request, target: Target) -> dict[str, Any]:
    """Return the fields that bring a conversation's requests together; what may name people is hidden."""
    session = request.session if target.keep != "none" else ""
    key = session if _PLAIN_KEY.fullmatch(session) else sha256(session.encode(errors="replace")).hexdigest()
    made = {"prompt_cache_key": key} if session else {}
    return {**made, "prompt_cache_retention": "24h"} if target.keep == "long" and target.provider == "openai" else made


def _may_think(turns: Sequence[_JsonObject]) -> bool:
    """Tell whether thinking by tokens can be asked for: not amid calls that were made without a thought before them."""
    if len(turns) < 2 or turns[-1]["role"] != "user" or isinstance(turns[-1]["content"], str):
        return True
    if all(block["type"] != "tool_result" for block in turns[-1]["content"]):
        return True
    return turns[-2]["content"][0]["type"] in _THOUGHTS
