"""What every call goes through, made once and shared by all of them."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import field
from typing import Any

from toolcrib.adapter.trim import RESULT_CHARS
from toolcrib.define.approval import AnswerDesk
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.event import CallEvent
from toolcrib.define.later import LaterWaiter
from toolcrib.define.ports import Approver, Blobs
from toolcrib.define.quota import Meter
from toolcrib.define.record import Record
from toolcrib.define.tool import BodyRunner, Tool
from toolcrib.define.verdict import Selection
from toolcrib.lazy import dataclass

from .hooks import BoundHook
from .shadow import Shadow

Preview = Callable[[Tool, Ctx, Mapping[str, Any], dict[str, str]], Awaitable[Callable[[], Awaitable[None]]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CallPipeline:
    """What every call goes through: who looks at it before and after, and what all callers are bound by.

    `redact` takes secrets out of a text, and is None when there is none to look for; `redact_errors`, where there is
    one, is stricter and does it for errors. `timeout` and `limit` (characters of text for the model) hold for tools
    that do not state their own, a `ceiling` for all. `notice` puts a warning before outside text, whatever its tool.
    `watch` hears how calls go, and has no say in them. `bodies` is what tests put between a call and its body.
    `rejudge` gives the belt that a call is judged by: the same one, or another one when other settings count by now.
    `preview` adds to a question what the call would change, and returns what makes sure of it after the yes. `taint`
    tells where content came from that the call may go back to. `shadow` is a policy on trial, which hears every verdict
    and changes none. `meter` counts calls where quotas limit them. `later` is what calls wait through that somebody
    completes after their body. `approver` is a program's own, who speaks for the owner; `people` are asked without one,
    and where others than the owner may answer. `check_caller` raises ToolError when the door that let a caller in would
    not do so any more.
    """

    record: Record
    guards: tuple[BoundHook, ...] = ()
    observers: tuple[BoundHook, ...] = ()
    approver: Approver | None = None
    preview: Preview | None = None
    blobs: Blobs | None = None
    redact: Callable[[str], str] | None = None
    redact_errors: Callable[[str], str] | None = None
    watch: Callable[[CallEvent], None] | None = None
    timeout: float = 120.0
    limit: int = RESULT_CHARS
    ceiling: int = 0
    notice: bool = False
    bodies: BodyRunner = field(default_factory=BodyRunner)
    rejudge: Callable[[Selection, Ctx], Selection] | None = None
    taint: Callable[[], Collection[str]] = tuple
    shadow: Shadow | None = None
    meter: Meter | None = None
    later: LaterWaiter | None = None
    people: AnswerDesk | None = None
    check_caller: Callable[[Caller], Awaitable[None]] | None = None
