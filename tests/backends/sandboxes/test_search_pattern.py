"""The language of patterns: what matches, and what is said about a pattern that does not work."""

import pytest

from toolcrib.backends.sandboxes.search.pattern import pattern_of
from toolcrib.define.errors import ArgumentError

TEXT = "hello\r\nfoo bar\ncafé слово ok\n\nx{y} [z]\na+b (c)\n\tone_two 12"


def matching(pattern: str, text: str = TEXT, *, literal: bool = False, ignore_case: bool = False) -> list[str]:
    compiled, data = pattern_of(pattern, literal=literal, ignore_case=ignore_case), text.encode()
    found, at = [], 0
    while (span := compiled.next_line(data, at)) is not None:
        found.append(data[slice(*span)].decode().removesuffix("\r"))
        at = span[1] + 1
    return found


@pytest.mark.parametrize(
    ("pattern", "lines"),
    [
        ("hello", ["hello"]), ("HELLO", []), ("(?i)HELLO", ["hello"]), ("(?i:HE)LLO", []), ("hello$", ["hello"]),
        ("^foo", ["foo bar"]), ("^bar", []), ("^$", [""]), ("o b", ["foo bar"]), ("fo{2}", ["foo bar"]),
        ("fo{3,}", []), ("(foo|one)[ _](bar|two)", ["foo bar", "\tone_two 12"]), (r"\bone_two\b", ["\tone_two 12"]),
        (r"\bone\b", []), (r"\bслово\b", ["café слово ok"]), (r"\bслов\b", []), (r"слов\B", ["café слово ok"]),
        (r"\bcafé\b", ["café слово ok"]), (r"\<bar\>", ["foo bar"]), (r"caf\w\s", ["café слово ok"]),
        (r"\p{Cyrillic}+", ["café слово ok"]), (r"\d\d$", ["\tone_two 12"]), (r"[^\W\d_]+_", ["\tone_two 12"]),
        (r"^\t", ["\tone_two 12"]), (r"\x{444}|\x6f\x6b", ["café слово ok"]), (r"\u0441\u043b", ["café слово ok"]),
        ("x{", ["x{y} [z]"]), ("{y}", ["x{y} [z]"]), (r"\[z\]", ["x{y} [z]"]), ("[[]z[]]", ["x{y} [z]"]),
        ("[]x]", ["x{y} [z]"]), (r"a\+b \(c\)", ["a+b (c)"]), ("(?P<n>foo)", ["foo bar"]), ("(?<n>foo)", ["foo bar"]),
        ("fo+?", ["foo bar"]), ("fo++", ["foo bar"]), ("[^\\n]ar", ["foo bar"]), ("[a-c&&b]ar", ["foo bar"]),
        (r"foo[\s\S]*", ["foo bar"]), ("[[:digit:]]", ["\tone_two 12"]), (r"\Ahello\z", ["hello"]),
        ("", TEXT.replace("\r", "").split("\n")),
        ("foo.bar", ["foo bar"]), ("hello.foo", []), (r"hello\s+foo", []), (r"(?s)hello.foo", []),
        (r"[^x]{12}", ["café слово ok"]),
    ],
)  # fmt: skip
def test_a_pattern_matches_within_a_line(pattern: str, lines: list[str]) -> None:
    assert matching(pattern) == lines


@pytest.mark.parametrize("pattern", ["a+b (c)", "x{y} [z]", "hello", "слово ok"])
def test_a_literal_is_what_it_is(pattern: str) -> None:
    assert len(matching(pattern, literal=True)) == 1
    assert matching(pattern.upper(), literal=True) == []
    assert len(matching(pattern.upper(), literal=True, ignore_case=True)) == 1


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "without its )"), ("a)", "without its ("), ("*.ts", "nothing before it to repeat"),
        ("[a", "without its ]"),
        ("(?=a)", "look-around"), ("(?<!a)b", "look-around"), (r"(a)\1", "back-reference"),
        ("(?P=n)", "back-reference"),
        ("(?>a)", "atomic"), ("a\\", "backslash at its end"), (r"a\nb", "line end"), ("a\nb", "line end"),
        ("[\\n]", "line end"),
        (r"\y", r"\y"), ("a{2000}", "1000"), ("a{3,2}", "wrong way round"), ("(" * 101 + ")" * 101, "nested"),
        ("x" * 4_001, "4000"), (r"\p{Nothing}", "cannot be searched"), ("[z-a]", "cannot be searched"),
        ("\ud800", "half a character"),
        (r"\x{110000}", "no character"), ("(?x)a", "a group that begins"), (r"(\w{500}){500}", "cannot be searched"),
    ],
)  # fmt: skip
def test_a_pattern_that_does_not_work_is_one_sentence(pattern: str, words: str) -> None:
    with pytest.raises(ArgumentError) as raised:
        matching(pattern)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize(
    "pattern",
    ["(a+)+$", "(a|a)*$", "(.*)*=.*", "(a*)*b", r"(\w+\s?)+$", "(x+x+)+y", r"\b(a+)+\b$", "a{0,100}a{0,100}b"],
)
def test_no_pattern_takes_more_than_linear_time(pattern: str) -> None:
    hard = ("a" * 5_000 + "!é\n") * 20
    assert isinstance(matching(pattern, hard), list)


def test_a_boundary_is_seen_on_either_side_of_any_letter() -> None:
    assert matching(r"\bї\b", "ї\nїї\nx ї y\n") == ["ї", "x ї y"]
    assert matching(r"\Bа\B", "мак\nа\n") == ["мак"]
    assert matching(r"\bй\b.\bй\b", "й й\nйй\n") == ["й й"]
    assert matching(r"^\b\bмак\b\b$", "мак\n") == ["мак"]
