"""Nodes: the devices that are connected to do things, and what they are asked for; every way to one ends here.

The tools `nodes` and `canvas` ask under the key of their call, which the guard has judged: a command runs exactly as
its node announced when a person was asked, and a model pairs no node without one. Programs of the owner's ask by
`node.invoke`.
"""

import asyncio
import logging
import secrets
import shlex
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Annotated, Any, NamedTuple

import orjson
from pydantic import Field

from toolcrib.config.services import NodesSettings
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.display import escape
from toolcrib.define.errors import ToolError
from toolcrib.define.gateway import GatewayEvent
from toolcrib.define.node import (
    PREPARE,
    RUN,
    Node,
    explain_unasked,
    find_node,
    list_allowed_commands,
    pick_default_node,
)
from toolcrib.define.plugin import Allow, Ask, Block, Hook, Word
from toolcrib.define.ports import rpc
from toolcrib.define.schema.annotations import JsonObject, JsonValue
from toolcrib.lazy import dataclass, field, replace

from .devices import Devices, DeviceWord
from .exec.processes import remember
from .feature import Core, Feature

log = logging.getLogger("toolcrib")

_TOOL, _CANVAS = "nodes", "canvas"  # the latter is a tool, a capability, and how its commands begin
_INVOKE_SECONDS, _PREPARE_SECONDS, _MAX_SECONDS = 30.0, 10.0, 21_600.0
_MAX_WAITING, _MAX_PLAN_BYTES = 64, 65_536  # of one node; of what a person is shown
_RETURN_SECONDS = 40.0  # after the gateway's start, in which nodes come back that it had
_APPROVING = ("approved", "approvalDecision", "plan", "runId")  # never taken from who asks: a yes is ours to pass on

NodeWord = Annotated[str, Field(min_length=1, max_length=256, description="its id, name or address")]
Milliseconds = Annotated[int, Field(ge=1, le=int(_MAX_SECONDS * 1000))]


@dataclass(slots=True)
class LiveNode:
    """A connected node, how requests are sent to it, and those that it has not answered yet."""

    node: Node
    tell: Callable[[GatewayEvent], None]
    waiting: "dict[str, asyncio.Future[Any]]" = field(default_factory=dict)


_FOR_GUESTS = ("nodeId", "displayName", "caps", "connected", "paired")  # no address, and nothing of the machine


class PermittedCall(NamedTuple):
    """What a call of a tool may do: run this on a node, settle this request, or (neither) what its action says.

    `only` is how the commands begin that it is about.
    """

    caller: Caller
    node: str = ""
    params: Mapping[str, Any] = {}
    request: str = ""
    only: str = ""


def mount(core: Core) -> Feature:
    """Mount the nodes, and the guard before the tool that uses them."""

    def settings() -> NodesSettings:
        return core.config.gateway.nodes if core.config.gateway else NodesSettings()

    nodes = Nodes(core.find(Devices), settings, core.is_owner)
    return Feature(services=(nodes,), guards=(nodes.guard,))


class Nodes:
    """The nodes of one gateway."""

    def __init__(
        self, devices: Devices, settings: Callable[[], NodesSettings], is_owner: Callable[[Caller], bool]
    ) -> None:
        self._devices, self._settings, self._is_owner = devices, settings, is_owner
        self._live: dict[str, LiveNode] = {}
        self._permits: dict[str, PermittedCall] = {}
        self._until, self._came = time.monotonic() + _RETURN_SECONDS, asyncio.Event()
        self.may_use: Callable[[Caller], bool] = lambda caller: False  # tells who has the tool
        # called with what a node asks an agent for; returns whether that was taken
        self.on_request: Callable[[Node, Mapping[str, Any]], Awaitable[bool]] | None = None
        tools = frozenset({_TOOL, _CANVAS})
        self.guard = Hook(run=self._guard, name="the guard of nodes", tools=tools, seconds=60.0)

    # who is connected

    def enter(self, node: Node, tell: Callable[[GatewayEvent], None]) -> LiveNode:
        """Take a node that has connected; a connection that it had before is asked for nothing more."""
        live = self._live[node.id] = LiveNode(replace(node, connected_at=time.time()), tell)
        self._came.set()
        return live

    def leave(self, live: LiveNode) -> None:
        """Forget a connection of a node; requests that wait for it fail at once."""
        if self._live.get(live.node.id) is live:
            del self._live[live.node.id]
        for answer in live.waiting.values():
            if not answer.done():
                answer.set_exception(ToolError(f"{live.node.shown} has gone before it answered", code="unavailable"))

    def list_known(self) -> list[Node]:
        """Return the nodes, paired or connected: who is connected first, and by name."""
        found = {id: live.node for id, live in self._live.items()}
        for device in self._devices.known.values():
            if device.role == "node":
                about = device.about
                known = found.get(device.id) or Node(device.id, address=about.get("remoteIp", ""))
                known = replace(known, platform=known.platform or about.get("platform", ""))
                found[device.id] = replace(known, name=about.get("displayName") or known.name)
        return sorted(found.values(), key=lambda node: (not node.connected_at, node.shown.lower(), node.id))

    @rpc("node.list", clients="read", why="own")
    async def list_nodes(self, caller: Caller) -> dict[str, Any]:
        """List the nodes that are paired or connected, and what each may be asked for; to a guest, those it may use."""
        await self._devices.refresh()
        rows = [self._show(node, caller) for node in self._list_for(caller)]
        return {"ts": int(time.time() * 1000), "nodes": rows, "source": "nodes"}  # they name themselves

    @rpc("node.describe", clients="read", why="own")
    async def describe(self, caller: Caller, nodeId: NodeWord) -> dict[str, Any]:  # noqa: N803
        """Describe one node."""
        await self._devices.refresh()
        row = self._show(find_node(self._list_for(caller), nodeId), caller)
        return {"ts": int(time.time() * 1000), "source": "nodes", **row}

    @rpc("node.rename", clients="pair")
    async def rename(
        self,
        nodeId: NodeWord,  # noqa: N803
        displayName: Annotated[str, Field(min_length=1, max_length=64)],  # noqa: N803
    ) -> dict[str, Any]:
        """Give a paired node another name."""
        await self._devices.refresh()
        node = find_node(self.list_known(), nodeId)
        name = await self._devices.rename(node.id, displayName)
        return {"nodeId": node.id, "displayName": name}

    @rpc("node.pair.list", clients="pair")
    async def list_pairs(self) -> dict[str, Any]:
        """List the nodes that wait to be paired, and those that are."""
        pairs = await self._devices.list_devices()
        return {kind: [row for row in rows if row["role"] == "node"] for kind, rows in pairs.items()}

    @rpc("node.pair.approve", clients="pair")
    async def approve(self, caller: Caller, requestId: DeviceWord) -> dict[str, Any]:  # noqa: N803
        """Pair a node that waits."""
        await self._find_request(requestId)
        answer = await self._devices.approve(caller, frozenset(), requestId)
        return {"requestId": requestId, "node": {"nodeId": answer["device"]["deviceId"], **answer["device"]}}

    @rpc("node.pair.reject", clients="pair")
    async def reject(self, caller: Caller, requestId: DeviceWord) -> dict[str, Any]:  # noqa: N803
        """Turn away a node that waits."""
        await self._find_request(requestId)
        answer = await self._devices.reject(caller, requestId)
        return {"requestId": requestId, "nodeId": answer["deviceId"]}

    # what they are asked for

    @rpc("node.invoke", clients="write", tools="admin", why="owner")
    async def invoke(
        self,
        caller: Caller,
        nodeId: NodeWord,  # noqa: N803
        command: Annotated[str, Field(min_length=1, max_length=128)],
        idempotencyKey: Annotated[str, Field(min_length=1, max_length=256)],  # noqa: N803  theirs; the node gets another
        params: JsonObject | None = None,
        timeoutMs: Milliseconds | None = None,  # noqa: N803
    ) -> dict[str, Any]:
        """Have a node do something, for the owner's programs. A command that needs a yes is asked for by the tool."""
        if not self._is_owner(caller):
            raise ToolError("nodes are asked by the owner's programs, or by the tool nodes", code="denied")
        live = self._find_live(nodeId)
        given = {key: value for key, value in (params or {}).items() if key not in _APPROVING}
        payload = await self._ask(live, command, given, (timeoutMs or _INVOKE_SECONDS * 1000) / 1000)
        return {"ok": True, "nodeId": live.node.id, "command": command, "payload": payload}

    @rpc("exec.approvals.node.get", clients="admin")
    async def show_rules(self, nodeId: NodeWord) -> Any:  # noqa: N803
        """Show how a node judges commands."""
        return await self._ask(self._find_live(nodeId), "system.execApprovals.get", {}, _INVOKE_SECONDS)

    @rpc("exec.approvals.node.set", clients="admin")
    async def change_rules(self, nodeId: NodeWord, exec: JsonObject, baseHash: str = "") -> Any:  # noqa: N803
        """Change how a node judges commands, where it lets a gateway do that."""
        params = {"exec": exec, "baseHash": baseHash}
        return await self._ask(self._find_live(nodeId), "system.execApprovals.set", params, _INVOKE_SECONDS)

    @rpc("nodes.perform", clients="write", why="key")
    async def perform(
        self,
        caller: Caller,
        call: Annotated[str, Field(max_length=256)],
        node: str = "",
        command: str = "",
        params: JsonObject | None = None,
        timeoutMs: Milliseconds | None = None,  # noqa: N803
    ) -> Any:
        """Do what a call of the tool was permitted; what was shown to a person is done as it was shown."""
        permit = self.check_permit(caller, call)
        if not command.startswith(permit.only):
            raise ToolError(f"a call that is about {permit.only}* asks for nothing else", code="denied")
        if permit.request:
            del self._permits[call]
            return await (self.approve if command == "approve" else self.reject)(caller, permit.request)
        if command == "pending":
            waiting, public = (await self.list_pairs())["pending"], ("requestId", "displayName")
            if not self._is_owner(caller):  # no address
                waiting = [{key: row[key] for key in public if key in row} for row in waiting]
            return {"pending": waiting}
        given: Mapping[str, Any] = params or {}
        if permit.node:
            del self._permits[call]
            node, command, given = permit.node, RUN, permit.params
        elif command in (RUN, PREPARE):
            raise ToolError("no command was permitted under this key", code="denied")
        live = self._find_live(node)
        payload = await self._ask(live, command, given, (timeoutMs or _INVOKE_SECONDS * 1000) / 1000)
        return {"node": live.node.shown, "source": live.node.source, "payload": payload}

    def check_permit(self, caller: Caller, call: str) -> PermittedCall:
        """Return what was permitted under the key of a call; ToolError for nothing."""
        permit = self._permits.get(call)
        if permit is None or permit.caller != caller:
            raise ToolError("no call was permitted under this key", code="denied")
        return permit

    def find_able(self, query: str, cap: str) -> Node | None:
        """Return the node whose canvas, say, is meant; None where nobody is named and no connected node has one."""
        known = self.list_known()
        able = [node for node in known if node.connected_at and cap in node.caps]
        if query.strip() or not able:
            return find_node(known, query) if query.strip() else None
        return pick_default_node(able, cap) or find_node(able, "")

    async def ask_able(
        self, query: str, cap: str, command: str, params: Mapping[str, Any], seconds: float
    ) -> tuple[Node, Any]:
        """Have the node that is meant do something that another service was permitted, and return both."""
        if (node := self.find_able(query, cap)) is None:
            raise ToolError(f"no node that is connected has a {cap}", code="unavailable")
        return node, await self._ask(self._find_live(node.id), command, params, seconds)

    @rpc("node.invoke.result", clients="node")
    async def take_result(  # noqa: PLR0913  as the protocol spells it
        self,
        caller: Caller,
        id: Annotated[str, Field(max_length=64)],
        nodeId: DeviceWord,  # noqa: N803
        ok: bool,
        payload: JsonValue | None = None,
        payloadJSON: str | None = None,  # noqa: N803
        error: JsonObject | None = None,
    ) -> dict[str, Any]:
        """Take what a node answers; what comes too late is acknowledged, and that is all."""
        live = self._live.get(nodeId)
        if live is None or caller.sender is None or caller.sender.id != nodeId:
            raise ToolError("a node answers for itself alone", code="denied")
        answer = live.waiting.get(id)
        if answer is None or answer.done():
            return {"ok": True, "ignored": True}
        if not ok:
            answer.set_exception(_read_error(live.node, error or {}))
            return {"ok": True}
        try:
            answer.set_result(payload if payloadJSON is None else orjson.loads(payloadJSON))
        except ValueError:
            answer.set_exception(ToolError(f"{live.node.shown} answered what is no JSON", code="failed"))
        return {"ok": True}

    @rpc("node.event", clients="node")
    async def take_event(
        self,
        caller: Caller,
        event: Annotated[str, Field(max_length=128)],
        payload: JsonValue | None = None,
        payloadJSON: str | None = None,  # noqa: N803
    ) -> dict[str, Any]:
        """Take note of what a node tells of itself, for the log; a session hears what was done in its canvas there."""
        text = payloadJSON if payloadJSON is not None else orjson.dumps(payload).decode()
        sender = caller.sender.id if caller.sender else ""
        live = self._live.get(str(sender))
        if event == "agent.request" and live is not None and self.on_request is not None:
            asked = _read_object(text)
            return {"ok": True, "taken": await self.on_request(live.node, asked)}
        log.info("node %s: %s %s", escape(str(sender)), escape(event), escape(text[:500]))
        return {"ok": True}

    async def _ask(self, live: LiveNode, command: str, params: Mapping[str, Any], seconds: float) -> Any:
        """Return what a node answers, within so many seconds."""
        node = live.node
        if why := explain_unasked(command, node.commands, self._list_allowed(node)):
            what = f"{node.shown} is not asked for {command[:64]!r} ({why})"
            raise ToolError(f"{what}; gateway.nodes.allowCommands adds to what its platform has", code="denied")
        if len(live.waiting) >= _MAX_WAITING:
            raise ToolError(f"{node.shown} has {_MAX_WAITING} things to answer already; try later", code="busy")
        id, answer = secrets.token_hex(12), asyncio.get_running_loop().create_future()
        live.waiting[id] = answer
        asked: dict[str, Any] = {
            "id": id,
            "nodeId": node.id,
            "command": command,
            "paramsJSON": orjson.dumps(dict(params)).decode(),
        }
        asked |= {"timeoutMs": int(seconds * 1000), "idempotencyKey": secrets.token_hex(16)}
        live.tell(GatewayEvent("node.invoke.request", asked))
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            what = f"{node.shown} did not answer {command} within {seconds:g} seconds"
            raise ToolError(f"{what}; whether it was done is not known", code="timeout") from None
        finally:
            del live.waiting[id]
            if not answer.done() or answer.cancelled():  # nobody wants it any more
                live.tell(GatewayEvent("node.invoke.cancel", {"id": id, "nodeId": node.id}))

    # the guard

    async def _guard(self, ctx: Ctx, args: Mapping[str, Any]) -> Word:
        """Look at a call of the tool; what may be done under its key is kept."""
        action = args.get("action") if ctx.call.name == _TOOL else None
        try:
            if action == "run":
                return await self._judge_run(ctx, args)
            if action in ("approve", "reject"):
                return await self._ask_about_request(ctx, action, str(args.get("requestId") or ""))
        except ToolError as error:
            return Block(str(error))
        self._permit(ctx, PermittedCall(ctx.caller, only=f"{_CANVAS}." if ctx.call.name == _CANVAS else ""))
        return None

    async def _judge_run(self, ctx: Ctx, args: Mapping[str, Any]) -> Word:
        """Have the node judge a command; a yes to it is for what the node says it is."""
        params, live = read_run(args), await self._wait_for(str(args.get("node") or ""))
        where = {"node": f"{live.node.shown} ({live.node.id})"}
        if PREPARE not in live.node.commands:  # it says nothing of what it would do, and asks at its own screen at most
            shown = where | {"command": shlex.join(params["command"]), "folder": params.get("cwd") or "its own"}
            shown |= {f"${name}": value for name, value in params.get("env", {}).items()}
            approved = {**params, "approved": True, "approvalDecision": "allow-once"}
            self._permit(ctx, PermittedCall(ctx.caller, live.node.id, approved))
            return Ask(f"a command on the device {live.node.shown}, which does not judge commands itself", shown)
        answer = await self._ask(live, PREPARE, params, _PREPARE_SECONDS)
        binding = answer.get("binding") or {} if isinstance(answer, dict) else None
        if not isinstance(binding, dict) or len(orjson.dumps(answer)) > _MAX_PLAN_BYTES:
            return Block(f"{live.node.shown} does not say what it would run")
        decision, reason = answer.get("decision"), escape(str(answer.get("reason", ""))[:500])
        if decision not in ("run", "ask"):
            return Block(f"{live.node.shown}: {reason or 'refused'}")
        plan = {"plan": str(answer.get("plan"))} if decision == "ask" else {}
        self._permit(ctx, PermittedCall(ctx.caller, live.node.id, {**params, **plan}))
        if decision == "run":
            return Allow(f"{live.node.shown}: {reason}")
        return Ask(f"on {live.node.shown}: {reason}", where | {str(key): str(value) for key, value in binding.items()})

    async def _ask_about_request(self, ctx: Ctx, action: str, id: str) -> Word:
        row = await self._find_request(id)
        self._permit(ctx, PermittedCall(ctx.caller, request=id))
        shown = {key: str(row[key]) for key in ("deviceId", "displayName", "platform", "remoteIp") if row.get(key)}
        return Ask(f"{action} a device that wants to be paired", shown)

    def _permit(self, ctx: Ctx, permit: PermittedCall) -> None:
        remember(self._permits, ctx.call.key, permit)

    # helpers

    async def _find_request(self, id: str) -> dict[str, Any]:
        waiting = (await self.list_pairs())["pending"]
        found: dict[str, Any] | None = next((row for row in waiting if row["requestId"] == id), None)
        if found is None:
            raise ToolError(f"no node waits under {id[:64]!r}; a request lapses after five minutes", code="not_found")
        return found

    def _find_live(self, query: str) -> LiveNode:
        node = find_node(self.list_known(), query)
        if (live := self._live.get(node.id)) is None:
            raise ToolError(f"{node.shown} is not connected", code="unavailable")
        return live

    async def _wait_for(self, query: str) -> LiveNode:
        """Return a node that is connected; soon after a start, one that is known has time to come back."""
        node, left = find_node(self.list_known(), query), self._until - time.monotonic()
        try:
            async with asyncio.timeout(left if self._devices.is_open else 0):
                while node.id not in self._live:
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            log.debug("%s has not come back", node.id)
        return self._find_live(node.id)

    def _list_allowed(self, node: Node) -> tuple[str, ...]:
        settings = self._settings()
        return list_allowed_commands(node.platform, node.family, settings.allow_commands, settings.deny_commands)

    def _list_for(self, caller: Caller) -> list[Node]:
        return self.list_known() if self._is_owner(caller) or self.may_use(caller) else []

    def _show(self, node: Node, caller: Caller) -> dict[str, Any]:
        allowed = self._list_allowed(node)
        row = node.to_json() | {"paired": (node.id, "node") in self._devices.known}
        if not self._is_owner(caller):
            row = {key: row[key] for key in _FOR_GUESTS if key in row}
        return row | {"commands": [each for each in node.commands if not explain_unasked(each, node.commands, allowed)]}


def read_run(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `system.run` takes, from the arguments of the tool; ToolError where they are none."""
    command = args.get("command")
    if not isinstance(command, (list, tuple)) or not command or not all(isinstance(each, str) for each in command):
        raise ToolError('run needs command, a list of words like ["ls", "-l"]', code="bad_arguments")
    env = {}
    for each in args.get("env") or ():
        name, found, value = str(each).partition("=")
        if not name or not found:
            raise ToolError(f"env has entries like NAME=value, not {str(each)[:64]!r}", code="bad_arguments")
        env[name] = value
    params = {"command": list(command), "cwd": args.get("cwd"), "env": env, "timeoutMs": args.get("commandTimeoutMs")}
    return {key: value for key, value in params.items() if value}


def _read_object(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _read_error(node: Node, error: Mapping[str, Any]) -> ToolError:
    """Return what a node says went wrong: words from outside."""
    words = escape(str(error.get("message") or "failed"))[:2_000]
    code = str(error.get("code") or "failed").lower()
    return ToolError(f"{node.shown}: {words}", code=code if code.isidentifier() else "failed", source=node.source)
