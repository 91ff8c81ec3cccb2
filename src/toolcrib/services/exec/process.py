"""Commands that were started: what each has printed and how it goes; and the table of those that are known."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from secrets import token_hex
from typing import Any

from toolcrib.define.caller import Caller
from toolcrib.define.shell import CommandEnded, RunningCommand
from toolcrib.define.taint import split_sources
from toolcrib.lazy import dataclass, field, regex

from .output import count_unfinished, decode_output, draws_screen

_TAIL_CHARS = 2_000  # that a row or a report of progress shows
_REPORT_SECONDS = 0.1  # between two reports of progress
_NAME_CHARS = 48
_WORD = regex(r"""(?:[^\s"']+|"(?:\\.|[^"\\])*"|'[^']*')+""")


def _keep_nothing(source: str) -> Callable[[], None]:
    return lambda: None


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandReach:
    """What a command may have read: its `sources`, whether it needs a `network`, and the folders `hidden` from it.

    What it writes goes back to `written`: `begin` is called with that when it starts, and what it returns at its end.
    `look` says what it may have read by now: others write, too, while it runs.
    """

    sources: tuple[str, ...] = ()
    network: bool = True
    hidden: tuple[str, ...] = ()
    written: str = ""
    begin: Callable[[str], Callable[[], None]] = _keep_nothing
    look: Callable[[], Collection[str]] = tuple


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedProcess:
    """A command that was started; what changes about it is in `seen`."""

    id: str
    scope: str
    place: str
    author: Caller
    line: str
    cwd: str
    seconds: float
    terminal: bool
    running: RunningCommand
    reach: CommandReach
    seen: "Seen"

    @property
    def origin(self) -> dict[str, Any]:
        """Where what it prints may come from, as an answer says it; nothing where none of that is outside."""
        return {"sources": list(self.seen.sources)} if self.seen.sources else {}

    def begin_writing(self, source: str) -> None:
        """Count what it prints and writes from now on as going back to a source."""
        if source:
            self.seen.ends.append(self.reach.begin(source))

    def look_again(self) -> None:
        """Take in where its output may come from by now, besides what it writes itself."""
        known = split_sources([self.reach.written, *self.seen.sources])
        found = (
            each for each in self.reach.look() if not split_sources([each.partition(" after ")[2] or each]) <= known
        )
        self.seen.sources = tuple(dict.fromkeys((*self.seen.sources, *found)))

    def end_writing(self) -> None:
        """Keep where what it wrote came from, as far as that is outside."""
        self.look_again()
        self.seen.is_settled = True
        while self.seen.ends:
            self.seen.ends.pop()()

    @property
    def ended(self) -> CommandEnded | None:
        return self.running.ended

    @property
    def is_cut(self) -> bool:
        """Whether more was printed than is kept in memory."""
        return self.running.total > len(self.running.tail())

    def text(self) -> str:
        """Return what was printed, as far as it is kept; of a program that draws, what stands on its screen."""
        data = self.running.tail()
        if self.terminal and draws_screen(data):
            return self.running.screen()
        return decode_output(data, inside=self.running.total > len(data))

    def tail(self) -> str:
        """Return the last characters of that."""
        if self.terminal:
            return self.text()[-_TAIL_CHARS:]
        data = self.running.tail(4 * _TAIL_CHARS)
        return decode_output(data, inside=self.running.total > len(data))[-_TAIL_CHARS:]

    def news(self) -> tuple[str, int]:
        """Return what was printed since the last look, and how many bytes before it are not kept any more."""
        begin, data = self.running.since(self.seen.cursor)
        missed = begin - self.seen.cursor
        held = count_unfinished(data) if self.ended is None else 0
        self.seen.cursor = begin + len(data) - held
        if self.terminal and draws_screen(self.running.tail()):
            return self.running.screen() if data else "", 0
        return decode_output(data[: len(data) - held], inside=missed > 0), missed

    def row(self, now: float) -> dict[str, Any]:
        """Return the process as a list shows it."""
        ended = self.ended
        took = (ended.duration if ended else now - self.running.started) * 1000
        row = {
            "sessionId": self.id, "status": status_of(ended), "pid": self.running.pid,
            "startedAt": round(self.running.started * 1000), "cwd": self.cwd, "command": self.line,
            "name": short_name(self.line), "tail": self.tail(),
            "truncated": self.is_cut,
            "runtimeMs": round(took), "runtime": format_duration(took),
        }  # fmt: skip
        return {**row, **(describe_end(ended, self.seconds) if ended else {}), **self.origin}


@dataclass(slots=True)
class Seen:
    """What the caller knows of a process: how much of its output, and whether of its end; when it ended.

    `sources` are where its output may come from, and `ends` are called at its end.
    """

    cursor: int = 0
    background: bool = False
    is_announced: bool = False
    ended_at: float | None = None
    key: str = ""
    sources: tuple[str, ...] = ()
    ends: list[Callable[[], None]] = field(default_factory=list)
    is_settled: bool = False  # whether nothing is added to `sources` any more


def status_of(ended: CommandEnded | None) -> str:
    """Return running, completed or failed."""
    return "running" if ended is None else "completed" if ended.ok else "failed"


def describe_end(ended: CommandEnded, seconds: float) -> dict[str, Any]:
    """Return how a command ended that had so many seconds: facts for programs, and one sentence."""
    if ended.reason == "timeout":
        sentence = f"did not end within {seconds:g} s and was ended{ended.addendum()}"
    else:
        sentence = ended.sentence()
    return {
        "status": status_of(ended), "exitCode": ended.code, "signal": ended.signal,
        "timedOut": ended.reason == "timeout", "durationMs": round(ended.duration * 1000), "reason": ended.reason,
        "sentence": sentence, "limit": ended.limit, "left": ended.left,
    }  # fmt: skip


@contextmanager
def report_progress(process: StartedProcess, tell: Callable[[Any], None]) -> Iterator[None]:
    """Tell how far a process is whenever it has printed something, but not more often than somebody can read."""
    loop = asyncio.get_running_loop()
    waiting: asyncio.TimerHandle | None = None

    def report() -> None:
        nonlocal waiting
        waiting = None
        tell({"sessionId": process.id, "pid": process.running.pid, "tail": process.tail(), **process.origin})

    def on_output(_: bytes) -> None:
        nonlocal waiting
        if waiting is None:
            waiting = loop.call_later(_REPORT_SECONDS, report)

    stop = process.running.watch(on_output)
    try:
        yield
    finally:
        stop()
        if waiting is not None:
            waiting.cancel()


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessTerms:
    """How many commands of one scope run in the background, how many ended ones are kept for it, and for how long.

    `bytes` is how much output of ended commands is kept, whosoever they are.
    """

    running: int = 32
    ended: int = 32
    bytes: int = 32 << 20
    seconds: float = 1_800.0


class ProcessTable:
    """The commands that are known, by id: all that run, and for a time those that ended in the background.

    What belongs to one scope is never found from another; `in_place` is for whom several of them are.
    """

    def __init__(self, terms: ProcessTerms, now: Callable[[], float]) -> None:
        self._terms, self._now = terms, now
        self._processes: dict[str, StartedProcess] = {}

    def new_id(self) -> str:
        """Return an id that no known command has."""
        while (id := token_hex(3)) in self._processes:
            continue
        return id

    def add(self, process: StartedProcess) -> None:
        """Put a command into the table."""
        self._processes[process.id] = process

    def forget(self, process: StartedProcess) -> None:
        """Take a command out of the table."""
        self._processes.pop(process.id, None)

    def all(self) -> list[StartedProcess]:
        """Return every command."""
        return list(self._processes.values())

    def of(self, scope: str) -> list[StartedProcess]:
        """Return the commands of a scope that are or were in the background."""
        self._evict()
        return [each for each in self._processes.values() if each.scope == scope and each.seen.background]

    def in_place(self, place: str) -> list[StartedProcess]:
        """Return those of a place that scopes share; nothing shares the place ""."""
        self._evict()
        return [each for each in self._processes.values() if place and each.place == place and each.seen.background]

    def running(self, scope: str) -> list[StartedProcess]:
        """Return those of them that run."""
        return [each for each in self.of(scope) if each.ended is None]

    def has_room(self, scope: str) -> bool:
        """Tell whether one more may go to the background."""
        return len(self.running(scope)) < self._terms.running

    def notices(self, scope: str) -> list[dict[str, Any]]:
        """Return the background commands of a scope that ended since the last call; each is reported once."""
        rows = []
        for each in self.of(scope):
            if each.ended is not None and not each.seen.is_announced:
                each.seen.is_announced = True
                row = {"sessionId": each.id, "name": short_name(each.line)}
                rows.append({**row, **describe_end(each.ended, each.seconds)})
        return rows

    def _evict(self) -> None:
        """Forget ended commands that are too old, too many, or too large together; the oldest first."""
        ended = sorted(
            (each for each in self._processes.values() if each.seen.ended_at is not None),
            key=lambda each: each.seen.ended_at or 0.0,
            reverse=True,
        )
        count: Counter[str] = Counter()
        size = 0
        for each in ended:
            count[each.scope] += 1
            size += len(each.running.tail()) + 1_000  # about what it takes of memory
            is_old = self._now() - (each.seen.ended_at or 0.0) > self._terms.seconds
            if is_old or count[each.scope] > self._terms.ended or size > self._terms.bytes:
                self.forget(each)


# names


def short_name(command: str) -> str:
    """Return the program and the first argument that is no option: enough to recognise a command by."""
    words = [_unquote(word) for word in _WORD.findall(command)]
    if len(words) < 2:
        return cut_middle("".join(words), _NAME_CHARS)
    argument = next((word for word in words[1:] if not word.startswith("-")), words[1])
    return f"{cut_middle(words[0], _NAME_CHARS)} {cut_middle(argument, _NAME_CHARS)}"


def cut_middle(text: str, max_chars: int) -> str:
    """Return a text that is too long without its middle, counted in units of UTF-16."""
    units = text.encode("utf-16-le", "surrogatepass")
    if len(units) <= 2 * max_chars:
        return text
    kept = 2 * max(0, (max_chars - 3) // 2)
    # half a character at either cut is left out
    start, end = (each.decode("utf-16-le", "ignore") for each in (units[:kept], units[len(units) - kept :]))
    return f"{start}{'...'[:max_chars]}{end}"


def format_duration(milliseconds: float) -> str:
    """Return how long something took, as people write it: 999ms, 59s, 1m00s."""
    if milliseconds < 1000:
        return f"{int(milliseconds)}ms"
    minutes, seconds = divmod(int(milliseconds // 1000), 60)
    return f"{minutes}m{seconds:02}s" if minutes else f"{seconds}s"


def _unquote(word: str) -> str:
    return word[1:-1] if len(word) > 1 and word[0] in "\"'" and word[-1] == word[0] else word
