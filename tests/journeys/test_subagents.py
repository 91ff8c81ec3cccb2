"""Subagents in a whole crib: three generations over real tools, what each is denied, and where that is told."""

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import Agent, Call, Caller, Result, Text, ToolError, tool
from toolcrib.app import Crib
from toolcrib.app.stores import verify_file
from toolcrib.define.agent import OUTCOME, WORKING
from toolcrib.define.approval import name_of
from toolcrib.define.event import Event, ToolFinished, ToolProgress, Usage
from toolcrib.define.log import Ended, Noted, Said
from toolcrib.define.message import Message
from toolcrib.define.model import ModelCard, Price, Request
from toolcrib.define.result import Image
from toolcrib.define.turn import Limits
from toolcrib.policy.explain import explain_sentence
from toolcrib.policy.resolve import child_of
from toolcrib.policy.settings import PolicySettings
from toolcrib.registry.sources import Offer
from toolcrib.services.subagents.service import root_of
from toolcrib.testing import FakeApprover
from toolcrib.testing.models import FunctionModel, call_reply, text_reply

pytestmark = pytest.mark.anyio

MAIN = "agent:main:main"
TASK = {"task": {"type": "string", "required": True}}
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 16


def agent(name: str, **options: Any) -> Agent:
    return Agent(name=name, description=f"does what {name} does", prompt=f"I am {name}.", inputs=TASK, **options)


def crib_with(*agents: Agent, state: Path | None = None, **config: Any) -> Crib:
    return toolcrib.open(config, plugins=[Offer(source="plugin:crew", tools=(), agents=agents)], state=state)


def who(request: Request) -> str:
    """Return the agent that asks, by its own prompt."""
    return next((name for name in ("inner", "outer", "worker") if f"I am {name}." in request.system), "main")


def replies(request: Request) -> int:
    return sum(message.role == "assistant" for message in request.history)


def cast(**parts: Callable[[int, Request], Any]) -> FunctionModel:
    """Return one model for all generations: each says its own part, given how often it has spoken."""
    return FunctionModel(lambda request: parts[who(request)](replies(request), request))


def script(*said_in_turn: Any) -> Callable[[int, Request], Any]:
    return lambda at, request: said_in_turn[at]


def done(result: Any = "R") -> Any:
    return call_reply(Call("done", "complete_task", {"result": result}))


def go(name: str, task: str = "go") -> Call:
    return Call(f"to-{name}", name, {"task": task})


def words(result: Result) -> str:
    return result.plain_text


def answers(messages: Any) -> list[str]:
    return [
        "".join(part.text for part in message.content if isinstance(part, Text))
        for message in messages
        if message.role == "tool"
    ]


async def test_three_generations_work_over_real_tools_and_each_lacks_what_it_was_denied(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("the treasure is under the oak\n")
    outer = agent("outer", tools=("read", "grep", "ls", "inner"))
    inner = agent("inner", tools=("read", "ls", "grep"))
    config: dict[str, Any] = {
        "workspace": {"root": str(tmp_path)},
        "tools": {"deny": ["write"], "subagents": {"maxDepth": 2}},
        "agents": {"main": {}, "outer": {"tools": {"deny": ["ls"]}}, "inner": {"tools": {"deny": ["grep"]}}},
    }
    read = Call("r", "read", {"path": "note.txt"})
    tried = {
        "main": Call("x", "write", {"path": "a", "content": "b"}),
        "outer": Call("x", "ls", {}),
        "inner": Call("x", "grep", {"pattern": "oak"}),
    }
    model = cast(
        main=script(call_reply(tried["main"], go("outer")), text_reply("found")),
        outer=script(call_reply(tried["outer"], go("inner")), done("inner says it")),
        inner=script(call_reply(tried["inner"], read), done("under the oak")),
    )
    async with crib_with(outer, inner, state=tmp_path / "state", **config) as crib:
        events = [event async for event in crib.turn("where is it?", caller=toolcrib.OWNER, session=MAIN, model=model)]
        callers = [event.call.name for event in events if isinstance(event, ToolFinished)]
        assert callers == ["write", "outer"]
        asked = {who(each.request): each for each in model.asked}
        assert answers(asked["main"].messages)[0].startswith("Refused: write is not permitted here.")
        assert answers(asked["outer"].messages)[0].startswith("Refused: ls is not permitted here.")
        assert answers(asked["inner"].messages)[0].startswith("Refused: grep is not permitted here.")
        assert "under the oak" in answers(asked["inner"].messages)[1]
        assert answers(asked["outer"].messages)[1] == "under the oak"
        assert answers(asked["main"].messages)[1] == "inner says it"
        # and so says explain, for each of them
        child = Caller(session="agent:outer:subagent:1", agent="outer", parents=(MAIN,), owner=True)
        grandchild = Caller(
            session="agent:inner:subagent:2", agent="inner", parents=(MAIN, "agent:outer:subagent:1"), owner=True
        )
        for caller, name, words_of_it in (
            (Caller(session=MAIN, owner=True), "write", "deny has 'write' (tools)"),
            (child, "ls", "deny has 'ls' (agents.outer.tools)"),
            (child, "write", "deny has 'write' (tools)"),
            (child, "exec", "not in allow (agent outer)"),
            (grandchild, "grep", "deny has 'grep' (agents.inner.tools)"),
            (grandchild, "ls", "of the parent 'agent:outer:subagent:1'"),
            (grandchild, "inner", "not in allow"),
        ):
            verdict = crib.belt(caller).verdicts[name]
            assert verdict.decision == "deny"
            assert words_of_it in explain_sentence(verdict), explain_sentence(verdict)
        assert set(crib.belt(grandchild).tools) == {"read"}


async def test_every_step_is_on_record_with_the_whole_chain_and_can_be_derived_again(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("x")
    outer, inner = agent("outer", tools=("inner", "read")), agent("inner", tools=("read",))
    model = cast(
        main=script(call_reply(go("outer")), text_reply("ok")),
        outer=script(call_reply(go("inner")), done()),
        inner=script(call_reply(Call("r", "read", {"path": "note.txt"})), done()),
    )
    config: dict[str, Any] = {
        "workspace": {"root": str(tmp_path)},
        "tools": {"subagents": {"maxDepth": 2}},
        "audit": {"file": str(tmp_path / "audit.jsonl")},
    }
    async with crib_with(outer, inner, state=tmp_path / "state", **config) as crib:
        await crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=model).end()
    report = verify_file(tmp_path / "audit.jsonl", replay=True)
    assert report.findings == ()
    assert report.derived == report.decisions == 5
    lines = (tmp_path / "audit.jsonl").read_text()
    assert lines.count('"complete_task"') >= 2
    assert '"agent:outer:subagent:' in lines


async def test_every_run_has_a_log_of_its_own_under_its_parent_s(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("under the oak")
    outer, inner = agent("outer", tools=("inner", "read")), agent("inner", tools=("read",))
    model = cast(
        main=script(call_reply(go("outer", "find it")), text_reply("ok")),
        outer=script(call_reply(go("inner", "read it")), done("it is under the oak")),
        inner=script(call_reply(Call("r", "read", {"path": "note.txt"})), text_reply("hm"), done("oak")),
    )
    config: dict[str, Any] = {"workspace": {"root": str(tmp_path)}, "tools": {"subagents": {"maxDepth": 2}}}
    async with crib_with(outer, inner, state=tmp_path / "state", **config) as crib:
        await crib.turn("where is it?", caller=toolcrib.OWNER, session=MAIN, model=model).end()
    async with crib_with(outer, inner, state=tmp_path / "state", **config) as crib:
        heads = {head.key.split(":")[1]: head for head in await crib.sessions.list()}
        assert heads["outer"].parents == (MAIN,)
        assert heads["inner"].parents == (MAIN, heads["outer"].key)
        assert (heads["outer"].title, heads["inner"].title) == ("find it", "read it")
        lines = [line.body for line in await crib.sessions.lines(heads["inner"].key)]
        said_in_it = [body.message.role for body in lines if isinstance(body, Said)]
        assert said_in_it == ["user", "assistant", "tool", "assistant", "user", "assistant", "tool"]
        notes = [body for body in lines if isinstance(body, Noted)]
        assert [note.name for note in notes] == [WORKING, OUTCOME]
        assert notes[0].data == {"agent": "inner", "inputs": {"task": "read it"}}
        assert (notes[1].data["reason"], notes[1].data["end"], notes[1].data["text"][-3:]) == ("rescued", "done", "oak")
        # nobody can list or go on with what its parent has waited for
        listed = await crib.belt(Caller(session=MAIN, owner=True)).call("subagents", {"action": "list"})
        assert listed.details["subagents"] == []


async def test_a_crib_that_keeps_nothing_keeps_no_logs_of_runs() -> None:
    model = cast(main=script(call_reply(go("worker")), text_reply("ok")), worker=script(done()))
    async with crib_with(agent("worker")) as crib:
        await crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=model).end()
        assert [head.key for head in await crib.sessions.list()] == [MAIN]


async def test_a_run_that_was_stopped_has_no_outcome_in_its_log_and_its_parent_what_it_had(tmp_path: Path) -> None:
    came = asyncio.Event()

    @tool(effects=set())
    async def hang() -> str:
        """Wait for ever."""
        came.set()
        await asyncio.Event().wait()
        return ""

    worker = script(call_reply(Call("l", "ls", {"path": "."}), text="I look around"), call_reply(Call("h", "hang", {})))
    model = cast(main=script(call_reply(go("worker"))), worker=worker)
    config: dict[str, Any] = {"workspace": {"root": str(tmp_path)}}
    async with crib_with(agent("worker"), state=tmp_path / "state", **config) as crib:
        turn = crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=model, extra=[hang])
        await asyncio.wait_for(came.wait(), 60)
        turn.stop()
        assert (await turn.end()).reason == "stopped"
        (key,) = [head.key for head in await crib.sessions.list() if head.parents]
        lines = [line.body for line in await crib.sessions.lines(key)]
        assert [body.name for body in lines if isinstance(body, Noted)] == [WORKING]
        assert [body.reason for body in lines if isinstance(body, Ended)] == ["stopped"]
        said_above = [line.body.message for line in await crib.sessions.lines(MAIN) if isinstance(line.body, Said)]
    (answer,) = answers(said_above)
    assert answer.startswith("I look around")
    assert "it was stopped while it ran" in answer


async def test_a_child_on_another_model_is_bound_by_the_rules_about_its_parent_s(tmp_path: Path) -> None:
    model = FunctionModel(
        lambda request: call_reply(go("worker", "what is 2 + 2?")) if len(request.history) == 1 else text_reply("ok"),
        card=ModelCard(provider="openai", model="gpt"),
    )
    config: dict[str, Any] = {
        "workspace": {"root": str(tmp_path)},
        "tools": {"byProvider": {"openai": {"deny": ["exec"]}}},
        "audit": {"file": str(tmp_path / "audit.jsonl")},
    }
    worker = agent("worker", model="offline:rules")
    async with crib_with(worker, state=tmp_path / "state", **config) as crib:
        await crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=model).end()
        lines = (tmp_path / "audit.jsonl").read_text().splitlines()
        callers = [json.loads(line)["body"].get("caller", {}) for line in lines]
        told = next(caller for caller in callers if caller.get("agent") == "worker")
        assert (told["provider"], told["parent_models"]) == ("offline", ["openai:gpt"])
        child = Caller(**{**told, "parents": tuple(told["parents"]), "parent_models": ("openai:gpt",)})
        verdict = crib.belt(child).verdicts["exec"]
    assert (verdict.decision, verdict.origin) == ("deny", "tools.byProvider.openai")
    assert verify_file(tmp_path / "audit.jsonl", replay=True).findings == ()


async def test_a_question_of_a_grandchild_shows_the_chain_of_names_and_stops_every_clock() -> None:
    asked: list[Caller] = []

    class Slow:
        """A human who takes longer than every turn in the chain may."""

        async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str], /) -> bool:
            asked.append(caller)
            passed = asyncio.Event()
            asyncio.get_running_loop().call_later(5.5, passed.set)
            await passed.wait()
            return True

    @tool(effects=set())
    async def knock() -> str:
        """Knock."""
        return "come in"

    outer, inner = agent("outer", timeout=5.0), agent("inner", timeout=5.0)
    model = cast(
        main=script(call_reply(go("outer")), text_reply("ok")),
        outer=script(call_reply(go("inner")), done()),
        inner=script(call_reply(Call("k", "knock", {})), done()),
    )
    config: dict[str, Any] = {"tools": {"ask": ["knock"], "subagents": {"maxDepth": 2}}}
    async with crib_with(outer, inner, **config) as crib:
        limits = Limits(seconds=5.0)
        turn = crib.turn(
            "go", caller=toolcrib.OWNER, session=MAIN, model=model, extra=[knock], approver=Slow(), limits=limits
        )
        end = await asyncio.wait_for(turn.end(), 60)
    assert end.reason == "done", end.sentence
    (caller,) = asked
    assert (caller.agent, caller.parents[0]) == ("inner", MAIN)
    assert caller.parents[1].startswith("agent:outer:subagent:")
    assert f"started by {MAIN}/{caller.parents[1]}" in name_of(caller)


async def test_what_subagents_take_counts_in_the_turn_above_them() -> None:
    price = Price(input=1_000_000.0, output=0.0)  # a dollar a token
    card = ModelCard(provider="test", model="dear", price=price)
    spends = Usage(input=10)

    def child(at: int, request: Request) -> Any:
        return call_reply(Call(f"l{at}", "ls", {}), usage=spends)

    model = FunctionModel(
        lambda request: (
            child(replies(request), request) if who(request) == "worker" else call_reply(go("worker"), usage=spends)
        ),
        card=card,
    )
    async with crib_with(agent("worker")) as crib:
        end = await crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=model, limits=Limits(cost=35.0)).end()
    assert end.reason == "cost"
    assert end.cost == 50.0  # one reply of the parent, three of the child, and the parent's last words
    assert len(model.asked) == 5


async def test_a_child_is_told_that_the_budget_of_the_tree_is_spent() -> None:
    spends = Usage(input=10)
    model = cast(
        main=lambda at, request: call_reply(go("worker"), usage=spends),
        worker=lambda at, request: call_reply(Call(f"l{at}", "ls", {}), text="so far so good", usage=spends),
    )
    seen: list[Event] = []
    async with crib_with(agent("worker")) as crib:
        turn = crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=model, limits=Limits(tokens=25))
        seen += [event async for event in turn]
    (result,) = [event.result for event in seen if isinstance(event, ToolFinished)]
    assert (result.status, result.details["reason"]) == ("error", "budget")
    assert "so far so good" in words(result)


async def test_pictures_reach_the_model_of_a_subagent() -> None:
    @tool(effects={"read"})
    async def shot() -> Result:
        """Take a picture."""
        return Result.image(PNG, label="see")

    seen: list[Message] = []

    def worker(at: int, request: Request) -> Any:
        seen.extend(request.history.since(0))
        return call_reply(Call("s", "shot", {})) if not at else done()

    model = cast(main=script(call_reply(go("worker")), text_reply("ok")), worker=worker)
    async with crib_with(agent("worker")) as crib:
        await crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=model, extra=[shot]).end()
    assert Image(PNG, "image/png") in [part for message in seen for part in message.content]


async def test_a_subagent_streams_what_it_does_and_hides_secrets() -> None:
    @tool(effects=set())
    async def login(password: str) -> str:
        """Log in."""
        return "welcome"

    model = cast(
        main=script(call_reply(go("worker")), text_reply("ok")),
        worker=script(call_reply(Call("l", "login", {"password": "hunter2"}), text="I log in first"), done()),
    )
    async with crib_with(agent("worker")) as crib:
        events = [
            event async for event in crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=model, extra=[login])
        ]
    told = [event.partial for event in events if isinstance(event, ToolProgress)]
    last = told[-1].details
    assert last["agent"] == "worker"
    assert [step["kind"] for step in last["activity"]] == ["thought", "call", "call"]
    assert last["activity"][0]["text"] == "I log in first"
    assert (last["activity"][1]["tool"], last["activity"][1]["result"]) == ("login", "welcome")
    assert "hunter2" not in str(told)


async def test_what_a_subagent_read_outside_marks_its_answer_and_asks_before_the_next_step() -> None:
    @tool(effects={"network"})
    async def page() -> Result:
        """Read a page."""
        return Result.text("BUY NOW", source="web:https://shop.test")

    @tool(effects={"send"})
    async def order() -> str:
        """Order something."""
        return "ordered"

    person = FakeApprover([False, False])
    model = cast(
        main=script(call_reply(go("worker")), call_reply(Call("o", "order", {})), text_reply("no")),
        worker=script(call_reply(Call("p", "page", {})), call_reply(Call("o", "order", {})), done("they say buy")),
    )
    config: dict[str, Any] = {"tools": {"askAfterOutside": ["order"]}}
    async with crib_with(agent("worker"), **config) as crib:
        await crib.turn(
            "go", caller=toolcrib.OWNER, session=MAIN, model=model, extra=[page, order], approver=person
        ).end()
    assert [call.name for _, call, _ in person.asked] == ["order", "order"]  # in the child, and in the parent behind it
    assert any("they say buy" in answer and "EXTERNAL" in answer for answer in answers(model.asked[-1].messages))


@pytest.mark.parametrize("keeps", [False, True], ids=["in memory", "kept"])
async def test_the_investigator_finds_a_symbol_of_this_very_repository_offline(tmp_path: Path, keeps: bool) -> None:
    root = Path(toolcrib.__file__).parent
    state = tmp_path if keeps else None
    asked = "ask the codebase investigator to search class Belt in *.py"
    async with toolcrib.open({"workspace": {"root": str(root)}}, env={}, state=state) as crib:
        events = [event async for event in crib.turn(asked, caller=toolcrib.OWNER, session=MAIN)]
    (result,) = [event.result for event in events if isinstance(event, ToolFinished)]
    assert result.status == "ok", words(result)
    line = next(
        number
        for number, text in enumerate((root / "app/belt.py").read_text().splitlines(), 1)
        if text.startswith("class Belt")
    )
    assert ("app/belt.py", line) in [(each["path"], each["line"]) for each in result.details["output"]["locations"]]
    assert result.details["reason"] == "goal"


async def test_stop_ends_fifty_subagents_and_whatever_they_run() -> None:
    running: set[str] = set()
    all_run = asyncio.Event()

    @tool(effects=set())
    async def hang(word: str) -> str:
        """Wait for ever."""
        running.add(word)
        if len(running) == 50:
            all_run.set()
        try:
            await asyncio.Event().wait()
        finally:
            running.discard(word)
        return word

    def main(at: int, request: Request) -> Any:
        return call_reply(*(Call(f"c{number}", "worker", {"task": str(number)}) for number in range(50)))

    def worker(at: int, request: Request) -> Any:
        (first,) = request.history[0].content
        assert isinstance(first, Text)
        return call_reply(Call("h", "hang", {"word": first.text}))

    config: dict[str, Any] = {"tools": {"subagents": {"maxConcurrent": 50}}}
    async with crib_with(agent("worker"), **config) as crib:
        async with crib.turn(
            "go", caller=toolcrib.OWNER, session=MAIN, model=cast(main=main, worker=worker), extra=[hang]
        ) as turn:
            await asyncio.wait_for(all_run.wait(), 60)
            turn.stop()
            end = await asyncio.wait_for(turn.end(), 60)
        assert (end.reason, running) == ("stopped", set())


async def test_no_more_subagents_run_at_once_than_the_tree_may_have() -> None:
    may_end = asyncio.Event()

    async def answer(request: Request) -> Any:
        if who(request) == "main":
            return (
                text_reply("ok")
                if replies(request)
                else call_reply(*(Call(f"c{number}", "worker", {"task": "wait"}) for number in range(5)))
            )
        await may_end.wait()
        return done()

    model = FunctionModel(answer)
    config: dict[str, Any] = {"tools": {"subagents": {"maxConcurrent": 2}}}
    told: list[ToolFinished] = []
    async with crib_with(agent("worker"), **config) as crib:
        async for event in crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=model):
            if isinstance(event, ToolFinished):
                told.append(event)
                if len(told) == 3:
                    may_end.set()
    codes = [event.result.details.get("code") for event in told if event.result.status == "error"]
    assert codes == ["busy"] * 3
    assert sum(event.result.status == "ok" for event in told) == 2


async def test_what_a_run_without_an_answer_had_is_marked_with_what_it_read() -> None:
    @tool(effects={"network"})
    async def page() -> Result:
        """Read a page."""
        return Result.text("BUY NOW", source="web:https://shop.test")

    @tool(effects={"send"})
    async def order(number: int = 0) -> str:
        """Order something."""
        return "ordered"

    @tool(effects=set())
    async def count(number: int) -> str:
        """Count."""
        return str(number)

    person = FakeApprover([False])
    model = cast(
        main=script(call_reply(go("worker")), call_reply(Call("o", "order", {})), text_reply("no")),
        worker=script(
            call_reply(Call("p", "page", {})),
            *(call_reply(Call(f"c{number}", "count", {"number": number}), text="buy!") for number in range(4)),
            text_reply("buy!"),
            text_reply("buy, I say!"),
        ),
    )
    async with crib_with(agent("worker"), tools={"askAfterOutside": ["order"]}) as crib:
        await crib.turn(
            "go", caller=toolcrib.OWNER, session=MAIN, model=model, extra=[page, order, count], approver=person
        ).end()
    assert [call.name for _, call, _ in person.asked] == ["order"]


@pytest.mark.parametrize("session", [None, MAIN, "desk"])
async def test_a_tree_is_one_tree_however_its_root_is_called(session: str | None) -> None:
    root = Caller(session=session)
    child = child_of(PolicySettings(), root, "outer", "agent:outer:subagent:call-1")
    grandchild = child_of(PolicySettings(), child, "inner", "agent:inner:subagent:call-2")
    assert root_of(root) == root_of(child) == root_of(grandchild)


async def test_what_the_environment_gave_is_shown_to_nobody_who_watches_a_subagent() -> None:
    @tool(effects=set())
    async def login(word: str) -> str:
        """Log in."""
        raise ToolError(f"{word} is wrong")

    model = cast(
        main=script(call_reply(go("worker")), text_reply("ok")),
        worker=script(call_reply(Call("l", "login", {"word": "hunter2-hunter2"}), text="with hunter2-hunter2"), done()),
    )
    config = {"models": {"openai": {"apiKey": "${KEY}"}}}
    offer = Offer(source="plugin:farm", tools=(), agents=(agent("worker"),))
    async with toolcrib.open(config, plugins=[offer], env={"KEY": "hunter2-hunter2"}) as crib:
        events = [
            event async for event in crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=model, extra=[login])
        ]
    told = [event.partial for event in events if isinstance(event, ToolProgress)]
    assert told
    assert "hunter2" not in str(told)


async def test_subagents_that_are_switched_off_are_no_tools() -> None:
    async with crib_with(agent("worker"), tools={"subagents": {"enabled": False}}) as crib:
        assert not [each for each in crib.catalog.tools.values() if each.source == "agent"]
        assert "sessions_spawn" not in crib.belt(Caller(session=MAIN, owner=True)).tools


async def test_include_and_exclude_choose_among_agents_and_leave_their_tools_alone() -> None:
    subagents = {"include": ["worker", "inner"], "exclude": ["inner"]}
    async with crib_with(agent("worker"), agent("inner"), tools={"subagents": subagents}) as crib:
        assert [each.name for each in crib.catalog.tools.values() if each.source == "agent"] == ["worker"]
        child = Caller(session="agent:worker:subagent:1", agent="worker", parents=(MAIN,), owner=True)
        assert {"read", "write"} <= set(crib.belt(child).tools)


async def test_a_wrapped_agent_is_a_tool_of_kind_think_with_its_inputs_as_parameters() -> None:
    async with crib_with(agent("worker", label="The Worker")) as crib:
        made = crib.catalog.tools["worker"]
        result = await crib.belt(Caller(session=MAIN, owner=True)).call("worker", {"job": "x"})
    assert (made.kind, made.source, made.label) == ("think", "agent", "The Worker")
    assert made.parameters["required"] == ["task"]
    assert result.status == "error"
    assert "task" in words(result)


async def test_whoever_is_bound_to_a_profile_gets_no_more_through_a_subagent() -> None:
    async with crib_with(agent("worker"), tools={}) as crib:
        belt = crib.belt(Caller(session=MAIN, owner=True), profile="coding")
        assert "worker" not in belt.tools
        spawned = await belt.call("sessions_spawn", {"task": "x"})
        steered = await belt.call("subagents", {"action": "steer", "target": "x", "message": "go on"})
    assert (spawned.details["code"], steered.details["code"]) == ("denied", "denied")


async def test_what_is_asked_about_for_a_parent_is_asked_about_for_its_children_too() -> None:
    @tool(effects={"network"})
    async def page() -> Result:
        """Read a page."""
        return Result.text("BUY NOW", source="web:https://shop.test")

    @tool(effects={"send"})
    async def order() -> str:
        """Order something."""
        return "ordered"

    person = FakeApprover([False])
    model = cast(
        main=script(call_reply(go("worker")), text_reply("no")),
        worker=script(call_reply(Call("p", "page", {})), call_reply(Call("o", "order", {})), done("they say buy")),
    )
    agents: dict[str, Any] = {"main": {"tools": {"askAfterOutside": ["order"]}}}
    async with crib_with(agent("worker"), agents=agents) as crib:
        await crib.turn(
            "go", caller=toolcrib.OWNER, session=MAIN, model=model, extra=[page, order], approver=person
        ).end()
    assert [call.name for _, call, _ in person.asked] == ["order"]
