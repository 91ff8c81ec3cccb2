"""openclaw-media-web on the writer of pages (tools/web); text mode leaves the marks out in the same walk."""

from collections.abc import Callable
from typing import Any

from toolcrib.tools.web._documents import read_html

from .outcome import Absent

Json = dict[str, Any]


def _write(args: Json) -> Json:
    return {"text": read_html(args["html"], "https://page.test/", "markdown").text}


def _strip(_: Json) -> Absent:
    return Absent("plain text is written from the page itself, never from its Markdown")


ADAPTERS: dict[str, Callable[[Json], Any]] = {"htmlToMarkdown": _write, "markdownToText": _strip}
