"""The gateway about itself: how it stands, who is connected, how it starts anew."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from toolcrib.define.approval import Question
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.gateway import Bus
from toolcrib.define.ports import at_once, rpc, work_of
from toolcrib.define.session import agent_from_key, to_agent
from toolcrib.policy.resolve import agent_of
from toolcrib.threads import in_thread

from .approvals import Approvals
from .chat import Chats
from .feature import Feature, TurnCore
from .mcp.service import Mcp
from .nodes import Nodes
from .router import read_version
from .sessions import Sessions, describe_sources

_MAX_PRESENT = 200
_PRESENCE_SECONDS, _PRESENT_A_SECOND = 0.05, 100
_ALWAYS_SECONDS = 86_400
_NO_CHANNELS: dict[str, Any] = {}


class Presence:
    """Who is connected: one row each, the newest last."""

    def __init__(self, bus: Bus) -> None:
        self._bus, self.version = bus, 0
        self._rows: dict[str, dict[str, Any]] = {}
        self._telling: asyncio.TimerHandle | None = None

    def enter(self, id: str, row: dict[str, Any]) -> None:
        """Take note of a client."""
        self._rows[id] = {"ts": int(time.time() * 1000), **row}
        self._tell()

    def leave(self, id: str) -> None:
        """Take note that it has gone."""
        if self._rows.pop(id, None) is not None:
            self._tell()

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self) -> list[dict[str, Any]]:
        """Return the last of them."""
        return list(self._rows.values())[-_MAX_PRESENT:]

    def _tell(self) -> None:
        """Tell it soon, and once for all who come and go meanwhile: the more there are, the later."""
        self.version += 1
        if self._telling is None:
            seconds = _PRESENCE_SECONDS + len(self._rows) / _PRESENT_A_SECOND
            self._telling = asyncio.get_running_loop().call_later(seconds, self._publish)

    def _publish(self) -> None:
        self._telling = None
        self._bus.publish("presence", {"presence": self.rows()})


def mount(core: TurnCore) -> Feature:
    """Mount what the gateway tells of itself."""
    core.find(Mcp).tools_of = lambda caller: core.belt_of(core.assign_model(caller, "")).tools
    core.find(Nodes).may_use = lambda caller: "nodes" in core.belt_of(core.assign_model(caller, "")).tools
    return Feature(services=(Gateway(core, core.find(Chats).bus, core.find(Sessions)),))


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


class Gateway:
    """What is asked of a gateway itself. `on_restart`, where a process has one, starts it anew."""

    def __init__(self, core: TurnCore, bus: Bus, sessions: Sessions, now: Callable[[], float] = time.time) -> None:
        self._core, self._sessions, self._now = core, sessions, now
        self._began, self._version = now(), read_version()
        self._log_path = core.state and core.config.logging.path_in(core.state)
        self._told: tuple[object, list[dict[str, str]]] = (None, [])  # the agents of a policy, as health names them
        self.bus, self.presence = bus, Presence(bus)
        self.on_restart: Callable[[], None] | None = None
        self.not_in_force = ""  # why the configuration as it stands now does not count

    def lock_state(self) -> None:
        """Become the one gateway of the state folder until the crib is closed; CribError names who is it already."""
        self._core.stores.members.lock()

    @at_once
    @rpc("health", clients="read", shared=True, why="harmless")
    async def health(self, caller: Caller) -> dict[str, Any]:
        """Say that it works, for how long it has, and which agents there are; to a guest, which one is theirs."""
        policy, now = self._core.policy, self._now()
        if self._told[0] is not policy:
            self._told = policy, [{"agentId": each} for each in sorted({"main", *policy.agents})]
        agents = self._told[1] if self._core.is_owner(caller) else [{"agentId": agent_of(caller)}]
        return {
            "ok": True, "ts": int(now * 1000), "uptimeMs": int((now - self._began) * 1000), "version": self._version,
            "defaultAgentId": "main", "agents": agents, "channels": _NO_CHANNELS,
        }  # fmt: skip

    @rpc("status", clients="read", shared=True, why="own")
    async def status(self, caller: Caller) -> dict[str, Any]:
        """Say how the sessions that the caller may see stand."""
        heads = await self._sessions.find_heads(caller)
        status = {"ts": int(self._now() * 1000), "uptimeMs": self.uptime_ms(), "version": self._version}
        recent = [self._sessions.describe(each) for each in heads[:10]]
        if self._core.is_owner(caller):
            status |= {"connections": len(self.presence), "logFile": str(self._log_path or "")}
            status |= {"notInForce": self.not_in_force} if self.not_in_force else {}
        running = [self._sessions.describe(each) for each in heads if self._sessions.is_running(each.key)]
        status |= describe_sources(source for row in (*recent, *running) for source in row.get("sources", ()))
        return {**status, "sessions": {"count": len(heads), "recent": recent, "running": running}}

    @at_once
    @rpc("system-presence", clients="read", why="own")
    async def present(self, caller: Caller) -> list[dict[str, Any]]:
        """List who is connected; empty for anybody but the owner."""
        return self.presence.rows() if self._core.is_owner(caller) else []

    @at_once
    @rpc("models.list", clients="read", why="own")
    async def models(self, caller: Caller) -> dict[str, Any]:
        """List the models that the configuration names; to a guest, the one that answers them."""
        if not self._core.is_owner(caller):
            own = self._core.models.default(agent_of(caller))
            return {"models": [{"id": own, "name": own}]}
        default = self._core.models.default("main")
        named = [default, *(name for name in map(self._core.models.default, self._core.policy.agents) if name)]
        return {"models": [{"id": each, "name": each} for each in dict.fromkeys(named)]}

    @at_once
    @rpc("agent.identity.get", clients="read", shared=True, why="own")
    async def identity(
        self,
        caller: Caller,
        agentId: str = "",  # noqa: N803  as the protocol spells its parameters
        sessionKey: str = "",  # noqa: N803
    ) -> dict[str, Any]:
        """Tell the name of an agent, or of the one that answers in a session; to a guest, of theirs."""
        id = to_agent(agentId or agent_from_key(sessionKey)) if self._core.is_owner(caller) else agent_of(caller)
        own = self._core.config.agent(id)
        return {"agentId": id, "name": (own.name if own else None) or id}

    @rpc("gateway.restart", clients="write", as_tool=work_of("gateway", by_hand=True, action="restart"))
    async def restart(
        self,
        caller: Caller,
        delayMs: Annotated[int, Field(ge=0, le=60_000)] = 1_000,  # noqa: N803  as the protocol spells its parameters
    ) -> dict[str, Any]:
        """Start the gateway anew, for its owner: sessions are kept, and what runs has a few seconds to end."""
        if not self._core.is_owner(caller) or caller.parents:
            raise ToolError("only the owner may restart the gateway", code="denied")
        if self.on_restart is None:
            raise ToolError("no gateway runs here that could be restarted", code="unavailable")
        asyncio.get_running_loop().call_later(delayMs / 1000, self.on_restart)
        return {"ok": True, "delayMs": delayMs}

    @rpc("logs.tail", clients="read", tools="admin", why="owner")
    async def tail(
        self,
        caller: Caller,
        cursor: Annotated[int, Field(ge=0, description="where the last look ended")] | None = None,
        limit: Annotated[int, Field(ge=1, le=5_000)] = 500,
        maxBytes: Annotated[int, Field(ge=1, le=1_000_000)] = 250_000,  # noqa: N803
    ) -> dict[str, Any]:
        """Show the last lines of the log, or those behind a cursor; secrets are left out."""
        self._check_owner(caller, "the log")
        if self._log_path is None:
            raise ToolError("this crib keeps nothing, and no log either", code="unavailable")
        # it is begun anew before it is long, so that all of it can be read
        text, path = await in_thread(_read, self._log_path), str(self._log_path)
        is_new = cursor is not None and cursor > len(text)
        begin, end, lines = 0 if is_new else cursor or 0, text.rfind(b"\n") + 1, deque[str]()
        every = text[begin:end].decode(errors="replace").split("\n")[:-1]
        for line in reversed(every[-limit:]):
            if (maxBytes := maxBytes - len(line) - 1) < 0:  # noqa: N806
                break
            lines.appendleft((self._core.redact_errors or str)(line))
        position = {"cursor": max(begin, end), "size": len(text), "truncated": len(lines) < len(every), "reset": is_new}
        return {"file": path, "lines": list(lines), **position}

    def _check_owner(self, caller: Caller, what: str) -> None:
        if not self._core.is_owner(caller) or caller.parents:
            raise ToolError(f"only the owner may see {what}", code="denied")

    @rpc("exec.approval.resolve", clients="approve")
    async def resolve_approval(
        self, caller: Caller, id: str, decision: Literal["allow-once", "allow-always", "deny"]
    ) -> dict[str, Any]:
        """Answer a question about a call, as `approvals.answer` does; a lasting yes holds for a day."""
        answer: Literal["once", "lasting", "no"] = "once" if decision == "allow-once" else "no"
        if decision == "allow-always":
            answer = "lasting"
        await self._core.find(Approvals).answer(caller, id, answer, seconds=_ALWAYS_SECONDS)
        return {"ok": True}

    def tell_question(self, question: Question) -> None:
        """Tell who may answer it of a question, and that it is settled."""
        approvals = self._core.find(Approvals)

        def is_for(caller: Caller) -> bool:
            return approvals.may_refuse(caller, question)

        if question.state == "pending":
            asked = {"tool": question.tool, "command": question.shown, "reason": question.reason}
            times = {"createdAtMs": int(question.asked_at * 1000), "expiresAtMs": int(question.expires_at * 1000)}
            payload = {"id": question.id, "request": asked, **times}
            self.bus.publish("exec.approval.requested", payload, "", is_for)
        else:
            decision = "deny" if question.state == "denied" else question.state
            payload = {"id": question.id, "decision": decision, "resolvedBy": question.by}
            self.bus.publish("exec.approval.resolved", payload, "", is_for)

    def now_ms(self) -> int:
        """Return the time."""
        return int(self._now() * 1000)

    def uptime_ms(self) -> int:
        """Return for how long it has been there."""
        return int((self._now() - self._began) * 1000)
