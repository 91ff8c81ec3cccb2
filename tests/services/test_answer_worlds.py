"""Who may answer, what a call reaches and from where its words come, in seeded worlds, held against an oracle here.

The oracle reads the configuration by itself, with nothing of the product's: a few hundred worlds every day, 20,000 with
`./check full`.
"""

import asyncio
import random
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import pytest

from toolcrib.define.approval import Question
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.errors import ToolError
from toolcrib.services.approvals import Approvals, ApprovalTerms

from .gate_worlds import House, World

CAMPAIGN, CHUNKS = 20_000, 20
BOSS = "8"  # the owner
PERSONS = {"7": "7", BOSS: BOSS, "41": "ann", "42": "ann", "43": "43"}  # by id
ROLES = {"crew": ("7", "41"), "kin": ("42", "43")}
BY: tuple[tuple[tuple[str, ...], int], ...] = (
    ((), 1), (("owner",), 1), (("id:7",), 1), (("id:41",), 1), (("role:crew",), 1), (("role:kin",), 1),
    (("owner", "id:7"), 1), (("role:crew",), 2), (("id:7", "id:43"), 2), (("role:crew", "role:kin"), 3),
)  # fmt: skip
# the calls, and what each reaches, by the words of rules
CALLS: tuple[tuple[str, dict[str, Any], dict[str, tuple[str, ...]]], ...] = (
    ("read", {"path": "docs/a.md"}, {"path": ("docs/a.md",)}),
    ("read", {"file_path": "./src//a.py"}, {"path": ("src/a.py",)}),
    ("write", {"path": "docs/a.md", "content": "x"}, {"path": ("docs/a.md",)}),
    ("edit", {"path": "src/a.py", "oldText": "x", "newText": "y"}, {"path": ("src/a.py",)}),
    ("exec", {"command": "cat docs/a.md"}, {"path": ("docs/a.md",), "command": ("cat docs/a.md",)}),
    ("exec", {"command": "ls", "workdir": "src"}, {"path": ("src",), "command": ("ls",)}),
    ("exec", {"command": "curl https://a.test/x"}, {"url": ("a.test",), "command": ("curl https://a.test/x",)}),
    ("web_fetch", {"url": "https://a.test/x"}, {"url": ("a.test",)}),
    ("browser", {"action": "open", "targetUrl": "https://b.test/"}, {"url": ("b.test",)}),
    ("message", {"action": "send", "target": "ann", "message": "x"}, {"to": ("ann",)}),
    ("message", {"action": "send", "to": "bob", "message": "x"}, {"to": ("bob",)}),
    ("sessions_send", {"sessionKey": "agent:main:bob", "message": "x"}, {}),
)
RUNS = ("exec",)
WHEN: dict[str, tuple[str, ...]] = {
    "path": ("docs/**", "src", "src/**"),
    "url": ("a.test", "*.test"),
    "to": ("ann", "bob"),
    "command": ("cat *", "ls"),
}
SOURCES = (
    "web:https://a.test/x", "mcp:shop", "message:forwarded/box", "message:box", "file:inbox/a.txt",
    "agent:clerk after web:https://b.test/ and mcp:shop",
)  # fmt: skip
TAINTS = ("*", "web", "web:*", "mcp", "message:forwarded/*", "file", "agent:clerk")


@dataclass(frozen=True)
class Rule:
    """One rule that asks, as the oracle sees it."""

    by: tuple[str, ...]
    count: int
    outside: bool
    runs: bool

    def counts(self, who: str, asker: str) -> bool:
        """Tell whether a yes of somebody counts for it."""
        if "owner" in self.by and who == BOSS:
            return True
        is_own = PERSONS[who] == PERSONS[asker]
        if is_own and (self.outside or self.runs):
            return False
        ids = {id for id, person in PERSONS.items() if person == PERSONS[who]}
        written = any(f"id:{id}" in self.by for id in ids)
        held = any(id in ROLES[each[5:]] for each in self.by if each[:5] == "role:" for id in ids)
        return written or (held and not is_own)

    def names(self, who: str) -> bool:
        ids = {id for id, person in PERSONS.items() if person == PERSONS[who]}
        held = any(id in ROLES[each[5:]] for each in self.by if each[:5] == "role:" for id in ids)
        return held or any(f"id:{id}" in self.by for id in ids)


def entry(chance: random.Random, call: Any, *, asks: bool) -> dict[str, Any]:
    """Return an entry, about this call as often as not."""
    name, _, reaches = call
    made: dict[str, Any] = {"tool": chance.choice(["*", name, name, chance.choice(CALLS)[0]])}
    if chance.random() < 0.5 or not asks:
        kind = chance.choice([*WHEN, *reaches])
        made["when"] = {kind: chance.choice(WHEN[kind])}
    if asks:
        if chance.random() < 0.3:
            made["taint"] = chance.choice(TAINTS)
        by, count = chance.choice(BY)
        made |= {"by": list(by)} if by else {}
        made |= {"count": count} if count > 1 else {}
        if set(made) == {"tool"}:
            made["by"] = ["owner"]
    return made


def is_met(made: dict[str, Any], call: tuple[str, Any, dict[str, tuple[str, ...]]], sources: tuple[str, ...]) -> bool:
    """Tell whether an entry is about a call."""
    name, _, reaches = call
    if made["tool"] not in ("*", name):
        return False
    for kind, pattern in made.get("when", {}).items():
        glob = pattern.removesuffix("/**") if pattern.endswith("/**") else pattern
        found = reaches.get(kind, ())
        if pattern.endswith("/**"):
            if not any(each == glob or each.startswith(f"{glob}/") for each in found):
                return False
        elif not any(fnmatchcase(each, glob) for each in found):
            return False
    return "taint" not in made or is_tainted(made["taint"], sources)


def is_tainted(pattern: str, sources: tuple[str, ...]) -> bool:
    parts = [part for each in sources for way in each.split(" after ") for part in way.split(" and ")]
    whole = [*parts, *sources]
    return any(fnmatchcase(way, pattern) for each in whole for way in (each, each.partition(":")[0]))


def list_rules(config: dict[str, Any], call: Any, sources: tuple[str, ...], models: set[str]) -> list[Rule]:
    tools = config["tools"]
    entries = [*tools["ask"], *(each for model in models for each in tools["byProvider"].get(model, {}).get("ask", []))]
    runs = call[0] in RUNS
    rules = [
        Rule(tuple(each.get("by", ["owner"])), each.get("count", 1), "taint" in each, runs)
        for each in entries
        if is_met(each, call, sources)
    ]
    if any(each["tool"] in ("*", call[0]) and is_tainted(each["taint"], sources) for each in tools["askAfterOutside"]):
        rules.append(Rule(("owner",), 1, True, runs))
    return rules


def world(chance: random.Random) -> tuple[World, Any, set[str]]:
    call = chance.choice(CALLS)
    name, args, _ = call
    asker = chance.choice(list(PERSONS))
    is_job = chance.random() < 0.3  # which another model does than the one it was made through
    speaks = chance.choice(("openai", "google"))
    caller = Caller(sender=Sender(id=asker), session="agent:main:a", provider="google" if is_job else speaks)
    caller = replace(caller, made_through=(f"{speaks}:m",)) if is_job else caller
    asked = [entry(chance, call, asks=True) for _ in range(chance.randint(0, 3))]
    config: dict[str, Any] = {
        "owners": [f"id:{BOSS}"],
        "roles": {role: [f"id:{id}" for id in ids] for role, ids in ROLES.items()},
        "people": {"ann": {"is": ["id:41", "id:42"]}},
        "tools": {
            "guests": "full",
            "ask": asked,
            "deny": [entry(chance, call, asks=False) for _ in range(chance.randint(0, 1))],
            "askAfterOutside": [
                {"tool": chance.choice(["*", name]), "taint": chance.choice(TAINTS)}
                for _ in range(chance.randint(0, 1))
            ],
            "byProvider": {"openai": {"ask": [entry(chance, call, asks=True)]}} if chance.random() < 0.5 else {},
        },
    }
    sources = tuple(chance.sample(SOURCES, chance.randint(0, 2)))
    models = {speaks, *(("google",) if is_job else ())}
    return World(config=config, caller=caller, call=(name, args), sources=sources), call, models


async def check(chance: random.Random) -> str:
    """Live in one world, and return what came of the call."""
    base, call, models = world(chance)
    answers = [(chance.choice(list(PERSONS)), chance.random() < 0.85) for _ in range(chance.randint(0, 7))]
    try:
        return await _check(base, call, models, answers)
    except AssertionError as error:
        error.add_note(f"{base}\n{answers}")
        raise


async def _check(base: World, call: Any, models: set[str], answers: list[tuple[str, bool]]) -> str:
    house = House(base)
    house.approvals = Approvals(
        house.approvals._store,
        is_owner=lambda caller: (caller.sender and caller.sender.id) == BOSS,
        can_lend=lambda call, binding: None,
        terms=ApprovalTerms(policy=lambda: house.policy),
        now=lambda: house.clock[0],
        record=house.record,
    )
    asked = asyncio.Queue[Question]()
    house.approvals.on_question(lambda each: asked.put_nowait(each) if each.state == "pending" else None)
    assert base.caller.sender is not None
    asker = base.caller.sender.id or ""
    is_denied = any(is_met(each, call, ()) for each in base.config["tools"]["deny"])
    rules = list_rules(base.config, call, base.sources, models)
    calling = asyncio.ensure_future(house.belt().call(*base.call))
    if is_denied or not rules:
        async with asyncio.timeout(30):
            result = await calling
        assert (result.status == "ok") is not is_denied, f"denied: {is_denied}, and it came to {result}"
        assert asked.empty()
        return "denied" if is_denied else "unasked"
    getting = asyncio.ensure_future(asked.get())
    await asyncio.wait([getting, calling], timeout=30, return_when=asyncio.FIRST_COMPLETED)
    assert getting.done(), f"nobody was asked by {rules}, and it came to {calling}"
    question = getting.result()
    said: list[set[str]] = [set() for _ in rules]
    state = "pending"
    for who, is_yes in answers:
        counting = [at for at, rule in enumerate(rules) if rule.counts(who, asker)]
        may = bool(counting) if is_yes else who == BOSS or any(rule.names(who) for rule in rules)
        try:
            answerer = Caller(sender=Sender(id=who))
            told = await house.approvals.answer(answerer, question.id, "once" if is_yes else "no")
        except ToolError:
            assert not may, f"{who} may answer {is_yes} to {rules}"
            continue
        assert may, f"{who} may not answer {is_yes} to {rules}"
        for at in counting if is_yes else ():
            said[at].add(PERSONS[who])
        enough = all(len(each) >= rule.count for each, rule in zip(said, rules, strict=True))
        state = "denied" if not is_yes else "allowed" if enough else "pending"
        assert told["state"] == state, f"{told} after {said} to {rules}"
        if state != "pending":
            break
    if state == "pending":
        assert not calling.done()
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        return state
    async with asyncio.timeout(30):
        result = await calling
    assert (result.status == "ok") is (state == "allowed"), f"{state}, and it came to {result}"
    return state


def run(seed: str, count: int) -> set[str]:
    async def live() -> set[str]:
        return {await check(random.Random(f"{seed}:{at}")) for at in range(count)}

    return asyncio.run(live())


@pytest.mark.parametrize("seed", range(3))
def test_in_seeded_worlds_the_right_persons_answer_about_what_a_call_reaches(seed: int) -> None:
    assert run(f"day {seed}", 100) == {"denied", "unasked", "pending", "allowed"} or seed


@pytest.mark.full
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_in_many_worlds_it_is_so(chunk: int) -> None:
    run(f"{chunk}", CAMPAIGN // CHUNKS)
