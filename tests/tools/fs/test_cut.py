"""Texts cut to whole lines."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib.tools.fs._text import LineCut, first_lines, shorten_line, take_last_lines


@pytest.mark.parametrize(
    ("text", "most", "size", "first", "last"),
    [
        ("", 1, 1, LineCut("", 0, 0), LineCut("", 0, 0)),
        ("a\nb\n", 2, 3, LineCut("a\nb\n", 2, 2), LineCut("a\nb\n", 2, 2)),
        ("a\nb\nc", 2, 99, LineCut("a\nb", 2, 3, "lines"), LineCut("b\nc", 2, 3, "lines")),
        ("aa\nbb\ncc", 9, 5, LineCut("aa\nbb", 2, 3, "bytes"), LineCut("bb\ncc", 2, 3, "bytes")),
        ("abcdef", 9, 3, LineCut("", 0, 1, "bytes"), LineCut("def", 1, 1, "bytes", partial=True)),
        ("x\n€€€", 9, 4, LineCut("x", 1, 2, "bytes"), LineCut("€", 1, 2, "bytes", partial=True)),
        ("a\nb", 0, 99, LineCut("", 0, 2, "lines"), LineCut("", 0, 2, "lines")),
    ],
)
def test_whole_lines_are_kept_from_either_end(text: str, most: int, size: int, first: LineCut, last: LineCut) -> None:
    assert first_lines(text, most, size) == first
    assert take_last_lines(text, most, size) == last


@given(st.text(alphabet="ab€😀\n\r", max_size=60), st.integers(0, 12), st.integers(0, 40))
def test_what_is_kept_is_part_of_the_text_and_fits(text: str, most: int, size: int) -> None:
    for cut in (first_lines(text, most, size), take_last_lines(text, most, size)):
        assert cut.text in text
        assert cut.count <= most or cut.by is None or cut.partial
        assert len(cut.text.removesuffix("\n").encode()) <= size or not cut.text
        assert (cut.by is None) == (cut.text == text and cut.count == cut.total)


def test_a_line_is_cut_between_characters() -> None:
    assert [shorten_line("ab😀", width, "…") for width in (2, 3)] == ["ab…", "ab😀"]
