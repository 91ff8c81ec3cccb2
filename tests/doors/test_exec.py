"""toolcrib exec explain: how a line is read, each program, the rule about it and the verdict; nothing runs."""

from pathlib import Path

import pytest

from .world import ask, crib_file

Capture = pytest.CaptureFixture[str]

POLICY = """\
tools:
  exec:
    readOnly: [ls, cat]
    allow: [[sh, build.sh]]
    deny: [[curl]]
    examples: { run: ["ls src | cat"], ask: ["ls > x", "$X"], deny: ["env curl x"] }
agents:
  build: { tools: { exec: { security: full } } }
"""


@pytest.fixture
def crib(tmp_path: Path) -> Path:
    return crib_file(tmp_path, POLICY)


def test_a_line_is_shown_with_each_program_the_rule_and_the_verdict(crib: Path, capsys: Capture) -> None:
    answer = ask(capsys, "exec", "explain", "ls src | cat; cp 'a b' c", "--config", crib)
    assert (answer.code, answer.err) == (0, "")
    verdict, _, head, *rows = answer.out.splitlines()
    assert verdict.startswith("ask: 'cp' is ")
    assert head.split() == ["command", "program", "rule", "because"]
    assert [row.split("  ")[0] for row in rows[:3]] == ["ls src", "cat", "cp 'a b' c"]
    assert "readOnly ls" in rows[0]
    assert "tools.exec.readOnly[0]" in rows[0]


def test_the_same_as_one_document(crib: Path, capsys: Capture) -> None:
    document = ask(capsys, "exec", "explain", "env FOO=1 curl x", "--config", crib, "--json").json
    assert list(document) == ["line", "decision", "reason", "rule", "origin", "doubt", "argv", "script", "commands"]
    assert (document["decision"], document["origin"]) == ("deny", "tools.exec.deny[0]")
    assert document["reason"] == "'curl x' never runs (deny has 'curl')"
    assert document["commands"][0]["argv"] == ["env", "FOO=1", "curl", "x"]


def test_an_agents_own_rules_count_for_it(crib: Path, capsys: Capture) -> None:
    document = ask(capsys, "exec", "explain", "cp a b", "--config", crib, "--agent", "Build", "--json").json
    assert (document["decision"], document["origin"]) == ("run", "agents.build.tools.exec.security")
    denied = ask(capsys, "exec", "explain", "curl a", "--config", crib, "--agent", "build", "--json").json
    assert denied["decision"] == "deny"


def test_an_agent_that_is_not_there_is_named(crib: Path, capsys: Capture) -> None:
    answer = ask(capsys, "exec", "explain", "ls", "--config", crib, "--agent", "bild")
    assert answer.code == 2
    assert "there is no agent 'bild' in the configuration; known: build" in answer.err


@pytest.mark.parametrize("line", ["ls \x1b[31m", "echo 'a\nb'", "ls\u202e"])
def test_what_a_terminal_would_act_on_is_shown_escaped(line: str, crib: Path, capsys: Capture) -> None:
    answer = ask(capsys, "exec", "explain", line, "--config", crib)
    assert "\x1b[31m" not in answer.out
    assert "\u202e" not in answer.out


@pytest.mark.parametrize(
    ("examples", "words"),
    [
        (
            'run: ["ls; cp a b"]',
            "tools.exec.examples.run[0]: 'ls; cp a b' is ask, not run: 'cp' is on no list of tools.exec",
        ),
        ('deny: ["curl x", "ls"]', "tools.exec.examples.deny[1]: 'ls' is run, not deny: readOnly ls permits it"),
        ('ask: ["env curl x"]', "tools.exec.examples.ask[0]: 'env curl x' is deny, not ask: 'curl x' never runs"),
    ],
)
def test_an_example_that_comes_out_otherwise_is_an_error_with_its_place(
    examples: str, words: str, tmp_path: Path, capsys: Capture
) -> None:
    policy = f"tools:\n  exec:\n    readOnly: [ls]\n    deny: [[curl]]\n    examples: {{ {examples} }}\n"
    answer = ask(capsys, "exec", "explain", "ls", "--config", crib_file(tmp_path, policy))
    assert answer.code == 2
    assert words in answer.err


def test_examples_of_an_agent_are_judge_with_its_rules(tmp_path: Path, capsys: Capture) -> None:
    policy = "agents: { a: { tools: { exec: { allow: [[ls]], examples: { run: [ls], deny: [id] } } } } }\n"
    answer = ask(capsys, "exec", "explain", "ls", "--config", crib_file(tmp_path, policy))
    assert "agents.a.tools.exec.examples.deny[0]: 'id' is ask, not deny" in answer.err


@pytest.mark.parametrize(("line", "words"), [("git status", "may bring a program"), ("ls", "")])
def test_a_repository_that_is_asked_about_is_explained_as_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture, line: str, words: str
) -> None:
    for name, text in {"HEAD": "ref: refs/heads/main\n", "config": "[diff]\n\texternal = evil\n"}.items():
        (tmp_path / ".git").mkdir(exist_ok=True)
        (tmp_path / ".git" / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    document = ask(capsys, "exec", "explain", line, "--config", crib_file(tmp_path, "tools: {}\n"), "--json").json
    assert (document["decision"], words in document["reason"]) == ("ask" if words else "run", True)
