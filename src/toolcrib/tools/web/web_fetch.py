"""web_fetch: what an address says, in words a model can use: the article of a page, and not what stands around it."""

import asyncio
import time
from typing import Annotated, Any

from pydantic import Field

from toolcrib import Ctx, Image, Result, Text, ToolError, tool
from toolcrib.tools._media import fit_picture

from ._documents import ExtractMode, FetchedPage, Reading, read_answer

_LIMIT = 50_000
_MAX_AGE = 900.0  # seconds: a copy as old as that will do
_DETAIL_CHARS = 300


@tool(
    group="web",
    effects={"network"},
    limit=_LIMIT,
    notice=True,
    urls=("url",),
    requires=("setting:web.fetch",),
)
async def web_fetch(
    ctx: Ctx,
    url: Annotated[str, Field(min_length=1, description="http or https address")],
    extractMode: ExtractMode = "markdown",  # noqa: N803  as models know it
    maxChars: Annotated[int, Field(ge=100, description="characters to return")] = _LIMIT,  # noqa: N803
) -> Result:
    """Read a web page, feed, JSON, PDF or picture by its address: its main text, without menus and adverts."""
    began = time.monotonic()
    page = await ctx.http.get(url, max_age=_MAX_AGE, cuts=True)
    source = f"web:{page.url}"
    if page.status >= 400:
        detail = await asyncio.to_thread(_find_detail, page)
        raise ToolError(f"{url} answered {page.status}{detail}", code="http_error", source=source if detail else None)
    facts: dict[str, Any] = {
        "url": url, "finalUrl": page.url, "status": page.status, "contentType": page.media_type,
        "rawLength": len(page.body), "cached": page.age is not None,
    }  # fmt: skip
    mime = Image.mime_of(page.body[:16])
    if mime is not None:
        picture = await asyncio.to_thread(fit_picture, page.body, mime)
        details = {**facts, "extractor": "image", "width": picture.sides[0], "height": picture.sides[1]}
        return Result((Text(picture.note), Image(picture.data, picture.mime, source)), details)
    reading = await asyncio.to_thread(read_answer, page, extractMode)
    notes = _list_notes(reading, is_cut=page.is_cut)
    details = {
        **facts, "title": reading.title, "extractMode": extractMode, "extractor": reading.extractor,
        "truncated": page.is_cut or maxChars < len(reading.text), "length": min(len(reading.text), maxChars),
        "tookMs": round((time.monotonic() - began) * 1000), **({"warning": " ".join(notes)} if notes else {}),
    }  # fmt: skip
    parts = (Text(reading.text, source),) if reading.text.strip() else ()
    return Result((*(Text(f"[{note}]") for note in notes), *parts), details, limit=maxChars)


def _find_detail(page: FetchedPage) -> str:
    """Return what a page says about a failure, in short."""
    try:
        text = read_answer(page, "text").text if page.body else ""
    except ToolError:  # a picture, say: the status will do
        return ""
    return f": {' '.join(text.split())[:_DETAIL_CHARS]}" if text.strip() else ""


def _list_notes(reading: Reading, *, is_cut: bool) -> list[str]:
    """Return what the model should know besides the text, in our own words."""
    notes = [reading.note] if reading.note else []
    if not reading.text.strip() and not notes:
        notes.append("There is no text at this address.")
    if is_cut:
        notes.append("The page is larger than what is fetched of one; its end is missing.")
    return notes
