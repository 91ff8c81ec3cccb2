"""What holds for every configuration and caller: a few hundred worlds every day, 100,000 with `./check full`."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolcrib.app import Crib
from toolcrib.define.caller import OWNER, Caller, Sender
from toolcrib.define.verdict import ArgumentRule, Decision, Layer, Rule, Selection
from toolcrib.policy.conditions import dump_when
from toolcrib.policy.explain import explain_rows, verdict_json
from toolcrib.policy.gate import Facts, gate
from toolcrib.policy.layers import layers_for
from toolcrib.policy.resolve import child_of, resolve
from toolcrib.policy.settings import PROFILES

from . import worlds
from .conftest import crib_of
from .worlds import Config

Property = Callable[[Config, Crib, Caller, random.Random], None]

CAMPAIGN, CHUNKS = 100_000, 40


def adding_a_deny_never_adds_a_tool(config: Config, crib: Crib, caller: Caller, chance: random.Random) -> None:
    path, entry = chance.choice(worlds.rule_paths(config)), worlds.entry(chance)
    narrowed = crib_of(worlds.with_more(config, path, entry)).belt(caller)
    assert set(narrowed.tools) <= set(crib.belt(caller).tools), f"deny {entry} at {path}"
    assert_no_call_more(narrowed.selection, crib.belt(caller).selection, f"deny {entry} at {path}")


def adding_an_ask_never_adds_a_call(config: Config, crib: Crib, caller: Caller, chance: random.Random) -> None:
    path, entry = chance.choice(worlds.rule_paths(config)), worlds.entry(chance)
    narrowed = crib_of(worlds.with_more(config, path, entry, "ask")).belt(caller)
    assert_no_call_more(narrowed.selection, crib.belt(caller).selection, f"ask {entry} at {path}")


def one_more_role_never_adds_a_call(config: Config, crib: Crib, caller: Caller, chance: random.Random) -> None:
    """Whoever has a role already: with none, one brings its rule in the place of that of `*`."""
    config, caller = with_rules_about_roles(config, caller, chance)
    who, roles = replace(caller, sender=Sender(id="9")), {**config.get("roles", {}), "kin": ["id:9"]}
    before, after = (crib_of({**config, "roles": {**roles, "crew": each}}).belt(who) for each in ([], ["id:9"]))
    assert set(after.tools) <= set(before.tools), "one more role adds a tool"
    assert_no_call_more(after.selection, before.selection, "one more role")


def with_rules_about_roles(config: Config, caller: Caller, chance: random.Random) -> tuple[Config, Caller]:
    """Return the configuration with rules about roles in one chat, and the caller as somebody who speaks there."""
    places = [path[:-1] for path in worlds.rule_paths(config) if "toolsBySender" in path]
    path = chance.choice(places or [("channels", "telegram", "direct", "toolsBySender")])
    group = None if path[-2] == "direct" else "-3" if path[-2] == "*" else path[-2]
    rules = {f"role:{role}": worlds.rule(chance) for role in ("kin", "crew")}
    return put(config, path, rules), replace(caller, channel="telegram", group=group, session=None)


def put(config: Config, path: tuple[str, ...], more: Config) -> Config:
    """Return the configuration with more keys at a path, which need not be there."""
    if not path:
        return {**config, **more}
    return {**config, path[0]: put(config.get(path[0], {}), path[1:], more)}


def a_name_that_anyone_can_take_never_adds_a_call(
    config: Config, crib: Crib, caller: Caller, chance: random.Random
) -> None:
    """But for one that the operator wrote as a name: `username:eve` and `name:Zed`, which nobody takes here."""
    config, caller = with_rules_about_roles(config, caller, chance)
    roles = {**config.get("roles", {}), "kin": ["bob", "id:1"], "crew": worlds.some(chance, worlds.MEMBERS, 3)}
    named = crib_of({**config, "roles": roles})
    plain = Sender(id=chance.choice(("7", "8", "9")))
    taken = replace(plain, username=chance.choice(("bob", "7", "8")), name=chance.choice((None, "bob", "8")))
    before, after = (named.belt(replace(caller, sender=each)) for each in (plain, taken))
    assert set(after.tools) <= set(before.tools), f"{taken} has more than {plain}"
    assert_no_call_more(after.selection, before.selection, f"{taken}")


def a_guest_has_more_than_the_default_by_an_allow_or_a_profile_alone(
    config: Config, crib: Crib, caller: Caller, chance: random.Random
) -> None:
    """Whatever else is written, in the chats and elsewhere: nothing of it gives."""
    if resolve(crib.policy, caller).is_owner:
        return
    told = {**config, "tools": {**config["tools"], "guests": chance.choice(("messaging", "minimal"))}}
    chats = [path for path in worlds.rule_paths(config) if path[0] == "channels"]
    for path in chats:
        rule = {key: each for key, each in worlds.at(told, path).items() if key not in ("allow", "profile")}
        told = put(told, path[:-1], {path[-1]: rule})
    bounded = crib_of(told)
    most = crib_of({"tools": {"allow": list(PROFILES[told["tools"]["guests"]] or ())}}).belt(OWNER).tools
    assert set(bounded.belt(caller).tools) <= set(most)


def a_role_that_no_rule_names_changes_nothing(
    config: Config, crib: Crib, caller: Caller, chance: random.Random
) -> None:
    more = crib_of({**config, "roles": {**config.get("roles", {}), "unnamed": list(worlds.MEMBERS)}}).belt(caller)
    assert dict(more.verdicts) == dict(crib.belt(caller).verdicts)


def assert_no_call_more(narrower: Selection, wider: Selection, what: str) -> None:
    """Every call that is permitted or asked about in the narrower is at most that in the wider."""
    for name, args in worlds.CALLS:
        below, above = decide(narrower, name, args), decide(wider, name, args)
        assert RANKS[below] >= RANKS[above], f"{what}: {name} {args} is {below}, and was {above}"


RANKS = {"allow": 0, "ask": 1, "deny": 2}


def decide(belt: Selection, name: str, args: dict[str, object]) -> Decision:
    """Return what becomes of a call whose places are resolved already."""
    verdict, tool = belt.verdicts[name], belt.tools.get(name)
    if tool is None:
        return verdict.decision
    rules = belt.rules_about(replace(tool, read_places=None)) if belt.rules_about else None
    said = rules.judge({**rules.read(args), **({"taint": args["taint"]} if "taint" in args else {})}) if rules else None
    return max((verdict.decision, said.decision if said else "allow"), key=lambda each: RANKS[each])


def no_call_is_milder_than_the_verdict(config: Config, crib: Crib, caller: Caller, chance: random.Random) -> None:
    belt = crib.belt(caller).selection
    for name, args in worlds.CALLS:
        assert RANKS[decide(belt, name, args)] >= RANKS[belt.verdicts[name].decision]


def adding_a_parent_never_adds_a_tool(config: Config, crib: Crib, caller: Caller, chance: random.Random) -> None:
    parent, before = chance.choice(worlds.PARENTS), set(crib.belt(caller).tools)
    for chain in ((parent, *caller.parents), (*caller.parents, parent)):
        assert set(crib.belt(replace(caller, parents=chain)).tools) <= before, f"parents {chain}"


def a_child_never_has_what_its_parent_lacks(config: Config, crib: Crib, caller: Caller, chance: random.Random) -> None:
    policy, caller = crib.loaded.policy, replace(caller, provider=chance.choice(worlds.SPEAKERS))
    child = child_of(policy, caller, chance.choice(worlds.AGENTS), "agent:dev:subagent:9")
    provider, model = chance.choice(worlds.SPEAKERS), chance.choice((None, "gpt", "other"))
    child = replace(child, provider=provider, model=model)
    if not resolve(policy, child).ceiling:
        return
    above, below = crib.belt(caller), crib.belt(child)
    assert set(below.tools) <= set(above.tools), f"{child} has what its parent lacks"
    for name in below.tools:
        asked = above.verdicts[name].decision == "ask"
        assert not asked or below.verdicts[name].decision == "ask", f"{child} is not asked about {name}"


def adding_a_sandbox_never_adds_a_tool(config: Config, crib: Crib, caller: Caller, chance: random.Random) -> None:
    inside, outside = (crib.belt(replace(caller, sandboxed=boxed)).tools for boxed in (True, False))
    assert set(inside) <= set(outside)


def layers_can_be_added_and_shuffled(config: Config, crib: Crib, caller: Caller, chance: random.Random) -> None:
    layers = list(layers_for(crib.loaded.policy, caller))
    tools, groups, facts = crib.catalog.tools, crib.catalog.groups, Facts(owner=False, host=frozenset({"model:openai"}))
    kept = set(gate(tools, groups, layers, facts).tools)
    chance.shuffle(layers)
    assert set(gate(tools, groups, layers, facts).tools) == kept, "the order of the layers matters"
    allow = tuple(worlds.entries(chance)) if worlds.coin(chance) else None
    more = Layer(chance.choice(layers).name if layers else "agent", "x", Rule(allow, tuple(worlds.entries(chance))))
    assert set(gate(tools, groups, [*layers, more], facts).tools) <= kept, f"{more} adds a tool"


def every_rule_stands_where_it_is_said_to(config: Config, crib: Crib, caller: Caller, chance: random.Random) -> None:
    held = crib.belt(caller).selection
    for name, verdict in held.verdicts.items():
        assert (name in held.tools) == (verdict.decision != "deny")
        for origin, rule in [(verdict.origin, verdict.rule)] + [(s.origin, s.rule) for s in held.steps(name)]:
            is_default = origin == "tools.guests" and not isinstance(config["tools"].get("guests"), str)
            if origin is not None and not is_default and not origin.startswith("built-in"):
                assert stands(config, origin, rule), f"{name}: {rule!r} does not stand at {origin}"


def all_forms_of_a_verdict_agree(config: Config, crib: Crib, caller: Caller, chance: random.Random) -> None:
    held = crib.belt(caller)
    rows = {row[0]: row[1:] for row in explain_rows(held.verdicts.values())}
    for name, verdict in held.verdicts.items():
        assert rows[name] == (verdict.decision, verdict.layer or "-", verdict.reason)
        as_json = verdict_json(verdict, crib.catalog[name])
        assert {key: as_json[key] for key in ("decision", "layer", "rule", "origin", "reason", "remedy")} == {
            "decision": verdict.decision,
            "layer": verdict.layer,
            "rule": verdict.rule,
            "origin": verdict.origin,
            "reason": verdict.reason,
            "remedy": verdict.remedy,
        }
        denials = [step for step in held.steps(name) if step.decision == "deny"]
        assert bool(denials) == (verdict.decision == "deny")
        assert not denials or (denials[0].layer, denials[0].rule) == (verdict.layer, verdict.rule)


PROPERTIES: tuple[Property, ...] = (
    adding_a_deny_never_adds_a_tool,
    adding_an_ask_never_adds_a_call,
    one_more_role_never_adds_a_call,
    a_name_that_anyone_can_take_never_adds_a_call,
    a_guest_has_more_than_the_default_by_an_allow_or_a_profile_alone,
    a_role_that_no_rule_names_changes_nothing,
    no_call_is_milder_than_the_verdict,
    adding_a_parent_never_adds_a_tool,
    a_child_never_has_what_its_parent_lacks,
    adding_a_sandbox_never_adds_a_tool,
    layers_can_be_added_and_shuffled,
    every_rule_stands_where_it_is_said_to,
    all_forms_of_a_verdict_agree,
)


def check(chance: random.Random, *properties: Property) -> None:
    config, caller = worlds.config(chance), worlds.caller(chance)
    crib = crib_of(config)
    for each in properties:
        try:
            each(config, crib, caller, chance)
        except AssertionError as error:
            error.add_note(f"{each.__name__}\n{config}\n{caller}")
            raise


@pytest.mark.timeout(120)
@pytest.mark.parametrize("each", PROPERTIES, ids=lambda each: each.__name__)
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None)
@given(chance=st.randoms(use_true_random=False))
def test_each_property_holds_in_worlds_that_can_be_made_smaller(each: Property, chance: random.Random) -> None:
    check(chance, each)


@pytest.mark.parametrize("seed", range(300, 302))
def test_every_property_holds_in_seeded_worlds(seed: int) -> None:
    for at in range(25):
        check(random.Random(f"{seed}:{at}"), *PROPERTIES)


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_property_holds_in_a_hundred_thousand_worlds(chunk: int) -> None:
    for at in range(CAMPAIGN // CHUNKS):
        check(random.Random(f"{chunk}:{at}"), *PROPERTIES)


def stands(config: Config, origin: str, rule: str | None) -> bool:
    """Tell whether the path exists in the file and holds the rule: as its value, in it, or in one of its lists."""
    value: object = config
    rest = origin
    while rest:
        if not isinstance(value, dict):
            return False
        key = next((key for key in value if rest == key or rest.startswith(f"{key}.")), None)
        if key is None:
            return False
        value, rest = value[key], rest[len(key) + 1 :]
    if rule is None:
        return True
    if isinstance(value, dict):
        return any(rule in spell(listed) for listed in value.values() if isinstance(listed, list))
    return rule in spell(value) if isinstance(value, list) else str(value).lower() == rule


def spell(entries: list[Any]) -> list[str]:
    """Return entries as verdicts write them."""
    return [
        each if isinstance(each, str) else str(ArgumentRule("deny", each["tool"], dump_when(each["when"])))
        for each in entries
    ]
