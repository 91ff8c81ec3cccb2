"""The page's files and its login, over real sockets: a code counts once, a cookie only with its key and its origin."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

import httpx2
from tests.sockets import listening
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from .world import CLIENT, TOKEN, Client, World, client_of, device, gateway_of, until_closed

pytestmark = pytest.mark.anyio


def origin_of(world: World) -> str:
    return f"http://127.0.0.1:{world.port}"


@asynccontextmanager
async def browser_at(world: World, **headers: str) -> AsyncIterator[httpx2.AsyncClient]:
    """Yield what asks as a browser does for the page itself."""
    sent = {"origin": origin_of(world), **{name.replace("_", "-"): value for name, value in headers.items()}}
    async with httpx2.AsyncClient(base_url=origin_of(world), headers=sent, timeout=60) as client:
        yield client


async def make_code(world: World) -> str:
    async with client_of(world) as owner:
        return str((await owner.get("page.code"))["code"])


async def log_in(world: World) -> tuple[str, str]:
    """Return the cookie and the key that a browser has after its login."""
    async with browser_at(world) as client:
        answer = await client.post("/page/login", json={"code": await make_code(world)})
        assert answer.status_code == 200, answer.text
        return answer.headers["set-cookie"].partition(";")[0], answer.json()["key"]


@asynccontextmanager
async def page_of(world: World, cookie: str, key: str, **headers: str) -> AsyncIterator[Client]:
    """Yield the page in a browser with this cookie, connected."""
    sent = {"cookie": cookie, "origin": origin_of(world), **headers}
    async with connect(world.url, max_size=None, origin=None, additional_headers=sent) as socket:
        page = Client(socket)
        page.hello = await page.get("connect", connect_params({"page": key}))
        yield page


def connect_params(auth: Mapping[str, str]) -> dict[str, Any]:
    return {"minProtocol": 3, "maxProtocol": 3, "client": {**CLIENT, "mode": "page"}, "auth": dict(auth)}


async def knock(world: World, auth: Mapping[str, str], **headers: str) -> tuple[str, int | None]:
    """Return the sentence and the code that somebody is turned away with."""
    async with connect(world.url, origin=None, additional_headers=headers) as socket:
        asked = {"type": "req", "id": "1", "method": "connect", "params": connect_params(auth)}
        await socket.send(json.dumps(asked))
        frames, code = await until_closed(socket)
        return frames[-1].get("error", {}).get("message", ""), code


async def test_a_code_becomes_a_cookie_and_a_key_that_are_the_owners_together() -> None:
    async with gateway_of() as world:
        async with browser_at(world, user_agent="Browser/1") as client:
            code = await make_code(world)
            answer = await client.post("/page/login", json={"code": code})
            cookie = answer.headers["set-cookie"]
            assert cookie.startswith(f"toolcrib-page-{world.port}=")
            assert [each.strip() for each in cookie.split(";")[1:]] == [
                "HttpOnly", "SameSite=Strict", "Path=/", "Max-Age=2592000"
            ]  # fmt: skip
            assert answer.headers["cache-control"] == "no-store"
            assert TOKEN not in answer.text
            assert cookie.split(";")[0].partition("=")[2] not in answer.text
        async with page_of(world, cookie.split(";")[0], answer.json()["key"]) as page:
            assert page.hello["auth"] == {"role": "operator", "scopes": ["operator.admin"]}
            paired = (await page.get("device.pair.list"))["paired"]
            assert [(each["clientId"], each["displayName"], each["deviceId"][:5]) for each in paired] == [
                ("toolcrib-page", "Browser/1", "page-")
            ]


async def test_a_code_counts_once_also_when_two_race_for_it() -> None:
    async with gateway_of() as world, browser_at(world) as client:
        code = await make_code(world)
        answers = await asyncio.gather(*(client.post("/page/login", json={"code": code}) for _ in range(8)))
        assert sorted(each.status_code for each in answers) == [200] + [401] * 7
        async with client_of(world) as owner:
            assert len((await owner.get("device.pair.list"))["paired"]) == 1


async def test_a_code_lapses_after_five_minutes() -> None:
    async with gateway_of() as world, browser_at(world) as client:
        devices, code = world.server.crib.devices, await make_code(world)
        now = devices._now
        devices._now = lambda: now() + 301.0
        answer = await client.post("/page/login", json={"code": code})
        assert (answer.status_code, "older than five minutes" in answer.text) == (401, True)
        assert (await client.post("/page/login", json={"code": await make_code(world)})).status_code == 200


async def test_guesses_are_counted_and_the_right_code_counts_all_the_same() -> None:
    async with gateway_of() as world, browser_at(world) as client:
        found = [(await client.post("/page/login", json={"code": f"guess-{n}"})).status_code for n in range(12)]
        assert found == [401] * 10 + [429] * 2
        assert (await client.post("/page/login", json={"code": await make_code(world)})).status_code == 200


async def test_a_code_of_a_node_opens_no_page_and_a_code_of_a_page_pairs_no_node() -> None:
    async with gateway_of() as world, browser_at(world) as client, client_of(world) as owner:
        code = (await owner.get("node.pair.code"))["code"]
        assert (await client.post("/page/login", json={"code": code})).status_code == 401
        assert not world.server.crib.devices.knows_code(await make_code(world))


@pytest.mark.parametrize("body", [{}, {"code": 7}, {"code": ""}, {"code": "x" * 200}, {"code": "x", "more": 1}, []])
async def test_what_is_no_code_is_refused_with_a_sentence(body: Any) -> None:
    async with gateway_of() as world, browser_at(world) as client:
        answer = await client.post("/page/login", json=body)
        assert (answer.status_code, answer.json()["ok"]) == (400, False)
        form = await client.post("/page/login", content=b"code=x", headers={"content-type": "text/plain"})
        assert form.status_code == 415
        assert (await client.get("/page/login")).status_code == 405


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "null"},
        {"origin": "https://evil.test"},
        {"origin": "http://127.0.0.1:9"},  # another port of this machine, which is the same site
        {"origin": "http://localhost:9"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "none"},
        {"host": "evil.test"},
        {"host": "evil.test", "origin": "http://evil.test"},
    ],
)
async def test_a_login_from_another_origin_is_refused_and_spends_no_code(headers: dict[str, str]) -> None:
    async with gateway_of() as world, browser_at(world) as client:
        code = await make_code(world)
        answer = await client.post("/page/login", json={"code": code}, headers=headers)
        assert (answer.status_code, "set-cookie" in answer.headers) == (403, False)
        assert (await client.post("/page/login", json={"code": code})).status_code == 200


async def test_a_login_without_an_origin_and_one_from_an_allowed_origin_are_refused() -> None:
    async with gateway_of(origins=["https://friend.test"]) as world:
        code = await make_code(world)
        async with httpx2.AsyncClient(base_url=origin_of(world), timeout=60) as nobody:
            assert (await nobody.post("/page/login", json={"code": code})).status_code == 403
        async with browser_at(world, origin="https://friend.test") as friend:
            assert (await friend.post("/page/login", json={"code": code})).status_code == 403


async def test_neither_the_cookie_nor_the_key_counts_alone() -> None:
    async with gateway_of() as world:
        cookie, key = await log_in(world)
        ours, value = {"origin": origin_of(world)}, cookie.partition("=")[2]
        for auth in ({}, {"page": ""}, {"page": "guess"}, {"token": key}, {"token": value}, {"page": value}):
            sentence, code = await knock(world, auth, cookie=cookie, **ours)
            assert (sentence.startswith("unauthorized: "), code) == (True, 1008), auth
        for others in ({}, {"cookie": "x=1"}, {"cookie": f"toolcrib-page-9={value}"}, {"cookie": f"x{cookie}"}):
            sentence, code = await knock(world, {"page": key}, **ours, **others)
            assert (sentence.startswith("unauthorized: "), code) == (True, 1008), others


@pytest.mark.parametrize("origin", ["null", "http://127.0.0.1:9", "http://localhost:9", "https://evil.test", "http://"])
async def test_a_page_of_another_origin_reaches_nothing_with_the_cookie(origin: str) -> None:
    async with gateway_of() as world:
        cookie, key = await log_in(world)
        with pytest.raises(InvalidStatus):
            await knock(world, {"page": key}, cookie=cookie, origin=origin)
        async with browser_at(world, cookie=cookie, origin=origin, x_toolcrib_page=key) as client:
            assert (await client.post("/tools/invoke", json={"tool": "ls"})).status_code == 403
            assert (await client.post("/page/logout", json={})).status_code == 403


async def test_an_origin_that_is_allowed_is_answered_but_not_for_the_cookie() -> None:
    async with gateway_of(origins=["http://friend.test"]) as world:
        cookie, key = await log_in(world)
        sentence, _ = await knock(world, {"page": key}, cookie=cookie, origin="http://friend.test")
        assert sentence == "unauthorized: token_missing"
        sentence, _ = await knock(world, {"page": key}, cookie=cookie)  # a program that says no origin
        assert sentence == "unauthorized: token_missing"
        site = {"sec-fetch-site": "same-site"}
        sentence, _ = await knock(world, {"page": key}, cookie=cookie, origin=origin_of(world), **site)
        assert sentence == "unauthorized: token_missing"


async def test_over_http_the_cookie_counts_with_the_key_in_a_header() -> None:
    async with gateway_of() as world:
        cookie, key = await log_in(world)
        async with browser_at(world, cookie=cookie) as client:
            assert (await client.post("/tools/invoke", json={"tool": "session_status"})).status_code == 401
            found = await client.post(
                "/tools/invoke", json={"tool": "session_status"}, headers={"x-toolcrib-page": key}
            )
            assert found.status_code == 200, found.text
            assert (await client.get(f"/metrics?page={key}&token={TOKEN}")).status_code == 401


async def test_a_server_on_another_port_that_is_sent_the_cookie_gains_nothing() -> None:
    heads = list[bytes]()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()

    async with gateway_of() as world, listening(serve) as port, browser_at(world) as client:
        answer = await client.post("/page/login", json={"code": await make_code(world)})
        await client.get(f"http://127.0.0.1:{port}/")  # a cookie jar knows no ports
        stolen = next(line for line in heads[0].decode().split("\r\n") if line.lower().startswith("cookie: "))[8:]
        assert stolen in answer.headers["set-cookie"]
        sentence, _ = await knock(world, {}, cookie=stolen, origin=origin_of(world))
        assert sentence == "unauthorized: token_missing"
        async with browser_at(world, cookie=stolen) as thief:
            assert (await thief.post("/tools/invoke", json={"tool": "ls"})).status_code == 401


async def test_a_browser_that_is_in_stays_the_same_device_when_it_logs_in_again() -> None:
    async with gateway_of() as world:
        cookie, key = await log_in(world)
        async with browser_at(world, cookie=cookie, x_toolcrib_page=key) as client:
            again = await client.post("/page/login", json={"code": await make_code(world)})
            assert (again.json(), "set-cookie" in again.headers) == ({"ok": True, "key": key}, False)
        async with page_of(world, cookie, key) as page:
            assert len((await page.get("device.pair.list"))["paired"]) == 1


async def test_a_page_that_is_revoked_or_logs_out_hears_nothing_more_within_a_second() -> None:
    async with gateway_of() as world, client_of(world) as owner:
        cookie, key = await log_in(world)
        async with page_of(world, cookie, key) as page:
            id = (await owner.get("device.pair.list"))["paired"][0]["deviceId"]
            await owner.get("device.token.revoke", {"deviceId": id})
            assert (await until_closed(page.socket))[1] == 1008
        assert (await knock(world, {"page": key}, cookie=cookie, origin=origin_of(world)))[1] == 1008
        cookie, key = await log_in(world)
        async with (
            page_of(world, cookie, key) as page,
            browser_at(world, cookie=cookie, x_toolcrib_page=key) as client,
        ):
            answer = await client.post("/page/logout", json={})
            assert answer.headers["set-cookie"].startswith(f"toolcrib-page-{world.port}=; ")
            assert "Max-Age=0" in answer.headers["set-cookie"]
            assert (await until_closed(page.socket))[1] == 1008
            assert (await client.post("/page/logout", json={})).status_code == 200  # nobody is in: nothing to end
        assert (await owner.get("device.pair.list"))["paired"] == []


async def test_a_page_outlives_a_restart_of_the_gateway_and_a_new_token_of_the_owner(tmp_path: Path) -> None:
    async with gateway_of(state=tmp_path) as world:
        cookie, key = await log_in(world)
        world.server.credentials.replace_secret("token", "another-token-another-token")
        async with page_of(world, cookie, key) as page:
            await page.get("status")
    async with gateway_of(state=tmp_path) as world:
        moved = f"toolcrib-page-{world.port}={cookie.partition('=')[2]}"  # it would listen where it did
        async with page_of(world, moved, key) as page:
            assert page.hello["auth"]["scopes"] == ["operator.admin"]
            record = await page.get("audit.tail")
            assert cookie.partition("=")[2] not in json.dumps(record)
            assert key not in json.dumps(record)


async def test_only_who_may_do_everything_makes_a_code_for_the_page() -> None:
    rights = ("operator.write", "operator.pairing", "operator.approvals")
    async with (
        gateway_of(devices=[device("phone", "dt-1-dt-1-dt-1", *rights)]) as world,
        client_of(world, "dt-1-dt-1-dt-1") as guest,
    ):
        assert await guest.refusal("page.code") == ("INVALID_REQUEST", "missing scope: operator.admin")


async def test_pages_that_nobody_opened_for_a_month_are_forgotten_at_the_next_login() -> None:
    async with gateway_of(devices=[device("phone", "dt-1-dt-1-dt-1", "operator.read")]) as world:
        await log_in(world)
        devices = world.server.crib.devices
        now = devices._now
        devices._now = lambda: now() + 31 * 86_400.0
        await log_in(world)
        assert sorted(each.id[:5] for each in devices.known.values()) == ["page-", "phone"]


# its files


async def test_the_page_is_served_with_a_strict_policy_and_kept_by_the_browser() -> None:
    async with gateway_of() as world, browser_at(world) as client:
        plain = await client.get("/login.js", headers={"accept-encoding": "identity"})
        assert (plain.status_code, plain.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
        policy = plain.headers["content-security-policy"]
        assert "unsafe" not in policy
        assert "default-src 'none'; script-src 'self'; style-src 'self'; " in policy
        assert "frame-ancestors 'none'; require-trusted-types-for 'script'" in policy
        framed = next(each for each in policy.split("; ") if each.startswith("frame-src ")).split(" ")[1:]
        assert framed[0].startswith("http://127.0.0.1:")
        assert origin_of(world) not in framed
        names = ("x-content-type-options", "referrer-policy", "cross-origin-resource-policy", "cache-control")
        assert [plain.headers[name] for name in names] == ["nosniff", "no-referrer", "same-origin", "no-cache"]
        again = await client.get("/login.js", headers={"if-none-match": plain.headers["etag"], "accept-encoding": "br"})
        assert (again.status_code, again.content, again.headers["content-security-policy"]) == (304, b"", policy)
        stale = await client.get("/login.js", headers={"if-none-match": '"other"'})
        assert (stale.status_code, stale.headers["vary"]) == (200, "accept-encoding")


async def test_a_file_comes_packed_where_the_browser_takes_it_and_head_sends_no_body() -> None:
    async with gateway_of() as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        ask = "{} /login.js HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept-Encoding: gzip\r\nConnection: close\r\n\r\n"
        writer.write(ask.format("GET").encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert b"content-encoding: gzip" in head
        assert gzip.decompress(body).startswith(b"// Who this page is")
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        writer.write(ask.format("HEAD").encode())
        told, _, nothing = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert nothing == b""
        assert f"content-length: {len(body)}".encode() in told


@pytest.mark.parametrize(
    "path",
    [
        "/../gateway/page.py", "/%2e%2e/gateway/page.py", "/..%2fgateway%2fpage.py", "//etc/passwd", "/etc/passwd",
        "/views/../../gateway/http.py", "/login.js/", "/login.js%00", "/./login.js", "/LOGIN.JS", "/web/login.js",
        "/views/", "/page/", "/page/nothing", "/login.js.map", "/__init__.py",
    ],
)  # fmt: skip
async def test_nothing_but_the_files_of_the_page_can_be_asked_for(path: str) -> None:
    async with gateway_of() as world:
        reader, writer = await asyncio.open_connection("127.0.0.1", world.port)
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        head, _, body = (await reader.read()).partition(b"\r\n\r\n")
        writer.close()
        assert head.startswith(b"HTTP/1.1 404 "), (head, body)
        assert b"content-security-policy: default-src 'none'" in head
