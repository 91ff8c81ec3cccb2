"""The kind of a file that is no text, by its first bytes; pictures made upright and small enough for every model.

Pillow does the turning and shrinking. Without it (the extra `media`) a picture that is small enough passes as it is.
"""

import asyncio
import base64
import binascii
import codecs
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from toolcrib import Ctx, Image, Result, Text, ToolError, vouch_for
from toolcrib.lazy import dataclass, regex

if TYPE_CHECKING:
    from ._shrink import ResizedImage

_KINDS = (
    (b"%PDF-", "a PDF document"), (b"PK\x03\x04", "a ZIP archive (or a document made of one)"),
    (b"\x1f\x8b", "gzip data"), (b"BZh", "bzip2 data"), (b"\xfd7zXZ\0", "xz data"), (b"\x28\xb5\x2f\xfd", "zstd data"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"), (b"\x7fELF", "an ELF program or library"), (b"MZ", "a Windows program"),
    (b"\xca\xfe\xba\xbe", "a Java class or a Mach-O program"), (b"SQLite format 3\0", "an SQLite database"),
    (b"OggS", "Ogg media"), (b"ID3", "MP3 audio"), (b"fLaC", "FLAC audio"), (b"RIFF", "RIFF media"),
    (b"II*\0", "a TIFF image"), (b"MM\0*", "a TIFF image"), (b"BM", "a BMP image"), (b"\0\0\1\0", "an icon"),
    (b"\0asm", "WebAssembly"), (b"wOF2", "a web font"), (b"wOFF", "a web font"),
)  # fmt: skip
_UNKNOWN = "binary data"
_CONVERTIBLE = (b"BM", b"II*\0", b"MM\0*")
_CONTROL = bytes(set(range(32)) - set(b"\t\n\r\f\b\x1b"))
_MAX_CONTROL_SHARE = 0.3


def format_size(count: int) -> str:
    """Return a number of bytes as people read it, in steps of 1,024."""
    if count < 1 << 10:
        return f"{count}B"
    return f"{count / (1 << 10):.1f}KB" if count < 1 << 20 else f"{count / (1 << 20):.1f}MB"


def detect_encoding(head: bytes) -> str | None:
    """Return the encoding a byte-order mark announces, unless it is UTF-8, which needs no telling."""
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        return "utf-32"
    return "utf-16" if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else None


def is_binary(head: bytes) -> bool:
    """Tell whether a file that begins so is no text: it holds NUL, or is mostly control bytes."""
    if b"\0" in head:
        return True
    strange = len(head) - len(head.translate(None, _CONTROL))
    return bool(head) and strange / len(head) > _MAX_CONTROL_SHARE


def file_kind(head: bytes) -> str:
    """Return what kind of binary file begins so."""
    if head[4:8] == b"ftyp":
        return "an MPEG-4 or HEIF file"
    return next((kind for signature, kind in _KINDS if head.startswith(signature)), _UNKNOWN)


_MAX_SIDE = 2_000
_MAX_BYTES = (9 << 20) // 2 * 3 // 4  # 4.5 MiB once it is written in base64
_MAX_PIXELS = 40_000_000
_MAX_FRAMES = 2_000
_HEAD_BYTES = 8_192


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture as the model gets it, what it should know about it, and the sides it has at full size."""

    data: bytes
    mime: str
    note: str
    sides: tuple[int, int]


def fit_picture(data: bytes, mime: str) -> Picture:
    """Return the picture upright and small enough; raise ToolError when it cannot be had so."""
    sides = Image(data, mime).sides
    if sides is None:
        raise ToolError(f"it begins like {mime} but is cut off or damaged ({format_size(len(data))})", code="damaged")
    width, height = sides
    if width * height > _MAX_PIXELS:
        raise ToolError(f"its {width}x{height} pixels are too many to open; make a smaller copy", code="too_large")
    if mime == "image/gif" and count_frames(data) > _MAX_FRAMES:
        raise ToolError(f"it moves for more than {_MAX_FRAMES:,} pictures; make a shorter copy", code="too_large")
    fits = max(sides) <= _MAX_SIDE and len(data) <= _MAX_BYTES
    as_it_is = Picture(data, mime, f"{mime}, {width}x{height}", sides)
    if fits and not (mime == "image/jpeg" and b"Exif\0\0" in data[:65_536]):
        return as_it_is
    try:
        from ._shrink import turn_and_shrink  # noqa: PLC0415  Pillow is an extra, and slow to load
    except ImportError:
        if fits:
            return as_it_is
        raise ToolError(
            f"its {width}x{height} pixels and {format_size(len(data))} are more than models take, and making it "
            "smaller needs Pillow; install toolcrib[media], or make a smaller copy",
            code="too_large",
        ) from None
    made = turn_and_shrink(data, mime, side=_MAX_SIDE, max_bytes=_MAX_BYTES)
    return as_it_is if made is None else _as_picture(made)


def fit_any_picture(data: bytes) -> Picture:
    """Return a picture of any kind that Pillow knows as models take it: of one that moves, the first."""
    mime = Image.mime_of(data)
    if mime is not None:
        fitted = fit_picture(data, mime)  # which refuses what is too large to open
        if mime != "image/gif":
            return fitted
    elif not data.startswith(_CONVERTIBLE) and data[4:12] != b"ftypavif":
        kind = file_kind(data)
        kind = kind if kind != _UNKNOWN or is_binary(data[:_HEAD_BYTES]) else "text"
        raise ToolError(f"it is {kind}, and no picture that can be shown", code="not_an_image")
    try:
        from ._shrink import convert_picture  # noqa: PLC0415  Pillow is an extra, and slow to load
    except ImportError:
        if mime is not None:
            return fitted
        raise ToolError(f"it is {file_kind(data)}, which needs Pillow; install toolcrib[media]") from None
    return _as_picture(convert_picture(data, side=_MAX_SIDE, max_bytes=_MAX_BYTES, pixels=_MAX_PIXELS))


def _as_picture(made: "ResizedImage") -> Picture:
    size, full = f"{made.sides[0]}x{made.sides[1]}", f"{made.full[0]}x{made.full[1]}"
    note = f"{made.mime}, {full}"
    if size != full:
        times = f"{made.full[0] / made.sides[0]:.2f}"
        note = f"{made.mime}, shown at {size} instead of {full}; multiply coordinates by {times} for the original"
    return Picture(made.data, made.mime, note, made.full)


def count_frames(data: bytes) -> int:
    """Return how many pictures a GIF shows one after the other; it stops counting where that is too many."""
    at, count, end = 13, 0, len(data)
    if end > at and data[10] & 0x80:
        at += 3 << (data[10] & 7) + 1
    while at < end and count <= _MAX_FRAMES:
        kind = data[at]
        if kind == 0x2C and at + 9 < end:  # a picture: its place, its colours, how it is packed
            count += 1
            at += 11 + (3 << (data[at + 9] & 7) + 1 if data[at + 9] & 0x80 else 0)
        elif kind == 0x21:
            at += 2
        else:
            break
        while at < end and data[at]:
            at += data[at] + 1
        at += 1
    return count


_ODD, _NO_KIND = regex(r"[^\w.-]+"), regex(r"[^A-Za-z0-9]+")
_NAME_CHARS, _KIND_CHARS = 48, 16


def name_file(folder: str, what: str, kind: str) -> str:
    """Return a path in the workspace for something that was made just now; no other is called so."""
    at = datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f")
    name = _ODD.sub("-", what).strip(".-")[:_NAME_CHARS] or "file"
    return f"{folder}/{name}-{at}.{_NO_KIND.sub('', kind)[:_KIND_CHARS] or 'bin'}"


def decode_sent(payload: Any) -> bytes:
    """Return the bytes of a picture or a clip."""
    encoded = payload.get("base64") if isinstance(payload, Mapping) else None
    try:
        data = base64.b64decode(encoded or "", validate=True)
    except (binascii.Error, TypeError, ValueError):
        data = b""
    if not data:
        raise ToolError("the node sent no file that can be read", code="failed")
    return data


async def keep_picture(ctx: Ctx, data: bytes, folder: str, what: str, source: str) -> Result:
    """Write a picture from outside to the workspace, and show it as models can see it."""
    if (mime := Image.mime_of(data)) is None:
        raise ToolError(f"{source} sent a picture of no kind that is known", code="failed")
    path = name_file(folder, what, mime.partition("/")[2].replace("jpeg", "jpg"))
    await ctx.workspace.write(path, data)
    try:
        picture = await asyncio.to_thread(fit_picture, data, mime)
    except ToolError as error:
        return Result.text(f"MEDIA:{path}\n[not shown: {error}]", details={"path": path, "shown": False})
    width, height = picture.sides
    shown = Result.image(picture.data, mime=picture.mime, label=picture.note, path=path)
    words, image = shown.content
    assert isinstance(image, Image)
    assert isinstance(words, Text)
    own = vouch_for(words.text, "the path is made here, and the sides are read here")
    return shown._replace(
        content=(own, image._replace(source=source)), details={"path": path, "width": width, "height": height}
    )
