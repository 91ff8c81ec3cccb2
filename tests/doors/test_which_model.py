"""Which model an agent has: every command and a turn give the same answer, whatever keys the environment holds."""

import os
from pathlib import Path
from typing import Any

import pytest
from tests.backends.models.servers import Server, answering

from .talking import Say, talking
from .world import Answer, ask, crib_file

Capture = pytest.CaptureFixture[str]

DONE = Say(text="Done.")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.endswith("_API_KEY"):
            monkeypatch.delenv(name)


def config_for(server: Server, folder: Path, more: str = "") -> Path:
    """A configuration whose providers all answer at that server; only the environment or `more` says which is used."""
    url = f"{{baseUrl: '{server.base_url}'}}"
    models = f"models: {{openai: {url}, anthropic: {url}, small: {url}"
    head, _, rest = more.partition("\n")
    return crib_file(folder, f"{models}, {head}}}\n{rest}\n")


def offered(server: Server) -> set[str]:
    """The tools that the last request told its model about."""
    body = server.asked[-1].body
    return {each.get("function", each)["name"] for each in body["tools"]}


def explained(answer: Any) -> set[str]:
    return {each["tool"] for each in answer.json["tools"] if each["decision"] != "deny"}


@pytest.mark.parametrize(
    ("keys", "more", "options", "model"),
    [
        (("OPENAI",), "", (), "openai:gpt-5"),
        (("ANTHROPIC",), "", (), "anthropic:claude-sonnet-4-5"),
        (("OPENAI",), "default: 'small:one'", (), "small:one"),
        (("OPENAI",), "\nagents: {Main: {model: 'small:two'}}", (), "small:two"),
        (
            "ANTHROPIC_API_KEY",
            "\nagents: {work: {model: 'openai/gpt-5', tools: {}}}",
            ("--agent", "WORK"),
            "openai:gpt-5",
        ),
        (("ANTHROPIC", "OPENAI"), "\nagents: {work: {}}", ("--agent", "work"), "anthropic:claude-sonnet-4-5"),
        (("ANTHROPIC", "OPENAI"), "default: 'small:one'", ("--model", "openai:gpt-5"), "openai:gpt-5"),
    ],
)
def test_explain_speaks_of_the_model_that_a_turn_asks(
    keys: tuple[str, ...],
    more: str,
    options: tuple[str, ...],
    model: str,
    tmp_path: Path,
    capsys: Capture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for key in keys:
        monkeypatch.setenv(f"{key}_API_KEY", "of a test")
    with talking(answering("anthropic" if model.startswith("anthropic") else "openai", DONE)) as server:
        config = config_for(server, tmp_path, more)
        told = ask(capsys, "explain", "--config", config, "--json", *options)
        ran = ask(capsys, "run", "go", "--config", config, *options)
    assert (ran.code, ran.err) == (0, "")
    caller = told.json["caller"]
    assert f"{caller['provider']}:{caller['model']}" == model
    assert server.asked[-1].body["model"] == model.partition(":")[2]
    assert explained(told) >= offered(server)
    assert ("apply_patch" in explained(told)) == ("apply_patch" in offered(server)) == model.startswith("openai")


def test_without_any_key_the_rules_about_the_offline_model_hold(tmp_path: Path, capsys: Capture) -> None:
    Path("notes.txt").write_text("hello\n")
    config = crib_file(tmp_path, "tools: {byProvider: {offline: {deny: [ls]}}}\n")
    told = ask(capsys, "explain", "ls", "--config", config, "--json").json
    assert (told["caller"]["provider"], told["caller"]["model"]) == ("offline", "rules")
    assert told["tools"][0]["layer"] == "global-provider"
    assert "notes.txt" not in ask(capsys, "run", "list the files", "--config", config).out


def test_a_session_that_was_switched_is_explained_with_its_own_model(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of a test")
    with talking(DONE) as server:
        config = config_for(server, tmp_path, "default: 'small:one'\nagents: {other: {model: 'openai:gpt-5'}}")
        session = ("--session", "agent:main:main", "--config", config)
        ask(capsys, "run", "begin", *session)
        switched = ask(capsys, "sessions", "switch", "agent:main:main", "openai:gpt-5", "--config", config)
        assert switched == Answer(0, "", "openai:gpt-5 answers in agent:main:main from the next turn on\n")
        told = ask(capsys, "explain", *session, "--json")
        ask(capsys, "run", "go on", *session)
    assert told.json["caller"]["model"] == server.asked[-1].body["model"] == "gpt-5"
    assert "apply_patch" in explained(told) & offered(server)


def test_lint_expects_of_a_caller_what_a_turn_would_give_it(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = crib_file(tmp_path, "expect: [{has: [apply_patch]}]\n")
    assert "apply_patch" in ask(capsys, "lint", "--config", config).out
    monkeypatch.setenv("OPENAI_API_KEY", "of a test")
    assert "apply_patch" not in ask(capsys, "lint", "--config", config).out


def test_a_call_of_a_tool_is_judged_with_that_model_too(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of a test")
    config = crib_file(tmp_path, "tools: {byProvider: {openai: {deny: [ls]}}}\n")
    called = ask(capsys, "tools", "call", "ls", "--config", config, "--json")
    assert called.json["verdict"]["layer"] == "global-provider"


def test_a_parent_has_its_own_model_and_without_one_the_model_that_was_asked_for(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = crib_file(tmp_path, "agents: {small: {model: 'ollama:tiny'}}\n")
    patch = ("explain", "apply_patch", "--config", config, "--json", "--agent", "helper")

    def decision(*options: str) -> str:
        return str(ask(capsys, *patch, *options).json["tools"][0]["decision"])

    assert decision("--parent", "main") == "deny"  # both are offline
    assert decision("--parent", "main", "--model", "openai:gpt-5") == "allow"
    assert decision("--parent", "small", "--model", "openai:gpt-5") == "deny"
    monkeypatch.setenv("OPENAI_API_KEY", "of a test")
    assert decision("--parent", "main") == "allow"
    assert decision("--parent", "small") == "deny"
