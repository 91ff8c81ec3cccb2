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
    everybody = rules_from(settings(allow=[["cp"]]))
    assert judge("cp a b", rules_from(settings(allow=[]), over=everybody), LOOK_UP).decision == "ask"


@pytest.mark.parametrize(
    ("written", "line", "decision"),
    [
        ({}, "ls -la src && git log -3 | head", "run"),
        ({}, "rg TODO; wc -l a; cat a; git status; git diff; git show", "run"),
        ({"readOnly": []}, "ls", "ask"),
        ({"readOnly": ["cat"]}, "cat a", "run"),
        ({"readOnly": ["cat"]}, "ls", "ask"),
        ({"host": "host"}, "ls", "ask"),
        ({"host": "host", "readOnly": ["ls"]}, "ls", "run"),
        ({"deny": [["cat"]]}, "cat a", "deny"),
        ({"deny": [["git", "log"]]}, "git log", "deny"),
        ({"safeBins": ["grep"]}, "grep x a", "ask"),
        ({"safeBins": ["grep"]}, "cat a | grep x", "run"),
        ({"ask": "always"}, "ls", "ask"),
        ({"security": "deny"}, "ls", "deny"),
        ({}, "cat /etc/passwd", "ask"),
        ({}, "sed -i s/a/b/ a", "ask"),
        ({}, "cp a b", "ask"),
        ({}, "git push", "ask"),
    ],
)
def test_what_only_reads_runs_unasked_where_no_list_says_otherwise(
    written: dict[str, object], line: str, decision: str
) -> None:
    found = judge(line, rules_of(**written), LOOK_UP)
    assert found.decision == decision, found.reason
    assert found.origin == "default" or decision != "run" or "readOnly" in written or "safeBins" in written


@pytest.mark.parametrize(
    ("everybodys", "agents", "decision"),
    [
        ({}, {}, "run"),
        ({}, {"host": "host"}, "ask"),
        ({"host": "host"}, {"host": "sandbox"}, "run"),
        ({"host": "host"}, {}, "ask"),
        ({"readOnly": []}, {}, "ask"),
        ({"readOnly": ["ls"]}, {"readOnly": []}, "ask"),
        ({}, {"deny": [["ls"]]}, "deny"),
    ],
)
def test_an_agent_has_the_built_in_readers_as_everybody_and_it_may_say_otherwise(
    everybodys: dict[str, object], agents: dict[str, object], decision: str
) -> None:
    rules = rules_from(settings(**agents), "agents.a.tools.exec", over=rules_from(settings(**everybodys)))
    assert judge("ls", rules, LOOK_UP).decision == decision


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
