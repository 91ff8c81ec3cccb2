"""In which conversation is this said: ids of strangers in keys, and what lies under the keys of before."""

from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Caller, Ctx, Result, Sender, tool
from toolcrib.channels import HeardMessage
from toolcrib.define.log import SessionHead
from toolcrib.define.session import check_key, escape_id, is_within

pytestmark = pytest.mark.anyio

OPEN = {"dmPolicy": "open", "groups": {"*": {"requireMention": False}}}
CHANNELS: dict[str, Any] = {
    "matrix": {**OPEN, "homeserver": "https://m.test", "accessToken": "x"},
    "irc": {**OPEN, "host": "irc.test", "nick": "crib"},
    "email": OPEN,
    "webhook": OPEN,
    "telegram": OPEN,
}


def crib_of(state: Path | None = None, channels: Any = CHANNELS, **more: Any) -> toolcrib.Crib:
    return toolcrib.open({"channels": channels, **more}, state=state, env={}, import_plugins=False)


def said(id: str = "7", *, group: str = "", thread: str = "", at: str = "1") -> HeardMessage:
    kind = "group" if group else "dm"
    return HeardMessage(id=at, chat=id, sender=Sender(id=id), kind=kind, group=group, thread=thread, text="hi")  # type: ignore[arg-type]


async def key_of(crib: toolcrib.Crib, channel: str, message: HeardMessage) -> str:
    guest = await crib.channels.admission.judge(channel, message)
    assert guest.caller is not None
    return guest.caller.session or ""


ODD = [
    "~bob!bob@user/bob", "~bob|away!b@h", "[nick]", "nick\\", "a^b", "{x}", "`x`", "$143:home.test",
    "<002801d6a1b2$c3d4e5f0$@example.com>", "a..b", "..", "../../x", "a b", " ", "\u0436\u0435\u043d\u044f",
    "\ud83d\ude00", "%2e%2e", "=3a", "x" * 400, "$" * 400, ":", "::", "~", ".", "a\nb", "\u202ex",
]  # fmt: skip


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("id", ODD, ids=ascii)
async def test_whatever_an_id_is_made_of_its_message_has_a_conversation(channel: str, id: str) -> None:
    crib = crib_of()
    for message in (said(id), said(group=id), said(thread=id), said(id, thread=id), said(group=id, thread=id)):
        if message.sender.id:
            check_key(await key_of(crib, channel, message))


@pytest.mark.parametrize("channel", CHANNELS)
@pytest.mark.parametrize("scope", ["main", "per-peer", "per-channel-peer"])
async def test_no_two_ids_have_one_conversation_and_none_is_part_of_anothers(channel: str, scope: str) -> None:
    crib = crib_of(session={"dmScope": scope, "identityLinks": {"alice": ["telegram:1"]}})
    ids = [
        "@bob:example.org", "@bob:example.org:8448", "@bob", "bob", "bob:thread:x", "bob=3ax", "=62ob", "bob:", ":bob",
        "alice", "Guest77", "gUEST77", "guest77", "\u212a", "k", "a" * 150, "a" * 151, "a" * 200, "a" * 199 + "b",
    ]  # fmt: skip
    folds = channel not in ("matrix", "webhook")
    ids = [each for each in ids if each not in ("Guest77", "gUEST77") or not folds]
    messages = [said(each) for each in ids] + [said(group=each) for each in ids]
    messages += [said("bob", thread=each) for each in ids]
    keys = [await key_of(crib, channel, each) for each in messages]
    assert len(set(keys)) == len(keys)
    within = [(one, other) for one in keys for other in keys if one != other and is_within(one, other)]
    assert all(":thread:" in one for one, _ in within)
    assert {other for _, other in within} == {await key_of(crib, channel, said("bob"))}


async def test_an_id_on_another_channel_is_somebody_else_where_ids_are_compared_alone() -> None:
    one, two = {"telegram": {**OPEN, "botToken": "1:x"}}, {"irc": CHANNELS["irc"]}
    scope = {"dmScope": "per-peer"}
    assert await key_of(crib_of(channels=one, session=scope), "telegram", said("42")) == "agent:main:dm:42"
    both = crib_of(channels={**one, **two}, session=scope)
    assert await key_of(both, "telegram", said("42")) != await key_of(both, "irc", said("42"))


@pytest.mark.parametrize("spelled", ["telegram:7", "telegram:id:7"])
async def test_a_link_joins_the_ids_of_one_person_and_nobody_elses(spelled: str) -> None:
    links = {"dmScope": "per-peer", "identityLinks": {"Ann": [spelled, "matrix:@ann:home.test"]}}
    crib = crib_of(session=links)
    keys = [
        await key_of(crib, *each)
        for each in [
            ("telegram", said("7")), ("matrix", said("@ann:home.test")), ("irc", said("7")), ("irc", said("ann")),
            ("webhook", said("Ann")), ("matrix", said("@Ann:home.test")), ("webhook", said("telegram:7")),
        ]
    ]  # fmt: skip
    assert keys[:2] == ["agent:main:dm:ann"] * 2
    assert len(set(keys[1:])) == len(keys) - 1


@pytest.mark.parametrize("link", ["7", "id:7"])
def test_a_link_without_a_channel_is_refused_where_two_connect(link: str) -> None:
    channels = {**CHANNELS, "telegram": {"botToken": "1:x"}}
    with pytest.raises(toolcrib.ConfigError, match=r"identityLinks: ann: .*(telegram|irc|matrix):id:7"):
        crib_of(channels=channels, session={"identityLinks": {"ann": [link]}})


def test_two_names_of_links_that_are_one_key_are_refused() -> None:
    with pytest.raises(toolcrib.ConfigError, match="ann: is the same person as 'Ann'; merge the two"):
        crib_of(session={"identityLinks": {"Ann": ["telegram:7"], "ann": ["telegram:8"]}})


# what lies there from before

PLAIN = [
    ("telegram", said("7"), "agent:main:telegram:dm:7"),
    ("telegram", said(group="-1001", thread="12"), "agent:main:telegram:group:-1001:thread:12"),
    ("irc", said("Bob-1"), "agent:main:irc:dm:bob-1"),
    ("email", said("Ann+x@home.test"), "agent:main:email:dm:ann+x@home.test"),
]
ODD_KEYS = [
    ("matrix", said("@bob:home.test"), "agent:main:matrix:dm:@bob:home.test"),
    ("matrix", said(group="!AbC:home.test"), "agent:main:matrix:group:!abc:home.test"),
    ("irc", said(group="#Room"), "agent:main:irc:group:#room"),
    ("irc", said("[x]"), "agent:main:irc:dm:[x]"),
    ("webhook", said("Guest77"), "agent:main:webhook:dm:guest77"),
    ("webhook", said("bob"), "agent:main:webhook:dm:bob"),
    ("email", said("~a#b@home.test"), "agent:main:email:dm:~a#b@home.test"),
]


@pytest.mark.parametrize(("channel", "message", "key"), PLAIN)
async def test_a_plain_id_keeps_its_key(channel: str, message: HeardMessage, key: str) -> None:
    assert await key_of(crib_of(), channel, message) == key


@pytest.mark.parametrize(("channel", "message", "old"), ODD_KEYS)
@pytest.mark.parametrize("is_kept", [True, False])
async def test_what_lies_under_an_old_key_goes_on_at_the_first_message(
    tmp_path: Path, channel: str, message: HeardMessage, old: str, is_kept: bool
) -> None:
    async with crib_of(tmp_path if is_kept else None) as crib:
        sessions = crib.channels.core.stores.sessions
        await sessions.add(SessionHead(key=old, made_at=1.0, changed_at=1.0, title="apples"), ())
        for _ in range(2):
            key = await key_of(crib, channel, message)
            head = await sessions.find(key)
            assert head is not None
            assert (head.title, await sessions.find(old)) == ("apples", None)
        await sessions.add(SessionHead(key=old, made_at=1.0, changed_at=1.0, title="pears"), ())
        assert await key_of(crib, channel, message) == key
        assert (await sessions.find(key)).title == "apples"  # type: ignore[union-attr]


LONG = "b" * 300
THEIRS = [
    ("webhook", said("bob"), said("=62ob")),
    ("webhook", said("bob"), said("=62OB")),
    ("webhook", said("bob", thread="t1"), said("=62ob:thread:t1")),
    ("webhook", said(LONG), said(f"=62{escape_id(LONG, 150)[1:]}")),
    ("matrix", said("@bob:home.test"), said("=40bob=3ahome.test")),
    ("irc", said("kim"), said("\u212aim")),
    ("irc", said("[x]"), said("=5bx=5d")),
    ("irc", said("kim", thread="t1"), said("kim:thread:t1")),
]


@pytest.mark.parametrize(("channel", "theirs", "message"), THEIRS)
async def test_no_id_takes_the_conversation_that_another_has_today(
    tmp_path: Path, channel: str, theirs: HeardMessage, message: HeardMessage
) -> None:
    async with crib_of(tmp_path) as crib:
        sessions, key = crib.channels.core.stores.sessions, await key_of(crib, channel, theirs)
        await sessions.add(SessionHead(key=key, made_at=1.0, changed_at=1.0), ())
        assert await key_of(crib, channel, message) != key
        assert await sessions.find(key) is not None
        assert await key_of(crib, channel, theirs) == key


@tool
async def ask_later(ctx: Ctx) -> Result:
    """Leave it to somebody else."""
    return await ctx.later("the-handle")


@pytest.mark.parametrize(("channel", "message", "old"), ODD_KEYS)
async def test_jobs_and_pending_calls_of_an_old_conversation_go_on_in_it(
    tmp_path: Path, channel: str, message: HeardMessage, old: str
) -> None:
    event = {"schedule": {"kind": "every", "everyMs": 3_600_000}, "payload": {"kind": "systemEvent", "text": "tea"}}
    config = {"channels": CHANNELS, "tools": {"guests": "full"}, "models": {"default": "offline:rules"}}
    before = Caller(channel=channel, sender=message.sender, group=message.group or None, session=old)
    async with toolcrib.open(config, tools=[ask_later], state=tmp_path, env={}, import_plugins=False) as crib:
        sessions = crib.channels.core.stores.sessions
        await sessions.add(SessionHead(key=old, made_at=1.0, changed_at=1.0), ())
        assert (await crib.belt(before).call("ask_later")).status == "pending"
        job = await crib.ask("cron.add", {"job": {**event, "sessionTarget": "main"}}, caller=before)
        who = (await crib.channels.admission.judge(channel, message)).caller
        assert who is not None
        assert [each["sessionKey"] for each in await crib.ask("calls.list", {}, caller=who)] == [who.session]
        assert (await crib.complete("the-handle", "done", caller=who)).plain_text == "done"  # type: ignore[union-attr]
        ran = await crib.ask("cron.run", {"id": job["id"], "mode": "force", "wait": True}, caller=OWNER)
        assert ran["status"] == "ok", ran
        assert "tea" in str(await sessions.lines(who.session or ""))
        assert await sessions.find(old) is None


@pytest.mark.parametrize("first", ["Guest77", "guest77", "GUEST77"])
async def test_an_old_conversation_is_whose_messages_are_the_first_there(tmp_path: Path, first: str) -> None:
    async with crib_of(tmp_path) as crib:
        sessions, old = crib.channels.core.stores.sessions, "agent:main:webhook:dm:guest77"
        await sessions.add(SessionHead(key=old, made_at=1.0, changed_at=1.0, title="apples"), ())
        await crib.channels.store.hear("webhook", [said(first, at="1")], "")
        for at, id in enumerate(["Guest77", "gUEST77", "guest77", "GUEST77"], 2):
            await crib.channels.store.hear("webhook", [said(id, at=str(at))], "")
            head = await sessions.find(await key_of(crib, "webhook", said(id, at=str(at))))
            assert (head is not None) is (id == first)


async def test_who_is_called_as_a_link_is_does_not_find_what_the_linked_person_said(tmp_path: Path) -> None:
    links = {"identityLinks": {"ann": ["telegram:7"]}}
    async with crib_of(tmp_path, session=links) as crib:
        sessions, old = crib.channels.core.stores.sessions, "agent:main:telegram:dm:ann"
        await sessions.add(SessionHead(key=old, made_at=1.0, changed_at=1.0), ())
        assert await key_of(crib, "telegram", said("ann")) != old
        assert await sessions.find(old) is not None
        assert await key_of(crib, "telegram", said("7")) == old


async def test_rules_about_a_room_bind_whom_its_turns_start() -> None:
    rules = {**OPEN, "groups": {"!abc:home.test": {"requireMention": False, "tools": {"deny": ["read"]}}, "*": {}}}
    crib = crib_of(channels={"matrix": rules}, tools={"profile": "full"})
    key = await key_of(crib, "matrix", said(group="!AbC:home.test", thread="$x:y"))
    child = toolcrib.Caller(owner=True, parents=(key,), session="agent:main:subagent:1")
    assert "read" not in crib.belt(child).tools
    assert "read" in crib.belt(toolcrib.Caller(owner=True, parents=("agent:main:matrix:group:=21z",))).tools
