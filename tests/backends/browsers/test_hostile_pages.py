"""Pages that mean harm: they reach nothing, fill nothing, and keep nobody from the next page."""

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.backends.exec.shells import until

from toolcrib.backends.browsers.pages import PageSet
from toolcrib.define.errors import ToolError

from .sites import NEEDS_CHROMIUM, SayPages, chromium_ids, opened

pytestmark = [pytest.mark.anyio, NEEDS_CHROMIUM]

SHOP = ("shop.test", 80)
# a name of the local network is asked for by multicast; the relay shows that the others were looked at
WEBRTC = """<script>(async () => {
  const ice = {iceServers: [{urls: "turn:relay.test:3478?transport=tcp", username: "u", credential: "c"}]};
  const here = new RTCPeerConnection(ice), there = new RTCPeerConnection(ice);
  here.createDataChannel("x");
  await here.setLocalDescription(await here.createOffer());
  await there.setRemoteDescription(here.localDescription);
  await there.setLocalDescription(await there.createAnswer());
  await here.setRemoteDescription(there.localDescription);
  for (const each of [here, there]) await each.addIceCandidate(
    {candidate: "candidate:1 1 udp 2130706431 printer.local 5000 typ host", sdpMid: "0", sdpMLineIndex: 0});
  document.title = "asked";
})()</script>"""
REPLACED = """<title>x</title><script>
  const big = "x".repeat(2e7);
  JSON.stringify = () => big;
  Promise.prototype.then = function (take) { take(big); return this };
  Array.prototype.push = function () { this[this.length] = big };
  Object.prototype.toJSON = String.prototype.slice = () => big;
</script>"""
TALK = """<title>x</title><script>
  for (let line = 1; line <= 5000; line++) console.log(line);
  document.title = "said";
</script>"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop for all of them, and one Chromium on it."""
    return "asyncio"


@pytest.fixture(scope="module")
async def site() -> AsyncIterator[Any]:
    pages: dict[str, Any] = {"/": "<title>Fine</title>", "/webrtc": WEBRTC, "/replaced": REPLACED, "/talk": TALK}
    pages["/ports"] = "<title>Fine</title><img src=http://shop.test:8080/><script src=http://shop.test:8080/></script>"
    async with opened({SHOP: SayPages(pages)}) as found:
        yield found


@pytest.fixture
async def pages(site: Any) -> AsyncIterator[PageSet]:
    found = site[0].open("main", keeps=False)
    yield found
    await found.close()


async def evaluate(pages: PageSet, code: str) -> Any:
    return (await pages.perform("act", {"kind": "evaluate", "fn": code}))["result"]


async def test_a_page_that_asks_another_port_of_its_host_in_vain_is_shown_all_the_same(pages: PageSet) -> None:
    told = await pages.perform("open", {"targetUrl": "http://shop.test/ports"})
    assert (told["title"], told["status"]) == ("Fine", 200)


async def test_webrtc_asks_nobody_on_the_local_network_for_a_name(pages: PageSet, site: Any) -> None:
    await pages.perform("open", {"targetUrl": "http://shop.test/webrtc"})
    await pages.perform("act", {"kind": "wait", "fn": "() => document.title == 'asked'"})
    await until(lambda: ("relay.test", 3478) in site[1].dialled)
    rows = [line.split() for line in Path("/proc/net/udp").read_text().splitlines()[1:]]
    multicast = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(":14E9")}  # 5353
    assert multicast & {name for id in chromium_ids() for name in open_files(id)} == set()


def open_files(id: int) -> list[str]:
    names = list[str]()
    for each in Path(f"/proc/{id}/fd").glob("*"):
        try:
            names.append(os.readlink(each))  # noqa: PTH115  a name that is no path
        except OSError:
            continue  # closed meanwhile
    return names


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("() => { const a = {}; a.a = a; return [a, a] }", [{"a": "(itself)"}, {"a": "(itself)"}]),
        ("() => [NaN, 1n, undefined, Symbol('x'), new Map([[1, 2]]), window, new Error('no')]",
         [None, "1", None, "Symbol(x)", [[1, 2]], "[object Window]", "Error: no"]),
        ("document.title;", "Fine"),
        ("async () => 'CODE'", "CODE"),
        ("() => '\\ud800'", '"\\ud800"'),
        ("() => undefined", None),
    ],
)  # fmt: skip
async def test_whatever_a_script_returns_is_json(pages: PageSet, code: str, value: Any) -> None:
    await pages.perform("open", {"targetUrl": "http://shop.test/"})
    assert await evaluate(pages, code) == value


async def test_nothing_nested_beyond_what_json_carries_comes_back_as_a_value(pages: PageSet) -> None:
    await pages.perform("open", {"targetUrl": "http://shop.test/"})
    deep = await evaluate(pages, "() => { let a = []; for (let i = 0; i < 600; i++) a = [a]; return a }")
    assert deep == "[" * 601 + "]" * 601


@pytest.mark.parametrize("code", ["() => 'x'.repeat(1e8)", "() => Array.from({length: 1e6}, (_, i) => i)"])
async def test_what_a_script_returns_is_bounded_before_it_leaves_the_page(pages: PageSet, code: str) -> None:
    await pages.perform("open", {"targetUrl": "http://shop.test/"})
    with pytest.raises(ToolError, match="more than 1,000,000 characters of JSON; have it return less"):
        await evaluate(pages, code)
    assert await evaluate(pages, "() => document.title") == "Fine"


async def test_a_page_that_has_replaced_what_scripts_are_made_of_hands_over_no_more(pages: PageSet) -> None:
    await pages.perform("open", {"targetUrl": "http://shop.test/replaced"})
    with pytest.raises(ToolError, match="have it return less"):
        await evaluate(pages, "() => [1, 2]")


async def test_a_page_that_talks_without_end_is_heard_again_when_somebody_looks(pages: PageSet) -> None:
    await pages.perform("open", {"targetUrl": "http://shop.test/talk"})
    await pages.perform("act", {"kind": "wait", "fn": "() => document.title == 'said'"})
    heard = (await pages.perform("console", {}))["messages"]
    assert len(heard) == 200
    assert int(heard[-1]["text"]) < 5_000
    await evaluate(pages, "() => console.log('and now')")
    await until(lambda: any(each["text"] == "and now" for each in pages._tabs["t1"].console))


async def test_a_page_that_is_busy_with_itself_keeps_nothing_from_being_kept(tmp_path: Path) -> None:
    busy = "<script>localStorage.name = 'Bo'; setTimeout(() => { for (;;); }, 500)</script>"
    async with opened({SHOP: SayPages({"/": busy})}, tmp_path) as (backend, _):
        pages = backend.open("main", keeps=True)
        await pages.perform("open", {"targetUrl": "http://shop.test/"})
        await pages.close()
    (stored,) = json.loads((tmp_path / "main.json").read_text())["origins"]
    assert stored["localStorage"] == [{"name": "name", "value": "Bo"}]
