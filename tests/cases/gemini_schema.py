"""gemini-schema-validate on define/schema/check.py and adapter/normalize/."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.adapter.arguments import parse_arguments
from toolcrib.adapter.normalize import normalize
from toolcrib.define.schema.check import check_of_schema

from .load import Case
from .outcome import Refused, Same, compare_refusals

Json = dict[str, Any]


def _validate(args: Json) -> None:
    """Check the arguments as a call does; null is recorded where nothing is wrong."""
    schema, data = args.get("schema"), args.get("data")
    if not isinstance(schema, Mapping):
        return
    check_of_schema(schema)(parse_arguments(json.dumps(data)))


def _has_cycle(args: Json) -> bool:
    return any(keyword == "recursion" for _, keyword in normalize(args["schema"]).losses)


def _same(case: Case, ours: Any) -> str:
    """Compare whether something is wrong, and where; how it is said is each system's own."""
    if case.expected is None:
        return f"ours is an error: {ours.message}" if isinstance(ours, Refused) else ""
    if not isinstance(ours, Refused):
        return "recorded is an error, ours is not"
    steps = str(case.expected).split()[0].split("/")[1:]
    missing = [step for step in steps if step not in ours.message]
    if steps:
        return f"our error does not mention {missing}" if missing else ""
    return compare_refusals(str(case.expected), ours, case.args)


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "gemini.SchemaValidator.validate": _validate,
    "gemini.hasCycleInSchema": _has_cycle,
}
SAME: dict[str, Same] = {"gemini.SchemaValidator.validate": _same}
