"""pi-provider-payloads on adapter/body.py for both APIs of OpenAI: whole request bodies."""

from collections.abc import Callable
from typing import Any

from .load import Case
from .outcome import Alike, Refused, Same, compare, is_same
from .payloads import body_from, target_from

Json = dict[str, Any]


def _openai(args: Json) -> Json:
    made = body_from(args, target_from(args, "openai", "gpt-x"))
    tools = made.pop("tools", [])
    # false is what saying nothing means here; pi says it where it may
    if args.get("model", {}).get("compat", {}).get("supportsStrictMode", True):
        tools = [{**tool, "function": {**tool["function"], "strict": False}} for tool in tools]
    return {**made, "tools": tools}


def _responses(args: Json) -> Json:
    made = body_from(args, target_from(args, "responses", "gpt-r"))
    # that nothing is to be stored is said by us, and by pi since 0.58
    kept = {key: value for key, value in made.items() if (key, value) != ("store", False)}
    # a list without tools is sent by pi, and left out by us
    return {**({"tools": []} if "tools" in args["context"] else {}), **kept}


def _same(case: Case, ours: Any) -> str:
    """Compare with a text and a list of that one text taken for the same, as the API does."""
    if isinstance(ours, Refused):
        return compare(case, ours)
    return "" if _alike(ours, case.expected) else "the values differ"


def _alike(ours: Any, other: Any) -> bool:
    return is_same(_plain(ours), _plain(other))


def _plain(value: Any) -> Any:
    match value:
        case {"role": "assistant", "content": [{"type": "output_text", "text": text}]}:
            return {"role": "assistant", "content": text}
        case {"content": [{"type": "text", "text": text}]}:
            return {**value, "content": text}
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list():
            return [_plain(each) for each in value]
    return value


ADAPTERS: dict[str, Callable[[Json], Any]] = {"pi.payload.openai": _openai, "pi.payload.responses": _responses}
SAME: dict[str, Same] = dict.fromkeys(ADAPTERS, _same)
ALIKE: dict[str, Alike] = dict.fromkeys(ADAPTERS, _alike)
