"""The belt for Google's client.

    config = types.GenerateContentConfig(tools=bridge.tools(belt))
    reply = await client.aio.models.generate_content(model=..., contents=contents, config=config)
    contents += [reply.candidates[0].content, *await bridge.answers(belt, reply)]

No answers means that the model made no calls and is done. The client's automatic mode has no part in this: it runs
Python functions, and reads their arguments by itself.
"""

from copy import deepcopy

import orjson

from toolcrib.adapter import gemini as wire
from toolcrib.adapter.cards import Target
from toolcrib.app import Belt

from . import MissingPackageError, run_calls

try:
    from google.genai import types
except ModuleNotFoundError as error:
    raise MissingPackageError("google-genai", "genai") from error

__all__ = ["answers", "tools"]


def tools(belt: Belt) -> list[types.Tool]:
    """Return the belt's tools for `GenerateContentConfig(tools=...)`."""
    declared = wire.request((), belt.selection.shown, Target(api="gemini")).get("tools", [])
    return [types.Tool.model_validate(deepcopy(each)) for each in declared]


async def answers(belt: Belt, *reply: types.GenerateContentResponse, sees: bool = True) -> list[types.Content]:
    """Run the calls of a reply, or of all chunks of a streamed one, and return what answers them, in their order.

    Pictures stand inside the answers from Gemini 3 on, and in a content of their own before.
    """
    model = next((each.model_version for each in reply if each.model_version), "")
    target = Target(api="gemini", model=model, sees=sees)
    chunks = wire.ReplyStream(target, wire.own_names(tuple(belt.tools.values())))
    for each in reply:
        keys = {"candidates", "prompt_feedback"}
        chunks.feed(each.model_dump(mode="json", by_alias=True, exclude_none=True, include=keys))
    exchange = await run_calls(belt, chunks.end())
    if not exchange:
        return []
    turns = wire.request(exchange, (), target)["contents"]
    answers, *pictures = turns[[turn["role"] for turn in turns].index("model") + 1 :]
    parts = [
        # the client keeps the reply as it came: with these names, and with or without ids
        {"functionResponse": {**part["functionResponse"], "id": id or None, "name": name}}
        for part, (id, name) in zip(answers["parts"], chunks.given, strict=False)
    ]
    contents = [{"role": "user", "parts": parts}, *pictures]
    return [types.Content.model_validate_json(orjson.dumps(content)) for content in contents]
