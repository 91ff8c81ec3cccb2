"""Subagents in the background: started, listed, steered, stopped; their outcome is told to the session they work for.

Nothing is kept here that the sessions do not keep: a run is a session whose recorded parent is the one that started it.
One whose log has no end was interrupted, and goes on when somebody speaks to it.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any
from uuid import uuid4

from pydantic import Field

from toolcrib.define.caller import Caller
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.event import TurnFinished
from toolcrib.define.log import Body, Noted, SessionHead, SessionStore
from toolcrib.define.mandate import is_called
from toolcrib.define.message import Message
from toolcrib.define.model import Effort
from toolcrib.define.names import nearest
from toolcrib.define.rpc import rpc
from toolcrib.define.session import agent_from_key, is_subagent, to_agent
from toolcrib.define.shown import escaped

from ._places import Places
from ._runs import LONGEST_LABEL, STOPPED, Cleanup, Errand, Going, Run, Spawned, row_of, row_of_log, run_id

__all__ = ["STOPPED", "Errand", "Places", "Run", "Spawned", "Subagents", "Ways"]

log = logging.getLogger("toolcrib")

_MOST_KEPT = 256  # runs that are remembered besides those that go on
_MOST_LISTED = 200
_LONGEST_TASK, _LONGEST_MESSAGE = 50_000, 4_000
_EFFORTS: Mapping[str, Effort] = {
    "": "",
    "off": "off",
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ways:
    """What the service needs of the rest of the crib.

    `start` starts a turn for a child of the caller, `words` makes a message to one of what the caller says, marked with
    where that may come from. `announce` tells a session how a run went, `note` adds a line to a session.
    `agents` are the configured ones with their names, `allowed` says whom an agent may start (`*` is anybody),
    `tools` are the agents that the caller may call as tools, with what they are for: whoever it may wait for, it may
    also start in the background. `is_tool` tells whether there is such an agent, whoever may call it. `model` is the
    configured model that a word stands for, `most` how many subagents may run in the caller's tree.
    """

    start: Callable[[Caller, Errand], Awaitable[Run]]
    words: Callable[[Caller, str], Message]
    announce: Callable[[str, Spawned], Awaitable[None]]
    note: Callable[[str, Body], Awaitable[None]]
    agents: Mapping[str, str]
    allowed: Callable[[str], Sequence[str]]
    tools: Callable[[Caller], Mapping[str, str]]
    is_tool: Callable[[str], bool]
    model: Callable[[str], str | None]
    most: Callable[[Caller], int]
    root: Callable[[Caller], str]
    is_owner: Callable[[Caller], bool]
    is_enabled: Callable[[Caller], bool]


class Subagents:
    """The background subagents of one crib. Every caller sees and touches those that its own session started."""

    def __init__(
        self, store: SessionStore, ways: Ways, places: Places, *, now: Callable[[], float] = time.time
    ) -> None:
        self._store, self._ways, self._places, self._now = store, ways, places, now
        self._runs: dict[str, Going] = {}
        self._watching: set[asyncio.Task[None]] = set()
        self._resuming = asyncio.Lock()
        self._is_closing = False

    @rpc("subagents.spawn", scope="write")
    async def spawn(  # noqa: PLR0913  the parameters of a method are its interface
        self,
        caller: Caller,
        task: Annotated[str, Field(min_length=1, max_length=_LONGEST_TASK, description="what is to be done")],
        label: Annotated[str, Field(max_length=LONGEST_LABEL, description="a short name for it")] = "",
        agent: Annotated[str, "who does it; the caller's own agent when empty"] = "",
        model: Annotated[str, "a model that the configuration names; only the owner may choose"] = "",
        thinking: Annotated[str, "how hard to think: off, low, medium or high"] = "",
        seconds: Annotated[float, Field(ge=0, le=604_800, description="how long it may take; 0 is the usual")] = 0,
        cleanup: Cleanup = "keep",
    ) -> dict[str, Any]:
        """Start a subagent in a session of its own and return at once; its outcome is told to the caller's session."""
        if not task.strip():
            raise ToolError("the task is blank; say what is to be done", code="bad_arguments")
        target = self._target(caller, agent)
        errand = Errand(
            key=f"agent:{target}:subagent:{uuid4()}",
            agent=target,
            text=task,
            label=label.strip(),
            model=self._model(caller, model),
            effort=_effort(thinking),
            seconds=seconds,
        )
        going = await self._start(caller, errand, cleanup)
        return {
            "status": "accepted",
            "childSessionKey": going.key,
            "runId": run_id(going.key),
            "agentId": target,
            "label": going.label,
        }

    @rpc("subagents.list", scope="read")
    async def listed(
        self,
        caller: Caller,
        minutes: Annotated[int, Field(ge=1, le=1440, description="how far back to look")] = 30,
    ) -> list[dict[str, Any]]:
        """List the caller's subagents: those that run, and those that ended or were interrupted lately."""
        own, since = self._key(caller), self._now() - minutes * 60
        going = {run.key: run for run in self._runs.values() if run.parent == own}
        shown = [run for run in going.values() if run.end is None or (run.ended or 0) >= since]
        rows = [row_of(run, await self._store.lines(run.key) if run.end else (), self._now()) for run in shown]
        for head in await self._heads(own):
            if head.key not in going and head.changed_at >= since:
                rows.append(row_of_log(head, await self._store.lines(head.key)))
        rows.sort(key=lambda row: (row["state"] != "running", -row["startedAt"]))
        return rows[:_MOST_LISTED]

    @rpc("subagents.steer", scope="write")
    async def steer(
        self,
        caller: Caller,
        target: Annotated[str, "its run id, session key or label"],
        message: Annotated[str, Field(min_length=1, max_length=_LONGEST_MESSAGE, description="what to tell it")],
    ) -> dict[str, Any]:
        """Tell a subagent something; one that has ended or was interrupted goes on with it in its session."""
        async with self._resuming:  # of two who speak to one that has ended, the second speaks to one that runs
            key, label = await self._found(caller, target)
            running, told = self._runs.get(key), {"childSessionKey": key, "runId": run_id(key)}
            if running is not None and running.end is None:
                running.turn.steer(self._ways.words(caller, message))
                return {"status": "steered", **told}
            if (running is not None and running.cleanup == "delete") or await self._store.find(key) is None:
                raise ToolError("its session was deleted; start another subagent", code="not_found")
            # what it was started under may not hold any more
            errand = Errand(key=key, agent=self._target(caller, agent_from_key(key)), text=message, label=label)
            await self._start(caller, errand, "keep")
            return {"status": "resumed", **told}

    @rpc("subagents.stop", scope="write")
    async def stop(
        self, caller: Caller, target: Annotated[str, "its run id, session key or label; all stops every one"]
    ) -> dict[str, Any]:
        """Stop a running subagent and what it runs, or all of the caller's."""
        own = self._key(caller)
        running = [run for run in self._runs.values() if run.parent == own and run.end is None]
        if target.strip().lower() not in ("all", "*"):
            key, _ = await self._found(caller, target)
            running = [run for run in running if run.key == key]
            if not running:
                return {"status": "ended", "stopped": [], "childSessionKey": key}
        for run in running:
            run.is_stopped = True
            run.turn.stop()
        for run in running:
            await run.done.wait()
        stopped = [run.key for run in running if run.is_stopped]
        return {"status": "stopped" if stopped or not running else "ended", "stopped": stopped}

    @rpc("agents.list", scope="read")
    async def agents(self, caller: Caller) -> dict[str, Any]:
        """Tell which agents the caller may start: itself first, then those that its lists and its tools allow."""
        own = _agent(caller)
        allowed, tools = self._allowed(own), self._ways.tools(caller)
        rest = {each for each in (self._ways.agents if "*" in allowed else allowed) if not self._ways.is_tool(each)}
        rows = []
        for id in dict.fromkeys((own, *sorted({*rest, *tools} - {own}))):
            name, what = self._ways.agents.get(id, ""), tools.get(id, "")
            told = {"name": name, "description": what}
            given = {key: value for key, value in told.items() if value}
            rows.append({"id": id, **given, "configured": id in self._ways.agents})
        return {"requester": own, "allowAny": "*" in allowed, "agents": rows}

    async def idle(self) -> None:
        """Wait until nothing runs in the background, and all of it was told."""
        while self._watching:
            await asyncio.wait(self._watching)

    async def close(self) -> None:
        """Announce nothing more. What still runs is stopped with all other turns, and looks interrupted later."""
        self._is_closing = True
        for task in tuple(self._watching):
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)

    async def _start(self, caller: Caller, errand: Errand, cleanup: Cleanup) -> Going:
        root = self._ways.root(caller)
        self._places.take(root, self._ways.most(caller))
        try:
            await self._places.come_in()
            run = await self._ways.start(caller, errand)
        except BaseException as error:
            self._places.leave(root)
            if isinstance(error, CribError) and not isinstance(error, ToolError):
                raise ToolError(str(error), code="unavailable") from error
            raise
        going = Going(errand.key, self._key(caller), errand.label, errand.text, run, self._now(), cleanup)
        self._runs.pop(errand.key, None)
        self._runs[errand.key] = going
        self._forget()
        watching = asyncio.ensure_future(self._watch(going, root))
        self._watching.add(watching)
        watching.add_done_callback(self._watching.discard)
        return going

    async def _watch(self, going: Going, root: str) -> None:
        """Wait for the end of a run and tell it to whom it may concern."""
        try:
            going.end = end = await self._end_of(going, root)
            going.ended = self._now()
            # one that was done before the word came was not stopped: what came of it is told, and nobody waits for that
            going.is_stopped = going.is_stopped and end.reason == "stopped"
            if not going.is_stopped:
                going.done.set()
            if not self._is_closing:
                await self._concluded(going, end)
        except Exception:
            log.exception("the outcome of the subagent %s could not be told", going.key)
        finally:
            going.done.set()

    async def _end_of(self, going: Going, root: str) -> TurnFinished:
        try:
            return await going.turn.end()
        except Exception as error:
            words = (
                str(error) if isinstance(error, CribError) else "it failed unexpectedly; the operator's log says how"
            )
            log.exception("the subagent %s failed", going.key)
            return TurnFinished("error", sentence=words)
        finally:
            self._places.leave(root)

    async def _concluded(self, going: Going, end: TurnFinished) -> None:
        if going.is_stopped:
            await self._ways.note(going.key, Noted(STOPPED, True))
        else:
            seconds = max(0.0, (going.ended or 0.0) - going.began)
            await self._ways.announce(going.parent, Spawned(key=going.key, label=going.label, end=end, seconds=seconds))
        if going.cleanup == "delete":
            await self._store.delete(going.key)

    def _forget(self) -> None:
        ended = [key for key, run in self._runs.items() if run.end is not None]
        for key in ended[: max(0, len(ended) - _MOST_KEPT)]:
            del self._runs[key]

    def _key(self, caller: Caller) -> str:
        return caller.session or f"agent:{_agent(caller)}:main"

    def _target(self, caller: Caller, agent: str) -> str:
        if caller.parents or not self._ways.is_enabled(caller):
            why = "a subagent starts no others" if caller.parents else "tools.subagents.enabled is false"
            raise ToolError(f"no subagent can be started here: {why}", code="denied")
        own = _agent(caller)
        target = to_agent(agent) if agent.strip() else own
        if target == own or target in self._ways.tools(caller):
            return target
        allowed = self._allowed(own)
        # one that is a tool is started by whoever has that tool: no list of agents lifts what policy denies
        if ("*" in allowed or target in allowed) and not self._ways.is_tool(target):
            if target not in self._ways.agents:
                close = nearest(target, (*self._ways.agents, *self._ways.tools(caller)))
                hint = f"did you mean {close[0]!r}?" if close else "agents_list tells which there are"
                raise ToolError(f"there is no agent {escaped(agent[:64])!r}; {hint}", code="not_found")
            return target
        lists = f"agents.{own}.subagents.allowAgents lists whom it may"
        how = f"the tool {target} is not on its belt" if self._ways.is_tool(target) else lists
        raise ToolError(f"{own} may not start {escaped(agent[:64])!r}; {how}", code="denied")

    def _allowed(self, own: str) -> tuple[str, ...]:
        return tuple(each if each == "*" else to_agent(each) for each in self._ways.allowed(own))

    def _model(self, caller: Caller, model: str) -> str:
        if not model.strip():
            return ""
        # rules may give models different tools, so whoever could choose one could choose its tools (G8)
        if not self._ways.is_owner(caller):
            raise ToolError("only the owner may choose the model of a subagent; leave it out", code="denied")
        chosen = self._ways.model(model)
        if chosen is None:
            raise ToolError(
                f"the configuration names no model {escaped(model[:100])!r}; leave it out", code="not_found"
            )
        return chosen

    async def _heads(self, own: str) -> list[SessionHead]:
        """Return the sessions that this one started, as far as they are among the latest."""
        heads = await self._store.list(most=1_000)
        # whoever spoke in the session of another agent stands behind that session
        return [head for head in heads if _is_run(head.key) and own in head.parents[-2:]]

    async def _found(self, caller: Caller, target: str) -> tuple[str, str]:
        """Return the key and the label of the run that is meant, among the caller's own."""
        own, wanted = self._key(caller), target.strip()
        known = {run.key: run.label for run in self._runs.values() if run.parent == own}
        for head in await self._heads(own):
            known.setdefault(head.key, head.title)
        for key, label in reversed(known.items()):
            if wanted and wanted in (key, run_id(key), label):
                return key, label
        hint = "subagents list shows them" if known else "this session has started none"
        raise ToolError(f"there is no subagent {escaped(wanted[:100])!r} of this session; {hint}", code="not_found")


def _is_run(key: str) -> bool:
    """Tell whether a session is that of a run in the background; of one that was waited for, its parent has told."""
    return is_subagent(key) and not is_called(key)


def _agent(caller: Caller) -> str:
    return to_agent(caller.agent) if caller.agent else agent_from_key(caller.session or "")


def _effort(word: str) -> Effort:
    effort = _EFFORTS.get(word.strip().lower())
    if effort is None:
        raise ToolError(f"thinking is off, low, medium or high, not {escaped(word[:40])!r}", code="bad_arguments")
    return effort
