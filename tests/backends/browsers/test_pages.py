"""A real Chromium: pages are read and used by refs, files and dialogs are answered, and nothing is left behind."""

import asyncio
import base64
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.backends.exec.shells import until
from tests.sockets import listening

from toolcrib.backends.browsers.pages import PageSet
from toolcrib.define.errors import ToolError

from .sites import FORM, NEEDS_CHROMIUM, SayPages, chromium_ids, opened, ref_of

pytestmark = [pytest.mark.anyio, NEEDS_CHROMIUM]

SHOP = ("shop.test", 80)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop for all of them, and one Chromium on it."""
    return "asyncio"


@pytest.fixture(scope="module")
def host() -> SayPages:
    csv = "content-type: text/csv\r\ncontent-disposition: attachment; filename=report.csv", b"a,b\n"
    cookie = "content-type: text/html\r\nset-cookie: who=me; Max-Age=999; Path=/", b"<h1>Signed in</h1>"
    pages: dict[str, Any] = {"/": FORM, "/order": "<h1>Ordered</h1>", "/report": csv, "/in": cookie}
    pages["/tall"] = "<title>Tall</title><div style='height:5000px'>tall</div>"
    pages["/frames"] = "<iframe srcdoc='<button onclick=\"parent.document.title = 1\">Inner</button>'></iframe>"
    return SayPages(pages)


@pytest.fixture(scope="module")
async def backend(host: SayPages) -> AsyncIterator[Any]:
    async with opened({SHOP: host}) as (found, _):
        yield found


@pytest.fixture
async def pages(backend: Any) -> AsyncIterator[PageSet]:
    found = backend.open("main", keeps=False)
    yield found
    await found.close()


async def look(pages: PageSet, **args: Any) -> str:
    return str((await pages.perform("snapshot", args))["snapshot"])


async def test_a_form_is_filled_in_and_sent_by_refs_of_a_snapshot(pages: PageSet, host: SayPages) -> None:
    told = await pages.perform("open", {"targetUrl": "http://shop.test/"})
    assert {key: told[key] for key in ("targetId", "title", "status")} == {
        "targetId": "t1", "title": "Order", "status": 200,
    }  # fmt: skip
    seen = await look(pages)
    fields = [{"ref": ref_of(seen, 'textbox "Name"'), "value": "Bo"}]
    fields.append({"ref": ref_of(seen, "checkbox"), "type": "checkbox", "value": "true"})
    await pages.perform("act", {"kind": "fill", "fields": fields})
    picked = await pages.perform("act", {"kind": "select", "ref": ref_of(seen, "combobox"), "values": ["bolt"]})
    assert picked["selected"] == ["bolt"]
    await pages.perform("act", {"kind": "click", "ref": "@" + ref_of(seen, 'button "Order"')})
    await pages.perform("act", {"kind": "wait", "text": "Ordered"})
    assert host.asked["/order"] == "who=Bo&gift=on&what=bolt"
    with pytest.raises(ToolError, match="no element e99 on the page now; take a new snapshot"):
        await pages.perform("act", {"kind": "click", "ref": "e99"})


async def test_a_dialog_is_dismissed_and_told_unless_an_answer_was_given_before(pages: PageSet) -> None:
    await pages.perform("open", {"targetUrl": "http://shop.test/"})
    ask = {"kind": "click", "ref": ref_of(await look(pages, interactive=True), '"Ask"')}
    told = await pages.perform("act", ask)
    assert told["dialogs"] == [{"type": "prompt", "message": "Who are you?", "accepted": False}]
    await pages.perform("dialog", {"accept": True, "promptText": "Bo"})
    await pages.perform("act", ask)
    assert (await pages.perform("act", {"kind": "evaluate", "fn": "() => document.title"}))["result"] == "said Bo"


async def test_files_are_handed_to_a_page_and_taken_from_it(pages: PageSet) -> None:
    await pages.perform("open", {"targetUrl": "http://shop.test/"})
    seen = await look(pages)
    letter = {"name": "letter.txt", "base64": base64.b64encode(b"dear shop").decode()}
    await pages.perform("upload", {"files": [letter], "inputRef": ref_of(seen, '"Letter"')})
    await pages.perform("act", {"kind": "wait", "fn": "() => document.title == 'dear shop'"})
    await pages.perform("upload", {"files": [letter], "ref": ref_of(seen, '"Letter"')})
    got = await pages.perform("download", {"ref": ref_of(seen, '"the report"')})
    assert (got["name"], base64.b64decode(got["base64"])) == ("report.csv", b"a,b\n")
    begun = await pages.perform("navigate", {"targetUrl": "http://shop.test/report"})
    assert begun["download"] == "report.csv"
    assert base64.b64decode((await pages.perform("download", {}))["base64"]) == b"a,b\n"


async def test_pictures_show_the_window_the_page_or_one_element_with_labels(pages: PageSet) -> None:
    await pages.perform("open", {"targetUrl": "http://shop.test/tall"})
    taken = await pages.perform("screenshot", {"fullPage": True, "type": "jpeg"})
    assert base64.b64decode(taken["base64"]).startswith(b"\xff\xd8\xff")
    await pages.perform("navigate", {"targetUrl": "http://shop.test/"})
    plain = await pages.perform("screenshot", {})
    labelled = await pages.perform("snapshot", {"mode": "efficient", "labels": True})
    assert labelled["base64"] not in ("", plain["base64"])
    assert (await pages.perform("screenshot", {}))["base64"] == plain["base64"]  # the labels are gone
    one = await pages.perform("screenshot", {"ref": ref_of(labelled["snapshot"], '"Order"')})
    assert len(one["base64"]) < len(plain["base64"])
    assert base64.b64decode((await pages.perform("pdf", {}))["base64"]).startswith(b"%PDF-")


async def test_elements_of_a_frame_have_refs_of_their_own(pages: PageSet) -> None:
    await pages.perform("open", {"targetUrl": "http://shop.test/frames"})
    ref = ref_of(await look(pages, interactive=True), '"Inner"')
    assert ref.startswith("f1e")
    await pages.perform("act", {"kind": "click", "ref": ref})
    await pages.perform("act", {"kind": "wait", "fn": "() => document.title == '1'"})


async def test_tabs_are_listed_brought_to_front_and_closed(pages: PageSet) -> None:
    await pages.perform("open", {"targetUrl": "http://shop.test/"})
    await pages.perform("open", {"targetUrl": "http://shop.test/tall"})
    await pages.perform("act", {"kind": "evaluate", "fn": "() => { open('/order'); }"})
    await until(lambda: len(pages._tabs) == 3)
    await pages.perform("focus", {"targetId": "t1"})
    rows = (await pages.perform("tabs", {}))["tabs"]
    assert [(row["targetId"], row["focused"]) for row in rows] == [("t1", True), ("t2", False), ("t3", False)]
    await pages.perform("close", {"targetId": "t2"})
    with pytest.raises(ToolError, match="there is no tab 't2'; there are t1, t3"):
        await pages.perform("snapshot", {"targetId": "t2"})


@pytest.mark.parametrize(
    "url",
    ["file:///etc/passwd", "chrome://version", "view-source:http://shop.test/", "data:text/html,x", "javascript:1",
     "ws://shop.test/", "ftp://shop.test/", "devtools://devtools", "blob:http://shop.test/1", "http://shop.test:22/"],
)  # fmt: skip
async def test_what_is_no_page_of_the_web_is_refused(pages: PageSet, url: str) -> None:
    with pytest.raises(ToolError) as refused:
        await pages.perform("open", {"targetUrl": url})
    assert refused.value.code in ("bad_address", "denied")


async def test_a_page_that_never_answers_is_closed_and_the_next_works(pages: PageSet) -> None:
    await pages.perform("open", {"targetUrl": "http://shop.test/"})
    with pytest.raises(ToolError, match=r"did not answer in 0\.1 seconds, and was closed"):
        await pages.perform("act", {"kind": "evaluate", "fn": "() => { for (;;); }", "timeoutMs": 100})
    assert (await pages.perform("open", {"targetUrl": "http://shop.test/"}))["title"] == "Order"


async def test_a_private_origin_opens_for_the_session_that_was_permitted_and_for_no_other_page(backend: Any) -> None:
    near = SayPages({"/": "<title>Preview</title>", "/out": "<script>location = 'http://shop.test/'</script>"})
    sneak = "<script>fetch('{0}', {{mode: 'no-cors'}}).catch(() => {{}}).then(() => location = '{0}')</script>"
    async with (
        listening(near) as port,
        opened({SHOP: SayPages({"/": sneak.format(f"http://127.0.0.1:{port}/")})}) as (
            other,
            world,
        ),
    ):
        origin = f"http://127.0.0.1:{port}"
        pages, stranger = other.open("main", keeps=False), other.open("main", keeps=False)
        pages.permit(origin)
        assert (await pages.perform("open", {"targetUrl": f"{origin}/"}))["title"] == "Preview"
        assert (await pages.capture(f"{origin}/", {"width": 375, "height": 812})).startswith(b"\x89PNG")
        near.heads.clear()
        await pages.perform("navigate", {"targetUrl": "http://shop.test/"})  # whose script goes there
        await until(lambda: world.dialled.count(("127.0.0.1", int(origin.rpartition(":")[2]))) >= 2)
        with pytest.raises(ToolError, match="may be asked"):
            await stranger.perform("open", {"targetUrl": f"{origin}/"})
        assert near.heads == []
        await pages.perform("open", {"targetUrl": f"{origin}/out"})  # and from there, nothing else is reached
        await until(lambda: ("shop.test", 80) in pages._places[origin].refused)
        await pages.close()
        await stranger.close()


async def test_sessions_share_no_cookies_but_a_kept_profile_comes_back(host: SayPages, tmp_path: Path) -> None:
    async with opened({SHOP: host}, tmp_path) as (backend, _):
        first, second = backend.open("main", keeps=True), backend.open("main", keeps=True)
        await first.perform("open", {"targetUrl": "http://shop.test/in"})
        await second.perform("open", {"targetUrl": "http://shop.test/"})
        assert "who=me" not in host.heads[-1]
        await second.close()
        await first.close()
        assert (tmp_path / "main.json").stat().st_mode & 0o777 == 0o600
        for keeps, sent in ((False, False), (True, True)):
            pages = backend.open("main", keeps=keeps)
            await pages.perform("open", {"targetUrl": "http://shop.test/tall"})
            tall = next(head for head in reversed(host.heads) if head.startswith("GET /tall"))
            assert ("who=me" in tall) is sent
            await pages.close()


async def test_a_chromium_that_was_killed_is_told_and_the_next_call_starts_anew(host: SayPages) -> None:
    before = chromium_ids()
    async with opened({SHOP: host}) as (backend, _):
        pages = backend.open("main", keeps=True)
        await pages.perform("open", {"targetUrl": "http://shop.test/"})
        waits = asyncio.ensure_future(pages.perform("act", {"kind": "wait", "text": "what never comes"}))
        await asyncio.sleep(0)
        for id in chromium_ids() - before:
            if "--type=" not in (line := Path(f"/proc/{id}/cmdline").read_text()) and "remote-debugging" in line:
                os.kill(id, signal.SIGKILL)
        with pytest.raises(ToolError, match="Chromium has ended, and its pages with it; the next call starts it anew"):
            await waits
        assert (await pages.perform("open", {"targetUrl": "http://shop.test/"}))["title"] == "Order"
        await pages.close()
    await until(lambda: chromium_ids() <= before)
