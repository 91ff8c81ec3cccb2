"""What a template comes to by our rules, told in a few lines: for differences/*.toml."""

import json
from typing import Any

__all__ = ["filled"]


def filled(args: dict[str, Any]) -> str:
    """Return the template with what is declared in its places: text as it is, nothing for null, JSON for the rest."""
    inputs = args["inputs"]
    first, *pieces = args["template"].split("${")
    for piece in pieces:
        name, brace, rest = piece.partition("}")
        first += _shown(inputs[name]) + rest if brace and name in inputs else "${" + piece
    return str(first)


def _shown(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
