"""The proxy of commands passes on what it reads in one way, dials by the guard alone, and holds no more than it may."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest
from tests.backends.exec.shells import descriptors, until

from toolcrib.backends.web.proxy import GuardedProxy
from toolcrib.define.errors import ToolError

from .proxies import REFUSAL, SayHttp, World, say_nothing, serving, world

pytestmark = pytest.mark.anyio

SHOP = ("shop.test", 80)


async def ask(port: int, said: bytes, *, ends: bool = False) -> bytes:
    """Say something to the proxy, and return all that it answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(said)
        if ends:
            writer.write_eof()
        async with asyncio.timeout(60):
            return await reader.read()
    finally:
        writer.close()


@asynccontextmanager
async def shop(answer: bytes | None = None) -> AsyncIterator[tuple[int, World, SayHttp]]:
    """Give the port of a proxy in a world with one shop."""
    host = SayHttp(answer) if answer is not None else SayHttp()
    async with world({SHOP: host}) as found, serving(GuardedProxy(found.dial)) as port:
        yield port, found, host


async def test_a_request_for_a_whole_address_is_passed_on_without_what_was_for_the_proxy() -> None:
    async with shop() as (port, found, host):
        answer = await ask(
            port,
            b"POST http://shop.test/buy?what=nut HTTP/1.1\r\nHost: elsewhere.test\r\nX-Kept: yes\r\nX-Mine: no\r\n"
            b"Proxy-Authorization: Basic c2VjcmV0\r\nProxy-Connection: keep-alive\r\nConnection: keep-alive, X-Mine\r\n"
            b"Content-Length: 3\r\n\r\nnut",
        )
        assert found.dialled == [SHOP]
        kept = b"x-kept: yes\r\ncontent-length: 3\r\nhost: shop.test\r\nconnection: close\r\n\r\nnut"
        assert host.asked == [b"POST /buy?what=nut HTTP/1.1\r\n" + kept]
    assert answer == b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nhello"


@pytest.mark.parametrize(
    ("target", "host", "line"),
    [
        ("http://shop.test", b"shop.test", b"GET / HTTP/1.1"),
        ("http://shop.test:80/", b"shop.test", b"GET / HTTP/1.1"),
        ("http://SHOP%2etest:/#@127.0.0.1/", b"shop.test", b"GET / HTTP/1.1"),
        ("HTTP://shop.test?a=b", b"shop.test", b"GET /?a=b HTTP/1.1"),
        ("http://shop.test//a/../%2e?a=@&b=http://x", b"shop.test", b"GET //a/../%2e?a=@&b=http://x HTTP/1.1"),
    ],
)
async def test_an_address_is_asked_for_as_it_was_written(target: str, host: bytes, line: bytes) -> None:
    async with shop() as (port, _, served):
        assert b"200 OK" in await ask(port, f"GET {target} HTTP/1.1\r\n\r\n".encode())
        assert served.asked == [line + b"\r\nhost: " + host + b"\r\nconnection: close\r\n\r\n"]


async def test_odd_spellings_are_dialled_as_what_they_are() -> None:
    spelled = (
        "0177.0.0.1",
        "127.0.0.01",
        "127.0.0.0x1",
        "127.0.0.1.",
        "0x7f000001",
        "0x7f.0.0.1",
        "127.1",
        "2130706433",
    )
    async with world({}) as found, serving(GuardedProxy(found.dial)) as port:
        for host in spelled:
            assert (await ask(port, f"CONNECT {host}:80 HTTP/1.1\r\n\r\n".encode())).startswith(b"HTTP/1.1 403 ")
        assert found.dialled == [("127.0.0.1", 80)] * len(spelled)


async def test_a_tunnel_passes_bytes_on_both_ways_and_each_side_may_end_first() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = await reader.read()  # until the near side has ended
        writer.write(b"you said " + data)
        await writer.drain()

    async with world({("shop.test", 443): echo}) as found, serving(GuardedProxy(found.dial)) as port:
        answer = await ask(port, b"CONNECT shop.test:443 HTTP/1.1\r\nHost: x\r\n\r\n\x16\x03\x01\x00", ends=True)
        await until(lambda: found.open == 0)
    assert answer == b"HTTP/1.1 200 Connection established\r\n\r\nyou said \x16\x03\x01\x00"


async def test_what_the_far_side_ends_can_still_be_told() -> None:
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def say_first(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"bye")
        writer.write_eof()
        heard.set_result(await reader.read())

    async with world({("shop.test", 443): say_first}) as found, serving(GuardedProxy(found.dial)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"CONNECT shop.test:443 HTTP/1.1\r\n\r\n")
        assert (await reader.read()).endswith(b"\r\n\r\nbye")
        writer.write(b"x" * 1_000_000)
        writer.close()
        assert len(await asyncio.wait_for(heard, 60)) == 1_000_000


async def test_megabytes_pass_unchanged_whichever_side_is_slow() -> None:
    data = bytes(range(256)) * 40_000
    answer = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n" % len(data) + data
    async with shop(answer) as (port, _, host):
        said = b"PUT http://shop.test/ HTTP/1.1\r\ncontent-length: %d\r\n\r\n" % len(data) + data
        assert (await ask(port, said)).endswith(b"\r\n\r\n" + data)
        assert host.asked[0].endswith(b"\r\n\r\n" + data)


async def test_what_the_guard_refuses_is_said_in_the_answer_and_its_first_line() -> None:
    async with shop() as (port, found, _):
        for said in (
            b"GET http://169.254.169.254/latest HTTP/1.1\r\n\r\n",
            b"CONNECT 169.254.169.254:80 HTTP/1.1\r\n\r\n",
        ):
            answer = await ask(port, said)
            assert answer.startswith(f"HTTP/1.1 403 '169.254.169.254' {REFUSAL}\r\n".encode())
            assert answer.endswith(f"\r\n\r\n'169.254.169.254' {REFUSAL}\n".encode())
        assert found.dialled == [("169.254.169.254", 80)] * 2


@pytest.mark.parametrize("first", ["CONNECT shop.test:25", "CONNECT shop.test:22", "GET http://shop.test:6379/"])
async def test_ports_of_other_protocols_are_refused_as_they_are_for_pages(first: str) -> None:
    async with shop() as (port, found, _):
        answer = await ask(port, f"{first} HTTP/1.1\r\n\r\n".encode())
        assert (b"port of another protocol" in answer, answer[:13], found.dialled) == (True, b"HTTP/1.1 403 ", [])


@pytest.mark.parametrize(("code", "status"), [("unavailable", 502), ("timeout", 504), ("odd", 502), ("denied", 403)])
async def test_a_failure_of_the_dial_has_a_status_and_no_second_line(code: str, status: int) -> None:
    async def dial(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        raise ToolError("no\r\nset-cookie: é", code=code)

    async with serving(GuardedProxy(dial)) as port:
        answer = await ask(port, b"CONNECT a.test:443 HTTP/1.1\r\n\r\n")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 %d no?set-cookie: ?" % status,
        b"content-type: text/plain; charset=utf-8",
        b"content-length: %d" % len(body),
        b"connection: close",
    ]


@pytest.mark.parametrize(
    "first",
    [
        "CONNECT shop.test",
        "CONNECT shop.test:",
        "CONNECT shop.test:0",
        "CONNECT shop.test:65536",
        "CONNECT shop.test:+80",
        "CONNECT shop.test:0x50",
        "CONNECT shop.test:80:80",
        "CONNECT :80",
        "CONNECT user@shop.test:80",
        "CONNECT shop.test@127.0.0.1:80",
        "CONNECT http://shop.test:80",
        "CONNECT shop.test:80/",
        "CONNECT shop.test\0.evil.test:80",
        "CONNECT shop.test%00:80",
        "CONNECT shop..test:80",
        "CONNECT .shop.test:80",
        "CONNECT -:80\r\n x",
        "CONNECT 1.2.3.4.5:80",
        "CONNECT [::1:80",
        "CONNECT [::1%eth0]:80",
        "CONNECT [127.0.0.1]:80",
        "CONNECT [:::]:80",
        "CONNECT ::1:80",
        "CONNECT １２７.0.0.1:80",
        "CONNECT shop。test:80",
        f"CONNECT {'a' * 64}.test:80",
        f"CONNECT {'a.' * 150}test:80",
        "GET /",
        "GET *",
        "GET shop.test/",
        "GET //shop.test/",
        "GET http:shop.test/",
        "GET http:///x",
        "GET http://",
        "GET http:\\\\shop.test\\",
        "GET http://shop.test\\@127.0.0.1/",
        "GET http://user:word@shop.test/",
        "GET http://shop.test:99999/",
        "GET http://shop.test/\t",
        "GET https://shop.test/",
        "GET ftp://shop.test/",
        "GET file:///etc/passwd",
        "GET  http://shop.test/",
        "GET\thttp://shop.test/",
        " GET http://shop.test/",
        "G(T http://shop.test/",
        "\x16\x03\x01",
        "",
    ],
)
async def test_what_can_be_read_in_two_ways_is_refused_in_a_sentence_and_never_dialled(first: str) -> None:
    async with shop() as (port, found, _):
        answer = await ask(port, f"{first} HTTP/1.1\r\nHost: shop.test\r\n\r\n".encode())
        assert (answer[:13], found.dialled) == (b"HTTP/1.1 400 ", [])
        assert answer.partition(b"\r\n\r\n")[2].strip()


@pytest.mark.parametrize("version", ["HTTP/2.0", "HTTP/0.9", "HTTP/1.2", "http/1.1", "HTTP/1.1 ", "HTTP/11", ""])
async def test_other_versions_are_refused(version: str) -> None:
    async with shop() as (port, found, _):
        answer = await ask(port, f"GET http://shop.test/ {version}\r\n\r\n".encode())
        assert (answer[:13], found.dialled) == (b"HTTP/1.1 400 ", [])


@pytest.mark.parametrize(
    "fields",
    [
        "Content-Length: 3\r\nContent-Length: 5",
        "Content-Length: 3\r\nContent-Length: 3",
        "Content-Length: 3, 3",
        "Content-Length: +3",
        "Content-Length: -1",
        "Content-Length: 0x3",
        "Content-Length: 3\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: chunked\r\nContent-Length: 3",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        "Transfer-Encoding: gzip, chunked",
        "Transfer-Encoding: identity",
        "Transfer-Encoding: xchunked",
        "Transfer-Encoding : chunked",
        "Content-Length : 3",
        "X: a\r\n Content-Length: 3",
        "X: a\0b",
        "X: a\rContent-Length: 3",
        "X: a\nContent-Length: 3",
        "X",
        ": x",
        "X Y: z",
        "é: x",
    ],
)
async def test_a_request_that_could_hide_another_is_refused(fields: str) -> None:
    async with shop() as (port, found, _):
        answer = await ask(port, f"POST http://shop.test/ HTTP/1.1\r\n{fields}\r\n\r\nabc".encode())
        assert (answer[:13], found.dialled) == (b"HTTP/1.1 400 ", [])


async def test_what_follows_a_request_is_no_second_one() -> None:
    hidden = b"GET http://shop.test/second HTTP/1.1\r\n\r\n"
    async with shop() as (port, found, host):
        for fields, body in ((b"", b""), (b"content-length: 3\r\n", b"abc"), (b"connection: content-length\r\n", b"")):
            await ask(port, b"POST http://shop.test/first HTTP/1.1\r\n" + fields + b"\r\n" + body + hidden)
        assert len(found.dialled) == len(host.asked) == 3
        assert not any(b"second" in each for each in host.asked)


async def test_a_body_in_chunks_is_passed_on_as_it_is() -> None:
    heard: list[bytes] = []

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"0\r\n\r\n"))
        writer.write(
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nKeep-Alive: 5\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        writer.write(b"2\r\nok\r\n0\r\n\r\n")
        await writer.drain()

    async with world({SHOP: take}) as found, serving(GuardedProxy(found.dial)) as port:
        said = b"PUT http://shop.test/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
        answer = await ask(port, said)
    assert heard[0].endswith(
        b"transfer-encoding: chunked\r\nhost: shop.test\r\nconnection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    )
    told = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nconnection: close\r\n\r\n2\r\nok\r\n0\r\n\r\n"
    assert answer == b"HTTP/1.1 100 Continue\r\n\r\n" + told


@pytest.mark.parametrize(
    "answer", [b"", b"hello\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"HTTP/2 200\r\n\r\n", b"x" * 70_000]
)
async def test_a_host_that_speaks_no_http_is_told_about(answer: bytes) -> None:
    async with shop(answer) as (port, _, _):
        told = await ask(port, b"GET http://shop.test/ HTTP/1.1\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 502 shop.test gave no answer that is HTTP\r\n")


async def test_a_huge_head_is_refused_and_nothing_of_it_is_held() -> None:
    async with shop() as (port, found, _):
        answer = await ask(port, b"GET http://shop.test/ HTTP/1.1\r\nX: " + b"a" * 200_000)
        assert (answer[:13], found.dialled) == (b"HTTP/1.1 431 ", [])
        kept = b"GET http://shop.test/ HTTP/1.1\r\nX: " + b"a" * 60_000 + b"\r\n\r\n"
        assert b"200 OK" in await ask(port, kept)


async def test_who_does_not_say_what_it_wants_loses_its_connection() -> None:
    async with world({}) as found, serving(GuardedProxy(found.dial, head_seconds=0.1)) as port:
        assert await ask(port, b"GET http://shop.test/ HTTP/1.1\r\nX: ") == b""
        assert await ask(port, b"") == b""


@pytest.mark.parametrize("first", [b"CONNECT shop.test:80", b"GET http://shop.test/"])
async def test_a_connection_on_which_nothing_moves_ends(first: bytes) -> None:
    async with world({SHOP: say_nothing}) as found, serving(GuardedProxy(found.dial, idle_seconds=0.2)) as port:
        await ask(port, first + b" HTTP/1.1\r\n\r\n")
        await until(lambda: found.open == 0)


async def test_a_connection_on_which_something_moves_outlives_the_time_of_rest() -> None:
    async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(8):
            writer.write(b".")
            await asyncio.sleep(0.6)

    async with world({SHOP: trickle}) as found, serving(GuardedProxy(found.dial, idle_seconds=4.0)) as port:
        answer = await ask(port, b"CONNECT shop.test:80 HTTP/1.1\r\n\r\n")
    assert answer.endswith(b"........")


async def test_who_never_reads_the_answer_is_dropped_and_the_far_side_with_it() -> None:
    data = b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 30_000_000
    async with world({SHOP: SayHttp(data)}) as found, serving(GuardedProxy(found.dial, idle_seconds=0.2)) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.write(b"GET http://shop.test/ HTTP/1.1\r\n\r\n")
        await until(lambda: bool(found.dialled))
        await until(lambda: found.open == 0)
        writer.close()


async def test_one_socket_has_so_many_connections_and_the_next_waits_until_one_ends() -> None:
    async with world({SHOP: say_nothing}) as found, serving(GuardedProxy(found.dial, most=5)) as port:
        pairs = [await asyncio.open_connection("127.0.0.1", port) for _ in range(8)]
        for _, writer in pairs:
            writer.write(b"CONNECT shop.test:80 HTTP/1.1\r\n\r\n")
        await until(lambda: found.open == 5)
        assert len(found.dialled) == 5
        for _, writer in pairs[:5]:
            writer.close()
        await until(lambda: len(found.dialled) == 8 and found.open == 3)
        for _, writer in pairs:
            writer.close()


async def test_a_tunnel_ends_with_a_side_that_breaks_off() -> None:
    async with world({SHOP: say_nothing}) as found, serving(GuardedProxy(found.dial)) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"CONNECT shop.test:80 HTTP/1.1\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await until(lambda: found.open == 1)
        broken = writer.get_extra_info("socket")
        broken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # so that its end is a reset
        writer.transport.abort()
        await until(lambda: found.open == 0)


async def test_all_sockets_together_have_so_many_connections_and_the_next_is_told() -> None:
    async with world({SHOP: say_nothing}) as found:
        proxy = GuardedProxy(found.dial, most_of_all=3)
        async with serving(proxy) as one, serving(proxy) as other:
            pairs = [await asyncio.open_connection("127.0.0.1", port) for port in (one, one, other)]
            for _, writer in pairs:
                writer.write(b"CONNECT shop.test:80 HTTP/1.1\r\n\r\n")
            await until(lambda: found.open == 3)
            assert (await ask(other, b"CONNECT shop.test:80 HTTP/1.1\r\n\r\n")).startswith(b"HTTP/1.1 503 too many")
            for _, writer in pairs:
                writer.close()


async def test_the_end_of_serving_is_the_end_of_every_connection_and_descriptor() -> None:
    async with shop() as (port, found, _):  # whatever is opened once and for all is open then
        await ask(port, b"GET http://shop.test/ HTTP/1.1\r\n\r\n")
    hold = asyncio.Event()

    async def dial(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if host == "slow.test":
            await hold.wait()
        return await found.dial(host, port)

    async with world({SHOP: say_nothing}) as found:
        before, tasks = descriptors(), len(asyncio.all_tasks())
        async with serving(GuardedProxy(dial)) as port:
            pairs = [await asyncio.open_connection("127.0.0.1", port) for _ in range(20)]
            for number, (_, writer) in enumerate(pairs):
                said = (b"CONNECT shop.test:80", b"GET http://shop.test/", b"CONNECT slow.test:80", b"GET half")[
                    number % 4
                ]
                writer.write(said + (b"" if number % 4 == 3 else b" HTTP/1.1\r\n\r\n"))
            await until(lambda: found.open == 10)
        for reader, writer in pairs:
            with suppress(ConnectionResetError):
                await asyncio.wait_for(reader.read(), 60)
            writer.close()
        await until(lambda: found.open == 0 and len(asyncio.all_tasks()) <= tasks)
        await until(lambda: descriptors() <= before)


async def test_a_dial_with_a_bug_ends_one_connection_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with world({SHOP: SayHttp()}) as found:

        async def dial(host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            if host == "bug.test":
                raise LookupError(host)
            return await found.dial(host, port)

        async with serving(GuardedProxy(dial)) as port:
            assert await ask(port, b"CONNECT bug.test:80 HTTP/1.1\r\n\r\n") == b""
            assert b"hello" in await ask(port, b"GET http://shop.test/ HTTP/1.1\r\n\r\n")
    assert "a connection to the proxy failed" in caplog.text


@pytest.mark.parametrize("shown", [b"", b"Basic dTpw", b"basic dTpzZWNyZXQ=", b"Basic dTpzZWNyZXQ"])
async def test_a_proxy_with_credentials_serves_whoever_shows_them_and_nobody_else(shown: bytes) -> None:
    async with (
        world({SHOP: (host := SayHttp())}) as found,
        serving(GuardedProxy(found.dial, credentials="u:secret")) as port,
    ):
        line = b"GET http://shop.test/ HTTP/1.1\r\nProxy-Authorization: %b\r\n\r\n"
        answer = await ask(port, line % shown)
        assert answer.startswith(b"HTTP/1.1 407 ")
        assert b'\r\nproxy-authenticate: Basic realm="toolcrib"\r\n' in answer
        assert found.dialled == []
        assert (await ask(port, line % b"Basic dTpzZWNyZXQ=")).endswith(b"hello")
        assert b"dTpzZWNyZXQ" not in host.asked[0]
