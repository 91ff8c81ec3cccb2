"""A turn as a person sees it: what is whole is written for good, what still goes on is told apart from it."""

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

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
from toolcrib.doors.cli._calls import Judged, flat
from toolcrib.doors.cli._show import cut

from .calls import bar, label, outcome, started, tail
from .paper import Paper, Style
from .stream import Blocks

__all__ = ["Screen", "Writes"]

_LONG = 3.0  # seconds after which a call is worth a word on how long it takes; on plain paper, between two words
_TAIL = 5  # lines of a running command
_WORDS = 6  # lines of an answer that is not whole yet
_LABEL = 40  # characters of a call that is spoken of again


class Writes(Protocol):
    """Where a screen writes to."""

    def write(self, text: str, /) -> None:
        """Write whole lines, for good."""
        ...

    def stir(self) -> None:
        """What goes on has changed."""
        ...


@dataclass(slots=True)
class _Open:
    """A call that runs: since when, when it was last spoken of, what it has so far."""

    call: Call
    since: float
    told: float
    lines: list[str] = field(default_factory=list)
    bar: str = ""


class Screen:
    """Shows the turns of a chat.

    `diff_of` knows what a call changed where its result does not say it, `judged` what becomes of a command line.
    """

    def __init__(
        self,
        paper: Paper,
        out: Writes,
        *,
        diff_of: Callable[[Call], str] = lambda call: "",
        judged: Judged | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.paper, self._out, self._diff_of, self._judged, self._clock = paper, out, diff_of, judged, now
        self._asked_at: float | None = None  # since when a person is asked, and how long one was in all
        self._asked = 0.0
        self._blocks = Blocks()
        self._open: dict[str, _Open] = {}
        self._spoken_of = ""  # the call that the last remark is about
        self._model = self._doing = ""  # who answers, and what it is at

    def show(self, event: Event) -> None:
        """Show an event."""
        match event:
            case TextDelta(text=text):
                self._words(text)
            case ThinkingDelta(text=text):
                last = flat(text)
                self._doing = f"thinking: {last}" if last else self._doing
            case CallDelta(name=name):
                self._doing = f"calls {flat(name[:64])}" if name else self._doing
            case ToolStarted(call=call, verdict=verdict):
                self._open[call.key] = _Open(call, self._now(), self._now())
                self._write(started(call, verdict, self.paper, self._judged), of=call)
            case ToolProgress(call=call, partial=partial):
                self._progress(call, partial)
            case ToolFinished(call=call, result=result):
                self._finished(call, result)
            case TurnStarted(model=model):
                self._model, self._doing = model, f"waiting for {flat(model)}"
            case Replied():
                self._whole()
                self._doing = ""
            case TurnFinished():
                self._ended(event)
            case Retrying() | Received() | Compacted():
                self._remark(event)
        self._out.stir()

    def say(self, text: str, style: Style = "") -> None:
        """Write a remark of our own."""
        self._write(self.paper.remark(text, style))

    def put(self, text: str) -> None:
        """Write what was set already."""
        self._write(text)

    @contextlib.contextmanager
    def asking(self) -> Iterator[None]:
        """Let the time stand still while a person is asked: nothing takes it."""
        self._asked_at = self._clock()
        try:
            yield
        finally:
            self._asked += self._clock() - self._asked_at
            self._asked_at = None

    def _now(self) -> float:
        return (self._clock() if self._asked_at is None else self._asked_at) - self._asked

    def live(self, width: int, most: int) -> list[tuple[Style, str]]:
        """Return what goes on at this moment, in at most so many lines of this width."""
        lines: list[tuple[Style, str]] = []
        if rest := self._blocks.rest.strip():
            lines += [("", cut(flat(line), width)) for line in _wrapped(rest, width)[-_WORDS:]]
        for each in self._open.values():
            if self._asked_at is not None and not each.lines and not each.bar:
                continue  # it may be the one that is asked about
            took = self._now() - each.since
            seconds = f"  {took:.0f} s" if took >= _LONG else ""
            lines.append(("accent", cut(f"… {label(each.call)}", width - len(seconds)) + seconds))
            lines += [("dim", cut(f"  {line}", width)) for line in each.lines]
            lines += [("accent", f"  {each.bar}")] if each.bar else []
        if not lines and self._doing:
            lines.append(("dim", cut(f"… {self._doing}", width)))
        return lines[-most:]

    def tick(self) -> None:
        """On plain paper, say how calls go that take long."""
        now = self._now()
        for each in self._open.values() if self.paper.plain else ():
            if now - each.told >= _LONG:
                each.told = now
                words = each.bar or (each.lines[-1] if each.lines else "still running")
                said = f"… {self._label(each.call)}{now - each.since:.0f} s: {words}"
                self._write(self.paper.lines([said], indent=2), of=each.call)

    # words

    def _words(self, text: str) -> None:
        self._doing = ""
        for block in self._blocks.feed(text):
            self._block(block)

    def _whole(self) -> None:
        for block in self._blocks.finish():
            self._block(block)

    def _block(self, block: str) -> None:
        self._write(f"{self.paper.markdown(block)}\n")

    # calls

    def _progress(self, call: Call, partial: Result) -> None:
        if (still := self._open.get(call.key)) is not None:
            still.lines, still.bar = tail(partial, _TAIL), bar(partial)

    def _finished(self, call: Call, result: Result) -> None:
        still, before = self._open.pop(call.key, None), self._label(call)
        took = self._now() - still.since if still else 0.0
        diff = self._diff_of(call) if result.status != "error" else ""
        said = outcome(call, result, self.paper, before=before, diff=diff)
        if took >= _LONG:
            said += self.paper.lines([f"({took:.0f} s)"], "dim", indent=4)
        self._write(said, of=call)

    def _label(self, call: Call) -> str:
        """Return how to speak of a call when another one was spoken of since."""
        return "" if self._spoken_of == call.key else f"{cut(label(call), _LABEL)}: "

    # the turn

    def _remark(self, event: Retrying | Received | Compacted) -> None:
        match event:
            case Retrying(attempt=attempt, seconds=seconds, error=error):
                lost = "; what was said so far does not count" if self._blocks.rest.strip() else ""
                self._blocks.finish()
                self.say(f"… {error}; asking again in {seconds:.0f} s (try {attempt}){lost}", "ask")
            case Received(message=message):
                words = " ".join(part.text for part in message.content if isinstance(part, Text))
                self._write(self.paper.lines([f"› {flat(words)}  (heard)"], "dim"))
            case Compacted(before=before, after=after):
                self.say(f"… the history was shortened: {before:,} to {after:,} tokens", "dim")

    def _ended(self, end: TurnFinished) -> None:
        self._whole()
        self._open.clear()
        self._doing = ""
        if end.sentence:
            kept = "; what was done until then is kept" if end.reason == "stopped" else ""
            self.say(f"{end.sentence}{kept}", "bad" if end.reason in ("error", "refused") else "ask")
        tokens = end.usage.input + end.usage.output
        if tokens and not self._model.startswith("offline:"):  # which costs nothing
            cost = f", ${end.cost:.4f}" if end.cost else ""
            self.say(f"{tokens:,} tokens{cost}", "dim")

    def _write(self, text: str, of: Call | None = None) -> None:
        if of is not None:
            self._whole()
        self._spoken_of = of.key if of else ""
        self._out.write(text)


def _wrapped(text: str, width: int) -> list[str]:
    """Return the last lines of a text, folded at the width."""
    lines = list[str]()
    for line in text.splitlines()[-_WORDS:]:
        lines += [line[at : at + width] for at in range(0, max(len(line), 1), width)]
    return lines
