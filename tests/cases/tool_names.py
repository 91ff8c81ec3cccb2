"""gemini-tool-names on define/names.py; names from MCP servers come later."""

import re
from collections.abc import Callable
from typing import Any

from toolcrib.define.names import ALIASES, canonical, nearest

from .load import Case
from .outcome import Same

Json = dict[str, Any]


def _is_name(args: Json) -> Json:
    """Tell whether a rule may hold this, as a name and where globs are allowed."""
    name = args["name"]
    return {"plain": canonical(name) is not None, "withWildcards": canonical(name.replace("*", "x")) is not None}


def _aliases(args: Json) -> list[str]:
    own = canonical(args["name"])
    return [args["name"], *(other for other, name in ALIASES.items() if name == own and other != args["name"])]


def _same_suggestion(case: Case, ours: Any) -> str:
    """Compare who was meant; they name the three nearest however far off, we name those that look like it."""
    theirs = re.findall(r'"([^"]*)"', case.expected)
    strangers = [name for name in ours if name not in theirs]
    return f"they do not suggest {strangers}" if strangers else ""


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "gemini.getToolAliases": _aliases,
    "gemini.getToolSuggestion": lambda args: nearest(args["unknown"], args["known"], 3),
    "gemini.isValidToolName": _is_name,
}
SAME: dict[str, Same] = {"gemini.getToolSuggestion": _same_suggestion}
