"""What every call goes through, made once and shared by all of them."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from toolcrib.adapter.trim import RESULT_CHARS
from toolcrib.define.approval import AnswerDesk
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.event import CallEvent
from toolcrib.define.later import LaterWaiter
from toolcrib.define.names import canonical
from toolcrib.define.ports import Approver, Blobs
from toolcrib.define.quota import Meter
from toolcrib.define.record import Record
from toolcrib.define.tool import PROGRAM, BodyRunner, Tool
from toolcrib.define.verdict import ArgumentRules, Selection, Verdict
from toolcrib.lazy import dataclass, field

from .belt import no_such_tool
from .hooks import BoundHook
from .reached import ReachedFiles
from .shadow import Shadow

FOREIGN_BODIES = ("plugin:", "client:")  # bodies that somebody else wrote, and that run here

_NAME_CHARS = 64

Preview = Callable[[Tool, Ctx, Mapping[str, Any], dict[str, str]], Awaitable[Callable[[], Awaitable[None]]]]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallPlan:
    """What a belt and a pipeline say of every call of one tool: decided once, so that what is not there costs nothing.

    `tool` is None where the belt has none of this `name`; it is `allowed` where nobody has to be asked. `rules` are
    those about its arguments, `guards` those that look at its calls. Its body has so many `seconds`, and its result so
    many characters, the `limit`. `is_about_files` where the files that a call reaches are judged, `is_plain` where no
    result is from outside without saying so, and none is looked through for secrets.
    """

    belt: Selection
    name: str
    verdict: Verdict | None
    why: str
    tool: Tool | None
    allowed: Tool | None
    rules: ArgumentRules | None
    guards: tuple[BoundHook, ...]
    seconds: float
    limit: int
    is_about_files: bool
    is_plain: bool

    @classmethod
    def of(cls, belt: Selection, written: str, pipeline: "CallPipeline") -> "CallPlan":
        """Return the plan of a call under this name, however it is written; the pipeline keeps those of its tools."""
        is_known = written in belt.verdicts
        name = written if is_known else belt.find(written) or canonical(written) or written[:_NAME_CHARS]
        verdict, tool = belt.verdicts.get(name), belt.tools.get(name)
        limit = (tool and tool.limit) or pipeline.limit
        plan = cls(
            belt=belt,
            name=name,
            verdict=verdict,
            why=verdict.reason if verdict else no_such_tool(written, belt.tools),
            tool=tool,
            allowed=tool if verdict and verdict.decision == "allow" else None,
            rules=belt.rules_about(tool) if tool and belt.rules_about else None,
            guards=tuple(guard for guard in pipeline.guards if not guard.tools or name in guard.tools),
            seconds=(tool and tool.timeout) or pipeline.timeout,
            limit=min(limit, pipeline.ceiling or limit),
            is_about_files=tool is not None and ReachedFiles.are_judged(belt, tool),
            is_plain=pipeline.redact is None and not (tool and may_bring_outside(tool)),
        )
        if is_known:
            pipeline.plans[written] = plan
        return plan


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
    plans: dict[str, CallPlan] = field(default_factory=dict, init=False, repr=False, compare=False)  # by name


def may_bring_outside(tool: Tool) -> bool:
    """Tell whether what a tool gives back may come from outside without saying so."""
    return tool.source.startswith("mcp:") or has_own_way_out(tool)


def has_own_way_out(tool: Tool) -> bool:
    """Tell whether a body that somebody else wrote may read from outside by itself; a program's own is its word."""
    return "network" in tool.effects and tool.source.startswith(FOREIGN_BODIES) and tool.source != PROGRAM
