"""sessions_list, sessions_history and sessions_send: other sessions, as far as a caller may see them."""

import json
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import Caller, Sender, ToolError
from toolcrib.app import Crib
from toolcrib.define.event import TurnFinished
from toolcrib.define.turn import TurnRequest
from toolcrib.services.chat_run import FinishedRun
from toolcrib.services.session_send import SessionSend

pytestmark = pytest.mark.anyio

MAIN, WORK, FAMILY = "agent:main:main", "agent:main:work", "agent:family:main"
OWNER = Caller(owner=True, session=MAIN)
BOB = Caller(channel="telegram", sender=Sender(id="7"), owner=False, session="agent:main:telegram:dm:7")


async def call(crib: Crib, name: str, caller: Caller = OWNER, **args: Any) -> Any:
    result = await crib.belt(caller).call(name, args)
    return json.loads(result.plain_text) if result.status == "ok" else result.plain_text


async def crib_with(tmp_path: Path, *keys: str) -> Crib:
    crib = toolcrib.open({"workspace": {"root": str(tmp_path)}}, env={})
    for key in keys:
        await crib.turn("hello", caller=Caller(owner=True), session=key).end()
    return crib


async def test_the_owner_lists_and_reads_all_and_everybody_else_their_own(tmp_path: Path) -> None:
    crib = await crib_with(tmp_path, MAIN, WORK)
    async with crib:
        assert [row["key"] for row in (await call(crib, "sessions_list", messageLimit=1))["sessions"]] == [WORK, MAIN]
        assert (await call(crib, "sessions_list", kinds=["main"]))["count"] == 1
        history = await call(crib, "sessions_history", sessionKey=WORK)
        assert [each["role"] for each in history["messages"]] == ["user", "assistant"]
        assert (await call(crib, "sessions_list", BOB))["sessions"] == []
        for key in (WORK, "main", "agent:main:nobody"):
            for method, params in (
                ("chat.history", {"sessionKey": key}),
                ("sessions.send", {"key": key, "message": "x"}),
            ):
                with pytest.raises(ToolError, match="there is no session"):
                    await crib.ask(method, params, caller=BOB)


async def test_a_message_is_answered_by_the_other_session(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("one\n")
    async with await crib_with(tmp_path, MAIN, WORK) as crib:
        told = await call(crib, "sessions_send", sessionKey=WORK, message="list the files")
        assert (told["status"], told["sessionKey"]) == ("ok", WORK)
        said = (await call(crib, "sessions_history", sessionKey=WORK))["messages"][2]["content"][0]["text"]
        assert f"[This is from the session {MAIN}, not from the user." in said
        assert (await call(crib, "sessions_send", sessionKey=WORK, message="x", timeoutSeconds=0))[
            "status"
        ] == "accepted"


class _Overheard:
    """Stands where chats begin, and remembers as whom."""

    def __init__(self) -> None:
        self.asked: list[Caller] = []

    async def begin(self, caller: Caller, request: TurnRequest, key: str) -> FinishedRun:
        self.asked.append(request.caller)
        return FinishedRun(TurnFinished("error", sentence="overheard"))


async def test_the_answer_has_no_more_rights_than_who_asks(tmp_path: Path) -> None:
    config = {"workspace": {"root": str(tmp_path)}, "agents": {"kid": {"tools": {"deny": ["ls"]}}}}
    async with toolcrib.open(config, env={}) as crib:
        await crib.turn("hello", caller=Caller(owner=True), session=WORK).end()
        heard, desk = _Overheard(), crib.methods["sessions.resolve"].run.__self__  # type: ignore[attr-defined]
        core = crib.methods["sessions.send"].run.__self__._core  # type: ignore[attr-defined]
        sender = SessionSend(core, heard, desk)  # type: ignore[arg-type]
        for parents, has in (((), True), (("kid",), False)):
            asker = Caller(owner=True, session=MAIN, parents=parents)
            with pytest.raises(ToolError, match="overheard"):
                await sender.send(asker, "list the files", key=WORK)
            there = heard.asked.pop()
            assert (there.session, there.parents) == (WORK, (*parents, MAIN))
            assert ("ls" in crib.belt(there).tools) is has


async def test_another_agent_is_not_reached_and_oneself_is_refused(tmp_path: Path) -> None:
    async with await crib_with(tmp_path, MAIN, FAMILY) as crib:
        refused = await call(crib, "sessions_send", sessionKey=FAMILY, message="x")
        assert "agent main may not send to agent family" in refused
        assert "the session you are in" in await call(crib, "sessions_send", sessionKey=MAIN, message="x")
        assert "one of them" in await call(crib, "sessions_send", message="x")
        deep = Caller(owner=True, session=MAIN, parents=("main",) * 5)
        assert "sessions_send" in str(await call(crib, "sessions_send", deep, sessionKey=FAMILY, message="x"))
