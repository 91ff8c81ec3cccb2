"""A turn as it is shown: words on stdout, what happens around them on stderr; or one JSON object a line."""

import sys
import textwrap
import time
from collections.abc import Callable
from typing import Protocol, TextIO

import click

from toolcrib.adapter.events import event_line
from toolcrib.define.display import escape_controls
from toolcrib.define.event import (
    CallDelta,
    Compacted,
    Event,
    Received,
    Replied,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolFinished,
    ToolProgress,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from toolcrib.define.message import Call
from toolcrib.define.result import Result, Text
from toolcrib.define.verdict import Verdict

from ._calls import Judged, decided, flat, label, started, text_of
from ._show import columns, cut

__all__ = ["JsonLines", "Screen", "Shows"]

_COLOURS = {"allow": "green", "ask": "yellow", "deny": "red"}
_LONG = 3.0  # seconds after which a call is worth a word on how it goes, and between two such words
_MOST_LINES = 4  # of a sentence about what went wrong
_LABEL = 40  # characters of a call that is spoken of again


class Shows(Protocol):
    """What the events of a turn are shown by."""

    def show(self, event: Event) -> None:
        """Show an event."""
        ...

    def interrupted(self) -> None:
        """Somebody pressed Ctrl-C, which the terminal has written into the line."""
        ...


class JsonLines:
    """One object a line on what is stdout when this is made, and nothing else."""

    def __init__(self) -> None:
        self._out = sys.stdout

    def show(self, event: Event) -> None:
        """Print an event as one object on one line."""
        _write(self._out, f"{event_line(event)}\n")

    def interrupted(self) -> None:
        """Nothing to mend: a program reads this."""


class Screen:
    """Shows a turn to a person; `verbose` shows thoughts and the whole of results, too. `judged` knows command lines.

    It knows where the cursor is: words and remarks go to the same terminal, and never to the same line.
    """

    def __init__(
        self, *, verbose: bool = False, judged: Judged | None = None, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._verbose, self._judged, self._now, self._out = verbose, judged, now, sys.stdout
        self._is_terminal, self._is_watched = _is_terminal(sys.stdout), _is_terminal(sys.stderr)
        self._is_mid_line = self._is_mid_thought = False
        self._session = ""
        self._open: dict[str, _Open] = {}
        self._spoken_of = ""  # the call that the last remark is about

    def show(self, event: Event) -> None:
        """Show an event."""
        match event:
            case TextDelta(text=text):
                self._words(text)
            case ThinkingDelta(text=text):
                self._thought(text)
            case ToolStarted(call=call, verdict=verdict):
                self._open[call.key] = _Open(self._now())
                self._remark(_started(call, verdict, self._judged, columns()), of=call)
            case ToolProgress(call=call, partial=partial):
                self._progress(call, partial)
            case ToolFinished(call=call, result=result):
                self._finished(call, result)
            case Retrying(attempt=attempt, seconds=seconds, error=error):
                lost = "; what was said so far does not count" if self._is_mid_line else ""
                self._sentence(f"… {error}; asking again in {seconds:.0f} s (try {attempt}){lost}", fg="yellow")
            case Received(message=message):
                words = " ".join(part.text for part in message.content if isinstance(part, Text))
                self._remark(click.style(cut(f"› {flat(words)}", columns()), dim=True))
            case Compacted(before=before, after=after):
                self._remark(click.style(f"… the history was shortened: {before:,} to {after:,} tokens", dim=True))
            case TurnStarted(session=session):
                self._session = session
            case TurnFinished():
                self._ended(event)
            case CallDelta() | Replied():
                pass

    def interrupted(self) -> None:
        """Go to the next line: the terminal has written `^C` into this one."""
        if self._is_mid_line:
            self._end_line()
        elif self._is_watched:
            click.echo(err=True)

    def _words(self, text: str) -> None:
        if not text:
            return
        self._end_thought()
        # a terminal obeys what a model could have been talked into writing
        _write(self._out, escape_controls(text) if self._is_terminal else text)
        self._is_mid_line = not text.endswith("\n")
        self._spoken_of = ""

    def _thought(self, text: str) -> None:
        if not self._verbose or not text:
            return
        if not self._is_mid_thought:
            self._end_line()
        click.secho(escape_controls(text), err=True, nl=False, dim=True)
        self._is_mid_thought = not text.endswith("\n")

    def _progress(self, call: Call, partial: Result) -> None:
        still, now = self._open.get(call.key), self._now()
        if still is None or now - still.told < _LONG:
            return
        lines = [line for line in map(flat, text_of(partial).splitlines()) if line]
        if lines:
            still.told = now
            words = f"  … {self._label(call)}{now - still.since:.0f} s: {lines[-1]}"
            self._remark(click.style(cut(words, columns()), dim=True), of=call)

    def _finished(self, call: Call, result: Result) -> None:
        still, before = self._open.pop(call.key, None), self._label(call)
        took = self._now() - still.since if still else 0.0
        seconds = f" ({took:.0f} s)" if took >= _LONG else ""
        text = text_of(result).strip()
        if result.status == "error":
            self._sentence(f"  ✗ {before}{text or 'failed'}{seconds}", fg="red", most=_MOST_LINES)
            self._spoken_of = call.key
        elif self._verbose and text:
            head = [f"  ✓ {before[:-2]}{seconds}"] if before or seconds else []
            whole = [*head, *(f"  {escape_controls(line)}" for line in text.splitlines())]
            self._remark(click.style("\n".join(whole), dim=True), of=call)
        else:
            lines = text.splitlines() or ["no output"]
            more = f" … ({len(lines)} lines)" if len(lines) > 1 else ""
            first = cut(f"  ✓ {before}{flat(lines[0])}", columns() - len(more) - len(seconds))
            self._remark(click.style(f"{first}{more}{seconds}", dim=True), of=call)

    def _label(self, call: Call) -> str:
        """Return how to speak of a call when it could be another one that is meant."""
        if self._spoken_of == call.key and not self._open.keys() - {call.key}:
            return ""
        return f"{cut(label(call), _LABEL)}: "

    def _ended(self, end: TurnFinished) -> None:
        self._end_thought()
        self._end_line()
        if end.sentence:
            self._sentence(f"toolcrib: {end.sentence}", fg="red" if end.reason in ("error", "refused") else "yellow")
        # scripts find the session in --json; whoever was cut short wants to go on from wherever it was started
        if self._session and (self._is_watched or end.reason != "done"):
            tokens, took = end.usage.input + end.usage.output, list[str]()
            if self._is_watched and tokens:
                took = [f"{tokens:,} tokens", *([f"${end.cost:.4f}"] if end.cost else [])]
            go_on = f"go on with --session {self._session}"
            click.secho("; ".join([*([", ".join(took)] if took else []), go_on]), err=True, dim=True)

    def _sentence(self, text: str, *, fg: str, most: int | None = None) -> None:
        """Write a sentence on as many lines as it takes, or on the most it is given."""
        indent = " " * (4 if text.startswith("  ") else 2)
        wrapped = textwrap.wrap(
            flat(text), columns() - 2, initial_indent=text[: len(text) - len(text.lstrip())], subsequent_indent=indent,
            break_on_hyphens=False, max_lines=most, placeholder=" …",
        )  # fmt: skip
        self._remark(click.style("\n".join(wrapped), fg=fg))

    def _remark(self, text: str, of: Call | None = None) -> None:
        self._end_thought()
        self._end_line()
        click.echo(text, err=True)
        self._spoken_of = of.key if of else ""

    def _end_thought(self) -> None:
        if self._is_mid_thought:
            click.echo(err=True)
            self._is_mid_thought = False

    def _end_line(self) -> None:
        if self._is_mid_line:
            _write(self._out, "\n")
            self._is_mid_line = False


class _Open:
    """A call that runs: since when, and when it was last spoken of."""

    __slots__ = ("since", "told")

    def __init__(self, now: float) -> None:
        self.since = self.told = now


def _started(call: Call, verdict: Verdict | None, judged: Judged | None, width: int) -> str:
    decision, said = decided(call, verdict, judged)
    name, words = started(call, label(call), said, width - 2)
    mark = click.style("●", fg=_COLOURS.get(decision, "red"))
    return f"{mark} {click.style(name, bold=True)}{words}{click.style(said, dim=True)}"


def _write(stream: TextIO | None, text: str) -> None:
    if stream is not None:
        stream.write(text)
        stream.flush()


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()
