"""Programs that are asked about calls: what they say counts, and one that fails blocks."""

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

import toolcrib
from toolcrib import Result, ToolError, tool
from toolcrib.app.sources import open_accepted
from toolcrib.backends.stores.accepted import Accepted, hash_file
from toolcrib.define.errors import ConfigError
from toolcrib.define.plugin import Block, Rewrite
from toolcrib.services.hook_programs import read_printed, read_word
from toolcrib.testing import ScriptedModel

pytestmark = pytest.mark.anyio


@tool(effects={"read"})
async def files__read(path: str) -> str:
    """Read a file."""
    return path


@tool(effects={"read"})
async def files__write() -> str:
    """Do nothing of the kind."""
    return ""


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
        (say({"decision": "ask"}), "read", "tools.hooks[0] wants a human to look at it, and there is nobody"),
        ({"on": "BeforeTool", "run": ["sh", "-c", "echo out; echo 'no way' >&2; exit 2"]}, "read", "no way"),
        ({"on": "BeforeTool", "run": ["sh", "-c", "exit 7"]}, "read", "it ended with exit code 7"),
        ({"on": "BeforeTool", "run": ["no-such-program"]}, "read", "it ended with exit code 127"),
        ({"on": "BeforeTool", "run": ["sleep", "600"], "timeoutSec": 1}, "read", "it was ended"),
        ({"on": "BeforeTool", "run": ["echo", "hello"], "tools": ["effect:read"]}, "read", "no JSON object"),
        ({"on": "BeforeTool", "run": ["sh", "-c", "yes '{}' | head -c 2500000"]}, "read", "more than can be read"),
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
    look = {"on": "BeforeTool", "run": ["sh", "-c", f"cat > {seen}"], "tools": ["Write|read"]}
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
    assert event["cwd"] == str(tmp_path / "w")


async def test_an_optional_one_may_fail_and_others_are_not_asked_about_what_is_not_theirs(tmp_path: Path) -> None:
    hooks: list[dict[str, Any]] = [
        {"on": "before_tool_call", "run": ["false"], "optional": True},
        {"on": "before_tool_call", "run": ["false"], "tools": ["exec", "effect:send"]},
        say({"decision": "approve", "reason": "fine"}),
        say({}, tools=["read"]),
    ]
    assert (await call(tmp_path, hooks, "read", {"path": "a.txt"})).status == "ok"


@pytest.mark.parametrize(
    ("run", "told"),
    [
        ("exit 3", "tools.hooks[0] failed: it ended with exit code 3, so what came of read is withheld"),
        ("echo '{'", "tools.hooks[0] failed"),
        ("exit 2", "tools.hooks[0] is against it"),
        ("echo a secret >&2; exit 2", "a secret"),
    ],
)
async def test_what_came_of_a_call_is_withheld_by_a_program_that_is_against_it_or_fails(
    tmp_path: Path, run: str, told: str
) -> None:
    hook = {"on": "PostToolUse", "run": ["sh", "-c", run]}
    result = await call(tmp_path, [hook], "read", {"path": "a.txt"})
    assert (result.status, told in result.plain_text) == ("error", True), result.plain_text
    if "fail" in told:
        assert (await call(tmp_path, [{**hook, "optional": True}], "read", {"path": "a.txt"})).plain_text == "a"


@pytest.mark.parametrize(
    "said",
    [
        {"decision": "ask"},
        {"hookSpecificOutput": {"updatedInput": {"path": "b.txt"}}},
        {"hookSpecificOutput": {"updatedToolOutput": "[cleared]"}},
    ],
)
async def test_what_is_said_behind_a_call_and_cannot_be_heeded_there_withholds_the_result(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    result = await call(tmp_path, [say(said, on="PostToolUse")], "read", {"path": "a.txt"})
    assert (result.status, "it can say no or add words" in result.plain_text) == ("error", True), result.plain_text


class Address(BaseModel):
    host: str
    key: str = Field(default="x", exclude=True)


@tool(effects={"send"})
async def post(to: Address, tags: frozenset[str]) -> str:
    """Post something."""
    return f"{to.host} {sorted(tags)}"


async def test_it_is_shown_every_argument_as_json_whatever_its_type(tmp_path: Path) -> None:
    event = tmp_path / "event.json"
    answer = {"hookSpecificOutput": {"updatedInput": {"tags": ["z"]}}}
    run = ["sh", "-c", f"cat > {event}; echo '{json.dumps(answer)}'"]
    config = {"workspace": {"root": str(tmp_path)}, "tools": {"hooks": [{"on": "PreToolUse", "run": run}]}}
    async with toolcrib.open(config, state=tmp_path / "state", tools=[post]) as crib:
        sent = {"to": {"host": "a.test", "key": "1"}, "tags": ["b", "a"]}
        assert (await crib.belt(toolcrib.OWNER).call("post", sent)).plain_text == "a.test ['z']"
    assert json.loads(event.read_text())["tool_input"] == {**sent, "tags": ["a", "b"]}


def test_a_program_that_looks_at_results_has_the_time_that_it_was_given(tmp_path: Path) -> None:
    hook = {"on": "PostToolUse", "run": ["true"], "timeoutSec": 60}
    crib = toolcrib.open({"workspace": {"root": str(tmp_path)}, "tools": {"hooks": [hook]}}, env={})
    assert crib.belt(toolcrib.OWNER).pipeline.observers[-1].seconds > 60


async def test_a_name_that_the_configuration_gives_a_tool_is_one_for_hooks_too_and_a_wrong_one_is_told(
    tmp_path: Path,
) -> None:
    hook = {"on": "PreToolUse", "run": ["false"], "tools": ["Lesen", "mcp_read", "raed"]}
    aliases = {"lesen": "read", "mcp_read": "files__read"}
    config = {"workspace": {"root": str(tmp_path)}, "tools": {"hooks": [hook], "aliases": aliases}}
    async with toolcrib.open(config, state=tmp_path / "state", tools=[files__read]) as crib:
        belt = crib.belt(toolcrib.OWNER, extra=[files__write])
        for name in ("lesen", "read", "files__read"):
            assert "it ended with exit code 1" in (await belt.call(name, {"path": "a.txt"})).plain_text
        assert (await belt.call("ls", {})).status == "ok"
        assert (await belt.call("files__write", {})).status == "ok"
        told = {each.origin: each.message for each in crib.lint() if each.kind == "unknown"}
    assert told == {"tools.hooks[0].tools": "'raed' names no tool, group or plugin that exists here"}


@pytest.mark.parametrize(
    "event", ["UserPromptSubmit", "BeforeAgent", "PermissionRequest", "Notification", "BeforeModel"]
)
def test_an_event_about_which_nothing_can_be_said_here_is_refused(event: str) -> None:
    with pytest.raises(ConfigError, match=r"tools\.hooks\[0\]\.on: .*message_received"):
        toolcrib.open({"tools": {"hooks": [{"on": event, "run": ["false"]}]}}, env={})


@pytest.mark.parametrize("run", ["exit 2", "echo '{\"continue\": false}'", 'echo \'{"decision": "deny"}\''])
async def test_a_no_where_nobody_asked_is_logged(tmp_path: Path, run: str, caplog: pytest.LogCaptureFixture) -> None:
    hook = {"on": "message_received", "run": ["sh", "-c", run]}
    config = {"workspace": {"root": str(tmp_path)}, "tools": {"hooks": [hook]}}
    async with toolcrib.open(config, state=tmp_path / "state") as crib:
        end = await crib.turn("hello", caller=toolcrib.OWNER, model=ScriptedModel(["hi"])).end()
    assert end.reason == "done"
    assert "tools.hooks[0] has an answer to message_received, where nothing can be answered" in caplog.text


@tool(effects={"network"})
async def shop__order() -> str:
    """Stand for the tool of a server."""
    return ""


@pytest.mark.parametrize(
    ("entry", "name", "args"),
    [
        ("Glob|Task", "find", {"pattern": "*"}),
        ("MultiEdit", "edit", {"path": "a.txt", "oldText": "a", "newText": "b"}),
        ("WebFetch", "web_fetch", {"url": "http://127.0.0.1:9/"}),
        ("list_directory", "ls", {}),
        ("read_file", "read", {"path": "a.txt"}),
        ("mcp__shop__order", "shop__order", {}),
        ("mcp__shop__*", "shop__order", {}),
    ],
)
async def test_a_tool_is_known_to_hooks_by_what_others_call_it(
    tmp_path: Path, entry: str, name: str, args: dict[str, Any]
) -> None:
    hook = {"on": "PreToolUse", "run": ["sh", "-c", "echo seen >&2; exit 2"], "tools": [entry]}
    config = {"workspace": {"root": str(tmp_path)}, "tools": {"hooks": [hook]}}
    async with toolcrib.open(config, state=tmp_path / "state") as crib:
        belt = crib.belt(toolcrib.OWNER, extra=[shop__order])
        assert (await belt.call(name, args)).plain_text.strip() == "seen"
        assert (await belt.call("session_status", {})).plain_text.strip() != "seen"
        assert [each.message for each in crib.lint(tools=[shop__order]) if each.origin == "tools.hooks[0].tools"] == []


async def test_a_yes_of_a_program_lifts_no_deny(tmp_path: Path) -> None:
    config = {"workspace": {"root": str(tmp_path)}, "tools": {"deny": ["ls"], "hooks": [say({"decision": "allow"})]}}
    async with toolcrib.open(config, state=tmp_path / "state") as crib:
        result = await crib.belt(toolcrib.OWNER).call("ls", {})
    assert result.status == "error"


async def test_a_program_of_the_workspace_runs_once_it_is_accepted_and_only_as_it_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    work = tmp_path / "w"
    work.mkdir()
    (work / "hook.sh").write_text("cat > /dev/null")
    hooks = [{"on": "PreToolUse", "run": ["sh", "hook.sh"]}]
    refused = await call(tmp_path, hooks, "read", {"path": "a.txt"})
    assert "nobody has accepted it" in refused.plain_text
    assert ("nobody has accepted it" in caplog.text, "Traceback" in caplog.text) == (True, False)
    hook = work / "hook.sh"
    yes = Accepted(digest=hash_file(hook.read_bytes()), name="hook.sh", file=str(hook), at=1.5)
    open_accepted({}, tmp_path / "state").accept(yes)
    assert (await call(tmp_path, hooks, "read", {"path": "a.txt"})).status == "ok"
    hook.write_text("exit 2")
    assert "hook.sh" in (await call(tmp_path, hooks, "read", {"path": "a.txt"})).plain_text


def accept(folder: Path, name: str, text: str) -> None:
    """Put a file into the workspace that the owner has accepted."""
    file = folder / "w" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    yes = Accepted(digest=hash_file(file.read_bytes()), name=file.name, file=str(file), at=1.5)
    open_accepted({}, folder / "state").accept(yes)


NO = "import json; print(json.dumps({'decision': 'deny', 'reason': 'as it was accepted'}))"


@pytest.mark.parametrize("host", ["sandbox", "host"])
@pytest.mark.parametrize(
    ("run", "planted"),
    [
        (["python3", "hooks/no.py"], "hooks/json.py"),
        (["sh", "-c", "cat > /dev/null; python3 hooks/no.py"], "hooks/json.py"),
        (["python3", "-c", NO], "json.py"),
        (["python3", "-m", "planted"], "planted.py"),
        (["python3", "planted"], "planted/__main__.py"),
        (["sh", "-c", ". ./planted"], "planted"),
        (["timeout", "9", "./planted"], "planted"),
        (["./hooks/odd"], "planted"),
        (["env", "hooks/odd"], "planted"),
        (["sh", "gone.sh"], "planted"),
        (["sh", "-c", "cd hooks && ./planted"], "hooks/planted"),
        (["sh", "-c", "cd hooks; sh planted.sh"], "hooks/planted.sh"),
        (["sh", "-c", "bash -e planted"], "planted"),
        (["python3", "-Sm", "planted"], "planted.py"),
        (["awk", "-fplanted"], "planted"),
        (["awk", "--file=planted"], "planted"),
    ],
)
async def test_nothing_runs_as_a_hook_that_a_model_could_have_put_there(
    tmp_path: Path, host: str, run: list[str], planted: str
) -> None:
    accept(tmp_path, "hooks/no.py", NO)
    accept(tmp_path, "hooks/odd", "#!./planted\n")
    file = tmp_path / "w" / planted
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("def dumps(said): return '{}'\n" if "json" in planted else "exit\n")
    file.chmod(0o755)
    result = await call(tmp_path, [{"on": "PreToolUse", "run": run, "host": host}], "read", {"path": "a.txt"})
    assert result.status == "error"


@pytest.mark.parametrize("host", ["sandbox", "host"])
@pytest.mark.parametrize(
    "run", [["make", "-s"], ["sh", "-c", "make -s"], ["git", "look"], ["sh", "-c", ". ${PWD}/planted"]], ids=str
)
async def test_no_program_finds_where_it_starts_what_a_model_could_have_put_there(
    tmp_path: Path, host: str, run: list[str]
) -> None:
    (tmp_path / "w" / ".git" / "refs").mkdir(parents=True)
    (tmp_path / "w" / ".git" / "objects").mkdir()
    (tmp_path / "w" / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    (tmp_path / "w" / ".git" / "config").write_text("[alias]\n\tlook = !echo {}\n")
    (tmp_path / "w" / "Makefile").write_text("all:\n\t@echo {}\n")
    (tmp_path / "w" / "planted").write_text("#!/bin/sh\necho {}\n")
    (tmp_path / "w" / "planted").chmod(0o755)
    hook = {"on": "PreToolUse", "run": run, "host": host}
    assert (await call(tmp_path, [hook], "read", {"path": "a.txt"})).status == "error"


@pytest.mark.parametrize("host", ["sandbox", "host"])
async def test_an_accepted_file_that_is_only_read_brings_no_program_back_into_the_workspace(
    tmp_path: Path, host: str
) -> None:
    accept(tmp_path, "terms.jq", "{}")
    (tmp_path / "w" / "Makefile").write_text("all terms.jq:\n\t@touch planted\n.PHONY: all terms.jq\n")
    hook: dict[str, Any] = {"on": "PreToolUse", "run": ["make", "-s", "all", "terms.jq"], "host": host}
    assert (await call(tmp_path, [hook], "read", {"path": "a.txt"})).status == "error"
    assert not (tmp_path / "w" / "planted").exists()
    hook["run"] = ["jq", "-f", "terms.jq"]
    assert (await call(tmp_path, [hook], "read", {"path": "a.txt"})).plain_text == "a"
    hook |= {"run": ["awk", "--file=./terms.jq"]}
    said = await call(tmp_path, [{**hook, "host": host}], "read", {"path": "a.txt"})
    assert "no JSON object" not in said.plain_text
    assert ("a word of its own" in said.plain_text) is (host == "host")


@pytest.mark.parametrize("host", ["sandbox", "host"])
async def test_what_was_accepted_runs_in_the_workspace(tmp_path: Path, host: str) -> None:
    accept(tmp_path, "hook.sh", 'test -f a.txt && echo "{}"')
    hook = {"on": "PreToolUse", "run": ["sh", "hook.sh"], "host": host}
    assert (await call(tmp_path, [hook], "read", {"path": "a.txt"})).status == "ok"


async def test_on_the_bare_host_a_copy_runs_of_what_was_accepted(tmp_path: Path) -> None:
    accept(tmp_path, "hook.sh", """echo "{\\"decision\\": \\"deny\\", \\"reason\\": \\"$0 $1\\"}" """)
    hooks = [{"on": "PreToolUse", "run": ["sh", "hook.sh", "strict"], "host": "host"}]
    told = (await call(tmp_path, hooks, "read", {"path": "a.txt"})).plain_text
    assert told.endswith("/hook.sh strict")
    assert str(tmp_path) not in told


async def test_a_file_of_the_workspace_that_is_called_like_a_word_of_the_command_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    for name in ("sh", "-c"):
        (tmp_path / "w" / name).write_text("anything")
    hooks = [say({}), {"on": "PreToolUse", "run": ["bash", "-ec", "cat > /dev/null; /usr/bin/env true"]}]
    assert (await call(tmp_path, hooks, "read", {"path": "a.txt"})).status == "ok"


def test_what_a_program_printed_is_read_with_its_code() -> None:
    assert read_printed(2, b"", b"") == {"decision": "deny", "reason": ""}
    assert read_printed(2, b'{"reason": "r"}', b"") == {"decision": "deny", "reason": "r"}
    assert read_printed(0, b' "{\\"decision\\": \\"ask\\"}" ', b"noise") == {"decision": "ask"}
    assert read_word({}) is None
    for twice in (
        b'{"decision": "deny", "decision": "allow"}',
        b"{} {}",
        b"\xef\xbb\xbf{}",
        b'{"x": NaN}',
        b'{"x": "\xff"}',
    ):
        with pytest.raises(ToolError):
            read_printed(0, twice, b"")


@pytest.mark.parametrize(
    "said",
    [
        {"decision": "block", "hookSpecificOutput": {"permissionDecision": "allow"}},
        {"decision": "deny", "hookSpecificOutput": {"permissionDecision": None}},
        {"decision": "allow", "hookSpecificOutput": {"permissionDecision": "deny", "updatedInput": {}}},
        {"decision": "allow", "continue": False},
        {"permissionDecision": "deny"},
        {"hookSpecificOutput": {"decision": "deny"}},
    ],
)
def test_of_two_decisions_the_stricter_counts_wherever_it_stands(said: dict[str, Any]) -> None:
    assert isinstance(read_word(said), Block)


@pytest.mark.parametrize(
    "said",
    [
        {"decision": 5},
        {"decision": "ask", "hookSpecificOutput": {"permissionDecision": "perhaps"}},
        {"continue": "false"},
        {"hookSpecificOutput": [{"permissionDecision": "deny"}]},
        {"hookSpecificOutput": []},
        {"hookSpecificOutput": 0},
        {"hookSpecificOutput": {"updatedInput": "x"}},
        {"decision": "ask", "hookSpecificOutput": {"updatedInput": {"path": "b.txt"}}},  # what would be asked about?
    ],
)
def test_an_answer_that_can_be_read_two_ways_is_none(said: dict[str, Any]) -> None:
    with pytest.raises(ToolError):
        read_word(said)


def test_other_arguments_are_found_where_they_may_stand() -> None:
    assert read_word({"hookSpecificOutput": {"updatedInput": None, "tool_input": {"a": 1}}}) == Rewrite({"a": 1})
    assert read_word({"updatedInput": {"a": 1}, "tool_input": {"a": 2}}) == Rewrite({"a": 1})
    assert read_word({"tool_input": {"a": 2}}) is None  # what it was told, given back
