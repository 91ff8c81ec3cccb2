"""Jobs: work that is done later, again and again, or now; each as whoever made it, and never with more than they had.

A job belongs to the caller who made it: they see it and change it, and so does the owner. It runs as them, bounded by
what they had then, by what they have today, and by what the job itself leaves of it.
"""

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict, replace
from secrets import token_hex
from typing import Annotated, Any, Literal

from pydantic import Field

from toolcrib.define.approval import name_of
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.gateway import Bus
from toolcrib.define.job import (
    DeliveredPart,
    EventPayload,
    Job,
    JobRun,
    JobSpec,
    JobStore,
    TurnPayload,
    WakeMode,
    complete_job,
    normalize_job,
    read_job,
)
from toolcrib.define.log import read_sources
from toolcrib.define.ports import Scope, ToolWork, rpc, work_of
from toolcrib.define.result import Text
from toolcrib.define.schedule import AtSchedule, CronSchedule, first_slot, with_anchor
from toolcrib.define.schema.annotations import JsonObject
from toolcrib.define.session import SessionKey
from toolcrib.define.taint import join_sources, sources_of
from toolcrib.define.turn import TurnRequest
from toolcrib.define.verdict import Layer
from toolcrib.policy.explain import caller_json, verdict_json
from toolcrib.policy.resolve import agent_of, later_caller, resolve
from toolcrib.services.approvals import Approvals
from toolcrib.services.chat import Chats
from toolcrib.services.chat_run import ChatRun, FinishedRun
from toolcrib.services.effective import EffectiveVerdicts
from toolcrib.services.feature import Feature, TurnCore
from toolcrib.services.subagents.service import parse_effort
from toolcrib.threads import in_thread

from . import slots
from .clock import ClockPorts, JobClock
from .deliver import Delivery
from .heartbeat import Heartbeats, describe_heartbeat, is_heartbeat
from .slots import RunEnd
from .work import JobRunner, bounds_of, caller_of, session_of, turn_session_of, work_in
from .written import JobQuery, find_local_zone, merge, no_job, pick_id

log = logging.getLogger("toolcrib")

_MAX_JOBS, _MAX_GUEST_JOBS = 1_000, 50  # of the owner or of all others, and of one of these
_MAX_RUNS = 10_000  # that are looked through
_MAX_UPCOMING = 2_000  # runs of all jobs that are foreseen at once
_PAST_MS = 60_000  # by which a time may be past when a job is made
_CONTENT = ("schedule", "payload", "tools", "agentId", "sessionTarget")  # what a job does, and when

JobId = Annotated[str, Field(max_length=64)]


def _to_add_call(params: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    return "cron", {"action": "add", "job": params.get("job") or params}


def mount(
    core: TurnCore,
    now: Callable[[], float] = time.time,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    works: Callable[[TurnCore], JobRunner] = work_in,
) -> Feature:
    """Mount the jobs. Their clock does not start with a crib: a gateway starts it, or whoever says `cron.start()`."""
    service = Cron(core, works(core), now, pause)
    return Feature(services=(service, service.beats), close=service.close)


class Cron:
    """The jobs of one crib."""

    def __init__(
        self, core: TurnCore, work: JobRunner, now: Callable[[], float], pause: Callable[[float], Awaitable[None]]
    ) -> None:
        self._core, self._bus, self._chats = core, core.find(Bus), core.find(Chats)
        self._delivery = Delivery(core)
        self._answering = set[asyncio.Task[None]]()
        self._store: JobStore = core.stores.jobs
        world = ClockPorts(
            perform=self._perform,
            tell=self._tell,
            tell_gone=lambda job: self._publish(job, {"action": "removed"}),
            forget=self._forget,
            most=self._most,
            prepare=lambda: self.beats.follow_settings(),
            is_left=lambda job, run: session_of(job, run.id) in self._chats.left,
            is_owners=lambda job: core.is_owner(job.author),
            waits=lambda job, run: core.find(Approvals).waits_in(turn_session_of(job, run.id)),
            now=now,
            pause=pause,
        )
        self.clock = JobClock(self._store, world)
        self.beats = Heartbeats(core, self.clock, self._delivery)
        self._work = replace(work, look=self.beats.look)
        self._left = list[tuple[Job, JobRun]]()

    async def close(self) -> None:
        """Look no more, and stop what runs."""
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)
        await self.clock.close()

    def start(self) -> None:
        """Run jobs from now on, and go on with the runs that were rebound."""
        for job, run in self._left:
            self.clock.begin(job, run)
        self._left.clear()
        self.clock.start()

    async def rebind(self, session: str) -> tuple[Layer, ...] | None:
        """Return what bounds the run of a job that a process left in a session; None where it is not to go on."""
        jobs = {job.id: job for job in await self._list()}
        for run in await self._store.runs("", most=_MAX_RUNS):
            job = jobs.get(run.job)
            if job is not None and session_of(job, run.id) == session:
                if await self._work.explain_refusal(job.author):
                    return None
                self._left.append((job, run))
                return bounds_of(job)
        return None

    # methods

    @rpc("cron.status", clients="read", why="own")
    async def status(self, caller: Caller) -> dict[str, Any]:
        """Say how many jobs the caller has, and when the clock looks next."""
        jobs = await self._visible(caller)
        times = [at for job in jobs if (at := self._next_of(job)) is not None] if self._core.config.cron.enabled else []
        return {
            "enabled": self._core.config.cron.enabled,
            **({"storePath": str(self._core.state or "")} if self._core.is_owner(caller) else {}),
            "jobs": len(jobs),
            "nextWakeAtMs": min(times, default=None),
        }

    @rpc("cron.list", clients="read", why="own")
    async def list_jobs(
        self,
        caller: Caller,
        includeDisabled: bool = False,  # noqa: N803  as the protocol spells its parameters
        upcoming: Annotated[int, Field(ge=0, le=200, description="next runs of each; fewer of many jobs")] = 0,
    ) -> dict[str, Any]:
        """List the caller's jobs, the next first."""
        jobs = [job for job in await self._visible(caller) if includeDisabled or job.spec.enabled]
        jobs.sort(key=lambda job: self._next_of(job) or 1 << 62)
        rows, now = [self.to_json(job) for job in jobs], self.clock.now_ms()
        share = min(upcoming, max(1, _MAX_UPCOMING // max(1, len(jobs))))

        def foresee() -> None:
            for job, row in zip(jobs, rows, strict=True):
                row["state"]["upcomingMs"] = slots.list_upcoming(job, now, share if job.spec.enabled else 0)

        if upcoming:
            await in_thread(foresee)  # a day's walk through a crontab takes its time
        found = join_sources([*(job.source for job in jobs), *("jobs" for row in rows if "author" in row)])
        return {"jobs": rows, **({"source": found} if found else {})}

    @rpc("cron.add", clients="admin", tools="write", as_tool=ToolWork(_to_add_call), starts_turn=True)
    async def add(self, caller: Caller, rights: Collection[Scope], query: JobQuery) -> dict[str, Any]:
        """Make a job. It runs as its author, with the rights that they have both now and when it runs."""
        written = normalize_job(query.to_json()) or {}
        spec = self._check(caller, rights, read_job(complete_job(written)))
        now = self.clock.now_ms()
        self._check_count(caller, await self._list())
        # what the owner leaves for later from a device of theirs is the owner's, also when the device is gone
        who = replace(caller, agent=spec.agent_id or caller.agent, door=caller.door if caller.channel else "")
        home = self._home_of(who)
        place = self._delivery.find_place(caller)
        self._delivery.check(replace(who, session=home or None), spec.payload, place)
        if spec.session_target == "main" and not home:
            raise ToolError("no main session to notify; set sessionTarget to isolated")
        job = Job(
            id=token_hex(6),
            spec=spec,
            author=who,
            had=self._tools_of(who),
            home=home,
            place=place,
            source=self._read_source(caller),
            created_ms=now,
            updated_ms=now,
            anchor_ms=now,
            state=slots.begin_state(spec.schedule, now),
        )
        made, _ = await self._store.change(job.id, lambda _: (slots.plan(job, now), None))
        return self._tell_changed(made or job, "added")

    @rpc(
        "cron.update",
        clients="admin",
        tools="write",
        as_tool=work_of("cron", {"id": "jobId"}, action="update"),
        starts_turn=True,
    )
    async def update(
        self,
        caller: Caller,
        rights: Collection[Scope],
        patch: JsonObject,
        id: JobId = "",
        jobId: JobId = "",  # noqa: N803
    ) -> dict[str, Any]:
        """Change a job; null takes a field away. A model leaves it no more than it has itself."""
        job = await self._find(caller, pick_id(id, jobId))
        change = normalize_job(patch, fills=False) or {}
        has = None if "admin" in rights else frozenset(self._tools_of(caller))
        now, source = self.clock.now_ms(), self._read_source(caller)

        def step(known: Job | None) -> tuple[Job | None, JobRun | None]:
            if known is None:
                raise no_job(job.id)
            spec = self._check(caller, rights, read_job(complete_job(merge(known.spec, change))), known)
            if spec.payload != known.spec.payload:
                self._delivery.check(replace(known.author, session=known.home or None), spec.payload, known.place)
            fresh = replace(known, spec=spec, updated_ms=now, source=join_sources([known.source, source]))
            if has is not None and any(key in change for key in _CONTENT):
                through = later_caller(replace(caller, made_through=known.author.made_through), "").made_through
                author = replace(known.author, made_through=through)
                fresh = replace(fresh, author=author, had=tuple(name for name in known.had if name in has))
            if spec.schedule != known.spec.schedule or (spec.enabled and not known.spec.enabled):
                anchor = known.anchor_ms if spec.schedule == known.spec.schedule else now
                begun = slots.begin_state(with_anchor(spec.schedule, anchor), now)
                state = replace(known.state, spent=begun.spent, retry_ms=None, pause_ms=0, failures=0)
                fresh = replace(fresh, anchor_ms=anchor, state=state)
            return slots.plan(fresh, now), None

        changed, _ = await self._store.change(job.id, step)
        return self._tell_changed(changed or job, "updated")

    @rpc("cron.remove", clients="admin", tools="write", as_tool=work_of("cron", {"id": "jobId"}, action="remove"))
    async def remove(
        self,
        caller: Caller,
        id: JobId = "",
        jobId: JobId = "",  # noqa: N803
    ) -> dict[str, Any]:
        """Delete a job and the record of its runs; a run that has begun goes on to its end."""
        wanted = pick_id(id, jobId)
        job = next((each for each in await self._visible(caller) if each.id == wanted), None)
        if job is None:
            return {"ok": True, "removed": False}
        await self._forget(await self._store.runs(job.id, most=_MAX_RUNS))
        await self._store.change(job.id, lambda _: (None, None))
        self._publish(job, {"action": "removed"})
        return {"ok": True, "removed": True}

    @rpc(
        "cron.run",
        clients="admin",
        tools="write",
        as_tool=work_of("cron", {"id": "jobId", "mode": ""}, action="run"),
        starts_turn=True,
    )
    async def run_now(
        self,
        caller: Caller,
        id: JobId = "",
        jobId: JobId = "",  # noqa: N803
        mode: Literal["due", "force"] = "due",
        wait: Annotated[bool, "until it has ended"] = False,
    ) -> dict[str, Any]:
        """Run a job now: where it is due, or whatever its schedule says when forced."""
        job = await self._find(caller, pick_id(id, jobId))
        begun = await self.clock.run_now(job, is_forced=mode == "force")
        if isinstance(begun, str):
            return {"ok": True, "ran": False, "reason": begun}
        if not wait:
            return {"ok": True, "ran": True}
        end = await asyncio.shield(begun)
        outcome = {"status": end.status, "summary": end.summary, "error": end.error}
        return {"ok": True, "ran": True} | {name: value for name, value in outcome.items() if value}

    @rpc("cron.runs", clients="read", why="own")
    async def runs(
        self,
        caller: Caller,
        id: JobId = "",
        jobId: JobId = "",  # noqa: N803
        limit: Annotated[int, Field(ge=1, le=5_000)] = 200,
    ) -> dict[str, Any]:
        """List the latest runs of a job, or of all that the caller has, the latest first."""
        wanted = pick_id(id, jobId)
        known = {(await self._find(caller, wanted)).id} if wanted else {job.id for job in await self._visible(caller)}
        runs = await self._store.runs(wanted, most=limit if wanted else _MAX_RUNS)
        entries = [self._run_json(run) for run in runs if run.job in known][:limit]
        return {"entries": entries, **({"source": "jobs"} if entries else {})}  # a run may go back to all it has read

    @rpc("cron.explain", clients="read", why="own")
    async def explain(self, caller: Caller, id: JobId, tool: Annotated[str, "only this one"] = "") -> dict[str, Any]:
        """Say for every tool whether a job may use it, and why."""
        job = await self._find(caller, id)
        who = self._core.assign_model(caller_of(job, "explain"), "")
        belt = self._core.belt_of(who, bounds=bounds_of(job))
        tools = belt.catalog.tools
        if tool and tool not in tools:
            raise ToolError(f"there is no tool {tool[:64]!r}", code="not_found")
        rows = [verdict_json(belt.verdicts[name], tools[name]) for name in ([tool] if tool else tools)]
        report = {"caller": caller_json(resolve(self._core.policy, who)), "job": job.id, "tools": rows}
        report |= {"steps": [asdict(step) for step in belt.steps(tool)]} if tool else {}
        return await self._core.find(EffectiveVerdicts).apply(who, report, tools)

    @rpc("wake", clients="write", as_tool=work_of("cron", by_hand=True, action="wake"), starts_turn=True)
    async def wake(
        self, caller: Caller, text: Annotated[str, Field(min_length=1)], mode: WakeMode = "next-heartbeat"
    ) -> dict[str, Any]:
        """Add a message to the caller's main session; `now` answers at once, else the next heartbeat or turn does."""
        if not text.strip():
            raise ToolError("the text is blank; write the message for the session", code="bad_arguments")
        home = self._home_of(caller)
        if not home or caller.parents:
            raise ToolError("there is no session here that could be woken", code="denied")
        message = replace(self._core.host.message(caller, f"[System event] {text}"), at=self.clock.now_ms() / 1000)
        if mode == "now":
            request = TurnRequest(message=message, caller=later_caller(caller, home))
            begun = await self._chats.begin(caller, request, token_hex(8))
            if not isinstance(begun, FinishedRun):
                task = asyncio.create_task(
                    self._tell_answer(request.caller, begun[0], self._delivery.find_place(caller))
                )
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
        else:
            await self._core.host.tell(home, message)
        return {"ok": True}

    async def _tell_answer(self, caller: Caller, run: ChatRun, place: tuple[str, ...]) -> None:
        """Deliver the answer of a session that was woken to its chat."""
        end = await self._chats.wait_for_end(run)
        words = end.text if end is not None else f"That did not work: {run.error()}"
        sources = await read_sources(self._core.stores.sessions, run.session)
        answer = Text(words, join_sources(sources) or None)
        if why := await self._delivery.say(caller, DeliveredPart(), place, answer):
            log.warning("the answer to a wake in %s was not delivered: %s", run.session, why)

    # who may what

    async def _visible(self, caller: Caller) -> list[Job]:
        return [job for job in await self._list() if self._is_theirs(caller, job)]

    async def _list(self) -> list[Job]:
        return [job for job in await self._store.list_all() if not is_heartbeat(job)]

    def _is_theirs(self, caller: Caller, job: Job) -> bool:
        return not caller.parents and self._core.is_theirs(caller, job.author)

    async def _find(self, caller: Caller, id: str) -> Job:
        if (found := next((job for job in await self._visible(caller) if job.id == id.strip()), None)) is None:
            raise no_job(id.strip())
        return found

    def _check(self, caller: Caller, rights: Collection[Scope], spec: JobSpec, known: Job | None = None) -> JobSpec:
        """Return the job as it may be; raise ToolError where it may not, or where it would never run."""
        before = known.spec if known else None
        agent = agent_of(known.author if known else caller)
        if spec.agent_id is not None and spec.agent_id != agent:
            if known or "admin" not in rights:
                raise ToolError(f"a job of another agent than {agent} is for a person to make", code="denied")
            if spec.agent_id != "main" and self._core.config.agent(spec.agent_id) is None:
                raise ToolError(f"there is no agent {spec.agent_id!r}", code="not_found")
        payload = spec.payload
        if (
            isinstance(payload, EventPayload)
            and spec.wake_mode != "now"
            and (payload.deliver or payload.channel or payload.to)
        ):
            what = "an event that waits for the next heartbeat is answered there"
            raise ToolError(f"{what}; write wakeMode now to have its answer delivered", code="bad_arguments")
        if isinstance(payload, TurnPayload) and (before is None or payload != before.payload):
            parse_effort(payload.thinking or "")
            whose = known.author if known else caller
            if payload.model and self._core.models.choose(whose, payload.model) and not self._work.named(payload.model):
                raise ToolError(f"the configuration names no model {payload.model!r}", code="not_found")
        if before is not None and spec.schedule == before.schedule:
            return spec
        schedule, now = spec.schedule, self.clock.now_ms()
        if isinstance(schedule, CronSchedule) and schedule.tz is None and (zone := find_local_zone(os.environ)):
            spec = spec.model_copy(update={"schedule": schedule.model_copy(update={"tz": zone})})
        if isinstance(schedule, AtSchedule) and schedule.at_ms < now - _PAST_MS:
            ago = (now - schedule.at_ms) / 1000
            raise ToolError(f"that time is {ago:,.0f} seconds past; name one that comes", code="bad_arguments")
        if not isinstance(schedule, AtSchedule) and first_slot(spec.schedule, now) is None:
            raise ToolError("that time never comes; write another schedule", code="bad_arguments")
        return spec

    def _check_count(self, caller: Caller, known: Collection[Job]) -> None:
        is_owner, own = self._core.is_owner, [job for job in known if self._core.is_theirs(caller, job.author)]
        alike = [job for job in known if is_owner(job.author) == is_owner(caller)]
        if len(alike) >= _MAX_JOBS or (not is_owner(caller) and len(own) >= _MAX_GUEST_JOBS):
            raise ToolError("there are too many jobs already; take one away first", code="busy")

    def _home_of(self, caller: Caller) -> str:
        """Return the session that the caller's jobs tell: the agent's main one for the owner, else their own."""
        if self._core.is_owner(caller) and caller.channel is None:
            return str(SessionKey(agent_of(caller), "main"))
        return caller.session or ""

    def _tools_of(self, caller: Caller) -> tuple[str, ...]:
        belt = self._core.belt_of(self._core.assign_model(caller, ""))
        return tuple(sorted(belt.tools))

    # the work itself

    async def _perform(self, job: Job, run: JobRun) -> RunEnd:
        return await (self.beats if is_heartbeat(job) else self._work).perform(job, run)

    def _most(self) -> int:
        settings = self._core.config.cron
        return settings.max_concurrent if settings.enabled else 0

    async def _forget(self, runs: Collection[JobRun]) -> None:
        """Delete the sessions of runs that are kept no longer."""
        jobs = {job.id: job for job in await self._store.list_all()} if runs else {}
        for run in (each for each in runs if each.status != "running"):
            if run.job in jobs and isinstance(jobs[run.job].spec.payload, TurnPayload):
                await self._core.stores.sessions.delete(session_of(jobs[run.job], run.id))

    # JSON and events

    def _next_of(self, job: Job) -> int | None:
        return slots.next_time(job, self.clock.now_ms()) if job.spec.enabled else None

    def _read_source(self, caller: Caller) -> str:
        """Return what the caller's words may go back to."""
        return join_sources(sources_of([self._core.host.message(caller, "")]))

    def to_json(self, job: Job) -> dict[str, Any]:
        """Return a job as JSON."""
        state, now = job.state, self.clock.now_ms()
        facts = {
            "nextRunAtMs": self._next_of(job),
            "runningAtMs": state.running_ms if slots.is_running(job, now) else None,
            "lastRunAtMs": state.last_run_ms,
            "lastStatus": state.last_status,
            "lastError": state.last_error or None,
            "lastDurationMs": state.last_duration_ms,
        }
        spec = job.spec.to_json()
        author = {} if job.author.channel is None and job.author.sender is None else {"author": name_of(job.author)}
        kept = {name: value for name, value in facts.items() if value is not None}
        return {
            "id": job.id,
            "createdAtMs": job.created_ms,
            "updatedAtMs": job.updated_ms,
            **spec,
            **author,
            "state": kept,
        }

    def _run_json(self, run: JobRun) -> dict[str, Any]:
        row: dict[str, Any] = {"ts": run.ended_ms or run.began_ms, "jobId": run.job, "runId": run.id}
        row |= {"action": "started" if run.status == "running" else "finished", "status": run.status}
        row |= {"runAtMs": run.began_ms, "slotMs": run.slot_ms, "summary": run.summary, "error": run.error}
        if run.ended_ms is not None:
            row["durationMs"] = max(run.ended_ms - run.began_ms, 0)
        return {name: value for name, value in row.items() if value not in ("", None)}

    def _tell_changed(self, job: Job, action: str) -> dict[str, Any]:
        row = self.to_json(job)
        at = row["state"].get("nextRunAtMs")
        self._publish(job, {"action": action, **({"nextRunAtMs": at} if at is not None else {})})
        self.clock.poke()
        return row

    def _tell(self, job: Job, run: JobRun) -> None:
        """Publish the start or end of a run."""
        if is_heartbeat(job):
            if run.status != "running":
                self._bus.publish("heartbeat", describe_heartbeat(run), job.home)
            return
        if run.status == "running":
            self._publish(job, {"action": "started", "runAtMs": run.began_ms})
            return
        event = {"action": "finished", "status": run.status, "summary": run.summary, "error": run.error}
        event = {name: value for name, value in event.items() if value}
        next_ms = self._next_of(job)
        times = {"runAtMs": run.began_ms, "durationMs": max((run.ended_ms or 0) - run.began_ms, 0)}
        self._publish(job, {**event, **times, **({"nextRunAtMs": next_ms} if next_ms is not None else {})})

    def _publish(self, job: Job, event: Mapping[str, Any]) -> None:
        self._bus.publish("cron", {"jobId": job.id, **event}, job.home)
