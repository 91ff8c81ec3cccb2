"""How the recordings write an output down: `report:{summary:string,n?:number} with processOutput`."""

import re
from typing import Any

from .outcome import UnknownWordError

Json = dict[str, Any]

_PROCESSED = " with processOutput"


def written(config: str) -> tuple[str, Json, bool]:
    """Return the name of an output, its schema, and whether a function makes the text of it."""
    name, _, kind = config.removesuffix(_PROCESSED).partition(":")
    return name, schema_of(kind), config.endswith(_PROCESSED)


def schema_of(kind: str) -> Json:
    """Return one kind of value as a schema: `string(min 3)`, `number`, `string[]`, `{summary:string,n?:number}`."""
    kind = kind.strip()
    if kind.endswith("[]"):
        return {"type": "array", "items": schema_of(kind.removesuffix("[]"))}
    if kind.startswith("{"):
        fields = [field.strip().partition(":") for field in re.split(r",(?![^{]*\})", kind[1:-1]) if field.strip()]
        required = [name for name, _, _ in fields if not name.endswith("?")]
        return {
            "type": "object",
            "properties": {name.rstrip("?"): schema_of(of) for name, _, of in fields},
            **({"required": required} if required else {}),
            "additionalProperties": False,
        }
    if "|" in kind:
        return {"type": "string", "enum": [each.strip(" '\"") for each in kind.split("|")]}
    found = re.fullmatch(r"(\w+)(?:\s*\((.*)\))?", kind)
    if found is None or found[1] not in ("string", "number", "integer", "boolean", "array", "object"):
        raise UnknownWordError(f"the output {kind!r}")
    lowest, highest = ("minLength", "maxLength") if found[1] == "string" else ("minimum", "maximum")
    words = {"min": lowest, "max": highest}
    bounds = re.findall(r"(min|max)\s*(\d+)", found[2] or "")
    return {"type": found[1], **{words[word]: int(count) for word, count in bounds}}
