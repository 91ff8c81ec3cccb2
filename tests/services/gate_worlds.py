"""Worlds for the whole gate: a configuration, a caller and calls, with roles, rules about arguments, aliases, hosts,
grants, quotas, content from outside, reviewers and hook programs, a human who says yes, no or nothing, and keys.

A `House` is what a crib is to the gate, without all else: the services are the real ones over stores in memory, bodies
only say that they ran. It is made in milliseconds, where a crib takes thirty.
"""

import asyncio
import random
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any, Literal, get_args

from tests.memory_stores import MemoryApprovals, MemoryQuotas
from tests.policy import worlds
from tests.policy.conftest import crib_of
from toolcrib.agent.belt import Belts
from toolcrib.agent.hooks import bind_guards, taint_guards
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.app.belt import Belt
from toolcrib.backends.models.known import KNOWN
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.config.load import SettingsInForce, load
from toolcrib.define.approval import Question
from toolcrib.define.caller import OWNER, Caller, Sender
from toolcrib.define.context import Ctx, Ports
from toolcrib.define.egress import EgressRules, read_url
from toolcrib.define.errors import ToolError
from toolcrib.define.log import Line, Said
from toolcrib.define.message import Message
from toolcrib.define.plugin import Allow, Ask, Block, Hook, Rewrite
from toolcrib.define.record import Judged
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import Tool, tool
from toolcrib.policy.resolve import is_owner
from toolcrib.policy.taint import taint_rules_for
from toolcrib.registry.catalog import Catalog, groups_of, name_tools
from toolcrib.services.approvals import Approvals, ApprovalTerms
from toolcrib.services.effective import EffectiveVerdicts
from toolcrib.services.quotas import Quotas
from toolcrib.services.toolbox import Toolbox
from toolcrib.testing import MemoryWorkspace

Word = Literal["nothing", "allow", "ask", "deny", "silent", "rewrite"]
Human = Literal["nobody", "yes", "no"]
Kept = Literal["session", "lasting", "counted", "conditional"]

NOW = 1_800_000_000.0
HOST = frozenset(f"setting:{name}" for name in ("browser", "cron", "memory", "web.fetch", "web.search"))
PATCH = "*** Begin Patch\n*** Add File: {}\n+x\n*** Add File: {}\n+y\n*** End Patch\n"
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("read", {"path": "docs/a.md"}),
    ("read", {"path": "src/a.py", "limit": 3}),
    ("read", {"file_path": "./docs//b.md", "offset": 2}),
    ("write", {"path": "docs/a.md", "content": ""}),
    ("write", {"path": "src/a.py", "content": "x"}),
    ("apply_patch", {"input": PATCH.format("src/a.py", "docs/a.md")}),
    ("apply_patch", {"input": PATCH.format("lib/a.py", "b.md")}),
    ("web_fetch", {"url": "https://a.example.com/"}),
    ("web_fetch", {"url": "https://example.org/x"}),
    ("web_search", {"query": "weather in Kyiv", "count": 4}),
    ("web_search", {"query": "news"}),
    ("exec", {"command": "ls"}),
    ("fetch_page", {"url": "https://b.example.com/"}),
    ("Bash", {"command": "ls", "workdir": "src"}),
    ("forecast", {"city": "Kyiv", "days": 3}),
    ("forecast", {"city": "Lviv", "days": 9}),
    ("session_status", {}),
    ("exec", {"command": "cat src/a.py docs/a.md"}),
    ("message", {"action": "send", "target": "ann", "message": "x"}),
    ("message", {"action": "send", "to": "bob", "message": "x"}),
)
CONDITIONS: tuple[dict[str, Any], ...] = (
    *worlds.CONDITIONS,
    {"count": 4},
    {"days": {"max": 5}},
    {"days": {"min": 2}, "city": {"in": ["Kyiv", "Lutsk"]}},
    {"city": "lviv"},
    {"url": {"host": ["*.example.com", "10.0.0.0/8"]}},
    {"url": {"host": "example.org"}},
    {"workdir": {"under": "src"}},
    {"command": {"matches": "^l"}},
    {"query": {"in": ["news", "sport"]}},
    {"path": "*.md", "limit": {"min": 1}},
    {"no_such_argument": "x"},
)
FITTING: tuple[dict[str, Any], ...] = (
    {"tool": "read", "when": {"path": "docs/**"}},
    {"tool": "group:fs", "when": {"path": {"under": "src"}}},
    {"tool": "effect:write", "when": {"path": "*.md"}},
    {"tool": "read", "when": {"limit": {"min": 3}}},
    {"tool": "web_*", "when": {"query": "news"}},
    {"tool": "web_search", "when": {"count": {"in": [3, 4]}}},
    {"tool": "web_fetch", "when": {"url": {"host": "*.example.com"}}},
    {"tool": "exec", "when": {"workdir": {"under": "src"}}},
    {"tool": "exec", "when": {"command": {"matches": "s$"}}},
    {"tool": "forecast", "when": {"days": {"min": 5}}},
    {"tool": "weather", "when": {"city": {"in": ["KYIV", "Odesa"]}}},
    {"tool": "*", "when": {"taint": "web:*"}},
    {"tool": "*", "when": {"path": "src/**"}},
    {"tool": "*", "when": {"url": "*.example.com"}},
    {"tool": "*", "when": {"to": "ann"}},
    {"tool": "effect:execute", "when": {"command": "cat *"}},
    {"tool": "effect:send", "when": {"to": {"in": ["ann", "eve"]}}},
)
JURY = ("41", "42", "43")  # who answer, and never call
BY: tuple[dict[str, Any], ...] = (
    {"by": ["owner"]},
    {"by": ["id:41"]},
    {"by": ["owner", "role:jury"]},
    {"by": ["role:jury"], "count": 2},
    {"by": ["id:41", "id:43"], "count": 2},
)
ALIASES = {"fetch_page": "web_fetch", "look_up": "web_search", "read_it": "read"}
HOSTS = ("*.example.com", "a.example.com", "example.org", "10.0.0.0/8")
SOURCES = (
    "web:example.org/page", "mcp:files", "message:telegram", "message:forwarded/telegram", "file:inbox/a.txt",
    "agent:clerk after web:example.org/page and mcp:files",
)  # fmt: skip
TAINTED = ("*", "web:*", "mcp", "message:*", "message:forwarded/*", "file", "agent")
SUBJECTS = (None, "sender", "agent", "id:7", "id:8", "agent:dev", "agent:main", "role:kin", "role:crew")
WORDS: tuple[Word, ...] = get_args(Word)
KEYS = tuple(sorted({key for each in KNOWN.values() for key in each.keys}))


def entry(chance: random.Random) -> Any:
    """An entry of a list, about arguments as often as not."""
    named = chance.choice(worlds.ENTRIES)
    return named if worlds.coin(chance) else {"tool": named, "when": chance.choice(CONDITIONS)}


def outside_entry(chance: random.Random) -> Any:
    named = chance.choice(worlds.ENTRIES)
    return named if worlds.coin(chance) else {"tool": named, "taint": chance.choice(TAINTED)}


def by_others(chance: random.Random) -> dict[str, Any]:
    """An entry that asks, and says who answers."""
    fitting = chance.choice((*FITTING, {"tool": chance.choice(("read", "write", "group:web", "exec", "message"))}))
    return {**fitting, **chance.choice(BY)}


def quota(chance: random.Random) -> dict[str, Any]:
    made = {"who": chance.choice(SUBJECTS), "tool": chance.choice((None, *worlds.ENTRIES))}
    limits = {"per": chance.choice(("hour", "day")), "calls": chance.randrange(4)}
    return {**limits, **{name: value for name, value in made.items() if value is not None}}


def config(chance: random.Random) -> dict[str, Any]:
    """A configuration as those of policy, with what stands beside the layers; most let enough through to show it."""
    made = worlds.config(chance)
    tools, is_mild = made["tools"], chance.random() < 0.8
    if is_mild:
        made.pop("sandbox", None)
        tools["ask"] = (
            []
            if worlds.coin(chance)
            else worlds.some(chance, ("*", "group:fs", "group:web", "effect:network", "exec", "forecast"), 2)
        )
    for path in worlds.rule_paths(made):
        lists = worlds.at(made, path)
        if is_mild:
            lists.pop("profile", None)
            named = [each for each in lists.pop("allow", ()) if not isinstance(each, str)]
            lists |= {"allow": ["*", *named]} if named and worlds.coin(chance) else {"allow": named} if named else {}
            lists["deny"] = [each for each in lists.get("deny", ()) if not isinstance(each, str)]
            lists["deny"] += [entry(chance)] if chance.random() < 0.2 else []
    if is_mild:
        for name, most in (("ask", 4), ("deny", 3)):
            tools[name] = [*tools[name], *worlds.some(chance, FITTING, most)]
        if chance.random() < 0.2:
            tools["allow"] = [
                *worlds.some(chance, FITTING, len(FITTING)),
                *worlds.some(chance, ("read", "group:web"), 1),
            ]
            tools.pop("alsoAllow", None)
        for name in ("deny", "ask"):
            if name in lists and chance.random() < 0.3:
                lists[name] = [*lists[name], entry(chance)]
    if worlds.coin(chance):
        made["roles"] = {**made.get("roles", {}), "jury": [f"id:{each}" for each in JURY]}
        tools["ask"] = [*tools.get("ask", ()), *(by_others(chance) for _ in range(chance.randint(1, 2)))]
    if worlds.coin(chance):
        tools["aliases"] = {name: ALIASES[name] for name in worlds.some(chance, tuple(ALIASES), 3)}
    if worlds.coin(chance):
        tools["hosts"] = {"deny": worlds.some(chance, HOSTS, 2)}
        if chance.random() < 0.3:
            tools["hosts"]["allow"] = worlds.some(chance, HOSTS, 3)
    for name in ("askAfterOutside", "denyAfterOutside"):
        if chance.random() < 0.3:
            tools[name] = [outside_entry(chance) for _ in range(chance.randint(1, 2))]
    if worlds.coin(chance):
        made["quotas"] = [quota(chance) for _ in range(chance.randint(1, 3))]
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """Who calls what, under which configuration, and how everybody else behaves.

    `granted` are calls that somebody said yes to for longer, `before` calls that were made meanwhile, `passed` the
    seconds since.
    """

    config: dict[str, Any]
    caller: Caller
    call: tuple[str, dict[str, Any]]
    env: dict[str, str] = field(default_factory=dict)
    sources: tuple[str, ...] = ()
    words: tuple[Word, ...] = ()
    human: Human = "nobody"
    granted: tuple[tuple[int, Kept], ...] = ()
    before: tuple[int, ...] = ()
    passed: float = 0.0


def world(chance: random.Random) -> World:
    at, caller = chance.randrange(len(CALLS)), worlds.caller(chance)
    if chance.random() < 0.7:  # of those that are in no sandbox, and nobody's subagent, more is seen
        caller = replace(
            caller, sandboxed=False, parents=(), session=chance.choice((None, "agent:dev:main", "agent:main:a"))
        )
    if chance.random() < 0.2:  # a job, made through one model and done by another
        caller = replace(caller, made_through=(chance.choice(("openai:gpt", "anthropic:other", "ollama:tiny")),))
    near = tuple(each for each in range(len(CALLS)) if CALLS[each][0] == CALLS[at][0])
    return World(
        config=config(chance),
        caller=caller,
        call=CALLS[at],
        env=dict.fromkeys(worlds.some(chance, KEYS, len(KEYS)), "sk-0000"),
        sources=tuple(worlds.some(chance, SOURCES, 2)) if caller.session and worlds.coin(chance) else (),
        words=tuple(worlds.some(chance, WORDS, 2)) if chance.random() < 0.3 else (),
        human=chance.choice(("nobody", "yes", "no")),
        granted=((chance.choice(near), chance.choice(get_args(Kept))),) if worlds.coin(chance) else (),
        before=tuple(chance.choice(near) for _ in range(chance.randrange(3))),
        passed=chance.choice((0.0, 0.0, 1.0, 700.0)),
    )


@dataclass(frozen=True, slots=True)
class Came:
    """What became of a call: whether its body ran, by whose word it did not, and the code that was told."""

    ran: bool
    by: str = ""
    code: str = ""


class Shelf:
    """The tools of every house: those of a crib, whose bodies only say that they ran."""

    def __init__(self) -> None:
        self.catalogs: dict[tuple[str, ...], Catalog] = {}

    @cached_property
    def tools(self) -> Mapping[str, Tool]:
        found = {**crib_of({}).catalog.tools, "forecast": replace(forecast, source="plugin:weather")}
        return {name: replace(each, run=run_nothing, make=None, retry=None) for name, each in found.items()}

    def catalog(self, aliases: Mapping[str, str]) -> Catalog:
        key = tuple(sorted(aliases))
        if key not in self.catalogs:
            self.catalogs[key] = name_tools(Catalog(self.tools), aliases)
        return self.catalogs[key]


@tool(effects={"network"})
async def forecast(city: str, days: int = 1) -> str:
    """Tell the weather."""
    return city


async def run_nothing(ctx: Ctx, args: Mapping[str, Any]) -> Result:
    """Reach for what the arguments name, and do nothing with it."""
    if isinstance(url := args.get("url"), str):
        await ctx.rpc("reach", {"url": url})
    return Result.text("ran")


SHELF = Shelf()


class House:
    """What a crib is to the gate."""

    def __init__(self, world: World) -> None:
        self.world, self.clock, self.belts_with = world, [NOW], dict[tuple[Word, ...], Belt]()
        self.settings = SettingsInForce(load(world.config, world.env), world.env)
        loaded = self.settings.loaded
        self.policy, self.record = loaded.policy, MemoryRecord()
        self.catalog = SHELF.catalog(loaded.config.tools.aliases)
        self.belts = Belts(self.catalog, loaded.policy, host=HOST)
        hosts = loaded.config.tools.hosts
        self.egress = EgressRules(allow=hosts.allow, deny=hosts.deny)
        self.approvals = Approvals(
            MemoryApprovals(),
            is_owner=lambda caller: is_owner(self.policy, caller),
            can_lend=lambda call, binding: None if call.name != "exec" else "exec can run something else",
            terms=ApprovalTerms(longest_grant=900.0, policy=lambda: self.policy),
            now=lambda: self.clock[0],
            record=self.record,
        )
        self.quotas = Quotas(self.settings, MemoryQuotas(), groups_of, now=lambda: self.clock[0])
        self.standing = EffectiveVerdicts(self.approvals, self.quotas)
        core: Any = SimpleNamespace(
            find=lambda kind: self.standing,
            belt_of=lambda caller, sources: self.belt(),
            assign_model=lambda caller, model: caller,
            is_owner=lambda caller: False,
            later_of=lambda caller: {},
            policy=self.policy,
            way_out=self,
            stores=SimpleNamespace(sessions=self),
        )
        self.toolbox = Toolbox(core, lambda caller, key: caller, lambda caller, call, verdict: verdict)

    # the ports that a house is by itself

    def rules(self) -> EgressRules:
        """Return the rules about hosts."""
        return self.egress

    async def explain_server(self, source: str, /) -> None:
        """Refuse nobody: no server is configured here."""

    async def explain(self, url: str, /) -> str:
        """Refuse an address by the name of its host; nobody looks for its address."""
        if refused := self.egress.judge_host(read_url(url).host):
            raise refused
        return url

    async def find(self, key: str, /) -> Any:
        return SimpleNamespace(model="")

    async def lines(self, key: str, /) -> tuple[Line, ...]:
        """Return a conversation that holds something from every source."""
        message = Message(role="user", content=tuple(Text("x", source=each) for each in self.world.sources))
        return (Line("1", None, NOW, Said(message)),)

    async def reach(self, method: str, params: Mapping[str, Any], /, progress: Any = None) -> Any:
        return await self.explain(params["url"])

    # calls

    def belt(self, words: tuple[Word, ...] = ()) -> Belt:
        """Return the caller's belt, with these words of reviewers and hook programs before its calls."""
        if words in self.belts_with:
            return self.belts_with[words]
        caller, sources = self.world.caller, self.world.sources
        selection = self.belts.belt_for(caller)
        rules = taint_rules_for(self.policy, caller, self.catalog.tools, self.catalog.groups)
        guards = (*taint_guards(rules, selection, lambda: sources), *bind_guards(map(hook, words)))
        pipeline = CallPipeline(
            record=self.record,
            guards=guards,
            meter=self.quotas,
            taint=lambda: sources,
            people=self.approvals,
        )
        ports = Ports(workspace=MemoryWorkspace(), rpc=self.reach)
        made = Belt(caller=caller, selection=selection, catalog=self.catalog, pipeline=pipeline, ports=ports)
        self.belts_with[words] = made
        return made

    async def call(
        self, name: str, args: dict[str, Any], human: Human, words: tuple[Word, ...] = (), **kept: Any
    ) -> Came:
        """Make a call, and answer for the human who is asked about it."""
        answering = list[asyncio.Task[Any]]()

        def hear(question: Question) -> None:
            if question.state == "pending":
                said = "no" if human == "no" else kept.get("answer", "once")
                how = {name: value for name, value in kept.items() if name != "answer"}
                answering.append(asyncio.ensure_future(self._answer(question, said, how)))

        detach = self.approvals.on_question(hear) if human != "nobody" else lambda: None
        try:
            result = await self.belt(words).call(name, args)
        finally:
            detach()
            await asyncio.gather(*answering)
        if result.status == "ok":
            return Came(True)
        denied = [each for each in self.record.entries if isinstance(each, Judged) and each.decision == "deny"]
        return Came(False, denied[-1].by if denied else "", result.details["code"])

    async def _answer(self, question: Question, said: Any, how: dict[str, Any]) -> None:
        """Answer as the owner, and where that is not enough as each of the others; nothing longer than it may be."""
        owner = replace(OWNER, owner=True)
        for who, word, more in ((owner, said, how), (owner, "once", {}), *(juror(each) for each in JURY)):
            with suppress(ToolError):
                told = await self.approvals.answer(who, question.id, "no" if said == "no" else word, **more)
                if told["state"] != "pending":
                    return

    async def live(self) -> None:
        """Let happen what happened before the call: what was granted, and what was called."""
        terms: dict[Kept, dict[str, Any]] = {
            "session": {"answer": "session"},
            "lasting": {"answer": "lasting", "seconds": 600},
            "counted": {"answer": "lasting", "seconds": 600, "calls": 2},
            "conditional": {"answer": "lasting", "seconds": 600, "when": {"path": "docs/**"}},
        }
        for at, kept in self.world.granted:
            await self.call(*CALLS[at], "yes", **terms[kept])
        for at in self.world.before:
            await self.call(*CALLS[at], "nobody")
        self.clock[0] += self.world.passed
        self.record.entries.clear()

    async def make_call(self) -> Came:
        """Make the call that the world is about."""
        return await self.call(*self.world.call, self.world.human, self.world.words)

    async def told(self, name: str, args: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return what explain says of a tool, or of one call of it."""
        own = self.belts.belt_for(self.world.caller).find(name) or name
        given: Any = args
        return await self.toolbox.explain(self.world.caller, own, "main", args=given)


def juror(id: str) -> tuple[Caller, str, dict[str, Any]]:
    return Caller(sender=Sender(id=id)), "once", {}


def hook(word: Word) -> Hook:
    """Return a reviewer or hook program that says this about every call."""

    async def say(ctx: Ctx, args: Mapping[str, Any]) -> Any:
        match word:
            case "allow":
                return Allow("fine")
            case "ask":
                return Ask("look at it")
            case "deny":
                return Block("not this")
            case "silent":
                raise TimeoutError
            case "rewrite" if "path" in args:
                return Rewrite({"path": "docs/a.md"})
        return None

    return Hook(run=say, name=f"says {word}")


RANKS: Mapping[str, int] = {"allow": 0, "ask": 1, "deny": 2}
