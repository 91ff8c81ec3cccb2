"""How the names of tools are spelled on a wire: as its provider likes them, and never two under one spelling."""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import lru_cache
from typing import Any

from toolcrib.define.names import canonical
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import Tool

from .forms import Form, convert_schema

# How a provider would like a name to be spelled, the dearest wish first; never empty.
NamePreference = Callable[[str], Sequence[str]]


def assign_names(names: Iterable[str], wishes: NamePreference) -> dict[str, str]:
    """Return the spelling of every name. A name that stays as it is goes first, otherwise who asks first."""
    known = list(dict.fromkeys(names))
    spellings = {name: name for name in known if wishes(name)[0] == name}
    taken = set(spellings)
    for name in known:
        if name not in spellings:
            spellings[name] = _first_free(wishes(name), taken)
            taken.add(spellings[name])
    return {name: spellings[name] for name in known}


def name_for(name: str, spellings: Mapping[str, str], wishes: NamePreference) -> str:
    """Return the spelling of a name from the past: of a tool that may be gone, and must not pass for another."""
    known = spellings.get(name) or spellings.get(canonical(name) or "")
    return known or _first_free(wishes(name), set(spellings.values()))


def _first_free(wished: Sequence[str], taken: Set[str]) -> str:
    numbered = (f"{wished[-1]}_{number}" for number in range(2, len(taken) + 3))
    return next(each for each in (*wished, *numbered) if each not in taken)


_THEIRS = (
    "AskUserQuestion", "Bash", "Edit", "EnterPlanMode", "ExitPlanMode", "Glob", "Grep", "KillShell", "NotebookEdit",
    "Read", "Skill", "Task", "TaskOutput", "TodoWrite", "WebFetch", "WebSearch", "Write",
)  # fmt: skip
_BY_LETTERS = {name.lower(): name for name in _THEIRS} | {"exec": "Bash", "find": "Glob"}


def claude_names(name: str) -> Sequence[str]:
    """Return the name that Claude Code has for such a tool, if it has one, then the tool's own."""
    theirs = _BY_LETTERS.get(name.lower().replace("_", "").replace("-", ""))
    return (theirs, name) if theirs else (name,)


# Words that a provider's or a model's name is recognised by, and the spellings its models know best.
_HABITS: Mapping[tuple[str, ...], frozenset[str]] = {
    ("anthropic", "claude"): frozenset({"file_path", "old_string", "new_string", "replace_all"}),
}
_CACHED_SCHEMAS = 1024  # renamed schemas, the least used forgotten first


def parameter_names(tool: Tool, family: str) -> dict[str, str]:
    """Return the parameters that a model of this family sees under another name: its own name to the one shown.

    `family` is the name of a provider or of a model, as far as it is known: `anthropic`, `openrouter/claude-x`.
    """
    if not tool.aliases:
        return {}
    name = family.lower()
    known = next((habits for words, habits in _HABITS.items() if any(word in name for word in words)), frozenset())
    seen: dict[str, str] = {}
    for other, own in tool.aliases.items():
        if other in known:
            seen.setdefault(own, other)
    return seen


def schema_for(family: str, tool: Tool, form: Form) -> dict[str, Any]:
    """Return the tool's schema in a form, spelled for the family. It is shared: who wants to change it copies it."""
    names = parameter_names(tool, family)
    return _cached_schema(tool.shape, form, tuple(names.items())) if names else convert_schema(tool.shape, form).schema


@lru_cache(maxsize=_CACHED_SCHEMAS)
def _cached_schema(shape: Shape, form: Form, names: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    return rename_parameters(convert_schema(shape, form).schema, dict(names))


def rename_parameters(schema: dict[str, Any], wished: Mapping[str, str]) -> dict[str, Any]:
    """Return a declared schema with the parameters under the wished names, in the same order."""
    properties = schema.get("properties")
    if not wished or not isinstance(properties, Mapping):
        return schema
    names = {own: other for own, other in wished.items() if own in properties and other not in properties}
    renamed = {**schema, "properties": {names.get(name, name): inner for name, inner in properties.items()}}
    for keyword in ("required", "propertyOrdering"):
        if isinstance(schema.get(keyword), list):
            renamed[keyword] = [names.get(name, name) for name in schema[keyword]]
    return renamed
