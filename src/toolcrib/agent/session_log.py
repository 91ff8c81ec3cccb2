"""A session's log: the journal that a turn writes, and the conversation that is read back from its lines.

The journal keeps what the session says of a turn and what the record says of its calls in one order. Read back are:

    path       every line from the first to the leaf, along the parents; other branches are not on it
    shown      what stands behind the last compaction, and what it kept; its summary stands before them
    history    the messages shown, each answer right behind the reply that asked, in the order of its calls

A call without an answer gets one that says what is known: that it never ran, or that nobody knows (G15).
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from secrets import token_hex

from pydantic_core import to_jsonable_python

from toolcrib.adapter.conversation import BROKEN
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.event import Usage
from toolcrib.define.log import Began, Body, Ended, Line, Said, SessionStore, Shortened, settings_after
from toolcrib.define.message import Call, Message
from toolcrib.define.model import History
from toolcrib.define.record import Record, RecordEntry, Started
from toolcrib.define.result import Text
from toolcrib.lazy import dataclass


class Journal:
    """Hands lines and entries on as they come, and waits for the disk only where something depends on it.

        reply, Decided ..., Began, Started     on the disk before a body runs
        Finished, answer                       on the disk before anybody sees the outcome

    Both go to one store in that order, so each row takes one commit. It is the turn's `Record`. `path` are the lines
    that lead here, grown with every line; `count` is how many the session has, those of other branches included.
    Without a store nothing but the record is kept. What could not be kept once is not forgotten: from then on nothing
    settles, so no body runs and nobody reads that something was kept.
    """

    def __init__(
        self,
        record: Record,
        store: SessionStore | None = None,
        key: str = "",
        *,
        path: Iterable[Line] = (),
        count: int = 0,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._record, self._store, self._key, self.now = record, store, key, now
        self.path, self.count = list(path), count
        self._prefix = token_hex(5)
        self._waiting: set[asyncio.Future[None]] = set()  # what was handed in and is not kept yet
        self._settling: list[tuple[asyncio.Future[None], set[asyncio.Future[None]]]] = []  # who waits, and for what
        self._failure: ToolError | None = None

    def add(self, body: Body, /) -> str:
        """Take a line of the session behind the last one; return its id. It is kept once `settled` was awaited."""
        if self._store is None:
            return ""
        parent = self.path[-1].id if self.path else None
        line = Line(f"{self._prefix}{self.count:x}", parent, self.now(), body)
        try:
            writing = self._store.append(self._key, (line,), at=self.count)
        except (ToolError, OSError) as error:
            self._fail(error)
        else:
            if writing is not None:
                self._take(writing)
        self.count += 1
        self.path.append(line)
        return line.id

    def abandon(self) -> None:
        """Keep nothing more of the session: what is open stays so, as a kill would have left it."""
        self._store = None

    def line_of(self, message: Message) -> str | None:
        """Return the line on the path that holds this very message."""
        lines = (line for line in reversed(self.path) if type(line.body) is Said and line.body.message is message)
        return next((line.id for line in lines), None)

    def write(self, entry: RecordEntry, /) -> Awaitable[None] | None:
        """Take an entry of the record; a body waits until its start is kept, with all that led to it."""
        if is_start := isinstance(entry, Started):
            # arguments that were checked may be of types of the tool's own
            args = entry.call.args and to_jsonable_python(dict(entry.call.args), fallback=str)
            call = entry.call
            self.add(Began(Call(call.id, call.name, args, call.key, call.signature, call.parse_error)))
        if (writing := self._record.write(entry)) is not None:
            self._take(writing)
        return self.flush() if is_start and not self.is_settled else None

    @property
    def is_settled(self) -> bool:
        """Whether all that was taken is kept already."""
        return not self._waiting and self._failure is None

    def check(self) -> None:
        """Raise ToolError when something that was taken could not be kept."""
        if (failure := self._failure) is not None:
            raise ToolError(str(failure), code=failure.code) from failure

    def flush(self) -> "asyncio.Future[None]":
        """Wait until all that was taken so far is kept, whoever waits for it too; raise ToolError when some is not."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # noted now and not when it is awaited: of calls side by side, none may go on before what it depends on
        self._settling.append((future, set(self._waiting)))
        self._settle()
        return future

    def _take(self, writing: Awaitable[None]) -> None:
        future = asyncio.ensure_future(writing)
        self._waiting.add(future)
        future.add_done_callback(self._on_kept)

    def _on_kept(self, future: "asyncio.Future[None]") -> None:
        self._waiting.discard(future)
        if future.cancelled():
            self._fail(ToolError("it could not be kept: the store was stopped", code="unkept"))
        elif (error := future.exception()) is not None:
            self._fail(error)
        for _, needed in self._settling:
            needed.discard(future)
        self._settle()

    def _settle(self) -> None:
        """Let everybody go on whose lines and entries are kept, in the order in which they came to wait."""
        while self._settling and not self._settling[0][1]:
            future, _ = self._settling.pop(0)
            if future.done():  # nobody waits any more
                continue
            if (failure := self._failure) is None:
                future.set_result(None)
            else:
                future.set_exception(ToolError(str(failure), code=failure.code))
                future.exception()  # looked at: who does not wait for it meets it in `check`

    def _fail(self, error: BaseException) -> None:
        if not isinstance(error, ToolError):
            why = getattr(error, "strerror", None) or type(error).__name__
            error = ToolError(f"it could not be kept ({why})", code="unkept")
        self._failure = self._failure or error


_UNCERTAIN = (
    "what came of this call was never kept, so nobody knows whether it took effect; look at what there is before you "
    "try it again"
)
_ELSEWHERE = (
    "this call ran on another branch of the session, and its result is not part of this one; it may have taken effect, "
    "so look at what there is before you try it again"
)
_NOT_RUN = "this call was not run: the turn ended before its place came"
_CUT_OFF = "this call was not run: the reply that asked for it broke off"
_SUMMARY_HEAD = (
    "[The conversation was shortened. What follows is a summary of its earlier part; it tells what happened and asks "
    "for nothing.]\n\n"
)
_SUMMARY_FOOT = "\n\n[End of the summary. The conversation goes on below.]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """What a log says about its session.

    `ids` are the ids of the lines that the messages of the history come from, "" for the summary and what is mended.
    `mended` are the answers that no line has: they are part of the history already, and whoever goes on writes them
    down behind `leaf`. `uncertain` are the calls that began and never ended; `waiting` those of the last reply that
    never began or are pending, where the turn is to go on with them: they have no answer yet. `start` is the place on
    the path of the first line that is shown. `usage` and `cost` are those of all replies, on every branch; `cost` is
    None when the price of one is not known.
    """

    history: History
    ids: tuple[str, ...]
    path: tuple[Line, ...]
    leaf: str | None
    start: int
    summary: str
    model: str
    title: str
    usage: Usage
    cost: float | None
    uncertain: tuple[Call, ...]
    mended: tuple[Message, ...]
    waiting: tuple[Call, ...]


def recall(
    lines: Sequence[Line], leaf: str | None = None, *, resumes: bool = False, pending: Collection[str] = ()
) -> Conversation:
    """Return the conversation that ends at a line, the last one for None; "" is the place before the first line.

    `pending` are the keys of calls that began, and that somebody else finishes: where it resumes, it waits for them.
    Raise CribError when the lines are no tree, or there is no such line.
    """
    path = path_to(lines, leaf)
    at, compaction, start = _find_compaction(path)
    history, ids, open_slots = History(), list[str](), list[list[_Slot]]()
    if compaction:
        history.append(summary_message(compaction.summary, path[at].at))
        ids.append("")
    slots, waiting = _find_slots(path, lines), list[Call]()
    resumed = _find_unended(path) if resumes else None
    for place in range(start, len(path)):
        line = path[place]
        if not isinstance(line.body, Said) or line.body.message.role == "tool":
            continue
        # what was counted before the history was shortened counts messages that are no longer in it
        history.append(line.body.message, line.body.usage if place > at else None)
        ids.append(line.id)
        of_reply = slots.get(place, [])
        if place == resumed:
            left = [slot for slot in of_reply if slot.is_left or (slot.answer is None and slot.call.key in pending)]
            waiting = [slot.call for slot in left]
            of_reply = [slot for slot in of_reply if slot not in left]
        for slot in of_reply:
            history.append(slot.answer or _make_answer(slot))
            ids.append(slot.answer_id)
        unanswered = [slot for slot in of_reply if slot.answer is None]
        # in the order in which answers find their calls again, where ids were used twice
        open_slots.append(sorted(unanswered, key=lambda slot: not slot.began))
    model, title = settings_after(path)
    usage, cost = _sum_usage(lines)
    return Conversation(
        history=history,
        ids=tuple(ids),
        path=path,
        leaf=path[-1].id if path else None,
        start=start,
        summary=compaction.summary if compaction else "",
        model=model,
        title=title,
        usage=usage,
        cost=cost,
        uncertain=tuple(slot.call for each in open_slots for slot in each if slot.began and not slot.elsewhere),
        mended=tuple(_make_answer(slot) for each in reversed(open_slots) for slot in each),
        waiting=tuple(waiting),
    )


def summary_message(summary: str, at: float = 0.0) -> Message:
    """Return the message that gives a model the summary of what it no longer sees."""
    return Message(role="user", content=(Text(f"{_SUMMARY_HEAD}{summary}{_SUMMARY_FOOT}"),), at=at)


def summary_in(history: Sequence[Message] | History) -> str:
    """Return the summary that a history begins with, "" when it was never shortened."""
    match history[0] if len(history) else None:
        case Message(role="user", content=(Text(text=text),)) if text.startswith(_SUMMARY_HEAD):
            return text.removeprefix(_SUMMARY_HEAD).removesuffix(_SUMMARY_FOOT)
    return ""


def path_to(lines: Sequence[Line], leaf: str | None = None) -> tuple[Line, ...]:
    """Return the lines from the first to the leaf, along the parents."""
    places = {line.id: place for place, line in enumerate(lines)}
    if len(places) != len(lines):
        twice = next(line.id for place, line in enumerate(lines) if places[line.id] != place)
        raise CribError(f"two lines of the log are called {twice!r}; export it and give one of them another id")
    if not lines or leaf == "":
        return ()
    if leaf is not None and leaf not in places:
        raise CribError(f"the log has no line {leaf!r} to go on from; name one of its {len(lines)} lines")
    place = len(lines) - 1 if leaf is None else places[leaf]
    found = [lines[place]]
    while (parent := lines[place].parent) is not None:
        above = places.get(parent, len(lines))
        # a parent is always the older one, so this ends, whatever the log says
        if above >= place:
            what = "is not in the log" if parent not in places else "does not stand before it"
            raise CribError(f"line {lines[place].id!r} of the log names the parent {parent!r}, which {what}")
        place = above
        found.append(lines[place])
    found.reverse()
    return tuple(found)


# the answers


@dataclass(slots=True)
class _Slot:
    """A call of a reply, and what became of it."""

    call: Call
    at: float
    is_broken: bool
    began: bool = False
    elsewhere: bool = False
    answer: Message | None = None
    answer_id: str = ""

    @property
    def is_left(self) -> bool:
        """Whether it never began, and may still."""
        return self.answer is None and not (self.began or self.elsewhere or self.is_broken)


class _Open:
    """The calls on a path that wait for an answer, by id. Models reuse ids: the reply that asked last goes first."""

    def __init__(self) -> None:
        self._asked: dict[str, list[deque[_Slot]]] = {}

    def ask(self, slots: Sequence[_Slot]) -> None:
        of_reply: dict[str, deque[_Slot]] = {}
        for slot in slots:
            of_reply.setdefault(slot.call.id, deque()).append(slot)
        for id, same in of_reply.items():
            self._asked.setdefault(id, []).append(same)

    def begin(self, call: Call) -> None:
        waiting = self._waiting(call.id)
        fit = [slot for slot in waiting if not slot.began]
        same = [slot for slot in fit if call.key and slot.call.key == call.key]
        for slot in (same or fit)[:1]:
            slot.began = True

    def answer(self, message: Message, id: str) -> None:
        if waiting := self._waiting(message.call_id or ""):
            # of two calls with one id, the one that began is the one that can have ended
            slot = next((each for each in waiting if each.began), waiting[0])
            slot.answer, slot.answer_id = message, id
            waiting.remove(slot)

    def elsewhere(self, id: str) -> None:
        for slot in self._waiting(id):
            slot.elsewhere = True

    def _waiting(self, id: str) -> deque[_Slot]:
        asked = self._asked.get(id, [])
        while asked and not asked[-1]:
            asked.pop()
        return asked[-1] if asked else deque()


def _find_slots(path: Sequence[Line], lines: Sequence[Line]) -> dict[int, list[_Slot]]:
    """Return the calls of every reply on the path, with their answers."""
    found: dict[int, list[_Slot]] = {}
    waiting, aside = _Open(), _find_aside(path, lines)
    for place, line in enumerate(path):
        match line.body:
            case Said(message=message) if message.role == "assistant" and message.calls:
                is_broken = message.finish in BROKEN
                found[place] = [_Slot(call, message.at, is_broken) for call in message.calls]
                waiting.ask(found[place])
            case Said(message=message) if message.role == "tool":
                waiting.answer(message, line.id)
            case Began(call=call):
                waiting.begin(call)
        for id in aside.get(place, ()):
            waiting.elsewhere(id)
    return found


def _find_unended(path: Sequence[Line]) -> int | None:
    """Return the place of the last reply, when its turn never ended and no message came since."""
    for place in range(len(path) - 1, -1, -1):
        match path[place].body:
            case Ended():
                return None
            case Said(message=message) if message.role != "tool":
                return place if message.role == "assistant" else None
    return None


def _find_aside(path: Sequence[Line], lines: Sequence[Line]) -> dict[int, list[str]]:
    """Return the ids of calls that began or ended on other branches, by the place where the branch leaves the path."""
    if len(path) == len(lines):
        return {}
    leaves = {line.id: place for place, line in enumerate(path)}
    on_path = set(leaves)
    found: dict[int, list[str]] = {}
    for line in lines:
        if line.id in on_path or line.parent is None or line.parent not in leaves:
            continue
        place = leaves[line.parent]
        match line.body:
            case Said(message=message) if message.role == "assistant":
                continue  # whatever stands behind it is about its own calls
            case Said(message=message) if message.call_id:
                found.setdefault(place, []).append(message.call_id)
            case Began(call=call):
                found.setdefault(place, []).append(call.id)
        leaves[line.id] = place
    return found


def _make_answer(slot: _Slot) -> Message:
    """Return the answer to a call that has none."""
    if slot.elsewhere:
        words = _ELSEWHERE
    elif slot.began:
        words = _UNCERTAIN
    else:
        words = _CUT_OFF if slot.is_broken else _NOT_RUN
    return Message(role="tool", content=(Text(words),), call_id=slot.call.id, status="error", at=slot.at)


# the rest of what a path says


def _find_compaction(path: Sequence[Line]) -> tuple[int, Shortened | None, int]:
    """Return the last compaction, behind its place on the path (-1 for none), and the place of the first line shown.

    One that keeps from a line nobody knows keeps all that was shown before it: rather twice than lost.
    """
    at, compaction, start = -1, None, 0
    places: dict[str, int] = {}
    for place, line in enumerate(path):
        places[line.id] = place
        if isinstance(line.body, Shortened):
            at, compaction = place, line.body
            start = places.get(compaction.kept, start)
    return at, compaction, _include_reply(path, start) if compaction else 0


def _include_reply(path: Sequence[Line], start: int) -> int:
    """Return the place of the reply, when the line at `start` is an answer: it stays with its call."""
    body = path[start].body
    if not isinstance(body, Said) or body.message.role != "tool":
        return start
    for place in range(start - 1, -1, -1):
        above = path[place].body
        if isinstance(above, Said) and any(call.id == body.message.call_id for call in above.message.calls):
            return place
    return start


def _sum_usage(lines: Sequence[Line]) -> tuple[Usage, float | None]:
    replies = [line.body for line in lines if isinstance(line.body, Said) and line.body.usage is not None]
    usage = sum((reply.usage or Usage() for reply in replies), Usage())
    costs = [reply.cost for reply in replies if reply.cost is not None]
    return usage, sum(costs, 0.0) if len(costs) == len(replies) else None
