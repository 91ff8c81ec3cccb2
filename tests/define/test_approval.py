"""The digest of a call holds everything that was shown; the sheet shows everything that the digest holds."""

from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, time
from enum import Enum
from uuid import UUID

import pytest
from pydantic import BaseModel, Field

from toolcrib.define.approval import digest_of, is_in_time, prefix_digests, sheet
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.policy.resolve import person_of
from toolcrib.policy.settings import PolicySettings

BOB = Caller(
    session="agent:main:main", agent="main", provider="openai", model="m", channel="telegram", account="a",
    group="-100", sender=Sender(id="7", e164="+1", username="bob", name="Bob"),
)  # fmt: skip
PLAIN = PolicySettings()
CALL = Call("call_1", "exec", {"command": "git push origin", "env": {"B": "1", "A": "2"}}, "key_1")
BINDING = {"dir": "/ws", "argv": '["git","push","origin"]', "file job.py": "00ff"}
DIGEST = digest_of(BOB, CALL, BINDING)


@pytest.mark.parametrize(
    ("caller", "call", "binding"),
    [
        (replace(BOB, session="agent:main:other"), CALL, BINDING),
        (replace(BOB, agent="other"), CALL, BINDING),
        (replace(BOB, channel="slack"), CALL, BINDING),
        (replace(BOB, account=None), CALL, BINDING),
        (replace(BOB, group=None), CALL, BINDING),
        (replace(BOB, sender=Sender(id="8", e164="+1")), CALL, BINDING),
        (replace(BOB, sender=Sender(id="7", e164="+2")), CALL, BINDING),
        (replace(BOB, sender=None), CALL, BINDING),
        (replace(BOB, sandboxed=True), CALL, BINDING),
        (replace(BOB, parents=("main",)), CALL, BINDING),
        (BOB, CALL._replace(name="process"), BINDING),
        (BOB, CALL._replace(args={**CALL.args, "command": "git push  origin"}), BINDING),
        (BOB, CALL._replace(args={**CALL.args, "pty": True}), BINDING),
        (BOB, CALL._replace(args={**CALL.args, "env": {"A": "2"}}), BINDING),
        (BOB, CALL, {**BINDING, "dir": "/ws/"}),
        (BOB, CALL, {**BINDING, "file job.py": "00fe"}),
        (BOB, CALL, {}),
    ],
)
def test_any_difference_is_another_call(caller: Caller, call: Call, binding: dict[str, str]) -> None:
    assert digest_of(caller, call, binding) != DIGEST


@pytest.mark.parametrize(
    ("caller", "call"),
    [
        (replace(BOB, provider="anthropic", model="other"), CALL),
        (replace(BOB, agent="Main"), CALL),
        (replace(BOB, agent=None), CALL),
        (replace(BOB, sender=Sender(id="7", e164="+1", username="eve", name="Eve")), CALL),
        (BOB, CALL._replace(id="call_2", key="key_2", signature="sealed")),
        (BOB, CALL._replace(args={"env": {"A": "2", "B": "1"}, "command": "git push origin"})),
    ],
)
def test_the_same_call_by_the_same_caller_has_one_digest(caller: Caller, call: Call) -> None:
    assert digest_of(caller, call, dict(reversed(BINDING.items()))) == DIGEST


@pytest.mark.parametrize("args", [{"a": float("nan")}, {"a": {1, 2}}, {"a": object()}])
def test_arguments_that_cannot_be_written_down_cannot_be_approved(args: dict[str, object]) -> None:
    with pytest.raises(ToolError, match="cannot be shown to a human"):
        digest_of(BOB, CALL._replace(args=args), {})


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (date(2030, 1, 2), "2030-01-02"),
        (datetime(2030, 1, 2, 3, tzinfo=UTC), "2030-01-02T03:00:00+00:00"),
        (time(3, 4), "03:04:00"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        ([date(2030, 1, 2)], '["2030-01-02"]'),
        ({"b", "a"}, '["a", "b"]'),
    ],
)
def test_a_call_with_any_type_that_a_tool_may_declare_can_be_shown(value: object, shown: str) -> None:
    assert shown in sheet(BOB, CALL._replace(args={"when": value}), "it is asked about", {})


@dataclass
class Spot:
    line: int
    tags: list[str]


class Kind(Enum):
    FILE = "file"


class Target(BaseModel):
    spot: Spot
    hidden: str = Field(default="", exclude=True)


def test_every_field_of_a_nested_argument_is_bound_and_shown() -> None:
    def call(line: int = 1, hidden: str = "") -> Call:
        target = Target(spot=Spot(line, ["a"]), hidden=hidden)
        return Call("1", "mark", {"target": target, "kind": Kind.FILE})

    assert '  target: {"spot": {"line": 1, "tags": ["a"]}, "hidden": "x"}\n  kind: "file"' in sheet(
        BOB, call(hidden="x"), "why", {}
    )
    digests = {digest_of(BOB, each, {}) for each in (call(), call(), call(line=2), call(hidden="x"))}
    assert len(digests) == 3


def test_beginnings_of_a_command_are_bound_to_all_the_rest() -> None:
    def beginnings(line: str, words: str, **change: str) -> list[tuple[list[str], str]]:
        call = CALL._replace(args={**CALL.args, "command": line})
        return prefix_digests(BOB, call, {**BINDING, "argv": words, **change}, "command")

    first = beginnings("git push origin", '["git","push","origin"]')
    assert [words for words, _ in first] == [["git"], ["git", "push"], ["git", "push", "origin"]]
    other = beginnings("git push fork", '["git","push","fork"]')
    assert [digest for _, digest in first[:2]] == [digest for _, digest in other[:2]]
    assert first[2][1] != other[2][1]
    elsewhere = beginnings("git push origin", '["git","push","origin"]', dir="/")
    assert not {digest for _, digest in first} & {digest for _, digest in elsewhere}
    joined = beginnings("'git push' origin", '["git push","origin"]')
    assert not {digest for _, digest in first} & {digest for _, digest in joined}


@pytest.mark.parametrize("words", ["", "no json", "{}", "[1]", '"git"'])
def test_words_that_are_none_have_no_beginnings(words: str) -> None:
    assert prefix_digests(BOB, CALL, {**BINDING, "argv": words}, "command") == []


@pytest.mark.parametrize(
    ("caller", "is_somebody"),
    [
        (BOB, True),
        (replace(BOB, sender=Sender(e164="+1")), True),
        (replace(BOB, channel=None), True),
        (replace(BOB, sender=None), False),
        (replace(BOB, sender=Sender(username="bob", name="Bob")), False),
        (Caller(), False),
    ],
)
def test_only_a_typed_identity_is_a_person(caller: Caller, is_somebody: bool) -> None:
    assert bool(person_of(PLAIN, caller)) is is_somebody


def test_names_make_nobody_somebody_else() -> None:
    eve = replace(BOB, sender=Sender(id="8", username="bob", name="Bob"))
    assert person_of(PLAIN, eve) != person_of(PLAIN, BOB) == person_of(PLAIN, replace(BOB, session=None, group=None))


def test_the_sheet_shows_the_whole_call_escaped() -> None:
    call = Call("1", "write", {"path": "c\u0430t", "content": "one\ntwo\u202e", "n": 3})
    assert sheet(Caller(agent="main"), call, "because\x1b", {"dir": "/ws"}) == (
        "write, asked by agent main\n"
        "because because\\x1b\n"
        '  path: "c\\u0430t"\n'
        '  content: "one\\n\n'
        '    two\\u202e"\n'
        "  n: 3\n"
        "bound to\n"
        '  dir: "/ws"'
    )


@pytest.mark.parametrize(("now", "is_good"), [(39, False), (41, True), (100, True), (399, True), (400, False)])
def test_a_clock_turned_back_lengthens_nothing(now: float, is_good: bool) -> None:
    assert is_in_time(100, 400, now) is is_good
