"""The cameras, the screen and the notifications of this machine, by the programs ffmpeg and notify-send.

What a caller says only chooses among what is configured: none of it becomes a path or an option. The programs get a
list of arguments and no shell, a small environment and a deadline, and the supervisor ends them with the call and with
us. What they write goes to files without a name, so nothing is left on the disk, however a recording ends.
"""

import html
import os
import re
import tempfile
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from toolcrib.define.display import escape, escape_controls, quote_short
from toolcrib.define.errors import ArgumentError, ConfigError, ToolError
from toolcrib.define.result import Image
from toolcrib.lazy import regex
from toolcrib.threads import in_thread

from .exec.host import find_program, limit_path, run_to_end
from .exec.supervisor import Spawn, SupervisorClient

_TEST = "test"  # in place of a device: a pattern with a tone, to try things where there is no camera
_DEVICE = regex(r"/dev/[\w./:@+-]+", re.ASCII)
_DISPLAY = regex(r"(?:\w[\w.-]*)?:\d+(?:\.\d+)?", re.ASCII)

_MAX_BYTES = 64 << 20
_MAX_PROGRAMS, _MAX_WAITING = 4, 16
_MIN_MS, _MAX_CLIP_MS, _MAX_RECORD_MS, _MAX_DELAY_MS = 250, 60_000, 300_000, 10_000
_MAX_WIDTH, _MAX_FPS = 7_680, 60
_TITLE_CHARS, _BODY_CHARS = 200, 4_000
_TAIL_BYTES = 4_096  # of what a program says
_LINE_CHARS = 300
_EXTRA_SECONDS = 20.0  # beyond what was asked for: to open a device, and to finish the file
_NOTIFY_SECONDS = 10.0

_PACKAGES = {"ffmpeg": "ffmpeg", "notify-send": "libnotify-bin"}
_ENVIRON = ("PATH", "HOME", "DISPLAY", "XAUTHORITY", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS")
_URGENCY: Mapping[str, str] = {"passive": "low", "active": "normal", "timeSensitive": "critical"}

_QUIET = ("-nostdin", "-hide_banner", "-loglevel", "error")
_PATTERN = ("-f", "lavfi", "-i", "testsrc2=size=640x480:rate=15")
_TONE = ("-f", "lavfi", "-i", "sine=frequency=440")
_MP4 = (
    "-vf", "crop=trunc(iw/2)*2:trunc(ih/2)*2",  # H.264 has no odd sides
    "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-movflags", "+faststart", "-f", "mp4",
)  # fmt: skip
_COMPONENT = regex(r"\[[^]#]* @ 0x[0-9a-f]+\] ")  # with a # it is ffmpeg itself, which only repeats what failed


class _Source(NamedTuple):
    """What is filmed: as a sentence names it, as arguments of ffmpeg, and what to look at when it gives nothing."""

    name: str
    input: tuple[str, ...]
    remedy: str


class Sensors:
    """What this machine sees and shows: `cameras` are V4L2 devices (or `test`) by facing, `screen` is an X11 display.

    `max_bytes` is what one picture or recording may have, `extra_seconds` what ffmpeg has beyond the time it films.
    Programs and where the desktop is are looked up in `environ`.
    """

    def __init__(
        self, cameras: Mapping[str, str], screen: str = "", *,
        max_bytes: int = _MAX_BYTES, extra_seconds: float = _EXTRA_SECONDS, environ: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        for facing, device in cameras.items():
            if device != _TEST and not _DEVICE.fullmatch(device):
                raise ConfigError(f"the camera {facing!r} is {device!r}; name a device like /dev/video0, or {_TEST!r}")
        if screen and not _DISPLAY.fullmatch(screen):
            raise ConfigError(f"the screen is {screen!r}; name an X11 display like ':0'")
        self._cameras, self._screen, self._max_bytes = dict(cameras), screen, max_bytes
        self._extra_seconds, self._environ = extra_seconds, os.environ if environ is None else environ
        self._supervisor = SupervisorClient(most=_MAX_PROGRAMS, waiting=_MAX_WAITING)

    async def list_cameras(self) -> list[dict[str, str]]:
        """Return the configured cameras; the id of one is what it faces."""
        return [
            {"id": facing, "name": name, "position": facing, "deviceType": _TEST if device == _TEST else "v4l2"}
            for facing, device in self._cameras.items()
            for name in [await in_thread(_read_name, device)]
        ]

    async def snap(
        self, facing: str, max_width: float = 1_600, quality: float = 0.9,
        device_id: str | None = None, delay_ms: float = 0,
    ) -> dict[str, Any]:  # fmt: skip
        """Take a picture, after the camera has run for `delay_ms`; a wider one is made smaller."""
        source, _ = self._find_camera(facing, device_id)
        width = int(_clamp("maxWidth", max_width, 1, _MAX_WIDTH))
        coarseness = round(31 - 29 * _clamp("quality", quality, 0, 1))  # ffmpeg's scale: 2 is the best, 31 the worst
        delay = _clamp("delayMs", delay_ms, 0, _MAX_DELAY_MS) / 1000
        options = (
            "-ss", f"{delay:.3f}", "-frames:v", "1", "-vf", rf"scale=min(iw\,{width}):max(1\,round(ow*ih/iw))",
            "-pix_fmt", "yuvj420p", "-q:v", str(coarseness), "-f", "mjpeg",
        )  # fmt: skip
        data, encoded = await self._capture(source, options, delay)
        sides = Image(data, "image/jpeg").sides
        if sides is None:
            raise ToolError(f"{source.name} gives a picture that is cut off; try again", code="damaged")
        return {"format": "jpg", "base64": encoded, "width": sides[0], "height": sides[1]}

    async def clip(
        self, facing: str, duration_ms: float = 3_000, include_audio: bool = True, device_id: str | None = None
    ) -> dict[str, Any]:
        """Film with a camera; only the test pattern has a sound."""
        source, sound = self._find_camera(facing, device_id)
        sound = sound if include_audio else ()
        duration = int(_clamp("durationMs", duration_ms, _MIN_MS, _MAX_CLIP_MS))
        encoded = await self._film(source._replace(input=source.input + sound), duration)
        return {"format": "mp4", "base64": encoded, "durationMs": duration, "hasAudio": bool(sound)}

    async def record(
        self, duration_ms: float = 10_000, fps: float = 10, screen_index: int = 0, include_audio: bool = False
    ) -> dict[str, Any]:
        """Film the screen. `include_audio` may be asked for and is answered with `hasAudio` false."""
        if not self._screen:
            raise ToolError("no screen is configured here; name an X11 display in the settings", code="unavailable")
        if screen_index != 0:
            raise ToolError("there is one screen here, and its index is 0", code="not_found")
        duration = int(_clamp("durationMs", duration_ms, _MIN_MS, _MAX_RECORD_MS))
        rate = int(_clamp("fps", fps, 1, _MAX_FPS))
        source = _Source(
            f"the screen {self._screen}",
            ("-f", "x11grab", "-framerate", str(rate), "-i", self._screen),
            "see that an X server runs there and that this user may connect to it",
        )
        encoded = await self._film(source, duration, "-r", str(rate))  # as many also where the screen is slow
        facts = {"durationMs": duration, "fps": rate, "screenIndex": 0, "hasAudio": False}
        return {"format": "mp4", "base64": encoded, **facts}

    async def notify(self, title: str, body: str = "", priority: str = "active") -> None:
        """Show a notification on the desktop; what is too long for one is cut."""
        if not (title or body):
            raise ArgumentError("a notification has a title or a body; give one")
        urgency = _URGENCY.get(priority)
        if urgency is None:
            raise ArgumentError(f"no priority {quote_short(priority)}; there are {', '.join(_URGENCY)}")
        # notify-send reads backslashes in the body, and desktops read markup
        shown = html.escape(_shorten(body, _BODY_CHARS), quote=False).replace("\\", "\\\\")
        words = ("-a", "toolcrib", "-u", urgency, "--", _shorten(title or "toolcrib", _TITLE_CHARS), shown)
        with tempfile.TemporaryFile() as out:
            why = await self._run("notify-send", words, out, _NOTIFY_SECONDS)
        if why:
            remedy = "run this where a desktop is, in the session of its user"
            raise ToolError(f"the notification was not shown: {why}; {remedy}", code="unavailable")

    async def close(self) -> None:
        """End what still runs."""
        await self._supervisor.close()

    def _find_camera(self, facing: str, device_id: str | None) -> tuple[_Source, tuple[str, ...]]:
        """Return a camera and its sound; an id goes before what it faces."""
        wanted = facing if device_id is None else device_id
        for name, device in self._cameras.items():
            if name == wanted:
                remedy = "see that it is plugged in, that nobody else uses it and that this user may open it"
                if device == _TEST:
                    return _Source(f"the camera {name!r}", _PATTERN, "see that ffmpeg works"), _TONE
                return _Source(f"the camera {name!r}", ("-f", "v4l2", "-i", device), remedy), ()
        known = ", ".join(map(repr, self._cameras)) or "none; name one in the settings"
        raise ToolError(f"no camera {quote_short(str(wanted))} here; there is {known}", code="not_found")

    async def _film(self, source: _Source, duration: int, *rate: str) -> str:
        options = ("-t", f"{duration / 1000:.3f}", *rate, *_MP4)
        return (await self._capture(source, options, duration / 1000))[1]

    async def _capture(self, source: _Source, options: Sequence[str], seconds: float) -> tuple[bytes, str]:
        """Return what ffmpeg makes of a source, also in base64; ToolError when that is nothing, or too much."""
        with tempfile.TemporaryFile() as out:
            # it opens its output again: an MP4 is seeked back in, which no pipe allows
            into = ("-fs", str(self._max_bytes), "-y", "file:/proc/self/fd/1")
            words = (*_QUIET, *source.input, *options, *into)
            why = await self._run("ffmpeg", words, out, seconds + self._extra_seconds)
            size = os.fstat(out.fileno()).st_size
            if why or not size:
                code = "busy" if "busy" in why else "unavailable"
                raise ToolError(f"{source.name} gives no picture: {why or 'nothing came'}; {source.remedy}", code=code)
            if size >= self._max_bytes:  # that is where ffmpeg stops, in the middle
                raise ToolError(
                    f"what {source.name} gives is more than {self._max_bytes:,} bytes; "
                    "ask for a shorter time, fewer frames a second or a smaller width",
                    code="too_large",
                )
            return await in_thread(_load, out)

    async def _run(self, program: str, words: Sequence[str], out: IO[bytes], seconds: float) -> str:
        """Run a program to its end; return why it failed, in its own last words, or nothing."""
        env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8"}
        env |= {name: self._environ[name] for name in _ENVIRON if name in self._environ}
        env["PATH"] = limit_path(env["PATH"])
        try:
            path = find_program(program, env, "/", lambda _: True)
        except ToolError:
            remedy = f"install the Debian package {_PACKAGES[program]}"
            raise ToolError(f"{program} is not installed here; {remedy}", code="unavailable") from None
        with Path(os.devnull).open("rb") as nothing, tempfile.TemporaryFile() as errors:
            fds = {"stdin": nothing.fileno(), "out": out.fileno(), "err": errors.fileno()}
            spawn = Spawn(program=path, argv=(program, *words), env=env, fds=fds, seconds=seconds)
            ended = await run_to_end(self._supervisor, spawn)
            if ended.reason == "exit" and ended.code == 0:
                return ""
            if ended.reason == "timeout":
                remedy = "try again, or look at what hangs"
                raise ToolError(f"{program} took longer than {seconds:.1f} s and was ended; {remedy}", code="timeout")
            errors.seek(max(0, os.fstat(errors.fileno()).st_size - _TAIL_BYTES))
            return _find_reason(errors.read().decode(errors="replace")) or f"{program} was ended ({ended.reason})"


def _clamp(name: str, value: object, low: int, high: int) -> float:
    """Return a number within its limits; ArgumentError when it is none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # NaN alone is not itself
        raise ArgumentError(f"{name} is no number; give one from {low} to {high}")
    return min(max(value, low), high)


def _shorten(text: str, max_chars: int) -> str:
    return escape_controls(text if len(text) <= max_chars else f"{text[: max_chars - 1]}…")


def _find_reason(text: str) -> str:
    """Return the last line in which a part of the program says what went wrong, else the last line."""
    lines = [line for line in text.splitlines() if line.strip()]
    reasons = [line for line in lines if _COMPONENT.match(line)] or lines
    return escape(_COMPONENT.sub("", reasons[-1]).strip(" .")[:_LINE_CHARS]) if reasons else ""


def _read_name(device: str) -> str:
    """Return what a camera calls itself."""
    if device == _TEST:
        return "test pattern"
    try:
        name = Path("/sys/class/video4linux", Path(device).resolve().name, "name").read_text(errors="replace")
    except OSError:
        return device
    return escape(name.strip()[:_LINE_CHARS])


def _load(file: IO[bytes]) -> tuple[bytes, str]:
    file.seek(0)
    data = file.read()
    return data, b64encode(data).decode()
