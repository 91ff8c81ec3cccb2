"""Templates: declared names are placeholders, everything else is text, and a value is inserted once."""

import enum
from dataclasses import dataclass
from typing import Any

import pytest

from toolcrib.define.agent import fill, placeholders


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True)
class Point:
    x: int


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        (3, "3"),
        (3.5, "3.5"),
        (True, "true"),
        (None, ""),
        ([1, "два"], '[1, "два"]'),
        ({"k": [None]}, '{"k": [null]}'),
        (Colour.RED, "red"),
        (Point(1), '{"x": 1}'),
    ],
)
def test_a_value_is_inserted_as_a_model_can_read_it(value: Any, text: str) -> None:
    assert fill("<${v}>", {"v": value}, ["v"]) == f"<{text}>"


@pytest.mark.parametrize(
    "literal",
    ["${HOME}", "${ v }", "${v.x}", "$v", "${}", "${v", "${v:-1}", "$(v)", "${V}", "${__class__}", "${\nv}"],
)
def test_whatever_is_not_a_declared_name_stays_as_it_is_written(literal: str) -> None:
    assert fill(f"a {literal} b", {"v": "x", "HOME": "/root"}, ["v"]) == f"a {literal} b"


def test_a_value_is_never_looked_at_again() -> None:
    assert fill("${a}${b}${${a}}", {"a": "${b}", "b": r"\1 $& ${a}"}, ["a", "b"]) == r"${b}\1 $& ${a}${${b}}"


@pytest.mark.parametrize("name", ["max-files", "目标", "a.b", "1"])
def test_a_declared_name_is_a_placeholder_however_it_is_spelled(name: str) -> None:
    assert fill(f"${{{name}}}", {name: "x"}, [name]) == "x"


def test_a_declared_name_without_a_value_leaves_nothing_behind() -> None:
    assert fill("[${a}]", {}, ["a"]) == "[]"


def test_placeholders_are_told_once_and_in_order() -> None:
    assert placeholders("${b} ${a} ${b} ${HOME}") == ("b", "a", "HOME")
