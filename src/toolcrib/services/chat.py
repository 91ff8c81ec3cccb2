"""Chats over RPC: a message to a session, the run that answers it, and the events that clients follow.

A run has the id that its asker chose for it, so that asking again after a broken connection starts nothing twice. Who
asks for a session is decided here, by the caller that the door made: the owner may name any, everybody else has the
session that the door gave them, and those below it.
"""

import asyncio
import time
from collections import OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable
from dataclasses import replace
from typing import Annotated, Any

import orjson
from pydantic import Field

from toolcrib.adapter.events import event_json, event_line
from toolcrib.define import event as events
from toolcrib.define.approval import Question
from toolcrib.define.caller import Caller
from toolcrib.define.display import escape
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.gateway import HOOK_CHANNEL, Bus
from toolcrib.define.later import PendingCall
from toolcrib.define.log import Body, Ended, Said, read_sources
from toolcrib.define.message import Message
from toolcrib.define.ports import Progress, rpc
from toolcrib.define.session import agent_from_key, check_key, is_within, to_store_key
from toolcrib.define.turn import Limits, TurnRequest
from toolcrib.define.verdict import Layer
from toolcrib.policy.resolve import agent_of, mark_terminal_owner

from .chat_events import RunEventPublisher, to_ms
from .chat_run import (
    AgentQuery,
    ChatQuery,
    ChatRun,
    FinishedRun,
    Key,
    TimeoutMs,
    owner_of_runs,
    refuse_delivery,
    to_message,
)
from .exec.judge import CommandRunner
from .feature import Feature, TurnCore
from .revocation import Revocations
from .sessions import describe_sources
from .voice import Voice

_KEPT_RUNS, _KEPT_SECONDS = 256, 600.0  # of one person: runs that have ended, and how long they can be asked about
_OWNER, _OWNERS_RUNS = "owner", 4_000
_MAX_RUNS = 64  # that go on or wait for one person; the owner's are not counted
_MAX_STARTING, _MAX_START_SECONDS = 16, 1.0  # turns that begin at once: each reads its log and makes its belt
_STOP_WORDS = frozenset({"/stop", "stop", "abort", "esc", "interrupt"})
_BOUND = "?"  # behind the mark of a turn within bounds that whoever set them can set again
_ALONE = "!"  # behind the mark of a turn that nobody can go on with: what bound it, or its tools, went with its process
_PAGE_CHARS = 200_000  # of events in one page

Rebind = Callable[[str], Awaitable[tuple[Layer, ...] | None]]


def mount(core: TurnCore) -> Feature:
    """Mount what answers messages from afar."""
    chat = Chats(core)
    return Feature(services=(chat,), close=chat.close)


class Chats:
    """The runs of one crib."""

    def __init__(self, core: TurnCore, now: Callable[[], float] = time.time) -> None:
        self.bus, self._start_turn, self._store = core.find(Bus), core.start_turn, core.stores.sessions
        self._is_owner, self._judge, self._running = core.is_owner, core.find(CommandRunner).judge_call, core.running
        self._person_of = core.person_of
        self._now, self._voice, self._revocations = now, core.find(Voice), core.find(Revocations)
        self._is_theirs, self._began, self.left = core.is_theirs, now(), set[str]()
        self._runs: OrderedDict[tuple[str, str], ChatRun] = OrderedDict()
        self._by_session = defaultdict[str, list[ChatRun]](list)
        self._starting = {is_owner: asyncio.Semaphore(_MAX_STARTING) for is_owner in (True, False)}

    @rpc("chat.send", clients="write", starts_turn=True, shared=True, why="turn")
    async def send(self, caller: Caller, query: ChatQuery) -> dict[str, Any]:
        """Say something in a session; the events `chat` and `agent` tell what comes of it. `/stop` stops it."""
        refuse_delivery(query)
        placed, key = self.place(caller, query.sessionKey, query.agentId), query.idempotencyKey
        if not query.plain and not query.attachments and query.message.strip().lower() in _STOP_WORDS:
            return {"runId": key, "status": "ok", "aborted": self._stop(placed.session or "", "", caller)}
        query = await self._voice.write_down(query)
        if query.queue != "wait" and (hears := self._say_to_run(placed.session or "", query)):
            return {"runId": hears.id, "status": "in_flight"}
        waits = self._running_in(placed.session or "") is not None
        found = await self._begin(caller, placed, query)
        if isinstance(found, FinishedRun):
            return found.to_json(key)
        run, is_new = found
        if not is_new:
            return {"runId": run.id, "status": run.status()}
        if waits:  # it is kept when it is its turn
            return {"runId": run.id, "status": "queued"}
        await run.wait_until_kept()
        return {"runId": run.id, "status": "started"}

    @rpc("chat.follow", clients="read", shared=True, why="own")
    async def follow(
        self,
        caller: Caller,
        runId: Annotated[str, Field(max_length=256), "else the one that runs, or the latest"] = "",  # noqa: N803
        sessionKey: str = "main",  # noqa: N803
        after: Annotated[int, Field(ge=0), "how many of its events are known already"] = 0,
    ) -> dict[str, Any]:
        """Wait for events of a run, and return them as `toolcrib run --json` prints them; the last one is its end.

        A client that asks again with the `after` of the answer until it is `done` gets each event once, also over a new
        connection. A run that a restart ended has only its end. `times` are those of the events, in ms.
        """
        session = self.place(caller, sessionKey).session or ""
        found = [run for run in self._by_session.get(session, ()) if runId in ("", run.id)]
        if not found:
            past = await self._find_past(session, f"{owner_of_runs(caller)}#{runId}")
            if past is None:
                raise ToolError(f"there is no run {escape(runId[:64])!r} in this session", code="not_found")
            end = {"runId": runId, "events": [event_json(past.end)], "after": after + 1, "done": True}
            return end | describe_sources(past.sources)
        run, page_events, size = next((each for each in found if each.ended is None), found[-1]), list[Any](), 0
        times, is_done = list[int](), True
        reader = run.turn.subscribe(after)
        try:
            async for event in reader:
                line = event_line(self._judge_start(run, event))
                page_events.append(orjson.loads(line))
                times.append(int(reader.time * 1000))
                run.note_sources(event)
                size += len(line)
                if isinstance(event, events.TurnFinished):
                    break
                if size > _PAGE_CHARS or not reader.is_behind:
                    is_done = False
                    break
            else:
                page_events.append(event_json(await run.turn.end()))
        except CribError as error:
            page_events.append(event_json(events.TurnFinished("error", sentence=str(error))))
        page = {"runId": run.id, "events": page_events, "times": times, "after": reader.number, "done": is_done}
        return page | await self.describe_sources(run)

    async def describe_sources(self, run: ChatRun) -> dict[str, Any]:
        """Return the sources that a run may go back to: all that was read in its session until now."""
        if not run.knows_before:
            run.outside.update(await read_sources(self._store, run.session))
            run.knows_before = True
        return describe_sources(run.outside)

    @rpc("chat.abort", clients="write", shared=True, why="own")
    async def abort(
        self,
        caller: Caller,
        sessionKey: str = "main",  # noqa: N803
        runId: str = "",  # noqa: N803
    ) -> dict[str, Any]:
        """Stop what runs for the caller in a session, or one run of it; the owner stops everybody's."""
        stopped = self._stop(self.place(caller, sessionKey).session or "", runId, caller)
        return {"ok": True, "aborted": bool(stopped), "runIds": stopped}

    @rpc("agent", clients="write", starts_turn=True, shared=True, two_answers=True, why="turn")
    async def agent(self, caller: Caller, progress: Progress, query: AgentQuery) -> dict[str, Any]:
        """Let an agent answer a message: the first answer says that it was accepted, the second has the result."""
        refuse_delivery(query)
        placed = self.place(caller, query.sessionKey or "main", query.agentId)
        timeout_ms = None if query.timeout is None else query.timeout * 1000
        chat_query = ChatQuery(
            message=query.message, idempotencyKey=query.idempotencyKey, timeoutMs=timeout_ms,
            attachments=query.attachments, outside=query.outside,
        )  # fmt: skip
        found = await self._begin(caller, placed, await self._voice.write_down(chat_query))
        if isinstance(found, FinishedRun):
            return found.to_json(query.idempotencyKey)
        run, _ = found
        await run.wait_until_kept()
        progress({"runId": run.id, "status": "accepted", "acceptedAt": to_ms(run.began)})
        end = await self.wait_for_end(run)
        if end is None:
            return {"runId": run.id, "status": "error", "summary": run.error()}
        meta = {"steps": end.steps, "cost": end.cost, "reason": end.reason}
        result = {"payloads": [{"text": end.text}], "meta": meta}
        sources = await self.describe_sources(run)
        return {"runId": run.id, "status": "ok", "summary": "completed", "result": result} | sources

    @rpc("agent.wait", clients="write", shared=True, why="own")
    async def wait(
        self,
        caller: Caller,
        runId: Key,  # noqa: N803
        timeoutMs: TimeoutMs = 30_000,  # noqa: N803
    ) -> dict[str, Any]:
        """Wait until a run has ended, or the time is over."""
        run = self._runs.get((owner_of_runs(caller), runId))
        if run is None or run.task is None:
            return {"runId": runId, "status": "timeout"}
        await asyncio.wait([run.task], timeout=timeoutMs / 1000)
        if not run.task.done():
            waits = {"pending": list(run.pending.values())} if run.pending else {}
            return {"runId": runId, "status": "timeout", **waits}
        times = {"startedAt": to_ms(run.began), "endedAt": to_ms(run.ended or self._now())}
        error = run.error()
        return {"runId": runId, "status": run.status(), **times} | ({"error": error} if error else {})

    def place(self, caller: Caller, key: str, agent: str = "") -> Caller:
        """Return the caller in the session that is meant; one it may not see is answered like one that is not there."""
        whose = agent or agent_from_key(key) or agent_of(caller)
        full = check_key(key if key == caller.session else to_store_key(whose, key))  # the door may have named it
        if self._is_owner(caller) and caller.channel is None:
            # as at the terminal: the owner is one in sessions of their own, and a guest in those of a group
            return mark_terminal_owner(replace(caller, owner=None, session=full, agent=agent or None))
        own = caller.session or ""
        asked = own if key.strip() in ("", "main") else full
        if is_within(asked, own):
            return replace(caller, session=asked)
        raise ToolError(f"there is no session {escape(key[:200])!r} that this caller may see", code="not_found")

    async def resume(self, left: Iterable[Question | PendingCall], rebind: Rebind) -> set[str]:
        """Go on with the turns that a process left while a call of their last reply waited for somebody.

        Whoever follows such a run finds it under the id that it had. A subagent goes on with nothing: who started it
        has gone, too. `rebind` gives the bounds of a session that had some, None where nothing may go on there.
        Returns the sessions in which one goes on.
        """
        asked, resumed = defaultdict[str, dict[str, Caller]](dict), set[str]()  # by session and by call
        for pending in left:
            if pending.asker is not None and pending.asker.session and not pending.asker.parents:
                asked[pending.asker.session][pending.key] = pending.asker
        for session, callers in asked.items():
            messages = await self._read_unended(session)
            last_calls = messages[-1].calls if messages else ()
            caller = next((callers[call.key] for call in last_calls if call.key in callers), None)
            whose, hash, key = messages[0].by.partition("#") if messages else ("", "", "")
            bounds = await rebind(session) if key.endswith(_BOUND) else ()
            if caller is None or await self._revocations.explain(caller):
                continue
            if hash and bounds is not None and not key.endswith(_ALONE):
                named = (caller.provider, caller.model) if self._is_owner(caller) else ()
                model = ":".join(filter(None, named)) or None
                request = TurnRequest(message=messages[0], caller=caller, model=model, resumes=True, bounds=bounds)
                person = self._count_as(caller)
                await self._starting[person == _OWNER].acquire()
                self._start((whose, key.removesuffix(_BOUND)), request, messages[0].by, person)
                resumed.add(session)
        return resumed

    async def _read_unended(self, session: str) -> list[Message]:
        """Return the messages and replies of the last turn of a session, nothing when it ended."""
        messages = list[Message]()
        for line in await self._store.lines(session):
            if isinstance(line.body, Ended) or _begins_run(line.body):  # one that was killed has no end
                messages.clear()
            if isinstance(line.body, Said) and line.body.message.role != "tool":
                messages.append(line.body.message)
        return messages

    def leave(self, sessions: Collection[str]) -> None:
        """Leave the turns of these sessions as they are, for whoever comes next to go on with them."""
        self.left.update(sessions)
        for turn in filter(None, map(self._running, sessions)):
            turn.abandon()

    async def settle(self, seconds: float, besides: Collection[str] = ()) -> None:
        """Wait until what runs has ended, `besides` in these sessions, but no longer than this."""
        runs = [run for run in self._runs.values() if run.ended is None and run.session not in besides]
        if tasks := [run.task for run in runs if run.task is not None]:
            await asyncio.wait(tasks, timeout=seconds)

    async def close(self) -> None:
        """Forget what ran."""
        tasks = [run.task for run in self._runs.values() if run.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _begin(self, caller: Caller, placed: Caller, query: ChatQuery) -> "tuple[ChatRun, bool] | FinishedRun":
        limits = None if not query.timeoutMs else Limits(seconds=query.timeoutMs / 1000)
        request = TurnRequest(message=to_message(query), caller=placed, limits=limits, asked_model=query.model)
        return await self.begin(caller, request, query.idempotencyKey)

    def _judge_start(self, run: ChatRun, event: events.Event) -> events.Event:
        if isinstance(event, events.ToolStarted) and event.verdict is not None:
            return replace(event, verdict=self._judge(run.caller, event.call, event.verdict))
        return event

    def _say_to_run(self, session: str, query: ChatQuery) -> ChatRun | None:
        """Return the run that takes this message, once: a client that lost the answer sends it again. None without one.

        One that is about to end takes no message: it begins a run of its own then.
        """
        key, message = query.idempotencyKey, to_message(query)
        heard = next((run for run in self._by_session.get(session, ()) if key in run.heard), None)
        if heard is not None or (run := self._running_in(session)) is None or run.id == key:
            return heard
        try:
            run.turn.steer(message) if query.queue == "steer" else run.turn.follow_up(message)
        except ToolError as error:
            if error.code != "ended":
                raise
            return None
        run.heard.add(key)
        return run

    async def begin(self, caller: Caller, request: TurnRequest, key: str) -> "tuple[ChatRun, bool] | FinishedRun":
        """Return the run of this id, and whether it is a new one; or what became of it before a restart.

        Its session is that of the request's caller.
        """
        self._forget(person := self._count_as(caller))
        whose, session = owner_of_runs(caller), request.caller.session or ""
        mark, known = f"{whose}#{key}", (whose, key)
        if known not in self._runs and self._now() - self._began < _KEPT_SECONDS:
            past = await self._find_past(session, mark)
            if past is not None:
                return past
        if known in self._runs:
            return self._runs[known], False
        # of a thousand that come at once some wait, so that nobody else does
        await self._starting[person == _OWNER].acquire()
        try:
            self._check_room(person)
            return self._start(known, request, mark, person)
        except BaseException:
            self._starting[person == _OWNER].release()
            raise

    def _count_as(self, caller: Caller) -> str:
        """Return as whose runs those of a caller count: the owner's, a person's, of all hooks, of all nobodies."""
        if self._is_owner(caller):
            return _OWNER
        return HOOK_CHANNEL if caller.channel == HOOK_CHANNEL else self._person_of(caller)

    def _check_room(self, person: str) -> None:
        if person != _OWNER and sum(run.ended is None for run in self._list_of(person).values()) >= _MAX_RUNS:
            problem = f"{_MAX_RUNS} runs of whoever asks go on or wait already; wait until one has ended"
            raise ToolError(problem, code="unavailable")

    def _list_of(self, person: str) -> "dict[tuple[str, str], ChatRun]":
        return {known: run for known, run in self._runs.items() if run.person == person}

    def _start(self, known: tuple[str, str], request: TurnRequest, mark: str, person: str) -> "tuple[ChatRun, bool]":
        if known in self._runs:
            self._starting[person == _OWNER].release()
            return self._runs[known], False
        session = request.caller.session or ""
        waits = self._running_in(session) is not None
        kept = _ALONE if request.extra or request.task else _BOUND if request.bounds else ""
        try:
            turn = self._start_turn(replace(request, session=session, message=replace(request.message, by=mark + kept)))
        except CribError as error:
            raise ToolError(str(error), code=getattr(error, "code", "bad_arguments")) from error
        run = self._runs[known] = ChatRun(known[1], request.caller, person, self._now(), turn)
        self._by_session[session].append(run)
        loop, run.on_started = asyncio.get_running_loop(), self._starting[person == _OWNER].release
        if waits:  # for the turn before it, which may take its time
            run.tell_started()
        loop.call_later(_MAX_START_SECONDS, run.tell_started)
        run.task = loop.create_task(self._follow(run))
        run.task.add_done_callback(lambda _: self._note_end(run))
        return run, True

    def _note_end(self, run: ChatRun) -> None:
        run.ended = self._now()
        run.decide(is_kept=False)

    async def _find_past(self, session: str, mark: str) -> "FinishedRun | None":
        """Return what a session's log says of a message that came with this mark before this process began."""
        if await self._store.find(session) is None:
            return None
        lines = await self._store.lines(session)
        at = next((at for at, each in enumerate(lines) if _is_marked(each.body, mark)), None)
        if at is None:
            return None
        text = ""
        for body in (each.body for each in lines[at + 1 :]):
            if _begins_run(body):
                break
            if isinstance(body, Said) and body.message.role == "assistant":
                text = body.message.plain_text
            elif isinstance(body, Ended):
                end = events.TurnFinished(body.reason, text, body.sentence, usage=body.usage, cost=body.cost)
                return FinishedRun(end, tuple(await read_sources(self._store, session)))
        why = "the gateway stopped while this was being answered; the session tells how far it came"
        return FinishedRun(events.TurnFinished("error", sentence=why))

    def _forget(self, person: str) -> None:
        """Let go of runs that ended long ago, and of a person's oldest when they have too many."""
        before = self._now() - _KEPT_SECONDS
        ended = [known for known, run in self._list_of(person).items() if run.ended is not None]
        spare = set(ended[: max(len(ended) - (_OWNERS_RUNS if person == _OWNER else _KEPT_RUNS), 0)])
        for known, run in tuple(self._runs.items()):
            if run.ended is not None and (run.ended < before or known in spare):
                del self._runs[known]
                self._by_session[run.session].remove(run)
                if not self._by_session[run.session]:
                    del self._by_session[run.session]

    def _running_in(self, session: str) -> ChatRun | None:
        return next((run for run in self._by_session.get(session, ()) if run.ended is None), None)

    def _stop(self, session: str, id: str, caller: Caller) -> list[str]:
        running = (run for run in self._by_session.get(session, ()) if run.ended is None)
        found = [run for run in running if self._is_theirs(caller, run.caller)]
        chosen = [run for run in found if not id or run.id == id]
        for run in chosen:
            run.turn.stop()
        return [run.id for run in chosen]

    async def wait_for_end(self, run: ChatRun, seconds: float | None = None) -> events.TurnFinished | None:
        """Return how a run ended well; None when it did not, or not in time: `run.error()` says why."""
        if run.task is None:
            return None
        await asyncio.wait([run.task], timeout=seconds)
        return None if run.error() or not run.task.done() else run.task.result()

    async def _follow(self, run: ChatRun) -> events.TurnFinished:
        """Tell how a run goes, and return how it ended."""
        teller = RunEventPublisher(self.bus, run, self._now)
        try:
            async for event in run.turn.subscribe():
                if isinstance(event, events.TurnStarted):
                    run.decide(is_kept=True)
                run.note(event)
                teller.tell(event)
            end = await run.turn.end()
        except CribError as error:
            teller.end(events.TurnFinished("error", sentence=str(error)))
            raise
        teller.end(end)
        return end


def _begins_run(body: Body) -> bool:
    return isinstance(body, Said) and body.message.role == "user" and "#" in body.message.by


def _is_marked(body: Body, mark: str) -> bool:
    return (
        isinstance(body, Said)
        and body.message.role == "user"
        and body.message.by in (mark, mark + _BOUND, mark + _ALONE)
    )
