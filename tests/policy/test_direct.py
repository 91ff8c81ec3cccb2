"""Direct messages: a guest has what a rule for direct messages says, and without one no more than `messaging`."""

from dataclasses import replace
from typing import Any

import pytest

from toolcrib import Caller, Sender
from toolcrib.config.load import load
from toolcrib.policy.lint import scopes_of

from .conftest import crib_of

GUEST = Sender(id="7", username="bob")
MESSAGING = {"message", "tts", "sessions_list", "sessions_send", "session_status"}


def direct(**rules: Any) -> dict[str, Any]:
    return {"channels": {"telegram": {"direct": rules}}}


def tools_of(config: dict[str, Any], **caller: Any) -> set[str]:
    return set(crib_of(config).belt(Caller(**{"channel": "telegram", "sender": GUEST, **caller})).tools)


@pytest.mark.parametrize(
    "caller",
    [
        {},
        {"sender": None},
        {"owner": False},
        {"session": "agent:main:main"},
        {"session": "agent:main:telegram:group:-1"},  # a word in a key widens nothing
        {"channel": None, "session": "agent:main:telegram:dm:7"},
        {"channel": None, "session": "Agent:main:telegram:work:DM:7"},
        {"channel": None, "session": "agent:main:dm:7"},
        {"channel": None, "session": "agent:main:telegram:direct:7:thread:1"},
        {"channel": None, "session": "agent:main:subagent:1", "parents": ("agent:main:telegram:dm:7",)},
    ],
)
def test_a_guest_whom_no_rule_names_has_no_more_than_messaging(caller: dict[str, Any]) -> None:
    assert tools_of({}, **caller) <= MESSAGING
    assert tools_of({"tools": {"profile": "full", "allow": ["*"]}}, **caller) <= MESSAGING


@pytest.mark.parametrize("caller", [{"owner": True}, {"sender": Sender(id="1")}, {"group": "-1"}, {"channel": None}])
def test_the_owner_a_group_and_a_program_of_ones_own_are_no_guests(caller: dict[str, Any]) -> None:
    assert {"read", "exec"} <= tools_of({"owners": ["id:1"]}, **caller)


def test_the_verdict_says_why_and_what_would_change_it() -> None:
    belt = crib_of({}).belt(Caller(channel="telegram", sender=GUEST))
    verdict = belt.verdicts["exec"]
    assert (verdict.decision, verdict.layer, verdict.origin) == ("deny", "direct", "default")
    assert "whom no rule names" in verdict.reason
    assert "channels.telegram.direct.toolsBySender" in (verdict.remedy or "")
    assert [step.decision for step in belt.selection.steps("exec") if step.layer == "direct"] == ["deny"]


@pytest.mark.parametrize(
    ("rules", "has", "lacks"),
    [
        ({"toolsBySender": {"id:7": {"deny": ["exec"]}}}, {"read", "write"}, {"exec"}),
        ({"toolsBySender": {"username:bob": {"allow": ["read"]}}}, {"read"}, {"exec", "message"}),
        ({"toolsBySender": {"bob": {"allow": ["read", "message"]}}}, {"message"}, {"read", "exec"}),
        ({"toolsBySender": {"id:8": {"allow": ["exec"]}}}, {"message"}, {"read", "exec"}),
        ({"toolsBySender": {"*": {"allow": ["read"]}}}, {"read"}, {"exec", "message"}),
        ({"toolsBySender": {"*": {"deny": ["tts"]}}}, {"message"}, {"read", "exec", "tts"}),
        ({"tools": {"allow": ["read", "ls"]}}, {"read", "ls"}, {"exec"}),
        ({"tools": {"deny": ["tts"]}}, {"message"}, {"read", "exec", "tts"}),
        ({"tools": {"allow": ["read"]}, "toolsBySender": {"7": {"allow": ["ls"]}}}, {"ls"}, {"read", "exec"}),
    ],
)
def test_a_rule_for_direct_messages_says_what_its_guests_have(
    rules: dict[str, Any], has: set[str], lacks: set[str]
) -> None:
    held = tools_of(direct(**rules))
    assert has <= held
    assert not lacks & held


def test_a_rule_for_direct_messages_says_nothing_of_groups_and_other_channels() -> None:
    rules = direct(tools={"allow": ["read"]})
    assert "exec" in tools_of(rules, group="-1")
    assert tools_of(rules, channel="slack") <= MESSAGING


def test_a_rule_for_direct_messages_holds_for_the_owner_too_as_one_for_a_group_does() -> None:
    rules = direct(tools={"deny": ["exec"]})
    held = tools_of(rules, owner=True)
    assert "read" in held
    assert "exec" not in held


def test_lint_reads_the_rules_for_direct_messages() -> None:
    origins = {scope.origin for scope in scopes_of(load(direct(tools={"deny": ["exe"]}), {}).policy)}
    assert "channels.telegram.direct.tools" in origins


def test_a_sender_may_be_called_like_a_setting() -> None:
    config = direct(toolsBySender={"default": {"allow": ["read"]}})
    verdict = crib_of(config).belt(Caller(channel="telegram", sender=Sender(id="default"))).verdicts["exec"]
    assert verdict.reason == "not in allow (channels.telegram.direct.toolsBySender.default)"


def test_whoever_writes_directly_by_their_word_and_by_their_key_is_bound_by_both() -> None:
    config = {"channels": {"slack": {"direct": {"tools": {"allow": ["*"]}}}, "telegram": {"direct": {}}}}
    caller = Caller(channel="slack", sender=Sender(id="7"))
    assert "read" in crib_of(config).belt(caller).tools
    assert "read" not in crib_of(config).belt(replace(caller, session="agent:main:telegram:dm:7")).tools
