"""Signing in to a server: a person agrees once, tokens are renewed in silence, and a server that lies gets nothing."""

import asyncio
import contextlib
import json
import logging
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed")

from tests.backends.mcp.oauth_world import REFRESH, TOKEN, Answer, Authority, Browser, Resource, Site, signing, to_json
from tests.backends.mcp.world import World, opened

from toolcrib.backends.mcp.signin import judge_address
from toolcrib.config.load import load
from toolcrib.define.errors import ConfigError, ToolError

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

HI = {"text": "hi"}


def settings(resource: Resource, auth: Any = "oauth") -> dict[str, Any]:
    return {"srv": {"url": f"{resource.url}/mcp", "auth": auth}}


def kept_in(state: Path) -> list[Path]:
    return [*(state / "mcp-auth").glob("*")]


async def sign_in(world: World, browser: Browser | None = None) -> str:
    about = await world.prompts.sign_in("srv", (browser or Browser()).show)
    while world.service.servers["srv"].link is None:
        with contextlib.suppress(ToolError):  # of a try that began before
            await world.service.reach("srv")
        await asyncio.sleep(0.01)
    return about


async def test_who_signed_in_is_let_in_and_the_token_is_shown_to_nobody(tmp_path: Path) -> None:
    browser = Browser()
    async with signing() as (resource, authority):
        async with opened(settings(resource), tmp_path) as world:
            assert await sign_in(world, browser) == "x, protocol 2025-11-25"
        async with opened(settings(resource), tmp_path) as world:
            status, words = await world.call("srv__echo", HI)
            assert (status, "you showed Bearer …" in words) == ("ok", True)
        (page,) = browser.pages
        assert page.startswith(f"{authority.url}/authorization?")
        assert "code_challenge_method=S256" in page
        (file,) = kept_in(tmp_path)
        assert [stat.S_IMODE(each.stat().st_mode) for each in (file, file.parent)] == [0o600, 0o700]
        assert not any("authorization" in headers for _, headers, _ in authority.seen)


async def test_a_connection_that_the_browser_never_used_is_hung_up_on(tmp_path: Path) -> None:
    class Eager(Browser):
        def show(self, url: str) -> None:
            back = urlsplit(parse_qs(urlsplit(url).query)["redirect_uri"][0])
            self.spare = socket.create_connection(("127.0.0.1", back.port or 0))
            super().show(url)

    browser = Eager()
    async with signing() as (resource, _), opened(settings(resource), tmp_path) as world:
        await sign_in(world, browser)
        with browser.spare as spare:
            spare.setblocking(False)
            assert spare.recv(1) == b""


async def test_without_anybody_to_ask_the_command_is_named_and_nothing_else_is_done(tmp_path: Path) -> None:
    async with signing() as (resource, authority), opened(settings(resource), tmp_path) as world:
        (said,) = world.problems
        assert said.endswith("cannot be used: it wants you to sign in; `toolcrib mcp login srv` does that")
        assert (authority.seen, kept_in(tmp_path)) == ([], [])


async def test_a_token_that_is_no_longer_good_is_renewed_where_it_came_from(tmp_path: Path) -> None:
    async with signing() as (resource, authority), opened(settings(resource), tmp_path) as world:
        await sign_in(world)
        authority.token = "second-access-token"
        assert (await world.call("srv__echo", HI))[0] == "ok"
        first, second = authority.bodies("/token")
        assert (first["grant_type"], second["grant_type"]) == ("authorization_code", "refresh_token")
        assert (second["refresh_token"], second["resource"]) == (REFRESH, f"{resource.url}/mcp")
        assert not any(REFRESH in body for _, _, body in resource.seen)
        assert authority.token in kept_in(tmp_path)[0].read_text()


async def test_a_token_that_cannot_be_renewed_needs_a_person_again(tmp_path: Path) -> None:
    async with signing() as (resource, authority), opened(settings(resource), tmp_path) as world:
        await sign_in(world)
        authority.token = "second-access-token"
        authority.changed["/token"] = to_json({"error": "invalid_grant"}, 400)
        _, words = await world.call("srv__echo", HI)
        assert "it wants you to sign in again; `toolcrib mcp login srv` does that" in words
        authority.changed["/token"] = to_json({}, 503)
        assert "127.0.0.1 answered 503; try again later" in (await world.call("srv__echo", HI))[1]
        del authority.changed["/token"]
        assert (await world.call("srv__echo", HI))[0] == "ok"


async def test_a_call_that_needs_more_rights_is_told_and_a_person_can_give_them(tmp_path: Path) -> None:
    async with signing() as (resource, authority), opened(settings(resource), tmp_path) as world:
        await sign_in(world)
        resource.scope = "mcp:write"
        _, words = await world.call("srv__echo", HI)
        assert "it wants more rights than it has given; `toolcrib mcp login srv` does that" in words
        authority.token = "token-with-more-rights"
        await sign_in(world)
        assert authority.scope == "mcp:write"
        assert (await world.call("srv__echo", HI))[0] == "ok"
        authority.token = "renewed-by-the-connection-that-was-there-before"
        assert "you showed Bearer …" in (await world.call("srv__echo", HI))[1]


async def test_who_signs_out_has_no_token_any_more(tmp_path: Path) -> None:
    async with signing() as (resource, _), opened(settings(resource), tmp_path) as world:
        await sign_in(world)
        assert (world.prompts.sign_out("srv"), world.prompts.sign_out("srv")) == (True, False)
        assert kept_in(tmp_path) == []


AUTHORITY, RESOURCE = "/.well-known/oauth-authorization-server", "/.well-known/oauth-protected-resource/mcp"


def about(**more: Any) -> Callable[[Resource, Authority], tuple[Site, str, Answer]]:
    return lambda _, authority: (authority, AUTHORITY, to_json(authority.metadata(**more)))


def fixed(answer: Answer, path: str = AUTHORITY) -> Callable[[Resource, Authority], tuple[Site, str, Answer]]:
    return lambda resource, authority: (resource if path == RESOURCE else authority, path, answer)


HUGE = (200, {"content-type": "application/json"}, b" " * 1_000_000)
OTHER = {"resource": "https://other.test/mcp", "authorization_servers": ["https://other.test"]}


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (about(issuer="https://other.test"), "metadata issuer mismatch"),
        (about(code_challenge_methods_supported=["plain"]), "does not offer PKCE (S256)"),
        (about(code_challenge_methods_supported=None), "does not offer PKCE (S256)"),
        (about(token_endpoint="http://10.0.0.1/token"), "through http://10.0.0.1, which is not encrypted"),
        (about(registration_endpoint="https://169.254.169.254/x"), "169.254.169.254, an address in a private"),
        (about(authorization_endpoint="http://8.8.8.8/x"), "through http://8.8.8.8, which is not encrypted"),
        (fixed(to_json(OTHER), RESOURCE), "does not match expected"),
        (fixed(HUGE), "127.0.0.1 sent more than 262,144 bytes about signing in"),
        (fixed(HUGE, RESOURCE), "127.0.0.1 sent more than 262,144 bytes about signing in"),
        (fixed(HUGE, "/token"), "127.0.0.1 sent more than 262,144 bytes about signing in"),
        (fixed(to_json({"error": "no"}, 403), "/registration"), "does not register clients by itself; get a client id"),
        (fixed(to_json({"error": f"you sent {TOKEN}"}, 400), "/token"), "its authorization server gave no token"),
        (fixed(to_json({"access_token": 1}), "/token"), "its authorization server gave no token"),
        (fixed((500, {}, b"\xff"), "/token"), "127.0.0.1 answered 500; try again later"),
        (fixed((200, {}, b"[" * 100_000), "/registration"), "does not register clients by itself"),
    ],
)
async def test_a_server_that_lies_about_signing_in_gets_one_sentence(
    lie: Callable[[Resource, Authority], tuple[Site, str, Answer]],
    words: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with signing() as (resource, authority), opened(settings(resource), tmp_path) as world:
        site, path, answer = lie(resource, authority)
        site.changed[path] = answer
        with caplog.at_level(logging.DEBUG), pytest.raises(ToolError, match="cannot be used: ") as error:
            await sign_in(world)
        assert words in str(error.value)
        assert "\n" not in str(error.value)
        assert "the-code" not in caplog.text
        assert (TOKEN in str(error.value), TOKEN in caplog.text) == (False, False)
        assert kept_in(tmp_path) == []


@pytest.mark.parametrize("path", [RESOURCE, AUTHORITY, "/registration", "/token"])
async def test_nobody_is_followed_to_another_origin(path: str, tmp_path: Path) -> None:
    other = Site()
    async with signing() as (resource, authority), other.open(), opened(settings(resource), tmp_path) as world:
        moved: Answer = (307, {"location": f"{other.url}{path}"}, b"")
        resource.changed[path] = authority.changed[path] = moved
        with contextlib.suppress(ToolError):  # what the server says of itself may be found in a second place
            await sign_in(world)
        assert other.seen == []


@pytest.mark.parametrize(
    ("back", "words"),
    [
        ({"state": "another"}, "the page came back with another state than it was given; nothing was taken"),
        ({"error": "access_denied"}, "the page came back without a yes (access_denied)"),
        ({"state": "another", "error": "x"}, "the page came back with another state"),
        ({"iss": "https://other.test"}, "iss mismatch"),
        ({"code": ""}, "No authorization code received"),
    ],
)
async def test_what_the_browser_brings_back_is_checked(back: dict[str, str], words: str, tmp_path: Path) -> None:
    async with signing() as (resource, authority), opened(settings(resource), tmp_path) as world:
        authority.back = back
        with pytest.raises(ToolError) as error:
            await sign_in(world)
        assert words in str(error.value)
        assert authority.bodies("/token") == []


async def test_a_secret_goes_to_the_issuer_that_was_written_and_to_nobody_else(tmp_path: Path) -> None:
    async with signing() as (resource, authority):
        auth = {"clientId": "me", "clientSecret": "only-for-home", "issuer": "https://home.test"}
        for grant in ("authorization_code", "client_credentials"):
            async with opened(settings(resource, auth | {"grant": grant}), tmp_path / grant) as world:
                with pytest.raises(ToolError, match=r"another authorization server|issuer mismatch"):
                    await sign_in(world)
        assert "only-for-home" not in repr(authority.seen) + repr(resource.seen)


async def test_a_program_with_a_secret_of_its_own_signs_in_by_itself(tmp_path: Path) -> None:
    async with signing() as (resource, authority):
        own = {"clientId": "me", "clientSecret": "s3cret", "issuer": authority.url, "grant": "client_credentials"}
        async with opened(settings(resource, own), tmp_path) as world:
            assert (await world.call("srv__echo", HI))[0] == "ok"
        assert [each["grant_type"] for each in authority.bodies("/token")] == ["client_credentials"]


async def test_what_was_kept_and_cannot_be_read_is_not_there(tmp_path: Path) -> None:
    async with signing() as (resource, _):
        async with opened(settings(resource), tmp_path) as world:
            await sign_in(world)
        for junk in (b"{", b"[]", b'{"url": "https://other.test"}', json.dumps({"url": 1}).encode(), b"%s"):
            own = json.dumps({"url": f"{resource.url}/mcp", "tokens": "x"}).encode()
            kept_in(tmp_path)[0].write_bytes(junk.replace(b"%s", own))
            async with opened(settings(resource), tmp_path) as world:
                assert "`toolcrib mcp login srv`" in world.problems[0]


@pytest.mark.parametrize(
    ("url", "own", "is_good"),
    [
        ("https://1.1.1.1/token", "https://8.8.8.8/mcp", True),
        ("http://1.1.1.1/token", "https://8.8.8.8/mcp", False),
        ("https://10.0.0.1/token", "https://8.8.8.8/mcp", False),
        ("https://127.0.0.1/token", "https://8.8.8.8/mcp", False),
        ("https://[::ffff:127.0.0.1]/token", "https://8.8.8.8/mcp", False),
        ("https://169.254.169.254/", "http://127.0.0.1:1/mcp", False),
        ("https://0.0.0.0/", "http://127.0.0.1:1/mcp", False),
        ("https://10.0.0.1/token", "https://10.0.0.2/mcp", True),
        ("https://127.0.0.1/token", "https://10.0.0.2/mcp", False),
        ("http://127.0.0.1:2/token", "http://127.0.0.1:1/mcp", True),
        ("file:///etc/passwd", "https://8.8.8.8/mcp", False),
        ("http://8.8.8.8/mcp", "http://8.8.8.8/mcp", False),
    ],
)
async def test_a_server_names_no_address_that_is_nearer_than_its_own(url: str, own: str, is_good: bool) -> None:
    if is_good:
        await judge_address(url, own)
    else:
        with pytest.raises(ToolError, match="signing in goes through"):
            await judge_address(url, own)


@pytest.mark.parametrize(
    ("server", "words"),
    [
        ({"command": "x", "auth": "oauth"}, "auth is for a server with a url"),
        ({"url": "https://a.test", "auth": "oauth", "headers": {"authorization": "x"}}, "write one of them"),
        ({"url": "https://a.test", "auth": {"clientSecret": "x"}}, "a secret needs clientId and issuer"),
        ({"url": "https://a.test", "auth": {"grant": "client_credentials"}}, "needs either clientSecret or privateKey"),
        ({"url": "https://a.test", "auth": "basic"}, "oauth"),
        ({"url": "https://a.test", "auth": {"secret": "x"}}, "secret"),
    ],
)
def test_a_configuration_that_cannot_be_meant_is_refused(server: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load({"mcpServers": {"srv": server}}, {})
