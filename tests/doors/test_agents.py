"""toolcrib agents: what there is, what one is made of, and a yes that is shown before it is kept."""

from pathlib import Path

import pytest

from .world import ask, refused

TEXT = """\
---
name: reviewer
description: Reads a change.
tools: [read, grep]
inputs:
  folder: { type: string, description: where, required: true }
---
Look at ${folder} and ${foldr}, then at ${HOME}.
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of an agent in the workspace."""
    path = tmp_path / "workspace" / ".toolcrib" / "agents" / "reviewer.md"
    path.parent.mkdir(parents=True)
    path.write_text(TEXT)
    return path


def test_every_agent_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask(capsys, "agents", "list")
    assert answer.code == 0
    assert [line.split()[0] for line in answer.out.splitlines()] == ["agent", "codebase_investigator", "generalist"]
    listed = ask(capsys, "agents", "list", "--json").json
    assert [each["name"] for each in listed["agents"]] == ["codebase_investigator", "generalist"]
    assert listed["agents"][0]["tools"] == ["read", "grep", "find", "ls"]
    assert listed["problems"] == []


def test_one_agent_is_shown_whole(capsys: pytest.CaptureFixture[str]) -> None:
    shown = ask(capsys, "agents", "show", "codebase_investigator", "--json").json
    assert shown["inputs"]["required"] == ["objective"]
    assert sorted(shown["output"]["properties"]) == ["locations", "summary", "trace"]
    assert "${max_files}" in shown["prompt"]
    text = ask(capsys, "agents", "show", "codebase_investigator").out
    assert "tools: read, grep, find, ls" in text
    assert "turns: 40   minutes: 10" in text


def test_an_agent_that_is_not_there_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = refused(ask(capsys, "agents", "show", "generalst"))
    assert sentence == "there is no agent 'generalst'; did you mean 'generalist'?"


def test_a_file_is_withheld_accepted_and_withheld_again_when_it_changes(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    before = ask(capsys, "agents", "list")
    assert "reviewer" not in before.out
    assert "nobody has accepted it, so it is not used" in before.err
    accepted = ask(capsys, "agents", "accept", ".toolcrib/agents/reviewer.md")
    assert accepted.code == 0
    assert accepted.out.splitlines() == [
        "reviewer",
        "Reads a change.",
        "tools: read, grep   model: inherit",
        "takes: folder",
        "  Look at ${folder} and ${foldr}, then at ${HOME}.",
    ]
    assert "${foldr} is taken literally, no input is called so; did you mean ${folder}?" in accepted.err
    assert "HOME" not in accepted.err
    after = ask(capsys, "agents", "list")
    assert after.err == ""
    assert "reviewer" in after.out
    file.write_text(TEXT.replace("grep", "exec"))
    changed = ask(capsys, "agents", "list")
    assert "reviewer" not in changed.out
    assert "changed since it was accepted" in changed.err


def test_a_yes_can_be_taken_back_to_what_a_file_is_and_to_what_it_was(
    capsys: pytest.CaptureFixture[str], file: Path
) -> None:
    ask(capsys, "agents", "accept", file)
    file.write_text(TEXT.replace("grep", "find"))
    ask(capsys, "agents", "accept", file)
    assert "reviewer" in ask(capsys, "agents", "list").out
    gone = ask(capsys, "agents", "forget", ".toolcrib/agents/reviewer.md")
    assert (gone.code, gone.out) == (0, "")
    assert gone.err == "toolcrib: .toolcrib/agents/reviewer.md (reviewer) is not accepted any more\n"
    for text in (TEXT, TEXT.replace("grep", "find")):
        file.write_text(text)
        listed = ask(capsys, "agents", "list")
        assert "reviewer" not in listed.out
        assert "nobody has accepted it, so it is not used" in listed.err
    assert "nobody has accepted '.toolcrib/agents/reviewer.md'" in refused(
        ask(capsys, "agents", "forget", ".toolcrib/agents/reviewer.md")
    )


def test_the_yes_to_a_file_that_is_gone_can_be_taken_back(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    ask(capsys, "agents", "accept", file)
    file.unlink()
    assert ask(capsys, "agents", "forget", file).code == 0
    file.write_text(TEXT)
    assert "nobody has accepted it" in ask(capsys, "agents", "list").err


def test_every_command_says_how_it_is_used(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ((), ("list",), ("show",), ("accept",), ("forget",)):
        assert "Examples:\n    toolcrib agents " in ask(capsys, "agents", *words, "--help").out


def test_a_file_that_is_no_agent_is_not_accepted(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(TEXT.replace("tools:", "tols:").replace("string", "date"))
    sentence = refused(ask(capsys, "agents", "accept", file))
    assert sentence == f"{file}:4: nothing is called 'tols' here; write 'tools' (and 1 more)"
    assert "nobody has accepted it" in ask(capsys, "agents", "list").err
    assert "cannot be read (No such file or directory)" in refused(ask(capsys, "agents", "accept", "none.md"))


def test_what_still_stands_in_the_way_of_an_accepted_file_is_told(
    capsys: pytest.CaptureFixture[str], file: Path, tmp_path: Path
) -> None:
    file.write_text(TEXT.replace("grep", "gerp"))
    accepted = ask(capsys, "agents", "accept", ".toolcrib/agents/reviewer.md")
    assert ".toolcrib/agents/reviewer.md:4: there is no tool 'gerp'; did you mean 'grep'?" in accepted.err
    elsewhere = tmp_path / "elsewhere.md"
    elsewhere.write_text(TEXT)
    assert "nobody looks for agents there" in ask(capsys, "agents", "accept", elsewhere).err


def test_a_prompt_cannot_paint_over_what_is_shown(capsys: pytest.CaptureFixture[str], file: Path) -> None:
    file.write_text(TEXT.replace("Look", "\x1b[2J\u202eLook") + "line\n" * 30)
    accepted = ask(capsys, "agents", "accept", file)
    assert "\x1b" not in accepted.out
    assert "\\x1b[2J\\u202eLook" in accepted.out
    assert "lines more" in accepted.out
