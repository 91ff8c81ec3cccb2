"""The record, checked: decisions are derived again, calls without an outcome are listed, and only the owner looks."""

import asyncio
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import toolcrib
from tests.policy import worlds
from toolcrib.agent.belt import no_such_tool
from toolcrib.agent.replay import judge_from
from toolcrib.app import Crib
from toolcrib.app.stores import STATE_FILE, audit_in
from toolcrib.backends.stores.record import SqliteRows, body_of, encode_grounds
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.config.load import load
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.names import canonical
from toolcrib.define.record import NOTHING, Decided, Finished, Head, RecordEntry, Row, Started, entry_text, hash_after
from toolcrib.define.tool import Tool, tool
from toolcrib.define.verdict import Verdict
from toolcrib.registry.sources import Offer
from toolcrib.services.audit import Report, verify
from toolcrib.testing import FakeApprover

EVERY_DAY = settings(max_examples=30, deadline=None, derandomize=True, database=None)
CAMPAIGN = settings(
    EVERY_DAY, max_examples=1000, derandomize=False, suppress_health_check=list(HealthCheck)
)  # fmt: skip
WEATHER = Offer(
    source="plugin:weather",
    tools=(
        Tool.declared("forecast", "Tell the weather.", effects={"network"}),
        Tool.declared("radar", "Show rain.", effects={"network"}, optional=True, owner_only=True),
    ),
)
NAMES = (
    "read",
    "exec",
    "BASH",
    "apply_patch",
    "forecast",
    "radar",
    "message",
    "sessions_spawn",
    "own",
    "nothing",
    "reed",
)


@tool(name="own", effects=set())
def own() -> str:
    """A tool of the program."""
    return "done"


def chained(kinds: list[tuple[str, str]]) -> list[Row]:
    rows, before = [], NOTHING
    for at, (kind, body) in enumerate(kinds, 1):
        text = entry_text(at, 1.5, kind.encode(), body.encode())
        before = hash_after(before, text)
        rows.append(Row(at, text, before))
    return rows


def checked(kinds: list[tuple[str, str]], **options: Any) -> Report:
    rows = chained(kinds)
    return verify(rows, Head(len(rows), rows[-1].hash if rows else NOTHING, len(rows)), **options)


def decisions(crib: Crib, caller: Caller) -> list[tuple[str, str]]:
    """Return what the crib writes down when this caller calls every tool there is, and some that are not."""
    belt = crib.belt(caller, extra=[own]).selection
    assert belt.grounds is not None
    kinds = [("opened", encode_grounds(belt.grounds))]
    for name in NAMES:
        verdict = belt.verdicts.get(canonical(name) or "")
        reason = verdict.reason if verdict else no_such_tool(name, belt.tools)
        call = Call(id="c", name=name, key=name)
        kinds.append(body_of(Decided(call, caller, verdict, reason, belt.grounds)))
    return kinds


def derives(chance: random.Random) -> None:
    crib = toolcrib.open(worlds.config(chance), plugins=[WEATHER], env={})
    kinds = [kind for _ in range(3) for kind in decisions(crib, worlds.caller(chance))]
    report = checked(kinds, rederive=judge_from)
    assert report.findings == ()
    assert report.decisions == report.derived == 3 * len(NAMES)
    # and one of them forged, its chain made good again
    at = chance.choice([at for at, (kind, _) in enumerate(kinds) if kind == "decided"])
    forged = json.loads(kinds[at][1])
    verdict = forged.setdefault("verdict", {"tool": "exec", "decision": "deny"})
    verdict["decision"] = chance.choice([each for each in ("allow", "ask", "deny") if each != verdict["decision"]])
    kinds[at] = ("decided", json.dumps(forged))
    found = checked(kinds, rederive=judge_from).findings
    assert [(finding.row, finding.wrong) for finding in found] == [(at + 1, "differs")]


@EVERY_DAY
@given(st.randoms(use_true_random=False))
def test_every_decision_is_derived_again_and_a_forged_one_is_found(chance: random.Random) -> None:
    derives(chance)


@pytest.mark.full
@pytest.mark.timeout(3600)
@CAMPAIGN
@given(st.randoms(use_true_random=False))
def test_every_decision_of_a_thousand_worlds_is(chance: random.Random) -> None:
    derives(chance)


def test_a_decision_in_the_words_of_before_is_derived_again() -> None:
    kinds = decisions(toolcrib.open({}, env={}), Caller(owner=True))
    old = [(kind, body.replace("passes every layer", "passes all 9 layers")) for kind, body in kinds]
    assert old != kinds
    assert checked(old, rederive=judge_from).findings == ()


def test_decisions_under_a_configuration_of_openclaw_s_are_derived_with_its_places(tmp_path: Path) -> None:
    file = tmp_path / "openclaw.json"
    file.write_text(
        json.dumps(
            {
                "tools": {"deny": ["exec"]},
                "agents": {
                    "defaults": {
                        "sandbox": {"mode": "all", "workspaceAccess": "ro"}, "subagents": {"maxSpawnDepth": 1},
                    },
                    "list": [{"id": "dev", "tools": {"profile": "coding"}}],
                },
            }
        )
    )  # fmt: skip
    crib = toolcrib.open(load(file, {}, openclaw=True), plugins=[WEATHER], env={})
    kinds = [each for agent in ("main", "dev") for each in decisions(crib, Caller(agent=agent, parents=("main",)))]
    assert "agents.defaults" in "".join(body for _, body in kinds)
    assert checked(kinds, rederive=judge_from).findings == ()


def test_a_decision_that_names_nothing_it_was_made_from_is_found() -> None:
    kinds = decisions(toolcrib.open({}, env={}), Caller())
    found = checked(kinds[1:], rederive=judge_from).findings
    assert {finding.wrong for finding in found} == {"differs"}
    assert len(found) == len(NAMES)
    assert checked(kinds[1:]).findings == (), "nobody asked for it"


@pytest.mark.parametrize("grounds", ["null", "{}", '{"settings": 5, "tools": [], "host": []}', "[]"])
def test_grounds_that_cannot_be_read_are_told(grounds: str) -> None:
    found = checked([("opened", f'{{"digest": "d", "grounds": {grounds}}}')], rederive=judge_from).findings
    assert [(finding.row, finding.wrong) for finding in found] == [(1, "unreadable")]


# What calls may do


ALLOW = Verdict("t", "allow", None, None, None, "", None)
DENY = Verdict("t", "deny", "global", "t", "tools", "", "")


def of(*entries: RecordEntry) -> list[tuple[str, str]]:
    return [body_of(entry) for entry in entries]


def call(key: str) -> Call:
    return Call(id="c", name="t", key=key)


def test_a_call_that_started_without_a_permission_is_found() -> None:
    for before in ([], [Decided(call("a"), Caller(), DENY, "")], [Decided(call("b"), Caller(), ALLOW, "")]):
        found = checked(of(*before, Started(call("a"), "t"))).findings
        assert [(each.row, each.wrong) for each in found] == [(len(before) + 1, "unpermitted")]
    done: list[RecordEntry]
    done = [Decided(call("a"), Caller(), ALLOW, ""), Started(call("a"), "t"), Finished(call("a"), "t", "ok", "", True)]
    assert checked(of(*done)).findings == ()
    assert [each.row for each in checked(of(*done, Started(call("a"), "t"))).findings] == [4], (
        "a permission is for once"
    )


def test_calls_without_an_outcome_are_listed() -> None:
    entries = [
        entry
        for key in "abc"
        for entry in (Decided(call(key), Caller(), ALLOW, ""), Started(call(key), "t"))
    ]  # fmt: skip
    report = checked(of(*entries, Finished(call("b"), "t", "ok", "", True)))
    assert [(each.row, each.call, each.tool) for each in report.uncertain] == [(2, "a", "t"), (6, "c", "t")]
    assert report.findings == ()


# A crib's own record


def crib_in(folder: Path, config: dict[str, Any], **options: Any) -> Crib:
    return toolcrib.open(config, state=folder, env={}, plugins=[Offer(source="plugin:p", tools=(own,))], **options)


@pytest.mark.anyio
async def test_a_crib_s_calls_are_shown_with_verdict_answer_and_outcome(tmp_path: Path) -> None:
    crib = crib_in(tmp_path, {"tools": {"deny": ["ls"], "ask": ["own"]}}, approver=FakeApprover([True, False]))
    here = crib.belt(Caller(session="agent:main:main", owner=True))
    for name in ("own", "own", "ls", "nothing"):
        await here.call(name, {"x": 1} if name == "nothing" else {})
    audit = audit_in(tmp_path / STATE_FILE, crib.loaded)
    told = await audit.calls()
    assert [(each["tool"], each["decision"], each["outcome"], each["code"], each["ran"]) for each in told] == [
        ("own", "ask", "ok", "", True),
        ("own", "ask", "error", "not_approved", False),
        ("ls", "deny", "error", "denied", False),
        ("nothing", "unknown", "error", "not_found", False),
    ]
    assert [each["tool"] for each in await audit.calls(most=2)] == ["ls", "nothing"]
    assert [each["tool"] for each in await audit.calls(tool="own", session="agent:main:main")] == ["own", "own"]
    assert await audit.calls(session="agent:dev:main") == []
    report = await audit.verify(replay=True)
    assert (report.findings, report.uncertain, report.derived) == ((), (), 4)
    await crib.close()


@pytest.mark.anyio
async def test_an_answer_by_a_human_is_on_record_with_the_call_it_was_used_for(tmp_path: Path) -> None:
    crib = crib_in(tmp_path, {"tools": {"ask": ["own"]}})
    owner, here = toolcrib.OWNER, crib.belt(toolcrib.OWNER)

    async def answer(**said: Any) -> str:
        asked: asyncio.Queue[str] = asyncio.Queue()
        detach = crib.approvals.on_question(lambda q: asked.put_nowait(q.id) if q.state == "pending" else None)
        running = asyncio.create_task(here.call("own"))
        async with asyncio.timeout(60):
            id = await asked.get()
            await crib.approvals.answer(owner, id, **said)
            await running
        detach()
        return id

    refused = await answer(answer="no")
    lasting = await answer(answer="lasting", seconds=60)
    await here.call("own")  # by the grant
    (grant,) = await crib.approvals.grants(owner)
    await crib.approvals.revoke(owner, grant["id"])
    rows = await crib_rows(tmp_path)
    told = [(kind, {**body, "call": None}) for kind, body in rows if kind in ("answered", "granted", "revoked")]
    by = {"by": "the terminal"}
    plain = {"call": None, "grant": "", "until": None, **by}
    given = {"grant": grant["id"], "tool": "own", "until": grant["until"], "shown": grant["shown"], **by}
    given |= {"digest": told[1][1]["digest"], "calls": None, "session": "", "when": ""}
    assert told == [
        ("answered", {**plain, "yes": False, "question": refused}),
        ("granted", {"call": None, "question": lasting, **given}),
        ("answered", {**plain, "yes": True, "question": lasting}),
        ("answered", {**plain, "yes": True, "question": "", "grant": grant["id"], "until": grant["until"]}),
        ("revoked", {"call": None, "grant": grant["id"], "tool": "own", **by}),
    ]  # fmt: skip
    kinds = [kind for kind, _ in rows]
    assert kinds[:4] == ["opened", "decided", "answered", "finished"]
    assert kinds.index("granted") < kinds.index("started")
    assert (await audit_in(tmp_path / STATE_FILE, crib.loaded).calls())[1]["answered"] == {"yes": True, **by}
    assert (await audit_in(tmp_path / STATE_FILE, crib.loaded).calls())[2]["grant"] == grant["id"]
    await crib.close()


async def crib_rows(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    rows = await SqliteRows(SqliteFile(folder / STATE_FILE)).after(0, 1000)
    return [(told["kind"], told["body"]) for told in (json.loads(row.text) for row in rows)]


@pytest.mark.anyio
async def test_only_the_owner_may_ask_for_it(tmp_path: Path) -> None:
    crib = crib_in(tmp_path, {})
    await crib.belt(toolcrib.OWNER).call("own")
    audit = audit_in(tmp_path / STATE_FILE, crib.loaded)
    assert [each["tool"] for each in await audit.tail(toolcrib.OWNER)] == ["own"]
    for caller in (
        Caller(channel="irc", group="#shop", sender=Sender(id="7")),
        Caller(owner=True, parents=("main",)),
        Caller(),
        Caller(owner=False),
    ):
        with pytest.raises(ToolError, match="for the owner only"):
            await audit.tail(caller)
    await crib.close()


@pytest.mark.anyio
async def test_with_a_file_of_lines_and_no_folder_nothing_runs(tmp_path: Path) -> None:
    config = {"audit": {"file": str(tmp_path / "record.jsonl")}}
    crib = toolcrib.open(config, env={}, plugins=[Offer(source="plugin:p", tools=(own,))])
    assert crib.belt(toolcrib.OWNER).verdicts["own"].decision == "allow", "to explain needs no record"
    result = await crib.belt(toolcrib.OWNER).call("own")
    assert result.details["code"] == "unrecorded"


@pytest.mark.anyio
async def test_no_secret_of_the_configuration_is_on_record(tmp_path: Path) -> None:
    crib = toolcrib.open(
        {"secrets": {"KEY": "${THE_KEY}"}, "audit": {"file": str(tmp_path / "record.jsonl")}},
        state=tmp_path, env={"THE_KEY": "hunter22-hunter22"}, plugins=[Offer(source="plugin:p", tools=(own,))],
    )  # fmt: skip
    await crib.belt(toolcrib.OWNER).call("own", {"x": "it is hunter22-hunter22"})
    await crib.close()
    written = (tmp_path / "record.jsonl").read_text()
    assert "hunter22" not in written
    assert written.count("it is …") == 1
    assert all(b"hunter22" not in path.read_bytes() for path in tmp_path.iterdir())
