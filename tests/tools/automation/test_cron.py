"""cron: a model makes jobs, and looks after them."""

from typing import Any

import pytest
from tests.services.cron_world import START_MS, ManualClock, crib_at

from toolcrib import Caller
from toolcrib.app import Crib

pytestmark = pytest.mark.anyio

OWNER = Caller(session="agent:main:main", owner=True)
PLANTS = {"kind": "systemEvent", "text": "water the plants"}


async def call(crib: Crib, action: str, **args: Any) -> Any:
    result = await crib.belt(OWNER).call("cron", {"action": action, **args})
    assert result.status != "error", result.plain_text
    return result.details


async def test_a_model_makes_changes_runs_and_takes_away_a_job() -> None:
    async with crib_at(ManualClock()) as crib:
        job = await call(crib, "add", job={"schedule": {"at": "2030-01-01T00:00:00Z"}, "payload": PLANTS})
        assert (job["name"], job["enabled"]) == ("water the plants", True)
        assert job["state"] == {"nextRunAtMs": 1_893_456_000_000}
        assert (await call(crib, "status"))["jobs"] == 1
        changed = await call(crib, "update", jobId=job["id"], patch={"schedule": {"everyMs": 60_000}})
        assert changed["state"] == {"nextRunAtMs": START_MS + 60_000}
        assert await call(crib, "run", jobId=job["id"]) == {"ok": True, "ran": True}
        await crib.cron.clock.settle()
        (run,) = (await call(crib, "runs", jobId=job["id"]))["entries"]
        assert (run["status"], run["summary"]) == ("ok", "water the plants")
        await call(crib, "update", jobId=job["id"], patch={"enabled": "false"})
        assert (await call(crib, "list"))["jobs"] == []
        assert [each["id"] for each in (await call(crib, "list", includeDisabled=True))["jobs"]] == [job["id"]]
        assert await call(crib, "remove", jobId=job["id"]) == {"ok": True, "removed": True}


async def test_an_event_may_quote_what_was_said_lately() -> None:
    async with crib_at(ManualClock()) as crib:
        async with crib.turn("hello there", caller=OWNER, session="agent:main:main") as turn:
            await turn.end()
        job = await call(crib, "add", job={"schedule": {"everyMs": 60_000}, "payload": PLANTS}, contextMessages=2)
        text = job["payload"]["text"]
        assert text.startswith("water the plants\n\nRecent context:\n- User: hello there\n- Assistant: ")
        assert len(text) < 800


async def test_wake_tells_the_main_session_and_has_it_answered_at_once_when_asked_to() -> None:
    async with crib_at(ManualClock()) as crib:
        assert await call(crib, "wake", text="the kettle boils") == {"ok": True}
        assert await call(crib, "wake", text="list the files", mode="now") == {"ok": True}
        await crib.chat.settle(5)
        shown = await crib.ask("sessions.show", {"key": "agent:main:main"}, caller=OWNER)
        assert [each["role"] for each in shown["messages"]][:2] == ["user", "user"]
        assert shown["messages"][0]["text"] == "[System event] the kettle boils"


async def test_a_job_that_cannot_be_is_refused_with_what_is_wrong() -> None:
    async with crib_at(ManualClock()) as crib:
        result = await crib.belt(OWNER).call("cron", {"action": "add", "job": {"schedule": {"everyMs": "often"}}})
        assert result.status == "error"
        assert "schedule.every.everyMs" in result.plain_text
        assert "payload: field required" in result.plain_text


async def test_without_the_setting_there_is_no_tool_and_nothing_runs() -> None:
    clock = ManualClock()
    async with crib_at(clock, {"cron": {"enabled": False}}) as crib:
        assert "cron" not in crib.belt(OWNER).tools
        await crib.ask("cron.add", {"schedule": {"everyMs": 60_000}, "payload": PLANTS}, caller=OWNER)
        crib.cron.start()
        await clock.advance(600)
        assert (await crib.ask("cron.runs", caller=OWNER))["entries"] == []
