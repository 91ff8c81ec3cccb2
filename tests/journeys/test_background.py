"""Subagents in the background of a whole crib: started, announced, steered, stopped, interrupted and gone on with."""

import asyncio
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests import prestarted

import toolcrib
from toolcrib import Call, Caller, Ctx, Result, Text, tool
from toolcrib.agent.session_log import summary_in
from toolcrib.app import Crib
from toolcrib.define.event import Received, ToolFinished, Usage
from toolcrib.define.log import Said
from toolcrib.define.model import ModelCard, Request
from toolcrib.define.turn import Limits
from toolcrib.testing import FakeApprover
from toolcrib.testing.models import FunctionModel, ScriptedModel, call_reply, text_reply

from .farm import COUNTER, MAIN, crib_with, is_child, spawn

pytestmark = pytest.mark.anyio


def last(request: Request) -> str:
    return "".join(part.text for part in request.history[-1].content if isinstance(part, Text))


def texts(messages: Any, role: str = "user") -> list[str]:
    return [
        "".join(part.text for part in message.content if isinstance(part, Text))
        for message in messages
        if message.role == role
    ]


class Farm:
    """A model for parent and children; the children answer when they may."""

    def __init__(self, *parent: Any) -> None:
        self._parent = list(parent)
        self.may_end, self.came = asyncio.Event(), asyncio.Event()
        self.model = FunctionModel(self._answer)

    async def _answer(self, request: Request) -> Any:
        if not is_child(request):
            return self._parent.pop(0)
        self.came.set()
        await self.may_end.wait()
        return text_reply("forty sheep", usage=Usage(input=7, output=3))

    async def child(self) -> None:
        await asyncio.wait_for(self.came.wait(), 60)


async def settled(crib: Crib, caller: Caller) -> list[dict[str, Any]]:
    """Return the caller's subagents once none of them runs."""
    await asyncio.wait_for(crib.subagents.idle(), 60)
    rows: list[dict[str, Any]] = (await crib.belt(caller).call("subagents", {"action": "list"})).details["subagents"]
    return rows


async def test_a_spawned_subagent_returns_at_once_and_its_outcome_is_kept_for_the_next_turn() -> None:
    farm = Farm(call_reply(spawn(label="sheep")), text_reply("started"))
    async with toolcrib.open({}) as crib:
        events = [event async for event in crib.turn("count", caller=toolcrib.OWNER, session=MAIN, model=farm.model)]
        (started,) = [event.result.details for event in events if isinstance(event, ToolFinished)]
        assert (started["status"], started["agentId"], started["label"]) == ("accepted", "main", "sheep")
        assert started["childSessionKey"] == f"agent:main:subagent:{started['runId']}"
        await farm.child()
        farm.may_end.set()
        (row,) = await settled(crib, Caller(session=MAIN, owner=True))
        assert (row["state"], row["label"], row["text"]) == ("done", "sheep", "forty sheep")
        model = ScriptedModel([text_reply("there are forty")])
        await crib.turn("and?", caller=toolcrib.OWNER, session=MAIN, model=model).end()
        (announced,) = [text for text in texts(model.asked[0].messages) if "subagent" in text]
        assert announced.startswith("The subagent 'sheep' that you started")
        assert "is done" in announced
        assert "forty sheep" in announced.partition("<<<")[2]  # as somebody's report, between marks
        head = await crib.sessions.find(started["childSessionKey"])
        assert head is not None
        assert (head.parents, head.title) == ((MAIN,), "sheep")


async def test_a_turn_that_still_runs_hears_the_outcome_before_it_ends() -> None:
    farm = Farm(
        call_reply(spawn()), call_reply(Call("w", "hold", {})), text_reply("not yet"), text_reply("forty, I hear")
    )

    @toolcrib.tool(effects=set())
    async def hold() -> str:
        """Wait for the subagent."""
        farm.may_end.set()
        await settled(crib, Caller(session=MAIN, owner=True))
        return "held"

    async with toolcrib.open({}) as crib:
        events = [
            event
            async for event in crib.turn("count", caller=toolcrib.OWNER, session=MAIN, model=farm.model, extra=[hold])
        ]
    assert [type(event).__name__ for event in events if isinstance(event, Received)] == ["Received"]
    assert farm.model.asked[-1].messages[-1].role == "user"
    assert "forty sheep" in texts(farm.model.asked[-1].messages)[-1]


async def test_a_subagent_in_the_background_has_the_belt_of_a_subagent() -> None:
    farm = Farm(call_reply(spawn()), text_reply("ok"))
    farm.may_end.set()
    async with toolcrib.open({"tools": {"deny": ["write"]}}) as crib:
        await crib.turn("count", caller=toolcrib.OWNER, session=MAIN, model=farm.model).end()
        await settled(crib, Caller(session=MAIN, owner=True))
    (child,) = [each for each in farm.model.asked if is_child(each.request)]
    assert {"sessions_spawn", "agents_list", "write", "generalist"} & set(child.tools) == set()
    assert "read" in child.tools


async def test_one_that_runs_is_steered_and_one_that_ended_goes_on_in_its_session() -> None:
    heard: list[str] = []
    came, may_go = asyncio.Event(), asyncio.Event()

    async def answer(request: Request) -> Any:
        if is_child(request):
            heard.append(last(request))
            came.set()
            await may_go.wait()
            return text_reply(f"heard {len(heard)}")
        return call_reply(spawn(label="ears")) if len(request.history) == 1 else text_reply("ok")

    async with toolcrib.open({}) as crib:
        await crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=FunctionModel(answer)).end()
        belt = crib.belt(Caller(session=MAIN, owner=True))
        await asyncio.wait_for(came.wait(), 60)
        steered = await belt.call("subagents", {"action": "steer", "target": "ears", "message": "louder"})
        assert steered.details["status"] == "steered"
        may_go.set()
        await settled(crib, Caller(session=MAIN, owner=True))
        assert heard[1] == "louder"
        # without a turn above it, who answers is the configured model, here the offline one
        resumed = await belt.call("subagents", {"action": "steer", "target": "ears", "message": "what is 2 + 2?"})
        assert resumed.details["status"] == "resumed"
        assert resumed.details["childSessionKey"] == steered.details["childSessionKey"]
        (row,) = await settled(crib, Caller(session=MAIN, owner=True))
        assert row["state"] == "done"


async def test_stop_ends_one_or_all_and_announces_nothing() -> None:
    farm = Farm(
        call_reply(spawn("one", label="one"), spawn("two", label="two"), spawn("three", label="three")),
        text_reply("ok"),
    )
    async with toolcrib.open({}) as crib:
        await crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=farm.model).end()
        belt = crib.belt(Caller(session=MAIN, owner=True))
        await farm.child()
        first = await belt.call("subagents", {"action": "kill", "target": "two"})
        assert len(first.details["stopped"]) == 1
        rest = await belt.call("subagents", {"action": "stop", "target": "all"})
        assert len(rest.details["stopped"]) == 2
        rows = await settled(crib, Caller(session=MAIN, owner=True))
        assert [row["state"] for row in rows] == ["stopped"] * 3
        model = ScriptedModel([text_reply("fine")])
        await crib.turn("and?", caller=toolcrib.OWNER, session=MAIN, model=model).end()
    assert not any("subagent" in text for text in texts(model.asked[0].messages))


async def test_a_run_survives_a_restart_as_interrupted_and_goes_on_in_its_session(tmp_path: Path) -> None:
    farm = Farm(call_reply(spawn("count the sheep", label="sheep")), text_reply("ok"))
    caller = Caller(session=MAIN, owner=True)
    async with toolcrib.open({}, state=tmp_path) as crib:
        await crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=farm.model).end()
        await farm.child()  # and now the crib is closed in the midst of it
    async with toolcrib.open({}, state=tmp_path, env={}) as crib:
        (row,) = await settled(crib, caller)
        assert (row["state"], row["label"]) == ("interrupted", "sheep")
        again = await crib.belt(caller).call(
            "subagents", {"action": "steer", "target": "sheep", "message": "what is 2 + 2?"}
        )
        assert (again.details["status"], again.details["childSessionKey"]) == ("resumed", row["sessionKey"])
        (row,) = await settled(crib, caller)
        assert row["state"] == "done"
        lines = await crib.sessions.lines(row["sessionKey"])
        said_to_it = texts([line.body.message for line in lines if isinstance(line.body, Said)])
        assert said_to_it[0].endswith("count the sheep")
        assert said_to_it[-1] == "what is 2 + 2?"


async def test_who_speaks_in_the_session_of_another_agent_has_its_own_folder_and_finds_its_runs(tmp_path: Path) -> None:
    for name in ("main", "dev"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.txt").write_text(name)
    config: dict[str, Any] = {
        "workspace": {"root": str(tmp_path / "main")},
        "agents": {"main": {"workspace": str(tmp_path / "main")}, "dev": {"workspace": str(tmp_path / "dev")}},
    }
    seen: list[str] = []

    def answer(request: Request) -> Any:
        if not is_child(request):
            return call_reply(spawn("look", agentId="counter")) if len(request.history) == 1 else text_reply("ok")
        if len(request.history) == 1:
            return call_reply(Call("l", "ls", {}))
        seen.append(last(request))
        return count(1)

    caller = Caller(agent="dev", session=MAIN, owner=True)
    async with crib_with(COUNTER, state=tmp_path / "state", **config) as crib:
        await crib.turn("go", caller=caller, session=MAIN, model=FunctionModel(answer)).end()
        await settled(crib, caller)
    assert ["dev.txt" in each for each in seen] == [True]
    async with crib_with(COUNTER, state=tmp_path / "state", **config) as crib:
        (row,) = await settled(crib, caller)
        assert row["state"] == "done"


async def test_a_time_limit_of_a_run_is_told_as_such() -> None:
    farm = Farm(call_reply(spawn(runTimeoutSeconds=0.05)), text_reply("ok"))
    async with toolcrib.open({}) as crib:
        await crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=farm.model).end()
        (row,) = await settled(crib, Caller(session=MAIN, owner=True))
        assert row["state"] == "timeout"
        model = ScriptedModel([text_reply("too bad")])
        await crib.turn("and?", caller=toolcrib.OWNER, session=MAIN, model=model).end()
    assert any("ended without finishing: stopped after 0.05 seconds" in text for text in texts(model.asked[0].messages))


async def test_a_session_that_is_to_be_deleted_is_gone_once_its_outcome_was_told() -> None:
    farm = Farm(call_reply(spawn(cleanup="delete")), text_reply("ok"))
    farm.may_end.set()
    async with toolcrib.open({}) as crib:
        events = [event async for event in crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=farm.model)]
        (started,) = [event.result.details for event in events if isinstance(event, ToolFinished)]
        await asyncio.wait_for(crib.subagents.idle(), 60)
        assert await crib.sessions.find(started["childSessionKey"]) is None
        model = ScriptedModel([text_reply("fine")])
        await crib.turn("and?", caller=toolcrib.OWNER, session=MAIN, model=model).end()
    assert any("forty sheep" in text for text in texts(model.asked[0].messages))


async def test_whom_an_agent_may_start_is_what_its_configuration_says() -> None:
    config = {
        "agents": {
            "main": {"name": "Boss", "subagents": {"allowAgents": ["clerk"]}},
            "clerk": {"name": "Clerk"},
            "thief": {},
            "king": {"subagents": {"allowAgents": ["*"]}},
        }
    }

    async def called(crib: Crib, session: str, name: str, args: dict[str, Any]) -> Result:
        return await crib.belt(Caller(session=session, owner=True)).call(name, args)

    async with toolcrib.open(config, env={}) as crib:
        listed = await called(crib, MAIN, "agents_list", {})
        assert (listed.details["requester"], listed.details["allowAny"]) == ("main", False)
        boss, clerk, *tools = listed.details["agents"]
        assert boss == {"id": "main", "name": "Boss", "configured": True}
        assert clerk == {"id": "clerk", "name": "Clerk", "configured": True}
        # and the agents that it could call itself
        assert [(row["id"], row["configured"]) for row in tools] == [
            ("codebase_investigator", False),
            ("generalist", False),
        ]
        assert all(row["description"] for row in tools)
        every = await called(crib, "agent:king:main", "agents_list", {})
        configured = [row["id"] for row in every.details["agents"] if row["configured"]]
        assert configured == ["king", "clerk", "main", "thief"]
        denied = await called(crib, MAIN, "sessions_spawn", {"task": "steal", "agentId": "thief"})
        assert denied.details["code"] == "denied"
        unknown = await called(crib, "agent:king:main", "sessions_spawn", {"task": "x", "agentId": "clark"})
        assert "clerk" in unknown.details["error"]
        fine = await called(crib, MAIN, "sessions_spawn", {"task": "what is 2 + 2?", "agentId": "clerk"})
        assert fine.details["childSessionKey"].startswith("agent:clerk:subagent:")


def count(number: Any) -> Any:
    return call_reply(Call("d", "complete_task", {"result": {"count": number}}))


class Counting:
    """A model whose children say their own part; what they were asked is kept."""

    def __init__(self, *child: Any, **more: Any) -> None:
        self._child, self._task = list(child), spawn(more.pop("task", "sheep"), agentId="counter", **more)
        self.children: list[Request] = []
        self.offered: list[tuple[str, ...]] = []
        self.model = FunctionModel(self._answer)

    def _answer(self, request: Request) -> Any:
        if is_child(request):
            self.children.append(request)
            self.offered.append(tuple(tool.name for tool in request.tools))
            return self._child.pop(0)
        return call_reply(self._task) if len(request.history) == 1 else text_reply("ok")


async def announced(crib: Crib) -> str:
    """Return what the next turn of the parent is told."""
    model = ScriptedModel([text_reply("fine")])
    await crib.turn("and?", caller=toolcrib.OWNER, session=MAIN, model=model).end()
    (told,) = [text for text in texts(model.asked[0].messages) if text.startswith("The subagent")]
    return told


async def test_a_registered_agent_in_the_background_has_its_prompt_its_tools_and_its_end() -> None:
    farm = Counting(call_reply(Call("l", "ls", {})), count("many"), count(40))
    agent = replace(COUNTER, max_turns=5)
    async with crib_with(agent) as crib:
        await crib.turn("count", caller=toolcrib.OWNER, session=MAIN, model=farm.model).end()
        (row,) = await settled(crib, Caller(session=MAIN, owner=True))
        told = await announced(crib)
    first = farm.children[0]
    assert "You count sheep." in first.system
    assert farm.offered[0] == ("ls", "complete_task")
    assert texts(first.history)[0] == "How many sheep are there?"
    assert (row["state"], row["agentId"]) == ("done", "counter")
    assert "is done" in told
    assert '"count": 40' in told.partition("<<<")[2]


async def test_a_registered_agent_in_the_background_has_one_last_reply_after_a_limit() -> None:
    farm = Counting(call_reply(Call("a", "ls", {})), call_reply(Call("b", "ls", {})), count(7))
    async with crib_with(COUNTER) as crib:
        await crib.turn("count", caller=toolcrib.OWNER, session=MAIN, model=farm.model).end()
        (row,) = await settled(crib, Caller(session=MAIN, owner=True))
        told = await announced(crib)
    assert farm.offered[-1] == ("complete_task",)
    assert row["state"] == "done"
    assert "rescued" in told
    assert '"count": 7' in told


async def test_a_registered_agent_in_the_background_that_hands_in_nothing_says_so(tmp_path: Path) -> None:
    farm = Counting(text_reply("about forty"), text_reply("I said forty"))
    async with crib_with(COUNTER, state=tmp_path) as crib:
        await crib.turn("count", caller=toolcrib.OWNER, session=MAIN, model=farm.model).end()
        (row,) = await settled(crib, Caller(session=MAIN, owner=True))
        told = await announced(crib)
    assert row["state"] == "no_completion"
    assert "ended without finishing: it stopped calling tools" in told
    assert "What it had until then" in told
    assert "about forty" in told
    async with crib_with(COUNTER, state=tmp_path) as crib:  # and so says its log
        (again,) = await settled(crib, Caller(session=MAIN, owner=True))
    assert (again["state"], again["text"]) == (row["state"], row["text"])


@pytest.mark.parametrize(
    ("task", "query"),
    [
        ("black sheep", "How many black sheep are there?"),
        ('{"animal": "cows", "fields": 2}', "How many cows are there?"),
        ('{"not": "an input"}', 'How many {"not": "an input"} are there?'),
    ],
)
async def test_the_task_of_a_registered_agent_is_its_text_or_an_object_of_its_inputs(task: str, query: str) -> None:
    farm = Counting(count(1), task=task)
    async with crib_with(COUNTER) as crib:
        await crib.turn("count", caller=toolcrib.OWNER, session=MAIN, model=farm.model).end()
        await settled(crib, Caller(session=MAIN, owner=True))
    assert texts(farm.children[0].history) == [query]


async def test_inputs_that_do_not_fit_start_nothing() -> None:
    two = {"from": {"type": "string", "required": True}, "to": {"type": "string", "required": True}}
    async with crib_with(COUNTER, replace(COUNTER, name="mover", inputs=two)) as crib:
        belt = crib.belt(Caller(session=MAIN, owner=True))
        wrong = await belt.call("sessions_spawn", {"task": '{"animal": 5, "fields": "many"}', "agentId": "counter"})
        plain = await belt.call("sessions_spawn", {"task": "move it", "agentId": "mover"})
        assert await settled(crib, Caller(session=MAIN, owner=True)) == []
    assert (wrong.details["code"], plain.details["code"]) == ("bad_arguments", "bad_arguments")
    assert "mover takes from, to; write the task as a JSON object with them" in plain.details["error"]


async def test_no_list_of_agents_lifts_what_policy_denies() -> None:
    config: dict[str, Any] = {
        "tools": {"deny": ["counter"]},
        "agents": {"main": {"subagents": {"allowAgents": ["*", "counter"]}}, "counter": {}},
    }
    async with crib_with(COUNTER, **config) as crib:
        belt = crib.belt(Caller(session=MAIN, owner=True))
        denied = await belt.call("sessions_spawn", {"task": "sheep", "agentId": "counter"})
        listed = await belt.call("agents_list", {})
    assert denied.details["code"] == "denied"
    assert "the tool counter is not on its belt" in denied.details["error"]
    assert "counter" not in [row["id"] for row in listed.details["agents"]]


KILLED = """
import asyncio, os, signal, sys
from tests.journeys.farm import COUNTER, MAIN, crib_with, is_child, spawn
from toolcrib import OWNER, Call
from toolcrib.testing.models import FunctionModel, call_reply, text_reply

def answer(request):
    if is_child(request):
        if len(request.history) == 1:
            return call_reply(Call("l", "ls", {}))
        os.kill(os.getpid(), signal.SIGKILL)
    if len(request.history) > 1:
        return text_reply("ok")
    return call_reply(spawn("black sheep", agentId="counter", label="flock"))

async def main():
    async with crib_with(COUNTER, state=sys.argv[1], workspace={"root": sys.argv[2]}) as crib:
        await crib.turn("count", caller=OWNER, session=MAIN, model=FunctionModel(answer)).end()
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_a_run_whose_process_was_killed_is_interrupted_and_goes_on_as_it_was_asked(tmp_path: Path) -> None:
    state = tmp_path / "state"
    root = Path(__file__).parents[2]
    killed = prestarted.Popen([sys.executable, "-c", KILLED, str(state), str(tmp_path)], cwd=root)
    assert killed.wait(60) == -signal.SIGKILL
    heard: list[Request] = []

    def answer(request: Request) -> Any:
        if is_child(request):
            heard.append(request)
            return count(3)
        resume = Call("r", "subagents", {"action": "steer", "target": "flock", "message": "go on"})
        return call_reply(resume) if request.history[-1].role == "user" else text_reply("ok")

    async with crib_with(COUNTER, state=state, workspace={"root": str(tmp_path)}) as crib:
        (row,) = await settled(crib, Caller(session=MAIN, owner=True))
        assert (row["state"], row["label"], row["endedAt"]) == ("interrupted", "flock", None)
        await crib.turn("and the sheep?", caller=toolcrib.OWNER, session=MAIN, model=FunctionModel(answer)).end()
        (row,) = await settled(crib, Caller(session=MAIN, owner=True))
        assert (row["state"], row["text"]) == ("done", '{\n  "count": 3\n}')
    assert "You count black sheep." in heard[0].system
    assert texts(heard[0].history) == ["How many black sheep are there?", "go on"]
    assert [message.role for message in heard[0].history][:4] == ["user", "assistant", "tool", "user"]


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({"task": "  "}, "bad_arguments"),
        ({"task": "x", "model": "openai:gpt-5"}, "not_found"),
        ({"task": "x", "thinking": "deeply"}, "bad_arguments"),
        ({"task": "x", "cleanup": "burn"}, "bad_arguments"),
    ],
)
async def test_what_cannot_be_started_says_why(args: dict[str, Any], code: str) -> None:
    async with toolcrib.open({}, env={}) as crib:
        result = await crib.belt(Caller(session=MAIN, owner=True)).call("sessions_spawn", args)
    assert result.details["code"] == code


async def test_nobody_touches_the_subagents_of_somebody_else() -> None:
    farm = Farm(call_reply(spawn(label="sheep")), text_reply("ok"))
    async with toolcrib.open({}) as crib:
        await crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=farm.model).end()
        await farm.child()
        other = crib.belt(Caller(session="agent:main:other", owner=True))
        assert (await other.call("subagents", {"action": "list"})).details["subagents"] == []
        for action in ("stop", "steer"):
            result = await other.call("subagents", {"action": action, "target": "sheep", "message": "x"})
            assert result.details["code"] == "not_found"
        assert (await other.call("subagents", {"action": "stop", "target": "all"})).details["stopped"] == []


async def test_what_a_subagent_in_the_background_takes_is_bounded_by_the_turn_that_started_it() -> None:
    came = asyncio.Event()

    def answer(request: Request) -> Any:
        if is_child(request):
            came.set()
            return call_reply(Call(f"l{len(request.history)}", "ls", {"path": "."}), usage=Usage(input=10))
        return (
            call_reply(spawn(), usage=Usage(input=10))
            if len(request.history) == 1
            else text_reply("ok", usage=Usage(input=10))
        )

    async with toolcrib.open({}) as crib:
        turn = crib.turn(
            "go", caller=toolcrib.OWNER, session=MAIN, model=FunctionModel(answer), limits=Limits(tokens=45)
        )
        await turn.end()
        await asyncio.wait_for(came.wait(), 60)
        (row,) = await settled(crib, Caller(session=MAIN, owner=True))
    assert row["state"] == "tokens"


async def test_a_thousand_at_once_are_as_many_as_may_run() -> None:
    farm = Farm(call_reply(*(spawn(str(number)) for number in range(100))), text_reply("ok"))
    async with toolcrib.open({}) as crib:
        events = [event async for event in crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=farm.model)]
        told = [event.result.details for event in events if isinstance(event, ToolFinished)]
        assert sum(each.get("status") == "accepted" for each in told) == 8
        assert sum(each.get("code") == "busy" for each in told) == 92
        farm.may_end.set()
        await settled(crib, Caller(session=MAIN, owner=True))
        # places come free again
        again = await crib.belt(Caller(session=MAIN, owner=True)).call("sessions_spawn", {"task": "what is 2 + 2?"})
        assert again.details["status"] == "accepted"


@toolcrib.tool(effects={"network"})
async def page() -> Result:
    """Read a page."""
    return Result.text("BUY NOW", source="web:https://shop.test")


@toolcrib.tool(effects={"send"})
async def order() -> str:
    """Order something."""
    return "ordered"


OUTSIDE: dict[str, Any] = {"tools": {"askAfterOutside": ["order"]}}


async def test_whoever_has_read_from_outside_starts_nobody_who_acts_unasked() -> None:
    person = FakeApprover([False])
    parent = [call_reply(Call("p", "page", {})), call_reply(spawn("order it")), text_reply("started")]
    child = [call_reply(Call("o", "order", {})), text_reply("no")]
    model = FunctionModel(lambda request: (child if is_child(request) else parent).pop(0))
    async with toolcrib.open(OUTSIDE) as crib:
        await crib.turn(
            "go", caller=toolcrib.OWNER, session=MAIN, model=model, extra=[page, order], approver=person
        ).end()
        await settled(crib, Caller(session=MAIN, owner=True))
    assert [call.name for _, call, _ in person.asked] == ["order"]


async def test_whoever_has_read_from_outside_steers_nobody_to_act_unasked() -> None:
    person, came, steered = FakeApprover([False]), asyncio.Event(), asyncio.Event()
    parent = [call_reply(spawn("wait", label="sheep")), call_reply(Call("p", "page", {}))]
    parent += [
        call_reply(Call("t", "subagents", {"action": "steer", "target": "sheep", "message": "order"})),
        text_reply("ok"),
    ]
    child = [call_reply(Call("w", "hold", {})), call_reply(Call("o", "order", {})), text_reply("no")]
    model = FunctionModel(lambda request: (child if is_child(request) else parent).pop(0))

    @toolcrib.tool(effects=set())
    async def hold() -> str:
        """Wait until somebody has spoken."""
        came.set()
        await asyncio.wait_for(steered.wait(), 60)
        return "held"

    async with toolcrib.open(OUTSIDE) as crib:
        await crib.turn(
            "go", caller=toolcrib.OWNER, session=MAIN, model=model, extra=[page, order, hold], approver=person
        ).end()
        steered.set()
        await settled(crib, Caller(session=MAIN, owner=True))
    assert [call.name for _, call, _ in person.asked] == ["order"]


@tool
async def look(ctx: Ctx) -> str:
    """Look at the subagents."""
    return str(await ctx.rpc("subagents.list", {}))


async def test_what_is_listed_of_one_that_has_read_from_outside_is_marked_as_well() -> None:
    parent, child = (
        [call_reply(spawn("look")), text_reply("started")],
        [call_reply(Call("p", "page", {})), text_reply("BUY NOW, it says")],
    )
    model = FunctionModel(lambda request: (child if is_child(request) else parent).pop(0))
    async with toolcrib.open({}) as crib:
        await crib.turn("go", caller=toolcrib.OWNER, session=MAIN, model=model, extra=[page]).end()
        (row,) = await settled(crib, Caller(session=MAIN, owner=True))
        belt = crib.belt(Caller(session=MAIN, owner=True), extra=[look])
        listed, looked = await belt.call("subagents", {}), await belt.call("look", {})
    assert looked.content[0].source == "subagents and web:https://shop.test"
    assert row["source"] == "subagents after web:https://shop.test"
    (part,) = [part for part in listed.content if isinstance(part, Text) and "BUY NOW" in part.text]
    assert (part.source, part.text.startswith("<<<")) == ("subagents and web:https://shop.test", True)


async def test_an_outcome_is_marked_with_what_was_read_also_when_that_is_no_longer_shown() -> None:
    person = FakeApprover([False])
    parent = [call_reply(spawn("look")), text_reply("started"), call_reply(Call("o", "order", {})), text_reply("no")]

    @toolcrib.tool(effects=set(), limit=100_000)
    async def book(number: int) -> str:
        """Read a long book."""
        return f"{number} sheep " * 4_000

    def answer(request: Request) -> Any:
        if not request.tools:
            return text_reply("a summary")
        if not is_child(request):
            return parent.pop(0)
        if summary_in(request.history):
            return text_reply("buy")
        count = len(request.history)
        return call_reply(Call(f"c{count}", "page", {}) if count == 1 else Call(f"c{count}", "book", {"number": count}))

    model = FunctionModel(answer, card=ModelCard(provider="test", model="small", window=40_000))
    async with toolcrib.open(OUTSIDE) as crib:
        await crib.turn(
            "go", caller=toolcrib.OWNER, session=MAIN, model=model, extra=[page, book, order], approver=person
        ).end()
        await settled(crib, Caller(session=MAIN, owner=True))
        await crib.turn(
            "and?", caller=toolcrib.OWNER, session=MAIN, model=model, extra=[page, book, order], approver=person
        ).end()
    assert [call.name for _, call, _ in person.asked] == ["order"]


async def test_what_is_asked_about_for_a_parent_is_asked_about_for_those_it_starts() -> None:
    person = FakeApprover([False])
    parent, child = [call_reply(spawn("order", agentId="clerk")), text_reply("started")], []
    child += [call_reply(Call("p", "page", {})), call_reply(Call("o", "order", {})), text_reply("no")]
    model = FunctionModel(lambda request: (child if is_child(request) else parent).pop(0))
    agents = {
        "main": {"tools": {"askAfterOutside": ["order"]}, "subagents": {"allowAgents": ["clerk"]}},
        "clerk": {},
    }
    async with toolcrib.open({"agents": agents}) as crib:
        await crib.turn(
            "go", caller=toolcrib.OWNER, session=MAIN, model=model, extra=[page, order], approver=person
        ).end()
        await settled(crib, Caller(session=MAIN, owner=True))
    assert [call.name for _, call, _ in person.asked] == ["order"]


async def test_one_that_was_stopped_in_its_midst_does_not_say_that_it_never_began() -> None:
    farm = Farm(call_reply(spawn('{"animal": "sheep"}', agentId="counter")), text_reply("started"))
    async with crib_with(COUNTER) as crib:
        await crib.turn("count", caller=toolcrib.OWNER, session=MAIN, model=farm.model).end()
        await farm.child()
        await crib.belt(Caller(session=MAIN, owner=True)).call("subagents", {"action": "stop", "target": "all"})
        (row,) = await settled(crib, Caller(session=MAIN, owner=True))
    assert (row["state"], row["text"]) == ("stopped", "stopped before it was done")
