"""A failure has one form, whoever failed: `{status, tool, error, code}`, the same in details, events and the record."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.backends.mcp.world import liar, served

import toolcrib
from toolcrib import OWNER, Agent, Call, Ctx, Result, Text, ToolError, tool
from toolcrib.adapter.events import event_json
from toolcrib.app import Belt, Crib
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.define.event import CallEvent, ToolFinished
from toolcrib.define.plugin import Block
from toolcrib.define.record import Finished
from toolcrib.registry.sources import Offer
from toolcrib.testing.models import ScriptedModel, call_reply

pytestmark = pytest.mark.anyio

SECRET = "shop-0005-value"
LONG = f"{'x' * 390} {SECRET} and much more\nsecond line\n" + "y" * 3_000


class CardError(Exception):
    """What an author of a tool may raise."""


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class ForgetfulError(ToolError):
    """One whose author forgot what it is made of."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __str__(self) -> str:
        return f"lost {self.what}"


class EvilError(ToolError):
    def __str__(self) -> str:
        raise SystemExit(4)


def raises(name: str, error: BaseException) -> toolcrib.Tool:
    @tool(name=name, effects={"read"})
    async def body() -> str:
        """Fail."""
        raise error

    return body


def returns(name: str, result: Any) -> toolcrib.Tool:
    @tool(name=name, effects={"read"})
    async def body() -> Any:
        """Fail."""
        return result

    return body


@tool(effects={"read"})
def thread() -> str:
    """Fail in a thread."""
    raise CardError("the card was refused\nat line 3")


@tool(effects={"read"}, timeout=0.01)
async def slow() -> str:
    """Never end."""
    await asyncio.Event().wait()
    return ""


@tool(effects={"read"})
async def strict(number: int) -> str:
    """Take a number."""
    return str(number)


FAILED: Mapping[str, tuple[Any, str, str]] = {
    # by name: what fails, the line that is told of it, and its code
    "raised": (raises("raised", ToolError("no job 'x'", code="not_found")), "no job 'x'", "not_found"),
    "long": (raises("long", ToolError(LONG)), f"{'x' * 390} …", "failed"),
    "bug": (raises("bug", CardError("the card was refused")), "bug failed (CardError): the card was refused", "bug"),
    "lines": (raises("lines", CardError(f"\n\n  {SECRET} is wrong\n/home/me")),
              "lines failed (CardError): … is wrong", "bug"),
    "key": (raises("key", KeyError("nut")), "key failed (KeyError): 'nut'", "bug"),
    "empty": (raises("empty", CardError()), "empty failed (CardError): it did not say why", "bug"),
    "mute": (raises("mute", MuteError()), "mute failed (MuteError): it did not say why", "bug"),
    "forgetful": (raises("forgetful", ForgetfulError("it")), "lost it", "failed"),
    "evil": (raises("evil", EvilError("x")), "it failed and did not say why", "failed"),
    "exits": (raises("exits", SystemExit(3)), "exits failed (SystemExit): 3", "bug"),
    "thread": (thread, "thread failed (CardError): the card was refused", "bug"),
    "slow": (slow, "slow did not finish within 0.01 seconds", "timeout"),
    "gives-up": (raises("gives-up", asyncio.CancelledError()), "gives-up was cancelled", "cancelled"),
    "returned": (returns("returned", Result.error("no", code="mine", details={"more": 1})), "no", "mine"),
    "wordy": (returns("wordy", Result.error(LONG)), f"{'x' * 390} …", "failed"),
    "silent": (returns("silent", Result(status="error")), "it failed and did not say why", "failed"),
    "gathered": (returns("gathered", Result((Text("12 found\nthen it broke"),), {"n": 12}, "error")),
                 "12 found", "failed"),
    "listed": (returns("listed", Result((Text("half of it"),), [1, 2], "error")), "half of it", "failed"),
    "coded": (returns("coded", Result((Text("gone"),), {"code": 404, "status": "failed"}, "error")), "gone", "404"),
    "json": (returns("json", {"status": "error", "error": "the shop is closed"}), "the shop is closed", "failed"),
    "late": (returns("late", {"status": "timeout", "message": "too late"}), "too late", "timeout"),
    "odd": (returns("odd", {"at": asyncio}),
            "odd failed (TypeError): a value of type module (at .at) has no form in JSON; return text,", "bug"),
    "strict": (strict, "strict: number is required", "bad_arguments"),
    "denied": (returns("denied", "x"), "denied is denied at the global layer", "denied"),
    "blocked": (returns("blocked", "x"), "not today", "blocked"),
    "asked": (returns("asked", "x"), "a human is asked for asked (tools.ask), and there is nobody to ask",
              "not_approved"),
}  # fmt: skip
CONFIG = {"tools": {"deny": ["denied"], "ask": ["asked"]}, "secrets": {"SHOP": SECRET}}


async def not_today(ctx: Ctx, args: Mapping[str, Any]) -> Block | None:
    return Block("not today") if ctx.call.name == "blocked" else None


class Heard:
    """What watchers and the record were told of the calls of a belt."""

    def __init__(self, belt: Belt) -> None:
        self.events: list[CallEvent] = []
        self.belt = belt.watched_by(self.events.append)

    def outcome(self) -> tuple[Mapping[str, Any], Finished]:
        """Return the details that the last event shows, and the last entry of the record."""
        record, event = self.belt.pipeline.record, self.events[-1]
        assert isinstance(event, ToolFinished)
        assert isinstance(record, MemoryRecord)
        finished = record.entries[-1]
        assert isinstance(finished, Finished)
        shown = event_json(event)["result"]
        assert shown["status"] == "error"
        return shown["details"], finished


def opened(tools: list[toolcrib.Tool], how: str) -> Crib:
    plugin = Offer(source="plugin:p", tools=tuple(tools) if how == "plugin" else (), before=(not_today,))
    return toolcrib.open(CONFIG, plugins=[plugin], tools=tools if how == "tools=" else [])


@pytest.mark.parametrize("how", ["plugin", "tools=", "extra"])
@pytest.mark.parametrize("name", FAILED)
async def test_whoever_fails_details_events_and_record_hold_the_same_line(name: str, how: str) -> None:
    this, line, code = FAILED[name]
    crib = opened([this], how)
    heard = Heard(crib.belt(OWNER, extra=[this] if how == "extra" else []))
    try:
        result = await heard.belt.call(name)
    finally:
        await crib.close()
    details, finished = heard.outcome()
    form = {"status": "error", "tool": name, "code": code}
    assert result.status == "error"
    for told in (result.details, details):
        assert {key: told[key] for key in form} == form
        assert told["error"].startswith(line)
        assert len(told["error"]) <= 400
        assert SECRET not in str(told)
        assert not any(char in told["error"] for char in "\n\t")
    assert (finished.tool, finished.status, finished.code) == (name, "error", code)
    assert finished.error == result.details["error"]
    assert result.plain_text
    assert SECRET not in result.plain_text


@pytest.mark.parametrize(
    ("name", "content", "kept"),
    [
        ("returned", "no", {"more": 1}),
        ("gathered", "12 found\nthen it broke", {"n": 12}),
        ("listed", "half of it", {"details": [1, 2]}),
        ("wordy", f"{'x' * 390} … and mu…", {}),
        ("raised", "no job 'x'", {}),
        ("silent", "it failed and did not say why", {}),
    ],
)
async def test_what_a_body_gathered_stays_and_a_mere_sentence_is_bounded(
    name: str, content: str, kept: dict[str, Any]
) -> None:
    crib = opened([FAILED[name][0]], "tools=")
    result = await crib.belt(OWNER).call(name)
    await crib.close()
    assert result.plain_text == content
    assert kept.items() <= result.details.items()


async def test_a_bug_of_ours_says_nothing_private() -> None:
    crib = toolcrib.open({}, plugins=[Offer(source="channel:desk", tools=(raises("own", CardError("/home/me")),))])
    result = await crib.belt(OWNER).call("own")
    await crib.close()
    assert result.details["error"] == "own failed unexpectedly (CardError); the operator's log has the details"


async def test_our_own_tools_fail_in_that_form(tmp_path: Path) -> None:
    crib = toolcrib.open({"workspace": {"root": str(tmp_path)}})
    heard = Heard(crib.belt(OWNER))
    await heard.belt.call("read", {"path": "gone.txt"})
    details, finished = heard.outcome()
    await crib.close()
    assert (details["status"], details["tool"], details["code"]) == ("error", "read", "not_found")
    assert finished.error == details["error"] != ""


@pytest.mark.parametrize("how", ["error with orders", "error with secret", "crash", "odd kind", "it says so"])
async def test_what_an_mcp_server_fails_with_is_in_that_form(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")  # a workspace that the server's script does not lie in
    says_so = how == "it says so"  # a result of its own, with isError
    server, name, args = (served(), "srv__fail", {}) if says_so else (liar(how), "srv__echo", {"text": "hi"})
    async with toolcrib.open({"mcpServers": {"srv": server}}, state=tmp_path / "state") as crib:
        await crib.mcp.ready(60.0)
        events: list[CallEvent] = []
        result = await crib.belt(OWNER).watched_by(events.append).call(name, args)
    event = events[-1]
    assert isinstance(event, ToolFinished)
    for details in (result.details, event.result.details):
        assert (details["status"], details["tool"]) == ("error", name)
        assert 0 < len(details["error"]) <= 400
        assert "s3cret-value" not in str(details)
        assert "EXTERNAL_UNTRUSTED_CONTENT" not in details["error"]
    assert all(part.source == "mcp:srv" for part in result.content)
    assert "EXTERNAL_UNTRUSTED_CONTENT" in result.plain_text


async def test_a_command_that_fails_is_in_that_form_and_keeps_its_output(tmp_path: Path) -> None:
    commands = {"host": "host", "security": "full", "ask": "off"}
    crib = toolcrib.open({"tools": {"exec": commands}, "workspace": {"root": str(tmp_path)}})
    heard = Heard(crib.belt(OWNER))
    result = await heard.belt.call("exec", {"command": "echo half; exit 3"})
    details, finished = heard.outcome()
    await crib.close()
    assert "\nSource: exec:host\n---\nhalf\n" in result.plain_text
    assert (details["status"], details["tool"], details["exitCode"]) == ("error", "exec", 3)
    assert details["error"] == finished.error == "The command exited with code 3."


async def test_a_subagent_that_does_not_finish_is_in_that_form() -> None:
    output = {"count": {"type": "integer", "required": True}}
    worker = Agent(name="worker", description="works", prompt="I am worker.", inputs={}, output=output, max_turns=1)
    crib = toolcrib.open({}, plugins=[Offer(source="plugin:p", tools=(), agents=(worker,))])
    model = ScriptedModel([call_reply(Call("a", "worker", {})), "hm", "hm", "done"])
    async with crib.turn("go", caller=OWNER, model=model) as turn:
        events = [event async for event in turn]
    await crib.close()
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    details = finished.result.details
    assert (details["status"], details["tool"], details["code"]) == ("error", "worker", "no_completion")
    assert details["error"].startswith("worker did not finish: ")
    assert "agent" in details


# What is called after a call


Observed = list[tuple[str, Mapping[str, Any], Result, float]]


def observing(answer: Callable[[Result], Result | None] = lambda result: None) -> tuple[Observed, Any]:
    seen: Observed = []

    async def observer(ctx: Ctx, args: Mapping[str, Any], result: Result) -> Result | None:
        seen.append((ctx.call.name, dict(args), result, ctx.seconds))
        return answer(result)

    return seen, observer


@pytest.mark.parametrize("name", FAILED)
async def test_after_tool_call_hears_of_every_failure(name: str) -> None:
    this, line, code = FAILED[name]
    seen, observer = observing()
    offer = Offer(source="plugin:p", tools=(this,), before=(not_today,), after=(observer,))
    crib = toolcrib.open(CONFIG, plugins=[offer])
    result = await crib.belt(OWNER).call(name)
    await crib.close()
    ((called, args, told, seconds),) = seen
    assert (called, args, told.status) == (name, {}, "error")
    assert (told.details["status"], told.details["tool"], told.details["code"]) == ("error", name, code)
    assert told.details["error"] == result.details["error"]
    assert told.details["error"].startswith(line)
    assert (seconds > 0) == (code not in ("denied", "blocked", "not_approved", "bad_arguments"))


async def test_after_tool_call_hears_how_long_a_success_took_and_of_a_name_that_nobody_has() -> None:
    seen, observer = observing()
    fine = returns("fine", "good")
    crib = toolcrib.open({}, plugins=[Offer(source="plugin:p", tools=(fine,), after=(observer,))])
    for name in ("fine", "Fine", "nothing"):
        await crib.belt(OWNER).call(name, {})
    await crib.close()
    assert [(name, result.status, seconds > 0) for name, _, result, seconds in seen] == [
        ("fine", "ok", True),
        ("fine", "ok", True),
        ("nothing", "error", False),
    ]


async def test_after_tool_call_hears_of_a_call_that_is_stopped_and_the_stop_goes_on() -> None:
    entered = asyncio.Event()

    @tool(effects={"read"})
    async def hang(text: str) -> str:
        """Wait for ever."""
        entered.set()
        await asyncio.Event().wait()
        return ""

    seen, observer = observing(lambda result: Result.text("fine after all"))

    async def rest(ctx: Ctx, args: Mapping[str, Any], result: Result) -> None:
        await asyncio.sleep(0)

    crib = toolcrib.open({}, plugins=[Offer(source="plugin:p", tools=(hang,), after=(rest, observer))])
    heard = Heard(crib.belt(OWNER))
    task = asyncio.create_task(heard.belt.call("hang", {"text": "a"}))
    await asyncio.wait_for(entered.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await crib.close()
    ((name, args, told, seconds),) = seen
    assert (name, args, told.details["code"], seconds > 0) == ("hang", {"text": "a"}, "cancelled", True)
    record = heard.belt.pipeline.record
    assert isinstance(record, MemoryRecord)
    finished = record.entries[-1]
    assert isinstance(finished, Finished)
    assert (finished.status, finished.code) == ("cancelled", "cancelled")


async def test_an_observer_may_put_a_failure_in_other_words_and_it_stays_one() -> None:
    _, observer = observing(lambda result: Result.text(f"sorry, {SECRET}: " + "z" * 500))
    this = raises("raised", ToolError("no job 'x'", code="not_found"))
    crib = toolcrib.open(CONFIG, plugins=[Offer(source="plugin:p", tools=(this,), after=(observer,))])
    result = await crib.belt(OWNER).call("raised")
    await crib.close()
    assert result.plain_text.startswith("sorry, …: zzz")
    assert (result.status, result.details["code"], result.details["tool"]) == ("error", "not_found", "raised")
    assert result.details["error"].startswith("sorry, …: zzz")
    assert len(result.details["error"]) == 400


async def test_an_observer_may_call_a_success_a_failure() -> None:
    _, observer = observing(lambda result: Result.error("it is stale"))
    crib = toolcrib.open({}, plugins=[Offer(source="plugin:p", tools=(returns("fine", "good"),), after=(observer,))])
    result = await crib.belt(OWNER).call("fine")
    await crib.close()
    assert result.details == {"status": "error", "tool": "fine", "error": "it is stale", "code": "failed"}


@pytest.mark.parametrize("name", ["denied", "blocked", "strict", "asked"])
async def test_why_a_call_did_not_run_is_for_no_observer_to_say(name: str) -> None:
    def spoil(result: Result) -> Result:
        result.details.update(code="", error="all is well")
        return Result.text("go on as if it had run")

    _, observer = observing(spoil)
    this, line, code = FAILED[name]
    offer = Offer(source="plugin:p", tools=(this,), before=(not_today,), after=(observer,))
    crib = toolcrib.open(CONFIG, plugins=[offer])
    result = await crib.belt(OWNER).call(name)
    await crib.close()
    assert (result.status, result.details["code"]) == ("error", code)
    assert result.details["error"] == result.plain_text
    assert result.plain_text.startswith(line)
