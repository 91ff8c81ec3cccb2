"""What is framed has no WebRTC: neither a canvas nor any page that it makes, while everything ordinary works."""

from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from tests.doors.gateway.canvas_world import CHROMIUM, browsing, evaluate, find_inside, look, show
from tests.doors.gateway.world import client_of, gateway_of

from .asking_world import until

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(600),
    pytest.mark.skipif(CHROMIUM is None, reason="impossible here: there is no Chromium on this machine"),
]
# a page within says so itself, as nobody can look into it: a script of its own set this where WebRTC was
MARK = "window.made = typeof RTCPeerConnection"
HELP = f"""<script>
const inner = "<script>{MARK}</" + "script>", frame = `<iframe srcdoc="${{inner}}"></iframe>`, parts = ["src", "doc"];
const make = (name, of) => {{
  const made = Object.assign(document.createElement(name), of);
  document.body.append(made);
  return new Promise((done) => {{ made.onload = made.onerror = () => done("loaded"); }});
}};
const refused = () => new Promise((done) => addEventListener("securitypolicyviolation", () => done("refused")));
const hear = async (run) => {{
  try {{ return String(await Promise.race([refused(), run()])); }} catch (error) {{ return "refused"; }}
}};
const wait = (root) => new Promise((done) => {{
  [...root.querySelectorAll("iframe, frame")].at(-1).addEventListener("load", () => done("loaded"));
}});
const place = (node) => {{ document.body.append(node); return wait(document); }};
const work = (made) => new Promise((done) => {{
  Object.assign(made, {{ onmessage: ({{ data }}) => done(data), onerror: () => done("refused") }});
}});
const load = (path, of) => new Promise((done) => {{
  const asked = Object.assign(new XMLHttpRequest(), {{ onload: () => done(asked) }});
  asked.open("GET", path);
  of(asked);
  asked.send();
}});
</script>"""
XHTML = "http://www.w3.org/1999/xhtml"
WITHIN = f"&#60;iframe xmlns='{XHTML}' src&#100;oc='&#38;lt;script>{MARK}&#38;lt;/script>'/>"
ENTITY = f'<!DOCTYPE x [<!ENTITY e \\"{WITHIN}\\">]><x>&e;</x>'
STYLES = (
    f"<xsl:stylesheet version='1.0' xmlns:xsl='http://www.w3.org/1999/XSL/Transform'><xsl:template match='/'>"
    f"<iframe xmlns='{XHTML}'><xsl:attribute name='src&#100;oc'>&lt;script>{MARK}&lt;/script></xsl:attribute></iframe>"
    "</xsl:template></xsl:stylesheet>"
)
FILE = f'<x><iframe xmlns="{XHTML}" srcdoc="&lt;script>{MARK}&lt;/script>"/></x>'
WAYS = [
    "make('iframe', {srcdoc: inner})",
    "{ document.body.insertAdjacentHTML('beforeend', frame); return wait(document) }",
    "{ document.body.innerHTML = frame.replace('doc', 'DOC'); return wait(document) }",
    "place(document.createRange().createContextualFragment(frame))",
    "place(Document.parseHTMLUnsafe(frame).body.firstChild)",
    "place(new DOMParser().parseFromString(frame, 'text/html').querySelector('iframe'))",
    f'place(new DOMParser().parseFromString("{ENTITY}", "text/xml").querySelector("iframe"))',
    "place(Object.assign(new Document().createElementNS('http://www.w3.org/1999/xhtml', 'iframe'), {srcdoc: inner}))",
    (
        "{ const made = document.implementation.createHTMLDocument(''); made.body.innerHTML = frame;"
        " return place(made.querySelector('iframe')) }"
    ),
    (
        "{ const other = document.createElement('template').content.ownerDocument;"
        " const made = other.createElement('iframe'); made.setAttribute('srcdoc', inner); return place(made) }"
    ),
    (
        "{ const made = document.createAttribute('srcdoc'), frame = document.createElement('iframe');"
        " made.value = inner; frame.setAttributeNode(made); return place(frame) }"
    ),
    (
        "{ const shadow = document.createElement('div').attachShadow({mode: 'closed'});"
        " document.body.append(shadow.host); shadow.innerHTML = frame; return wait(shadow) }"
    ),
    "load('data.svg', (asked) => {}).then((asked) => place(asked.responseXML.querySelector('iframe')))",
    (
        "load('data.svg', (asked) => { asked.responseType = {toString: () => 'document'} })"
        ".then((asked) => place(asked.response.querySelector('iframe')))"
    ),
    (
        "load('data.txt', (asked) => { asked.responseType = 'document'; asked.overrideMimeType('text/html') })"
        ".then((asked) => place(asked.response.querySelector('iframe')))"
    ),
    (
        "load('sheet.svg', (asked) => {}).then((asked) => { const made = new XSLTProcessor();"
        " made.importStylesheet(new DOMParser().parseFromString(asked.responseText, 'text/xml'));"
        " return place(made.transformToFragment(new Document(), document)) })"
    ),
    (
        "{ String.prototype.includes = () => false; String.prototype.toLowerCase = () => '';"
        " document.body.insertAdjacentHTML('beforeend', frame); return wait(document) }"
    ),
    (
        "place(Object.assign(document.createElement('iframe'), {srcdoc:"
        " trustedTypes.createPolicy('x', {createHTML: (x) => x}).createHTML(inner)}))"
    ),
    "place(Object.assign(document.createElement('iframe'), {srcdoc: trustedTypes.defaultPolicy.createHTML(inner)}))",
    f"make('iframe', {{src: `javascript:{MARK}`}})",
    (
        f"{{ const made = document.createElement('frameset');"
        f" made.append(Object.assign(document.createElement('frame'), {{src: `javascript:{MARK}`}}));"
        f" document.documentElement.append(made); return wait(made) }}"
    ),
    "make('iframe', {src: URL.createObjectURL(new Blob([inner], {type: 'text/html'}))})",
    "make('iframe', {src: 'data:text/html,' + inner})",
    "make('object', {data: 'data:text/html,' + inner})",
    "make('embed', {src: 'data:text/html,' + inner, type: 'text/html'})",
    (
        "{ const made = document.createElement('iframe'); document.body.append(made);"
        " return made.contentWindow.RTCPeerConnection }"
    ),
    "open('').RTCPeerConnection",
    "work(new Worker(URL.createObjectURL(new Blob(['postMessage(typeof RTCPeerConnection)']))))",
    "work(new Worker('data:text/javascript,postMessage(typeof RTCPeerConnection)'))",
    "work(new Worker('worker.js'))",
    "work(new SharedWorker('worker.js').port)",
    "navigator.serviceWorker.register('worker.js')",
]
LEAVES = [
    "location.href = 'javascript:1 + RTCPeerConnection'",
    "location.replace('javascript:1 + RTCPeerConnection')",
    "open('javascript:1 + RTCPeerConnection', '_self')",
    "Object.assign(document.createElement('a'), {href: 'javascript:1 + RTCPeerConnection'}).click()",
]
# written by the author of the page, or put together by its parser out of pieces
PAGES = [
    f'<iframe srcdoc="<script>{MARK}</script>"></iframe>',
    f'<iframe sRcDOC="<script>{MARK}</script>"></iframe>',
    f'<div><template shadowrootmode=closed><iframe srcdoc="<script>{MARK}</script>"></iframe></template></div>',
    f'<script>document.write("<iframe src"); document.write("doc=\'<script>{MARK}</scr" + "ipt>\'>")</script>',
    f'<script>document.write("<iframe s", "rcdoc=\'<script>{MARK}</scr" + "ipt>\'>")</script>',
    f'<script>document.write("<iframe SRC")</script>doc="<script>{MARK}</script>"></iframe>',
    f'<iframe src="javascript:{MARK}"></iframe>',
]


async def find_made(page: Any) -> list[str]:
    """Return what each page within a canvas found out about WebRTC, where a script of its own ran."""
    count = await page.frames[1].evaluate("length")
    await until(lambda: len(page.frames) >= 2 + count)
    for each in page.frames:
        await each.wait_for_load_state()
    return [str(await each.evaluate("window.made || 'no script'")) for each in page.frames[2:]]


async def test_no_page_that_a_canvas_makes_has_webrtc(tmp_path: Path) -> None:
    files = {"index.html": f"<!doctype html><body>{HELP}", "data.svg": FILE, "sheet.svg": STYLES, "data.txt": FILE}
    for name, words in {**files, "worker.js": "postMessage(typeof RTCPeerConnection)"}.items():
        (tmp_path / name).write_text(words)
    async with gateway_of({"workspace": {"root": str(tmp_path)}}) as world, client_of(world), browsing() as browser:
        page, _ = await look(browser, await show(world, action="present", target="index.html"))
        for way in WAYS:
            body = way if way.startswith("{") else f"{{ return {way} }}"
            said = await evaluate(world, f"hear(() => {body})")
            assert "function" not in said, (way, said)
            assert "function" not in await find_made(page), way
        assert "undefined" in await evaluate(
            world, "document.open(); document.close(); String(window.RTCPeerConnection)"
        )


async def test_an_address_that_is_a_script_makes_no_page() -> None:
    async with gateway_of() as world, client_of(world), browsing() as browser:
        url = await show(world, action="present", html="<p>still here")
        page = await browser.new_page()
        await page.goto(urljoin(url, await find_inside(url)))  # by itself: in a frame browsers run none anyway
        for leave in LEAVES:
            async with page.expect_console_message(lambda told: "javascript:-URL" in told.text):
                await page.evaluate("(code) => { setTimeout(code) }", leave)
            assert await page.evaluate("typeof RTCPeerConnection") == "undefined"
        await page.get_by_text("still here").wait_for()


@pytest.mark.parametrize("html", PAGES)
async def test_no_page_that_stands_in_a_canvas_has_webrtc(html: str) -> None:
    async with gateway_of() as world, client_of(world), browsing() as browser:
        page, frame = await look(browser, await show(world, action="present", html=f"<body>{html}<p>after"))
        await frame.get_by_text("after").wait_for()
        assert "function" not in await find_made(page)
        assert "undefined" in await evaluate(world, "String(window.RTCPeerConnection)")


ORDINARY = """<body onload="window.loaded = 1"><canvas></canvas><form onsubmit="return false"><input name=a></form>
<p id=word>a frame may have srcdoc</p><button onclick="window.clicked = 1">Press</button><style>p { color: red }</style>
<script>document.write("<b>Items"); document.write(" of dogs</b><scr" + "ipt>window.written = 1</scr" + "ipt>")</script>
<script src="more.js"></script><script type="module">import { n } from "./module.js"; window.imported = n;</script>"""


async def test_an_ordinary_canvas_works_as_before(tmp_path: Path) -> None:
    for name, words in {
        "index.html": f"<!doctype html>{ORDINARY}", "more.js": "window.more = 1", "module.js": "export const n = 1;",
        "data.json": '{"n": 1}',
    }.items():  # fmt: skip
        (tmp_path / name).write_text(words)
    async with gateway_of({"workspace": {"root": str(tmp_path)}}) as world, client_of(world), browsing() as browser:
        _, frame = await look(browser, await show(world, action="present", target="index.html"))
        await frame.get_by_role("button").click()
        for script in (
            "loaded + written + more + imported + clicked === 5",
            "document.querySelector('b').textContent === 'Items of dogs'",
            (
                "document.body.insertAdjacentHTML('beforeend', '<i onclick=\"window.inner = 1\">x</i>'), "
                "document.querySelector('i').click(), inner === 1"
            ),
            (
                "(() => { const made = document.createElement('script'); made.text = 'window.text = 1';"
                " document.body.append(made); return text === 1 })()"
            ),
            "new Promise((done) => { window.done = done; setTimeout('done(true)') })",
            "new Function('return true')()",
            "fetch('data.json').then((told) => told.json()).then((told) => told.n === 1)",
            (
                "new Promise((done) => { const asked = new XMLHttpRequest(); asked.responseType = 'json';"
                " asked.onload = () => done(asked.response.n === 1); asked.open('GET', 'data.json'); asked.send() })"
            ),
            "new DOMParser().parseFromString('<svg/>', 'image/svg+xml').documentElement.localName === 'svg'",
            "document.querySelector('canvas').getContext('2d') instanceof CanvasRenderingContext2D",
            "getComputedStyle(word).color === 'rgb(255, 0, 0)'",
        ):
            assert "true" in await evaluate(world, script), script
