"""Subagents in the background: started, listed, steered, stopped, and reported to the session that they work for.

Nothing is kept here that the sessions do not keep: a run is a session whose recorded parent is the one that started it.
One whose log has no end was interrupted, and goes on when somebody speaks to it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any
from uuid import uuid4

from pydantic import Field

from toolcrib.adapter.fence import fence, new_token
from toolcrib.config.settings import SettingsSource
from toolcrib.define.agent import is_called
from toolcrib.define.caller import Caller
from toolcrib.define.display import escape
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.event import TurnFinished
from toolcrib.define.log import Line, Noted, SessionHead, SessionStore
from toolcrib.define.message import Message
from toolcrib.define.model import Effort
from toolcrib.define.names import suggest
from toolcrib.define.ports import rpc, work_of
from toolcrib.define.result import Text
from toolcrib.define.session import agent_from_key, is_subagent, kind_from_key, to_agent
from toolcrib.define.taint import source_after
from toolcrib.define.turn import TurnHandle
from toolcrib.policy.resolve import agent_of, is_owner, max_subagents
from toolcrib.services.feature import Feature, TurnCore

from . import runs

log = logging.getLogger("toolcrib")

_ENDED_RUNS = 256  # that are remembered besides those that go on
_LISTED_RUNS = 200
_TASK_CHARS, _MESSAGE_CHARS, _OUTCOME_CHARS = 50_000, 4_000, 8_000
_EFFORTS: Mapping[str, Effort] = {
    "": "",
    "off": "off",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
}


def mount(core: TurnCore) -> Feature:
    """Mount subagents in the background: they are turns, so they stand behind what runs turns."""
    service = Subagents(core.stores.sessions, core.settings, core.host, core.slots)
    service.is_theirs = core.is_theirs
    return Feature(services=(service,), close=service.close)


class Subagents:
    """The background subagents of one crib. Every caller sees and touches those that they started in their session."""

    def __init__(
        self,
        store: SessionStore,
        settings: SettingsSource,
        host: runs.SubagentHost,
        slots: runs.SubagentSlots,
        *,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._settings, self._host, self._slots, self._now = store, settings, host, slots, now
        self._runs: dict[str, runs.SubagentRun] = {}
        self._watching: set[asyncio.Task[None]] = set()
        self._resuming = asyncio.Lock()
        self._is_closing = False
        self.is_theirs: Callable[[Caller, Caller], bool] = lambda caller, author: caller == author

    @rpc(
        "subagents.spawn",
        clients="write",
        as_tool=work_of("sessions_spawn", {"agent": "agentId", "seconds": "runTimeoutSeconds"}),
        starts_turn=True,
    )
    async def spawn(  # noqa: PLR0913  the parameters of a method are its interface
        self,
        caller: Caller,
        task: Annotated[str, Field(min_length=1, max_length=_TASK_CHARS, description="what is to be done")],
        label: Annotated[str, Field(max_length=runs.LABEL_CHARS, description="a short name for it")] = "",
        agent: Annotated[str, "who does it; the caller's own agent when empty"] = "",
        model: Annotated[str, "a model that the configuration names; only the owner may choose"] = "",
        thinking: Annotated[str, "how hard to think: off, low, medium or high"] = "",
        seconds: Annotated[float, Field(ge=0, le=604_800, description="how long it may take; 0 is the usual")] = 0,
        cleanup: runs.Cleanup = "keep",
    ) -> dict[str, Any]:
        """Start a subagent in a session of its own and return at once; a report of its outcome follows."""
        if not task.strip():
            raise ToolError("the task is blank; say what is to be done", code="bad_arguments")
        target = self._choose_target(caller, agent)
        request = runs.SpawnRequest(
            key=f"agent:{target}:subagent:{uuid4()}",
            agent=target,
            text=task,
            label=label.strip(),
            model=self._host.choose_model(caller, model),
            effort=parse_effort(thinking),
            seconds=seconds,
        )
        run = await self._start(caller, request, cleanup)
        return {
            "status": "accepted",
            "childSessionKey": run.key,
            "runId": runs.run_id(run.key),
            "agentId": target,
            "label": run.label,
        }

    @rpc("subagents.list", clients="read", as_tool=work_of("subagents", {"minutes": "recentMinutes"}, action="list"))
    async def list_runs(
        self, caller: Caller, minutes: Annotated[int, Field(ge=1, le=1440, description="how far back to look")] = 30
    ) -> list[dict[str, Any]]:
        """List the caller's subagents: those that run, and those that ended or were interrupted lately."""
        own, since = self._key(caller), self._now() - minutes * 60
        going = {run.key: run for run in self._runs_of(caller)}
        shown = [run for run in going.values() if run.end is None or (run.ended or 0) >= since]
        rows = [runs.row_of(run, await self._store.lines(run.key) if run.end else (), self._now()) for run in shown]
        for head in await self._heads(own):
            if head.key in self._runs or head.changed_at < since:
                continue
            lines = await self._store.lines(head.key)
            if self._is_known_to(caller, lines):
                rows.append(runs.row_of_log(head, lines))
        rows.sort(key=lambda row: (row["state"] != "running", -row["startedAt"]))
        return rows[:_LISTED_RUNS]

    @rpc("subagents.steer", clients="write", as_tool=work_of("subagents", action="steer"), starts_turn=True)
    async def steer(
        self,
        caller: Caller,
        target: Annotated[str, "its run id, session key or label"],
        message: Annotated[str, Field(min_length=1, max_length=_MESSAGE_CHARS, description="what to tell it")],
    ) -> dict[str, Any]:
        """Tell a subagent something; one that has ended or was interrupted goes on with it in its session."""
        async with self._resuming:  # of two who speak to one that has ended, the second speaks to one that runs
            key, label = await self._find(caller, target)
            running, ids = self._runs.get(key), {"childSessionKey": key, "runId": runs.run_id(key)}
            if running is not None and running.turn is not None:
                running.turn.steer(self._host.message(caller, message))
                return {"status": "steered", **ids}
            if (running is not None and running.cleanup == "delete") or await self._store.find(key) is None:
                raise ToolError("its session was deleted; start another subagent", code="not_found")
            # what it was started under may not hold any more
            agent = self._choose_target(caller, agent_from_key(key))
            await self._start(caller, runs.SpawnRequest(key=key, agent=agent, text=message, label=label), "keep")
            return {"status": "resumed", **ids}

    @rpc("subagents.stop", clients="write", as_tool=work_of("subagents", action="stop"))
    async def stop(
        self, caller: Caller, target: Annotated[str, "its run id, session key or label; all stops every one"]
    ) -> dict[str, Any]:
        """Stop a running subagent and what it runs, or all of the caller's."""
        running = [run for run in self._runs_of(caller) if run.end is None]
        if target.strip().lower() not in ("all", "*"):
            key, _ = await self._find(caller, target)
            running = [run for run in running if run.key == key]
            if not running:
                return {"status": "ended", "stopped": [], "childSessionKey": key}
        for run in running:
            run.is_stopped = True
            if run.turn is not None:
                run.turn.stop()
        for run in running:
            await run.done.wait()
        stopped = [run.key for run in running if run.is_stopped]
        return {"status": "stopped" if stopped or not running else "ended", "stopped": stopped}

    @rpc("agents.list", clients="read", why="own")
    async def agents(self, caller: Caller) -> dict[str, Any]:
        """Tell which agents the caller may start: itself first, then those that its lists and its tools allow."""
        requester = agent_of(caller)
        allowed, tools = self._may_start(requester), self._host.agent_tools(caller)
        rest = {each for each in (self._host.agents if "*" in allowed else allowed) if not self._host.is_tool(each)}
        rows = []
        for id in dict.fromkeys((requester, *sorted({*rest, *tools} - {requester}))):
            name, what = self._host.agents.get(id, runs.AgentListing()).name, tools.get(id, "")
            about = {"name": name, "description": what}
            given = {key: value for key, value in about.items() if value}
            rows.append({"id": id, **given, "configured": id in self._host.agents})
        return {"requester": requester, "allowAny": "*" in allowed, "agents": rows}

    async def idle(self) -> None:
        """Wait until nothing runs in the background, and every outcome was reported."""
        while self._watching:
            await asyncio.wait(self._watching)

    async def close(self) -> None:
        """Announce nothing more. What still runs is stopped with all other turns, and looks interrupted later."""
        self._is_closing = True
        for task in tuple(self._watching):
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)

    async def _start(self, caller: Caller, request: runs.SpawnRequest, cleanup: runs.Cleanup) -> runs.SubagentRun:
        root = root_of(caller)
        self._slots.take(root, max_subagents(self._settings.policy, caller))
        try:
            await self._slots.stagger()
            turn = await self._host.start(caller, request)
        except BaseException as error:
            self._slots.release(root)
            if isinstance(error, CribError) and not isinstance(error, ToolError):
                raise ToolError(str(error), code="unavailable") from error
            raise
        details = (request.label, request.text, turn, self._now(), cleanup)
        run = runs.SubagentRun(request.key, self._key(caller), caller, *details)
        self._runs.pop(request.key, None)
        self._runs[request.key] = run
        ended = [key for key, run in self._runs.items() if run.end is not None]
        for key in ended[: max(0, len(ended) - _ENDED_RUNS)]:
            del self._runs[key]
        watching = asyncio.ensure_future(self._watch(run, turn, root))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        return run

    async def _watch(self, run: runs.SubagentRun, turn: TurnHandle, root: str) -> None:
        """Wait for the end of a run and report it."""
        try:
            run.end = end = await self._end_of(run.key, turn, root)
            run.ended, run.turn = self._now(), None
            # one that was done before the stop came was not stopped: its outcome is reported, and nobody waits for that
            run.is_stopped = run.is_stopped and end.reason == "stopped"
            if not run.is_stopped:
                run.done.set()
            if not self._is_closing:
                await self._conclude(run, end)
        except Exception:
            log.exception("the outcome of the subagent %s could not be reported", run.key)
        finally:
            run.done.set()

    async def _end_of(self, key: str, turn: TurnHandle, root: str) -> TurnFinished:
        try:
            return await turn.end()
        except Exception as error:
            log.exception("the subagent %s failed", key)
            unexpected = "it failed unexpectedly; the operator's log says how"
            return TurnFinished("error", sentence=str(error) if isinstance(error, CribError) else unexpected)
        finally:
            self._slots.release(root)

    async def _conclude(self, run: runs.SubagentRun, end: TurnFinished) -> None:
        if run.is_stopped:
            await self._host.add(run.key, Noted(runs.STOPPED, True))
        else:
            report = _report(run, end, await self._store.lines(run.key), self._now())
            await self._host.tell(run.parent, report)
        if run.cleanup == "delete":
            await self._store.delete(run.key)

    def _key(self, caller: Caller) -> str:
        return caller.session or f"agent:{agent_of(caller)}:main"

    def _choose_target(self, caller: Caller, agent: str) -> str:
        settings = self._settings.policy.agents.get(agent_of(caller))
        is_enabled = self._settings.policy.tools.subagents.enabled and (
            not settings or settings.tools.subagents.enabled
        )
        if caller.parents or not is_enabled:
            why = "a subagent starts no others" if caller.parents else "tools.subagents.enabled is false"
            raise ToolError(f"no subagent can be started here: {why}", code="denied")
        own = agent_of(caller)
        target = to_agent(agent) if agent.strip() else own
        if agent.strip() and target == to_agent("") != agent.strip().lower():  # it has no letter of a name in it
            raise ToolError(f"there is no agent {escape(agent[:64])!r}; see agents_list", code="not_found")
        if target == own or target in self._host.agent_tools(caller):
            return target
        allowed = self._may_start(own)
        # one that is a tool is started by whoever has that tool: no list of agents lifts what policy denies
        if ("*" in allowed or target in allowed) and not self._host.is_tool(target):
            if target not in self._host.agents:
                known = (*self._host.agents, *self._host.agent_tools(caller))
                hint = suggest(target, known, "agents_list tells which there are")
                raise ToolError(f"there is no agent {escape(agent[:64])!r}{hint}", code="not_found")
            return target
        lists = f"agents.{own}.subagents.allowAgents lists whom it may"
        how = f"the tool {target} is not on its belt" if self._host.is_tool(target) else lists
        raise ToolError(f"{own} may not start {escape(agent[:64])!r}; {how}", code="denied")

    def _may_start(self, own: str) -> tuple[str, ...]:
        listing = self._host.agents.get(own, runs.AgentListing())
        return tuple(each if each == "*" else to_agent(each) for each in listing.may_start)

    async def _heads(self, parent: str) -> list[SessionHead]:
        """Return the sessions that this one started, as far as they are among the latest."""
        heads = await self._store.list(most=1_000)
        # one that was waited for is not in the background; whoever spoke in the session of another agent stands
        # behind that session
        behind = (head for head in heads if is_subagent(head.key) and not is_called(head.key))
        return [head for head in behind if parent in head.parents[-2:]]

    def _runs_of(self, caller: Caller) -> list[runs.SubagentRun]:
        """Return the runs of this process that are the caller's."""
        own = self._key(caller)
        return [run for run in self._runs.values() if run.parent == own and self.is_theirs(caller, run.author)]

    def _is_known_to(self, caller: Caller, lines: Sequence[Line]) -> bool:
        """Tell whether a run of an earlier process is the caller's; what nobody signed is shared in no group."""
        author = runs.read_author(lines)
        if author is None:
            return kind_from_key(self._key(caller)) != "group" or is_owner(self._settings.policy, caller)
        return self.is_theirs(caller, author)

    async def _find(self, caller: Caller, target: str) -> tuple[str, str]:
        """Return the key and the label of the run that is meant, among the caller's own."""
        own, wanted = self._key(caller), target.strip()
        known = {run.key: run.label for run in self._runs_of(caller)}
        for head in await self._heads(own):
            if head.key not in self._runs and self._is_known_to(caller, await self._store.lines(head.key)):
                known[head.key] = head.title
        for key, label in reversed(known.items()):
            if wanted and wanted in (key, runs.run_id(key), label):
                return key, label
        hint = "subagents list shows them" if known else "this session has started none"
        raise ToolError(f"there is no subagent {escape(wanted[:100])!r} of this session; {hint}", code="not_found")


def root_of(caller: Caller) -> str:
    """Return what all callers of one tree have in common: its outermost session, or agent."""
    return caller.parents[0] if caller.parents else caller.session or agent_of(caller)


def _report(run: runs.SubagentRun, end: TurnFinished, lines: Sequence[Line], now: float) -> Message:
    """Return the report on a run for the session that it worked for: never as an order."""
    name = f" {run.label!r}" if run.label else ""
    how = "is done" if end.reason == "done" else f"ended without finishing: {end.sentence or end.reason}"
    seconds = max(0.0, (run.ended or 0.0) - run.began)
    cost = "" if end.cost is None else f", ${end.cost:.4f}"
    tokens = end.usage.input + end.usage.output
    head = (
        f"The subagent{name} that you started ({run.key}) {how}. It took {seconds:.0f} s, "
        f"{end.steps} {'reply' if end.steps == 1 else 'replies'} and {tokens:,} tokens{cost}. "
    )
    source, outside = f"subagent:{run.key}", runs.outside_source(lines)
    parts: tuple[Text, ...] = (Text(f"{head}It left no text."),)
    if end.text.strip():
        words = fence(end.text[:_OUTCOME_CHARS], source, new_token())
        what = "Its last words" if end.reason == "done" else "What it had until then"
        parts = (Text(f"{head}{what}:\n"), Text(words, source_after(source, [outside])))
    return Message(role="user", content=parts, at=now)


def parse_effort(word: str) -> Effort:
    """Return how hard to think; raise ToolError for a word that says nothing of that."""
    effort = _EFFORTS.get(word.strip().lower())
    if effort is None:
        raise ToolError(f"thinking is off, low, medium or high, not {escape(word[:40])!r}", code="bad_arguments")
    return effort
