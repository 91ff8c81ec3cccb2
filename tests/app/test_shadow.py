"""A policy on trial: what it would decide otherwise is on record and follows again, and nothing else changes."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Caller, Sender
from toolcrib.agent.shadow import Shadow
from toolcrib.app import Crib
from toolcrib.app.stores import STATE_FILE, audit_in
from toolcrib.backends.stores.record import SqliteRows
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.context import CallState, Ctx, Ports
from toolcrib.define.message import Call
from toolcrib.define.record import RecordEntry

pytestmark = pytest.mark.anyio

GUEST = Caller(channel="telegram", group="-1", sender=Sender(id="7"))


def crib_in(folder: Path, shadow: str | None, **config: Any) -> Crib:
    """Open a crib from a file that puts `shadow`, the text of another file, on trial."""
    (folder / "ws").mkdir(exist_ok=True)
    made = {"workspace": {"root": str(folder / "ws")}, **config}
    if shadow is not None:
        (folder / "next.yaml").write_text(shadow)
        made["policy"] = {"shadow": "next.yaml"}
    (folder / "crib.json").write_text(json.dumps(made))
    return toolcrib.open(folder / "crib.json", state=folder / "state", env={})


async def rows_of(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    rows = await SqliteRows(SqliteFile(folder / "state" / STATE_FILE)).after(0, 1000)
    return [(told["kind"], told["body"]) for told in (json.loads(row.text) for row in rows)]


async def test_what_it_would_decide_otherwise_is_on_record_and_follows_from_it_again(tmp_path: Path) -> None:
    crib = crib_in(tmp_path, "tools: {deny: [ls]}", tools={"deny": ["find"]})
    belt = crib.belt(OWNER)
    assert (await belt.call("ls")).status == "ok"
    assert (await belt.call("find", {"pattern": "*"})).details["code"] == "denied"
    assert (await belt.call("ls", {"path": "."})).status == "ok"
    loaded = crib.loaded
    await crib.close()
    told = await rows_of(tmp_path)
    shadowed = [body["verdict"] for kind, body in told if kind == "shadowed"]
    assert [(each["tool"], each["decision"], each["origin"]) for each in shadowed] == [
        ("ls", "deny", "tools"),
        ("find", "allow", None),
        ("ls", "deny", "tools"),
    ]
    kinds = [kind for kind, _ in told]
    assert kinds[:5] == ["opened", "decided", "opened", "shadowed", "started"]
    audit = audit_in(tmp_path / "state" / STATE_FILE, loaded)
    report = await audit.verify(replay=True)
    assert (report.findings, report.decisions, report.derived) == ((), 6, 6)
    calls = await audit.calls()
    assert [(call["decision"], call["shadow"]["decision"]) for call in calls] == [
        ("allow", "deny"),
        ("deny", "allow"),
        ("allow", "deny"),
    ]


@pytest.mark.parametrize(
    ("now", "then", "told"),
    [
        ([], ["docs/**"], ["deny"]),
        (["docs/**"], [], ["allow"]),
        (["docs/**"], ["d*/**"], []),
        ([], ["src/**"], []),
    ],
)
async def test_a_rule_about_arguments_is_on_trial_too(
    now: list[str], then: list[str], told: list[str], tmp_path: Path
) -> None:
    def deny(paths: list[str]) -> dict[str, Any]:
        return {"deny": [{"tool": "ls", "when": {"path": each}} for each in paths]}

    crib = crib_in(tmp_path, json.dumps({"tools": deny(then)}), tools=deny(now))
    (tmp_path / "ws" / "docs").mkdir()
    result = await crib.belt(OWNER).call("ls", {"path": "./docs"})
    assert result.status == ("error" if now else "ok")
    await crib.belt(OWNER).call("ls", {"pth": 7, "path": ["no"]})  # which nobody can judge
    loaded = crib.loaded
    await crib.close()
    rows = [body["verdict"] for kind, body in await rows_of(tmp_path) if kind == "shadowed"]
    assert [each["decision"] for each in rows] == told
    assert [each["layer"] for each in rows] == [None if now else "argument"] * len(told)
    report = await audit_in(tmp_path / "state" / STATE_FILE, loaded).verify(replay=True)
    assert (report.findings, report.derived) == ((), report.decisions)


async def test_what_it_says_alike_is_not_written_down(tmp_path: Path) -> None:
    crib = crib_in(tmp_path, "tools: {deny: [exec]}")
    await crib.belt(OWNER).call("ls")
    await crib.belt(OWNER, only=["read"]).call("ls")  # which this belt has under neither
    assert (await crib.belt(OWNER).call("no_such_tool")).status == "error"
    await crib.close()
    assert "shadowed" not in [kind for kind, _ in await rows_of(tmp_path)]


async def test_whoever_asks_is_judged_as_who_they_are(tmp_path: Path) -> None:
    shadow = 'channels: {telegram: {groups: {"-1": {tools: {profile: full}, toolsBySender: {"id:7": {deny: [ls]}}}}}}'
    crib = crib_in(tmp_path, shadow, channels={"telegram": {"groups": {"-1": {"tools": {"profile": "full"}}}}})
    assert (await crib.belt(GUEST).call("ls")).status == "ok"
    assert (await crib.belt(OWNER).call("ls")).status == "ok"
    await crib.close()
    found = [body for kind, body in await rows_of(tmp_path) if kind == "shadowed"]
    assert [(each["caller"]["group"], each["verdict"]["layer"]) for each in found] == [("-1", "group")]


@pytest.mark.parametrize("text", ["tools: [", "tools: {allow: [gr?up]}", "nonsense: 1", "\0", "policy: {shadow: 3}"])
async def test_a_broken_one_is_said_and_stops_nothing(
    text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "toolcrib"):
        crib = crib_in(tmp_path, text)
    assert [each.levelname for each in caplog.records if "policy.shadow is not judged" in each.message] == ["WARNING"]
    assert [each.origin for each in crib.lint() if each.kind == "shadow"] == ["policy.shadow"]
    assert (await crib.belt(OWNER).call("ls")).status == "ok"
    await crib.close()
    assert "shadowed" not in [kind for kind, _ in await rows_of(tmp_path)]


async def test_one_that_is_not_there_a_folder_or_the_file_itself_stops_nothing(tmp_path: Path) -> None:
    for named in ("gone.yaml", str(tmp_path), "~nobody/x.yaml", "crib.json"):
        crib = crib_in(tmp_path, None, policy={"shadow": named})
        assert (await crib.belt(OWNER).call("ls")).status == "ok"
        assert bool([each for each in crib.lint() if each.kind == "shadow"]) == (named != "crib.json")
        await crib.close()


async def test_secrets_of_it_need_not_be_at_hand(tmp_path: Path) -> None:
    crib = crib_in(tmp_path, 'tools: {deny: [ls]}\nhooks: {token: "${NOT_SET_ANYWHERE}"}')
    assert not [each for each in crib.lint() if each.kind == "shadow"]
    await crib.close()


async def test_a_file_that_is_read_again_may_name_another(tmp_path: Path) -> None:
    crib = crib_in(tmp_path, None)
    assert crib.belt(OWNER).pipeline.shadow is None
    (tmp_path / "next.yaml").write_text("tools: {deny: [ls]}")
    told = json.loads((tmp_path / "crib.json").read_text())
    (tmp_path / "crib.json").write_text(json.dumps({**told, "policy": {"shadow": "next.yaml"}}))
    crib.settings.reload()
    shadow = crib.belt(OWNER).pipeline.shadow
    assert shadow is not None
    others = shadow.find_differences(OWNER, crib.belt(OWNER).verdicts.values())
    assert [each.tool for each in others] == ["ls"]
    await crib.close()


class _FullRecord:
    def write(self, entry: RecordEntry, /) -> None:
        raise OSError("no space left")


async def test_where_it_cannot_be_written_down_the_call_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    crib = crib_in(tmp_path, "tools: {deny: [ls]}")
    shadow = crib.belt(OWNER).pipeline.shadow
    assert shadow is not None
    ctx = Ctx(Call("1", "ls", {}), OWNER, CallState(), Ports())
    belt = crib.belt(OWNER).selection
    await Shadow(shadow.belts, (), _FullRecord()).judge(ctx, belt, belt.verdicts["ls"], ())
    assert "what the policy on trial says of ls in call 1 is not known" in caplog.text
    await crib.close()


async def test_a_subagent_is_judged_by_it_too(tmp_path: Path) -> None:
    crib = crib_in(tmp_path, "tools: {subagents: {tools: {deny: [ls]}}}")
    child = Caller(owner=True, parents=("main",), agent="generalist")
    shadow = crib.belt(child).pipeline.shadow
    assert shadow is not None
    assert [each.layer for each in shadow.find_differences(child, [crib.belt(child).verdicts["ls"]])] == ["subagent"]
    await crib.close()
