"""The gateway's words: its protocol, the scopes of a client, and what it tells of as it happens.

What a method needs is what its `@rpc` says. The table knows the methods of protocol 3 that are not built yet, so that
a new one is never open to the wrong scope.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

from .caller import Caller
from .ports import Scope

PROTOCOL = 3

ClientRole = Literal["operator", "node"]
ErrorCode = Literal["NOT_LINKED", "NOT_PAIRED", "AGENT_TIMEOUT", "INVALID_REQUEST", "UNAVAILABLE"]

ServiceAsk = Callable[[str, Mapping[str, Any]], Awaitable[Any]]  # here or afar, by the name of a method

ADMIN = "operator.admin"
HOOK_CHANNEL = "hook"  # of the callers that are webhooks
OPERATOR_SCOPES: Mapping[Scope, str] = {
    "read": "operator.read", "write": "operator.write", "approve": "operator.approvals", "pair": "operator.pairing",
    "admin": ADMIN,
}  # fmt: skip

_TABLE = {
    "node": "skills.bins",
    "operator.approvals": "exec.approval.request",
    "operator.pairing": "node.pair.request node.pair.verify",
    "operator.read": "usage.status skills.status voicewake.get",
    "operator.write": "talk.mode voicewake.set",
    ADMIN: """
        exec.approvals.get exec.approvals.set wizard.start wizard.next wizard.cancel wizard.status skills.install
        skills.update update.run system-event chat.inject""",
}
NEEDED: Mapping[str, str] = {method: needed for needed, methods in _TABLE.items() for method in methods.split()}
"""Every method of the protocol that is not here yet, and the scope it needs."""

_DEVICE_EVENTS = "node.pair.requested node.pair.resolved device.pair.requested device.pair.resolved"
_OTHER_EVENTS = """
    connect.challenge agent chat presence tick talk.mode shutdown health heartbeat cron node.invoke.request
    node.invoke.cancel voicewake.changed tool.call tool.cancel"""
EVENTS: Mapping[str, str] = {
    **dict.fromkeys(_OTHER_EVENTS.split(), ""),
    **dict.fromkeys(_DEVICE_EVENTS.split(), "operator.pairing"),
    **dict.fromkeys(("exec.approval.requested", "exec.approval.resolved"), "operator.approvals"),
}
"""The events, and the scope that receives each; "" is everybody who may see the session."""


def explain_forbidden(method: str, role: str, scopes: Collection[str], own: Scope | None = None) -> str:
    """Return why a client may not call a method, "" when it may; `own` is what `@rpc` says that clients need."""
    needed = NEEDED.get(method, ADMIN) if own is None else OPERATOR_SCOPES.get(own, own)
    if role not in ("operator", "node") or (role == "node") != (needed == "node"):
        return f"unauthorized role: {role}"
    if needed == "node" or ADMIN in scopes or needed in scopes:
        return ""
    return "" if needed == "operator.read" and "operator.write" in scopes else f"missing scope: {needed}"


def scopes_within(scopes: Collection[str]) -> frozenset[Scope]:
    """Return what the services call these scopes; who may write may read, and `operator.admin` is all of them."""
    if ADMIN in scopes:
        return frozenset(OPERATOR_SCOPES)
    found = {scope for scope, name in OPERATOR_SCOPES.items() if name in scopes}
    return frozenset(found | {"read"} if "write" in found else found)


class GatewayEvent(NamedTuple):
    """Something that happened: an event's name, its payload, and the session it is about, "" for none.

    `is_for` tells whom it concerns besides the owner; None is everybody.
    """

    event: str
    payload: Any
    session: str = ""
    is_for: Callable[[Caller], bool] | None = None


class Bus:
    """Tells everybody who listens what happens. A listener must not raise, and must not hold up the others."""

    def __init__(self) -> None:
        self._listeners: dict[Callable[[GatewayEvent], None], None] = {}

    def listen(self, listener: Callable[[GatewayEvent], None]) -> Callable[[], None]:
        """Call `listener` for every event from now on; return how to end that."""
        self._listeners[listener] = None
        return partial(self._listeners.__delitem__, listener)

    def publish(
        self, event: str, payload: Any, session: str = "", is_for: Callable[[Caller], bool] | None = None
    ) -> None:
        """Tell what happened."""
        sent = GatewayEvent(event, payload, session, is_for)
        for listener in tuple(self._listeners):
            listener(sent)


async def follow_run(ask: ServiceAsk, run: str, session: str) -> AsyncIterator[dict[str, Any]]:
    """Yield what happens in a run, from its beginning to its end; without an id it is the latest of the session."""
    page: dict[str, Any] = {"runId": run, "after": 0, "done": False}
    while not page["done"]:
        known = {"runId": page["runId"], "after": page["after"], "sessionKey": session}
        page = await ask("chat.follow", known)
        for event in page["events"]:
            yield event
