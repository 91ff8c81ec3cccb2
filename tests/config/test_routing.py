"""Where an OpenClaw file sends a caller and whether it lets them in; what is not certain is said."""

from typing import Any

import pytest

from toolcrib.config.load import load
from toolcrib.config.routing import Route, list_bound_groups, route_caller
from toolcrib.define.caller import Caller, Sender

FAMILY = {"kind": "group", "id": "123@g.us"}
FILE: dict[str, Any] = {
    "agents": {"list": [{"id": "main"}, {"id": "family"}, {"id": "work"}, {"id": "ann"}]},
    "bindings": [
        {"agentId": "work", "match": {"channel": "whatsapp", "accountId": "biz"}},
        {"agentId": "ann", "match": {"channel": "whatsapp", "peer": {"kind": "dm", "id": "+1555"}}},
        {"agentId": "family", "match": {"channel": "whatsapp", "peer": FAMILY}},
        {"agentId": "work", "match": {"channel": "discord", "guildId": "77"}},
    ],
}


def routed(config: dict[str, Any], **caller: Any) -> Route:
    return route_caller(load(config, {}, openclaw=True).document, Caller(**caller))


@pytest.mark.parametrize(
    ("caller", "agent"),
    [
        ({"channel": "whatsapp", "group": "123@g.us"}, "family"),
        ({"channel": "WhatsApp", "group": "123@G.US"}, "family"),
        ({"channel": "whatsapp", "group": "9@g.us"}, "main"),
        ({"channel": "whatsapp", "sender": Sender(e164="+1555")}, "ann"),
        ({"channel": "whatsapp", "sender": Sender(e164="+1666")}, "main"),
        ({"channel": "whatsapp", "account": "biz", "sender": Sender(e164="+1666")}, "work"),
        ({"channel": "discord", "group": "77/general"}, "work"),
        ({"channel": "discord", "group": "78/general"}, "main"),
        ({"channel": "whatsapp", "group": "123@g.us", "agent": "ann"}, "ann"),
        ({}, None),
    ],
)
def test_a_binding_chooses_the_agent(caller: dict[str, Any], agent: str | None) -> None:
    assert routed(FILE, **caller).caller.agent == agent


def test_without_a_binding_it_is_the_default_agent() -> None:
    two = {"agents": {"list": [{"id": "a"}, {"id": "b", "default": True}]}}
    assert routed(two, channel="slack", group="c").caller.agent == "b"
    assert routed({"agents": {"list": [{"id": "a"}]}}, channel="slack", group="c").caller.agent == "a"


def test_a_binding_by_something_unknown_is_not_certain() -> None:
    match = {"channel": "discord", "guildId": "77", "roles": ["mods"]}
    route = routed({"bindings": [{"agentId": "x", "match": match}]}, channel="discord", group="77/a")
    assert [why for why in route.list_doubts() if "bindings[0] depends on roles" in why]


@pytest.mark.parametrize(
    ("scope", "session"),
    [
        ("main", None),
        ("per-peer", "agent:main:dm:+1666"),
        ("per-channel-peer", "agent:main:whatsapp:dm:+1666"),
        ("per-account-channel-peer", "agent:main:whatsapp:default:dm:+1666"),
    ],
)
def test_dm_scope_gives_a_sender_a_session_of_their_own(scope: str, session: str | None) -> None:
    config = {**FILE, "session": {"dmScope": scope}}
    assert routed(config, channel="whatsapp", sender=Sender(e164="+1666")).caller.session == session
    assert routed(config, channel="whatsapp", group="g", sender=Sender(e164="+1666")).caller.session is None


ANN, BOB = Sender(e164="+1555"), Sender(e164="+1999")


@pytest.mark.parametrize(
    ("channel", "group", "sender", "is_in", "is_certain"),
    [
        ({"dmPolicy": "allowlist", "allowFrom": ["+1555"]}, None, ANN, True, True),
        ({"dmPolicy": "allowlist", "allowFrom": ["+1555"]}, None, BOB, False, True),
        ({"dmPolicy": "allowlist", "allowFrom": ["+1555"]}, None, None, True, False),
        ({"dmPolicy": "open", "allowFrom": ["*"]}, None, BOB, True, True),
        ({"dmPolicy": "disabled"}, None, ANN, False, True),
        ({"dm": {"policy": "disabled"}}, None, ANN, False, True),
        ({}, None, BOB, True, False),  # pairing
        ({"groupPolicy": "disabled"}, "g", ANN, False, True),
        ({"groupPolicy": "open"}, "g", BOB, True, True),
        ({}, "g", BOB, True, False),
        ({"groupPolicy": None, "groups": {"g": {}}}, "g", BOB, True, False),
        ({"groupPolicy": "allowlist", "groupAllowFrom": ["+1555"]}, "g", ANN, True, True),
        ({"groupPolicy": "allowlist", "groupAllowFrom": ["+1555"]}, "g", BOB, False, True),
        ({"groupPolicy": "allowlist", "allowFrom": ["whatsapp:+1555"]}, "g", ANN, True, True),
        ({"allowFrom": ["+1555"]}, "g", BOB, True, False),
        ({"dmPolicy": "open", "accounts": {"default": {"dmPolicy": "disabled"}}}, None, ANN, False, True),
    ],
)
def test_whom_a_channel_lets_in(
    channel: dict[str, Any], group: str | None, sender: Sender | None, is_in: bool, is_certain: bool
) -> None:
    route = routed({"channels": {"whatsapp": channel}}, channel="whatsapp", group=group, sender=sender)
    assert (route.refusal is None, not route.doubts) == (is_in, is_certain), route


def test_elevated_is_a_doubt_about_its_own_tool() -> None:
    tools = {"elevated": {"allowFrom": {"whatsapp": ["+1555"]}}}
    config = {"tools": tools, "channels": {"whatsapp": {"dmPolicy": "open"}}}
    route = routed(config, channel="whatsapp", sender=ANN)
    assert [len(route.list_doubts(tool)) for tool in ("exec", "read", "")] == [1, 0, 1]
    assert routed(config, channel="whatsapp", sender=BOB).list_doubts("exec") == ()


def test_groups_of_bindings_are_known() -> None:
    assert list_bound_groups(load(FILE, {}, openclaw=True).document, "whatsapp") == ["123@g.us"]


@pytest.mark.parametrize("odd", [{"bindings": "x"}, {"bindings": [1, {"match": []}]}, {"agents": {"list": []}}])
def test_odd_shapes_send_nobody_anywhere(odd: dict[str, Any]) -> None:
    assert routed(odd, channel="whatsapp", sender=ANN).caller.agent == "main"
