"""Parameters of tools with many actions, in JSON Schema: each says what it is, and for which actions it counts."""

from typing import Any


def describe_text(about: str, *among: str) -> dict[str, Any]:
    """Return a text, one of a few where they are named."""
    return {"type": "string", "description": about, **({"enum": [*among]} if among else {})}


def describe_number(about: str) -> dict[str, Any]:
    """Return a number."""
    return {"type": "number", "description": about}
