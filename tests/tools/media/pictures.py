"""Pictures for tests: with words in them, moving, sideways, and made to hurt."""

import io
import struct
import zlib
from typing import Any

from PIL import Image, ImageDraw, ImageFont

SVG = (
    b'<svg xmlns="http://www.w3.org/2000/svg" width="10" height="20"><title>Nuts</title><rect/><text>Bolts</text></svg>'
)


def draw(text: str = "", size: tuple[int, int] = (640, 240), colour: str = "white", mode: str = "RGB") -> Image.Image:
    """Return a picture of one colour with a text on it."""
    image = Image.new("RGB", size, colour)
    if text:
        ImageDraw.Draw(image).text((20, size[1] // 3), text, fill="black", font=ImageFont.load_default(44))
    return image.convert(mode)


def save(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    """Return a picture as a file."""
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def photograph(text: str = "", *, turned: int = 1, **noted: str) -> bytes:
    """Return a JPEG with what a camera noted, also where it was."""
    exif = Image.Exif()
    exif[0x0112] = turned
    for tag, key in ((0x010F, "make"), (0x0110, "model"), (0x0132, "date")):
        if key in noted:
            exif[tag] = noted[key]
    exif.get_ifd(0x8825)[1] = "CANARY-NORTH"
    return save(draw(text), "JPEG", exif=exif.tobytes())


def moving(count: int) -> bytes:
    """Return a GIF of so many pictures, each one pixel."""
    frame = b"!\xf9\x04\0\x05\0\0\0,\0\0\0\0\1\0\1\0\0\2\2D\1\0"
    return b"GIF89a\1\0\1\0\x80\0\0\0\0\0\xff\xff\xff" + frame * count + b";"


def claim_png(width: int, height: int, rows: int = 0) -> bytes:
    """Return a PNG that says it has these sides; `rows` of it are there, packed."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    packer, packed = zlib.compressobj(9), b""
    for _ in range(rows):
        packed += packer.compress(bytes(1 + 3 * width))
    packed += packer.flush()
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", packed) + chunk(b"IEND", b"")


def claim_webp(width: int, height: int) -> bytes:
    """Return the head of a WebP that says it has these sides."""
    sides = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBPVP8X" + struct.pack("<I", 10) + bytes(4) + sides
    return b"RIFF" + struct.pack("<I", len(body)) + body


def claim_jpeg(width: int, height: int) -> bytes:
    """Return a JPEG that says it has these sides, with the data of a small one."""
    data = bytearray(save(draw(size=(8, 8)), "JPEG"))
    at = data.index(b"\xff\xc0") + 5
    data[at : at + 4] = struct.pack(">HH", height, width)
    return bytes(data)


def claim_tiff(width: int, height: int) -> bytes:
    """Return a TIFF that says it has these sides, with the data of a small one."""
    data = bytearray(save(draw(size=(8, 8)), "TIFF"))
    first = struct.unpack_from("<I", data, 4)[0]
    for at in range(first + 2, first + 2 + 12 * struct.unpack_from("<H", data, first)[0], 12):
        tag = struct.unpack_from("<H", data, at)[0]
        if tag in (256, 257):
            struct.pack_into("<HII", data, at + 2, 4, 1, width if tag == 256 else height)
    return bytes(data)
