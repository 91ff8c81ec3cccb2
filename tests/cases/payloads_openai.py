"""pi-provider-payloads on adapter/body.py for both APIs of OpenAI: whole request bodies."""

from collections.abc import Callable
from typing import Any

from .outcome import Form
from .payloads import body_from, target_from, with_our_names

Json = dict[str, Any]


def _openai(args: Json) -> Json:
    made = body_from(with_our_names(args), target_from(args, "openai", "gpt-x"))
    tools = made.pop("tools", [])
    # false is what saying nothing means here; pi says it where it may
    if args.get("model", {}).get("compat", {}).get("supportsStrictMode", True):
        tools = [{**tool, "function": {**tool["function"], "strict": False}} for tool in tools]
    return {**made, "tools": tools}


def _responses(args: Json) -> Json:
    made = body_from(with_our_names(args), target_from(args, "responses", "gpt-r"))
    # that nothing is to be stored is said by us, and by pi since 0.58
    kept = {key: value for key, value in made.items() if (key, value) != ("store", False)}
    # a list without tools is sent by pi, and left out by us
    return {**({"tools": []} if "tools" in args["context"] else {}), **kept}


def _plain(value: Any) -> Any:
    """Return a body with a text for a list of that one text, as the API takes both."""
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
FORM: dict[str, Form] = dict.fromkeys(ADAPTERS, _plain)
