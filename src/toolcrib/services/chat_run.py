"""What is asked in a chat, the run that answers it, and how it ended."""

import asyncio
import json
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Literal, NamedTuple
from urllib.parse import quote

from pydantic import Field

from toolcrib.define import event as events
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.message import Message
from toolcrib.define.result import Content, Image, Result
from toolcrib.define.schema.annotations import JsonObject
from toolcrib.define.sourced import attribute
from toolcrib.define.taint import sources_of
from toolcrib.define.turn import FollowedTurn, user_message
from toolcrib.lazy import dataclass, field

from .sessions import describe_sources

_MAX_TIMEOUT_MS = 24 * 3_600_000
_PICTURE_CHARS = 5 * 1024 * 1024 * 4 // 3 + 4  # of base64

Key = Annotated[str, Field(min_length=1, max_length=256)]
Attachments = Annotated[
    tuple[JsonObject, ...], Field(max_length=8), "pictures and recordings: {content, mimeType?, fileName?}"
]
TimeoutMs = Annotated[int, Field(ge=0, le=_MAX_TIMEOUT_MS)]
Outside = Annotated[str, "where its words came from, as `source` names it; filled in for the body of a tool"]


@dataclass(slots=True)
class ChatRun:
    """A message that is being answered, or was."""

    id: str
    caller: Caller
    person: str  # as whose it counts
    began: float
    turn: FollowedTurn
    is_kept: bool = False  # whether the message is on the disk
    heard: set[str] = field(default_factory=set)  # messages that joined it, by the keys of their senders
    _decided: asyncio.Event = field(default_factory=asyncio.Event)
    task: "asyncio.Task[events.TurnFinished] | None" = None
    ended: float | None = None
    on_started: Callable[[], None] | None = None
    pending: dict[str, str] = field(default_factory=dict)  # the handles of calls that are finished later, by key
    outside: dict[str, None] = field(default_factory=dict)  # where what it has read came from
    knows_before: bool = False  # whether `outside` has what was read in the session before

    def note_sources(self, event: events.Event) -> None:
        """Take note of where it has read from."""
        read = event.result if isinstance(event, events.ToolFinished) else getattr(event, "message", None)
        if isinstance(read, Result | Message):
            self.outside.update(sources_of([Message(role="user", content=read.content)]))

    def note(self, event: events.Event) -> None:
        """Take note of what it waits for and has read."""
        self.note_sources(event)
        match event:
            case events.ToolProgress(call=call, partial=Result(status="pending", details={"handle": str(handle)})):
                self.pending[call.key] = handle
            case events.ToolFinished(call=call):
                self.pending.pop(call.key, None)

    @property
    def session(self) -> str:
        return self.caller.session or ""

    def decide(self, *, is_kept: bool) -> None:
        """Note whether the message is kept; once true, it stays so."""
        self.is_kept = self.is_kept or is_kept
        self._decided.set()
        self.tell_started()

    def tell_started(self) -> None:
        """Tell whoever waits behind it that it has begun, or that nobody need wait for that; once."""
        started, self.on_started = self.on_started, None
        if started is not None:
            started()

    async def wait_until_kept(self) -> None:
        """Wait until the message is on the disk; raise ToolError when it never will be."""
        await self._decided.wait()
        if not self.is_kept:
            raise ToolError(self.error() or "it was stopped before it began", code="failed")

    def status(self) -> Literal["in_flight", "pending", "ok", "error"]:
        """Return how it stands; one that is `pending` goes on when somebody completes a call."""
        if self.task is None or not self.task.done():
            return "pending" if self.pending else "in_flight"
        return "ok" if not self.error() else "error"

    def error(self) -> str:
        """Return why it did not end well, "" when it did or goes on."""
        if self.task is None or not self.task.done():
            return ""
        if self.task.cancelled():
            return "stopped before it was done"
        if failed := self.task.exception():
            return str(failed)
        end = self.task.result()
        return "" if end.reason == "done" else end.sentence or end.reason


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentQuery:
    """A message for an agent; the answer goes to the caller alone, and `deliver` is refused."""

    message: Annotated[str, Field(min_length=1)]
    idempotencyKey: Key  # noqa: N815  as the protocol spells it
    attachments: Attachments = ()
    agentId: str = ""  # noqa: N815
    sessionKey: str = ""  # noqa: N815
    timeout: Annotated[int, Field(ge=0, le=_MAX_TIMEOUT_MS // 1000, description="seconds")] | None = None
    thinking: str = ""
    deliver: bool = False
    lane: str = ""
    label: str = ""
    to: str = ""
    channel: str = ""
    outside: Outside = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatQuery:
    """A message to a session; `thinking` changes nothing here, and `deliver` is refused."""

    message: str
    idempotencyKey: Key  # noqa: N815  as the protocol spells it
    attachments: Attachments = ()
    sessionKey: str = "main"  # noqa: N815
    agentId: str = ""  # noqa: N815
    model: Annotated[str, "which model answers; else the session's, the agent's or the configured one"] = ""
    queue: Annotated[Literal["wait", "steer", "followup"], "where a turn runs already"] = "wait"
    thinking: str = ""
    timeoutMs: TimeoutMs | None = None  # noqa: N815
    deliver: bool = False
    plain: Annotated[bool, "a message whatever it says: `stop` is no command"] = False
    outside: Outside = ""


class FinishedRun(NamedTuple):
    """A run of an earlier process, by how it ended."""

    end: events.TurnFinished
    sources: Collection[str] = ()

    @property
    def error(self) -> str:
        """Why it did not end well, "" when it did."""
        return "" if self.end.reason == "done" else self.end.sentence or self.end.reason

    def to_json(self, id: str) -> dict[str, Any]:
        if self.error:
            return {"runId": id, "status": "error", "summary": self.error}
        answer = {"runId": id, "status": "ok", "result": {"payloads": [{"text": self.end.text}]}}
        return answer | describe_sources(self.sources)


def refuse_delivery(query: AgentQuery | ChatQuery) -> None:
    """Raise ToolError where the answer is to be delivered elsewhere."""
    if query.deliver:
        what = "the answer goes to the caller, and is delivered nowhere else"
        raise ToolError(f"{what}; leave deliver out, and say it by `send`", code="unsupported")


def owner_of_runs(caller: Caller) -> str:
    """Return what tells the runs of one principal from another's; of whoever is nobody, by their session."""
    sender, channel = caller.sender or Sender(), caller.channel or ""
    if caller.owner and caller.sender is None:
        return channel
    if sender.id and "#" not in sender.id and caller.account is None and channel.isidentifier():
        return f"{channel}:{sender.id}"
    who = [sender.id, sender.e164] if sender.id or sender.e164 else [caller.session]
    return quote(json.dumps([channel, caller.account, who]), safe="[]")


def add_source(content: tuple[Content, ...], outside: str) -> tuple[Content, ...]:
    """Return content with the source of its words, "" for none."""
    return attribute(Result(content), (outside,)).content if outside else content


def to_message(query: ChatQuery) -> Message:
    """Return a query as a message; raise ToolError for a blank one, and for an attachment that is no picture."""
    try:
        return user_message(query.message, tuple(map(_read_picture, query.attachments)), query.outside)
    except CribError as error:
        raise ToolError(str(error), code="bad_arguments") from error


def _read_picture(given: Mapping[str, Any]) -> Image:
    """Return the picture that is sent with a message: `content` in base64, or a data: address that holds it."""
    encoded = str(given.get("content") or "").rpartition(";base64,")[2]
    if len(encoded) > _PICTURE_CHARS or (picture := Image.from_base64(encoded)) is None:
        kinds = "a picture (PNG, JPEG, GIF or WebP of at most 5 MB) or a recording (with its mimeType, audio/..)"
        what = f"an attachment is {kinds}, in base64 under `content`"
        raise ToolError(what, code="bad_arguments")
    return picture
