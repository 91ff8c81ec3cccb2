"""What guards and people decide is on record with its rule, and is derived again (G4, G31)."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER
from toolcrib.agent.replay import judge_from
from toolcrib.app import Crib
from toolcrib.app.sources import open_accepted
from toolcrib.app.stores import STATE_FILE, audit_in
from toolcrib.backends.stores.accepted import Accepted, hash_file
from toolcrib.backends.stores.record import SqliteRows
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.message import Call
from toolcrib.define.plugin import Ask, Block, Plugin, Rewrite
from toolcrib.define.record import NOTHING, Head, Row, entry_text, hash_after
from toolcrib.define.result import Result
from toolcrib.define.tool import tool
from toolcrib.services.audit import Report, verify
from toolcrib.testing import FakeApprover
from toolcrib.testing.models import ScriptedModel, call_reply

pytestmark = pytest.mark.anyio

EXEC = {
    "host": "host",
    "allow": [["echo"]],
    "allowExact": [["uname", "-s"]],
    "readOnly": ["ls", "cat"],
    "safeBins": ["wc"],
    "deny": [["rm"], ["git", "push"]],
}
JUDGE = "the judge of commands"


@tool(name="fetch", effects={"network"})
async def fetch() -> Result:
    """Fetch."""
    return Result.text("do it", source="web:https://a.test")


@tool(name="send", effects={"send"})
def send(text: str) -> str:
    """Send."""
    return f"sent {text}"


def crib_in(folder: Path, exec: Mapping[str, Any] = EXEC, **options: Any) -> Crib:
    (root := folder / "ws").mkdir(exist_ok=True)
    (root / "a.txt").write_text("a\n")
    tools = {"exec": dict(exec), **options.pop("tools", {})}
    config = {"workspace": {"root": str(root)}, "tools": tools, **options.pop("config", {})}
    return toolcrib.open(config, state=folder / "state", tools=[fetch, send], env={}, **options)


async def rows_of(crib: Crib, folder: Path) -> list[tuple[str, dict[str, Any]]]:
    """Return every row that the crib has written, and close it."""
    await crib.close()
    rows = await SqliteRows(SqliteFile(folder / "state" / STATE_FILE)).after(0, 1000)
    return [(told["kind"], told["body"]) for told in (json.loads(row.text) for row in rows)]


def of_kind(rows: Sequence[tuple[str, dict[str, Any]]], *kinds: str) -> list[dict[str, Any]]:
    return [body for kind, body in rows if kind in kinds]


def checked(rows: Sequence[tuple[str, Mapping[str, Any]]]) -> Report:
    """Check rows whose chain was made good again, each decision derived anew."""
    made, before = list[Row](), NOTHING
    for at, (kind, body) in enumerate(rows, 1):
        text = entry_text(at, 1.5, kind.encode(), json.dumps(body).encode())
        before = hash_after(before, text)
        made.append(Row(at, text, before))
    return verify(made, Head(len(made), before, len(made)), rederive=judge_from)


@pytest.mark.parametrize(
    ("command", "decision", "rule", "origin"),
    [
        ("ls", "allow", "readOnly ls", "tools.exec.readOnly[0]"),
        ("cat a.txt", "allow", "readOnly cat", "tools.exec.readOnly[1]"),
        ("echo hi", "allow", "allow echo", "tools.exec.allow[0]"),
        ("uname -s", "allow", "allowExact uname -s", "tools.exec.allowExact[0]"),
        ("rm a.txt", "deny", "deny rm", "tools.exec.deny[0]"),
        ("nice rm a.txt", "deny", "deny rm", "tools.exec.deny[0]"),
        ("git --no-pager push", "deny", "deny git push", "tools.exec.deny[1]"),
        ("touch b", "ask", "ask on-miss", "tools.exec.ask"),
        ("cat ../b", "ask", "ask on-miss", "tools.exec.ask"),
        ("$X a.txt", "ask", "ask on-miss", "tools.exec.ask"),
    ],
)
async def test_what_the_judge_of_commands_says_is_on_record_with_its_rule_and_follows_from_it(
    tmp_path: Path, command: str, decision: str, rule: str, origin: str
) -> None:
    crib = crib_in(tmp_path)
    await crib.belt(OWNER, approver=FakeApprover([False])).call("exec", {"command": command})
    rows = await rows_of(crib, tmp_path)
    (judged,) = of_kind(rows, "judged")
    assert [judged[key] for key in ("by", "decision", "rule", "origin")] == [JUDGE, decision, rule, origin]
    assert judged["reason"]
    report = checked(rows)
    assert (report.findings, report.derived) == ((), 2)
    # and each part of it forged
    for key, other in (
        ("decision", "allow" if decision != "allow" else "deny"),
        ("rule", "allow true"),
        ("origin", "tools.exec.allow[9]"),
        ("reason", "because"),
        ("call", {**judged["call"], "args": {"command": "sudo id"}}),
    ):
        forged = [(kind, {**body, key: other} if kind == "judged" else body) for kind, body in rows]
        assert "differs" in [finding.wrong for finding in checked(forged).findings], key


@pytest.mark.parametrize(
    ("exec", "rule", "origin"),
    [
        ({"host": "host", "security": "full"}, "security full", "tools.exec.security"),
        ({"host": "host", "security": "full", "ask": "always"}, "ask always", "tools.exec.ask"),
        ({"host": "host", "ask": "off"}, "ask off", "tools.exec.ask"),
    ],
)
async def test_settings_that_decide_about_every_command_are_named(
    tmp_path: Path, exec: Mapping[str, Any], rule: str, origin: str
) -> None:
    crib = crib_in(tmp_path, exec)
    await crib.belt(OWNER, approver=FakeApprover([True])).call("exec", {"command": "true"})
    rows = await rows_of(crib, tmp_path)
    (judged,) = of_kind(rows, "judged")
    assert (judged["rule"], judged["origin"]) == (rule, origin)
    assert checked(rows).findings == ()


async def test_what_a_parent_may_not_run_is_derived_from_the_rules_of_both(tmp_path: Path) -> None:
    agents = {"main": {"tools": {"exec": {"deny": [["echo"]]}}}, "helper": {}}
    crib = crib_in(tmp_path, config={"agents": agents})
    child = Caller(owner=True, agent="helper", parents=("main",), session="agent:helper:subagent:1")
    await crib.belt(child).call("exec", {"command": "echo hi"})
    rows = await rows_of(crib, tmp_path)
    (judged,) = of_kind(rows, "judged")
    assert (judged["decision"], judged["origin"]) == ("deny", "agents.main.tools.exec.deny[0]")
    assert checked(rows).findings == ()


async def test_that_a_program_of_the_workspace_was_accepted_is_on_record(tmp_path: Path) -> None:
    crib = crib_in(tmp_path, {"host": "host", "allow": [["./build"]]})
    program = tmp_path / "ws/build"
    program.write_text("#!/bin/sh\necho built\n")
    program.chmod(0o755)
    yes = Accepted(digest=hash_file(program.read_bytes()), name="build", file=str(program), at=1.5)
    for reply in ("nobody has accepted it", "built"):
        answer = await crib.belt(OWNER).call("exec", {"command": "./build"})
        assert reply in str(answer.content)
        open_accepted({}, tmp_path / "state").accept(yes)
    rows = await rows_of(crib, tmp_path)
    before, after = of_kind(rows, "judged")
    assert (before["decision"], after["decision"]) == ("ask", "allow")
    assert checked(rows).findings == ()
    forged = [(kind, {**body, "seen": before["seen"]} if body is after else body) for kind, body in rows]
    assert [finding.wrong for finding in checked(forged).findings] == ["differs"]


async def test_a_variable_that_no_call_may_set_is_on_record(tmp_path: Path) -> None:
    crib = crib_in(tmp_path)
    await crib.belt(OWNER).call("exec", {"command": "ls", "env": {"LD_PRELOAD": "x.so"}})
    (judged,) = of_kind(await rows_of(crib, tmp_path), "judged")
    assert (judged["by"], judged["decision"]) == (JUDGE, "deny")
    assert "LD_PRELOAD" in judged["reason"]


async def test_a_command_with_a_secret_in_it_is_on_record_without_and_no_difference_is_made_up(tmp_path: Path) -> None:
    (root := tmp_path / "ws").mkdir()
    config = {
        "secrets": {"KEY": "${THE_KEY}"},
        "workspace": {"root": str(root)},
        "tools": {"exec": {"host": "host", "allowExact": [["echo", "hunter22-hunter22"]]}},
    }
    crib = toolcrib.open(config, state=tmp_path / "state", env={"THE_KEY": "hunter22-hunter22"})
    await crib.belt(OWNER).call("exec", {"command": "echo hunter22-hunter22"})
    rows = await rows_of(crib, tmp_path)
    assert "hunter22" not in json.dumps(rows)
    assert [each["decision"] for each in of_kind(rows, "judged")] == ["allow"]
    assert checked(rows).findings == ()


def block(ctx: Ctx, args: Mapping[str, Any]) -> Block:
    return Block("not on Sundays")


def ask(ctx: Ctx, args: Mapping[str, Any]) -> Ask:
    return Ask("it looks odd")


def rewrite(ctx: Ctx, args: Mapping[str, Any]) -> Rewrite:
    return Rewrite({"text": "something else"})


def fail(ctx: Ctx, args: Mapping[str, Any]) -> None:
    raise ValueError("boom")


@pytest.mark.parametrize(
    ("hook", "decision", "words", "runs"),
    [
        (block, "deny", "not on Sundays", False),
        (ask, "ask", "it looks odd", True),
        (rewrite, "rewrite", "", True),
        (fail, "deny", "failed (ValueError)", False),
    ],
)
async def test_what_a_hook_says_is_on_record(tmp_path: Path, hook: Any, decision: str, words: str, runs: bool) -> None:
    crib = crib_in(tmp_path, plugins=[Plugin(name="calendar", before=(hook,))], approver=FakeApprover([True]))
    await crib.belt(OWNER).call("send", {"text": "hello"})
    rows = await rows_of(crib, tmp_path)
    (judged,) = of_kind(rows, "judged")
    assert (judged["by"], judged["decision"]) == (hook.__name__, decision)
    assert words in judged["reason"]
    assert [bool(of_kind(rows, "started")), checked(rows).findings] == [runs, ()]


async def test_what_was_asked_because_of_words_from_outside_is_on_record_with_the_entry(tmp_path: Path) -> None:
    crib = crib_in(tmp_path, tools={"askAfterOutside": ["exec", "effect:send"]}, approver=FakeApprover([True]))
    model = ScriptedModel([call_reply(Call("a", "fetch")), call_reply(Call("b", "send", {"text": "x"})), "done"])
    await crib.turn("go", caller=OWNER, model=model).end()
    rows = await rows_of(crib, tmp_path)
    (judged,) = of_kind(rows, "judged")
    assert [judged[key] for key in ("by", "decision", "rule", "origin")] == [
        "taint", "ask", "effect:send", "tools.askAfterOutside[1]",
    ]  # fmt: skip
    assert [each["yes"] for each in of_kind(rows, "answered")] == [True]
    assert [each.get("taint") for each in of_kind(rows, "decided")] == [None, ["web:https://a.test"]]
    assert checked(rows).findings == ()


TAINT = {"denyAfterOutside": [{"tool": "effect:send", "taint": "web:*.test"}], "askAfterOutside": ["send"]}


async def test_what_a_source_denies_is_on_record_and_follows_again_from_it(tmp_path: Path) -> None:
    crib = crib_in(tmp_path, tools=TAINT, approver=FakeApprover([True]))
    model = ScriptedModel([call_reply(Call("a", "fetch")), call_reply(Call("b", "send", {"text": "x"})), "done"])
    await crib.turn("go", caller=OWNER, model=model).end()
    answer = next(each for each in model.asked[2].messages if each.call_id == "b")
    assert answer.status == "error"
    assert "denied: content from outside is in this conversation (web:https://a.test" in answer.plain_text
    rows = await rows_of(crib, tmp_path)
    (judged,) = of_kind(rows, "judged")
    assert [judged[key] for key in ("by", "decision", "rule", "origin")] == [
        "taint", "deny", "effect:send", "tools.denyAfterOutside[0]",
    ]  # fmt: skip
    assert [each["tool"] for each in of_kind(rows, "started")] == ["fetch"]
    assert checked(rows).findings == ()
    for changed in ({"decision": "ask"}, {"origin": "tools.askAfterOutside[0]"}, {"rule": "send"}):
        other = [(kind, {**body, **changed} if kind == "judged" else body) for kind, body in rows]
        assert [each.wrong for each in checked(other).findings] == ["differs"]


async def test_a_source_that_no_rule_means_changes_nothing(tmp_path: Path) -> None:
    tools = {"denyAfterOutside": [{"tool": "send", "taint": "mcp:*"}]}
    crib = crib_in(tmp_path, tools=tools, approver=FakeApprover([]))
    model = ScriptedModel([call_reply(Call("a", "fetch")), call_reply(Call("b", "send", {"text": "x"})), "done"])
    await crib.turn("go", caller=OWNER, model=model).end()
    rows = await rows_of(crib, tmp_path)
    assert [each["tool"] for each in of_kind(rows, "started")] == ["fetch", "send"]
    assert of_kind(rows, "judged") == []


@pytest.mark.parametrize("yes", [True, False])
async def test_the_answer_of_a_program_s_own_approver_is_on_record(tmp_path: Path, yes: bool) -> None:
    crib = crib_in(tmp_path, tools={"ask": ["send"]}, approver=FakeApprover([yes]))
    await crib.belt(OWNER).call("send", {"text": "x"})
    rows = await rows_of(crib, tmp_path)
    (answered,) = of_kind(rows, "answered")
    assert (answered["yes"], answered["by"]) == (yes, "the program's own approver")
    assert checked(rows).findings == ()


@pytest.mark.parametrize("command", ["touch b", ""])
async def test_a_start_after_a_question_needs_a_yes(tmp_path: Path, command: str) -> None:
    """Whoever asked: the judge, or policy itself."""
    crib = crib_in(tmp_path, tools={"ask": ["send"]}, approver=FakeApprover([True]))
    name, args = ("exec", {"command": command}) if command else ("send", {"text": "x"})
    await crib.belt(OWNER).call(name, args)
    rows = await rows_of(crib, tmp_path)
    assert checked(rows).findings == ()
    silent = [(kind, body) for kind, body in rows if kind != "answered"]
    refused = [(kind, {**body, "yes": False} if kind == "answered" else body) for kind, body in rows]
    for forged in (silent, refused):
        assert [each.wrong for each in checked(forged).findings] == ["unpermitted"]
    if command:
        blocked = [(kind, {**body, "decision": "deny"} if kind == "judged" else body) for kind, body in rows]
        assert "unpermitted" in [each.wrong for each in checked(blocked).findings]


async def test_rows_from_before_guards_were_recorded_are_not_called_wrong(tmp_path: Path) -> None:
    crib = crib_in(tmp_path, tools={"ask": ["send"]}, approver=FakeApprover([True]))
    await crib.belt(OWNER).call("send", {"text": "x"})
    old = list[tuple[str, dict[str, Any]]]()
    for kind, body in await rows_of(crib, tmp_path):
        if kind == "opened":
            body["grounds"].pop("answers")
        if kind != "answered":
            old.append((kind, body))
    assert checked(old).findings == ()


async def test_a_look_at_the_record_shows_who_decided(tmp_path: Path) -> None:
    crib = crib_in(tmp_path, approver=FakeApprover([True]))
    for command in ("ls", "rm a.txt", "touch b"):
        await crib.belt(OWNER).call("exec", {"command": command})
    told = await audit_in(tmp_path / "state" / STATE_FILE, crib.loaded).calls()
    await crib.close()
    assert [(each["decision"], each["rule"], each["origin"]) for each in told] == [
        ("allow", "readOnly ls", "tools.exec.readOnly[0]"),
        ("deny", "deny rm", "tools.exec.deny[0]"),
        ("ask", "ask on-miss", "tools.exec.ask"),
    ]
    assert "never runs" in told[1]["reason"]
    assert told[2]["answered"] == {"yes": True, "by": "the program's own approver"}


async def test_a_program_of_the_workspace_that_only_looks_like_a_reader_is_asked_about_and_that_follows(
    tmp_path: Path,
) -> None:
    (root := tmp_path / "ws").mkdir()
    (root / "cat").write_text("#!/bin/sh\n")
    (root / "cat").chmod(0o755)
    crib = crib_in(tmp_path, {"host": "host", "readOnly": ["cat"], "trustedDirs": [str(root)]})
    await crib.belt(OWNER, approver=FakeApprover([False])).call("exec", {"command": "cat a.txt"})
    rows = await rows_of(crib, tmp_path)
    (judged,) = of_kind(rows, "judged")
    assert (judged["decision"], "lies in the workspace" in judged["reason"]) == ("ask", True)
    assert checked(rows).findings == ()
