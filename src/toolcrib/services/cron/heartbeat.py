"""The heartbeat: every so often an agent looks whether there is something to say, and is silent when there is not.

A beat is a job that the configuration makes, so it comes once, however many processes there are and however often they
start. It is answered in a copy of the agent's main session, which is deleted behind it: of a beat that has nothing to
say the session keeps nothing, and of another one what it says.
"""

import asyncio
from typing import Any

from toolcrib.config.settings import Config, HeartbeatSettings
from toolcrib.define.caller import OWNER, Caller
from toolcrib.define.gateway import Bus
from toolcrib.define.job import DeliveredPart, Job, JobRun, JobSpec, read_job
from toolcrib.define.log import Said, SessionHead
from toolcrib.define.message import Message
from toolcrib.define.ports import rpc
from toolcrib.define.result import Text
from toolcrib.define.session import SessionKey
from toolcrib.define.taint import source_after
from toolcrib.define.turn import TurnRequest
from toolcrib.define.verdict import Layer, Rule
from toolcrib.lazy import regex, replace
from toolcrib.policy.resolve import agent_of
from toolcrib.services.chat_events import tell_answer
from toolcrib.services.feature import TurnCore
from toolcrib.services.subagents.runs import outside_source

from . import slots
from .clock import JobClock
from .deliver import Delivery
from .slots import RunEnd
from .work import caller_of, session_of

_PREFIX = "heartbeat-"  # of the ids of beats; no job that anybody makes is called so
_PROMPT = (
    "[Heartbeat] Nobody has written; look whether something needs attention: what is told above and not answered yet, "
    "and what HEARTBEAT.md in the workspace asks for, where there is one. Begin nothing old again. What you answer is "
    "told to the user. If there is nothing to say, answer exactly HEARTBEAT_OK."
)
_SILENT = regex(r"[\W_]*(?:HEARTBEAT_OK[\W_]*)?")
_PREVIEW_CHARS = 200
_BOUNDS = (Layer("job", "heartbeat", Rule()),)  # it takes nothing away, but starts nothing that outlives the copy


def is_heartbeat(job: Job) -> bool:
    """Tell whether a job is the heartbeat of an agent."""
    return job.id.startswith(_PREFIX)


def is_silent(text: str) -> bool:
    """Tell whether an answer says that there is nothing to say."""
    return _SILENT.fullmatch(text) is not None


class Heartbeats:
    """The heartbeats of one crib's agents."""

    def __init__(self, core: TurnCore, clock: JobClock, delivery: Delivery) -> None:
        self._core, self._clock, self._delivery, self._bus = core, clock, delivery, core.find(Bus)
        self._store, self._sessions = core.stores.jobs, core.stores.sessions
        self._seen: Config | None = None

    @rpc("last-heartbeat", clients="read", why="own")
    async def last(self, caller: Caller) -> dict[str, Any] | None:
        """Return the outcome of the latest heartbeat; for the owner only."""
        jobs = await self._list() if self._core.is_owner(caller) else []
        runs = [run for job in jobs for run in await self._store.runs(job.id, most=2) if run.ended_ms is not None]
        if not runs:
            return None
        report = describe_heartbeat(max(runs, key=lambda run: run.ended_ms or 0))
        return {**report, "source": "heartbeat"} if "preview" in report else report

    @rpc("set-heartbeats", clients="admin")
    async def switch(self, enabled: bool) -> dict[str, Any]:
        """Turn the heartbeats that are configured on or off, for every process and until this is asked again."""
        await self.follow_settings()
        now = self._clock.now_ms()

        def step(job: Job | None) -> tuple[Job | None, JobRun | None]:
            return job and _set(job, job.spec.model_copy(update={"enabled": enabled}), now), None

        for job in await self._list():
            await self._store.change(job.id, step)
        self._clock.poke()
        return {"ok": True, "enabled": enabled}

    async def follow_settings(self) -> None:
        """Have the beats that are configured now, and no others."""
        config = self._core.config
        if config is self._seen:
            return
        known = {job.id: job for job in await self._list()}
        enabled = all(job.spec.enabled for job in known.values())
        for agent in config.agent_ids():
            if (own := config.agent(agent)) and own.heartbeat.seconds:
                known.pop(f"{_PREFIX}{agent}", None)
                await self._keep(agent, own.heartbeat.seconds * 1000, enabled=enabled)
        for id in known:
            await self._store.change(id, lambda _: (None, None))
        self._seen = config

    async def _keep(self, agent: str, every_ms: int, *, enabled: bool) -> None:
        when = {"schedule": {"kind": "every", "everyMs": every_ms}, "enabled": enabled, "catchUp": False}
        what = {"payload": {"kind": "agentTurn", "message": "look"}, "sessionTarget": "isolated", "wakeMode": "now"}
        spec, now, id = read_job({"name": "heartbeat", **when, **what}), self._clock.now_ms(), f"{_PREFIX}{agent}"
        begun, home = slots.begin_state(spec.schedule, now), str(SessionKey(agent, "main"))
        fresh = Job(
            id=id, spec=spec, author=replace(OWNER, agent=agent), had=(), home=home, created_ms=now, updated_ms=now,
            anchor_ms=now, state=begun,
        )  # fmt: skip

        def step(job: Job | None) -> tuple[Job | None, JobRun | None]:
            return _set(job, spec, now) if job else slots.plan(fresh, now), None

        await self._store.change(id, step)

    async def _list(self) -> list[Job]:
        return [job for job in await self._store.list_all() if is_heartbeat(job)]

    async def look(self, job: Job) -> None:
        """Run the heartbeat of a job's session now, where it has one."""
        for beat in await self._list():
            if beat.home == job.home:
                await self._clock.run_now(beat, is_forced=True)

    # one beat

    async def perform(self, job: Job, run: JobRun) -> RunEnd:
        """Have the agent look, and add its answer to its main session."""
        agent = self._core.config.agent(agent_of(job.author))
        if agent is None or not agent.heartbeat.seconds:
            return RunEnd("skipped", error="no heartbeat is configured any more")
        if self._core.running(job.home) is not None:
            return RunEnd("skipped", error="the main session is busy; the next heartbeat looks again")
        key = session_of(job, run.id)
        for left in await self._store.runs(job.id, most=3):  # by a kill
            await self._sessions.delete(session_of(job, left.id))
        try:
            return await self._answer(job, run, key, agent.heartbeat)
        finally:
            await self._sessions.delete(key)

    async def _answer(self, job: Job, run: JobRun, key: str, own: HeartbeatSettings) -> RunEnd:
        at = run.began_ms / 1000
        before = await self._sessions.lines(job.home) if await self._sessions.find(job.home) else ()
        await self._sessions.add(SessionHead(key=key, made_at=at, changed_at=at, title="heartbeat"), before)
        message = Message(role="user", content=(Text(_PROMPT),), at=at)
        turn = self._core.start_turn(TurnRequest(message=message, caller=caller_of(job, run.id), bounds=_BOUNDS))
        try:
            end = await turn.end()
        except asyncio.CancelledError:
            turn.stop()
            await turn.end()
            raise
        if end.reason != "done":
            return RunEnd("error", error=end.sentence or end.reason)
        if is_silent(end.text):
            return RunEnd("ok")
        source = outside_source((await self._sessions.lines(key))[len(before) :])
        words = Text(end.text, source_after("heartbeat", [source]))
        at = self._clock.now_ms() / 1000
        await self._core.host.add(job.home, Said(Message(role="assistant", content=(words,), at=at)))
        tell_answer(self._bus, run.id, job.home, end.text, at)
        wanted = DeliveredPart(deliver=own.deliver, channel=own.channel, to=own.to)
        why = await self._delivery.say(replace(job.author, session=job.home), wanted, (), words)
        return RunEnd("error", end.text, f"it was not delivered: {why}") if why else RunEnd("ok", end.text)


def describe_heartbeat(run: JobRun) -> dict[str, Any]:
    """Return the outcome of a heartbeat, as in the protocol."""
    ended = run.ended_ms or run.began_ms
    how = {"ok": "sent" if run.summary else "ok-token", "skipped": "skipped"}.get(run.status, "failed")
    details = {"preview": run.summary[:_PREVIEW_CHARS], "reason": run.error}
    times = {"ts": ended, "status": how, "durationMs": max(ended - run.began_ms, 0)}
    return {**times, **{name: words for name, words in details.items() if words}}


def _set(job: Job, spec: JobSpec, now: int) -> Job:
    """Return a beat as it is to be from now on; its time begins anew where it is another."""
    if spec == job.spec:
        return job
    begun = slots.begin_state(spec.schedule, now)
    state = replace(job.state, spent=begun.spent, pause_ms=0, failures=0)
    return slots.plan(replace(job, spec=spec, updated_ms=now, anchor_ms=now, state=state), now)
