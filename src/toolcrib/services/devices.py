"""Devices: who is paired, who waits to be, and the token of each; nothing is returned before it is kept.

Nobody grants more than they have. A token is shown once, to the device itself or to who may do everything: whoever
knows it is that device. Only its hash is kept.
"""

import asyncio
import secrets
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import Field

from toolcrib.define.approval import name_of
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.device import DEVICE_CHANNEL, Device, DeviceBook, DeviceStore, PairRequest, hash_token, join_token
from toolcrib.define.display import escape
from toolcrib.define.errors import ToolError
from toolcrib.define.gateway import OPERATOR_SCOPES, Bus, ClientRole, scopes_within
from toolcrib.define.ports import Scope, rpc
from toolcrib.define.record import Enrolled, Record

from .feature import Core, Feature
from .revocation import Revocations

T = TypeVar("T")
DeviceWord = Annotated[str, Field(min_length=1, max_length=256)]
Rights = frozenset[Scope]

_CODE_SECONDS, _CODE_CHARS = 600.0, 8
_CODE_LETTERS = "ABCDEFGHJKMNPQRSTVWXYZ23456789"  # none that looks like another
_MAX_DEVICES, _MAX_WAITING, _WAIT_SECONDS = 1_000, 64, 300.0
_PAGE, _PAGE_SECONDS = "page-", 30 * 86_400.0  # how its id begins; as long as a browser keeps the cookie
_ANSWER_SECONDS = 0.1  # for a client that ended its own connection to get its answer


class PairingResult(NamedTuple):
    """What came of a device that showed its key and the owner's secret: a token to tell it, or a request that waits."""

    token: str = ""
    request: PairRequest | None = None
    device: Device | None = None


def mount(core: Core) -> Feature:
    """Mount the devices, kept in the state folder where there is one, and the bus that tells of them and the rest."""
    bus, revocations = Bus(), core.find(Revocations)
    devices = Devices(core.stores.devices, core.stores.record, bus)
    devices.end_soon = revocations.end_soon
    revocations.add_door(DEVICE_CHANNEL, devices.explain_refusal)
    return Feature(services=(bus, devices))


class Devices:
    """The devices of one crib. `known` is looked at by who lets them in, and is always the same mapping."""

    def __init__(
        self, store: DeviceStore | None, record: Record, bus: Bus, now: Callable[[], float] = time.time
    ) -> None:
        self._store, self._record, self._bus, self._now = store, record, bus, now
        self.known: dict[tuple[str, ClientRole], Device] = {}
        self._requests: dict[str, PairRequest] = {}
        self._codes: dict[str, float] = {}  # by the hash of each: until when it pairs a node
        self._page_codes: dict[str, float] = {}  # likewise: until when it lets a page in
        self._taken, self._steps = 0, set[asyncio.Future[Any]]()
        self._tell_ended: Callable[[Collection[str]], None] | None = None
        self.end_soon: Callable[[Collection[str]], None] = lambda marks: None

    async def open(self, given: Iterable[Device], tell_ended: Callable[[Collection[str]], None]) -> None:
        """Read who is known, and take those who are `given` too; `tell_ended` hears whose rights are others now."""
        self._tell_ended, fresh = tell_ended, {each.key: each for each in given}
        await (self._change(lambda book: book.devices.update(fresh)) if fresh else self.refresh())

    @property
    def is_open(self) -> bool:
        """Whether somebody can connect: a gateway runs in this process."""
        return self._tell_ended is not None

    def list_answering(self) -> list[Caller]:
        """Return the devices that may answer questions."""
        found = (each for each in self.known.values() if "approve" in scopes_within(each.scopes))
        return [Caller(channel=DEVICE_CHANNEL, sender=Sender(id=each.id), owner=False) for each in found]

    async def refresh(self) -> None:
        """Take what another process has changed."""
        if self._store is not None and (found := await self._store.reread()) is not None:
            self._take(*found)

    async def explain_refusal(self, caller: Caller, id: str) -> str:
        """Say why a device may ask for nothing any more, "" while it may."""
        if not self.is_open:
            await self.refresh()
        device = self.known.get((id, "operator"))
        if device is None:
            return "the device is paired no more"
        return "" if _may_ask(device) else "the device may only read"

    async def meet(self, asked: Device, *, pairs: bool) -> PairingResult:
        """Take a device that has shown its key and the owner's secret: with `pairs` it is paired, else it has to wait.

        One that is paired already has what it was given; when it asks for more, that is asked for anew.
        """
        token, now, id = _make_token(), self._now(), secrets.token_hex(16)

        def step(book: DeviceBook) -> PairingResult:
            known = book.devices.get(asked.key)
            if known is None or not _covers(scopes_within(known.scopes), asked):
                if not pairs:
                    return PairingResult(request=_ask_for(book, asked, now, id))
                known = _pair(book, asked, now)
            if known.token_hash:
                return PairingResult()
            book.devices[known.key] = replace(known, token_hash=hash_token(token), token_at=now)
            return PairingResult(token, device=known)

        known = self.known.get(asked.key)
        if known is not None and known.token_hash and _covers(scopes_within(known.scopes), asked):
            return PairingResult()  # as nearly always: nothing to keep
        met = await self._change(step, lambda met: _note("given a token", "the owner's secret", met.device))
        if met.request is not None:
            self._bus.publish("device.pair.requested", _show_request(met.request))
        return met

    @rpc("node.pair.code", clients="pair")
    async def make_code(self) -> dict[str, Any]:
        """Make a code that pairs one node, once and within ten minutes: `toolcrib node --gateway URL --code CODE`."""
        self._require_gateway()
        now = self._now()
        self._codes = {each: until for each, until in self._codes.items() if until > now}
        if len(self._codes) >= _MAX_WAITING:
            raise ToolError(f"{_MAX_WAITING} codes wait already; they lapse in ten minutes", code="busy")
        code = "".join(secrets.choice(_CODE_LETTERS) for _ in range(_CODE_CHARS))
        until = self._codes[hash_token(code)] = now + _CODE_SECONDS
        return {"code": f"{code[:4]}-{code[4:]}", "expiresAtMs": int(until * 1000)}

    def knows_code(self, code: str) -> bool:
        """Tell whether a code would pair a node now."""
        return self._codes.get(hash_token(read_code(code)), 0.0) > self._now()

    async def pair_by_code(self, asked: Device, code: str) -> PairingResult:
        """Pair a node that has shown its key and a code, which is spent; it gets a token, also where it had one."""
        if self._codes.pop(hash_token(read_code(code)), 0.0) <= self._now():
            return PairingResult()
        token, now = _make_token(), self._now()

        def step(book: DeviceBook) -> PairingResult:
            device = replace(_pair(book, asked, now), token_hash=hash_token(token), token_at=now)
            book.devices[device.key] = device
            return PairingResult(token, device=device)

        return await self._change(step, lambda met: _note("paired", "a code", met.device))

    @rpc("page.code", clients="admin")
    async def make_page_code(self) -> dict[str, Any]:
        """Make a code that lets the page of a browser in as the owner, once and within five minutes."""
        self._require_gateway()
        return self.new_page_code()

    def new_page_code(self) -> dict[str, Any]:
        """Make a code for the page, also before the gateway is there."""
        now = self._now()
        self._page_codes = {each: until for each, until in self._page_codes.items() if until > now}
        if len(self._page_codes) >= _MAX_WAITING:
            raise ToolError(f"{_MAX_WAITING} codes wait already; they lapse in five minutes", code="busy")
        code = secrets.token_urlsafe(24)
        until = self._page_codes[hash_token(code)] = now + _WAIT_SECONDS
        return {"code": code, "path": f"/#code={code}", "expiresAtMs": int(until * 1000)}

    def spend_page_code(self, code: str) -> bool:
        """Tell whether a code lets a page in now; it does once."""
        return self._page_codes.pop(hash_token(code), 0.0) > self._now()

    async def pair_page(self, asked: Device) -> tuple[str, str]:
        """Pair a page under an id of its own; return the two halves of its token. Pages that nobody opens lapse."""
        cookie, key, now = _make_token(), _make_token(), self._now()
        page = replace(asked, id=f"{_PAGE}{secrets.token_hex(8)}")

        def step(book: DeviceBook) -> PairingResult:
            pages = [each for each in book.devices.values() if each.id.startswith(_PAGE)]
            for lapsed in [each for each in pages if now - each.token_at > _PAGE_SECONDS]:
                del book.devices[lapsed.key]
            device = replace(_pair(book, page, now), token_hash=hash_token(join_token(cookie, key)), token_at=now)
            book.devices[device.key] = device
            return PairingResult(device=device)

        await self._change(step, lambda met: _note("paired", "a code", met.device))
        return cookie, key

    async def forget(self, id: str) -> None:
        """Let a device in no more: it says so itself."""

        def step(book: DeviceBook) -> list[Device]:
            return [book.devices.pop(each.key) for each in _find(book, id, None)]

        await self._change(step, lambda found: _note("revoked", "itself", *found))

    async def rename(self, id: str, name: str) -> str:
        """Give a node another name; return it as it is shown."""
        shown = escape(name)

        def step(book: DeviceBook) -> None:
            device = _find(book, id, "node")[0]
            book.devices[device.key] = replace(device, about={**device.about, "displayName": shown})

        await self._change(step)
        return shown

    @rpc("device.pair.list", clients="pair")
    async def list_devices(self) -> dict[str, Any]:
        """List the devices that wait to be paired, and those that are."""
        await self.refresh()
        pending = [_show_request(each) for each in self._requests.values() if _is_open(each, self._now())]
        return {"pending": pending, "paired": [_show(each) for each in self.known.values()]}

    @rpc("device.pair.approve", clients="pair")
    async def approve(self, caller: Caller, rights: Rights, requestId: DeviceWord) -> dict[str, Any]:  # noqa: N803
        """Pair a device that waits; it gets its token when it connects again. Nobody gives more than they have."""
        now = self._now()

        def step(book: DeviceBook) -> Device:
            request = _find_request(book, requestId, now)
            device = _pair(book, request.device, now)
            _check_within(rights, device)
            return device

        device = await self._change(step, lambda device: _note("paired", name_of(caller), device))
        self._tell_resolved(requestId, device.id, "approved")
        return {"requestId": requestId, "device": _show(device)}

    @rpc("device.pair.reject", clients="pair")
    async def reject(self, caller: Caller, requestId: DeviceWord) -> dict[str, Any]:  # noqa: N803
        """Turn away a device that waits."""
        now = self._now()
        found = await self._change(
            lambda book: book.requests.pop(_find_request(book, requestId, now).id),
            lambda found: _note("turned away", name_of(caller), found.device),
        )
        self._tell_resolved(requestId, found.device.id, "rejected")
        return {"requestId": requestId, "deviceId": found.device.id}

    @rpc("device.token.rotate", clients="pair")
    async def rotate(
        self,
        caller: Caller,
        rights: Rights,
        deviceId: DeviceWord,  # noqa: N803
        role: ClientRole | None = None,
        scopes: Annotated[list[str], Field(max_length=16, description="what it may do from now on")] | None = None,
    ) -> dict[str, Any]:
        """Give a device a new token, shown here and never again; the one before is void.

        Only who may do everything, or the device itself, gets a token.
        """
        wrong = sorted(set(scopes or ()) - set(OPERATOR_SCOPES.values()))
        if wrong:
            there = ", ".join(OPERATOR_SCOPES.values())
            raise ToolError(f"there is no scope {wrong[0][:64]!r}; there are {there}", code="bad_arguments")
        is_own = caller.channel == DEVICE_CHANNEL and caller.sender is not None and caller.sender.id == deviceId
        if "admin" not in rights and not is_own:
            raise ToolError("only the owner gets a token of another device", code="denied")
        token, now = _make_token(), self._now()

        def step(book: DeviceBook) -> Device:
            device = _find(book, deviceId, role)[0]
            if device.role == "node" and scopes:
                raise ToolError("a node has no scopes; leave them out", code="bad_arguments")
            fresh = replace(device, token_hash=hash_token(token), token_at=now)
            if scopes is not None:
                fresh = replace(fresh, scopes=frozenset(scopes))
            _check_within(rights, device, fresh)
            book.devices[fresh.key] = fresh
            return fresh

        device = await self._change(step, lambda device: _note("given another token", name_of(caller), device))
        answer = {"deviceId": deviceId, "role": device.role, "scopes": sorted(device.scopes)}
        return {**answer, "token": token, "rotatedAtMs": int(now * 1000)}

    @rpc("device.token.revoke", clients="pair")
    async def revoke(
        self,
        caller: Caller,
        rights: Rights,
        deviceId: DeviceWord,  # noqa: N803
        role: ClientRole | None = None,
    ) -> dict[str, Any]:
        """Let a device in no more, in one role or in any: its token ends, its connections are closed."""

        def step(book: DeviceBook) -> list[Device]:
            found = _find(book, deviceId, role)
            _check_within(rights, *found)
            for each in found:
                del book.devices[each.key]
            return found

        await self._change(step, lambda found: _note("revoked", name_of(caller), *found))
        return {"deviceId": deviceId, "role": role, "revokedAtMs": int(self._now() * 1000)}

    def _require_gateway(self) -> None:
        if not self.is_open:
            raise ToolError(
                "no gateway runs here that could know the code; start `toolcrib gateway`", code="unavailable"
            )

    # the book

    async def _change(
        self, step: Callable[[DeviceBook], T], note: Callable[[T], Iterable[Enrolled]] = lambda _: ()
    ) -> T:
        """Keep what `step` changes and what the record says of it, to the end also when nobody waits any more."""
        task = asyncio.ensure_future(self._keep(step, note))
        self._steps.add(task)
        task.add_done_callback(self._steps.discard)
        return await asyncio.shield(task)

    async def _keep(self, step: Callable[[DeviceBook], T], note: Callable[[T], Iterable[Enrolled]]) -> T:
        if self._store is None:
            book = DeviceBook(dict(self.known), dict(self._requests))
            value, number = step(book), self._taken + 1
        else:
            value, book, number = await self._store.change(step)
        self._take(book, number)
        for entry in note(value):
            if (writing := self._record.write(entry)) is not None:
                await writing
        return value

    def _take(self, book: DeviceBook, number: int) -> None:
        if number <= self._taken:
            return  # a later one was faster
        pairs = [(each, book.devices.get(each.key)) for each in self.known.values()]
        ended = {old.id for old, new in pairs if not new or new.scopes != old.scopes or _has_other_token(old, new)}
        lost = [f"{DEVICE_CHANNEL}:{before.id}" for before, now in pairs if _has_lost(before, now)]
        self.known.clear()
        self.known.update(book.devices)
        self._requests, self._taken = book.requests, number
        if ended and self._tell_ended is not None:
            asyncio.get_running_loop().call_later(_ANSWER_SECONDS, self._tell_ended, ended)
        if lost:
            self.end_soon(lost)

    def _tell_resolved(self, request: str, device: str, decision: str) -> None:
        payload = {"requestId": request, "deviceId": device, "decision": decision, "ts": int(self._now() * 1000)}
        self._bus.publish("device.pair.resolved", payload)


def read_code(text: str) -> str:
    """Return a code as it was made, however it was typed."""
    return text.replace("-", "").replace(" ", "").upper()


def is_code(text: str) -> bool:
    """Tell whether this has the form of a code that pairs a node; no token is so short."""
    code = read_code(text)
    return len(code) == _CODE_CHARS and set(code) <= set(_CODE_LETTERS)


def _make_token() -> str:
    return secrets.token_urlsafe(32)


def _has_lost(before: Device, after: Device | None) -> bool:
    """Tell whether what a device began ends: it may ask for nothing any more, or somebody else had its token."""
    return after is None or not _may_ask(after) or _has_other_token(before, after)


def _has_other_token(before: Device, after: Device) -> bool:
    return bool(before.token_hash) and after.token_hash != before.token_hash


def _may_ask(device: Device) -> bool:
    return device.role == "node" or "write" in scopes_within(device.scopes)


def _covers(rights: Collection[Scope], device: Device) -> bool:
    return scopes_within(device.scopes) <= frozenset(rights)


def _check_within(rights: Rights, *devices: Device) -> None:
    if not all(_covers(rights, each) for each in devices):
        raise ToolError("this is a device with more rights than the caller has; ask the owner", code="denied")


def _pair(book: DeviceBook, asked: Device, now: float) -> Device:
    """Write a device into the book, with what it had before and what it asks for now; nobody waits for that longer."""
    known = book.devices.get(asked.key)
    if known is None and len(book.devices) >= _MAX_DEVICES:
        raise ToolError(f"{_MAX_DEVICES:,} devices are paired; revoke one first", code="busy")
    had = known or replace(asked, scopes=frozenset())
    device = replace(had, scopes=had.scopes | asked.scopes, about=asked.about, paired_at=now)
    book.devices[device.key] = device
    for id in [each.id for each in book.requests.values() if each.device.key == asked.key]:
        del book.requests[id]
    return device


def _ask_for(book: DeviceBook, asked: Device, now: float, id: str) -> PairRequest:
    """Write a request into the book under an id; one that the device made before keeps its own."""
    for each in [each for each in book.requests.values() if not _is_open(each, now)]:
        del book.requests[each.id]
    before = next((each.id for each in book.requests.values() if each.device.key == asked.key), None)
    if before is None and len(book.requests) >= _MAX_WAITING:
        raise ToolError(f"{_MAX_WAITING} devices wait already; try again in five minutes", code="busy")
    request = PairRequest(before or id, asked, now)
    book.requests[request.id] = request
    return request


def _find_request(book: DeviceBook, id: str, now: float) -> PairRequest:
    found = book.requests.get(id)
    if found is None or not _is_open(found, now):
        raise ToolError(f"no device waits under {id[:64]!r}; a request lapses after five minutes", code="not_found")
    return found


def _is_open(request: PairRequest, now: float) -> bool:
    return abs(now - request.asked_at) < _WAIT_SECONDS


def _find(book: DeviceBook, id: str, role: ClientRole | None) -> list[Device]:
    found = [each for each in book.devices.values() if each.id == id and role in (None, each.role)]
    if not found:
        raise ToolError(f"no device {id[:64]!r} is paired{f' as {role}' if role else ''}", code="not_found")
    return sorted(found, key=lambda each: each.role, reverse=True)  # an operator first


def _show(device: Device) -> dict[str, Any]:
    about = {"deviceId": device.id, **device.about, "role": device.role, "scopes": sorted(device.scopes)}
    token = {"role": device.role, "scopes": sorted(device.scopes), "createdAtMs": int(device.token_at * 1000)}
    return about | {"approvedAtMs": int(device.paired_at * 1000), "tokens": [token] if device.token_hash else []}


def _show_request(request: PairRequest) -> dict[str, Any]:
    device = request.device
    row = {"requestId": request.id, "deviceId": device.id, **device.about}
    return row | {"role": device.role, "scopes": sorted(device.scopes), "ts": int(request.asked_at * 1000)}


def _note(change: str, by: str, *devices: Device | None) -> list[Enrolled]:
    return [Enrolled(each.id, each.role, change, tuple(sorted(each.scopes)), by) for each in devices if each]
