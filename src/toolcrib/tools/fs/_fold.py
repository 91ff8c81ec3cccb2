"""Texts as they are compared: what a model writes differently without meaning anything else by it."""

__all__ = ["BLANKS", "MARKS", "SPACES", "folded", "indent_of", "without_marks", "without_spaces"]

# What may stand at the end of a line unseen; the byte-order mark is blank too.
BLANKS = " \t\v\f\u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000\ufeff"

# Each character gives way to exactly one other, so that places in a folded text are places in the text itself.
MARKS = {
    **dict.fromkeys(range(0x2018, 0x201C), "'"),
    **dict.fromkeys(range(0x201C, 0x2020), '"'),
    **dict.fromkeys((*range(0x2010, 0x2016), 0x2212), "-"),
}
SPACES = dict.fromkeys((0xA0, *range(0x2000, 0x200B), 0x202F, 0x205F, 0x3000), " ")


def without_marks(line: str) -> str:
    """Return a line with its quotes and dashes in the plainest spelling."""
    return line if line.isascii() else line.translate(MARKS)


def without_spaces(line: str) -> str:
    """Return a line with its quotes, dashes and spaces in the plainest spelling."""
    return line if line.isascii() else line.translate(MARKS).translate(SPACES)


def folded(line: str) -> str:
    """Return a line without the blanks around it, its quotes, dashes and spaces in the plainest spelling."""
    return without_spaces(line.strip(BLANKS))


def indent_of(line: str) -> str:
    """Return the blanks that a line begins with."""
    return line[: len(line) - len(line.lstrip(BLANKS))]
