"""What a tool gives back: `content` for the model, `details` and `display` for everyone else."""

import base64
import json as jsonlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self

from .errors import ToolError

Status = Literal["ok", "error", "pending"]

# The first bytes of the image formats that every model with eyes accepts.
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class Text(NamedTuple):
    """Words for the model. `source` says where they came from when they came from outside (`web:https://...`)."""

    text: str
    source: str | None = None


class Image(NamedTuple):
    """A picture for the model. `source` says where it came from when it came from outside."""

    data: bytes
    mime: str
    source: str | None = None

    @staticmethod
    def mime_of(head: bytes) -> str | None:
        """Return the kind of picture that begins so; None when it is none that every model with eyes accepts."""
        for signature, mime in _SIGNATURES:
            if head.startswith(signature):
                return mime
        return "image/webp" if head[:4] == b"RIFF" and head[8:12] == b"WEBP" else None


Content = Text | Image


class Result(NamedTuple):
    """The outcome of one call. Make it with `Result.text`, `json`, `image`, `image_from_file`, `error` or `pending`.

    `display` is what people are shown in place of the content. No model reads it.
    """

    content: tuple[Content, ...] = ()
    details: Any = None
    status: Status = "ok"
    display: str = ""

    @classmethod
    def text(cls, text: str, *, source: str | None = None, details: Any = None, display: str = "") -> Self:
        """Words; name the `source` when they come from outside the crib."""
        return cls(content=(Text(text, source),), details=details, display=display)

    @classmethod
    def json(cls, value: Any, *, source: str | None = None, display: str = "") -> Self:
        """A JSON value: indented by two for the model, as it is in `details`."""
        text = jsonlib.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
        return cls(content=(Text(text, source),), details=value, display=display)

    @classmethod
    def image(cls, data: bytes, *, mime: str | None = None, label: str = "", details: Any = None) -> Self:
        """A picture, with a label in words for models that cannot see. The kind is read from its first bytes."""
        picture = Image(data, mime or _mime_of(data, label or "the data"))
        words = (Text(label),) if label else ()
        return cls(content=(*words, picture), details=details)

    @classmethod
    def image_from_file(cls, path: Path, *, label: str = "", details: Any = None) -> Self:
        """A picture read from `path`; the path is also kept in `details`."""
        try:
            data = path.read_bytes()
        except OSError as error:
            raise ToolError(f"cannot read the image {str(path)!r}: {error.strerror}", code="not_found") from error
        kept = {"path": str(path), **(details or {})}
        return cls.image(data, mime=_mime_of(data, repr(str(path))), label=label or path.name, details=kept)

    @classmethod
    def error(
        cls, message: str, *, code: str = "failed", details: Mapping[str, Any] | None = None, source: str | None = None
    ) -> Self:
        """A failure the model should read and adapt to; name the `source` of words that come from outside the crib."""
        kept = {"status": "error", "error": message, "code": code, **(details or {})}
        return cls(content=(Text(message, source),), details=kept, status="error")

    @classmethod
    def pending(cls, message: str, *, details: Mapping[str, Any] | None = None) -> Self:
        """Not done yet: somebody else will answer later."""
        return cls(content=(Text(message),), details={"status": "pending", **(details or {})}, status="pending")

    @property
    def plain_text(self) -> str:
        """Its words alone, one part to a line; pictures are left out."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, with `type` and `mimeType` as the documents spell them; `display` if it has one."""
        told = {"content": [_block(part) for part in self.content], "details": self.details, "status": self.status}
        return {**told, "display": self.display} if self.display else told

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read back what `to_json` wrote; raise ToolError when it is something else."""
        blocks, status, display = value.get("content"), value.get("status", "ok"), value.get("display", "")
        if not isinstance(blocks, list) or status not in ("ok", "error", "pending") or not isinstance(display, str):
            raise ToolError("a result needs a list `content`, a status of ok, error or pending, and text as `display`")
        return cls(tuple(_content(block) for block in blocks), value.get("details"), status, display)


def _block(part: Content) -> dict[str, Any]:
    block = {"type": "text", "text": part.text} if isinstance(part, Text) else _picture_block(part)
    return block if part.source is None else {**block, "source": part.source}


def _picture_block(part: Image) -> dict[str, Any]:
    return {"type": "image", "data": base64.b64encode(part.data).decode(), "mimeType": part.mime}


def _content(block: Any) -> Content:
    source = block.get("source") if isinstance(block, Mapping) else None
    match block:
        case {"type": "text", "text": str(text)} if isinstance(source, str | None):
            return Text(text, source)
        case {"type": "image", "data": str(data), "mimeType": str(mime)} if isinstance(source, str | None):
            try:
                return Image(base64.b64decode(data, validate=True), mime, source)
            except ValueError as error:
                raise ToolError("an image block holds data that is not base64") from error
    raise ToolError("a content block is neither {type: text, text} nor {type: image, data, mimeType}")


def _mime_of(data: bytes, what: str) -> str:
    mime = Image.mime_of(data)
    if mime is None:
        raise ToolError(f"{what} is no PNG, JPEG, GIF or WebP image", code="not_an_image")
    return mime
