"""Pictures that people send with what they say: to models that see as they are, to others in words."""

import base64
from pathlib import Path
from typing import Any

import pytest
from tests.backends.models.servers import Say, Server, answering, serving
from tests.tools.media.pictures import draw, save

import toolcrib
from toolcrib import OWNER, ToolError

pytestmark = pytest.mark.anyio

PNG = save(draw("Nuts", size=(300, 100)))
ENCODED = base64.b64encode(PNG).decode()
GIVEN = {"type": "image", "mimeType": "image/png", "fileName": "sign.png", "content": ENCODED}


def settings(server: Server, folder: Path, model: str = "gpt-4o") -> dict[str, Any]:
    desk = {"baseUrl": server.base_url}
    return {"workspace": {"root": str(folder)}, "models": {"default": f"desk:{model}", "desk": desk}}


async def send(config: dict[str, Any], *messages: dict[str, Any]) -> None:
    """Say these one after the other, and wait for the end of each."""
    async with toolcrib.open(config, env={}) as crib:
        for at, said in enumerate(messages):
            await crib.ask("chat.send", {"idempotencyKey": f"k{at}", **said}, caller=OWNER)
            told = await crib.ask("agent.wait", {"runId": f"k{at}"}, caller=OWNER)
            assert told["status"] == "ok", told


@pytest.mark.parametrize("content", [ENCODED, f"data:image/png;base64,{ENCODED}"])
async def test_a_picture_reaches_a_model_that_sees_and_stays_in_the_session(content: str, tmp_path: Path) -> None:
    async with serving(answering("openai", Say(text="Nuts."))) as server:
        said = {"message": "What does it say?", "attachments": [{**GIVEN, "content": content}]}
        await send(settings(server, tmp_path), said, {"message": "", "attachments": [GIVEN]}, {"message": "And?"})
    first, *_, last = server.asked
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{ENCODED}"}}
    assert first.body["messages"][-1]["content"] == [{"type": "text", "text": "What does it say?"}, shown]
    assert str(last.body["messages"]).count(ENCODED) == 2


async def test_a_model_that_does_not_see_is_told_what_was_sent(tmp_path: Path) -> None:
    async with serving(answering("openai", Say(text="I cannot see."))) as server:
        await send(settings(server, tmp_path, "blind"), {"message": "Look.", "attachments": [GIVEN]})
    (asked,) = server.asked
    assert f"[image/png, {len(PNG):,} bytes; this model cannot see images]" in str(asked.body["messages"])
    assert ENCODED not in str(asked.body)


@pytest.mark.parametrize(
    "given",
    [{}, {"content": ""}, {"content": 7}, {"content": "words"}, {"content": base64.b64encode(b"words").decode()},
     {"content": "file:///etc/passwd"}, {"content": "A" * 8_000_000}, {"content": ENCODED + "\n"}],
)  # fmt: skip
async def test_what_is_no_picture_is_refused_and_nothing_is_said(given: dict[str, Any], tmp_path: Path) -> None:
    async with serving(answering("openai", Say(text="no"))) as server:
        with pytest.raises(ToolError, match="an attachment is a picture"):
            await send(settings(server, tmp_path), {"message": "Look.", "attachments": [given]})
        with pytest.raises(ToolError):
            await send(settings(server, tmp_path), {"message": "Look.", "attachments": [GIVEN] * 9})
        with pytest.raises(ToolError, match="the message is blank"):
            await send(settings(server, tmp_path), {"message": " "})
    assert server.asked == []


async def test_a_word_that_would_stop_a_turn_does_not_with_a_picture(tmp_path: Path) -> None:
    async with serving(answering("openai", Say(text="A sign."))) as server:
        await send(settings(server, tmp_path), {"message": "stop", "attachments": [GIVEN]})
    assert len(server.asked) == 1
