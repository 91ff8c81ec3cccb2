import asyncio
import re
from pathlib import Path

import pytest
from tests.sockets import listening

import toolcrib
from toolcrib import OWNER, Ctx, Result, tool

pytestmark = pytest.mark.anyio


@tool(effects={"network"})
async def order(ctx: Ctx, url: str) -> Result:
    """Ask a shop that wants a key."""
    page = await ctx.http.get(url, headers={"X-Key": ctx.secret("SHOP")})
    return Result.text(f"{ctx.secret('SHOP')} was answered {page.text}", source=f"web:{page.url}")


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(head) + head)
    await writer.drain()


async def test_a_secret_is_sent_and_seen_by_nobody(tmp_path: Path) -> None:
    asked = list[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(head := await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(head) + head)
        await writer.drain()

    async with listening(serve) as port:
        config = {"secrets": {"SHOP": "k3y-of-the-shop"}, "web": {"ssrf": {"allowPrivate": [f"127.0.0.1:{port}"]}}}
        async with toolcrib.open(config, tools=[order], state=tmp_path) as crib:
            told = await crib.belt(OWNER).call("order", {"url": f"http://127.0.0.1:{port}/"})
    assert b"x-key: k3y-of-the-shop" in asked[0]
    assert told.status == "ok"
    assert "k3y-of-the-shop" not in str(told)
    assert not any(b"k3y-of-the-shop" in path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


async def test_a_crib_reaches_what_is_opened_and_says_which_rule_refuses_the_rest() -> None:
    async with listening(_echo) as port, toolcrib.open({"secrets": {"SHOP": "k3y-of-the-shop"}}, tools=[order]) as crib:
        told = await crib.belt(OWNER).call("order", {"url": f"http://127.0.0.1:{port}/"})
        assert told.details["code"] == "denied"
        assert "127.0.0.1 is of 127.0.0.0/8; web.ssrf.allowPrivate opens it" in told.plain_text
        (shown,) = told.framed
        assert "allowPrivate" not in str(shown)


async def test_a_name_that_no_secret_has_says_which_there_are() -> None:
    async with toolcrib.open({}, tools=[order]) as crib:
        told = await crib.belt(OWNER).call("order", {"url": "http://127.0.0.1/"})
    assert told.plain_text == "no secret is called 'SHOP'; there are none under `secrets`"


async def test_a_page_is_cut_inside_its_marks_and_the_rest_is_to_be_had() -> None:
    words = " ".join(f"word{at}" for at in range(400)).encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n" % len(words) + words)
        await writer.drain()

    async with listening(serve) as port:
        opened = {"ssrf": {"allowPrivate": [f"127.0.0.1:{port}"]}, "fetch": {"maxChars": 1_000}}
        async with toolcrib.open({"web": opened}) as crib:
            belt = crib.belt(OWNER)
            for args, most in (({}, 1_000), ({"maxChars": 300}, 300)):
                told = await belt.call("web_fetch", {"url": f"http://127.0.0.1:{port}/", **args})
                shown = told.plain_text
                assert most // 2 < len(shown) < most + 900
                assert shown.index("word0 ") < shown.index("<<<END_")
                (key,) = re.findall(r'result_get[^"]*"(\w+)"', shown) or re.findall(r"[0-9a-f]{64}", shown)
                rest = await belt.call("result_get", {"key": key, "offset": 2_000})
                assert "word399" in rest.plain_text


@pytest.mark.parametrize(
    ("web", "words"),
    [
        ({"ssrf": {"allowPrivate": ["localhost:80"]}}, "a name is no address"),
        ({"ssrf": {"allowPrivate": ["10.0.0.1:99999"]}}, "a name is no address"),
        ({"ssrf": {"allowPrivate": ["0.0.0.0/0"]}}, "far too wide"),
        ({"proxy": "socks5://127.0.0.1:1080"}, "is no address of a proxy"),
    ],
)
def test_a_wrong_way_out_is_refused_at_start(web: object, words: str) -> None:
    with pytest.raises(toolcrib.ConfigError, match=words):
        toolcrib.open({"web": web})


@pytest.mark.parametrize("entry", ["", "*", "http://x", "a b", "*.", "a/b", "exa*mple.com"])
def test_a_list_of_hosts_holds_hosts(entry: str) -> None:
    with pytest.raises(toolcrib.ConfigError, match="is no host"):
        toolcrib.open({"tools": {"hosts": {"deny": [entry]}}})
