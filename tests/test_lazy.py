"""Lazy declarations are those of the standard library, made when they are first used."""

import copy
import dataclasses
import inspect
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import Any

import pytest

from toolcrib import lazy

Declare = Callable[..., Any]
BOTH = (dataclass, lazy.dataclass)


def declare_all(declare: Declare) -> tuple[Any, ...]:
    @declare
    class Plain:
        x: int
        y: list[int] = field(default_factory=list)

    @declare(frozen=True, slots=True)
    class Value:
        """A value."""

        name: str
        size: int = 3
        secret: str = field(default="", repr=False, compare=False)

    @declare(frozen=True, slots=True, kw_only=True)
    class Named:
        a: int
        b: tuple[int, ...] = ()
        c: int = field(init=False, default=7)

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("below zero")

    @declare(frozen=True, slots=True, kw_only=True)
    class Wider(Named):
        d: dict[str, int] = field(default_factory=dict)

    @declare(slots=True, eq=False)
    class Same:
        x: int

    return Plain, Value, Named, Wider, Same


def show(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except (TypeError, ValueError, AttributeError) as error:
        return type(error), str(error)


def test_a_class_takes_shows_and_compares_what_the_one_of_the_library_does() -> None:
    def behave(declare: Declare) -> list[Any]:
        plain, value, named, wider, same = declare_all(declare)
        acts: list[Callable[[], Any]] = [
            lambda: repr(plain(1)),
            lambda: plain(1).y is plain(1).y,
            lambda: plain(1) == plain(1, []),
            lambda: plain.__hash__,
            lambda: plain(),
            lambda: plain(1, 2, 3),
            lambda: repr(value("n", secret="s")),
            lambda: value("n") == value("n", secret="s"),
            lambda: value("n") == value("m"),
            lambda: value("n") == named(a=1),
            lambda: len({value("n"), value("n", 3), value("m")}),
            lambda: repr(replace(value("n"), size=4)),
            lambda: setattr(value("n"), "size", 4),
            lambda: delattr(value("n"), "size"),
            lambda: named(1),
            lambda: named(a=-1),
            lambda: repr(named(a=1)),
            lambda: repr(wider(a=1, d={"k": 1})),
            lambda: wider(a=1) == named(a=1),
            lambda: setattr(wider(a=1), "a", 2),
            lambda: same(1) == same(1),
            lambda: [dataclasses.asdict(each) for each in (plain(1), value("n"), wider(a=2))],
            lambda: [repr(copy.deepcopy(each)) for each in (plain(1, [2]), value("n"), wider(a=2))],
            lambda: [each.name for each in fields(wider)],
            lambda: [str(inspect.signature(each)) for each in (plain, value, named, wider, same)],
            lambda: [each.__match_args__ for each in (plain, value, named)],
            lambda: [hasattr(each, "__dict__") for each in (plain(1), value("n"), wider(a=1), same(1))],
        ]
        return [show(each) for each in acts]

    library, ours = map(behave, BOTH)
    assert ours == library


@lazy.dataclass(frozen=True, slots=True)
class Kept:
    name: str
    sizes: tuple[int, ...] = ()


def test_a_frozen_value_survives_a_pickle() -> None:
    assert pickle.loads(pickle.dumps(Kept("n", (1, 2)))) == Kept("n", (1, 2))


def test_a_subclass_may_have_attributes_of_its_own_and_no_field_changes() -> None:
    class Marked(Kept):
        mark: str

    one = Marked("n")
    one.mark = "seen"
    assert (one.mark, Marked("n") == Marked("n"), Marked("n") == Kept("n")) == ("seen", True, False)
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        one.name = "m"  # type: ignore[misc]


def test_a_value_that_holds_itself_is_shown() -> None:
    @lazy.dataclass
    class Node:
        inner: Any = None

    node = Node()
    node.inner = node
    assert repr(node).endswith("Node(inner=...)")


def test_a_library_dataclass_may_build_on_ours() -> None:
    @dataclass(frozen=True, slots=True)
    class More(Kept):
        extra: int = 0

    assert repr(More("n", (), 2)).endswith("More(name='n', sizes=(), extra=2)")


@pytest.mark.parametrize("use", ["match", "search", "fullmatch", "findall", "sub", "split", "pattern", "groups"])
def test_a_pattern_does_what_a_compiled_one_does(use: str) -> None:
    text, compiled = r"(a+)b", [re.compile(r"(a+)b", re.IGNORECASE), lazy.regex(r"(a+)b", re.IGNORECASE)]
    args = {"sub": ("x", "zAabz"), "pattern": (), "groups": ()}.get(use, ("aab",))

    def act(each: Any) -> str:
        found = getattr(each, use)
        return repr(found(*args) if args else found)

    assert act(compiled[0]) == act(compiled[1])
    assert lazy.regex(text).match("b") is None


def test_a_copied_pattern_still_matches() -> None:
    assert copy.deepcopy(lazy.regex("a+")).match("aa") is not None


def test_a_frozen_class_that_compares_in_its_own_way_can_be_hashed_as_with_the_library() -> None:
    def declare(declare: Declare) -> Any:
        @declare(frozen=True)
        class Folded:
            name: str

            def __eq__(self, other: object) -> bool:
                return isinstance(other, Folded) and self.name.lower() == other.name.lower()

        return Folded

    for made in map(declare, BOTH):
        assert (made("A") == made("a"), hash(made("A")) == hash(("A",))) == (True, True)


def test_a_wrong_pattern_is_found_by_whoever_uses_it_first() -> None:
    with pytest.raises(re.error):
        lazy.regex("(").match("x")


def test_a_declaration_generates_no_code_and_compiles_no_pattern() -> None:
    program = (
        "import sys, dataclasses; from toolcrib import lazy; seen = []\n"
        "sys.addaudithook(lambda event, _: seen.append(event) if event in ('compile', 'exec') else None)\n"
        "lazy.regex('x+'); kind = type('A', (), {'__annotations__': {'x': int}})\n"
        "made = lazy.dataclass(frozen=True, slots=True)(kind)\n"
        "before = len(seen); made(1); print(before, len(seen) > 0)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["0", "True"]
