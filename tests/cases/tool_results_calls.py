"""openclaw-tool-results on ids.py, pairing.py and conversation.py: ids, pairs, pictures, the flag of an error."""

import base64
from collections.abc import Callable, Iterator
from typing import Any

from toolcrib.adapter.cards import Target
from toolcrib.adapter.conversation import MISTRAL, CallIds, IdRule, answer_message, exchanges, prepare
from toolcrib.define.message import Call, Message, Part
from toolcrib.define.result import Image, Result, Text

Json = dict[str, Any]

_RULES = {"strict": IdRule("[^a-zA-Z0-9]", instead="", limit=40), "strict9": MISTRAL}
_CALLS = ("toolCall", "toolUse", "functionCall")
_LOST = "[openclaw] missing tool result in session history; inserted synthetic error result for transcript repair."
_SEEING = Target(api="openai")


def _is_error(args: Json) -> bool:
    given = args.get("result")
    result = Result(details=given.get("details") if isinstance(given, dict) else None)
    return answer_message(Call(id="1", name="t"), result).status == "error"


def _id(args: Json) -> str:
    given, mode = args.get("id") or "", args.get("mode", "strict")
    if not any(char.isascii() and char.isalnum() for char in given):
        # the word for an id that was never given, or had nothing in it, is theirs
        nothing = {"strict": "sanitizedtoolid", "strict9": CallIds(MISTRAL).next("sanitized")}
        return nothing[mode] if given else {"strict": "defaulttoolid", "strict9": "defaultid"}[mode]
    return CallIds(_RULES[mode]).next(given)


def _ids(args: Json) -> list[Any]:
    given = [own for message in args["messages"] for own in _ids_in(message)]
    ids = CallIds(_RULES[args.get("mode", "strict")])
    made = {own: ids.next(own) for own in dict.fromkeys(given)}
    return [_with_ids(message, made) for message in args["messages"]]


def _ids_in(message: Any) -> Iterator[str]:
    blocks = message.get("content") if isinstance(message, dict) else None
    for block in blocks if isinstance(blocks, list) else ():
        if isinstance(block, dict) and block.get("type") in _CALLS and isinstance(block.get("id"), str):
            yield block["id"]


def _with_ids(message: Any, made: dict[str, str]) -> Any:
    if not isinstance(message, dict):
        return message
    answered = {key: made.get(message[key], message[key]) for key in ("toolCallId", "toolUseId") if key in message}
    blocks = message.get("content")
    if message.get("role") != "assistant" or not isinstance(blocks, list):
        return {**message, **answered}
    content = [{**block, "id": made[block["id"]]} if block.get("type") in _CALLS else block for block in blocks]
    return {**message, "content": content}


def _repair(args: Json) -> Json:
    given: list[Any] = args["messages"]
    ours = [_message(each, float(at)) for at, each in enumerate(given)]
    known = {id(message): each for message, each in zip(ours, given, strict=True)}
    names = {call.id: call.name for message in ours for call in message.calls}
    paired = [message for each in exchanges(ours) for message in (each.message, *each.answers)]
    made = [known.get(id(message), _lost(message, names)) for message in paired]
    dropped = [message.call_id for message in ours if all(message is not kept for kept in paired)]
    return {
        "messages": made,
        "added": [each for message, each in zip(paired, made, strict=True) if id(message) not in known],
        "droppedDuplicateCount": sum(call_id in names for call_id in dropped),
        "droppedOrphanCount": sum(call_id not in names for call_id in dropped),
        "moved": made != given,
    }


def _message(given: Any, at: float) -> Message:
    match given:
        case {"role": "assistant", "content": list(blocks)}:
            asked = [block for block in blocks if isinstance(block, dict) and block.get("type") in _CALLS]
            calls = tuple(Call(id=block["id"], name=block.get("name", "")) for block in asked)
            return Message(role="assistant", calls=calls, at=at)
        case {"role": "toolResult"}:
            return Message(role="tool", call_id=given.get("toolCallId") or given.get("toolUseId"), at=at)
        case _:
            return Message(role="user", at=at)


def _lost(message: Message, names: dict[str, str]) -> Json:
    own = message.call_id or ""
    block = {"type": "text", "text": _LOST}
    return {"role": "toolResult", "toolCallId": own, "toolName": names.get(own), "content": [block], "isError": True}


def _pictures(args: Json) -> list[Json]:
    parts = tuple(_part(block) for block in args["blocks"])
    shown = [part for message in prepare([Message(role="user", content=parts)], _SEEING) for part in message.content]
    empty = {"type": "text", "text": f"[{args['label']}] omitted empty image payload"}
    return [
        empty
        if isinstance(given, Image) and isinstance(part, Text)
        else Result(content=(part,)).to_json()["content"][0]
        for given, part in zip(parts, shown, strict=True)
        if isinstance(part, Text | Image)
    ]


def _part(block: Json) -> Part:
    if block["type"] == "image":
        return Image(base64.b64decode(block["data"]), block["mimeType"])
    return Text(block["text"])


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "isToolResultError": _is_error,
    "repairToolUseResultPairing": _repair,
    "sanitizeContentBlocksImages": _pictures,
    "sanitizeToolCallId": _id,
    "sanitizeToolCallIds": _ids,
}
