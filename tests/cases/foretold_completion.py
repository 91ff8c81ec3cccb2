"""What `complete_task` makes of an answer by our rules, told without calling it: for differences/*.toml."""

import json
from typing import Any

from .outputs import written

__all__ = ["coerced"]

Json = dict[str, Any]


def coerced(args: Json) -> Json:
    """Return what an answer comes to that is of another kind than wanted, and leaves no doubt; ValueError otherwise."""
    config, given = args["outputConfig"], args["params"]
    name, schema, _ = written(config or "result:string(min 1)")
    fitting = _fit(given[name], schema)
    if json.dumps(fitting) == json.dumps(given[name]):
        raise ValueError("nothing is coerced")
    text = fitting if isinstance(fitting, str) else json.dumps(fitting, ensure_ascii=False, indent=2)
    return {"submittedOutput": text}


def _fit(value: Any, schema: Json) -> Any:
    kind = schema["type"]
    if kind == "object" and isinstance(value, dict):
        known = schema["properties"]
        if set(value) - set(known) or set(schema.get("required", ())) - set(value):
            raise ValueError("other fields")
        optional = set(known) - set(schema.get("required", ()))
        return {
            name: _fit(each, known[name]) for name, each in value.items() if each is not None or name not in optional
        }
    if kind == "array" and isinstance(value, list):
        return [_fit(each, schema["items"]) for each in value]
    if kind == "string" and isinstance(value, str | int | float):
        text = value if isinstance(value, str) else json.dumps(value)
        if len(text) < schema.get("minLength", 0):
            raise ValueError("too short")
        return text
    if kind == "boolean" and str(value).lower() in ("true", "false"):
        return str(value).lower() == "true"
    if kind in ("number", "integer") and isinstance(value, str | int | float) and not isinstance(value, bool):
        number = float(value)
        return int(number) if number.is_integer() else number
    raise ValueError(f"no {kind}")
