"""openclaw-media-web on the reading of pages (tools/web), and on what a text can attach: nothing."""

from collections.abc import Callable
from typing import Any

from toolcrib.define.result import Result
from toolcrib.define.web import Page
from toolcrib.tools.web._documents import read_answer, read_html

Json = dict[str, Any]


def _write(args: Json) -> Json:
    return {"text": read_html(args["html"], "https://page.test/", "markdown").text}


def _read(args: Json) -> str:
    """Return what web_fetch says of an answer that is Markdown already, where plain text is asked for."""
    headers = {"content-type": "text/markdown; charset=utf-8"}
    page = Page(url="https://page.test/", headers=headers, body=args["markdown"].encode())
    return read_answer(page, "text").text


def _attach(args: Json) -> Json:
    """Return what a result in these words is: only `details` name files, and words make none."""
    told = Result.text(args["text"])
    return {"text": told.plain_text, **(told.details or {})}


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "htmlToMarkdown": _write,
    "markdownToText": _read,
    "splitMediaFromOutput": _attach,
}
