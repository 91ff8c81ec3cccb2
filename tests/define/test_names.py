"""Names of tools: one canonical spelling, look-alikes refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.define.names import canonical, fold_name, is_name, nearest


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("read", "read"),
        (" Read\t", "read"),
        ("WEB_FETCH", "web_fetch"),
        ("ｒｅａｄ", "read"),  # full width: a compatibility form of the same letters
        ("bash", "exec"),
        ("Bash ", "exec"),
        ("apply-patch", "apply_patch"),
        ("apply_patch", "apply_patch"),
        ("mcp-tool-1", "mcp-tool-1"),
        ("a" * 64, "a" * 64),
        ("a" * 65, None),
        ("", None),
        ("   ", None),
        ("reаd", None),  # a Cyrillic a
        ("re\u200bad", None),  # a zero-width space
        ("read\u2060", None),  # a word joiner at the end
        ("\ufeffread", None),  # a byte-order mark
        ("re\u202ead", None),  # a right-to-left override
        ("ıs", None),  # a dotless i stays what it is
        ("read me", None),
        ("read\x00", None),
        ("read*", None),
        ("group:fs", None),
        ("../read", None),
    ],
)
def test_a_name_has_one_canonical_spelling_or_none(written: str, name: str | None) -> None:
    assert canonical(written) == name


@given(st.text())
def test_folding_twice_changes_nothing_more(text: str) -> None:
    assert fold_name(fold_name(text)) == fold_name(text)


@given(st.text())
def test_a_canonical_name_is_its_own_canonical_name(text: str) -> None:
    name = canonical(text)
    assert name is None or (is_name(name) and canonical(name) == name)


@pytest.mark.parametrize(
    ("word", "count", "meant"),
    [
        ("raed", 1, ["read"]),
        ("READ", 1, ["read"]),
        ("web_serch", 2, ["web_search", "web_fetch"]),
        ("zzz", 3, []),
    ],
)
def test_the_nearest_names_come_likeliest_first(word: str, count: int, meant: list[str]) -> None:
    assert nearest(word, ["read", "write", "web_search", "web_fetch"], count) == meant
