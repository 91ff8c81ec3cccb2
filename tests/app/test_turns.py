"""Turns of a crib: answered, steered, stopped, kept, gone on with, branched, shortened, and asked about."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import Call, Caller, CribError, Result, Text, ToolError, tool
from toolcrib.adapter.events import event_json
from toolcrib.agent.session_log import recall
from toolcrib.app import Crib
from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.sessions import SqliteSessions
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.event import Compacted, Received, ToolFinished, ToolStarted, TurnFinished, TurnStarted, Usage
from toolcrib.define.log import Began, Line, Said, SessionHead, Switched
from toolcrib.define.message import Message
from toolcrib.define.model import ModelCard, Price, Request
from toolcrib.define.plugin import Moment
from toolcrib.define.turn import Limits
from toolcrib.registry.sources import Offer
from toolcrib.testing import FakeApprover
from toolcrib.testing.models import FunctionModel, ScriptedModel, call_reply, text_reply

pytestmark = pytest.mark.anyio

KEY = "agent:main:main"


@tool(effects={"read"})
async def weather(place: str) -> str:
    """Tell the weather."""
    return f"rain in {place}"


@tool(effects={"network"})
async def page() -> Result:
    """Read a page."""
    return Result.text("BUY NOW", source="web:https://shop.test")


RAIN = Call(id="a", name="weather", args={"place": "Paris"})


def words(messages: Any) -> list[str]:
    return ["".join(part.text for part in each.content if isinstance(part, Text)) for each in messages]


async def turned(crib: Crib, text: str, *script: Any, **options: Any) -> tuple[TurnFinished, ScriptedModel]:
    """Run one turn to its end, and make sure that the whole script was said."""
    model = ScriptedModel(script, **({"card": options.pop("card")} if "card" in options else {}))
    wanted = {"caller": toolcrib.OWNER, **options}
    end = await crib.turn(text, session=KEY, model=model, extra=[weather, page], **wanted).end()
    model.done()
    return end, model


async def test_a_turn_is_a_stream_of_events_from_its_start_to_its_end() -> None:
    async with toolcrib.open({}) as crib:
        model = ScriptedModel([call_reply(RAIN), text_reply("Take a coat.")])
        turn = crib.turn("what is the weather in Paris?", caller=toolcrib.OWNER, model=model, extra=[weather])
        events = [event async for event in turn]
    assert isinstance(events[0], TurnStarted)
    assert events[0].session == turn.session
    assert [type(event).__name__ for event in events[1:-1]] == [
        "CallDelta", "Replied", "ToolStarted", "ToolFinished", "TextDelta", "Replied",
    ]  # fmt: skip
    assert isinstance(events[-1], TurnFinished)
    assert (events[-1].reason, events[-1].text, events[-1].steps) == ("done", "Take a coat.", 2)
    assert [event_json(event)["type"] for event in events] == [
        "turn_started", "call", "replied", "tool_started", "tool_finished", "text", "replied", "turn_finished",
    ]  # fmt: skip


async def test_a_model_is_shown_no_tool_that_nothing_can_run() -> None:
    model = ScriptedModel(["hello"])
    promised = toolcrib.Tool.declared("forecast", "Tell what will be.", effects={"read"})
    async with toolcrib.open({}, env={}, tools=[promised]) as crib:
        belt = crib.belt(toolcrib.OWNER)
        await crib.turn("hello", caller=toolcrib.OWNER, model=model).end()
    declared = [tool.name for tool in belt.tools.values() if not tool.has_body]
    assert declared, "explain still tells of them"
    assert set(model.asked[0].tools).isdisjoint(declared)
    assert {each["name"] for each in belt.declare("anthropic")}.isdisjoint(declared)
    assert "read" in model.asked[0].tools


async def test_a_session_goes_on_where_it_stood() -> None:
    async with toolcrib.open({}) as crib:
        await turned(crib, "weather?", call_reply(RAIN), text_reply("rain"))
        _, model = await turned(crib, "and now?", text_reply("still rain"))
    assert words(model.asked[0].messages) == ["weather?", "", "rain in Paris", "rain", "and now?"]


async def test_a_session_outlives_its_crib(tmp_path: Path) -> None:
    async with toolcrib.open({}, state=tmp_path) as crib:
        await turned(crib, "weather?", call_reply(RAIN), text_reply("rain"))
    async with toolcrib.open({}, state=tmp_path) as crib:
        _, model = await turned(crib, "and now?", text_reply("still rain"))
    assert words(model.asked[0].messages) == ["weather?", "", "rain in Paris", "rain", "and now?"]


async def test_two_cribs_take_turns_in_one_session(tmp_path: Path) -> None:
    async with toolcrib.open({}, state=tmp_path) as one, toolcrib.open({}, state=tmp_path) as other:
        await turned(one, "1", text_reply("one"))
        await turned(other, "2", text_reply("two"))
        _, model = await turned(one, "3", text_reply("three"))
    assert words(model.asked[0].messages) == ["1", "one", "2", "two", "3"]


async def test_messages_in_one_session_are_answered_one_after_another() -> None:
    going, may_end = asyncio.Event(), asyncio.Event()

    async def slow(request: Request) -> str:
        going.set()
        await may_end.wait()
        return "first"

    async with toolcrib.open({}) as crib:
        first = crib.turn("1", caller=toolcrib.OWNER, session=KEY, model=FunctionModel(slow))
        second_model = ScriptedModel(["second"])
        second = crib.turn("2", caller=toolcrib.OWNER, session=KEY, model=second_model)
        await asyncio.wait_for(going.wait(), 60)
        assert second_model.asked == []
        may_end.set()
        assert (await second.end()).text == "second"
        assert (await first.end()).text == "first"
    assert words(second_model.asked[0].messages) == ["1", "first", "2"]


async def test_an_older_line_is_gone_on_from_as_a_branch() -> None:
    async with toolcrib.open({}) as crib:
        await turned(crib, "name a colour", text_reply("red"))
        lines = await crib.sessions.lines(KEY)
        await turned(crib, "another", text_reply("blue"))
        _, model = await turned(crib, "a number", text_reply("seven"), leaf=lines[-1].id)
        assert words(model.asked[0].messages) == ["name a colour", "red", "a number"]
        _, model = await turned(crib, "again", text_reply("eight"))
    assert words(model.asked[0].messages) == ["name a colour", "red", "a number", "seven", "again"]


async def test_what_is_steered_is_heard_after_the_calls_under_way() -> None:
    steered = asyncio.Event()

    @tool(effects=set())
    async def slow() -> str:
        """Wait for a change of mind."""
        await asyncio.wait_for(steered.wait(), 60)
        return "rain"

    async with toolcrib.open({}) as crib:
        model = ScriptedModel([call_reply(Call(id="a", name="slow")), text_reply("Fine, Rome then.")])
        turn = crib.turn("weather?", caller=toolcrib.OWNER, model=model, extra=[slow])
        heard = []
        async for event in turn:
            if isinstance(event, ToolStarted):
                turn.steer("no, in Rome")
                steered.set()
            if isinstance(event, Received):
                heard.append(words([event.message]))
    assert heard == [["no, in Rome"]]
    assert [each.role for each in model.asked[1].messages] == ["user", "assistant", "tool", "user"]


async def test_a_message_to_a_turn_that_has_ended_is_refused() -> None:
    async with toolcrib.open({}) as crib:
        turn = crib.turn("1", caller=toolcrib.OWNER, model=ScriptedModel(["one"]))
        await turn.end()
        with pytest.raises(ToolError, match="ended"):
            turn.steer("2")


async def test_what_a_stopped_turn_has_not_heard_is_kept_for_the_next() -> None:
    started = asyncio.Event()

    async def never(request: Request) -> str:
        started.set()
        await asyncio.Event().wait()
        return ""

    async with toolcrib.open({}) as crib:
        turn = crib.turn("1", caller=toolcrib.OWNER, session=KEY, model=FunctionModel(never))
        await asyncio.wait_for(started.wait(), 60)
        turn.steer("2")
        turn.stop()
        assert (await turn.end()).reason == "stopped"
        _, model = await turned(crib, "3", text_reply("all three"))
    assert words(model.asked[0].messages) == ["1", "2", "3"]


async def test_a_follow_up_is_answered_in_the_same_turn() -> None:
    async with toolcrib.open({}) as crib:
        model = ScriptedModel(["one", "two"])
        turn = crib.turn("1", caller=toolcrib.OWNER, model=model)
        turn.follow_up("2")
        end = await turn.end()
    assert (end.text, end.steps) == ("two", 2)


async def test_stopping_a_turn_ends_its_bodies_and_keeps_the_session_whole() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    @tool(effects=set())
    async def forever() -> str:
        """Wait."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    async with toolcrib.open({}) as crib:
        model = ScriptedModel(
            [call_reply(Call(id="a", name="forever"), Call(id="b", name="weather", args={"place": "x"}))]
        )
        turn = crib.turn("go", caller=toolcrib.OWNER, session=KEY, model=model, extra=[forever, weather])
        await asyncio.wait_for(started.wait(), 60)
        turn.stop()
        end = await turn.end()
        assert (end.reason, ended.is_set()) == ("stopped", True)
        found = recall(await crib.sessions.lines(KEY))
        assert found.mended == ()
        assert [each.role for each in found.history] == ["user", "assistant", "tool", "tool"]
        _, model = await turned(crib, "go on", text_reply("here"))
    assert model.asked[0].messages[2].status == "error"


async def test_leaving_the_block_stops_the_turn() -> None:
    async with toolcrib.open({}) as crib:

        async def never(request: Request) -> str:
            await asyncio.Event().wait()
            return ""

        async with crib.turn("go", caller=toolcrib.OWNER, session=KEY, model=FunctionModel(never)) as turn:
            async for event in turn:
                assert isinstance(event, TurnStarted)
                break
        assert (await turn.end()).reason == "stopped"


async def test_closing_the_crib_stops_its_turns() -> None:
    async def never(request: Request) -> str:
        await asyncio.Event().wait()
        return ""

    crib = toolcrib.open({})
    turn = crib.turn("go", caller=toolcrib.OWNER, model=FunctionModel(never))
    assert isinstance(await anext(turn), TurnStarted)
    await crib.close()
    assert (await turn.end()).reason == "stopped"


async def lay(folder: Path, lines: list[Line]) -> None:
    """Leave a session as a crib that was killed would."""
    commits = Commits(SqliteFile(folder / "crib.db"))
    await SqliteSessions(commits).add(SessionHead(key=KEY, made_at=1.0, changed_at=1.0), lines)
    await commits.flush()
    commits.close()


async def test_a_call_in_flight_when_the_crib_died_is_uncertain_and_never_repeated(tmp_path: Path) -> None:
    ask = Message(role="user", content=(Text("pay"),))
    wish = Message(
        role="assistant", calls=(RAIN._replace(key="k1"), RAIN._replace(id="b", key="k2")), finish="calls", by="x/y"
    )
    await lay(
        tmp_path,
        [
            Line("1", None, 1.0, Said(ask)),
            Line("2", "1", 2.0, Said(wish)),
            Line("3", "2", 3.0, Began(wish.calls[0])),
        ],
    )
    async with toolcrib.open({}, state=tmp_path) as crib:
        end, model = await turned(crib, "go on", text_reply("I will look first"))
        assert end.reason == "done"
        begun, not_begun = model.asked[0].messages[2:4]
        assert (begun.status, not_begun.status) == ("error", "error")
        assert "nobody knows whether it took effect" in words([begun])[0]
        assert "was not run" in words([not_begun])[0]
        found = recall(await crib.sessions.lines(KEY))
        assert found.mended == ()  # what was said about them is on lines of its own now


async def test_a_long_conversation_is_shortened_and_nothing_kept_is_lost() -> None:
    card = ModelCard(provider="test", model="small", window=4_000)
    async with toolcrib.open({}) as crib:
        for number in range(3):
            await turned(crib, f"{number} {'lorem ' * 400}", text_reply(f"answer {number}"), card=card)
        model = FunctionModel(lambda request: "notes" if not request.tools else "answer", card)
        events = [
            event
            async for event in crib.turn(
                "last " + "x" * 6_000, caller=toolcrib.OWNER, session=KEY, model=model, extra=[weather]
            )
        ]
        assert [type(event).__name__ for event in events].count("Compacted") == 1
        assert isinstance(events[-1], TurnFinished)
        assert events[-1].reason == "done"
        shortened = next(event for event in events if isinstance(event, Compacted))
        assert shortened.after < shortened.before
        found = recall(await crib.sessions.lines(KEY))
        assert "notes" in found.summary
        _, later = await turned(crib, "go on", text_reply("yes"))
    assert words(later.asked[0].messages)[-1] == "go on"
    assert "notes" in words(later.asked[0].messages)[0]


async def test_content_from_outside_makes_policy_ask() -> None:
    config = {"tools": {"askAfterOutside": ["effect:read"]}}
    asked = list[str]()

    class Person:
        async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str], /) -> bool:
            asked.append(f"{call.name}: {reason}")
            return False

    async with toolcrib.open(config, approver=Person()) as crib:
        _, model = await turned(
            crib,
            "go",
            call_reply(RAIN),
            call_reply(Call(id="p", name="page")),
            call_reply(RAIN._replace(id="c")),
            text_reply("ok"),
        )
        answers = [each for each in model.asked[3].messages if each.role == "tool"]
        assert [each.status for each in answers] == ["ok", "ok", "error"]
        assert len(asked) == 1
        assert "web:https://shop.test" in asked[0]
        # and a later turn has not forgotten it
        _, model = await turned(crib, "again", call_reply(RAIN._replace(id="d")), text_reply("ok"))
        assert len(asked) == 2


async def test_hooks_are_told_of_a_turn_and_may_change_what_the_model_is_told() -> None:
    told = list[str]()

    def listen(moment: Moment) -> None:
        told.append(moment.name)

    def start(moment: Moment) -> dict[str, str]:
        told.append(moment.name)
        return {"prependContext": "It is Monday.", "systemPrompt": "Be brief."}

    names = ("session_start", "message_received", "agent_end")
    hooks = {"before_agent_start": start, **dict.fromkeys(names, listen)}
    offer = Offer(source="plugin:listener", tools=(), hooks=hooks)
    async with toolcrib.open({}, plugins=[offer]) as crib:
        _, model = await turned(crib, "what day is it?", text_reply("Monday"))
        await turned(crib, "sure?", text_reply("yes"))
    assert model.asked[0].system == "Be brief."
    assert words(model.asked[0].messages) == ["It is Monday.\n\nwhat day is it?"]
    assert told == [
        "session_start", "message_received", "before_agent_start", "agent_end",
        "message_received", "before_agent_start", "agent_end",
    ]  # fmt: skip


async def test_limits_come_from_the_agent_then_from_everybody() -> None:
    config = {"limits": {"turns": 3}, "agents": {"hasty": {"limits": {"turns": 1}}}}
    async with toolcrib.open(config) as crib:
        for key, steps in (("agent:main:x", 3), ("agent:hasty:x", 1)):
            model = FunctionModel(lambda _: call_reply(RAIN))
            end = await crib.turn("go", caller=toolcrib.OWNER, session=key, model=model, extra=[weather]).end()
            assert (end.reason, end.steps) == ("turns", steps)


async def test_money_is_counted_and_bounded() -> None:
    card = ModelCard(provider="test", model="dear", price=Price(input=1_000_000, output=2_000_000))
    model = FunctionModel(lambda _: call_reply(RAIN, usage=Usage(input=1, output=2)), card)
    async with toolcrib.open({}) as crib:
        end = await crib.turn(
            "go", caller=toolcrib.OWNER, model=model, extra=[weather], limits=Limits(cost=9, repeats=0)
        ).end()
    assert (end.reason, end.steps, end.cost) == ("cost", 2, 15.0)  # its last words are no step and cost all the same


async def test_a_denied_tool_is_told_to_the_model_without_whose_rule_it_was() -> None:
    async with toolcrib.open({"tools": {"deny": ["weather"]}}) as crib:
        end, model = await turned(crib, "go", call_reply(RAIN), text_reply("sorry"))
    assert end.reason == "done"
    told = words(model.asked[1].messages)[2]
    assert (told.startswith("Refused: weather is not permitted here."), "tools.deny" in told) == (True, False)
    assert "weather" not in model.asked[0].tools


async def test_a_human_is_asked_within_a_turn() -> None:
    async with toolcrib.open({"tools": {"ask": ["weather"]}}) as crib:
        _, model = await turned(crib, "go", call_reply(RAIN), text_reply("wet"), approver=FakeApprover([True]))
    assert words(model.asked[1].messages)[2] == "rain in Paris"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"session": ".."}, "session key"),
        ({"session": "a/../b"}, "session key"),
        ({"model": "nonsense"}, "provider:model"),
        ({"model": "nobody:nothing"}, "nobody"),
        ({"model": "openai:gpt-5"}, "OPENAI_API_KEY"),
    ],
)
async def test_what_cannot_be_meant_is_refused_before_anything_happens(options: dict[str, str], sentence: str) -> None:
    async with toolcrib.open({}, env={}) as crib:
        with pytest.raises((CribError, ToolError), match=sentence):
            crib.turn("go", caller=toolcrib.OWNER, **options)  # type: ignore[arg-type]


async def test_a_blank_message_is_refused() -> None:
    async with toolcrib.open({}) as crib:
        with pytest.raises(CribError, match="blank"):
            crib.turn("  ", caller=toolcrib.OWNER)


async def test_without_a_key_the_offline_model_answers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    async with toolcrib.open({"workspace": {"root": str(tmp_path)}}, env={}) as crib:
        events = [event async for event in crib.turn("list the files", caller=toolcrib.OWNER)]
    assert isinstance(events[0], TurnStarted)
    assert events[0].model == "offline:rules"
    finished = [event for event in events if isinstance(event, ToolFinished)]
    assert finished
    assert isinstance(events[-1], TurnFinished)
    assert "a.txt" in events[-1].text


async def test_a_session_keeps_the_model_it_was_switched_to() -> None:
    config = {"models": {"default": "offline:rules"}, "agents": {"main": {"model": "offline:rules"}}}
    async with toolcrib.open(config, env={}) as crib:
        await turned(crib, "hello", text_reply("hi"))
        lines = await crib.sessions.lines(KEY)
        switched = Line("s1", lines[-1].id, 1.0, Switched("offline:rules"))
        writing = crib.sessions.append(KEY, (switched,), at=len(lines))
        assert writing is None
        events = [event async for event in crib.turn("help", caller=toolcrib.OWNER, session=KEY)]
    assert isinstance(events[0], TurnStarted)
    assert events[0].model == "offline:rules"
