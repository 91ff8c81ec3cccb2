"""What crosses a wire: values read without trust in their shape, and texts made so that every wire carries them."""

from collections.abc import Mapping
from typing import Any

import orjson

from .fence.clean import is_writable
from .trim import error_text

__all__ = ["complaint", "count", "fields", "items", "paired_up", "sealed", "unsealed", "whole", "words"]


def words(value: Any) -> str:
    """Return a text, "" for anything else."""
    return value if isinstance(value, str) else ""


def fields(value: Any) -> Mapping[str, Any]:
    """Return an object, an empty one for anything else."""
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def items(value: Any) -> list[Any]:
    """Return a list, an empty one for anything else."""
    return value if isinstance(value, list) else []


def count(value: Any) -> int:
    """Return a number of things, 0 for anything else."""
    return value if type(value) is int and value > 0 else 0


def complaint(value: Any) -> str:
    """Return what a provider says of its own failure, in one line."""
    said = fields(value)
    return error_text(words(value) or words(said.get("message")) or words(said.get("code")) or "it did not say why")


def sealed(value: Mapping[str, Any]) -> str:
    """Return an object as the text of a mark, "" when no wire could carry it back."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # half of a character, or too deep
        return ""


def unsealed(mark: str) -> dict[str, Any]:
    """Return the object of a mark, an empty one when the mark was not made by `sealed`."""
    try:
        value = orjson.loads(mark)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def whole(text: str) -> str:
    """Return `text` with the halves of characters put together, and without those that stand alone."""
    return text if is_writable(text) else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


def paired_up(text: str) -> str:
    """Return `text` with the halves of characters put together where two pieces had one each."""
    return text if is_writable(text) else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
