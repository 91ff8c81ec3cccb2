"""Sessions as the protocol of the gateway speaks of them: listed, looked into, found, labelled, begun anew."""

import base64
import time
from collections.abc import Mapping, Sequence
from itertools import chain
from secrets import token_hex
from typing import Annotated, Any

from pydantic import Field

from toolcrib.adapter.fence import cut_fenced
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.log import Labelled, Said, SessionHead, SessionStore, Shortened, trace_messages
from toolcrib.define.message import Message, describe_content
from toolcrib.define.ports import rpc
from toolcrib.define.result import Image
from toolcrib.define.session import agent_from_key, to_agent, to_thread_key
from toolcrib.lazy import dataclass, replace

from .feature import Feature, TurnCore
from .sessions import Sessions, describe_pending, describe_sources, session_id

_LABEL_CHARS = 64
_PAGE_BYTES = 6 * 1024 * 1024  # of one answer
_PREVIEW_CHARS = 240
_MAX_BEGINNINGS = 10_000
_LEFT_OUT = "Earlier messages were left out here."

Limit = Annotated[int, Field(ge=1, le=10_000)]
KeyText = Annotated[str, Field(min_length=1, max_length=255)]


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionQuery:
    """Which sessions are listed, and with what fields."""

    limit: Limit = 50
    activeMinutes: Annotated[int, Field(ge=1)] | None = None  # noqa: N815  as the protocol spells it
    label: str = ""
    agentId: str = ""  # noqa: N815
    spawnedBy: str = ""  # noqa: N815
    search: str = ""
    includeLastMessage: bool = False  # noqa: N815
    includeDerivedTitles: bool = False  # noqa: N815
    includeGlobal: bool = False  # noqa: N815
    includeUnknown: bool = False  # noqa: N815


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPatch:
    """What is changed about a session; None leaves it, and "" goes back to what it was by itself."""

    key: KeyText
    label: Annotated[str, Field(max_length=_LABEL_CHARS)] | None = None
    model: str | None = None


def mount(core: TurnCore) -> Feature:
    """Mount what the gateway tells of sessions."""
    return Feature(services=(SessionCommands(core.stores.sessions, core.find(Sessions)),))


class SessionCommands:
    """The sessions of a crib, for clients of the gateway. Who may see which is decided by `Sessions`."""

    def __init__(self, store: SessionStore, sessions: Sessions) -> None:
        self._store, self._sessions = store, sessions
        self._beginnings: dict[str, str] = {}  # of sessions, by their ids: a list reads none of them twice

    @rpc("sessions.list", clients="read", shared=True, why="own")
    async def list_sessions(self, caller: Caller, query: SessionQuery) -> dict[str, Any]:
        """List the sessions that the caller may see, the latest first."""
        pending, rows = await self._sessions.find_pending(), list[dict[str, Any]]()
        sources = list[str]()
        for head in await self._sessions.find_heads(caller):
            if len(rows) == query.limit:
                break
            name = head.title or (await self._find_beginning(head) if query.includeDerivedTitles else "")
            if not _matches(head, query, name):
                continue
            row = {**self._sessions.describe(head), **describe_pending(pending.get(head.key, ()))}
            if query.includeDerivedTitles and not head.title:
                row["derivedTitle"] = name or None
            sources += [head.source] if head.title else []
            if query.includeLastMessage and (last := (await self._trace(head.key))[-1:]):
                row["lastMessagePreview"] = cut_fenced(describe_content(last[0][0]), _PREVIEW_CHARS)
                sources += last[0][1]
            rows.append(row)
        return {"ts": int(time.time() * 1000), "count": len(rows), "sessions": rows} | describe_sources(sources)

    async def _find_beginning(self, head: SessionHead) -> str:
        """Return the first words of a session, "" while there are none: what one without a title is called."""
        if not (found := self._beginnings.get(id := session_id(head), "")):
            history = (await self._sessions.read_standing(head.key)).history
            asked = (describe_content(each)[:_LABEL_CHARS] for each in history if each.role == "user")
            if len(self._beginnings) >= _MAX_BEGINNINGS:
                self._beginnings.clear()
            found = self._beginnings[id] = next(asked, "")
        return found

    @rpc("chat.history", clients="read", shared=True, why="own")
    async def history(
        self,
        caller: Caller,
        sessionKey: KeyText = "",  # noqa: N803  as the protocol spells it
        limit: Annotated[int, Field(ge=1, le=1_000)] = 200,
        before: Annotated[int, Field(ge=0), "those before this one, counted from the first"] | None = None,
        pictures: Annotated[bool, "with the pictures themselves, as far as there is room"] = False,
    ) -> dict[str, Any]:
        """Show the last messages of a session, or those before one; `first` is the number of the first shown."""
        head = await self._sessions.find_visible(caller, sessionKey or caller.session or "main", makes=True)
        shown, left = list[dict[str, Any]](), _PAGE_BYTES
        messages = (await self._trace(head.key))[:before]
        for message, sources in messages[: -limit - 1 : -1]:
            row = _render(message) | describe_sources(sources)
            left -= len(describe_content(message))
            if left < 0:
                break
            for part in message.content if pictures else ():
                if isinstance(part, Image) and len(part.data) * 2 < left:
                    left -= len(part.data) * 2
                    data = base64.b64encode(part.data).decode()
                    row["content"].append({"type": "image", "data": data, "mimeType": part.mime})
            shown.append(row)
        answer = {"sessionKey": head.key, "sessionId": session_id(head), "messages": shown[::-1]}
        answer |= describe_sources(each for row in shown for each in row.get("sources", ()))
        return {**answer, "first": len(messages) - len(shown)}

    @rpc("sessions.preview", clients="read", shared=True, why="own")
    async def preview(
        self,
        caller: Caller,
        keys: Annotated[Sequence[KeyText], Field(min_length=1, max_length=64)],
        limit: Annotated[int, Field(ge=1, le=100)] = 12,
        maxChars: Annotated[int, Field(ge=20, le=4_000)] = _PREVIEW_CHARS,  # noqa: N803
    ) -> dict[str, Any]:
        """Show the last words of several sessions."""
        previews, sources = list[dict[str, Any]](), list[str]()
        for key in keys:
            try:
                head = await self._sessions.find_visible(caller, key)
            except ToolError:
                previews.append({"key": key, "status": "missing", "items": list[Any]()})
                continue
            last = (await self._trace(head.key))[-limit:]
            items = [{"role": each.role, "text": cut_fenced(describe_content(each), maxChars)} for each, _ in last]
            previews.append({"key": key, "status": "ok" if items else "empty", "items": items})
            sources += chain.from_iterable(each for _, each in last)
        return {"ts": int(time.time() * 1000), "previews": previews} | describe_sources(sources)

    @rpc("sessions.resolve", clients="admin")
    async def resolve(
        self,
        caller: Caller,
        key: str = "",
        sessionId: str = "",  # noqa: N803
        label: str = "",
    ) -> dict[str, Any]:
        """Find a session by exactly one of its key, its id and its label."""
        if sum(map(bool, (key, sessionId, label))) != 1:
            raise ToolError("name one of key, sessionId and label", code="bad_arguments")
        if key:
            return {"ok": True, "key": (await self._sessions.find_visible(caller, key)).key}
        heads = await self._sessions.find_heads(caller)
        found = [head.key for head in heads if (session_id(head) == sessionId if sessionId else head.title == label)]
        if len(found) == 1:
            return {"ok": True, "key": found[0]}
        what = f"{len(found)} sessions are called so; name one by its key" if found else "there is no such session"
        raise ToolError(what, code="not_found")

    @rpc("sessions.patch", clients="admin")
    async def patch(self, caller: Caller, query: SessionPatch) -> dict[str, Any]:
        """Give a session a label, or let another model answer in it."""
        head = await self._sessions.find_visible(caller, query.key)
        if query.label is not None:
            await self._sessions.write(head.key, Labelled(query.label))
        if query.model is not None:
            await self._sessions.switch(caller, query.model or "default", head.key)
        return {"ok": True, "key": head.key, "entry": self._sessions.describe(await self._find(head.key))}

    @rpc("sessions.reset", clients="admin")
    async def reset(self, caller: Caller, key: KeyText) -> dict[str, Any]:
        """Reset a session; its messages are kept under another key."""
        head = await self._sessions.find_visible(caller, key)
        self._require_idle(head.key)
        kept = f"{head.key}:before:{token_hex(4)}"
        await self._store.add(replace(head, key=kept), await self._store.lines(head.key))
        await self._sessions.end(head.key)  # first, as in a deletion
        await self._store.delete(head.key)
        return {"ok": True, "key": head.key, "archived": kept}

    @rpc("sessions.branch", clients="admin")
    async def branch(
        self,
        caller: Caller,
        key: KeyText,
        before: Annotated[int, Field(ge=0), "the number of a question, as chat.history counts; else all"] | None = None,
    ) -> dict[str, Any]:
        """Go on with a session in another one, from its end or before a question; the first stays as it is."""
        head = await self._sessions.find_visible(caller, key)
        standing = await self._sessions.read_standing(head.key)
        lines = list(standing.path)
        if before is not None:
            asked = standing.history[before] if before < len(standing.history) else None
            at = next((at for at, each in enumerate(lines) if _is_question(each.body) and each.body[0] is asked), None)
            if at is None:
                raise ToolError(f"message {before} is no question that is still there", code="bad_arguments")
            lines = lines[:at]
        made = to_thread_key(head.key, f"branch-{token_hex(4)}")  # a thread: the rules of its chat are about it, too
        await self._store.add(replace(head, key=made), lines)
        return {"ok": True, "key": made, "from": head.key, "lines": len(lines)}

    @rpc("sessions.compact", clients="admin")
    async def compact(
        self,
        caller: Caller,
        key: KeyText,
        maxLines: Annotated[int, Field(ge=1, le=100_000)] = 400,  # noqa: N803
    ) -> dict[str, Any]:
        """Show a session's model only its last lines from now on; nothing is deleted."""
        head = await self._sessions.find_visible(caller, key)
        self._require_idle(head.key)
        messages = [line for line in (await self._sessions.read_standing(head.key)).path if isinstance(line.body, Said)]
        # a conversation goes on with somebody who asks, not with an answer to what nobody sees
        kept = next((line for line in messages[-maxLines:] if _is_question(line.body)), None)
        if len(messages) <= maxLines or kept is None:
            return {"ok": True, "key": head.key, "compacted": False, "kept": len(messages)}
        await self._sessions.write(head.key, Shortened(_LEFT_OUT, kept.id, 0))
        return {"ok": True, "key": head.key, "compacted": True, "kept": len(messages) - messages.index(kept)}

    def _require_idle(self, key: str) -> None:
        if self._sessions.is_running(key):
            raise ToolError("a turn runs in this session; stop it, or wait for its end", code="busy")

    async def _find(self, key: str) -> SessionHead:
        head = await self._store.find(key)
        if head is None:
            raise ToolError("the session has just been deleted", code="not_found")
        return head

    async def _trace(self, key: str) -> list[tuple[Message, tuple[str, ...]]]:
        """Return the messages of a session, each with where it came from, as far as it is outside."""
        standing = await self._sessions.read_standing(key)
        traced = trace_messages(standing.history, key, standing.path)
        return list(zip(standing.history, traced, strict=True))


def _matches(head: SessionHead, query: SessionQuery, name: str) -> bool:
    is_recent = query.activeMinutes is None or head.changed_at >= time.time() - query.activeMinutes * 60
    is_agents = not query.agentId or agent_from_key(head.key) == to_agent(query.agentId)
    is_called = not query.label or head.title == query.label
    is_spawned = not query.spawnedBy or query.spawnedBy in head.parents
    is_found = query.search.lower() in f"{head.key} {name}".lower()
    return is_recent and is_agents and is_called and is_found and is_spawned


def _is_question(body: Any) -> bool:
    return isinstance(body, Said) and body.message.role == "user"


def _render(message: Message) -> dict[str, Any]:
    content: list[Mapping[str, Any]] = [{"type": "text", "text": describe_content(message)}]
    for call in message.calls:
        content.append({"type": "toolCall", "id": call.id, "name": call.name, "arguments": dict(call.args)})
    row: dict[str, Any] = {"role": message.role, "content": content}
    if message.role == "tool":
        row |= {"role": "toolResult", "toolCallId": message.call_id, "isError": message.status == "error"}
    if message.role == "user" and "#" in message.by:  # so that who follows the run shows nothing twice
        row["runId"] = message.by.partition("#")[2].rstrip("?!")
    return row | ({"timestamp": int(message.at * 1000)} if message.at else {})
