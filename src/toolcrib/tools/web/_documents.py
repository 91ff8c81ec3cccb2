"""What an answer of the web says, by its kind: a page, JSON, a feed, a PDF document, plain text; else what it is."""

import io
import json
import re
import time
from typing import Literal, Protocol
from urllib.parse import urljoin
from xml.parsers import expat

from toolcrib import ToolError
from toolcrib.lazy import dataclass, field, regex
from toolcrib.tools._media import file_kind, format_size, is_binary

from ._article import find_article, find_hidden
from ._markdown import Writer
from ._tree import parse_page

ExtractMode = Literal["markdown", "text"]

_HEAD_BYTES = 2_048
_HTML = regex(rb"\s*(?:\xef\xbb\xbf)?(?:<!--.*?-->\s*)*<(?:!doctype html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_FEED = regex(r"<(?:rss|feed|rdf:RDF)[\s>]")
_MIN_CHARS, _MIN_SHARE = 250, 0.1  # of an article: less than either, and a second reader is asked
_MAX_SECOND_CHARS = 1_000_000  # of a page, which takes the second reader a second
_EMPTY_CHARS = 200  # of a page that has scripts: nothing is there until they ran
_MAX_PDF_PAGES, _MAX_PDF_SECONDS = 300, 20.0
_MAX_SUMMARY_CHARS = 1_000


class FetchedPage(Protocol):
    """What `ctx.http` brings."""

    @property
    def url(self) -> str: ...
    @property
    def body(self) -> bytes: ...
    @property
    def is_cut(self) -> bool: ...
    @property
    def media_type(self) -> str: ...
    @property
    def text(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read: its text, its title, by what, and what the model should know about it besides."""

    text: str
    extractor: str
    title: str = ""
    note: str = ""


def read_answer(answer: FetchedPage, mode: ExtractMode) -> Reading:
    """Return what an answer says; raise ToolError when there is nothing to read in it."""
    head, kind = answer.body[:_HEAD_BYTES], answer.media_type
    if head.startswith(b"%PDF-"):
        return _read_pdf(answer)
    if kind in ("text/html", "application/xhtml+xml") or (kind != "text/plain" and _HTML.match(head)):
        return read_html(answer.text, answer.url, mode)
    text = answer.text
    if kind == "application/json" or kind.endswith("+json"):
        return _read_json(text)
    if ("xml" in kind or not kind) and _FEED.search(text[:_HEAD_BYTES]):
        return _read_feed(text, answer.url, mode)
    if is_binary(text[:_HEAD_BYTES].encode("utf-8", "replace")):  # once it is decoded, UTF-16 is none
        what, size = file_kind(head), format_size(len(answer.body))
        raise ToolError(f"{answer.url} is {what} ({kind or 'of no stated type'}, {size}), not text", code="not_text")
    return Reading(text, "raw")


def read_html(html: str, url: str, mode: ExtractMode) -> Reading:
    """Return the article of a page; of a page that is none, all that it says."""
    page = parse_page(html)
    found = page.css_first("title") or page.css_first("h1")
    title = "" if found is None else " ".join(found.text().split())
    first = page.css_first("base[href]")
    base = url if first is None else _join(url, first.attributes.get("href") or "")
    article = find_article(page)
    if article is None:
        return Reading("", "page", title)
    text, extractor = Writer(base, article.dropped, marks=mode == "markdown").write(article.node), "article"
    if article.chars < _MIN_CHARS or article.chars < _MIN_SHARE * article.page_chars:
        whole = parse_page(html)  # the search has taken menus away
        all_text = (
            "" if whole.body is None else Writer(base, find_hidden(whole), marks=mode == "markdown").write(whole.body)
        )
        if len(all_text) > 2 * len(text):
            is_index = article.page_links > article.page_chars / 2  # where the links are what it is for
            second = "" if is_index else _read_again(html, base, mode)
            text, extractor = (second, "trafilatura") if len(second) > len(text) else (all_text, "page")
    is_empty = len(text) < _EMPTY_CHARS and "<script" in html.lower()
    note = "The page has next to no text until its scripts ran; the tool browser can show it." if is_empty else ""
    if title and mode == "markdown" and not text.startswith("# ") and text:
        text = f"# {title}\n\n{text}"
    return Reading(text, extractor, title, note)


def _join(url: str, other: str) -> str:
    try:
        return urljoin(url, other)
    except ValueError:  # it is no address at all
        return url


def _read_again(html: str, base: str, mode: ExtractMode) -> str:
    """Return what a second reader finds, empty when there is none."""
    if len(html) > _MAX_SECOND_CHARS:
        return ""
    try:
        from trafilatura import extract  # noqa: PLC0415  an extra, and slow to load
    except ImportError:
        return ""
    form = "markdown" if mode == "markdown" else "txt"
    return extract(html, url=base, output_format=form, include_links=mode == "markdown", include_tables=True) or ""


def _read_json(text: str) -> Reading:
    try:
        return Reading(json.dumps(json.loads(text), indent=2, ensure_ascii=False), "json")
    except (ValueError, RecursionError):  # as it stands, then
        return Reading(text, "raw")


@dataclass(slots=True)
class _Entry:
    """What a feed says about itself, or about one of its entries."""

    fields: dict[str, str] = field(default_factory=dict)


_FIELDS = {
    "title": "title", "link": "link", "guid": "guid", "id": "guid", "pubDate": "date", "updated": "date",
    "published": "date", "date": "date", "description": "text", "summary": "text", "encoded": "text", "content": "text",
}  # fmt: skip


def _read_feed(text: str, url: str, mode: ExtractMode) -> Reading:
    """Return a feed as a list of its entries; what is no proper XML stays as it is."""
    entries, opened = [_Entry()], list[str]()

    def begin(name: str, attributes: dict[str, str]) -> None:
        opened.append(name.rpartition(":")[2])
        if opened[-1] in ("item", "entry"):
            entries.append(_Entry())
        if opened[-1] == "link" and "href" in attributes and attributes.get("rel", "alternate") == "alternate":
            entries[-1].fields["link"] = attributes["href"]

    def end(name: str) -> None:
        opened.pop()

    def add(data: str) -> None:
        name = _FIELDS.get(opened[-1], "") if opened else ""
        if name:
            entries[-1].fields[name] = entries[-1].fields.get(name, "") + data

    def refuse(*declared: object) -> None:
        raise ToolError(f"{url} declares entities of its own, which no feed needs; it was not read", code="not_text")

    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = begin, end, add
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(text.encode("utf-8", "replace"), True)
    except expat.ExpatError:
        if len(entries) == 1:
            return Reading(text, "raw")
    title = " ".join(entries[0].fields.get("title", "").split())
    lines = [_render_entry(entry.fields, url, mode) for entry in entries[1:]]
    return Reading(
        "\n\n".join(filter(None, [f"# {title}" if mode == "markdown" and title else title, *lines])), "feed", title
    )


def _render_entry(fields: dict[str, str], url: str, mode: ExtractMode) -> str:
    title = " ".join(fields.get("title", "").split()) or "untitled"
    link = _join(url, fields.get("link", fields.get("guid", "")).strip())
    head = f"## [{title}]({link})" if mode == "markdown" else f"{title}\n{link}"
    body = parse_page(fields.get("text", "")).body
    text = "" if body is None else Writer(link or url, marks=mode == "markdown").write(body)[:_MAX_SUMMARY_CHARS]
    return "\n".join(filter(None, [head, fields.get("date", "").strip(), text and f"\n{text}"]))


def _read_pdf(answer: FetchedPage) -> Reading:
    """Return the text of a PDF document, page by page, until there is enough of it."""
    if answer.is_cut:
        size = format_size(len(answer.body))
        raise ToolError(f"{answer.url} is a PDF document of more than {size}, too large to be read", code="too_large")
    try:
        from pypdf import PdfReader  # noqa: PLC0415  an extra
        from pypdf.errors import PyPdfError  # noqa: PLC0415
    except ImportError:
        raise ToolError(
            f"{answer.url} is a PDF document, and reading one needs pypdf; install toolcrib[web]", code="unavailable"
        ) from None
    until, texts = time.monotonic() + _MAX_PDF_SECONDS, list[str]()
    try:
        document = PdfReader(io.BytesIO(answer.body))
        title, total = str(document.metadata.title or "") if document.metadata else "", len(document.pages)
        for page in document.pages[:_MAX_PDF_PAGES]:
            texts.append(page.extract_text().strip())
            if time.monotonic() > until:
                break
    except (PyPdfError, ValueError, KeyError, TypeError, AttributeError, RecursionError, OSError) as error:
        raise ToolError(f"{answer.url} is a PDF document that cannot be read: {error}", code="damaged") from error
    note = f"{len(texts)} of {total} pages were read." if len(texts) < total else ""
    if not any(texts):
        note = "The PDF document holds pictures of pages and no text."
    return Reading("\n\n".join(filter(None, texts)), "pdf", title, note)
