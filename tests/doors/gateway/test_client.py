"""`toolcrib.connect`: another process's crib; it comes back by itself, and does nothing twice."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from tests.sockets import listening, relay

import toolcrib
from toolcrib import CribError, ToolError, tool
from toolcrib.define.gateway import GatewayEvent
from toolcrib.doors.gateway.server import GatewayLimits

from .world import TOKEN, World, device, gateway_of

pytestmark = pytest.mark.anyio


class Counter:
    def __init__(self) -> None:
        self.count, self.began, self.go = 0, asyncio.Event(), asyncio.Event()

    def tool(self) -> toolcrib.Tool:
        @tool(name="count", effects={"write"})
        async def count() -> str:
            """Count."""
            self.count += 1
            self.began.set()
            await self.go.wait()
            return str(self.count)

        return count


@contextlib.asynccontextmanager
async def relay_of(world: World) -> AsyncIterator[tuple[str, asyncio.Event]]:
    """A wire between client and gateway that can be cut: set the event, and every connection through it breaks."""
    cut = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay((reader, writer), world.port, cut=cut)
        cut.clear()

    async with listening(serve) as port:
        yield f"ws://127.0.0.1:{port}", cut
        cut.set()


async def ask_for_ever(crib: toolcrib.GatewayClient) -> None:
    while True:
        await crib.ask("health")


async def test_it_asks_calls_and_says() -> None:
    async with gateway_of() as world, toolcrib.connect(world.url, TOKEN) as crib:
        assert (await crib.ask("health"))["ok"]
        assert (await crib.call("session_status"))["status"] == "ok"
        assert (await crib.call("exec", {"command": "rm x"}, dry_run=True))["verdict"]["tool"] == "exec"
        assert "not a language model" in await crib.say("hello")
        with pytest.raises(ToolError, match="no tool 'reed'"):
            await crib.call("reed")


async def test_what_is_wrong_is_said_in_one_sentence() -> None:
    async with gateway_of(devices=[device("phone", "t" * 20, "operator.read")]) as world:
        with pytest.raises(CribError, match="check the token"):
            await toolcrib.connect(world.url, "wrong").__aenter__()
        async with toolcrib.connect(world.url, "t" * 20) as phone:
            with pytest.raises(ToolError, match=r"missing scope: operator\.write"):
                await phone.call("session_status")
    with pytest.raises(CribError, match="no gateway answers"):
        await toolcrib.connect(world.url, TOKEN).__aenter__()
    with pytest.raises(CribError, match="is no address of a gateway"):
        toolcrib.connect("127.0.0.1:1", TOKEN)


async def test_a_call_that_was_under_way_is_never_made_twice() -> None:
    counter = Counter()
    async with (
        gateway_of(tools=[counter.tool()]) as world,
        relay_of(world) as (url, cut),
        toolcrib.connect(url, TOKEN) as crib,
    ):
        calling = asyncio.ensure_future(crib.call("count"))
        await counter.began.wait()
        cut.set()
        with pytest.raises(CribError, match="nobody knows whether it was done"):
            await calling
        assert (await crib.ask("health"))["ok"]  # over a new socket
        counter.go.set()
        assert counter.count == 1


async def test_an_answer_that_was_waited_for_comes_over_the_next_socket() -> None:
    async with gateway_of() as world, relay_of(world) as (url, cut), toolcrib.connect(url, TOKEN) as crib:
        events = crib.events()
        saying = asyncio.ensure_future(crib.say("hello"))
        while (await anext(events))[0] != "agent":
            continue
        cut.set()
        assert "not a language model" in await saying
        sessions = (await crib.ask("sessions.list"))["sessions"]
        history = await crib.ask("chat.history", {"sessionKey": sessions[0]["key"]})
        assert [each["role"] for each in history["messages"]] == ["user", "assistant"]


async def test_a_stream_that_was_lost_goes_on_and_tells_each_event_once() -> None:
    counter, heard = Counter(), list[dict[str, Any]]()
    async with (
        gateway_of(tools=[counter.tool()]) as world,
        relay_of(world) as (url, cut),
        toolcrib.connect(url, TOKEN) as crib,
        toolcrib.connect(world.url, TOKEN) as late,
    ):
        saying = asyncio.ensure_future(crib.say("count {}", on_event=heard.append))
        await counter.began.wait()
        cut.set()
        assert (await crib.ask("health"))["ok"]  # over a new socket
        cut.set()
        counter.go.set()
        answer = await saying
        assert [event async for event in late.follow()] == heard  # who comes late gets what was missed
    assert counter.count == 1
    kinds = [event["type"] for event in heard if event["type"] not in ("text", "call")]
    started, finished = ["turn_started"], ["replied", "turn_finished"]
    assert kinds == [*started, "replied", "tool_started", "tool_finished", *finished]
    assert (heard[-1]["reason"], heard[-1]["text"]) == ("done", answer)


async def test_who_follows_a_run_is_told_how_it_ended_by_the_gateway_that_came_after(tmp_path: Path) -> None:
    counter = Counter()
    first = gateway_of(tools=[counter.tool()], state=tmp_path, limits=GatewayLimits(stop_seconds=0.0))
    async with first as world, toolcrib.connect(world.url, TOKEN) as crib:
        await crib.say("hello", idempotencyKey="done")
        await crib.ask("chat.send", {"message": "count {}", "idempotencyKey": "cut"})
        await counter.began.wait()
    async with gateway_of(state=tmp_path) as world, toolcrib.connect(world.url, TOKEN) as crib:
        done, cut = [[event async for event in crib.follow(run)] for run in ("done", "cut")]
        assert [(event["type"], event["reason"]) for event in (*done, *cut)] == [
            ("turn_finished", "done"), ("turn_finished", "stopped"),
        ]  # fmt: skip
        assert "not a language model" in done[0]["text"]
        assert await crib.say("hello", idempotencyKey="done") == done[0]["text"]  # and nothing is said twice
        with pytest.raises(ToolError, match="there is no run 'other'"):
            await anext(crib.follow("other"))


async def test_what_is_said_to_a_run_is_heard_once_however_often_it_is_sent() -> None:
    counter, heard = Counter(), list[dict[str, Any]]()
    async with gateway_of(tools=[counter.tool()]) as world, toolcrib.connect(world.url, TOKEN) as crib:
        saying = asyncio.ensure_future(crib.say("count {}", on_event=heard.append))
        await counter.began.wait()
        for _ in range(2):
            steer = {"message": "and be quick", "idempotencyKey": "k", "queue": "steer"}
            assert (await crib.ask("chat.send", steer))["status"] == "in_flight"
        counter.go.set()
        await saying
    assert [event["message"] for event in heard if event["type"] == "received"] == ["and be quick"]


async def test_what_is_said_to_a_run_that_is_about_to_end_is_answered_by_one_of_its_own() -> None:
    said, steer = list["asyncio.Future[Any]"](), {"message": "hello", "idempotencyKey": "k", "queue": "steer"}
    async with gateway_of() as world, toolcrib.connect(world.url, TOKEN) as crib:

        def say_at_its_end(event: GatewayEvent) -> None:
            if event.event == "chat" and event.payload["state"] == "final" and not said:
                said.append(asyncio.ensure_future(world.server.crib.ask("chat.send", steer, caller=toolcrib.OWNER)))

        world.server.crib.gateway.bus.listen(say_at_its_end)
        await crib.say("hello")
        assert (await said[0])["runId"] == "k"
        assert (await crib.ask("chat.send", steer))["runId"] == "k"  # nor is it said to itself
        *_, last = [event async for event in crib.follow("k")]
        assert last["reason"] == "done"


async def test_who_is_turned_out_is_told_and_does_not_come_back() -> None:
    async with gateway_of() as world, toolcrib.connect(world.url, TOKEN) as crib:
        world.server.credentials.replace_secret("token", "another-token-that-is-long")
        with pytest.raises(CribError, match=r"credential was taken back|check the token"):
            await ask_for_ever(crib)
