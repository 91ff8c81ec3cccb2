"""The language of patterns: what matches, and what is said about a pattern that does not work."""

import tempfile

import pytest

from toolcrib.backends.files.search.rg import StopSignal, find_ripgrep, pattern_options, read_rows
from toolcrib.define.errors import ArgumentError

RG = find_ripgrep() or ""
TEXT = "hello\r\nfoo bar\ncafé слово ok\n\nx{y} [z]\na+b (c)\n\tone_two 12"


def matching(pattern: str, text: str = TEXT, *, literal: bool = False, ignore_case: bool = False) -> list[str]:
    options = pattern_options(pattern, literal=literal, ignore_case=ignore_case)
    with tempfile.TemporaryFile() as file:
        file.write(text.encode())
        file.flush()
        rows = read_rows(RG, [file.fileno()], options, context=0, max_count=1_000, stop=StopSignal())
        return [row.text for row in rows]


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
        ("x{", ["x{y} [z]"]), ("{y}", ["x{y} [z]"]), (r"\[z\]", ["x{y} [z]"]), (r"[\[]z[\]]", ["x{y} [z]"]),
        ("[]x]", ["x{y} [z]"]), (r"a\+b \(c\)", ["a+b (c)"]), ("(?P<n>foo)", ["foo bar"]), ("(?<n>foo)", ["foo bar"]),
        ("fo+?", ["foo bar"]), ("fo++", ["foo bar"]), ("[^\\n]ar", ["foo bar"]), ("[a-c&&b]ar", ["foo bar"]),
        (r"foo[\s\S]*", ["foo bar"]), ("[[:digit:]]", ["\tone_two 12"]), (r"\Ahello\z", ["hello"]),
        (r"12\Z", ["\tone_two 12"]), ("(?x) f o o", ["foo bar"]), ("[{]y", ["x{y} [z]"]), (r"\{y[}]", ["x{y} [z]"]),
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
        ("(", "unclosed group"), ("a)", "unopened group"), ("*.ts", "repetition operator missing"),
        ("[a", "unclosed character class"), ("[[]z[]]", "unclosed character class"), ("(?=a)", "look-around"),
        ("(?<!a)b", "look-around"), (r"(a)\1", "backreferences"), ("(?P=n)", "cannot be searched"),
        ("(?>a)", "cannot be searched"), ("a\\", "unclosed group"), (r"a\nb", "line end"), ("a\nb", "line end"),
        ("[\\n]", "line end"), (r"\y", "unrecognized escape"), ("a{3,2}", "invalid repetition count range"),
        ("(" * 1_999 + ")" * 1_999, "nest"), ("x" * 4_001, "4000"), (r"\p{Nothing}", "Unicode property not found"),
        ("[z-a]", "invalid character class range"), ("\ud800", "half a character"), (r"\x{110000}", "not a Unicode"),
        (r"(\w{500}){500}", "exceeds size limit"),
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
