"""Turns as they are shown: what every screen says of events and calls alike, and the two surfaces of `run`.

Words go to stdout and what happens around them to stderr; or one JSON object a line.
"""

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, TextIO

import click

from toolcrib.adapter.events import event_line
from toolcrib.adapter.trim import is_cut_note
from toolcrib.backends.stores.sessions_json import to_text
from toolcrib.define import event as events
from toolcrib.define.display import escape_controls
from toolcrib.define.message import Call
from toolcrib.define.names import fold_name
from toolcrib.define.result import Image, Result, Text
from toolcrib.define.verdict import Verdict
from toolcrib.lazy import dataclass, field, regex

from ._format import Formatter, Style, columns, flatten, truncate

LONG_SECONDS = 3.0  # after which a call is worth a word on how it goes, and between two such words
_PLAIN = regex(r"[^\s\"'=]+")  # a value that needs no quotes among others
_NAME_CHARS, _ARGUMENT_CHARS = 64, 2000  # of a call that are looked at
_LABEL_CHARS = 40  # of a call that is spoken of again
_ERROR_LINES = 4
_STYLES: Mapping[str, Style] = {"allow": "good", "ask": "ask", "deny": "bad"}


# calls in words


def label_call(call: Call, hidden: Container[str] = ()) -> str:
    """Return a call in one line: one argument alone as it is, several by name, the hidden ones not at all."""
    args = {name: value for name, value in call.args.items() if name not in hidden}
    if len(args) == 1:
        words = _render_value(next(iter(args.values())))
    else:
        words = " ".join(f"{name}={_quote_value(value)}" for name, value in args.items())
    return flatten(f"{call.name[:_NAME_CHARS]} {words[:_ARGUMENT_CHARS]}").rstrip()


def _quote_value(value: Any) -> str:
    text = _render_value(value)
    return text if not isinstance(value, str) or _PLAIN.fullmatch(text) else to_text(text)


def _render_value(value: Any) -> str:
    return value if isinstance(value, str) else to_text(value)


def _describe_decision(call: Call, verdict: Verdict | None) -> tuple[str, str]:
    """Return what was decided about a call, and the note about it that follows the call.

    Everybody who may run any command has the tool; what becomes of this very line is what counts.
    """
    decision: str = verdict.decision if verdict else "unknown"
    layer = f" at the {verdict.layer} layer" if verdict and verdict.layer and decision == "deny" else ""
    return decision, f"  [{decision}{layer}]"


def render_result(result: Result) -> str:
    """Return a result in words for people: those that it has for them, else its content, pictures by what they are."""
    return result.display or "\n".join(
        f"[{part.mime}, {len(part.data):,} bytes]" if isinstance(part, Image) else part.text for part in result.content
    )


def count_lines(lines: Sequence[str]) -> str:
    """Return how many lines a result has; of one that was cut for whoever watches, no more than that is known."""
    least = "more than " if is_cut_note(lines[-1]) else ""
    return f" … ({least}{len(lines) - bool(least)} lines)" if len(lines) > 1 else ""


def tail_lines(partial: Result, count: int) -> list[str]:
    """Return the last lines of what a call has so far, blank ones left out."""
    return [line for line in map(flatten, render_result(partial).splitlines()) if line][-count:]


# screens


@dataclass(slots=True)
class OpenCall:
    """A call that runs: since when, when it was last spoken of, what it has so far."""

    call: Call
    since: float
    mentioned_at: float
    lines: list[str] = field(default_factory=list)
    bar: str = ""


class TurnScreen(ABC):
    """What the screens of `run` and of the chat do alike; how words, outcomes and ends look is each one's own."""

    received_note = ""  # what follows a message that came while the turn ran

    def __init__(self, formatter: Formatter, *, now: Callable[[], float] = time.monotonic) -> None:
        self.formatter, self._clock = formatter, now
        self._calls: dict[str, OpenCall] = {}
        self._mentioned = ""  # the call that the last remark is about

    def show(self, event: events.Event) -> None:
        """Show an event."""
        match event:
            case events.TextDelta(text=text):
                self._show_words(text)
            case events.ThinkingDelta(text=text):
                self._show_thought(text)
            case events.ToolStarted(call=call, verdict=verdict, label=label):
                now = self._now()
                self._calls[call.key] = OpenCall(call, now, now)
                self._write(self._render_start(call, verdict, label), of=call)
            case events.ToolProgress(call=call, partial=partial):
                if (running := self._calls.get(call.key)) is not None:
                    self._show_progress(running, partial)
            case events.ToolFinished(call=call):
                running, before = self._calls.pop(call.key, None), self._mention(call)
                took = self._now() - running.since if running else 0.0
                self._write(self._render_outcome(event, before, took), of=call)
            case events.Retrying(attempt=attempt, seconds=seconds, error=error):
                lost = "; the text so far does not count" if self._drop_words() else ""
                self.say(f"… {error}; asking again in {seconds:.0f} s (try {attempt}){lost}", "ask")
            case events.Received(message=message):
                words = " ".join(part.text for part in message.content if isinstance(part, Text))
                self._write(self.formatter.lines([f"› {flatten(words)}{self.received_note}"], "dim"))
            case events.Compacted() | events.Warned():
                self._show_remark(event)
            case events.TurnFinished():
                self._show_end(event)
            case events.TurnStarted() | events.CallDelta() | events.Replied():
                self._note(event)

    def _show_remark(self, event: events.Compacted | events.Warned) -> None:
        if isinstance(event, events.Warned):
            self.say(f"… {event.sentence}", "ask")
        else:
            self.say(f"… the history was shortened: {event.before:,} to {event.after:,} tokens", "dim")

    def say(self, text: str, style: Style = "") -> None:
        """Write a remark of our own."""
        self._write(self.formatter.remark(text, style))

    def _now(self) -> float:
        return self._clock()

    def _label(self, call: Call) -> str:
        return label_call(call)

    def _mention(self, call: Call) -> str:
        """Return how to speak of a call again: by its label when another one could be meant."""
        return "" if self._mentioned == call.key else f"{truncate(self._label(call), _LABEL_CHARS)}: "

    def _render_start(self, call: Call, verdict: Verdict | None, label: str) -> str:
        decision, note = _describe_decision(call, verdict)
        if fold_name(label).replace(" ", "_") not in ("", call.name):  # what says more than the name
            note = f" · {flatten(label[:_NAME_CHARS])}{note}"
        name, style = flatten(call.name[:_NAME_CHARS]), self.formatter.style
        # what was decided is always seen, however long the arguments are
        words = truncate(self._label(call), max(self.formatter.room - 2 - len(note), len(name)))[len(name) :]
        return f"{style('●', _STYLES.get(decision, 'bad'))} {style(name, 'bold')}{words}{style(note, 'dim')}\n"

    def _say_progress(self, running: OpenCall, words: str, now: float) -> None:
        running.mentioned_at = now
        line = f"… {self._mention(running.call)}{now - running.since:.0f} s: {words}"
        self._write(self.formatter.lines([line], "dim", indent=2), of=running.call)

    # what each screen does its own way

    @abstractmethod
    def _show_words(self, text: str) -> None: ...

    @abstractmethod
    def _show_thought(self, text: str) -> None: ...

    @abstractmethod
    def _drop_words(self) -> bool:
        """Forget words of a reply that is asked for again; return whether there were any."""

    @abstractmethod
    def _show_progress(self, running: OpenCall, partial: Result) -> None: ...

    @abstractmethod
    def _render_outcome(self, event: events.ToolFinished, before: str, took: float) -> str: ...

    @abstractmethod
    def _note(self, event: events.TurnStarted | events.CallDelta | events.Replied) -> None:
        """Take note of what is worth no line."""

    @abstractmethod
    def _show_end(self, end: events.TurnFinished) -> None: ...

    @abstractmethod
    def _write(self, text: str, of: Call | None = None) -> None:
        """Write whole lines, `of` the call that they are about."""


class JsonLines:
    """One object a line on what is stdout when this is made, and nothing else."""

    def __init__(self) -> None:
        self._out = sys.stdout

    def show(self, event: events.Event) -> None:
        """Print an event as one object on one line."""
        _write_to(self._out, f"{event_line(event)}\n")

    def break_line(self) -> None:
        """Nothing to mend: a program reads this."""


class RunScreen(TurnScreen):
    """Shows one turn to a person; `verbose` shows thoughts and the whole of results, too.

    It knows where the cursor is: words and remarks go to the same terminal, and never to the same line.
    """

    def __init__(self, *, verbose: bool = False, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(Formatter(columns, margin=0, prose_margin=2), now=now)
        self._verbose, self._out = verbose, sys.stdout
        self._is_terminal, self._is_watched = _is_terminal(sys.stdout), _is_terminal(sys.stderr)
        self._is_mid_line = self._is_mid_thought = False
        self._session = ""

    def break_line(self) -> None:
        """Go to the next line: the terminal has written `^C` into this one."""
        if self._is_mid_line:
            self._end_line()
        elif self._is_watched:
            click.echo(err=True)

    def _show_words(self, text: str) -> None:
        if not text:
            return
        self._end_thought()
        # a terminal obeys what a model could have been talked into writing
        _write_to(self._out, escape_controls(text) if self._is_terminal else text)
        self._is_mid_line = not text.endswith("\n")
        self._mentioned = ""

    def _show_thought(self, text: str) -> None:
        if not self._verbose or not text:
            return
        if not self._is_mid_thought:
            self._end_line()
        click.secho(escape_controls(text), err=True, nl=False, dim=True)
        self._is_mid_thought = not text.endswith("\n")

    def _show_progress(self, running: OpenCall, partial: Result) -> None:
        now, is_later = self._now(), isinstance(partial.details, Mapping) and "handle" in partial.details
        if (is_later or now - running.mentioned_at >= LONG_SECONDS) and (lines := tail_lines(partial, 1)):
            self._say_progress(running, lines[-1], now)

    def _render_outcome(self, event: events.ToolFinished, before: str, took: float) -> str:
        seconds, result = f" ({took:.0f} s)" if took >= LONG_SECONDS else "", event.result
        text, style = render_result(result).strip(), self.formatter.style
        if result.status == "error":
            sentence = f"✗ {before}{text or 'failed'}{seconds}"
            return self.formatter.remark(sentence, "bad", indent=2, max_lines=_ERROR_LINES)
        if (self._verbose or result.display) and text:
            head = [f"  ✓ {before[:-2]}{seconds}"] if before or seconds else []
            whole = "\n".join([*head, *(f"  {escape_controls(line)}" for line in text.splitlines())])
            return f"{style(whole, 'dim')}\n"
        lines = text.splitlines() or ["no output"]
        more = count_lines(lines)
        first = truncate(f"  ✓ {before}{flatten(lines[0])}", self.formatter.room - len(more) - len(seconds))
        return f"{style(f'{first}{more}{seconds}', 'dim')}\n"

    def _show_end(self, end: events.TurnFinished) -> None:
        self._end_thought()
        self._end_line()
        if end.sentence:
            self.say(f"toolcrib: {end.sentence}", "bad" if end.reason in ("error", "refused") else "ask")
        # scripts find the session in --json; whoever was cut short wants to go on from wherever it was started
        if self._session and (self._is_watched or end.reason != "done"):
            tokens, took = end.usage.input + end.usage.output, list[str]()
            if self._is_watched and tokens:
                took = [f"{tokens:,} tokens", *([f"${end.cost:.4f}"] if end.cost else [])]
            go_on = f"go on with --session {self._session}"
            click.secho("; ".join([*([", ".join(took)] if took else []), go_on]), err=True, dim=True)

    def _note(self, event: events.TurnStarted | events.CallDelta | events.Replied) -> None:
        if isinstance(event, events.TurnStarted):
            self._session = event.session

    def _drop_words(self) -> bool:
        return self._is_mid_line

    def _write(self, text: str, of: Call | None = None) -> None:
        self._end_thought()
        self._end_line()
        click.echo(text, err=True, nl=False)
        is_alone = of is not None and not self._calls.keys() - {of.key}
        self._mentioned = of.key if of and is_alone else ""

    def _end_thought(self) -> None:
        if self._is_mid_thought:
            click.echo(err=True)
            self._is_mid_thought = False

    def _end_line(self) -> None:
        if self._is_mid_line:
            _write_to(self._out, "\n")
            self._is_mid_line = False


def _write_to(stream: TextIO | None, text: str) -> None:
    if stream is not None:
        stream.write(text)
        stream.flush()


def _is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and stream.isatty()
