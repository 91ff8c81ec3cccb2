"""Ctx: everything a running tool may touch."""

from collections.abc import Callable
from dataclasses import dataclass, field

from .caller import Caller
from .errors import ToolError
from .message import Call
from .ports import Absent, Blobs, Http, Rpc, Workspace
from .result import Result

__all__ = ["Ctx"]


def _no_secret(name: str) -> str:
    raise ToolError(f"this crib holds no secret {name!r}", code="unavailable")


def _ignore(partial: Result) -> None:
    """Progress that nobody watches."""


def _never() -> bool:
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ctx:
    """One call, seen from inside the tool: who asks, what for, and the ports it may use.

    `progress` takes a partial Result; `cancelled` tells a body that runs in a thread to stop.
    """

    call: Call
    caller: Caller
    workspace: Workspace = field(default_factory=lambda: Absent("workspace"))
    http: Http = field(default_factory=lambda: Absent("way out to the web"))
    rpc: Rpc = field(default_factory=lambda: Absent("gateway"))
    blobs: Blobs = field(default_factory=lambda: Absent("blob store"))
    secret: Callable[[str], str] = _no_secret
    progress: Callable[[Result], None] = _ignore
    cancelled: Callable[[], bool] = _never
