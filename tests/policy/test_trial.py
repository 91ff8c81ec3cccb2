"""Proofs and comparisons of policies: no caller, however odd, contradicts one, and each no names who has it."""

import random
from collections.abc import Mapping
from typing import Any

import pytest
from benchmarks.prove import HOUSES, people_of, trial_of
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcrib.app import Crib
from toolcrib.define.caller import Caller, Sender
from toolcrib.policy.callers import ChannelNames, list_people, list_places
from toolcrib.policy.match import Inventory, list_meant
from toolcrib.policy.resolve import resolve
from toolcrib.policy.trial import Claim, Proof, Trial, find_masked_changes, prove, say

from . import worlds
from .conftest import crib_of
from .worlds import Config

ENTRIES = [each for each in worlds.ENTRIES if each not in ("no_such_tool", "group:nothing")]
ROOMS = ("g/a", "g/b", "g/*", "*/a", "h/c", "*")
CAMPAIGN, CHUNKS = 20_000, 20


def rich_config(chance: random.Random) -> Config:
    """A world with what the others lack: rooms in spaces, topics, accounts, owners of a channel, sandboxed agents."""
    made = worlds.config(chance)
    channels = made.setdefault("channels", {})
    if worlds.coin(chance):
        channels["discord"] = {"groups": worlds.named(chance, ROOMS, worlds.group)}
    telegram = channels.get("telegram", {})
    if telegram and worlds.coin(chance):
        telegram["groups"]["-1:5"] = worlds.group(chance)
        telegram["accounts"] = {"work": {"groups": worlds.named(chance, worlds.GROUPS, worlds.group)}}
        telegram["owners"] = ["id:7"]
    for agent in made.get("agents", {}).values():
        agent["sandbox"] = chance.choice(["off", "all", "non-main"])
    if worlds.coin(chance):
        providers = made["tools"].setdefault("byProvider", {})
        providers |= worlds.named(chance, ("azure", "/gpt", "openrouter/openai/gpt", "openai-codex/gpt"), worlds.scope)
    return made


def rich_caller(chance: random.Random) -> Caller:
    made = worlds.caller(chance)
    extra: Mapping[str, Any] = {
        "channel": chance.choice([made.channel, "discord", "Telegram"]),
        "group": chance.choice([made.group, made.group, "g/a", "g/z", "h/c", "q/a", "-1:5", "-1:topic:6"]),
        "account": chance.choice([None, "work", "WORK", "home"]),
        "provider": chance.choice([made.provider, "azure", "openrouter", "", "claude"]),
        "model": chance.choice([made.model, "openai/gpt", "GPT"]),
        "session": chance.choice([made.session, "agent:main:discord:channel:b", "agent:desk:main", "main"]),
    }
    return Caller(**{**{name: getattr(made, name) for name in Caller.__slots__}, **extra})


def trial_in(crib: Crib) -> Trial:
    return Trial(
        settings=crib.policy,
        tools=crib.catalog.tools,
        groups=crib.catalog.groups,
        belt_for=lambda caller: crib.belt(caller).selection,
    )


def claim_in(chance: random.Random) -> Claim:
    return Claim(
        entry=chance.choice(ENTRIES),
        excepting=tuple(worlds.some(chance, ("owner", "id:8", "7", "username:eve"), 2)),
        channel=chance.choice([None, None, "telegram", "slack", "discord"]),
        group=chance.choice([None, None, None, "-1", "-3", "g/a", "g/z"]),
    )


def answer(claim: Claim, trial: Trial) -> Proof:
    """Ask as the command does."""
    policy = trial.settings
    asked = ChannelNames(groups=(claim.group,) if claim.group else ())
    named = {claim.channel: asked} if claim.channel else dict.fromkeys(policy.channels, asked)
    return prove(claim, trial, list_people([policy], list_places([policy], named)))


def check_proof(chance: random.Random, callers: int = 40) -> None:
    config, claim = rich_config(chance), claim_in(chance)
    trial = trial_in(crib_of(config))
    proof, about = answer(claim, trial), f"{claim}\n{config}"
    if proof.counterexample is not None:
        caller, verdict = proof.counterexample
        assert claim.covers(resolve(trial.settings, caller)), about
        assert trial.belt_for(caller).verdicts[verdict.tool] == verdict, about
        assert verdict.decision != "deny", about
        assert verdict.tool in list_meant(claim.entry, Inventory(trial.tools, trial.groups)), about
        return
    meant = list_meant(claim.entry, Inventory(trial.tools, trial.groups))
    for _ in range(callers):
        caller = rich_caller(chance)
        if claim.covers(resolve(trial.settings, caller)):
            assert meant.isdisjoint(trial.belt_for(caller).tools), f"{caller}\n{about}"


def check_comparison(chance: random.Random, callers: int = 25) -> None:
    config = rich_config(chance)
    path, named = chance.choice(worlds.rule_paths(config)), chance.choice(ENTRIES)
    entry = {"tool": named, "when": chance.choice(worlds.CONDITIONS)} if worlds.coin(chance) else named
    trials = [trial_in(crib_of(each)) for each in (config, worlds.with_more(config, path, entry))]
    people = list_people([each.settings for each in trials], list_places([each.settings for each in trials], {}))
    found = set[tuple[str, str, str]]()
    about = f"deny {entry} at {path}\n{config}"
    for name, caller in find_masked_changes(trials[0], trials[1], people):
        before, after = (say(each.belt_for(caller), name) for each in trials)
        assert before != after, f"{name} {caller}\n{about}"
        found.add((name, before[0], after[0]))
    for _ in range(callers):
        caller = rich_caller(chance)
        told = [(name, *(say(each.belt_for(caller), name) for each in trials)) for name in trials[0].tools]
        changed = {(name, old[0], new[0]) for name, old, new in told if old != new}
        assert changed <= found, f"{caller}\n{about}"


@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", [check_proof, check_comparison])
@settings(max_examples=5, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(chance=st.randoms(use_true_random=False))
def test_no_caller_contradicts_it_in_worlds_that_can_be_made_smaller(check: Any, chance: random.Random) -> None:
    check(chance)


@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", [check_proof, check_comparison])
@pytest.mark.parametrize("seed", range(2))
def test_no_caller_contradicts_it_in_seeded_worlds(check: Any, seed: int) -> None:
    for at in range(5):
        check(random.Random(f"{seed}:{at}"))


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_no_caller_contradicts_it_in_many_worlds(chunk: int) -> None:
    for at in range(CAMPAIGN // CHUNKS):
        check_proof(random.Random(f"{chunk}:{at}"), callers=200)
        check_comparison(random.Random(f"{chunk}:{at}"), callers=50)


@pytest.mark.parametrize(
    ("house", "claim", "holds"),
    [
        ("nothing but an owner", Claim(entry="gateway", excepting=("owner",)), True),
        ("nothing but an owner", Claim(entry="exec", excepting=("owner",)), True),
        ("nothing but an owner", Claim(entry="message", excepting=("owner",)), False),
        ("nothing but an owner", Claim(entry="exec", channel="telegram"), False),
        ("a family", Claim(entry="exec", excepting=("owner",), channel="telegram"), True),
        ("a family", Claim(entry="exec", channel="telegram"), False),
        ("a family", Claim(entry="effect:execute", excepting=("id:1",), channel="telegram"), False),
        ("a family", Claim(entry="group:fs", excepting=("owner",), channel="telegram"), True),
        ("a family", Claim(entry="message", excepting=("owner", "id:2"), channel="telegram"), False),
        ("a team of forty in ten groups", Claim(entry="exec", excepting=("owner",), channel="slack"), True),
        ("a team of forty in ten groups", Claim(entry="write", excepting=("owner",), group="-1003"), False),
        ("a team of forty in ten groups", Claim(entry="nodes"), True),
        ("agents and providers", Claim(entry="cron"), True),
        ("agents and providers", Claim(entry="process"), False),
        ("a company of both", Claim(entry="exec", excepting=("owner",), channel="telegram"), True),
        ("a server of rooms", Claim(entry="exec", excepting=("owner",), group="guild/help"), False),
        ("a server of rooms", Claim(entry="exec", excepting=("owner", "discord:id:7"), group="guild/else"), True),
        ("two accounts", Claim(entry="effect:execute", excepting=("owner",), channel="whatsapp"), False),
        ("plugins and servers", Claim(entry="shop_tool_1"), True),
        ("plugins and servers", Claim(entry="shop_tool_2"), False),
        ("plugins and servers", Claim(entry="github__delete_repo*", excepting=("owner",)), True),
        ("sandboxes", Claim(entry="exec", excepting=("owner",), channel="irc", group="-1000"), True),
        ("subagents within subagents", Claim(entry="exec"), False),
    ],
)
def test_a_house_keeps_what_it_promises_and_no_more(house: str, claim: Claim, holds: bool) -> None:
    trial = trial_of(HOUSES[house])
    proof = answer(claim, trial)
    assert (proof.counterexample is None) == holds, proof
    assert proof.classes > 0
    if proof.counterexample is not None:
        caller, verdict = proof.counterexample
        assert trial.belt_for(caller).verdicts[verdict.tool].decision == verdict.decision != "deny"


@pytest.mark.parametrize("house", HOUSES)
def test_everybody_in_a_house_is_judged_as_one_of_those_that_are_told_apart(house: str) -> None:
    trial = trial_of(HOUSES[house])
    claims = [Claim(entry=entry, excepting=("owner",)) for entry in ("exec", "message", "web_fetch", "gateway")]
    people = people_of(trial)
    channels = [None, *trial.settings.channels]
    groups = [None, *(group for each in trial.settings.channels.values() for group in each.groups), "elsewhere"]
    chance = random.Random(house)
    for claim in claims:
        if prove(claim, trial, people).counterexample is not None:
            continue
        for _ in range(100):
            caller = Caller(
                agent=chance.choice(["main", *trial.settings.agents]),
                channel=chance.choice(channels),
                group=chance.choice(groups),
                sender=Sender(id=str(chance.randint(1, 45))),
                provider=chance.choice([None, "openai", "google", "ollama", "azure"]),
            )
            if claim.covers(resolve(trial.settings, caller)):
                assert claim.entry not in trial.belt_for(caller).tools, caller


def test_somebody_who_need_not_be_asked_is_named_before_one_who_is() -> None:
    trial = trial_in(crib_of({"tools": {"ask": ["exec"]}, "agents": {"free": {"tools": {"profile": "full"}}}}))
    caller, verdict = answer(Claim(entry="group:runtime"), trial).counterexample or (None, None)
    assert verdict is not None
    assert (verdict.tool, verdict.decision) == ("process", "allow")
    assert caller is not None
    assert caller.agent == "main"
    assert caller.owner


@pytest.mark.parametrize(
    ("config", "claim", "field", "value"),
    [
        ({"agents": {"main": {"tools": {"deny": ["exec"]}}}}, Claim(entry="exec"), "agent", "codebase_investigator"),
        ({"tools": {"byProvider": {"azure": {"deny": ["apply_patch"]}}}}, Claim(entry="apply_patch"), "agent", "main"),
        ({"tools": {"byProvider": {"openai": {"deny": ["apply_patch"]}}}}, Claim(entry="apply_patch"), "", None),
        (
            {
                "channels": {
                    "irc": {"groups": {"*": {"tools": {"allow": []}}}, "accounts": {"work": {"groups": {"#a": {}}}}}
                }
            },
            Claim(entry="exec", group="#b"),
            "account",
            "work",
        ),
        (
            {"channels": {"irc": {"groups": {"#a": {"toolsBySender": {"bob": {}, "*": {"allow": []}}}}}}},
            Claim(entry="exec", group="#a"),
            "sender",
            Sender(id="bob"),
        ),
    ],
)
def test_who_is_only_reached_by_a_turn_of_its_own_is_found(
    config: Config, claim: Claim, field: str, value: Any
) -> None:
    found = answer(claim, trial_in(crib_of(config))).counterexample
    assert (found is None) == (not field)
    assert found is None or getattr(found[0], field) == value
