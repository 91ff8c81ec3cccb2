"""Templates of prompts: `${name}` stands for an input that was declared; any other `${...}` is text like the rest."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic_core import to_jsonable_python

__all__ = ["as_text", "fill", "placeholders"]

_PLACEHOLDER = re.compile(r"\$\{([^{}]+)\}")


def fill(template: str, values: Mapping[str, Any], declared: Iterable[str]) -> str:
    """Return the template with every declared name replaced by its value; one that has no value leaves nothing behind.

    What is inserted is never looked at again, so a value cannot ask for another one.
    """
    names = frozenset(declared)
    return _PLACEHOLDER.sub(
        lambda found: as_text(values.get(found[1])) if found[1] in names else found[0],
        template,
    )


def placeholders(template: str) -> tuple[str, ...]:
    """Return what stands between `${` and `}`, declared or not, each once and in order."""
    return tuple(dict.fromkeys(_PLACEHOLDER.findall(template)))


def as_text(value: Any) -> str:
    """Return a value as a prompt shows it: words as they are, anything else as JSON, what is not there as nothing."""
    plain = to_jsonable_python(value)
    if plain is None:
        return ""
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)
