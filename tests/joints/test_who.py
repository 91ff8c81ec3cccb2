"""Who is this: one answer for rules, owners, persons and whatever outlives a message."""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Caller, Sender
from toolcrib.define.errors import ConfigError
from toolcrib.policy.resolve import is_owner, person_of

ANN = "telegram:id:7"
TELEGRAM = {"botToken": "1:x"}
IRC = {"host": "irc.test", "nick": "crib"}
OPEN = {"tools": {"profile": "full"}, "owners": [ANN, "app:id:7", "id:7"]}


def crib_of(config: Mapping[str, Any]) -> toolcrib.Crib:
    return toolcrib.open(config, env={}, import_plugins=False)


def on(channel: str | None, id: Any = "7", **where: Any) -> Caller:
    return Caller(channel=channel, sender=Sender(id=id), **where)


# what was given and says nothing

UNREAD: list[Any] = ["", " ", "\t\n", "\u00a0", "\u3000", "\u200b", "\x00", "\ud800", b"7", 7.0, True, [], {"id": 7}]


@pytest.mark.parametrize("word", UNREAD, ids=repr)
@pytest.mark.parametrize("field", ["channel", "account", "group", "sender id", "sender"])
def test_a_word_that_was_given_and_says_nothing_makes_a_guest(field: str, word: Any) -> None:
    fields: dict[str, Any] = {"channel": "telegram", "sender": Sender(id="7")}
    fields |= {"sender": Sender(id=word)} if field == "sender id" else {field: word}
    crib = crib_of({**OPEN, "channels": {"telegram": {"groups": {"*": {"tools": {"deny": ["web_search"]}}}}}})
    caller = Caller(**fields)
    assert not is_owner(crib.policy, caller)
    assert person_of(crib.policy, caller) == ""
    has = set(crib.belt(caller).tools)
    assert not has & {"exec", "write", "read", "browser", "gateway"}, has
    assert field != "group" or "web_search" not in has


@pytest.mark.parametrize("denied", ["direct", "groups"])
def test_in_a_place_that_cannot_be_read_the_rules_of_all_places_hold(denied: str) -> None:
    rules: dict[str, Any] = {
        "direct": {"tools": {"allow": ["read", "exec"]}},
        "groups": {"*": {"tools": {"allow": ["read", "exec"]}}},
    }
    place: Any = rules[denied] if denied == "direct" else rules["groups"]["*"]
    place["toolsBySender"] = {"id:7": {"allow": ["read"]}}
    crib = crib_of({"channels": {"telegram": rules}})
    assert set(crib.belt(on("telegram", group=" ")).tools) == {"read"}


def test_what_is_absent_is_absent_and_a_number_is_its_text() -> None:
    crib = crib_of(OPEN)
    assert is_owner(crib.policy, on("telegram", 7))
    assert person_of(crib.policy, on("telegram", 7)) == person_of(crib.policy, on("Telegram ", "7"))
    assert on("telegram", 7, group=-100) == on("telegram", "7", group="-100")
    assert Caller(channel=None, group=None) == Caller()
    assert is_owner(crib.policy, OWNER)
    assert "exec" in crib.belt(on("telegram", group="-100")).tools


@pytest.mark.parametrize("word", ["true", "no", 1, 0, [], "owner"])
def test_a_word_is_no_yes_to_being_the_owner(word: Any) -> None:
    assert not is_owner(crib_of({}).policy, Caller(owner=word))


# people

PEOPLE = {
    "people": {"ann": {"is": [ANN, "irc/work:id:Ann", "matrix:id:@ann:example.org"]}, "bob": {"is": ["app:id:7"]}}
}


@pytest.mark.parametrize(
    ("caller", "person"),
    [
        (on("telegram"), "ann"),
        (on("telegram", group="-100", account="second"), "ann"),
        (on("irc", "aNN", account="Work"), "ann"),
        (on("irc", "Ann"), ""),
        (on("irc", "Ann", account="home"), ""),
        (on("matrix", "@ann:example.org"), "ann"),
        (on("matrix", "@Ann:example.org"), ""),
        (on("app"), "bob"),
        (on("webhook"), ""),
        (on("telegram", "77"), ""),
        (on("telegram", " 7"), ""),
        (on("telegram", "\uff17"), ""),
        (on(None), ""),
    ],
)
def test_a_person_is_whoever_has_one_of_their_ids_on_its_channel(caller: Caller, person: str) -> None:
    policy = crib_of(PEOPLE).policy
    name = person_of(policy, caller)
    assert (name == f"person:{person}") if person else (":id:" in f":{name}")


def test_who_is_in_no_entry_is_their_id_and_no_two_are_one() -> None:
    policy = crib_of(PEOPLE).policy
    callers = [
        on("telegram", "8"), on("irc", "8"), on("irc", "8", account="work"), on("app", "Bob"), on("app", "bob"),
        on("app", "id:x"), on("app:id", "x"), on("app", "x:y"), on("app:id:x", "y"), on("app%3aid", "x"),
        on(None, "app:id:x"), on("a", "b", account="c"), on("a/c", "b"), on("person", "ann"), on("app", "8" * 300),
        on("app", "8" * 301), on("telegram"), on("app"),
    ]  # fmt: skip
    names = [person_of(policy, each) for each in callers]
    assert len(set(names)) == len(callers), names


def test_an_owner_is_a_person_and_so_is_a_member_of_a_role() -> None:
    kin = {"toolsBySender": {"role:kin": {"allow": ["read"]}, "*": {"allow": []}}}
    config = {**PEOPLE, "owners": [ANN], "roles": {"kin": ["app:id:7"]}, "channels": {"irc": {"groups": {"*": kin}}}}
    config["people"] = {**PEOPLE["people"], "bob": {"is": ["app:id:7", "irc:id:bob"]}}
    crib = crib_of(config)
    assert [is_owner(crib.policy, each) for each in (on("matrix", "@ann:example.org"), on("irc", "ann"))] == [
        True,
        False,
    ]
    assert set(crib.belt(on("irc", "BOB", group="#x")).tools) == {"read"}
    assert set(crib.belt(on("irc", "bob", group="#x", account="work")).tools) == set()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"people": {"a": {"is": [ANN]}, "b": {"is": ["Telegram:id:7"]}}}, "is both a and b"),
        ({"people": {"a": {"is": ["irc:id:Ann"]}, "b": {"is": ["irc/default:id:aNN"]}}}, "is both a and b"),
        (
            {"people": {"a": {"is": ["id:7"]}, "b": {"is": [ANN]}}, "channels": {"telegram": TELEGRAM}},
            "is both a and b",
        ),
        ({"people": {"a": {"is": []}}}, "is empty"),
        ({"people": {"a": {"is": ["@ann"]}}}, "is not what a person is known by"),
        ({"people": {"a": {"is": ["username:ann"]}}}, "is not what a person is known by"),
        ({"people": {"a": {"is": ["role:kin"]}}}, "is not what a person is known by"),
        ({"people": {"a": {"is": ["telegram/work:id:7"]}}}, "write telegram:id:7"),
        ({"people": {"a": {"is": [ANN], "tools": {"deny": ["exec"]}}}}, "nothing holds to it"),
        ({"people": {"a": {"is": [ANN], "role": "kin"}}}, "nothing holds to it"),
        ({"people": {"a": {"is": [ANN], "away": {"until": "2027-01-01"}}}}, "nothing holds to it"),
        ({"people": {"a": {"is": [ANN, "irc:id:~a!a@host"]}}, "owners": [ANN]}, "nobody vouches for it"),
        ({"people": {"a": {"is": ["irc:id:~a!a@host"], "owner": True}}}, "nobody vouches for it"),
        ({"owners": ["email:id:~ann@example.org"]}, "nobody vouches for it"),
        ({"channels": {"irc": {"owners": ["id:~a!a@host"]}}}, "nobody vouches for it"),
    ],
)
def test_people_who_are_not_clear_are_refused(config: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as error:
        crib_of(config)
    assert said in str(error.value)


def test_an_id_that_nobody_vouches_for_may_be_somebodys_who_has_no_say() -> None:
    policy = crib_of({"people": {"eve": {"is": ["irc:id:~eve!e@host", "telegram:id:9"]}}, "owners": [ANN]}).policy
    assert person_of(policy, on("irc", "~eve!e@host")) == person_of(policy, on("telegram", "9")) == "person:eve"


# ids without a channel


@pytest.mark.parametrize("listed", ["id:U0123ABCD", "U0123ABCD"])
def test_an_id_without_a_channel_is_the_one_channels_that_connects(listed: str) -> None:
    slack = {"botToken": "x", "appToken": "y"}
    one = {
        "channels": {
            "slack": slack,
            "irc": {"groups": {}},
            "app": {"groups": {}},
            "matrix": {"enabled": False, "userId": "@c:t"},
        }
    }
    for config in ({"owners": [listed]}, {"people": {"a": {"is": ["id:U0123ABCD"]}}, "owners": ["slack:id:U0123ABCD"]}):
        policy = crib_of({**one, **config}).policy
        got = {
            each: is_owner(policy, on(each, "U0123ABCD")) for each in (None, "slack", "irc", "app", "hook", "device")
        }
        assert got == {None: True, "slack": True, "irc": False, "app": False, "hook": False, "device": False}


@pytest.mark.parametrize("place", ["owners", "roles", "people"])
def test_with_two_channels_that_connect_it_is_refused_and_both_ways_to_write_it_are_named(place: str) -> None:
    lists: Any = {"owners": ["id:7"], "roles": {"kin": ["id:7"]}, "people": {"ann": {"is": ["id:7"]}}}
    with pytest.raises(ConfigError, match="telegram:id:7 or irc:id:7"):
        crib_of({"channels": {"telegram": TELEGRAM, "irc": IRC}, place: lists[place]})
    crib_of({"channels": {"telegram": {**TELEGRAM, "owners": ["id:7"]}, "irc": IRC}})  # where it stands says whose


def test_an_account_is_another_service_where_ids_differ_by_account() -> None:
    policy = crib_of({"owners": ["irc/work:id:boss", "telegram:id:7"]}).policy
    who = {account: is_owner(policy, on("irc", "boss", account=account)) for account in (None, "home", "work", "WORK")}
    assert who == {None: False, "home": False, "work": True, "WORK": True}
    assert is_owner(policy, on("telegram", account="second"))


@pytest.mark.parametrize(
    ("channel", "is_one"), [("telegram", True), ("irc", True), ("matrix", False), ("app", False), (None, False)]
)
def test_case_is_folded_where_the_channel_says_so(channel: str | None, is_one: bool) -> None:
    policy = crib_of({"owners": [f"{channel}:id:aBc9" if channel else "id:aBc9"]}).policy
    assert is_owner(policy, on(channel, "aBc9"))
    assert is_owner(policy, on(channel, "ABC9")) is is_one
    assert not is_owner(policy, on(channel, "aB\u0441 9"))
    assert (person_of(policy, on(channel, "aBc9")) == person_of(policy, on(channel, "abc9"))) is is_one


# whose a run is

WORK = Caller(channel="irc", account="work", sender=Sender(id="ann"), session="agent:main:irc:dm:1")
RUNNERS = {
    "known by number": (
        Caller(channel="app", sender=Sender(e164="+1")),
        Caller(channel="app", sender=Sender(e164="+2")),
    ),
    "nobody": (Caller(), Caller()),
    "owner and nobody": (OWNER, Caller()),
    "accounts": (WORK, replace(WORK, account="home")),
    "names that run together": (on("a", "b:c"), on("a:b", "c")),
}


@pytest.mark.anyio
@pytest.mark.parametrize(("first", "second"), RUNNERS.values(), ids=RUNNERS)
async def test_the_run_of_one_is_never_told_to_another_who_chose_the_same_id(first: Caller, second: Caller) -> None:
    async with toolcrib.open({"models": {"default": "offline:rules"}}, env={}) as crib:
        said = list[str]()
        for at, each in enumerate((first, second)):
            caller = each if each.owner else replace(each, session=f"agent:main:app:dm:{at}")
            told = await crib.ask("agent", {"message": f"words-{at}", "idempotencyKey": "1"}, caller=caller)
            said.append(json.dumps(told["result"]["payloads"]))
            assert (await crib.ask("agent.wait", {"runId": "1"}, caller=caller))["status"] == "ok"
    assert ["words-0" in each for each in said] == [True, False]


@pytest.mark.anyio
async def test_a_run_of_an_id_with_a_number_sign_is_found_again_by_its_own_id() -> None:
    async with toolcrib.open({"models": {"default": "offline:rules"}}, env={}) as crib:
        bob = on("app", "bob#1234", session="agent:main:app:dm:bob")
        await crib.ask("agent", {"message": "hi", "idempotencyKey": "k1"}, caller=bob)
        told = await crib.ask("chat.history", caller=bob)
    assert [each["runId"] for each in told["messages"] if each["role"] == "user"] == ["k1"]
