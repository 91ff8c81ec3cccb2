"""The front door: help with examples, one sentence for wrong words, and where the configuration comes from."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from toolcrib import __version__
from toolcrib.doors.cli.main import cli

from .world import ask, crib_file, refused

Capture = pytest.CaptureFixture[str]

DENY_EXEC = "tools: {deny: [exec]}\n"


def decision(capsys: Capture, *options: str | Path) -> tuple[str, str | None]:
    """The verdict on exec and the place it came from."""
    answer = ask(capsys, "explain", "exec", "--json", *options)
    assert answer.code == 0, answer.err
    (verdict,) = answer.json["tools"]
    return verdict["decision"], verdict["origin"]


def test_version_is_one_line(capsys: Capture) -> None:
    answer = ask(capsys, "--version")
    assert (answer.code, answer.out, answer.err) == (0, f"toolcrib {__version__}\n", "")


@pytest.mark.parametrize("flag", ["-h", "--help"])
@pytest.mark.parametrize("command", ["", "explain", "lint", "tools", "tools list", "tools show", "tools call", "tour"])
def test_help_is_everywhere_and_ends_with_examples(capsys: Capture, command: str, flag: str) -> None:
    answer = ask(capsys, *command.split(), flag)
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"Usage: toolcrib {command}".strip())
    _, _, examples = answer.out.partition("Examples:\n")
    assert f"toolcrib {command}".strip() in examples


def commands(group: click.Group, *words: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        each = group.get_command(context, name)
        if isinstance(each, click.Group):
            yield from commands(each, *words, name)
        elif each is not None:
            yield " ".join([*words, name]), each


def test_every_command_takes_a_configuration_and_how_to_read_it() -> None:
    lacking = [
        (name, option)
        for name, each in commands(cli)
        for option in ("--config", "--from")
        if not any(option in parameter.opts for parameter in each.params)
    ]
    assert lacking == []


def test_no_command_shows_the_help_and_is_an_error(capsys: Capture) -> None:
    answer = ask(capsys)
    assert (answer.code, answer.out) == (2, "")
    assert "Commands:" in answer.err


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("explian", "there is no command 'explian'; did you mean 'explain'?"),
        ("frobnicate", "there is no command 'frobnicate'; `toolcrib --help` shows what it takes"),
        ("tools lst", "there is no command 'lst'; did you mean 'list'?"),
        ("explain --sesion k", "there is no option '--sesion'; did you mean '--session'?"),
        ("explain --no-ownr", "there is no option '--no-ownr'; did you mean '--no-owner'?"),
        ("--verison", "there is no option '--verison'; did you mean '--version'?"),
        ("lint --frobnicate", "there is no option '--frobnicate'; `toolcrib lint --help` shows what it takes"),
        ("lint -x", "there is no option '-x'; `toolcrib lint --help` shows what it takes"),
        ("tools call", "missing argument 'NAME'; `toolcrib tools call --help` shows what it takes"),
        ("explain exec read", "got unexpected extra argument (read); `toolcrib explain --help` shows what it takes"),
    ],
)
def test_wrong_words_get_one_sentence_with_the_nearest(capsys: Capture, words: str, sentence: str) -> None:
    assert refused(ask(capsys, *words.split())) == sentence


def test_an_option_without_its_value_is_refused(capsys: Capture) -> None:
    assert "--config" in refused(ask(capsys, "explain", "--config"))
    assert "openclaw" in refused(ask(capsys, "lint", "--from", "openclow"))


def test_tour_shows_eight_callers_and_ends_with_the_next_step(capsys: Capture) -> None:
    answer = ask(capsys, "tour")
    assert (answer.code, answer.err) == (0, "")
    assert [line[:2] for line in answer.out.splitlines() if line[:1].isdigit()] == [f"{n}." for n in range(1, 9)]
    assert "10 expectations hold, 0 findings" in answer.out
    assert "toolcrib lint --config crib.yaml" in answer.out


def test_tour_walks_through_ones_own_rules(capsys: Capture, tmp_path: Path) -> None:
    answer = ask(capsys, "tour", "--config", crib_file(tmp_path, DENY_EXEC))
    assert answer.code == 0
    assert "exec     deny     global  deny has 'exec' (tools)" in answer.out
    assert "ask first" not in answer.out


# Where the configuration comes from


def test_without_a_file_nothing_is_limited(capsys: Capture) -> None:
    assert decision(capsys) == ("allow", None)


def test_config_comes_before_the_environment_and_that_before_the_users_folder(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "home" / "toolcrib").mkdir()
    crib_file(tmp_path / "home" / "toolcrib", "tools: {allow: [read]}", "toolcrib.yml")
    assert decision(capsys) == ("deny", "tools")
    monkeypatch.setenv("TOOLCRIB_CONFIG", str(crib_file(tmp_path, "agents: {main: {tools: {deny: [exec]}}}")))
    assert decision(capsys) == ("deny", "agents.main.tools")
    assert decision(capsys, "--config", crib_file(tmp_path, "{}", "own.json")) == ("allow", None)


@pytest.mark.parametrize("name", ["toolcrib.json5", "toolcrib.json", "toolcrib.yaml", "toolcrib.yml", "toolcrib.toml"])
def test_the_users_folder_may_hold_any_format(tmp_path: Path, capsys: Capture, name: str) -> None:
    (tmp_path / "home" / "toolcrib").mkdir()
    text = "[tools]\ndeny = ['exec']\n" if name.endswith("toml") else '{"tools": {"deny": ["exec"]}}'
    crib_file(tmp_path / "home" / "toolcrib", text, name)
    assert decision(capsys) == ("deny", "tools")


def test_two_files_in_the_users_folder_are_one_too_many(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "home" / "toolcrib"
    folder.mkdir()
    crib_file(folder, DENY_EXEC, "toolcrib.yaml")
    crib_file(folder, "", "toolcrib.toml")
    assert refused(ask(capsys, "explain")) == (
        f"{folder} holds toolcrib.yaml and toolcrib.toml; keep one, or say which with --config"
    )


def test_a_file_that_is_there_and_leads_nowhere_is_not_the_same_as_none(tmp_path: Path, capsys: Capture) -> None:
    folder = tmp_path / "home" / "toolcrib"
    folder.mkdir()
    (folder / "toolcrib.yaml").symlink_to(tmp_path / "unmounted" / "toolcrib.yaml")
    assert "toolcrib.yaml: no such file" in refused(ask(capsys, "explain"))


@pytest.mark.parametrize("name", ["toolcrib.yaml", "toolcrib.json", "openclaw.json", ".toolcrib.yaml", "crib.yaml"])
def test_a_file_in_the_workspace_is_never_read(tmp_path: Path, capsys: Capture, name: str) -> None:
    crib_file(tmp_path / "workspace", "}{ this would be an error", name)
    (tmp_path / "workspace" / "toolcrib").mkdir()
    crib_file(tmp_path / "workspace" / "toolcrib", DENY_EXEC, "toolcrib.yaml")
    assert decision(capsys) == ("allow", None)


def test_no_module_in_the_current_folder_is_imported(tmp_path: Path) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        ran = [sys.executable, "-m", *words]
        return subprocess.run(ran, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

    (tmp_path / "plain.py").write_text("import sys; print(*sys.modules)")
    loaded_by_python = {name.partition(".")[0] for name in run("plain").stdout.split()}
    for name in {"click", "pydantic", "yaml", *sys.stdlib_module_names} - loaded_by_python:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('code of the folder ran')\n")
    ran = run("toolcrib", "explain", "read")
    assert (ran.returncode, "read is allowed" in ran.stdout) == (0, True), ran.stderr


def test_a_missing_file_named_by_the_environment_is_an_error(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOOLCRIB_CONFIG", str(tmp_path / "gone.yaml"))
    assert refused(ask(capsys, "lint")) == f"{tmp_path}/gone.yaml: no such file; create it or name another"


@pytest.mark.parametrize("options", [["--from", "openclaw"], []])
def test_an_openclaw_file_is_known_by_its_name_or_by_word(tmp_path: Path, capsys: Capture, options: list[str]) -> None:
    name = "theirs.json" if options else "openclaw.json"
    crib = crib_file(tmp_path, '{"tools": {"allow": []}, "agents": {"list": [{"id": "x"}]}, "ui": {}}', name)
    assert decision(capsys, "--config", crib, *options) == ("allow", None)
    lint = ask(capsys, "lint", "--config", crib, *options, "--json")
    assert ("ignored", "ui") in {(each["kind"], each["origin"]) for each in lint.json["findings"]}


def test_the_same_file_read_as_our_own_is_stricter(tmp_path: Path, capsys: Capture) -> None:
    assert decision(capsys, "--config", crib_file(tmp_path, '{"tools": {"allow": []}}', "own.json")) == (
        "deny",
        "tools",
    )


def test_of_two_config_options_the_last_counts(tmp_path: Path, capsys: Capture) -> None:
    first, second = crib_file(tmp_path, DENY_EXEC, "a.yaml"), crib_file(tmp_path, "", "b.yaml")
    assert decision(capsys, "--config", first, "--config", second) == ("allow", None)
    assert decision(capsys, "--config", second, "--config", first) == ("deny", "tools")
