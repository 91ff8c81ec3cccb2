"""Origins are compared as browsers send them, wherever a door asks for one."""

import asyncio

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

import toolcrib
from tests.doors.gateway.canvas_world import fetch, show
from tests.doors.gateway.world import client_of, gateway_of
from toolcrib.define.egress import fold_origin, is_origin_of
from toolcrib.define.errors import ConfigError

pytestmark = pytest.mark.anyio

SAME = [
    ("https://ui.test", "HTTPS://UI.test:443"),
    ("https://XN--mnchen-3ya.example", "https://xn--mnchen-3ya.example"),
    ("https://ui.test:443/", "https://ui.test"),
    ("http://[::1]:80", "http://[0:0:0:0:0:0:0:1]"),
    ("https://ui.test.", "https://ui.test"),
    ("https://ui.test:8443", "https://ui.test:8443"),
    ("chrome-extension://ABCDEFGH", "chrome-extension://abcdefgh"),
]
OTHER = [
    "null",
    "https://ui.test:8443",
    "http://ui.test",
    "https://ui.test.evil.test",
    "https://evil.test",
    "",
    "https://",
]
OTHER += [
    "https://ui.test@evil.test",
    "https://ui.test/path",
    "https://ui.test https://ui.test",
    "ui.test",
    "https://u%69.test",
]


async def status_of(port: int, origin: str, host: str = "127.0.0.1") -> int:
    """Return what a request of a page at an origin is answered with."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /health HTTP/1.1\r\nHost: {host}\r\nOrigin: {origin}\r\nConnection: close\r\n\r\n".encode())
    line = await reader.readline()
    writer.close()
    return int(line.split()[1])


@pytest.mark.parametrize(("written", "sent"), SAME)
async def test_an_origin_that_is_allowed_is_known_however_it_was_written(written: str, sent: str) -> None:
    config = {"gateway": {"allowedOrigins": [written]}}
    gateway = toolcrib.open(config).config.gateway
    assert gateway is not None
    async with gateway_of(config, origins=gateway.allowed_origins) as world:
        assert await status_of(world.port, sent) == 200
        assert await status_of(world.port, "https://evil.test") == 403


@pytest.mark.parametrize("sent", OTHER)
async def test_any_other_origin_is_another(sent: str) -> None:
    async with gateway_of({"gateway": {"allowedOrigins": ["https://ui.test"]}}) as world:
        assert await status_of(world.port, sent) == 403


@pytest.mark.parametrize(
    ("host", "origin"), [("localhost:80", "http://localhost"), ("LOCALHOST:1", "http://localhost:1")]
)
async def test_our_own_page_is_known_at_the_port_that_goes_without_saying(host: str, origin: str) -> None:
    async with gateway_of() as world:
        assert await status_of(world.port, origin, host) == 200
        assert await status_of(world.port, origin.replace("localhost", "evil.test"), host) == 403


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *((each, 403) for each in ("127.1", "0x7f.1", "2130706433", "127.0.0.1:0")),
        ("[::1]:7", 200),
        ("127.0.0.1.", 403),
    ],
)
async def test_an_address_names_us_in_the_form_that_browsers_send(host: str, status: int) -> None:
    for allowed in ([], ["http://127.0.0.1"]):
        async with gateway_of(origins=allowed) as world:
            assert await status_of(world.port, f"http://{host}", host) == status


async def test_a_canvas_answers_pages_of_its_own_origin_alone() -> None:
    async with gateway_of() as world, client_of(world):
        url = await show(world, action="present", html="<p>hi")
        port = url.split(":")[2].partition("/")[0]
        answers = [f"HTTP://127.0.0.1:{port}", "null", f"https://127.0.0.1:{port}"]
        assert [(await fetch(url, Origin=each))[0] for each in answers] == [200, 200, 200]
        for each in ("http://127.0.0.1", "http://evil.test", f"http://127.0.0.1:{port}.evil.test", ""):
            assert (await fetch(url, Origin=each))[0] == 403, each


@pytest.mark.parametrize("text", ["null", "*", "https://a.test/path", "https://", "https://a%2e.test", "ftp://a.test"])
def test_what_is_no_origin_is_an_error_in_a_configuration(text: str) -> None:
    with pytest.raises(ConfigError, match="is no origin"):
        toolcrib.open({"gateway": {"allowedOrigins": [text]}})


def test_what_is_no_origin_is_that_of_no_host() -> None:
    assert [fold_origin(each) for each in ("", "x", "http://", "http://a b", "http://[::1")] == [""] * 5
    assert not any(is_origin_of(origin, host) for origin in ("", "null", "http://") for host in ("", "a b", "null"))
