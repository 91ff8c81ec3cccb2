"""How hard a model should think, in the words that it takes: patterns of models, and what each understands."""

import re
from collections.abc import Mapping
from typing import Any

from toolcrib.define.model import Effort

__all__ = ["claude_can_be_forced", "claude_thinking", "gemini_thinking", "gpt_effort", "gpt_thinks"]

_Version = tuple[int, int]

_GPT = re.compile(r"gpt-(\d{1,2})(?:\.(\d{1,2}))?(?![\d.])")
_O_SERIES = re.compile(r"(?:^|/)o\d(?:-|$)")
# family and version stand in either order: claude-3-7-sonnet-20250219, claude-opus-4-6, anthropic/claude-opus-4.6
_CLAUDE = re.compile(r"claude-(?:([a-z]+)-)?(\d)(?:[-.](\d{1,2})(?!\d))?(?:-([a-z]+))?")
_GEMINI = re.compile(r"gemini-(\d{1,2})(?:\.(\d{1,2}))?")

_BUDGETS: Mapping[Effort, int] = {"low": 2_048, "medium": 8_192, "high": 16_384}
_LEAST_BUDGET = 1_024  # Anthropic takes no smaller one, and the reply needs room beside it
_GEMINI_BUDGETS: Mapping[Effort, int] = {"low": 2_048, "medium": 8_192, "high": 24_576}
_GEMINI_LEAST = 128  # what 2.5 Pro thinks at least


def gpt_thinks(model: str) -> bool:
    """Tell whether a model of OpenAI's thinks before it answers."""
    name = model.lower()
    version = _gpt_version(name)
    return bool(_O_SERIES.search(name)) or "gpt-oss" in name or (version >= (5, 0) and "chat" not in name)


def gpt_effort(model: str, effort: Effort) -> str:
    """Return the word for `effort` that a model of OpenAI's takes, "" when it takes none or nothing is asked."""
    name = model.lower()
    if not effort or not gpt_thinks(name) or "-pro" in name:
        return ""
    if effort != "off":
        return effort
    version = _gpt_version(name)
    if version < (5, 0) or "codex" in name:
        return "low"  # these always think
    return "minimal" if version == (5, 0) else "none"


def claude_thinking(model: str, effort: Effort, longest: int) -> dict[str, Any]:
    """Return the fields that ask a Claude for `effort`; `longest` bounds thoughts and words together.

    Since 4.6 a model decides by itself how much it thinks, and takes a word; before, it takes a number of tokens.
    """
    family, version = _claude(model)
    if version >= (5, 0):
        if effort == "off" and (family == "haiku" or (version == (5, 0) and family in ("opus", "sonnet"))):
            return {"thinking": {"type": "disabled"}}
        word = "low" if effort == "off" else effort  # the others always think
        # they think unasked, and keep it to themselves unless they are told to show it
        shown: dict[str, Any] = {"thinking": {"type": "adaptive", "display": "summarized"}}
        return {**shown, "output_config": {"effort": word}} if word else shown
    if effort in ("", "off") or version < (3, 7):
        return {}
    if version >= (4, 6):
        return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": effort}}
    budget = min(_BUDGETS[effort], longest - _LEAST_BUDGET)
    return {"thinking": {"type": "enabled", "budget_tokens": budget}} if budget >= _LEAST_BUDGET else {}


def claude_can_be_forced(model: str) -> bool:
    """Tell whether a Claude can be made to call a tool; those that always think refuse it."""
    family, version = _claude(model)
    return version < (5, 0) or (version == (5, 0) and family in ("opus", "sonnet"))


def gemini_thinking(model: str, effort: Effort) -> dict[str, Any]:
    """Return the `thinkingConfig` for `effort`, empty when the model takes none or nothing is asked."""
    found = _GEMINI.search(model.lower())
    version = (int(found[1]), int(found[2] or 0)) if found else (0, 0)
    is_pro = "pro" in model.lower()
    if not effort or version < (2, 5):
        return {}
    if version < (3, 0):
        if effort == "off":
            return {"thinkingBudget": _GEMINI_LEAST if is_pro else 0}
        return {"includeThoughts": True, "thinkingBudget": _GEMINI_BUDGETS[effort]}
    if effort == "off":
        return {"thinkingLevel": "low" if is_pro or version > (3, 6) else "minimal"}
    level = "high" if effort == "medium" and is_pro and version == (3, 0) else effort  # it has no step between
    return {"includeThoughts": True, "thinkingLevel": level}


def _gpt_version(name: str) -> _Version:
    found = _GPT.search(name)
    return (int(found[1]), int(found[2] or 0)) if found else (0, 0)


def _claude(model: str) -> tuple[str, _Version]:
    found = _CLAUDE.search(model.lower())
    if not found:
        return "", (0, 0)
    return found[1] or found[4] or "", (int(found[2]), int(found[3] or 0))
