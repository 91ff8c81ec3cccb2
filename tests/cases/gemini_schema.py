"""gemini-schema-validate on define/schema/check.py and adapter/normalize/."""

from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.adapter.normalize import normalize
from toolcrib.define.errors import ArgumentError
from toolcrib.define.schema.check import check_of_schema

from .load import Case
from .outcome import Refused, Same

Json = dict[str, Any]


def _validate(args: Json) -> None:
    """Check the arguments as a call does; null is recorded where nothing is wrong."""
    schema, data = args.get("schema"), args.get("data")
    if not isinstance(schema, Mapping):
        return
    if not isinstance(data, Mapping):
        raise ArgumentError("the arguments must be an object")
    check_of_schema(schema)(data)


def _has_cycle(args: Json) -> bool:
    return any(keyword == "recursion" for _, keyword in normalize(args["schema"]).losses)


def _same(case: Case, ours: Any) -> str:
    """Compare whether something is wrong, and where; how it is said is each system's own."""
    if case.expected is None:
        return f"ours is an error: {ours.message}" if isinstance(ours, Refused) else ""
    if not isinstance(ours, Refused):
        return "recorded is an error, ours is not"
    place = str(case.expected).split()[0]
    missing = [step for step in place.split("/")[1:] if step not in ours.message]
    return f"our error does not mention {missing}" if missing else ""


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "gemini.SchemaValidator.validate": _validate,
    "gemini.hasCycleInSchema": _has_cycle,
}
SAME: dict[str, Same] = {"gemini.SchemaValidator.validate": _same}
