"""Ports: what the crib needs from the world, as Protocols. `backends/` and `testing` implement them."""

from collections.abc import Mapping
from typing import Any, NoReturn, Protocol

from .caller import Caller
from .errors import ToolError
from .message import Call

__all__ = ["Absent", "Approver", "Blobs", "Http", "Page", "Rpc", "Workspace"]


class Workspace(Protocol):
    """Files beneath one pinned root; paths are relative to it."""

    async def read(self, path: str, /) -> bytes: ...

    async def write(self, path: str, data: bytes, /) -> None: ...


class Page(Protocol):
    """What an address answered."""

    @property
    def status(self) -> int: ...

    @property
    def text(self) -> str: ...


class Http(Protocol):
    """Requests to the outside, guarded by address."""

    async def get(self, url: str, /) -> Page: ...


class Rpc(Protocol):
    """The gateway's methods, bound to one caller: it can never do more than that caller may."""

    async def __call__(self, method: str, params: Mapping[str, Any], /) -> Any: ...


class Blobs(Protocol):
    """Big values by content hash."""

    async def put(self, data: bytes, /) -> str: ...

    async def get(self, key: str, /) -> bytes: ...


class Approver(Protocol):
    """A human who says yes or no to one call, shown in full."""

    async def approve(self, caller: Caller, call: Call, reason: str) -> bool: ...


class Absent:
    """Stands where a port is not wired: whoever reaches for it is told so in one sentence."""

    __slots__ = ("_port",)

    def __init__(self, port: str) -> None:
        self._port = port

    def _refuse(self) -> NoReturn:
        raise ToolError(f"this crib has no {self._port}", code="unavailable")

    async def read(self, path: str, /) -> bytes:
        self._refuse()

    async def write(self, path: str, data: bytes, /) -> None:
        self._refuse()

    async def get(self, key: str, /) -> Any:
        self._refuse()

    async def put(self, data: bytes, /) -> str:
        self._refuse()

    async def __call__(self, method: str, params: Mapping[str, Any], /) -> Any:
        self._refuse()
