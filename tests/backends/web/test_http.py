import asyncio
import gzip
import zlib
from collections.abc import Awaitable, Callable

import brotli
import pytest
from tests.sockets import listening

from toolcrib.backends.web.guard import EgressGuard
from toolcrib.backends.web.http import GuardedHttp, SecretRefs
from toolcrib.define.egress import EgressError, EgressRules, Opening, read_url
from toolcrib.define.errors import ToolError

pytestmark = pytest.mark.anyio

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]
LOOPBACK = EgressRules(opened=(Opening.read("127.0.0.1"),))


class Site:
    """A server on loopback that answers by path and keeps what it was asked."""

    def __init__(self, **pages: bytes | Callable[[asyncio.StreamWriter], Awaitable[None]]) -> None:
        self.pages, self.asked = pages, list[str]()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = next((int(line[15:]) for line in head.lower().split("\r\n") if line.startswith("content-length")), 0)
        self.asked.append(head + (await reader.readexactly(length)).decode("latin-1"))
        page = self.pages[head.split(" ")[1].strip("/").partition("?")[0] or "home"]
        if callable(page):
            await page(writer)
        else:
            writer.write(page)
            await writer.drain()


def page(body: bytes = b"ok", status: str = "200 OK", **headers: str) -> bytes:
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{lines}\r\n".encode() + body


def http(rules: EgressRules = LOOPBACK, **more: Callable[[], float | None]) -> GuardedHttp:
    return GuardedHttp(lambda: EgressGuard(rules), SecretRefs(lambda: {"KEY": "s3cret-value"}), **more)


async def test_a_page_is_fetched_with_its_status_headers_and_text() -> None:
    site = Site(home=page("größe".encode("latin-1"), "404 Not Found", Content_Type="text/html; charset=iso-8859-1"))
    async with listening(site.serve) as port:
        found = await http().get(f"http://user:pw@127.0.0.1:{port}/")
    assert (found.status, found.text, found.media_type) == (404, "größe", "text/html")
    assert found.url == f"http://127.0.0.1:{port}/"
    assert "authorization: Basic dXNlcjpwdw==" in site.asked[0]


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(b"x" * 9_000, mtime=0)), ("deflate", zlib.compress(b"x" * 9_000)),
        ("deflate", zlib.compressobj(wbits=-15).compress(b"") + zlib.compress(b"x" * 9_000)[2:-4]),
        ("br", brotli.compress(b"x" * 9_000)), ("identity", b"x" * 9_000),
    ],
)  # fmt: skip
async def test_packed_bodies_are_unpacked(encoding: str, packed: bytes) -> None:
    async with listening(Site(home=page(packed, Content_Encoding=encoding)).serve) as port:
        assert (await http().get(f"http://127.0.0.1:{port}/")).body == b"x" * 9_000


async def test_a_bomb_is_cut_at_the_bound_and_refused_where_nobody_wants_a_part() -> None:
    for encoding, bomb in (("gzip", gzip.compress(bytes(50 << 20))), ("br", brotli.compress(bytes(50 << 20)))):
        async with listening(Site(home=page(bomb, Content_Encoding=encoding)).serve) as port:
            found = await http().get(f"http://127.0.0.1:{port}/", most=100_000, cuts=True)
            assert (len(found.body), found.is_cut) == (100_000, True)
            with pytest.raises(ToolError, match=r"^127.0.0.1 sent more than 100,000 bytes$"):
                await http().get(f"http://127.0.0.1:{port}/", most=100_000)


async def test_a_body_without_end_is_bounded() -> None:
    async def pour(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65_536)
            await writer.drain()

    async with listening(Site(home=pour).serve) as port:
        found = await http().get(f"http://127.0.0.1:{port}/", most=1 << 20, cuts=True)
    assert (len(found.body), found.is_cut) == (1 << 20, True)


async def test_what_drips_ends_at_its_deadline() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with listening(Site(home=drip).serve) as port:
        with pytest.raises(ToolError, match=r"^127.0.0.1 did not answer whole in 0.3 seconds$") as told:
            await http(most_seconds=lambda: 0.3).get(f"http://127.0.0.1:{port}/")
    assert told.value.code == "timeout"


@pytest.mark.parametrize(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nX: " + b"y" * 500_000, b"not HTTP at all\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\n",
        page(b"plain", Content_Encoding="gzip"), page(b"x", Content_Encoding="zstd"),
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 50, page(status="302 Found", Location="http://[::1"),
        page(status="302 Found", Location="file:///etc/passwd"), page(status="302 Found", Location="http://a b/"),
    ],
)  # fmt: skip
async def test_a_server_that_misbehaves_gets_one_sentence(said: bytes) -> None:
    async with listening(Site(home=said).serve) as port:
        with pytest.raises(ToolError) as told:
            await http().get(f"http://127.0.0.1:{port}/", seconds=5)
    assert 10 < len(str(told.value)) < 400
    assert "\n" not in str(told.value)


async def test_a_redirect_is_judged_anew_and_the_private_listener_is_never_dialled() -> None:
    inner = Site(home=page(b"inner"))
    async with listening(inner.serve) as secret_port:
        outer = Site(home=page(status="302 Found", Location=f"http://localhost:{secret_port}/"))
        async with listening(outer.serve) as port:
            only = EgressRules(opened=(Opening.read(f"127.0.0.1:{port}"),))
            with pytest.raises(EgressError, match="localhost is refused: its address is this machine"):
                await http(only).get(f"http://127.0.0.1:{port}/")
    assert (len(outer.asked), inner.asked) == (1, [])


async def test_what_a_caller_sends_along_stays_with_its_origin() -> None:
    other = Site(there=page())
    async with listening(other.serve) as elsewhere:
        move = page(status="302 Found", Location=f"http://127.0.0.1:{elsewhere}/there")
        far = page(status="308 Permanent Redirect", Location=f"http://127.0.0.1:{elsewhere}/there")
        near = page(status="307 Temporary Redirect", Location="/home")
        site = Site(move=move, near=near, home=page(), post=far)
        async with listening(site.serve) as port:
            headers = {"Authorization": "Bearer T", "X-Api-Key": "K", "Cookie": "c=1"}
            await http().get(f"http://127.0.0.1:{port}/move", headers=headers)
            assert "bearer t" in site.asked[0].lower()
            assert not any(name.lower() in other.asked[0].lower() for name in headers)
            await http().send("POST", f"http://127.0.0.1:{port}/near", headers=headers, body=b"words")
            assert site.asked[-1].startswith("POST /home")
            assert site.asked[-1].endswith("words")
            with pytest.raises(ToolError, match="is not sent to others"):
                await http().send("POST", f"http://127.0.0.1:{port}/post", headers=headers, body=b"words")
    assert len(other.asked) == 1


async def test_redirects_end() -> None:
    steps = {f"s{at}": page(status="302 Found", Location=f"/s{at + 1}") for at in range(9)}
    async with listening(Site(s9=page(), here=page(status="302 Found", Location="/here"), **steps).serve) as port:
        assert (await http().get(f"http://127.0.0.1:{port}/s4")).status == 200
        with pytest.raises(ToolError, match="redirects more than 5 times"):
            await http().get(f"http://127.0.0.1:{port}/s3")
        with pytest.raises(ToolError, match="redirects in a circle"):
            await http().get(f"http://127.0.0.1:{port}/here")


async def test_secrets_are_put_into_headers_and_bodies_and_never_into_addresses() -> None:
    refs, site = SecretRefs(lambda: {"KEY": "s3cret-value"}), Site(home=page())
    way = GuardedHttp(lambda: EgressGuard(LOOPBACK), refs)
    held = refs.refer("KEY")
    assert "s3cret" not in held
    async with listening(site.serve) as port:
        url, body = f"http://127.0.0.1:{port}/", f"k={held}".encode()
        await way.send("POST", url, headers={"X-Key": f"Bearer {held}"}, body=body)
        with pytest.raises(ToolError, match=r"^a secret has no place in an address"):
            await way.get(f"http://127.0.0.1:{port}/?key={held}")
    assert "x-key: Bearer s3cret-value" in site.asked[0]
    assert site.asked[0].endswith("k=s3cret-value")
    with pytest.raises(ToolError, match=r"^no secret is called 'OTHER'; there are KEY$"):
        refs.refer("OTHER")


async def test_a_header_that_would_break_the_request_is_refused() -> None:
    for headers in ({"X": "a\r\nHost: b"}, {"Host": "b"}, {"Transfer-Encoding": "chunked"}, {"X": "ä"}):
        with pytest.raises(ToolError, match="cannot be sent"):
            await http().get("http://127.0.0.1:8080/", headers=headers)


async def test_a_kept_copy_serves_until_it_is_too_old_and_then_is_asked_about() -> None:
    site = Site(home=page(b"first", ETag='"1"'), Home=page(b"other case"), keep=page(b"x", Cache_Control="no-store"))
    async with listening(site.serve) as port:
        way, url = http(), f"http://127.0.0.1:{port}/home"
        assert (await way.get(url, max_age=60)).age is None
        again = await way.get(url, max_age=60)
        assert (again.body, again.age is not None, len(site.asked)) == (b"first", True, 1)
        assert (await way.get(f"http://127.0.0.1:{port}/Home", max_age=60)).body == b"other case"
        site.pages["home"] = page(status="304 Not Modified")
        assert (await way.get(url, max_age=1e-9)).body == b"first"
        assert 'if-none-match: "1"' in site.asked[-1]
        site.pages["home"] = page(b"second")
        assert (await way.get(url)).body == b"second"
        await way.get(f"http://127.0.0.1:{port}/keep", max_age=60)
        await way.get(f"http://127.0.0.1:{port}/keep", max_age=60)
    assert len([asked for asked in site.asked if " /keep" in asked]) == 2


async def test_names_are_looked_up_once_and_all_their_addresses_are_judged() -> None:
    site, asked = Site(home=page()), list[str]()

    def guard_with(*answers: list[str]) -> EgressGuard:
        left = iter(answers)

        async def resolve(name: str, port: int) -> list[str]:
            asked.append(name)
            return next(left)

        return EgressGuard(EgressRules(opened=(Opening.read("127.0.0.1"),)), resolve=resolve)

    async with listening(site.serve) as port:
        flips = GuardedHttp(lambda: guard_with(["127.0.0.1"], ["10.0.0.1"]))
        assert (await flips.get(f"http://flip.example:{port}/")).status == 200
        assert asked == ["flip.example"]
        mixed = GuardedHttp(lambda: guard_with(["127.0.0.1", "10.0.0.1"]))
        with pytest.raises(EgressError):
            await mixed.get(f"http://mix.example:{port}/")
    assert len(site.asked) == 1


async def test_a_guard_of_the_operators_own_leads_there_and_nowhere_else() -> None:
    site = Site(home=page(), away=page(status="302 Found", Location="http://127.0.0.2:9999/"))
    async with listening(site.serve) as port:
        own = GuardedHttp(lambda: EgressGuard(EgressRules()).only_for(read_url(f"http://localhost:{port}/")))
        assert (await own.get(f"http://localhost:{port}/")).status == 200
        for url in (f"http://localhost:{port}/away", f"http://127.0.0.1:{port}/", "http://localhost:1024/"):
            with pytest.raises(EgressError, match="it is not where this way out leads"):
                await own.get(url)


async def test_a_proxy_is_told_the_address_that_was_judged() -> None:
    asked = list[str]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        writer.write(page(b"through"))
        await writer.drain()

    async def resolve(name: str, port: int) -> list[str]:
        return ["93.184.216.34"]

    async with listening(serve) as port:
        proxy = read_url(f"http://me:pw@127.0.0.1:{port}")
        way = GuardedHttp(lambda: EgressGuard(EgressRules(), proxy=proxy, resolve=resolve))
        assert (await way.get("http://public.example/")).body == b"through"
        reader, writer = await EgressGuard(EgressRules(), proxy=proxy, resolve=resolve).dial("public.example", 25)
        writer.write(b"x\r\n\r\n")
        assert (await reader.read(12)) == b"HTTP/1.1 200"
        writer.close()
        with pytest.raises(EgressError):
            await way.get("http://127.0.0.1/")
    assert [line.split("\r\n")[0] for line in asked] == [
        "CONNECT 93.184.216.34:80 HTTP/1.1",
        "CONNECT 93.184.216.34:25 HTTP/1.1",
    ]
    assert "Proxy-Authorization: Basic bWU6cHc=" in asked[0]
