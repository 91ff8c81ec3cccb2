"""Rules from settings: places, globs of whole paths, an agent's over everybody's, trusted folders."""

import pytest

from toolcrib.config.settings import ExecSettings
from toolcrib.policy.command import judge, look_up_in, rules_from
from toolcrib.policy.command.rules import is_asked, stricter_ask, stricter_security

from .rooms import LOOK_UP, rules_of


def settings(**values: object) -> ExecSettings:
    return ExecSettings.model_validate(values, by_alias=True, by_name=False)


@pytest.mark.parametrize(
    ("entry", "line", "decision"),
    [
        (["/opt/tools/*"], "/opt/tools/deploy now", "run"),
        (["/opt/tools/*"], "deploy", "run"),
        (["/opt/**"], "/opt/tools/deploy", "run"),
        (["/opt/tools/d?ploy"], "/opt/tools/deploy", "run"),
        (["/opt/*"], "/opt/tools/deploy", "ask"),
        (["/opt/tools/python3.11"], "/opt/tools/python3x11", "ask"),
        (["/opt/tools/g++"], "/opt/tools/g++", "run"),
        (["/opt/tools/["], "'/opt/tools/['", "run"),
        (["/opt/tools/a|b"], "b", "ask"),
        (["/OPT/tools/deploy"], "/opt/tools/deploy", "ask"),
        (["*"], "deploy", "ask"),
        (["d*"], "deploy", "ask"),
        (["deploy", "now"], "deploy now --fast", "run"),
        (["deploy", "now"], "deploy later", "ask"),
        (["deploy", "now"], "deploy", "ask"),
        (["/opt/tools/**"], "/opt/tools/../../bin/rg", "ask"),
    ],
)
def test_an_entry_permits_what_it_spells(entry: list[str], line: str, decision: str) -> None:
    assert judge(line, rules_of(allow=[entry]), look_up_in(("/opt/tools",))).decision == decision


def test_an_exact_entry_permits_nothing_more() -> None:
    rules = rules_of(allowExact=[["make", "test"]])
    assert [judge(line, rules, LOOK_UP).decision for line in ("make test", "make", "make test x")] == [
        "run",
        "ask",
        "ask",
    ]


def test_an_agent_takes_from_everybody_what_it_does_not_say_and_keeps_every_denial() -> None:
    everybody = rules_from(settings(security="full", allow=[["ls"]], deny=[["curl"]]))
    agent = rules_from(settings(security="allowlist", deny=[["wget"]]), "agents.a.tools.exec", over=everybody)
    assert (agent.security, agent.ask) == ("allowlist", "on-miss")
    assert judge("ls", agent, LOOK_UP).origin == "tools.exec.allow[0]"
    assert judge("curl x", agent, LOOK_UP).origin == "tools.exec.deny[0]"
    assert judge("wget x", agent, LOOK_UP).origin == "agents.a.tools.exec.deny[0]"
    assert judge("cp a b", agent, LOOK_UP).reason == "'cp' is on no list of agents.a.tools.exec"


def test_an_agents_empty_list_permits_nothing() -> None:
    everybody = rules_from(settings(allow=[["ls"]]))
    assert judge("ls", rules_from(settings(allow=[]), over=everybody), LOOK_UP).decision == "ask"


def test_a_program_whose_options_nobody_knows_is_not_read_only() -> None:
    found = judge("deploy", rules_of(readOnly=["deploy"]), LOOK_UP)
    assert found.decision == "ask"
    assert "list what it may be given under allow, not readOnly" in found.reason


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("ls", "/a/ls"),
        ("/b/ls", "/b/ls"),
        ("b/ls", None),
        ("./ls", None),
        ("/a/../b/ls", None),
        ("/c/ls", None),
        ("/a/", None),
        ("", None),
        ("..", None),
        ("/a/..", None),
    ],
)
def test_a_program_is_looked_up_in_trusted_folders_only(name: str, path: str | None) -> None:
    assert look_up_in(("/a", "/b/"))(name) == path


def test_of_two_settings_the_stricter_counts() -> None:
    assert stricter_security("full", "allowlist") == "allowlist"
    assert stricter_ask("off", "always") == "always"
    assert is_asked("allowlist", "on-miss", permitted=False)
    assert not is_asked("full", "on-miss", permitted=False)
    assert not is_asked("allowlist", "off", permitted=False)
    assert is_asked("deny", "always", permitted=True)
