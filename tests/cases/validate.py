"""pi-validate and openclaw-sdk-validation on the check that every call passes."""

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import toolcrib
from toolcrib.adapter.arguments import parse_arguments
from toolcrib.define.errors import CribError
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import Tool, tool_named
from toolcrib.tools import SHELF

from .load import Case
from .outcome import Refused, SaidError, Same, compare_refusals, is_same

Json = dict[str, Any]


def _validate(args: Json) -> Any:
    shape = Shape(lambda: args["schema"], check_of_schema)
    given = args["arguments"] if "arguments" in args else args["args"]
    if not isinstance(given, dict):
        given = parse_arguments(json.dumps(given))  # where a call is read, before anybody checks it
    return tool_named(args.get("name", "t"), "Recorded.", shape).check(given)


def _validate_call(args: Json) -> Any:
    tools = {each["name"]: each for each in args["tools"]}
    call = args["call"]
    if call["name"] not in tools:
        offered = [tool_named(name, "Recorded.", Shape(dict, check_of_schema)) for name in tools]
        belt = toolcrib.open({}, env={}).belt(toolcrib.OWNER, extra=offered)
        raise SaidError(asyncio.run(belt.call(call["name"], call["arguments"])).plain_text)
    return _validate({"schema": tools[call["name"]]["parameters"], "arguments": call["arguments"]})


def _validate_builtin(args: Json) -> Any:
    built = {each.name: each for each in SHELF if each.has_body}
    if args["tool"] not in built:
        raise CribError(f"{args['tool']} is declared, but nobody carries it yet")
    tool: Tool = built[args["tool"]]
    return tool.check(args["args"])


def _same(case: Case, ours: Any) -> str:
    """Compare values, and of errors whether there is one and that it names the same places."""
    expected = case.expected
    if expected["ok"]:
        if isinstance(ours, Refused):
            return f"ours is an error: {ours.message}"
        return "" if is_same(ours, expected.get("value", expected.get("result"))) else "the values differ"
    if not isinstance(ours, Refused):
        return "recorded is an error, ours is not"
    error = expected["error"]
    message = error["message"] if isinstance(error, dict) else error
    places = [line[4:].split(":")[0] for line in message.splitlines() if line.startswith("  - ")]
    steps = [step for place in places if place != "root" for step in place.split("/")]
    if not steps:  # it is about the arguments as a whole: that both refuse is not enough
        said = " ".join(line for line in message.splitlines() if line.startswith("  - ")) or message
        if "additional properties" in said:
            return "" if "there is no parameter" in ours.message else "ours is about something else"
        named = (
            [] if "must match" in said else re.findall(r"'([^']+)'", said)
        )  # ours names the forms, not what each lacks
        return compare_refusals(said, ours, named)
    missing = [step for step in steps if step not in ours.message]
    return f"our error does not mention {missing}" if missing else ""


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "pi.validateToolArguments": _validate,
    "pi.validateToolCall": _validate_call,
    "validateToolArguments": _validate,
    "validateBuiltin": _validate_builtin,
}
SAME: dict[str, Same] = dict.fromkeys(ADAPTERS, _same)
