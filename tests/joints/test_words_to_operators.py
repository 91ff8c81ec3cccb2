"""What an operator is told is true as it stands: what is written by it holds, and nobody is taken for somebody else."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.doors.world import ask, crib_file
from toolcrib.policy.lint import Finding

Capture = pytest.CaptureFixture[str]


def lint(config: dict[str, Any]) -> list[Finding]:
    return toolcrib.open(config, env={}).lint()


# guests have this, and this is written in the chat
GUESTS: list[tuple[Any, dict[str, Any]]] = [
    ("messaging", {}),
    (["messaging", "web_search"], {}),
    (["messaging", "group:web"], {}),
    (["effect:read", "effect:network"], {"deny": ["exec"]}),
    (["ls"], {"alsoAllow": ["ls"]}),
    (["ls"], {"alsoAllow": ["ls", "read"]}),
    ("messaging", {"alsoAllow": [{"tool": "write", "when": {"path": "notes/**"}}]}),
]


@pytest.mark.parametrize(("guests", "chat"), GUESTS)
def test_what_would_lift_the_bound_of_guests_can_be_written_and_gives_what_it_says(
    guests: Any, chat: dict[str, Any]
) -> None:
    def config(chat: dict[str, Any]) -> dict[str, Any]:
        return {"tools": {"guests": guests}, "channels": {"telegram": {"groups": {"-1": {"tools": chat}}}}}

    def had(chat: dict[str, Any]) -> set[str]:
        caller = toolcrib.Caller(channel="telegram", group="-1", sender=toolcrib.Sender(id="7"))
        return set(toolcrib.open(config(chat), env={}).belt(caller).tools)

    (finding,) = (each for each in lint(config(chat)) if each.kind == "guests")
    read = re.match(
        r"to give (.+?)(?: \(.*\))? besides, write (.+)\.allow: \[(.+)\]( in the place .*)?$", finding.remedy
    )
    assert read is not None, finding
    given, place, allow = read[1].split(", "), read[2], read[3].split(", ")
    assert place == "channels.telegram.groups.-1.tools"
    assert len(allow) == len(set(allow)), finding
    kept = {key: value for key, value in chat.items() if not (read[4] and key == "alsoAllow")}
    after = {**kept, "allow": allow}
    assert had(after) - had(chat) == set(given), finding
    assert not [each for each in lint(config(after)) if each.kind in ("guests", "shadowed")]


@pytest.mark.parametrize("entry", ["*", "*_search", "group:web", "web_*"])
def test_the_list_that_is_printed_can_be_written_into_a_file_as_it_stands(entry: str, tmp_path: Path) -> None:
    chat = {"channels": {"telegram": {"groups": {"-1": {"tools": {"alsoAllow": [entry]}}}}}}
    (finding,) = (each for each in lint(chat) if each.kind == "guests")
    allow = finding.remedy.partition(".allow: ")[2].partition(" in the place")[0]
    path = crib_file(tmp_path, f"channels: {{telegram: {{groups: {{'-1': {{tools: {{allow: {allow}}}}}}}}}}}")
    caller = toolcrib.Caller(channel="telegram", group="-1", sender=toolcrib.Sender(id="7"))
    assert {"web_search", "message"} <= set(toolcrib.open(path, env={}).belt(caller).tools)


@pytest.mark.parametrize("key", ["allow", "deny"])
@pytest.mark.parametrize("entry", ["group:plugins", "Group:Plugins"])
def test_a_group_that_is_known_and_holds_nothing_is_not_called_unknown(key: str, entry: str) -> None:
    (finding,) = (each for each in lint({"tools": {key: ["ls", entry]}}) if each.kind == "unknown")
    assert finding.message == f"{entry!r} holds no tool here"
    assert "did you mean" not in finding.remedy


def test_a_proof_and_a_comparison_call_an_owner_in_a_chat_the_owner(tmp_path: Path, capsys: Capture) -> None:
    bounded: dict[str, Any] = {"channels": {"telegram": {"groups": {"-1": {"tools": {"allow": ["message"]}}}}}}
    path = crib_file(tmp_path, json.dumps(bounded), "old.json")
    never = ("policy", "prove", "--never", "exec", "--channel", "telegram", "--config", path)
    assert ask(capsys, *never, "--except", "owner").out.startswith("It holds")
    assert "It does not hold. the owner, agent main, channel telegram, id:*: exec is allow" in ask(capsys, *never).out
    owned = crib_file(tmp_path, json.dumps({**bounded, "owners": ["telegram:id:9"]}), "new.json")
    rows = [row for row in ask(capsys, "policy", "diff", path, owned).out.splitlines() if "id:9" in row]
    assert rows
    assert all(row.startswith("the owner, agent main, channel telegram") for row in rows)


def test_a_list_of_servers_says_of_one_that_was_left_out_why_and_not_that_there_is_none(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    work = tmp_path / "work"
    work.mkdir()
    (work / "serve.py").write_text("")
    server = {"command": "python3", "args": [str(work / "serve.py")]}
    config = {"workspace": {"root": str(work)}, "mcpServers": {"notes": server}}
    listed = ask(capsys, "mcp", "list", "--config", crib_file(tmp_path, json.dumps(config)))
    assert listed.code == 1
    assert "the MCP server 'notes' was left out" in listed.err
    assert "no mcpServers" not in listed.out
