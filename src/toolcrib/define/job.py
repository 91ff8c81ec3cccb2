"""Jobs: work for later, who wants it done, and how it stands; what a model writes of one, read as it was meant.

    raw -> normalize_job -> complete_job -> read_job -> JobSpec

What is kept of a job goes through a JobStore, in which a slot is claimed once, however many processes share it.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field, TypeAdapter, ValidationError

from toolcrib.lazy import asdict, dataclass

from .args import trim
from .caller import Caller
from .errors import ToolError
from .schedule import JobPart, Schedule, parse_time
from .session import to_agent

SessionTarget = Literal["main", "isolated"]
WakeMode = Literal["next-heartbeat", "now"]
JobStatus = Literal["running", "ok", "error", "skipped"]

NAME_CHARS = 80
_TEXT_CHARS, _WORD_CHARS, _MAX_ENTRIES = 20_000, 256, 500
_KINDS: Mapping[str, SessionTarget] = {"systemEvent": "main", "agentTurn": "isolated"}
_FORMS = (("atMs", "at"), ("at", "at"), ("everyMs", "every"), ("expr", "cron"))

JobWord = Annotated[str, Field(max_length=_WORD_CHARS)]
JobEntries = Annotated[tuple[JobWord, ...], Field(strict=False, max_length=_MAX_ENTRIES)]


class DeliveredPart(JobPart):
    """Work whose outcome goes to a chat: to this one, else to the one that it was made in; not with `deliver` False.

    With `best_effort_deliver` a run succeeds also where that could not be sent.
    """

    deliver: bool | None = None
    channel: JobWord | None = None
    to: Annotated[str, Field(max_length=1_024)] | None = None
    best_effort_deliver: bool | None = None


class EventPayload(DeliveredPart):
    """An event that a session gets."""

    kind: Literal["systemEvent"]
    text: Annotated[str, Field(min_length=1, max_length=_TEXT_CHARS)]


class TurnPayload(DeliveredPart):
    """A message that an agent answers in a session of its own."""

    kind: Literal["agentTurn"]
    message: Annotated[str, Field(min_length=1, max_length=_TEXT_CHARS)]
    model: JobWord | None = None
    thinking: JobWord | None = None
    timeout_seconds: Annotated[int, Field(ge=1, le=604_800)] | None = None


class JobReport(JobPart):
    """How the outcome of a job with a session of its own is reported to the main one."""

    post_to_main_prefix: Annotated[str, Field(max_length=NAME_CHARS)] | None = None
    post_to_main_mode: Literal["summary", "full"] | None = None
    post_to_main_max_chars: Annotated[int, Field(ge=0, le=100_000)] | None = None


class JobTools(JobPart):
    """What a job may use of what its author has."""

    allow: JobEntries | None = None
    deny: JobEntries = ()


Payload = Annotated[EventPayload | TurnPayload, Field(discriminator="kind")]


class JobSpec(JobPart):
    """A job as it is written. `catch_up` False leaves out what was missed, instead of doing it once."""

    name: Annotated[str, Field(min_length=1, max_length=NAME_CHARS)]
    description: Annotated[str, Field(max_length=1_000)] | None = None
    agent_id: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    enabled: bool = True
    delete_after_run: bool | None = None
    schedule: Schedule
    session_target: SessionTarget
    wake_mode: WakeMode
    payload: Payload
    isolation: JobReport | None = None
    tools: JobTools | None = None
    catch_up: bool | None = None


_SPEC = TypeAdapter(JobSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobState:
    """How a job stands. Of the slots in `spent`, first and last of each run of them, none runs again.

    `next_ms` is when to look at it next. Who runs it has a lease: `lease_run` until `lease_ms`. `retry_ms` is when one
    that runs once is tried again; nothing runs before `pause_ms`, after it has failed.
    """

    spent: tuple[tuple[int, int], ...]
    next_ms: int | None = None
    lease_run: str = ""
    lease_ms: int = 0
    running_ms: int | None = None
    retry_ms: int | None = None
    pause_ms: int = 0
    failures: int = 0
    last_run_ms: int | None = None
    last_status: JobStatus | None = None
    last_error: str = ""
    last_duration_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job, who made it, and what that caller had then: whatever it may today, the job has nothing else.

    `home` is the session that it was made in or for, which gets its events and outcomes, `place` the channel, chat
    and thread; `source` is where its words may come from, when its author had read something from outside.
    """

    id: str
    spec: JobSpec
    author: Caller
    had: tuple[str, ...]
    home: str
    place: tuple[str, ...] = ()
    source: str = ""
    created_ms: int
    updated_ms: int
    anchor_ms: int
    state: JobState


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRun:
    """One run of a job; `slot_ms` is None for a run on request."""

    id: str
    job: str
    slot_ms: int | None
    began_ms: int
    session: str = ""
    status: JobStatus = "running"
    ended_ms: int | None = None
    summary: str = ""
    error: str = ""


JobStep = Callable[[Job | None], tuple[Job | None, JobRun | None]]


class JobStore(Protocol):
    """Keeps jobs and their runs, for every process that uses it."""

    def change(self, id: str, step: JobStep, /) -> Awaitable[tuple[Job | None, JobRun | None]]:
        """Let `step` say what becomes of a job, None for no job, and which run is to be kept, in one transaction.

        Returns what `step` returned. When it raises, nothing was changed.
        """

    def list_all(self) -> Awaitable[tuple[Job, ...]]: ...
    def list_due(self, now_ms: int, /) -> Awaitable[tuple[str, ...]]:
        """Return the ids of the jobs to look at, those that wait the longest first."""

    def find_soonest(self) -> Awaitable[int | None]:
        """Return when there is a job to look at next."""

    def runs(self, job: str, /, most: int) -> Awaitable[tuple[JobRun, ...]]:
        """Return the latest runs of a job, or of all for "", the latest first."""

    def forget_runs(self, job: str, /, keep: int) -> Awaitable[tuple[JobRun, ...]]:
        """Forget the runs of a job but the latest; return those that are gone."""


# What models write


def normalize_job(raw: Any, *, fills: bool = True) -> dict[str, Any] | None:
    """Return a job, or what is to change in one, as it was meant; None when it is none.

    `fills` adds the session and the wake-up that a new one has when they are not given.
    """
    if not isinstance(raw, Mapping):
        return None
    inner = next((raw[key] for key in ("data", "job") if isinstance(raw.get(key), Mapping)), raw)
    job = dict(inner)
    if "agentId" in job and isinstance(job["agentId"], str):
        agent = trim(job.pop("agentId"))
        job |= {"agentId": to_agent(agent)} if agent else {}
    if isinstance(job.get("enabled"), str):
        text = trim(job["enabled"]).lower()
        job["enabled"] = {"true": True, "false": False}.get(text, job["enabled"])
    if isinstance(job.get("schedule"), Mapping):
        job["schedule"] = _normalize_schedule(job["schedule"])
    if isinstance(job.get("payload"), Mapping):
        job["payload"] = _normalize_payload(job["payload"])
    if fills:
        kind = job["payload"].get("kind") if isinstance(job.get("payload"), dict) else None
        job.setdefault("wakeMode", "next-heartbeat")
        if isinstance(kind, str) and kind in _KINDS:
            job.setdefault("sessionTarget", _KINDS[kind])
    return job


def _normalize_schedule(raw: Mapping[str, Any]) -> dict[str, Any]:
    schedule = dict(raw)
    if not isinstance(schedule.get("kind"), str):
        kind = next((kind for key, kind in _FORMS if key in schedule), None)
        schedule |= {"kind": kind} if kind else {}
    written = next((schedule[key] for key in ("atMs", "at") if isinstance(schedule.get(key), str)), None)
    if written is not None:
        schedule.pop("atMs", None)
        moment = parse_time(written)
        schedule |= {} if moment is None else {"atMs": moment}
    if "at" in schedule and (isinstance(schedule["at"], str) or "atMs" in schedule):
        del schedule["at"]
    return schedule


def _normalize_payload(raw: Mapping[str, Any]) -> dict[str, Any]:
    payload = dict(raw)
    provider, channel = payload.pop("provider", None), payload.get("channel")
    found = next((trim(each).lower() for each in (channel, provider) if isinstance(each, str) and trim(each)), None)
    if found:
        payload["channel"] = found
    elif isinstance(channel, str):
        payload.pop("channel")
    return payload


def complete_job(job: Mapping[str, Any]) -> dict[str, Any]:
    """Return a new job with what may be left out: its name, whether it is on, what kind of work it is."""
    full, payload = dict(job), job.get("payload")
    if isinstance(payload, Mapping):
        if "kind" not in payload and len(kinds := [k for key, k in _WORDS if isinstance(payload.get(key), str)]) == 1:
            full["payload"] = payload = {"kind": kinds[0], **payload}
            full.setdefault("sessionTarget", _KINDS[kinds[0]])
        words = next((payload[key] for key, _ in _WORDS if isinstance(payload.get(key), str)), "")
        if full.get("name") is None:
            full["name"] = " ".join(words.split())[:NAME_CHARS] or "job"
    if isinstance(full.get("name"), str):
        full["name"] = trim(full["name"])
    if isinstance(full.get("description"), str) and not trim(full["description"]):
        del full["description"]
    if full.get("enabled") is None:
        full["enabled"] = True
    return full


_WORDS = (("text", "systemEvent"), ("message", "agentTurn"))


def read_job(written: Mapping[str, Any]) -> JobSpec:
    """Return the job that is written; raise ToolError with all that is wrong with it."""
    spec = check_spelling(written)
    if spec.session_target == "main" and not isinstance(spec.payload, EventPayload):
        raise ToolError('main cron jobs require payload.kind="systemEvent"', code="bad_arguments")
    if spec.session_target == "isolated" and not isinstance(spec.payload, TurnPayload):
        raise ToolError('isolated cron jobs require payload.kind="agentTurn"', code="bad_arguments")
    if not (spec.payload.text if isinstance(spec.payload, EventPayload) else spec.payload.message).strip():
        raise ToolError("the text of a job is blank; say what is to be done", code="bad_arguments")
    return spec


def check_spelling(written: Any) -> JobSpec:
    """Return a job as it is spelled in full; raise ToolError with all that is wrong with that."""
    try:
        return _SPEC.validate_python(written)
    except ValidationError as error:
        wrong = [(".".join(str(part) for part in each["loc"]) or "the job", each["msg"]) for each in error.errors()]
        complaints = "; ".join(f"{place}: {what[:1].lower()}{what[1:]}" for place, what in wrong[:12])
        raise ToolError(f"that is no job: {complaints}", code="bad_arguments") from None


# As JSON


def job_to_json(job: Job) -> dict[str, Any]:
    """Return a job as it is kept."""
    row = {
        name: getattr(job, name) for name in ("had", "home", "place", "source", "created_ms", "updated_ms", "anchor_ms")
    }
    return {**row, "spec": job.spec.to_json(), "author": asdict(job.author), "state": asdict(job.state)}


def job_from_json(id: str, kept: Mapping[str, Any]) -> Job:
    """Return a job that was kept; KeyError, TypeError or ToolError where that cannot be read."""
    state = dict(kept["state"])
    state["spent"] = tuple((first, last) for first, last in state["spent"])
    rest = {name: kept[name] for name in ("home", "source", "created_ms", "updated_ms", "anchor_ms")}
    return Job(
        id=id,
        spec=check_spelling(kept["spec"]),
        author=Caller.from_json(kept["author"]),
        had=tuple(kept["had"]),
        place=tuple(kept.get("place", ())),
        state=JobState(**state),
        **rest,
    )
