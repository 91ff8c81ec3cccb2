"""What a tool gives back: `content` for the model, `details` and `display` for everyone else."""

import base64
import dataclasses
import enum
import json as jsonlib
import math
import reprlib
import struct
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Self, TypeVar

import orjson
from pydantic import TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError, to_jsonable_python

from .display import escape_unprintable
from .errors import ToolError

Status = Literal["ok", "error", "pending"]
V = TypeVar("V")

# The first bytes of the image formats that every model with eyes accepts.
_SIGNATURES = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


class Embed(NamedTuple):
    """What words stand for, for clients that take more than words: a sound, or a file at an address of its own.

    A file of text has no `data`: the words are what it holds.
    """

    mime: str
    uri: str = ""
    data: bytes = b""


class Text(NamedTuple):
    """Words for the model. `source` says where they came from when they came from outside (`web:https://...`)."""

    text: str
    source: str | None = None
    embed: Embed | None = None


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

    @classmethod
    def from_base64(cls, text: str) -> Self | None:
        """Return the picture that a text holds; None when it is none that every model with eyes accepts."""
        try:
            data = base64.b64decode(text, validate=True)
        except ValueError:
            return None
        mime = cls.mime_of(data)
        return None if mime is None else cls(data, mime)

    @property
    def sides(self) -> tuple[int, int] | None:
        """Width and height as the picture itself says; None when it is cut off before, or none that we know."""
        try:
            match self.mime:
                case "image/png":
                    found: tuple[int, ...] = struct.unpack_from(">II", self.data, 16)
                case "image/gif":
                    found = struct.unpack_from("<HH", self.data, 6)
                case "image/webp":
                    found = _webp_sides(self.data)
                case _:
                    found = _jpeg_sides(self.data) if self.mime == "image/jpeg" else (0, 0)
        except (struct.error, IndexError):
            return None
        return (found[0], found[1]) if min(found) > 0 else None


Content = Text | Image


class Result(NamedTuple):
    """The outcome of one call. Make it with `Result.text`, `json`, `image`, `image_from_file`, `error` or `pending`.

    `display` is what people are shown in place of the content. No model reads it. `head` and `end` are what a model
    reads around the content: what it is, and that it is all; `for_model`, if it is set, is all that a model reads.
    `offers` names tools that there is something for now: models see them from here on. `limit` is how many
    characters of text this call asked for, 0 for as many as its tool shows.
    """

    content: tuple[Content, ...] = ()
    details: Any = None
    status: Status = "ok"
    display: str = ""
    head: str = ""
    end: str = ""
    for_model: str = ""
    offers: tuple[str, ...] = ()
    limit: int = 0

    def __repr__(self) -> str:
        pictures = (f", {part.mime} of {len(part.data)} bytes" for part in self.content if isinstance(part, Image))
        return f"<Result {self.status}: {reprlib.repr(self.plain_text)}{''.join(pictures)}>"

    @classmethod
    def text(
        cls, text: str, *, source: str | None = None, details: Any = None, display: str = "", head: str = "",
        end: str = "",
    ) -> Self:  # fmt: skip
        """Words; name the `source` when they come from outside the crib."""
        return cls(content=(Text(text, source),), details=details, display=display, head=head, end=end)

    @classmethod
    def json(cls, value: Any, *, source: str | None = None, display: str = "") -> Self:
        """A JSON value: indented by two for the model, as it is in `details`.

        Dataclasses, pydantic models, dates, Decimal, Enum, UUID, Path and sets become what JSON has; what has no
        form there is a TypeError that says what and where.
        """
        try:
            orjson.dumps(value)  # which takes no Text for a list, as the standard library would
            text = _dump(value)
        except (TypeError, ValueError, RecursionError):  # most values are plain; the others are walked through
            try:
                value = _to_plain(value)
            except RecursionError:
                raise _no_form(f"a value of type {type(value).__name__} that holds itself, or is too deep,") from None
            text = _dump(value)
        return cls(content=(Text(text, source),), details=value, display=display)

    @classmethod
    def image(
        cls, data: bytes, *, mime: str | None = None, label: str = "", path: str = "", details: Any = None,
        source: str | None = None,
    ) -> Self:  # fmt: skip
        """A picture, with a label in words for models that cannot see. The kind is read from its first bytes.

        With the `path` of a file it says so in the words (`MEDIA:path`) and in `details`, where width and height stand.
        """
        picture = Image(data, mime or _mime_of(data, label or "the data"), source)
        line = f"MEDIA:{escape_unprintable(path)}" if path else ""
        words = "\n".join(filter(None, (line, label)))
        if details is None or isinstance(details, Mapping):
            sides = dict(zip(("width", "height"), picture.sides or (), strict=False))
            details = {**({"path": path} if path else {}), **sides, **(details or {})} or details
        return cls(content=(*((Text(words),) if words else ()), picture), details=details)

    @classmethod
    def image_from_file(cls, path: Path | str, *, label: str = "", details: Any = None) -> Self:
        """A picture read from `path`, which stands in its words and in `details`."""
        try:
            data = Path(path).read_bytes() if Path(path).is_file() else b""
        except OSError as error:
            raise ToolError(f"cannot read the image {str(path)!r}: {error.strerror}", code="not_found") from error
        if not data:
            raise ToolError(
                f"cannot read the image {str(path)!r}: there is no such file, or it is empty", code="not_found"
            )
        return cls.image(data, mime=_mime_of(data, repr(str(path))), label=label, path=str(path), details=details)

    @classmethod
    def embed(cls, embed: Embed, text: str = "", *, details: Any = None) -> Self:
        """A sound or a file, which MCP clients are given as it is; models read `text`, or what kind of thing it is."""
        words = text or f"[{escape_unprintable(embed.uri or embed.mime)}, {len(embed.data):,} bytes: not shown]"
        return cls(content=(Text(words, None, embed),), details=details)

    @classmethod
    def error(
        cls, message: str, *, code: str = "failed", details: Mapping[str, Any] | None = None, source: str | None = None
    ) -> Self:
        """A failure the model should read and adapt to; name the `source` of words that come from outside the crib."""
        kept = {"status": "error", "error": message, "code": code, **(details or {})}
        return cls(content=(Text(message, source),), details=kept, status="error")

    @classmethod
    def pending(cls, message: str, *, details: Mapping[str, Any] | None = None) -> Self:
        """Not done yet: the answer follows later."""
        return cls(content=(Text(message),), details={"status": "pending", **(details or {})}, status="pending")

    @property
    def framed(self) -> tuple[Content, ...]:
        """Its content as a model reads it: between `head` and `end`, where it has them, and in words alone."""
        if self.for_model:
            return (Text(self.for_model),)
        if not (self.head or self.end or [part for part in self.content if isinstance(part, Text) and part.embed]):
            return self.content
        head, end = ((Text(words),) if words else () for words in (self.head, self.end))
        plain = (part._replace(embed=None) if isinstance(part, Text) and part.embed else part for part in self.content)
        return (*head, *plain, *end)

    @property
    def plain_text(self) -> str:
        """Its words alone, one part to a line; pictures are left out."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))

    def read_as(self, kind: type[V]) -> V:
        """Return the details as a value of this type, by its fields' own names; raise ToolError where they are none."""
        if self.status != "ok":
            details = self.details if isinstance(self.details, Mapping) else {}
            raise ToolError(self.plain_text or self.status, code=str(details.get("code", "failed")))
        try:
            return TypeAdapter(kind).validate_python(self.details, by_alias=False, by_name=True)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(map(str, first["loc"])) or "the whole"
            what = f"the details are no {getattr(kind, '__name__', kind)}: {where}: {first['msg']}"
            raise ToolError(what, code="bad_result") from None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form, with `type` and `mimeType` as the documents spell them; `display` if it has one."""
        row = {"content": [_block(part) for part in self.content], "details": self.details, "status": self.status}
        return {**row, "display": self.display} if self.display else row

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Read back what `to_json` wrote; raise ToolError when it is something else."""
        blocks, status, display = value.get("content"), value.get("status", "ok"), value.get("display", "")
        if not isinstance(blocks, list) or status not in ("ok", "error", "pending") or not isinstance(display, str):
            raise ToolError("a result needs a list `content`, a status of ok, error or pending, and text as `display`")
        return cls(tuple(_content(block) for block in blocks), value.get("details"), status, display)


def _dump(value: Any) -> str:
    return jsonlib.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)


def _to_plain(value: Any, at: str = "") -> Any:
    """Return a value in plain lists, maps, texts and numbers."""
    match value:
        case enum.Enum():
            return _to_plain(value.value, at)
        case None | str() | int():
            return value
        case float() if math.isfinite(value):
            return value
        case Mapping():
            return {_to_key(key): _to_plain(each, f"{at}.{key}") for key, each in value.items()}
        case set() | frozenset():
            return [_to_plain(each, f"{at}[]") for each in sorted(value, key=repr)]  # the same order the next time
        case list() | tuple() | deque() if not isinstance(value, Text | Image | Result):
            return [_to_plain(each, f"{at}[{number}]") for number, each in enumerate(value)]
        case _ if dataclasses.is_dataclass(value) and not isinstance(value, type):
            members = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
            return {name: _to_plain(member, f"{at}.{name}") for name, member in members}
        case float():
            raise _no_form(f"the number {value}", at)
        case bytes() | bytearray() | memoryview() | tuple():  # a library may read text into bytes; we do not guess
            raise _no_form(f"a value of type {type(value).__name__}", at)
    try:
        return _to_plain(to_jsonable_python(value, by_alias=False), at)
    except PydanticSerializationError:
        raise _no_form(f"a value of type {type(value).__name__}", at) from None


def _to_key(key: Any) -> Any:
    plain = key if isinstance(key, tuple) else _to_plain(key)
    if isinstance(plain, str | int | float | None):
        return plain
    raise _no_form(f"a key of type {type(key).__name__}")


def _no_form(what: str, at: str = "") -> TypeError:
    return TypeError(
        f"{what}{at and f' (at {at})'} has no form in JSON; return text, numbers, lists, dicts, dataclasses or "
        "pydantic models of these, a Text, an Image or a Result"
    )


def _block(part: Content) -> dict[str, Any]:
    if isinstance(part, Image):
        block: dict[str, Any] = {"type": "image", "data": base64.b64encode(part.data).decode(), "mimeType": part.mime}
    else:
        block = {"type": "text", "text": part.text}
    if isinstance(part, Text) and (embed := part.embed) is not None:
        block["embed"] = {"mimeType": embed.mime, "uri": embed.uri, "data": base64.b64encode(embed.data).decode()}
    return block if part.source is None else {**block, "source": part.source}


def _content(block: Any) -> Content:
    source = block.get("source") if isinstance(block, Mapping) else None
    match block:
        case {"type": "text", "text": str(text)} if isinstance(source, str | None):
            return Text(text, source, _read_embed(block["embed"]) if "embed" in block else None)
        case {"type": "image", "data": str(data), "mimeType": str(mime)} if isinstance(source, str | None):
            try:
                return Image(base64.b64decode(data, validate=True), mime, source)
            except ValueError as error:
                raise ToolError("an image block holds data that is not base64") from error
    raise ToolError("a content block is neither {type: text, text} nor {type: image, data, mimeType}")


def _read_embed(value: Any) -> Embed:
    match value:
        case {"mimeType": str(mime), "uri": str(uri), "data": str(data)}:
            try:
                return Embed(mime, uri, base64.b64decode(data, validate=True))
            except ValueError as error:
                raise ToolError("a text block has an `embed` whose data is not base64") from error
    raise ToolError("the `embed` of a text block is no {mimeType, uri, data}")


def _webp_sides(data: bytes) -> tuple[int, ...]:
    kind = data[12:16]
    if kind == b"VP8X":
        return tuple(1 + int.from_bytes(data[at : at + 3], "little") for at in (24, 27))
    if kind == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    return tuple(side & 0x3FFF for side in struct.unpack_from("<HH", data, 26))


def _jpeg_sides(data: bytes) -> tuple[int, ...]:
    """Walk the segments to the frame that tells the size."""
    at = 2
    while data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack_from(">HH", data, at + 5)
            return width, height
        else:
            at += 2 + struct.unpack_from(">H", data, at + 2)[0]
    return 0, 0


def _mime_of(data: bytes, what: str) -> str:
    mime = Image.mime_of(data)
    if mime is None:
        raise ToolError(f"{what} is no PNG, JPEG, GIF or WebP image", code="not_an_image")
    return mime
