"""Moments: hooks that listen hear them at once, hooks that change something compose, and none can bring a turn down."""

import asyncio
import logging
import threading
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from toolcrib.agent.hooks import Moments
from toolcrib.define.caller import Caller
from toolcrib.define.errors import DeclarationError
from toolcrib.define.message import Call, Message, Thinking
from toolcrib.define.plugin import MOMENTS, Block, Hook, Moment, Plugin
from toolcrib.define.result import Result, Text

pytestmark = pytest.mark.anyio

CALLER = Caller()
CALL = Call("c1", "read", {"path": "a"}, "k1")
ANSWER = Message(role="tool", content=(Text("secret words"),), call_id="c1", at=3.0)
FAILURE = replace(ANSWER, status="error")


def says(value: Any) -> Callable[[Moment], Any]:
    async def hook(moment: Moment) -> Any:
        return value

    return hook


async def raises(moment: Moment) -> None:
    raise RuntimeError("a bug of a plugin")


async def exits(moment: Moment) -> None:
    raise SystemExit(3)


async def gives_up(moment: Moment) -> None:
    raise asyncio.CancelledError


async def hangs(moment: Moment) -> None:
    await asyncio.Event().wait()


# hooks that listen


async def test_every_listener_is_told_what_happened_and_all_of_them_at_once() -> None:
    heard: list[Moment] = []
    met = asyncio.Barrier(2)

    async def listen(moment: Moment) -> None:
        async with asyncio.timeout(60):
            await met.wait()  # one after the other, they would never meet
        heard.append(moment)

    moments = Moments([("agent_end", listen), ("agent_end", listen), ("session_end", listen)])
    await moments.tell("agent_end", CALLER, success=True)
    assert heard == [Moment(name="agent_end", caller=CALLER, data={"success": True})] * 2


async def test_a_plain_function_listens_beside_the_event_loop() -> None:
    threads: list[int] = []
    await Moments([("agent_end", lambda moment: threads.append(threading.get_ident()))]).tell("agent_end", CALLER)
    assert threads[0] != threading.get_ident()


async def test_what_a_listener_does_to_its_data_nobody_else_sees() -> None:
    heard: list[Any] = []

    async def spoil(moment: Moment) -> None:
        moment.data["content"] = "spoiled"  # type: ignore[index]  # what somebody may try

    async def listen(moment: Moment) -> None:
        await asyncio.sleep(0)
        heard.append(moment.data["content"])

    await Moments([("message_sent", spoil), ("message_sent", listen)]).tell("message_sent", CALLER, content="hello")
    assert heard == ["hello"]


@pytest.mark.parametrize("bad", [raises, exits, gives_up, hangs])
async def test_a_listener_that_fails_or_hangs_is_logged_and_the_others_hear_it(
    bad: Callable[[Moment], Any], caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[str] = []

    async def listen(moment: Moment) -> None:
        heard.append(moment.name)

    moments = Moments([("session_start", bad), ("session_start", listen)], patience=0.02)
    with caplog.at_level(logging.ERROR, "toolcrib"):
        async with asyncio.timeout(60):
            await moments.tell("session_start", CALLER)
    assert heard == ["session_start"]
    assert "a hook of session_start failed" in caplog.text


async def test_nobody_who_listens_is_no_work() -> None:
    moments = Moments()
    await moments.tell("agent_end", CALLER, success=True)
    assert await moments.apply("before_agent_start", CALLER, prompt="hi") == {"prompt": "hi"}
    assert await moments.apply_to_answer(CALLER, CALL, ANSWER) is ANSWER
    assert "tool_result_persist" not in moments
    assert "tool_result_persist" in Moments([("tool_result_persist", hangs)])


@pytest.mark.parametrize("how", ["tell", "changed", "kept"])
async def test_a_stop_goes_through_a_hook(how: str) -> None:
    reached = asyncio.Event()

    async def wait(moment: Moment) -> None:
        reached.set()
        await asyncio.Event().wait()

    name = "tool_result_persist" if how == "kept" else "before_agent_start"
    moments = Moments([(name, wait)])
    work: dict[str, Callable[[], Awaitable[Any]]] = {
        "tell": lambda: moments.tell(name, CALLER),
        "changed": lambda: moments.apply(name, CALLER),
        "kept": lambda: moments.apply_to_answer(CALLER, CALL, ANSWER),
    }
    task = asyncio.ensure_future(work[how]())
    async with asyncio.timeout(60):
        await reached.wait()
        task.cancel()
        await asyncio.wait([task])
    assert task.cancelled()


# hooks that change something


async def test_each_hook_sees_what_the_one_before_made() -> None:
    seen: list[dict[str, Any]] = []

    async def first(moment: Moment) -> Any:
        seen.append(dict(moment.data))
        return {"systemPrompt": "be brief", "prependContext": "it rains"}

    def second(moment: Moment) -> Any:
        seen.append(dict(moment.data))
        return {"systemPrompt": "be kind", "prependContext": "it is late"}

    moments = Moments([("before_agent_start", first), ("before_agent_start", second)])
    made = await moments.apply("before_agent_start", CALLER, prompt="hi")
    assert made == {"prompt": "hi", "systemPrompt": "be kind", "prependContext": "it rains\n\nit is late"}
    assert seen == [{"prompt": "hi"}, {"prompt": "hi", "systemPrompt": "be brief", "prependContext": "it rains"}]


@pytest.mark.parametrize("bad", [raises, exits, gives_up, hangs, says("words"), says({"systemPrompt": 5})])
async def test_a_hook_that_fails_hangs_or_makes_no_sense_changes_nothing_and_is_logged(
    bad: Callable[[Moment], Any], caplog: pytest.LogCaptureFixture
) -> None:
    good = says({"systemPrompt": "be kind"})
    moments = Moments([("before_agent_start", good), ("before_agent_start", bad)], patience=0.02)
    with caplog.at_level(logging.ERROR, "toolcrib"):
        assert await moments.apply("before_agent_start", CALLER) == {"systemPrompt": "be kind"}
    assert "before_agent_start" in caplog.text


async def test_a_hook_says_only_what_can_be_said_at_its_moment(caplog: pytest.LogCaptureFixture) -> None:
    moments = Moments([("before_agent_start", says({"prompt": "other", "tools": ["exec"], "systemPrompt": None}))])
    with caplog.at_level(logging.ERROR, "toolcrib"):
        assert await moments.apply("before_agent_start", CALLER, prompt="hi") == {"prompt": "hi"}
    assert "'tools'" in caplog.text
    assert "'systemPrompt'" not in caplog.text


async def test_a_message_may_be_changed_or_held_back_before_it_is_sent() -> None:
    moments = Moments([("message_sending", says({"content": "hush"})), ("message_sending", says({"cancel": True}))])
    assert await moments.apply("message_sending", CALLER, content="hey") == {"content": "hush", "cancel": True}


# what a session keeps of an answer


async def test_what_hooks_make_of_an_answer_is_kept_each_seeing_what_the_one_before_made() -> None:
    seen: list[Moment] = []

    async def redact(moment: Moment) -> Any:
        seen.append(moment)
        return {"message": replace(moment.data["message"], content=(Text("[redacted]"),))}

    async def note(moment: Moment) -> Any:
        seen.append(moment)
        message = moment.data["message"]
        return {"message": replace(message, content=(*message.content, Text(" (by a plugin)")))}

    moments = Moments([("tool_result_persist", redact), ("tool_result_persist", note)])
    kept = await moments.apply_to_answer(CALLER, CALL, ANSWER)
    assert kept == replace(ANSWER, content=(Text("[redacted]"), Text(" (by a plugin)")))
    assert [moment.data["toolName"] for moment in seen] == ["read", "read"]
    assert seen[0].data == {"message": ANSWER, "toolName": "read", "toolCallId": "c1"}


@pytest.mark.parametrize("quiet", [says(None), says({}), says({"message": None})])
async def test_a_hook_without_a_word_about_an_answer_leaves_it(quiet: Callable[[Moment], Any]) -> None:
    assert await Moments([("tool_result_persist", quiet)]).apply_to_answer(CALLER, CALL, ANSWER) is ANSWER


@pytest.mark.parametrize(
    "made",
    [
        replace(FAILURE, role="user"),
        replace(FAILURE, call_id="c2"),
        replace(FAILURE, status="ok"),
        replace(FAILURE, calls=(CALL,)),
        replace(FAILURE, content=(Thinking("hm"),)),
        {"role": "tool"},
        "words",
    ],
)
async def test_an_answer_stays_the_answer_to_its_call_and_a_failure_stays_one(
    made: Any, caplog: pytest.LogCaptureFixture
) -> None:
    moments = Moments([("tool_result_persist", says({"message": made}))])
    with caplog.at_level(logging.ERROR, "toolcrib"):
        assert await moments.apply_to_answer(CALLER, CALL, FAILURE) is FAILURE
    assert "tool_result_persist" in caplog.text


async def test_a_success_may_be_kept_as_a_failure() -> None:
    moments = Moments([("tool_result_persist", says({"message": FAILURE}))])
    assert await moments.apply_to_answer(CALLER, CALL, ANSWER) == FAILURE


@pytest.mark.parametrize("bad", [raises, exits, gives_up, hangs])
async def test_a_hook_that_fails_keeps_the_answer_as_it_is(bad: Callable[[Moment], Any]) -> None:
    assert await Moments([("tool_result_persist", bad)], patience=0.02).apply_to_answer(CALLER, CALL, ANSWER) is ANSWER


# what a plugin declares


def test_a_plugin_may_listen_to_every_moment_there_is() -> None:
    plugin = Plugin(name="ears", hooks={name: says(None) for name in MOMENTS})
    assert list(plugin.hooks) == [name for name in MOMENTS if name not in ("before_tool_call", "after_tool_call")]


def test_a_moment_that_does_not_exist_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(DeclarationError, match="plugin 'ears': there is no hook 'agent_stop'"):
        Plugin(name="ears", hooks={"agent_stop": says(None)})
    with pytest.raises(DeclarationError, match="write 'session_start'"):
        Plugin(name="ears", hooks={"session_started": says(None)})
    with pytest.raises(DeclarationError, match="there are before_agent_start, agent_end"):
        Plugin(name="ears", hooks={"xyzzy": says(None)})


def test_a_hook_that_is_no_function_is_refused() -> None:
    with pytest.raises(DeclarationError, match="the hook 'agent_end' must be a function, not str"):
        Plugin(name="ears", hooks={"agent_end": "listen"})  # type: ignore[dict-item]  # what somebody may try


def test_hooks_around_a_call_are_guards_and_observers_behind_the_others() -> None:
    def guard(ctx: Any, args: Any) -> Block:
        return Block("no")

    def observer(ctx: Any, args: Any, result: Result) -> None:
        """Look on."""

    def other(*args: Any) -> None:
        """Look on, too."""

    plugin = Plugin(
        name="ears",
        before=(other,),
        after=(other,),
        hooks={"before_tool_call": guard, "after_tool_call": observer, "agent_end": other},
    )
    assert plugin.before == (other, guard)
    assert plugin.after == (other, observer)
    assert plugin.hooks == {"agent_end": other}
    assert replace(plugin, name="eyes").before == (other, guard)


def test_a_guard_among_the_hooks_may_say_more_about_itself() -> None:
    hook = Hook(run=lambda ctx, args: None, optional=True)
    assert Plugin(name="ears", hooks={"before_tool_call": hook}).before == (hook,)  # type: ignore[dict-item]  # a Hook is one
