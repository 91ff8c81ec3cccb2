"""Sessions as callers see them: status, list and history; each caller sees its own, the owner all."""

import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from secrets import token_hex
from typing import Annotated, Any, Protocol

from pydantic import Field

from toolcrib.adapter.fence import cut_fenced
from toolcrib.define.agent import is_called
from toolcrib.define.caller import Caller
from toolcrib.define.display import escape
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.event import Usage
from toolcrib.define.later import PendingCall
from toolcrib.define.log import Body, Ended, Line, SessionHead, SessionStore, Switched, trace_messages
from toolcrib.define.message import Call, Message, describe_content
from toolcrib.define.model import History
from toolcrib.define.ports import rpc
from toolcrib.define.result import Image
from toolcrib.define.session import agent_from_key, check_key, is_within, kind_from_key, to_store_key
from toolcrib.lazy import dataclass, replace

from .calls import PendingCalls
from .feature import Feature, ModelNames, RunningTurn, TurnCore

_TEXT_CHARS = 4_000  # characters of one message
_PAGE_CHARS = 200_000  # and of all that are shown at once
_ALL_SESSIONS = 1_000_000  # sessions: more than there are


class SessionSummary(Protocol):
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


Recall = Callable[[Sequence[Line]], SessionSummary]


@dataclass(frozen=True, slots=True)
class LogCodec:
    """A whole session as texts, a line each: `read` checks all of it and raises CribError, `write` loses nothing."""

    read: Callable[[Iterable[str]], tuple[SessionHead, Sequence[Line]]]
    write: Callable[[SessionHead, Iterable[Line]], Iterator[str]]


def mount(core: TurnCore, recall: Recall, codec: LogCodec) -> Feature:
    """Mount what tells about sessions, and lets their owner choose among the configured models."""
    service = Sessions(
        core.stores.sessions, recall, codec=codec, models=core.models, is_owner=core.is_owner, running=core.running
    )
    service.ends, service.list_pending = core.session_ends, core.find(PendingCalls).waiting
    return Feature(services=(service,))


async def _list_none() -> Sequence[PendingCall]:
    return ()


def describe_pending(pending: Sequence[PendingCall]) -> dict[str, Any]:
    """Return the calls of a session that wait to be completed, as JSON; nothing where none does."""
    calls = [{"handle": each.handle, "tool": each.call.name} for each in pending]
    return {"pending": calls} if calls else {}


def _without_pending(calls: Iterable[Call], pending: Sequence[PendingCall]) -> list[Call]:
    known = {each.key for each in pending}
    return [call for call in calls if call.key not in known]


class Sessions:
    """The sessions that one store keeps. A caller sees its own session, the owner sees all of them (G28)."""

    def __init__(  # noqa: PLR0913  each by name
        self,
        store: SessionStore,
        recall: Recall,
        *,
        codec: LogCodec,
        models: ModelNames,
        is_owner: Callable[[Caller], bool],
        running: Callable[[str], RunningTurn | None],
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._recall, self._models = store, recall, models
        self._is_owner, self._running, self._now, self._codec = is_owner, running, now, codec
        self.ends: Sequence[Callable[[str], Awaitable[None]]] = ()
        self.list_pending: Callable[[], Awaitable[Sequence[PendingCall]]] = _list_none

    async def find_pending(self) -> dict[str, list[PendingCall]]:
        """Return the calls that wait to be completed, by session."""
        found = dict[str, list[PendingCall]]()
        for each in await self.list_pending():
            found.setdefault(each.session, []).append(each)
        return found

    @rpc("sessions.status", clients="read", shared=True, why="own")
    async def status(
        self, caller: Caller, key: Annotated[str, "the session; the caller's own when empty"] = ""
    ) -> dict[str, Any]:
        """Tell how a session stands: model, messages, tokens, cost, whether a turn runs, how the last one ended."""
        head = await self.find_visible(caller, key, makes=True)
        found = await self.read_standing(head.key)
        is_running, pending = self.is_running(head.key), (await self.find_pending()).get(head.key, [])
        left = _without_pending(found.uncertain, pending)
        model = found.model or self._default_model(head.key)
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
            "uncertain": [] if is_running else [{"id": call.id, "name": call.name} for call in left],
            "changedAt": head.changed_at,
            **describe_pending(pending),
        }

    def is_running(self, key: str) -> bool:
        """Tell whether a turn runs in a session."""
        return self._running(key) is not None

    async def find_heads(self, caller: Caller) -> Sequence[SessionHead]:
        """Return the sessions that the caller may see, the latest first: its own and those below it; the owner all."""
        heads = await self._store.list(most=_ALL_SESSIONS)
        return (
            heads if self._is_owner(caller) else [head for head in heads if is_within(head.key, caller.session or "")]
        )

    def describe(self, head: SessionHead) -> dict[str, Any]:
        """Return what a list tells of a session."""
        return {
            "key": head.key,
            "kind": kind_from_key(head.key),
            "sessionId": session_id(head),
            "label": head.title or None,
            "title": head.title,
            "model": head.model or self._default_model(head.key),
            "lines": head.count,
            "parents": list(head.parents),
            "spawnedBy": head.parents[-1] if head.parents else None,
            "switched": head.model,
            "running": self.is_running(head.key),
            "madeAt": head.made_at,
            "changedAt": head.changed_at,
            "updatedAt": int(head.changed_at * 1000),
            **describe_sources((head.source,) if head.title else ()),
        }

    @rpc("sessions.history", clients="read", shared=True, why="own")
    async def history(
        self,
        caller: Caller,
        key: Annotated[str, "the session; the caller's own when empty"] = "",
        most: Annotated[int, Field(ge=1, le=1000, description="messages to show, counted from the last")] = 50,
        chars: Annotated[int, Field(ge=1, le=_TEXT_CHARS, description="of each message")] = _TEXT_CHARS,
    ) -> dict[str, Any]:
        """Show the last messages of a session as its model is shown them, each cut to a few thousand characters."""
        head = await self.find_visible(caller, key)
        standing = await self.read_standing(head.key)
        messages, traced = standing.history, list(trace_messages(standing.history, head.key, standing.path))
        shown: list[dict[str, Any]] = []
        left = _PAGE_CHARS
        for index in range(len(messages) - 1, max(-1, len(messages) - 1 - most), -1):
            row = _render_row(messages[index], chars) | describe_sources(traced[index])
            left -= len(row["text"])
            if left < 0:
                break
            shown.append(row)
        shown.reverse()
        answer = {"key": head.key, "messages": shown, "before": len(messages) - len(shown)}
        return answer | describe_sources(each for row in shown for each in row.get("sources", ()))

    @rpc("sessions.switch", clients="admin")  # and no tool: the owner's model is not the owner
    async def switch(
        self,
        caller: Caller,
        model: Annotated[str, "a model that the configuration names; default goes back to the configured one"],
        key: Annotated[str, "the session; the caller's own when empty"] = "",
    ) -> dict[str, Any]:
        """Let another model answer in a session from its next turn on. Only the owner may, at a door."""
        head = await self.find_visible(caller, key)
        # rules may give models different tools, so whoever could choose one could choose its tools (G8)
        if not self._is_owner(caller) or caller.parents:
            raise ToolError("only the owner, in a session of their own, may switch models", code="denied")
        chosen = self._choose(model)
        found = await self.read_standing(head.key)
        if found.model != chosen:
            await self.write(head.key, Switched(chosen))
        return {"key": head.key, "changed": found.model != chosen, "model": chosen or self._default_model(head.key)}

    # what an operator asks for, and no tool: whole logs

    @rpc("sessions.show", clients="admin")
    async def show(self, key: Annotated[str, "the whole key of the session"]) -> dict[str, Any]:
        """Show all that a model would be shown of a session, with what it took and the calls that never ended."""
        head = await self._find(key)
        found, pending = self._recall(await self._store.lines(key)), (await self.find_pending()).get(key, [])
        left = _without_pending(found.uncertain, pending)
        return {
            "key": head.key,
            "lines": head.count,
            "madeAt": head.made_at,
            "changedAt": head.changed_at,
            "parents": list(head.parents),
            "title": head.title,
            "model": head.model,
            "usage": {"input": found.usage.input, "output": found.usage.output, "cost": found.cost},
            "uncertain": [{"id": call.id, "tool": call.name} for call in left],
            "messages": [_render_whole(message) for message in found.history],
            **describe_pending(pending),
        }

    @rpc("sessions.export", clients="admin")
    async def export(self, key: Annotated[str, "the whole key of the session"]) -> list[str]:
        """Return a session as JSON, one text a line."""
        return list(self._codec.write(await self._find(key), await self._store.lines(key)))

    @rpc("sessions.import", clients="admin")
    async def import_(
        self,
        texts: Annotated[Sequence[str], "what export returned"],
        key: Annotated[str, "the session to make; else the one named in the texts"] = "",
    ) -> dict[str, Any]:
        """Keep a session that was exported. All of it is checked before any of it is kept."""
        try:
            head, lines = self._codec.read(texts)
            self._recall(lines)
        except CribError as error:
            raise ToolError(str(error), code="bad_log") from error
        name = check_key(key or head.key)
        await self._store.add(replace(head, key=name), lines)
        return {"key": name, "lines": len(lines)}

    @rpc("sessions.delete", clients="admin")
    async def delete(self, key: Annotated[str, "the whole key of the session"]) -> dict[str, Any]:
        """Forget a session, and the logs of agents that it called. The record of its calls stays."""
        await self._find(key)
        every = await self._store.list(most=_ALL_SESSIONS)
        called = [each.key for each in every if key in each.parents and is_called(each.key)]
        for each in (*called, key):
            await self.end(each)  # first: what is held for a session must not outlive it, whatever happens in between
            await self._store.delete(each)
        return {"key": key, "called": called}

    async def end(self, key: str) -> None:
        """Let go of all that is held for a session."""
        for each in self.ends:
            await each(key)

    async def _find(self, key: str) -> SessionHead:
        head = await self._store.find(key)
        if head is None:
            raise ToolError(f"there is no session {escape(key[:200])!r}", code="not_found")
        return head

    async def find_visible(self, caller: Caller, key: str, *, makes: bool = False) -> SessionHead:
        """Return the session that is meant; one the caller may not see is answered like one that does not exist.

        `makes` takes the caller's own for one with nothing in it, where it is not there yet.
        """
        wanted = key.strip() or caller.session or ""
        if not wanted:
            raise ToolError("this call belongs to no session; name one by its key", code="bad_arguments")
        agent = caller.agent or agent_from_key(caller.session or "")
        for each in dict.fromkeys((wanted, to_store_key(agent, wanted))):
            if not self._is_owner(caller) and not is_within(each, caller.session or ""):
                continue
            if head := await self._store.find(check_key(each)):
                return head
        if makes and wanted == caller.session:  # it has no message yet
            return SessionHead(key=wanted, made_at=self._now(), changed_at=self._now())
        raise ToolError(f"there is no session {escape(wanted[:200])!r} that this caller may see", code="not_found")

    async def read_standing(self, key: str) -> SessionSummary:
        try:
            return self._recall(await self._store.lines(key))
        except CribError as error:
            raise ToolError(f"the session {key} cannot be read: {error}", code="broken") from error

    def _choose(self, model: str) -> str:
        word = model.strip()
        if word.lower() == "default":
            return ""
        chosen = self._models.named(word)
        if chosen is None:
            raise ToolError(
                f"the configuration names no model {escape(word[:100])!r}; name one of its own, or say default",
                code="not_found",
            )
        return chosen

    async def write(self, key: str, body: Body) -> None:
        """Add a line to a session, through its turn where one runs."""
        if turn := self._running(key):
            turn.add(body)
            await turn.flush()
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

    def _default_model(self, key: str) -> str:
        return self._models.default(agent_from_key(key))


def describe_sources(sources: Iterable[str]) -> dict[str, Any]:
    """Return the outside sources of an answer, as JSON; nothing where there are none."""
    found = list(dict.fromkeys(each for each in sources if each))
    return {"sources": found} if found else {}


def session_id(head: SessionHead) -> str:
    """Return the id of a session: another one once it was forgotten and made anew."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"{head.key}@{head.made_at}"))


def _render_row(message: Message, chars: int) -> dict[str, Any]:
    text = describe_content(message)
    row: dict[str, Any] = {"role": message.role, "text": cut_fenced(text, chars), "at": message.at}
    if len(text) > chars:
        row["cut"] = len(text)
    if message.calls:
        row["calls"] = [{"id": call.id, "name": call.name} for call in message.calls]
    if message.role == "tool":
        row |= {"call": message.call_id, "status": message.status}
    return row


def _render_whole(message: Message) -> dict[str, Any]:
    """Return a message with all it holds; of a picture, what kind it is."""
    text = "\n".join(f"[{part.mime}]" if isinstance(part, Image) else part.text for part in message.content)
    calls = [{"id": call.id, "tool": call.name, "args": dict(call.args)} for call in message.calls]
    return {"role": message.role, "text": text, "calls": calls}
