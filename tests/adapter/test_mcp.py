"""Results of other people's servers, read as ours."""

import base64
from typing import Any

import pytest

from toolcrib.adapter import mcp
from toolcrib.define.errors import ToolError
from toolcrib.define.result import Image, Result, Text

PNG = b"\x89PNG\r\n\x1a\nrest"
DATA = base64.b64encode(PNG).decode()
SOURCE = "mcp:files"


def read(*blocks: Any, **more: Any) -> Result:
    return mcp.read_result({"content": list(blocks), **more}, "files")


def texts(result: Result) -> list[str]:
    assert all(part.source == SOURCE for part in result.content if isinstance(part, Text))
    return [part.text for part in result.content if isinstance(part, Text)]


def test_words_and_pictures_come_through_and_the_flag_is_kept() -> None:
    result = read(
        {"type": "text", "text": "hi"}, {"type": "image", "data": DATA, "mimeType": "image/gif"}, isError=True
    )
    assert result.content == (Text("hi", SOURCE), Image(PNG, "image/png", SOURCE))
    assert result.status == "error"
    assert result.details == {"server": "files"}


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ({"type": "audio", "data": "AAAA", "mimeType": "audio/wav"}, "[audio, audio/wav, about 3 bytes: not shown]"),
        (
            {"type": "resource_link", "uri": "file:///a", "name": "a", "mimeType": "text/plain", "size": 1200},
            "[link to a, file:///a, text/plain, 1,200 bytes]",
        ),
        ({"type": "resource", "resource": {"uri": "file:///a", "text": "words"}}, "[file file:///a]\nwords"),
        (
            {"type": "resource", "resource": {"uri": "file:///a", "blob": "AAAA", "mimeType": "application/pdf"}},
            "[file file:///a, application/pdf, about 3 bytes: not shown]",
        ),
        ({"type": "image", "data": "AAAA", "mimeType": "image/tiff"}, "[image/tiff, about 3 bytes: not shown]"),
        ({"type": "image", "data": "not base64"}, "[image, about 7 bytes: not shown]"),
    ],
)
def test_what_a_model_cannot_be_shown_is_told_in_words(block: dict[str, Any], said: str) -> None:
    assert texts(read(block)) == [said]


def test_a_picture_in_a_file_is_a_picture() -> None:
    block = {"type": "resource", "resource": {"uri": "file:///a.png", "blob": DATA}}
    assert read(block).content == (Image(PNG, "image/png", SOURCE),)


def test_structure_is_shown_unless_the_words_already_say_it() -> None:
    structure = {"n": 1}
    assert texts(read({"type": "text", "text": '{"n":1}'}, structuredContent=structure)) == ['{"n":1}']
    assert texts(read({"type": "text", "text": "one"}, structuredContent=structure)) == ["one", '{\n  "n": 1\n}']
    assert texts(mcp.read_result({"structuredContent": structure}, "files")) == ['{\n  "n": 1\n}']


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "text",
        {},
        {"content": "text"},
        {"content": [], "isError": "yes"},
        {"content": ["text"]},
        {"content": [{"type": "text"}]},
        {"content": [{"type": "video", "data": "AAAA"}]},
        {"content": [{"type": "resource", "resource": {"text": "no address"}}]},
        {"content": [], "resultType": "input_required"},
        {"content": [], "structuredContent": {"a": "\ud83d"}},
    ],
)
def test_nonsense_is_refused_in_one_sentence_that_names_the_server(value: Any) -> None:
    with pytest.raises(ToolError, match=r"^the MCP server 'files' [^\n]{1,200}$"):
        mcp.read_result(value, "files")


def test_a_flood_is_cut_and_says_so() -> None:
    long = texts(read({"type": "text", "text": "x" * 3_000_000}, {"type": "text", "text": "more"}))
    assert long[0].endswith("x\n[1,000,000 more characters were left out]")
    assert long[1] == "\n[4 more characters were left out]"
    many = read(*[{"type": "image", "data": DATA}] * 1_500)
    assert sum(isinstance(part, Image) for part in many.content) == 20
    assert texts(many)[-1] == "[500 more parts were left out]"


def test_a_picture_beyond_five_mebibytes_is_told_in_words() -> None:
    large = base64.b64encode(PNG + bytes(6 * 1024 * 1024)).decode()
    assert texts(read({"type": "image", "data": large, "mimeType": "image/png"}))[0].startswith("[image/png, about 6,")


def test_what_we_send_is_what_we_read() -> None:
    ours = Result(content=(Text("hi"), Image(PNG, "image/png")), details={"private": True}, status="error")
    read_back = mcp.read_result(mcp.encode_result(ours), "files")
    assert read_back.content == (Text("hi", SOURCE), Image(PNG, "image/png", SOURCE))
    assert read_back.status == "error"
    assert "private" not in str(mcp.encode_result(ours))
