"""Who a sender is to a rule."""

import pytest

from toolcrib.define.caller import Caller, Sender
from toolcrib.define.channel import IdRules
from toolcrib.policy.chats import find_sender
from toolcrib.policy.resolve import is_among
from toolcrib.policy.settings import PolicySettings

ALL = Sender(id="7", e164="+380", username="bob", name="Bob B")
PLAIN = PolicySettings(bare="telegram")


def on_telegram(sender: Sender | None) -> Caller:
    return Caller(channel="telegram", sender=sender)


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        (["7", "+380", "bob", "bob b", "*"], ("7", False)),
        (["+380", "bob", "bob b", "*"], ("+380", False)),
        (["bob", "bob b", "*"], ("bob", True)),
        (["bob b", "*"], ("bob b", True)),
        (["*"], ("*", False)),
        (["@BOB"], ("@BOB", True)),
        (["username:bob", "*"], ("username:bob", False)),
        (["name:Bob B", "*"], ("name:Bob B", False)),
        (["id:7", "7"], ("id:7", False)),
        (["id:bob", "*"], ("*", False)),
        (["e164:+380"], ("e164:+380", False)),
        (["8"], None),
        ([], None),
    ],
)
def test_keys_are_tried_as_id_number_username_name_and_star(keys: list[str], found: tuple[str, bool] | None) -> None:
    seen = find_sender({key: key for key in keys}, PLAIN, on_telegram(ALL))
    assert [(key, bool(worn)) for key, _, worn in seen] == ([] if found is None else [found])


def test_without_worn_names_a_bare_key_is_only_an_identity() -> None:
    assert find_sender({"bob": 1, "*": 2}, PLAIN, on_telegram(ALL), wearable=False) == [("*", 2, "")]


def test_the_first_of_two_spellings_counts() -> None:
    assert find_sender({"@bob": 1, "BOB": 2}, PLAIN, on_telegram(Sender(id="bob"))) == [("@bob", 1, "")]


@pytest.mark.parametrize(
    ("sender", "listed"),
    [
        (Sender(id="7"), True),
        (Sender(e164="+380"), True),
        (Sender(id="5", name="7"), False),
        (Sender(id="5", username="7"), False),
        (Sender(id="77"), False),
        (Sender(id="７"), False),
        (Sender(id="  "), False),
        (Sender(id=" 7"), False),
        (Sender(id="@7"), False),
        (Sender(id="id:7"), False),
        (Sender(), False),
        (None, False),
    ],
)
def test_only_an_id_or_a_number_makes_an_owner(sender: Sender | None, listed: bool) -> None:
    assert is_among(PLAIN, on_telegram(sender), ["id:7", "e164:+380"]) is listed


def test_a_bare_owner_is_an_id_or_a_number() -> None:
    assert is_among(PLAIN, on_telegram(Sender(id="7")), ["7"])
    assert is_among(PLAIN, on_telegram(Sender(e164="+380")), ["+380"])
    assert not is_among(PLAIN, on_telegram(Sender(name="7", username="+380")), ["7", "+380"])


@pytest.mark.parametrize("channel", ["", "slack"])
def test_a_bare_id_in_the_list_of_one_channel_is_a_sender_there_alone(channel: str) -> None:
    settings, sender = PolicySettings(bare="slack"), Sender(id="7")
    assert is_among(settings, Caller(channel="telegram", sender=sender), ["id:7"], at="telegram")
    assert not is_among(settings, Caller(channel=channel or None, sender=sender), ["id:7"], at="telegram")
    assert is_among(settings, Caller(channel=channel or None, sender=sender), ["id:7"])


def test_a_bare_id_is_nobody_of_an_account_where_ids_differ_by_account() -> None:
    settings = PolicySettings(bare="irc", ids={"irc": IdRules(by_account=True)})
    work = Caller(channel="irc", account="work", sender=Sender(id="ann"))
    assert not is_among(settings, work, ["id:ann"])
    assert is_among(settings, work, ["irc/work:id:ann"])
    assert is_among(settings, Caller(channel="irc", sender=Sender(id="ann")), ["id:ann"])
