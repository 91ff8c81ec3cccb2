"""Sessions as callers see them: the owner all, everybody else their own; models are switched by the owner alone."""

from typing import Any

import pytest

from tests.agent.logs import Log
from toolcrib.agent.session_log import recall
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ArgumentError, ToolError
from toolcrib.define.log import Line, Noted, Said, Switched
from toolcrib.define.message import Message, Thinking
from toolcrib.define.ports import Rpc
from toolcrib.define.result import Image, Text
from toolcrib.services.feature import ModelNames
from toolcrib.services.sessions import Sessions

from .session_world import BOB, CODEC, KNOWN, OTHER, OWN, OWNER, Turn, World, world

pytestmark = pytest.mark.anyio


async def listed(rpc: Rpc, **query: Any) -> list[str]:
    return [row["key"] for row in (await rpc("sessions.list", query))["sessions"]]


async def test_the_status_tells_how_a_session_stands() -> None:
    status = await (await world()).rpc()("sessions.status", {})
    assert status == {
        "key": OWN, "title": "greetings", "model": "test:main", "switched": False, "messages": 2, "tokens": 220,
        "window": 1_000, "input": 200, "output": 20, "cost": 0.5, "running": False,
        "ended": {"reason": "turns", "sentence": "stopped after 3 replies"}, "uncertain": [], "changedAt": 3.0,
    }  # fmt: skip


async def test_calls_in_doubt_are_told_and_those_of_a_running_turn_are_not_in_doubt() -> None:
    made, log = World(), Log()
    log.reply("", "c1", "c2")
    log.began("c2")
    await made.make(OWN, log)
    status = await made.rpc()("sessions.status", {})
    assert (status["uncertain"], status["running"], status["ended"]) == ([{"id": "c2", "name": "read"}], False, None)
    made.running[OWN] = Turn()
    status = await made.rpc()("sessions.status", {})
    assert (status["uncertain"], status["running"]) == ([], True)


@pytest.mark.parametrize("method", ["sessions.status", "sessions.history"])
@pytest.mark.parametrize("key", [OWN, "main", "agent:main:nobody", "../etc", "agent:other:main"])
async def test_what_belongs_to_others_looks_as_if_it_were_not_there(method: str, key: str) -> None:
    made = await world()
    with pytest.raises(ToolError, match=r"there is no session .* that this caller may see") as caught:
        await made.rpc(BOB)(method, {"key": key})
    assert caught.value.code == "not_found"
    assert (await made.rpc(BOB)(method, {}))["key"] == OTHER
    assert (await made.rpc(BOB)(method, {"key": OTHER}))["key"] == OTHER


async def test_the_owner_sees_all_and_may_name_sessions_as_their_agent_does() -> None:
    made = await world()
    assert await listed(made.rpc()) == [OWN, OTHER]
    assert await listed(made.rpc(), limit=1) == [OWN]
    assert await listed(made.rpc(BOB)) == [OTHER]
    assert await listed(made.rpc(Caller(owner=False))) == []
    assert (await made.rpc()("sessions.status", {"key": "main"}))["key"] == OWN
    assert (await made.rpc()("sessions.status", {"key": OTHER}))["key"] == OTHER
    with pytest.raises(ToolError, match="no session 'agent:main:nobody'"):
        await made.rpc()("sessions.status", {"key": "agent:main:nobody"})
    with pytest.raises(ToolError, match="belongs to no session"):
        await made.rpc(Caller(owner=True))("sessions.status", {})


async def test_the_history_is_bounded_and_shows_the_last_messages() -> None:
    made, log = World(), Log()
    for at in range(60):
        log.user(f"{at} {'x' * 5_000}")
    picture = Message(
        role="tool",
        content=(Image(b"abc", "image/png"), Text("page", "web:https://a.test")),
        call_id="c1",
        status="error",
    )
    log.reply("look", "c1")
    log.add(Said(picture))
    log.add(Said(Message(role="assistant", content=(Thinking("secret"), Text("done")))))
    await made.make(OWN, log)
    shown = await made.rpc()("sessions.history", {})
    assert [row["role"] for row in shown["messages"]][-4:] == ["user", "assistant", "tool", "assistant"]
    assert sum(len(row["text"]) for row in shown["messages"]) <= 200_000
    assert len(shown["messages"]) == 50
    assert shown["before"] == 13
    user, reply, answer, last = shown["messages"][-4:]
    assert (len(user["text"]), user["cut"]) == (4_000, 5_003)
    assert reply["calls"] == [{"id": "c1", "name": "read"}]
    assert answer["text"] == "[a picture, image/png]\npage"
    assert (answer["call"], answer["status"], answer["sources"]) == ("c1", "error", ["web:https://a.test"])
    assert last["text"] == "done"
    assert len((await made.rpc()("sessions.history", {"most": 2}))["messages"]) == 2
    whole = await made.rpc()("sessions.history", {"most": 1000})
    assert len(whole["messages"]) < 60
    with pytest.raises(ArgumentError):
        await made.rpc()("sessions.history", {"most": 1001})


async def test_the_owner_switches_to_a_model_that_the_configuration_names_and_back() -> None:
    made = await world()
    rpc = made.admin()
    assert await rpc("sessions.switch", {"model": "gpt-5"}) == {"key": OWN, "changed": True, "model": "openai:gpt-5"}
    assert (await rpc("sessions.switch", {"model": "openai:gpt-5"}))["changed"] is False
    lines = await made.store.lines(OWN)
    assert lines[-1] == Line(lines[-1].id, lines[-2].id, 9.0, Switched("openai:gpt-5"))
    status = await rpc("sessions.status", {})
    assert (status["model"], status["switched"]) == ("openai:gpt-5", True)
    assert await rpc("sessions.switch", {"model": "Default"}) == {"key": OWN, "changed": True, "model": "test:main"}
    assert (await rpc("sessions.switch", {"model": "default"}))["changed"] is False
    with pytest.raises(ToolError, match="the configuration names no model 'evil:model'") as caught:
        await rpc("sessions.switch", {"model": "evil:model"})
    assert caught.value.code == "not_found"
    assert len(await made.store.lines(OWN)) == len(lines) + 1


@pytest.mark.parametrize("caller", [BOB, Caller(session=OTHER, owner=True, parents=(OWN,))])
async def test_nobody_else_switches_models_not_even_in_their_own_session(caller: Caller) -> None:
    made = await world()
    with pytest.raises(ToolError, match="only the owner") as caught:
        await made.admin(caller)("sessions.switch", {"model": "gpt-5"})
    assert caught.value.code == "denied"
    assert await made.store.lines(OTHER) == ()


async def test_no_tool_switches_models_not_even_one_of_the_owners_turn() -> None:
    made = await world()
    before = await made.store.lines(OWN)
    with pytest.raises(ToolError, match="needs the scope 'admin'"):
        await made.rpc()("sessions.switch", {"model": "gpt-5"})
    assert await made.store.lines(OWN) == before


async def test_a_running_turn_writes_the_switch_itself() -> None:
    made = await world()
    made.running[OWN] = turn = Turn()
    before = await made.store.lines(OWN)
    await made.admin()("sessions.switch", {"model": "gpt-5"})
    assert turn.kept == [Switched("openai:gpt-5")]
    assert await made.store.lines(OWN) == before


async def test_a_log_that_cannot_be_read_is_told() -> None:
    made = await world()

    def broken(lines: Any) -> Any:
        return recall([Line("a", "z", 0.0, Noted("x", None))])

    sessions = Sessions(
        made.store,
        broken,
        codec=CODEC,
        models=ModelNames(named=KNOWN.get, choose=lambda _, word: word, default=str, window=len),
        is_owner=lambda caller: True,
        running=lambda key: None,
    )
    with pytest.raises(ToolError, match="cannot be read: line 'a' of the log names the parent 'z'"):
        await sessions.status(OWNER)


async def test_a_model_that_cannot_be_used_does_not_hide_the_status() -> None:
    made = World()
    await made.make("agent:broken:main")
    status = await made.rpc()("sessions.status", {"key": "agent:broken:main"})
    assert (status["model"], status["window"]) == ("test:broken", 0)


# ---- whole logs, for operators


async def test_a_session_that_was_exported_comes_back_under_another_name() -> None:
    made, copy = await world(), "agent:main:copy"
    texts = await made.admin()("sessions.export", {"key": OWN})
    assert await made.admin()("sessions.import", {"texts": texts, "key": copy}) == {"key": copy, "lines": 4}
    before, after = [await made.admin()("sessions.show", {"key": key}) for key in (OWN, copy)]
    assert after == {**before, "key": copy}
    assert [message["text"] for message in after["messages"]] == ["hello", "hi"]
    assert await made.admin()("sessions.delete", {"key": copy}) == {"key": copy, "called": []}
    with pytest.raises(ToolError, match="there is no session 'agent:main:copy'"):
        await made.admin()("sessions.show", {"key": copy})


async def test_of_a_log_that_is_damaged_nothing_is_kept() -> None:
    made = await world()
    *texts, _ = await made.admin()("sessions.export", {"key": OWN})
    with pytest.raises(ToolError, match="line 5") as caught:
        await made.admin()("sessions.import", {"texts": [*texts, "{"], "key": "agent:main:copy"})
    assert caught.value.code == "bad_log"
    assert await made.store.find("agent:main:copy") is None


@pytest.mark.parametrize("method", ["sessions.show", "sessions.export", "sessions.delete"])
async def test_whole_logs_are_for_operators_and_no_tool_of_the_owner_reaches_them(method: str) -> None:
    made = await world()
    with pytest.raises(ToolError, match="needs the scope 'admin'"):
        await made.rpc(OWNER)(method, {"key": OWN})
    assert await made.store.find(OWN) is not None


@pytest.mark.parametrize("method", ["sessions.delete", "sessions.reset"])
async def test_what_is_held_for_a_session_goes_before_the_session_does(method: str) -> None:
    made, ended = await world(), []

    async def end(key: str) -> None:
        ended.append(key)
        raise ToolError("as by a kill in the midst of it", code="broken")

    made.sessions.ends = (end,)
    with pytest.raises(ToolError, match="in the midst"):
        await made.admin()(method, {"key": OWN})
    assert (ended, await made.store.find(OWN) is not None) == ([OWN], True)
