"""What the providers' own packages say of our JSON: their request types, held against all of it."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import TypeAdapter

__all__ = ["validate"]


def validate(adapter: TypeAdapter[Any], value: Any) -> None:
    """Raise ValidationError unless the value is of the type, down to its last part."""
    _exhaust(adapter.validate_python(value))


def _exhaust(value: Any) -> None:
    """Look at every part: pydantic checks what is only an Iterable when it is iterated."""
    if isinstance(value, Mapping):
        for each in value.values():
            _exhaust(each)
    elif isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        for each in value:
            _exhaust(each)
