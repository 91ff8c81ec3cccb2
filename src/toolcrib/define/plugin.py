"""Plugin: tools, agents and hooks that somebody else brings, as one value."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .agent import Agent
from .errors import DeclarationError
from .hook import Guard, Hook, Observer
from .moment import MOMENTS
from .names import nearest
from .tool import Tool

__all__ = ["Factory", "Plugin"]

# Called once with the plugin's own `config`; returns nothing when its condition is not met.
Factory = Callable[[Mapping[str, Any]], Tool | Iterable[Tool] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """What a plugin module exports as `plugin`. Hooks run in the order they are listed.

    `hooks` are told of moments by name. Its `before_tool_call` is a guard behind those in `before`, its
    `after_tool_call` an observer behind those in `after`: there is one way to look at a call.
    """

    name: str
    tools: tuple[Tool | Factory, ...] = ()
    agents: tuple[Agent, ...] = ()
    before: tuple[Hook | Guard, ...] = ()
    after: tuple[Observer, ...] = ()
    hooks: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    channels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        rest = dict(self.hooks)
        for name, hook in rest.items():
            if name not in MOMENTS:
                close = nearest(name, MOMENTS)
                hint = f"; write {close[0]!r}" if close else f"; there are {', '.join(MOMENTS)}"
                raise DeclarationError(f"plugin {self.name!r}: nothing is called {name!r} that a hook is told of{hint}")
            if not callable(hook) and not (name == "before_tool_call" and isinstance(hook, Hook)):
                kind = type(hook).__name__
                raise DeclarationError(f"plugin {self.name!r}: the hook {name!r} must be a function, not {kind}")
        if (guard := rest.pop("before_tool_call", None)) is not None:
            object.__setattr__(self, "before", (*self.before, guard))
        if (observer := rest.pop("after_tool_call", None)) is not None:
            object.__setattr__(self, "after", (*self.after, observer))
        object.__setattr__(self, "hooks", rest)
