"""What a model reads of speech, and what programs find beside it."""

from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Result, ToolError
from toolcrib.testing import call, fake_ctx
from toolcrib.tools.media.tts import tts

pytestmark = pytest.mark.anyio

TOLD = {
    "path": "media/speech-1.ogg", "audioPath": "/work/media/speech-1.ogg", "provider": "espeak",
    "outputFormat": "opus", "voiceCompatible": True, "seconds": 1.2,
}  # fmt: skip


async def speak(answer: Any, **args: Any) -> tuple[Result, list[tuple[str, dict[str, Any]]]]:
    ctx = fake_ctx(rpc={"tts.perform": answer})
    return await call(tts, {"text": "hello", **args}, ctx), ctx.rpc.calls


async def test_the_file_is_named_and_its_facts_stand_in_the_details() -> None:
    told, calls = await speak(TOLD, channel="telegram")
    assert told == Result.text(
        "MEDIA:media/speech-1.ogg\n1.2 seconds, opus, spoken by espeak",
        details={
            "audioPath": "media/speech-1.ogg", "format": "opus", "asVoice": True, "provider": "espeak", "seconds": 1.2,
        },
    )  # fmt: skip
    assert [(name, {**params, "call": ""}) for name, params in calls] == [
        ("tts.perform", {"call": "", "text": "hello", "channel": "telegram"})
    ]


async def test_who_stood_in_and_what_was_removed_is_told() -> None:
    told, _ = await speak({**TOLD, "note": "openai failed; espeak spoke instead", "removed": 3})
    assert "\nopenai failed; espeak spoke instead\n3 older recordings were removed" in told.plain_text
    assert (told.details["note"], told.details["removed"]) == ("openai failed; espeak spoke instead", 3)


async def test_why_it_failed_is_said_in_words() -> None:
    told, _ = await speak(ToolError("espeak-ng is not installed here", code="unavailable"))
    assert (told.status, told.plain_text) == ("error", "espeak-ng is not installed here")


async def test_a_text_really_becomes_a_file_of_the_workspace(tmp_path: Path) -> None:
    async with toolcrib.open({"workspace": {"root": str(tmp_path)}}) as crib:
        told = await crib.belt(OWNER).call("tts", {"text": "-v hello", "channel": "telegram"})
        assert told.status == "ok", told.plain_text
        assert (tmp_path / told.details["audioPath"]).read_bytes().startswith(b"OggS")
        kept = await crib.ask("tts.convert", {"text": "hello"}, caller=OWNER)
        assert Path(kept["audioPath"]).read_bytes().startswith(b"ID3")
        assert Path(kept["audioPath"]).parent == tmp_path / "media"


@pytest.mark.parametrize(
    ("config", "layer"),
    [({"media": {"tts": {"enabled": False}}}, "requires"), ({"tools": {"deny": ["group:media"]}}, "global")],
)
async def test_the_gate_stands_before_it(config: dict[str, Any], layer: str) -> None:
    async with toolcrib.open(config) as crib:
        assert crib.belt(OWNER).verdicts["tts"].layer == layer
