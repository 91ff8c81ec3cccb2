"""Programs that are asked about calls: what they say counts, and one that fails blocks."""

import json
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import Result, ToolError
from toolcrib.app.sources import open_accepted
from toolcrib.backends.stores.accepted import Accepted, hash_file
from toolcrib.services.hook_programs import read_printed, read_word

pytestmark = pytest.mark.anyio


async def call(folder: Path, hooks: list[dict[str, Any]], name: str, args: dict[str, Any]) -> Result:
    (folder / "w").mkdir(exist_ok=True)
    for each in "ab":
        (folder / "w" / f"{each}.txt").write_text(each)
    config = {"workspace": {"root": str(folder / "w")}, "tools": {"hooks": hooks}}
    async with toolcrib.open(config, state=folder / "state") as crib:
        return await crib.belt(toolcrib.OWNER).call(name, args)


def say(answer: object, on: str = "PreToolUse", **more: Any) -> dict[str, Any]:
    return {"on": on, "run": ["sh", "-c", f"cat > /dev/null; echo '{json.dumps(answer)}'"], **more}


@pytest.mark.parametrize(
    ("hook", "name", "told"),
    [
        (say({"decision": "block", "reason": "not today"}), "read", "not today"),
        (say({"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "no"}}), "ls", "no"),
        (say({"continue": False, "stopReason": "enough"}), "read", "enough"),
        (say({"decision": "perhaps"}), "read", "'perhaps' is no decision"),
        ({"on": "BeforeTool", "run": ["sh", "-c", "echo out; echo 'no way' >&2; exit 2"]}, "read", "no way"),
        ({"on": "BeforeTool", "run": ["sh", "-c", "exit 7"]}, "read", "it ended with exit code 7"),
        ({"on": "BeforeTool", "run": ["no-such-program"]}, "read", "it ended with exit code 127"),
        ({"on": "BeforeTool", "run": ["sleep", "600"], "timeoutSec": 1}, "read", "it was ended"),
        ({"on": "BeforeTool", "run": ["echo", "hello"], "tools": ["effect:read"]}, "read", "no JSON object"),
    ],
)
async def test_a_program_can_say_no_and_one_that_fails_has(
    tmp_path: Path, hook: dict[str, Any], name: str, told: str
) -> None:
    result = await call(tmp_path, [hook], name, {"path": "a.txt"} if name == "read" else {})
    assert result.status == "error"
    assert told in result.plain_text


async def test_it_is_told_of_the_call_and_may_change_it_and_add_to_what_came_back(tmp_path: Path) -> None:
    seen = tmp_path / "w" / "seen.json"
    look = {"on": "BeforeTool", "run": ["sh", "-c", "cat > seen.json"], "tools": ["Write|read"]}
    other = say({"hookSpecificOutput": {"updatedInput": {"path": "b.txt"}}}, tools=["read"])
    after = say({"hookSpecificOutput": {"additionalContext": "and more"}}, on="PostToolUse", tools=["group:fs"])
    result = await call(tmp_path, [look, other, after], "read", {"path": "a.txt"})
    assert result.plain_text.startswith("b")
    assert result.plain_text.endswith("and more")
    event = json.loads(seen.read_text())
    assert (event["hook_event_name"], event["tool_name"], event["tool_input"]["path"]) == (
        "PreToolUse",
        "read",
        "a.txt",
    )


async def test_an_optional_one_may_fail_and_others_are_not_asked_about_what_is_not_theirs(tmp_path: Path) -> None:
    hooks: list[dict[str, Any]] = [
        {"on": "before_tool_call", "run": ["false"], "optional": True},
        {"on": "before_tool_call", "run": ["false"], "tools": ["exec", "effect:send"]},
        say({"decision": "approve", "reason": "fine"}),
        say({}, tools=["read"]),
    ]
    assert (await call(tmp_path, hooks, "read", {"path": "a.txt"})).status == "ok"


async def test_a_yes_of_a_program_lifts_no_deny(tmp_path: Path) -> None:
    config = {"workspace": {"root": str(tmp_path)}, "tools": {"deny": ["ls"], "hooks": [say({"decision": "allow"})]}}
    async with toolcrib.open(config, state=tmp_path / "state") as crib:
        result = await crib.belt(toolcrib.OWNER).call("ls", {})
    assert result.status == "error"


async def test_a_program_of_the_workspace_runs_once_it_is_accepted_and_only_as_it_is(tmp_path: Path) -> None:
    work = tmp_path / "w"
    work.mkdir()
    (work / "hook.sh").write_text("cat > /dev/null")
    hooks = [{"on": "PreToolUse", "run": ["sh", "hook.sh"]}]
    refused = await call(tmp_path, hooks, "read", {"path": "a.txt"})
    assert "nobody has accepted it" in refused.plain_text
    hook = work / "hook.sh"
    yes = Accepted(digest=hash_file(hook.read_bytes()), name="hook.sh", file=str(hook), at=1.5)
    open_accepted({}, tmp_path / "state").accept(yes)
    assert (await call(tmp_path, hooks, "read", {"path": "a.txt"})).status == "ok"
    hook.write_text("exit 2")
    assert "hook.sh" in (await call(tmp_path, hooks, "read", {"path": "a.txt"})).plain_text


def test_what_a_program_printed_is_read_with_its_code() -> None:
    assert read_printed(2, b"", b"") == {"decision": "deny", "reason": ""}
    assert read_printed(2, b'{"reason": "r"}', b"") == {"decision": "deny", "reason": "r"}
    assert read_printed(0, b' "{\\"decision\\": \\"ask\\"}" ', b"noise") == {"decision": "ask"}
    assert read_word({}) is None
    for wrong in ({"decision": 5}, {"hookSpecificOutput": {"updatedInput": "x"}}):
        with pytest.raises(ToolError):
            read_word(wrong)
