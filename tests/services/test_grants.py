"""Grants: for a session, a time, a count; of one caller and its exact call; never above a deny; for good."""

import asyncio
import json
import subprocess
import sys
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests import prestarted
from tests.doors.world import plugin_folder
from tests.memory_stores import MemoryApprovals
from toolcrib import OWNER, Caller, Sender
from toolcrib.agent.hooks import bind_guards
from toolcrib.app import Crib
from toolcrib.backends.stores.approvals import SqliteApprovals
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.approval import ApprovalStore, Grant, Question, Yes, has_exactly
from toolcrib.define.errors import ArgumentError, ConfigError, ToolError
from toolcrib.define.event import ToolFinished
from toolcrib.define.message import Call
from toolcrib.define.plugin import Ask, Hook
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import tool
from toolcrib.testing import FakeApprover, ScriptedModel, call_reply, text_reply

pytestmark = pytest.mark.anyio

HERE = replace(OWNER, session="agent:main:main")
ANN = Caller(channel="telegram", group="-1", sender=Sender(id="7"), session="agent:main:telegram:group:-1")
ASK = {"tools": {"ask": ["order", "deploy"]}}
SECONDS = 240
NUT, NOTE = {"item": "nut"}, {"path": "notes/a.md"}


@tool(effects={"write"})
async def order(item: str, count: int = 1) -> str:
    """Order something."""
    return f"{count} {item}"


@tool(effects={"execute"})
async def deploy(item: str) -> str:
    """Run something."""
    return item


PLUGIN = '''\
from toolcrib import Plugin, tool


@tool(effects={"write"})
async def order(item: str, count: int = 1) -> str:
    """Order something else."""
    return item


plugin = Plugin(name="other", tools=(order,))
'''


def opened(folder: Path, config: Any = ASK) -> Crib:
    return toolcrib.open(config, tools=[order, deploy], state=folder / "state")


async def code_of(crib: Crib, caller: Caller, item: str = "nut", name: str = "order", **args: Any) -> str:
    """Return what comes of a call that nobody answers for: ok, or the code of the failure."""
    result = await crib.belt(caller).call(name, {"item": item, **args})
    return result.status if result.status == "ok" else result.details["code"]


async def answer(
    crib: Crib, caller: Caller, said: Any, *, name: str = "order", args: Any = NUT, **how: Any
) -> Question:
    """Make a call, answer the question about it, and return that."""
    asked: asyncio.Queue[Question] = asyncio.Queue()
    detach = crib.approvals.on_question(lambda q: asked.put_nowait(q) if q.state == "pending" else None)
    running = asyncio.create_task(crib.belt(caller).call(name, args))
    try:
        async with asyncio.timeout(SECONDS):
            question = await asked.get()
            try:
                await crib.approvals.answer(OWNER, question.id, said, **how)
            except ToolError:
                await crib.approvals.answer(OWNER, question.id, "no")
                raise
            finally:
                await running
    finally:
        detach()
    return question


async def test_a_grant_for_a_session_holds_there_and_ends_with_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        await answer(crib, HERE, "session")
        assert [await code_of(crib, HERE) for _ in range(2)] == ["ok", "ok"]
        assert await code_of(crib, replace(HERE, session="agent:main:other")) == "not_approved"
        assert await code_of(crib, ANN) == "not_approved"
        assert await code_of(crib, HERE, count=2) == "not_approved"
        (held,) = await crib.ask("approvals.grants", {}, caller=OWNER)
        assert (held["session"], held["until"], held["callsLeft"]) == (HERE.session, None, None)
    async with opened(tmp_path) as crib:  # it survives a restart
        assert await code_of(crib, HERE) == "ok"
        await crib.approvals.end_session("agent:main:main")
        assert await code_of(crib, HERE) == "not_approved"


async def test_a_grant_for_so_many_calls_counts_the_one_that_was_asked_about(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        await answer(crib, HERE, "lasting", calls=3, seconds=600)
        assert [await code_of(crib, HERE) for _ in range(3)] == ["ok", "ok", "not_approved"]
        assert await crib.ask("approvals.grants", {}, caller=OWNER) == []


@pytest.mark.parametrize(("caller", "how"), [(HERE, {"calls": 1}), (HERE, {"calls": -1}), (HERE, {"calls": 1001})])
async def test_a_grant_for_no_number_of_calls_is_refused(tmp_path: Path, caller: Caller, how: dict[str, Any]) -> None:
    async with opened(tmp_path) as crib:
        with pytest.raises(ArgumentError, match="calls: a grant is for 2 to 1000 calls"):
            await answer(crib, caller, "lasting", **how)


async def test_what_was_called_in_no_session_gets_no_grant_for_one(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        with pytest.raises(ArgumentError, match="made in no session"):
            await answer(crib, OWNER, "session")


async def test_what_can_run_something_else_is_granted_once_at_a_time(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        for said in ("lasting", "session"):
            with pytest.raises(ToolError, match="deploy can only be allowed once"):
                await answer(crib, HERE, said, name="deploy")
        question = await answer(crib, HERE, "once", name="deploy")
        assert question.always == ""
        # what a job does later is not what was shown, and may be another thing tomorrow
    async with opened(tmp_path, {"tools": {"ask": ["cron"]}}) as crib:
        with pytest.raises(ToolError, match="cron can only be allowed once"):
            await answer(crib, HERE, "lasting", name="cron", args={"action": "run", "jobId": "1"})


async def test_a_grant_is_never_above_a_deny_and_gone_once_it_is_revoked(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        await answer(crib, HERE, "session")
    async with opened(tmp_path, {"tools": {**ASK["tools"], "deny": ["order"]}}) as crib:
        assert await code_of(crib, HERE) == "denied"
        told = await crib.ask("tools.explain", {"tool": "order"}, caller=HERE)
        assert (told["decision"], told["layer"]) == ("deny", "global")
    async with opened(tmp_path) as crib:
        (held,) = await crib.ask("approvals.grants", {}, caller=OWNER)
        await crib.ask("approvals.revoke", {"id": held["id"]}, caller=OWNER)
        assert await code_of(crib, HERE) == "not_approved"


async def test_explain_says_which_grant_answers_for_a_human(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        before = await crib.ask("tools.explain", {"tool": "order", "sessionKey": "main"}, caller=OWNER)
        assert (before["decision"], before["layer"], "grants" in before) == ("ask", "ask", False)
        await answer(
            crib, replace(OWNER, session=before["caller"]["session"], agent="Main"), "lasting", seconds=600, calls=3
        )
        told = await crib.ask("tools.explain", {"tool": "order", "sessionKey": "main"}, caller=OWNER)
        (held,) = told["grants"]
        assert (told["decision"], told["layer"], told["rule"]) == ("allow", "grant", held["id"])
        assert told["steps"][-2]["decision"] == "ask"
        assert told["steps"][-1] == {"layer": "grant", "origin": "approvals", "decision": "allow", "rule": held["id"]}
        assert f"grant {held['id']} by the terminal lets pass" in told["reason"]
        assert "2 more calls" in told["reason"]


async def test_the_record_says_which_grant_let_a_call_through(tmp_path: Path) -> None:
    async with opened(tmp_path) as crib:
        await answer(crib, HERE, "lasting", calls=2)
        (held,) = await crib.ask("approvals.grants", {}, caller=OWNER)
        await code_of(crib, HERE)
        last = (await crib.ask("audit.tail", {}, caller=OWNER))[-1]
        assert (last["answered"], last["grant"]) == ({"yes": True, "by": "the terminal"}, held["id"])
        assert (await crib.ask("audit.verify", {"replay": True}, caller=OWNER))["findings"] == ()


# with a condition

FOLDER = {"path": "notes/**"}


@tool(effects={"write"}, paths=("path",))
async def note(ctx: toolcrib.Ctx, path: str, item: str = "x") -> str:
    """Write something down."""
    await ctx.workspace.write(path, item.encode())
    return path


class Way(Enum):
    THICK = "thick"
    THIN = "thin"


@tool(effects={"execute"})
async def paint(how: Way, wet: bool = False) -> str:
    """Paint something."""
    return how.value


def written(root: Path, **config: Any) -> Crib:
    """Return a crib whose tools write in a folder, some of them asked about."""
    (root / "work" / "notes").mkdir(parents=True, exist_ok=True)
    tools = {"ask": ["note", "order", "deploy", "paint"], **config.pop("tools", {})}
    whole = {"workspace": {"root": str(root / "work")}, "tools": tools, **config}
    return toolcrib.open(whole, tools=[note, order, deploy, paint], state=root / "state")


async def outcome(crib: Crib, name: str, args: Any, caller: Caller = HERE) -> str:
    result = await crib.belt(caller).call(name, args)
    return result.plain_text if result.status == "ok" else result.details["code"]


async def test_a_grant_with_a_condition_is_for_every_call_that_meets_it(tmp_path: Path) -> None:
    async with written(tmp_path) as crib:
        await answer(crib, HERE, "session", name="note", args=NOTE, when=FOLDER, calls=4)
        (tmp_path / "work" / "notes" / "out").symlink_to("..")
        assert await outcome(crib, "note", {"path": "notes/b.md", "item": "y"}) == "notes/b.md"
        assert await outcome(crib, "note", {"path": "./notes//c.md"}) == "notes/c.md"
        refused = ["b.md", "notes/../b.md", "notes/out/b.md", "Notes/b.md"]
        assert [await outcome(crib, "note", {"path": each}) for each in refused] == ["not_approved"] * 4
        assert await outcome(crib, "note", {"path": "notes/b.md"}, ANN) == "not_approved"
        assert (
            await outcome(crib, "note", {"path": "notes/b.md"}, replace(HERE, session="agent:main:x")) != "notes/b.md"
        )
        (held,) = await crib.ask("approvals.grants", {}, caller=OWNER)
        assert (held["when"], held["callsLeft"]) == (FOLDER, 1)
        assert held["shown"] == 'every call of note with {"path": "notes/**"}'
        kept = crib.gateway._core.stores.rows
        assert kept is not None
        rows = [json.loads(row.text)["body"] for row in await kept.after(0, 999)]
        assert [row["when"] for row in rows if row.get("digest", "").startswith("when:")] == ['{"path": "notes/**"}']
        assert (await crib.ask("audit.verify", {"replay": True}, caller=OWNER))["findings"] == ()
        await crib.ask("approvals.revoke", {"id": held["id"]}, caller=OWNER)
        assert await outcome(crib, "note", {"path": "notes/b.md"}) == "not_approved"


@pytest.mark.parametrize(
    ("name", "when", "complaint"),
    [
        ("order", {}, "when: names no argument"),
        ("order", {"item": "*"}, "holds whatever order is called with"),
        ("order", {"item": {"matches": ".*"}}, "holds whatever order is called with"),
        ("order", {"item": {"matches": ""}}, "should have 1 to 256 characters"),
        ("note", {"path": "**"}, "holds whatever note is called with"),
        ("note", {"path": {"under": "."}}, "holds whatever note is called with"),
        ("order", {"itme": "nut"}, "can never hold: order has no argument 'itme'; did you mean 'item'"),
        ("order", {"item": {"like": "x"}}, "no condition 'like'"),
        ("deploy", {"item": "**"}, "holds whatever deploy is called with"),
        ("order", {"count": {"min": -1e300}}, "holds whatever order is called with"),
        ("paint", {"wet": {"in": [True, False]}}, "holds whatever paint is called with"),
        ("paint", {"how": {"in": ["thick", "thin"]}, "wet": {"in": [True, False]}}, "holds whatever paint"),
        ("deploy", {"taint": "web:*"}, "holds whatever deploy is called with"),
    ],
)
async def test_a_condition_that_says_nothing_is_granted_nothing(
    tmp_path: Path, name: str, when: Any, complaint: str
) -> None:
    args = {"note": {"path": "notes/a"}, "paint": {"how": "thin"}}.get(name, {"item": "nut"})
    async with written(tmp_path) as crib:
        with pytest.raises(ArgumentError, match=complaint):
            await answer(crib, HERE, "lasting", name=name, args=args, when=when)
        with pytest.raises(ArgumentError, match="a condition is for a yes that lasts"):
            await answer(crib, HERE, "once", name=name, args=args, when=NUT)


@pytest.mark.parametrize(
    ("name", "args", "when"),
    [
        ("paint", {"how": "thin"}, {"how": "thin"}),
        ("paint", {"how": "thin"}, {"wet": False}),
        ("order", {"item": "nut"}, {"count": {"max": 5}}),
        ("order", {"item": "nut"}, {"count": {"min": 0}, "item": "*"}),
    ],
)
async def test_a_condition_that_says_something_is_granted(tmp_path: Path, name: str, args: Any, when: Any) -> None:
    async with written(tmp_path) as crib:
        await answer(crib, HERE, "lasting", name=name, args=args, when=when)
        assert await outcome(crib, name, args) != "not_approved"


async def test_what_can_run_something_else_is_granted_with_a_condition(tmp_path: Path) -> None:
    async with written(tmp_path) as crib:
        await answer(crib, HERE, "lasting", name="deploy", when={"item": {"in": ["nut", "bolt"]}})
        assert [await outcome(crib, "deploy", {"item": each}) for each in ("bolt", "gun")] == ["bolt", "not_approved"]


@pytest.mark.parametrize("how", [{"when": NUT}, {}])
async def test_a_grant_is_for_the_tool_that_was_asked_about_and_for_none_that_has_its_name(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    async with opened(tmp_path) as crib:
        await answer(crib, HERE, "session", **how)
        assert await code_of(crib, HERE) == "ok"
    declared = {"tools": [{"name": "order", "description": "Order.", "effects": ["write"]}]}
    folder = plugin_folder(tmp_path / "plugins", PLUGIN, id="other", manifest=declared)
    plugins = {"folders": [str(folder)], "allow": ["other"]}
    async with toolcrib.open({**ASK, "plugins": plugins}, state=tmp_path / "state") as crib:
        assert crib.catalog.tools["order"].source == "plugin:other"
        assert await code_of(crib, HERE) == "not_approved"
        told = await crib.ask("tools.explain", {"tool": "order", "sessionKey": "main", "args": NUT}, caller=OWNER)
        assert (told["decision"], told["layer"]) == ("ask", "ask")
    async with toolcrib.open(ASK, state=tmp_path / "state") as crib:  # and a program brings one
        result = await crib.belt(HERE, [replace(order, source="client:owner")]).call("order", NUT)
        assert result.details["code"] == "not_approved"
    async with opened(tmp_path) as crib:
        assert await code_of(crib, HERE) == "ok"


async def test_no_condition_is_above_a_deny_or_answers_a_guard(tmp_path: Path) -> None:
    async with written(tmp_path) as crib:
        await answer(crib, HERE, "session", name="note", args=NOTE, when=FOLDER)
    shut = {"tools": {"deny": [{"tool": "note", "when": {"path": "notes/private/**"}}]}}
    async with written(tmp_path, **shut) as crib:
        assert await outcome(crib, "note", {"path": "notes/private/a.md"}) == "denied"
        assert await outcome(crib, "note", {"path": "notes/a.md"}) == "notes/a.md"
        guard = bind_guards([Hook(run=lambda ctx, args: Ask("look at this"), name="guard")])
        belt = crib.belt(HERE)
        belt = replace(belt, pipeline=replace(belt.pipeline, guards=guard))
        assert (await belt.call("note", {"path": "notes/a.md"})).details["code"] == "not_approved"


async def test_a_program_that_answers_itself_is_asked_whatever_was_granted(tmp_path: Path) -> None:
    async with written(tmp_path) as crib:
        await answer(crib, HERE, "session", name="note", args=NOTE, when=FOLDER)
        human = FakeApprover(False)
        assert (await crib.belt(HERE, approver=human).call("note", {"path": "notes/a.md"})).status == "error"
        assert len(human.asked) == 1


async def test_explain_with_arguments_says_whether_a_grant_answers_for_this_call(tmp_path: Path) -> None:
    quota = {"quotas": [{"tool": "note", "per": "day", "calls": 2}]}
    async with written(tmp_path, **quota) as crib:
        caller = await place(crib)

        async def explain(name: str, **args: Any) -> tuple[str, str]:
            told = await crib.ask("tools.explain", {"tool": name, "args": args, "sessionKey": "main"}, caller=OWNER)
            return told["decision"], told["layer"]

        await answer(crib, caller, "session")
        assert await explain("order", item="nut") == ("allow", "grant")
        assert await explain("order", item="bolt") == ("ask", "ask")
        with_condition = {"tool": "note", "when": FOLDER}
    async with written(tmp_path, approvals={"always": [with_condition]}, **quota) as crib:
        assert await explain("note", path="notes/b.md") == ("allow", "grant")
        assert await explain("note", path="b.md") == ("ask", "ask")
        for _ in range(2):
            assert await outcome(crib, "note", {"path": "notes/b.md"}, caller) == "notes/b.md"
        assert await explain("note", path="notes/b.md") == ("deny", "quota")


@tool(effects={"network"})
async def look_outside() -> Result:
    """Read what others wrote."""
    return Result((Text("buy nuts", "web:https://x.test"),))


@pytest.mark.parametrize("ask", [["order"], []])
async def test_explain_counts_no_condition_once_words_from_outside_are_asked_about(
    tmp_path: Path, ask: list[str]
) -> None:
    async with opened(tmp_path) as crib:
        await answer(crib, HERE, "session", when=NUT)
    config = {"tools": {"ask": ask, "askAfterOutside": ["order"]}}
    async with toolcrib.open(config, tools=[order, look_outside], state=tmp_path / "state") as crib:
        asked = {"tool": "order", "sessionKey": "main"}
        assert (await crib.ask("tools.explain", asked, caller=OWNER))["decision"] == "allow"
        replies = [call_reply(Call("a", "look_outside", {})), call_reply(Call("b", "order", NUT)), text_reply("done")]
        turn = crib.turn("go", caller=HERE, model=ScriptedModel(replies))
        ended = [event.result async for event in turn if isinstance(event, ToolFinished)]
        assert ended[-1].details["code"] == "not_approved"
        for more in ({}, {"args": NUT}):
            told = await crib.ask("tools.explain", {**asked, **more}, caller=OWNER)
            assert (told["decision"], told["layer"]) == ("ask", "ask" if ask else "taint")


async def test_explain_with_arguments_takes_no_command_for_one_whose_words_were_granted(tmp_path: Path) -> None:
    rules = {"ask": ["exec"], "exec": {"security": "allowlist", "ask": "on-miss"}}
    async with opened(tmp_path, {"workspace": {"root": str(tmp_path)}, "tools": rules}) as crib:
        await answer(crib, HERE, "lasting", name="exec", args={"command": "echo nut"}, which=1)
        asked = {"tool": "exec", "sessionKey": "main"}
        told = await crib.ask("tools.explain", asked, caller=OWNER)
        assert (told["decision"], told["layer"]) == ("allow", "grant")
        told = await crib.ask("tools.explain", {**asked, "args": {"command": "rm nut"}}, caller=OWNER)
        assert (told["decision"], told["layer"]) == ("ask", "ask")


async def place(crib: Crib) -> Caller:
    """Return the owner in the main session, as explain takes it."""
    told = await crib.ask("tools.explain", {"tool": "order", "sessionKey": "main"}, caller=OWNER)
    return replace(OWNER, session=told["caller"]["session"], agent="main")


async def test_an_entry_for_good_may_have_a_condition_and_one_that_says_nothing_does_not_count(tmp_path: Path) -> None:
    always = [{"tool": "deploy", "when": {"item": "nut*"}}, {"tool": "order", "when": {"item": "*"}}]
    async with written(tmp_path, approvals={"always": always}) as crib:
        assert await outcome(crib, "deploy", {"item": "nuts"}) == "nuts"
        assert await outcome(crib, "deploy", {"item": "bolts"}) == "not_approved"
        assert await outcome(crib, "order", {"item": "nut"}) == "not_approved"
        assert await outcome(crib, "deploy", {"item": "nuts"}, ANN) == "not_approved"
        assert await outcome(crib, "deploy", {"item": "nuts"}, replace(HERE, parents=("agent:main:main",))) != "nuts"


# for good


async def test_always_is_an_entry_that_the_owner_is_shown_and_saves(tmp_path: Path) -> None:
    file = tmp_path / "crib.json"
    file.write_text(json.dumps({**ASK, "owners": ["id:1"]}))
    async with opened(tmp_path, file) as crib:
        question = await answer(crib, ANN, "once")
        before = file.read_text()
        told = await crib.ask("approvals.propose", {"id": question.id}, caller=OWNER)
        assert file.read_text() == before  # nothing is written unasked
        entry = {"tool": "order", "args": {"item": "nut"}, "agent": "main"}
        entry |= {"channel": "telegram", "group": "-1", "sender": "id:7"}
        assert (told["path"], told["entry"]) == (["approvals", "always"], entry)
        assert '+    "tool": "order"' in told["diff"].replace("      ", "    ")
        assert await code_of(crib, ANN) == "not_approved"
        saved = {"raw": told["raw"], "baseHash": told["baseHash"]}
        await crib.ask("config.patch", saved, caller=OWNER)
        assert await code_of(crib, ANN) == "ok"
        last = (await crib.ask("audit.tail", {}, caller=OWNER))[-1]
        assert (last["answered"]["by"], last["grant"]) == ("the configuration", "approvals.always[0]")
        others = (replace(ANN, sender=Sender(id="8")), replace(ANN, group="-2"), replace(ANN, agent="dev"), HERE)
        assert [await code_of(crib, each) for each in others] == ["not_approved"] * 4
        assert await code_of(crib, replace(ANN, parents=("agent:main:main",))) != "ok"
        assert [await code_of(crib, ANN, "bolt"), await code_of(crib, ANN, count=2)] == ["not_approved"] * 2
        with pytest.raises(ToolError, match="baseHash is not that of the file"):
            await crib.ask("config.patch", saved, caller=OWNER)


@pytest.mark.parametrize("caller", [ANN, replace(OWNER, parents=("main",))])
async def test_only_the_owner_is_shown_what_would_be_for_good(tmp_path: Path, caller: Caller) -> None:
    file = tmp_path / "crib.json"
    file.write_text(json.dumps(ASK))
    async with opened(tmp_path, file) as crib:
        question = await answer(crib, ANN, "once")
        with pytest.raises(ToolError):
            await crib.ask("approvals.propose", {"id": question.id}, caller=caller)


async def test_an_entry_that_the_file_would_read_otherwise_is_not_proposed(tmp_path: Path) -> None:
    file = tmp_path / "crib.json"
    file.write_text(json.dumps(ASK))
    async with opened(tmp_path, file) as crib:
        for path, entry in ((["approvals", "always"], {"tool": "order", "args": {"item": "${HOME}"}}),):
            with pytest.raises(ToolError, match="would not mean what it says"):
                crib.gateway._core.editor.propose(path, entry)


async def test_in_a_toml_file_it_is_said_what_to_write_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "crib.toml"
    file.write_text('[tools]\nask = ["order"]\n')
    async with opened(tmp_path, file) as crib:
        question = await answer(crib, OWNER, "once")
        with pytest.raises(ToolError, match=r'write this into approvals.always by hand: \{"tool":"order",'):
            await crib.ask("approvals.propose", {"id": question.id}, caller=OWNER)
    assert file.read_text() == '[tools]\nask = ["order"]\n'


async def test_an_entry_for_good_lets_nothing_run_that_runs_something_else(tmp_path: Path) -> None:
    always = [{"tool": name, "args": {"item": "nut"}} for name in ("deploy", "exec", "*")]
    async with opened(tmp_path, {**ASK, "approvals": {"always": always}}) as crib:
        assert await code_of(crib, OWNER, name="deploy") == "not_approved"
        assert await code_of(crib, OWNER) == "not_approved"


async def test_an_entry_for_good_of_a_wrong_shape_is_refused() -> None:
    whole: dict[str, Any] = {"tool": "order", "args": {}}
    entries: list[dict[str, Any]] = [{"tool": "order"}, {"args": {}}, {**whole, "args": []}, {**whole, "x": 1}]
    entries += [{"tool": "order", "when": {}}, {**whole, "when": {"item": "nut"}}]
    entries += [{"tool": "order", "when": {"item": {"like": "nut"}}}, {"tool": "order", "when": {"item": ["nut"]}}]
    for entry in entries:
        with pytest.raises(ConfigError, match=r"approvals\.always\[0\]"):
            toolcrib.open({"approvals": {"always": [entry]}})


@pytest.mark.parametrize(
    ("when", "args", "met"),
    [
        ({"a": 1}, {"a": 1}, True),
        ({"a": 1}, {"a": 1.0}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({}, {}, True),
        ({}, {"a": 1}, False),
        ({"a": "é"}, {"a": "e\u0301"}, False),
    ],
)
def test_a_condition_has_exactly_by_exactly_its_arguments(when: Any, args: Any, met: bool) -> None:
    assert has_exactly(when, args) is met


# stores

GRANT = Grant(
    id="g", digest="d", tool="order", shown="x", person="", by="o", made_at=100, until=200, calls_left=2, asker=ANN
)
QUESTION = Question(
    id="q", digest="q", tool="order", reason="r", shown="s", person="", asked_at=100, expires_at=200, asker=ANN
)


YES = Yes("the owner", "", True, (0,))


@pytest.fixture(params=["memory", "sqlite"])
def store(request: Any, tmp_path: Path) -> ApprovalStore:
    return MemoryApprovals() if request.param == "memory" else SqliteApprovals(SqliteFile(tmp_path / "crib.db"))


async def test_a_store_spends_the_calls_of_a_grant_one_by_one(store: ApprovalStore) -> None:
    await store.add(QUESTION, most=9)
    assert await store.say_yes("q", YES, now=101, grant=GRANT)
    assert await store.grants(101) == (GRANT,)
    assert await store.use_grant(["d"], 101) == replace(GRANT, calls_left=1)
    assert await store.use_grant(["d"], 101) == replace(GRANT, calls_left=0)
    assert (await store.use_grant(["d"], 101), await store.grants(101)) == (None, ())


RACER = """
import asyncio, sys
from pathlib import Path
from toolcrib.backends.stores.approvals import SqliteApprovals
from toolcrib.backends.stores.sqlite import SqliteFile

async def main():
    store = SqliteApprovals(SqliteFile(Path(sys.argv[1])))
    await store.grants(101.0)
    print("ready", flush=True)
    sys.stdin.readline()
    found = await asyncio.gather(*(store.use_grant(["d"], 101.0) for _ in range(20)))
    print(sum(each is not None for each in found), flush=True)

asyncio.run(main())
"""


async def test_processes_never_spend_one_call_of_a_grant_twice(tmp_path: Path) -> None:
    path = tmp_path / "crib.db"
    store = SqliteApprovals(SqliteFile(path))
    await store.add(QUESTION, most=9)
    await store.say_yes("q", YES, now=101, grant=replace(GRANT, calls_left=13))
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    racers = [prestarted.Popen([sys.executable, "-c", RACER, str(path)], **pipes) for _ in range(4)]
    try:
        assert [racer.stdout.readline() for racer in racers if racer.stdout] == ["ready\n"] * 4
        counts = [int(racer.communicate("\n", timeout=SECONDS)[0]) for racer in racers]
    finally:
        for racer in racers:
            racer.kill()
            racer.wait()
    assert sum(counts) == 13, counts
