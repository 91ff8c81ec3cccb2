"""Shape: what a tool takes. Its schema and the check of arguments are both made at first use."""

from collections.abc import Callable, Mapping
from typing import Any

from .schema import Schema

__all__ = ["Check", "Shape"]

Check = Callable[[Mapping[str, Any]], Mapping[str, Any]]


class Shape:
    """A schema for the model and a check for us.

    The check takes arguments as a model wrote them and returns them coerced, or raises ArgumentError.
    """

    __slots__ = ("_make_check", "_make_schema", "_schema", "check")

    def __init__(self, schema: Callable[[], Schema], check: Callable[[Schema], Check]) -> None:
        self._make_schema, self._make_check = schema, check
        self._schema: Schema | None = None
        self.check: Check = self._first_check

    @property
    def schema(self) -> Schema:
        if self._schema is None:
            self._schema = self._make_schema()
        return self._schema

    def _first_check(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        self.check = self._make_check(self.schema)
        return self.check(args)
