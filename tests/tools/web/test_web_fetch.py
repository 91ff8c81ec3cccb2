"""web_fetch: what an address says, fenced, in bounds, and with a sentence where there is nothing to read."""

import base64
import json
import zlib

import pytest

import toolcrib
from toolcrib import Image, Result, Text, ToolError
from toolcrib.testing import FakePage, call, fake_ctx
from toolcrib.tools.web.web_fetch import web_fetch

pytestmark = pytest.mark.anyio

URL = "https://page.test/a"
HTML = {"content-type": "text/html; charset=utf-8"}
ARTICLE = (
    f"<title>T</title><nav>Menu</nav><article><h1>T</h1><p>{'Words of the article, and more. ' * 20}</p></article>"
)
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def fetch(page: FakePage | str, **args: object) -> Result:
    return await call(web_fetch, {"url": URL, **args}, fake_ctx(pages={URL: page}))


async def test_a_page_is_its_article_and_says_where_it_came_from() -> None:
    told = await fetch(FakePage(ARTICLE, headers=HTML))
    (part,) = told.content
    assert isinstance(part, Text)
    assert part.source == f"web:{URL}"
    assert part.text.startswith("# T\n\nWords of the article, and more.")
    assert "Menu" not in part.text
    kept = {key: told.details[key] for key in ("finalUrl", "status", "contentType", "title", "extractor", "truncated")}
    assert kept == {
        "finalUrl": URL, "status": 200, "contentType": "text/html", "title": "T", "extractor": "article",
        "truncated": False,
    }  # fmt: skip


async def test_a_model_reads_it_between_marks_and_can_get_the_rest() -> None:
    lines = "".join(f"<p>Line {at}, which is long enough.</p>" for at in range(4_000))

    @toolcrib.tool(name="fetch_like", effects={"network"}, limit=web_fetch.limit, notice=True)
    async def fetch_like() -> Result:
        """Fetch."""
        return await fetch(FakePage(lines, headers=HTML))

    told = await toolcrib.open({}, env={}).belt(toolcrib.OWNER, extra=[fetch_like]).call("fetch_like")
    assert "UNTRUSTED" in told.plain_text
    assert "result_get with key" in told.plain_text
    assert len(told.plain_text) < 52_000


async def test_less_can_be_asked_for() -> None:
    told = await fetch(FakePage(ARTICLE, headers=HTML), maxChars=100, extractMode="text")
    assert (told.limit, told.details["length"], told.details["truncated"]) == (100, 100, True)


@pytest.mark.parametrize("args", [{}, {"url": ""}, {"url": URL, "maxChars": 99}, {"url": URL, "extractMode": "html"}])
async def test_what_makes_no_sense_is_refused(args: dict[str, object]) -> None:
    assert (await call(web_fetch, args)).details["code"] == "bad_arguments"


async def test_a_failure_says_its_status_and_what_the_page_says_about_it() -> None:
    bare = await fetch(FakePage("", status=410))
    assert bare.plain_text == f"{URL} answered 410"
    with pytest.raises(ToolError) as told:
        await web_fetch.run(fake_ctx(pages={URL: FakePage("<p>No such shop.</p>", 404, HTML)}), {"url": URL})
    assert (str(told.value), told.value.code, told.value.source) == (
        f"{URL} answered 404: No such shop.", "http_error", f"web:{URL}",
    )  # fmt: skip


async def test_an_address_that_does_not_answer_says_so() -> None:
    told = await call(web_fetch, {"url": "https://nowhere.test"}, fake_ctx())
    assert told.plain_text.startswith("https://nowhere.test does not answer")


async def test_a_picture_is_shown_and_says_where_it_came_from() -> None:
    told = await fetch(FakePage(PNG, headers={"content-type": "image/png"}))
    assert [part.source for part in told.content if isinstance(part, Image)] == [f"web:{URL}"]
    assert (told.details["width"], told.details["height"]) == (1, 1)


@pytest.mark.parametrize(
    ("body", "kind", "text", "extractor"),
    [
        ('{"a":[1,"ü"]}', "application/json", '{\n  "a": [\n    1,\n    "ü"\n  ]\n}', "json"),
        ('{"a":', "application/problem+json", '{"a":', "raw"),
        ("[" * 100_000, "application/json", None, "raw"),
        ("a,b\n1,2\n", "text/csv", "a,b\n1,2\n", "raw"),
        ("<p>said to be text</p>", "text/plain", "<p>said to be text</p>", "raw"),
        ("<!doctype html><p>of no kind", "", "of no kind", "article"),
    ],
)
async def test_what_is_no_page_is_told_by_its_kind(body: str, kind: str, text: str | None, extractor: str) -> None:
    told = await fetch(FakePage(body, headers={"content-type": kind}))
    assert told.details["extractor"] == extractor
    assert text is None or told.plain_text == text


async def test_other_files_say_what_they_are() -> None:
    told = await fetch(FakePage(b"PK\x03\x04\0\0\0\0", headers={"content-type": "application/zip"}))
    assert told.plain_text == f"{URL} is a ZIP archive (or a document made of one) (application/zip, 8B), not text"


RSS = """<?xml version="1.0" encoding="iso-8859-1"?><rss version="2.0" xmlns:content="http://purl.org/rss/1.0/modules/content/">
<channel><title>News</title><link>https://page.test/</link><item><title>One</title><link>/1</link>
<pubDate>Mon, 01 Jan 2024</pubDate><description>&lt;p&gt;Said &lt;b&gt;so&lt;/b&gt;.&lt;/p&gt;</description></item>
<item><title>Two</title><guid>https://page.test/2</guid></item></channel></rss>"""
ATOM = """<feed xmlns="http://www.w3.org/2005/Atom"><title>News</title><link href="https://page.test/"/><entry>
<title>One</title><link rel="self" href="/x"/><link href="/1"/><updated>2024</updated><summary>Said so.</summary>
</entry></feed>"""


async def test_a_feed_is_a_list_of_its_entries() -> None:
    rss = await fetch(FakePage(RSS, headers={"content-type": "application/rss+xml"}))
    assert rss.plain_text == (
        "# News\n\n## [One](https://page.test/1)\nMon, 01 Jan 2024\n\nSaid **so**.\n\n## [Two](https://page.test/2)"
    )
    atom = await fetch(FakePage(ATOM, headers={"content-type": "application/atom+xml"}), extractMode="text")
    assert atom.plain_text == "News\n\nOne\nhttps://page.test/1\n2024\n\nSaid so."


async def test_a_feed_that_declares_entities_is_refused() -> None:
    bomb = '<!DOCTYPE r [<!ENTITY a "x"><!ENTITY b "&a;&a;"><!ENTITY c SYSTEM "file:///etc/passwd">]>'
    told = await fetch(
        FakePage(bomb + RSS.partition("?>")[2].replace("One", "&c;"), headers={"content-type": "text/xml"})
    )
    assert told.plain_text == f"{URL} declares entities of its own, which no feed needs; it was not read"


def pdf_with(words: str) -> bytes:
    """Return a document of one page."""
    drawn = zlib.compress(f"BT /F1 12 Tf 72 720 Td ({words}) Tj ET".encode())
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
        b"<</Length %d/Filter/FlateDecode>>stream\n%s\nendstream" % (len(drawn), drawn),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]  # fmt: skip
    out, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    table = b"".join(b"%010d 00000 n \n" % at for at in places)
    return out + b"xref\n0 6\n0000000000 65535 f \n%strailer\n<</Size 6/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF" % (
        table,
        len(out),
    )


async def test_a_pdf_document_is_its_text() -> None:
    told = await fetch(FakePage(pdf_with("Words on paper"), headers={"content-type": "application/pdf"}))
    assert (told.plain_text, told.details["extractor"]) == ("Words on paper", "pdf")
    broken = await fetch(FakePage(b"%PDF-1.4\nnothing", headers={"content-type": "application/pdf"}))
    assert broken.plain_text.startswith(f"{URL} is a PDF document that cannot be read: ")


async def test_details_are_plain_and_an_empty_page_says_that_it_is() -> None:
    told = await fetch(FakePage("", headers=HTML))
    assert told.plain_text == "[There is no text at this address.]"
    assert json.loads(json.dumps(told.details))["warning"] == "There is no text at this address."
