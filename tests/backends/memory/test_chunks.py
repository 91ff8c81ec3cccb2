"""Chunks follow headings, keep to their size, and never hold half a character."""

import time
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.backends.memory.chunks import Chunk, chunk_markdown, cut_text, list_terms, space_words


def test_a_heading_begins_a_chunk_and_goes_with_what_is_below_it() -> None:
    text = "# House\n\nintro\n\n## Door\n\nkey\n\n## Roof\n\n### Tiles\n\nred\n\n# Garden\n\nroses\n"
    assert chunk_markdown(text) == [
        Chunk(1, 4, "# House\n\nintro\n"),
        Chunk(5, 8, "## Door\n\nkey\n", "House"),
        Chunk(9, 14, "## Roof\n\n### Tiles\n\nred\n", "House"),
        Chunk(15, 18, "# Garden\n\nroses\n"),
    ]


def test_a_long_section_goes_on_under_its_heading_and_repeats_its_last_lines() -> None:
    text = "# Log\n" + "".join(f"line {at:02} {'x' * 30}\n" for at in range(6))
    chunks = chunk_markdown(text, 120, 40)
    assert [(each.start_line, each.end_line, each.above) for each in chunks] == [
        (1, 3, ""),
        (3, 5, "Log"),
        (5, 8, "Log"),
    ]


def test_a_hash_in_a_fence_is_no_heading() -> None:
    text = "# A\n```sh\n# comment\nls\n```\n# B\nx\n~~~~\n~~~\n# no\n~~~~\n# C\ny"
    assert [each.text.split("\n")[0] for each in chunk_markdown(text)] == ["# A", "# B", "# C"]


@pytest.mark.parametrize("text", ["", "\n\n", "  \n\t\n", "\r\n\r\n"])
def test_what_is_blank_is_no_chunk(text: str) -> None:
    assert chunk_markdown(text) == []


@given(st.text(alphabet=st.sampled_from("a# \n`é\u0301\u200d👩🏽🇺🇦ж中\ud7a3\r-"), max_size=400), st.integers(32, 90))
def test_every_line_is_in_some_chunk_and_none_is_too_long(text: str, size: int) -> None:
    chunks = chunk_markdown(text, size, size // 5)
    lines = text.replace("\r\n", "\n").split("\n")
    for chunk in chunks:
        assert len(chunk.text) <= size
    covered = {at for chunk in chunks for at in range(chunk.start_line, chunk.end_line + 1)}
    assert covered >= {at for at, line in enumerate(lines, 1) if line.strip() and not line.strip().startswith("#")}
    assert [each.start_line for each in chunks] == sorted(each.start_line for each in chunks)


@pytest.mark.parametrize("seen", ["e\u0301", "👩\u200d👩\u200d👧", "👍🏽", "❤\ufe0f", "🇺🇦", "कि"])
def test_what_is_seen_as_one_character_is_not_split(seen: str) -> None:
    for before in range(1, 12):
        for most in range(before + 1, before + len(seen) + 1):
            cut = cut_text("x" * before + seen + "y" * 20, most)
            assert cut.rstrip("y") in ("x" * before, "x" * before + seen)
            assert cut


def test_marks_without_end_are_cut_somewhere() -> None:
    text = "a" + "\u0301" * 5_000
    chunks = chunk_markdown(text, 100, 0)
    assert "".join(each.text for each in chunks) == text


def test_a_file_that_is_all_headings_or_all_blanks_takes_no_time() -> None:
    began = time.process_time()
    for text in (
        "# a\nx\n" * 300_000,
        "#" + " " * 1_000_000 + "x",
        "#" * 1_000_000,
        "`" * 1_000_000,
        "# " + "t" * 1_000_000,
    ):
        chunks = chunk_markdown(text)
        assert len(chunks) < 10_000
        assert all(len(each.whole) < 4_000 for each in chunks)
    assert time.process_time() - began < 60


def test_the_hash_of_a_chunk_is_that_of_what_is_searched() -> None:
    assert Chunk(1, 1, "a").hash == Chunk(5, 6, "a").hash != Chunk(1, 1, "a", "above").hash
    assert Chunk(1, 1, "\ud800").hash


def test_terms_are_quoted_and_words_of_other_letters_go_by_their_beginning() -> None:
    assert list_terms('AND "x" C++ foo_bar-baz') == ['"AND"', '"x"', '"C"', '"foo"', '"bar"', '"baz"']
    assert list_terms("молоко кіт") == ['"моло"*', '"кіт"']
    assert list_terms("窓 航班几点") == ['"窓"*', '"航班"', '"班几"', '"几点"']
    assert len(list_terms(" ".join(map(str, range(1_000))))) == 64


def test_scripts_without_blanks_are_written_in_pairs() -> None:
    assert space_words("去里斯本 by plane").split() == ["去里", "里斯", "斯本", "本", "by", "plane"]
    assert unicodedata.is_normalized("NFC", space_words("café ﬁ Ελλάδα"))
    assert space_words("café ﬁ Ελλάδα") == "cafe fi Ελλαδα"
