"""Calls that are finished later: kept under a handle, completed once by who they were made for, and waited for.

A tool's body says `return await ctx.later("job-17")`. A turn waits for such a call as it does for a person's answer,
also over restarts; elsewhere the caller gets a pending result, and whoever completes it gets the final one.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Annotated, Any

import orjson
from pydantic import Field
from pydantic_core import PydanticSerializationError, to_jsonable_python

from toolcrib.adapter.trim import redact_result
from toolcrib.define.approval import name_of
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ArgumentError, ToolError
from toolcrib.define.later import PendingCall, PendingState, PendingStore
from toolcrib.define.message import Call
from toolcrib.define.ports import rpc
from toolcrib.define.record import Completed, Record
from toolcrib.define.result import Content, Image, Result, Text
from toolcrib.define.schema.annotations import JsonObject, JsonValue
from toolcrib.define.session import is_within
from toolcrib.define.sourced import attribute
from toolcrib.define.tool import PROGRAM

from .approvals import Approvals
from .feature import Core, Feature

log = logging.getLogger("toolcrib")

_HANDLE_CHARS, _RESULT_BYTES = 200, 4 << 20
_MAX_WAITING = 1_000  # of one person
_MAX_SECONDS = 30 * 86_400.0
_LOOK_SECONDS = 0.5  # how often the store is looked at for what was completed in another process
_WAITING: tuple[PendingState, ...] = ("waiting",)
_COMPLETED: tuple[PendingState, ...] = ("completed",)
_OPEN: tuple[PendingState, ...] = ("waiting", "completed")

HandleText = Annotated[str, Field(min_length=1, max_length=_HANDLE_CHARS)]
Conclude = Callable[[PendingCall], Awaitable[Result]]


def mount(core: Core) -> Feature:
    """Mount what keeps calls that are finished later."""

    def has_output(name: str) -> bool:
        tool = core.tools.get(name)
        return tool is not None and tool.output is not None

    service = PendingCalls(
        core.stores.pending,
        core.find(Approvals),
        is_owner=core.is_owner,
        is_theirs=core.is_theirs,
        has_output=has_output,
        record=core.stores.record,
        redact=core.redact,
    )
    core.session_ends.append(service.end_session)
    return Feature(services=(service,))


_OWN_NAMES = ("owner", PROGRAM.partition(":")[2])  # that no id of somebody is taken for


class PendingCalls:
    """The calls of one crib that wait to be completed.

    `has_output` says of a tool whether it declares its output: details from afar are for nothing else. `conclude` makes
    of a call outside of turns what a direct one gives.
    """

    def __init__(  # noqa: PLR0913  each by name
        self,
        store: PendingStore,
        approvals: Approvals,
        *,
        is_owner: Callable[[Caller], bool],
        is_theirs: Callable[[Caller, Caller], bool],
        has_output: Callable[[str], bool],
        record: Record,
        redact: Callable[[str], str] | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store, self._approvals, self._is_owner, self._is_theirs = store, approvals, is_owner, is_theirs
        self._has_output, self._record, self._redact, self._now = has_output, record, redact, now
        self._awaited: dict[str, tuple[asyncio.Event, str]] = {}  # by key: what wakes who waits, and their session
        self._is_leaving, self._left = False, set[str]()
        self.conclude: Conclude | None = None

    # what calls ask for

    async def keep(self, ctx: Ctx, handle: str, seconds: float) -> str:
        """Keep a call under a handle, and return that."""
        if not handle.isprintable() or handle != handle.strip() or len(handle) > _HANDLE_CHARS:
            raise ArgumentError(f"a handle is 1 to {_HANDLE_CHARS} printable characters, not {handle[:64]!r}")
        if not 0 < seconds <= _MAX_SECONDS:
            raise ArgumentError(f"seconds: a call waits 1 to {_MAX_SECONDS:.0f} seconds, not {seconds:g}")
        call, now = ctx.call, self._now()
        plain = to_jsonable_python(dict(call.args), fallback=str)
        await self._store.add(
            PendingCall(
                handle=handle,
                call=call._replace(args=plain),
                asker=ctx.caller,
                person=self._approvals.answerers.count_as(ctx.caller),
                made_at=now,
                until=now + seconds,
                process=self._approvals.process,
                in_turn=ctx.course.in_turn,
                outside=ctx.course.source,
            ),
            most=_MAX_WAITING,
        )
        return handle

    async def wait(self, call: Call) -> Result:
        """Return what the call was completed with, in this process or another."""
        found = await self._store.find(call.key)
        self._awaited[call.key] = woken, _ = asyncio.Event(), found.session if found else ""
        try:
            while True:
                woken.clear()
                found, now = await self._look(call, found), self._now()
                if found is not None and found.state == "completed":
                    return Result.from_json(found.result)
                if found is None or found.state != "waiting":
                    raise ToolError(f"nobody waits for {call.name} any more", code="cancelled")
                if found.until <= now and await self._store.settle(call.key, "expired", of=_WAITING):
                    over = f"nobody completed it within {found.until - found.made_at:.0f} seconds"
                    raise ToolError(
                        f"{call.name} was pending under the handle {found.handle!r}: {over}", code="timeout"
                    )
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_LOOK_SECONDS):
                        await woken.wait()
        except asyncio.CancelledError:
            if self._is_leaving:
                self._left.add(call.key)
            raise
        finally:
            del self._awaited[call.key]

    async def _look(self, call: Call, before: PendingCall | None) -> PendingCall | None:
        """Return how a call stands; as it did, while another process keeps the store busy."""
        try:
            return await self._store.find(call.key)
        except ToolError as error:
            if error.code != "busy":
                raise
            return before

    async def withdraw(self, call: Call) -> bool:
        """Let nobody complete the call any more, unless it is left for whoever comes next."""
        if call.key in self._left:
            return False
        await self._note(call, "withdrawn", of=_OPEN)
        return True

    async def take(self, call: Call) -> None:
        await self._note(call, "taken", of=_COMPLETED)

    async def _note(self, call: Call, to: PendingState, of: Collection[PendingState]) -> None:
        """Move a call on; a store that fails must not hide that it was stopped, or what came of it."""
        try:
            await self._store.settle(call.key, to, of=of)
        except ToolError:
            log.exception("that the pending call %s is %s could not be kept", call.key, to)

    # what the crib asks for

    async def open_in(self, session: str) -> tuple[PendingCall, ...]:
        """Return the calls of a session that a turn waits for, completed or not."""
        return tuple(each for each in await self._store.select(session=session, states=_OPEN) if each.in_turn)

    async def waiting(self) -> tuple[PendingCall, ...]:
        """Return every call that waits to be completed."""
        now = self._now()
        return tuple(each for each in await self._store.select(states=_WAITING) if each.until > now)

    async def list_left(self) -> list[PendingCall]:
        """Return the calls of turns whose process was gone before their result was used."""
        found = await self._store.select(states=_OPEN)
        return [each for each in found if each.in_turn and not self._approvals.is_at_work(each.process)]

    async def drop(self, left: Iterable[PendingCall], resumed: Collection[str]) -> None:
        """Let nobody complete those of the calls left whose turn does not go on: in no session that was resumed."""
        for each in left:
            if each.session not in resumed:
                await self.withdraw(each.call)

    def leave(self) -> set[str]:
        """Leave the calls that wait for whoever comes next; return the sessions in which they were made."""
        self._is_leaving = True
        return {session for _, session in self._awaited.values() if session}

    async def end_session(self, session: str) -> None:
        """Let nobody complete the calls of a session that is gone."""
        for each in await self._store.select(session=session, states=_OPEN):
            await self.withdraw(each.call)

    async def finish(
        self, caller: Caller, handle: str, result: Result, *, session: str = "", mark: str = "", is_far: bool = False
    ) -> tuple[PendingCall, Result | None]:
        """Complete a call, once; return it, and what its caller would have read where no turn goes on with it.

        Raise ToolError for a handle that the caller has nothing under, and for one that is completed already; the same
        `mark` again changes nothing.
        """
        by = name_of(caller)
        found = [each for each in await self._store.select(handle=handle) if self._is_right(caller, each)]
        found = [each for each in found if session in ("", each.session)]
        candidates = [each for each in found if self._is_theirs(each.asker, caller)] or found
        waiting = [each for each in candidates if each.state == "waiting"]
        if len(waiting) > 1:
            places = ", ".join(each.session or "no session" for each in waiting[:8])
            raise ToolError(
                f"several calls wait under {handle!r}; say in which session: {places}", code="bad_arguments"
            )
        if not waiting:
            if candidates and mark and (candidates[0].mark, candidates[0].by) == (mark, by):
                return candidates[0], None
            raise _explain_refusal(handle, candidates, self._now())
        pending = waiting[0]
        if is_far and result.status == "ok" and not self._has_output(pending.call.name):
            result = result._replace(details=None)
        outcome = {"by": by, "mark": mark, "result": self._to_plain(result)}
        if not await self._store.settle(pending.key, "completed", of=_WAITING, now=self._now(), **outcome):
            raise _explain_refusal(handle, [await self._store.find(pending.key) or pending], self._now())
        if (writing := self._record.write(Completed(pending.call, pending.call.name, handle, by))) is not None:
            await writing
        if pending.key in self._awaited:
            self._awaited[pending.key][0].set()
        if pending.in_turn or self.conclude is None:
            return pending, None
        read = await self.conclude(pending)
        await self.take(pending.call)
        return pending, read

    # what doors ask for

    @rpc("calls.list", clients="read", why="own")
    async def list_waiting(self, caller: Caller) -> list[dict[str, Any]]:
        """List the calls that wait to be completed, and that the caller may complete."""
        return [each.to_json() for each in await self.waiting() if self._is_right(caller, each)]

    @rpc("calls.complete", clients="write", why="own")
    async def complete(  # noqa: PLR0913  each by name, and nearly all have a default
        self,
        caller: Caller,
        handle: HandleText,
        content: Annotated[JsonValue, "what came of it: text, blocks {type: text, text}, or any other JSON"],
        isError: bool = False,  # noqa: N803  as MCP spells it
        structured: Annotated[JsonObject | None, "the same as a value, for a tool that declares its output"] = None,
        sessionKey: Annotated[str, "where the call was made; needed where several wait under one handle"] = "",  # noqa: N803
        idempotencyKey: Annotated[str, Field(max_length=256), "asked again with it, nothing is done twice"] = "",  # noqa: N803
    ) -> dict[str, Any]:
        """Complete a call that is pending under a handle, once; only who it was made for may, and the owner."""
        is_blocks = isinstance(content, list) and any(isinstance(each, dict) and "type" in each for each in content)
        result = read_completion({"content": content} if is_blocks else content)
        result = Result.error(result.plain_text or "failed") if isError else result._replace(details=structured)
        result = attribute(result, (source_of_client(caller),))
        pending, read = await self.finish(caller, handle, result, session=sessionKey, mark=idempotencyKey, is_far=True)
        report = {**pending.to_json(), "state": "completed"}
        return report if read is None else {**report, "result": read.to_json()}

    # steps

    def _is_right(self, caller: Caller, pending: PendingCall) -> bool:
        """Tell whether a call was made for this caller, within the session that it has; the owner has all."""
        if caller.parents or not self._is_theirs(caller, pending.asker):
            return False
        return self._is_owner(caller) or not caller.session or is_within(pending.session, caller.session)

    def _to_plain(self, result: Result) -> dict[str, Any]:
        if result.status == "pending":
            raise ToolError("a call is completed with what came of it, and that is not pending", code="bad_arguments")
        try:
            cleared = result if self._redact is None else redact_result(result, self._redact)
            plain: dict[str, Any] = to_jsonable_python(cleared.to_json())
            size = len(orjson.dumps(plain))
        except (PydanticSerializationError, TypeError, ValueError) as error:
            raise ToolError(f"the result has no form in JSON: {error}", code="bad_arguments") from error
        if size > _RESULT_BYTES:
            raise ToolError(f"a result is at most {_RESULT_BYTES:,} bytes, not {size:,}", code="too_large")
        return plain


def source_of_client(caller: Caller) -> str:
    """Return what the tools of a caller's programs have for their source; no id is taken for the program itself."""
    id = caller.sender and caller.sender.id
    return f"client:{'id:' if id in _OWN_NAMES else ''}{id or 'owner'}"


def read_blocks(blocks: Iterable[Any]) -> tuple[Content, ...]:
    """Return blocks of content that somebody sent; ToolError where one is none, or a picture that models cannot see."""
    content = Result.from_json({"content": list(blocks)}).content
    if any(isinstance(part, Image) and Image.mime_of(part.data) != part.mime for part in content):
        raise ToolError("a picture is a PNG, JPEG, GIF or WebP, and says which", code="bad_arguments")
    return content


def read_completion(result: Any, error: str = "") -> Result:
    """Return what a program answers: words, blocks of content, or JSON. Where it is from is not for it to say."""
    if error:
        return Result.error(error)
    if result is None or isinstance(result, str):
        return Result.text(result or "done")
    if not isinstance(result, dict) or not isinstance(result.get("content"), list):
        return Result.json(result)._replace(details=None)
    plain = (part._replace(source=None) for part in read_blocks(result["content"]))
    content = tuple(part._replace(embed=None) if isinstance(part, Text) else part for part in plain)
    return Result(content, status="error" if result.get("status") == "error" else "ok")


def _explain_refusal(handle: str, found: Collection[PendingCall], now: float) -> ToolError:
    """Return why nothing can be completed under a handle."""
    for each in found:
        if each.state in ("completed", "taken"):
            return ToolError(f"{handle!r} is completed already, by {each.by}", code="settled")
        if each.state == "expired" or (each.state == "waiting" and each.until <= now):
            return ToolError(f"{handle!r} comes too late: its call has expired", code="expired")
        if each.state == "withdrawn":
            return ToolError(f"nobody waits for {handle!r} any more: its call was stopped", code="settled")
    return ToolError(f"no call waits under the handle {handle[:64]!r} that this caller may complete", code="not_found")
