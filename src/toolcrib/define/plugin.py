"""Plugin: third-party tools, agents and hooks, as one value; and what its hooks get and may return.

A guard gets the context and the checked arguments, and returns nothing, `Block`, `Rewrite` or `Ask`. An observer also
gets the result and returns nothing or another one. Plain or async functions; each sees what the one before made.

A `Moment` is what hooks get of a turn and a session.
"""

import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from inspect import signature
from typing import Any

from toolcrib.lazy import dataclass, field, replace

from .agent import Agent
from .caller import Caller
from .channel import ChannelKind
from .context import Ctx
from .errors import DeclarationError
from .names import nearest
from .result import Result
from .tool import Tool
from .verdict import NO_BASIS, OWNERS_CONSENT, Basis, Consent


@dataclass(frozen=True, slots=True)
class Block:
    """The call must not run; the model reads the reason."""

    reason: str = ""
    basis: Basis = NO_BASIS


@dataclass(frozen=True, slots=True)
class Allow:
    """Nothing against the call, and why; it is recorded, and overrides no other decision."""

    reason: str
    basis: Basis = NO_BASIS


@dataclass(frozen=True, slots=True)
class Rewrite:
    """These arguments instead of what the call says under the same names; they are checked again."""

    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """A human has to say yes to exactly this: the call, and what `binding` names (directory, environment, a hash of a
    file that runs). All of it is shown, and another value of any of it needs another yes. `says` are who may answer.
    """

    reason: str
    binding: Mapping[str, str] = field(default_factory=dict)
    basis: Basis = NO_BASIS
    says: tuple[Consent, ...] = (OWNERS_CONSENT,)


Word = Block | Rewrite | Ask | Allow | None
Guard = Callable[[Ctx, Mapping[str, Any]], Word | Awaitable[Word]]
Observer = Callable[[Ctx, Mapping[str, Any], Result], Result | Awaitable[Result | None] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Hook:
    """A guard that says more about itself: which `tools` it is about (none: all of them), how long it may take, and
    whether it is `optional`: then it may fail without blocking the call.
    """

    run: Guard
    name: str = ""
    optional: bool = False
    seconds: float = 5.0
    tools: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not 0 < self.seconds < math.inf:
            raise DeclarationError(f"hook {self.name}: seconds must be a positive number, not {self.seconds!r}")

    @classmethod
    def of(cls, guard: "Hook | Guard") -> "Hook":
        """Return the guard with its name, whichever way it was given."""
        if not isinstance(guard, Hook):
            guard = cls(run=guard)
        return guard if guard.name else replace(guard, name=getattr(guard.run, "__name__", "a hook"))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimedObserver:
    """An observer with its name, and how long it may take."""

    run: Observer
    name: str
    seconds: float = 5.0

    @classmethod
    def of(cls, observer: "TimedObserver | Observer") -> "TimedObserver":
        """Return the observer with its name, whichever way it was given."""
        if isinstance(observer, TimedObserver):
            return observer
        return cls(run=observer, name=getattr(observer, "__name__", "a hook"))


# The names that `Plugin.hooks` may use; the two around a call are a guard and an observer there.
MOMENTS = (
    "before_agent_start", "agent_end", "before_compaction", "after_compaction", "message_received", "message_sending",
    "message_sent", "before_tool_call", "after_tool_call", "tool_result_persist", "session_start", "session_end",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """Something that happens: its name, in whose session, and what is known about it."""

    name: str
    caller: Caller
    data: Mapping[str, Any] = field(default_factory=dict)


# Called once with the plugin's own `config`; returns nothing when its condition is not met. One that takes a second
# argument is called for every caller, who it is: session, agent, channel, whether it is sandboxed and the owner.
Factory = Callable[..., Tool | Iterable[Tool] | None]


def takes_caller(item: Tool | Factory) -> bool:
    """Tell whether this is a factory that wants to know for whom it makes a tool."""
    try:
        known = () if isinstance(item, Tool) else tuple(signature(item).parameters.values())
    except (TypeError, ValueError):  # no function, or one of C that does not tell
        return False
    return sum(each.default is each.empty and each.kind < each.VAR_POSITIONAL for each in known) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """What a plugin module exports as `plugin`. Hooks run in the order they are listed.

    `hooks` get moments by name. Its `before_tool_call` is a guard behind those in `before`, its
    `after_tool_call` an observer behind those in `after`: there is one way to look at a call. `channels` are made from
    `channels.<name>` of the configuration, where `options` hold the channel's own settings.
    """

    name: str
    tools: tuple[Tool | Factory, ...] = ()
    agents: tuple[Agent, ...] = ()
    before: tuple[Hook | Guard, ...] = ()
    after: tuple[Observer, ...] = ()
    hooks: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    channels: Mapping[str, ChannelKind] = field(default_factory=dict)

    def __post_init__(self) -> None:
        rest = dict(self.hooks)
        for name, hook in rest.items():
            if name not in MOMENTS:
                close = nearest(name, MOMENTS)
                hint = f"; write {close[0]!r}" if close else f"; there are {', '.join(MOMENTS)}"
                raise DeclarationError(f"plugin {self.name!r}: there is no hook {name!r}{hint}")
            if not callable(hook) and not (name == "before_tool_call" and isinstance(hook, Hook)):
                kind = type(hook).__name__
                raise DeclarationError(f"plugin {self.name!r}: the hook {name!r} must be a function, not {kind}")
        if (guard := rest.pop("before_tool_call", None)) is not None:
            object.__setattr__(self, "before", (*self.before, guard))
        if (observer := rest.pop("after_tool_call", None)) is not None:
            object.__setattr__(self, "after", (*self.after, observer))
        object.__setattr__(self, "hooks", rest)
