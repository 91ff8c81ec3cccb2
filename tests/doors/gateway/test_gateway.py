"""The gateway's socket: nothing before a credential, rights from the credential alone, one gate for every call."""

import asyncio
import json
from pathlib import Path

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from websockets.asyncio.client import connect

from toolcrib.doors.gateway.server import GatewayLimits

from .world import CLIENT, TOKEN, client_of, device, gateway_of, until_closed

pytestmark = pytest.mark.anyio


async def test_a_client_connects_and_is_told_how_things_stand() -> None:
    async with gateway_of() as world, client_of(world) as client:
        assert client.hello["type"] == "hello-ok"
        assert client.hello["protocol"] == 3
        assert {"health", "sessions.list", "chat.send", "agent"} <= {*client.hello["features"]["methods"]}
        assert client.hello["auth"] == {"role": "operator", "scopes": ["operator.admin"]}
        assert [row["id"] for row in client.hello["snapshot"]["presence"]] == ["cli"]
        assert (await client.get("health"))["ok"]


async def test_a_message_is_answered_and_everybody_who_may_follow_hears_it(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("one\n")
    config = {"workspace": {"root": str(tmp_path)}}
    async with gateway_of(config) as world, client_of(world) as client, client_of(world) as other:
        sent = await client.get("chat.send", {"message": "list the files", "idempotencyKey": "k1"})
        assert sent == {"runId": "k1", "status": "started"}
        for each in (client, other):
            final = await each.wait_for("chat", state="final", runId="k1")
            assert "note.txt" in final["message"]["content"][0]["text"]
            assert [frame["seq"] for frame in each.events] == sorted(frame["seq"] for frame in each.events)
        again = await client.get("chat.send", {"message": "list the files", "idempotencyKey": "k1"})
        assert again == {"runId": "k1", "status": "ok"}
        assert (await client.get("agent.wait", {"runId": "k1"}))["status"] == "ok"


async def test_an_agent_answers_twice_under_one_id() -> None:
    async with gateway_of() as world, client_of(world) as client:
        params = {"message": "hello", "idempotencyKey": "k"}
        await client.socket.send(json.dumps({"type": "req", "id": "a", "method": "agent", "params": params}))
        heard: list[dict[str, str]] = []
        while len(heard) < 2:
            frame = await client.hear()
            heard += [frame["payload"]] if frame["type"] == "res" else []
        assert [each["status"] for each in heard] == ["accepted", "ok"]
        assert {each["runId"] for each in heard} == {"k"}


@pytest.mark.parametrize(
    ("auth", "reason"),
    [
        ({"token": "wrong-token-wrong-token"}, "token_mismatch"),
        ({"token": f" {TOKEN}"}, "token_mismatch"),
        ({"password": TOKEN}, "token_missing"),
        ({}, "token_missing"),
    ],
)
async def test_nobody_is_let_in_without_the_secret(auth: dict[str, str], reason: str) -> None:
    async with gateway_of() as world, connect(world.url) as socket:
        params = {"minProtocol": 3, "maxProtocol": 3, "client": CLIENT, "auth": auth}
        await socket.send(json.dumps({"type": "req", "id": "1", "method": "connect", "params": params}))
        frames, code = await until_closed(socket)
        assert (frames[-1]["error"]["message"], code) == (f"unauthorized: {reason}", 1008)


@pytest.mark.parametrize(
    "text",
    ["42", "[]", "{}", '{"type":"req"}', "\ufeff{}", "[" * 10_000, '{"type":"req","id":"1","method":"health"}'],
)
async def test_before_connect_nothing_else_is_answered(text: str) -> None:
    async with gateway_of() as world, connect(world.url) as socket:
        await socket.send(text)
        frames, code = await until_closed(socket)
        assert (any(frame.get("ok") for frame in frames), code) == (False, 1008)
        async with client_of(world) as client:
            assert (await client.get("health"))["ok"]


async def test_who_says_nothing_is_closed_in_time() -> None:
    async with gateway_of(limits=GatewayLimits(handshake_seconds=0.05)) as world, connect(world.url) as socket:
        assert (await until_closed(socket))[1] == 1008


async def test_a_device_has_the_scopes_it_was_given_and_no_others() -> None:
    reader = device("phone", "dt-1111-dt-1111-dt", "operator.read")
    async with gateway_of(devices=[reader]) as world:
        asked = {"scopes": ["operator.admin"], "role": "operator"}
        async with client_of(world, "dt-1111-dt-1111-dt", **asked) as phone:
            assert phone.hello["auth"]["scopes"] == ["operator.read"]
            assert (await phone.get("health"))["ok"]
            assert await phone.refusal("config.get") == ("INVALID_REQUEST", "missing scope: operator.admin")
            refused = await phone.refusal("chat.send", {"message": "x", "idempotencyKey": "k"})
            assert refused == ("INVALID_REQUEST", "missing scope: operator.write")


async def test_a_device_sees_its_own_sessions_and_hears_of_no_others() -> None:
    phone, secret = device("phone", "dt-1111-dt-1111-dt", "operator.write"), "dt-1111-dt-1111-dt"
    async with gateway_of(devices=[phone]) as world, client_of(world) as owner, client_of(world, secret) as guest:
        await owner.get("chat.send", {"message": "hello", "idempotencyKey": "mine"})
        await owner.wait_for("chat", state="final", runId="mine")
        await guest.get("chat.send", {"message": "hello", "idempotencyKey": "theirs"})
        await guest.wait_for("chat", state="final", runId="theirs")
        runs = {frame["payload"].get("runId") for frame in guest.events if frame["event"] in ("chat", "agent")}
        assert runs == {"theirs"}
        elsewhere = {"message": "x", "idempotencyKey": "k", "sessionKey": "agent:main:other"}
        code, sentence = await guest.refusal("chat.send", elsewhere)
        assert (code, "there is no session" in sentence) == ("INVALID_REQUEST", True)


async def test_a_secret_that_is_replaced_ends_the_connections_that_showed_it() -> None:
    async with gateway_of() as world, client_of(world) as client:
        world.server.credentials.replace_secret("token", "another-token-that-is-long")
        await until_closed(client.socket)
        async with client_of(world, "another-token-that-is-long") as again:
            assert (await again.get("health"))["ok"]


async def test_of_those_that_nobody_knows_the_oldest_go() -> None:
    async with gateway_of(limits=GatewayLimits(strangers_per_address=3)) as world:
        sockets = [await connect(world.url) for _ in range(4)]
        await until_closed(sockets[0])
        async with client_of(world) as client:
            assert (await client.get("health"))["ok"]
        for socket in sockets:
            await socket.close()


async def test_everybody_is_told_when_it_stops() -> None:
    async with gateway_of() as world, client_of(world) as client:
        world.serving.cancel()
        frames, code = await until_closed(client.socket)
        assert ([frame.get("event") for frame in frames][-1:], code) == (["shutdown"], 1012)


async def test_a_call_that_needs_a_yes_waits_for_one_from_any_client() -> None:
    guest, secret = device("phone", "dt-1111-dt-1111-dt", "operator.approvals"), "dt-1111-dt-1111-dt"
    config = {"tools": {"ask": ["session_status"]}}
    async with (
        gateway_of(config, devices=[guest]) as world,
        client_of(world) as asker,
        client_of(world) as owner,
        client_of(world, secret) as phone,
    ):
        for decision, status in (("allow-once", "ok"), ("deny", "error")):
            calling = asyncio.ensure_future(asker.get("tools.call", {"tool": "session_status"}))
            asked = await owner.wait_for("exec.approval.requested")
            owner.events.clear()
            code, _ = await phone.refusal("exec.approval.resolve", {"id": asked["id"], "decision": "allow-once"})
            assert code == "INVALID_REQUEST"
            await owner.get("exec.approval.resolve", {"id": asked["id"], "decision": decision})
            assert (await calling)["status"] == status
        assert not [frame for frame in phone.events if frame["event"].startswith("exec.")]


async def test_what_cannot_be_kept_is_not_acknowledged() -> None:
    config = {"models": {"default": "openai:gpt-5"}}  # which has no key here
    async with gateway_of(config) as world, client_of(world) as client:
        for method in ("chat.send", "agent"):
            code, sentence = await client.refusal(method, {"message": "hello", "idempotencyKey": method})
            assert (code, "OPENAI_API_KEY" in sentence) == ("INVALID_REQUEST", True), sentence
        assert (await client.get("chat.history"))["messages"] == []
        blank = await client.refusal("chat.send", {"message": " ", "idempotencyKey": "k"})
        assert (blank[0], "blank" in blank[1]) == ("INVALID_REQUEST", True)


async def test_a_socket_has_no_deadline_of_a_request(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    async with gateway_of(limits=GatewayLimits(body_seconds=0.05)) as world, client_of(world) as client:
        over = loop.time() + 0.2
        while loop.time() < over:
            await client.get("health")
    assert [each.getMessage() for each in caplog.records if each.name == "asyncio"] == []
