"""No way around (G1): bodies run in one place only, and what stands before them is missed when it is taken away.

The first half reads every module of the package. The second half takes the source of `invoke`, removes one step of it
in memory, and runs a battery of calls through every entry: the battery must go red. On the real one it is green.
"""

import ast
import asyncio
import contextlib
import importlib.util
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from mcp import Client
from mcp_types import TextContent

import toolcrib.app
from toolcrib import OWNER
from toolcrib.agent import hooks as real_hooks
from toolcrib.agent import invoke as real_invoke
from toolcrib.agent.session_log import Journal
from toolcrib.app import Belt
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.define.agent import COMPLETE, Agent
from toolcrib.define.context import CallState, Ctx
from toolcrib.define.event import Replied
from toolcrib.define.message import Call, Message
from toolcrib.define.model import History
from toolcrib.define.plugin import Block, Guard, Rewrite
from toolcrib.define.ports import Approver
from toolcrib.define.record import Decided, Finished, RecordEntry
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import tool
from toolcrib.doors.bridges import run_calls
from toolcrib.doors.mcp import BeltServer
from toolcrib.registry.sources import Offer
from toolcrib.testing import FakeApprover
from toolcrib.testing.models import ScriptedModel, call_reply

SOURCE = Path(toolcrib.__file__).parent

# What the body of a tool is called. Other things run, too: with a word of its own, such as `Tool.body`, the table below
# would be its first line.
BODY = "run"
# Every place that reaches for something of that name; only one of them is the body of a tool that was called.
RUNS = {
    ("agent/invoke.py", "tool.run"): "THE body",
    ("agent/invoke.py", "guard.run"): "a guard",
    ("agent/invoke.py", "observer.run"): "an observer",
    ("agent/hooks.py", "hook.run"): "a hook, made ready",
    ("backends/exec/supervisor_process.py", "Supervisor(control).run"): "the process that keeps commands",
    ("backends/models/local.py", "subprocess.run"): "pip, which fetches the weights of a local model",
    ("backends/voices/programs.py", "self.run"): "a program that speaks or listens",
    ("doors/cli/say.py", "subprocess.run"): "a player of sound, for who types the command",
    ("services/exec/judge.py", "program.run"): "the words of a program that the operator wrote down",
    ("services/channels/__init__.py", "line.run"): "a channel, whose turns go through invoke",
    ("config/load.py", "examples.run"): "a list of examples",
    ("config/advice.py", "hook.run"): "the words of a program that the operator wrote down",
    ("services/deploy.py", "self._core.config.deploy.run"): "the same, a call of exec",
    ("config/positions.py", "scanner.run"): "a scanner of JSON5",
    ("define/actions.py", "parts[args['action']].run"): "a part of a tool, inside that tool's own body",
    ("define/plugin.py", "guard.run"): "the name of a guard",
    ("threads.py", "contextvars.copy_context().run"): "a function in its context",
    ("define/tool.py", "self.run"): "whether there is a body",
    ("doors/cli/chat/terminal.py", "app.context.copy().run"): "what reads the keys that were typed",
    ("agent/turn.py", "loop.run"): "the loop of a turn, whose calls go through invoke",
    ("agent/subagent.py", "self.loop.run"): "the loop of a subagent, whose calls go through invoke",
    ("agent/subagent.py", "guard.run"): "a guard that hears of the end of a subagent",
    ("app/turns.py", "self._turns.run"): "a turn",
    ("doors/cli/mcp.py", "serving.run"): "a server of the MCP, whose calls go through a Belt",
    ("doors/cli/chat/__init__.py", "loop.run"): "a chat, whose turns go through invoke",
    ("doors/cli/chat/loop.py", "commands.run"): "a command to the chat itself",
    ("doors/cli/_loop.py", "runner.run"): "the event loop of a command",
    ("doors/mcp/stdio.py", "server.run"): "the loop of that server",
    ("doors/mcp/http.py", "self._sessions.run"): "the sessions of that server over HTTP",
    ("services/router.py", "method.run"): "a method of a service",
    ("app/belt.py", "tool.run"): "a body of ours that changes files, in a workspace where nothing is changed",
    ("client.py", "tool.run"): "a function of the program itself, for a call that a gateway judged and recorded",
    ("testing/tape.py", "tool.run"): "the body of a call that invoke permits, recorded",
    ("testing/__init__.py", "this.run"): "a tool that a test calls by itself",
}
# Who may call `invoke` and `invoke_all`; every other way in holds a Belt.
CALLERS = {"agent/invoke.py", "agent/loop.py", "agent/notes.py", "app/belt.py", "app/methods.py"}


@cache
def modules() -> Mapping[str, ast.Module]:
    """Return every module of the package, parsed."""
    paths = sorted(SOURCE.rglob("*.py"))
    return {path.relative_to(SOURCE).as_posix(): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def nodes() -> Iterator[tuple[str, ast.AST]]:
    return ((path, node) for path, module in modules().items() for node in ast.walk(module))


def test_a_body_is_run_in_one_place_only() -> None:
    found = {
        (path, ast.unparse(node))
        for path, node in nodes()
        if isinstance(node, ast.Attribute) and node.attr == BODY and isinstance(node.ctx, ast.Load)
        if ast.unparse(node) != "asyncio.run"
    }
    assert found - RUNS.keys() == set(), "list it here and say what it runs, unless it is the body of a tool"


def test_the_body_is_run_by_one_line() -> None:
    runs = [node for node in ast.walk(modules()["agent/invoke.py"]) if isinstance(node, ast.Attribute)]
    assert [ast.unparse(node) for node in runs if node.attr == BODY].count(f"tool.{BODY}") == 1


def test_nobody_reaches_for_a_body_by_its_name() -> None:
    found = [
        f"{path}:{node.lineno}"
        for path, node in nodes()
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in ("getattr", "attrgetter", "methodcaller")
        and any(isinstance(each, ast.Constant) and each.value == BODY for each in node.args)
    ]
    assert found == []


def test_invoke_is_called_by_the_belt_only() -> None:
    named = ("invoke", "invoke_all")
    calls = {
        path
        for path, node in nodes()
        if (isinstance(node, ast.Name) and node.id in named)
        or (isinstance(node, ast.alias) and node.name in named)
        or (isinstance(node, ast.Attribute) and node.attr == "invoke_all")
    }
    whole = {
        path
        for path, node in nodes()
        if (isinstance(node, ast.ImportFrom) and node.module in ("agent", "toolcrib.agent"))
        and any(alias.name == "invoke" for alias in node.names)
    }
    assert (calls, whole) == (CALLERS, set())


# What stands before a body, removed piece by piece


class Probe:
    """A tool that keeps what it ran with, and what was on record by then."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, list[str]]] = []
        self.record = MemoryRecord()

        @tool(name="probe")
        async def body(ctx: Ctx, text: str) -> Result:
            """Probe."""
            self.ran.append((text, [type(entry).__name__ for entry in self.record.entries]))
            return Result.text(text, source="web:https://a.test")

        self.tool = body


CALL = Call(id="call_1", name="probe", args={"text": "a"}, key="call_1")


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One call, and the crib it is made in."""

    probe: Probe
    call: Call = CALL
    tools: Mapping[str, Any] = field(default_factory=dict)
    guards: Sequence[Guard] = ()
    approver: Approver | None = None


@dataclass(frozen=True, slots=True)
class Seen:
    """What the model was told, and what was written down."""

    status: str
    text: str
    entries: Sequence[RecordEntry]


Enter = Callable[[Situation], Awaitable[Seen]]


def opened(app: ModuleType, situation: Situation) -> Belt:
    """Return the belt of a crib opened for the situation."""
    offer = Offer(source="plugin:proof", tools=(situation.probe.tool,), before=tuple(situation.guards))
    crib = app.open({"tools": dict(situation.tools)}, plugins=[offer], env={}, approver=situation.approver)
    handle: Belt = crib.belt(OWNER)
    assert isinstance(handle.pipeline.record, MemoryRecord)
    situation.probe.record = handle.pipeline.record
    return handle


def seen(handle: Belt, result: Result | Message) -> Seen:
    record = handle.pipeline.record
    assert isinstance(record, MemoryRecord)
    text = result.plain_text
    return Seen(result.status, text, tuple(record.entries))


def app_around(module: ModuleType) -> ModuleType:
    """Return a copy of the app whose belts call the `invoke` of this module."""
    app, belt = (copied(name, modules()[path]) for name, path in _APP.items())
    vars(belt).update({name: vars(module)[name] for name in ("invoke", "invoke_all")})
    vars(app)["BeltSource"] = vars(belt)["BeltSource"]
    return app


_APP = {"toolcrib.app": "app/__init__.py", "toolcrib.app.belt": "app/belt.py"}


def by_invoke(module: ModuleType) -> Enter:
    async def enter(situation: Situation) -> Seen:
        handle = opened(toolcrib.app, situation)
        ctx = Ctx(call=situation.call, caller=handle.caller, course=CallState())
        return seen(handle, await module.invoke(handle.selection, ctx, handle.pipeline))

    return enter


def by_invoke_all(module: ModuleType) -> Enter:
    async def enter(situation: Situation) -> Seen:
        handle = opened(toolcrib.app, situation)
        ctx = Ctx(call=situation.call, caller=handle.caller, course=CallState())
        return seen(handle, (await module.invoke_all(handle.selection, [ctx], handle.pipeline))[0])

    return enter


def by_call(module: ModuleType) -> Enter:
    app = app_around(module)

    async def enter(situation: Situation) -> Seen:
        handle, call = opened(app, situation), situation.call
        return seen(handle, await handle.call(call.name, call.args, id=call.id))

    return enter


def by_call_all(module: ModuleType) -> Enter:
    app = app_around(module)

    async def enter(situation: Situation) -> Seen:
        handle = opened(app, situation)
        return seen(handle, (await handle.call_all([situation.call]))[0])

    return enter


def by_bridge(module: ModuleType) -> Enter:
    app = app_around(module)

    async def enter(situation: Situation) -> Seen:
        handle = opened(app, situation)
        reply = Message(role="assistant", calls=(situation.call,), finish="calls")
        return seen(handle, (await run_calls(handle, Replied(reply)))[1])

    return enter


def by_turn(module: ModuleType) -> Enter:
    loops = copied("toolcrib.agent.loop", modules()["agent/loop.py"])
    vars(loops).update(invoke=module.invoke)

    async def enter(situation: Situation) -> Seen:
        handle = opened(toolcrib.app, situation)
        model = ScriptedModel([call_reply(situation.call), "done"])
        setup = loops.TurnSetup(model=model, belt=handle.selection, caller=handle.caller, pipeline=handle.pipeline)
        history = History([Message(role="user", content=(Text("go"),))])
        await loops.Loop(setup, history, Journal(handle.pipeline.record), lambda event: None).run()
        return seen(handle, next(message for message in history if message.role == "tool"))

    return enter


def by_mcp(module: ModuleType) -> Enter:
    """A client of the MCP server, which asks over the official SDK."""
    app = app_around(module)

    async def enter(situation: Situation) -> Seen:
        handle, call = opened(app, situation), situation.call
        async with asyncio.timeout(60), Client(BeltServer(lambda: handle)) as client:
            told = await client.call_tool(call.name, dict(call.args))
        text = "".join(part.text for part in told.content if isinstance(part, TextContent))
        return replace(seen(handle, Result.text(text)), status="error" if told.is_error else "ok")

    return enter


def by_subagent(module: ModuleType) -> Enter:
    """A subagent that calls the tool and then hands its answer in; what it hands in has entries of its own."""
    agents = copied("toolcrib.agent.subagent", modules()["agent/subagent.py"])
    loops = copied("toolcrib.agent.loop", modules()["agent/loop.py"])
    vars(loops).update(invoke=module.invoke)
    vars(agents).update(Loop=loops.Loop)
    agent = Agent(name="worker", description="works", prompt="I work.", inputs={})

    async def enter(situation: Situation) -> Seen:
        handle, call = opened(toolcrib.app, situation), situation.call
        model = ScriptedModel([call_reply(call), call_reply(Call("end", COMPLETE, {"result": "done"}))])
        setup = loops.TurnSetup(model=model, belt=handle.selection, caller=handle.caller, pipeline=handle.pipeline)
        await agents.run_agent(agent, setup, "begin")
        answer = next(message for message in model.asked[1].messages if message.role == "tool")
        entries = [entry for entry in seen(handle, answer).entries if COMPLETE not in str(entry)]
        return Seen(answer.status, answer.plain_text, entries)

    return enter


# Every way in. A new one gets a line here.
ENTRIES: Mapping[str, Callable[[ModuleType], Enter]] = {
    "invoke": by_invoke,
    "invoke_all": by_invoke_all,
    "Belt.call": by_call,
    "Belt.call_all": by_call_all,
    "bridges": by_bridge,
    "Loop": by_turn,
    "MCP": by_mcp,
    "subagents": by_subagent,
}


async def said_nothing(ctx: Ctx, args: Mapping[str, Any]) -> None:
    return None


async def blocked(ctx: Ctx, args: Mapping[str, Any]) -> Block:
    return Block("not today")


async def spoiled(ctx: Ctx, args: Mapping[str, Any]) -> Rewrite:
    return Rewrite({"text": ["no", "text"]})


def outcome_of(entries: Sequence[RecordEntry]) -> tuple[list[str], str, bool]:
    """Return the kinds of entries in their order, the code of the outcome, and whether it says that the body ran."""
    finished = [entry for entry in entries if isinstance(entry, Finished)]
    last = finished[-1] if finished else None
    kinds = [type(entry).__name__ for entry in entries]
    return kinds, last.code if last else "", last.ran if last else False


def list_situations() -> Iterator[tuple[str, str, Sequence[str], dict[str, Any]]]:
    """Yield calls that must not run and some that must: what is said of each, its code, and what is on record of it."""
    yield "an allowed call", "", (), {"guards": [said_nothing]}
    yield "a denied call", "denied", (), {"tools": {"deny": ["probe"]}}
    yield "a call that nobody approves", "not_approved", (), {"tools": {"ask": ["probe"]}}
    for what, code, answer in (("a refused call", "not_approved", False), ("an approved call", "", True)):
        yield what, code, ["Answered"], {"tools": {"ask": ["probe"]}, "approver": FakeApprover([answer])}
    yield "a blocked call", "blocked", ["Judged"], {"guards": [blocked]}
    yield "a spoiled call", "bad_arguments", ["Judged"], {"guards": [spoiled]}
    yield "a call with a list", "bad_arguments", (), {"call": CALL._replace(args={"text": ["a"]})}
    yield "a call without text", "bad_arguments", (), {"call": CALL._replace(args={"txt": "a"})}
    yield "an unknown name", "not_found", (), {"call": CALL._replace(name="prope")}


async def battery(enter: Enter) -> AsyncGenerator[str, None]:
    """Make the calls; yield everything that is not as it has to be."""
    probe = Probe()
    for what, code, said, situation in list_situations():
        probe.ran.clear()
        got = await enter(Situation(probe=probe, **situation))
        kinds, told, ran = outcome_of(got.entries)
        before = ["Decided", *said]
        body = [] if code else [("a", [*before, "Started"])]
        written = [*before, "Finished"] if code else [*before, "Started", "Finished"]
        if (kinds, told, ran, probe.ran) != (written, code, not code, body):
            yield f"{what}: {kinds} {told!r}, ran {ran} with {probe.ran}"
        if got.status != ("error" if code else "ok"):
            yield f"{what}: told {got.status}"
        if what == "an allowed call":
            decided = next((entry for entry in got.entries if isinstance(entry, Decided)), None)
            if decided is None or decided.verdict is None or decided.verdict.decision != "allow":
                yield f"{what}: its permission is not on record"
            if "web:https://a.test" not in got.text:
                yield f"{what}: outside text came without its fence"


Change = Callable[[ast.AST], ast.AST | None]


@dataclass(frozen=True, slots=True)
class Mutation:
    """One step removed; `change` returns what stands instead of a node, None where it stays."""

    change: Change
    module: str = "agent/invoke.py"


def mentions(node: ast.AST, *names: str) -> bool:
    """Tell whether a name, an attribute or a constant of that spelling stands in the node."""
    spelled = (getattr(each, "id", None) or getattr(each, "attr", None) or getattr(each, "value", None)
               for each in ast.walk(node))  # fmt: skip
    return any(isinstance(each, str) and each in names for each in spelled)


def without(*names: str) -> Change:
    """Remove statements that use a name for its effect, and what is done on a condition or for each of such a name."""

    def change(node: ast.AST) -> ast.AST | None:
        match node:
            case ast.Expr(value=said) | ast.If(test=said) | ast.For(iter=said) if mentions(said, *names):
                return ast.Pass()
        return None

    return change


def no_gate(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Assign) and mentions(node.value, "_permit"):
        node.value = ast.parse("(belt.tools[ctx.call.name], [])", mode="eval").body
        return node
    return None


def no_human(node: ast.AST) -> ast.AST | None:
    if isinstance(node, ast.Assign) and mentions(node.value, "_ask_if_left"):
        node.value = ast.Constant(None)
        return node
    return None


def no_check(node: ast.AST) -> ast.AST | None:
    match node:
        case ast.Call(func=ast.Attribute(attr="check"), args=[args]):
            return args
    return None


def no_fence(node: ast.AST) -> ast.AST | None:
    match node:
        case ast.Await(value=ast.Call(func=ast.Name("present_result"), args=[result, *_])):
            return result
    return None


MUTATIONS: Mapping[str, Mutation] = {
    "the gate": Mutation(no_gate),
    "the denial": Mutation(without("deny")),
    "the record of the decision": Mutation(without("Decided", "_make_decided")),
    "the record of the start": Mutation(without("Started", "_make_started")),
    "the record of the outcome": Mutation(without("Finished", "_make_finished")),
    "the check": Mutation(no_check),
    "the guards": Mutation(without("guards")),
    "the check of what a guard rewrote": Mutation(no_check, "agent/hooks.py"),
    "the human": Mutation(no_human),
    "the record of what a guard says": Mutation(without("Judged")),
    "the record of the answer": Mutation(without("Answered")),
    "the fence": Mutation(no_fence),
}


class _Mutator(ast.NodeTransformer):
    def __init__(self, change: Change) -> None:
        self.change, self.hits = change, 0

    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        changed = self.change(node)
        if changed is None:
            return node
        self.hits += 1
        return ast.copy_location(changed, node)


def copied(name: str, tree: ast.Module) -> ModuleType:
    """Return a module made from this tree, known to nobody else."""
    spec = importlib.util.find_spec(name)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    exec(compile(ast.fix_missing_locations(tree), f"<{name}, changed>", "exec"), vars(module))
    return module


@cache
def mutant(mutation: Mutation) -> ModuleType:
    """Return `invoke` with one step removed, as a module of its own."""
    mutator = _Mutator(mutation.change)
    # parsed anew: a transformer changes the tree it is given
    source = (SOURCE / mutation.module).read_text(encoding="utf-8")
    changed = mutator.visit(ast.parse(source))
    assert mutator.hits, f"{mutation.module} has nothing of that kind any more"
    assert isinstance(changed, ast.Module)
    if mutation.module == "agent/invoke.py":
        return copied(real_invoke.__name__, changed)
    hooks, invoke = copied(real_hooks.__name__, changed), copied(real_invoke.__name__, modules()["agent/invoke.py"])
    own = {name for name, each in vars(real_hooks).items() if getattr(each, "__module__", "") == real_hooks.__name__}
    vars(invoke).update({name: vars(hooks)[name] for name in own & vars(invoke).keys()})
    return invoke


def find_wrong(enter: Enter) -> str | None:
    """Return the first that is not as it has to be."""
    logging.getLogger("toolcrib").addHandler(logging.NullHandler())

    async def find() -> str | None:
        async with contextlib.aclosing(battery(enter)) as wrong:
            return await anext(wrong, None)

    return asyncio.run(find())


@pytest.mark.parametrize("entry", ENTRIES)
def test_every_entry_passes_the_battery(entry: str) -> None:
    assert find_wrong(ENTRIES[entry](real_invoke)) is None


@pytest.mark.parametrize("entry", ENTRIES)
def test_a_copy_passes_it_too(entry: str) -> None:
    assert find_wrong(ENTRIES[entry](copied(real_invoke.__name__, modules()["agent/invoke.py"]))) is None


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("removed", MUTATIONS)
def test_no_entry_does_without(removed: str, entry: str) -> None:
    assert find_wrong(ENTRIES[entry](mutant(MUTATIONS[removed]))) is not None
