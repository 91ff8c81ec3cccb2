"""Sessions as the gateway's protocol speaks of them."""

import pytest

from tests.agent.logs import Log
from toolcrib.define.errors import ArgumentError, ToolError
from toolcrib.define.log import Said, SessionHead
from toolcrib.define.message import Message
from toolcrib.define.result import Image, Text

from .session_world import BOB, OTHER, OWN, Turn, World, world

pytestmark = pytest.mark.anyio


async def test_a_list_is_narrowed_by_what_is_asked_for() -> None:
    rpc = (await world()).rpc()
    rows = (await rpc("sessions.list", {"includeLastMessage": True, "includeGlobal": True}))["sessions"]
    assert [row["kind"] for row in rows] == ["main", "other"]
    assert rows[0]["lastMessagePreview"]
    assert len({row["sessionId"] for row in rows}) == 2
    for query, keys in (({"search": "TELEGRAM"}, [OTHER]), ({"agentId": "nobody"}, []), ({"spawnedBy": OWN}, [])):
        assert [row["key"] for row in (await rpc("sessions.list", query))["sessions"]] == keys, query
    for bad in ({"limit": 0}, {"x": 1}, {"activeMinutes": 0}):
        with pytest.raises(ArgumentError):
            await rpc("sessions.list", bad)


async def test_a_session_without_a_title_is_found_by_what_a_list_calls_it() -> None:
    made, log = await world(), Log()
    log.user("About Apples")
    log.user("and pears")
    await made.make("agent:main:page-1", log)
    ask = made.rpc()
    for query, keys in (
        ({"search": "apples", "includeDerivedTitles": True}, ["agent:main:page-1"]),
        ({"search": "pears", "includeDerivedTitles": True}, []),
        ({"search": "apples"}, []),  # nobody is shown that it is called so
    ):
        assert [row["key"] for row in (await ask("sessions.list", query))["sessions"]] == keys, query
    (row,) = (await ask("sessions.list", {"search": "page-1", "includeDerivedTitles": True, "limit": 1}))["sessions"]
    assert row["derivedTitle"] == "About Apples"


async def test_the_history_has_the_protocols_shape_and_is_the_callers_own() -> None:
    made = await world()
    told = await made.rpc()("chat.history", {"sessionKey": "main"})
    assert told["sessionKey"] == OWN
    assert told["messages"][0]["content"][0]["type"] == "text"
    assert {each["role"] for each in told["messages"]} <= {"user", "assistant", "toolResult"}
    with pytest.raises(ToolError, match="there is no session"):
        await made.rpc(BOB)("chat.history", {"sessionKey": OWN})


async def test_a_history_is_turned_page_by_page_and_says_which_run_a_message_began() -> None:
    made, log = await world(), Log()
    picture = Image(b"\x89PNG\r\n\x1a\n", "image/png")
    for at in range(5):
        said = Message(role="user", content=(Text(str(at)), picture), by=f"#run-{at}?")
        log.add(Said(said))
        log.reply(f"answer {at}")
    key = "agent:main:pages"
    await made.store.add(SessionHead(key=key, made_at=1.0, changed_at=1.0), log.lines)
    ask = made.rpc()
    last = await ask("chat.history", {"sessionKey": key, "limit": 4})
    assert (last["first"], [each.get("runId") for each in last["messages"]]) == (6, ["run-3", None, "run-4", None])
    assert [part["type"] for part in last["messages"][0]["content"]] == ["text"]
    older = await ask("chat.history", {"sessionKey": key, "limit": 4, "before": last["first"], "pictures": True})
    assert (older["first"], older["messages"][-1]["content"][0]["text"]) == (2, "answer 2")
    assert older["messages"][0]["content"][1] == {"type": "image", "data": "iVBORw0KGgo=", "mimeType": "image/png"}
    assert (await ask("chat.history", {"sessionKey": key, "before": 0}))["messages"] == []
    with pytest.raises(ArgumentError):
        await ask("chat.history", {"sessionKey": key, "before": -1})


async def test_a_preview_says_which_are_missing() -> None:
    told = await (await world()).rpc()("sessions.preview", {"keys": [OWN, "agent:main:nobody"], "limit": 1})
    assert [(each["status"], len(each["items"])) for each in told["previews"]] == [("ok", 1), ("missing", 0)]


async def test_a_session_is_found_by_one_of_its_names() -> None:
    made = await world()
    await made.admin()("sessions.patch", {"key": OWN, "label": "bills"})
    row = (await made.rpc()("sessions.list", {"label": "bills"}))["sessions"][0]
    for name in ({"key": "main"}, {"label": "bills"}, {"sessionId": row["sessionId"]}):
        assert await made.admin()("sessions.resolve", name) == {"ok": True, "key": OWN}
    for bad in ({}, {"key": OWN, "label": "bills"}, {"label": "nothing"}):
        with pytest.raises(ToolError):
            await made.admin()("sessions.resolve", bad)


async def test_a_session_that_is_begun_anew_keeps_what_was_said_under_another_key() -> None:
    made = await world()
    before = await made.rpc()("chat.history", {"sessionKey": OWN})
    told = await made.admin()("sessions.reset", {"key": OWN})
    assert (await made.rpc()("chat.history", {"sessionKey": OWN}))["messages"] == []
    assert (await made.rpc()("chat.history", {"sessionKey": told["archived"]}))["messages"] == before["messages"]


async def test_a_turn_that_runs_is_not_pulled_away_from_under_it() -> None:
    made = await world()
    made.running[OWN] = Turn()
    for method in ("sessions.reset", "sessions.compact"):
        with pytest.raises(ToolError, match="a turn runs in this session"):
            await made.admin()(method, {"key": OWN})


async def test_what_is_left_out_begins_with_a_question() -> None:
    made, log = World(), Log()
    for at in range(10):
        log.user(f"question {at}")
        log.reply(f"answer {at}")
    await made.make(OWN, log)
    told = await made.admin()("sessions.compact", {"key": OWN, "maxLines": 5})
    assert (told["compacted"], told["kept"]) == (True, 4)
    shown = (await made.rpc()("chat.history", {"sessionKey": OWN}))["messages"]
    assert [each["content"][0]["text"] for each in shown][-4:-2] == ["question 8", "answer 8"]
    assert "question 7" not in str(shown)
