"""What comes with a message: kept in the workspace of who sent it, within bounds, and shown to the model.

A picture is shown as it is, a recording is written down, any other file is only named: the model may read it there.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256

from toolcrib.define.caller import Caller
from toolcrib.define.channel import Attachment, Channel, HeardMessage
from toolcrib.define.display import strip_to_line
from toolcrib.define.errors import ToolError
from toolcrib.define.ports import Workspace
from toolcrib.define.result import Image, Text
from toolcrib.define.voice import Transcript

FOLDER = "inbox"
_MAX_FILES, _MAX_LISTED = 8, 10_000  # of one message, and of one chat
_CHAT_BYTES = 256 << 20  # that one chat may fill
_PICTURE_BYTES = 5 << 20  # that a model takes
_NAME_CHARS, _ID_CHARS = 80, 12
_SPOKEN = ("audio/", "video/")  # some send a voice as a video


class FileIntake:
    """Takes in files; `open_workspace` gives a caller's files, `hear` writes a recording down.

    `max_mb` is what one file may have, `name_folder` where a person's are kept, "" for the owner's.
    """

    def __init__(
        self,
        open_workspace: Callable[[Caller], Workspace],
        hear: Callable[[bytes], Awaitable[Transcript]],
        max_mb: Callable[[], int],
        name_folder: Callable[[Caller], str] = lambda _: "",
    ) -> None:
        self._open_workspace, self._hear, self._max_mb = open_workspace, hear, max_mb
        self._name_folder = name_folder

    async def take_in(
        self, channel: Channel, caller: Caller, message: HeardMessage, sender_source: str | None, passed_on: str
    ) -> tuple[Text | Image, ...]:
        """Return the attachments of a message as the model sees them; a note replaces one that cannot be loaded.

        `own` is the source of what its sender made, `passed_on` that of what others did: also of any recording that
        is not known to be the sender's.
        """
        parts = list[Text | Image]()
        for index, attachment in enumerate(message.attachments[:_MAX_FILES]):
            name, source = _to_name(attachment), passed_on if attachment.is_forwarded else sender_source
            try:
                async for part in self._take_one(channel, caller, message, index, passed_on):
                    parts.append(part if part.source else part._replace(source=source))
            except (ToolError, OSError) as error:
                parts.append(Text(f"[{name} came with this message and could not be taken: {error}]", source))
        if (left := len(message.attachments) - _MAX_FILES) > 0:
            parts.append(Text(f"[{left} more files came with this message; {_MAX_FILES} are taken]", sender_source))
        return tuple(parts)

    async def _take_one(
        self, channel: Channel, caller: Caller, message: HeardMessage, index: int, passed_on: str
    ) -> AsyncIterator[Text | Image]:
        file, max_mb = message.attachments[index], self._max_mb()
        if file.size > max_mb << 20:
            raise ToolError(f"it has {file.size:,} bytes, and media.maxMb is {max_mb}", code="too_large")
        data = await channel.fetch(file, max_mb << 20)
        path = await self._keep(caller, message, index, data)
        yield Text(f"[{path} came with this message, {len(data):,} bytes]")
        if mime := Image.mime_of(data[:16]):
            if len(data) <= _PICTURE_BYTES:
                yield Image(data, mime)
        elif file.mime.startswith(_SPOKEN):
            heard = await self._hear(data)
            transcript = heard.text or "(nothing was understood)"
            what, source = ("voice message", None) if file.is_spoken else ("recording", passed_on)
            yield Text(f"[transcript of a {what}, {heard.seconds:.0f} s]\n{transcript}", source)

    async def _keep(self, caller: Caller, message: HeardMessage, index: int, data: bytes) -> str:
        """Write a file where the caller's tools find it; the same one has the same place when it comes again."""
        workspace = self._open_workspace(caller)
        folder = self._name_folder(caller) or f"{FOLDER}/{caller.channel}-{_digest(message.chat)}"
        path = f"{folder}/{_digest(message.id)}-{index}-{_to_name(message.attachments[index])}"
        try:
            there = (await workspace.list(folder, most=_MAX_LISTED)).entries
        except ToolError as error:
            if error.code != "not_found":
                raise
            there = ()
        held = sum(each.size for each in there if each.path != path)
        if len(there) >= _MAX_LISTED or held + len(data) > _CHAT_BYTES:
            raise ToolError(f"{folder} in the workspace is full; take out what is not needed", code="too_large")
        await workspace.write(path, data)
        return path


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_CHARS]


def _to_name(file: Attachment) -> str:
    """Return the name of a file as one that is safe in a folder and in a sentence."""
    plain = re.sub(r"[^\w.-]+", "_", strip_to_line(file.name).replace("\\", "/").rpartition("/")[2])
    return plain.lstrip(".-_")[-_NAME_CHARS:] or "file"
