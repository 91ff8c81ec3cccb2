"""A message that was spoken is answered, and an answer is spoken: nothing is faked but the model and the listener."""

import asyncio
import base64
import secrets
from pathlib import Path

import pytest
from tests.backends.voices.voice_world import KEYS, make_tone, measure, serving, whisper

import toolcrib
from toolcrib import OWNER, ToolError

pytestmark = pytest.mark.anyio


async def test_a_voice_note_becomes_text_before_the_turn(tmp_path: Path) -> None:
    async with serving(whisper) as address:
        hearing = {"enabled": True, "baseUrl": f"{address}/v1", "apiKey": KEYS["whisper"]}
        config = {"media": {"stt": hearing}, "workspace": {"root": str(tmp_path)}}
        async with toolcrib.open(config, env={}) as crib:
            note = {"mimeType": "audio/wav", "content": base64.b64encode(make_tone(1.0)).decode()}
            said = {"message": "", "idempotencyKey": "1", "attachments": [note]}
            await crib.ask("chat.send", said, caller=OWNER)
            followed = await crib.ask("chat.follow", {"runId": "1"}, caller=OWNER)
            while not followed["done"]:
                followed = await crib.ask("chat.follow", {"runId": "1", "after": followed["after"]}, caller=OWNER)
            history = await crib.ask("chat.history", {"sessionKey": "main"}, caller=OWNER)
            words = "[transcript of a voice message, 1 s]\\n16000 Hz, 1, 1.0 s, -"
            assert words in str(history["messages"][0]).replace("\n", "\\n")
            with pytest.raises(ToolError, match="an attachment is a picture"):
                await crib.ask(
                    "chat.send", {**said, "idempotencyKey": "2", "attachments": [{"content": "aGk="}]}, caller=OWNER
                )


async def test_a_dozen_at_once_each_get_a_file_of_their_own_and_leave_nothing(tmp_path: Path) -> None:
    async with toolcrib.open({"workspace": {"root": str(tmp_path)}}, env={}) as crib:
        belt = crib.belt(OWNER)
        told = await asyncio.gather(*(belt.call("tts", {"text": f"number {at}"}) for at in range(12)))
        assert {each.status for each in told} == {"ok"}, [each.plain_text for each in told]
        paths = [tmp_path / each.details["audioPath"] for each in told]
    assert len(set(paths)) == 12
    assert measure(secrets.choice(paths).read_bytes())[1] > 0.1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["media"]
    assert sorted(tmp_path.glob("media/*")) == sorted(paths)
