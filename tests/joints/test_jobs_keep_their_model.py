"""What a model wants done later is bound by the rules about that model, whichever model does it then."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.models.servers import Say, serving
from tests.doors.talking import in_turn
from toolcrib import OWNER, Caller, Crib

pytestmark = pytest.mark.anyio

DONE = Say(text="done")
WRITE = Say(calls=(("w", "write", '{"path": "a.txt", "content": "x"}'),))
LATER = {"schedule": {"kind": "every", "everyMs": 3_600_000}, "sessionTarget": "isolated"}
WHEN = {"tool": "write", "when": {"path": "**"}}
BOUND: dict[str, dict[str, Any]] = {
    "deny": {"tools": {"byProvider": {"weak": {"deny": ["write"]}}}},
    "deny of a group": {"tools": {"byProvider": {"weak": {"deny": ["group:fs"]}}}},
    "ask": {"tools": {"byProvider": {"weak": {"ask": ["group:fs"]}}}},
    "ask of the exact model": {"tools": {"byProvider": {"weak/m": {"ask": ["write"]}}}},
    "deny by an argument": {"tools": {"byProvider": {"weak": {"deny": [WHEN]}}}},
    "ask by an argument": {"tools": {"byProvider": {"weak": {"ask": [WHEN]}}}},
    "a profile": {"tools": {"byProvider": {"weak": {"profile": "minimal", "alsoAllow": ["cron"]}}}},
    "an allow list": {"tools": {"byProvider": {"weak": {"allow": ["cron", "read"]}}}},
    "of the agent": {"agents": {"main": {"tools": {"byProvider": {"weak": {"ask": ["write"]}}}}}},
}
FREE: dict[str, dict[str, Any]] = {
    "no rule": {},
    "another model's": {"tools": {"byProvider": {"other": {"deny": ["write"]}, "weak/n": {"ask": ["write"]}}}},
    "another tool's": {"tools": {"byProvider": {"weak": {"deny": ["edit"]}}}},
    "another argument's": {"tools": {"byProvider": {"weak": {"deny": [{**WHEN, "when": {"path": "b*"}}]}}}},
}


@asynccontextmanager
async def two_models(folder: Path, rules: dict[str, Any], *acts: Say) -> AsyncIterator[Crib]:
    """Open a crib in which one provider is weak and the other strong; both say these in turn."""
    (folder / "work").mkdir()
    async with serving(in_turn(*acts)) as server:
        models = {"default": "weak:m", **{name: {"baseUrl": server.base_url} for name in ("weak", "strong")}}
        agents = {"main": {}, "other": {"model": "strong:m"}, **rules.get("agents", {})}
        config = {"workspace": {"root": str(folder / "work")}, "models": models, **rules, "agents": agents}
        async with toolcrib.open(config, state=folder / "state", env={}) as crib:
            yield crib


def add(**payload: Any) -> Say:
    job = {**LATER, "payload": {"kind": "agentTurn", "message": "write it", **payload}}
    return Say(calls=(("c", "cron", json.dumps({"action": "add", "job": job})),))


async def run_only_job(crib: Crib) -> None:
    (job,) = (await crib.ask("cron.list", {}, caller=OWNER))["jobs"]
    await crib.ask("cron.run", {"id": job["id"], "mode": "force", "wait": True}, caller=OWNER)


@pytest.mark.parametrize("rule", [*BOUND, *FREE])
async def test_a_job_does_by_another_model_what_its_maker_might(rule: str, tmp_path: Path) -> None:
    async with two_models(tmp_path, {**BOUND, **FREE}[rule], add(model="strong:m"), DONE, WRITE, DONE) as crib:
        await crib.turn("remind me", caller=OWNER).end()
        await run_only_job(crib)
        assert (tmp_path / "work" / "a.txt").exists() is (rule in FREE)


async def test_a_job_that_a_model_rewrites_is_bound_as_that_is(tmp_path: Path) -> None:
    async with two_models(tmp_path, BOUND["ask"], WRITE, DONE) as crib:
        job = {**LATER, "payload": {"kind": "agentTurn", "message": "look", "model": "strong:m"}}
        made = await crib.ask("cron.add", {"job": job}, caller=OWNER)
        weak = replace(OWNER, provider="weak", model="m", session="agent:main:main")
        change = {"payload": {"kind": "agentTurn", "message": "write it"}}
        await crib.belt(weak).call("cron", {"action": "update", "jobId": made["id"], "patch": change})
        await run_only_job(crib)
        assert not (tmp_path / "work" / "a.txt").exists()


@pytest.mark.parametrize("by", ["a person", "the model"])
async def test_a_word_that_is_answered_at_once_is_bound_likewise(by: str, tmp_path: Path) -> None:
    """`wake` has the main session answer by its own model, which may be the strong one."""
    async with two_models(tmp_path, {**BOUND["ask"], "agents": {"main": {"model": "strong:m"}}}, WRITE, DONE) as crib:
        person = Caller(owner=True, session="agent:main:main")
        caller = person if by == "a person" else replace(person, provider="weak", model="m")
        await crib.ask("wake", {"text": "write it", "mode": "now"}, caller=caller)
        await crib.chat.settle(20.0)
        assert (tmp_path / "work" / "a.txt").exists() is (by == "a person")


async def test_explain_says_whose_rule_binds_a_job(tmp_path: Path) -> None:
    async with two_models(tmp_path, BOUND["ask"], add(model="strong:m"), DONE) as crib:
        await crib.turn("remind me", caller=OWNER).end()
        (job,) = (await crib.ask("cron.list", {}, caller=OWNER))["jobs"]
        told = await crib.ask("cron.explain", {"id": job["id"], "tool": "write"}, caller=OWNER)
        assert told["tools"][0]["decision"] == "ask"
        assert "weak" in json.dumps(told["tools"][0])
