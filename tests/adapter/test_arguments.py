"""The arguments of a call as text: exactly one clear object before it runs, whatever can be shown while it streams."""

import contextlib
import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.adapter.arguments import (
    MAX_ARGUMENT_BYTES,
    MAX_ARGUMENT_DEPTH,
    check_argument_size,
    parse_arguments,
    parse_partial_arguments,
)
from toolcrib.adapter.cards import Target
from toolcrib.adapter.reply import ReplyBuilder
from toolcrib.define.errors import ArgumentError


def glimpse(value: object) -> str:
    """Name a case by its first characters; some are a mebibyte long."""
    return ascii(value)[:30]


@pytest.mark.parametrize(
    ("text", "args"),
    [
        ("", {}),
        (" \n\t", {}),
        ("{}", {}),
        ('{"a": 1, "b": [true, null, {"c": "d"}]}', {"a": 1, "b": [True, None, {"c": "d"}]}),
        ('{"url": "https://x.y/?a=b:c", "at": "10:30"}', {"url": "https://x.y/?a=b:c", "at": "10:30"}),
        ('{"said": "\\":\\" and \\" :"}', {"said": '":" and " :'}),
        ('{\n  "a" : 1,\n  "b"\t:\r 2\n}', {"a": 1, "b": 2}),
        ('{"a": "\\ud83d\\ude00 \\u0000"}', {"a": "😀 \0"}),
        ('{"a": 18446744073709551615, "b": -9223372036854775808}', {"a": 2**64 - 1, "b": -(2**63)}),
        ('{"a": 1e300, "b": 1e-999, "c": -0.0}', {"a": 1e300, "b": 0.0, "c": 0.0}),
        ('{"a": {"x": 1}, "b": {"x": 2}}', {"a": {"x": 1}, "b": {"x": 2}}),
        ('{"a":' * (MAX_ARGUMENT_DEPTH - 1) + "{}" + "}" * (MAX_ARGUMENT_DEPTH - 1), None),
        ('{"a": "' + "x" * (MAX_ARGUMENT_BYTES - 20) + '"}', None),
    ],
    ids=glimpse,
)
def test_one_clear_object_is_read_as_it_was_written(text: str, args: Any) -> None:
    assert parse_arguments(text) == (json.loads(text) if args is None else args)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ('{"a": 1', "not valid JSON at line 1, column"),
        ('{"a": 1,}', "not valid JSON at line 1, column 8"),
        ('{"a": 1} x', "not valid JSON at line 1, column 10"),
        ("{'a': 1}", "not valid JSON"),
        ("null", "the arguments are null; write one JSON object"),
        ("[1]", "the arguments are a list; write one JSON object"),
        ('"a"', "the arguments are a text"),
        ("true", "the arguments are true or false"),
        ("5", "the arguments are a number"),
        ('{"a": NaN}', "not valid JSON"),
        ('{"a": -Infinity}', "not valid JSON"),
        ('{"a": 1e999}', "not valid JSON"),
        ('{"a": 1e999999999}', "not valid JSON"),
        (f'{{"a": {"9" * 1000}}}', "not valid JSON"),
        ('{"a": 18446744073709551616}', "the number 18446744073709551616 is too large to be exact; write it as text"),
        ('{"a": [{"b": -9223372036854775809}]}', "the number -9223372036854775809 is too large"),
        ('{"a": 1, "a": 1}', "'a' is given twice in one object; give it once"),
        ('{"a" : 1, "a": "http://x"}', "'a' is given twice"),
        ('{"a": 1, "\\u0061": "x"}', "'a' is given twice"),
        ('{"a": [{"b": 1, "b": 2}]}', "'b' is given twice"),
        ('{"a": "\\":", "b": 1, "b"\n: 2}', "'b' is given twice"),
        (f'{{"{"k" * 99}": 1, "{"k" * 99}": 2}}', f"'{'k' * 40}…' is given twice"),
        ('{"a": "\\ud800"}', "not valid JSON"),
        ('{"a": "\ud800"}', "not valid JSON"),
        ('\ufeff{"a": 1}', "not valid JSON"),
        ('{"a":' * MAX_ARGUMENT_DEPTH + "{}" + "}" * MAX_ARGUMENT_DEPTH, f"nested more than {MAX_ARGUMENT_DEPTH} deep"),
        ('{"a":' * 100_000, "not valid JSON"),
        ('{"a": ' + "[" * 100_000, "not valid JSON"),
        ('{"a": 1e300, "b": ' + "[" * 900 + "]" * 900 + "}", f"nested more than {MAX_ARGUMENT_DEPTH} deep"),
        ('{"a": "' + "x" * MAX_ARGUMENT_BYTES + '"}', f"longer than {MAX_ARGUMENT_BYTES} bytes"),
        ('{"a": "' + "é" * (MAX_ARGUMENT_BYTES // 2) + '"}', f"longer than {MAX_ARGUMENT_BYTES} bytes"),
        ('{"a": "' + "\ud800" * (MAX_ARGUMENT_BYTES // 2) + '"}', f"longer than {MAX_ARGUMENT_BYTES} bytes"),
    ],
    ids=glimpse,
)
def test_anything_else_is_refused_in_one_sentence(text: str, complaint: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        parse_arguments(text)
    assert complaint in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    assert len(str(raised.value)) < 200


NAMES = st.sampled_from(["a", "b", ":", '":', " :", "\\"]) | st.text(max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
    | NAMES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
OBJECTS = st.dictionaries(NAMES, VALUES, max_size=4)


@given(OBJECTS, st.sampled_from([None, 2]), st.booleans(), st.sampled_from([(",", ":"), (", ", ": "), (" ,", "\t: ")]))
def test_what_was_written_comes_back(args: Any, indent: int | None, is_ascii: bool, marks: tuple[str, str]) -> None:
    text = json.dumps(args, indent=indent, ensure_ascii=is_ascii, separators=marks)
    assert parse_arguments(text) == args


@given(OBJECTS, NAMES, VALUES, st.sampled_from([":", " : "]))
def test_a_name_given_twice_is_always_found(args: Any, name: str, value: Any, colon: str) -> None:
    rest = json.dumps({**args, name: value})[1:]
    with pytest.raises(ArgumentError, match="given twice"):
        parse_arguments(f"{{{json.dumps(name)}{colon}1, {rest}")


@given(st.text() | st.text(alphabet='{}[]":,\\tfn01.eE- \ud800'))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert isinstance(parse_partial_arguments(text), dict)
    with contextlib.suppress(ArgumentError):
        assert isinstance(parse_arguments(text), dict)


@given(OBJECTS)
def test_whole_arguments_are_shown_as_they_will_be_read(args: Any) -> None:
    text = orjson.dumps(args).decode()
    assert parse_partial_arguments(text) == parse_arguments(text) == args


@given(st.dictionaries(st.text(max_size=3), st.text(max_size=5), min_size=1, max_size=3), st.data())
def test_what_is_shown_early_only_grows(args: dict[str, str], data: st.DataObject) -> None:
    text = json.dumps(args, ensure_ascii=False)
    early = parse_partial_arguments(text[: data.draw(st.integers(0, len(text)))])
    assert list(early) == list(args)[: len(early)]
    assert all(args[name].startswith(value) for name, value in early.items())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"a": tr', {"a": True}),
        ('{"a": [1, fals', {"a": [1, False]}),
        ('{"a": n', {"a": None}),
        ('{"a": 12', {"a": 12}),
        ('{"a": 1e+', {"a": 1}),
        ('{"a": "x: tr', {"a": "x: tr"}),
        ('{"a": "1e', {"a": "1e"}),
        ('{"a": [1,], "b": ",]"', {"a": [1], "b": ",]"}),
        ('{"a": 1} and more', {"a": 1}),
        ('{"a": "half \\ud83d', {"a": "half "}),
        ("{'a", {}),
        ("[" * 100_000, {}),
        ('{"a":' * 100_000, {}),
        ('{"a": "' + "x" * 100_000, {"a": "x" * (64 * 1024 - 7)}),
    ],
    ids=glimpse,
)
def test_unfinished_arguments_are_shown_as_far_as_they_can_be_told(text: str, shown: Any) -> None:
    assert parse_partial_arguments(text) == shown


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        ({"a": "x" * MAX_ARGUMENT_BYTES}, f"longer than {MAX_ARGUMENT_BYTES} bytes"),
        ({"a": 2**64}, "within 64 bits"),
        (
            json.loads('{"a":' * MAX_ARGUMENT_DEPTH + "{}" + "}" * MAX_ARGUMENT_DEPTH),
            f"nested more than {MAX_ARGUMENT_DEPTH} deep",
        ),
    ],
    ids=["long", "inexact", "deep"],
)
def test_arguments_that_came_as_an_object_have_the_same_measure(args: dict[str, Any], complaint: str) -> None:
    reply = ReplyBuilder(Target(api="gemini", model="m"))
    reply.call(0, name="read", args=args)
    (call,) = reply.end("calls").message.calls
    assert call.args == {}
    assert complaint in call.parse_error
    assert check_argument_size({"a": [{"b": 1.5}]}) == {"a": [{"b": 1.5}]}
