"""Devices that know a gateway: each with a key of its own, a role, and the scopes that a person gave it."""

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from toolcrib.lazy import dataclass, field

from .gateway import ClientRole

T = TypeVar("T")

DEVICE_CHANNEL = "device"  # of callers that are devices of another person than the owner


@dataclass(frozen=True, slots=True)
class Device:
    """A device in one role: the hash of its token, "" while it has none, and what it was given.

    `about` is how it described itself, for people who look at a list: no decision depends on it.
    """

    id: str
    token_hash: str = field(default="", repr=False)
    role: ClientRole = "operator"
    scopes: frozenset[str] = frozenset()
    about: Mapping[str, str] = field(default_factory=dict)
    paired_at: float = 0.0
    token_at: float = 0.0

    @property
    def key(self) -> tuple[str, ClientRole]:
        """What tells it from others: one device may be there in both roles, with a token for each."""
        return self.id, self.role


@dataclass(frozen=True, slots=True)
class PairRequest:
    """A device that waits for consent: as it would be, and since when."""

    id: str
    device: Device
    asked_at: float


@dataclass(slots=True)
class DeviceBook:
    """All devices that are paired, and all that wait."""

    devices: dict[tuple[str, ClientRole], Device] = field(default_factory=dict)
    requests: dict[str, PairRequest] = field(default_factory=dict)


def hash_token(token: str) -> str:
    """Return what is kept of a token that was made at random."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def join_token(cookie: str, key: str) -> str:
    """Return the token of a page, of which its browser keeps two halves in two places."""
    return f"{cookie}.{key}"


def device_payload(fields: Mapping[str, Any]) -> str:
    """Return what a device signs: who it is, what it asks for, when, with which token, and for which challenge."""
    words = [fields["deviceId"], fields["clientId"], fields["clientMode"], fields["role"]]
    words += [",".join(fields.get("scopes") or ()), str(fields["signedAtMs"]), fields.get("token") or ""]
    nonce = fields.get("nonce")
    return "|".join(["v2", *words, nonce] if nonce else ["v1", *words])


class DeviceStore(Protocol):
    """Keeps the book, for every process that uses it."""

    def change(self, step: Callable[[DeviceBook], T], /) -> Awaitable[tuple[T, DeviceBook, int]]:
        """Let `step` change the book; what it changed is kept when this returns, nothing of it when it raises.

        Returns what `step` returns, the book, and a number that is higher for a later book.
        """

    def reread(self) -> Awaitable[tuple[DeviceBook, int] | None]:
        """Return the book when it may have changed since the last call, None when it has not."""
