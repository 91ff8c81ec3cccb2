"""Messages from one session to another: found by key or label, within what the agents may, and bounded.

A message reaches the other session as one from this session, not from its user, and is answered with no more rights
than the caller has: the turn there has the caller as its parent.
"""

from dataclasses import replace
from secrets import token_hex
from typing import Annotated, Any

from pydantic import Field

from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.log import read_sources
from toolcrib.define.ports import rpc, work_of
from toolcrib.define.session import agent_from_key, may_message
from toolcrib.define.taint import source_after
from toolcrib.define.turn import TurnRequest, user_message
from toolcrib.policy.resolve import agent_of, child_of

from .chat import Chats
from .chat_run import FinishedRun, Outside
from .feature import Feature, TurnCore
from .session_commands import SessionCommands

SKIP = "REPLY_SKIP"
_MAX_DEPTH = 5


def mount(core: TurnCore) -> Feature:
    """Mount what carries messages between sessions."""
    return Feature(services=(SessionSend(core, core.find(Chats), core.find(SessionCommands)),))


class SessionSend:
    """Carries messages between the sessions that a caller may see."""

    def __init__(self, core: TurnCore, chat: Chats, desk: SessionCommands) -> None:
        self._core, self._chat, self._desk, self._settings = core, chat, desk, core.settings

    @rpc(
        "sessions.send",
        clients="write",
        as_tool=work_of("sessions_send", {"key": "sessionKey", "seconds": "timeoutSeconds"}, by_hand=True),
        starts_turn=True,
        shared=True,
    )
    async def send(
        self,
        caller: Caller,
        message: Annotated[str, Field(min_length=1)],
        key: str = "",
        label: str = "",
        seconds: Annotated[float, Field(ge=0, le=3_600)] = 30,
        outside: Outside = "",
    ) -> dict[str, Any]:
        """Send a message to another session and wait for the answer; with 0 seconds do not wait."""
        found = await self._desk.resolve(caller, key=key, label=label)
        target: str = found["key"]
        if target == caller.session:
            raise ToolError("that is the session you are in; answer here", code="bad_arguments")
        mine, theirs = agent_of(caller), agent_from_key(target)
        allowed = self._settings.config.tools.agent_to_agent
        if not may_message(mine, theirs, enabled=allowed.enabled, allow=allowed.allow):
            what = f"agent {mine} may not send to agent {theirs}; the owner permits it in tools.agentToAgent"
            raise ToolError(what, code="denied")
        if len(caller.parents) >= _MAX_DEPTH:
            raise ToolError(f"messages between sessions go {_MAX_DEPTH} deep and no further", code="denied")
        there = replace(child_of(self._settings.policy, caller, theirs, target), session=target)
        whose = f"This is from the session {caller.session or mine}, not from the user"
        body = f"{message}\n\n[{whose}. To say nothing back, answer {SKIP}.]"
        heard = user_message(body, source=source_after(caller.session or mine, (outside,)) or "")
        begun = await self._chat.begin(caller, TurnRequest(message=heard, caller=there), token_hex(12))
        if isinstance(begun, FinishedRun):
            raise ToolError(begun.error or "it was sent before", code="failed")
        run, _ = begun
        answer: dict[str, Any] = {"runId": run.id, "sessionKey": target}
        if seconds == 0:
            return {**answer, "status": "accepted"}
        end = await self._chat.wait_for_end(run, seconds)
        # what it says may go back to anything that it has read
        source = source_after(f"agent:{target}", await read_sources(self._core.stores.sessions, target))
        answer |= {"source": source} if source else {}
        if end is None:
            error = run.error()
            return {**answer, "status": "error", "error": error} if error else {**answer, "status": "timeout"}
        text = end.text
        return {**answer, "status": "ok", "reply": "" if text.strip() == SKIP else text}
