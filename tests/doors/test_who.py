"""toolcrib who, and the answers of explain and lint about an OpenClaw file: the traps that a security team met."""

import json
from pathlib import Path

import pytest

from .world import Answer, ask, crib_file, refused

Capture = pytest.CaptureFixture[str]

OURS = """\
owners: ["id:1"]
tools: {byProvider: {ollama: {deny: [exec]}}}
agents: {main: {}, desk: {tools: {deny: [exec]}}}
channels:
  telegram:
    direct: {toolsBySender: {"id:5": {allow: ["*"]}}}
    groups:
      "-100": {toolsBySender: {"id:7": {allow: [exec]}, "*": {deny: [exec]}}}
"""
THEIRS = {
    "agents": {
        "defaults": {"sandbox": {"mode": "non-main", "workspaceAccess": "ro"}},
        "list": [{"id": "main"}, {"id": "family", "tools": {"deny": ["exec"]}}],
    },
    "bindings": [{"agentId": "family", "match": {"channel": "whatsapp", "peer": {"kind": "group", "id": "123@g.us"}}}],
    "session": {"dmScope": "per-channel-peer"},
    "channels": {
        "whatsapp": {
            "dmPolicy": "allowlist",
            "allowFrom": ["+1555"],
            "groupPolicy": "open",
            "groupAllowFrom": ["+1555"],
        }
    },
    "tools": {
        "elevated": {"enabled": True, "allowFrom": {"whatsapp": ["+1555"]}},
        "agentToAgent": {"enabled": True},
        "web": {"search": {"apiKey": "${BRAVE_API_KEY}"}},
        "byProvider": {"local": {"profile": "minimal"}, "local/qwen3": {"deny": ["write"]}},
    },
}


@pytest.fixture
def theirs(tmp_path: Path) -> Path:
    return crib_file(tmp_path, json.dumps(THEIRS), "openclaw.json")


def callers_of(answer: Answer) -> dict[tuple[object, ...], str]:
    assert answer.code == 0, answer
    return {
        (
            each["caller"]["agent"],
            each["caller"]["channel"],
            each["caller"]["group"],
            (each["caller"]["sender"] or {}).get("id"),
            tuple(each["caller"]["parents"]),
            each["caller"]["provider"] == "ollama",
            each["caller"]["sandboxed"],
        ): each["decision"]
        for each in answer.json["callers"]
        if each["caller"]["channel"] or each["caller"]["owner"]  # whoever has neither is a guest of a program
    }


def test_everybody_whom_a_file_tells_apart_is_listed_with_the_verdict(tmp_path: Path, capsys: Capture) -> None:
    path = crib_file(tmp_path, OURS)
    found = callers_of(ask(capsys, "who", "exec", "--config", path, "--json"))
    assert found["main", None, None, None, (), False, False] == "allow"
    assert found["desk", None, None, None, (), False, False] == "deny"
    assert found["main", None, None, None, (), True, False] == "deny"
    assert found["main", None, None, None, ("desk",), False, False] == "deny"
    assert found["main", "telegram", None, "5", (), False, False] == "allow"
    assert found["main", "telegram", None, "*", (), False, False] == "deny"
    assert found["main", "telegram", "-100", "7", (), False, False] == "allow"
    assert found["main", "telegram", "-100", "*", (), False, False] == "deny"
    assert found["main", "telegram", "*", "*", (), False, False] == "deny"
    table = ask(capsys, "who", "exec", "--config", path).out
    assert "the owner here, agent desk " in table
    assert "channel telegram, group -100, id:7 " in table
    assert "model ollama" in table


def test_a_tool_that_does_not_exist_is_refused(capsys: Capture) -> None:
    assert "did you mean exec" in refused(ask(capsys, "who", "exce"))


def test_a_group_is_explained_for_the_agent_that_its_binding_names(theirs: Path, capsys: Capture) -> None:
    options = ("--channel", "whatsapp", "--group", "123@g.us", "--sender", "e164:+1555", "--config", theirs)
    answer = ask(capsys, "explain", "exec", *options)
    assert answer.out.startswith("exec is denied at the agent layer: deny has 'exec' (agents.list[1].tools)")
    assert "Not certain: tools.elevated" in answer.out
    document = ask(capsys, "explain", "exec", *options, "--json").json
    assert (document["caller"]["agent"], document["tools"][0]["decision"]) == ("family", "deny")
    assert len(document["uncertain"]) == 1


def test_a_stranger_is_not_let_in_and_a_friend_is_in_the_sandbox(theirs: Path, capsys: Capture) -> None:
    options = ("--channel", "whatsapp", "--config", theirs)
    stranger = ask(capsys, "explain", "write", *options, "--sender", "e164:+1999").out
    assert stranger.startswith("write is denied at the direct layer: allowlist, and this sender is not on the list")
    friend = ask(capsys, "explain", "read", *options, "--sender", "e164:+1555", "--json").json
    assert friend["caller"]["session"] == "agent:main:whatsapp:dm:+1555"
    assert friend["caller"]["sandboxed"] is True


def test_keys_that_decide_about_access_are_warnings_and_the_heaviest_come_first(theirs: Path, capsys: Capture) -> None:
    document = ask(capsys, "lint", "--config", theirs, "--json").json
    found = {each["origin"]: (each["kind"], each["level"]) for each in document["findings"]}
    for key in ("bindings", "tools.elevated"):
        assert found[key] == ("ignored", "warning")
    assert found["channels.whatsapp.groupAllowFrom"] == ("ignored", "note")  # channels follow it
    assert found["tools.byProvider.local/qwen3"] == ("dropped-profile", "warning")
    levels = [each["level"] for each in document["findings"]]
    assert levels == sorted(levels, key=["error", "warning", "note"].index)
    heavy = ask(capsys, "lint", "--config", theirs, "--level", "warning")
    assert (heavy.code, "note" in heavy.out.split()) == (1, False)
    assert heavy.out.splitlines()[-1] == f"{levels.count('warning')} warnings"
    assert ask(capsys, "lint", "--config", theirs, "--level", "error").code == 0


def test_promises_stand_in_a_file_of_their_own(theirs: Path, tmp_path: Path, capsys: Capture) -> None:
    promises = crib_file(
        tmp_path,
        "expect:\n"
        "  - {caller: {channel: whatsapp, group: 123@g.us, sender: 'e164:+1555'}, lacks: [exec]}\n"
        "  - {caller: {channel: whatsapp, sender: 'e164:+1999'}, lacks: ['*']}\n"
        "  - {caller: {}, lacks: [exec]}\n",
        "promises.yaml",
    )
    answer = ask(capsys, "lint", "--config", theirs, "--expect", promises, "--level", "error", "--json")
    assert answer.code == 1
    assert [(each["kind"], each["origin"].rpartition(": ")[2]) for each in answer.json["findings"]] == [
        ("expect", "expect[2]")
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [("expect: []\ntools: {deny: [exec]}", "tools has no place in a file of promises"), ("expct: []", "unknown key")],
)
def test_a_file_of_promises_that_says_more_is_refused(
    tmp_path: Path, capsys: Capture, text: str, sentence: str
) -> None:
    assert sentence in refused(ask(capsys, "lint", "--expect", crib_file(tmp_path, text, "p.yaml")))
    assert "no such file" in refused(ask(capsys, "lint", "--expect", tmp_path / "gone.yaml"))


def test_the_sample_of_promises_is_one(tmp_path: Path, capsys: Capture) -> None:
    theirs = crib_file(tmp_path, json.dumps(THEIRS).replace('"open"', '"allowlist"'), "openclaw.json")
    assert ask(capsys, "init", "--for", "openclaw", "--config", "promises.yaml").code == 0
    answer = ask(capsys, "lint", "--config", theirs, "--expect", "promises.yaml", "--level", "error")
    assert answer == Answer(0, "nothing to complain about\n", "")
