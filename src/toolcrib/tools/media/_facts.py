"""Plain facts of a picture, without a model: its shape, its colours, the notes of its camera."""

import colorsys
import io
from collections import Counter
from typing import NamedTuple

from PIL import Image

from toolcrib.lazy import regex
from toolcrib.tools._shrink import DAMAGES

_MADE_BY, _MODEL, _CHANGED, _DETAILS, _TAKEN = 0x010F, 0x0110, 0x0132, 0x8769, 0x9003  # where it was is not read
_KINDS = ("PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "AVIF")
_DATE = regex(r"(\d{4}):(\d\d):(\d\d) (\d\d:\d\d)")
_SIDE, _MOST_COLOURS, _LEAST_SHARE = 48, 3, 0.1
_HUES = ((0.04, "red"), (0.11, "orange"), (0.19, "yellow"), (0.45, "green"), (0.53, "cyan"), (0.71, "blue"),
         (0.82, "purple"), (0.95, "pink"), (1.01, "red"))  # fmt: skip


class PictureFacts(NamedTuple):
    """What we say of a picture, and what its file says of itself, which anybody may have written."""

    ours: tuple[str, ...]
    camera: str


def describe_plainly(data: bytes, sides: tuple[int, int]) -> PictureFacts:
    """Return the facts of a picture of these sides, once upright; none where it cannot be opened."""
    try:
        with Image.open(io.BytesIO(data), formats=_KINDS) as opened:
            frames, has_alpha = getattr(opened, "n_frames", 1), opened.has_transparency_data
            date, camera = _read_camera(opened)
            opened.draft("RGB", (_SIDE, _SIDE))
            opened.thumbnail((_SIDE, _SIDE))
            colours = _name_colours(opened.convert("RGBA"))
    except DAMAGES:
        return PictureFacts((), "")
    width, height = sides
    shape = "square" if width == height else "wider than high" if width > height else "higher than wide"
    remarks = (
        shape,
        f"mostly {', '.join(colours)}" if colours else "of no one colour",
        "partly transparent" if has_alpha else "",
        f"moving, {frames} pictures of which the first is shown" if frames > 1 else "",
        f"dated {date}" if date else "",
    )
    return PictureFacts(tuple(filter(None, remarks)), camera)


def _read_camera(opened: Image.Image) -> tuple[str, str]:
    """Return when it was taken, and with what."""
    try:
        exif = opened.getexif()
        dates = (exif.get_ifd(_DETAILS).get(_TAKEN), exif.get(_CHANGED))
        found = next((match for each in dates if (match := _DATE.match(str(each)))), None)
        named = (str(exif.get(tag, "")).strip("\0 ")[:64] for tag in (_MADE_BY, _MODEL))
        return "-".join(found.group(1, 2, 3)) + f" {found[4]}" if found else "", " ".join(filter(None, named))
    except DAMAGES:  # what cameras note is often damaged, and never needed
        return "", ""


def _name_colours(small: Image.Image) -> list[str]:
    """Return the colours that cover much of a picture, the most of it first."""
    bytes_of = iter(small.tobytes())
    counts = Counter(_name_colour(*pixel) for pixel in zip(*[bytes_of] * 4, strict=True))
    frequent = counts.most_common(_MOST_COLOURS)
    return [name for name, count in frequent if name and count >= _LEAST_SHARE * counts.total()]


def _name_colour(red: int, green: int, blue: int, opacity: int) -> str:
    if opacity < 128:
        return ""
    hue, light, depth = colorsys.rgb_to_hls(red / 255, green / 255, blue / 255)
    if light < 0.1 or light > 0.93:
        return "black" if light < 0.1 else "white"
    name = "grey" if depth < 0.15 else next(name for until, name in _HUES if hue < until)
    if name == "orange" and light < 0.4:
        return "brown"
    return f"dark {name}" if light < 0.3 else f"light {name}" if light > 0.75 else name
