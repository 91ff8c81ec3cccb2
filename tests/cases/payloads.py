"""The neutral requests of pi-provider-payloads, read as ours; the modules beside this one compare what is sent."""

import base64
import json
from typing import Any

from toolcrib.adapter.body import encode_body
from toolcrib.adapter.cards import Api, Target
from toolcrib.define.message import Call, Finish, Message, Part, Thinking
from toolcrib.define.model import Choice, Effort, History, Request
from toolcrib.define.names import canonical
from toolcrib.define.result import Image, Status, Text
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import Tool, tool_named

__all__ = ["body_from", "target_from", "with_our_names"]

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


_EFFORTS: dict[str, Effort] = {
    "minimal": "low", "low": "low", "medium": "medium", "high": "high", "xhigh": "high",
}  # fmt: skip


def target_from(args: Json, api: Api, model: str) -> Target:
    """Return the model that the recorded request went to; nothing is kept unless the recording says so."""
    return Target(
        api=api,
        model=model,
        sees="image" in args.get("model", {}).get("input", ["image"]),
        provider="openai" if api in ("openai", "responses") else api,
        keep=args.get("options", {}).get("cacheRetention", "none"),
    )


def body_from(args: Json, target: Target, *, longest: int = 0) -> Json:
    """Return the body that we send, as the provider reads it; `longest` is what the recorded one is by itself."""
    options = args.get("options", {})
    choice, only = _choice(options.get("toolChoice", "auto"))
    request = Request(
        history=History(map(_message, args["context"]["messages"])),
        tools=[tool for tool in _tools(args) if only in ("", tool.name)],
        system=args["context"].get("systemPrompt") or "",
        choice=choice,
        longest=options.get("maxTokens", longest),
        effort=_EFFORTS.get(options.get("reasoning") or options.get("reasoningEffort") or "", ""),
        session=options.get("sessionId", ""),
    )
    body: Json = json.loads(encode_body(request, target))
    return body


def with_our_names(args: Json) -> Json:
    """Return the recorded request with the tools under names that we take."""
    tools = [{**tool, "name": canonical(tool["name"])} for tool in args["context"].get("tools", ())]
    return {**args, "context": {**args["context"], "tools": tools}}


def _choice(given: Any) -> tuple[Choice, str]:
    """Return how free the model is, and the one tool that it must call; pi has each provider's own words."""
    match given:
        case {"name": name} | {"function": {"name": name}}:
            return "required", name
        case "any" | "required" | {"type": "any"}:
            return "required", ""
        case "none" | {"type": "none"}:
            return "none", ""
    return "auto", ""


def _tools(args: Json) -> list[Tool]:
    """Return the recorded tools, with their schemas as foreign ones."""
    return [_tool(each["name"], each["description"], each["parameters"]) for each in args["context"].get("tools", ())]


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
    return Call(id=call_id, name=block["name"], args=block["arguments"], signature=mark)


def _part(block: Json) -> Part:
    match block:
        case {"type": "image", "data": data, "mimeType": mime}:
            return Image(base64.b64decode(data), mime)
        case {"type": "thinking", "thinking": text}:
            return Thinking(text, block.get("thinkingSignature", ""))
        case _:
            return Text(block["text"])
