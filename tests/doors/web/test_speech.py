"""Speech in a real browser: answers are read aloud, and what is said into the microphone is written down."""

from pathlib import Path
from shutil import which
from typing import Any

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from tests.backends.voices.voice_world import KEYS, Answer, Asked, make_tone, serving, whisper

from .page_world import NEEDS_CHROMIUM, page_of

pytestmark = NEEDS_CHROMIUM


@pytest.mark.skipif(which("espeak-ng") is None, reason="impossible here: nothing on this machine speaks")
async def test_an_answer_is_read_aloud_and_a_missing_microphone_is_said() -> None:
    answer: dict[str, Any] = {"role": "assistant", "content": [{"text": "Good morning to you."}]}
    said = [{"content": [{"text": "hi"}]}, answer]
    async with page_of() as world:
        page = await world.visit(await world.tell("agent:main:spoken", said), permissions=["microphone"])
        await page.get_by_role("button", name="Read aloud").click()
        await page.wait_for_function("() => document.querySelector('audio').currentTime > 0")
        assert await page.evaluate("document.querySelector('audio').duration") > 0.5  # four words
        await page.get_by_role("button", name="Speak a message").click()
        await page.get_by_text("The microphone cannot be used").wait_for()
        assert await page.get_by_role("button", name="Speak a message").get_attribute("aria-pressed") == "false"


async def test_what_is_spoken_is_written_down_and_sent_by_nobody_but_who_spoke(tmp_path: Path) -> None:
    (tmp_path / "voice.wav").write_bytes(make_tone(2.0))
    flags = ["--use-fake-device-for-media-stream", f"--use-file-for-fake-audio-capture={tmp_path / 'voice.wav'}"]
    heard = list[int]()

    def listen(asked: Asked) -> Answer:
        heard.append(len(asked.body))
        return whisper(asked)

    async with serving(listen) as address:
        hearing = {"enabled": True, "baseUrl": f"{address}/v1", "apiKey": KEYS["whisper"]}
        async with page_of({"media": {"stt": hearing}}, flags=flags) as world:
            page = await world.visit("#/chat/main", permissions=["microphone"])
            field, microphone = page.get_by_role("textbox", name="Message"), page.get_by_role("button", name="Speak a")
            await field.fill("I said:")
            await microphone.click()
            await microphone.and_(page.locator("[aria-pressed=true]")).wait_for()
            await page.wait_for_timeout(1500)  # so long somebody speaks
            await microphone.click()
            await page.wait_for_function("() => document.querySelector('textarea').value.includes('16000 Hz')")
            assert (await field.input_value()).startswith("I said: 16000 Hz, 1, ")
            assert [size > 16_000 for size in heard] == [True]  # half a second of sound at the least
            assert await page.get_by_role("article").count() == 0  # it is read before it is sent
            await page.keyboard.press("Enter")
            await page.get_by_role("article", name="You").get_by_text("16000 Hz").wait_for()
