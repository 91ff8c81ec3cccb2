"""The canvas host as HTTP and sockets see it, canvases on nodes, and who may do what with them."""

import asyncio
import contextlib
import json
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

import toolcrib
from toolcrib import OWNER, Call, Caller, Ctx, Sender, ToolError
from toolcrib.define.context import CallState

from .canvas_world import FORM, call, fetch, find_inside, lines, show
from .test_nodes import PHONE, Phone, nodes_of
from .world import Client, World, client_of, device, gateway_of

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

PAGE = "<!doctype html><html><head><title>t</title></head><body>hello</body></html>"
GUEST = "dt-1111-dt-1111-dt"


@contextlib.asynccontextmanager
async def hosting(root: Path | None = None, devices: Any = (), **config: Any) -> AsyncIterator[tuple[World, Client]]:
    if root:
        config["workspace"] = {"root": str(root)}
    async with gateway_of(config, devices=devices) as world, client_of(world) as client:
        yield world, client


@contextlib.asynccontextmanager
async def watching(url: str, version: int, **more: Any) -> AsyncIterator[ClientConnection]:
    """Be a page that looks at a canvas."""
    there = urlsplit(url)
    at, origin = f"ws://{there.netloc}{there.path}ws?version={version}", f"http://{there.netloc}"
    async with connect(at, **{"origin": origin, **more}) as socket:
        yield socket


async def test_the_page_and_what_it_frames_have_strict_headers() -> None:
    async with hosting() as (world, _):
        url = await show(world, action="present", html=PAGE)
        host, origin = urlsplit(url).netloc, f"http://{urlsplit(url).netloc}"
        assert urlsplit(url).port != world.port  # an origin of its own
        status, headers, body = await fetch(url)
        assert status == 200
        for name, value in {
            "x-content-type-options": "nosniff", "cache-control": "no-store", "referrer-policy": "no-referrer",
        }.items():  # fmt: skip
            assert headers[name] == value
        assert "set-cookie" not in headers
        assert "access-control-allow-origin" not in headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        framing = policy.partition("frame-ancestors ")[2].split(" ")
        assert framing == [f"http://127.0.0.1:{world.port}", f"http://localhost:{world.port}"]
        assert f"connect-src ws://{host}/c/" in policy
        assert 'sandbox="allow-scripts allow-forms"' in body
        inside = await find_inside(url)
        status, headers, body = await fetch(url, inside)
        assert status == 200
        assert headers["content-security-policy"].startswith("sandbox allow-scripts allow-forms; default-src 'none';")
        assert f"connect-src {origin}{inside}".lower() in headers["content-security-policy"]
        assert "'self'" not in headers["content-security-policy"]
        assert body.startswith("<!doctype html>")
        assert '<!doctype html><script src="/s/still.js"></script><script src="/s/bridge.js"></script>' in body
        assert urlsplit(url).path.split("/")[2] not in body


async def test_a_canvas_is_only_looked_at_and_only_by_who_knows_its_key() -> None:
    async with hosting() as (world, _):
        url = await show(world, action="present", html=PAGE)
        for method in ("POST", "PUT", "DELETE", "OPTIONS", "PATCH"):
            assert (await fetch(url, method=method))[0] == 405
        status, headers, body = await fetch(url, method="HEAD")
        assert (status, body) == (200, "")
        assert int(headers["content-length"]) > 100
        inside, key = await find_inside(url), urlsplit(url).path
        odd = ("/", "/c/", "/p/", "/c/x/", f"{key}x", key.rstrip("/"), f"{key}../", "/s/../canvas.py", "/s/", "/s/x.js",
               "/s/%2e%2e/canvas.py", f"{inside}../", f"{inside}/etc/passwd", f"{inside}.env", "/tools/invoke",
               "/health", f"{key}ws", inside.replace("/p/", "/c/"), key.replace("/c/", "/p/"))  # fmt: skip
        for path in odd:
            assert (await fetch(url, path))[0] == 404, path
        assert (await fetch(url, "/s/canvas.js"))[0] == 200
        assert (await fetch(url, Host="evil.test/x"))[0] == 400


async def test_only_files_of_the_web_beside_the_page_are_served(tmp_path: Path) -> None:
    root = tmp_path / "work"
    (root / "site" / "sub").mkdir(parents=True)
    (tmp_path / "secret.html").write_text("SECRET")
    for name in ("index.html", "a b.html", ".x.html", "sub/page.html", "data.json", "notes", ".env", "key.pem"):
        (root / "site" / name).write_text(name)
    (root / "above.html").write_text("ABOVE")
    (root / "site" / "link.html").symlink_to("index.html")
    (root / "site" / "out.html").symlink_to(tmp_path / "secret.html")
    (root / "site" / "folder").symlink_to("sub")
    os.link(tmp_path / "secret.html", root / "site" / "hard.html")
    async with hosting(root) as (world, _):
        url = await show(world, action="present", target="site/index.html")
        inside = await find_inside(url)
        for path in ("index.html", "a%20b.html", "sub/page.html", "data.json", "%69ndex.html", ""):
            assert (await fetch(url, inside + path))[0] == 200, path
        for path in (
            "nosuch.html", "notes", ".env", ".x.html", "key.pem", "link.html", "out.html", "folder/page.html",
            "hard.html", "sub",
            "../above.html", "%2e%2e/above.html", "..%2fabove.html", "sub/../../above.html", "sub//page.html", "sub/",
            "/etc/passwd", "%00.html", "index.html/", "..\\above.html", str(tmp_path / "secret.html"),
        ):  # fmt: skip
            status, _, body = await fetch(url, inside + path)
            assert status in (400, 404), path
            assert "SECRET" not in body
            assert "ABOVE" not in body


async def test_a_write_reloads_the_page_within_a_second(tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("one")
    async with hosting(tmp_path) as (world, _):
        url = await show(world, action="present", target="index.html")
        took = []
        for words in ("two", "three", "four"):
            await fetch(url, f"{await find_inside(url)}index.html")
            async with watching(url, 1) as socket:
                began = time.monotonic()
                await world.server.crib.belt(OWNER).call("write", {"path": "index.html", "content": words})
                assert await socket.recv() == "reload"
                took.append(time.monotonic() - began)
        assert min(took) < 1.0
        (tmp_path / "index.html").unlink()  # what has gone is no news until something stands there again


async def test_who_comes_late_is_told_what_was_missed() -> None:
    async with hosting() as (world, _):
        url = await show(world, action="a2ui_push", jsonl=FORM)
        async with watching(url, 0) as socket:  # a page of before
            assert await socket.recv() == "reload"
        async with watching(url, 1) as socket:
            assert len(json.loads(await socket.recv())["a2ui"]["messages"]) == 2
            await show(world, action="a2ui_push", jsonl=lines({"deleteSurface": {"surfaceId": "main"}}))
            told = json.loads(await socket.recv())["a2ui"]
            assert (told["at"], len(told["messages"])) == (2, 1)
            await show(world, action="hide")
            assert await socket.recv() == "reload"
            assert "Nothing is shown here" in (await fetch(url))[2]


@pytest.mark.parametrize("origin", [None, "null", "http://evil.test", "http://127.0.0.1:1", "https://127.0.0.1"])
async def test_a_socket_is_for_the_page_itself(origin: str | None) -> None:
    async with hosting() as (world, _):
        url = await show(world, action="present", html=PAGE)
        with pytest.raises(WebSocketException):
            async with watching(url, 1, origin=origin) as socket:
                await socket.recv()
        with pytest.raises(InvalidStatus):
            async with watching(f"{url}x/", 1):
                pass


async def test_what_is_done_is_bounded_and_odd_frames_change_nothing() -> None:
    async with hosting() as (world, client):
        url = await show(world, action="present", html=PAGE)
        async with watching(url, 1) as socket:
            for odd in ("", "x", "[]", "null", '{"userAction": 1}', '{"evaluated": {"id": "x", "ok": true}}',
                        '{"type": "req", "method": "config.get"}', "[" * 9_000):  # fmt: skip
                await socket.send(odd)
            for n in range(40):
                await socket.send(json.dumps({"userAction": {"id": f"a{n % 30}", "name": "x" * 20_000}}))
            await socket.ping()
        await client.wait_for("chat", state="final")
        told = await client.get("chat.history", {"sessionKey": "main"})
        said = [each for each in told["messages"] if each["role"] == "user"]
        assert 1 <= len(said) <= 20
        assert all(len(str(each)) < 20_000 for each in said)


async def test_an_action_that_is_sent_again_is_told_once() -> None:
    async with hosting() as (world, client):
        url = await show(world, action="present", html=PAGE)
        async with watching(url, 1) as socket:
            for _ in range(3):
                await socket.send(json.dumps({"userAction": {"id": "same", "name": "go"}}))
            await client.wait_for("chat", state="final")
        told = await client.get("chat.history", {"sessionKey": "main"})
        assert [each["role"] for each in told["messages"]] == ["user", "assistant"]


async def test_each_session_has_a_canvas_of_its_own() -> None:
    guests = {"device": {"direct": {"tools": {"allow": ["canvas"]}}}}
    async with hosting(devices=(device("phone", GUEST, "operator.write"),), channels=guests) as (world, _):
        mine = await show(world, action="present", html="MINE")
        async with client_of(world, GUEST) as guest:
            told = await guest.get("tools.call", {"tool": "canvas", "args": {"action": "present", "html": "THEIRS"}})
            theirs = json.loads(told["content"][0]["text"])["url"]
            assert theirs != mine
            assert "MINE" in (await fetch(mine, await find_inside(mine)))[2]
            assert "THEIRS" in (await fetch(theirs, await find_inside(theirs)))[2]
            async with watching(theirs, 1) as socket:
                await socket.send(json.dumps({"userAction": {"name": "go"}}))
                done = await guest.wait_for("chat", state="final")
            assert done["sessionKey"] == "agent:main:device:dm:phone"  # with the guest's rights, in the guest's session
            asked = {"call": "x", "command": "canvas.present", "params": {"html": "x"}}
            _, why = await guest.refusal("canvas.perform", asked)
            assert "no call was permitted under this key" in why


async def test_whoever_shows_more_than_can_be_open_ends_one_of_their_own() -> None:
    async with hosting(channels={"telegram": {"groups": {"*": {"tools": {"allow": ["canvas"]}}}}}) as (world, _):
        mine = await show(world, action="present", html="MINE")
        for at in range(70):
            session = f"agent:main:telegram:group:-1:thread:{at}"
            kim = Caller(channel="telegram", group="-1", sender=Sender(id="7"), session=session)
            belt = world.server.crib.belt(kim)
            assert (await belt.call("canvas", {"action": "present", "html": "THEIRS"})).status == "ok"
        assert "MINE" in (await fetch(mine, await find_inside(mine)))[2]


async def test_a_denied_tool_shows_nothing() -> None:
    async with gateway_of({"tools": {"deny": ["canvas"]}}) as world, client_of(world):
        refused = await call(world, action="present", html=PAGE)
        assert refused.status == "error"
        assert world.server.crib.canvases.find_page("") is None


async def test_without_a_gateway_it_says_how_to_have_one() -> None:
    async with toolcrib.open({}, env={}) as crib:
        refused = await crib.belt(OWNER).call("canvas", {"action": "present", "html": PAGE})
        assert "start one with `toolcrib gateway`" in refused.plain_text


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"action": "navigate", "url": "http://192.168.0.1/"}, "192.168.0.1"),
        ({"action": "present", "target": "http://127.0.0.1:18789/"}, "127.0.0.1"),
        ({"action": "present", "target": "file:///etc/passwd"}, "no address of a web page"),
        ({"action": "present", "target": "http://169.254.169.254/latest"}, "169.254.169.254"),
        ({"action": "navigate", "url": "javascript:alert(1)"}, "like https://"),
        ({"action": "present", "target": "data:text/html,x"}, "does not exist"),
        ({"action": "present", "target": "../../etc/passwd"}, "leads out of the workspace"),
        ({"action": "present", "target": "notes.txt"}, "is no HTML file"),
        ({"action": "present", "target": "link.html"}, "leads through a link"),
        ({"action": "present", "html": "x", "target": "index.html"}, "not both"),
        ({"action": "present"}, "nothing was shown before"),
        ({"action": "navigate"}, "navigate needs url"),
        ({"action": "eval"}, "eval needs javaScript"),
        ({"action": "a2ui_push"}, "a2ui_push needs jsonl or jsonlPath"),
        ({"action": "a2ui_push", "jsonlPath": "/etc/passwd"}, "outside of the workspace"),
        ({"action": "a2ui_push", "jsonlPath": "notes.txt"}, "line 1: no JSON"),
        ({"action": "a2ui_push", "jsonl": '{"x": 1}'}, "line 1: expected exactly one of"),
        ({"action": "present", "html": "x" * 2_000_001}, "show at most 2,000,000"),
        ({"action": "eval", "javaScript": "1"}, "scripts run in HTML and A2UI"),
        ({"action": "present", "html": "x", "node": "nobody"}, "unknown node: nobody"),
    ],
)
async def test_what_cannot_be_shown_is_refused_in_words(args: dict[str, Any], words: str, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    (tmp_path / "link.html").symlink_to("notes.txt")
    async with hosting(tmp_path) as (world, _):
        refused = await call(world, **args)
        assert refused.status == "error"
        assert words in refused.plain_text


async def test_a2ui_from_a_file_is_pushed(tmp_path: Path) -> None:
    (tmp_path / "form.jsonl").write_text("\ufeff" + FORM)
    async with hosting(tmp_path) as (world, _):
        url = await show(world, action="a2ui_push", jsonlPath="form.jsonl")
        assert "surfaceUpdate" in (await fetch(url, await find_inside(url)))[2]
        many = "\n".join([lines({"deleteSurface": {}})] * 4_999)
        assert "use a2ui_reset first" in (await call(world, action="a2ui_push", jsonl=many)).plain_text
        await show(world, action="a2ui_reset")
        await show(world, action="a2ui_push", jsonl=many)


@contextlib.asynccontextmanager
async def phone_with_canvas(world: World, name: str = "p1", **answers: Any) -> AsyncIterator[Phone]:
    commands = [f"canvas.{each.replace('__', '.')}" for each in answers]
    about = {**PHONE, "caps": ["canvas"], "commands": commands}
    async with client_of(world, f"token-of-{name}", role="node", **about) as client:
        phone = Phone(client, name, dict(zip(commands, answers.values(), strict=True)))
        serving = asyncio.ensure_future(phone.serve())
        try:
            yield phone
        finally:
            serving.cancel()
            await asyncio.wait([serving])


async def test_a_node_with_a_canvas_shows_it_by_the_commands_of_the_protocol(tmp_path: Path) -> None:
    picture = {"format": "jpg", "base64": "/9j/wAARCAAQACA" + "A" * 85 + "=="}
    async with hosting(tmp_path, devices=nodes_of("p1", "p2")) as (world, _):
        known: dict[str, Any] = {
            "present": {},
            "hide": {},
            "navigate": {},
            "eval": {"result": "5"},
            "snapshot": picture,
        }
        known |= {"a2ui__pushJSONL": {}, "a2ui__reset": {}}
        async with phone_with_canvas(world, **known) as phone:
            place: dict[str, Any] = {"x": 1, "y": 2, "width": 3, "height": 4}
            await call(world, action="present", html=PAGE, **place)
            pushed: tuple[dict[str, Any], ...] = ({"action": "a2ui_push", "jsonl": FORM}, {"action": "a2ui_reset"})
            for args in ({"action": "hide"}, *pushed):
                assert json.loads((await call(world, **args)).plain_text) == {"ok": True, "node": "iPhone"}
            assert "5" in (await call(world, action="eval", javaScript="2+3")).plain_text
            taken = await call(world, action="snapshot", outputFormat="jpg", maxWidth=32, quality=0.5)
            assert (taken.details["format"], taken.details["width"]) == ("jpeg", 32)
            asked = {each["command"]: json.loads(each["paramsJSON"]) for each in phone.asked}
            assert asked["canvas.present"]["placement"] == place
            assert (await fetch(asked["canvas.present"]["url"]))[0] == 200  # which the node loads from the host
            assert asked["canvas.snapshot"] == {"format": "jpeg", "maxWidth": 32, "quality": 0.5}
            assert asked["canvas.a2ui.pushJSONL"] == {"jsonl": FORM}
            assert len({each["idempotencyKey"] for each in phone.asked}) == len(phone.asked)
            refused = await call(world, action="navigate", url="http://10.0.0.1/")
            assert refused.status == "error"
            assert "canvas.navigate" not in {each["command"] for each in phone.asked}
            async with phone_with_canvas(world, "p2", present={}):
                assert "say which node is meant" in (await call(world, action="hide")).plain_text
                named = await call(world, action="present", target="https://93.184.216.34/", node="p2")
                assert json.loads(named.plain_text)["ok"]


async def test_a_node_tells_only_the_session_that_shows_something_on_it() -> None:
    async with hosting(devices=nodes_of("p1")) as (world, client):
        async with phone_with_canvas(world, present={}) as phone:

            async def tell(payload: str) -> Any:
                event = {"event": "agent.request", "payloadJSON": payload}
                frame = {"type": "req", "id": "e", "method": "node.event", "params": event}
                await phone.client.socket.send(json.dumps(frame))
                while (answer := await phone.taken.get())["id"] != "e":
                    pass
                return answer["payload"]

            assert await tell('{"message": "early"}') == {"ok": True, "taken": False}
            await call(world, action="present", html=PAGE)
            for odd in ("", "[]", "{nope"):
                await tell(odd)
            assert await tell('{"message": "late", "sessionKey": "agent:main:secret"}') == {"ok": True, "taken": True}
        await client.wait_for("chat", state="final")
        keys = [row["key"] for row in (await client.get("sessions.list"))["sessions"]]
        assert keys == ["agent:main:main"]


async def test_a_permit_for_a_canvas_asks_a_node_for_nothing_else() -> None:
    async with hosting(devices=nodes_of("p1")) as (world, _):
        nodes = world.server.crib.nodes
        call = Call(id="c", name="canvas", args={"action": "hide"}, key="k")
        judging: Any = nodes.guard.run(Ctx(call=call, caller=OWNER, course=CallState()), call.args)
        assert await judging is None
        with pytest.raises(ToolError, match=r"asks for nothing else"):
            await nodes.perform(OWNER, "k", "p1", "camera.snap")


async def test_the_canvas_host_goes_with_the_gateway() -> None:
    async with hosting() as (world, _):
        url = await show(world, action="present", html=PAGE)
        async with watching(url, 1) as socket:
            world.serving.cancel()
            await asyncio.wait([world.serving])
            with pytest.raises(WebSocketException):
                await socket.recv()
    with pytest.raises(OSError, match=r"refused|Connect"):
        await fetch(url)
