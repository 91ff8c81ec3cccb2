"""Worlds for one call: how the belt, the hooks, the human, the body and the stores behave, and where it is cancelled.

The oracle says what has to come of the call; it shares no code with `invoke`.
"""

import asyncio
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from hypothesis import strategies as st

from toolcrib.agent.hooks import bind_guards, bind_observers
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.define.caller import Caller
from toolcrib.define.context import CallState, Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.plugin import Ask, Block, Hook, Rewrite
from toolcrib.define.record import Answered, Decided, Finished, Judged, RecordEntry, Started
from toolcrib.define.result import Result
from toolcrib.define.tool import Tool, tool
from toolcrib.define.verdict import Decision, Selection, Verdict

Permission = Literal["allow", "ask", "deny", "absent"]
Given = Literal["good", "coerced", "bad", "flawed"]
Saying = Literal["nothing", "block", "rewrite", "spoil", "ask", "raise", "exit", "garbage", "hang", "give up", "thread"]
Answer = Literal["nobody", "yes", "no", "raise", "not a bool"]
Doing = Literal[
    "text", "long", "refuse", "bug", "time out", "hang", "exit", "give up", "an error", "garbage",
    "thread", "bad thread", "slow thread",
]  # fmt: skip
Watching = Literal["nothing", "change", "raise", "exit", "hang", "give up"]
Store = Literal[
    "works", "waits", "fails on the decision", "fails on a word", "fails on the start", "fails on the outcome", "fails"
]
Station = Literal[
    "nowhere", "first entry", "guard", "word", "human", "start", "body", "observer", "blob", "last entry", "twice",
]  # fmt: skip

THREADS = ("thread", "bad thread", "slow thread")
KINDS: Mapping[type, tuple[Store, Station]] = {
    Decided: ("fails on the decision", "first entry"),
    Judged: ("fails on a word", "word"),
    Answered: ("fails on a word", "word"),
    Started: ("fails on the start", "start"),
    Finished: ("fails on the outcome", "last entry"),
}
WORDS = ("block", "rewrite", "spoil", "ask")  # what a guard says; the rest is how one fails
MOMENT = 0.001  # of patience with what never comes


@dataclass(frozen=True, slots=True)
class Guarding:
    """One guard."""

    says: Saying = "nothing"
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """How everything around one call behaves, and where the call is cancelled."""

    permission: Permission = "allow"
    given: Given = "good"
    guards: tuple[Guarding, ...] = ()
    answer: Answer = "nobody"
    body: Doing = "text"
    observers: tuple[Watching, ...] = ()
    record: Store = "works"
    blobs_work: bool = True
    cancelled: Station = "nowhere"


WORLDS = st.builds(
    World,
    permission=st.sampled_from(["allow", "allow", "allow", "ask", "ask", "deny", "absent"]),
    given=st.sampled_from(["good", "good", "good", "coerced", "bad", "flawed"]),
    guards=st.lists(st.builds(Guarding), max_size=3).map(tuple),
    answer=st.sampled_from(["yes", "yes", "no", "raise", "nobody", "not a bool"]),
    body=st.sampled_from(get_args(Doing)),
    observers=st.lists(st.sampled_from(get_args(Watching)), max_size=2).map(tuple),
    record=st.sampled_from(["works", "waits", "waits", *get_args(Store)[2:]]),
    blobs_work=st.booleans(),
    cancelled=st.one_of(st.just("nowhere"), st.sampled_from(get_args(Station))),
)


@dataclass(slots=True)
class Run:
    """One call on its way: what was written, whether the body ran and what was on record by then."""

    world: World
    entries: list[RecordEntry] = field(default_factory=list)
    ran: list[list[RecordEntry]] = field(default_factory=list)
    asked: list[Mapping[str, Any]] = field(default_factory=list)
    stopped: list[Station] = field(default_factory=list)
    thread_ended: threading.Event = field(default_factory=threading.Event)
    task: "asyncio.Task[Result] | None" = None
    writes: int = 0

    async def at(self, station: Station) -> None:
        """Cancel the call here, if this is the place."""
        here = self.world.cancelled == station or (
            self.world.cancelled == "twice" and station in ("body", "last entry")
        )
        if here and self.task is not None:
            self.stopped.append(station)
            self.task.cancel()
            await asyncio.sleep(0)

    # the ports

    async def write(self, entry: RecordEntry, /) -> None:
        self.writes += 1
        fails_here, station = KINDS[type(entry)]
        how = self.world.record
        if how != "works":
            await asyncio.sleep(0)
        if how in ("fails", fails_here):
            raise OSError("no space left")
        await self.at(station)
        self.entries.append(entry)

    async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str]) -> Any:
        self.asked.append(call.args)
        await self.at("human")
        match self.world.answer:
            case "raise":
                raise RuntimeError("no screen")
            case "not a bool":
                return "no"
        return self.world.answer == "yes"

    async def put(self, data: bytes, /) -> str:
        await self.at("blob")
        if not self.world.blobs_work:
            raise OSError("no space left")
        return "key"

    async def get(self, key: str, /) -> bytes:
        raise KeyError(key)

    # the hooks

    def guard(self, guarding: Guarding) -> Hook:
        async def run(ctx: Ctx, args: Mapping[str, Any]) -> Any:
            await self.at("guard")
            match guarding.says:
                case "block":
                    return Block("no")
                case "rewrite":
                    return Rewrite({"text": args["text"] + "+"})
                case "spoil":
                    return Rewrite({"text": ["no", "text"]})
                case "ask":
                    return Ask("it looks odd")
                case "garbage":
                    return {"block": True}
            return await misbehave(guarding.says)

        def in_thread(ctx: Ctx, args: Mapping[str, Any]) -> None:
            return None

        body = in_thread if guarding.says == "thread" else run
        return Hook(run=body, name="guard", optional=guarding.optional, seconds=MOMENT if run is body else 5)

    def observer(self, watching: Watching) -> Callable[..., Any]:
        async def run(ctx: Ctx, args: Mapping[str, Any], result: Result) -> Any:
            await self.at("observer")
            if watching == "change":
                return Result(content=result.content, details={"seen": True}, status=result.status)
            return await misbehave(watching)

        return run

    # the body

    async def body(self, ctx: Ctx, args: Mapping[str, Any]) -> Result:
        self.ran.append(list(self.entries))
        await self.at("body")
        match self.world.body:
            case "long":
                return Result.text("x" * 200)
            case "refuse":
                raise ToolError("not here", code="mine")
            case "bug":
                raise KeyError("private")
            case "time out":
                raise TimeoutError("the database")
            case "an error":
                return Result.error("no", code="mine")
            case "garbage":
                return 5  # type: ignore[return-value]  # a body by somebody who does not check types
        await misbehave(self.world.body)
        return Result.text("done")

    def thread(self, ctx: Ctx) -> str:
        """Do it in a thread; a slow one looks for the end."""
        self.ran.append(list(self.entries))
        try:
            if self.world.body == "bad thread":
                raise KeyError("private")
            while self.world.body == "slow thread" and not ctx.cancelled():
                threading.Event().wait(MOMENT)
        finally:
            self.thread_ended.set()
        return "done"

    def tool(self) -> Tool:
        @tool(name="probe", timeout=MOMENT if self.world.body in ("hang", "slow thread") else 5, limit=100)
        async def probe(ctx: Ctx, text: str) -> Result:
            """Probe."""
            return await self.body(ctx, {"text": text})

        @tool(name="probe", timeout=MOMENT if self.world.body == "slow thread" else 5)
        def probe_in_a_thread(ctx: Ctx, text: str) -> str:
            """Probe."""
            return self.thread(ctx)

        if self.world.body in ("thread", "bad thread", "slow thread"):
            return probe_in_a_thread
        return replace(probe, run=self.body) if self.world.body == "garbage" else probe


async def misbehave(how: str) -> None:
    match how:
        case "raise":
            raise RuntimeError("boom")
        case "exit":
            sys.exit(3)
        case "hang":
            await asyncio.Event().wait()
        case "give up":
            gone = asyncio.get_running_loop().create_future()
            gone.cancel()
            await gone


GIVEN: Mapping[Given, Mapping[str, Any]] = {
    "good": {"text": "a"},
    "coerced": {"text": 5},
    "bad": {"txt": "a"},
    "flawed": {"text": "a"},
}


def belt_of(probe: Tool, permission: Permission) -> Selection:
    pager = tool(name="result_get", description="Page.")(lambda: "")
    decisions: dict[str, Decision] = {"result_get": "allow"}
    if permission != "absent":
        decisions["probe"] = permission
    tools = {"result_get": pager, "probe": probe}
    verdicts = {name: Verdict(name, said, None, None, None, said, None) for name, said in decisions.items()}
    # a denied tool stays within reach here, so that only the verdict keeps it from running
    return Selection(tools=tools, verdicts=verdicts, steps=lambda name: ())


def window_of(run: Run) -> CallPipeline:
    observers = bind_observers([run.observer(each) for each in run.world.observers])
    return CallPipeline(
        record=run,
        guards=bind_guards([run.guard(each) for each in run.world.guards]),
        observers=tuple(replace(each, seconds=MOMENT) for each in observers),
        approver=None if run.world.answer == "nobody" else run,
        blobs=run,
    )


def ctx_of(world: World, id: str = "call_1", name: str = "probe") -> Ctx:
    flaw = "the reply was cut off" if world.given == "flawed" else ""
    return Ctx(
        call=Call(id=id, name=name, args=GIVEN[world.given], key=id, parse_error=flaw),
        caller=Caller(),
        course=CallState(),
    )


@dataclass(frozen=True, slots=True)
class Came:
    """What has to come of a call: whether the body runs, and the codes that may be told ("" is none)."""

    runs: bool
    codes: frozenset[str]
    passed: frozenset[Station] = frozenset()


def oracle(world: World) -> Came:
    """Say what has to come of a call that nobody cancels, and which stations it passes."""
    if world.record in ("fails on the decision", "fails"):
        return Came(False, frozenset({"bug", "unrecorded"}))
    came = _oracle_of_record_that_works(world)
    if world.record == "fails on the start" and came.runs:
        return Came(False, frozenset({"bug"}), came.passed & {"first entry", "guard", "word", "human", "last entry"})
    if world.record == "fails on the outcome":
        return Came(came.runs, frozenset({"unrecorded"}), came.passed - {"last entry"})
    return came


def _oracle_of_record_that_works(world: World) -> Came:
    passed: set[Station] = {"first entry", "last entry"}
    if world.observers:
        passed.add("observer")  # told of whatever came of it

    def refused(*codes: str) -> Came:
        return Came(False, frozenset(codes), frozenset(passed))

    if world.permission in ("absent", "deny"):
        return refused("not_found" if world.permission == "absent" else "denied")
    if world.given in ("bad", "flawed"):
        return refused("bad_arguments")
    questions, breaks = world.permission == "ask", world.record == "fails on a word"
    for guard in world.guards:
        if guard.says != "thread":
            passed.add("guard")
        if guard.says not in ("nothing", "thread") and (not guard.optional or guard.says in WORDS):
            if breaks:
                return refused("bug")
            passed.add("word")
        match guard.says:
            case "block":
                return refused("blocked")
            case "spoil":
                return refused("bad_arguments")
            case "ask":
                questions = True
            case "raise" | "exit" | "garbage" | "hang" | "give up" if not guard.optional:
                return refused("blocked")
    if questions:
        if world.answer != "nobody":
            passed.add("human")
        if world.answer in ("yes", "no", "not a bool"):
            if breaks:
                return refused("bug")
            passed.add("word")
        if world.answer != "yes":
            return refused("not_approved", *(("bug",) if world.answer == "raise" else ()))
    return _oracle_of_body(world, passed)


def _oracle_of_body(world: World, passed: set[Station]) -> Came:
    passed.add("start")
    if world.body not in THREADS:
        passed.add("body")
    codes: dict[str, str] = {
        "refuse": "mine", "bug": "bug", "time out": "bug", "hang": "timeout", "exit": "bug", "an error": "mine",
        "bad thread": "bug", "slow thread": "timeout", "give up": "cancelled", "garbage": "bug",
    }  # fmt: skip
    code = codes.get(world.body, "")
    if world.body == "long":
        passed.add("blob")
    return Came(True, frozenset({code}), frozenset(passed))
