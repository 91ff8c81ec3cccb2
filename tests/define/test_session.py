"""Session keys: what they say, how they are built, who may write where."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.define import session
from toolcrib.define.session import AnnounceTarget, Chat, DmScope, Peer, SessionKey, SessionKind

WORDS = ["agent", "main", "Main", "telegram", "group", "Group", "channel", "subagent", "SUBAGENT", "thread", "topic"]
KEYS = st.lists(
    st.sampled_from([*WORDS, "dm", "cron", "node", "acp", "-100", "9", "", " ", "\ufeff", "a b"]),
    max_size=8,
).map(":".join)


@pytest.mark.parametrize(
    ("key", "parsed"),
    [
        ("agent:main:main", SessionKey("main", "main")),
        ("  agent:Main:Telegram:Group:-100 ", SessionKey("Main", "Telegram:Group:-100")),
        ("agent:main::dm:::42:", SessionKey("main", "dm:42")),
        ("agent:a b:main", SessionKey("a b", "main")),
        ("agent:main: :dm: ", SessionKey("main", "dm")),
        ("agent::main", None),
        ("agent: :main", None),
        ("agent:main:", None),
        ("AGENT:main:main", None),
        ("main", None),
        ("", None),
    ],
)
def test_a_key_is_an_agent_and_the_rest(key: str, parsed: SessionKey | None) -> None:
    assert session.parse_key(key) == parsed


@given(KEYS)
def test_a_parsed_key_written_out_parses_to_itself(key: str) -> None:
    parsed = session.parse_key(key)
    if parsed is not None:
        assert session.parse_key(str(parsed)) == parsed


@pytest.mark.parametrize(
    ("key", "agent"),
    [("agent:Support Bot:main", "support-bot"), ("main", "main"), ("", "main"), ("agent:--:main", "main")],
)
def test_a_key_without_an_agent_is_the_main_agents(key: str, agent: str) -> None:
    assert session.agent_from_key(key) == agent


@pytest.mark.parametrize(
    ("key", "chat"),
    [
        ("agent:main:telegram:group:-100", Chat("telegram", "group", "-100")),
        ("agent:main:telegram:group:-100:topic:9", Chat("telegram", "group", "-100")),
        ("agent:main:discord:channel:1:thread:2:topic:3", Chat("discord", "channel", "1")),
        ("agent:main:subagent:telegram:group:-100", Chat("telegram", "group", "-100")),
        ("agent:main:telegram:group:-100:12", Chat("telegram", "group", "-100:12")),
        ("agent:thread:telegram:group:-100", Chat("telegram", "group", "-100")),
        ("slack:channel:C1", Chat("slack", "channel", "C1")),
        ("gchat:group:spaces/x", Chat("googlechat", "group", "spaces/x")),
        ("agent: :Telegram : Group : -100 : :7", Chat("telegram", "group", "-100:7")),
        (" AGENT:main:SubAgent:Telegram:GROUP:-100:TOPIC:9 ", Chat("telegram", "group", "-100")),
        ("agent:main:telegram:dm:42", None),
        ("agent:main:telegram:group:", None),
        ("agent:main: :group:1", None),
        ("agent:main:subagent:uuid", None),
        ("main", None),
        ("", None),
    ],
)
def test_the_chat_is_found_whatever_stands_around_it(key: str, chat: Chat | None) -> None:
    assert session.chat_from_key(key) == chat


@given(KEYS)
def test_a_thread_talks_in_the_chat_it_hangs_from(key: str) -> None:
    chat = session.chat_from_key(key)
    if chat is not None:
        assert session.chat_from_key(f"{key}:thread:7") == chat
        assert session.chat_from_key(f"agent:other:subagent:{chat.channel}:{chat.kind}:{chat.id}") == chat


@pytest.mark.parametrize(
    ("key", "parent"),
    [
        ("agent:main:telegram:group:-1:topic:9", "agent:main:telegram:group:-1"),
        ("agent:main:discord:channel:1:Thread:2:TOPIC:3", "agent:main:discord:channel:1:Thread:2"),
        ("k:thread:", "k"),
        (":thread:x", None),
        ("agent:main:main", None),
        ("", None),
    ],
)
def test_a_thread_hangs_from_what_stands_before_its_last_marker(key: str, parent: str | None) -> None:
    assert session.parent_from_key(key) == parent


@pytest.mark.parametrize(
    ("key", "target"),
    [
        ("agent:main:telegram:group:-1:topic:9", AnnounceTarget("telegram", "group:-1", "9")),
        ("agent:main:slack:group:c1:thread:1700.1", AnnounceTarget("slack", "channel:c1:thread:1700.1")),
        ("agent:main:Discord:channel:1:thread:2:topic:3", AnnounceTarget("discord", "channel:1:thread:2", "3")),
        ("imsg:group:7", AnnounceTarget("imessage", "group:7")),
        ("agent:main:Matrix:group:!r:x", AnnounceTarget("matrix", "!r:x")),
        ("agent:main:telegram:Group:-1", None),
        ("agent:main:telegram:dm:42", None),
        ("agent:main:main", None),
        ("", None),
    ],
)
def test_an_announcement_goes_to_the_chat(key: str, target: AnnounceTarget | None) -> None:
    assert session.target_from_key(key) == target


@pytest.mark.parametrize(
    ("key", "kind", "known", "channel"),
    [
        ("agent:main:cron:1", "cron", ("slack",), "internal"),
        ("agent:main:main", "main", (None, " ", " slack "), "slack"),
        ("agent:main:telegram:group:1", "group", (), "telegram"),
        ("agent:main:main", "main", (None,), "unknown"),
    ],
)
def test_a_session_belongs_to_a_channel(
    key: str, kind: SessionKind, known: tuple[str | None, ...], channel: str
) -> None:
    assert session.channel_from_key(key, kind, known) == channel


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("main", "main"),
        ("agent:dev:main", "main"),
        ("  agent:dev:home  ", "main"),
        ("agent:dev:main:main", "other"),
        ("cron:1", "cron"),
        ("agent:dev:cron:1", "cron"),
        ("agent:dev:hook:gmail:1", "hook"),
        ("node-abc", "node"),
        ("agent:dev:node:abc", "node"),
        ("agent:dev:telegram:group:1", "group"),
        ("slack:channel:1", "group"),
        ("agent:dev:subagent:cron:1", "other"),
        ("agent::main", "other"),
        ("", "other"),
    ],
)
def test_a_full_key_is_of_the_same_kind_as_its_short_form(key: str, kind: SessionKind) -> None:
    assert session.kind_from_key(key, ("main", "home")) == kind


@pytest.mark.parametrize(
    ("key", "subagent", "acp"),
    [
        ("agent:main:subagent:x", True, False),
        ("agent:main:SubAgent:x", True, False),
        (" SUBAGENT:x", True, False),
        ("agent:main:subagent", False, False),
        ("agent:main:telegram:subagent:1", False, False),
        ("acp:1", False, True),
        ("agent:main:ACP:1", False, True),
        ("", False, False),
    ],
)
def test_subagents_and_clients_are_known_by_the_first_word(key: str, subagent: bool, acp: bool) -> None:
    assert (session.is_subagent(key), session.is_acp(key)) == (subagent, acp)


@pytest.mark.parametrize(
    ("text", "is_id", "is_key"),
    [
        (" 3F2B8C1E-1234-4abc-9def-0123456789ab ", True, False),
        ("3f2b8c1e-1234-4abc-9def-0123456789ab\nx", False, False),
        ("main", False, True),
        ("global", False, True),
        ("agent:x", False, True),
        ("hook:1", False, True),
        ("node-1", False, True),
        ("ACP:1", False, True),
        ("telegram:group:1", False, True),
        ("subagent:x", False, False),
        ("my notes", False, False),
        ("", False, False),
    ],
)
def test_ids_and_keys_are_told_apart(text: str, is_id: bool, is_key: bool) -> None:
    assert (session.is_session_id(text), session.is_key(text)) == (is_id, is_key)
    assert session.may_be_session_id(text) is not is_key


@pytest.mark.parametrize(
    ("text", "agent"),
    [
        ("Main", "main"),
        ("Support Bot!", "support-bot"),
        ("-x-", "x"),
        ("_x", "_x"),
        ("a/b\\c", "a-b-c"),
        ("a" * 80, "a" * 64),
        ("x\n", "x"),
        ("\u212a", "k"),
        ("\u4e2d", "main"),
        ("  ", "main"),
    ],
)
def test_agent_ids_are_short_and_safe(text: str, agent: str) -> None:
    assert session.to_agent(text) == agent


def test_no_account_is_the_default_one() -> None:
    assert session.to_account("Biz") == "biz"
    assert session.to_account("--") == "default"


@given(st.text())
def test_an_id_is_its_own_id(text: str) -> None:
    assert session.to_agent(session.to_agent(text)) == session.to_agent(text)


@pytest.mark.parametrize(
    ("text", "channel"),
    [("SLACK ", "slack"), ("imsg", "imessage"), ("Google-Chat", "googlechat"), ("matrix", "matrix"), ("", None)],
)
def test_a_channel_has_one_name(text: str, channel: str | None) -> None:
    assert session.to_channel(text) == channel


def test_the_main_session_has_a_name_and_perhaps_an_alias() -> None:
    assert (session.to_main(" Home "), session.to_main("")) == ("home", "main")
    assert (session.to_main_alias("Home", "per-sender"), session.to_main_alias("Home", "global")) == ("home", "global")


@pytest.mark.parametrize(
    ("key", "request_key"),
    [("agent:dev:SubAgent:x", "SubAgent:x"), (" main ", "main"), ("agent::main", "agent::main"), (" ", None)],
)
def test_an_agent_speaks_of_its_sessions_without_its_own_name(key: str, request_key: str | None) -> None:
    assert session.to_request_key(key) == request_key


@pytest.mark.parametrize(
    ("request_key", "stored"),
    [
        ("main", "agent:dev:home"),
        ("", "agent:dev:home"),
        ("Agent:Other:Main", "agent:other:main"),
        (" Telegram:dm:42 ", "agent:dev:telegram:dm:42"),
        ("subagent:X", "agent:dev:subagent:x"),
    ],
)
def test_what_an_agent_says_becomes_a_full_key(request_key: str, stored: str) -> None:
    assert session.to_store_key("Dev", request_key, main="Home") == stored


@pytest.mark.parametrize(
    ("scope", "key"),
    [
        ("main", "agent:main:main"),
        ("per-peer", "agent:main:dm:bob"),
        ("per-channel-peer", "agent:main:telegram:dm:bob"),
        ("per-account-channel-peer", "agent:main:telegram:biz:dm:bob"),
    ],
)
def test_the_scope_says_how_far_persons_are_kept_apart(scope: DmScope, key: str) -> None:
    peer = Peer(channel="Telegram", id=" Bob ", account="Biz")
    assert session.to_peer_key("main", peer, scope=scope) == key


def test_links_join_the_ids_of_one_person() -> None:
    links = {" ": ["42"], "Alice": ["Telegram:42", "discord:7"]}
    telegram, discord = Peer(channel="telegram", id="42"), Peer(channel="discord", id="7")
    assert session.to_peer_key("main", telegram, scope="per-peer", links=links) == "agent:main:dm:alice"
    assert session.to_peer_key("main", discord, scope="per-peer", links=links) == "agent:main:dm:alice"
    assert (
        session.to_peer_key("main", Peer(channel="slack", id="7"), scope="per-peer", links=links) == "agent:main:dm:7"
    )
    assert session.to_peer_key("main", telegram, links=links) == "agent:main:main"


def test_groups_have_their_own_sessions_in_every_scope() -> None:
    assert session.to_peer_key("Dev", Peer(channel="Slack", id="C1", kind="channel")) == "agent:dev:slack:channel:c1"
    assert session.to_peer_key("dev", Peer(kind="group")) == "agent:dev:unknown:group:unknown"


def test_a_person_without_an_id_talks_in_the_main_session() -> None:
    assert session.to_peer_key("dev", Peer(channel="slack"), scope="per-peer", main="Home") == "agent:dev:home"


def test_a_thread_has_a_key_of_its_own() -> None:
    assert session.to_thread_key("agent:main:slack:channel:c1", " T1 ") == "agent:main:slack:channel:c1:thread:t1"
    assert session.to_thread_key("k", " ") == "k"


@pytest.mark.parametrize(
    ("requester", "target", "enabled", "allow", "may"),
    [
        ("a", "a", False, (), True),
        ("a", "b", False, None, False),
        ("a", "b", True, None, True),
        ("a", "b", True, (), False),
        ("a", "b", True, (" ",), False),
        ("a", "b", True, ("a", " b "), True),
        ("a", "b", True, ("a",), False),
        ("a", "B", True, ("a", "b"), False),
        ("a", "b", True, ("*",), True),
        ("main", "DEV-1", True, ("dev-*", "main"), True),
        ("main", "dev[1", True, ("dev[*", "main"), True),
        ("main", "devx1", True, ("dev?*", "main"), False),
        ("a" * 64, "b", True, ("*a" * 40 + "b*", "b"), False),
    ],
)
def test_both_agents_must_be_permitted(
    requester: str, target: str, enabled: bool, allow: tuple[str, ...] | None, may: bool
) -> None:
    assert session.may_message(requester, target, enabled=enabled, allow=allow) is may


@given(KEYS)
def test_no_key_breaks_a_reader(key: str) -> None:
    assert session.agent_from_key(key)
    assert session.channel_from_key(key, session.kind_from_key(key))
    session.target_from_key(key)
    session.parent_from_key(key)
    assert session.to_store_key("main", key).startswith("agent:")
