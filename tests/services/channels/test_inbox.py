"""What comes with messages: shown, written down, kept, or said why not."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.backends.channels.telegram_world import PICTURE
from toolcrib.backends.files.disk import Disk, Terms
from toolcrib.backends.files.local import LocalWorkspace
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.channel import Attachment, HeardMessage
from toolcrib.define.errors import ToolError
from toolcrib.define.result import Image, Text
from toolcrib.define.voice import Transcript
from toolcrib.services.channels.inbox import FileIntake

pytestmark = pytest.mark.anyio

WHO = Caller(channel="telegram", sender=Sender(id="7"), session="agent:main:main")


@dataclass
class Files:
    """A channel that only has files; None is one that cannot be had."""

    held: dict[str, bytes | None] = field(default_factory=dict)

    async def fetch(self, attachment: Attachment, most: int, /) -> bytes:
        data = self.held[attachment.ref]
        if data is None:
            raise ToolError("telegram gave no place for the file", code="not_found")
        if len(data) > most:
            raise ToolError("too large", code="too_large")
        return data


async def hear(recording: bytes) -> Transcript:
    return Transcript(recording.decode(), 3.0)


async def take_in(folder: Path, files: dict[str, bytes | None], *sent: Attachment) -> list[Any]:
    disk = Disk(Terms(root=folder, state=folder.parent / "state"))
    inbox = FileIntake(lambda _: LocalWorkspace(disk), hear, lambda: 1)
    message = HeardMessage(id="1", chat="7", sender=Sender(id="7"), attachments=sent)
    channel: Any = Files(files)
    try:
        return list(await inbox.take_in(channel, WHO, message, "message:telegram", "message:forwarded/telegram"))
    finally:
        disk.close()


async def test_a_picture_is_shown_a_recording_written_down_and_any_file_kept(tmp_path: Path) -> None:
    files: dict[str, bytes | None] = {"p": PICTURE, "v": b"come at six", "t": b"words"}
    sent = (Attachment("p", "a.png"), Attachment("v", "v.ogg", "audio/ogg", is_spoken=True), Attachment("t", "t.txt"))
    named, shown, _, spoken, other = await take_in(tmp_path, files, *sent)
    assert shown == Image(PICTURE, "image/png", "message:telegram")
    assert spoken == Text("[transcript of a voice message, 3 s]\ncome at six", "message:telegram")
    assert "-0-a.png came with this message" in named.text
    assert {each.source for each in (named, other)} == {"message:telegram"}
    assert {each.read_bytes() for each in tmp_path.glob("inbox/*/*")} == set(files.values())


@pytest.mark.parametrize(
    ("sent", "sources"),
    [
        (Attachment("v", mime="audio/ogg", is_spoken=True), ["message:telegram"] * 2),
        (Attachment("v", mime="audio/mpeg"), ["message:telegram", "message:forwarded/telegram"]),  # a song: whose?
        (Attachment("v", mime="audio/ogg", is_spoken=True, is_forwarded=True), ["message:forwarded/telegram"] * 2),
        (Attachment("p", is_forwarded=True), ["message:forwarded/telegram"] * 2),
    ],
)
async def test_only_what_its_sender_recorded_is_their_word(
    sent: Attachment, sources: list[str], tmp_path: Path
) -> None:
    parts = await take_in(tmp_path, {"v": b"come at six", "p": PICTURE}, sent)
    assert [each.source for each in parts] == sources


@pytest.mark.parametrize(
    ("sent", "data", "why"),
    [
        (Attachment("f", size=2 << 20), b"", "media.maxMb is 1"),
        (Attachment("f"), b"x" * (2 << 20), "too large"),
        (Attachment("f"), None, "no place for the file"),
    ],
)
async def test_what_cannot_be_taken_is_said(tmp_path: Path, sent: Attachment, data: bytes | None, why: str) -> None:
    (told,) = await take_in(tmp_path, {"f": data}, sent)
    assert why in told.text
    assert not (tmp_path / "inbox").exists()


async def test_no_more_than_eight_files_are_taken_and_names_stay_in_their_folder(tmp_path: Path) -> None:
    names = ["../../a", "/etc/passwd", ".ssh", "..", "C:\\b.txt", "a\nb\u202e.txt", "x" * 300, "", "ninth"]
    parts = await take_in(tmp_path, {"f": b"!"}, *(Attachment("f", name) for name in names))
    assert "1 more files" in parts[-1].text
    kept = [each.name.split("-", 2)[2] for each in sorted(tmp_path.glob("inbox/*/*"))]
    assert kept == ["a", "passwd", "ssh", "file", "b.txt", "a_b.txt", "x" * 80, "file"]
    assert list(tmp_path.iterdir()) == [tmp_path / "inbox"]
