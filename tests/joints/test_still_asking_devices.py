"""May this device, or this hook, still ask? Over real sockets: whatever goes on for it ends within a second."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

import httpx2

from tests.backends.models.servers import Say, Server, serving
from tests.doors.gateway.world import World, client_of, device, gateway_of, until_closed
from tests.doors.talking import in_turn
from tests.joints.asking_world import Held, until
from toolcrib import OWNER, Caller, Sender, ToolError

pytestmark = pytest.mark.anyio

TOKEN, OTHER, HOOK = "dt-1111-dt-1111-dt", "dt-2222-dt-2222-dt", "hook-3333-hook-3333"
HOLD, DONE = Say(calls=(("a", "hold", "{}"),)), Say(text="done with it")
EVERY = {"schedule": {"kind": "every", "everyMs": 3_600_000}, "payload": {"kind": "agentTurn", "message": "go"}}
PHONE = Caller(
    channel="device", sender=Sender(id="phone"), owner=False, session="agent:main:device:dm:phone", door="device:phone"
)
MORE: dict[str, Any] = {
    "channels": {"device": {"direct": {"tools": {"allow": ["*"]}}}, "hook": {"direct": {"tools": {"allow": ["*"]}}}},
    "tools": {"exec": {"security": "full"}},
}


class DeviceWorld:
    """A gateway, a device that may ask it, another one, and a tool that waits."""

    def __init__(self, world: World, held: Held, server: Server, file: Path) -> None:
        self.world, self.held, self.server, self.file = world, held, server, file

    @property
    def crib(self) -> Any:
        return self.world.server.crib

    async def owner(self, method: str, **params: Any) -> Any:
        async with client_of(self.world) as owner:
            return await owner.get(method, params)

    async def post(self, path: str, body: Any, token: str = TOKEN) -> tuple[int, str]:
        """Return the status and all that is answered, until that ends."""
        url, sent = f"http://127.0.0.1:{self.world.port}{path}", {"authorization": f"Bearer {token}"}
        async with httpx2.AsyncClient(timeout=30) as http:
            try:
                async with http.stream("POST", url, json=body, headers=sent) as answer:
                    return answer.status_code, (await answer.aread()).decode()
            except httpx2.HTTPError:
                return 0, ""  # it was torn down


@contextlib.asynccontextmanager
async def device_world(folder: Path, *acts: Say) -> AsyncIterator[DeviceWorld]:
    (folder / "work").mkdir()
    held, file = Held(), folder / "toolcrib.json"
    async with serving(in_turn(*acts)) as server:
        models = {"default": "small:one", "small": {"baseUrl": server.base_url}}
        hooks = {"enabled": True, "token": HOOK}
        file.write_text(
            json.dumps({**MORE, "workspace": {"root": str(folder / "work")}, "models": models, "hooks": hooks})
        )
        devices = [device("phone", TOKEN, "operator.write"), device("desk", OTHER, "operator.write")]
        async with gateway_of(file, state=folder / "state", tools=[held.tool], devices=devices) as world:
            found = DeviceWorld(world, held, server, file)
            await found.owner("health")  # it is open
            yield found


# how a device or a hook loses it


async def revoke(world: DeviceWorld) -> None:
    await world.owner("device.token.revoke", deviceId="phone")


async def narrow(world: DeviceWorld) -> None:
    await world.owner("device.token.rotate", deviceId="phone", scopes=["operator.read"])


async def rotate(world: DeviceWorld) -> None:
    await world.owner("device.token.rotate", deviceId="phone")


def write_hooks(world: DeviceWorld, **hooks: Any) -> None:
    world.file.write_text(json.dumps({**json.loads(world.file.read_text()), "hooks": hooks}))
    world.world.server.reload()


async def disable_hooks(world: DeviceWorld) -> None:
    write_hooks(world, enabled=False, token=HOOK)


async def change_hooks(world: DeviceWorld) -> None:
    write_hooks(world, enabled=True, token=f"{HOOK}-new")


LOST = {"revoked": revoke, "narrowed": narrow, "another token": rotate}

# what goes on for it: each begins something that holds, and returns when that has ended


async def take_turn(world: DeviceWorld) -> None:
    with contextlib.suppress(Exception):
        async with client_of(world.world, TOKEN) as phone:
            await phone.get("chat.send", {"message": "hold", "idempotencyKey": "1"})
            await phone.get("chat.send", {"message": "and again", "idempotencyKey": "2"})  # waits behind it
            await phone.socket.wait_closed()


async def call_tool(world: DeviceWorld) -> None:
    with contextlib.suppress(Exception):
        async with client_of(world.world, TOKEN) as phone:
            await phone.ask("tools.call", {"tool": "hold", "args": {}})


async def invoke(world: DeviceWorld) -> None:
    status, _ = await world.post("/tools/invoke", {"tool": "hold"})
    assert status in (0, 401)


async def stream_chat(world: DeviceWorld) -> None:
    asked = {"model": "toolcrib", "stream": True, "messages": [{"role": "user", "content": "hold"}]}
    _, text = await world.post("/v1/chat/completions", asked)
    assert "done with it" not in text


async def await_response(world: DeviceWorld) -> None:
    status, text = await world.post("/v1/responses", {"model": "toolcrib", "input": "hold"})
    assert (status in (0, 401), "done with it" in text) == (True, False)


async def call_over_mcp(world: DeviceWorld) -> None:
    mcp = pytest.importorskip("mcp", reason="the extra mcp is not installed")
    streamable_http_client = pytest.importorskip("mcp.client.streamable_http").streamable_http_client
    url, sent = f"http://127.0.0.1:{world.world.port}/mcp", {"authorization": f"Bearer {TOKEN}"}
    with contextlib.suppress(Exception, BaseExceptionGroup):
        async with (
            httpx2.AsyncClient(headers=sent, timeout=30) as http,
            mcp.Client(streamable_http_client(url, http_client=http)) as client,
        ):
            told = await client.call_tool("hold", {})
            assert told.is_error


async def start_subagent(world: DeviceWorld) -> None:
    async with client_of(world.world, TOKEN) as phone:
        await phone.get("subagents.spawn", {"task": "hold"})


async def run_job(world: DeviceWorld) -> None:
    job = await world.crib.ask("cron.add", {"job": EVERY}, caller=PHONE)
    await world.owner("cron.run", id=job["id"], mode="force", wait=True)


LIVE = [take_turn, call_tool, invoke, stream_chat, await_response, call_over_mcp, start_subagent, run_job]


@pytest.mark.parametrize("way", LOST)
@pytest.mark.parametrize("begin", LIVE)
async def test_what_goes_on_for_a_device_ends_within_a_second(
    way: str, begin: Callable[[DeviceWorld], Awaitable[None]], tmp_path: Path
) -> None:
    async with device_world(tmp_path, HOLD, DONE) as world:
        going = asyncio.ensure_future(begin(world))
        await until(lambda: world.held.begun)
        await LOST[way](world)
        await until(lambda: world.held.stopped, 1.0)
        await until(going.done, 1.5)
        await going
        world.held.go.set()
        await until(
            lambda: not [each for each in world.crib.revocations.list_live() if each.caller.door.endswith(":phone")]
        )
        assert (world.held.begun, world.held.done) == (1, 0)


GENERAL = Say(calls=(("g", "generalist", '{"request": "hold it"}'),))


async def test_what_it_started_and_waits_for_ends_too(tmp_path: Path) -> None:
    async with device_world(tmp_path, GENERAL, HOLD, DONE) as world:
        going = asyncio.ensure_future(take_turn(world))
        await until(lambda: world.held.begun)
        await revoke(world)
        await until(lambda: world.held.stopped, 1.0)
        await going


@pytest.mark.parametrize("way", LOST)
async def test_its_commands_in_the_background_and_its_canvases_end(way: str, tmp_path: Path) -> None:
    async with device_world(tmp_path, DONE) as world:
        world.crib.canvases.host = lambda seen_from: "http://canvas.test"
        for caller in (
            PHONE,
            replace(PHONE, sender=Sender(id="desk"), session="agent:main:device:dm:desk", door="device:desk"),
        ):
            belt = world.crib.belt(caller)
            begun = await belt.call("exec", {"command": "sleep 300", "background": True})
            assert begun.status == "ok", begun
            assert (await belt.call("canvas", {"action": "present", "html": "<p>hi"})).status == "ok"

        def live(id: str) -> int:
            return len([each for each in world.crib.revocations.list_live() if each.caller.door == f"device:{id}"])

        assert (live("phone"), live("desk")) == (2, 2)
        await LOST[way](world)
        await until(lambda: not live("phone"), 1.0)
        assert live("desk") == 2


@pytest.mark.parametrize("way", ["revoked", "narrowed"])
async def test_nothing_that_it_left_goes_on_without_it(way: str, tmp_path: Path) -> None:
    """Jobs, subagents that somebody speaks to, calls that are finished later."""
    async with device_world(tmp_path, DONE) as world:
        world.held.go.set()
        job = await world.crib.ask("cron.add", {"job": EVERY}, caller=PHONE)
        spawned = await world.crib.ask("subagents.spawn", {"task": "hi"}, caller=PHONE)
        await world.crib.subagents.idle()
        await LOST[way](world)
        told = await world.owner("cron.run", id=job["id"], mode="force", wait=True)
        assert (told["status"], "let in no more" in told["error"]) == ("error", True)
        asked = len(world.server.asked)
        for method, params in (
            ("subagents.steer", {"target": spawned["runId"], "message": "go on"}),
            ("subagents.spawn", {"task": "another"}),
            ("wake", {"text": "up", "mode": "now"}),
            ("chat.send", {"message": "hi", "idempotencyKey": "9", "sessionKey": "main"}),
        ):
            with contextlib.suppress(ToolError):
                await world.crib.ask(method, params, caller=PHONE)
            await world.crib.subagents.idle()
            await world.crib.chat.settle(5.0)
        refused = await world.crib.belt(PHONE).call("hold")
        assert (refused.details["code"], world.held.done, len(world.server.asked)) == ("denied", 0, asked)


HOOK_LOST = {"switched off": disable_hooks, "another token": change_hooks}


@pytest.mark.parametrize("way", HOOK_LOST)
async def test_what_a_hook_began_ends_with_it(way: str, tmp_path: Path) -> None:
    async with device_world(tmp_path, HOLD, DONE) as world:
        assert (await world.post("/hooks/mail", "a letter", HOOK))[0] == 202
        await until(lambda: world.held.begun)
        await HOOK_LOST[way](world)
        await until(lambda: world.held.stopped, 1.0)
        assert world.held.done == 0


async def test_a_reload_that_leaves_a_hook_on_stops_nothing(tmp_path: Path) -> None:
    async with device_world(tmp_path, HOLD, DONE) as world:
        await world.post("/hooks/mail", "a letter", HOOK)
        await until(lambda: world.held.begun)
        write_hooks(world, enabled=True, token=HOOK, agents={"other": "main"})
        await world.crib.revocations.review()
        world.held.go.set()
        await until(lambda: world.held.done)


async def test_another_device_goes_on(tmp_path: Path) -> None:
    async with device_world(tmp_path, HOLD, DONE) as world:
        asking = asyncio.ensure_future(world.post("/tools/invoke", {"tool": "hold"}, OTHER))
        await until(lambda: world.held.begun)
        for way in (narrow, rotate, revoke):
            await way(world)
        world.held.go.set()
        assert (await asking)[0] == 200


@pytest.mark.parametrize("way", ["", "revoked", "narrowed"])
async def test_a_question_waits_for_a_device_only_while_it_may_answer(way: str, tmp_path: Path) -> None:
    async with device_world(tmp_path, DONE) as world:
        ask = [{"tool": "hold", "by": ["device:id:phone"]}]
        world.file.write_text(json.dumps({**json.loads(world.file.read_text()), "tools": {"ask": ask}}))
        world.world.server.reload()
        world.held.go.set()
        if way != "revoked":
            scopes = ["operator.write", *([] if way else ["operator.approvals"])]
            async with client_of(world.world, TOKEN) as before:
                given = await world.owner("device.token.rotate", deviceId="phone", scopes=scopes)
                await until_closed(before.socket)  # those who showed the old token are ended
        else:
            await revoke(world)
        calling = asyncio.ensure_future(world.crib.belt(OWNER).call("hold"))
        if way:
            assert (await calling).details["code"] == "not_approved"
            return
        async with client_of(world.world, given["token"]) as phone:
            async with asyncio.timeout(20):
                while not (waiting := await phone.get("approvals.list")):
                    await asyncio.sleep(0.02)
            await phone.get("approvals.answer", {"id": waiting[0]["id"], "answer": "once"})
        assert (await calling).status == "ok"
