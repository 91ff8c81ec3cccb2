"""How the command line shows things: columns for people, one document for programs."""

from collections.abc import Iterable, Sequence
from typing import Any

import click
import orjson

__all__ = ["print_json", "print_table"]

_COLOURS = {"allow": "green", "ask": "yellow", "deny": "red", "error": "red", "warning": "yellow"}


def print_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode())


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
