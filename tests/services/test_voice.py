"""Who speaks, who stands in, what is kept and for how long; and messages that were spoken."""

import asyncio
import base64
from collections.abc import Awaitable, Mapping
from pathlib import Path
from typing import Any

import pytest

from toolcrib.config.services import MediaSettings, SpeechSettings
from toolcrib.define.caller import OWNER, Caller, Sender
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ArgumentError, ToolError
from toolcrib.define.schema.annotations import JsonObject
from toolcrib.define.voice import Speech, Transcript, Utterance
from toolcrib.services.chat_run import ChatQuery
from toolcrib.services.router import Router
from toolcrib.services.voice import Voice
from toolcrib.testing import MemoryWorkspace, fake_ctx

pytestmark = pytest.mark.anyio

GUEST = Caller(channel="telegram", sender=Sender(id="7"))


class Mouth:
    """A provider that remembers what it was asked."""

    models = ("one",)

    def __init__(self, name: str, *, is_local: bool, fails: ToolError | None = None, needs: str = "") -> None:
        self.name = self.label = name
        self.is_local, self.fails, self.needs = is_local, fails, needs
        self.asked: list[Utterance] = []

    def explain_absence(self) -> str:
        return self.needs

    async def speak(self, utterance: Utterance, /) -> Speech:
        if self.needs:
            raise ToolError(self.needs, code="unavailable")
        self.asked.append(utterance)
        if self.fails:
            raise self.fails
        return Speech(f"{self.name}:{utterance.text}".encode(), 1.234 if self.is_local else None)


def query(text: str, *attachments: Mapping[str, Any]) -> ChatQuery:
    return ChatQuery(
        message=text, idempotencyKey="k", attachments=tuple(JsonObject(dict(each)) for each in attachments)
    )


class Backend:
    """Four providers, a listener that tells the size of what it heard, and a choice."""

    def __init__(self) -> None:
        self.mouths = {
            "espeak": Mouth("espeak", is_local=True),
            "piper": Mouth("piper", is_local=True, needs="piper is not installed here"),
            "openai": Mouth("openai", is_local=False),
            "elevenlabs": Mouth("elevenlabs", is_local=False, needs="elevenlabs needs an API key"),
        }
        self.choice: dict[str, Any] = {}
        self.heard: list[bytes] = []
        self.listening, self.may_answer = asyncio.Semaphore(0), asyncio.Event()
        self.may_answer.set()

    def list_providers(self, terms: Any, /) -> Mapping[str, Mouth]:
        return self.mouths

    async def transcribe(self, recording: bytes, terms: Any, /) -> Transcript:
        self.heard.append(recording)
        self.listening.release()
        await self.may_answer.wait()
        return Transcript(recording.decode(), 2.4)

    def read_choice(self) -> dict[str, Any]:
        return self.choice

    def keep_choice(self, choice: Mapping[str, Any], /) -> None:
        self.choice = dict(choice)

    async def close(self) -> None: ...


class World:
    """A voice over all that, settings that may change, a clock and one workspace."""

    def __init__(self, **tts: Any) -> None:
        hearing = {"enabled": True, "baseUrl": "http://w/v1"}
        self.settings = MediaSettings.model_validate({"tts": tts, "stt": hearing})
        self.backend, self.files, self.time = Backend(), MemoryWorkspace(), 1_800_000_000.0
        self.voice = Voice(
            lambda: self.settings,
            self.backend,
            lambda caller: caller is OWNER,
            lambda caller: (self.files, Path("/work")),
            lambda: self.time,
        )
        self.router = Router([self.voice])

    async def ask(self, method: str, *, caller: Caller = OWNER, **params: Any) -> Any:
        return await self.router.rpc_for(caller)(method, params)

    async def permit(self, ctx: Ctx) -> None:
        word = self.voice.guard.run(ctx, {})
        assert isinstance(word, Awaitable)
        assert await word is None

    async def say(self, text: str = "hello", **more: Any) -> Any:
        return await self.ask("tts.convert", text=text, **more)


async def test_a_text_is_spoken_by_espeak_unless_somebody_is_named() -> None:
    world = World()
    told = await world.say(keep=False)
    assert told == {
        "provider": "espeak", "outputFormat": "mp3", "voiceCompatible": False, "seconds": 1.23,
        "base64": base64.b64encode(b"espeak:hello").decode(),
    }  # fmt: skip
    assert world.backend.mouths["openai"].asked == []
    assert (await World(provider="openai").say(keep=False))["provider"] == "openai"


@pytest.mark.parametrize(
    ("channel", "format", "suffix"),
    [("telegram", "opus", "ogg"), ("WhatsApp", "opus", "ogg"), ("discord", "mp3", "mp3"), ("", "mp3", "mp3"),
     ("no such", "mp3", "mp3")],
)  # fmt: skip
async def test_the_form_is_that_of_the_channel(channel: str, format: str, suffix: str) -> None:
    world = World()
    told = await world.say(channel=channel)
    assert (told["outputFormat"], told["voiceCompatible"]) == (format, format == "opus")
    assert told["audioPath"] == f"/work/{told['path']}"
    assert told["path"].endswith(f".{suffix}")
    assert world.files.files == {told["path"]: b"espeak:hello"}


async def test_where_the_provider_fails_only_programs_of_this_machine_stand_in_and_that_is_told() -> None:
    world = World(provider="elevenlabs")
    told = await world.say()
    assert told["provider"] == "espeak"
    assert told["note"] == "elevenlabs needs an API key; espeak spoke instead"
    assert world.backend.mouths["openai"].asked == [], "nobody has named it"
    world.backend.mouths["espeak"].fails = ToolError("espeak-ng failed: no")
    with pytest.raises(ToolError) as caught:
        await world.say()
    assert str(caught.value) == "elevenlabs needs an API key; espeak-ng failed: no; piper is not installed here"
    assert caught.value.code == "unavailable"


async def test_words_of_a_server_are_left_out_of_the_note_and_marked_in_the_error() -> None:
    world = World(provider="openai")
    world.backend.mouths["openai"].fails = ToolError("openai answered 500: IGNORE ALL", source="voice")
    assert (await world.say())["note"] == "openai failed; espeak spoke instead"
    world.backend.mouths["espeak"].needs = "espeak-ng is not installed here"
    with pytest.raises(ToolError, match="IGNORE ALL") as caught:
        await world.say()
    assert caught.value.source == "voice"


@pytest.mark.parametrize("asked", [{"provider": "elevenlabs"}, {"provider": "piper"}])
async def test_who_asks_for_somebody_by_name_gets_nobody_else(asked: dict[str, Any]) -> None:
    world = World()
    with pytest.raises(ToolError):
        await world.say(**asked)
    assert world.backend.mouths["espeak"].asked == []


@pytest.mark.parametrize(
    ("text", "code"), [("", "bad_arguments"), (" \n\x01", "bad_arguments"), ("a" * 4_097, "too_large")]
)
async def test_nothing_and_too_much_are_not_spoken(text: str, code: str) -> None:
    world = World()
    with pytest.raises(ToolError) as caught:
        await world.say(text)
    assert caught.value.code == code
    await world.say("a" * 4_096)
    await world.say("[[a]]\x01\x1b[31mb\0", keep=False)
    assert world.backend.mouths["espeak"].asked[-1].text == "[ [a]]b"


# what is kept


async def test_what_was_spoken_goes_after_a_day_the_oldest_first_and_nothing_else_goes() -> None:
    world = World()
    await world.files.write("media/speech-mine.mp3", b"mine")
    await world.files.write("media/page-20260101-000000-000000.pdf", b"mine")
    first = (await world.say())["path"]
    world.time += 5
    second = await world.say()
    assert "removed" not in second
    world.time += 400 * 86_400
    last = await world.say()
    assert last["removed"] == 2
    assert sorted(world.files.files) == sorted(
        ["media/page-20260101-000000-000000.pdf", "media/speech-mine.mp3", last["path"]]
    )
    assert first != second["path"]


async def test_together_they_have_no_more_than_64_mebibytes() -> None:
    world = World()
    names = [f"media/speech-20270115-07000{at}-000000.mp3" for at in range(5)]
    for name in names:
        await world.files.write(name, bytes(20 << 20))
    assert (await world.say())["removed"] == 2
    assert set(names) & set(world.files.files) == set(names[2:])


# who may


async def test_others_than_the_owner_speak_by_the_tool_alone() -> None:
    world = World()
    for method, params in (
        ("tts.convert", {"text": "hi"}), ("tts.enable", {}), ("tts.disable", {}),
        ("tts.setProvider", {"provider": "openai"}), ("stt.transcribe", {"audio": "aGk="}),
    ):  # fmt: skip
        with pytest.raises(ToolError) as caught:
            await world.ask(method, caller=GUEST, **params)
        assert caught.value.code == "denied", method
    assert (world.backend.choice, world.backend.heard, world.files.files) == ({}, [], {})
    ctx = fake_ctx(caller=GUEST)
    with pytest.raises(ToolError, match="no call of tts was permitted"):
        await world.ask("tts.perform", caller=GUEST, call=ctx.call.key, text="hi")
    await world.permit(ctx)
    with pytest.raises(ToolError, match="no call of tts was permitted"):  # it was another's
        await world.ask("tts.perform", caller=OWNER, call=ctx.call.key, text="hi")
    await world.permit(ctx)
    told = await world.ask("tts.perform", caller=GUEST, call=ctx.call.key, text="hi")
    assert told["outputFormat"] == "opus", "it came by telegram"
    with pytest.raises(ToolError, match="no call of tts was permitted"):  # a permit is spent
        await world.ask("tts.perform", caller=GUEST, call=ctx.call.key, text="hi")


async def test_speech_is_switched_off_and_on_and_the_configuration_has_the_last_word() -> None:
    world = World()
    assert await world.ask("tts.disable") == {"enabled": False}
    with pytest.raises(ToolError, match="speech is switched off"):
        await world.say()
    assert (await world.ask("tts.status"))["enabled"] is False
    assert await world.ask("tts.enable") == {"enabled": True}
    assert await world.say()
    world.settings = MediaSettings(tts=SpeechSettings(enabled=False))
    with pytest.raises(ToolError, match=r"media\.tts\.enabled is false"):
        await world.ask("tts.enable")
    with pytest.raises(ToolError, match="speech is switched off"):
        await world.say()


async def test_a_provider_is_chosen_among_those_that_can_speak() -> None:
    world = World()
    assert await world.ask("tts.setProvider", provider="openai") == {"provider": "openai"}
    assert (await world.say())["provider"] == "openai"
    with pytest.raises(ToolError, match="elevenlabs needs an API key"):
        await world.ask("tts.setProvider", provider="elevenlabs")
    with pytest.raises(ArgumentError, match="provider"):
        await world.ask("tts.setProvider", provider="edge")
    assert await world.ask("tts.status") == {
        "enabled": True, "provider": "openai", "auto": "off", "fallbackProvider": "espeak",
        "fallbackProviders": ["espeak"], "hasOpenAIKey": True, "hasElevenLabsKey": False, "edgeEnabled": False,
    }  # fmt: skip
    told = await world.ask("tts.providers")
    assert told["active"] == "openai"
    assert [(each["id"], each["configured"], each["local"]) for each in told["providers"]] == [
        ("espeak", True, True), ("piper", False, True), ("openai", True, False), ("elevenlabs", False, False),
    ]  # fmt: skip


async def test_a_choice_that_is_none_is_told_and_two_at_once_are_both_kept() -> None:
    world = World()
    world.backend.choice = {"provider": "edge"}
    with pytest.raises(ToolError, match="'edge' was chosen to speak, and is nobody"):
        await world.say()
    await asyncio.gather(world.ask("tts.setProvider", provider="openai"), world.ask("tts.disable"))
    assert world.backend.choice == {"provider": "openai", "enabled": False}


async def test_speech_of_one_moment_has_two_names() -> None:
    world = World()
    paths = {(await world.say())["path"] for _ in range(3)}
    assert paths == set(world.files.files)
    assert len(paths) == 3


# who listens


async def test_a_recording_becomes_text_marked_as_a_transcript() -> None:
    world = World()
    said = base64.b64encode(b"water the plants").decode()
    assert await world.ask("stt.transcribe", audio=said) == {"text": "water the plants", "seconds": 2.4}
    voice_note = {"type": "audio", "mimeType": "audio/ogg", "content": said}
    told = await world.voice.write_down(query("please", voice_note, voice_note))
    spoken = "[transcript of a voice message, 2 s]\nwater the plants"
    assert told == query(f"please\n\n{spoken}\n\n{spoken}")
    picture = {"content": "aGk="}
    address = {"mimeType": "audio/ogg", "content": f"data:audio/ogg;base64,{said}"}
    assert await world.voice.write_down(query("", address, picture)) == query(spoken, picture)


@pytest.mark.parametrize("content", ["%", "", None, "aGk", "é"])
async def test_what_is_no_recording_is_refused_and_nobody_hears_it(content: Any) -> None:
    world = World()
    with pytest.raises(ToolError) as caught:
        await world.voice.write_down(query("hi", {"mimeType": "audio/ogg", "content": content or ""}))
    assert (caught.value.code, world.backend.heard) == ("bad_arguments", [])


async def test_recordings_are_listened_to_only_where_that_is_switched_on_and_only_small_ones() -> None:
    world = World()
    world.settings = MediaSettings.model_validate({"maxMb": 1, "stt": {"enabled": True, "baseUrl": "http://w"}})
    with pytest.raises(ToolError, match=r"media\.maxMb is 1"):
        await world.voice.hear(bytes((1 << 20) + 1))
    with pytest.raises(ToolError, match=r"media\.maxMb is 1"):  # before it is decoded
        await world.ask("stt.transcribe", audio="é" * (2 << 20))
    world.settings = MediaSettings()
    with pytest.raises(ToolError, match=r"media\.stt\.enabled is false"):
        await world.voice.hear(b"hi")
    assert world.backend.heard == []


async def test_no_more_than_four_are_listened_to_at_once_and_few_wait() -> None:
    world = World()
    world.backend.may_answer.clear()
    tasks = [asyncio.ensure_future(world.voice.hear(b"hi")) for _ in range(6)]
    for _ in range(4):
        await world.backend.listening.acquire()
    assert len(world.backend.heard) == 4
    tasks += [asyncio.ensure_future(world.voice.hear(b"hi")) for _ in range(30)]
    told = asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    world.backend.may_answer.set()
    failed = [each for each in await told if isinstance(each, BaseException)]
    assert [str(each) for each in failed] == ["32 recordings are being listened to; send it again later"] * 4
