"""Arguments against JSON Schema: coerced where the spelling is clear, then checked in full, formats included."""

import datetime as dt
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn

import orjson
from pydantic_core import PydanticSerializationError, to_jsonable_python

from .coerce import coerce, target_of
from .complaints import complaints_of_schema, join_complaints
from .errors import ArgumentError, DeclarationError
from .schema import Schema
from .shape import Check

__all__ = ["fit_to"]

_LARGEST_SCHEMA = 20_000  # objects and lists, references written out
_DEEPEST = 64  # of values checked against a schema that contains itself
_DEEPEST_TOLD, _LONGEST_TOLD = 6, 16 * 1024  # levels and bytes of values that every complaint is sought in
_MOST_TOLD = 10_000  # values that any complaint is sought in
_MAY_HOLD_FLOATS = frozenset({float, dict, list, tuple})


def fit_to(schema: Schema, *, coerced: bool = False) -> Check:
    """Return a check that gives the arguments coerced to the schema; DeclarationError when it is no usable schema.

    `coerced` says that the arguments will come coerced already.
    """
    import jsonschema_rs  # noqa: PLC0415  only those who have arguments to check pay for it, and at first use

    schema = dict(schema)
    try:
        validator = jsonschema_rs.validator_for(
            schema,
            validate_formats=True,
            formats=_FORMATS,
            retriever=_retrieve_nothing,
            pattern_options=jsonschema_rs.FancyRegexOptions(backtrack_limit=100_000),
        )
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        raise DeclarationError(f"the schema itself is not valid: {str(error).splitlines()[0]}") from error
    is_valid, is_recursive = validator.is_valid, _Unfolding(schema).is_recursive
    has_integers = "'integer'" in repr(schema)

    def fit(args: Mapping[str, Any]) -> Mapping[str, Any]:
        given = args if type(args) is dict else dict(args)
        if is_recursive and _is_deep(given, _DEEPEST):
            raise ArgumentError(f"the arguments are nested more than {_DEEPEST} deep; write them flatter")
        try:
            # 5.0 is an integer in JSON Schema and none in Python
            if is_valid(given) and not (has_integers and not _MAY_HOLD_FLOATS.isdisjoint(map(type, given.values()))):
                return given
            ready: dict[str, Any] = given if coerced else coerce(schema, given)
        except ValueError:  # values of Python's own: a caller in this process, or arguments that were checked before
            ready = coerce(schema, _as_json(given))
        if is_valid(ready):
            return ready
        if is_recursive and _is_deep(ready, _DEEPEST_TOLD):
            raise ArgumentError("the arguments do not fit the parameters; send fewer levels of them to learn why")
        if _has_many(ready):
            raise ArgumentError("the arguments do not fit the parameters; send fewer values to learn why")
        is_long = _is_long(ready)
        errors = _first_error(validator.validate, ready) if is_long else validator.iter_errors(ready)
        told = join_complaints(said for error in errors for said in complaints_of_schema(error, schema))
        raise ArgumentError(f"{told}; the arguments are long, so there may be more of the kind" if is_long else told)

    return fit


def _first_error(validate: Callable[[Any], None], value: Any) -> Iterator[Any]:
    """Give the first error alone: each costs more than the value it is about, and there may be as many as values."""
    try:
        validate(value)
    except ValueError as error:
        yield error


def _retrieve_nothing(address: str) -> NoReturn:
    raise ValueError(f"a schema is written where it is used, not fetched from {address}")


def _as_json(args: Mapping[str, Any]) -> dict[str, Any]:
    try:
        plain: dict[str, Any] = to_jsonable_python(args)
    except (PydanticSerializationError, ValueError, RecursionError) as error:
        raise ArgumentError(f"the arguments hold what JSON cannot say ({str(error).splitlines()[0]})") from None
    return plain


def _is_deep(value: Any, levels: int) -> bool:
    level = [value]
    for _ in range(levels):
        inside = [each.values() if isinstance(each, dict) else each for each in level]
        level = [each for values in inside for each in values if isinstance(each, (dict, list, tuple))]
        if not level:
            return False
    return True


def _has_many(value: Any) -> bool:
    """Tell whether there are so many values that even one error about them costs too much."""
    count, left = 0, [value]
    while left and count <= _MOST_TOLD:
        inside = left.pop()
        count += len(inside)
        if count <= _MOST_TOLD:
            values = inside.values() if isinstance(inside, dict) else inside
            left += [each for each in values if isinstance(each, (dict, list, tuple))]
    return count > _MOST_TOLD


def _is_long(value: Any) -> bool:
    try:
        return len(orjson.dumps(value)) > _LONGEST_TOLD
    except TypeError:  # a number or a text that orjson does not write
        return True


class _Unfolding:
    """How large a schema is with its references written out, and whether it contains itself."""

    def __init__(self, schema: Schema) -> None:
        self._root, self._sizes, self.is_recursive = schema, dict[str, int](), False
        if self._size(schema) > _LARGEST_SCHEMA:
            raise DeclarationError(f"the schema unfolds to more than {_LARGEST_SCHEMA} parts; write a smaller one")

    def _size(self, node: Any) -> int:
        if isinstance(node, (list, tuple)):
            return 1 + sum(map(self._size, node))
        if not isinstance(node, dict):
            return 0
        self.is_recursive |= "$dynamicRef" in node or "$recursiveRef" in node
        return 1 + sum(map(self._size, node.values())) + self._target_size(node.get("$ref"))

    def _target_size(self, reference: Any) -> int:
        if not isinstance(reference, str):
            return 0
        if reference in self._sizes:
            self.is_recursive |= self._sizes[reference] < 0  # it is still being written out
            return max(self._sizes[reference], 1)
        self._sizes[reference] = -1
        self._sizes[reference] = self._size(target_of(reference, self._root))
        return self._sizes[reference]


_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIME = r"[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:\.[0-9]{1,9})?)?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})?"


def _reader(pattern: str, read: Callable[[str], object]) -> Callable[[str], bool]:
    written = re.compile(pattern)

    def fits(text: str) -> bool:
        if not written.fullmatch(text):
            return False
        try:
            read(text.upper())
        except ValueError:
            return False
        return True

    return fits


# ISO 8601 as people write it: the offset and the seconds may be left out.
_FORMATS = {
    "date-time": _reader(f"{_DATE}[Tt ]{_TIME}", dt.datetime.fromisoformat),
    "date": _reader(_DATE, dt.date.fromisoformat),
    "time": _reader(_TIME, dt.time.fromisoformat),
}
