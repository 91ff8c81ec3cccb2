"""A turn as a person in a chat sees it: whole blocks are written for good, what still runs stands in live lines."""

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from toolcrib.define.event import CallDelta, Event, Replied, ToolFinished, TurnFinished, TurnStarted
from toolcrib.define.message import Call
from toolcrib.define.result import Result
from toolcrib.doors.cli._format import Formatter, Style, flatten, truncate
from toolcrib.doors.cli._turn import (
    LONG_SECONDS,
    OpenCall,
    TurnScreen,
    count_lines,
    label_call,
    render_result,
    tail_lines,
)
from toolcrib.lazy import regex

from .markdown import Blocks, render_markdown

_TAIL_LINES = 5  # of a running command
_WORD_LINES = 6  # of an answer that is not whole yet
_OUTPUT_LINES = 8  # of what a command printed
_ERROR_LINES = 6
_BAR_CELLS = 20
_CHANGES = frozenset({"content", "oldText", "newText", "edits", "input", "replaceAll"})  # a diff says it better
_PROGRESS = regex(r"(\d+(?:\.\d+)?) of (\d+(?:\.\d+)?)\b")


class LineWriter(Protocol):
    """Where a screen writes to."""

    def write(self, text: str, /) -> None:
        """Write whole lines, for good."""

    def refresh(self) -> None:
        """Draw anew what goes on: it has changed."""


class ChatScreen(TurnScreen):
    """Shows the turns of a chat. `diff_of` knows what a call changed where its result does not say it."""

    received_note = "  (heard)"

    def __init__(
        self,
        formatter: Formatter,
        out: LineWriter,
        *,
        diff_of: Callable[[Call], str] = lambda call: "",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(formatter, now=now)
        self._out, self._diff_of = out, diff_of
        self._asked_at: float | None = None  # since when a person is asked, and how long one was in all
        self._asked_seconds = 0.0
        self._blocks = Blocks()
        self._model = self._activity = ""  # who answers, and what it is at

    def show(self, event: Event) -> None:
        """Show an event."""
        super().show(event)
        self._out.refresh()

    def put(self, text: str) -> None:
        """Write what was set already."""
        self._write(text)

    @contextlib.contextmanager
    def pause_clock(self) -> Iterator[None]:
        """Let the time stand still while a person is asked: nothing takes it."""
        self._asked_at = self._clock()
        try:
            yield
        finally:
            self._asked_seconds += self._clock() - self._asked_at
            self._asked_at = None

    def live_lines(self, width: int, max_lines: int) -> list[tuple[Style, str]]:
        """Return what goes on at this moment, in at most so many lines of this width."""
        lines: list[tuple[Style, str]] = []
        if rest := self._blocks.rest.strip():
            lines += [("", truncate(flatten(line), width)) for line in _wrap_tail(rest, width)[-_WORD_LINES:]]
        for each in self._calls.values():
            if self._asked_at is not None and not each.lines and not each.bar:
                continue  # it may be the one that is asked about
            took = self._now() - each.since
            seconds = f"  {took:.0f} s" if took >= LONG_SECONDS else ""
            lines.append(("accent", truncate(f"… {self._label(each.call)}", width - len(seconds)) + seconds))
            lines += [("dim", truncate(f"  {line}", width)) for line in each.lines]
            lines += [("accent", f"  {each.bar}")] if each.bar else []
        if not lines and self._activity:
            lines.append(("dim", truncate(f"… {self._activity}", width)))
        return lines[-max_lines:]

    def tick(self) -> None:
        """On a plain terminal, say how calls go that take long."""
        now = self._now()
        for each in self._calls.values() if self.formatter.plain else ():
            if now - each.mentioned_at >= LONG_SECONDS:
                self._say_progress(each, each.bar or (each.lines[-1] if each.lines else "still running"), now)

    def _now(self) -> float:
        return (self._clock() if self._asked_at is None else self._asked_at) - self._asked_seconds

    def _label(self, call: Call) -> str:
        return label_call(call, _CHANGES if "path" in call.args else ())

    # words

    def _show_words(self, text: str) -> None:
        self._activity = ""
        for block in self._blocks.feed(text):
            self._write_block(block)

    def _show_thought(self, text: str) -> None:
        if last := flatten(text):
            self._activity = f"thinking: {last}"

    def _drop_words(self) -> bool:
        return bool(self._blocks.finish())

    def _end_words(self) -> None:
        for block in self._blocks.finish():
            self._write_block(block)

    def _write_block(self, block: str) -> None:
        self._write(f"{render_markdown(block, self.formatter)}\n")

    # calls and the turn

    def _show_progress(self, running: OpenCall, partial: Result) -> None:
        running.lines, running.bar = tail_lines(partial, _TAIL_LINES), render_bar(partial)

    def _render_outcome(self, event: ToolFinished, before: str, took: float) -> str:
        call, result = event.call, event.result
        diff = self._diff_of(call) if result.status != "error" else ""
        text = render_outcome(call, result, self.formatter, before=before, diff=diff, markdown=event.markdown)
        seconds = [f"({took:.0f} s)"] if took >= LONG_SECONDS else []
        return text + self.formatter.lines(seconds, "dim", indent=4)

    def _note(self, event: TurnStarted | CallDelta | Replied) -> None:
        match event:
            case TurnStarted(model=model):
                self._model, self._activity = model, f"waiting for {flatten(model)}"
            case CallDelta(name=name):
                self._activity = f"calls {flatten(name[:64])}" if name else self._activity
            case Replied():
                self._end_words()
                self._activity = ""

    def _show_end(self, end: TurnFinished) -> None:
        self._end_words()
        self._calls.clear()
        self._activity = ""
        if end.sentence:
            kept = "; what was done until then is kept" if end.reason == "stopped" else ""
            self.say(f"{end.sentence}{kept}", "bad" if end.reason in ("error", "refused") else "ask")
        tokens = end.usage.input + end.usage.output
        if tokens and not self._model.startswith("offline:"):  # which costs nothing
            cost = f", ${end.cost:.4f}" if end.cost else ""
            self.say(f"{tokens:,} tokens{cost}", "dim")

    def _write(self, text: str, of: Call | None = None) -> None:
        if of is not None:
            self._end_words()
        self._mentioned = of.key if of else ""
        self._out.write(text)


def render_outcome(
    call: Call, result: Result, formatter: Formatter, *, before: str = "", diff: str = "", markdown: bool = False
) -> str:
    """Return what came of a call. `before` stands before it when other calls were spoken of since."""
    text, room = render_result(result).strip(), formatter.room - 4
    if result.status == "error":
        return _render_failure(call, text, formatter, before)
    mark = formatter.style("✓", "good")
    lines = text.splitlines() or ["no output"]
    if text and (markdown or result.display):  # meant for people, so they see all of it
        head = f"  {mark} {formatter.style(truncate(before.removesuffix(': '), room), 'dim')}".rstrip()
        return f"{head}\n{render_markdown(text, formatter) if markdown else formatter.fold(text, indent=4)}"
    details: Mapping[str, Any] = result.details if isinstance(result.details, Mapping) else {}
    found = details.get("diff")
    diff = found if isinstance(found, str) and found else diff
    if diff:
        head = truncate(f"{before}{flatten(lines[0])}", room)
        return f"  {mark} {formatter.style(head, 'dim')}\n{formatter.diff(diff)}"
    if call.name == "exec" and len(lines) > 1:
        left = len(lines) - _OUTPUT_LINES
        note = [f"… {left} lines before"] if left > 0 else []
        body = formatter.lines([*note, *lines[-_OUTPUT_LINES:]], "dim", indent=4)
        return f"  {mark} {formatter.style(truncate(before.removesuffix(': '), room), 'dim')}".rstrip() + f"\n{body}"
    more = count_lines(lines)
    first = truncate(f"{before}{flatten(lines[0])}", room - len(more))
    return f"  {mark} {formatter.style(f'{first}{more}', 'dim')}\n"


def _render_failure(call: Call, text: str, formatter: Formatter, before: str) -> str:
    """Return what went wrong: of a command, what it printed and then how it ended."""
    printed, _, last = text.rpartition("\n")
    is_command = call.name == "exec" and bool(printed.strip())
    lines = [line for line in printed.splitlines() if line.strip()] if is_command else []
    sentence = f"✗ {before}{last if is_command else text or 'failed'}"
    body = formatter.lines(lines[-_OUTPUT_LINES:], "dim", indent=4)
    return f"{body}{formatter.remark(sentence, 'bad', indent=2, max_lines=_ERROR_LINES)}"


def render_bar(partial: Result) -> str:
    """Return a bar for a partial result that says how much of how much is done, "" for any other."""
    done, total = _read_progress(partial)
    if not 0 <= done <= total or not total:
        return ""
    full = round(_BAR_CELLS * done / total)
    return f"[{'#' * full}{'.' * (_BAR_CELLS - full)}] {100 * done / total:.0f} %"


def _read_progress(partial: Result) -> tuple[float, float]:
    details = partial.details
    if isinstance(details, Mapping):
        done, total = details.get("progress"), details.get("total")
        if isinstance(done, int | float) and isinstance(total, int | float):
            return float(done), float(total)
    found = _PROGRESS.match(render_result(partial))
    return (float(found[1]), float(found[2])) if found else (0.0, 0.0)


def _wrap_tail(text: str, width: int) -> list[str]:
    lines = list[str]()
    for line in text.splitlines()[-_WORD_LINES:]:
        lines += [line[at : at + width] for at in range(0, max(len(line), 1), width)]
    return lines
