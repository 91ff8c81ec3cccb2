"""`toolcrib node`: a second machine, played by a second process with a state, a folder and rules of its own."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests import prestarted
from tests.doors.talking import Say, call, crib_with, talking

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from websockets.asyncio.server import ServerConnection, serve

import toolcrib

from .test_near_and_far import gateway, state  # noqa: F401  a fixture
from .test_near_and_far import toolcrib as command
from .test_questions import asked_gateway, port  # noqa: F401  a fixture

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]

RUN = {"action": "run", "node": "bench"}


class Bench:
    """The second machine."""

    def __init__(self, folder: Path) -> None:
        self.work, self.state, self._config = folder / "bench", folder / "bench-state", folder / "bench.yaml"
        self.work.mkdir()
        self.configure()

    def configure(self, more: str = "") -> None:
        self._config.write_text(f"node: {{name: bench, location: {{latitude: 50.45, longitude: 30.52}}{more}}}\n")

    @contextmanager
    def start(self, *words: str) -> Iterator["subprocess.Popen[str]"]:
        """Start the node; it is connected."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TOOLCRIB_")}
        process = prestarted.Popen(
            [sys.executable, "-m", "toolcrib", "node", "--config", str(self._config), *words],
            stderr=subprocess.PIPE, text=True, cwd=self.work, env={**kept, "TOOLCRIB_STATE": str(self.state)},
        )  # fmt: skip
        try:
            assert process.stderr is not None
            assert "bench is a node of" in process.stderr.readline()
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.communicate()


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def pair(state: Path) -> str:  # noqa: F811
    told = command(state, "nodes", "pair", "--json")
    assert told.returncode == 0, told.stderr
    return str(json.loads(told.stdout)["code"])


def client(state: Path, url: str) -> toolcrib.GatewayClient:  # noqa: F811
    return toolcrib.connect(url, (state / "gateway.token").read_text().strip())


async def invoke(crib: toolcrib.GatewayClient, name: str, **more: Any) -> Any:
    return await crib.ask(
        "node.invoke", {"nodeId": "bench", "command": name, "idempotencyKey": os.urandom(8).hex(), **more}
    )


async def question_of(crib: toolcrib.GatewayClient) -> dict[str, Any]:
    """Return the question that is asked."""
    heard = crib.events()
    while not (found := await crib.ask("approvals.list")):
        await anext(heard)
    return dict(found[0])


async def test_a_node_is_paired_by_a_code_used_renamed_and_revoked(state: Path, bench: Bench) -> None:  # noqa: F811
    with gateway(state) as (_, url), bench.start("--gateway", url, "--code", pair(state)) as node:
        async with client(state, url) as crib:
            found = await invoke(crib, "system.which", params={"bins": ["sh", "no-such-program"]})
            assert list(found["payload"]["bins"]) == ["sh"]
            ran = await invoke(crib, "system.run", params={"command": ["ls"]})
            assert ran["payload"]["exitCode"] == 0
            with pytest.raises(toolcrib.ToolError, match="not allowlisted"):
                await invoke(crib, "location.get")  # on Linux only where gateway.nodes allows it
            assert command(state, "nodes", "rename", "bench", "the bench").stdout == "it is called the bench\n"
            began = time.monotonic()
            assert command(state, "nodes", "revoke", "the-bench").returncode == 0
            assert node.wait(timeout=60) == 2
            assert time.monotonic() - began < 30  # a second, and the time that the command itself takes here
            assert (await crib.ask("node.list"))["nodes"] == []
            assert node.stderr is not None
            assert "taken back" in node.stderr.read()
    with gateway(state) as (_, url), pytest.raises(AssertionError), bench.start("--gateway", url):
        pass  # its token counts no more


async def test_what_needs_a_yes_runs_as_it_was_shown_and_once(state: Path, bench: Bench) -> None:  # noqa: F811
    with gateway(state) as (_, url), bench.start("--gateway", url, "--code", pair(state)):
        async with client(state, url) as crib:
            with pytest.raises(toolcrib.ToolError, match="needs a person's yes"):
                await invoke(crib, "system.run", params={"command": ["touch", "made"]})
            slow = ["sh", "-c", "touch made; echo one; sleep 2; echo two"]
            calling = asyncio.ensure_future(crib.call("nodes", {**RUN, "command": slow}))
            question = await question_of(crib)
            assert all(word in question["shown"] for word in ("touch made; echo one", "bench ("))
            assert not (bench.work / "made").exists()
            await crib.ask("approvals.answer", {"id": question["id"], "answer": "once"})
            result = await calling
            assert (result["status"], "one\ntwo" in result["content"][0]["text"]) == ("ok", True)
            assert (bench.work / "made").exists()


def asked_on(bench: Bench) -> list[dict[str, Any]]:
    told = command(bench.state, "approvals", "list", "--json", cwd=bench.work)
    return list(json.loads(told.stdout)["questions"])


async def test_a_node_that_asks_here_takes_no_yes_of_the_gateways(state: Path, bench: Bench) -> None:  # noqa: F811
    bench.configure(", asks: here")
    with gateway(state) as (_, url), bench.start("--gateway", url, "--code", pair(state)):
        async with client(state, url) as crib:
            calling = asyncio.ensure_future(crib.call("nodes", {**RUN, "command": ["touch", "made"]}))
            while not (found := await asyncio.to_thread(asked_on, bench)):
                assert not calling.done()
            assert await crib.ask("approvals.list") == []
            assert command(bench.state, "approvals", "allow", found[0]["id"], cwd=bench.work).returncode == 0
            assert (await calling)["status"] == "ok"
            assert (bench.work / "made").exists()


async def test_no_word_of_a_gateway_makes_a_node_run_what_was_not_shown(bench: Bench) -> None:
    """A gateway that lies: it says yes itself, to something else, twice, and with what is no answer at all."""
    asked: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    answers: asyncio.Queue[Any] = asyncio.Queue()

    async def lie(socket: ServerConnection) -> None:
        await socket.send(json.dumps({"type": "event", "event": "connect.challenge", "payload": {"nonce": "n"}}))
        hello = json.loads(await socket.recv())
        greeting = {"auth": {"deviceToken": "t"}, "features": {}}
        await socket.send(json.dumps({"type": "res", "id": hello["id"], "ok": True, "payload": greeting}))
        while (said := await asked.get())[0]:
            name, params = said
            if name == "odd":
                odds: tuple[Any, ...] = (None, [], "x", {"id": 7}, {})
                for odd in odds:
                    await socket.send(json.dumps({"type": "event", "event": "node.invoke.request", "payload": odd}))
                continue
            told = {"id": "i", "nodeId": "x", "command": name, "paramsJSON": json.dumps(params), "timeoutMs": 1}
            key = params.get("key") if isinstance(params, dict) and "key" in params else os.urandom(8).hex()
            told["idempotencyKey"] = key
            await socket.send(json.dumps({"type": "event", "event": "node.invoke.request", "payload": told}))
            frame = json.loads(await socket.recv())
            await socket.send(json.dumps({"type": "res", "id": frame["id"], "ok": True, "payload": {}}))
            await answers.put(frame["params"])

    async def ask(name: str, params: Any) -> Any:
        await asked.put((name, params))
        told = await answers.get()
        return json.loads(told["payloadJSON"]) if told["ok"] else told["error"]["code"]

    touch = {"command": ["touch", "evil"]}
    async with serve(lie, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with ExitStack() as stack:
            starting = bench.start("--gateway", f"ws://127.0.0.1:{port}", "--code", "AAAA-BBBB")
            await asyncio.to_thread(stack.enter_context, starting)
            plan = (await ask("system.run.prepare", {"command": ["touch", "good"]}))["plan"]
            assert (
                await ask("system.run", {**touch, "approved": True, "approvalDecision": "allow-always"})
                == "NOT_APPROVED"
            )
            assert await ask("system.run", {**touch, "plan": "made-up"}) == "CHANGED"
            assert await ask("system.run", {**touch, "rawCommand": "touch good", "plan": plan}) == "CHANGED"
            assert await ask("system.run", {"command": ["touch", "good"], "plan": plan}) == "CHANGED"  # it was spent
            assert await ask("system.run", {"command": "touch evil"}) == "BAD_ARGUMENTS"
            assert await ask("system.run", {"command": ["ls"], "env": {"LD_PRELOAD": "./evil.so"}}) != "OK"
            assert await ask("system.run", {"command": ["ls"], "cwd": "/"}) not in ("OK", None)
            assert await ask("system.execApprovals.set", {"exec": {"security": "full"}}) == "DENIED"
            assert await ask("no.such", {}) == "NOT_FOUND"
            await asked.put(("odd", None))
            assert await ask("system.run", [1]) == "NOT_FOUND"
            assert (await ask("system.which", {"bins": ["sh"], "key": "k"}))["bins"]
            assert await ask("system.which", {"bins": ["sh"], "key": "k"}) == "REPEATED"
            assert list(bench.work.iterdir()) == []
            await asked.put(("", None))


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
async def test_a_script_that_changes_after_it_was_shown_is_refused(state: Path, bench: Bench) -> None:  # noqa: F811
    script = bench.work / "go.sh"
    script.write_text("#!/bin/sh\necho good > made\n")
    script.chmod(0o755)
    with gateway(state) as (_, url), bench.start("--gateway", url, "--code", pair(state)):
        async with client(state, url) as crib:
            calling = asyncio.ensure_future(crib.call("nodes", {**RUN, "command": ["./go.sh"]}))
            question = await question_of(crib)
            script.write_text("#!/bin/sh\necho evil > made\n")
            await crib.ask("approvals.answer", {"id": question["id"], "answer": "once"})
            result = await calling
            assert (result["status"], (bench.work / "made").exists()) == ("error", False)
            assert "not what was approved" in result["content"][0]["text"]


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_node_that_dies_mid_call_fails_it_within_its_deadline(
    state: Path,  # noqa: F811
    bench: Bench,
    end: signal.Signals,
) -> None:
    with gateway(state) as (_, url), bench.start("--gateway", url, "--code", pair(state)) as node:
        async with client(state, url) as crib:
            node.send_signal(signal.SIGSTOP)  # it is there, and says nothing
            if end == signal.SIGKILL:
                asking = asyncio.ensure_future(invoke(crib, "system.which", params={"bins": []}, timeoutMs=600_000))
                node.kill()
                with pytest.raises(toolcrib.ToolError, match=r"has gone before it answered|is not connected"):
                    await asking
            else:
                with pytest.raises(toolcrib.ToolError, match=r"did not answer system\.which within 0\.5 seconds"):
                    await invoke(crib, "system.which", params={"bins": []}, timeoutMs=500)


async def test_a_question_about_a_node_outlives_the_gateway(
    state: Path,  # noqa: F811
    port: int,  # noqa: F811
    bench: Bench,
) -> None:
    make = call("nodes", json.dumps({**RUN, "command": ["sh", "-c", "echo made >> made.txt"]}))
    with talking(make, Say(text="It is made.")) as server:
        config = crib_with(server, state.parent)
        url = f"ws://127.0.0.1:{port}"
        with (
            asked_gateway(state, port, config) as (process, far),
            bench.start("--gateway", url, "--code", pair(state)),
        ):
            async with far as crib:
                await crib.ask("chat.send", {"message": "make it", "idempotencyKey": "key-1"})
                question = await question_of(crib)
                process.kill()
                process.wait(timeout=60)
            with asked_gateway(state, port, config) as (_, far):
                async with far as crib:
                    await crib.ask("approvals.answer", {"id": question["id"], "answer": "once"})
                    *_, last = [event async for event in crib.follow("key-1")]
                    assert (last["reason"], last["text"]) == ("done", "It is made.")
                    assert (bench.work / "made.txt").read_text() == "made\n"
