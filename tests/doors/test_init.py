"""toolcrib init: a configuration that works as it is written, for this user alone, and never over another."""

import re
import stat
from pathlib import Path

import pytest
import yaml

import toolcrib
from toolcrib.doors.cli.init import sample_configuration
from toolcrib.policy.command.programs import READERS

from .world import Answer, ask, crib_file, refused

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Where the user's configuration is looked for."""
    return tmp_path / "home" / "toolcrib" / "toolcrib.yaml"


def test_what_it_writes_is_in_force_and_lint_has_nothing_to_complain_about(own: Path, capsys: Capture) -> None:
    answer = ask(capsys, "init")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"wrote {own}; 10 of 10 promises in it hold\n")
    assert max(map(len, answer.out.splitlines()[2:])) <= 80
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    linted = ask(capsys, "lint", "--json")
    assert (linted.code, linted.json) == (0, {"findings": [], "failing": 0})
    told = ask(capsys, "explain", "exec", "--channel", "telegram", "--group", "-1", "--sender", "id:7", "--json")
    assert "deny" in told.out


def test_a_program_gets_one_document(own: Path, capsys: Capture) -> None:
    answer = ask(capsys, "init", "--json")
    assert (answer.code, answer.json) == (0, {"wrote": str(own), "promises": 10, "holding": 10})


def test_the_commands_that_it_says_come_next_are_taken(tmp_path: Path, own: Path, capsys: Capture) -> None:
    """All but chat and gateway, which do not end by themselves."""
    crib = tmp_path / "my own.yaml"
    for words in (["init"], ["init", "--config", str(crib)]):
        lines = [line.strip() for line in ask(capsys, *words).out.splitlines() if line.startswith("  toolcrib ")]
        assert [line.split()[1] for line in lines] == ["lint", "explain", "doctor", "chat", "gateway"]
        for line in lines[:2]:
            args = [word.strip("'") for word in re.findall(r"'[^']*'|\S+", line)][1:]
            assert ask(capsys, *args).code == 0, line
    assert own.exists()
    assert crib.exists()


def test_the_six_situations_stand_in_it_as_promises(tmp_path: Path) -> None:
    text = sample_configuration()
    crib = toolcrib.open(crib_file(tmp_path, text), env={})
    callers = [each.caller for each in crib.config.expect]
    assert len(callers) == 10, "two groups with different uses are one situation, and the family has three"
    for said in ("strangers in a group", "a subagent", "in a container", "a provider", "two groups", "the owner"):
        assert said in text


def test_a_promise_that_is_broken_by_a_change_is_found(tmp_path: Path, capsys: Capture) -> None:
    text = sample_configuration().replace("group:web, session_status]", "group:web, read]")
    answer = ask(capsys, "lint", "--config", crib_file(tmp_path, text), "--json")
    assert answer.code == 1
    assert [finding["kind"] for finding in answer.json["findings"]] == ["expect"]


def test_every_setting_that_is_commented_out_holds_when_the_mark_is_taken_away(tmp_path: Path, capsys: Capture) -> None:
    text, number = re.subn(r"(?m)^# ( *[a-z]+:.*)$", r"\1", sample_configuration())
    assert number >= 8
    crib = toolcrib.open(crib_file(tmp_path, text), env={})
    assert crib.config.models["default"] == "anthropic:claude-sonnet-4-5"
    assert (crib.config.workspace.root, crib.config.limits.turns) == (str(tmp_path), 30)
    assert ask(capsys, "lint", "--config", tmp_path / "crib.yaml").code == 0


@pytest.mark.parametrize("name", ["toolcrib.yaml", "toolcrib.json5", "toolcrib.toml"])
def test_a_configuration_that_is_there_is_left_alone_however_it_is_written(
    own: Path, name: str, capsys: Capture
) -> None:
    own.parent.mkdir()
    there = own.with_name(name)
    there.write_text("")
    assert str(there) in refused(ask(capsys, "init"))
    assert [path.name for path in own.parent.iterdir()] == [name]
    assert there.read_text() == ""


def test_a_file_or_a_dangling_link_is_never_written_over(tmp_path: Path, capsys: Capture) -> None:
    file = crib_file(tmp_path, "tools: {deny: [exec]}")
    link = tmp_path / "link.yaml"
    link.symlink_to(tmp_path / "elsewhere.yaml")
    for path in (file, link):
        assert "overwrites nothing" in refused(ask(capsys, "init", "--config", path))
    assert file.read_text() == "tools: {deny: [exec]}"
    assert not (tmp_path / "elsewhere.yaml").exists()


@pytest.mark.parametrize(
    ("config", "says"),
    [
        ("no/such/folder/crib.yaml", "cannot be written (No such file or directory)"),
        ("crib.json", "should end in .yaml"),
        ("crib", "should end in .yaml"),
        ("", "--config is blank"),
        ("a\nb.yaml", "--config is blank or holds a control character"),
    ],
)
def test_a_place_that_cannot_be_is_refused_in_one_sentence(config: str, says: str, capsys: Capture) -> None:
    assert says in refused(ask(capsys, "init", "--config", config))
    assert list(Path.cwd().iterdir()) == []


def test_a_file_where_the_folder_should_be_is_refused(own: Path, capsys: Capture) -> None:
    own.parent.write_text("in the way")
    assert "cannot be" in refused(ask(capsys, "init"))


def test_the_place_in_the_environment_is_taken_when_nothing_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    path = tmp_path / "named.yaml"
    monkeypatch.setenv("TOOLCRIB_CONFIG", str(path))
    assert ask(capsys, "init").code == 0
    assert path.read_text() == sample_configuration()
    assert "is your configuration already" in refused(ask(capsys, "init"))


def test_the_sample_lists_the_readers_that_are_built_in() -> None:
    document = yaml.safe_load(sample_configuration())
    assert document["tools"]["exec"]["readOnly"] == sorted(READERS)


def test_a_file_for_one_person_asks_about_nothing_more_and_its_promises_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "me.yaml"
    answer = ask(capsys, "init", "--for", "me", "--config", path)
    assert (answer.code, "4 of 4 promises in it hold" in answer.out) == (0, True)
    assert "telegram" not in answer.out
    assert ask(capsys, "lint", "--config", path) == Answer(0, "nothing to complain about\n", "")
    assert "edit is allowed" in ask(capsys, "explain", "edit", "--config", path).out


def test_for_openclaw_it_writes_promises_beside_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = ask(capsys, "init", "--for", "openclaw", "--json")
    assert answer.json == {"wrote": "openclaw.expect.yaml", "promises": 4}
    assert "overwrites nothing" in refused(ask(capsys, "init", "--for", "openclaw"))
    assert "should end in .yaml" in refused(ask(capsys, "init", "--for", "openclaw", "--config", "x.json"))
    assert "'--for'" in refused(ask(capsys, "init", "--for", "you"))
