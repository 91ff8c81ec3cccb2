"""toolcrib accept: the owner's yes to what lies in a workspace, listed, taken back, and told wherever it is missing."""

import json
import shutil
from pathlib import Path

import pytest

from .world import ask, crib_file, plugin_folder, refused

Capture = pytest.CaptureFixture[str]
EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (root := tmp_path / "ws").mkdir()
    (root / "gradlew").write_text("#!/bin/sh\necho built\n")
    (root / "gradlew").chmod(0o755)
    monkeypatch.chdir(root)
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "conf"))
    monkeypatch.delenv("TOOLCRIB_CONFIG", raising=False)
    return root


def test_what_is_accepted_is_listed_as_it_stands_and_taken_back(root: Path, tmp_path: Path, capsys: Capture) -> None:
    plugin_folder(root / "plugins")
    answer = ask(capsys, "accept", "./gradlew", "plugins/dice")
    assert (answer.code, answer.err) == (0, "")
    assert [line.split()[1:] for line in answer.out.splitlines()] == [
        ["accepted", str(root / "gradlew")], ["accepted", str(root / "plugins/dice")],
    ]  # fmt: skip
    (root / "gradlew").write_text("#!/bin/sh\n")
    shutil.rmtree(root / "plugins")
    rows = ask(capsys, "accept", "--list", "--json").json["accepted"]
    assert [(Path(row["path"]).name, row["state"]) for row in rows] == [("gradlew", "changed"), ("dice", "gone")]
    assert all(len(row["digest"]) == 64 for row in rows)
    gone = ask(capsys, "accept", "--forget", "gradlew", "plugins/dice", "--json").json["forgotten"]
    assert [row["digest"] for row in gone] == [row["digest"] for row in rows]
    assert (ask(capsys, "accept", "--list").out, [*(tmp_path / "state/agents").iterdir()]) == ("", [])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name what to accept"),
        (["--list", "gradlew"], "name what to accept, or write --list alone"),
        (["nothing"], "nothing cannot be read"),
        (["gradlew", "nothing"], "nothing cannot be read"),
        (["--forget", "gradlew"], "nobody has accepted 'gradlew'"),
        (["/dev/null"], "/dev/null is neither a file nor a folder"),
    ],
)
def test_what_cannot_be_accepted_is_told_in_a_sentence_and_nothing_is(
    words: list[str], said: str, capsys: Capture, tmp_path: Path
) -> None:
    assert said in refused(ask(capsys, "accept", *words))
    assert not (tmp_path / "state").exists()


def test_an_agent_of_a_workspace_is_accepted_by_either_command(root: Path, capsys: Capture) -> None:
    (folder := root / ".toolcrib/agents").mkdir(parents=True)
    (folder / "ours.md").write_text("---\nname: ours\ndescription: d\n---\nDo it.\n")
    assert ask(capsys, "accept", ".toolcrib/agents/ours.md").code == 0
    assert [each["name"] for each in ask(capsys, "agents", "list", "--json").json["agents"]].count("ours") == 1
    assert ask(capsys, "agents", "forget", ".toolcrib/agents/ours.md").code == 0
    assert "nobody has accepted it" in ask(capsys, "agents", "list").err


def test_explain_lint_and_doctor_say_what_to_type(root: Path, tmp_path: Path, capsys: Capture) -> None:
    plugin_folder(root / "plugins")
    (root / "server.py").write_text("")
    config = {
        "plugins": {"folders": [str(root / "plugins")], "allow": ["dice"]},
        "mcpServers": {"srv": {"command": "python3", "args": [str(root / "server.py")]}},
    }
    crib = crib_file(tmp_path, json.dumps(config), "crib.json")
    line = "`toolcrib accept ./plugins/dice`"
    for verb, code in (("explain", 2), ("lint", 2), ("doctor", 1)):
        told = ask(capsys, verb, "--config", crib)
        assert (told.code, line in told.out + told.err) == (code, True), verb
    assert ask(capsys, "accept", "plugins/dice").code == 0
    line = "`toolcrib accept ./server.py`"
    assert line in ask(capsys, "explain", "--config", crib).err
    assert line in ask(capsys, "lint", "--config", crib).out
    health = ask(capsys, "doctor", "--config", crib, "--json").json["checks"]
    assert [each["state"] for each in health if line in each["remedy"]] == ["missing"]
    assert ask(capsys, "accept", "server.py").code == 0
    told = ask(capsys, "explain", "--config", crib)
    assert (told.err, "dice " in told.out) == ("", True)
    assert ask(capsys, "tools", "call", "dice", '{"sides": 3}', "--config", crib).out == "3 sides\n"


def test_explain_of_a_command_says_the_same_as_a_call(tmp_path: Path, capsys: Capture) -> None:
    crib = crib_file(tmp_path, "tools: {exec: {allow: [[./gradlew, test]], examples: {run: [./gradlew test]}}}")
    told = ask(capsys, "exec", "explain", "./gradlew test", "--config", crib, "--json").json
    assert (told["decision"], "`toolcrib accept ./gradlew`" in told["reason"]) == ("ask", True)
    ask(capsys, "accept", "gradlew")
    told = ask(capsys, "exec", "explain", "./gradlew test", "--config", crib, "--json").json
    assert (told["decision"], told["rule"], told["origin"]) == ("run", "allow ./gradlew test", "tools.exec.allow[0]")
    answer = ask(capsys, "tools", "call", "exec", '{"command": "./gradlew test"}', "--config", crib)
    assert answer.out == "built\n"


def test_the_example_that_came_with_us_is_loaded_as_it_came(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(EXAMPLES, tmp_path / "copy", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path / "copy")
    answer = ask(capsys, "tools", "call", "dice", '{"sides": 2}', "--config", "crib.yaml")
    assert (answer.code, answer.err) == (0, "")
    (tmp_path / "copy/shop/more.py").write_text("")
    answer = ask(capsys, "tools", "list", "--config", "crib.yaml")
    assert (answer.code, "`toolcrib accept ./shop`" in answer.err) == (2, True)


def test_the_folder_that_we_are_started_in_is_no_workspace_where_it_is_refused(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    folder = plugin_folder(tmp_path / "conf/toolcrib/plugins")
    crib = crib_file(tmp_path, f"plugins: {{folders: ['{folder}'], allow: [dice]}}")
    assert ask(capsys, "tools", "call", "dice", "{}", "--config", crib).out == "6 sides\n"
    named = crib_file(tmp_path, f"workspace: {{root: '{tmp_path}'}}\nplugins: {{folders: ['{folder}'], allow: [dice]}}")
    assert "nobody has accepted it" in ask(capsys, "tools", "list", "--config", named).err
