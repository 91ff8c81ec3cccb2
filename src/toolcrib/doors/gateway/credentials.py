"""Credentials: who somebody is follows from the secret they show, and from nothing that they say about themselves.

The shared token or password is the owner's. A device that was paired has a token of its own, with the scopes that were
given to it; what it asks for beyond them it does not get. A device shows besides that it holds its key. A secret is
looked up at every connection, and one that is taken back ends the connections that showed it.
"""

import base64
import hashlib
import hmac
import logging
import os
import stat
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from ipaddress import IPv6Address, ip_address, ip_network
from pathlib import Path
from typing import Any, Literal, NamedTuple

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from toolcrib.define.caller import OWNER, Caller, Sender
from toolcrib.define.device import DEVICE_CHANNEL, Device, device_payload, hash_token, join_token
from toolcrib.define.display import escape
from toolcrib.define.egress import is_origin_of
from toolcrib.define.errors import CribError
from toolcrib.define.gateway import ADMIN, OPERATOR_SCOPES, ClientRole
from toolcrib.lazy import dataclass, field, regex, replace
from toolcrib.services.revocation import OWNER_DOOR

log = logging.getLogger("toolcrib")

Mode = Literal["token", "password"]

OWNER_ID = "owner"
_HOLDER = replace(OWNER, door=OWNER_DOOR)  # of the owner's own secret
_MAX_FAILURES, _FAILURE_SECONDS = 10, 60.0
_MAX_ADDRESSES = 4_096  # whose failures are remembered
_MAX_SKEW_MS = 600_000
_MAX_WORD_CHARS = 128  # of what a device says of itself
_FORWARDED = regex(rb"forwarded|(real|client|connecting|remote|user)-?ip|origin(al|ating)-|tailscale-|^via$")


@dataclass(frozen=True, slots=True)
class Principal:
    """Who is connected: what they may ask for, and as whom; `shown_by` is whose secret they showed."""

    id: str
    role: ClientRole
    scopes: frozenset[str]
    caller: Caller
    shown_by: str = ""

    @property
    def is_owner(self) -> bool:
        return self.caller.owner is True


class RefusedError(Exception):
    """Nobody is let in by this; the message is the protocol's word for the reason."""


class UnpairedError(Exception):
    """The secret is right, and the device waits until somebody says yes to it; the message is the id of its request."""


def to_principal(device: Device, shown_by: str = "") -> Principal:
    """Return who a device is. One of the owner's own is one that may do everything; any other is a guest."""
    mark = f"{DEVICE_CHANNEL}:{device.id}"
    if device.role == "operator" and ADMIN in device.scopes:
        return Principal(device.id, "operator", device.scopes, replace(OWNER, door=mark), shown_by)
    home = f"agent:main:{DEVICE_CHANNEL}:dm:{device.id.lower()}"
    caller = Caller(channel=DEVICE_CHANNEL, sender=Sender(id=device.id), owner=False, session=home, door=mark)
    return Principal(device.id, device.role, device.scopes, caller, shown_by)


@dataclass(slots=True)
class Credentials:
    """The secrets that open this gateway. Without one it opens for nobody.

    `file` is where the owner's token was read from, by `read`, which raises CribError when it holds none.
    """

    mode: Mode = "token"
    secret: str | None = field(default=None, repr=False)
    devices: Mapping[Any, Device] = field(default_factory=dict, repr=False)
    file: Path | None = None
    read: Callable[[Path], str] | None = None
    _seen: object = None
    _listeners: list[Callable[[Collection[str]], None]] = field(default_factory=list, repr=False)

    def on_revoked(self, listener: Callable[[Collection[str]], None]) -> None:
        """Call `listener` with the ids whose secret is void."""
        self._listeners.append(listener)

    def replace_secret(self, mode: Mode, secret: str) -> None:
        """Take another secret of the owner's; whoever showed the old one is out."""
        if (self.mode, self.secret) != (mode, secret):
            self.mode, self.secret = mode, secret
            self.tell_ended({OWNER_ID})

    def reread(self) -> None:
        """Take another token when the file of the owner's has changed; one that cannot be read changes nothing."""
        if self.file is None or self.read is None or (stamp := _stamp(self.file)) == self._seen:
            return
        self._seen = stamp
        try:
            self.replace_secret("token", self.read(self.file))
        except (CribError, OSError) as error:
            log.warning("the token of before stays in force: %s", escape(str(error)))

    def tell_ended(self, ids: Collection[str]) -> None:
        """Tell whoever listens that the secrets of these no longer count as they did."""
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
            return Principal(OWNER_ID, "operator", frozenset({ADMIN}), _HOLDER, OWNER_ID)
        token = auth.get("token")
        if token is not None:
            found = hash_token(token)
            for each in self.devices.values():
                if hmac.compare_digest(each.token_hash, found) and (not device_id or device_id == each.id):
                    return to_principal(each)
        raise RefusedError(f"{self.mode}_mismatch" if given is not None else f"{self.mode}_missing")


def matches(given: str, wanted: str) -> bool:
    """Tell whether two secrets are the same, in a time that says nothing about how alike they are."""
    return hmac.compare_digest(given.encode(errors="surrogatepass"), wanted.encode())


class Visit(NamedTuple):
    """Where a client comes from, whether that is this machine itself, its cookie, and what it was challenged with."""

    address: str
    is_local: bool
    cookie: str = ""
    nonce: str = ""


def cookie_name(host: str) -> str:
    """Return what the cookie of the page at a host is called: two gateways of one machine do not share one."""
    port = host.rpartition(":")[2]
    return f"toolcrib-page-{port if port.isdecimal() else 'tls'}"


def is_from_page(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Tell whether a browser says that our own page asks: not one of another port, and nobody by a link."""
    named = {name: value.decode("latin-1") for name, value in headers}
    origin, host, site = (named.get(name) for name in (b"origin", b"host", b"sec-fetch-site"))
    return is_origin_of(origin or "", host or "") and site in (None, "same-origin")


def read_page_cookie(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the half of a token that is in the page's cookie, "" unless our own page asks."""
    if not is_from_page(headers := tuple(headers)):
        return ""
    named = dict(headers)
    name = cookie_name(named[b"host"].decode("latin-1"))
    pairs = (each.strip().partition("=") for each in named.get(b"cookie", b"").decode("latin-1").split(";"))
    return next((value for each, _, value in pairs if each == name), "")


def read_page_token(headers: Iterable[tuple[bytes, bytes]]) -> str:
    """Return the token that the page's cookie and key make together, "" where one of them is missing."""
    key = next((value.decode("latin-1") for name, value in headers if name == b"x-toolcrib-page"), "")
    cookie = read_page_cookie(headers) if key else ""
    return join_token(cookie, key) if cookie else ""


def check_device(params: Mapping[str, Any], visit: Visit, now_ms: float) -> None:
    """Raise RefusedError unless the device of a `connect` holds its key, and signed this very connection with it."""
    device, client, nonce = params["device"], params["client"], params["device"].get("nonce")
    key, signature = _decode(device["publicKey"], 32), _decode(device["signature"], 64)
    if key is None or hashlib.sha256(key).hexdigest() != device["id"]:
        raise RefusedError("device_id_mismatch")
    if nonce is None and not visit.is_local:
        raise RefusedError("device_nonce_required")
    if nonce is not None and not matches(nonce, visit.nonce):
        raise RefusedError("device_nonce_mismatch")
    if abs(now_ms - device["signedAt"]) > _MAX_SKEW_MS:
        raise RefusedError("device_signature_expired")
    words = {
        "deviceId": device["id"], "clientId": client["id"], "clientMode": client["mode"],
        "role": params.get("role", "operator"), "scopes": params.get("scopes"), "signedAtMs": device["signedAt"],
        "token": (params.get("auth") or {}).get("token"), "nonce": nonce,
    }  # fmt: skip
    payload = device_payload(words)
    if signature is None or payload.count("|") != (7 if nonce is None else 8):  # with more, two connects sign the same
        raise RefusedError("device_signature_invalid")
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, payload.encode(errors="surrogatepass"))
    except (InvalidSignature, ValueError):
        raise RefusedError("device_signature_invalid") from None


def _decode(text: str, size: int) -> bytes | None:
    try:
        found = base64.b64decode(text.rstrip("=") + "=" * (-len(text.rstrip("=")) % 4), b"-_", validate=True)
    except ValueError:
        return None
    return found if len(found) == size else None


def read_device(params: Mapping[str, Any], address: str, devices: Mapping[Any, Device]) -> Device:
    """Return the device of a `connect` as it asks to be: who names no scopes asks for what it has, at first for all."""
    device, client, role = params["device"], params["client"], params.get("role", "operator")
    if role not in ("operator", "node"):
        raise RefusedError(f"role_mismatch: {role[:32]}")
    known = devices.get((device["id"], role))
    asked = params.get("scopes", known.scopes if known else [ADMIN]) if role == "operator" else []
    facts = {
        "publicKey": device["publicKey"],
        "clientId": client["id"],
        "clientMode": client["mode"],
        "remoteIp": address,
    }
    facts |= {key: client[key] for key in ("displayName", "platform") if key in client}
    about = {key: escape(value[:_MAX_WORD_CHARS]) for key, value in facts.items()}
    return Device(device["id"], "", role, frozenset(asked) & frozenset(OPERATOR_SCOPES.values()), about)


Kind = Literal["token", "password", "node code", "page code", "signature"]


class Failures:
    """Counts wrong secrets by address and kind. With many of one kind it waits a minute, unless it shows a token.

    A token is long and made at random, so that its owner is not locked out by a neighbour who guesses; a password and
    the code of a node are neither, and are not looked at meanwhile.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._by_place: OrderedDict[tuple[str, Kind], deque[float]] = OrderedDict()

    def add(self, address: str, kind: Kind = "token") -> bool:
        """Take note of a failure; tell whether there were too many of late before it."""
        is_locked, place = self.is_locked(address, kind), (to_network(address), kind)
        times = self._by_place.setdefault(place, deque(maxlen=_MAX_FAILURES))
        times.append(self._now())
        self._by_place.move_to_end(place)
        while len(self._by_place) > _MAX_ADDRESSES:
            self._by_place.popitem(last=False)
        return is_locked

    def admit(self, credentials: Credentials, address: str, auth: Mapping[str, Any], device_id: str) -> Principal:
        """Return who shows these secrets; raise RefusedError when nobody does, or too many were tried."""
        kinds: list[Kind] = [kind for kind in ("token", "password") if auth.get(kind) is not None]
        locked = [kind for kind in kinds if self.is_locked(address, kind)]
        if "password" in locked:
            auth = {**auth, "password": None}
        try:
            return credentials.admit(auth, device_id)
        except RefusedError:
            for kind in kinds:
                if auth[kind] is not None:
                    self.add(address, kind)
            if locked:
                raise RefusedError("rate_limited") from None
            raise

    def is_locked(self, address: str, kind: Kind = "token") -> bool:
        """Tell whether an address has failed too often of late with secrets of a kind."""
        times = self._by_place.get((to_network(address), kind))
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


def is_from_here(peer: str, headers: Iterable[tuple[bytes, bytes]], proxies: Collection[str]) -> bool:
    """Tell whether a request comes from this machine, and not through anybody who passes on what others ask."""
    address = _canonical(peer)
    if address is None or not address.is_loopback or any(_FORWARDED.search(name.lower()) for name, _ in headers):
        return False
    return not any(address in ip_network(each, strict=False) for each in proxies)


def to_network(address: str) -> str:
    """Return what strangers are counted by: whoever has one address of IPv6 has all that share its first half."""
    found = _canonical(address)
    return str(ip_network((int(found) >> 64 << 64, 64))) if isinstance(found, IPv6Address) else address


def _stamp(path: Path) -> object:
    """Return what changes when somebody writes to a file; None for a pipe, which gives its token once."""
    try:
        found = os.stat(path)  # noqa: PTH116  asked for every second
    except OSError as error:
        return error.errno
    if not stat.S_ISREG(found.st_mode):
        return None
    is_fresh = abs(time.time_ns() - found.st_mtime_ns) < 1_000_000_000  # its clock ticks slower than two writers
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, is_fresh


def _canonical(text: str) -> Any:
    try:
        address = ip_address(text.strip().strip("[]"))
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return mapped or address
