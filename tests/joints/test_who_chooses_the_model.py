"""Which model answers is the owner's to choose: whoever else asks gets the configured one, however they ask."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.backends.models.servers import Say, Server, serving
from tests.doors.gateway.world import TOKEN, Client, World, client_of, device, gateway_of
from tests.doors.talking import in_turn

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

GUEST = "dt-1111-dt-1111-dt"
OWN = ["default", "main", "small:one", "one", " Small:One ", ""]
OTHERS = ["big:one", "small:two", "offline:rules", "ollama:other", "openai:o3-pro", "main:x", "toolcrib/x"]


class Guest:
    """Somebody with a device that may write, and nothing else."""

    def __init__(self, client: Client, http: httpx2.AsyncClient) -> None:
        self.client, self.http = client, http

    async def ask(self, method: str, **params: Any) -> str:
        """Return what a method is refused with, "" where it is not."""
        answer = await self.client.ask(method, params)
        payload = answer.get("payload") or {}
        went_well = answer["ok"] and not (method == "tools.call" and payload["status"] == "error")
        return "" if went_well else json.dumps(payload or answer["error"])

    async def post(self, path: str, **body: Any) -> str:
        answer = await self.http.post(path, json=body)
        return "" if answer.status_code == 200 else f"{answer.status_code} {answer.text}"


def ask_mcp(method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


Way = Callable[[Guest, str], Awaitable[str]]
SPAWN = {"task": "look"}
WAYS: dict[str, Way] = {
    "chat.send": lambda who, word: who.ask("chat.send", message="hi", idempotencyKey=word or "k", model=word),
    "completions": lambda who, word: who.post(
        "/v1/chat/completions", model=word, messages=[{"role": "user", "content": "hi"}]
    ),
    "responses": lambda who, word: who.post("/v1/responses", model=word, input="hi"),
    "chat.complete": lambda who, word: who.ask(
        "chat.complete", sessionKey="main", content=[{"type": "text", "text": "hi"}], model=word
    ),
    "a subagent": lambda who, word: who.ask("subagents.spawn", **SPAWN, model=word),
    "a subagent's tool": lambda who, word: who.ask("tools.call", tool="sessions_spawn", args={**SPAWN, "model": word}),
}


@asynccontextmanager
async def guest_at(models: dict[str, Any] | None = None) -> AsyncIterator[tuple[Guest, World, Server]]:
    async with serving(in_turn(Say(text="done"))) as server:
        provider = {"baseUrl": server.base_url, "apiKey": "k"}
        rules = {"deny": ["write"], "byProvider": {"small": {"deny": ["exec"]}}}
        config = {
            "models": {"default": "small:one", "small": provider, "big": provider, **(models or {})},
            "tools": rules,
            "channels": {"device": {"direct": {"tools": {"allow": ["*"]}}}},
        }
        async with gateway_of(config, devices=[device("p", GUEST, "operator.write")]) as world:
            headers, base = {"authorization": f"Bearer {GUEST}"}, f"http://127.0.0.1:{world.port}"
            async with client_of(world, GUEST) as client, httpx2.AsyncClient(base_url=base, headers=headers) as http:
                yield Guest(client, http), world, server


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_a_guest_names_no_other_model_in_any_way(way: Way) -> None:
    async with guest_at() as (guest, _, server):
        for word in OTHERS:
            told = await way(guest, word)
            assert told, word
            if not word.startswith("toolcrib"):
                assert "only the owner chooses the model" in told, word
        assert server.asked == []


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
async def test_the_names_of_the_configured_model_are_no_choice(way: Way) -> None:
    async with guest_at() as (guest, _, server):
        assert [await way(guest, word) for word in OWN] == [""] * len(OWN)
    assert {each.body["model"] for each in server.asked} == {"one"}


async def test_what_rules_say_of_the_configured_model_binds_a_guest_at_every_door() -> None:
    pytest.importorskip("mcp", reason="the extra mcp is not installed")
    async with guest_at() as (guest, _, _server):
        known = {each["name"] for each in (await guest.client.get("tools.catalog"))["tools"]}
        guest.http.headers["accept"] = "application/json, text/event-stream"
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        begun = await guest.http.post("/mcp", json=ask_mcp("initialize", hello), timeout=60)
        session = {"mcp-session-id": begun.headers["mcp-session-id"]}
        told = await guest.http.post("/mcp", json=ask_mcp("tools/list", {}), headers=session)
        listed = json.loads(told.text.partition("data: ")[2])["result"]["tools"]
    assert {each["name"] for each in listed} == known - {"find_tools"}  # which is for turns of ours
    assert not {"exec", "write"} & known


PICTURE = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize("word", ["big:gpt-4o", "small:gpt-4o", "big:one", "openai:gpt-4o"])
async def test_a_guest_names_no_model_to_look_at_a_picture_nor_to_ask_what_it_would_have(word: str) -> None:
    async with guest_at() as (guest, _, server):
        for told in (
            await guest.ask("tools.call", tool="image", args={"image": PICTURE, "model": word}),
            await guest.ask("image.describe", pictures=[PICTURE.rpartition(",")[2]], model=word),
            await guest.ask("tools.explain", tool="exec", model=word),
            await guest.ask("tools.list", model=word),
        ):
            assert "only the owner chooses the model" in told
        assert server.asked == []


async def test_the_model_that_is_configured_to_look_may_be_named() -> None:
    async with guest_at(models={"image": "big:gpt-4o"}) as (guest, _, server):
        for word in ("big:gpt-4o", "gpt-4o", "default"):
            assert await guest.ask("tools.call", tool="image", args={"image": PICTURE, "model": word}) == ""
        assert [each.body["model"] for each in server.asked] == ["gpt-4o"] * 3


async def test_sessions_are_switched_by_the_owner_alone() -> None:
    async with guest_at() as (guest, _, _server):
        assert "missing scope" in await guest.ask("sessions.patch", key="main", model="big:one")
        assert "missing scope" in await guest.ask("sessions.switch", key="main", model="big:one")


async def test_the_owner_names_any_model_that_there_is(tmp_path: Path) -> None:
    async with guest_at() as (_, world, server), client_of(world, TOKEN) as owner:
        for number, word in enumerate(("big:two", "one")):
            await owner.get("chat.send", {"message": "hi", "idempotencyKey": f"{number}", "model": word})
            await owner.wait_for("chat", runId=f"{number}", state="final")
        assert [each.body["model"] for each in server.asked] == ["two", "one"]
        told = await owner.ask("chat.send", {"message": "hi", "idempotencyKey": "9", "model": "nowhere:x"})
        assert "there is no model 'nowhere:x' here" in told["error"]["message"]


async def test_a_job_of_a_guest_has_the_configured_model() -> None:
    async with guest_at() as (guest, _, _server):
        for word in (*OTHERS[:3], "default"):
            payload = {"kind": "agentTurn", "message": "x", "model": word}
            job = {"schedule": {"everyMs": 3_600_000}, "sessionTarget": "isolated", "payload": payload}
            told = await guest.client.get("tools.call", {"tool": "cron", "args": {"action": "add", "job": job}})
            assert ("only the owner chooses the model" in json.dumps(told)) is (word != "default")
            assert told["status"] == ("ok" if word == "default" else "error")
