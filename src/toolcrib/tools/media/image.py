"""image: what is in a picture, in the words of a model that sees, or plain facts without one."""

import asyncio
import base64
import binascii
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple
from urllib.parse import unquote, unquote_to_bytes, urlsplit

from pydantic import Field

from toolcrib import Ctx, Image, Result, Text, ToolError, tool
from toolcrib.lazy import regex
from toolcrib.tools._media import Picture, fit_any_picture, format_size

from ._drawing import Drawing, is_drawing, read_drawing

_MAX_MB, _MB = 20.0, 1 << 20
_MAX_AGE = 900.0  # seconds: a copy as old as that will do
_SHOWN_CHARS = 200  # of an address
_OTHER_SCHEME = regex(r"[A-Za-z][A-Za-z0-9+.-]*://")
_WEB = ("http://", "https://")
_PROMPT = "Describe the picture."
_NOBODY = "No model looked at it: none that is configured sees pictures (models.image names one). Without one:"
_NO_READER = "What is written in it was not read: tesseract is not installed"

Reference = Annotated[str, Field(min_length=1, max_length=40_000_000)]


class _Loaded(NamedTuple):
    """A file that was asked for: what it holds, where it is, as people call it, and whether that is outside."""

    data: bytes
    path: str
    source: str | None
    shown: Picture | Drawing

    @property
    def sides(self) -> tuple[int, int] | None:
        return self.shown.sides if isinstance(self.shown, Picture) else None


def _read_places(args: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return the files and addresses that are asked for."""
    named = [_trim(each) for each in (args.get("image"), *(args.get("images") or ())) if isinstance(each, str)]
    urls = [each for each in named if each[:8].lower().startswith(_WEB)]
    files = [each for each in named if not each[:8].lower().startswith(("data:", *_WEB))]
    return {"path": [_find_path(each) for each in files], "url": urls}


@tool(
    group="media",
    effects={"read", "network"},
    aliases={"path": "image", "url": "image"},
    paths=("path",),
    urls=("url",),
    read_places=_read_places,
)
async def image(
    ctx: Ctx,
    image: Annotated[Reference, Field(description="path in the workspace, http(s) address or data: URL")],
    images: Annotated[list[Reference] | None, Field(max_length=7, description="more, to look at together")] = None,
    prompt: Annotated[str, Field(max_length=16_000, description="what to look for")] = _PROMPT,
    model: Annotated[str | None, Field(max_length=256, description="a configured one that sees")] = None,
    maxBytesMb: Annotated[float, Field(gt=0, le=50, description="largest file, in MB")] = _MAX_MB,  # noqa: N803
) -> Result:
    """Look at pictures: ask a question about them, or have them described."""
    found = [await _load(ctx, each, int(maxBytesMb * _MB)) for each in (image, *(images or ()))]
    pictures = [base64.b64encode(each.shown.data).decode() for each in found if isinstance(each.shown, Picture)]
    seen: dict[str, Any] = {"model": ""}
    if pictures:
        asked = {"pictures": pictures, "prompt": prompt.strip() or _PROMPT, **({"model": model} if model else {})}
        seen = await ctx.rpc("image.describe", asked)
    details: dict[str, Any] = {"model": seen["model"] or None, **_list_details(found[0])}
    if len(found) > 1:
        details["images"] = [_list_details(each) for each in found]
    content = [part for each in found for part in _show(each)]
    if seen["model"]:
        content.append(Text(seen["text"], f"image:{seen['model']}"))
    else:
        content += await asyncio.to_thread(_describe_without_model, found, seen.get("texts", ()), seen.get("note", ""))
    return Result(tuple(content), details)


def _trim(reference: str) -> str:
    return reference.strip().removeprefix("@").strip()


async def _load(ctx: Ctx, reference: str, max_bytes: int) -> _Loaded:
    """Return what a path or an address holds, as it can be shown."""
    text = _trim(reference)
    scheme, path, source = text[:8].lower(), "", None
    if scheme.startswith("data:"):
        data = _decode_data(text, max_bytes)
    elif scheme.startswith(_WEB):
        page = await ctx.http.get(text, most=max_bytes, max_age=_MAX_AGE)
        if page.status >= 400:
            raise ToolError(f"{text[:_SHOWN_CHARS]} answered {page.status}", code="http_error")
        data, path, source = page.body, page.url, f"web:{page.url}"
    else:
        path = _find_path(text)
        data = await ctx.workspace.read(path, 0, max_bytes + 1)
    name = repr(path[:_SHOWN_CHARS]) if path else "the data: URL"
    if len(data) > max_bytes:
        raise ToolError(
            f"{name} has more than {format_size(max_bytes)}; raise maxBytesMb, or make a smaller copy", code="too_large"
        )
    try:
        shown = await asyncio.to_thread(_open, data)
    except ToolError as error:
        raise ToolError(f"{name} cannot be looked at: {error}", code=error.code) from error
    return _Loaded(data, path, source, shown)


def _open(data: bytes) -> Picture | Drawing:
    return read_drawing(data) if is_drawing(data) else fit_any_picture(data)


def _find_path(text: str) -> str:
    """Return the path in the workspace that is meant; whether it leads there is for the workspace to say."""
    if text[:5].lower() == "file:":
        parts = urlsplit(text)
        if parts.netloc not in ("", "localhost"):
            raise ToolError(
                f"{text[:_SHOWN_CHARS]!r} is on another machine; give a path in the workspace",
                code="unsupported_image_reference",
            )
        return unquote(parts.path)
    if _OTHER_SCHEME.match(text):
        raise ToolError(
            f"{text[:_SHOWN_CHARS]!r} is no picture that can be reached; give a path in the workspace, an http or "
            "https address, or a data: URL",
            code="unsupported_image_reference",
        )
    return text


def _decode_data(text: str, max_bytes: int) -> bytes:
    head, comma, body = text.partition(",")
    if len(body) > max_bytes * 3:  # as long as it can be, each byte written with three characters
        raise ToolError(f"the data: URL has more than {format_size(max_bytes)}", code="too_large")
    try:
        is_base64 = head.lower().endswith(";base64")
        data = base64.b64decode("".join(unquote(body).split()), validate=True) if is_base64 else unquote_to_bytes(body)
    except (binascii.Error, ValueError):
        data = b""
    if not comma or not data:
        raise ToolError(
            "the data: URL holds nothing that can be read; write data:image/png;base64,...", code="bad_arguments"
        )
    return data


def _list_details(each: _Loaded) -> dict[str, Any]:
    sides = dict(zip(("width", "height"), each.sides or (), strict=False))
    return {**({"url" if each.source else "path": each.path} if each.path else {}), **sides}


def _show(each: _Loaded) -> Sequence[Text | Image]:
    """Return what was looked at: the line that names it, and the picture; a drawing in words alone."""
    if isinstance(each.shown, Drawing):
        media = f"MEDIA:{each.path}\n" if each.path.isprintable() and each.path else ""
        whole = ", and `read` gives all of it" if each.path and not each.source else ""
        about = Text(f"{media}An SVG drawing, which is text: no model is shown it{whole}.")
        return about, Text(
            f"{each.shown.about}\n{each.shown.words}".strip(), each.source or f"image:{each.path or 'data'}"
        )
    shown = Result.image(each.shown.data, mime=each.shown.mime, label=each.shown.note, path=each.path)
    return [part._replace(source=each.source) if isinstance(part, Image) else part for part in shown.content]


def _describe_without_model(found: Sequence[_Loaded], texts: Sequence[str | None], note: str) -> list[Text]:
    """Return the plain facts of pictures without a model; text in them is from outside."""
    parts, read = list[Text](), iter(texts)
    for each in found:
        if isinstance(each.shown, Drawing):
            continue
        ours, camera = _find_facts(each.data, each.shown)
        text = next(read, None)
        why = "No text was found in it." if text == "" else f"{note or _NO_READER}." if text is None else ""
        parts.append(Text("\n".join(filter(None, (f"{_NOBODY} {'; '.join(ours) or 'nothing'}.", why)))))
        inside = "\n".join(filter(None, (camera and f"Camera: {camera}", text and f"Text in it:\n{text}")))
        if inside:
            parts.append(Text(inside, each.source or f"image:{each.path or 'data'}"))
    return parts


def _find_facts(data: bytes, shown: Picture) -> tuple[tuple[str, ...], str]:
    try:
        from ._facts import describe_plainly  # noqa: PLC0415  Pillow is an extra, and slow to load
    except ImportError:
        return ("its shape and colours are not known, Pillow is not installed (toolcrib[media])",), ""
    facts = describe_plainly(data, shown.sides)
    return facts.ours, facts.camera
