"""What the page asks for besides sessions: policies of anybody, drafts, the record, usage; over a real socket."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

from .world import Client, World, client_of, device, gateway_of

pytestmark = pytest.mark.anyio

GUEST = "dt-1111-dt-1111-dt"
FILE = """\
tools:
  deny: [browser]
  ask:
    - write
channels:
  telegram:
    groups:
      "-100":
        tools:
          allow: [read, ls]
          deny:
            - exec
expect:
  - caller: {channel: telegram, group: "-100", sender: "id:7"}
    has: [read]
    lacks: [exec]
  - caller: {channel: telegram, group: "-100"}
    has: [exec]
"""
STRANGER = {"channel": "telegram", "group": "-100", "sender": "id:7"}


@asynccontextmanager
async def owner_of(tmp_path: Path, text: str = FILE) -> AsyncIterator[tuple[World, Client, Path]]:
    """Yield a gateway with this configuration, its owner, and the file."""
    (file := tmp_path / "crib.yaml").write_text(text)
    async with gateway_of(file, state=tmp_path / "state") as world, client_of(world) as owner:
        yield world, owner, file


def row_of(told: dict[str, Any], tool: str) -> dict[str, Any]:
    return next(each for each in told["tools"] if each["tool"] == tool)


async def test_every_tool_of_a_chosen_caller_is_explained_with_the_line_that_decides(tmp_path: Path) -> None:
    async with owner_of(tmp_path) as (_, owner, file):
        told = await owner.get("policy.explain", {"who": STRANGER})
        assert (told["caller"]["channel"], told["caller"]["owner"]) == ("telegram", False)
        found = {name: row_of(told, name) for name in ("read", "exec", "browser", "edit")}
        assert {name: each["decision"] for name, each in found.items()} == {
            "read": "allow", "exec": "deny", "browser": "deny", "edit": "deny",
        }  # fmt: skip
        places = {
            name: each["place"] and (each["place"]["line"], each["place"]["path"]) for name, each in found.items()
        }
        group = "channels.telegram.groups.-100.tools"
        assert places["exec"] == (12, f"{group}.deny[0]")
        assert places["browser"] == (2, "tools.deny[0]")
        assert places["edit"] == (10, f"{group}.allow")
        assert found["exec"]["place"]["file"] == str(file)
        steps = {each["layer"]: each for each in found["exec"]["steps"]}
        assert (steps["group"]["decision"], steps["group"]["place"]["line"]) == ("deny", 12)
        assert steps["global"]["decision"] == "allow"
        only = await owner.get("policy.explain", {"who": STRANGER, "tool": "exec"})
        assert only["tools"] == [found["exec"]]


async def test_without_a_caller_it_is_the_owner_here_and_parents_and_sandboxes_count(tmp_path: Path) -> None:
    async with owner_of(tmp_path) as (_, owner, _):
        mine = await owner.get("policy.explain")
        assert (mine["caller"]["owner"], row_of(mine, "write")["decision"]) == (True, "ask")
        inner = await owner.get("policy.explain", {"who": {"parents": ["main"], "sandboxed": True, "agent": "kid"}})
        assert inner["caller"]["parents"] == ["main"]
        assert {each["layer"] for each in row_of(inner, "exec")["steps"]} >= {"sandbox", "subagent"}


@pytest.mark.parametrize(
    ("who", "sentence"),
    [
        ({"chanel": "x"}, "chanel"),
        ({"sender": "role:x"}, "role"),
        ({"sender": 7}, "sender"),
        ({"parents": 7}, "parents"),
        ({"sandboxed": "yes"}, "sandboxed"),
    ],
)
async def test_a_caller_that_is_none_is_refused_with_the_key(tmp_path: Path, who: Any, sentence: str) -> None:
    async with owner_of(tmp_path) as (_, owner, _):
        code, told = await owner.refusal("policy.explain", {"who": who})
        assert (code, sentence in told) == ("INVALID_REQUEST", True), told


async def test_a_draft_is_compared_for_chosen_callers_and_for_all_and_changes_nothing(tmp_path: Path) -> None:
    draft = FILE.replace("allow: [read, ls]", "allow: [read, ls, exec]").replace(
        "            - exec\n", "            - ls\n"
    )
    async with owner_of(tmp_path) as (_, owner, file):
        told = await owner.get("policy.diff", {"raw": draft, "callers": [STRANGER]})
        assert {(each["tool"], each["before"], each["after"]) for each in told["changes"]} == {
            ("exec", "deny", "allow"), ("ls", "allow", "deny"),
        }  # fmt: skip
        assert {each["caller"]["sender"]["id"] for each in told["changes"]} == {"7"}
        whole = await owner.get("policy.diff", {"raw": draft})
        assert {each["tool"] for each in whole["changes"]} >= {"exec", "ls"}
        assert (await owner.get("policy.diff", {"raw": FILE}))["changes"] == []
        patch = {"raw": '{"tools": {"deny": ["browser", "read"]}}', "merges": True, "callers": [STRANGER]}
        assert [each["tool"] for each in (await owner.get("policy.diff", patch))["changes"]] == ["read"]
        hosts = {"raw": '{"tools": {"hosts": {"deny": ["a.example"]}}}', "merges": True}
        told = await owner.get("policy.diff", hosts)
        assert (told["changes"], told["beside"]) == ([], ["tools.hosts"])
        there = await owner.get("policy.explain", {"who": STRANGER, "tool": "exec", "raw": draft})
        assert there["tools"][0]["decision"] == "allow"
        assert file.read_text() == FILE
        assert [each.name for each in file.parent.iterdir() if "crib" in each.name] == ["crib.yaml"]
        assert row_of(await owner.get("policy.explain", {"who": STRANGER}), "exec")["decision"] == "deny"


async def test_what_is_expected_holds_or_not_with_the_reason_and_the_line(tmp_path: Path) -> None:
    async with owner_of(tmp_path) as (_, owner, _):
        told = await owner.get("policy.test")
        assert ([each["holds"] for each in told["entries"]], told["failing"]) == ([True, False], 1)
        broken = told["entries"][1]
        assert (broken["place"]["line"], broken["promises"][0]["decision"]) == (17, "deny")
        assert "exec" in broken["promises"][0]["reason"]
        mended = FILE.replace("    has: [exec]", "    has: [read]")
        assert (await owner.get("policy.test", {"raw": mended}))["failing"] == 0


async def test_a_draft_is_linted_and_what_cannot_count_is_said_with_its_line(tmp_path: Path) -> None:
    async with owner_of(tmp_path) as (_, owner, file):
        told = await owner.get("policy.lint", {"raw": FILE.replace("[browser]", "[browsr]")})
        unknown = next(each for each in told["findings"] if each["kind"] == "unknown")
        assert (told["valid"], "browsr" in unknown["message"], unknown["place"]["file"]) == (True, True, str(file))
        told = await owner.get("policy.lint", {"raw": FILE.replace("  deny: [browser]", "  deney: [browser]")})
        (issue,) = told["issues"]
        assert (told["valid"], issue["line"], issue["file"], "deney" in issue["path"]) == (False, 2, str(file), True)
        told = await owner.get("policy.lint", {"raw": "tools: ["})
        assert (told["valid"], told["findings"]) == (False, [])
        _, sentence = await owner.refusal("policy.diff", {"raw": "tools: {deny: 7}"})
        assert "crib.yaml:1" in sentence


async def test_a_gateway_without_a_file_compares_drafts_all_the_same() -> None:
    async with gateway_of({"tools": {"deny": ["browser"]}}) as world, client_of(world) as owner:
        told = await owner.get("policy.diff", {"raw": "{tools: {deny: ['browser', 'exec']}}", "callers": [{}]})
        assert [(each["tool"], each["after"]) for each in told["changes"]] == [("exec", "deny")]


async def test_the_callers_that_the_file_tells_apart_are_listed(tmp_path: Path) -> None:
    async with owner_of(tmp_path) as (_, owner, _):
        told = (await owner.get("policy.callers"))["callers"]
        assert any(each["group"] == "-100" for each in told)
        assert any(each["sender"] and each["sender"]["id"] == "7" for each in told)


async def test_a_guest_is_told_nothing_of_others(tmp_path: Path) -> None:
    devices = [device("phone", GUEST, "operator.write", "operator.approvals", "operator.pairing")]
    async with (
        gateway_of({}, state=tmp_path / "state", devices=devices) as world,
        client_of(world) as owner,
        client_of(world, GUEST) as guest,
    ):
        await owner.get("agent", {"message": "hello", "sessionKey": "a", "idempotencyKey": "1"})
        await owner.wait_for("chat", runId="1", state="final")
        asked: dict[str, dict[str, Any]] = {
            "policy.explain": {}, "policy.diff": {"raw": ""}, "policy.test": {}, "policy.lint": {},
            "policy.callers": {}, "audit.search": {}, "audit.replay": {"row": 1}, "sessions.branch": {"key": "main"},
            "page.code": {}, "config.get": {},
        }  # fmt: skip
        for method, params in asked.items():
            assert await guest.refusal(method, params) == ("INVALID_REQUEST", "missing scope: operator.admin"), method
        told = await guest.get("usage.report")
        assert (told["totals"], told["models"], told["callers"]) == ({}, [], [])
        assert (await guest.get("status"))["sessions"] == {"count": 0, "recent": [], "running": []}


async def call(owner: Client, tool: str, **args: Any) -> None:
    await owner.ask("tools.call", {"tool": tool, "args": args})


async def test_the_record_is_searched_in_pages_and_by_words(tmp_path: Path) -> None:
    async with owner_of(tmp_path, "tools: {deny: [browser]}\n") as (_, owner, _):
        for at in range(5):
            await call(owner, "read", path=f"note-{at}.txt")
        await call(owner, "browser", action="status")
        told = await owner.get("audit.search", {"tool": "read", "limit": 2})
        pages = [[each["args"]["path"] for each in told["calls"]]]
        while told["next"]:
            told = await owner.get("audit.search", {"tool": "read", "limit": 2, "before": told["next"]})
            pages.append([each["args"]["path"] for each in told["calls"]])
            assert {each["outcome"] for each in told["calls"]} <= {"error"}  # also of those at the edge of a page
        assert [each for page in pages for each in page] == [f"note-{at}.txt" for at in (4, 3, 2, 1, 0)]
        (found,) = (await owner.get("audit.search", {"text": "NOTE-3"}))["calls"]
        assert (found["tool"], found["decision"], found["outcome"]) == ("read", "allow", "error")
        (denied,) = (await owner.get("audit.search", {"decision": "deny"}))["calls"]
        assert denied["tool"] == "browser"
        assert (await owner.get("audit.search", {"since": 1e11})) == {"calls": [], "next": None}


async def test_a_recorded_call_is_judged_by_the_rules_of_now(tmp_path: Path) -> None:
    async with owner_of(tmp_path, "tools: {deny: [browser]}\n") as (_, owner, _):
        await call(owner, "ls")
        (row,) = (await owner.get("audit.search", {"tool": "ls"}))["calls"]
        same = await owner.get("audit.replay", {"row": row["row"]})
        assert (same["differs"], same["recorded"], same["now"]["decision"]) == ([], row, "allow")
        hash = (await owner.get("config.get"))["hash"]
        await owner.get("config.apply", {"raw": "tools:\n  deny: [ls]\n", "baseHash": hash})
        told = await owner.get("audit.replay", {"row": row["row"]})
        assert (told["recorded"]["decision"], told["now"]["decision"]) == ("allow", "deny")
        assert (told["now"]["place"]["line"], "decision" in told["differs"]) == (2, True)
        code, sentence = await owner.refusal("audit.replay", {"row": 100_000})
        assert (code, "decides no call" in sentence) == ("INVALID_REQUEST", True)


async def test_usage_is_told_by_day_model_tool_and_speaker(tmp_path: Path) -> None:
    async with gateway_of({}, state=tmp_path / "state") as world, client_of(world) as owner:
        await owner.get("agent", {"message": "list the files", "sessionKey": "a", "idempotencyKey": "1"})
        await owner.wait_for("chat", runId="1", state="final")
        told = await owner.get("usage.report", {"days": 7})
        assert (told["totals"]["turns"], [each["turns"] for each in told["daily"]]) == (1, [1])
        assert ([each["tool"] for each in told["tools"]], told["tools"][0]["calls"]) == (["ls"], 1)
        (model,) = told["models"]
        assert "offline" in model["model"]
        (speaker,) = told["callers"]
        assert (speaker["caller"]["owner"], speaker["turns"]) == (True, 1)


async def test_a_session_goes_on_in_a_branch_from_before_a_question(tmp_path: Path) -> None:
    async with gateway_of({}, state=tmp_path / "state") as world, client_of(world) as owner:
        for at, words in enumerate(("hello", "list the files")):
            await owner.get("agent", {"message": words, "sessionKey": "a", "idempotencyKey": f"{at}"})
            await owner.wait_for("chat", runId=f"{at}", state="final")
        messages = (await owner.get("chat.history", {"sessionKey": "a"}))["messages"]
        second = [at for at, each in enumerate(messages) if each["role"] == "user"][1]
        made = await owner.get("sessions.branch", {"key": "a", "before": second})
        assert made["key"].startswith(f"{made['from']}:thread:branch-")
        kept = (await owner.get("chat.history", {"sessionKey": made["key"]}))["messages"]
        assert kept == messages[:second]
        whole = await owner.get("sessions.branch", {"key": "a"})
        await owner.get("agent", {"message": "hello", "sessionKey": whole["key"], "idempotencyKey": "9"})
        await owner.wait_for("chat", runId="9", state="final")
        assert (await owner.get("chat.history", {"sessionKey": "a"}))["messages"] == messages
        for wrong in (1, 999):  # an answer, and nothing
            _, sentence = await owner.refusal("sessions.branch", {"key": "a", "before": wrong})
            assert "is no question" in sentence


async def test_jobs_tell_their_next_runs_for_a_calendar() -> None:
    async with gateway_of({}) as world, client_of(world) as owner:
        for name, schedule in (
            ("daily", {"kind": "cron", "expr": "0 7 * * *", "tz": "UTC"}),
            ("off", {"kind": "every", "everyMs": 60_000}),
        ):
            await owner.get("cron.add", {
                "name": name, "schedule": schedule, "enabled": name == "daily",
                "sessionTarget": "isolated", "payload": {"kind": "agentTurn", "message": "hello"},
            })  # fmt: skip
        jobs = (await owner.get("cron.list", {"includeDisabled": True, "upcoming": 5}))["jobs"]
        times = {each["name"]: each["state"]["upcomingMs"] for each in jobs}
        assert (len(times["daily"]), times["off"]) == (5, [])
        assert {later - sooner for sooner, later in zip(times["daily"], times["daily"][1:], strict=False)} == {
            86_400_000
        }
        assert all("upcomingMs" not in each["state"] for each in (await owner.get("cron.list"))["jobs"])


async def test_of_many_jobs_fewer_runs_are_told() -> None:
    minute = {"kind": "every", "everyMs": 60_000}
    job = {"schedule": minute, "sessionTarget": "isolated", "payload": {"kind": "agentTurn", "message": "hello"}}
    async with gateway_of({}) as world, client_of(world) as owner:
        for at in range(21):
            await owner.get("cron.add", {"name": f"job {at}", **job})
        jobs = (await owner.get("cron.list", {"upcoming": 200}))["jobs"]
        assert {len(each["state"]["upcomingMs"]) for each in jobs} == {2_000 // 21}
