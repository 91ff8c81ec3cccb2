"""Credentials: who somebody is follows from the secret they show, and from nothing that they say about themselves.

The shared token or password is the owner's. A device that was paired has a token of its own, with the scopes that were
given to it; what it asks for beyond them it does not get. A secret is looked up at every connection, and one that is
taken back ends the connections that showed it.
"""

import hashlib
import hmac
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any, Literal

from toolcrib.define.caller import OWNER, Caller, Sender
from toolcrib.define.gateway import ADMIN, Role

Mode = Literal["token", "password"]

_MAX_FAILURES, _FAILURE_SECONDS = 10, 60.0
_MAX_ADDRESSES = 4_096  # whose failures are remembered
_CHANNEL = "device"


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is connected: what they may ask for, and as whom."""

    id: str
    role: Role
    scopes: frozenset[str]
    caller: Caller

    @property
    def is_owner(self) -> bool:
        return self.caller is OWNER


class RefusedError(Exception):
    """Nobody is let in by this; the message is the protocol's word for the reason."""


@dataclass(frozen=True, slots=True)
class Device:
    """A device that was paired: the hash of its token, and what it was given."""

    id: str
    token_hash: str
    role: Role = "operator"
    scopes: frozenset[str] = frozenset()

    def to_principal(self) -> Principal:
        """Return who it is. A device of the owner's own is one that may do everything; any other is a guest."""
        if self.role == "operator" and ADMIN in self.scopes:
            return Principal(self.id, "operator", self.scopes, OWNER)
        home = f"agent:main:{_CHANNEL}:dm:{self.id.lower()}"
        caller = Caller(channel=_CHANNEL, sender=Sender(id=self.id), owner=False, session=home)
        return Principal(self.id, self.role, self.scopes, caller)


@dataclass(slots=True)
class Credentials:
    """The secrets that open this gateway. Without one it opens for nobody."""

    mode: Mode = "token"
    secret: str | None = field(default=None, repr=False)
    devices: dict[str, Device] = field(default_factory=dict, repr=False)
    _listeners: list[Callable[[Collection[str]], None]] = field(default_factory=list, repr=False)

    def on_revoked(self, listener: Callable[[Collection[str]], None]) -> None:
        """Have `listener` told the ids of those whose secret no longer counts."""
        self._listeners.append(listener)

    def replace_secret(self, mode: Mode, secret: str) -> None:
        """Take another secret of the owner's; whoever showed the old one is out."""
        if (self.mode, self.secret) != (mode, secret):
            self.mode, self.secret = mode, secret
            self._tell({"owner"})

    def pair(self, device: Device) -> None:
        """Let a device in, or give it another token."""
        self.devices[device.id] = device
        self._tell({device.id})

    def unpair(self, id: str) -> bool:
        """Let it in no more."""
        known = self.devices.pop(id, None)
        self._tell({id})
        return known is not None

    def _tell(self, ids: Collection[str]) -> None:
        for listener in self._listeners:
            listener(ids)

    def admit(self, auth: Mapping[str, Any], device_id: str = "") -> Principal:
        """Return who shows these secrets; raise RefusedError with the reason when nobody does."""
        given = auth.get(self.mode)
        if self.secret is None and not self.devices:
            raise RefusedError(f"{self.mode}_missing_config")
        if given is None and auth.get("token") is None:
            raise RefusedError(f"{self.mode}_missing")
        if given is not None and self.secret is not None and matches(given, self.secret):
            return Principal("owner", "operator", frozenset({ADMIN}), OWNER)
        token = auth.get("token")
        if token is not None:
            found = hash_token(token)
            for each in self.devices.values():
                if hmac.compare_digest(each.token_hash, found) and (not device_id or device_id == each.id):
                    return each.to_principal()
        raise RefusedError(f"{self.mode}_mismatch" if given is not None else f"{self.mode}_missing")


def matches(given: str, wanted: str) -> bool:
    """Tell whether two secrets are the same, in a time that says nothing about how alike they are."""
    return hmac.compare_digest(given.encode(errors="surrogatepass"), wanted.encode())


def hash_token(token: str) -> str:
    """Return what is kept of a token that was made at random."""
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def device_payload(fields: Mapping[str, Any]) -> str:
    """Return what a device signs: who it is, what it asks for, when, with which token, and for which challenge."""
    words = [fields["deviceId"], fields["clientId"], fields["clientMode"], fields["role"]]
    words += [",".join(fields.get("scopes") or ()), str(fields["signedAtMs"]), fields.get("token") or ""]
    nonce = fields.get("nonce")
    return "|".join(["v2", *words, nonce] if nonce else ["v1", *words])


class Failures:
    """Counts wrong secrets by address. An address with many of them waits a minute, unless it shows the token.

    A token is long and made at random, so that its owner is not locked out by a neighbour who guesses; a password is
    neither, and is not looked at meanwhile.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._by_address: OrderedDict[str, deque[float]] = OrderedDict()

    def add(self, address: str) -> None:
        """Take note of a failure."""
        times = self._by_address.setdefault(address, deque(maxlen=_MAX_FAILURES))
        times.append(self._now())
        self._by_address.move_to_end(address)
        while len(self._by_address) > _MAX_ADDRESSES:
            self._by_address.popitem(last=False)

    def is_locked(self, address: str) -> bool:
        """Tell whether an address has failed too often of late."""
        times = self._by_address.get(address)
        return times is not None and len(times) == _MAX_FAILURES and self._now() - times[0] < _FAILURE_SECONDS


def client_address(peer: str, forwarded: Collection[str], proxies: Collection[str]) -> str:
    """Return who is at the other end: the peer, or whom a proxy that is trusted names; "" when that cannot be read.

    What a proxy says is read from its end: the last address that is no trusted proxy itself is the client's.
    """
    trusted = [ip_network(each, strict=False) for each in proxies]

    def is_trusted(text: str) -> bool:
        address = _canonical(text)
        return address is not None and any(address in network for network in trusted)

    found = _canonical(peer)
    if found is None or not is_trusted(peer):
        return str(found or "")
    for each in reversed([word.strip() for line in forwarded for word in line.split(",")]):
        if not is_trusted(each):
            named = _canonical(each)
            # a proxy has no client on this machine: whoever says so made it up
            return "" if named is None or named.is_loopback else str(named)
    return str(found)


def _canonical(text: str) -> Any:
    try:
        address = ip_address(text.strip().strip("[]"))
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address
