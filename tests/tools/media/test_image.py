"""image: where pictures come from, who is asked about them, and what is said where nobody sees."""

import base64
import io
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote_from_bytes

import pytest
from PIL import Image as Pillow

from toolcrib import Image, Result, Text
from toolcrib.testing import FakeCtx, FakePage, call, fake_ctx
from toolcrib.tools.media.image import image

from .pictures import SVG, draw, moving, photograph, save

pytestmark = pytest.mark.anyio

PNG = save(draw("Nuts"))
SAID = {"model": "openai:gpt-5", "text": "A sign that says: nuts."}
READ: Mapping[str, Any] = {"model": "", "texts": ["Nuts in drawer 3"]}
DATA_URL = f"data:image/png;base64,{base64.b64encode(PNG).decode()}"


def world(answer: Any = SAID, **named: Any) -> FakeCtx:
    files = {"sign.png": PNG, **named.pop("files", {})}
    return fake_ctx("image", files=files, rpc={"image.describe": answer}, **named)


def sent(ctx: FakeCtx) -> list[bytes]:
    """Return the pictures that somebody was asked about."""
    return [base64.b64decode(each) for _, params in ctx.rpc.calls for each in params["pictures"]]


async def test_what_a_model_says_is_from_outside_and_comes_with_the_picture_it_looked_at() -> None:
    ctx = world()
    told = await call(image, {"image": "sign.png", "prompt": "What does it say?"}, ctx)
    assert told.content == (
        Text("MEDIA:sign.png\nimage/png, 640x240"), Image(PNG, "image/png"), Text(SAID["text"], "image:openai:gpt-5"),
    )  # fmt: skip
    assert told.details == {"model": "openai:gpt-5", "path": "sign.png", "width": 640, "height": 240}
    (asked,) = ctx.rpc.calls
    assert asked == ("image.describe", {"pictures": [base64.b64encode(PNG).decode()], "prompt": "What does it say?"})


@pytest.mark.parametrize(
    "reference",
    ["sign.png", "@sign.png", " @ sign.png ", "file:sign.png", DATA_URL, f"@{DATA_URL}", "https://a.test/sign.png",
     f"data:image/png,{quote_from_bytes(PNG)}", "DATA:;BASE64," + DATA_URL.partition(",")[2], "HTTPS://a.test/sign.png"],
)  # fmt: skip
async def test_a_picture_is_a_path_an_address_or_the_data_itself(reference: str) -> None:
    pages = {url: FakePage(PNG) for url in ("https://a.test/sign.png", "HTTPS://a.test/sign.png")}
    ctx = world(pages=pages)
    told = await call(image, {"image": reference}, ctx)
    assert (told.status, sent(ctx)) == ("ok", [PNG])


async def test_a_picture_of_the_web_says_where_it_is_from() -> None:
    told = await call(image, {"image": "https://a.test/x"}, world(pages={"https://a.test/x": FakePage(PNG)}))
    assert told.content[1] == Image(PNG, "image/png", "web:https://a.test/x")
    assert told.details["url"] == "https://a.test/x"
    assert told.plain_text.startswith("MEDIA:https://a.test/x\n")


async def test_several_pictures_are_looked_at_together_and_each_is_named() -> None:
    ctx = world(files={"b.gif": moving(3)})
    told = await call(image, {"image": "sign.png", "images": ["b.gif"]}, ctx)
    assert [Image.mime_of(each) for each in sent(ctx)] == ["image/png", "image/png"]
    assert told.details["images"] == [
        {"path": "sign.png", "width": 640, "height": 240},
        {"path": "b.gif", "width": 1, "height": 1},
    ]
    assert [type(part) for part in told.content] == [Text, Image, Text, Image, Text]
    assert (await call(image, {"image": "sign.png", "images": ["sign.png"] * 8}, world())).status == "error"


async def test_the_model_asked_for_is_handed_on_and_a_blank_prompt_is_none() -> None:
    ctx = world()
    await call(image, {"image": "sign.png", "model": "gemini:x", "prompt": "  "}, ctx)
    assert ctx.rpc.calls[0][1] | {"pictures": 0} == {
        "pictures": 0,
        "prompt": "Describe the picture.",
        "model": "gemini:x",
    }


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        ("none.png", "no file 'none.png'"),
        ("ftp://a.test/x.png", "is no picture that can be reached"),
        ("blob://x", "is no picture that can be reached"),
        ("file://elsewhere/x.png", "is on another machine"),
        ("https://gone.test/x", "https://gone.test/x answered 410"),
        ("data:image/png;base64,???", "holds nothing that can be read"),
        ("data:image/png;base64", "holds nothing that can be read"),
        ("data:,", "holds nothing that can be read"),
        ("note.txt", "'note.txt' cannot be looked at: it is text, and no picture that can be shown"),
        ("paper.pdf", "it is a PDF document, and no picture"),
        ("favicon.ico", "it is an icon, and no picture that can be shown"),
        ("cut.png", "begins like image/png but is cut off or damaged"),
        ("", "image"),
    ],
)
async def test_what_is_no_picture_is_refused_with_the_reason_and_nobody_is_asked(reference: str, why: str) -> None:
    files = {"note.txt": "words", "paper.pdf": b"%PDF-1.7", "favicon.ico": b"\0\0\1\0\1", "cut.png": PNG[:12]}
    ctx = world(files=files, pages={"https://gone.test/x": FakePage("", status=410)})
    told = await call(image, {"image": reference}, ctx)
    assert (told.status, ctx.rpc.calls) == ("error", [])
    assert why in told.plain_text


@pytest.mark.parametrize("reference", ["sign.png", DATA_URL, "https://a.test/sign.png"])
async def test_what_is_larger_than_asked_for_is_refused(reference: str) -> None:
    ctx = world(pages={"https://a.test/sign.png": FakePage(PNG)})
    told = await call(image, {"image": reference, "maxBytesMb": 0.001}, ctx)
    assert (told.status, ctx.rpc.calls) == ("error", [])
    assert "more than 1.0KB" in told.plain_text


@pytest.mark.parametrize("kind", ["BMP", "TIFF", "AVIF", "GIF"])
async def test_kinds_that_models_do_not_take_are_shown_to_them_as_png(kind: str) -> None:
    ctx = world(files={"x": save(draw("Nuts"), kind)})
    told = await call(image, {"image": "x"}, ctx)
    assert (told.status, Image.mime_of(sent(ctx)[0]), told.details["width"]) == ("ok", "image/png", 640)


async def test_a_photograph_is_turned_upright_before_anybody_looks() -> None:
    ctx = world(files={"x.jpg": photograph(turned=6)})
    told = await call(image, {"image": "x.jpg"}, ctx)
    assert (told.details["width"], told.details["height"]) == (240, 640)
    assert Image(sent(ctx)[0], "image/jpeg").sides == (240, 640)


async def test_sixteen_bits_of_grey_are_not_washed_out_when_they_are_made_smaller() -> None:
    ctx = world(files={"scan.png": save(Pillow.new("I;16", (2_400, 10), 16_384))})
    told = await call(image, {"image": "scan.png"}, ctx)
    assert "shown at 2000x8 instead of 2400x10" in told.plain_text
    small = told.content[1]
    assert isinstance(small, Image)
    with Pillow.open(io.BytesIO(small.data)) as opened:
        assert opened.getpixel((0, 0)) == 64


async def without_model(data: bytes, answer: Any = READ) -> Result:
    return await call(image, {"image": "x"}, world(answer, files={"x": data}))


async def test_where_no_model_sees_it_says_so_and_what_can_be_said_without_one() -> None:
    told = await without_model(photograph("Nuts", make="Nikon", model="D5", date="2024:05:01 10:20:30"))
    assert told.details == {"model": None, "path": "x", "width": 640, "height": 240}
    ours, outside = told.content[2:]
    assert isinstance(ours, Text)
    assert ours == Text(
        "No model looked at it: none that is configured sees pictures (models.image names one). Without one: "
        "wider than high; mostly white; dated 2024-05-01 10:20."
    )
    assert outside == Text("Camera: Nikon D5\nText in it:\nNuts in drawer 3", "image:x")


async def test_where_a_photograph_was_taken_is_not_told() -> None:
    assert "CANARY" not in str(await without_model(photograph("Nuts", make="Nikon")))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (save(draw(colour="navy", size=(10, 20))), "higher than wide; mostly dark blue"),
        (save(draw(colour="red", size=(9, 9))), "square; mostly red"),
        (save(Pillow.new("RGBA", (9, 9), (0, 0, 0, 0))), "square; of no one colour; partly transparent"),
        (save(draw(size=(9, 9), mode="CMYK"), "JPEG"), "square; mostly white"),
        (moving(3), "moving, 3 pictures of which the first is shown"),
    ],
)
async def test_shape_and_colours_are_told(data: bytes, said: str) -> None:
    assert said in (await without_model(data)).plain_text


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ({"model": "", "texts": [""]}, ".\nNo text was found in it."),
        ({"model": "", "texts": [None]}, ".\nWhat is written in it was not read: tesseract is not installed."),
        ({"model": "", "texts": [None], "note": "it took too long"}, ".\nit took too long."),
    ],
)
async def test_whether_what_is_written_in_it_was_read_is_told(answer: Any, said: str) -> None:
    assert (await without_model(PNG, answer)).plain_text.endswith(said)


async def test_a_drawing_is_told_in_words_and_no_model_is_shown_it() -> None:
    ctx = world(files={"a.svg": b'\xef\xbb\xbf<?xml version="1.0"?><!-- x -->' + SVG})
    told = await call(image, {"image": "a.svg"}, ctx)
    assert (ctx.rpc.calls, told.details) == ([], {"model": None, "path": "a.svg"})
    assert told.content[1:] == (Text("10x20; 1 svg, 1 title, 1 rect, 1 text\nNuts\nBolts", "image:a.svg"),)
