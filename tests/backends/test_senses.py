"""Cameras, the screen and notifications: real ffmpeg, a real X server, and callers who try what they may not."""

import asyncio
import base64
import io
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.backends.exec.shells import until

from toolcrib.backends.exec import tree
from toolcrib.backends.senses import Sensors
from toolcrib.define.errors import ArgumentError, ConfigError, ToolError

pytestmark = pytest.mark.anyio

needs_ffmpeg = pytest.mark.skipif(not shutil.which("ffmpeg"), reason="ffmpeg is not installed")
needs_xvfb = pytest.mark.skipif(not shutil.which("Xvfb"), reason="Xvfb is not installed")

SAY_ARGUMENTS = "#!/bin/sh\nprintf '%s\\n' \"$@\"\n"  # standard output is the file that ffmpeg writes
SAY_ENVIRONMENT = "#!/bin/sh\nexec env\n"
HOLD_ON = "#!/bin/sh\nexec sleep 1000\n"


@pytest.fixture(scope="module")
def display() -> Iterator[str]:
    """An X server on a free display, with sides that no H.264 has."""
    command = ["Xvfb", "-displayfd", "1", "-screen", "0", "641x481x24", "-nolisten", "tcp"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        try:
            yield f":{int(server.stdout.readline())}"
        finally:
            server.kill()


@asynccontextmanager
async def sensing(cameras: dict[str, str] | None = None, screen: str = "", **named: Any) -> AsyncIterator[Sensors]:
    sensors = Sensors({"front": "test"} if cameras is None else cameras, screen, **named)
    try:
        yield sensors
    finally:
        await sensors.close()


def with_program(folder: Path, name: str, text: str) -> dict[str, str]:
    """Return an environment in which a program is this script."""
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


def decode(answer: dict[str, Any]) -> bytes:
    return base64.b64decode(answer["base64"], validate=True)


def open_picture(answer: dict[str, Any]) -> Image.Image:
    picture = Image.open(io.BytesIO(decode(answer)))
    picture.load()
    return picture


def probe(answer: dict[str, Any], folder: Path) -> tuple[dict[str, Any], float]:
    """Return the streams of a recording by their kind, and how long it is, as ffprobe says."""
    file = folder / "probed.mp4"
    file.write_bytes(decode(answer))
    command = ["ffprobe", "-v", "error", "-show_streams", "-show_format", "-of", "json", str(file)]
    told = json.loads(subprocess.run(command, capture_output=True, check=True, timeout=60).stdout)
    return {each["codec_type"]: each for each in told["streams"]}, float(told["format"]["duration"])


def programs(name: str = "ffmpeg") -> list[int]:
    """Return the processes under us that are this program, also those that nobody has reaped."""
    found, ahead = [], [os.getpid()]
    while ahead:
        pid = ahead.pop()
        ahead += tree.children(pid)
        with suppress(FileNotFoundError, ProcessLookupError):
            if pid != os.getpid() and Path(f"/proc/{pid}/comm").read_text().strip() == name:
                found.append(pid)
    return found


async def refuse(call: Any) -> tuple[str, str]:
    with pytest.raises(ToolError) as caught:
        await call
    return caught.value.code, str(caught.value)


# ---- what there is


async def test_cameras_are_listed_as_they_are_configured() -> None:
    async with sensing({"front": "test", "door": "/dev/video97"}) as sensors:
        assert await sensors.list_cameras() == [
            {"id": "front", "name": "test pattern", "position": "front", "deviceType": "test"},
            {"id": "door", "name": "/dev/video97", "position": "door", "deviceType": "v4l2"},
        ]


@pytest.mark.parametrize("device", ["video0", "-f", "/etc/passwd", "/dev/video0\0", "/dev/video0 -y", "", "Test"])
def test_a_camera_is_a_device_or_the_test_pattern(device: str) -> None:
    with pytest.raises(ConfigError, match=r"the camera 'front' is .*; name a device like /dev/video0, or 'test'"):
        Sensors({"front": device})


@pytest.mark.parametrize("screen", ["0", "-i", "-i:0", ":0 -y", ":0\n", "/dev/fb0", ":0+1,2"])
def test_a_screen_is_an_x11_display(screen: str) -> None:
    with pytest.raises(ConfigError, match="name an X11 display like ':0'"):
        Sensors({}, screen)


# ---- pictures


@needs_ffmpeg
@pytest.mark.parametrize(
    ("max_width", "sides"),
    [(1_600, (640, 480)), (640, (640, 480)), (333, (333, 250)), (1, (1, 1)), (-5, (1, 1)), (math.inf, (640, 480))],
)
async def test_a_picture_is_made_smaller_and_never_larger(max_width: float, sides: tuple[int, int]) -> None:
    async with sensing() as sensors:
        answer = await sensors.snap("front", max_width=max_width)
        picture = open_picture(answer)
        assert (picture.format, picture.size) == ("JPEG", sides)
        assert {key: answer[key] for key in answer if key != "base64"} == {
            "format": "jpg", "width": sides[0], "height": sides[1],
        }  # fmt: skip


@needs_ffmpeg
async def test_a_better_picture_has_more_bytes_and_a_later_one_shows_something_else() -> None:
    async with sensing() as sensors:
        sizes = [len(decode(await sensors.snap("front", quality=quality))) for quality in (0, 0.5, 1)]
        assert sizes == sorted(set(sizes))
        now, later = [open_picture(await sensors.snap("front", delay_ms=delay)).tobytes() for delay in (0, 2_000)]
        assert now != later


@needs_ffmpeg
async def test_a_device_id_goes_before_what_a_camera_faces() -> None:
    async with sensing({"front": "/dev/video97", "door": "test"}) as sensors:
        assert (await sensors.snap("front", device_id="door"))["width"] == 640


# ---- recordings


@needs_ffmpeg
@pytest.mark.parametrize("include_audio", [True, False])
async def test_a_clip_has_its_length_and_the_sound_that_is_told(tmp_path: Path, include_audio: bool) -> None:
    async with sensing() as sensors:
        answer = await sensors.clip("front", 1_200, include_audio)
    told = {key: answer[key] for key in answer if key != "base64"}
    assert told == {"format": "mp4", "durationMs": 1_200, "hasAudio": include_audio}
    streams, seconds = probe(answer, tmp_path)
    assert sorted(streams) == (["audio", "video"] if include_audio else ["video"])
    assert (streams["video"]["codec_name"], streams["video"]["width"], streams["video"]["height"]) == ("h264", 640, 480)
    assert seconds == pytest.approx(1.2, abs=0.15)


@needs_ffmpeg
@needs_xvfb
async def test_the_screen_is_recorded_with_even_sides_and_without_a_sound(tmp_path: Path, display: str) -> None:
    async with sensing({}, display) as sensors:
        answer = await sensors.record(duration_ms=2_000, fps=5, include_audio=True)
    assert {key: answer[key] for key in answer if key != "base64"} == {
        "format": "mp4", "durationMs": 2_000, "fps": 5, "screenIndex": 0, "hasAudio": False,
    }  # fmt: skip
    streams, seconds = probe(answer, tmp_path)
    video = streams.pop("video")
    assert (streams, video["width"], video["height"], video["r_frame_rate"]) == ({}, 640, 480, "5/1")
    assert seconds == pytest.approx(2.0, abs=0.7)  # on a busy machine the last pictures come too late


@needs_ffmpeg
async def test_what_would_be_too_large_is_not_given_in_part() -> None:
    async with sensing(max_bytes=20_000) as sensors:
        sentence = (
            "what the camera 'front' gives is more than 20,000 bytes; "
            "ask for a shorter time, fewer frames a second or a smaller width"
        )
        assert await refuse(sensors.clip("front")) == ("too_large", sentence)


# ---- callers


@pytest.mark.parametrize(
    "name", ["../../etc/passwd", "-f", "/dev/video97", "", "both", "front\0", "lavfi:color", "\ud800"]
)
async def test_a_word_that_is_no_camera_starts_nothing(tmp_path: Path, name: str) -> None:
    environ = with_program(tmp_path, "ffmpeg", HOLD_ON)
    async with sensing({"front": "/dev/video97"}, environ=environ) as sensors:
        refused = ("not_found", f"no camera {name!r} here; there is 'front'")
        for call in (sensors.snap(name), sensors.snap("front", device_id=name), sensors.clip("front", device_id=name)):
            assert await refuse(call) == refused
        assert programs("sleep") == []


async def test_there_is_one_screen_or_none() -> None:
    async with sensing({}, ":0") as sensors:
        for index in (1, -1, 10**400, math.nan, "0; ls"):
            refused = await refuse(sensors.record(screen_index=index))  # type: ignore[arg-type]  # as a caller may
            assert refused == ("not_found", "there is one screen here, and its index is 0")
    async with sensing({}) as sensors:
        assert (await refuse(sensors.record()))[0] == "unavailable"


@pytest.mark.parametrize("value", [math.nan, "1 -y", None, True, [3]])
async def test_what_is_no_number_is_refused(value: Any) -> None:
    async with sensing(screen=":0") as sensors:
        for call, sentence in (
            (sensors.snap("front", max_width=value), "maxWidth is no number; give one from 1 to 7680"),
            (sensors.snap("front", quality=value), "quality is no number; give one from 0 to 1"),
            (sensors.snap("front", delay_ms=value), "delayMs is no number; give one from 0 to 10000"),
            (sensors.clip("front", value), "durationMs is no number; give one from 250 to 60000"),
            (sensors.record(value), "durationMs is no number; give one from 250 to 300000"),
            (sensors.record(fps=value), "fps is no number; give one from 1 to 60"),
        ):
            assert await refuse(call) == ("bad_arguments", sentence)


async def test_numbers_are_kept_within_limits_and_reach_ffmpeg_so(tmp_path: Path) -> None:
    environ = with_program(tmp_path, "ffmpeg", SAY_ARGUMENTS)
    async with sensing({"front": "/dev/video97"}, ":0.1", environ=environ) as sensors:
        longest = await sensors.clip("front", duration_ms=math.inf)
        words = decode(longest).decode().split("\n")
        assert words[:8] == ["-nostdin", "-hide_banner", "-loglevel", "error", "-f", "v4l2", "-i", "/dev/video97"]
        assert words[8:10] == ["-t", "60.000"]
        assert (longest["durationMs"], longest["hasAudio"]) == (60_000, False)
        screen = await sensors.record(duration_ms=10**400, fps=10**400)
        words = decode(screen).decode().split("\n")
        assert words[4:12] == ["-f", "x11grab", "-framerate", "60", "-i", ":0.1", "-t", "300.000"]
        assert (screen["durationMs"], screen["fps"]) == (300_000, 60)
        least = await sensors.record(duration_ms=-math.inf, fps=0.5)
        assert (least["durationMs"], least["fps"]) == (250, 1)


async def test_ffmpeg_gets_a_small_environment(tmp_path: Path) -> None:
    environ = {**with_program(tmp_path, "ffmpeg", SAY_ENVIRONMENT), "XAUTHORITY": "/x", "API_KEY": "secret"}
    async with sensing(environ=environ) as sensors:
        lines = decode(await sensors.clip("front")).decode().splitlines()
    names = {line.split("=")[0] for line in lines} - {"PWD", "SHLVL", "_"}  # the shell's own
    assert names == {"LC_ALL", "PATH", "XAUTHORITY"}


# ---- what goes wrong


async def test_without_ffmpeg_the_package_is_named(tmp_path: Path) -> None:
    async with sensing(environ={"PATH": str(tmp_path)}) as sensors:
        assert await refuse(sensors.snap("front")) == (
            "unavailable", "ffmpeg is not installed here; install the Debian package ffmpeg",
        )  # fmt: skip


@needs_ffmpeg
async def test_a_camera_that_is_not_there_is_told_in_one_sentence() -> None:
    async with sensing({"front": "/dev/video97", "back": "/dev/null"}) as sensors:
        remedy = "see that it is plugged in, that nobody else uses it and that this user may open it"
        assert await refuse(sensors.snap("front")) == (
            "unavailable",
            "the camera 'front' gives no picture: Cannot open video device /dev/video97: No such file or directory; "
            + remedy,
        )
        code, sentence = await refuse(sensors.clip("back"))
        assert (code, sentence.endswith(f"Inappropriate ioctl for device; {remedy}")) == ("unavailable", True)


async def test_a_camera_that_somebody_uses_is_busy_and_its_words_do_no_harm(tmp_path: Path) -> None:
    said = "[video4linux2,v4l2 @ 0x55d0] \x1b[2Jioctl(VIDIOC_STREAMON): Device or resource busy\n"
    said += "[in#0 @ 0x55d1] Error opening input: Device or resource busy\n/dev/video97: no\n\n"
    environ = with_program(tmp_path, "ffmpeg", f"#!/bin/sh\ncat >&2 <<'END'\n{said}END\nexit 1\n")
    async with sensing({"front": "/dev/video97"}, environ=environ) as sensors:
        code, sentence = await refuse(sensors.snap("front"))
    assert code == "busy"
    assert r"no picture: \x1b[2Jioctl(VIDIOC_STREAMON): Device or resource busy; see that" in sentence


@needs_ffmpeg
async def test_a_display_that_is_not_there_is_told_in_one_sentence() -> None:
    async with sensing({}, ":64999") as sensors:
        sentence = (
            "the screen :64999 gives no picture: Cannot open display :64999, error 1; "
            "see that an X server runs there and that this user may connect to it"
        )
        assert await refuse(sensors.record()) == ("unavailable", sentence)


async def test_a_device_that_hangs_is_given_up(tmp_path: Path) -> None:
    environ = with_program(tmp_path, "ffmpeg", HOLD_ON)
    async with sensing({"front": "/dev/video97"}, environ=environ, extra_seconds=0.1) as sensors:
        code, sentence = await refuse(sensors.snap("front"))
        assert (code, sentence) == (
            "timeout", "ffmpeg took longer than 0.1 s and was ended; try again, or look at what hangs",
        )  # fmt: skip
        assert programs("sleep") == []


# ---- what is left


@needs_ffmpeg
@needs_xvfb
async def test_a_recording_that_is_cancelled_leaves_no_process_and_no_file(display: str) -> None:
    async with sensing({}, display) as sensors:
        recording = asyncio.create_task(sensors.record(duration_ms=300_000))
        await until(lambda: bool(programs()))
        [pid] = programs()
        files = Path(f"/proc/{pid}/fd")
        await until(lambda: (files / "1").stat().st_size > 0)
        opened = [str(file.readlink()) for file in files.iterdir()]
        on_disk = [name for name in opened if name.startswith(f"{tempfile.gettempdir()}/")]
        assert len(on_disk) == 3  # its output twice, and what it says
        assert all(name.endswith(" (deleted)") for name in on_disk)
        recording.cancel()
        with pytest.raises(asyncio.CancelledError):
            await recording
        assert programs() == []


@needs_ffmpeg
@needs_xvfb
async def test_a_recording_ends_when_we_are_killed(display: str) -> None:
    code = (
        "import asyncio, sys\nfrom toolcrib.backends.senses import Sensors\n"
        "asyncio.run(Sensors({}, sys.argv[1]).record(duration_ms=300_000))"
    )
    with subprocess.Popen([sys.executable, "-c", code, display]) as parent:
        try:
            await until(lambda: bool(programs()))
            [born] = [tree.birth(pid) for pid in programs()]
            assert born is not None
        finally:
            parent.kill()
    await until(lambda: not tree.is_alive(born))


# ---- notifications


async def test_a_notification_is_shown_as_it_was_written(tmp_path: Path) -> None:
    out = tmp_path / "said"
    environ = with_program(tmp_path, "notify-send", f"#!/bin/sh\nprintf '%s\\0' \"$@\" >{out}\n")
    async with sensing({}, environ=environ) as sensors:
        await sensors.notify("--help", "<a href='x'>1 & 2</a>\nC:\\new \0\ud800", "timeSensitive")
        assert out.read_bytes().decode().split("\0")[:-1] == [
            "-a", "toolcrib", "-u", "critical", "--",
            "--help", r"&lt;a href='x'&gt;1 &amp; 2&lt;/a&gt;" + "\n" + r"C:\\new \\x00\\ud800",
        ]  # fmt: skip
        await sensors.notify("", "x" * 1_000_000)
        title, body = out.read_bytes().decode().split("\0")[5:7]
        assert (title, body) == ("toolcrib", "x" * 3_999 + "…")


async def test_a_notification_that_nobody_can_see_is_told(tmp_path: Path) -> None:
    async with sensing({}, environ={"PATH": str(tmp_path)}) as sensors:
        assert await refuse(sensors.notify("a", "b")) == (
            "unavailable", "notify-send is not installed here; install the Debian package libnotify-bin",
        )  # fmt: skip
    environ = with_program(tmp_path, "notify-send", "#!/bin/sh\necho Cannot autolaunch D-Bus >&2\nexit 1\n")
    async with sensing({}, environ=environ) as sensors:
        sentence = (
            "the notification was not shown: Cannot autolaunch D-Bus; "
            "run this where a desktop is, in the session of its user"
        )
        assert await refuse(sensors.notify("a", "b")) == ("unavailable", sentence)


async def test_a_notification_says_something_and_how_urgent_it_is() -> None:
    async with sensing({}) as sensors:
        with pytest.raises(ArgumentError, match="a title or a body"):
            await sensors.notify("", "")
        with pytest.raises(ArgumentError, match="no priority '--hint'; there are passive, active, timeSensitive"):
            await sensors.notify("a", "b", "--hint")
