"""What is done for a job: a turn in a session of its own, or a word to the session that it belongs to."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from toolcrib.adapter.fence import fence, new_token
from toolcrib.define.caller import Caller
from toolcrib.define.device import DEVICE_CHANNEL
from toolcrib.define.errors import ToolError
from toolcrib.define.job import EventPayload, Job, JobReport, JobRun, TurnPayload
from toolcrib.define.message import Message
from toolcrib.define.result import Text
from toolcrib.define.session import SessionKey
from toolcrib.define.taint import source_after
from toolcrib.define.turn import TurnRequest
from toolcrib.define.verdict import Layer, Rule
from toolcrib.policy.resolve import agent_of
from toolcrib.services.chat import Chats
from toolcrib.services.chat_run import Past
from toolcrib.services.devices import Devices
from toolcrib.services.feature import TurnCore
from toolcrib.services.subagents.runs import outside_source
from toolcrib.services.subagents.service import parse_effort

from .slots import RunEnd

_SUMMARY_CHARS, _FULL_CHARS = 2_000, 8_000  # of what the main session is told
_NO_NEWS = ("NO_REPLY", "HEARTBEAT_OK")


def work_in(core: TurnCore) -> "JobWork":
    """Return what does the work of jobs in a crib."""
    chats, devices = core.find(Chats), core.find(Devices)

    async def take_turn(request: TurnRequest, run: str, seconds: int | None) -> RunEnd:
        begun = await chats.begin(request.caller, request, run)
        if isinstance(begun, Past):  # only by a run of this very id
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

    def is_known(author: Caller) -> bool:
        id = author.sender.id if author.sender else None
        return author.channel != DEVICE_CHANNEL or any(id == known for known, _ in devices.known)

    async def read_outside(key: str) -> str:
        return outside_source(await core.stores.sessions.lines(key))

    return JobWork(take_turn, core.host.tell, core.models.named, is_known, read_outside)


async def _read_nothing(_: str) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class JobWork:
    """Does what jobs are for. `take_turn` has a turn taken, and returns how it ended; `tell` says a session something.

    `named` gives the model that a word stands for; `is_known` whether an author may still ask for anything;
    `read_outside` where content of a session came from; `wake` has a session look soon at what it was told, where
    something looks by itself.
    """

    take_turn: Callable[[TurnRequest, str, int | None], Awaitable[RunEnd]]
    tell: Callable[[str, Message], Awaitable[None]]
    named: Callable[[str], str | None]
    is_known: Callable[[Caller], bool] = lambda _: True
    read_outside: Callable[[str], Awaitable[str]] = _read_nothing
    wake: Callable[[str], None] = lambda _: None

    async def perform(self, job: Job, run: JobRun) -> RunEnd:
        """Do what a job is for, with nothing but what it may use."""
        if not self.is_known(job.author):
            raise ToolError("the device that made it is paired no more", code="denied")
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
            await self._report(job, run, end)
            return end
        if job.spec.wake_mode == "now":
            home = replace(request, caller=replace(request.caller, session=job.home))
            end = await self.take_turn(home, run.id, None)
            return end._replace(summary=payload.text)
        await self.tell(job.home, message)
        self.wake(f"cron:{job.id}")
        return RunEnd("ok", payload.text)

    async def _report(self, job: Job, run: JobRun, end: RunEnd) -> None:
        """Tell the session that a job belongs to what came of it: as a report, never as an order."""
        said = job.spec.isolation or JobReport()
        prefix, most = said.post_to_main_prefix or "Cron", said.post_to_main_max_chars
        if most is None:
            most = _FULL_CHARS
        if said.post_to_main_mode != "full":
            most = min(most, _SUMMARY_CHARS)
        words = (end.summary if end.status == "ok" else end.error).strip()
        if not job.home or not words or words in _NO_NEWS:
            return
        how, source = "" if end.status == "ok" else f" ({end.status})", f"cron:{job.id}"
        cut = words if len(words) <= most else f"{words[:most]}…"
        body = fence(cut, source, new_token())
        origin = source_after(source, [job.source, await self.read_outside(session_of(job, run.id))])
        parts = (Text(f"{prefix}{how}: the job {job.spec.name!r} says:\n"), Text(body, origin))
        await self.tell(job.home, Message(role="user", content=parts, at=run.began_ms / 1000))


def session_of(job: Job, run: str) -> str:
    """Return the session in which a run of a job works alone."""
    return str(SessionKey(agent_of(job.author), f"cron:{job.id}:run:{run}"))


def caller_of(job: Job, run: str) -> Caller:
    """Return who a job runs as: its author, in the session of a run, with whatever model answers there."""
    return replace(job.author, session=session_of(job, run), provider=None, model=None)


def bounds_of(job: Job) -> tuple[Layer, ...]:
    """Return what a job leaves its author: what they had when it was made, and of that what it names."""
    origin, tools = f"job {job.id}", job.spec.tools
    had = Layer("job", origin, Rule(allow=job.had), "what its author had when it was made")
    return (had,) if tools is None else (had, Layer("job", origin, Rule(allow=tools.allow, deny=tools.deny)))
