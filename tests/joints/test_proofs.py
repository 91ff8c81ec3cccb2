"""What is said of everybody: proofs, comparisons and lists leave out nobody, and running a caller never contradicts."""

import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.doors.world import ask, crib_file, refused
from toolcrib import Caller, Sender
from toolcrib.policy.resolve import resolve
from toolcrib.policy.trial import Claim

Capture = pytest.CaptureFixture[str]
SHUT: dict[str, Any] = {"dmPolicy": "disabled", "groupPolicy": "disabled"}
OPENED = {"dmPolicy": "open", "allowFrom": ["*"], "groupPolicy": "open"}
NEVER = ("policy", "prove", "--never", "sessions_list", "--except", "owner", "--channel", "telegram")


def theirs(folder: Path, telegram: Mapping[str, Any], name: str = "openclaw.json", **more: Any) -> Path:
    return crib_file(folder, json.dumps({"channels": {"telegram": telegram}, **more}), name)


@pytest.mark.parametrize(
    ("telegram", "who"),
    [
        ({**SHUT, "accounts": {"work": OPENED}}, ("--account", "work", "--group", "-5", "--sender", "id:9")),
        ({**SHUT, "accounts": {"Work": OPENED}}, ("--account", "work", "--sender", "id:9")),
        ({**SHUT, "accounts": {"default": OPENED}}, ("--sender", "id:9")),
        (
            {
                "dmPolicy": "disabled", "groupPolicy": "allowlist", "groupAllowFrom": ["bob"],
                "groups": {"*": {"toolsBySender": {"id:bob": {"deny": ["sessions_list"]}}}},
            },
            ("--group", "-5", "--sender", "username:bob"),
        ),
        (
            {"dmPolicy": "allowlist", "allowFrom": ["tg:7"], "groupPolicy": "disabled"},
            ("--sender", "id:7"),
        ),
        (
            {**SHUT, "accounts": {"work": {"dmPolicy": "allowlist", "allowFrom": ["+1555"]}}},
            ("--account", "work", "--sender", "e164:+1555"),
        ),
    ],
)  # fmt: skip
def test_whom_any_account_or_word_of_a_list_lets_in_is_found(
    telegram: dict[str, Any], who: tuple[str, ...], tmp_path: Path, capsys: Capture
) -> None:
    path = theirs(tmp_path, telegram)
    proof = ask(capsys, *NEVER, "--except", "name:x", "--config", path, "--json")
    assert (proof.code, proof.json["holds"]) == (1, False)
    assert "answered" not in proof.json["counterexample"]
    assert ask(capsys, "explain", "sessions_list", "--channel", "telegram", *who, "--config", path).out.startswith(
        "sessions_list is all"
    )


def test_who_is_not_let_in_is_named_as_that_and_is_no_proof(tmp_path: Path, capsys: Capture) -> None:
    path = theirs(tmp_path, SHUT)
    answer = ask(capsys, *NEVER, "--config", path)
    assert answer.code == 1
    assert "The file lets nobody like that in: no message gets in (channels.telegram." in answer.out
    told = ask(capsys, *NEVER, "--config", path, "--json").json["counterexample"]
    assert (told["answered"], "no message gets in" in told["why"]) == (False, True)
    denied = theirs(tmp_path, OPENED, tools={"deny": ["sessions_list"]})
    assert ask(capsys, *NEVER, "--config", denied).out.startswith("It holds: of ")


def test_what_of_a_file_is_not_followed_is_said_beside_a_proof(tmp_path: Path, capsys: Capture) -> None:
    path = theirs(tmp_path, OPENED, tools={"deny": ["sessions_list"], "elevated": {"allowFrom": {"telegram": ["7"]}}})
    assert "tools.elevated decides about access and is not followed" in ask(capsys, *NEVER, "--config", path).out


def test_a_claim_about_nobody_is_refused(tmp_path: Path, capsys: Capture) -> None:
    path = crib_file(tmp_path, "channels: {telegram: {groups: {'-1': {}}}}")
    options = ("--channel", "telegram", "--group", " -5 ", "--config", path)
    assert "the claim is about nobody" in refused(ask(capsys, "policy", "prove", "--never", "sessions_list", *options))


@pytest.mark.parametrize(
    ("old", "new", "key"),
    [
        (SHUT, OPENED, "accounts.work.dmPolicy"),
        ({**SHUT, "allowFrom": ["7"]}, {**SHUT, "allowFrom": ["8"]}, "accounts.work.allowFrom"),
    ],
)
def test_a_comparison_sees_accounts(
    old: dict[str, Any], new: dict[str, Any], key: str, tmp_path: Path, capsys: Capture
) -> None:
    before = theirs(tmp_path, {**SHUT, "accounts": {"work": old}}, "old.json")
    after = theirs(tmp_path, {**SHUT, "accounts": {"work": new}}, "new.json")
    answer = ask(capsys, "policy", "diff", before, after, "--from", "openclaw", "--json")
    assert answer.code == 1
    assert f"channels.telegram.{key}" in answer.json["beside"]
    changed = {each["caller"]["account"] for each in answer.json["changes"]}
    assert changed == ({"work"} if new == OPENED else set())
    assert ask(capsys, "policy", "diff", before, before, "--from", "openclaw").code == 0


def test_who_reads_words_of_a_list_as_explain_does_and_shows_accounts(tmp_path: Path, capsys: Capture) -> None:
    path = theirs(tmp_path, {"dmPolicy": "allowlist", "allowFrom": ["tg:7"], "accounts": {"work": SHUT}})
    rows = ask(capsys, "who", "sessions_list", "--config", path, "--json").json["callers"]
    direct = [each for each in rows if each["caller"]["channel"] and each["caller"]["group"] is None]
    found = {(each["caller"]["account"], each["caller"]["sender"]["id"]): each["decision"] for each in direct}
    assert found[None, "7"] == "allow"
    assert found["work", "7"] == "deny"
    assert not any("tg:" in str(id) for _, id in found)
    assert "account work" in ask(capsys, "who", "sessions_list", "--config", path).out


def test_a_proof_about_a_group_is_about_who_speaks_there_and_not_about_where_their_parents_did() -> None:
    chats = {"-1": {}, "-2": {"tools": {"allow": ["exec"]}}}
    own = {"subagents": {"mode": "own", "tools": {}}}
    crib = toolcrib.open({"tools": own, "channels": {"telegram": {"groups": chats}}}, env={})
    who = Caller(channel="telegram", group="-2", sender=Sender(id="5"), parents=("agent:main:telegram:group:-1",))
    assert crib.belt(who).verdicts["exec"].decision == "allow"
    for group, holds in (("-1", True), ("-2", False)):
        claim = Claim(entry="exec", excepting=("owner",), channel="telegram", group=group)
        assert (crib.view().prove(claim).counterexample is None) is holds
        assert claim.covers(resolve(crib.policy, who)) is not holds
    keyed = Caller(session="agent:main:subagent:x", parents=("agent:main:telegram:group:-1",))
    claim = Claim(entry="exec", channel="telegram", group="-1")
    assert claim.covers(resolve(crib.policy, keyed))  # who names no channel is where their parents are


# in random worlds

LISTS: list[Any] = [
    {"deny": ["exec", "sessions_list"]},
    {"allow": ["exec", "sessions_list"]},
    {"deny": ["*"]},
    {"allow": ["sessions_list"]},
    {},
]
WORDS = ["7", "tg:7", "bob", "@bob", "+1555", "*", "telegram:9"]
KEYS = ["id:7", "id:bob", "username:bob", "e164:+1555", "bob", "id:9", "*"]
FULL = [*KEYS, "irc:id:7", "irc/work:id:7", "irc/work:id:9", "role:staff"]


def rules(chance: random.Random, keys: list[str]) -> dict[str, Any]:
    return {
        **({"tools": chance.choice(LISTS)} if chance.random() < 0.5 else {}),
        "toolsBySender": {key: chance.choice(LISTS) for key in chance.sample(keys, chance.randint(0, 3))},
    }


def everywhere(chance: random.Random, keys: list[str]) -> dict[str, Any]:
    return {"toolsBySender": rules(chance, keys)["toolsBySender"]} if chance.random() < 0.4 else {}


def openclaw_door(chance: random.Random) -> dict[str, Any]:
    found = {
        "dmPolicy": chance.choice(["open", "allowlist", "disabled", "pairing"]),
        "groupPolicy": chance.choice(["open", "allowlist", "disabled"]),
        "allowFrom": chance.sample(WORDS, 2),
        "groupAllowFrom": chance.sample(WORDS, 1),
        "groups": {each: rules(chance, KEYS) for each in chance.sample(["-1", "-2", "*"], 2)},
    }
    return {key: each for key, each in found.items() if chance.random() < 0.7}


def openclaw_file(chance: random.Random) -> dict[str, Any]:
    accounts = {
        name: openclaw_door(chance) for name in chance.sample(["work", "Home", "default"], chance.randint(0, 2))
    }
    peer = {"kind": chance.choice(["group", "direct"]), "id": chance.choice(["-1", "7"])}
    return {
        "channels": {"telegram": {**openclaw_door(chance), "accounts": accounts}},
        "agents": {"list": [{"id": "main"}, {"id": "desk", "tools": chance.choice(LISTS)}]},
        "bindings": [{"agentId": "desk", "match": {"channel": "telegram", "peer": peer}}],
        "session": {"dmScope": chance.choice(["main", "per-peer", "per-channel-peer"])},
        "tools": {**chance.choice(LISTS), **everywhere(chance, [*KEYS, "channel:telegram:7"])},
    }


def native_file(chance: random.Random) -> dict[str, Any]:
    accounts = {"work": {"groups": {"-1": rules(chance, FULL)}}} if chance.random() < 0.5 else {}
    return {
        "channels": {
            name: {"direct": rules(chance, FULL), "groups": {"-1": rules(chance, FULL), "*": {}}, "accounts": accounts}
            for name in ("irc", "telegram")
        },
        "owners": chance.sample(["irc/work:id:7", "telegram:id:9", "id:1"], 1),
        "roles": {"staff": chance.sample(["irc/work:id:9", "irc:id:9", "telegram:id:7"], 1)},
        "people": {"ann": {"is": ["irc/work:id:ann", "telegram:id:9"]}},
        "tools": {**chance.choice(LISTS), **everywhere(chance, FULL)},
    }


def anybody(chance: random.Random) -> Caller:
    def pick(*of: Any) -> Any:
        return chance.choice((None, *of))

    sender = Sender(id=pick("7", "9", "bob", "ann", "1"), e164=pick("+1555"), username=pick("bob"), name=pick("bob"))
    return Caller(
        channel=chance.choice(["telegram", "irc", None]), account=pick("work", "Work", "home", "other", "default"),
        group=pick("-1", "-2", "-5"), sender=sender, agent=pick("main", "desk"),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(24))
@pytest.mark.parametrize("make", [openclaw_file, native_file])
def test_no_caller_that_is_run_contradicts_a_proof(make: Any, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    config = make(chance)
    name = "openclaw.json" if make is openclaw_file else "crib.json"
    crib = toolcrib.open(crib_file(tmp_path, json.dumps(config), name), env={}, import_plugins=False)
    view = crib.view()
    for entry in ("exec", "sessions_list"):
        excepting = tuple(chance.sample(["owner", "id:7", "username:bob"], chance.randint(0, 2)))
        claim = Claim(entry=entry, excepting=excepting, channel=chance.choice([None, "telegram"]))
        proof = view.prove(claim)
        if proof.counterexample is not None:
            who, verdict = proof.counterexample
            assert crib.belt(who).verdicts[entry] == verdict, config
            assert claim.covers(resolve(crib.policy, who)), config
            continue
        for _ in range(60):
            caller = anybody(chance)
            who, judged, _word = view.judge(caller, entry)
            if claim.covers(resolve(crib.policy, who)):
                assert judged is None or judged.decision == "deny", (caller, claim, config)
