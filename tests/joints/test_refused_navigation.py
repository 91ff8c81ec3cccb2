"""A navigation that is refused leaves a tab as it was, whoever began it: what it shows, what was typed, its history."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.browsers.sites import NEEDS_CHROMIUM, opened
from tests.sockets import listening
from toolcrib import OWNER, Belt, Result

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300), NEEDS_CHROMIUM]

STATE = "() => [document.title, document.querySelector('#typed').value, history.length, performance.timeOrigin]"
HOME = """<!doctype html><title>Home</title><input id=typed>
<a id=link href="{0}">out</a><a id=anew target=_blank href="{0}">out</a><a id=redirected href="/redirect">out</a>
<form id=form method=post action="{0}"><input name=said></form><iframe name=within></iframe>
<a id=framed target=within href="{0}">out</a>"""


class Site:
    """A site that answers with pages by path, `/redirect` with another address. `heads` is what was asked."""

    def __init__(self, pages: dict[str, str], elsewhere: str = "") -> None:
        self.pages, self.elsewhere, self.heads = pages, elsewhere, list[str]()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        path = head.split(" ")[1]
        first = (
            f"302 Found\r\nlocation: {self.elsewhere}" if path == "/redirect" else "200 OK\r\ncontent-type: text/html"
        )
        body = self.pages.get(path, "").encode()
        writer.write(f"HTTP/1.1 {first}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()


@asynccontextmanager
async def at_home(folder: Path, scheme: str) -> AsyncIterator[tuple[Belt, str, str, Site]]:
    """Give a belt whose browser is at a page in which something was typed; its address, and one that is refused."""
    (folder / "ws").mkdir()
    private, home = Site({"/": "<title>secret</title>"}), Site({})
    async with listening(private) as shut, listening(home) as port:
        home.elsewhere = f"{scheme}://127.0.0.1:{shut}/"
        home.pages = {"/": HOME.format(home.elsewhere), "/other": "<title>Other</title><input id=typed>"}
        config = {"workspace": {"root": str(folder / "ws")}, "web": {"ssrf": {"allowPrivate": [f"127.0.0.1:{port}"]}}}
        async with toolcrib.open(config) as crib:
            belt, site = crib.belt(OWNER), f"http://127.0.0.1:{port}"
            await use(belt, "open", targetUrl=f"{site}/other")
            await use(belt, "navigate", targetUrl=f"{site}/")
            await evaluate(belt, "() => { document.querySelector('#typed').value = 'typed'; }")
            yield belt, site, home.elsewhere, private


async def use(belt: Belt, action: str, **args: Any) -> Result:
    result = await belt.call("browser", {"action": action, **args})
    assert result.status == "ok", result.plain_text
    return result


async def evaluate(belt: Belt, code: str) -> dict[str, Any]:
    return dict((await use(belt, "act", request={"kind": "evaluate", "fn": code})).details)


async def hear_refusal(belt: Belt, way: str) -> str:
    """Let the page go that way, and return why it was refused: this call or a later one tells it."""
    details, limit = await evaluate(belt, way), time.monotonic() + 60
    while time.monotonic() < limit:
        if refused := details.get("refused"):
            return str(refused)
        details = await evaluate(belt, "() => 1")
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_where_the_call_leads_nowhere_the_tab_stays(tmp_path: Path, scheme: str) -> None:
    async with at_home(tmp_path, scheme) as (belt, site, shut, private):
        before = (await evaluate(belt, STATE))["result"]
        for url in (shut, f"{scheme}://10.0.0.1/", f"{scheme}://[::1]:1/", f"{site}/redirect", f"{site[:16]}:22/"):
            for action in ("navigate", "open"):
                refused = await belt.call("browser", {"action": action, "targetUrl": url})
                assert (refused.status, refused.details["code"]) == ("error", "denied"), url
        assert (await evaluate(belt, STATE))["result"] == before == ["Home", "typed", before[2], before[3]]
        assert private.heads == []
        assert len((await use(belt, "tabs")).details["tabs"]) == 1


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_where_the_page_leads_nowhere_the_tab_stays(tmp_path: Path, scheme: str) -> None:
    async with at_home(tmp_path, scheme) as (belt, site, shut, private):
        before = (await evaluate(belt, STATE))["result"]
        ways = [
            f"() => {{ document.querySelector('#{id}').click(); }}" for id in ("link", "anew", "redirected", "framed")
        ]
        ways += ["() => { document.querySelector('#form').submit(); }", f"() => {{ location = '{shut}'; }}"]
        ways += [
            f"() => {{ open('{shut}'); }}",
            "() => { open('/redirect'); }",
            f"() => {{ location.replace('{shut}'); }}",
        ]
        ways.append(f"() => {{ document.head.innerHTML = '<meta http-equiv=refresh content=\"0;url={shut}\">'; }}")
        ways.append(
            f"() => {{ document.querySelector('iframe').srcdoc = `<script>top.location = '{shut}'</script>`; }}"
        )
        for way in ways:
            assert "127.0.0.1 is refused" in await hear_refusal(belt, way), way
            told = await evaluate(belt, STATE)
            assert (told["url"], told["result"][1:]) == (f"{site}/", before[1:]), way
        assert private.heads == []


async def test_where_it_may_go_it_goes_and_back(tmp_path: Path) -> None:
    async with at_home(tmp_path, "http") as (belt, site, _, _):
        await evaluate(belt, "() => { location = '/other'; }")
        await use(belt, "act", request={"kind": "wait", "url": f"{site}/other"})
        await evaluate(belt, "() => { history.back(); }")
        await use(belt, "act", request={"kind": "wait", "url": f"{site}/"})
        await evaluate(belt, "() => { open('/other'); }")
        limit = time.monotonic() + 60
        while len((await use(belt, "tabs")).details["tabs"]) < 2:
            assert time.monotonic() < limit


async def test_back_to_what_is_refused_by_now_leads_nowhere() -> None:
    one, two = Site({"/": "<title>One</title>"}), Site({"/": "<title>Two</title><input id=typed>"})
    async with opened({("one.test", 80): one, ("two.test", 80): two}) as (backend, world):
        pages = backend.open("main", keeps=False)
        await pages.perform("open", {"targetUrl": "http://one.test/"})
        await pages.perform("navigate", {"targetUrl": "http://two.test/"})
        type_in = "() => { document.querySelector('#typed').value = 'typed'; }"
        await pages.perform("act", {"kind": "evaluate", "fn": type_in})
        before = await pages.perform("act", {"kind": "evaluate", "fn": STATE})
        del world.places["one.test", 80]
        told = await pages.perform("act", {"kind": "evaluate", "fn": "() => { history.back(); }"})
        while "refused" not in told:
            told = await pages.perform("act", {"kind": "evaluate", "fn": "() => 1"})
        after = await pages.perform("act", {"kind": "evaluate", "fn": STATE})
        assert (after["url"], after["result"]) == (before["url"], before["result"])
        await pages.close()
