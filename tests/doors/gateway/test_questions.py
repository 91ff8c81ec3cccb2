"""Questions and the gateway's end: who was asked answers when they can, and the turn goes on from where it waited."""

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from random import sample

import pytest
from tests.doors.talking import Say, Talk, call, crib_with, talking

pytest.importorskip("websockets", reason="the extra gateway is not installed")

import toolcrib

from .test_near_and_far import gateway, state  # noqa: F401  a fixture
from .test_near_and_far import toolcrib as command

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

MAKE = call("exec", '{"command": "echo made >> made.txt"}')


@pytest.fixture
def port() -> int:
    """A free port below those that connections are given: nobody takes it while a gateway is away."""
    for each in sample(range(20_000, 32_000), 100):
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", each)):
            return each
    raise AssertionError("every port is taken")


@contextlib.contextmanager
def asked_gateway(
    state: Path,  # noqa: F811
    port: int,
    config: Path,
) -> Iterator[tuple["subprocess.Popen[str]", toolcrib.GatewayClient]]:
    with gateway(state, "--port", str(port), "--config", str(config)) as (process, url):
        yield process, toolcrib.connect(url, (state / "gateway.token").read_text().strip())


async def ask_and_wait(crib: toolcrib.GatewayClient, key: str) -> dict[str, object]:
    """Say something, and return the question that it leads to."""
    heard = crib.events()
    await crib.ask("chat.send", {"message": "make it", "idempotencyKey": key})
    while not (questions := await crib.ask("approvals.list")):
        await anext(heard)
    (question,) = questions
    return dict(question)


async def leave_question(
    state: Path,  # noqa: F811
    port: int,
    config: Path,
    key: str = "key-1",
    end: signal.Signals = signal.SIGKILL,
) -> dict[str, object]:
    """Have a gateway ask something, end it, and return the question that it left."""
    with asked_gateway(state, port, config) as (process, client):
        async with client as crib:
            question = await ask_and_wait(crib, key)
            process.send_signal(end)
            process.wait(timeout=60)
    return question


def made(state: Path) -> list[str]:  # noqa: F811
    path = state.parent / "work" / "made.txt"
    return path.read_text().split() if path.exists() else []


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("answered", ["before the next one", "in the next one"])
async def test_a_question_outlives_the_gateway_and_its_turn_ends_as_answered_once(
    state: Path,  # noqa: F811
    port: int,
    end: signal.Signals,
    answered: str,
) -> None:
    with talking(MAKE, Say(text="It is made.")) as server:
        config = crib_with(server, state.parent)
        question = await leave_question(state, port, config, end=end)
        assert made(state) == []
        if answered == "before the next one":
            told = command(state, "approvals", "allow", str(question["id"]), "--config", str(config))
            assert (told.returncode, told.stderr) == (0, "")
        with asked_gateway(state, port, config) as (_, client):
            async with client as crib:
                if answered == "in the next one":
                    await crib.ask("approvals.answer", {"id": question["id"], "answer": "once"})
                *_, last = [event async for event in crib.follow("key-1")]
                assert (last["reason"], last["text"]) == ("done", "It is made.")
                assert made(state) == ["made"]
                asked_again = await crib.ask("chat.send", {"message": "make it", "idempotencyKey": "key-1"})
                assert asked_again["status"] == "ok"
        with asked_gateway(state, port, config):  # and nothing of it is left to go on with
            pass
        assert made(state) == ["made"]
        assert len(server.asked) == 2


async def test_a_turn_goes_on_as_itself_behind_one_that_was_killed(state: Path, port: int) -> None:  # noqa: F811
    entered = threading.Event()

    async def say_nothing(talk: Talk) -> None:
        entered.set()
        await talk.hold()

    with talking(say_nothing, MAKE, Say(text="It is made.")) as server:
        config = crib_with(server, state.parent)
        with asked_gateway(state, port, config) as (process, client):
            async with client as crib:
                await crib.ask("chat.send", {"message": "first", "idempotencyKey": "key-1"})
                assert await asyncio.to_thread(entered.wait, 120)
                process.kill()
                process.wait(timeout=60)
        question = await leave_question(state, port, config, "key-2")
        with asked_gateway(state, port, config) as (_, client):
            async with client as crib:
                await crib.ask("approvals.answer", {"id": question["id"], "answer": "once"})
                told = [event async for event in crib.follow("key-2")]
                assert (told[0].get("message"), told[-1].get("text")) == ("make it", "It is made."), told
                told = await crib.ask("chat.send", {"message": "first", "idempotencyKey": "key-1"})
                assert (told["status"], "stopped while this was being answered" in told["summary"]) == ("error", True)
        assert made(state) == ["made"]


async def test_a_no_given_while_there_is_no_gateway_is_not_asked_for_again(state: Path, port: int) -> None:  # noqa: F811
    with talking(MAKE, Say(text="Not made.")) as server:
        config = crib_with(server, state.parent)
        question = await leave_question(state, port, config)
        told = command(state, "approvals", "deny", str(question["id"]), "--config", str(config))
        assert (told.returncode, told.stderr) == (0, "")
        with asked_gateway(state, port, config) as (_, client):
            async with client as crib:
                *_, last = [event async for event in crib.follow("key-1")]
                assert (last["reason"], last["text"], await crib.ask("approvals.list")) == ("done", "Not made.", [])
        assert (made(state), len(server.asked)) == ([], 2)


async def test_of_two_calls_that_never_began_each_goes_on_with_its_own_answer(state: Path, port: int) -> None:  # noqa: F811
    two = Say(calls=tuple((f"call_{name}", "ls", f'{{"path": "{name}"}}') for name in ("here", "there")))
    (state.parent / "work" / "there").mkdir()
    with talking(two, Say(text="One of them.")) as server:
        config = crib_with(server, state.parent, "tools: {ask: [ls]}")
        await leave_question(state, port, config)  # about the first; the second waits for that
        with asked_gateway(state, port, config) as (_, client):
            async with client as crib:
                heard, answered = crib.events(), set[str]()
                while len(answered) < 2:
                    for question in await crib.ask("approvals.list"):
                        if question["id"] not in answered:
                            answer = "once" if "there" in question["shown"] else "no"
                            await crib.ask("approvals.answer", {"id": question["id"], "answer": answer})
                            answered.add(question["id"])
                    if len(answered) < 2:
                        await anext(heard)
                told = [event async for event in crib.follow("key-1")]
        done = {each["id"]: each["result"]["status"] for each in told if each["type"] == "tool_finished"}
        assert (done, told[-1]["text"]) == ({"call_here": "error", "call_there": "ok"}, "One of them.")


async def test_a_turn_whose_tools_were_a_programs_is_nobodys_to_go_on_with(state: Path, port: int) -> None:  # noqa: F811
    asked = {
        "content": [{"type": "text", "text": "make it"}], "sessionKey": "main", "idempotencyKey": "key-1",
        "tools": [{"name": "price", "description": "Say a price.", "parameters": {"type": "object", "properties": {}}}],
    }  # fmt: skip
    with talking(MAKE, Say(text="Never.")) as server:
        config = crib_with(server, state.parent)
        with asked_gateway(state, port, config) as (process, client):
            async with client as crib:
                heard = crib.events()
                asking = asyncio.ensure_future(crib.ask("chat.complete", asked))
                while not (questions := await crib.ask("approvals.list")):
                    await anext(heard)
                process.kill()
                process.wait(timeout=60)
                asking.cancel()
        with asked_gateway(state, port, config) as (_, client):
            async with client as crib:
                await crib.ask("approvals.answer", {"id": questions[0]["id"], "answer": "once"})
                *_, last = [event async for event in crib.follow("key-1")]
        assert (last["reason"], made(state), len(server.asked)) == ("error", [], 1)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize("meanwhile", ["the job stays", "the job is removed"])
async def test_the_turn_of_a_job_goes_on_while_there_is_the_job(
    state: Path,  # noqa: F811
    port: int,
    end: signal.Signals,
    meanwhile: str,
) -> None:
    job = {"schedule": {"everyMs": 86_400_000}, "payload": {"kind": "agentTurn", "message": "make it"}}
    more = call("write", '{"path": "more.txt", "content": "beyond the job"}')
    with talking(MAKE, more, Say(text="It is made.")) as server:
        config = crib_with(server, state.parent)
        with asked_gateway(state, port, config) as (process, client):
            async with client as crib:
                heard, made_job = crib.events(), await crib.ask("cron.add", {**job, "tools": {"allow": ["exec"]}})
                await crib.ask("cron.run", {"id": made_job["id"], "mode": "force"})
                while not (questions := await crib.ask("approvals.list")):
                    await anext(heard)
                process.send_signal(end)
                process.wait(timeout=60)
        stays = meanwhile == "the job stays"
        if not stays:
            assert command(state, "cron", "rm", made_job["id"], "--config", str(config)).returncode == 0
        with asked_gateway(state, port, config) as (_, client):
            async with client as crib:
                heard = crib.events()
                await crib.ask("approvals.answer", {"id": questions[0]["id"], "answer": "once"})
                while stays and (run := (await crib.ask("cron.runs", {"id": made_job["id"]}))["entries"][0]):
                    if run.get("status") == "ok":
                        break
                    await anext(heard)
                rows = (await crib.ask("sessions.list"))["sessions"]
                assert not any(each["running"] for each in rows)
        assert (made(state), len(server.asked)) == ((["made"], 3) if stays else ([], 1))
        assert not (state.parent / "work" / "more.txt").exists()


async def test_what_was_forbidden_meanwhile_is_refused_whatever_was_answered(
    state: Path,  # noqa: F811
    port: int,
) -> None:
    with talking(MAKE, Say(text="It may not be.")) as server:
        config = crib_with(server, state.parent)
        question = await leave_question(state, port, config)
        command(state, "approvals", "allow", str(question["id"]), "--config", str(config))
        crib_with(server, state.parent, "tools: {deny: [exec]}")
        with asked_gateway(state, port, config) as (_, client):
            async with client as crib:
                *_, last = [event async for event in crib.follow("key-1")]
        assert (last["text"], made(state)) == ("It may not be.", [])


async def test_nobody_goes_on_with_a_turn_that_still_waits_elsewhere(state: Path, port: int) -> None:  # noqa: F811
    with talking(MAKE, Say(text="It is made.")) as server:
        config = crib_with(server, state.parent)
        with asked_gateway(state, port, config) as (_, client):
            async with client as crib:
                question = await ask_and_wait(crib, "key-1")
                second = command(state, "gateway", "--port", "0", "--config", str(config))  # over the same store
                assert (second.returncode, "another gateway" in second.stderr) == (2, True)
                assert len(await crib.ask("approvals.list")) == 1
                told = command(state, "approvals", "allow", str(question["id"]), "--config", str(config), "--json")
                assert json.loads(told.stdout)["state"] == "allowed"
                *_, last = [event async for event in crib.follow("key-1")]
        assert (last["text"], made(state)) == ("It is made.", ["made"])
