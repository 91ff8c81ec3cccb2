"""Google's client with a fake provider, whole and streamed."""

import json
from collections.abc import Sequence
from typing import Any

from google import genai
from google.genai import types
from tests.doors.bridges.wires import Asked, Heard, Told, provider, stream
from tests.doors.bridges.world import PIXEL

from toolcrib.app import Belt
from toolcrib.doors.bridges import genai as bridge

__all__ = ["gemini", "gemini_streamed"]

MODEL = "gemini-2.5-flash"


def _response(parts: Sequence[dict[str, Any]], reason: str | None, model: str) -> dict[str, Any]:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": reason} if reason else {})], "modelVersion": model}


def _calls(calls: Sequence[Asked]) -> list[dict[str, Any]]:
    """Return calls, with ids where they have any; a signature goes with the first."""
    said = [
        {"functionCall": {"name": call.name, "args": json.loads(call.args)} | ({"id": call.id} if call.id else {})}
        for call in calls
    ]
    return [{**part, "thoughtSignature": "c2VhbA=="} if at == 0 else part for at, part in enumerate(said)]


async def gemini(
    belt: Belt, calls: Sequence[Asked], reason: str = "STOP", *, model: str = MODEL, **options: Any
) -> Heard:
    return await _converse(belt, _response(_calls(calls), reason, model), model, **options)


async def gemini_streamed(belt: Belt, calls: Sequence[Asked], reason: str = "STOP", *, model: str = MODEL) -> Heard:
    chunks = [_response([part], None, model) for part in _calls(calls)]
    return await _converse(belt, stream([*chunks, _response([], reason, model)]), model)


async def _converse(belt: Belt, reply: Any, model: str, **options: Any) -> Heard:
    transport, sent = provider(reply, _response([{"text": "done"}], "STOP", model))
    options_of_client = types.HttpOptions(base_url="https://fake.test", httpx_async_client=transport)
    client = genai.Client(api_key="none", http_options=options_of_client)
    config = types.GenerateContentConfig(tools=[*bridge.tools(belt)])
    contents = [types.Content(role="user", parts=[types.Part(text="go")])]
    if isinstance(reply, str):
        streamed = await client.aio.models.generate_content_stream(model=model, contents=[*contents], config=config)
        chunks = [chunk async for chunk in streamed]
    else:
        chunks = [await client.aio.models.generate_content(model=model, contents=[*contents], config=config)]
    contents += [_content(chunks), *await bridge.answers(belt, *chunks, **options)]
    last = await client.aio.models.generate_content(model=model, contents=[*contents], config=config)
    assert await bridge.answers(belt, last) == []
    tools = [types.Tool.model_validate_json(json.dumps(tool)) for tool in sent[0]["tools"]]
    offered = {each.name or "": each for tool in tools for each in tool.function_declarations or ()}
    answers = [types.Content.model_validate_json(json.dumps(content)) for content in sent[1]["contents"][2:]]
    return Heard(offered, _told(answers))


def _content(chunks: Sequence[types.GenerateContentResponse]) -> types.Content:
    """Return a reply as it goes into the history: the parts of all its chunks."""
    parts: list[types.Part] = []
    for chunk in chunks:
        assert chunk.candidates
        content = chunk.candidates[0].content
        parts += content.parts or [] if content else []
    return types.Content(role="model", parts=parts)


def _told(contents: Sequence[types.Content]) -> list[Told]:
    """Read the answers; pictures stand inside them, or follow in the next content under the name of their tool."""
    beside: dict[str, int] = {}
    whose = ""
    for part in (part for content in contents[1:] for part in content.parts or ()):
        whose = part.text or whose
        if part.inline_data:
            assert (part.inline_data.data, part.inline_data.mime_type) == (PIXEL, "image/png")
            beside[whose] = beside.get(whose, 0) + 1
    told = []
    for part in contents[0].parts or ():
        answer = part.function_response
        assert answer
        assert answer.response
        assert answer.name
        inside = [each.inline_data.data for each in answer.parts or () if each.inline_data]
        assert set(inside) <= {PIXEL}
        pictures = len(inside) + sum(count for whose, count in beside.items() if answer.name in whose)
        [(kind, text)] = answer.response.items()
        told.append(Told(answer.id or "", text, kind == "error", pictures))
    return told
