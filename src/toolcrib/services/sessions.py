"""Sessions as callers see them: how they stand, which there are, what was said; each caller its own, the owner all."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from secrets import token_hex
from typing import Annotated, Any, Protocol

from pydantic import Field

from toolcrib.define.caller import Caller
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.event import Usage
from toolcrib.define.history import History
from toolcrib.define.log import Body, Ended, Line, SessionHead, SessionStore, Switched
from toolcrib.define.message import Call, Message, Thinking
from toolcrib.define.result import Image
from toolcrib.define.rpc import rpc
from toolcrib.define.session import agent_from_key, check_key, to_store_key
from toolcrib.define.shown import escaped

__all__ = ["ModelNames", "Recall", "Running", "Sessions", "Standing"]

_LONGEST_TEXT = 4_000  # characters of one message
_LONGEST_PAGE = 200_000  # and of all that are shown at once


class Standing(Protocol):
    """What a log says about its session, as far as it is shown here."""

    @property
    def history(self) -> History: ...
    @property
    def path(self) -> Sequence[Line]: ...
    @property
    def model(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def usage(self) -> Usage: ...
    @property
    def cost(self) -> float | None: ...
    @property
    def uncertain(self) -> Sequence[Call]: ...


Recall = Callable[[Sequence[Line]], Standing]


class Running(Protocol):
    """The turn that runs in a session: it alone adds lines meanwhile."""

    def add(self, body: Body, /) -> str:
        """Take a line behind the last one; return its id."""
        ...

    def settled(self) -> Awaitable[None]:
        """Wait until what was taken is kept."""
        ...


def _no_turn(key: str) -> Running | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelNames:
    """What the configuration says about models.

    `named` gives the `provider:model` that a word stands for, None when the configuration names no such model;
    `default` the one an agent has, `window` how many tokens a model can be shown, 0 when that is not known.
    """

    named: Callable[[str], str | None]
    default: Callable[[str], str]
    window: Callable[[str], int]


class Sessions:
    """The sessions that one store keeps. A caller sees its own session, the owner sees all of them (G28)."""

    def __init__(
        self,
        store: SessionStore,
        recall: Recall,
        *,
        models: ModelNames,
        is_owner: Callable[[Caller], bool],
        running: Callable[[str], Running | None] = _no_turn,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._recall, self._models = store, recall, models
        self._is_owner, self._running, self._now = is_owner, running, now

    @rpc("sessions.status", scope="read")
    async def status(
        self, caller: Caller, key: Annotated[str, "the session; the caller's own when empty"] = ""
    ) -> dict[str, Any]:
        """Tell how a session stands: model, messages, tokens, cost, whether a turn runs, how the last one ended."""
        head = await self._seen(caller, key)
        found = await self._standing(head.key)
        is_running = self._running(head.key) is not None
        model = found.model or self._default(head.key)
        ended = next((line.body for line in reversed(found.path) if isinstance(line.body, Ended)), None)
        return {
            "key": head.key,
            "title": found.title,
            "model": model,
            "switched": bool(found.model),
            "messages": len(found.history),
            "tokens": found.history.tokens,
            "window": self._window(model),
            "input": found.usage.input,
            "output": found.usage.output,
            "cost": found.cost,
            "running": is_running,
            "ended": ended and {"reason": ended.reason, "sentence": ended.sentence},
            # a call of the turn that runs has no answer yet, either; it is not in doubt
            "uncertain": [] if is_running else [{"id": call.id, "name": call.name} for call in found.uncertain],
            "changedAt": head.changed_at,
        }

    @rpc("sessions.list", scope="read")
    async def listed(
        self, caller: Caller, most: Annotated[int, Field(ge=1, le=100, description="sessions to list")] = 50
    ) -> list[dict[str, Any]]:
        """List the sessions that the caller may see, the latest first."""
        if self._is_owner(caller):
            heads: Sequence[SessionHead] = await self._store.list(most=most)
        else:
            own = await self._store.find(caller.session) if caller.session else None
            heads = [own] if own else []
        return [
            {
                "key": head.key,
                "title": head.title,
                "model": head.model or self._default(head.key),
                "lines": head.count,
                "parents": list(head.parents),
                "running": self._running(head.key) is not None,
                "madeAt": head.made_at,
                "changedAt": head.changed_at,
            }
            for head in heads
        ]

    @rpc("sessions.history", scope="read")
    async def history(
        self,
        caller: Caller,
        key: Annotated[str, "the session; the caller's own when empty"] = "",
        most: Annotated[int, Field(ge=1, le=1000, description="messages to show, counted from the last")] = 50,
    ) -> dict[str, Any]:
        """Show the last messages of a session as its model is shown them, each cut to a few thousand characters."""
        head = await self._seen(caller, key)
        messages = (await self._standing(head.key)).history
        shown: list[dict[str, Any]] = []
        left = _LONGEST_PAGE
        for at in range(len(messages) - 1, max(-1, len(messages) - 1 - most), -1):
            row = _row(messages[at])
            left -= len(row["text"])
            if left < 0:
                break
            shown.append(row)
        shown.reverse()
        return {"key": head.key, "messages": shown, "before": len(messages) - len(shown)}

    @rpc("sessions.switch", scope="write")
    async def switch(
        self,
        caller: Caller,
        model: Annotated[str, "a model that the configuration names; default goes back to the configured one"],
        key: Annotated[str, "the session; the caller's own when empty"] = "",
    ) -> dict[str, Any]:
        """Let another model answer in a session from its next turn on. Only the owner's own callers may."""
        head = await self._seen(caller, key)
        # rules may give models different tools, so whoever could choose one could choose its tools (G8)
        if not self._is_owner(caller) or caller.parents:
            raise ToolError("only the owner, in a session of their own, may switch models", code="denied")
        chosen = self._chosen(model)
        found = await self._standing(head.key)
        if found.model != chosen:
            await self._write(head.key, Switched(chosen))
        return {"key": head.key, "changed": found.model != chosen, "model": chosen or self._default(head.key)}

    async def _seen(self, caller: Caller, key: str) -> SessionHead:
        """Return the session that is meant; one the caller may not see is answered like one that does not exist."""
        wanted = key.strip() or caller.session or ""
        if not wanted:
            raise ToolError("this call belongs to no session; name one by its key", code="bad_arguments")
        agent = caller.agent or agent_from_key(caller.session or "")
        for each in dict.fromkeys((wanted, to_store_key(agent, wanted))):
            if each != caller.session and not self._is_owner(caller):
                continue
            if head := await self._store.find(check_key(each)):
                return head
        raise ToolError(f"there is no session {escaped(wanted[:200])!r} that this caller may see", code="not_found")

    async def _standing(self, key: str) -> Standing:
        try:
            return self._recall(await self._store.lines(key))
        except CribError as error:
            raise ToolError(f"the session {key} cannot be read: {error}", code="broken") from error

    def _chosen(self, model: str) -> str:
        word = model.strip()
        if word.lower() == "default":
            return ""
        chosen = self._models.named(word)
        if chosen is None:
            raise ToolError(
                f"the configuration names no model {escaped(word[:100])!r}; name one of its own, or say default",
                code="not_found",
            )
        return chosen

    async def _write(self, key: str, body: Body) -> None:
        if turn := self._running(key):
            turn.add(body)
            await turn.settled()
            return
        lines = await self._store.lines(key)
        line = Line(token_hex(6), lines[-1].id if lines else None, self._now(), body)
        if (writing := self._store.append(key, (line,), at=len(lines))) is not None:
            await writing

    def _window(self, model: str) -> int:
        try:
            return self._models.window(model)
        except CribError:  # a model that cannot be used has a status all the same
            return 0

    def _default(self, key: str) -> str:
        return self._models.default(agent_from_key(key))


def _row(message: Message) -> dict[str, Any]:
    pieces, sources = [], list[str]()
    for part in message.content:
        if isinstance(part, Image):
            pieces.append(f"[a picture, {part.mime}]")
        elif not isinstance(part, Thinking):
            pieces.append(part.text)
            sources += [part.source] if part.source else []
    text = "\n".join(pieces)
    row: dict[str, Any] = {"role": message.role, "text": text[:_LONGEST_TEXT], "at": message.at}
    if len(text) > _LONGEST_TEXT:
        row["cut"] = len(text)
    if message.calls:
        row["calls"] = [{"id": call.id, "name": call.name} for call in message.calls]
    if message.role == "tool":
        row |= {"call": message.call_id, "status": message.status}
    return row | ({"sources": sources} if sources else {})
