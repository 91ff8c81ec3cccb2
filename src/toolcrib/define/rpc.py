"""Methods of services, and asking for them by name.

    class Cron:
        @rpc("cron.add", scope="write")
        async def add(self, caller: Caller, name: str, every: int = 60) -> dict[str, Any]: ...

    await ctx.rpc("cron.add", {"name": "water the plants"})

A method takes `caller` when it wants to know who asks, and `progress` when it has something to say before it is done.
All else are parameters, passed by name and checked against their annotations. What it returns is plain JSON.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from .errors import DeclarationError

__all__ = ["SCOPES", "Mark", "Progress", "Rpc", "Scope", "mark_of", "rpc"]

Scope = Literal["read", "write", "approve", "admin"]
SCOPES: tuple[Scope, ...] = ("read", "write", "approve", "admin")

Progress = Callable[[Any], None]

Method = TypeVar("Method", bound=Callable[..., Any])


class Rpc(Protocol):
    """The services' methods, bound to one caller: it can never do more than that caller may."""

    async def __call__(self, method: str, params: Mapping[str, Any], /, progress: Progress | None = None) -> Any:
        """Return what the method returns; `progress` is told what it has so far, as often as it says."""
        ...


class Mark(NamedTuple):
    """What `@rpc` says about a method."""

    name: str
    scope: Scope


def rpc(name: str, *, scope: Scope) -> Callable[[Method], Method]:
    """Offer a service's method under a name, `service.verb`, to callers who have the scope."""
    service, _, verb = name.partition(".")
    if not (service.isidentifier() and verb.replace(".", "_").isidentifier() and name.isascii()):
        raise DeclarationError(f"a method is called service.verb, not {name!r}")
    if scope not in SCOPES:
        raise DeclarationError(f"{name}: no scope {scope!r}; there are {', '.join(SCOPES)}")

    def mark(method: Method) -> Method:
        method.__rpc__ = Mark(name, scope)  # type: ignore[attr-defined]  # read back by mark_of
        return method

    return mark


def mark_of(method: Any) -> Mark | None:
    """Return what `@rpc` said about a method, None when it is not offered."""
    mark = getattr(method, "__rpc__", None)
    return mark if isinstance(mark, Mark) else None
