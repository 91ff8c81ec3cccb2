"""What crosses a wire: values read without trust in their shape, and texts made so that every wire carries them."""

import json
from collections.abc import Mapping
from typing import Any

import orjson

from toolcrib.define.display import is_encodable

from .trim import error_text


def as_text(value: Any) -> str:
    """Return a text, "" for anything else."""
    return value if isinstance(value, str) else ""


def as_object(value: Any) -> Mapping[str, Any]:
    """Return an object, an empty one for anything else."""
    return value if type(value) is dict or isinstance(value, Mapping) else {}


def as_list(value: Any) -> list[Any]:
    """Return a list, an empty one for anything else."""
    return value if isinstance(value, list) else []


def as_count(value: Any) -> int:
    """Return a number of things, 0 for anything else."""
    return value if type(value) is int and value > 0 else 0


def provider_error(value: Any) -> str:
    """Return what a provider says of its own failure, in one line."""
    error = as_object(value)
    return error_text(
        as_text(value) or as_text(error.get("message")) or as_text(error.get("code")) or "it did not say why"
    )


def to_json(value: Any) -> bytes:
    """Return a value as JSON."""
    try:
        return orjson.dumps(value)
    except TypeError:  # a number beyond 64 bits, or values deeper inside each other than orjson goes
        return json.dumps(value, separators=(",", ":")).encode()


def encode_signature(value: Mapping[str, Any]) -> str:
    """Return an object as the text of a mark, "" when no wire could carry it back."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    except TypeError:  # half of a character, or too deep
        return ""


def decode_signature(mark: str) -> dict[str, Any]:
    """Return the object of a mark, an empty one when `encode_signature` did not make it."""
    try:
        value = orjson.loads(mark)
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def sanitize(text: str) -> str:
    """Return `text` with the halves of characters put together, and without those that stand alone."""
    return text if is_encodable(text) else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "ignore")


def join_surrogates(text: str) -> str:
    """Return `text` with the halves of characters put together where two pieces had one each."""
    if is_encodable(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
