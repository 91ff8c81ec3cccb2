"""How the command line sets texts: cut to the terminal, styled, in columns for people, as one document for programs.

Nothing in a text is obeyed by the terminal.
"""

import json
import os
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Literal

import click
import orjson

from toolcrib.define.display import escape_controls

Style = Literal["", "bold", "dim", "good", "ask", "bad", "accent"]

_CODES: dict[Style, str] = {"bold": "1", "dim": "2", "good": "32", "ask": "33", "bad": "31", "accent": "36"}
_COLOURED = frozenset({"good", "ask", "bad", "accent"})
_DIFF_STYLES: dict[str, Style] = {"+": "good", "-": "bad", "@": "accent"}
_COLOURS = {"allow": "green", "ask": "yellow", "deny": "red", "error": "red", "warning": "yellow"}
_DEFAULT_COLUMNS, _MIN_COLUMNS = 100, 40  # where there is no terminal; on the narrowest one
_DIFF_LINES = 40


def columns() -> int:
    """Return how many characters fit into a line of the terminal that remarks go to."""
    try:
        found = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError, AttributeError):  # no terminal, a closed one, or none at all
        return _DEFAULT_COLUMNS
    return max(found, _MIN_COLUMNS) if found else 80


def flatten(text: str) -> str:
    """Return a text as it can stand in one line."""
    return escape_controls(" ".join(text.split()))


def truncate(text: str, width: int) -> str:
    """Return what fits into so many columns, with an ellipsis where something was left out."""
    if len(text) * 2 <= width or sum(map(_width, text)) <= width:
        return text
    room, kept = width - 1, 0
    for kept, char in enumerate(text):  # noqa: B007  where it stops
        room -= _width(char)
        if room < 0:
            break
    return f"{text[:kept]}…"


def _width(char: str) -> int:
    if char.isascii():
        return 1
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


class Formatter:
    """Sets texts for a terminal `width()` columns wide. A `plain` one has no styles, one without `colour` a few.

    `margin` is how many columns stay free at the right, `prose_margin` how many more beside sentences.
    """

    def __init__(
        self,
        width: Callable[[], int],
        *,
        plain: bool = False,
        colour: bool = True,
        margin: int = 1,
        prose_margin: int = 0,
    ) -> None:
        self._width, self.plain, self.colour = width, plain, colour
        self._margin, self._prose_margin = margin, prose_margin

    @property
    def width(self) -> int:
        """How many columns there are."""
        return self._width()

    @property
    def room(self) -> int:
        """How many columns a line may take."""
        return self._width() - self._margin

    def remark(self, text: str, style: Style = "", *, indent: int = 0, max_lines: int | None = None) -> str:
        """Return a sentence on as many lines as it takes, or may; later lines are indented a little."""
        first = " " * indent
        lines = textwrap.wrap(
            flatten(text), self.room - self._prose_margin, initial_indent=first, subsequent_indent=f"{first}  ",
            break_on_hyphens=False, max_lines=max_lines, placeholder=" …",
        )  # fmt: skip
        return self.lines(lines, style)

    def lines(self, lines: Iterable[str], style: Style = "", *, indent: int = 0) -> str:
        """Return lines, each cut to the width."""
        room = self.room - indent
        return "".join(f"{' ' * indent}{self.style(truncate(escape_controls(line), room), style)}\n" for line in lines)

    def fold(self, text: str, style: Style = "", *, indent: int = 2) -> str:
        """Return lines of which nothing may be left out: long ones go on in the next, indented a little."""
        room = max(self.room - indent, 20)
        pieces = list[str]()
        for line in escape_controls(text).split("\n"):
            pieces += textwrap.wrap(
                line, room, subsequent_indent="    ", drop_whitespace=False, replace_whitespace=False,
                break_on_hyphens=False, tabsize=4,
            ) or [""]  # fmt: skip
        return "".join(f"{' ' * indent}{self.style(piece, style)}\n" for piece in pieces)

    def diff(self, text: str) -> str:
        """Return a unified diff, with added and removed lines marked by colour as well as by their signs."""
        lines = text.split("\n")
        shown = [self.lines([line], _diff_style(line), indent=4) for line in lines[:_DIFF_LINES]]
        left = len(lines) - _DIFF_LINES
        return "".join([*shown, self.lines([f"… {left} more lines"], "dim", indent=4) if left > 0 else ""])

    def style(self, text: str, style: Style) -> str:
        """Return a text with a style around it, as far as this terminal has it."""
        if self.plain or not style or (style in _COLOURED and not self.colour):
            return text
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def _diff_style(line: str) -> Style:
    if line.startswith(("--- ", "+++ ", "\\")):
        return "dim"
    return _DIFF_STYLES.get(line[:1], "")


def format_time(at: float, form: str) -> str:
    """Return when something was, in local time."""
    try:
        return datetime.fromtimestamp(at).astimezone().strftime(form)
    except (OverflowError, ValueError, OSError, TypeError):  # somebody wrote another number there
        return "?"


def print_json(value: Any) -> None:
    """Print one JSON document."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    except TypeError:  # a number of more than 64 bits, half a character
        text = json.dumps(value, indent=2)
    click.echo(text)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, colour: int | None = None) -> None:
    """Print aligned columns; the words of column `colour` are coloured on a terminal."""
    listed = [tuple(columns), *(tuple(row) for row in rows)]
    widths = [max(len(row[at]) for row in listed) for at in range(len(columns))]
    for number, row in enumerate(listed):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        if number and colour is not None:
            cells[colour] = click.style(cells[colour], fg=_COLOURS.get(row[colour]))
        line = "  ".join(cells).rstrip()
        click.echo(click.style(line, bold=True) if not number else line)
