"""Canvases in a real browser: what a session shows, what people do there, and what a hostile page cannot."""

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from PIL import Image

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from tests.doors.one_browser import anyio_backend, browser_of_the_file  # noqa: F401  fixtures

from toolcrib import OWNER

from .canvas_world import (
    CHROMIUM,
    FORM,
    browsing,
    button,
    call,
    component,
    evaluate,
    lines,
    look,
    show,
    surface,
    text,
)
from .test_nodes import PHONE, Phone, nodes_of
from .world import TOKEN, Client, World, client_of, gateway_of

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.timeout(120),
    pytest.mark.skipif(CHROMIUM is None, reason="impossible here: there is no Chromium on this machine"),
]
BRIDGES = {
    "ios": "window.webkit = {messageHandlers: {openclawCanvasA2UIAction: "
    "{postMessage: (told) => window.native(JSON.stringify(told))}}}",
    "android": "window.openclawCanvasA2UIAction = {postMessage: (told) => window.native(told)}",
}


async def fill_in(frame: Any) -> None:
    await frame.get_by_label("Name").fill("Olena <END>")
    await frame.get_by_role("slider").fill("7")
    await frame.get_by_role("button", name="Order").click()


async def hear_message(client: Client) -> str:
    """Return what the next turn of the main session was told."""
    await client.wait_for("chat", state="final")
    told = await client.get("chat.history", {"sessionKey": "main"})
    return str(told["messages"][-2]["content"][0]["text"]) + str(told["messages"][-2]["content"][-1]["text"])


async def test_a_form_that_is_filled_in_comes_back_as_a_message_that_the_next_turn_sees() -> None:
    async with gateway_of() as world, client_of(world) as client, browsing() as browser:
        _, frame = await look(browser, await show(world, action="a2ui_push", jsonl=FORM))
        await fill_in(frame)
        said = await hear_message(client)
        assert '"who": "Olena <END>"' in said
        assert '"times": 7' in said
        assert '"name": "order"' in said
        assert "Source: canvas" in said  # fenced


@pytest.mark.parametrize("system", sorted(BRIDGES))
async def test_a_form_on_a_phone_comes_back_through_its_own_bridge(system: str) -> None:
    commands, sent = ["canvas.a2ui.pushJSONL"], asyncio.Queue[str]()
    about = {**PHONE, "client": {**PHONE["client"], "platform": system}, "caps": ["canvas"], "commands": commands}
    async with (
        gateway_of(devices=nodes_of("p1")) as world,
        client_of(world) as client,
        client_of(world, "token-of-p1", role="node", **about) as connection,
        browsing() as browser,
    ):
        phone = Phone(connection, "p1", {commands[0]: {"ok": True}})
        serving = asyncio.ensure_future(phone.serve())
        result = await call(world, action="a2ui_push", jsonl=FORM)
        assert json.loads(result.plain_text) == {"ok": True, "node": "iPhone"}
        page = await browser.new_page()  # the phone's own
        await page.expose_function("native", sent.put_nowait)
        await page.add_init_script(BRIDGES[system])
        await page.goto(f"{connection.hello['canvasHostUrl']}/__openclaw__/a2ui/")
        pushed = json.loads(phone.asked[0]["paramsJSON"])["jsonl"]
        await page.evaluate("(each) => openclawA2UI.applyMessages(each)", [json.loads(x) for x in pushed.split("\n")])
        await fill_in(page)
        action = json.loads(await sent.get())["userAction"]
        told = {"message": f"CANVAS {json.dumps(action['context'])}", "sessionKey": "agent:other:main", "key": "a1"}
        event = {"event": "agent.request", "payloadJSON": json.dumps(told)}
        await connection.socket.send(json.dumps({"type": "req", "id": "e", "method": "node.event", "params": event}))
        said = await hear_message(client)
        assert "Olena <END>" in said
        assert "Source: node:p1" in said
        serving.cancel()


async def test_a_page_of_the_workspace_is_loaded_again_within_a_second_of_the_write(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "style.css").write_text("p { color: rgb(1, 2, 3) }")
    (tmp_path / "site" / "index.html").write_text('<!doctype html><link rel="stylesheet" href="style.css"><p>one')
    settings = {"workspace": {"root": str(tmp_path)}}
    async with gateway_of(settings) as world, client_of(world), browsing() as browser:
        page, frame = await look(browser, await show(world, action="present", target="site/index.html"))
        assert await frame.locator("p").evaluate("(p) => getComputedStyle(p).color") == "rgb(1, 2, 3)"
        took = []
        for name, words in (("index.html", "two"), ("style.css", "p { color: rgb(4, 5, 6) }"), ("index.html", "three")):
            async with page.expect_websocket():  # the page that is loaded again connects again
                async with page.expect_event("framenavigated"):
                    began = time.monotonic()
                    whole = f'<!doctype html><link rel="stylesheet" href="style.css"><p>{words}'
                    (tmp_path / "site" / name).write_text(words if name.endswith("css") else whole)
                took.append(time.monotonic() - began)
        await frame.get_by_text("three").wait_for()
        assert await frame.locator("p").evaluate("(p) => getComputedStyle(p).color") == "rgb(4, 5, 6)"
        assert min(took) < 1.0


async def test_every_component_of_v08_is_shown() -> None:
    kinds: dict[str, dict[str, Any]] = {
        "Text": {"text": {"literalString": "Hello"}, "usageHint": "h2"},
        "Image": {"url": {"literalString": "data:image/gif;base64,R0lGODlhAQABAAAAACw="}, "usageHint": "avatar"},
        "Icon": {"name": {"literalString": "search"}},
        "Video": {"url": {"literalString": "data:video/mp4;base64,AAAA"}},
        "AudioPlayer": {
            "url": {"literalString": "data:audio/wav;base64,AAAA"},
            "description": {"literalString": "a sound"},
        },
        "Row": {"children": {"explicitList": ["leaf"]}, "distribution": "spaceBetween", "alignment": "center"},
        "Column": {"children": {"explicitList": ["leaf"]}},
        "List": {"children": {"template": {"componentId": "item", "dataBinding": "/fruit"}}, "direction": "horizontal"},
        "Card": {"child": "leaf"},
        "Tabs": {
            "tabItems": [
                {"title": {"literalString": "A"}, "child": "leaf"},
                {"title": {"literalString": "B"}, "child": "leaf"},
            ]
        },
        "Divider": {"axis": "horizontal"},
        "Modal": {"entryPointChild": "open", "contentChild": "secret"},
        "Button": {"child": "leaf", "action": {"name": "x"}},
        "CheckBox": {"label": {"literalString": "Sure"}, "value": {"literalBoolean": True}},
        "TextField": {
            "label": {"literalString": "Long"},
            "text": {"literalString": "words"},
            "textFieldType": "longText",
        },
        "DateTimeInput": {"value": {"literalString": "2026-01-02"}, "enableDate": True},
        "MultipleChoice": {
            "selections": {"literalArray": ["b"]},
            "options": [{"label": {"literalString": x.upper()}, "value": x} for x in "abc"],
            "maxAllowedSelections": 1,
        },
        "Slider": {"value": {"literalNumber": 4}, "minValue": 0, "maxValue": 9},
    }
    data = [{"key": "fruit", "valueMap": [{"key": str(n), "valueMap": [{"key": "name", "valueString": name}]}
             for n, name in enumerate(("apple", "pear"))]}]  # fmt: skip
    jsonl = surface(
        component("root", "Column", children={"explicitList": list(kinds)}),
        *(component(kind, kind, **of) for kind, of in kinds.items()),
        text("leaf", "leaf"), text("open", "open it"), text("secret", "the secret"),
        component("item", "Text", text={"path": "name"}),
        data=data,
    )  # fmt: skip
    async with gateway_of() as world, client_of(world), browsing() as browser:
        page, frame = await look(browser, await show(world, action="a2ui_push", jsonl=jsonl))
        errors = list[str]()
        page.on("pageerror", lambda error: errors.append(str(error)))
        root = frame.locator("#stage > section > .column")
        assert await root.locator("> *").count() == len(kinds)
        tags = await root.locator("> *").evaluate_all("(all) => all.map((each) => each.tagName)")
        assert tags[:6] == ["H2", "IMG", "SPAN", "VIDEO", "FIGURE", "DIV"]
        assert await frame.locator(".list p").all_inner_texts() == ["apple", "pear"]
        assert await frame.get_by_role("checkbox", name="Sure").is_checked()
        assert await frame.get_by_label("Long").input_value() == "words"
        assert await frame.get_by_role("radio", name="B").is_checked()
        assert await frame.locator("input[type=date]").input_value() == "2026-01-02"
        await frame.get_by_role("tab", name="B").click()
        assert await frame.get_by_role("tab", name="B").get_attribute("aria-selected") == "true"
        assert not await frame.get_by_text("the secret").is_visible()
        await frame.get_by_text("open it").click()
        assert await frame.get_by_text("the secret").is_visible()
        assert errors == []


async def test_what_is_bound_follows_the_data_and_what_was_typed_stays() -> None:
    jsonl = surface(
        component("root", "Column", children={"explicitList": ["field", "echo", "list"]}),
        component("field", "TextField", label={"literalString": "Word"}, text={"path": "/word"}),
        component("echo", "Text", text={"path": "/word"}),
        component("list", "Column", children={"template": {"componentId": "row", "dataBinding": "/rows"}}),
        component("row", "Column", children={"explicitList": ["rowName", "pick"]}),
        component("rowName", "Text", text={"path": "name"}),
        button("pick", "pickLabel", "pick", what={"path": "name"}, word={"path": "/word"}),
        text("pickLabel", "Pick"),
    )

    def rows(*names: str) -> str:
        contents = [
            {"key": f"r{n}", "valueMap": [{"key": "name", "valueString": name}]} for n, name in enumerate(names)
        ]
        return lines({"dataModelUpdate": {"surfaceId": "main", "path": "/rows", "contents": contents}})

    async with gateway_of() as world, client_of(world) as client, browsing() as browser:
        _, frame = await look(browser, await show(world, action="a2ui_push", jsonl=jsonl))
        await frame.get_by_label("Word").fill("<b>typed</b>")
        assert await frame.locator("section > .column > p").inner_text() == "<b>typed</b>"  # text, not markup
        await show(world, action="a2ui_push", jsonl=rows("one"))
        await frame.get_by_text("one").wait_for()
        await show(world, action="a2ui_push", jsonl=rows("uno", "due"))
        await frame.get_by_text("due").wait_for()
        assert await frame.get_by_text("uno").count() == 1
        assert await frame.get_by_label("Word").input_value() == "<b>typed</b>"
        await frame.get_by_role("button").nth(1).click()
        said = await hear_message(client)
        assert '"what": "due"' in said
        await show(world, action="a2ui_reset")
        await frame.locator("#stage:empty").wait_for(state="attached")


async def test_hostile_a2ui_is_shown_as_far_as_it_can_be_and_stops_nothing() -> None:
    script = "<img src=x onerror=window.pwned=1><script>window.pwned=1</script>"
    many = [{"key": str(n), "valueString": "x"} for n in range(20_000)]
    polluted = {"key": "__proto__", "valueMap": [{"key": "polluted", "valueString": "y"}]}
    bomb = [component(f"c{n}", "Row", children={"explicitList": [f"c{n + 1}"] * 4}) for n in range(20)]
    odd = [
        surface(component("root", "Column", children={"explicitList": ["root", "root"]})),
        surface(component("root", "Column", children={"explicitList": ["c0"]}), *bomb),
        lines({"surfaceUpdate": {"components": 5}}, {"surfaceUpdate": {"components": [None, 1, {"id": "root"}]}}),
        surface(component("root", "Tabs", tabItems="abc")),
        surface(component("root", "constructor")),
        surface(text("root", script), data=[polluted]),
        lines({"dataModelUpdate": {"surfaceId": "main", "path": "/__proto__/polluted", "contents": many[:1]}}),
        surface(component("root", "Image", url={"literalString": "javascript:window.pwned=1"})),
        surface(
            component("root", "List", children={"template": {"componentId": "root", "dataBinding": "/l"}}),
            data=[{"key": "l", "valueMap": many}],
        ),
        surface(text("root", "fine")),
    ]
    async with gateway_of() as world, client_of(world), browsing() as browser:
        url = await show(world, action="a2ui_push", jsonl=odd[-1])
        _, frame = await look(browser, url)
        for each in odd:
            await show(world, action="a2ui_push", jsonl=each)
            told = await evaluate(
                world, "[document.querySelectorAll('*').length < 5100, !window.pwned, !({}).polluted]"
            )
            assert "[true,true,true]" in told, each
        await frame.get_by_text("fine").wait_for()
        _, again = await look(browser, url)  # all of it at once
        await again.get_by_text("fine").wait_for()


async def test_v09_is_shown_and_answered_as_well() -> None:
    action = {"event": {"name": "go", "context": {"who": {"path": "/who"}}}}
    jsonl = lines(
        {"version": "v0.9", "createSurface": {"surfaceId": "s", "catalogId": "basic"}},
        {"version": "v0.9", "updateComponents": {"surfaceId": "s", "components": [
            {"id": "root", "component": "Column", "children": ["t", "f", "b"]},
            {"id": "t", "component": "Text", "text": {"path": "/title"}, "variant": "h1"},
            {"id": "f", "component": "TextField", "label": "Who", "value": {"path": "/who"}},
            {"id": "b", "component": "Button", "child": "l", "action": action},
            {"id": "l", "component": "Text", "text": "Go"},
        ]}},
        {"version": "v0.9", "updateDataModel": {"surfaceId": "s", "path": "/", "value": {"title": "Hi", "who": "me"}}},
    )  # fmt: skip
    async with gateway_of() as world, client_of(world) as client, browsing() as browser:
        _, frame = await look(browser, await show(world, action="a2ui_push", jsonl=jsonl))
        assert await frame.get_by_role("heading").inner_text() == "Hi"
        await frame.get_by_label("Who").fill("you")
        await frame.get_by_role("button", name="Go").click()
        assert '"who": "you"' in await hear_message(client)


async def test_eval_returns_a_value_and_says_what_went_wrong() -> None:
    async with gateway_of() as world, client_of(world), browsing() as browser:
        url = await show(world, action="present", html="<title>t</title><script>let n = 4</script><p>hi")
        assert "nobody has opened the canvas" in (await call(world, action="eval", javaScript="1")).plain_text
        await look(browser, url)
        assert "42" in await evaluate(world, "n * 10 + 2")
        assert '{"a":[1]}' in await evaluate(world, "Promise.resolve({a: [1]})")
        assert "undefined" in await evaluate(world, "void 0")
        failed = await call(world, action="eval", javaScript="nothing.at.all")
        assert failed.status == "error"
        assert "ReferenceError" in failed.plain_text
        circle = await call(world, action="eval", javaScript="const a = {}; a.a = a; a")
        assert "circular" in circle.plain_text
        assert len(await evaluate(world, "'x'.repeat(1e6)")) < 110_000
        for n in range(3):  # also of what has only just been shown
            await show(world, action="present", html=f"<title>page {n}</title>")
            assert f"page {n}" in await evaluate(world, "document.title")
        await show(world, action="hide")
        assert "scripts run in" in (await call(world, action="eval", javaScript="1")).plain_text
        await show(world, action="present")
        assert "page 2" in await evaluate(world, "document.title")


@pytest.mark.parametrize(("kind", "head"), [("png", b"\x89PNG"), ("jpg", b"\xff\xd8\xff")])
async def test_a_snapshot_is_a_picture_in_the_workspace(kind: str, head: bytes, tmp_path: Path) -> None:
    async with gateway_of({"workspace": {"root": str(tmp_path)}}) as world, client_of(world):
        await show(world, action="present", html="<body style='background: red'>")
        result = await call(world, action="snapshot", outputFormat=kind, maxWidth=320)
        assert "Screenshot captured" in result.plain_text
        assert (result.details["width"], result.details["height"]) == (320, 200)
        assert "as it opens now" in result.plain_text
        assert (tmp_path / result.details["path"]).read_bytes().startswith(head)


STYLED = """<!doctype html><style>* { margin: 0; border: 0; padding: 0 } input, div, canvas { display: block;
width: 100px; height: 100px; font: 90px monospace; overflow: hidden }</style><input id=typed><div id=changed></div>
<canvas id=drawn width=100 height=100></canvas><div id=shadow></div>"""
CHANGE = """changed.style.background = 'rgb(0, 128, 0)'; shadow.attachShadow({mode: 'open'}).innerHTML =
'<style>p { margin: 0; height: 100px; background: rgb(0, 0, 255) }</style><p></p>';
const brush = drawn.getContext('2d'); brush.fillStyle = 'rgb(255, 0, 0)'; brush.fillRect(0, 0, 100, 100);
document.styleSheets[0].insertRule('body { background: rgb(9, 9, 9) }')"""


async def colours_of(path: Path, points: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    with Image.open(path) as picture:
        return [picture.convert("RGB").getpixel(point) for point in points]  # type: ignore[misc]  # three numbers


async def test_a_snapshot_shows_the_page_that_was_opened_last_as_it_is_there_now(tmp_path: Path) -> None:
    async with gateway_of({"workspace": {"root": str(tmp_path)}}) as world, client_of(world), browsing() as browser:
        url = await show(world, action="present", html=STYLED)
        await look(browser, url)  # somebody else's, who opened it before
        page, frame = await look(browser, url)
        await page.set_viewport_size({"width": 600, "height": 500})
        before = await call(world, action="snapshot")
        assert "opens now" not in before.plain_text
        assert (before.details["width"], before.details["height"]) == (600, 500)
        await evaluate(world, CHANGE)
        await frame.locator("#typed").fill("\u2588")  # a block
        taken = await call(world, action="snapshot")
        seen = await colours_of(
            tmp_path / taken.details["path"], [(20, 45), (50, 150), (50, 250), (50, 350), (500, 50)]
        )
        assert seen == [(0, 0, 0), (0, 128, 0), (255, 0, 0), (0, 0, 255), (9, 9, 9)]
        small = await call(world, action="snapshot", maxWidth=300)
        assert (small.details["width"], small.details["height"]) == (300, 250)
        assert (await colours_of(tmp_path / small.details["path"], [(25, 75)])) == [(0, 128, 0)]
        assert await frame.locator("#typed").input_value() == "\u2588"  # and the page is as it was
        await page.close()


async def test_a_snapshot_of_a_form_shows_what_was_typed_and_picked(tmp_path: Path) -> None:
    async with gateway_of({"workspace": {"root": str(tmp_path)}}) as world, client_of(world), browsing() as browser:
        _, frame = await look(browser, await show(world, action="a2ui_push", jsonl=FORM))
        empty = (tmp_path / (await call(world, action="snapshot")).details["path"]).read_bytes()
        await frame.get_by_label("Name").fill("Olena")
        typed = (tmp_path / (await call(world, action="snapshot")).details["path"]).read_bytes()
        await frame.get_by_label("Name").fill("")
        await frame.get_by_label("Name").blur()
        again = (tmp_path / (await call(world, action="snapshot")).details["path"]).read_bytes()
        assert (typed != empty, again == empty) == (True, True)


def hostile(gateway: str, methods: list[str], known: str) -> str:
    """Return a page that tries whatever it can think of, and keeps what came of it in `found`."""
    return """<script>
const found = [], gateway = %s, known = %s, methods = %s;
const note = (what, value) => found.push(what + ": " + String(value).slice(0, 200));
const late = () => new Promise((resolve) => setTimeout(() => resolve("REFUSED by silence"), 500));
const attempt = async (what, run) => {
  try { note(what, await Promise.race([run(), late()])); } catch (error) { note(what, "REFUSED " + error.name); }
};
addEventListener("message", ({data}) => data.eval || note("told", JSON.stringify(data)));
const dial = (url, first) => new Promise((resolve) => {
  const socket = new WebSocket(url);
  socket.onopen = () => first.forEach((each) => socket.send(JSON.stringify(each)));
  socket.onmessage = ({data}) => resolve("ANSWERED " + data);
  socket.onclose = () => resolve("REFUSED closed");
});
const connect = {type: "req", id: "0", method: "connect", params: {minProtocol: 3, maxProtocol: 3,
  client: {id: "cli", version: "1", platform: "x", mode: "cli"}, auth: {}}};
const ask = methods.map((method, id) => ({type: "req", id: String(id), method, params: {}}));
window.done = (async () => {
  await attempt("socket", () => dial(gateway.replace("http", "ws"), [connect, ...ask]));
  for (const method of methods) {
    await attempt("http " + method, async () => (await fetch(gateway + "/tools/invoke", {method: "POST", mode: "cors",
      headers: {"content-type": "application/json"}, body: JSON.stringify({tool: method})})).text());
    for (const whom of [parent, top]) whom.postMessage({type: "req", id: "1", method, params: {}}, "*");
  }
  await attempt("beacon", () => navigator.sendBeacon(gateway + "/hooks/x", "{}") ? "SENT?" : "REFUSED");
  await attempt("parent document", () => parent.document.body.innerHTML);
  await attempt("parent address", () => parent.location.href);
  await attempt("drive the parent", () => { parent.location = "https://evil.example/"; return "DONE"; });
  await attempt("drive the top", () => { top.location.href = "https://evil.example/"; return "DONE"; });
  await attempt("cookie", () => document.cookie);
  await attempt("storage", () => localStorage.length);
  await attempt("window", () => window.open("https://evil.example/") ? "DONE" : "REFUSED none");
  await attempt("other canvas", async () => (await fetch(known)).text());
  await attempt("other canvas by frame", () => new Promise((resolve) => {
    const frame = document.createElement("iframe");
    frame.onload = () => resolve(frame.contentDocument ? frame.contentDocument.body.innerHTML : "REFUSED");
    frame.src = known;
    document.body.append(frame);
  }));
  await attempt("own socket", () => dial(location.href.replace("http", "ws") + "ws", []));
  await attempt("referrer", () => document.referrer || "REFUSED none");
  await attempt("picture", () => new Promise((resolve) => {
    const image = new Image();
    image.onload = () => resolve("SENT");
    image.onerror = () => resolve("REFUSED");
    image.src = gateway + "/health?" + encodeURIComponent(location.href);
  }));
  parent.postMessage({userAction: {id: "1", name: "forged"}}, "*");
  window.openclawSendUserAction({name: "forged"});
  return found.join("\\n");
})();
</script>""" % (json.dumps(gateway), json.dumps(known), json.dumps(methods))  # noqa: UP031  braces stand for themselves


async def test_a_canvas_that_tries_every_method_of_the_gateway_gets_none() -> None:
    async with gateway_of() as world, client_of(world) as client, browsing() as browser:
        methods = sorted({*client.hello["features"]["methods"], "nodes", "exec", "canvas"})
        other = await show(world, world.server.crib.chat.place(OWNER, "other"), action="present", html="OTHERS")
        page_html = hostile(f"http://127.0.0.1:{world.port}", methods, other)
        url = await show(world, action="present", html=page_html)
        page, _ = await look(browser, url)
        told = await evaluate(world, "window.done")
        tried = [line for line in told.splitlines() if line.startswith(("socket", "http ", "beacon", "own socket"))]
        assert len(tried) == len(methods) + 3
        for line in told.splitlines():
            if ": " in line and not line.startswith(("Source:", "beacon")):
                assert ": REFUSED" in line, line
        assert page.url == url
        key = url.rstrip("/").rpartition("/")[2]
        assert key not in told
        assert TOKEN not in told
        assert "OTHERS" not in told
        assert len(await client.get("system-presence")) == 1  # nobody else was let in, nor asked for anything
        _, why = await client.refusal("chat.history", {"sessionKey": "main"})
        assert "there is no session" in why  # nobody did a thing that it would have been told of
        assert not {"tools/invoke", "hooks", "health"} & set(re.findall(r'path="/([a-z/]+?)/?"', await _metrics(world)))


@pytest.mark.parametrize(
    "leaves",
    [
        "document.forms[0].submit()",
        "location.href = 'http://127.0.0.1:%d/health?' + document.title",
        "document.body.innerHTML = '<meta http-equiv=refresh content=\"0;url=http://127.0.0.1:%d/health\">'",
    ],
)
async def test_a_canvas_takes_nothing_elsewhere_by_leaving(leaves: str) -> None:
    async with gateway_of() as world, client_of(world), browsing() as browser:
        form = f'<form method="post" action="http://127.0.0.1:{world.port}/health">'
        script = leaves.replace("%d", str(world.port))
        url = await show(world, action="present", html=f"<title>secret</title><body>{form}<script>{script}</script>")
        page = await browser.new_page()
        async with page.expect_event("framenavigated", lambda frame: frame.url.startswith("chrome-error")):
            await page.goto(url)
        assert page.url == url
        assert "health" not in await _metrics(world)


async def _metrics(world: World) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
    head = f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode())
    told = (await reader.read()).decode()
    writer.close()
    return told


async def test_what_is_framed_opens_no_connection_by_webrtc() -> None:
    told = asyncio.Queue[bytes]()

    class Ear(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            told.put_nowait(data)

    ear, _ = await asyncio.get_running_loop().create_datagram_endpoint(Ear, local_addr=("127.0.0.1", 0))
    port = ear.get_extra_info("sockname")[1]
    script = f"""(async () => {{
        try {{
            const pc = new RTCPeerConnection({{iceServers: [{{urls: "stun:127.0.0.1:{port}"}}]}});
            pc.createDataChannel("x");
            await pc.setLocalDescription(await pc.createOffer());
            await new Promise((done) => setTimeout(done, 2000));
            return "made";
        }} catch (error) {{ return "refused"; }}
    }})()"""
    async with gateway_of() as world, client_of(world), browsing() as browser:
        await look(browser, await show(world, action="present", html="<p>hi"))
        await evaluate(world, script)
        assert told.empty()
    ear.close()


async def test_before_the_first_canvas_nobody_listens_for_one() -> None:
    async with gateway_of(devices=nodes_of("p1")) as world, client_of(world):
        about = {**PHONE, "caps": ["canvas"], "commands": []}
        async with client_of(world, "token-of-p1", role="node", **about) as connection, browsing() as browser:
            there = urlsplit(connection.hello["canvasHostUrl"])
            await (await browser.new_page()).goto(f"http://127.0.0.1:{world.port}/")
            with pytest.raises(OSError):
                await asyncio.open_connection(there.hostname, there.port)
            await call(world, action="present", html="<p>hi")
            _, writer = await asyncio.open_connection(there.hostname, there.port)
            writer.close()
