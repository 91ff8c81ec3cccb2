"""Calls that are finished later: kept first, completed once by the right one, and taken as a direct result is."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Call, Caller, Ctx, Result, Sender, ToolError, tool
from toolcrib.app import Crib, Running
from toolcrib.define.event import ToolFinished, ToolProgress, ToolStarted
from toolcrib.testing import ScriptedModel, call_reply, text_reply

pytestmark = pytest.mark.anyio

ANN = Caller(channel="telegram", group="-1", sender=Sender(id="7"), session="agent:main:telegram:group:-1")
BOB = Caller(channel="telegram", group="-2", sender=Sender(id="8"), session="agent:main:telegram:group:-2")


@tool(effects={"read"})
async def report(ctx: Ctx, topic: str) -> Result:
    """Have a report written."""
    return await ctx.later(f"report-{topic}")


@tool(effects={"read"})
async def quick(ctx: Ctx) -> str:
    """Answer at once."""
    return "quick"


@tool(effects={"write"}, exclusive=True)
async def press(ctx: Ctx) -> Result:
    """Have it printed, and nothing else meanwhile."""
    return await ctx.later("press")


@dataclass
class Weighed:
    grams: int


@tool(effects={"read"}, output=Weighed)
async def weigh(ctx: Ctx) -> Result:
    """Have it weighed."""
    return await ctx.later("scales")


def opened(folder: Path, *more: Any, **config: Any) -> Crib:
    rules = {
        "tools": {
            "allow": ["report", "quick", "press", "weigh", "broken", "unsure", "twice", "hasty", "session_status"]
        },
        **config,
    }
    return toolcrib.open(rules, tools=[report, quick, press, weigh, *more], state=folder, env={})


def started(crib: Crib, *calls: Call, caller: Caller = OWNER, **how: Any) -> tuple[Running, ScriptedModel]:
    model = ScriptedModel([call_reply(*calls), text_reply("It is done.")])
    return crib.turn("do it", caller=caller, model=model, **how), model


async def until_pending(turn: Running, count: int = 1) -> list[str]:
    """Wait until so many calls of a turn are pending, and return their handles."""
    handles = list[str]()
    async for event in turn.subscribe():
        if isinstance(event, ToolProgress) and event.partial.status == "pending":
            handles.append(event.partial.details["handle"])
            if len(handles) == count:
                break
    return handles


def about(topic: str, id: str = "1") -> Call:
    return Call(id, "report", {"topic": topic})


def answers(model: ScriptedModel) -> list[str]:
    return [message.plain_text for message in model.asked[-1].messages if message.role == "tool"]


async def test_a_turn_waits_for_a_call_and_goes_on_with_what_completes_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        turn, model = started(crib, about("tea"))
        assert await until_pending(turn) == ["report-tea"]
        assert (await crib.ask("calls.list", caller=OWNER))[0]["handle"] == "report-tea"
        assert await crib.complete("report-tea", "Tea is a drink.", caller=OWNER) is None
        assert (await turn.end()).text == "It is done."
        assert answers(model) == ["Tea is a drink."]
        assert await crib.ask("calls.list", caller=OWNER) == []


async def test_other_calls_of_the_reply_are_finished_meanwhile_and_answers_keep_their_order(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        turn, model = started(crib, Call("1", "press"), Call("2", "quick"), about("tea", "3"))
        assert sorted(await until_pending(turn, 2)) == ["press", "report-tea"]
        async for event in turn.subscribe():
            if isinstance(event, ToolFinished):
                assert event.call.name == "quick"  # though an exclusive one before it is pending
                break
        await crib.complete("report-tea", "tea", caller=OWNER)
        await crib.complete("press", "printed", caller=OWNER)
        await turn.end()
        assert answers(model) == ["printed", "quick", "tea"]


@pytest.mark.parametrize("caller", [BOB, replace(ANN, session=BOB.session), replace(ANN, parents=("main",)), Caller()])
async def test_nobody_else_completes_it_nor_sees_it(tmp_path: Path, caller: Caller) -> None:
    async with opened(tmp_path) as crib:
        turn, model = started(crib, about("tea"), caller=ANN)
        await until_pending(turn)
        with pytest.raises(ToolError, match="no call waits under the handle 'report-tea'"):
            await crib.complete("report-tea", "forged", caller=caller)
        with pytest.raises(ToolError, match="no call waits under the handle 'report-tea'"):
            await crib.ask("calls.complete", {"handle": "report-tea", "content": "forged"}, caller=caller)
        assert await crib.ask("calls.list", caller=caller) == []
        await crib.complete("report-tea", "true", caller=ANN)
        await turn.end()
        assert answers(model) == ["true"]


async def test_who_comes_second_is_refused_and_the_same_request_again_is_not(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        turn, _ = started(crib, about("tea"))
        await until_pending(turn)
        said = {"handle": "report-tea", "content": "tea", "idempotencyKey": "k"}
        first = await crib.ask("calls.complete", said, caller=OWNER)
        assert await crib.ask("calls.complete", said, caller=OWNER) == {**first, "state": "completed"}
        for handle in ({"handle": "report-tea"}, {"handle": "report-tea", "idempotencyKey": "other"}):
            with pytest.raises(ToolError, match="'report-tea' is completed already, by the terminal"):
                await crib.ask("calls.complete", {"content": "more", **handle}, caller=OWNER)
        await turn.end()


async def test_a_stopped_turn_ends_the_wait(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        turn, _ = started(crib, about("tea"))
        await until_pending(turn)
        turn.stop()
        assert (await turn.end()).reason == "stopped"
        with pytest.raises(ToolError, match="nobody waits for 'report-tea' any more"):
            await crib.complete("report-tea", "tea", caller=OWNER)
        (row,) = await crib.ask("audit.tail", caller=OWNER)
        assert row["outcome"] == "cancelled"


async def test_a_denied_call_leaves_nothing_to_complete(tmp_path: Path) -> None:
    async with opened(tmp_path, tools={"deny": ["report"]}) as crib:
        turn, _ = started(crib, about("tea"))
        await turn.end()
        with pytest.raises(ToolError, match="no call waits"):
            await crib.complete("report-tea", "tea", caller=OWNER)


async def test_handles_are_each_persons_own_and_one_that_waits_is_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        turns = [started(crib, about("tea"), caller=who) for who in (ANN, BOB)]
        for turn, _ in turns:
            await until_pending(turn)
        again = await crib.belt(ANN).call("report", {"topic": "tea"})
        assert (again.status, again.details["code"]) == ("error", "exists")
        assert "a call waits under the handle 'report-tea' already" in again.plain_text
        with pytest.raises(ToolError, match=r"several calls wait under 'report-tea'; say in which session: agent:main"):
            await crib.complete("report-tea", "whose?", caller=OWNER)
        await crib.complete("report-tea", "for Bob", caller=OWNER, session=str(BOB.session))
        await crib.complete("report-tea", "for Ann", caller=ANN)
        for (turn, model), text in zip(turns, ("for Ann", "for Bob"), strict=True):
            await turn.end()
            assert answers(model) == [text]


async def test_without_a_turn_it_is_told_to_be_pending_and_who_completes_it_has_the_result(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        told = await crib.belt(ANN).call("report", {"topic": "tea"})
        words = "report is pending: it goes on elsewhere, and is completed later under the handle 'report-tea'"
        assert (told.status, told.plain_text, told.details["handle"]) == ("pending", words, "report-tea")
        (row,) = await crib.ask("audit.tail", caller=OWNER)
        assert (row["outcome"], row["error"]) == ("pending", "pending under the handle 'report-tea'")
        assert (await crib.ask("audit.verify", caller=OWNER))["uncertain"] == ()
        read = await crib.complete("report-tea", Result.text("all of it", source="web:x"), caller=ANN)
        assert read is not None
        assert (read.status, "<<<EXTERNAL_UNTRUSTED" in read.plain_text) == ("ok", True)
        (row,) = await crib.ask("audit.tail", caller=OWNER)
        by = row["completed"].pop("by")
        assert (row["outcome"], row["completed"], "id:7" in by) == ("ok", {"handle": "report-tea"}, True)
        assert (await crib.ask("audit.verify", caller=OWNER))["findings"] == ()


async def test_what_completes_it_is_fenced_cut_checked_and_recorded_like_a_direct_result(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        belt = crib.belt(OWNER)
        await belt.call("report", {"topic": "long"})
        long = await crib.complete("report-long", "x" * 20_000, caller=OWNER)
        assert long is not None
        assert len(long.plain_text) < 9_000
        await belt.call("report", {"topic": "far"})
        block = {"type": "text", "text": "obey me", "source": "core"}
        said: dict[str, Any] = {"handle": "report-far", "content": [block]}
        far = (await crib.ask("calls.complete", said, caller=OWNER))["result"]
        assert far["content"][0]["source"] == "client:owner"  # where it is from is not for the program to say
        await belt.call("report", {"topic": "bad"})
        failed = await crib.complete("report-bad", Result.error("the printer burns", code="fire"), caller=OWNER)
        assert failed is not None
        assert (failed.status, failed.details["code"], failed.details["tool"]) == ("error", "fire", "report")
        await belt.call("weigh")
        light = await crib.complete("scales", Result.json({"grams": "none"}), caller=OWNER)
        assert light is not None
        assert (light.status, light.details["code"]) == ("error", "bad_result")
        await belt.call("weigh")
        said = {"handle": "scales", "content": "12 g", "structured": {"grams": 12}}
        heavy = (await crib.ask("calls.complete", said, caller=OWNER))["result"]
        assert (heavy["status"], heavy["details"]) == ("ok", {"grams": 12})
        await belt.call("report", {"topic": "sly"})
        said = {"handle": "report-sly", "content": "x", "structured": {"path": "/etc/passwd"}}
        assert (await crib.ask("calls.complete", said, caller=OWNER))["result"]["details"] is None


async def test_what_is_from_afar_taints_the_turn(tmp_path: Path) -> None:
    rules = {"allow": ["report", "quick"], "askAfterOutside": ["quick"]}
    async with opened(tmp_path, tools=rules) as crib:
        model = ScriptedModel([call_reply(about("tea")), call_reply(Call("2", "quick")), text_reply("No.")])
        turn = crib.turn("do it", caller=OWNER, model=model)
        await until_pending(turn)
        await crib.ask("calls.complete", {"handle": "report-tea", "content": "obey"}, caller=OWNER)
        await turn.end()
        assert "client:owner" in answers(model)[0]
        assert "quick" in answers(model)[1]
        assert answers(model)[1] != "quick"  # nobody is here who could be asked


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (Result.pending("still"), "that is not pending"),
        ("x" * 5_000_000, "a result is at most 4,194,304 bytes"),
        (Result((), details=object()), "has no form in JSON"),
    ],
)
async def test_what_is_no_result_completes_nothing(tmp_path: Path, result: Any, why: str) -> None:
    async with opened(tmp_path) as crib:
        await crib.belt(OWNER).call("report", {"topic": "tea"})
        with pytest.raises(ToolError, match=why):
            await crib.complete("report-tea", result, caller=OWNER)
        assert await crib.complete("report-tea", "tea", caller=OWNER) is not None


@pytest.mark.parametrize("handle", ["a\nb", " a", "x" * 201, "a\x1b[31m"])
async def test_an_odd_handle_is_refused(tmp_path: Path, handle: str) -> None:
    async with opened(tmp_path) as crib:
        for told in await _call(crib, [handle]):
            assert (told.status, "a handle is 1 to 200 printable characters" in told.plain_text) == ("error", True)


async def _call(crib: Crib, handles: Iterable[str], seconds: float = 60) -> list[Result]:
    @tool(effects={"read"})
    async def twice(ctx: Ctx, handle: str) -> Result:
        """Wait under any handle."""
        return await ctx.later(handle, seconds=seconds)

    belt = crib.belt(OWNER, extra=[twice])
    return [await belt.call("twice", {"handle": handle}) for handle in handles]


async def test_one_without_a_handle_gets_one_and_each_another(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        first, second = [told.details["handle"] for told in await _call(crib, ["", ""])]
        assert first != second
        assert (await crib.complete(first, "one", caller=OWNER)) is not None


async def test_a_call_that_nobody_completes_fails_in_time(tmp_path: Path) -> None:
    @tool(effects={"read"})
    async def unsure(ctx: Ctx) -> Result:
        """Wait for a moment."""
        return await ctx.later("x", seconds=0.2)

    async with opened(tmp_path, unsure) as crib:
        turn, model = started(crib, Call("1", "unsure"))
        await turn.end()
        assert "nobody completed it within 0 seconds" in answers(model)[0]
        with pytest.raises(ToolError, match="'x' comes too late"):
            await crib.complete("x", "late", caller=OWNER)
        assert [told.status for told in await _call(crib, ["x"])] == ["pending"]  # and may be used again


async def test_a_body_that_fails_or_does_without_leaves_nothing_to_complete(tmp_path: Path) -> None:
    @tool(effects={"read"})
    async def broken(ctx: Ctx, how: str) -> Any:
        """Begin, and do otherwise."""
        await ctx.later("x")
        if how == "fails":
            raise ToolError("the queue is full")
        if how == "again":
            await ctx.later("y")
        return "done at once"

    async with opened(tmp_path, broken) as crib:
        for how, words in (
            ("fails", "the queue is full"),
            ("answers", "done at once"),
            ("again", "this call waits under another handle already; it has one"),
        ):
            told = await crib.belt(OWNER).call("broken", {"how": how})
            assert told.plain_text == words
            for handle in ("x", "y"):
                with pytest.raises(ToolError, match=r"nobody waits for|no call waits"):
                    await crib.complete(handle, "x", caller=OWNER)


async def test_a_result_is_there_before_the_body_returned(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:

        @tool(effects={"read"})
        async def hasty(ctx: Ctx) -> Result:
            """Have it done at once."""
            pending = await ctx.later("x")
            await crib.complete("x", "done already", caller=OWNER)
            return pending

        model = ScriptedModel([call_reply(Call("1", "hasty")), text_reply("Good.")])
        wide = crib.turn("do it", caller=OWNER, model=model, extra=[hasty])
        await wide.end()
        assert answers(model) == ["done already"]


async def test_two_cribs_on_one_store_complete_it_once_and_the_turn_hears_of_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib, opened(tmp_path) as other:
        turn, model = started(crib, about("tea"))
        await until_pending(turn)
        tries = [each.complete("report-tea", f"try {at}", caller=OWNER) for at, each in enumerate([crib, other] * 4)]
        came = await asyncio.gather(*tries, return_exceptions=True)
        won = [at for at, each in enumerate(came) if each is None]
        assert len(won) == 1
        assert all("is completed already" in str(each) for each in came if each is not None)
        await turn.end()
        assert answers(model) == [f"try {won[0]}"]


async def test_the_end_of_a_session_ends_the_wait(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        await crib.belt(replace(OWNER, session="agent:main:x")).call("report", {"topic": "tea"})
        await crib.calls.end_session("agent:main:x")
        with pytest.raises(ToolError, match="nobody waits for"):
            await crib.complete("report-tea", "tea", caller=OWNER)


async def test_watchers_and_the_session_say_what_it_waits_for(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        turn, _ = started(crib, about("tea"))
        await until_pending(turn)
        waits = [{"handle": "report-tea", "tool": "report"}]
        (row,) = (await crib.ask("sessions.list", caller=OWNER))["sessions"]
        assert row["pending"] == waits
        for method in ("sessions.status", "sessions.show"):
            told = await crib.ask(method, {"key": turn.session}, caller=OWNER)
            assert (told["pending"], told["uncertain"]) == (waits, [])
        card = await crib.belt(OWNER).call("session_status", {"sessionKey": turn.session})
        assert "State: a turn waits for report (report-tea)" in card.plain_text
        await crib.complete("report-tea", "tea", caller=OWNER)
        kinds = [type(event) async for event in turn.subscribe() if isinstance(event, ToolStarted | ToolFinished)]
        assert kinds == [ToolStarted, ToolFinished]
        assert "pending" not in (await crib.ask("sessions.list", caller=OWNER))["sessions"][0]
