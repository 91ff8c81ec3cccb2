"""Markdown as it streams in, cut into whole blocks, and as a terminal is given it."""

import io

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Heading, Markdown
from rich.text import Text

from toolcrib.define.display import escape_controls
from toolcrib.doors.cli._format import Formatter
from toolcrib.lazy import regex

_FENCE = regex(r" {0,3}(`{3,}|~{3,})")
_SGR = regex("\x1b\\[[0-9;]*m")
_MAX_COLUMNS = 100  # of running text; longer lines are hard to read


class Blocks:
    """Takes pieces of a text, gives whole blocks: up to a blank line, or to the end of fenced code.

    `rest` is what is not whole yet.
    """

    def __init__(self) -> None:
        self.rest = ""
        self._done = 0  # characters of the rest whose lines were looked at
        self._fence = ""

    def feed(self, piece: str) -> list[str]:
        """Take a piece; return the blocks that are whole with it."""
        self.rest += piece
        blocks = list[str]()
        while (end := self.rest.find("\n", self._done)) >= 0:
            line = self.rest[self._done : end]
            self._done = end + 1
            if self._is_end(line):
                blocks.append(self.rest[: self._done])
                self.rest, self._done = self.rest[self._done :], 0
        return [block for block in blocks if block.strip()]

    def finish(self) -> list[str]:
        """Return what is left, as it is."""
        left, self.rest, self._done, self._fence = self.rest, "", 0, ""
        return [left] if left.strip() else []

    def _is_end(self, line: str) -> bool:
        found = _FENCE.match(line)
        if self._fence:
            if found is None or not found[1].startswith(self._fence) or line.strip(" `~"):
                return False
            self._fence = ""
            return True
        if found is not None:
            self._fence = found[1]
            return False
        return not line.strip()


class _Heading(Heading):
    """A heading at the left, in bold, with its marks: nothing is centred or boxed."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Text(f"{'#' * int(self.tag[1:])} {self.text.plain}", style="bold")


class _Markdown(Markdown):
    elements = {**Markdown.elements, "heading_open": _Heading}  # noqa: RUF012  as the class above has it


def render_markdown(text: str, formatter: Formatter) -> str:
    """Return Markdown set in lines; on a plain terminal as it was written."""
    safe = escape_controls(text).strip("\n")
    if formatter.plain:
        return f"{safe}\n"
    out, colour = io.StringIO(), formatter.colour
    console = Console(
        file=out, force_terminal=True, color_system="standard" if colour else None, no_color=not colour,
        width=min(formatter.width, _MAX_COLUMNS), highlight=False, markup=False, emoji=False, legacy_windows=False,
    )  # fmt: skip
    # a link is written out: what stands behind it must not hide
    console.print(_reveal_hidden(_Markdown(safe, code_theme="ansi_dark", hyperlinks=False)))
    lines = [line.rstrip() for line in out.getvalue().split("\n")]
    while lines and not _SGR.sub("", lines[0]).strip():
        del lines[0]
    while lines and not _SGR.sub("", lines[-1]).strip():
        del lines[-1]
    return "".join(f"{line}\n" for line in lines)


def _reveal_hidden(markdown: Markdown) -> Markdown:
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
