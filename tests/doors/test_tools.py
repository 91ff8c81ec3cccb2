"""toolcrib tools: what exists, what it takes, and calls through the same gate as a model's."""

from pathlib import Path

import pytest

from .world import ask, crib_file, plugin_folder, refused

Capture = pytest.CaptureFixture[str]

CODE = '''\
import asyncio, sys
from toolcrib import Plugin, Result, ToolError, tool

print("loading")


@tool(effects=set())
def dice(sides: int = 6) -> str:
    """Roll a die."""
    print("rolling")
    return f"{sides} sides"


@tool(effects={"write"})
async def fail(how: str) -> Result:
    """Fail in some way."""
    if how == "told":
        raise ToolError("the disk is full", code="full")
    if how == "error":
        return Result.error("no luck", code="luck")
    raise RuntimeError(how)


plugin = Plugin(name="dice", tools=(dice, fail))
'''
MANIFEST = {
    "tools": [
        {"name": "dice", "description": "Roll a die.", "effects": []},
        {"name": "fail", "description": "Fail in some way.", "effects": ["write"]},
    ]
}


@pytest.fixture
def crib(tmp_path: Path) -> Path:
    folder = plugin_folder(tmp_path / "plugins", CODE, manifest=MANIFEST)
    return crib_file(tmp_path, f"plugins: {{folders: ['{folder}'], allow: [dice]}}\n")


def with_policy(crib: Path, policy: str) -> Path:
    crib.write_text(crib.read_text() + policy)
    return crib


# list and show


def test_list_shows_every_tool_with_its_source(crib: Path, capsys: Capture) -> None:
    answer = ask(capsys, "tools", "list", "--config", crib)
    header, *rows = answer.out.splitlines()
    assert header.split() == ["tool", "group", "kind", "source", "runs", "description"]
    by_name = {row.split()[0]: row.split(maxsplit=5)[1:] for row in rows}
    assert by_name["dice"] == ["-", "think", "plugin:dice", "yes", "Roll a die."]
    assert by_name["exec"][:3] == ["runtime", "execute", "core"]


def test_list_json_is_one_document_whatever_a_plugin_prints(crib: Path, capsys: Capture) -> None:
    answer = ask(capsys, "tools", "list", "--config", crib, "--json")
    assert list(answer.json) == ["tools", "problems"]
    (dice,) = [tool for tool in answer.json["tools"] if tool["name"] == "dice"]
    assert dice == {
        "name": "dice",
        "label": "dice",
        "description": "Roll a die.",
        "group": None,
        "source": "plugin:dice",
        "effects": [],
        "kind": "think",
        "ownerOnly": False,
        "optional": False,
        "requires": [],
        "runs": True,
    }
    assert answer.json["problems"] == []
    assert answer.err == "loading\n"


def test_show_gives_the_parameters(crib: Path, capsys: Capture) -> None:
    answer = ask(capsys, "tools", "show", "DICE", "--config", crib, "--json")
    assert answer.json["parameters"]["properties"]["sides"]["type"] == "integer"
    words = ask(capsys, "tools", "show", "dice", "--config", crib)
    assert words.out.startswith("dice\nRoll a die.\n\ngroup: -   effects: none   source: plugin:dice\n")


def test_show_of_an_unknown_tool_is_bad_input(capsys: Capture) -> None:
    assert refused(ask(capsys, "tools", "show", "exce")) == "there is no tool 'exce'; did you mean exec?"


# call


def test_a_call_prints_the_result_and_nothing_else(crib: Path, capsys: Capture) -> None:
    answer = ask(capsys, "tools", "call", "dice", '{"sides": 20}', "--config", crib)
    assert (answer.code, answer.out) == (0, "20 sides\n")
    assert answer.err == "loading\nrolling\n"


def test_a_call_without_arguments_takes_the_defaults(crib: Path, capsys: Capture) -> None:
    assert ask(capsys, "tools", "call", "dice", "--config", crib).out == "6 sides\n"


def test_call_json_is_one_document_with_the_verdict(crib: Path, capsys: Capture) -> None:
    answer = ask(capsys, "tools", "call", "Dice", "{}", "--config", crib, "--json")
    assert answer.json["status"] == "ok"
    assert answer.json["content"] == [{"type": "text", "text": "6 sides"}]
    assert answer.json["verdict"] == ask(capsys, "explain", "dice", "--config", crib, "--json").json["tools"][0]


def test_a_call_ends_after_the_subagents_that_it_begins(crib: Path, capsys: Capture) -> None:
    spawned = ask(capsys, "tools", "call", "sessions_spawn", '{"task": "say hi"}', "--config", crib, "--json")
    key = spawned.json["details"]["childSessionKey"]
    (row,) = (each for each in ask(capsys, "sessions", "list", "--json").json["sessions"] if each["key"] == key)
    assert row["lines"] == 4  # what it is, the task, the answer and the end


@pytest.mark.parametrize(
    ("name", "args", "code", "words"),
    [
        ("fail", '{"how": "told"}', "full", "the disk is full"),
        ("fail", '{"how": "error"}', "luck", "no luck"),
        ("fail", "{}", "bad_arguments", "fail: how is required"),
        ("dice", '{"sides": "many"}', "bad_arguments", "dice: sides"),
        ("dice", '{"colour": 1}', "bad_arguments", "dice: "),
        ("dcie", "{}", "not_found", "there is no tool 'dcie'; the nearest are dice"),
    ],
)
def test_a_failed_call_leaves_with_1(crib: Path, capsys: Capture, name: str, args: str, code: str, words: str) -> None:
    answer = ask(capsys, "tools", "call", name, args, "--config", crib, "--json")
    assert (answer.code, answer.json["status"], answer.json["details"]["code"]) == (1, "error", code)
    plain = ask(capsys, "tools", "call", name, args, "--config", crib)
    assert (plain.code, plain.out) == (1, "")
    assert plain.err.splitlines()[-1].startswith(words)


def test_a_bug_in_a_tool_is_a_failed_call_and_still_one_document(
    crib: Path, capsys: Capture, caplog: pytest.LogCaptureFixture
) -> None:
    words = '{"how": "first words\\nprivate words"}'
    answer = ask(capsys, "tools", "call", "fail", words, "--config", crib, "--json")
    assert (answer.code, answer.json["details"]["code"]) == (1, "bug")
    assert answer.json["details"]["error"].endswith(": first words")
    assert "private words" not in answer.out
    assert "private words" in caplog.text


@pytest.mark.parametrize("policy", ["tools: {deny: [dice]}", "tools: {allow: [read]}", "tools: {profile: minimal}"])
def test_a_denied_call_leaves_with_1_and_says_why(crib: Path, capsys: Capture, policy: str) -> None:
    answer = ask(capsys, "tools", "call", "dice", "{}", "--config", with_policy(crib, policy), "--json")
    assert (answer.code, answer.json["details"]["code"], answer.json["verdict"]["decision"]) == (1, "denied", "deny")
    assert answer.json["verdict"]["reason"] in answer.json["content"][0]["text"]


def test_a_call_is_judged_for_the_caller_that_was_described(crib: Path, capsys: Capture) -> None:
    with_policy(crib, "channels: {telegram: {groups: {'*': {tools: {deny: [dice]}}}}}")
    assert ask(capsys, "tools", "call", "dice", "--config", crib).code == 0
    answer = ask(capsys, "tools", "call", "dice", "--config", crib, "--channel", "telegram", "--group", "-1")
    assert (answer.code, answer.out) == (1, "")
    assert "denied at the group layer" in answer.err


def test_a_question_without_a_terminal_is_answered_no(crib: Path, capsys: Capture) -> None:
    answer = ask(capsys, "tools", "call", "dice", "--config", with_policy(crib, "tools: {ask: [dice]}"))
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.splitlines()[-1] == "a human is asked for dice (tools.ask), and there is nobody to ask"


@pytest.mark.parametrize(
    "args",
    ["{", "nope", "'{}'", "", "[]", "1", "null", '"text"', '{"a": NaN}', "{a: 1}", "\udcff", "[" * 5000, '{"a": 1} x'],
)
def test_arguments_that_are_no_json_object_are_bad_input(crib: Path, capsys: Capture, args: str) -> None:
    sentence = refused(ask(capsys, "tools", "call", "dice", args, "--config", crib))
    assert sentence.startswith("the arguments ")
    assert """'{"path": "README.md"}'""" in sentence


def test_a_command_in_the_background_ends_with_the_command_line_that_started_it(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crib.yaml").write_text("tools: {exec: {host: host, security: full, ask: 'off'}}")
    args = '{"command": "sleep 600", "background": true}'
    answer = ask(capsys, "tools", "call", "exec", args, "--config", tmp_path / "crib.yaml")
    assert answer.code == 0
    assert "still running as" in answer.out
    assert answer.err == "toolcrib: it has ended with this command line, which was the crib it ran in\n"
