"""Parameters of tools with many actions, in JSON Schema: each says what it is, and for which actions it counts."""

from collections.abc import Mapping
from typing import Any

from toolcrib import ToolError


def describe_text(about: str, *among: str) -> dict[str, Any]:
    """Return a text, one of a few where they are named."""
    return {"type": "string", "description": about, **({"enum": [*among]} if among else {})}


def describe_number(about: str) -> dict[str, Any]:
    """Return a number."""
    return {"type": "number", "description": about}


def require_argument(args: Mapping[str, Any], name: str, shown: str = "") -> Any:
    """Return an argument that an action cannot do without; raise ToolError, as it is `shown`, where there is none."""
    if not args.get(name):
        raise ToolError(f"{args['action']} needs {shown or name}", code="bad_arguments")
    return args[name]


def pick_given(args: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return those of the named arguments that are given."""
    return {name: args[name] for name in names if args.get(name) is not None}
