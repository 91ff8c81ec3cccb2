"""session_status: the card of a session; which model answers in it is nothing a model decides."""

import pytest
from tests.agent.logs import Log
from tests.agent.test_invoke import belt_of
from tests.services.session_world import BOB, OTHER, OWN, OWNER, Turn, World, world

import toolcrib
from toolcrib.agent.invoke import invoke
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.define.caller import Caller
from toolcrib.define.context import CallState, Ctx, Ports
from toolcrib.define.event import Event, ToolFinished
from toolcrib.define.message import Call
from toolcrib.define.result import Result, Text
from toolcrib.testing.models import ScriptedModel, call_reply, text_reply
from toolcrib.tools.sessions.session_status import session_status

pytestmark = pytest.mark.anyio


def words(result: Result) -> str:
    return "".join(part.text for part in result.content if isinstance(part, Text))


async def asked(made: World, caller: Caller = OWNER, **args: object) -> Result:
    """Call the tool as a turn does."""
    ctx = Ctx(Call("c", "session_status", args, "k"), caller, CallState(), Ports(rpc=made.rpc(caller)))
    return await invoke(belt_of(session_status), ctx, CallPipeline(record=MemoryRecord()))


async def test_the_card_tells_how_a_session_stands() -> None:
    result = await asked(await world())
    card = (
        "Session: agent:main:main (greetings)\n"
        "Model: test:main\n"
        "Context: 2 messages, about 220 tokens of 1,000 (22%)\n"
        "Used: 200 tokens in, 20 out, $0.5000\n"
        "State: idle; the last turn ended: stopped after 3 replies"
    )
    assert words(result) == card
    assert result.details == {"ok": True, "sessionKey": OWN, "changedModel": False, "statusText": card}


async def test_the_card_of_an_empty_session_and_of_one_that_was_cut_short() -> None:
    made, log = World(), Log()
    log.reply("", "c1")
    log.began("c1")
    await made.make(OWN, log)
    assert words(await asked(made)).endswith("State: idle\nUncertain: read (c1) was running when the crib stopped")
    made.running[OWN] = Turn()
    assert words(await asked(made)).endswith("State: a turn is running")
    await made.make("agent:broken:main")
    assert "about 0 tokens\n" in words(await asked(made, sessionKey="agent:broken:main"))


@pytest.mark.parametrize("caller", [OWNER, BOB])
@pytest.mark.parametrize("model", ["gpt-5", "openai:gpt-5", "default", " Default ", "test:main", "no:such"])
async def test_a_model_cannot_choose_who_answers_and_is_told_how_the_owner_does(caller: Caller, model: str) -> None:
    made = await world()
    for args in ({"model": model}, {"model": model, "sessionKey": OWN}, {"model": model, "sessionKey": OTHER}):
        before = [await made.store.lines(key) for key in (OWN, OTHER)]
        result = await asked(made, caller, **args)
        assert (result.status, result.details["code"]) == ("error", "denied")
        assert "the owner does it with `toolcrib sessions switch KEY MODEL` or /model in a chat" in words(result)
        assert [await made.store.lines(key) for key in (OWN, OTHER)] == before


async def test_no_model_at_all_is_none_and_the_card_says_what_the_owner_chose() -> None:
    made = await world()
    assert "Model: test:main" in words(await asked(made, model=" "))
    await made.admin()("sessions.switch", {"model": "gpt-5", "key": OWN})
    assert "Model: openai:gpt-5, chosen for this session" in words(await asked(made))


@pytest.mark.parametrize(
    ("caller", "args", "code"),
    [
        (OWNER, {"sessionKey": "agent:main:nobody"}, "not_found"),
        (BOB, {"sessionKey": OWN}, "not_found"),
    ],
)
async def test_what_is_not_there_or_not_allowed_is_an_error(caller: Caller, args: dict[str, str], code: str) -> None:
    result = await asked(await world(), caller, **args)
    assert (result.status, result.details["code"]) == ("error", code)


async def test_in_a_turn_it_shows_the_session_of_the_turn_and_what_its_owner_chose() -> None:
    """The whole way: a turn of a real crib asks for its own status, and its owner lets the offline model answer."""
    model = ScriptedModel([call_reply(Call("c1", "session_status", {})), text_reply("done")])
    crib = toolcrib.open({})
    try:
        events: list[Event] = [
            event async for event in crib.turn("how are you?", caller=toolcrib.OWNER, session=OWN, model=model)
        ]
        (finished,) = [event for event in events if isinstance(event, ToolFinished)]
        assert finished.result.status == "ok"
        assert finished.result.details["sessionKey"] == OWN
        assert "State: a turn is running" in words(finished.result)
        await crib.ask("sessions.switch", {"model": "offline:rules", "key": OWN}, caller=toolcrib.OWNER)
        status = await crib.belt(Caller(session=OWN)).call("session_status")
        assert "Model: offline:rules" in words(status)
        assert "State: idle; the last turn ended: done" in words(status)
    finally:
        await crib.close()
