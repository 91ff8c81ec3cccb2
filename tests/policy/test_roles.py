"""Roles: people under one name, wherever a sender is written."""

from typing import Any

import pytest

from toolcrib import Caller, Sender
from toolcrib.define.errors import ConfigError
from toolcrib.policy.resolve import is_among
from toolcrib.policy.settings import PolicySettings

from .conftest import crib_of, unbounded

ROLES = {"family": ["telegram:id:7", "telegram:id:8"], "Kids": ["telegram:id:8", "bob"], "named": ["username:eve"]}


def verdicts(by_sender: dict[str, Any], sender: Sender, group: str | None = "-1") -> tuple[set[str], str | None]:
    """Return the tools of a sender in a chat, and the layer that decides about exec."""
    chat = {"toolsBySender": by_sender}
    channel = {"groups": {"-1": chat}} if group else {"direct": chat}
    belt = crib_of(unbounded({"roles": ROLES, "channels": {"telegram": channel}})).belt(
        Caller(channel="telegram", group=group, sender=sender)
    )
    return set(belt.tools), belt.verdicts["exec"].layer


def test_the_sender_counts_before_the_role_and_the_role_before_everybody() -> None:
    rules = {"id:7": {"allow": ["read"]}, "role:family": {"allow": ["write"]}, "*": {"allow": ["ls"]}}
    assert verdicts(rules, Sender(id="7"))[0] == {"read"}
    assert verdicts(rules, Sender(id="8")) == ({"write"}, "role")
    assert verdicts(rules, Sender(id="9")) == ({"ls"}, "group")


def test_of_several_roles_all_count() -> None:
    rules = {"role:family": {"allow": ["read", "exec"]}, "role:kids": {"deny": ["exec"]}, "*": {}}
    assert verdicts(rules, Sender(id="7")) == ({"read", "exec", "apply_patch"} - {"apply_patch"}, None)
    assert verdicts(rules, Sender(id="8")) == ({"read"}, "role")


def test_a_role_found_by_a_name_that_anyone_can_take_only_narrows() -> None:
    rules = {"role:kids": {"allow": ["read", "exec"]}, "*": {"allow": ["read", "ls"]}}
    assert verdicts(rules, Sender(id="9", username="bob"))[0] == {"read"}
    assert verdicts({"role:named": {"allow": ["read"]}, "*": {"allow": ["ls"]}}, Sender(username="eve"))[0] == {"read"}


def test_a_role_lets_in_by_identity_alone_and_makes_nobody_an_owner() -> None:
    settings = PolicySettings(roles={"family": ("id:7", "username:eve")})
    assert is_among(settings, Caller(sender=Sender(id="7")), ["role:Family"])
    assert not is_among(settings, Caller(sender=Sender(id="1", username="eve")), ["role:family"])
    assert not is_among(settings, Caller(sender=Sender(id="7")), ["role:famly"])
    with pytest.raises(ConfigError, match="a role makes nobody an owner"):
        crib_of({"roles": ROLES, "owners": ["role:family"]})


@pytest.mark.parametrize(
    ("roles", "said"),
    [
        ({"a b": []}, "cannot be a role"),
        ({"a": ["role:b"]}, "no other roles"),
        ({"a": ["*"]}, "no other roles"),
        ({"Kin": ["id:1"], "kin": ["id:2"]}, "is the same role as"),
        ({"a": ["e164:12"]}, "E.164"),
    ],
)
def test_what_is_no_role_is_refused(roles: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        crib_of({"roles": roles})
    assert said in str(error.value)


def test_a_call_that_is_always_allowed_is_one_persons_and_no_roles() -> None:
    entry = {"tool": "write", "args": {}, "channel": "telegram"}
    crib_of({"roles": ROLES, "approvals": {"always": [{**entry, "sender": "id:7"}]}})
    with pytest.raises(ConfigError, match="is no sender"):
        crib_of({"roles": ROLES, "approvals": {"always": [{**entry, "sender": "role:family"}]}})


def test_lint_finds_roles_that_are_empty_unknown_twins_or_worn() -> None:
    channel = {"allowFrom": ["role:friends"], "groups": {"-1": {"toolsBySender": {"role:famly": {"deny": ["exec"]}}}}}
    roles = {"family": ["id:7"], "kin": ["id:7"], "none": [], "named": ["name:Zed"]}
    found = crib_of({"roles": roles, "channels": {"telegram": channel}}).lint()
    told = [(each.kind, each.origin) for each in found if "role" in each.message]
    assert sorted(told) == [
        ("empty", "roles.none"),
        ("shadowed", "roles.kin"),
        ("unknown", "channels.telegram.allowFrom"),
        ("unknown", "channels.telegram.groups.-1.toolsBySender.role:famly"),
        ("worn", "roles.named"),
    ]
