"""Moments of a turn and a session, and the hooks of plugins that are told of them.

    before_agent_start   may return `systemPrompt` (instead) and `prependContext` (added before the message)
    message_sending      may return `content` (instead) and `cancel`
    tool_result_persist  may return `message`: what the session keeps of an answer
    message_received, message_sent, agent_end, session_start, session_end, before_compaction, after_compaction

Hooks that only listen are told at the same time. Those that may change something run one after another, each seeing
what the one before made. None of them can hold a turn up for long, permit anything, or bring it down.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from toolcrib.define.caller import Caller
from toolcrib.define.message import Call, Message, Thinking
from toolcrib.define.plugin import Moment
from toolcrib.threads import in_thread

from .deadline import is_cancelled

__all__ = ["Moments"]

log = logging.getLogger("toolcrib")

_PATIENCE = 5.0  # seconds a hook may take
_SAYS: Mapping[str, Mapping[str, type]] = {
    "before_agent_start": {"systemPrompt": str, "prependContext": str},
    "message_sending": {"content": str, "cancel": bool},
    "tool_result_persist": {"message": Message},
}
_JOINED = frozenset({"prependContext"})


class Moments:
    """The hooks of all plugins, by the moment they are told of, in the order of the plugins."""

    def __init__(self, hooks: Iterable[tuple[str, Callable[[Moment], Any]]] = (), patience: float = _PATIENCE) -> None:
        self._hooks: dict[str, list[Callable[[Moment], Any]]] = {}
        self._patience = patience
        for name, hook in hooks:
            self._hooks.setdefault(name, []).append(hook)

    def __contains__(self, name: str) -> bool:
        return name in self._hooks

    async def tell(self, name: str, caller: Caller, **data: Any) -> None:
        """Tell every hook that listens to this moment, all at once."""
        if hooks := self._hooks.get(name):
            await asyncio.gather(
                *(self._heard(hook, Moment(name=name, caller=caller, data={**data})) for hook in hooks)
            )

    async def changed(self, name: str, caller: Caller, **data: Any) -> Mapping[str, Any]:
        """Return the data as the hooks leave it; one that fails, or says what cannot be said here, changes nothing."""
        for hook in self._hooks.get(name, ()):
            said = await self._heard(hook, Moment(name=name, caller=caller, data={**data}))
            for key, value in _understood(name, said).items():
                data[key] = f"{data[key]}\n\n{value}" if key in _JOINED and data.get(key) else value
        return data

    async def kept(self, caller: Caller, call: Call, message: Message) -> Message:
        """Return what the session keeps of an answer. Whatever a hook makes of it, it answers the same call, and a
        failure stays one.
        """
        name = "tool_result_persist"
        for hook in self._hooks.get(name, ()):
            data = {"message": message, "toolName": call.name, "toolCallId": call.id}
            said = await self._heard(hook, Moment(name=name, caller=caller, data=data))
            made = _understood(name, said).get("message", message)
            if why := _wrong(made, message):
                log.error("a hook of %s made another message of the answer to %s, which %s", name, call.id, why)
            else:
                message = made
        return message

    async def _heard(self, hook: Callable[[Moment], Any], moment: Moment) -> Any:
        try:
            async with asyncio.timeout(self._patience):
                said = await (hook(moment) if inspect.iscoroutinefunction(hook) else in_thread(hook, moment))
                return await said if inspect.isawaitable(said) else said
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            log.exception("a hook of %s failed; it goes on without", moment.name)
            return None


def _understood(name: str, said: Any) -> dict[str, Any]:
    """Return what a hook may say at this moment; the rest is logged and left out."""
    if said is None:
        return {}
    if not isinstance(said, Mapping):
        log.error("a hook of %s said %s, which is no mapping; it goes on without", name, type(said).__name__)
        return {}
    kinds = _SAYS.get(name, {})
    understood = {key: value for key, value in said.items() if key in kinds and isinstance(value, kinds[key])}
    for key in said.keys() - understood.keys():
        if said[key] is not None:
            log.error("a hook of %s said %r, which cannot be said there; it goes on without", name, key)
    return understood


def _wrong(made: Message, message: Message) -> str:
    """Say why a message cannot stand in for an answer."""
    if made.role != "tool" or made.call_id != message.call_id or made.calls:
        return "answers something else"
    if message.status == "error" and made.status != "error":
        return "makes a success of a failure"
    if any(isinstance(part, Thinking) for part in made.content):
        return "has a thought in it"
    return ""
