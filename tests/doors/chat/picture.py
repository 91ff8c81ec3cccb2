"""The picture of a chat in the README, made from a real run: `python -m tests.doors.chat.picture`."""

import io
import tempfile
from itertools import groupby
from pathlib import Path

from rich.console import Console
from rich.style import Style
from rich.text import Text

from .desk import Desk, at_the_desk

__all__ = ["main"]

PICTURE = Path(__file__).parents[3] / "docs" / "images" / "chat.svg"
COLOURS = {"brightblack": "bright_black", "brown": "yellow"}  # as the emulator names them, as rich does
# the frame of the picture: no font, and nothing else, is loaded from anywhere
FRAME = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: monospace; font-size: {char_height}px; line-height: {line_height}px; white-space: pre; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix" xml:space="preserve">
{matrix}
</g>
</g>
</svg>
"""  # noqa: E501


def main() -> None:
    """Talk, and draw what is on the screen then."""
    with tempfile.TemporaryDirectory(prefix="crib-") as beside:
        folder = Path(beside) / "shop"
        folder.mkdir()
        (folder / "prices.py").write_text("def price(item):\n    return 3  # TODO ask the supplier\n")
        with at_the_desk(folder, rows=44) as desk:
            desk.ready()
            desk.say("search TODO in *.py")
            desk.until("connects one")
            desk.say('edit {"path": "prices.py", "oldText": "3", "newText": "4"}')
            desk.until("@@ -1,2 +1,2 @@", "first at line 2.\n\n›")
            desk.say("run echo done")
            desk.until("Run it?")
            drawn = _drawn(desk, beside)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(drawn, encoding="utf-8")


def _drawn(desk: Desk, home: str) -> str:
    """Return the screen as a picture; the folder `home` is written as the home it stands for."""
    console = Console(record=True, width=desk.screen.columns, file=io.StringIO(), force_terminal=True)
    screen = desk.screen
    last = max(at for at in range(screen.lines) if screen.display[at].strip())
    # a prompt that is drawn while something else is printed may scroll some lines away
    for row in [*screen.history.top, *(screen.buffer[at] for at in range(last + 1))]:
        line = Text()
        cells = [row[column] for column in range(screen.columns)]
        for (colour, bold), same in groupby(cells, lambda cell: (cell.fg, cell.bold)):
            style = Style(color=None if colour == "default" else COLOURS.get(colour, colour), bold=bold)
            line.append("".join(cell.data for cell in same).replace(home, "~"), style)
        line.rstrip()
        console.print(line)
    return console.export_svg(title="toolcrib chat", code_format=FRAME, unique_id="chat")


if __name__ == "__main__":
    main()
