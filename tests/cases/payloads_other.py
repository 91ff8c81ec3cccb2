"""pi-provider-payloads on adapter/body.py for Anthropic and Gemini: whole request bodies."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from .payloads import body_from, target_from, with_our_names

Json = dict[str, Any]

_LONGEST = 1_000  # what pi asks of the model that stands in for Anthropic's

# What each system says for itself where the wire needs words.
_WORDS = {
    "(The answer is the picture that comes with it.)": "(see attached image)",
    "no result of this call was kept; it may not have run": "No result provided",
}


def _anthropic(args: Json) -> Json:
    # a token of Claude Code's own is what makes pi spell names in its way
    target = replace(target_from(args, "anthropic", "claude-x"), claude_code="oauth" in args.get("apiKey", ""))
    made = body_from(with_our_names(args), target, longest=_LONGEST)
    # a list without tools is sent by pi, and left out by us
    tools: Json = {"tools": []} if "tools" in args["context"] else {}
    return {**tools, **made, "messages": _in_their_words(made["messages"])}


def _gemini(args: Json, *, model: str) -> Json:
    made = body_from(with_our_names(args), target_from(args, "gemini", model))
    # pi hands its options to an SDK, which puts them where they go
    config = {key: value for key, value in made.items() if key not in ("contents", "generationConfig")}
    if "systemInstruction" in config:
        config["systemInstruction"] = "\n\n".join(part["text"] for part in config["systemInstruction"]["parts"])
    config |= made.get("generationConfig", {})
    return {"model": model, "contents": _in_their_words(made["contents"]), "config": config}


def _in_their_words(value: Any) -> Any:
    match value:
        case str():
            return "Tool result image:" if value.startswith("What ") else _WORDS.get(value, value)
        case list():
            return [_in_their_words(each) for each in value]
        case dict():
            return {key: _in_their_words(each) for key, each in value.items()}
    return value


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "pi.payload.anthropic": _anthropic,
    "pi.payload.gemini3": partial(_gemini, model="gemini-3-x"),
    "pi.payload.google": partial(_gemini, model="gemini-2.5-x"),
}
