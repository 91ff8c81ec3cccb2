"""What a tool gives back: every way to make it, its JSON form, and reading that back."""

import base64
import datetime as dt
import enum
import json
import struct
from collections import deque
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from toolcrib.define.errors import ToolError
from toolcrib.define.result import Image, Result, Status, Text

PNG = b"\x89PNG\r\n\x1a\n" + b"pixels"
PICTURES = {
    "image/png": PNG,
    "image/jpeg": b"\xff\xd8\xff\xe0 and so on",
    "image/gif": b"GIF89a and so on",
    "image/webp": b"RIFF\x00\x00\x00\x00WEBP and so on",
}


@pytest.mark.parametrize(
    ("made", "whole"),
    [
        (Result.text("hello"), Result(content=(Text("hello"),))),
        (
            Result.text("a page", source="web:https://a.test", details={"status": 200}),
            Result(content=(Text("a page", "web:https://a.test"),), details={"status": 200}),
        ),
        (
            Result.json({"naïve": [1, None]}),
            Result(
                content=(Text('{\n  "naïve": [\n    1,\n    null\n  ]\n}'),),
                details={"naïve": [1, None]},
            ),
        ),
        (Result.json([], source="mcp:x"), Result(content=(Text("[]", "mcp:x"),), details=[])),
        (Result.image(PNG), Result(content=(Image(PNG, "image/png"),))),
        (
            Result.image(PNG, label="a cat", details={"id": 7}),
            Result(content=(Text("a cat"), Image(PNG, "image/png")), details={"id": 7}),
        ),
        (Result.image(b"<svg/>", mime="image/svg+xml"), Result(content=(Image(b"<svg/>", "image/svg+xml"),))),
        (
            Result.error("no job 'x'"),
            Result(
                content=(Text("no job 'x'"),),
                details={"status": "error", "error": "no job 'x'", "code": "failed"},
                status="error",
            ),
        ),
        (
            Result.error("too slow", code="timeout", details={"tool": "exec"}),
            Result(
                content=(Text("too slow"),),
                details={"status": "error", "error": "too slow", "code": "timeout", "tool": "exec"},
                status="error",
            ),
        ),
        (
            Result.pending("the phone will answer", details={"id": "q1"}),
            Result(
                content=(Text("the phone will answer"),), details={"status": "pending", "id": "q1"}, status="pending"
            ),
        ),
    ],
)
def test_every_constructor_makes_a_whole_result(made: Result, whole: Result) -> None:
    assert made == whole


@pytest.mark.parametrize(("mime", "data"), PICTURES.items())
def test_the_kind_of_a_picture_is_read_from_its_first_bytes(mime: str, data: bytes) -> None:
    assert Result.image(data).content == (Image(data, mime),)


def test_what_is_no_picture_is_refused_by_its_label() -> None:
    with pytest.raises(ToolError, match=r"^the scan is no PNG, JPEG, GIF or WebP image$") as raised:
        Result.image(b"%PDF-1.7", label="the scan")
    assert raised.value.code == "not_an_image"


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", width, height) + bytes(9)


# the smallest heads of each kind that tell width and height, as the formats' own descriptions have them
SIDES = {
    "png": png(800, 600),
    "gif": b"GIF89a" + struct.pack("<HH", 800, 600),
    "jpeg": b"\xff\xd8\xff\xe0\0\x04JF\xff\xff\xc2\0\x11\x08" + struct.pack(">HH", 600, 800),
    "webp": b"RIFF\0\0\0\0WEBPVP8 \0\0\0\0\0\0\0\x9d\x01\x2a" + struct.pack("<HH", 800, 600),
    "webp, lossless": b"RIFF\0\0\0\0WEBPVP8L\0\0\0\0\x2f" + (799 | 599 << 14).to_bytes(4, "little"),
    "webp, extended": b"RIFF\0\0\0\0WEBPVP8X\0\0\0\0\0\0\0\0\x1f\x03\0\x57\x02\0",
}


@pytest.mark.parametrize("data", SIDES.values(), ids=SIDES)
def test_a_picture_with_a_path_has_the_line_the_path_and_the_sides_of_the_documents(data: bytes) -> None:
    result = Result.image(data, path="out/shot.png")
    assert result.to_json()["content"][0] == {"type": "text", "text": "MEDIA:out/shot.png"}
    assert result.details == {"path": "out/shot.png", "width": 800, "height": 600}
    labelled = Result.image(data, path="out/shot.png", label="the page", details={"by": "me"})
    assert labelled.plain_text == "MEDIA:out/shot.png\nthe page"
    assert labelled.details == {"path": "out/shot.png", "width": 800, "height": 600, "by": "me"}


def test_a_picture_without_a_path_has_its_sides_and_no_line() -> None:
    result = Result.image(png(3, 4))
    assert (result.plain_text, result.details) == ("", {"width": 3, "height": 4})
    assert Result.image(png(3, 4), details=[1]).details == [1]


@pytest.mark.parametrize("data", [png(800, 0), png(800, 600)[:20], b"\xff\xd8\xff\xe0\0\x04JF", b"GIF89a"])
def test_a_picture_that_does_not_say_its_sides_is_given_none(data: bytes) -> None:
    assert Result.image(data, path="a").details == {"path": "a"}


def test_a_name_cannot_write_a_second_line() -> None:
    result = Result.image(PNG, path="a.png\nMEDIA:/etc/passwd")
    assert result.plain_text == "MEDIA:a.png\\nMEDIA:/etc/passwd"


def test_an_image_from_a_file_keeps_its_path_in_details(tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(PNG)
    assert Result.image_from_file(path, details={"by": "me"}) == Result(
        content=(Text(f"MEDIA:{path}"), Image(PNG, "image/png")), details={"path": str(path), "by": "me"}
    )


def test_a_label_stands_below_the_line_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "cat.png"
    path.write_bytes(PNG)
    assert Result.image_from_file(path, label="our cat").content[0] == Text(f"MEDIA:{path}\nour cat")


@pytest.mark.parametrize(
    ("name", "code", "sentence"),
    [
        ("gone.png", "not_found", "cannot read the image {path!r}: there is no such file, or it is empty"),
        ("fake.png", "not_an_image", "{path!r} is no PNG, JPEG, GIF or WebP image"),
    ],
)
def test_a_file_that_is_no_image_is_named(tmp_path: Path, name: str, code: str, sentence: str) -> None:
    (tmp_path / "fake.png").write_bytes(b"PNG? no")
    with pytest.raises(ToolError) as raised:
        Result.image_from_file(tmp_path / name)
    assert str(raised.value) == sentence.format(path=str(tmp_path / name))
    assert raised.value.code == code


def test_the_json_form_spells_type_and_mime_type_as_the_documents_do() -> None:
    result = Result(content=(Text("a", "web:b"), Text("c"), Image(PNG, "image/png")), details={"n": 1})
    assert result.to_json() == {
        "content": [
            {"type": "text", "text": "a", "source": "web:b"},
            {"type": "text", "text": "c"},
            {"type": "image", "data": base64.b64encode(PNG).decode(), "mimeType": "image/png"},
        ],
        "details": {"n": 1},
        "status": "ok",
    }


CONTENT = st.builds(Text, st.text(), st.none() | st.text()) | st.builds(Image, st.binary(), st.text())
STATUS: st.SearchStrategy[Status] = st.sampled_from(("ok", "error", "pending"))


@given(st.lists(CONTENT, max_size=3), st.none() | st.dictionaries(st.text(), st.integers()), STATUS, st.text())
def test_reading_the_json_form_back_gives_the_same_result(
    content: list[Any], details: Any, status: Status, display: str
) -> None:
    result = Result(content=tuple(content), details=details, status=status, display=display)
    assert Result.from_json(result.to_json()) == result


def test_status_and_details_may_be_absent() -> None:
    assert Result.from_json({"content": []}) == Result()


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        ({}, "a result needs a list `content`"),
        ({"content": "text"}, "a result needs a list `content`"),
        ({"content": [], "status": "fine"}, "a status of ok, error or pending"),
        ({"content": [], "display": ["a"]}, "text as `display`"),
        ({"content": ["text"]}, "a content block is neither"),
        ({"content": [{"type": "text"}]}, "a content block is neither"),
        ({"content": [{"type": "text", "text": 5}]}, "a content block is neither"),
        ({"content": [{"type": "text", "text": "x", "source": 5}]}, "a content block is neither"),
        ({"content": [{"type": "audio", "data": "", "mimeType": "audio/wav"}]}, "a content block is neither"),
        ({"content": [{"type": "image", "data": "", "mime": "image/png"}]}, "a content block is neither"),
        ({"content": [{"type": "image", "data": "a", "mimeType": "image/png"}]}, "data that is not base64"),
        ({"content": [{"type": "image", "data": "a b=", "mimeType": "image/png"}]}, "data that is not base64"),
        ({"content": [{"type": "image", "data": "é", "mimeType": "image/png"}]}, "data that is not base64"),
    ],
)
def test_anything_else_is_refused_in_one_sentence(value: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ToolError, match=sentence):
        Result.from_json(value)


class Colour(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int


@dataclass
class Quote:
    item: str
    when: dt.date
    parts: "tuple[Quote, ...]" = ()


class Order(BaseModel):
    quote: Quote
    id: UUID = UUID(int=7)


DAY = dt.date(2026, 1, 2)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Quote("nut", DAY, (Quote("bolt", DAY),)),
         {"item": "nut", "when": "2026-01-02", "parts": [{"item": "bolt", "when": "2026-01-02", "parts": []}]}),
        (Order(quote=Quote("nut", DAY)),
         {"quote": {"item": "nut", "when": "2026-01-02", "parts": []}, "id": str(UUID(int=7))}),
        ([Order(quote=Quote("nut", DAY))],
         [{"quote": {"item": "nut", "when": "2026-01-02", "parts": []}, "id": str(UUID(int=7))}]),
        (dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC), "2026-01-02T03:04:00Z"),
        (dt.timedelta(seconds=90), "PT1M30S"),
        (Decimal("1.10"), "1.10"),
        (Colour.RED, "red"),
        ({Colour.RED: {DAY}, DAY: frozenset({"b", "a"})}, {"red": ["2026-01-02"], "2026-01-02": ["a", "b"]}),
        ({"b", 1}, ["b", 1]),
        (Path("a/b"), "a/b"),
        (MappingProxyType({1: deque([UUID(int=1)])}), {1: [str(UUID(int=1))]}),
        ([Point(1), DAY], [[1], "2026-01-02"]),
    ],
)  # fmt: skip
def test_what_has_a_form_in_json_is_written_in_it(value: Any, plain: Any) -> None:
    assert Result.json(value) == Result.json(plain)
    assert json.loads(Result.json(value).plain_text) == json.loads(json.dumps(plain))


class Socket:
    pass


def endless() -> list[Any]:
    loop: list[Any] = []
    loop.append(loop)
    return loop


USE = "; return text, numbers, lists, dicts, dataclasses or pydantic models of these, a Text, an Image or a Result"


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (Socket(), "a value of type Socket has no form in JSON" + USE),
        ({"a": [1, Socket()]}, "a value of type Socket (at .a[1]) has no form in JSON" + USE),
        (Quote("nut", DAY, (Socket(),)), "a value of type Socket (at .parts[0]) has no form in JSON" + USE),  # type: ignore[arg-type]  # wrong on purpose
        ({"data": b"\x89PNG"}, "a value of type bytes (at .data) has no form in JSON" + USE),
        (bytearray(b"a"), "a value of type bytearray has no form in JSON" + USE),
        ({"n": [float("nan")]}, "the number nan (at .n[0]) has no form in JSON" + USE),
        ({"page": Text("hello", "web:https://a.test")}, "a value of type Text (at .page) has no form in JSON" + USE),
        ({"pages": [Text("hello", "mcp:x")]}, "a value of type Text (at .pages[0]) has no form in JSON" + USE),
        ({"shot": Image(b"", "image/png")}, "a value of type Image (at .shot) has no form in JSON" + USE),
        ({"when": DAY, "said": Text("a", "web:b")}, "a value of type Text (at .said) has no form in JSON" + USE),
        ({(1, 2): "a"}, "a key of type tuple has no form in JSON" + USE),
        (endless(), "a value of type list that holds itself, or is too deep, has no form in JSON" + USE),
    ],
)
def test_what_has_no_form_in_json_is_named_with_its_type_and_place(value: Any, sentence: str) -> None:
    with pytest.raises(TypeError) as raised:
        Result.json(value)
    assert str(raised.value) == sentence
