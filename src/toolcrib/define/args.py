"""Args: the arguments of a tool with a raw JSON Schema, read by name and kind.

A value of the wrong kind counts as missing, because models send numbers as text and blanks for nothing; only
`required` turns missing into an error.
"""

import math
from collections.abc import Iterator, Mapping
from datetime import date, time
from decimal import Decimal
from enum import Enum
from typing import Any, Literal, NoReturn, TypeGuard, overload
from uuid import UUID

from pydantic_core import to_jsonable_python

from toolcrib.lazy import regex

from .errors import ArgumentError

# The blanks of the documents (ECMAScript's): a byte-order mark is one, the separators U+001C to U+001F and U+0085
# are not; `str.strip()` sees it the other way round.
_BLANKS = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f"
    "\u3000\ufeff"
)
_LEADING_NUMBER = regex(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WHOLE = regex(r"[+-]?[0-9]+")
_SHOWN_CHARS = 40
_KEPT_CHARS = 200  # of a value that was read otherwise than it was written


def trim(text: str) -> str:
    """Return `text` without the blanks around it, as the documents count blanks."""
    return text.strip(_BLANKS)


def text_from_number(number: float) -> str:
    """Return the number as JSON writers of the documents spell it: 5, 5.9, 1e+21, 1e-7."""
    if isinstance(number, int) or number == 0:
        return str(int(number))
    if 1e-6 <= abs(number) < 1e21:
        return format(Decimal(repr(number)), "f").removesuffix(".0")
    mantissa, _, exponent = repr(number).partition("e")
    return f"{mantissa}e{int(exponent):+d}"


def is_on(flags: Mapping[str, Any] | None, key: str, *, default: bool = True) -> bool:
    """Tell whether a switch is on: absent means `default`, anything but false means on."""
    return default if flags is None or key not in flags else flags[key] is not False


def write_plain(value: Any) -> Any:
    """Return a checked argument as the model wrote it, where its type is one of ours: an enum, a time, an id, a set."""
    if isinstance(value, Enum):
        return write_plain(value.value)
    if isinstance(value, set | frozenset) and all(isinstance(each, str) for each in value):
        return sorted(value)
    return value.isoformat() if isinstance(value, date | time) else str(value) if isinstance(value, UUID) else value


def compare_args(
    given: Mapping[str, Any], taken: Mapping[str, Any], aliases: Mapping[str, str]
) -> list[dict[str, Any]]:
    """Return the parameters that were read otherwise than they were written: what was `given`, for what it was `taken`.

    One without `taken` counts as not given.
    """
    changes = []
    for name, value in given.items():
        own = aliases.get(name, name)
        read = to_jsonable_python(taken.get(own), fallback=str)
        if read is None and value is not None:
            changes.append({"parameter": own, "given": _shorten_value(value)})
        elif read is not None and (type(read) is not type(value) or read != value):
            changes.append({"parameter": own, "given": _shorten_value(value), "taken": _shorten_value(read)})
    return changes


def _shorten_value(value: Any) -> Any:
    """Return a long value as how long it is: half of a secret would not be recognised as one."""
    size = len(repr(value))
    return value if size <= _KEPT_CHARS else f"[{size:,} characters]"


class Args(Mapping[str, Any]):
    """The arguments of one call: a mapping with readers that trim, convert and complain in one sentence."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Args({dict(self._values)!r})"

    @overload
    def string(
        self,
        key: str,
        *,
        required: Literal[True],
        trim: bool = True,
        allow_empty: bool = False,
        label: str | None = None,
    ) -> str: ...
    @overload
    def string(
        self,
        key: str,
        *,
        required: bool = False,
        trim: bool = True,
        allow_empty: bool = False,
        label: str | None = None,
    ) -> str | None: ...
    def string(
        self,
        key: str,
        *,
        required: bool = False,
        trim: bool = True,
        allow_empty: bool = False,
        label: str | None = None,
    ) -> str | None:
        """Read text, trimmed by default; empty text is missing unless `allow_empty`."""
        value = self.get(key)
        if isinstance(value, str):
            text = value.strip(_BLANKS) if trim else value
            if text or allow_empty:
                return text
        return self._missing(key, label, "a string") if required else None

    @overload
    def number(self, key: str, *, required: Literal[True], label: str | None = None) -> float: ...
    @overload
    def number(self, key: str, *, required: bool = False, label: str | None = None) -> float | None: ...
    def number(self, key: str, *, required: bool = False, label: str | None = None) -> float | None:
        """Read a finite number; text counts by the number it begins with (`12px` is 12)."""
        number = _number_from(self.get(key))
        return self._missing(key, label, "a number") if number is None and required else number

    @overload
    def integer(self, key: str, *, required: Literal[True], label: str | None = None) -> int: ...
    @overload
    def integer(self, key: str, *, required: bool = False, label: str | None = None) -> int | None: ...
    def integer(self, key: str, *, required: bool = False, label: str | None = None) -> int | None:
        """Read a number and cut it to a whole one, towards zero."""
        number = _number_from(self.get(key))
        if number is None:
            return self._missing(key, label, "a number") if required else None
        return math.trunc(number)

    @overload
    def strings(self, key: str, *, required: Literal[True], label: str | None = None) -> list[str]: ...
    @overload
    def strings(self, key: str, *, required: bool = False, label: str | None = None) -> list[str] | None: ...
    def strings(self, key: str, *, required: bool = False, label: str | None = None) -> list[str] | None:
        """Read a list of texts, or one text as a list of one; blanks and other kinds are left out."""
        value = self.get(key)
        entries = value if isinstance(value, (list, tuple)) else [value]
        texts = [text for entry in entries if isinstance(entry, str) and (text := trim(entry))]
        if texts:
            return texts
        return self._missing(key, label, "a list of strings") if required else None

    @overload
    def string_or_number(self, key: str, *, required: Literal[True], label: str | None = None) -> str: ...
    @overload
    def string_or_number(self, key: str, *, required: bool = False, label: str | None = None) -> str | None: ...
    def string_or_number(self, key: str, *, required: bool = False, label: str | None = None) -> str | None:
        """Read text, or a finite number as text: for ids that models write both ways."""
        value = self.get(key)
        text = trim(value) if isinstance(value, str) else text_from_number(value) if _is_number(value) else ""
        if text:
            return text
        return self._missing(key, label, "a string or a number") if required else None

    def flag(self, key: str, *, default: bool = False) -> bool:
        """Read true or false; anything else is the default."""
        value = self.get(key)
        return value if isinstance(value, bool) else default

    def _missing(self, key: str, label: str | None, kind: str) -> NoReturn:
        value = self.get(key)
        shown = "" if value is None else f", not {value!r}"
        shown = shown if len(shown) <= _SHOWN_CHARS else f"{shown[:_SHOWN_CHARS]}..."
        raise ArgumentError(f"{label or key} is required: give {kind}{shown}")


def _is_number(value: object) -> TypeGuard[float]:
    return not isinstance(value, bool) and (
        isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))
    )


def _number_from(value: object) -> float | None:
    if _is_number(value):
        return value
    found = _LEADING_NUMBER.match(trim(value)) if isinstance(value, str) else None
    if found is None or not math.isfinite(float(found[0])):
        return None
    return int(found[0]) if _WHOLE.fullmatch(found[0]) else float(found[0])
