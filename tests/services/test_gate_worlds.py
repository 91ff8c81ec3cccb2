"""What holds for every call in every world of the gate: nothing that narrows lets more through, and explain says what
happens. A few hundred worlds every day, 100,000 with `./check full`; `gate_worlds.py` says what a world is.
"""

import asyncio
import json
import logging
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.policy import worlds
from toolcrib.agent.replay import judge_from
from toolcrib.backends.stores.record import body_of
from toolcrib.define.caller import OWNER
from toolcrib.define.record import Judged

from .gate_worlds import CALLS, JURY, RANKS, WORDS, Came, House, World, by_others, entry, outside_entry, quota, world

CAMPAIGN, CHUNKS = 100_000, 100
BLOCKED = {"argument": "denied", "taint": "blocked"}  # by a layer that speaks about a call before guards are heard


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    """Guards that fail here fail on purpose."""
    log = logging.getLogger("toolcrib")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    yield
    log.setLevel(before)


# What may be added to a world and never lets more through


def one_more_deny(base: World, chance: random.Random) -> World:
    return _with_entry(base, chance, "deny")


def one_more_ask(base: World, chance: random.Random) -> World:
    return _with_entry(base, chance, "ask")


def _with_entry(base: World, chance: random.Random, key: str) -> World:
    path = chance.choice(worlds.rule_paths(base.config))
    return replace(base, config=worlds.with_more(base.config, path, entry(chance), key))


def one_more_quota(base: World, chance: random.Random) -> World:
    quotas = [*base.config.get("quotas", ()), quota(chance)]
    chance.shuffle(quotas)
    return replace(base, config={**base.config, "quotas": quotas})


def one_more_host_denied(base: World, chance: random.Random) -> World:
    tools = base.config["tools"]
    hosts = {**tools.get("hosts", {}), "deny": [*tools.get("hosts", {}).get("deny", ()), "*.example.com"]}
    return replace(base, config={**base.config, "tools": {**tools, "hosts": hosts}})


def one_more_rule_about_outside(base: World, chance: random.Random) -> World:
    key = chance.choice(("askAfterOutside", "denyAfterOutside"))
    return replace(base, config=worlds.with_more(base.config, ("tools",), outside_entry(chance), key))


def one_more_word(base: World, chance: random.Random) -> World:
    words = [*base.words, chance.choice([word for word in WORDS if word != "rewrite"])]
    chance.shuffle(words)
    return replace(base, words=tuple(words))


def no_grant(base: World, chance: random.Random) -> World:
    """What a grant does is seen by how much less there is without it."""
    return replace(base, granted=())


def a_member_of_a_denied_role(base: World, chance: random.Random) -> World:
    """A role that only a rule names which gives no more than that of everybody."""
    sender = base.caller.sender
    roles = {**base.config.get("roles", {}), "barred": [f"id:{sender.id}"] if sender and sender.id else []}
    channels = base.config.get("channels", {})
    groups = {
        id: {**each, "toolsBySender": {**each["toolsBySender"], "role:barred": {"allow": []}}}
        for id, each in channels.get("telegram", {}).get("groups", {}).items()
        if "toolsBySender" in each
    }
    if not groups:
        return replace(base, config={**base.config, "roles": roles})
    telegram = {**channels["telegram"], "groups": {**channels["telegram"]["groups"], **groups}}
    return replace(base, config={**base.config, "roles": roles, "channels": {**channels, "telegram": telegram}})


def one_more_ask_of_others(base: World, chance: random.Random) -> World:
    roles = {**base.config.get("roles", {}), "jury": [f"id:{each}" for each in JURY]}
    path = chance.choice(worlds.rule_paths(base.config))
    return replace(base, config=worlds.with_more({**base.config, "roles": roles}, path, by_others(chance), "ask"))


def wanted_through_another_model(base: World, chance: random.Random) -> World:
    """What is done later by any model is bound as the one was that wanted it."""
    through = (*base.caller.made_through, chance.choice(("openai:gpt", "anthropic:other", "google:x")))
    return replace(base, caller=replace(base.caller, made_through=through))


def other_keys(base: World, chance: random.Random) -> World:
    return replace(base, env={})


Change = Callable[[World, random.Random], World]
NARROWING: tuple[Change, ...] = (
    one_more_deny,
    one_more_ask,
    one_more_quota,
    one_more_host_denied,
    one_more_rule_about_outside,
    one_more_word,
    one_more_ask_of_others,
    wanted_through_another_model,
    no_grant,
    a_member_of_a_denied_role,
)
SAME: tuple[Change, ...] = (other_keys,)


async def check(chance: random.Random, changes: tuple[Change, ...] = (*NARROWING, *SAME)) -> None:
    base = world(chance)
    change = chance.choice(changes)
    changed = change(base, chance)
    try:
        beside = chance.sample(range(len(CALLS)), len(CALLS) // 2)
        before, after = await see(base, beside), await see(changed, beside)
        assert after.tools <= before.tools, f"{change.__name__} adds {after.tools - before.tools}"
        # fewer calls may have been made before, so that more of a quota is left
        assert not after.came.ran or before.came.ran or before.came.by == "quota", f"{change.__name__} adds a call"
        for at, (decision, _) in after.decisions.items():
            was, by = before.decisions[at]
            is_less = RANKS[decision] >= RANKS[was] or by == "quota"
            assert is_less, f"{change.__name__}: {CALLS[at]} is {decision}, and was {was}"
            if change is no_grant and decision != was and "quota" not in (by, after.decisions[at][1]):
                is_bound = any(each == at or kept == "conditional" for each, kept in base.granted)
                assert (was, by, decision, is_bound) == ("allow", "grant", "ask", True), "a grant does more"
        if change in SAME:
            assert (after.tools, after.decisions, after.came) == (before.tools, before.decisions, before.came)
    except AssertionError as error:
        error.add_note(f"{change.__name__}\n{base}\n{changed}")
        raise


class Seen:
    """What is seen of a world: the tools of the caller, what explain says of every call, what became of one."""

    def __init__(self, house: House) -> None:
        self.tools = set(house.belt().tools)
        self.decisions = dict[int, tuple[str, str | None]]()
        self.came = Came(False)


async def see(base: World, beside: Collection[int]) -> Seen:
    """Live in a world, and see that explain says what happens there; of calls `beside` it is asked, too."""
    house = House(base)
    await house.live()
    seen = Seen(house)
    name, args = base.call
    if house.belt().selection.find(name) is None:
        seen.came = await house.make_call()
        assert seen.came.code == "not_found"
        return seen
    told, at_least = dict[str, Any](), await house.told(name)
    near = [(at, given) for at, (other, given) in enumerate(CALLS) if other == name and (given is args or at in beside)]
    for at, given in near:
        said = await house.told(name, given)
        assert RANKS[at_least["decision"]] <= RANKS[said["decision"]], f"{at_least} is no milder than {said}"
        seen.decisions[at] = said["decision"], said["layer"]
        told = said if given is args else told
    rewritten = await house.told(name, {**args, "path": "docs/a.md"}) if "path" in args else told
    seen.came = await house.make_call()
    if "rewrite" in base.words and rewritten["decision"] == "deny":
        assert not seen.came.ran, f"explain said {rewritten} of what it was rewritten to"
    if told["decision"] == "deny":
        assert not seen.came.ran, f"explain said {told}"
    # what was granted, or rewritten, may answer the question of a guard, or raise another one
    if "rewrite" not in base.words and not ("ask" in base.words and base.granted) and told["layer"] != "hosts":
        assert seen.came == foretell(told, base), f"explain said {told}, and it came to {seen.came}"
    return seen


def foretell(told: Mapping[str, Any], base: World) -> Came:
    """Return what has to become of a call of which explain says this."""
    decision, layer = told["decision"], told["layer"]
    if decision == "deny" and layer not in ("quota", "hosts"):
        return Came(False, layer if layer in BLOCKED else "", BLOCKED.get(layer, "denied"))
    for word in base.words:
        if word in ("deny", "silent"):
            return Came(False, f"says {word}", "blocked")
    if layer == "quota":
        return Came(False, "quota", "quota")
    is_asked = decision == "ask" or (layer != "grant" and "ask" in base.words)
    return Came(False, "", "not_approved") if is_asked and base.human != "yes" else Came(True)


def run(seed: str, count: int) -> None:
    async def live() -> None:
        for at in range(count):
            await check(random.Random(f"{seed}:{at}"))

    asyncio.run(live())


@pytest.mark.parametrize("seed", range(4))
def test_in_seeded_worlds_nothing_narrow_lets_more_through_and_explain_says_what_happens(seed: int) -> None:
    run(f"day {seed}", 75)


def test_in_seeded_worlds_what_rules_say_of_calls_follows_again_from_the_record() -> None:
    async def live() -> int:
        derived = 0
        for at in range(120):
            house = House(world(random.Random(f"record:{at}")))
            await house.live()
            await house.make_call()
            for row in house.record.entries:
                if isinstance(row, Judged) and row.basis.grounds is not None:
                    judge = judge_from(json.loads(row.basis.grounds.text))
                    assert judge(json.loads(body_of(row)[1])) == "", f"{row} in {house.world}"
                    derived += 1
        return derived

    assert asyncio.run(live()) > 0


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_in_a_hundred_thousand_worlds_it_is_so(chunk: int) -> None:
    run(f"{chunk}", CAMPAIGN // CHUNKS)


DOCS = {"tool": "read", "when": {"path": "docs/**"}}
READ = CALLS[0]
HERE = replace(OWNER, session="agent:main:a")
PAGE = ("web:example.org/page",)


@pytest.mark.parametrize(
    ("config", "more", "said"),
    [
        ({"tools": {"deny": [DOCS], "denyAfterOutside": ["read"]}}, {"sources": PAGE}, ("deny", "argument")),
        ({"tools": {"ask": [DOCS], "denyAfterOutside": ["read"]}}, {"sources": PAGE}, ("deny", "taint")),
        ({"tools": {"ask": ["read"], "deny": [{"tool": "read", "when": {"taint": "web"}}]}}, {"sources": PAGE},
         ("deny", "argument")),
        ({"tools": {"ask": [DOCS]}, "quotas": [{"per": "day", "calls": 0}]}, {}, ("deny", "quota")),
        ({"tools": {"ask": ["read"]}}, {"granted": ((0, "session"),)}, ("allow", "grant")),
        ({"tools": {"ask": ["read"]}}, {"granted": ((1, "session"),)}, ("ask", "ask")),
        ({"tools": {"ask": ["read"]}}, {"granted": ((0, "lasting"),), "passed": 700.0}, ("ask", "ask")),
        ({"tools": {"ask": ["read"]}}, {"granted": ((0, "counted"),), "before": (0,)}, ("ask", "ask")),
        ({"tools": {"deny": [DOCS]}}, {"granted": ((0, "session"),), "human": "yes"}, ("deny", "argument")),
    ],
)  # fmt: skip
def test_explain_names_who_decides_about_one_call(
    config: dict[str, Any], more: dict[str, Any], said: tuple[str, str]
) -> None:
    async def live() -> None:
        base = World(config=config, caller=HERE, call=READ, **more)
        seen = await see(base, ())
        assert seen.decisions[0] == said

    asyncio.run(live())
