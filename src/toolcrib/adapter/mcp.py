"""Tools and results as the Model Context Protocol writes them, and what other people's servers answer as a Result."""

import base64
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from toolcrib.define.display import replace_halves
from toolcrib.define.errors import ToolError
from toolcrib.define.result import Content, Embed, Image, Result, Text
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import Tool
from toolcrib.lazy import regex

from .cut import cut, shorten
from .fence import fence, new_token
from .forms import convert_schema
from .trim import parse_object

_MAX_BLOCKS = 1_000
_MAX_CHARS = 2_000_000  # of text in all; a tool's own limit says how much of it a model reads
_MAX_IMAGES = 20
_MAX_IMAGE_BYTES = 5 * 1024 * 1024  # bytes; larger ones are refused by providers
_MAX_BASE64_CHARS = _MAX_IMAGE_BYTES * 4 // 3 + 4
_MAX_LABEL_CHARS = 1_000
_MIME = regex(r"[A-Za-z0-9.+-]{1,64}/[A-Za-z0-9.+-]{1,64}")
_WORD = regex(r"[A-Za-z0-9_.:/+-]{0,64}")  # a name, a date, an address: nothing that gives orders
_URI = regex(r"[!-~]{0,1000}")
_MAX_NUMBER = 2**63


def declare(tool: Tool) -> dict[str, Any]:
    """Return the tool with its schema and the protocol's hints, read from its effects."""
    hints = {
        "readOnlyHint": not tool.effects & {"write", "execute", "send"},
        "destructiveHint": bool(tool.effects & {"write", "execute"}),
        "openWorldHint": bool(tool.effects & {"network", "send", "execute"}),
    }
    description, title = replace_halves(tool.description), replace_halves(tool.title)
    schema = convert_schema(tool.shape, "whole").schema
    declared = {"name": tool.name, "title": title, "description": description, "inputSchema": schema}
    output = {"outputSchema": dict(tool.output.schema)} if tool.output else {}
    return {**declared, "annotations": hints, **output}


def encode_result(result: Result, output: Shape | None = None) -> dict[str, Any]:
    """Return the result as a CallToolResult: its content, its flag, and as `structuredContent` what its words spell.

    A failure is given in the words for a model, which reads it. Its `details` are ours: only where a text of our
    own is their JSON, no more and no less, are they shown once more, or where the tool declares an `output`.
    """
    content = result.framed if result.for_model else result.content
    blocks = [block for part in content for block in _encode_part(part)]
    encoded = {"content": blocks, "isError": result.status == "error"}
    details = result.details
    if output is not None:
        value = _structure(result, output) if result.status == "ok" else None
        # clients take no success without the value that they were promised
        return {**encoded, "isError": True} if value is None else {**encoded, "structuredContent": value}
    has_source = any(part.source for part in result.content)
    if result.status != "ok" or not isinstance(details, dict) or not details or has_source:
        return encoded
    # what was shortened, redacted or written in other words is not the same any more
    is_text = any(isinstance(part, Text) and parse_object(part.text) == details for part in result.content)
    return {**encoded, "structuredContent": details} if is_text else encoded


def _structure(result: Result, output: Shape) -> Any:
    """Return the value of a result, words from outside in it fenced; None where that is not what the tool declares."""
    source = next((part.source for part in result.content if part.source), None)
    try:
        value = _fence_words(result.details, source, new_token())
        return output.check(value) if isinstance(value, Mapping) else None
    except (ToolError, RecursionError):  # a secret, or words that may be an order, stood where nothing else may stand
        return None


def _fence_words(value: Any, source: str | None, token: str) -> Any:
    """Return a value as it can be sent; from a source, every text in it that is more than one word is fenced."""
    match value:
        case str():
            is_plain = source is None or _WORD.fullmatch(value)
            return replace_halves(value) if is_plain else fence(value, source or "", token)
        case Mapping():
            return {_fence_words(key, source, token): _fence_words(each, source, token) for key, each in value.items()}
        case list() | tuple():
            return [_fence_words(each, source, token) for each in value]
    return value


def _encode_part(part: Content) -> Iterator[dict[str, Any]]:
    if isinstance(part, Image):
        yield {"type": "image", "data": base64.b64encode(part.data).decode(), "mimeType": part.mime}
        return
    text, embed = replace_halves(part.text), part.embed
    if embed is None or (embed.data and part.source):  # a fence stands before what cannot be put between marks
        yield {"type": "text", "text": text}
    if embed is None:
        return
    data = base64.b64encode(embed.data).decode()
    if embed.uri:
        held = {"blob": data} if embed.data else {"text": text}
        yield {"type": "resource", "resource": {"uri": embed.uri, "mimeType": embed.mime, **held}}
    else:
        yield {"type": "audio", "data": data, "mimeType": embed.mime}


def read_result(value: Any, server: str, *, keeps: bool = False) -> Result:
    """Return a CallToolResult of `server` as ours, or raise ToolError saying what is wrong with it.

    Every word comes from outside and carries the source `mcp:<server>`. Sounds, links and files become words, which
    have the sound or the file with them where clients can be given it; `structuredContent` is shown as JSON unless a
    text of the result already says the same. A tool that declares its output `keeps` that as details.
    """
    blocks, failed = _check_shape(value, server)
    reading = _ResultReader(server)
    for index, block in enumerate(blocks[:_MAX_BLOCKS], 1):
        reading.add(block, index)
    if len(blocks) > _MAX_BLOCKS:
        reading.add_text(f"[{len(blocks) - _MAX_BLOCKS:,} more parts were left out]")
    if isinstance(value.get("structuredContent"), Mapping):
        reading.add_structured(value["structuredContent"])
    details = value.get("structuredContent") if keeps and not failed else {"server": server}
    return Result(content=tuple(reading.content), details=details, status="error" if failed else "ok")


def _check_shape(value: Any, server: str) -> tuple[list[Any], bool]:
    if not isinstance(value, Mapping):
        raise _nonsense(server, "is no object")
    if value.get("resultType", "complete") != "complete":
        raise ToolError(f"the MCP server {server!r} asks for more input before it answers, and nobody here can give it")
    blocks, failed = value.get("content", []), value.get("isError", False)
    if not isinstance(blocks, list):
        raise _nonsense(server, "has a `content` that is no list")
    if not isinstance(failed, bool | None):
        raise _nonsense(server, "has an `isError` that is neither true nor false")
    if "content" not in value and not isinstance(value.get("structuredContent"), Mapping):
        raise _nonsense(server, "has neither `content` nor `structuredContent`")
    return blocks, bool(failed)


def _nonsense(server: str, what: str) -> ToolError:
    return ToolError(
        f"the MCP server {server!r} answered with a result that {what}; the server needs mending",
        source=f"mcp:{server}",
    )


class _ResultReader:
    """The parts of a result so far, and what is left of its limits."""

    def __init__(self, server: str) -> None:
        self.content: list[Content] = []
        self._server, self._source = server, f"mcp:{server}"
        self._characters, self._images = _MAX_CHARS, _MAX_IMAGES

    def add(self, block: Any, at: int) -> None:
        match block:
            case {"type": "text", "text": str(text)}:
                self.add_text(text)
            case {"type": "image", "data": str(data)}:
                self._picture(data, _label(block, "mimeType") or "image")
            case {"type": "audio", "data": str(data)}:
                kind = _label(block, "mimeType") or "of an unnamed kind"
                self.add_text(f"[audio, {kind}, {_size(data)}: not shown]", self._read_embed(block, "", data))
            case {"type": "resource_link", "uri": str(uri)}:
                self.add_text(f"[link to {', '.join(_about(block, uri))}]")
            case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
                words = f"[file {shorten(uri, _MAX_LABEL_CHARS)}]\n{text}"
                self.add_text(
                    words, self._read_embed(block["resource"], uri) if len(words) <= self._characters else None
                )
            case {"type": "resource", "resource": {"uri": str(uri), "blob": str(data)}}:
                kind = _label(block["resource"], "mimeType") or "of an unnamed kind"
                self._picture(data, f"file {shorten(uri, _MAX_LABEL_CHARS)}, {kind}", block["resource"])
            case {"type": str(kind)}:
                raise _nonsense(self._server, f"has a part {at} of the kind {shorten(kind, 40)!r} that cannot be read")
            case _:
                raise _nonsense(self._server, f"has a part {at} that says no `type`")

    def add_text(self, text: str, embed: Embed | None = None) -> None:
        piece = cut(text, self._characters)
        if len(piece) < len(text):
            piece += f"\n[{len(text) - len(piece):,} more characters were left out]"
            self._characters = 0
        else:
            self._characters -= len(piece)
        self.content.append(Text(piece, self._source, embed))

    def add_structured(self, value: Mapping[str, Any]) -> None:
        try:
            written = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
        except (TypeError, ValueError) as error:
            raise _nonsense(self._server, "has a `structuredContent` that cannot be written as JSON") from error
        if not _is_repeated([part.text for part in self.content if isinstance(part, Text)], value):
            self.add_text(written)

    def _read_embed(self, block: Mapping[str, Any], uri: str, data: str = "") -> Embed | None:
        """Return a sound or a file for clients, None where its labels, its bytes or its size are nothing for them."""
        mime = block.get("mimeType", "text/plain")
        if not isinstance(mime, str) or not _MIME.fullmatch(mime) or not _URI.fullmatch(uri) or not self._images:
            return None
        raw = _bytes(data)
        if raw is None or bool(raw) != bool(data) or (not uri and not mime.startswith("audio/")):
            return None
        self._images -= bool(data)
        return Embed(mime, uri, raw)

    def _picture(self, data: str, what: str, file: Mapping[str, Any] | None = None) -> None:
        """Add a picture, judged by its bytes and not by its name, or a sentence about what a model cannot be shown."""
        picture = Image.from_base64(data) if self._images and len(data) <= _MAX_BASE64_CHARS else None
        if picture is None:
            self.add_text(
                f"[{what}, {_size(data)}: not shown]", self._read_embed(file, file["uri"], data) if file else None
            )
        else:
            self._images -= 1
            self.content.append(picture._replace(source=self._source))


def _bytes(data: str) -> bytes | None:
    try:
        return base64.b64decode(data, validate=True) if len(data) <= _MAX_BASE64_CHARS else None
    except ValueError:
        return None


def _about(block: Mapping[str, Any], uri: str) -> Iterator[str]:
    yield from filter(None, (_label(block, "title") or _label(block, "name"), shorten(uri, _MAX_LABEL_CHARS)))
    yield from filter(None, (_label(block, "mimeType"), _label(block, "description")))
    size = block.get("size")
    if type(size) is int and 0 <= size < _MAX_NUMBER:
        yield f"{size:,} bytes"


def _label(block: Mapping[str, Any], key: str) -> str:
    label = block.get(key)
    return shorten(label, _MAX_LABEL_CHARS) if isinstance(label, str) else ""


def _size(data: str) -> str:
    return f"about {len(data) * 3 // 4:,} bytes"


def _is_repeated(texts: Sequence[str], value: Mapping[str, Any]) -> bool:
    """Tell whether texts say what a structure says: one of them all of it, or of its only field, or all that field's
    items, one each."""
    only = next(iter(value.values())) if len(value) == 1 else value
    if any(_says(text, each) for text in texts for each in (value, only)):
        return True
    return isinstance(only, list) and len(texts) == len(only) > 0 and all(map(_says, texts, only))


def _says(text: str, value: Any) -> bool:
    try:
        return bool(text == value or (not isinstance(value, str) and orjson.loads(text) == value))
    except orjson.JSONDecodeError:
        return False
