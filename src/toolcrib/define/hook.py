"""Hooks: what a plugin may say before a call and make of its result.

A guard gets the context and the checked arguments, and returns nothing, `Block`, `Rewrite` or `Ask`. An observer also
gets the result and returns nothing or another one. Plain or async functions; each sees what the one before made.
"""

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .context import Ctx
from .errors import DeclarationError
from .result import Result

__all__ = ["Ask", "Block", "Guard", "Hook", "Observer", "Rewrite", "Word"]


@dataclass(frozen=True, slots=True)
class Block:
    """The call must not run; the model reads the reason."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """These arguments instead of what the call says under the same names; they are checked again."""

    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ask:
    """A human has to say yes to exactly this: the call, and what `binding` names (directory, environment, a hash of a
    file that runs). All of it is shown, and another value of any of it needs another yes.
    """

    reason: str
    binding: Mapping[str, str] = field(default_factory=dict)


Word = Block | Rewrite | Ask | None
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
