"""What is done for a job: a turn in a session of its own, or a word to the session that it belongs to."""

import asyncio
from collections.abc import Awaitable, Callable

from toolcrib.adapter.fence import fence, new_token
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.job import EventPayload, Job, JobReport, JobRun, TurnPayload
from toolcrib.define.message import Message
from toolcrib.define.result import Text
from toolcrib.define.session import SessionKey
from toolcrib.define.taint import join_sources, source_after
from toolcrib.define.turn import TurnRequest
from toolcrib.define.verdict import Layer, Rule
from toolcrib.lazy import dataclass, replace
from toolcrib.policy.resolve import agent_of, later_caller
from toolcrib.services.channels import Channels
from toolcrib.services.chat import Chats
from toolcrib.services.chat_run import FinishedRun
from toolcrib.services.feature import TurnCore
from toolcrib.services.revocation import Revocations
from toolcrib.services.subagents.runs import outside_source
from toolcrib.services.subagents.service import parse_effort

from .deliver import NO_NEWS, Delivery
from .slots import RunEnd

_SUMMARY_CHARS, _FULL_CHARS = 2_000, 8_000  # of a report to the main session


def work_in(core: TurnCore) -> "JobRunner":
    """Return what does the work of jobs in a crib."""
    chats, delivery = core.find(Chats), Delivery(core)

    async def take_turn(request: TurnRequest, run: str, seconds: int | None) -> RunEnd:
        begun = await chats.begin(request.caller, request, run)
        if isinstance(begun, FinishedRun):  # only by a run of this very id
            return RunEnd("error", error=begun.error or "it ran before")
        going, _ = begun
        try:
            end = await chats.wait_for_end(going, seconds)
        except asyncio.CancelledError:
            going.turn.stop()
            raise
        if end is None and not going.error():
            going.turn.stop()
            return RunEnd("error", error=f"it took longer than {seconds} seconds and was stopped")
        return RunEnd("error", error=going.error()) if end is None else RunEnd("ok", end.text)

    async def read_outside(key: str) -> str:
        return outside_source(await core.stores.sessions.lines(key))

    async def deliver(job: Job, run: JobRun, words: str) -> str:
        if run.slot_ms is None and not core.find(Channels).is_open:
            return ""  # the caller of the run gets its result
        message = Text(words, join_sources([job.source, await read_outside(turn_session_of(job, run.id))]) or None)
        return await delivery.say(later_caller(job.author, job.home), job.spec.payload, job.place, message)

    explain = core.find(Revocations).explain
    return JobRunner(take_turn, core.host.tell, core.models.named, explain, read_outside, deliver)


async def _say_nothing(*_: object) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class JobRunner:
    """Runs jobs. `take_turn` runs a turn and returns how it ended; `tell` adds a message to a session.

    `named` gives the model that a word stands for; `explain_refusal` why an author may ask for nothing any more;
    `read_outside` where content of a session came from. `deliver` says what came of a run in its chat, and returns why
    it did not arrive; `wake` has a session read its new messages soon, where something looks by itself, and `look`
    the agent of a job at once.
    """

    take_turn: Callable[[TurnRequest, str, int | None], Awaitable[RunEnd]]
    tell: Callable[[str, Message], Awaitable[None]]
    named: Callable[[str], str | None]
    explain_refusal: Callable[[Caller], Awaitable[str]] = _say_nothing
    read_outside: Callable[[str], Awaitable[str]] = _say_nothing
    deliver: Callable[[Job, JobRun, str], Awaitable[str]] = _say_nothing
    wake: Callable[[str], None] = lambda _: None
    look: Callable[[Job], Awaitable[object]] = _say_nothing

    async def perform(self, job: Job, run: JobRun) -> RunEnd:
        """Do what a job is for, with nothing but what it may use."""
        if why := await self.explain_refusal(job.author):
            raise ToolError(f"whoever made it is let in no more: {why}", code="denied")
        payload = job.spec.payload
        if isinstance(payload, EventPayload):
            words = f"[System event of the job {job.spec.name!r}] {payload.text}"
        else:
            words = payload.message
        message = Message(role="user", content=(Text(words, job.source or None),), at=run.began_ms / 1000)
        request = TurnRequest(message=message, caller=caller_of(job, run.id), bounds=bounds_of(job))
        if isinstance(payload, TurnPayload):
            model = self.named(payload.model) if payload.model else None
            request = replace(request, model=model, effort=parse_effort(payload.thinking or ""))
            end = await self.take_turn(request, run.id, payload.timeout_seconds)
            if await self._report(job, run, end) and job.spec.wake_mode == "now":
                await self.look(job)
            return await self._deliver(job, run, end)
        if job.spec.wake_mode == "now":
            home = replace(request, caller=replace(request.caller, session=job.home))
            end = await self._deliver(job, run, await self.take_turn(home, run.id, None))
            return end._replace(summary=payload.text)
        await self.tell(job.home, message)
        self.wake(f"cron:{job.id}")
        return RunEnd("ok", payload.text)

    async def _deliver(self, job: Job, run: JobRun, end: RunEnd) -> RunEnd:
        """Deliver the outcome of a run, of failures in a row only the first; a failed delivery makes the run fail."""
        failed, words = end.status != "ok", end.summary
        if failed:
            words = f"The job {job.spec.name!r} did not work: {end.error}" if job.state.last_status != "error" else ""
        if not (why := await self.deliver(job, run, words)):
            return end
        error = "; ".join(filter(None, (end.error, f"what came of it was not delivered: {why}")))
        is_well = job.spec.payload.best_effort_deliver and not failed
        return end._replace(status="ok" if is_well else "error", error=error, is_over=not failed)

    async def _report(self, job: Job, run: JobRun, end: RunEnd) -> bool:
        """Report the outcome of a run, if any, to the session that its job belongs to: never as an order."""
        report = job.spec.isolation or JobReport()
        prefix, max_chars = report.post_to_main_prefix or "Cron", report.post_to_main_max_chars
        if max_chars is None:
            max_chars = _FULL_CHARS
        if report.post_to_main_mode != "full":
            max_chars = min(max_chars, _SUMMARY_CHARS)
        words = (end.summary if end.status == "ok" else end.error).strip()
        if not job.home or words in NO_NEWS:
            return False
        how, source = "" if end.status == "ok" else f" ({end.status})", f"cron:{job.id}"
        cut = words if len(words) <= max_chars else f"{words[:max_chars]}…"
        body = fence(cut, source, new_token())
        origin = source_after(source, [job.source, await self.read_outside(session_of(job, run.id))])
        parts = (Text(f"{prefix}{how}: the job {job.spec.name!r} says:\n"), Text(body, origin))
        await self.tell(job.home, Message(role="user", content=parts, at=run.began_ms / 1000))
        return True


def session_of(job: Job, run: str) -> str:
    """Return the session in which a run of a job works alone."""
    return str(SessionKey(agent_of(job.author), f"cron:{job.id}:run:{run}"))


def turn_session_of(job: Job, run: str) -> str:
    """Return the session of a run's turn: an event is answered in the main session."""
    return job.home if isinstance(job.spec.payload, EventPayload) else session_of(job, run)


def caller_of(job: Job, run: str) -> Caller:
    """Return who a job runs as: its author, in the session of a run, by whatever model and bound as theirs was."""
    return later_caller(job.author, session_of(job, run))


def bounds_of(job: Job) -> tuple[Layer, ...]:
    """Return what a job leaves its author: what they had when it was made, and of that what it names."""
    origin, tools = f"job {job.id}", job.spec.tools
    had = Layer("job", origin, Rule(allow=job.had), "what its author had when it was made")
    return (had,) if tools is None else (had, Layer("job", origin, Rule(allow=tools.allow, deny=tools.deny)))
