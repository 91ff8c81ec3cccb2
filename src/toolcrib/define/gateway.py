"""The gateway's words: its protocol, which role and scope each method needs, and what it tells of as it happens.

The table knows every method of protocol 3, also those that are not built yet, so that nobody reaches one by the wrong
scope on the day it comes. A method of ours that is not in it needs what `@rpc` says.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple

from .ports import Scope

PROTOCOL = 3

ClientRole = Literal["operator", "node"]
ErrorCode = Literal["NOT_LINKED", "NOT_PAIRED", "AGENT_TIMEOUT", "INVALID_REQUEST", "UNAVAILABLE"]

ServiceAsk = Callable[[str, Mapping[str, Any]], Awaitable[Any]]  # here or afar, by the name of a method

ADMIN = "operator.admin"
OPERATOR_SCOPES: Mapping[Scope, str] = {
    "read": "operator.read", "write": "operator.write", "approve": "operator.approvals", "pair": "operator.pairing",
    "admin": ADMIN,
}  # fmt: skip

_TABLE = {
    "node": "node.invoke.result node.event skills.bins",
    "operator.approvals": "exec.approval.request exec.approval.resolve",
    "operator.pairing": """
        node.pair.request node.pair.list node.pair.approve node.pair.reject node.pair.verify node.rename
        device.pair.list device.pair.approve device.pair.reject device.token.rotate device.token.revoke""",
    "operator.read": """
        health logs.tail channels.status status usage.status usage.cost tts.status tts.providers models.list agents.list
        agent.identity.get skills.status voicewake.get sessions.list sessions.preview cron.list cron.status cron.runs
        system-presence last-heartbeat node.list node.describe chat.history""",
    "operator.write": """
        send agent agent.wait wake talk.mode tts.enable tts.disable tts.convert tts.setProvider voicewake.set
        node.invoke chat.send chat.abort browser.request""",
    ADMIN: """
        channels.logout config.get config.set config.apply config.patch config.schema exec.approvals.get
        exec.approvals.set exec.approvals.node.get exec.approvals.node.set wizard.start wizard.next wizard.cancel
        wizard.status skills.install skills.update update.run sessions.patch sessions.reset sessions.delete
        sessions.compact sessions.resolve set-heartbeats cron.add cron.update cron.remove cron.run system-event
        chat.inject poll web.login.start web.login.wait""",
}
NEEDED: Mapping[str, str] = {method: needed for needed, methods in _TABLE.items() for method in methods.split()}
"""Every method of the protocol, and the scope it needs; `node` are those that only a node may call."""

EVENTS = (
    "connect.challenge", "agent", "chat", "presence", "tick", "talk.mode", "shutdown", "health", "heartbeat", "cron",
    "node.pair.requested", "node.pair.resolved", "node.invoke.request", "node.invoke.cancel", "device.pair.requested",
    "device.pair.resolved", "voicewake.changed", "exec.approval.requested", "exec.approval.resolved", "tool.call",
    "tool.cancel",
)  # fmt: skip


def explain_forbidden(method: str, role: str, scopes: Collection[str], own: Scope | None = None) -> str:
    """Return why somebody may not call a method, "" when they may; `own` is the scope that `@rpc` names for it."""
    needed = NEEDED.get(method) or OPERATOR_SCOPES[own or "admin"]
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
    """Something that happened: an event's name, what is told of it, and the session it is about, "" for none.

    `person` is whom it concerns besides the owner, where it concerns one.
    """

    event: str
    payload: Any
    session: str = ""
    person: str | None = None


class Bus:
    """Tells everybody who listens what happens. A listener must not raise, and must not hold up the others."""

    def __init__(self) -> None:
        self._listeners: dict[Callable[[GatewayEvent], None], None] = {}

    def listen(self, listener: Callable[[GatewayEvent], None]) -> Callable[[], None]:
        """Have `listener` told of everything from now on; return how to end that."""
        self._listeners[listener] = None
        return partial(self._listeners.__delitem__, listener)

    def publish(self, event: str, payload: dict[str, Any], session: str = "", person: str | None = None) -> None:
        """Tell what happened."""
        told = GatewayEvent(event, payload, session, person)
        for listener in tuple(self._listeners):
            listener(told)


async def follow_run(ask: ServiceAsk, run: str, session: str) -> AsyncIterator[dict[str, Any]]:
    """Yield what happens in a run, from its beginning to its end; without an id it is the latest of the session."""
    told: dict[str, Any] = {"runId": run, "after": 0, "done": False}
    while not told["done"]:
        known = {"runId": told["runId"], "after": told["after"], "sessionKey": session}
        told = await ask("chat.follow", known)
        for event in told["events"]:
            yield event
