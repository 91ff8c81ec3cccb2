"""What a process is called, what is typed to it, and what it printed, in words."""

import pytest

from toolcrib.services.exec.output import (
    count_unfinished,
    decode_output,
    draws_screen,
    encode_keys,
    encode_paste,
    last_lines,
    page_log,
    split_output,
)
from toolcrib.services.exec.process import cut_middle, format_duration, short_name


@pytest.mark.parametrize(
    ("keys", "data"),
    [
        (["Enter", "Tab", "S-Tab", "Escape"], b"\r\t\x1b[Z\x1b"),
        (["C-c", "^C", "C-?", "C-@"], b"\x03\x03\x7f\x00"),
        (["Up", "C-Up", "M-S-Left", "End", "C-End"], b"\x1b[A\x1b[1;5A\x1b[1;4D\x1b[4~\x1b[4;5~"),
        (["F1", "F5", "F12", "M-F1"], b"\x1bOP\x1b[15~\x1b[24~\x1b\x1bOP"),
        (["KP0", "kp/", "KPEnter"], b"\x1bOp\x1bOo\x1bOM"),
        (["M-x", "C-M-x", "S-x", "plain text", "ü"], "\x1bx\x1b\x18Xplain textü".encode()),
    ],
)
def test_keys_are_named_as_tmux_names_them(keys: list[str], data: bytes) -> None:
    assert encode_keys(keys) == (data, [])


def test_what_is_no_key_is_told() -> None:
    data, warnings = encode_keys(["C-nope"], ["1b", "xyz"], "text")
    assert data == b"text\x1bnope"
    assert warnings == [
        "'xyz' is no byte in hex; it was left out",
        "'nope' is no key that takes modifiers; it was typed as text",
    ]


def test_a_paste_is_marked_as_one() -> None:
    assert encode_paste("a\nb") == b"\x1b[200~a\nb\x1b[201~"
    assert encode_paste("a", bracketed=False) == b"a"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("npm run build -- --watch", "npm run"),
        ("python3 'my script.py' --x", "python3 my script.py"),
        ("ls -la", "ls -la"),
        ("", ""),
        ("cat " + "x" * 80, "cat " + "x" * 22 + "..." + "x" * 22),
    ],
)
def test_a_name_is_the_program_and_what_it_works_on(command: str, name: str) -> None:
    assert short_name(command) == name


@pytest.mark.parametrize(("text", "most", "short"), [("abc", 3, "abc"), ("abcdef", 5, "a...f"), ("abcdef", 2, "..")])
def test_what_is_shortened_is_never_longer_than_asked(text: str, most: int, short: str) -> None:
    assert cut_middle(text, most) == short


@pytest.mark.parametrize(("ms", "words"), [(5, "5ms"), (1_000, "1s"), (61_000, "1m01s"), (3_600_000, "60m00s")])
def test_a_duration_is_written_as_people_do(ms: int, words: str) -> None:
    assert format_duration(ms) == words


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\x1b[31mred\x1b[0m\n", "red\n"),
        (b"\x1b]0;title\x07prompt\r\n", "prompt\n"),
        (b"\x1b]8;;http://a.test\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\u200bb\u202ec".encode(), "abc"),
        (b"tab\there\x00\x07", "tab\there"),
        (b"bad \xff byte", "bad \ufffd byte"),
        ("ünïcödé 漢字".encode(), "ünïcödé 漢字"),
    ],
)
def test_output_is_read_without_the_codes_of_terminals(data: bytes, text: str) -> None:
    assert decode_output(data) == text


def test_output_that_begins_inside_a_character_loses_only_that() -> None:
    assert decode_output("ü!".encode()[1:], inside=True) == "!"


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"done\n", 0),
        ("ü".encode()[:1], 1),
        ("漢".encode()[:2], 2),
        (b"x\x1b", 1),
        (b"x\x1b[3", 3),
        (b"x\x1b]0;ti", 6),
        (b"x\x1b[31m", 0),
    ],
)
def test_what_has_not_come_whole_is_known(data: bytes, count: int) -> None:
    assert count_unfinished(data) == count


def test_pieces_are_cut_behind_lines_and_before_what_is_unfinished() -> None:
    assert list(split_output(b"ab\ncd\nef", 5)) == [b"ab\n", b"cd\nef"]
    assert b"".join(split_output("ü".encode() * 1_000, 33)).decode() == "ü" * 1_000
    assert all(piece.decode() for piece in split_output("ü".encode() * 1_000, 33))


def test_a_program_that_moves_the_cursor_draws() -> None:
    assert draws_screen(b"\x1b[2J\x1b[1;1Hx")
    assert not draws_screen(b"\x1b[31mred\x1b[0m\x1b[K")


@pytest.mark.parametrize(
    ("text", "most", "size", "shown", "left"),
    [
        ("a\nb\nc\n", 2, 100, "b\nc\n", 2),
        ("a\nb\nc", 2, 100, "b\nc", 2),
        ("aaa\nbbb\n", 9, 5, "bbb\n", 4),
        ("aaa\nbbb\n", 9, 4, "bbb\n", 4),
        ("long" * 10, 9, 4, "long", 36),
        ("long" * 10 + "\n", 9, 5, "long\n", 36),
        ("", 9, 9, "", 0),
        ("a\n", 9, 9, "a\n", 0),
    ],
)
def test_the_end_of_output_is_shown_in_whole_lines(text: str, most: int, size: int, shown: str, left: int) -> None:
    cut = last_lines(text, most, size)
    assert (cut.text, cut.left) == (shown, left)


def test_lines_of_a_log_are_counted_from_nought() -> None:
    lines = page_log("a\r\nb\nc\n", 1, 1)
    assert (lines.text, lines.first, lines.count, lines.total) == ("b", 1, 1, 3)
