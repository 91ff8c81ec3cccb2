"""Schemas as Gemini takes them: the portable subset without the keywords it refuses."""

from typing import Any

from .normalize import Shown, shown_in
from .normalize.walk import Dialect
from .normalize.words import SILENT

__all__ = ["GEMINI", "gemini_form"]

GEMINI = Dialect(
    refused=frozenset(
        [
            "additionalProperties",
            "patternProperties",
            "format",
            "pattern",
            "minLength",
            "maxLength",
            "minimum",
            "maximum",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "multipleOf",
            "minItems",
            "maxItems",
            "uniqueItems",
            "minProperties",
            "maxProperties",
        ]
    ),
    silent=SILENT | {"examples"},
    enums=frozenset({"string"}),
)


def gemini_form(schema: Any) -> Shown:
    """Return any JSON value, read as the schema of a tool's arguments, as Gemini takes it."""
    return shown_in(GEMINI, schema)
