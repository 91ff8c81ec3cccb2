"""How the command line shows things: columns for people, one document for programs."""

import json
import os
import sys
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

import click
import orjson

__all__ = ["columns", "cut", "print_json", "print_table"]

_COLOURS = {"allow": "green", "ask": "yellow", "deny": "red", "error": "red", "warning": "yellow"}
_NO_TERMINAL, _NARROWEST = 100, 40


def columns() -> int:
    """Return how many characters fit into a line of the terminal that remarks go to."""
    try:
        found = os.get_terminal_size(sys.stderr.fileno()).columns
    except (OSError, ValueError, AttributeError):  # no terminal, a closed one, or none at all
        return _NO_TERMINAL
    return max(found, _NARROWEST) if found else 80


def cut(text: str, width: int) -> str:
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
