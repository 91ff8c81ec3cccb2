"""Reading the arguments of raw-schema tools."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.define.args import Args, is_on, text_from_number, trim
from toolcrib.define.errors import ArgumentError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.parametrize(
    ("text", "trimmed"),
    [
        (" a\t\n", "a"),
        ("\ufeffx\u00a0", "x"),
        ("\u2003x\u3000\u2029", "x"),
        ("\x1cx\x1f", "\x1cx\x1f"),
        ("\x85x", "\x85x"),
        ("\u200bx", "\u200bx"),
    ],
)
def test_trim_takes_the_blanks_of_the_documents(text: str, trimmed: str) -> None:
    assert trim(text) == trimmed


def test_args_are_a_mapping() -> None:
    args = Args({"a": 1, "b": None})
    assert dict(args) == {"a": 1, "b": None}
    assert (args["a"], args.get("c"), "b" in args, len(args)) == (1, None, True, 2)
    assert repr(args) == "Args({'a': 1, 'b': None})"


@pytest.mark.parametrize(
    ("value", "read"),
    [(" a ", "a"), ("", None), ("  ", None), (5, None), (True, None), (None, None), (["a"], None)],
)
def test_string_is_trimmed_and_other_kinds_are_missing(value: Any, read: str | None) -> None:
    assert Args({"k": value}).string("k") == read


def test_string_keeps_blanks_and_emptiness_when_told() -> None:
    args = Args({"blank": "  ", "empty": ""})
    assert args.string("blank", trim=False) == "  "
    assert args.string("blank", allow_empty=True) == ""
    assert args.string("empty", required=True, allow_empty=True) == ""


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (None, "path is required: give a string"),
        ("  ", "path is required: give a string, not '  '"),
        (5, "path is required: give a string, not 5"),
        (list(range(100)), "path is required: give a string, not [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10,..."),
    ],
)
def test_a_missing_string_is_named_with_what_came_instead(value: Any, complaint: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        Args({"path": value}).string("path", required=True)
    assert str(raised.value) == complaint
    assert raised.value.code == "bad_arguments"


def test_a_label_stands_for_the_name() -> None:
    with pytest.raises(ArgumentError, match=r"^The path is required: give a string$"):
        Args({}).string("path", required=True, label="The path")


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (0, 0),
        (5.9, 5.9),
        (-3, -3),
        (10**400, 10**400),
        (math.inf, None),
        (math.nan, None),
        (True, None),
        (" 7.8 ", 7.8),
        ("12px", 12),
        ("1,000", 1),
        ("0x10", 0),
        ("1e3", 1000.0),
        ("1e", 1),
        ("5.", 5.0),
        (".5x", 0.5),
        ("-.5", -0.5),
        ("+4", 4),
        ("9007199254740993", 9007199254740993),
        ("1e400", None),
        ("9" * 400, None),
        ("Infinity", None),
        ("a", None),
        (".", None),
        ("\u0661", None),
        ("1_000", 1),
        ("", None),
        ([1], None),
    ],
)
def test_number_takes_what_a_text_begins_with(value: Any, read: float | None) -> None:
    number = Args({"k": value}).number("k")
    assert number == read
    assert not isinstance(number, bool)


@pytest.mark.parametrize(("value", "read"), [(5.9, 5), (-5.9, -5), ("7.8", 7), ("1e3", 1000), (4, 4), ("x", None)])
def test_integer_cuts_towards_zero(value: Any, read: int | None) -> None:
    number = Args({"k": value}).integer("k")
    assert number == read
    assert number is None or type(number) is int


@pytest.mark.parametrize(
    ("value", "read"),
    [
        (["a", " b ", "", 5, None], ["a", "b"]),
        (("a",), ["a"]),
        (" a, b ", ["a, b"]),
        ("", None),
        ([], None),
        ([1, 2], None),
        (5, None),
    ],
)
def test_strings_keeps_the_texts_of_a_list(value: Any, read: list[str] | None) -> None:
    assert Args({"k": value}).strings("k") == read


@pytest.mark.parametrize(
    ("value", "read"),
    [(" a ", "a"), (5, "5"), (5.0, "5"), (-5.9, "-5.9"), (0, "0"), (math.nan, None), (True, None), (" ", None)],
)
def test_string_or_number_gives_text(value: Any, read: str | None) -> None:
    assert Args({"k": value}).string_or_number("k") == read


@pytest.mark.parametrize("method", ["number", "integer", "strings", "string_or_number"])
def test_every_reader_complains_by_name(method: str) -> None:
    with pytest.raises(ArgumentError, match=r"^k is required: give a .*, not {}$"):
        getattr(Args({"k": {}}), method)("k", required=True)
    with pytest.raises(ArgumentError, match=r"^Kay is required: give a "):
        getattr(Args({}), method)("k", required=True, label="Kay")


def test_flag_is_true_or_false_or_the_default() -> None:
    args = Args({"on": True, "off": False, "word": "true", "one": 1})
    assert [args.flag(key) for key in ("on", "off", "word", "one", "gone")] == [True, False, False, False, False]
    assert args.flag("gone", default=True) is True
    assert args.flag("off", default=True) is False


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (5.0, "5"),
        (-0.0, "0"),
        (5.9, "5.9"),
        (0.1, "0.1"),
        (1e16, "10000000000000000"),
        (1.2345678901234567e20, "123456789012345670000"),
        (1e21, "1e+21"),
        (-1.5e300, "-1.5e+300"),
        (0.000001, "0.000001"),
        (1.5e-7, "1.5e-7"),
        (5e-324, "5e-324"),
        (10**21, "1000000000000000000000"),
    ],
)
def test_numbers_are_spelt_as_json_writers_do(number: float, text: str) -> None:
    assert text_from_number(number) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_as_text_is_the_same_number(number: float) -> None:
    assert float(text_from_number(number)) == number


def test_a_switch_is_on_unless_it_is_off() -> None:
    assert is_on({"a": True}, "a") is True
    assert is_on({"a": False}, "a") is False
    assert is_on({}, "a", default=False) is False
    assert is_on(None, "a") is True
    assert is_on({"a": None}, "a", default=False) is True


@given(JSON)
def test_no_value_breaks_a_reader(value: Any) -> None:
    args = Args({"k": value})
    for read in (args.string, args.number, args.integer, args.strings, args.string_or_number):
        missing = read("k") is None
        try:
            read("k", required=True)
        except ArgumentError:
            assert missing
        else:
            assert not missing
