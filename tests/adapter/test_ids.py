"""Ids on the wire: valid, different, and as they were where that is possible."""

import pytest

from toolcrib.adapter.cards import Api, Target
from toolcrib.adapter.conversation import MISTRAL, CallIds, IdRule, id_rule_for

LONG = "x" * 70


def wire_ids(ids: list[str], rule: IdRule) -> list[str]:
    given = CallIds(rule)
    return [given.next(own) for own in ids]


@pytest.mark.parametrize(
    ("api", "ids", "wired"),
    [
        ("openai", ["call_1", "toolu:1/2 3", ""], ["call_1", "toolu:1/2 3", "call"]),
        ("openai", [LONG, f"{LONG}y"], ["x" * 40, "x" * 32 + "729044ab"]),
        ("openai", ["é"], ["_"]),
        ("responses", ["toolu:1/2 3", LONG], ["toolu_1_2_3", "x" * 64]),
        ("anthropic", ["a.b", "a_b"], ["a_b", "a_beb2980a5"]),
        ("gemini", ["any thing é", "\ud83d"], ["any thing é", "_"]),
    ],
)
def test_an_id_stays_as_it_is_where_it_can(api: Api, ids: list[str], wired: list[str]) -> None:
    assert wire_ids(ids, id_rule_for(Target(api=api))) == wired


def test_a_repeated_id_is_told_apart_and_what_was_given_out_stays() -> None:
    rule = IdRule("[^a-z0-9]", limit=20)
    four = wire_ids(["a", "a", "a", "a"], rule)
    assert len(set(four)) == 4
    assert wire_ids(["a", "a"], rule) == four[:2]
    assert wire_ids(["a", "a", four[2], "a"], rule)[:3] == [*four[:2], four[2]]


def test_a_thousand_calls_with_one_id_cost_no_more_than_a_thousand_ids() -> None:
    assert len(set(wire_ids(["same"] * 20_000, MISTRAL))) == 20_000


@pytest.mark.parametrize(
    "model", ["mistral-large", "Mixtral-8x7B", "codestral-2", "ministral-8b", "devstral", "pixtral"]
)
def test_mistral_takes_nine_letters_and_digits(model: str) -> None:
    rule = id_rule_for(Target(api="openai", model=model))
    wired = wire_ids(["call_abcdefghi", "a", "a", ""], rule)
    assert wired[0] == "callabcde"
    assert all(len(each) == 9 and each.isalnum() for each in wired)
    assert len(set(wired)) == 4
    assert id_rule_for(Target(api="responses", model=model)) != rule
