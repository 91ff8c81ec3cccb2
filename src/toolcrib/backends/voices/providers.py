"""Providers of speech: programs of this machine, OpenAI and ElevenLabs; and those that transcribe recordings.

Keys travel in headers alone, each to its own provider. What a provider says is outside text.
"""

import os
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Protocol
from urllib.parse import quote

import orjson

from toolcrib.define.display import quote_short, strip, strip_to_line
from toolcrib.define.errors import ToolError
from toolcrib.define.voice import Speech, SpeechFormat, Transcript, Utterance, VoiceProvider
from toolcrib.define.web import Http, Page, pack_form
from toolcrib.lazy import regex

from .programs import VoicePrograms, find_piper_voice, measure_wav, write_wav

_SPEECH_BYTES, _ANSWER_BYTES = 32 << 20, 1 << 20
_HEARING_SECONDS, _TRANSCRIPT_CHARS, _LINE_CHARS = 120.0, 50_000, 300
_VOICE_NAME = regex(r"[A-Za-z0-9][\w+.-]{0,63}", re.ASCII)
_KEY_CHARS = 8  # anything shorter stands in ordinary words, too
_SOUNDS: dict[SpeechFormat, re.Pattern[bytes]] = {  # how each begins
    "opus": regex(rb"OggS"),
    "wav": regex(rb"RIFF"),
    "mp3": regex(rb"ID3|\xff[\xe2-\xe7\xf2-\xf7\xfa-\xff]"),
}


class VoiceTerms(Protocol):
    """What the configuration says about speech, under `media.tts`: all but `provider` is about that one alone."""

    @property
    def provider(self) -> str | None: ...
    @property
    def voice(self) -> str | None: ...
    @property
    def model(self) -> str | None: ...
    @property
    def api_key(self) -> str | None: ...
    @property
    def base_url(self) -> str | None: ...


class HearingTerms(Protocol):
    """Settings of transcription, under `media.stt`."""

    @property
    def base_url(self) -> str | None: ...
    @property
    def api_key(self) -> str | None: ...
    @property
    def model(self) -> str | None: ...
    @property
    def language(self) -> str | None: ...
    @property
    def max_seconds(self) -> int: ...


class EspeakVoice:
    """espeak-ng: small, quick, and in a hundred languages."""

    name, label, is_local = "espeak", "eSpeak NG", True
    models: tuple[str, ...] = ()

    def __init__(self, programs: VoicePrograms, voice: str = "") -> None:
        self._programs, self._voice = programs, voice

    def explain_absence(self) -> str:
        return self._programs.explain_missing("espeak-ng")

    async def speak(self, utterance: Utterance, /) -> Speech:
        voice = utterance.voice or self._voice
        if voice and not _VOICE_NAME.fullmatch(voice):
            raise ToolError(
                f"espeak-ng has no voice {quote_short(voice)}; `espeak-ng --voices` lists them", code="not_found"
            )
        return await _encode(self._programs, await self._programs.run_espeak(utterance.text, voice), utterance.format)


class PiperVoice:
    """piper: a neural voice on this machine. A voice is a file of it, FILE.onnx with FILE.onnx.json beside it."""

    name, label, is_local = "piper", "Piper", True
    models: tuple[str, ...] = ()

    def __init__(self, programs: VoicePrograms, voice: str = "") -> None:
        self._programs, self._voice = programs, voice

    def explain_absence(self) -> str:
        is_there = find_spec("piper") and (self._voice or find_piper_voice())
        return "" if is_there else "piper is not installed here; install toolcrib[tts-neural]"

    async def speak(self, utterance: Utterance, /) -> Speech:
        named = utterance.voice or self._voice
        if why := PiperVoice(self._programs, named).explain_absence():
            raise ToolError(why, code="unavailable")
        model = Path(os.path.realpath(os.path.expanduser(named))) if named else find_piper_voice()  # noqa: PTH111  Path's own raises
        if model is None or model.suffix != ".onnx" or not model.is_file():
            raise ToolError(
                f"piper has no voice {quote_short(named)}; name a file like en_US-joe-medium.onnx", code="not_found"
            )
        return await _encode(self._programs, await self._programs.run_piper(utterance.text, model), utterance.format)


async def _encode(programs: VoicePrograms, sound: bytes, format: SpeechFormat) -> Speech:
    sound, seconds = measure_wav(sound)
    return Speech(sound if format == "wav" else await programs.encode(sound, format), seconds)


class HostedVoice(ABC):
    """A voice behind HTTP; `variables` are where its key may be in the environment."""

    name: ClassVar[str]
    label: ClassVar[str]
    models: ClassVar[tuple[str, ...]]
    base_url: ClassVar[str]
    usual_voice: ClassVar[str]
    variables: ClassVar[tuple[str, ...]]
    is_local = False

    def __init__(self, terms: VoiceTerms | None, env: Mapping[str, str], http_for: Callable[[str], Http]) -> None:
        given = next((value for name in self.variables if (value := env.get(name))), "")
        self._key = ((terms and terms.api_key) or given).strip()
        self._base = _find_root((terms and terms.base_url) or self.base_url)
        self._model = (terms and terms.model) or self.models[0]
        self._voice, self._http_for = (terms and terms.voice) or self.usual_voice, http_for

    def explain_absence(self) -> str:
        """Return that it has no key, or one that is none."""
        where = " or ".join(("media.tts.apiKey", *self.variables))
        if not self._key and self._base == _find_root(self.base_url):  # a server of one's own may want none
            return f"{self.name} needs an API key: set {where}"
        is_plain = self._key.isascii() and self._key.isprintable()
        return "" if is_plain else f"the API key for {self.name} holds what no key has; check {where}"

    @abstractmethod
    async def speak(self, utterance: Utterance, /) -> Speech: ...

    async def _ask(self, path: str, headers: Mapping[str, str], body: Mapping[str, Any]) -> bytes:
        """Return the sound that is answered."""
        if why := self.explain_absence():
            raise ToolError(why, code="unavailable")
        headers = {"content-type": "application/json", **headers}
        http, packed = self._http_for(self._base), orjson.dumps(body)
        page = await http.send("POST", f"{self._base}{path}", headers=headers, body=packed, most=_SPEECH_BYTES)
        if page.status != 200:
            raise _describe_failure(self.name, page, self._key, " or ".join(("media.tts.apiKey", *self.variables)))
        return page.body

    def _check(self, sound: bytes, format: SpeechFormat) -> Speech:
        if not _SOUNDS[format].match(sound):
            what = f"{self.name} answered with something that is no {format}; check media.tts.baseUrl"
            raise ToolError(what, code="damaged")
        return Speech(*measure_wav(sound)) if format == "wav" else Speech(sound)


class OpenAiVoice(HostedVoice):
    """OpenAI's speech, or anything that is asked the same way."""

    name, label = "openai", "OpenAI"
    models = ("gpt-4o-mini-tts", "tts-1", "tts-1-hd")
    base_url, usual_voice, variables = "https://api.openai.com/v1", "alloy", ("OPENAI_API_KEY",)

    async def speak(self, utterance: Utterance, /) -> Speech:
        """Return the sound as the provider makes it."""
        body = {
            "model": self._model,
            "input": utterance.text,
            "voice": utterance.voice or self._voice,
            "response_format": utterance.format,
        }
        signed = {"authorization": f"Bearer {self._key}"} if self._key else {}
        sound = await self._ask("/v1/audio/speech", signed, body)
        return self._check(sound, utterance.format)


class ElevenLabsVoice(HostedVoice):
    """ElevenLabs; a voice is its id."""

    name, label = "elevenlabs", "ElevenLabs"
    models = ("eleven_multilingual_v2", "eleven_turbo_v2_5", "eleven_v3")
    base_url, usual_voice = "https://api.elevenlabs.io", "JBFqnCBsd6RMkjVDRZzb"
    variables = ("ELEVENLABS_API_KEY", "XI_API_KEY")
    _forms: ClassVar[dict[SpeechFormat, str]] = {"opus": "opus_48000_64", "mp3": "mp3_44100_128", "wav": "pcm_24000"}

    async def speak(self, utterance: Utterance, /) -> Speech:
        """Return the sound as the provider makes it, plain samples with the head of a WAV."""
        voice, form = quote(utterance.voice or self._voice, safe=""), self._forms[utterance.format]
        body = {"text": utterance.text, "model_id": self._model}
        path = f"/v1/text-to-speech/{voice}?output_format={form}"
        sound = await self._ask(path, {"xi-api-key": self._key}, body)
        return self._check(write_wav(sound, 24_000) if utterance.format == "wav" else sound, utterance.format)


class LocalAndHostedVoices:
    """The voices of one crib, and its ears."""

    def __init__(
        self, env: Mapping[str, str], http_for: Callable[[str], Http], state: Path | None, is_bare: Callable[[], bool]
    ) -> None:
        self._env, self._http_for = env, http_for
        self._programs = VoicePrograms(state, is_bare)
        self._choice = None if state is None else state / "voice.json"
        self.close = self._programs.close

    def list_providers(self, terms: VoiceTerms) -> dict[str, VoiceProvider]:
        """Return everybody who might speak, by name; a key, an address and a voice go to the one they were set for."""
        voice = terms.voice or ""
        named = terms.provider or EspeakVoice.name
        found: list[VoiceProvider] = [
            local(self._programs, voice if local.name == named else "") for local in (EspeakVoice, PiperVoice)
        ]
        for hosted in (OpenAiVoice, ElevenLabsVoice):
            found.append(hosted(terms if hosted.name == named else None, self._env, self._http_for))
        return {each.name: each for each in found}

    async def transcribe(self, recording: bytes, terms: HearingTerms) -> Transcript:
        """Return the transcript of a recording."""
        sound, seconds = measure_wav(await self._programs.decode(recording, terms.max_seconds + 1))
        if seconds > terms.max_seconds:
            limit = f"{terms.max_seconds} seconds are listened to"
            raise ToolError(f"the recording is too long: {limit}; send it in parts", code="too_large")
        root, fields = (
            _find_root(terms.base_url or ""),
            {"model": terms.model or "whisper-1", "response_format": "json"},
        )
        fields |= {"language": terms.language} if terms.language else {}
        kind, body = pack_form(fields, "file", "speech.wav", sound, "audio/wav")
        headers = {"content-type": kind}
        headers |= {"authorization": f"Bearer {terms.api_key}"} if terms.api_key else {}
        page = await self._http_for(root).send(
            "POST",
            f"{root}/v1/audio/transcriptions",
            headers=headers,
            body=body,
            most=_ANSWER_BYTES,
            seconds=_HEARING_SECONDS,
        )
        if page.status != 200:
            raise _describe_failure("the server of media.stt", page, terms.api_key or "", "media.stt.apiKey")
        text = _read(page, "text")
        if not isinstance(text, str):
            raise ToolError("the server of media.stt answered without a text; check media.stt.baseUrl", code="damaged")
        return Transcript(strip(text).strip()[:_TRANSCRIPT_CHARS], seconds)

    def read_choice(self) -> dict[str, Any]:
        """Return what was chosen while running; what cannot be read was not."""
        if self._choice is None or not self._choice.exists():
            return {}
        try:
            kept = orjson.loads(self._choice.read_bytes())
        except (OSError, orjson.JSONDecodeError) as error:
            raise ToolError(f"{str(self._choice)!r} cannot be read ({error}); mend it, or take it away") from None
        return kept if isinstance(kept, dict) else {}

    def keep_choice(self, choice: Mapping[str, Any]) -> None:
        """Keep what was chosen, for the next start, too."""
        if self._choice is None:
            return
        self._choice.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._choice.with_name(f".{self._choice.name}.{secrets.token_hex(4)}")
        try:
            with fresh.open("xb") as file:
                file.write(orjson.dumps(choice))
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(self._choice)
        finally:
            with suppress(OSError):
                fresh.unlink()


def _find_root(url: str) -> str:
    """Return an address without its end `/v1`, which stands in the paths: people write it with and without."""
    return url.rstrip("/").removesuffix("/v1")


def _read(page: Page, *path: str) -> Any:
    """Return what stands at a path of a JSON answer, None where there is nothing."""
    value = page.read_json()
    try:
        for step in path:
            value = value[step]
    except (LookupError, TypeError):
        return None
    return value


def _describe_failure(name: str, page: Page, key: str, where: str) -> ToolError:
    """Return what a provider complained about, without the key that it may quote."""
    words = (_read(page, *path) for path in (("error", "message"), ("detail", "message"), ("detail",), ("error",)))
    complaint = next((strip_to_line(each)[:_LINE_CHARS] for each in words if isinstance(each, str)), "")
    complaint = complaint.replace(key, "…") if len(key) >= _KEY_CHARS else complaint
    text = f"{name} answered {page.status}{f': {complaint}' if complaint else ''}"
    text += f"; check {where}" if page.status in (401, 403) else "; try again later" if page.status == 429 else ""
    return ToolError(text, source="voice" if complaint else None)
