"""Plugin: tools, agents and hooks that somebody else brings, as one value."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .agent import Agent
from .hook import Guard, Hook, Observer
from .tool import Tool

__all__ = ["Factory", "Plugin"]

# Called once with the plugin's own `config`; returns nothing when its condition is not met.
Factory = Callable[[Mapping[str, Any]], Tool | Iterable[Tool] | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plugin:
    """What a plugin module exports as `plugin`. Hooks run in the order they are listed."""

    name: str
    tools: tuple[Tool | Factory, ...] = ()
    agents: tuple[Agent, ...] = ()
    before: tuple[Hook | Guard, ...] = ()
    after: tuple[Observer, ...] = ()
    hooks: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    channels: tuple[str, ...] = ()
