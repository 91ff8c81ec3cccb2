"""gemini-edit-and-output, as far as it is about answers to Gemini and results that are cut."""

import base64
from collections.abc import Callable
from typing import Any

from toolcrib.adapter import gemini
from toolcrib.adapter.cards import Target
from toolcrib.adapter.trim import present
from toolcrib.define.message import Call, Message
from toolcrib.define.result import Content, Image, Result, Text

Json = dict[str, Any]

_PICTURED = "(The answer is the picture that comes with it.)"


def _answered(args: Json) -> list[Json]:
    given = args["llmContent"]
    content = tuple(map(_content, given if isinstance(given, list) else [given]))
    history = [
        Message(role="user", content=(Text("go"),)),
        Message(role="assistant", calls=(Call(id=args["callId"], name=args["toolName"]),)),
        Message(role="tool", content=content, call_id=args["callId"]),
    ]
    turns = gemini.request(history, (), Target(api="gemini", model=args["model"]))["contents"][2:]
    (answer,), *beside = [turn["parts"] for turn in turns]
    said = answer["functionResponse"]
    inside = said.pop("parts", [])
    pictures = [part for part in (*inside, *(each for turn in beside for each in turn)) if "inlineData" in part]
    if said["response"].get("output") == _PICTURED:
        said["response"] = {"output": f"Binary content provided ({len(pictures)} item(s))."}
    if not content:
        said["response"] = {}  # ours says that nothing was said
    # before Gemini 3 an answer is known by its place; the original always writes the id
    return [{"functionResponse": {"id": args["callId"], **said}}, *pictures]


def _content(part: Any) -> Content:
    match part:
        case str(text) | {"text": str(text)} | {"functionResponse": {"response": {"output": str(text)}}}:
            return Text(text)
        case {"inlineData": {"data": str(data), "mimeType": str(mime)}}:
            return Image(base64.b64decode(data), mime)
    raise AssertionError(f"no result of ours holds {part!r}")


def _cut(args: Json) -> str:
    shown = present(Result.text(args["text"]), "", args["maxChars"], key=args["file"])
    return shown.plain_text


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "gemini.convertToFunctionResponse": _answered,
    "gemini.formatTruncatedToolOutput": _cut,
}
