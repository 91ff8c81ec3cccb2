"""One tool, several actions: a flat schema with an `action` enum, each action's own parameters checked."""

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from toolcrib.define.schema.annotations import Schema
from toolcrib.define.schema.complaints import join_complaints
from toolcrib.define.schema.portable import Check, Shape

from .context import Ctx
from .errors import ArgumentError, DeclarationError
from .names import nearest
from .result import Result
from .tool import Options, Tool, tool, tool_named


def actions(
    name: str, description: str, bodies: Mapping[str, Callable[..., Any]], /, **options: Unpack[Options]
) -> Tool:
    """Return one tool that does one of several things; the model says which in `action`.

    Each body is an ordinary tool function with a docstring. A parameter that two actions share must mean the same.
    """
    if not bodies:
        raise DeclarationError(f"tool {name}: needs at least one action")
    parts = {action: tool(name=name)(body) for action, body in bodies.items()}
    for action, part in parts.items():
        if "action" in part.parameters["properties"]:
            raise DeclarationError(f"tool {name}, action {action!r}: a parameter cannot be called 'action'")
    schema = _flat_schema(name, parts)
    lines = [f"- {action}: {part.description}" for action, part in parts.items()]

    async def run(ctx: Ctx, args: Mapping[str, Any]) -> Result:
        rest = {key: value for key, value in args.items() if key != "action"}
        return await parts[args["action"]].run(ctx, rest)

    text = "\n".join([description, "", "Actions:", *lines])
    return tool_named(name, text, Shape(lambda: schema, lambda flat: _make_check(parts, flat)), run, **options)


def _flat_schema(name: str, parts: Mapping[str, Tool]) -> Schema:
    properties: dict[str, Any] = {"action": {"type": "string", "enum": list(parts), "description": "what to do"}}
    users: dict[str, list[str]] = {}
    for action, part in parts.items():
        for parameter, schema in part.parameters["properties"].items():
            users.setdefault(parameter, []).append(action)
            known = properties.setdefault(parameter, schema)
            if _meaning(known) != _meaning(schema):
                first = users[parameter][0]
                raise DeclarationError(
                    f"tool {name}: parameter {parameter!r} means one thing in action {first!r} and another in "
                    f"{action!r}; give it one type or two names"
                )
    for parameter, used_by in users.items():
        words = properties[parameter].get("description", "")
        properties[parameter] = {**properties[parameter], "description": f"{words} ({', '.join(used_by)})".strip()}
    return {"type": "object", "properties": properties, "required": ["action"], "additionalProperties": False}


def _meaning(schema: Schema) -> dict[str, Any]:
    """Return what must agree between actions; words and defaults may differ."""
    return {key: value for key, value in schema.items() if key not in ("description", "default")}


def _make_check(parts: Mapping[str, Tool], flat: Schema) -> Check:
    every = flat["properties"].keys()

    def check(args: Mapping[str, Any]) -> Mapping[str, Any]:
        action = args.get("action")
        part = parts.get(action) if isinstance(action, str) else None
        if part is None:
            meant = [] if action is None else nearest(str(action), parts)
            hint = f"did you mean {meant[0]!r}?" if meant else f"use one of {', '.join(parts)}"
            complaint = "action is required" if action is None else f"there is no action {action!r}"
            raise ArgumentError(join_complaints([complaint, hint]))
        # a model that must fill in every field writes null, 0, "" or false for those of the other actions
        foreign = every - part.parameters["properties"].keys()
        rest = {key: value for key, value in args.items() if value or key not in foreign}
        del rest["action"]
        try:
            return {"action": action, **part.shape.check(rest)}
        except ArgumentError as error:
            raise ArgumentError(f"action {action}: {error}") from None

    return check
