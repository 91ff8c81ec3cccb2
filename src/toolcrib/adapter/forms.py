"""What a provider is shown of a tool's arguments: one of four forms of the schema, remembered for each shape."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Literal

from toolcrib.define.shape import Shape

from .gemini_schema import gemini_form
from .normalize import Shown, carried, normalize
from .normalize.words import plain
from .strict import strict_form

__all__ = ["Form", "can_be_strict", "lost", "shown"]

Form = Literal["whole", "portable", "gemini", "strict"]

_REMEMBERED = 4096  # forms of shapes, the least used forgotten first
_LEVELS = 100  # of nested values in a schema that is shown whole
_CLOSED_OUT = frozenset({"additionalProperties", "patternProperties", "depth"})


def shown(shape: Shape, form: Form) -> dict[str, Any]:
    """Return the schema in that form. It is made once and shared by everybody: who wants to change it copies it."""
    return _made(shape, form).schema


def lost(shape: Shape, form: Form) -> list[str]:
    """Return what that form does not say of the arguments, one clause each."""
    return _made(shape, form).clauses


def can_be_strict(shape: Shape) -> bool:
    """Tell whether the strict form has room for every argument: a map of any names has none in it."""
    return _CLOSED_OUT.isdisjoint(keyword for _, keyword in _made(shape, "strict").losses)


def _whole(schema: Any) -> Shown:
    """Return the schema as it is, if its root says that it is an object; a client of MCP takes the rest as it comes."""
    copy = plain(schema, _LEVELS)
    is_object = isinstance(copy, dict) and copy.get("type") == "object"
    return Shown(carried(copy)) if is_object else normalize(schema)


_FORMS: Mapping[Form, Callable[[Any], Shown]] = {
    "whole": _whole,
    "portable": normalize,
    "gemini": gemini_form,
    "strict": strict_form,
}


@lru_cache(maxsize=_REMEMBERED)
def _made(shape: Shape, form: Form) -> Shown:
    return _FORMS[form](shape.schema)
