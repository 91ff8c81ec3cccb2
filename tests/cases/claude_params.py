"""openclaw-claude-params on Tool.check and adapter/names.py."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from toolcrib.adapter.arguments import parse_arguments
from toolcrib.adapter.names import parameter_names, rename_parameters
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import Tool, tool_named

Json = dict[str, Any]

ALIASES = {"file_path": "path", "old_string": "oldText", "new_string": "newText"}
GROUPS: Mapping[str, list[Json]] = {
    "read": [{"keys": ["path", "file_path"]}],
    "write": [{"keys": ["path", "file_path"]}],
    "edit": [
        {"keys": ["path", "file_path"]},
        {"keys": ["oldText", "old_string"]},
        {"keys": ["newText", "new_string"], "allowEmpty": True},
    ],
}


def _tool(schema: Json, aliases: Mapping[str, str]) -> Tool:
    properties = schema.get("properties")
    is_own = {
        other: properties is None or (own in properties and other not in properties) for other, own in aliases.items()
    }
    mine = {other: own for other, own in aliases.items() if is_own[other]}
    return tool_named("probe", "Recorded.", Shape(lambda: schema, check_of_schema), aliases=mine)


def _spelled(args: Json) -> Any:
    names = parameter_names(_tool(args["schema"], ALIASES), "anthropic")
    return rename_parameters(args["schema"], names)


def _renamed(args: Json) -> Any:
    """Send the arguments through the reading and the renaming of a call, to a tool that takes whatever comes."""
    given = parse_arguments(orjson.dumps(args["params"]).decode())
    return _tool({"type": "object"}, ALIASES).check(given)


def _required(args: Json) -> bool:
    """Declare the groups as parameters with other spellings, texts with something in them, and check."""
    groups: Iterable[Json] = args.get("groups") or GROUPS[args["tool"]]
    properties: Json = {}
    aliases: dict[str, str] = {}
    for group in groups:
        own, *others = group["keys"]
        properties[own] = {"type": "string"} if group.get("allowEmpty") else {"type": "string", "pattern": r"\S"}
        aliases |= dict.fromkeys(others, own)
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    _tool(schema, aliases).check(parse_arguments(orjson.dumps(args["record"]).decode()))
    return True


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "assertRequiredParams": _required,
    "normalizeToolParams": _renamed,
    "patchToolSchemaForClaudeCompatibility": _spelled,
}
