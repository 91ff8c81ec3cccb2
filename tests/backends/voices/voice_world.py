"""Voices and ears on loopback that hold requests against their documentation, and sox to measure sound with."""

import asyncio
import email
import email.policy
import io
import math
import re
import struct
import subprocess
import wave
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

import orjson
from tests.sockets import listening

__all__ = ["KEYS", "Answer", "Asked", "Terms", "elevenlabs", "make_tone", "measure", "openai", "serving", "whisper"]

KEYS = {"openai": "sk-qqqqqqqqqq", "elevenlabs": "xi_qqqqqqqqqq", "whisper": "sk-wwwwwwwwww"}
Answer = tuple[int, str, bytes]


@dataclass(frozen=True)
class Terms:
    """What the configuration says, of voices and of ears."""

    provider: str | None = None
    voice: str | None = None
    model: str | None = None
    api_key: str | None = None
    base_url: str | None = None
    language: str | None = None
    max_seconds: int = 600


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    params: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes


@asynccontextmanager
async def serving(answer: Callable[[Asked], Answer]) -> AsyncIterator[str]:
    """Answer every request; yields the address."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode().strip().split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        sent = await reader.readexactly(int(headers.get("content-length", 0)))
        parts = urlsplit(target)
        status, kind, told = answer(Asked(method, parts.path, dict(parse_qsl(parts.query)), headers, sent))
        head = f"HTTP/1.1 {status} Said\r\ncontent-type: {kind}\r\ncontent-length: {len(told)}\r\nconnection: close"
        writer.write(f"{head}\r\n\r\n".encode() + told)
        await writer.drain()

    async with listening(serve) as port:
        yield f"http://127.0.0.1:{port}"


def make_tone(seconds: float = 0.5, rate: int = 24_000) -> bytes:
    """Return a tone as WAV."""
    samples = (round(9_000 * math.sin(at * 440 * math.tau / rate)) for at in range(int(seconds * rate)))
    made = io.BytesIO()
    with wave.open(made, "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(b"".join(struct.pack("<h", each) for each in samples))
    return made.getvalue()


def measure(sound: bytes) -> tuple[float, float]:
    """Return how long a sound is and how loud at most, as sox says; ffmpeg reads for it what it cannot."""
    decode = ["ffmpeg", "-v", "error", "-i", "pipe:0", "-f", "wav", "pipe:1"]
    plain = subprocess.run(decode, input=sound, capture_output=True, check=True, timeout=120).stdout
    stat = ["sox", "--ignore-length", "-t", "wav", "-", "-n", "stat"]
    told = subprocess.run(stat, input=plain, capture_output=True, check=True, timeout=120).stderr.decode()
    found = [re.search(rf"{name}:\s*([\d.]+)", told) for name in (r"Length \(seconds\)", r"Maximum amplitude")]
    assert all(found), told
    length, loudest = (float(each[1]) for each in found if each)
    return length, loudest


_TONES = {"mp3": b"ID3\x04" + bytes(64), "opus": b"OggS" + bytes(64), "wav": make_tone(0.5)}


def _refuse(status: int, message: str) -> Answer:
    return status, "application/json", orjson.dumps({"error": {"message": message, "type": "invalid_request_error"}})


def openai(asked: Asked) -> Answer:
    """Answer as OpenAI's POST /v1/audio/speech does."""
    if (asked.method, asked.path, asked.params) != ("POST", "/v1/audio/speech", {}):
        return _refuse(404, "Invalid URL")
    if asked.headers.get("authorization") != f"Bearer {KEYS['openai']}":
        return _refuse(401, f"Incorrect API key provided: {asked.headers.get('authorization', '')[7:]}.")
    body = orjson.loads(asked.body)
    is_good = (
        asked.headers.get("content-type") == "application/json"
        and {"model", "input", "voice"} <= body.keys() <= {"model", "input", "voice", "response_format"}
        and re.fullmatch(r"tts-1(-hd)?|gpt-4o-mini-tts", body["model"])
        and 1 <= len(body["input"]) <= 4_096
        and re.fullmatch(r"alloy|ash|ballad|coral|echo|fable|onyx|nova|sage|shimmer|verse", body["voice"])
        and body["response_format"] in _TONES
    )
    if not is_good:
        return _refuse(400, "the request does not validate")
    return 200, "audio/mpeg", _TONES[body["response_format"]]


def elevenlabs(asked: Asked) -> Answer:
    """Answer as ElevenLabs' POST /v1/text-to-speech/{voice_id} does."""
    forms = {"mp3_44100_128": "mp3", "opus_48000_64": "opus", "pcm_24000": "pcm"}
    if asked.method != "POST" or not re.fullmatch(r"/v1/text-to-speech/[A-Za-z0-9]{20}", asked.path):
        return 404, "application/json", b'{"detail": "Not Found"}'
    if asked.headers.get("xi-api-key") != KEYS["elevenlabs"]:
        return 401, "application/json", b'{"detail": {"status": "invalid_api_key", "message": "Invalid API key"}}'
    body = orjson.loads(asked.body)
    is_good = (
        asked.params.keys() == {"output_format"}
        and asked.params["output_format"] in forms
        and body.keys() == {"text", "model_id"}
        and body["text"]
        and re.fullmatch(r"eleven_\w+", body["model_id"])
    )
    if not is_good:
        return 422, "application/json", b'{"detail": [{"msg": "field required", "type": "value_error.missing"}]}'
    form = forms[asked.params["output_format"]]
    return 200, "audio/mpeg", make_tone(0.5)[44:] if form == "pcm" else _TONES[form]


def whisper(asked: Asked) -> Answer:
    """Answer as POST /v1/audio/transcriptions does, to a form with a WAV of 16 kHz; tells what it was sent."""
    if (asked.method, asked.path) != ("POST", "/v1/audio/transcriptions"):
        return _refuse(404, "Invalid URL")
    if asked.headers.get("authorization") != f"Bearer {KEYS['whisper']}":
        return _refuse(401, "Incorrect API key provided")
    head = f"Content-Type: {asked.headers['content-type']}\r\n\r\n".encode()
    form = email.message_from_bytes(head + asked.body, policy=email.policy.HTTP)
    parts = {each.get_param("name", header="content-disposition"): each for each in form.iter_parts()}
    fields = {name: part.get_content().strip() for name, part in parts.items() if name != "file"}
    sound = parts["file"].get_payload(decode=True)
    assert isinstance(sound, bytes)
    is_good = (
        form.get_content_type() == "multipart/form-data"
        and str(parts["file"].get_filename()).endswith(".wav")
        and {"model", "response_format"} <= fields.keys() <= {"model", "response_format", "language"}
        and fields["response_format"] == "json"
    )
    if not is_good:
        return _refuse(400, "the request does not validate")
    with wave.open(io.BytesIO(sound)) as given:
        heard = f"{given.getframerate()} Hz, {given.getnchannels()}, {given.getnframes() / given.getframerate():.1f} s"
    return 200, "application/json", orjson.dumps({"text": f" {heard}, {fields.get('language', '-')}\x07\n"})
