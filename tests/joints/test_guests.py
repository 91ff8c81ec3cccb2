"""What somebody may have: whoever is not the owner has the default of guests, until a rule of their chat gives more."""

from dataclasses import replace
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Caller, ConfigError, Plugin, Sender, tool

GUEST = Sender(id="7", username="bob", name="Bob")
MESSAGING = {"message", "sessions_list", "sessions_send", "session_status"}
DIRECT, GROUP = Caller(channel="telegram", sender=GUEST), Caller(channel="telegram", group="-100", sender=GUEST)
Config = dict[str, Any]


@tool(effects={"read"})
def price(item: str) -> str:
    """Return the price of an item.

    Args:
        item: What it is.
    """
    return item


def tools_of(config: Config, caller: Caller, **more: Any) -> set[str]:
    return set(toolcrib.open(config, env={}).belt(caller, **more).tools)


def chats(**rules: Any) -> Config:
    """The same rules for direct messages and for one group."""
    return {"channels": {"telegram": {"direct": rules, "groups": {"-100": rules}}}}


@pytest.mark.parametrize(
    "caller",
    [
        Caller(),
        Caller(owner=False),
        Caller(sender=Sender(id="7")),
        Caller(session="agent:main:main"),
        DIRECT,
        GROUP,
        replace(DIRECT, sender=None),
        replace(DIRECT, sender=Sender(id="")),
        replace(DIRECT, session="agent:main:main"),
        replace(GROUP, group=""),
        replace(GROUP, channel=""),
        replace(GROUP, channel=None),
        Caller(channel="discord", group="77/55", sender=Sender(id="8")),
        Caller(channel="device", sender=Sender(id="phone"), owner=False),
        Caller(channel="hook", sender=Sender(id="hook:mail"), owner=False),
        Caller(channel="app", sender=Sender(id="ann")),
        Caller(session="agent:main:subagent:1", parents=("agent:main:telegram:dm:7",)),
        replace(GROUP, agent="dev", parents=("main",)),
    ],
)
@pytest.mark.parametrize(
    "config",
    [
        {},
        {"tools": {"profile": "full", "allow": ["*"]}, "agents": {"dev": {"tools": {"allow": ["*"]}}}},
        {"tools": {"profile": "coding", "alsoAllow": ["group:web"], "subagents": {"mode": "own"}}},
        {"channels": {"telegram": {"dmPolicy": "open", "allowFrom": ["*"], "groups": {"-100": {}, "*": {}}}}},
    ],
)
def test_a_guest_to_whom_no_rule_of_a_chat_gives_anything_has_messaging(caller: Caller, config: Config) -> None:
    assert tools_of(config, caller) <= MESSAGING


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"tools": {}},
        {"tools": {"deny": ["exec"]}},
        {"tools": {"ask": ["exec"]}},
        {"tools": {"alsoAllow": ["exec", "read"]}},
        {"toolsBySender": {"id:7": {}}},
        {"toolsBySender": {"id:7": {"deny": ["exec"]}}},
        {"toolsBySender": {"id:7": {"alsoAllow": ["exec"]}}},
        {"toolsBySender": {"id:8": {"allow": ["*"]}}},
        {"toolsBySender": {"*": {"deny": ["tts"]}}},
        {"toolsBySender": {"bob": {"allow": ["*"]}}},
        {"toolsBySender": {"username:bob": {"allow": ["*"]}}},
        {"toolsBySender": {"name:Bob": {"profile": "full"}}},
        {"toolsBySender": {"role:kin": {"deny": ["exec"]}}},
        {"toolsBySender": {"role:named": {"allow": ["*"]}}},
        {"toolsBySender": {"role:typed": {"allow": ["*"]}}},
        {"toolsBySender": {"role:kin": {"allow": ["*"]}, "role:typed": {"deny": ["tts"]}}},
        {"toolsBySender": {"id:7": {"deny": ["tts"]}}, "tools": {"allow": ["*"]}},
    ],
)
@pytest.mark.parametrize("caller", [DIRECT, GROUP])
def test_what_takes_away_or_anybody_can_claim_lifts_nothing(rules: Config, caller: Caller) -> None:
    roles = {"kin": ["telegram:id:7"], "named": ["bob"], "typed": ["username:bob"]}
    assert tools_of({**chats(**rules), "roles": roles}, caller) <= MESSAGING


@pytest.mark.parametrize(
    ("rules", "has", "lacks"),
    [
        ({"tools": {"allow": ["read", "exec"]}}, {"read", "exec"}, {"write", "message"}),
        ({"tools": {"profile": "coding"}}, {"read", "exec"}, {"message", "browser"}),
        ({"tools": {"profile": "coding", "alsoAllow": ["message"]}}, {"read", "message"}, {"browser"}),
        ({"tools": {"profile": "full", "deny": ["exec"]}}, {"read", "browser"}, {"exec"}),
        ({"toolsBySender": {"*": {"allow": ["read"]}}}, {"read"}, {"exec", "message"}),
        ({"toolsBySender": {"id:7": {"allow": ["read"]}}}, {"read"}, {"exec", "message"}),
        ({"toolsBySender": {"telegram:id:7": {"profile": "minimal"}}}, {"session_status"}, {"read", "message"}),
        ({"toolsBySender": {"7": {"allow": ["ls"]}}, "tools": {"allow": ["read"]}}, {"ls"}, {"read", "exec"}),
        ({"toolsBySender": {"role:kin": {"allow": ["ls"]}}}, {"ls"}, {"read", "message"}),
        ({"toolsBySender": {"bob": {"allow": ["ls", "exec"]}, "*": {"allow": ["ls"]}}}, {"ls"}, {"exec", "message"}),
        ({"tools": {"allow": [{"tool": "read", "when": {"path": "docs/**"}}]}}, {"read"}, {"exec", "message"}),
    ],
)
@pytest.mark.parametrize("caller", [DIRECT, GROUP])
def test_an_allow_or_a_profile_of_the_chat_says_what_its_guests_have(
    rules: Config, has: set[str], lacks: set[str], caller: Caller
) -> None:
    held = tools_of({**chats(**rules), "roles": {"kin": ["telegram:id:7"]}}, caller)
    assert has <= held
    assert not lacks & held


def test_a_rule_of_one_chat_says_nothing_of_another() -> None:
    rules: Config = {"channels": {"telegram": {"direct": {"tools": {"allow": ["*"]}}}}}
    assert "exec" in tools_of(rules, DIRECT)
    for other in (GROUP, replace(DIRECT, channel="slack"), Caller(sender=GUEST)):
        assert tools_of(rules, other) <= MESSAGING


@pytest.mark.parametrize(
    "key", ["agent:main:telegram:dm:7", "Agent:main:telegram:DM:7", "agent:main:telegram:group:-100"]
)
def test_a_word_in_a_session_key_lifts_nothing_and_may_narrow(key: str) -> None:
    assert tools_of(chats(tools={"allow": ["*"]}), Caller(session=key, sender=GUEST)) <= MESSAGING
    beside = {"channels": {"slack": {"direct": {"tools": {"allow": ["*"]}}}}}
    caller = Caller(channel="slack", sender=GUEST)
    assert "read" in tools_of(beside, caller)
    assert tools_of(beside, replace(caller, session=key)) <= MESSAGING


@pytest.mark.parametrize("room", ["agent:main:discord:channel:2", "agent:main:discord:channel:1/2"])
def test_another_room_that_a_session_key_names_lifts_nothing(room: str) -> None:
    config = {"channels": {"discord": {"groups": {"1/2": {"tools": {"allow": ["exec"]}}}}}}
    there = Caller(channel="discord", group="1/2", sender=GUEST)
    assert tools_of(config, there) == tools_of(config, replace(there, session=room)) == {"exec"}
    assert tools_of(config, replace(there, group="1/3", session=room)) <= MESSAGING
    keyed = replace(GROUP, group="", session="agent:main:telegram:group:-100")
    assert tools_of(chats(tools={"allow": ["exec"]}), keyed) <= MESSAGING


def test_what_a_guest_begins_has_what_the_guest_has_and_no_more() -> None:
    config = chats(tools={"allow": ["read", "exec", "sessions_spawn"]})
    child = replace(GROUP, session="agent:main:subagent:1", parents=("agent:main:telegram:group:-100",))
    assert tools_of(config, child) == {"read", "exec"}
    assert tools_of({}, child) <= MESSAGING


def test_plugins_and_servers_are_bounded_and_what_a_program_hands_over_is_not() -> None:
    shop = Plugin(name="shop", tools=(price,))
    assert "price" in set(toolcrib.open({}, plugins=[shop], env={}).belt(OWNER).tools)
    assert "price" not in set(toolcrib.open({}, plugins=[shop], env={}).belt(Caller()).tools)
    for caller in (Caller(), GROUP, DIRECT):
        assert "price" in set(toolcrib.open({}, tools=[price], env={}).belt(caller).tools)
        assert "price" in tools_of({}, caller, extra=[price])
        assert "price" not in tools_of({"tools": {"deny": ["price"]}}, caller, extra=[price])
    assert "price" not in tools_of(chats(tools={"allow": ["read"]}), GROUP, extra=[price])


@pytest.mark.parametrize(
    ("guests", "has", "lacks"),
    [
        ("messaging", {"message"}, {"read", "image"}),
        ("minimal", {"session_status"}, {"message", "read"}),
        ("full", {"read", "exec", "browser"}, set()),
        (["messaging", "web_search"], {"message", "web_search"}, {"read", "web_fetch"}),
        (["coding"], {"read", "exec"}, {"message"}),
        (["minimal", "full"], {"exec"}, set()),
        ([], set(), {"message", "session_status", "read"}),
        ([{"tool": "read", "when": {"path": "docs/**"}}], {"read"}, {"message", "ls"}),
    ],
)
def test_one_key_turns_the_default_round(guests: Any, has: set[str], lacks: set[str]) -> None:
    for caller in (Caller(), DIRECT, GROUP):
        held = tools_of({"tools": {"guests": guests}}, caller)
        assert has <= held
        assert not lacks & held
    assert "exec" in tools_of({"tools": {"guests": guests}}, OWNER)


@pytest.mark.parametrize(
    "config",
    [
        {"tools": {"guests": "coding"}},
        {"tools": {"guests": ["group:x y"]}},
        {"agents": {"dev": {"tools": {"guests": []}}}},
    ],
)
def test_a_default_that_cannot_be_read_or_stands_elsewhere_is_an_error(config: Config) -> None:
    with pytest.raises(ConfigError, match="guests"):
        toolcrib.open(config, env={})


@pytest.mark.parametrize(
    "caller", [OWNER, Caller(channel="telegram", sender=Sender(id="1")), replace(GROUP, owner=True)]
)
def test_the_owner_is_no_guest_anywhere(caller: Caller) -> None:
    assert {"read", "exec"} <= tools_of({"owners": ["telegram:id:1"], **chats()}, caller)


def test_the_verdict_names_the_layer_and_the_place_that_could_give() -> None:
    belt = toolcrib.open({}, env={}).belt(GROUP)
    verdict = belt.verdicts["exec"]
    assert (verdict.decision, verdict.layer, verdict.rule, verdict.origin) == (
        "deny",
        "guests",
        "messaging",
        "tools.guests",
    )
    assert "channels.telegram.groups.-100.tools" in (verdict.remedy or "")
    assert [step.decision for step in belt.selection.steps("exec") if step.layer == "guests"] == ["deny"]


def lint_of(config: Config) -> list[tuple[str, str, str]]:
    found = toolcrib.open(config, env={}).lint()
    return [(each.level, each.origin, each.remedy) for each in found if each.kind == "guests"]


def test_lint_warns_of_full_and_prints_the_allow_that_would_give() -> None:
    assert [level for level, _, _ in lint_of({"tools": {"guests": "full"}})] == ["warning"]
    ((level, origin, remedy),) = lint_of({"channels": {"telegram": {"direct": {"tools": {"alsoAllow": ["exec"]}}}}})
    assert (level, origin) == ("note", "channels.telegram.direct.tools")
    allow = "[group:messaging, sessions_list, sessions_send, session_status, exec]"
    assert f"channels.telegram.direct.tools.allow: {allow}" in remedy
    assert lint_of({"owners": ["telegram:id:1"], **chats(toolsBySender={"id:1": {}, "*": {"allow": ["read"]}})}) == []


LET_IN = {"botToken": "1:a", "allowFrom": ["id:7"]}
TOLD = ("note", "channels.telegram.direct")


@pytest.mark.parametrize(
    ("channel", "told"),
    [
        ({**LET_IN}, [TOLD]),
        ({**LET_IN, "dmPolicy": "allowlist"}, [TOLD]),
        ({"botToken": "1:a", "dmPolicy": "pairing"}, [TOLD]),
        ({"botToken": "1:a", "dmPolicy": "open"}, [TOLD]),
        ({"allowFrom": ["role:kin"]}, [TOLD]),
        ({"botToken": "1:a"}, []),
        ({**LET_IN, "dmPolicy": "disabled"}, []),
        ({**LET_IN, "enabled": False}, []),
        ({**LET_IN, "allowFrom": ["id:1"], "dmPolicy": "allowlist"}, []),  # the owner
        ({**LET_IN, "direct": {"tools": {"allow": ["read"]}}}, []),
    ],
)
def test_lint_tells_where_people_are_let_in_and_nothing_says_what_they_may_have(
    channel: Config, told: list[tuple[str, str]]
) -> None:
    config = {"owners": ["telegram:id:1"], "roles": {"kin": ["telegram:id:7"]}, "channels": {"telegram": channel}}
    found = lint_of(config)
    assert [each[:2] for each in found] == told
    assert all(".direct.tools.allow: [group:messaging, " in remedy for _, _, remedy in found)
    assert lint_of({**config, "tools": {"guests": "full"}})[1:] == []


def test_a_list_for_guests_that_bounds_nobody_or_names_nothing_is_told() -> None:
    ((level, origin, _),) = lint_of({"tools": {"guests": ["messaging", "*"]}})
    assert (level, origin) == ("warning", "tools.guests")
    (finding,) = toolcrib.open({"tools": {"guests": ["messaging", "coding", "raed"]}}, env={}).lint()
    assert (finding.kind, finding.origin, "'raed'" in finding.message) == ("unknown", "tools.guests", True)
