"""Pictures turned upright and made smaller, by Pillow."""

import io
import struct
from collections.abc import Iterator

from PIL import Image, ImageOps

from toolcrib import ToolError
from toolcrib.lazy import dataclass

_QUALITIES, _SCALES = (85, 70, 55, 40), (1.0, 0.75, 0.5, 0.35, 0.25)
_CONVERTED = ("GIF", "BMP", "TIFF", "AVIF")
# what Pillow raises at a file that is not what it says; a warning only where warnings are errors
DAMAGES = (
    OSError, ValueError, SyntaxError, TypeError, LookupError, ArithmeticError, EOFError, RuntimeError, struct.error,
    Image.DecompressionBombError, Image.DecompressionBombWarning, UserWarning,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ResizedImage:
    """A picture written anew: its sides, and those it had at `full` size once upright."""

    data: bytes
    mime: str
    full: tuple[int, int]
    sides: tuple[int, int]


def turn_and_shrink(data: bytes, mime: str, *, side: int, max_bytes: int) -> ResizedImage | None:
    """Return the picture upright, no side longer than `side`, at most `most` bytes; None when it is so already."""
    try:
        with Image.open(io.BytesIO(data)) as opened:
            turned = opened.getexif().get(0x0112, 1) != 1
            if not turned and max(opened.size) <= side and len(data) <= max_bytes:
                return None
            image: Image.Image = ImageOps.exif_transpose(opened) if turned else opened
            image.load()
            return _shrink(image, mime, side, max_bytes)
    except DAMAGES as error:
        raise ToolError(f"it begins like {mime} but cannot be opened: {error}", code="damaged") from error


def convert_picture(data: bytes, *, side: int, max_bytes: int, pixels: int) -> ResizedImage:
    """Return a picture of a kind that models do not take, or the first of a moving one, as they take it."""
    try:
        with Image.open(io.BytesIO(data), formats=_CONVERTED) as opened:
            if opened.width * opened.height > pixels:
                raise ToolError(f"its {opened.width}x{opened.height} pixels are too many to open", code="too_large")
            return _shrink(ImageOps.exif_transpose(opened), "image/png", side, max_bytes)
    except DAMAGES as error:
        raise ToolError(f"it cannot be opened: {error}", code="damaged") from error


def _shrink(image: Image.Image, mime: str, side: int, max_bytes: int) -> ResizedImage:
    """Return the largest writing of the picture that fits."""
    full = image.size
    first = min(1.0, side / max(full))
    if image.mode.startswith("I"):  # 16 bits, of which Pillow would keep the lower ones
        image = image.point(lambda value: value / 256).convert("L")
    if image.mode not in ("RGB", "RGBA", "L"):
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    for scale in _SCALES:
        sides = (max(1, round(full[0] * first * scale)), max(1, round(full[1] * first * scale)))
        shrunk = image if sides == full else image.resize(sides, Image.Resampling.LANCZOS)
        for data, kind in _encodings(shrunk, mime):
            if len(data) <= max_bytes:
                return ResizedImage(data, kind, full, sides)
    raise ToolError(f"it stays above {max_bytes:,} bytes however small it is made", code="too_large")


def _encodings(image: Image.Image, mime: str) -> Iterator[tuple[bytes, str]]:
    """Give the picture without loss, unless it came as a photograph, then with more and more."""
    if mime != "image/jpeg":
        yield _encode(image, "PNG"), "image/png"
    flat = image if image.mode != "RGBA" else _flatten(image)
    for quality in _QUALITIES:
        yield _encode(flat, "JPEG", quality=quality), "image/jpeg"


def _flatten(image: Image.Image) -> Image.Image:
    white = Image.new("RGB", image.size, "white")
    white.paste(image, mask=image.getchannel("A"))
    return white


def _encode(image: Image.Image, kind: str, **options: int) -> bytes:
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()
