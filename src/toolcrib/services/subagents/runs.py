"""Runs of subagents in the background: what one is started with, how many may go, how one stands by its log alone."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol

from toolcrib.define.agent import OUTCOME, WORKING
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.event import TurnFinished
from toolcrib.define.log import Body, Ended, Line, Noted, Said, SessionHead
from toolcrib.define.message import Message, join_text
from toolcrib.define.model import Effort
from toolcrib.define.session import agent_from_key
from toolcrib.define.taint import join_sources, source_after, sources_of
from toolcrib.define.turn import TurnHandle
from toolcrib.lazy import dataclass, field

STOPPED = "subagent:stopped"  # noted in a session that somebody stopped, so that it does not look interrupted
AUTHOR = "subagent:author"  # noted in the session of one: who began it, or had it go on
LABEL_CHARS = 80

_TEXT_CHARS = 400

Cleanup = Literal["keep", "delete"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnRequest:
    """What a subagent is started with, besides who starts it; what is empty comes from the configuration."""

    key: str
    agent: str
    text: str
    label: str = ""
    model: str = ""
    effort: Effort = ""
    seconds: float = 0.0


@dataclass(slots=True)
class SubagentRun:
    """A run of this process; its `turn` is there until it ends."""

    key: str
    parent: str
    author: Caller
    label: str
    task: str
    turn: TurnHandle | None
    began: float
    cleanup: Cleanup
    ended: float | None = None
    end: TurnFinished | None = None
    is_stopped: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)


class SubagentSlots:
    """Bounds how many subagents run at once in one tree; `root` is what all members of a tree have in common."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()
        self._coming = 0

    def take(self, root: str, limit: int) -> None:
        """Take a slot, or raise ToolError: a subagent that waited for one could wait for those above it for ever."""
        if self._taken[root] >= limit:
            raise ToolError(
                f"{limit} subagents run already, which is the most (tools.subagents.maxConcurrent); "
                "wait until one of them is done",
                code="busy",
            )
        self._taken[root] += 1

    def release(self, root: str) -> None:
        """Give a slot back."""
        self._taken[root] -= 1
        if not self._taken[root]:
            del self._taken[root]

    async def stagger(self) -> None:
        """Let others run between the starts of any two subagents that are started at the same time."""
        ahead, self._coming = self._coming, self._coming + 1
        try:
            for _ in range(ahead):
                await asyncio.sleep(0)
        finally:
            asyncio.get_running_loop().call_soon(self._end_stagger)

    def _end_stagger(self) -> None:
        self._coming -= 1

    @contextmanager
    def hold(self, root: str, limit: int) -> Iterator[None]:
        """Hold a slot for as long as the block runs."""
        self.take(root, limit)
        try:
            yield
        finally:
            self.release(root)


def run_id(key: str) -> str:
    """Return what a run is called: the last word of its session's key."""
    return key.rpartition(":")[2]


def row_of(run: SubagentRun, lines: Sequence[Line], now: float) -> dict[str, Any]:
    """Return a run of this process as it is listed; `lines` are those of its session."""
    end, label = run.end, run.label or " ".join(run.task.split())[:LABEL_CHARS]
    state = "running" if end is None else "stopped" if run.is_stopped else end.reason
    text = "" if end is None else (end.text or end.sentence)[:_TEXT_CHARS]
    row = _row(run.key, label, state, text, lines)
    seconds = round(max(0.0, (run.ended or now) - run.began), 1)
    return {**row, "startedAt": run.began, "endedAt": run.ended, "seconds": seconds}


def row_of_log(head: SessionHead, lines: Sequence[Line]) -> dict[str, Any]:
    """Return a run that only its session tells of."""
    state, text = _read_standing(lines)
    row, ended = _row(head.key, head.title, state, text, lines), None if state == "interrupted" else head.changed_at
    seconds = round(max(0.0, head.changed_at - head.made_at), 1)
    return {**row, "startedAt": head.made_at, "endedAt": ended, "seconds": seconds}


def _row(key: str, label: str, state: str, text: str, lines: Sequence[Line]) -> dict[str, Any]:
    # its words may go back to what it read, and stay marked as coming from there
    source = source_after("subagents", [outside_source(lines)]) if text else None
    row = {"runId": run_id(key), "sessionKey": key, "agentId": agent_from_key(key)}
    return {**row, "label": label, "state": state, "text": text, **({"source": source} if source else {})}


def _read_standing(lines: Sequence[Line]) -> tuple[str, str]:
    """Return how a run stands by its log, and its last words; one without an end was cut off."""
    state, is_stopped, must_say_so = "", False, _is_unfinished(lines)
    for line in reversed(lines):
        body = line.body
        if isinstance(body, Noted) and body.name == STOPPED:
            is_stopped = True
        elif isinstance(body, Noted) and body.name == OUTCOME and isinstance(body.data, Mapping) and not state:
            text = body.data.get("text") or body.data.get("why")
            return str(body.data.get("end") or "done"), str(text)[:_TEXT_CHARS]
        elif isinstance(body, Ended) and not state:
            # one that the crib stopped, because it was closed, can go on
            state = "interrupted" if body.reason == "stopped" and not is_stopped else body.reason
            if must_say_so and not is_stopped:
                state = "interrupted"
        elif isinstance(body, Said):
            state = state or "interrupted"
            if body.message.role == "assistant" and (words := join_text(body.message)):
                return state, words[:_TEXT_CHARS]
    return state or "interrupted", ""


def read_author(lines: Sequence[Line]) -> Caller | None:
    """Return who had a run go on last, None where its log does not say."""
    noted = (line.body.data for line in reversed(lines) if isinstance(line.body, Noted) and line.body.name == AUTHOR)
    author = next(noted, None)
    return Caller.from_json(author) if isinstance(author, Mapping) else None


def outside_source(lines: Iterable[Line]) -> str:
    """Return where texts and pictures came from that came from outside, "" when none is in the log."""
    return join_sources(sources_of(line.body.message for line in lines if isinstance(line.body, Said)))


def _is_unfinished(lines: Sequence[Line]) -> bool:
    """Tell whether the last turn is one of an agent without a recorded outcome: the end of its loop is not enough."""
    marks = (line.body.name for line in reversed(lines) if isinstance(line.body, Noted))
    return next((mark for mark in marks if mark in (WORKING, OUTCOME)), OUTCOME) == WORKING


@dataclass(frozen=True, slots=True)
class AgentListing:
    """An agent of the configuration: its name, and whom it may start (`*` is anybody)."""

    name: str = ""
    may_start: tuple[str, ...] = ()


class SubagentHost(Protocol):
    """What the service needs of the crib that it runs subagents in."""

    @property
    def agents(self) -> Mapping[str, AgentListing]:
        """The configured agents, by id."""

    def agent_tools(self, caller: Caller, /) -> Mapping[str, str]:
        """Return the agents that the caller may call as tools, and what each is for: it may start those as well."""

    def is_tool(self, agent: str, /) -> bool:
        """Tell whether there is such an agent among the tools, whoever may call it."""

    def choose_model(self, caller: Caller, word: str, /) -> str:
        """Return the model that a word of a caller means, "" for the usual one; raise where it is not theirs."""

    def message(self, caller: Caller, text: str, /) -> Message:
        """Return what the caller says to a subagent, marked with where it may come from."""

    async def start(self, caller: Caller, request: SpawnRequest, /) -> TurnHandle:
        """Start a turn for a child of the caller."""

    async def tell(self, session: str, message: Message, /) -> None:
        """Say something in a session."""

    async def add(self, session: str, body: Body, /) -> None:
        """Add a line to a session."""
