"""Hosts: one list that web_fetch, image, the browser, MCP servers and commands obey, and rules by url, on every hop."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.backends.browsers.sites import NEEDS_CHROMIUM
from tests.backends.exec.shells import give_up
from tests.backends.mcp.liar import text
from tests.backends.mcp.test_http import gives, http, reply, served
from tests.sockets import listening

import toolcrib
from toolcrib import OWNER, Crib, ToolError
from toolcrib.testing import FakeApprover

pytestmark = pytest.mark.anyio

EVIL = "evil.localhost"  # names beneath localhost are this machine, whoever is asked


@asynccontextmanager
async def web(hops: dict[str, str]) -> AsyncIterator[tuple[int, list[str]]]:
    """Give the port of a server that sends some paths on to other hosts, and what each of its hosts was asked for."""
    asked = list[str]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        path, port = head.split(" ")[1], writer.get_extra_info("sockname")[1]
        host = next(line.split(":")[1].strip() for line in head.split("\r\n") if line.lower().startswith("host:"))
        asked.append(host + path)
        if path in hops:
            place = hops[path].replace("PORT", str(port))
            writer.write(f"HTTP/1.1 302 Found\r\nLocation: {place}\r\nContent-Length: 0\r\n\r\n".encode())
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 6\r\n\r\na page")
        await writer.drain()

    async with listening(serve) as port:
        yield port, asked


HOPS = {
    "/go": f"http://{EVIL}:PORT/page",
    "/far": "http://b.localhost:PORT/go",
    "/loud": f"http://{EVIL.upper()}.:PORT/page",
    "/full": "http://\uff45vil.localhost:PORT/page".encode().decode("latin-1"),
    "/quiet": "//evil%2Elocalhost:PORT/page",
    "/fine": "http://b.localhost:PORT/page",
}
LISTS: list[dict[str, Any]] = [
    {"hosts": {"deny": [EVIL]}},
    {"hosts": {"allow": ["a.localhost", "b.localhost"]}},
    {"deny": [{"tool": "web_fetch", "when": {"url": EVIL}}]},
    {"deny": [{"tool": "group:web", "when": {"url": f"http://{EVIL}*"}}]},
    {"deny": [{"tool": "*", "when": {"url": {"host": ["EVIL.localhost"]}}}]},
    {"allow": [{"tool": "web_fetch", "when": {"url": {"host": ["a.localhost", "b.localhost"]}}}]},
    {"ask": [{"tool": "web_fetch", "when": {"url": EVIL}}]},
]


def opened(port: int, folder: Path, **tools: Any) -> Crib:
    allowed = {"ssrf": {"allowPrivate": [f"127.0.0.1:{port}"]}}
    (folder / "ws").mkdir(exist_ok=True)
    config = {"tools": tools, "web": allowed, "workspace": {"root": str(folder / "ws")}}
    return toolcrib.open(config, state=folder / "state")


@pytest.mark.parametrize("lists", LISTS)
async def test_every_hop_of_a_page_is_judged(tmp_path: Path, lists: dict[str, Any]) -> None:
    async with web(HOPS) as (port, asked), opened(port, tmp_path, **lists) as crib:
        belt = crib.belt(OWNER, approver=FakeApprover(False))
        for path in HOPS:
            told = await belt.call("web_fetch", {"url": f"http://a.localhost:{port}{path}"})
            assert told.status == ("ok" if path == "/fine" else "error"), (path, told.plain_text)
        assert (await belt.call("web_fetch", {"url": f"http://{EVIL}:{port}/page"})).status == "error"
    assert [each for each in asked if each.lower().startswith("evil")] == []
    assert "b.localhost/page" in asked


async def test_a_page_that_was_kept_is_not_told_once_its_host_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "crib.json"
    async with web(HOPS) as (port, _):
        config: dict[str, Any] = {"web": {"ssrf": {"allowPrivate": [f"127.0.0.1:{port}"]}}}
        config["workspace"] = {"root": str(tmp_path)}
        file.write_text(json.dumps(config))
        async with toolcrib.open(file, state=tmp_path / "state") as crib:
            url = {"url": f"http://a.localhost:{port}/go"}
            assert (await crib.belt(OWNER).call("web_fetch", url)).status == "ok"
            now = await crib.ask("config.get", {}, caller=OWNER)
            raw = json.dumps({"tools": {"hosts": {"deny": [EVIL]}}})
            await crib.ask("config.patch", {"raw": raw, "baseHash": now["hash"]}, caller=OWNER)
            assert (await crib.belt(OWNER).call("web_fetch", url)).details["code"] == "denied"


async def test_an_image_is_not_taken_from_a_host_that_a_redirect_leads_to(tmp_path: Path) -> None:
    rule = {"tool": "image", "when": {"url": EVIL}}
    for lists in ({"hosts": {"deny": [EVIL]}}, {"deny": [rule]}):
        async with web(HOPS) as (port, asked), opened(port, tmp_path, **lists) as crib:
            told = await crib.belt(OWNER).call("image", {"image": f"http://a.localhost:{port}/go", "prompt": "?"})
            assert told.details["code"] == "denied", told.plain_text
            assert asked == ["a.localhost/go"]


@NEEDS_CHROMIUM
async def test_the_browser_reaches_no_host_that_is_refused(tmp_path: Path) -> None:
    async with web(HOPS) as (port, asked), opened(port, tmp_path, hosts={"deny": [EVIL]}) as crib:
        belt = crib.belt(OWNER)
        for path in ("/go", "/far"):
            await belt.call("browser", {"action": "open", "targetUrl": f"http://a.localhost:{port}{path}"})
        told = await belt.call("browser", {"action": "open", "targetUrl": f"http://{EVIL}:{port}/page"})
        assert told.status == "error"
    assert "a.localhost/go" in asked
    assert [each for each in asked if each.startswith("evil")] == []


async def test_a_command_reaches_no_host_that_is_refused(tmp_path: Path) -> None:
    run = {"security": "full", "ask": "off", "network": True}
    async with web(HOPS) as (port, asked), opened(port, tmp_path, exec=run, hosts={"deny": [EVIL]}) as crib:
        line = (
            f"curl -sSL --noproxy '' http://a.localhost:{port}/go http://{EVIL}:{port}/page http://b.localhost:{port}/"
        )
        told = (await crib.belt(OWNER).call("exec", {"command": line})).plain_text
        if "sandbox" in told and "bubblewrap" in told:
            give_up(ToolError(told))
        assert "a page" in told
    assert [each for each in asked if each.startswith("evil")] == []


@pytest.mark.parametrize(
    "hosts", [{"deny": ["127.0.0.1"]}, {"deny": ["127.0.0.0/8"]}, {"allow": ["b.localhost"]}, {"allow": []}]
)
async def test_an_mcp_server_at_an_address_that_is_refused_is_not_reached(tmp_path: Path, hosts: Any) -> None:
    async with served(gives(lambda to: http(reply(to, text("yours"))))) as (server, settings):
        config: dict[str, Any] = {"mcpServers": {"srv": settings}}
        async with toolcrib.open(config, state=tmp_path) as crib:
            await crib.mcp.ready(60.0)
            assert (await crib.belt(OWNER).call("srv__echo", {"text": "hi"})).status == "ok"
            told = await crib.ask("tools.explain", {"tool": "srv__echo", "args": {"text": "hi"}}, caller=OWNER)
            assert (told["decision"], told["steps"][-1]["layer"]) == ("allow", "hosts")
        seen = len(server.seen)
        async with toolcrib.open({**config, "tools": {"hosts": hosts}}, state=tmp_path) as crib:
            result = await crib.belt(OWNER).call("srv__echo", {"text": "hi"})
            assert "the rules of this crib do not let out to it" in result.plain_text
            told = await crib.ask("tools.explain", {"tool": "srv__echo", "args": {"text": "hi"}}, caller=OWNER)
            assert (told["decision"], told["layer"], told["origin"]) == ("deny", "hosts", "tools.hosts")
        assert len(server.seen) == seen


async def test_an_mcp_server_is_let_go_when_its_host_is_refused_while_it_is_connected(tmp_path: Path) -> None:
    async with served(gives(lambda to: http(reply(to, text("yours"))))) as (server, settings):
        file = tmp_path / "crib.json"
        file.write_text(json.dumps({"mcpServers": {"srv": settings}, "workspace": {"root": str(tmp_path / "ws")}}))
        file.chmod(0o600)
        async with toolcrib.open(file, state=tmp_path / "state") as crib:
            await crib.mcp.ready(60.0)
            assert (await crib.belt(OWNER).call("srv__echo", {"text": "hi"})).status == "ok"
            now = await crib.ask("config.get", {}, caller=OWNER)
            raw = json.dumps({"tools": {"hosts": {"deny": ["127.0.0.1"]}}})
            await crib.ask("config.patch", {"raw": raw, "baseHash": now["hash"]}, caller=OWNER)
            calls = [each for each, _ in server.seen].count("tools/call")
            assert (await crib.belt(OWNER).call("srv__echo", {"text": "hi"})).status == "error"
            assert [each for each, _ in server.seen].count("tools/call") == calls


@pytest.mark.parametrize(
    ("tool", "args", "hosts", "step"),
    [
        ("web_search", {"query": "nuts"}, {"allow": ["good.example"]}, ("deny", "search", "tools.hosts")),
        ("web_search", {"query": "nuts"}, {"deny": ["bad.example"]}, ("allow", None, None)),
        ("exec", {"command": "true"}, {"deny": ["bad.example"]}, ("allow", "each connection", "tools.hosts")),
        ("exec", {"command": "true"}, {}, None),
        ("ls", {}, {"deny": ["bad.example"]}, None),
    ],
)
async def test_explain_says_which_rule_the_connections_of_a_call_meet(
    tmp_path: Path, tool: str, args: dict[str, str], hosts: dict[str, Any], step: Any
) -> None:
    searching = {"provider": "searxng", "baseUrl": "http://127.0.0.1:8888"}
    config = {"workspace": {"root": str(tmp_path)}, "tools": {"hosts": hosts}, "web": {"search": searching}}
    async with toolcrib.open(config, env={}) as crib:
        told = await crib.ask("tools.explain", {"tool": tool, "args": args}, caller=toolcrib.OWNER)
        found = [(each["decision"], each["rule"], each["origin"]) for each in told["steps"] if each["layer"] == "hosts"]
        assert found == ([step] if step else [])
        assert told["layer"] == ("hosts" if step and step[0] == "deny" else None)
        if told["layer"]:
            really = await crib.ask("tools.call", {"tool": tool, "args": args}, caller=toolcrib.OWNER)
            assert told["reason"] in really["content"][0]["text"]
