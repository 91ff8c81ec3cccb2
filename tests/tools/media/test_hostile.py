"""Pictures made to hurt: refused in a sentence, soon, and without the memory that they want."""

import base64
import contextlib
import random
import tracemalloc

import pytest
from PIL import Image as Pillow

from toolcrib import Image, ToolError
from toolcrib.testing import call, fake_ctx
from toolcrib.tools._media import count_frames, fit_any_picture
from toolcrib.tools.media._drawing import read_drawing
from toolcrib.tools.media._facts import describe_plainly
from toolcrib.tools.media.image import image

from .pictures import SVG, claim_png, claim_webp, draw, moving, photograph, save

pytestmark = pytest.mark.anyio

USES = b"".join(
    b'<g id="a%d">%s</g>' % (at, b'<use href="#a%d"/>' % (at - 1) * 10 if at else b"<rect/>") for at in range(9)
)
MANY = b"".join(b'<rect id="r%d"/>' % at for at in range(2_000))


def drawn(inside: bytes, before: bytes = b"") -> bytes:
    return before + b'<svg xmlns:xlink="x">' + inside + b"</svg>"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (claim_png(60_000, 60_000), "60000x60000 pixels are too many to open"),
        (claim_png(20_000, 20_000, rows=100), "20000x20000 pixels are too many to open"),
        (claim_webp(16_383, 16_383), "16383x16383 pixels are too many to open"),
        (moving(100_000), "it moves for more than 2,000 pictures"),
        (save(Pillow.new("1", (9_000, 9_000)), "TIFF"), "9000x9000 pixels are too many to open"),
        (save(Pillow.new("1", (9_000, 9_000)), "BMP"), "9000x9000 pixels are too many to open"),
        (b"BM" + bytes(60), "cannot be opened"),
        (b"II*\0" + b"\xff" * 60, "cannot be opened"),
        (b"\0\0\0\x18ftypavif" + bytes(60), "cannot be opened"),
        (b"\0\0\0\x18ftypheic" + bytes(60), "an MPEG-4 or HEIF file"),
        (drawn(b"&a;", b'<!DOCTYPE svg [<!ENTITY a "aaaa">]>'), "declares entities of its own"),
        (drawn(b"&a;", b'<!DOCTYPE svg [<!ENTITY a SYSTEM "file:///etc/passwd">]>'), "declares entities of its own"),
        (drawn(USES), "draw each other again and again"),
        (drawn(USES.replace(b"href", b"xlink:href")), "draw each other again and again"),
        (drawn(b'<g id="a"><use href="#a"/></g>'), "draw each other again and again"),
        (drawn(b'<g id="a"><use href="#b"/></g><g id="b"><use href="#a"/></g>'), "draw each other again and again"),
        (drawn(b'<g id="a">' + MANY + b"</g>" + b'<use href="#a"/>' * 99), "draw each other again and again"),
        (drawn(b"".join(b'<g id="%d"><use href="#%d"/></g>' % (at, at + 1) for at in range(9_999))), "again and again"),
        (drawn(b"<g>" * 300 + b"</g>" * 300), "too many within each other"),
        (drawn(b"<g/>" * 100_001), "too many elements"),
        (drawn(b"".join(b"<g%d/>" % at for at in range(100_001))), "too many elements"),
        (b"<svg><g>", "cannot be read"),
    ],
)  # fmt: skip
async def test_a_picture_that_would_take_all_memory_or_time_is_refused(data: bytes, why: str) -> None:
    tracemalloc.start()
    try:
        told = await call(image, {"image": "x"}, fake_ctx(files={"x": data}))
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (told.status, most < 64 << 20) == ("error", True)
    assert why in told.plain_text


@pytest.mark.parametrize(
    "data",
    [
        save(draw(size=(100_000, 1))), save(draw(size=(1, 100_000))), claim_png(4_000, 3_000, rows=3_000), moving(20),
        save(draw(mode="CMYK"), "JPEG"), save(Pillow.new("I;16", (2_100, 9), 7)), save(draw(mode="P")),
        save(draw(mode="1")), save(draw(mode="LA")), save(draw(), "TIFF", compression="tiff_lzw"),
        drawn(b'<g id="a"/>' + b'<use href="#a"/>' * 99),
        b'<?xml version="1.0"?><!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/x.dtd">' + SVG,
    ],
)  # fmt: skip
async def test_a_picture_that_is_only_odd_is_shown(data: bytes) -> None:
    ctx = fake_ctx(files={"x": data}, rpc={"image.describe": {"model": "", "texts": [""]}})
    told = await call(image, {"image": "x"}, ctx)
    assert told.status == "ok", told
    for each in (each for _, params in ctx.rpc.calls for each in params["pictures"]):
        picture = base64.b64decode(each)
        assert max(Image(picture, Image.mime_of(picture) or "").sides or (9_999,)) <= 2_000


def test_a_file_that_is_damaged_anywhere_is_refused_or_shown_and_never_a_bug() -> None:
    chance = random.Random(7)
    whole = [
        photograph("Nuts", turned=6, make="Nikon", model="D5", date="2024:05:01 10:20:30"), save(draw("Nuts")),
        save(draw("Nuts"), "TIFF"), save(draw("Nuts"), "GIF"), save(draw("Nuts"), "BMP"), save(draw("Nuts"), "WEBP"),
        save(draw("Nuts"), "AVIF"), moving(5),
    ]  # fmt: skip
    for _ in range(600):
        data = bytearray(chance.choice(whole))
        for _ in range(chance.randint(1, 12)):
            data[chance.randrange(min(len(data), chance.choice((64, 400, 100_000))))] = chance.randrange(256)
        broken = bytes(data[: chance.choice((len(data), chance.randrange(1, len(data))))])
        describe_plainly(broken, (1, 1))
        count_frames(broken)
        with contextlib.suppress(ToolError):
            fit_any_picture(broken)


def test_a_drawing_that_is_damaged_anywhere_is_refused_or_told() -> None:
    chance = random.Random(8)
    for _ in range(500):
        data = bytearray(drawn(b'<g id="a"><text>nuts</text></g><use href="#a"/>'))
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        with contextlib.suppress(ToolError):
            read_drawing(bytes(data))
