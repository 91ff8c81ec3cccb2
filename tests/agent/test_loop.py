"""The loop: model and tools until done, told as it happens; however it ends, the history is whole."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from toolcrib.agent.compact import ShortHistory
from toolcrib.agent.hooks import bind_guards
from toolcrib.agent.limits import REPEATED
from toolcrib.agent.mailbox import Inbox
from toolcrib.backends.stores.memory import InMemoryBlobs
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.event import Ending, Event, Replied, ToolFinished, ToolProgress, TurnFinished, Usage
from toolcrib.define.log import Ended
from toolcrib.define.marks import MARK
from toolcrib.define.message import Call, Finish, Message, join_text
from toolcrib.define.model import History, ModelCard, Price, Request
from toolcrib.define.plugin import Ask, Word
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import tool
from toolcrib.define.turn import Limits
from toolcrib.testing.models import FunctionModel, ScriptedModel, call_reply, text_reply

from .loop_worlds import Cues, World, call, check_pairs, user

pytestmark = pytest.mark.anyio


def broken(finish: Finish, *calls: Call, error: str = "") -> Replied:
    return Replied(Message(role="assistant", content=(Text("so far"),), calls=calls, finish=finish), error=error)


# replies and calls


async def test_a_reply_in_words_ends_the_turn() -> None:
    world = World(ScriptedModel([text_reply("hello", Usage(10, 2))]))
    end = await world.run()
    assert end == TurnFinished("done", "hello", "", 1, Usage(10, 2), None)
    assert world.told() == ["text hello", "replied stop", "end done"]
    assert [message.role for message in world.history] == ["user", "assistant"]
    assert isinstance((await world.lines())[-1].body, Ended)
    await world.check_whole()


async def test_a_call_is_run_and_its_answer_goes_back_to_the_model() -> None:
    model = ScriptedModel([call_reply(call("a"), text="looking"), text_reply("done")])
    world = World(model)
    assert (await world.run()).text == "done"
    assert world.told() == [
        "text looking", "replied calls", "started a", "finished a ok", "text done", "replied stop", "end done",
    ]  # fmt: skip
    assert [join_text(message) for message in model.asked[1].messages] == ["go", "looking", "a"]
    model.done()
    await world.check_whole()


async def test_a_call_that_cannot_run_is_answered_with_the_reason_and_the_turn_goes_on() -> None:
    flawed = Call("c", "echo", parse_error="the arguments are not valid JSON")
    model = ScriptedModel([call_reply(call("a", "echoo"), call("b", "echo", wort="x"), flawed), text_reply("done")])
    world = World(model)
    assert (await world.run()).reason == "done"
    answers = world.answers()
    assert "there is no tool 'echoo'; the nearest are echo" in answers["a"]
    assert "word" in answers["b"]
    assert "not valid JSON" in answers["c"]
    assert [message.status for message in world.history if message.role == "tool"] == ["error"] * 3
    await world.check_whole()


async def test_calls_of_one_reply_overlap_and_are_answered_in_their_order() -> None:
    cues = Cues()
    model = ScriptedModel([call_reply(call("a", "wait"), call("b", "wait"), call("c", "wait")), text_reply("done")])
    world = World(model, (cues.tool(),))
    await world.begin()
    for who in "abc":
        await cues.came(who)
    for who in "cba":
        cues.give(who)
        async with asyncio.timeout(60):
            while f"{who} out" not in cues.happened:
                await asyncio.sleep(0)
    await world.task
    assert cues.happened == ["a in", "b in", "c in", "c out", "b out", "a out"]
    assert world.told()[1:-3] == [
        "started a", "started b", "started c", "finished c ok", "finished b ok", "finished a ok",
    ]  # fmt: skip
    assert [message.call_id for message in world.history if message.role == "tool"] == ["a", "b", "c"]
    await world.check_whole()


async def test_two_calls_with_one_id_both_run_and_are_answered_each_with_its_own_result() -> None:
    cues = Cues()
    calls = [Call("a", "wait", {"word": word}) for word in ("first", "second", "third")]
    model = ScriptedModel([call_reply(*calls), text_reply("done")])
    world = World(model, (cues.tool(),))
    await world.begin()
    for word in ("third", "second", "first"):
        await cues.came(word)
        cues.give(word)
        await asyncio.sleep(0)
    await world.task
    assert [join_text(message) for message in model.asked[1].messages if message.role == "tool"] == [
        "first", "second", "third",
    ]  # fmt: skip
    reply = world.history[1]
    assert [each.id for each in reply.calls] == ["a", "a-2", "a-3"]
    assert len({each.key for each in reply.calls}) == 3
    await world.check_whole()


async def test_calls_that_come_with_one_key_get_keys_of_their_own() -> None:
    calls = [call("a")._replace(key="k"), call("b")._replace(key="k")]
    world = World(ScriptedModel([call_reply(*calls), text_reply("done")]))
    await world.run()
    first, second = world.history[1].calls
    assert first.key == "k" != second.key
    assert world.answers() == {"a": "a", "b": "b"}


async def test_a_thousand_steps_share_one_history_and_copy_nothing_of_it() -> None:
    seen: set[int] = set()
    lengths: list[int] = []

    def answer(request: Request) -> Replied:
        seen.add(id(request.history))
        lengths.append(len(request.history))
        step = len(lengths)
        return call_reply(call(f"c{step}")) if step <= 1000 else text_reply("done")

    world = World(FunctionModel(answer, keep=False), options={"limits": Limits(turns=None)})
    end = await world.run()
    assert end.steps == 1001
    assert seen == {id(world.loop.history)}
    assert lengths == [1 + 2 * step for step in range(1001)]
    assert len(await world.lines()) == 1 + 3 * 1000 + 2  # user, then reply, begin and answer a step, reply, end


# replies that broke off


async def test_a_cut_off_call_never_runs_and_the_model_is_asked_again() -> None:
    model = ScriptedModel([broken("length", call("a"), call("b")), text_reply("done")])
    world = World(model)
    assert (await world.run()).reason == "done"
    assert world.told() == ["text so far", "replied length", "text done", "replied stop", "end done"]
    why = "this call was not run: the reply was cut off at its longest; write less at once"
    assert world.answers() == {"a": why, "b": why}
    await world.check_whole()


async def test_three_cut_off_replies_in_a_row_end_the_turn() -> None:
    cut = [broken("length", call(id)) for id in "abc"]
    world = World(ScriptedModel(cut))
    end = await world.run()
    assert (end.reason, end.steps, end.text) == ("length", 3, "so far")
    await world.check_whole()


async def test_cut_off_replies_that_are_not_in_a_row_do_not_end_the_turn() -> None:
    script = [broken("length", call("a")), call_reply(call("b"))] * 3
    world = World(ScriptedModel([*script, text_reply("done")]))
    assert (await world.run()).reason == "done"


async def test_words_that_are_cut_off_end_the_turn_and_say_so() -> None:
    world = World(ScriptedModel([broken("length")]))
    end = await world.run()
    assert (end.reason, end.text) == ("length", "so far")
    assert "cut off" in end.sentence


@pytest.mark.parametrize(
    ("finish", "reason", "sentence"),
    [("error", "error", "no luck"), ("aborted", "error", "no luck"), ("refused", "refused", "no luck")],
)
async def test_calls_of_a_reply_that_failed_never_run(finish: Finish, reason: Ending, sentence: str) -> None:
    world = World(ScriptedModel([broken(finish, call("a"), error="no luck")]))
    end = await world.run()
    assert (end.reason, end.sentence) == (reason, sentence)
    assert world.told() == ["text so far", f"replied {finish}", f"end {reason}"]
    assert world.answers()["a"].startswith("this call was not run: the reply")
    await world.check_whole()


async def test_a_conversation_that_is_too_long_is_shortened_once_and_asked_again() -> None:
    model = ScriptedModel([broken("error", error="prompt is too long: 9 tokens > 8 maximum"), text_reply("done")])
    forced: list[bool] = []

    async def shorten(history: History, force: bool) -> ShortHistory | None:
        forced.append(force)
        if not force:
            return None
        shorter = History([user("in short")])
        return ShortHistory(history=shorter, summary="", at=0, before=9, usage=Usage(input=7, output=2), by_model=True)

    world = World(model, options={"shorten": shorten})
    end = await world.run()
    assert (end.reason, end.steps, end.usage) == ("done", 2, Usage(input=7, output=2))  # a summary is paid for, too
    assert forced == [False, True, False]
    assert [join_text(message) for message in model.asked[1].messages] == ["in short"]


# who speaks in between


async def test_steering_is_heard_before_the_next_reply_and_follow_ups_after_the_answer_one_at_a_time() -> None:
    inbox = Inbox()
    model = ScriptedModel(
        [call_reply(call("a")), text_reply("one"), text_reply("two"), text_reply("three"), text_reply("four")]
    )

    def speak(event: Event) -> None:
        if isinstance(event, ToolFinished):
            inbox.follow_up(user("then this"))
            inbox.follow_up(user("and that"))
            inbox.steer(user("left"))
            inbox.steer(user("no, right"))

    world = World(model, options={"inbox": inbox}, on_event=speak)
    end = await world.run()
    assert world.told() == [
        "replied calls", "started a", "finished a ok",
        "received left", "text one", "replied stop",
        "received no, right", "text two", "replied stop",
        "received then this", "text three", "replied stop",
        "received and that", "text four", "replied stop", "end done",
    ]  # fmt: skip
    assert (end.text, end.steps) == ("four", 5)
    assert all(message.at == 5.0 for message in world.history[1:])
    await world.check_whole()


async def test_steering_before_the_first_reply_is_heard_with_the_message() -> None:
    inbox = Inbox()
    inbox.steer(user("and quickly"))
    model = ScriptedModel([text_reply("done")])
    await World(model, options={"inbox": inbox}).run()
    assert [join_text(message) for message in model.asked[0].messages] == ["go", "and quickly"]


async def test_messages_that_no_reply_is_left_for_are_kept_for_the_next_turn() -> None:
    inbox = Inbox()
    inbox.follow_up(user("more"))
    inbox.steer(user("now"))
    inbox.steer(user("and now"))
    world = World(ScriptedModel([text_reply("one")]), options={"inbox": inbox, "limits": Limits(turns=1)})
    end = await world.run()
    assert (end.reason, end.text) == ("turns", "one")
    assert world.told()[-3:] == ["received and now", "received more", "end turns"]
    assert [join_text(message) for message in world.history] == ["go", "now", "one", "and now", "more"]
    with pytest.raises(ToolError, match="the turn has ended") as refusal:
        inbox.follow_up(user("too late"))
    assert refusal.value.code == "ended"
    await world.check_whole()


@pytest.mark.parametrize("put", [Inbox.steer, Inbox.follow_up])
def test_a_queue_that_is_full_refuses_what_comes_next(put: Any) -> None:
    inbox = Inbox()
    for number in range(100):
        put(inbox, user(str(number)))
    with pytest.raises(ToolError, match="100 messages wait") as refusal:
        put(inbox, user("one more"))
    assert refusal.value.code == "busy"


# limits


async def test_a_limit_on_replies_ends_the_turn_with_what_was_gathered() -> None:
    replies = [call_reply(call(f"c{number}"), text=f"step {number}", usage=Usage(10, 1)) for number in range(3)]
    world = World(ScriptedModel([*replies, text_reply("three steps", Usage(20, 2))]))
    world.options = {"limits": Limits(turns=3)}
    end = await world.run()
    assert end == TurnFinished(
        "turns", "three steps", "stopped after 3 replies, the limit of a turn (limits.turns)", 3, Usage(50, 5), None
    )
    await world.check_whole()


async def test_a_limit_on_tokens_ends_the_turn_before_the_next_reply() -> None:
    replies = [call_reply(call(f"c{number}"), usage=Usage(600, 10)) for number in range(2)]
    world = World(ScriptedModel([*replies, "that was dear"]), options={"limits": Limits(tokens=1000)})
    end = await world.run()
    assert (end.reason, end.steps, end.usage) == ("tokens", 2, Usage(1200, 20))
    assert end.sentence == "stopped after 1,220 tokens; the limit of a turn is 1,000 (limits.tokens)"
    await world.check_whole()


async def test_a_limit_on_money_ends_the_turn_before_the_next_reply() -> None:
    card = ModelCard(provider="test", model="dear", price=Price(input=1000, output=1000))
    model = ScriptedModel([*(call_reply(call(name), usage=Usage(400, 100)) for name in "ab"), "that was dear"], card)
    world = World(model, options={"limits": Limits(cost=0.75)})
    end = await world.run()
    assert (end.reason, end.cost) == ("cost", 1.0)
    assert "$1.0000" in end.sentence
    await world.check_whole()


async def test_a_limit_on_money_ends_the_turn_when_nobody_knows_the_price() -> None:
    world = World(ScriptedModel([call_reply(call("a"), usage=Usage(4, 1))]), options={"limits": Limits(cost=9)})
    end = await world.run()
    assert (end.reason, end.steps, end.cost) == ("cost", 1, None)
    assert "price" in end.sentence


async def test_a_limit_on_time_stops_a_running_tool_and_keeps_what_it_had_shown() -> None:
    @tool(effects=set())
    async def dig(ctx: Ctx) -> str:
        """Dig for ever."""
        ctx.progress(Result((Text("found a coin"), Text("outside words", "web:a.test"))))
        await asyncio.Event().wait()
        return ""

    world = World(ScriptedModel([call_reply(Call("a", "dig"), text="digging"), "found a coin"]), (dig,))
    world.options = {"limits": Limits(seconds=0.05)}
    end = await world.run()
    assert (end.reason, end.text) == ("timeout", "found a coin")
    assert end.sentence == "stopped after 0.05 seconds, the limit of a turn (limits.seconds)"
    text = world.answers()["a"]
    assert text.startswith("found a coin")
    assert text.count(MARK) == 2
    assert text.index(MARK) < text.index("outside words") < text.rindex(MARK)
    assert "it was stopped while it ran, so it may have done a part of its work (stopped after 0.05 seconds" in text
    assert world.told()[-4:] == ["finished a error", "text found a coin", "replied stop", "end timeout"]
    await world.check_whole()


async def test_a_limit_on_time_stops_a_reply() -> None:
    async def forever(request: Request) -> str:
        await asyncio.Event().wait()
        return ""

    world = World(FunctionModel(forever), options={"limits": Limits(seconds=0.02)})
    end = await world.run()
    assert (end.reason, end.steps) == ("timeout", 0)
    await world.check_whole()


async def test_a_body_that_swallows_the_stop_does_not_keep_the_turn_going() -> None:
    @tool(effects=set())
    async def stubborn() -> str:
        """Go on whatever is said."""
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "not impressed"
        return ""

    world = World(ScriptedModel([call_reply(Call("a", "stubborn"))]), (stubborn,))
    world.options = {"limits": Limits(seconds=0.02)}
    end = await world.run()
    assert (end.reason, end.steps) == ("timeout", 1)
    assert world.answers() == {"a": "not impressed"}
    await world.check_whole()


async def test_calls_of_a_model_that_swallows_the_stop_never_run() -> None:
    async def stubborn(request: Request) -> Replied:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return call_reply(call("a"))
        return text_reply("never")

    world = World(FunctionModel(stubborn), options={"limits": Limits(seconds=0.02)})
    end = await world.run()
    assert (end.reason, world.told()) == ("timeout", ["replied calls", "end timeout"])
    assert world.answers()["a"].startswith("this call was not run: stopped after 0.02 seconds")
    await world.check_whole()


async def test_the_clock_stands_still_while_a_human_is_asked() -> None:
    loop = asyncio.get_running_loop()
    asked_at: list[float] = []
    limit = 1.0  # seconds that a busy machine needs less than for all but the human

    class Human:
        async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str], /) -> bool:
            asked_at.append(loop.time())
            reached = asyncio.Event()
            loop.call_later(limit * 1.5, reached.set)
            await reached.wait()
            return True

    async def careful(ctx: Ctx, args: Mapping[str, Any]) -> Word:
        return Ask("really?")

    world = World(ScriptedModel([call_reply(call("a"), call("b")), text_reply("done")]))
    world.options = {"limits": Limits(seconds=limit)}
    world.window = {"approver": Human(), "guards": bind_guards([careful])}
    end = await world.run()
    assert (end.reason, world.answers()) == ("done", {"a": "a", "b": "b"})
    assert loop.time() - asked_at[0] >= limit * 1.5


# repeats


async def test_the_same_calls_with_the_same_results_five_times_end_the_turn() -> None:
    world = World(
        FunctionModel(lambda request: call_reply(Call(f"c{len(request.history)}", "echo", {"word": "again"})))
    )
    end = await world.run()
    assert (end.reason, end.steps) == ("repeating", 5)
    assert end.sentence == "stopped: the same calls gave the same results 5 times"
    await world.check_whole()


async def test_the_model_reads_that_it_made_a_call_before_and_watchers_see_the_result_alone() -> None:
    again = [call_reply(Call(f"c{number}", "echo", {"word": "again"})) for number in range(2)]
    model = ScriptedModel([*again, text_reply("done")])
    world = World(model)
    await world.run()
    assert world.answers() == {"c0": "again", "c1": REPEATED.text}
    results = [event.result.plain_text for event in world.events if isinstance(event, ToolFinished)]
    assert results == ["again", "again"]
    await world.check_whole()


async def test_a_result_is_never_longer_than_a_quarter_of_the_models_window_and_the_rest_is_paged() -> None:
    @tool(effects=set(), limit=50_000)
    async def tell(word: str) -> str:
        """Tell a lot."""
        return word * 1_000

    @tool(effects=set())
    async def result_get(key: str) -> str:
        """Page on."""
        return key

    for window, cut in ((1_200, True), (128_000, False)):
        card = ModelCard(provider="test", model="small", window=window)
        model = ScriptedModel([call_reply(call("a", "tell", word="words ")), text_reply("done")], card)
        world = World(model, tools=(tell, result_get), window={"blobs": InMemoryBlobs()})
        await world.run()
        told = world.answers()["a"]
        assert ("[cut: 1,200 of 6,000 characters are shown; result_get with key" in told) is cut
        assert (len(told) < 1_400) is cut


# last words


def turn_that_ends(*script: Replied, **limits: Any) -> tuple[ScriptedModel, World]:
    model = ScriptedModel(script, ModelCard(provider="test", model="dear", price=Price(input=1000, output=1000)))
    return model, World(model, options={"limits": Limits(**limits), "system": "S"})


@pytest.mark.parametrize(
    ("limits", "reason"), [({"turns": 1}, "turns"), ({"tokens": 1}, "tokens"), ({"cost": 0.1}, "cost")]
)
async def test_a_turn_that_is_stopped_gets_one_last_reply_without_tools(limits: dict[str, Any], reason: str) -> None:
    words = text_reply("a was said; b is missing", Usage(100, 10))
    model, world = turn_that_ends(call_reply(call("a"), text="first", usage=Usage(100, 10)), words, **limits)
    end = await world.run()
    model.done()
    assert (end.reason, end.text, end.steps, end.usage) == (reason, "a was said; b is missing", 1, Usage(200, 20))
    assert end.sentence.startswith("stopped after")
    first, last = model.asked
    assert (last.request.choice, last.tools, last.system) == ("none", first.tools, "S")
    assert end.sentence in join_text(last.messages[-1])
    assert [message.role for message in world.history] == ["user", "assistant", "tool", "assistant"]
    assert world.told()[-2:] == ["replied stop", f"end {reason}"]
    await world.check_whole()


async def test_a_turn_that_went_in_circles_gets_last_words_too() -> None:
    def answer(request: Request) -> Replied:
        if request.choice == "none":
            return text_reply("it says `again` each time")
        return call_reply(Call(f"c{len(request.history)}", "echo", {"word": "again"}))

    end = await World(FunctionModel(answer)).run()
    assert (end.reason, end.text, end.steps) == ("repeating", "it says `again` each time", 5)


async def test_calls_in_the_last_words_do_not_run() -> None:
    model, world = turn_that_ends(call_reply(call("a")), call_reply(call("b"), text="so far a"), turns=1)
    end = await world.run()
    model.done()
    assert (end.reason, end.text) == ("turns", "so far a")
    assert world.answers()["b"].startswith("this call was not run: stopped after 1 reply")
    await world.check_whole()


async def test_a_last_reply_that_fails_leaves_the_turn_as_it_was() -> None:
    broken = Replied(
        Message(role="assistant", content=(Text("ha"),), finish="error"), error="quota is used up", retry=0
    )
    model, world = turn_that_ends(call_reply(call("a"), text="first"), broken, turns=1)
    end = await world.run()
    model.done()
    assert (end.reason, end.text, len(world.history)) == ("turns", "first", 3)
    await world.check_whole()


async def test_time_that_is_over_while_a_tool_runs_leaves_last_words() -> None:
    cues = Cues()
    model, world = turn_that_ends(call_reply(call("a", "wait")), text_reply("it took too long"), seconds=1.0)
    world.tools = (cues.tool(),)
    end = await world.run()
    model.done()
    assert (end.reason, end.text) == ("timeout", "it took too long")
    assert world.told()[-4:] == ["finished a error", "text it took too long", "replied stop", "end timeout"]
    await world.check_whole()


async def test_stop_ends_the_last_words_as_well() -> None:
    asked = asyncio.Event()

    async def answer(request: Request) -> Replied:
        if request.choice == "none":
            asked.set()
            await asyncio.Event().wait()
        return call_reply(call("a"))

    world = World(FunctionModel(answer), options={"limits": Limits(turns=1)})
    await world.begin()
    await asked.wait()
    world.task.cancel()
    assert (await world.stopped()).reason == "stopped"
    await world.check_whole()


async def test_somebody_who_steers_gets_a_turn_out_of_its_circle() -> None:
    inbox = Inbox()
    steps: list[int] = []

    def answer(request: Request) -> Replied:
        steps.append(1)
        if len(steps) == 5:
            inbox.steer(user("stop that"))
        if len(steps) > 5:
            return text_reply("sorry")
        return call_reply(Call(f"c{len(steps)}", "echo", {"word": "again"}))

    world = World(FunctionModel(answer), options={"inbox": inbox})
    assert (await world.run()).text == "sorry"


# stopping


async def test_stop_while_calls_run_answers_those_that_were_done_those_that_ran_and_those_that_did_not() -> None:
    cues = Cues()

    @tool(effects=set(), exclusive=True)
    async def alone() -> str:
        """Never gets its turn."""
        raise AssertionError("a call that had not started was started")

    world = World(ScriptedModel([call_reply(call("a", "wait"), call("b", "wait"), Call("c", "alone"))]))
    world.tools = (cues.tool(), alone)
    await world.begin()
    await cues.came("a")
    await cues.came("b")
    cues.give("b")
    async with asyncio.timeout(60):
        while "finished b ok" not in world.told():
            await asyncio.sleep(0)
    world.task.cancel()
    end = await world.stopped()
    assert end.reason == "stopped"
    assert world.answers() == {
        "a": "it was stopped while it ran, so it may have done a part of its work (stopped before it was done)",
        "b": "b",
        "c": "this call was not run: stopped before it was done",
    }
    assert world.told()[-3:] == ["finished a error", "finished c error", "end stopped"]
    await world.check_whole()


async def test_stopping_twice_is_stopping_once_and_the_end_is_told() -> None:
    cues = Cues()
    world = World(ScriptedModel([call_reply(call("a", "wait"))]), (cues.tool(),))
    world.on_event = lambda event: world.task.cancel() if isinstance(event, ToolFinished) else None
    await world.begin()
    await cues.came("a")
    world.task.cancel()
    end = await world.stopped()
    assert end.reason == "stopped"
    assert len([event for event in world.events if isinstance(event, TurnFinished)]) == 1
    await world.check_whole()


async def test_what_a_hook_was_about_to_keep_is_said_to_be_lost_when_the_turn_is_stopped() -> None:
    reached = asyncio.Event()

    async def keep(call: Call, message: Message) -> Message:
        reached.set()
        await asyncio.Event().wait()
        return message

    world = World(ScriptedModel([call_reply(call("a"))]), options={"keep": keep})
    await world.begin()
    await reached.wait()
    world.task.cancel()
    await world.stopped()
    assert world.answers() == {
        "a": "it ran to its end, and what came of it was not kept (stopped before it was done)",
    }
    await world.check_whole()


async def test_what_a_hook_keeps_of_an_answer_is_what_the_model_reads_and_the_session_keeps() -> None:
    async def keep(call: Call, message: Message) -> Message:
        return replace(message, content=(Text(f"{call.name}: [kept]"),))

    model = ScriptedModel([call_reply(call("a")), text_reply("done")])
    world = World(model, options={"keep": keep})
    await world.run()
    assert join_text(model.asked[1].messages[-1]) == "echo: [kept]"
    await world.check_whole()


async def test_a_failure_of_our_own_leaves_the_history_whole_and_is_not_hidden() -> None:
    async def keep(call: Call, message: Message) -> Message:
        if call.id == "b":
            raise RuntimeError("a bug")
        return message

    cues = Cues()
    world = World(ScriptedModel([call_reply(call("a", "wait"), call("b"))]), options={"keep": keep})
    world.tools = (cues.tool(), *world.tools)
    await world.begin()
    with pytest.raises(RuntimeError, match="a bug"):
        await world.task
    assert cues.happened == ["a in"]  # and nobody waits for it any more
    assert world.told()[-1] == "end error"
    check_pairs(world.history)
    await world.check_whole()


async def test_progress_is_told_as_it_comes() -> None:
    @tool(effects=set())
    async def dig(ctx: Ctx) -> str:
        """Dig."""
        ctx.progress(Result.text("half"))
        return "all"

    world = World(ScriptedModel([call_reply(Call("a", "dig")), text_reply("done")]), (dig,))
    await world.run()
    assert [event.partial.content for event in world.events if isinstance(event, ToolProgress)] == [(Text("half"),)]
    assert world.told()[1:4] == ["started a", "progress a half", "finished a ok"]
