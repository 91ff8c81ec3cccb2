"""What we send where another system has switches for a server: for differences/*.toml."""

from typing import Any

__all__ = ["has_switches", "marked_thoughts", "own_thoughts", "without_switches", "without_switches_in_chat"]

Json = dict[str, Any]

_BRIDGE = "I have processed the tool results."
_THOUGHT = ("reasoning_effort", "reasoning", "include", "thinking")
_SPOKEN = ("role", "content", "tool_calls", "tool_call_id")


def has_switches(args: Json) -> bool:
    """Tell whether the recording says of a model what it thinks or which switches its server needs."""
    return bool(args["model"].get("reasoning") or set(args["model"].get("compat", {})) - {"supportsStrictMode"})


def own_thoughts(args: Json) -> list[str]:
    """Return the signatures of thoughts in a conversation."""
    return [
        block["thinkingSignature"]
        for message in args["context"]["messages"]
        if message["role"] == "assistant"
        for block in message["content"]
        if block.get("thinkingSignature")
    ]


def without_switches(args: Json, recorded: Json) -> Json:
    """Return a request as it is for every server: what a model is, its name tells."""
    sent = {word: value for word, value in recorded.items() if word not in _THOUGHT}
    if "input" in sent:
        return {**sent, "input": [_as_system(item) for item in sent["input"]]}
    if "config" in sent:
        return {**sent, "config": {word: each for word, each in sent["config"].items() if word != "thinkingConfig"}}
    return sent


def without_switches_in_chat(args: Json, recorded: Json) -> Json:
    """Return the same for chat completions, whose servers differ most."""
    sent = {word: value for word, value in recorded.items() if word not in _THOUGHT}
    longest = {"max_completion_tokens": sent.pop("max_tokens")} if "max_tokens" in sent else {}
    said = [_as_system(message) for message in sent["messages"] if message.get("content") != _BRIDGE]
    spoken = [{word: value for word, value in message.items() if word in _SPOKEN} for message in said]
    thoughts = [
        block["thinking"]
        for message in args["context"]["messages"]
        if message["role"] == "assistant"
        for block in message["content"]
        if block["type"] == "thinking" and message["model"] == recorded["model"]
    ]
    for message in spoken:
        if isinstance(message["content"], list):
            message["content"] = [part for part in message["content"] if part.get("text") not in thoughts]
    return {**sent, "stream_options": {"include_usage": True}, "store": False, **longest, "messages": spoken}


def _as_system(message: Json) -> Json:
    return {**message, "role": "system"} if message.get("role") == "developer" else message


def marked_thoughts(args: Json, recorded: Json) -> Json:
    """Return a request to Gemini in which the thoughts of its own bear what it signed them with."""
    signatures = iter(own_thoughts(args))
    return {
        **recorded,
        "contents": [
            {
                **turn,
                "parts": [
                    {**part, "thoughtSignature": next(signatures)} if part.get("thought") else part
                    for part in turn["parts"]
                ],
            }
            for turn in recorded["contents"]
        ],
    }
