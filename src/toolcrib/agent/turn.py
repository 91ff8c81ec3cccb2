"""A message and a session to a turn: recalled, answered, written down; one turn at a time in a session."""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol
from weakref import WeakValueDictionary

from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.event import Event, TurnFinished, TurnStarted
from toolcrib.define.later import PendingCall
from toolcrib.define.log import Body, Line, Said, SessionHead, SessionStore, settings_after
from toolcrib.define.memory import MemoryInTurn, TurnMemory
from toolcrib.define.message import Call, Message, join_text
from toolcrib.define.model import History
from toolcrib.define.record import Record
from toolcrib.define.result import Text
from toolcrib.define.session import kind_from_key
from toolcrib.define.taint import join_sources, sources_of
from toolcrib.define.turn import TurnRequest
from toolcrib.lazy import dataclass, field, replace

from .compact import shortener
from .declare import Declarations
from .hooks import Moments
from .loop import Loop, TurnSetup
from .mailbox import Inbox
from .notes import make_noter
from .session_log import Conversation, Journal, recall
from .subagent import run_task

_TITLE_CHARS = 80
_REMEMBERED = 64  # sessions whose conversation stays in memory between two turns


class TurnResolver(Protocol):
    """Says who answers a request, with which tools and within which bounds."""

    def resolve(self, request: TurnRequest, switched: str, /) -> TurnSetup:
        """Return the setup of a turn; `switched` is the model that its session was switched to, "" when it was not."""


@dataclass(slots=True)
class _Session:
    """A session between two turns: what it stands on, and how many lines its log has."""

    history: History
    path: Sequence[Line]
    count: int
    model: str
    waiting: tuple[Call, ...] = ()
    pending: Mapping[str, PendingCall] = field(default_factory=dict)


class PendingSource(Protocol):
    """Knows the calls that are finished later."""

    async def open_in(self, session: str, /) -> Sequence[PendingCall]:
        """Return those of a session that a turn waits for, completed or not."""

    async def withdraw(self, call: Call, /) -> bool:
        """Let nobody complete a call any more."""


class Turns:
    """Runs the turns of sessions that one store keeps."""

    def __init__(  # noqa: PLR0913  each by name, and nearly all have a default
        self,
        store: SessionStore,
        record: Record,
        resolver: TurnResolver,
        moments: Moments | None = None,
        now: Callable[[], float] = time.time,
        memory: TurnMemory | None = None,
        later: PendingSource | None = None,
    ) -> None:
        self.store, self._record, self._resolver = store, record, resolver
        self._moments, self._now, self._memory, self._later = moments or Moments(), now, memory, later
        self._known: OrderedDict[str, _Session] = OrderedDict()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # of sessions at work
        self._running: dict[str, Inbox] = {}
        self._journals: dict[str, Journal] = {}

    def journal_of(self, session: str) -> Journal | None:
        """Return the journal of the turn that runs in a session: nobody else adds lines to it meanwhile."""
        return self._journals.get(session)

    async def run(self, request: TurnRequest, emit: Callable[[Event], None], inbox: Inbox) -> TurnFinished:
        """Answer a message in the session that the request and its caller name, after those that came before it there.

        Raises ToolError before it began.
        """
        key = request.session
        try:
            async with self._lock(key):
                self._running[key] = inbox
                try:
                    return await self._run(request, emit, inbox)
                finally:
                    del self._running[key]
                    self._journals.pop(key, None)
        finally:
            for message in inbox.close():  # of a turn that did not come so far as to hear anybody
                await self.add(key, Said(message))

    async def tell(self, session: str, message: Message) -> None:
        """Say something in a session: the turn that runs there hears it before it ends, else the next one does."""
        if (inbox := self._running.get(session)) is not None:
            # refused by a turn that is ending or has too much to hear: `add` waits for its end, the next turn hears it
            with suppress(ToolError):
                inbox.follow_up(message)
                return
        await self.add(session, Said(message))

    async def add(self, session: str, body: Body) -> None:
        """Add a line to a session, between two turns."""
        async with self._lock(session):
            self._known.pop(session, None)
            now = self._now()
            await self.store.make(SessionHead(key=session, made_at=now, changed_at=now))
            _, journal, _ = await self._recall(session)
            journal.add(body)
            await journal.flush()

    async def _recall(
        self, session: str, leaf: str | None = None, *, resumes: bool = False
    ) -> tuple[Conversation, Journal, Mapping[str, PendingCall]]:
        """Return what a session's log says, a journal behind it, and its calls that are pending.

        What a crash left open is answered in both, and can be completed no more.
        """
        lines, pending = await self.store.lines(session), dict[str, PendingCall]()
        if resumes and self._later is not None:
            pending = {each.key: each for each in await self._later.open_in(session)}
        found = recall(lines, leaf, resumes=resumes, pending=pending)
        if self._later is not None:
            for call in found.uncertain:
                await self._later.withdraw(call)
        journal = Journal(self._record, self.store, session, path=found.path, count=len(lines), now=self._now)
        for answer in found.mended:
            journal.add(Said(answer))
        return found, journal, pending

    def _lock(self, session: str) -> asyncio.Lock:
        """Return what lets one at a time work in a session, in the order they came; it lives while somebody has it."""
        lock = self._locks.get(session)
        if lock is None:
            lock = self._locks[session] = asyncio.Lock()
        return lock

    async def _run(self, request: TurnRequest, emit: Callable[[Event], None], inbox: Inbox) -> TurnFinished:
        key, caller, moments = request.session, request.caller, self._moments
        session = await self._open(request)
        setup = self._resolver.resolve(request, session.model)
        if caller.door and setup.pipeline.check_caller is not None:
            await setup.pipeline.check_caller(caller)
        known = await self._memory.open_for(setup.caller, setup.belt.tools) if self._memory else MemoryInTurn()
        setup = replace(setup, system="\n\n".join(filter(None, (setup.system, known.prompt))))
        if known.source is not None:
            session.history.outside[known.source] = None
        journal = Journal(self._record, self.store, key, path=session.path, count=session.count, now=self._now)
        self._journals[key] = journal
        if not session.count:
            await moments.tell("session_start", caller, sessionKey=key)
        message, system = request.message, setup.system
        if not request.resumes:
            message, system = await self._apply_hooks(request, setup.system, len(session.history))
            asked = Declarations(setup.belt, setup.model.card).list_asked(join_text(message))
            message = replace(message, offers=asked)
            session.history.append(message)
            journal.add(Said(message))
            await journal.flush()
        emit(TurnStarted(key, setup.model.card.name, message))
        keep = partial(moments.apply_to_answer, caller) if "tool_result_persist" in moments else None
        send = partial(self._apply_sending, caller) if "message_sending" in moments else None
        note = None if known.notes is None else make_noter(setup, known.notes)
        shorten = shortener(setup.model, setup.retries, journal, setup.caller, moments, emit, note)
        setup = replace(setup, system=system, inbox=inbox, shorten=shorten, keep=keep, send=send)
        setup = replace(setup, waiting=session.waiting, pending=session.pending)
        end: TurnFinished | None = None
        history: History | None = None  # behind a task it has to be recalled from the log
        try:
            if request.task is not None:
                end = await run_task(request.task, setup, session.history, journal, emit)
            else:
                loop = Loop(setup, session.history, journal, emit)
                end = await loop.run()
                history = loop.history
        finally:
            # a session of a run of a job is hardly ever gone on with
            if end is not None and end.reason != "error" and history is not None and kind_from_key(key) != "cron":
                model, _ = settings_after(journal.path[len(session.path) :], session.model)
                self._remember(key, _Session(history, journal.path, journal.count, model))
            reason = "stopped" if end is None else end.reason
            if end is not None and end.reason == "done":
                await moments.tell("message_sent", caller, content=end.text)
            many = len(session.history if history is None else history)
            await moments.tell("agent_end", caller, success=reason == "done", reason=reason, messages=many)
        return end

    async def _apply_hooks(self, request: TurnRequest, system: str, messages: int) -> tuple[Message, str]:
        """Return the message and the system prompt as the hooks leave them."""
        moments, caller = self._moments, request.caller
        message = replace(request.message, at=request.message.at or self._now())
        words = join_text(message)
        await moments.tell("message_received", caller, content=words)
        if "before_agent_start" in moments:
            changes = await moments.apply("before_agent_start", caller, prompt=words, messages=messages)
            if isinstance(other := changes.get("systemPrompt"), str):
                system = other
            if isinstance(context := changes.get("prependContext"), str) and context.strip():
                message = replace(message, content=(Text(f"{context}\n\n"), *message.content))
        return message, system

    async def _open(self, request: TurnRequest) -> _Session:
        """Return the session as the store has it; what a crash left open is answered and written down first."""
        key = request.session
        known = self._known.pop(key, None)
        head = await self.store.make(
            SessionHead(
                key=key,
                made_at=self._now(),
                changed_at=self._now(),
                parents=request.caller.parents,
                title=title_of(join_text(request.message)),
                source=join_sources(sources_of([request.message])),
            )
        )
        if known is not None and request.leaf is None and known.count == head.count:
            return known
        found, journal, pending = await self._recall(key, request.leaf, resumes=request.resumes)
        if request.resumes and not found.waiting:
            raise ToolError("nothing in this session waits to go on", code="not_found")
        await journal.flush()
        messages = [line.body.message for line in found.path if isinstance(line.body, Said)]
        found.history.outside.update(sources_of(messages))
        found.history.offered = dict.fromkeys(name for message in messages for name in message.offers)
        return _Session(found.history, journal.path, journal.count, found.model, found.waiting, pending)

    async def _apply_sending(self, caller: Caller, text: str) -> str:
        """Return the answer as the hooks let it go out; the session keeps what the model wrote."""
        changes = await self._moments.apply("message_sending", caller, content=text)
        return "" if changes.get("cancel") is True else str(changes.get("content", text))

    async def close(self) -> None:
        """Tell the hooks of every session that was open here that it is not any more."""
        for key in self._known:
            await self._moments.tell("session_end", Caller(session=key), sessionKey=key)
        self._known.clear()

    def _remember(self, key: str, session: _Session) -> None:
        self._known[key] = session
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)


def title_of(words: str) -> str:
    """Return what a new session is called until somebody names it: how it began."""
    return " ".join(words[: 4 * _TITLE_CHARS].split())[:_TITLE_CHARS]
