"""Rules about arguments in a call: what is resolved, asked, recorded, derived again, and reached by the body."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from enum import Enum
from pathlib import Path
from types import MappingProxyType
from typing import Any
from uuid import UUID

import pytest

import toolcrib
from toolcrib import OWNER, Call, Caller, Ctx, Result, tool
from toolcrib.agent.hooks import bind_guards
from toolcrib.agent.replay import judge_from
from toolcrib.app import Belt
from toolcrib.backends.files.local import LocalWorkspace
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.backends.stores.record import body_of
from toolcrib.define.plugin import Ask, Hook, Rewrite
from toolcrib.define.record import Judged
from toolcrib.testing import FakeApprover

pytestmark = pytest.mark.anyio

DOCS = {"tool": "look", "when": {"path": "docs/**"}}


@tool(effects={"read"}, paths=("path",), aliases={"file": "path"})
async def look(ctx: Ctx, path: str = ".") -> Result:
    """Say which path it was given."""
    return Result.text(path)


class Way(Enum):
    RAIL = "rail"
    ROAD = "road"


@tool(effects={"read"})
async def send(way: Way, day: date, to: UUID, marks: frozenset[str], stops: list[Way]) -> str:
    """Send something."""
    return "sent"


SENT = {"way": "rail", "day": "2030-01-02", "to": str(UUID(int=7)), "marks": ["a"], "stops": ["rail"]}
OTHER = {"way": "road", "day": "2030-01-03", "to": str(UUID(int=8)), "marks": ["b"], "stops": ["road"]}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.md").write_text("a\n")
    (tmp_path / "link").symlink_to("docs")
    return tmp_path


def belt_of(root: Path, **lists: Any) -> tuple[Belt, MemoryRecord]:
    """Return the owner's belt under these lists, and what it writes down."""
    belt = toolcrib.open({"workspace": {"root": str(root)}, "tools": lists}, tools=[look, send], env={}).belt(OWNER)
    record = MemoryRecord()
    return replace(belt, pipeline=replace(belt.pipeline, record=record)), record


async def test_the_body_is_given_the_path_that_was_judged(root: Path) -> None:
    belt, _ = belt_of(root, deny=[{"tool": "look", "when": {"path": "src/**"}}])
    assert (await belt.call("look", {"file": "./link//a.md"})).plain_text == "docs/a.md"


async def test_a_rule_about_a_path_resolves_it_once_however_many_rules_there_are(root: Path) -> None:
    belt, _ = belt_of(root, deny=[{"tool": "read", "when": {"path": each}} for each in ("src/**", "x", "*.key")])
    asked = list[str]()

    class Counting(LocalWorkspace):
        async def resolve(self, path: str, /) -> str:
            asked.append(path)
            return await super().resolve(path)

    real = belt.ports.workspace
    assert isinstance(real, LocalWorkspace)
    belt = replace(belt, ports=replace(belt.ports, workspace=Counting(real._disk, real._run)))
    assert (await belt.call("read", {"path": "link/a.md"})).plain_text == "a\n"
    assert asked == ["link/a.md"]


async def test_a_path_is_left_as_it_is_where_no_rule_looks_at_it(root: Path) -> None:
    belt, _ = belt_of(root, deny=[{"tool": "read", "when": {"path": "src/**"}}])
    assert (await belt.call("look", {"path": "./link//a.md"})).plain_text == "./link//a.md"


async def test_a_denied_call_says_which_entry_denied_it_and_leaves_a_row_that_follows_again(root: Path) -> None:
    belt, record = belt_of(root, deny=[DOCS])
    result = await belt.call("look", {"path": "link/a.md"})
    assert (result.status, result.details["code"]) == ("error", "denied")
    assert 'deny has {tool: look, when: {"path": "docs/**"}} (tools)' in result.plain_text
    (row,) = [each for each in record.entries if isinstance(each, Judged)]
    assert (row.by, row.decision, row.basis.origin) == ("argument", "deny", "tools")
    assert row.basis.grounds is not None
    assert derive(row) == ""
    assert "its decision is not" in derive(row._replace(decision="ask"))


def derive(row: Judged) -> str:
    """Return how a row differs from what follows from its grounds, both read back from what is kept of them."""

    assert row.basis.grounds is not None
    return judge_from(json.loads(row.basis.grounds.text))(json.loads(body_of(row)[1]))


async def test_a_human_is_asked_once_and_shown_the_path_that_is_opened(root: Path) -> None:
    belt, _ = belt_of(root, ask=[DOCS])
    approver = FakeApprover(answers=[True])
    belt = replace(belt, pipeline=replace(belt.pipeline, approver=approver))
    assert (await belt.call("look", {"path": "link/a.md"})).plain_text == "docs/a.md"
    assert [call.args for _, call, _ in approver.asked] == [{"path": "docs/a.md"}]
    assert (await belt.call("look", {"path": "."})).status == "ok"


async def test_what_a_guard_rewrote_is_judged_again(root: Path) -> None:
    belt, _ = belt_of(root, deny=[DOCS])

    def guard(ctx: Ctx, args: Mapping[str, Any]) -> Rewrite:
        return Rewrite({"path": "link/a.md"})

    belt = replace(belt, pipeline=replace(belt.pipeline, guards=bind_guards([Hook(run=guard, name="guard")])))
    assert (await belt.call("look", {"path": "."})).details["code"] == "denied"


async def test_what_the_conversation_holds_from_outside_is_a_condition_too(root: Path) -> None:
    belt, _ = belt_of(root, deny=[{"tool": "look", "when": {"taint": "web:*.evil.test*"}}])
    assert (await belt.call("look", {})).status == "ok"
    tainted = replace(belt, pipeline=replace(belt.pipeline, taint=lambda: ["web:a.evil.test/page"]))
    assert (await tainted.call("look", {})).details["code"] == "denied"


async def test_a_subagent_is_bound_by_the_conditions_of_its_parent(root: Path) -> None:
    config = {"workspace": {"root": str(root)}, "agents": {"dev": {"tools": {"deny": [DOCS]}}, "sub": {}}}
    crib = toolcrib.open(config, tools=[look], env={})
    child = crib.belt(replace(OWNER, agent="sub", parents=("dev",)))
    assert (await child.call("look", {"path": "docs/a.md"})).details["code"] == "denied"
    assert (await crib.belt(replace(OWNER, agent="sub")).call("look", {"path": "docs/a.md"})).status == "ok"


async def test_a_patch_that_cannot_be_read_is_not_applied(root: Path) -> None:
    belt, _ = belt_of(root, deny=[{"tool": "apply_patch", "when": {"path": "docs/**"}}])
    crib_belt = toolcrib.open(
        {"workspace": {"root": str(root)}, "tools": {"deny": [{"tool": "apply_patch", "when": {"path": "x"}}]}}, env={}
    ).belt(replace(OWNER, provider="openai", model="gpt-5"))
    assert (await crib_belt.call("apply_patch", {"input": "nonsense"})).details["code"] == "bad_patch"
    assert "apply_patch" not in belt.tools


class Meanwhile(FakeApprover):
    """A human who says yes, after something has happened."""

    def __init__(self, happen: Callable[[], object]) -> None:
        super().__init__(True)
        self._happen = happen

    async def approve(
        self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str] = MappingProxyType({}), /
    ) -> bool:
        self._happen()
        return await super().approve(caller, call, reason, binding)


async def call_while_asked(root: Path, happen: Callable[[], object], before: Any, after: Any, **more: Any) -> Result:
    """Call `look` under lists that become others, and more happens, while a human is asked."""
    config = root / "toolcrib.json"

    def write(lists: Any) -> Path:
        config.write_text(json.dumps({"workspace": {"root": str(root)}, "tools": lists}))
        return config

    crib = toolcrib.open(write(before), tools=[look], env={})

    def change() -> None:
        write(after)
        crib.settings.reload()
        happen()

    belt = crib.belt(OWNER, approver=Meanwhile(change))
    return await replace(belt, pipeline=replace(belt.pipeline, **more)).call("look", {"path": "link/a.md"})


ASKED = {"ask": ["look"], "deny": [{"tool": "look", "when": {"path": "src/**"}}]}


async def test_a_yes_is_not_for_what_a_link_leads_to_by_then(root: Path) -> None:
    def swap() -> None:
        (root / "b.md").write_text("b")
        (root / "docs" / "a.md").unlink()
        (root / "docs" / "a.md").symlink_to("../b.md")

    assert (await call_while_asked(root, list, ASKED, {**ASKED, "profile": "full"})).plain_text == "docs/a.md"
    result = await call_while_asked(root, swap, ASKED, {**ASKED, "profile": "full"})
    assert (result.status, result.details["code"]) == ("error", "changed")


async def test_a_yes_is_not_for_what_a_guard_makes_of_the_call_afterwards(root: Path) -> None:
    paths = iter(["docs/a.md", "b.md"])

    async def guard(ctx: Ctx, args: Mapping[str, Any]) -> Rewrite:
        return Rewrite({"path": next(paths)})

    guards = bind_guards([Hook(run=guard, name="guard")])
    result = await call_while_asked(root, list, {"ask": ["look"]}, {"ask": ["look"], "profile": "full"}, guards=guards)
    assert (result.status, result.details["code"]) == ("error", "changed")


@pytest.mark.parametrize("after", [{"deny": [DOCS], "ask": ["look"]}, {"deny": [DOCS]}])
async def test_what_is_denied_by_its_arguments_since_the_question_is_denied(root: Path, after: Any) -> None:
    record = MemoryRecord()
    result = await call_while_asked(root, list, {"ask": ["look"]}, after, record=record)
    assert (result.status, result.details["code"]) == ("error", "denied")
    (row,) = [each for each in record.entries if isinstance(each, Judged)]
    assert derive(row) == ""


async def test_a_patch_moves_what_a_link_leads_to_whatever_other_folder_a_rule_is_about(root: Path) -> None:
    lists = {"deny": [{"tool": "group:fs", "when": {"path": "src/**"}}]}
    crib = toolcrib.open({"workspace": {"root": str(root)}, "tools": lists}, env={})
    belt = crib.belt(replace(OWNER, provider="openai", model="gpt-5"))
    patch = "*** Begin Patch\n*** Update File: link/a.md\n*** Move to: b.md\n@@\n-a\n+b\n*** End Patch"
    assert (await belt.call("apply_patch", {"input": patch})).status == "ok"
    assert (root / "b.md").read_text() == "b\n"


@pytest.mark.parametrize(
    ("words", "status"),
    [
        ((Rewrite({"path": "b"}), Rewrite({"path": "b"})), "ok"),
        ((Rewrite({"path": "b"}), Rewrite({"path": "c"})), "error"),
        ((Ask("it runs a file", {"file": "1"}), Ask("it runs a file", {"file": "1"})), "ok"),
        ((Ask("it runs a file", {"file": "1"}), Ask("it runs a file", {"file": "2"})), "error"),
        ((None, Ask("it runs a file", {"file": "2"})), "error"),
    ],
)
async def test_what_a_human_said_yes_to_is_what_runs_also_when_the_settings_changed_meanwhile(
    root: Path, words: tuple[Any, Any], status: str
) -> None:
    said = iter(words)

    async def guard(ctx: Ctx, args: Mapping[str, Any]) -> Any:
        return next(said)

    belt, _ = belt_of(root, ask=["look"])
    seen = iter((belt.selection, replace(belt.selection)))
    guards = bind_guards([Hook(run=guard, name="guard")])
    pipeline = replace(belt.pipeline, approver=FakeApprover(True), guards=guards, rejudge=lambda *_: next(seen))
    result = await replace(belt, pipeline=pipeline).call("look", {"path": "a"})
    assert (result.status, status == "ok" or result.details["code"] == "changed") == (status, True)


@pytest.mark.parametrize(("name", "wanted"), [(n, v[0] if isinstance(v, list) else v) for n, v in SENT.items()])
async def test_a_value_is_judged_as_it_was_written_whatever_type_its_tool_declares(
    root: Path, name: str, wanted: str
) -> None:
    entry = {"tool": "send", "when": {name: wanted}}
    denying, allowing = belt_of(root, deny=[entry])[0], belt_of(root, allow=[entry])[0]
    assert [(await denying.call("send", each)).status for each in (SENT, OTHER)] == ["error", "ok"]
    assert [(await allowing.call("send", each)).status for each in (SENT, OTHER)] == ["ok", "error"]


async def test_a_search_says_nothing_about_what_a_denied_file_holds_and_finds_all_that_is_not_denied(
    root: Path,
) -> None:
    (root / "docs" / "a.md").write_text("a word\n" * 200)
    (root / "z.md").write_text("a word\n")
    for rule in ("deny", "ask"):
        belt, _ = belt_of(root, **{rule: [{"tool": "group:fs", "when": {"path": "docs/**"}}]})
        for args in ({"pattern": "a word"}, {"pattern": "a word", "limit": 1}, {"pattern": "a word", "context": 2}):
            told = await belt.call("grep", args)
            assert (told.details["matches"], told.details["more"], "z.md:1" in told.plain_text) == (1, False, True)
        assert "left out" in told.plain_text
        held, not_held = [await belt.call("grep", {"pattern": each, "glob": "docs/**"}) for each in ("a word", "none")]
        assert (held.details, held.plain_text) == (not_held.details, not_held.plain_text.replace("none", "a word"))
        names = await belt.call("find", {"pattern": "*.md", "limit": 1})
        assert (names.plain_text.split("\n")[0], names.details["more"]) == ("z.md", False)
        there, not_there = [await belt.call("find", {"pattern": each}) for each in ("a*", "b*")]
        assert (there.details, there.plain_text) == (not_there.details, not_there.plain_text)


async def test_a_folder_is_listed_alike_whether_a_rule_is_about_paths_or_not(root: Path) -> None:
    belt, _ = belt_of(root, deny=[{"tool": "ls", "when": {"path": "src/**"}}])
    plain, _ = belt_of(root)
    assert (await belt.call("ls", {})).plain_text == (await plain.call("ls", {})).plain_text == "docs/\nlink/"
