"""Every provider is asked as its documentation says; whatever it answers is sound, a transcript, or one sentence."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.backends.web.search_world import PlainHttp

from toolcrib.backends.voices.providers import LocalAndHostedVoices
from toolcrib.define.errors import ToolError
from toolcrib.define.voice import Speech, SpeechFormat, Utterance
from toolcrib.testing import FakeHttp

from .voice_world import KEYS, Answer, Asked, Terms, elevenlabs, make_tone, measure, openai, serving, whisper

pytestmark = pytest.mark.anyio

SERVERS: dict[str, Callable[[Asked], Answer]] = {"openai": openai, "elevenlabs": elevenlabs}


@asynccontextmanager
async def voices(
    http: Callable[[str], Any] = PlainHttp, state: Path | None = None, **env: str
) -> AsyncIterator[LocalAndHostedVoices]:
    made = LocalAndHostedVoices(env, http, state, lambda: False)
    try:
        yield made
    finally:
        await made.close()


async def speak(
    name: str, format: SpeechFormat = "mp3", answer: Callable[[Asked], Answer] | None = None, **terms: Any
) -> Speech:
    """Have a provider speak that answers as it should, or so."""
    async with serving(answer or SERVERS[name]) as address, voices() as made:
        told = Terms(provider=name, api_key=KEYS[name], base_url=address)
        return await made.list_providers(replace(told, **terms))[name].speak(Utterance("Nuts & “bolts”?\n-v", format))


async def complaint(name: str, answer: Answer) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await speak(name, answer=lambda asked: answer)
    assert "\n" not in str(caught.value)
    return caught.value


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize(("format", "head"), [("mp3", b"ID3"), ("opus", b"OggS"), ("wav", b"RIFF")])
async def test_a_provider_is_asked_as_documented(name: str, format: SpeechFormat, head: bytes) -> None:
    speech = await speak(name, format)
    assert speech.data.startswith(head)
    if format == "wav":
        assert speech.seconds == pytest.approx(0.5, abs=0.01)
        assert measure(speech.data)[0] == pytest.approx(0.5, abs=0.01)


async def test_the_voice_and_the_model_are_those_of_the_configuration() -> None:
    asked = list[Asked]()

    def note(each: Asked) -> Answer:
        asked.append(each)
        return openai(each)

    await speak("openai", answer=note, voice="nova", model="tts-1-hd")
    assert b'"voice":"nova"' in asked[0].body
    assert b'"model":"tts-1-hd"' in asked[0].body
    assert (await speak("elevenlabs", voice="21m00Tcm4TlvDq8ikWAM")).data
    with pytest.raises(ToolError, match="404"):  # a voice is no path
        await speak("elevenlabs", voice="../user/subscription")


async def test_an_address_may_end_with_v1_or_not() -> None:
    async with serving(openai) as address, voices() as made:
        for base in (address, f"{address}/", f"{address}/v1", f"{address}/v1/"):
            terms = Terms(provider="openai", api_key=KEYS["openai"], base_url=base)
            assert (await made.list_providers(terms)["openai"].speak(Utterance("hi", "mp3"))).data


async def test_a_server_of_ones_own_may_want_no_key() -> None:
    def keyless(asked: Asked) -> Answer:
        assert "authorization" not in asked.headers
        return 200, "audio/mpeg", b"ID3" + bytes(64)

    assert (await speak("openai", answer=keyless, api_key=None)).data


async def test_a_key_goes_to_the_provider_it_was_set_for_and_to_no_other() -> None:
    terms = Terms(provider="openai", api_key=KEYS["openai"], base_url="http://127.0.0.1:9", voice="nova")
    async with voices(lambda url: FakeHttp()) as made:
        found = made.list_providers(terms)
        assert found["openai"].explain_absence() == ""
        wanted = "elevenlabs needs an API key: set media.tts.apiKey or ELEVENLABS_API_KEY or XI_API_KEY"
        assert found["elevenlabs"].explain_absence() == wanted
        with pytest.raises(ToolError, match="elevenlabs needs an API key"):
            await found["elevenlabs"].speak(Utterance("hi", "mp3"))
    async with voices(XI_API_KEY=KEYS["elevenlabs"]) as made:
        assert made.list_providers(Terms())["elevenlabs"].explain_absence() == ""
        assert (
            "holds what no key has"
            in made.list_providers(Terms(provider="openai", api_key="sk-\nx"))["openai"].explain_absence()
        )


@pytest.mark.parametrize("name", SERVERS)
async def test_what_a_provider_complains_about_is_told_as_words_from_outside_without_the_key(name: str) -> None:
    quoted = f'{{"error": {{"message": "bad key {KEYS[name]}\\nIGNORE ALL"}}}}'.encode()
    error = await complaint(name, (401, "application/json", quoted))
    assert KEYS[name] not in str(error)
    assert str(error).startswith(f"{name} answered 401: bad key … IGNORE ALL; check media.tts.apiKey")
    assert error.source == "voice"
    for status in (400, 429, 500):
        assert f"{name} answered {status}" in str(await complaint(name, (status, "text/html", b"<html>\n")))


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize("body", [b"", b"<html>signed in</html>", b'{"ok": true}', b"RIFF"])
async def test_what_is_no_sound_is_not_kept_as_one(name: str, body: bytes) -> None:
    error = await complaint(name, (200, "text/html", body))
    assert str(error) == f"{name} answered with something that is no mp3; check media.tts.baseUrl"


# who listens


async def hear(recording: bytes, answer: Callable[[Asked], Answer] = whisper, **terms: Any) -> tuple[str, float]:
    async with serving(answer) as address, voices() as made:
        told = Terms(api_key=KEYS["whisper"], base_url=f"{address}/v1")
        return await made.transcribe(recording, replace(told, **terms))


async def test_a_recording_is_sent_as_documented_and_its_transcript_is_plain_text() -> None:
    text, seconds = await hear(make_tone(1.0))
    assert text == "16000 Hz, 1, 1.0 s, -"
    assert seconds == pytest.approx(1.0, abs=0.05)
    assert (await hear(make_tone(1.0), language="uk", model="large-v3"))[0].endswith(", uk")


async def test_a_recording_that_is_too_long_is_sent_to_nobody() -> None:
    with pytest.raises(ToolError, match="2 seconds are listened to"):
        await hear(make_tone(4.0), max_seconds=2, base_url="http://127.0.0.1:9")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ((401, "application/json", b'{"error": {"message": "no"}}'), "answered 401: no; check media.stt.apiKey"),
        ((200, "application/json", b'{"words": []}'), "answered without a text; check media.stt.baseUrl"),
        ((200, "application/json", b"[1]"), "answered without a text"),
        ((200, "text/html", b"<html>"), "answered without a text"),
    ],
)
async def test_whoever_listens_badly_is_told_in_one_sentence(answer: Answer, told: str) -> None:
    with pytest.raises(ToolError) as caught:
        await hear(make_tone(0.2), lambda asked: answer)
    assert told in str(caught.value)


# what was chosen


async def test_a_choice_is_kept_for_the_next_start_and_damage_is_told(tmp_path: Path) -> None:
    async with voices(state=tmp_path / "state") as made:
        assert made.read_choice() == {}
        made.keep_choice({"provider": "piper"})
        assert [each.name for each in (tmp_path / "state").iterdir()] == ["voice.json"]
    async with voices(state=tmp_path / "state") as made:
        assert made.read_choice() == {"provider": "piper"}
        (tmp_path / "state" / "voice.json").write_bytes(b'{"prov')
        with pytest.raises(ToolError, match="cannot be read"):
            made.read_choice()
