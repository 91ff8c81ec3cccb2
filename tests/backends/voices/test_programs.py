"""espeak-ng speaks and sox measures it; recordings of strangers are read where they can do no harm."""

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.backends.exec.shells import until

from toolcrib.backends.voices.programs import VoicePrograms, find_piper_voice, measure_wav
from toolcrib.backends.voices.providers import EspeakVoice, PiperVoice
from toolcrib.define.errors import ToolError
from toolcrib.define.voice import SpeechFormat, Utterance, prepare_text

from .voice_world import make_tone, measure

pytestmark = pytest.mark.anyio

SENTENCE = "The quick brown fox jumps over the lazy dog."


@asynccontextmanager
async def programs(*, bare: bool = False) -> AsyncIterator[VoicePrograms]:
    made = VoicePrograms(None, lambda: bare)
    try:
        yield made
    finally:
        await made.close()


async def speak(text: str, format: SpeechFormat = "wav", voice: str = "") -> tuple[bytes, float]:
    async with programs() as made:
        speech = await EspeakVoice(made).speak(Utterance(prepare_text(text), format, voice))
    assert speech.seconds is not None
    return speech.data, speech.seconds


@pytest.mark.parametrize(("format", "head"), [("wav", b"RIFF"), ("mp3", b"ID3"), ("opus", b"OggS")])
async def test_espeak_speaks_and_sox_measures_what_we_said_it_lasts(format: SpeechFormat, head: bytes) -> None:
    sound, seconds = await speak(SENTENCE, format)
    length, loudest = measure(sound)
    assert sound.startswith(head)
    assert 2 < seconds < 6
    assert abs(length - seconds) < 0.2
    assert loudest > 0.2, "that is silence"


async def test_the_head_of_a_wav_tells_its_true_length() -> None:
    sound, seconds = await speak(SENTENCE)
    told = subprocess.run(["soxi", "-D", "-"], input=sound, capture_output=True, check=True, timeout=60).stdout
    assert abs(float(told) - seconds) < 0.01


@pytest.mark.parametrize(
    "text",
    ["-v zz --help", "--stdin", "@/etc/passwd", "$(touch pwned); `id`", "\x01100S hello", "a\0b", "<speak>hi</speak>",
     "[[not a phoneme]]", "'\"\\", "\ud800 half", "\x1b[31mred", "🦊", "日本語", "%s%n"],
)  # fmt: skip
async def test_whatever_a_text_holds_is_spoken_and_never_obeyed(text: str) -> None:
    sound, seconds = await speak(text)
    assert sound.startswith(b"RIFF")
    assert 0.1 < seconds < 30


async def test_phonemes_in_brackets_are_read_as_the_text_they_are() -> None:
    named, spelled = await speak("[[h@l'oU]]"), await speak("h@l'oU")
    assert named[1] >= spelled[1]


async def test_a_voice_that_is_not_there_and_one_that_is_no_name_are_refused() -> None:
    with pytest.raises(ToolError, match="voice does not exist"):
        await speak("hello", voice="zz")
    for odd in ("--help", "../../etc/passwd", "a b", "-", "é"):
        with pytest.raises(ToolError, match="has no voice"):
            await speak("hello", voice=odd)


async def test_another_voice_speaks_otherwise() -> None:
    assert (await speak(SENTENCE, voice="de"))[0] != (await speak(SENTENCE))[0]


async def test_without_the_program_it_is_said_what_to_install() -> None:
    async with programs() as made:
        assert made.explain_missing("espeak-ng") == ""
        assert made.explain_missing("no-such") == "no-such is not installed here; install the Debian package no-such"
        with pytest.raises(ToolError, match="no-such is not installed"):
            await made.run(("no-such",), b"")


async def test_where_the_operator_chose_the_bare_host_programs_run_there() -> None:
    async with programs(bare=True) as made:
        sound, _ = measure_wav(await made.run_espeak("hello", ""))
        assert (await made.encode(sound, "mp3")).startswith(b"ID3")


async def test_programs_see_no_file_of_anybody_and_no_network(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("S3CRET")
    async with programs() as made:
        with pytest.raises(ToolError, match="No such file"):
            await made.run(("cat", str(secret)), b"")
        assert b"eth" not in await made.run(("cat", "/proc/net/dev"), b"")


async def test_a_program_that_hangs_is_ended_with_who_waits_for_it() -> None:
    async with programs() as made:
        waits = asyncio.ensure_future(made.run(("sleep", "1000"), b""))
        await until(lambda: _is_running("sleep 1000"))
        waits.cancel()
        await asyncio.wait((waits,))
        assert waits.cancelled()
        assert not _is_running("sleep 1000")
        with pytest.raises(ToolError, match=r"sleep took longer than 0 s and was ended"):
            await made.run(("sleep", "1000"), b"", seconds=0.3)


def _is_running(words: str) -> bool:
    """Tell whether a child of ours, at any depth, has these words."""
    listed = subprocess.run(["ps", "-eo", "ppid,pid,args"], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()[1:]]
    ours = {os.getpid()}
    for _ in range(8):
        ours |= {int(pid) for parent, pid, _ in rows if int(parent) in ours}
    return any(words in args for _, pid, args in rows if int(pid) in ours)


# recordings of strangers


@pytest.mark.parametrize("kind", ["ogg", "mp3", "flac", "mp4", "webm", "aiff"])
async def test_a_recording_of_any_kind_is_heard_as_plain_sound(kind: str, tmp_path: Path) -> None:
    form = {"mp4": "ipod", "webm": "webm"}.get(kind, kind)
    codec = ["-c:a", "libopus"] if kind in ("ogg", "webm") else []
    path = tmp_path / f"said.{kind}"
    pack = ["ffmpeg", "-v", "error", "-i", "pipe:0", *codec, "-f", form, str(path)]  # an MP4 has its index at the end
    subprocess.run(pack, input=make_tone(1.0, 48_000), check=True, timeout=60)
    async with programs() as made:
        heard, seconds = measure_wav(await made.decode(path.read_bytes(), 60))
    assert abs(seconds - 1.0) < 0.2
    assert measure(heard)[1] > 0.1


async def test_a_long_recording_is_cut_where_it_is_too_long() -> None:
    async with programs() as made:
        assert measure_wav(await made.decode(make_tone(5.0), 2))[1] == pytest.approx(2.0, abs=0.05)


PLAYLIST = b"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n"


@pytest.mark.parametrize(
    "recording",
    [
        b"x", bytes(100_000), b"RIFF" + b"\xff" * 5_000, b"OggS" + os.urandom(5_000), b"ID3" + bytes(64), PLAYLIST,
        b"ffconcat version 1.0\nfile /etc/passwd\n", b"<svg xmlns='http://www.w3.org/2000/svg'/>", make_tone(0.2)[:44],
        b"\x89PNG\r\n\x1a\n" + bytes(64), b"#!AMR\n", b"\0\0\0\x1cftypisom" + b"\xff" * 4_000,
    ],
)  # fmt: skip
async def test_what_is_no_recording_is_refused_in_one_sentence(recording: bytes) -> None:
    async with programs() as made:
        with pytest.raises(ToolError) as caught:
            measure_wav(await made.decode(recording, 60))
    assert "\n" not in str(caught.value)
    assert "root:" not in str(caught.value)


# the neural voice


@pytest.mark.full
@pytest.mark.skipif(not find_piper_voice(), reason="impossible here: toolcrib[tts-neural] is not installed")
async def test_piper_speaks_and_sox_measures_it() -> None:
    async with programs() as made:
        speech = await PiperVoice(made).speak(Utterance(SENTENCE, "wav"))
    length, loudest = measure(speech.data)
    assert 1.5 < length < 6
    assert loudest > 0.2


async def test_without_piper_it_is_said_what_to_install() -> None:
    async with programs() as made:
        with pytest.raises(ToolError, match=r"piper has no voice|piper is not installed"):
            await PiperVoice(made).speak(Utterance("hello", "wav", "/nowhere/voice.onnx"))
