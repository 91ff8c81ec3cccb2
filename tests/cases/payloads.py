"""The neutral messages and tools of pi-provider-payloads, read as ours; the modules beside this one make requests."""

import base64
from typing import Any

from toolcrib.adapter.target import Api, Target
from toolcrib.define.check import check_of_schema
from toolcrib.define.message import Call, Finish, Message, Part, Thinking
from toolcrib.define.result import Image, Status, Text
from toolcrib.define.shape import Shape
from toolcrib.define.tool import Tool, tool_named

__all__ = ["messages_from", "target_from", "tools_from"]

Json = dict[str, Any]

_APIS = {
    "openai-completions": "openai",
    "openai-responses": "responses",
    "anthropic-messages": "anthropic",
    "google-generative-ai": "gemini",
}
_FINISHES: dict[str, Finish] = {
    "stop": "stop",
    "toolUse": "calls",
    "length": "length",
    "error": "error",
    "aborted": "aborted",
}


def target_from(args: Json, api: Api, model: str) -> Target:
    """Return the model that the recorded request went to."""
    return Target(api=api, model=model, sees="image" in args.get("model", {}).get("input", ["image"]))


def tools_from(args: Json) -> list[Tool]:
    """Return the recorded tools, with their schemas as foreign ones."""
    return [_tool(each["name"], each["description"], each["parameters"]) for each in args["context"].get("tools", ())]


def messages_from(args: Json) -> list[Message]:
    """Return the recorded conversation, the system prompt as its first message."""
    prompt = args["context"].get("systemPrompt")
    system = [Message(role="system", content=(Text(prompt),))] if prompt else []
    return [*system, *map(_message, args["context"]["messages"])]


def _tool(name: str, description: str, parameters: Json) -> Tool:
    return tool_named(name, description, Shape(lambda: parameters, check_of_schema))


def _message(given: Json) -> Message:
    blocks = given["content"]
    if isinstance(blocks, str):
        blocks = [{"type": "text", "text": blocks}]
    content = tuple(_part(block) for block in blocks if block["type"] != "toolCall")
    match given["role"]:
        case "assistant":
            return Message(
                role="assistant",
                content=content,
                calls=tuple(_call(block) for block in blocks if block["type"] == "toolCall"),
                finish=_FINISHES[given["stopReason"]],
                by=f"{_APIS.get(given['api'], given['api'])}/{given['model']}",
            )
        case "toolResult":
            call_id = given["toolCallId"].partition("|")[0]
            status: Status = "error" if given["isError"] else "ok"
            return Message(role="tool", content=content, call_id=call_id, status=status)
        case _:
            return Message(role="user", content=content)


def _call(block: Json) -> Call:
    # pi keeps the id of a call and that of its item in one text, where we have a field for each
    call_id, _, item = block["id"].partition("|")
    mark = block.get("thoughtSignature", item)
    return Call(id=call_id, name=block["name"], args=block["arguments"], mark=mark)


def _part(block: Json) -> Part:
    match block:
        case {"type": "image", "data": data, "mimeType": mime}:
            return Image(base64.b64decode(data), mime)
        case {"type": "thinking", "thinking": text}:
            return Thinking(text, block.get("thinkingSignature", ""))
        case _:
            return Text(block["text"])
