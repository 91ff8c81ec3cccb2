"""Texts as a terminal is given them: Markdown, remarks, diffs. Nothing in them is obeyed by the terminal."""

import io
import re
import textwrap
from collections.abc import Callable, Iterable
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown
from rich.text import Text

from toolcrib.define.display import escape_controls
from toolcrib.doors.cli._calls import flat
from toolcrib.doors.cli._show import cut

__all__ = ["Paper", "Style"]

Style = Literal["", "bold", "dim", "good", "ask", "bad", "accent"]

_CODES: dict[Style, str] = {"bold": "1", "dim": "2", "good": "32", "ask": "33", "bad": "31", "accent": "36"}
_COLOURS = frozenset({"good", "ask", "bad", "accent"})
_SGR = re.compile("\x1b\\[[0-9;]*m")
_WIDEST = 100  # columns of running text; longer lines are hard to read
_MARKS: dict[str, Style] = {"+": "good", "-": "bad", "@": "accent"}


class _Heading(Heading):
    """A heading at the left, in bold, with its marks: nothing is centred or boxed."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(f"{'#' * int(self.tag[1:])} {self.text.plain}", style="bold")


class _Markdown(Markdown):
    elements = {**Markdown.elements, "heading_open": _Heading}  # noqa: RUF012  as the class above has it


class Paper:
    """Sets texts for a terminal `width()` columns wide. A `plain` one knows neither styles nor marks of its own."""

    def __init__(self, width: Callable[[], int], *, plain: bool = False, colour: bool = True) -> None:
        self._width, self.plain, self._colour = width, plain, colour

    @property
    def width(self) -> int:
        """How many columns there are."""
        return self._width()

    def markdown(self, text: str) -> str:
        """Return Markdown set in lines; on plain paper as it was written."""
        safe = escape_controls(text).strip("\n")
        if self.plain:
            return f"{safe}\n"
        out = io.StringIO()
        console = Console(
            file=out, force_terminal=True, color_system="standard" if self._colour else None, no_color=not self._colour,
            width=min(self.width, _WIDEST), highlight=False, markup=False, emoji=False, legacy_windows=False,
        )  # fmt: skip
        # a link is written out: what stands behind it must not hide
        console.print(_shown_whole(_Markdown(safe, code_theme="ansi_dark", hyperlinks=False)))
        lines = [line.rstrip() for line in out.getvalue().split("\n")]
        while lines and not _SGR.sub("", lines[0]).strip():
            del lines[0]
        while lines and not _SGR.sub("", lines[-1]).strip():
            del lines[-1]
        return "".join(f"{line}\n" for line in lines)

    def remark(self, text: str, style: Style = "", *, indent: int = 0, most: int | None = None) -> str:
        """Return a sentence on as many lines as it takes, or the most it is given; later lines are set in a little."""
        first = " " * indent
        lines = textwrap.wrap(
            flat(text), self.width - 1, initial_indent=first, subsequent_indent=f"{first}  ", break_on_hyphens=False,
            max_lines=most, placeholder=" …",
        )  # fmt: skip
        return self.lines(lines, style)

    def lines(self, lines: Iterable[str], style: Style = "", *, indent: int = 0) -> str:
        """Return lines, each cut to the width."""
        room = self.width - 1 - indent
        return "".join(f"{' ' * indent}{self.styled(cut(escape_controls(line), room), style)}\n" for line in lines)

    def folded(self, text: str, style: Style = "", *, indent: int = 2) -> str:
        """Return lines of which nothing may be left out: long ones go on in the next, set in a little."""
        room = max(self.width - 1 - indent, 20)
        pieces = list[str]()
        for line in escape_controls(text).split("\n"):
            pieces += textwrap.wrap(
                line, room, subsequent_indent="    ", drop_whitespace=False, replace_whitespace=False,
                break_on_hyphens=False, tabsize=4,
            ) or [""]  # fmt: skip
        return "".join(f"{' ' * indent}{self.styled(piece, style)}\n" for piece in pieces)

    def diff(self, text: str, *, most: int = 40) -> str:
        """Return a unified diff, added lines and removed ones told apart by colour as well as by their marks."""
        lines = text.split("\n")
        shown = [self.lines([line], _diff_style(line), indent=4) for line in lines[:most]]
        left = len(lines) - most
        return "".join([*shown, self.lines([f"… {left} more lines"], "dim", indent=4) if left > 0 else ""])

    def styled(self, text: str, style: Style) -> str:
        """Return a text with a style around it, as far as this paper has it."""
        if self.plain or not style or (style in _COLOURS and not self._colour):
            return text
        return f"\x1b[{_CODES[style]}m{text}\x1b[0m"


def _shown_whole(markdown: Markdown) -> Markdown:
    """Return the text with nothing left out: pictures by name and place, what looks like HTML as it is.

    What was spelled as `&#x202e;` has become the character by now.
    """
    for token in markdown.parsed:
        if token.type == "html_block":
            token.type = "code_block"
        for each in token.children or ():
            if each.type == "html_inline":
                each.type = "text"
            elif each.type == "image":
                each.type, each.content = "text", f"{each.content or 'picture'} ({each.attrs.get('src', '')})"
            each.content = escape_controls(each.content)
    return markdown


def _diff_style(line: str) -> Style:
    if line.startswith(("--- ", "+++ ", "\\")):
        return "dim"
    return _MARKS.get(line[:1], "")
