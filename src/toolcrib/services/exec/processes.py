"""Commands in the foreground and in the background: started as they were judged, seen only by whose they are."""

import asyncio
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, TypeVar

from pydantic import Field

from toolcrib.define.caller import Caller
from toolcrib.define.errors import ArgumentError, ToolError
from toolcrib.define.names import suggest
from toolcrib.define.ports import Blobs, Progress, rpc, work_of
from toolcrib.define.shell import Command, CommandLimits, Leftover, Shell
from toolcrib.define.taint import join_sources
from toolcrib.lazy import asdict, dataclass, field, replace
from toolcrib.policy.resolve import ResolvedCaller
from toolcrib.services.revocation import LiveWork
from toolcrib.threads import in_thread

from .output import encode_keys, encode_paste, last_lines, pack_output, page_log, parse_signal
from .process import CommandReach, ProcessTable, ProcessTerms, Seen, StartedProcess, describe_end, report_progress

log = logging.getLogger("toolcrib")

TypedAfter = Annotated[Sequence[str], "where what is in the conversation came from, as far as it is outside"]
K = TypeVar("K")
V = TypeVar("V")

_SHOWN_LINES = 2_000  # of output that are shown at once
_SCREEN_SIZE = (120, 30)
_MIN_WAIT_SECONDS, _MAX_WAIT_SECONDS = 0.01, 120.0  # for a call, before its command goes to the background
_MAX_POLL_SECONDS = 60.0
_MAX_REMEMBERED = 4_096  # permits, callers and judgements


@dataclass(frozen=True, slots=True, kw_only=True)
class Permit:
    """What the judge let through for one call: this and nothing else is started, once.

    `argv` runs as it is; without one, bash reads `script`. `line` is what the model wrote. `check_unchanged` raises
    ToolError when something that a human was shown is not the same any more, and returns a script to hold as it is;
    `folder` is the inode of the one that was shown. `only_reads`: it runs for no other reason.
    `reach` is what it may read.
    """

    line: str
    argv: tuple[str, ...] | None = None
    script: str | None = None
    cwd: str = "."
    env: Mapping[str, str] = field(default_factory=dict)
    folder: int | None = None
    check_unchanged: Callable[[], Awaitable[tuple[str, bytes] | None]] | None = None
    only_reads: bool = False
    reach: CommandReach = field(default_factory=CommandReach)


class Permits:
    """The permits of calls that have not started their command yet, and the ids of those that have."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, str], Permit] = {}
        self._spent: dict[tuple[str, str], str] = {}

    def add(self, scope: str, call: str, permit: Permit) -> None:
        """Let a call of this scope start a command; of too many permits the oldest is forgotten."""
        self._open.pop((scope, call), None)
        remember(self._open, (scope, call), permit)

    def take(self, scope: str, call: str) -> Permit:
        """Return what a call may start, for the only time. The same call, tried again, gets nothing."""
        if (scope, call) in self._spent:
            raise ToolError(
                f"this call has started its command already, as {self._spent[scope, call]}, and does not do so twice",
                code="repeated",
            )
        permit = self._open.pop((scope, call), None)
        if permit is None:
            raise ToolError("nothing was permitted for this call; use the tool exec to run a command", code="denied")
        return permit

    def spend(self, scope: str, call: str, id: str) -> None:
        """Remember what a call has started."""
        remember(self._spent, (scope, call), id)


def remember(table: dict[K, V], key: K, value: V) -> None:
    """Keep a value; of too many, the oldest goes."""
    table[key] = value
    while len(table) > _MAX_REMEMBERED:
        del table[next(iter(table))]


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecTarget:
    """Where a caller's commands run: `scope` says whose they are, `place` in which conversation, where they share one.

    `limits.seconds` is what a command gets that does not ask for less, `longest` the most it can ask for. After
    `window` seconds a command goes to the background. `shown` characters of its output are shown at once.
    """

    shell: Shell
    scope: str
    place: str = ""
    is_host: bool = False
    denied: frozenset[str] = frozenset()
    limits: CommandLimits = field(default_factory=CommandLimits)
    longest: float = 21_600.0
    window: float = 10.0
    shown: int = 50_000


def name_conversation(who: ResolvedCaller) -> str:
    """Return where somebody's processes are: an agent's in one conversation, or with who speaks where there is none."""
    caller, sender = who.caller, who.caller.sender
    conversation = caller.session or json.dumps(
        [caller.channel, caller.account, caller.group, sender and (sender.id or sender.e164), caller.parents]
    )
    return f"{who.agent} {conversation}"


_work = partial(work_of, "process", {"id": "sessionId"})


class Processes:
    """The commands of a crib; `is_theirs` tells whose is whose in a conversation that several share."""

    def __init__(
        self,
        target_of: Callable[[Caller], ExecTarget],
        *,
        blobs: Blobs,
        sweep: Callable[[], Awaitable[Sequence[Leftover]]],
        terms: ProcessTerms | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._target_of, self._blobs, self._sweep, self._now = target_of, blobs, sweep, now
        self.is_theirs: Callable[[Caller, Caller], bool] = lambda caller, author: False
        self._permits, self._table = Permits(), ProcessTable(terms or ProcessTerms(), now)
        self._watchers: set[asyncio.Task[None]] = set()
        self._leftovers: Sequence[Leftover] | None = None

    def permit(self, caller: Caller, call: str, permit: Permit) -> None:
        """Let one call of this caller start this command. Without a permit nothing is ever started."""
        self._permits.add(self._target_of(caller).scope, call, permit)

    def list_live(self) -> list[LiveWork]:
        """Return every command that runs, and for whom."""
        return [
            LiveWork(each.author, partial(each.running.stop, 0)) for each in self._table.all() if each.ended is None
        ]

    async def close(self) -> None:
        """End every command."""
        await asyncio.gather(*(each.running.stop() for each in self._table.all() if each.ended is None))
        await asyncio.gather(*self._watchers, return_exceptions=True)

    # what tools and doors ask for

    @rpc("process.start", clients="write", why="key")
    async def start(  # noqa: PLR0913  each by name, and nearly all have a default
        self,
        caller: Caller,
        progress: Progress,
        call: Annotated[str, "the key of the call whose command was permitted"],
        wait: Annotated[float | None, "seconds to wait before it goes to the background"] = None,
        background: Annotated[bool, "do not wait at all"] = False,
        seconds: Annotated[float | None, "how long it may run"] = None,
        pty: Annotated[bool, "give it a terminal"] = False,
    ) -> dict[str, Any]:
        """Start the command that was permitted for a call; return its outcome, or its id when it takes long."""
        target = self._target_of(caller)
        permit = self._permits.take(target.scope, call)
        if background and not self._table.has_room(target.scope):
            count = len(self._table.running(target.scope))
            raise ToolError(
                f"{count} commands run in the background already; end one with process kill first", code="busy"
            )
        await self._sweep_once()
        held = await permit.check_unchanged() if permit.check_unchanged is not None else None
        command = Command(
            argv=permit.argv,
            line=None if permit.argv else permit.script or permit.line,
            cwd=permit.cwd,
            env=permit.env,
            stdin=None if background else b"",
            pty=_SCREEN_SIZE if pty else None,
            only_reads=permit.only_reads,
            folder=permit.folder,
            held=held,
            denied=target.denied,
            hidden=permit.reach.hidden,
        )
        limits = replace(
            target.limits,
            seconds=min(seconds, target.longest) if seconds and seconds > 0 else target.limits.seconds,
            network=target.limits.network and permit.reach.network,
        )
        ends = [permit.reach.begin(permit.reach.written)] if permit.reach.written else []
        try:
            running = await target.shell.start(command, limits)
        except BaseException:
            for end in ends:
                end()
            raise
        process = StartedProcess(
            id=self._table.new_id(), scope=target.scope, place=target.place, author=caller, line=permit.line,
            cwd=permit.cwd, terminal=pty, seconds=limits.seconds or 0.0, running=running,
            reach=permit.reach, seen=Seen(sources=permit.reach.sources, ends=ends),
        )  # fmt: skip
        self._permits.spend(target.scope, call, process.id)
        self._table.add(process)
        try:
            seconds = 0.0 if background else clamp(wait, target.window, _MIN_WAIT_SECONDS, _MAX_WAIT_SECONDS)
            is_over = await self._wait(process, seconds, progress)
        except asyncio.CancelledError:
            self._table.forget(process)
            await running.stop()
            process.end_writing()
            raise
        return await self._finish(process, target) if is_over else self._hand_over(process)

    @rpc("process.list", clients="read", as_tool=_work(action="list"))
    async def list(self, caller: Caller) -> dict[str, Any]:
        """List the commands in the background, the newest first."""
        mine = sorted(self._by_id(caller).values(), key=lambda each: each.running.started, reverse=True)
        for each in mine:
            each.seen.is_announced = each.seen.is_announced or each.ended is not None
        rows = [await self._row(each) for each in mine]
        sources = list(dict.fromkeys(source for each in rows for source in each.get("sources", ())))
        return {"sessions": rows, **({"sources": sources} if sources else {})}

    @rpc("process.poll", clients="read", as_tool=_work(action="poll"))
    async def poll(
        self,
        caller: Caller,
        id: str,
        wait: Annotated[float, Field(ge=0, le=_MAX_POLL_SECONDS, description="seconds to wait for output")] = 0.0,
    ) -> dict[str, Any]:
        """Return what a command has printed since the last look, and how it goes."""
        process = self._find(caller, id)
        if wait and process.ended is None and process.running.total <= process.seen.cursor:
            await _wait_for_news(process, wait)
        text, missed = process.news()
        cut = last_lines(text, _SHOWN_LINES, self._target_of(caller).shown)
        row = await self._row(process)
        process.seen.is_announced = process.seen.is_announced or process.ended is not None
        return {**row, "text": cut.text, "left": cut.left, "missed": missed, "key": process.seen.key}

    @rpc("process.log", clients="read", as_tool=_work(action="log"))
    async def log(self, caller: Caller, id: str, offset: int | None = None, limit: int | None = None) -> dict[str, Any]:
        """Return lines of what a command has printed, as far as it is kept; by default the last 200."""
        process = self._find(caller, id)
        text = process.text()
        lines = page_log(text, offset, 200 if offset is None and limit is None else limit)
        cut = last_lines(lines.text, _SHOWN_LINES, self._target_of(caller).shown)
        return {
            **await self._row(process), "text": cut.text, "left": cut.left, "first": lines.first, "count": lines.count,
            "totalLines": lines.total, "totalChars": len(text), "key": process.seen.key,
        }  # fmt: skip

    @rpc("process.write", clients="write", as_tool=_work(action="write"))
    async def write(
        self, caller: Caller, id: str, data: str = "", eof: bool = False, after: TypedAfter = ()
    ) -> dict[str, Any]:
        """Give a command input, and say with `eof` that no more follows."""
        return await self._type(caller, id, data.encode("utf-8", "replace"), after, eof=eof)

    @rpc("process.keys", clients="write", as_tool=_work(action="send-keys"))
    async def keys(
        self,
        caller: Caller,
        id: str,
        keys: Sequence[str] = (),
        hex: Sequence[str] = (),
        literal: str = "",
        after: TypedAfter = (),
    ) -> dict[str, Any]:
        """Type text, bytes in hex and keys by their tmux names, in this order."""
        data, warnings = encode_keys(keys, hex, literal)
        if not data:
            raise ArgumentError("; ".join(warnings) or "there is nothing to type; give keys, hex or literal")
        return {**await self._type(caller, id, data, after), "warnings": warnings}

    @rpc("process.submit", clients="write", as_tool=_work(action="submit"))
    async def submit(self, caller: Caller, id: str, data: str = "", after: TypedAfter = ()) -> dict[str, Any]:
        """Type a line and the key that ends it."""
        end = b"\r" if self._find(caller, id).terminal else b"\n"
        return await self._type(caller, id, data.encode("utf-8", "replace") + end, after)

    @rpc("process.paste", clients="write", as_tool=_work(action="paste"))
    async def paste(
        self, caller: Caller, id: str, text: str, bracketed: bool | None = None, after: TypedAfter = ()
    ) -> dict[str, Any]:
        """Paste text; on a terminal in the brackets that tell it from typing."""
        terminal = self._find(caller, id).terminal
        data = encode_paste(text, bracketed=terminal if bracketed is None else bracketed)
        if not data:
            raise ArgumentError("there is nothing to paste; give text")
        return await self._type(caller, id, data, after)

    @rpc("process.kill", clients="write", as_tool=_work(action="kill"))
    async def kill(self, caller: Caller, id: str, signal: str = "") -> dict[str, Any]:
        """End a command and all it started, politely at first; or send all of it one signal."""
        process = self._find(caller, id)
        if process.ended is None:
            if signal:
                process.running.signal(parse_signal(signal))
            else:
                await process.running.stop()
        process.seen.is_announced = process.ended is not None
        return await self._row(process)

    @rpc("process.clear", clients="write", as_tool=_work(action="clear"))
    async def clear(self, caller: Caller, id: str) -> dict[str, Any]:
        """Forget a command that has ended."""
        process = self._find(caller, id)
        if process.ended is None:
            raise ToolError(f"{process.id} is still running; use kill or remove to end it", code="busy")
        self._table.forget(process)
        return await self._row(process)

    @rpc("process.remove", clients="write", as_tool=_work(action="remove"))
    async def remove(self, caller: Caller, id: str) -> dict[str, Any]:
        """End a command if it runs, and forget it."""
        process = self._find(caller, id)
        if process.ended is None:
            await process.running.stop()
        self._table.forget(process)
        return await self._row(process)

    @rpc("process.leftovers", clients="admin")
    async def leftovers(self) -> dict[str, Any]:
        """Tell which commands were running when the crib died before, and were ended by this one."""
        return {"leftovers": [asdict(each) for each in await self._sweep_once()]}

    # steps

    async def _row(self, process: StartedProcess) -> dict[str, Any]:
        """Return a process as a list shows it, with where what it printed until now may come from."""
        if not process.seen.is_settled:
            await in_thread(process.look_again)
        return process.row(self._now())

    async def _sweep_once(self) -> Sequence[Leftover]:
        """Return what was left by a crib that died, ended at the first use of this one."""
        if self._leftovers is None:
            self._leftovers = ()
            self._leftovers = await self._sweep()
            for each in self._leftovers:
                log.warning(
                    "a command was running when its crib died: %r (pid %d); %d processes of it were left and are ended",
                    each.command, each.pid, len(each.pids),
                )  # fmt: skip
        return self._leftovers

    async def _wait(self, process: StartedProcess, window: float, progress: Progress) -> bool:
        """Wait for the end; return False when it takes longer than the window and may go on in the background."""
        with report_progress(process, progress):
            try:
                async with asyncio.timeout(window):
                    await process.running.wait()
            except TimeoutError:
                if process.ended is None and self._table.has_room(process.scope):
                    return False
                await process.running.wait()  # with no room in the background it stays here until its time is over
        return True

    def _hand_over(self, process: StartedProcess) -> dict[str, Any]:
        process.seen.background = True
        task = asyncio.get_running_loop().create_task(self._watch(process))
        self._watchers.add(task)
        task.add_done_callback(self._watchers.discard)
        return {**process.row(self._now()), "notices": self._table.notices(process.scope)}

    async def _watch(self, process: StartedProcess) -> None:
        """Stay with a command until its end; when the loop ends before, so does the command."""
        try:
            await process.running.wait()
        finally:
            if process.ended is None:
                await process.running.stop(0)
            process.seen.ended_at = self._now()
            await in_thread(process.end_writing)
        if process.is_cut:
            process.seen.key = await self._store_output(process)

    async def _finish(self, process: StartedProcess, target: ExecTarget) -> dict[str, Any]:
        """Return what came of a command that ended while its call waited; it is not kept."""
        self._table.forget(process)
        ended = process.ended
        assert ended is not None
        await in_thread(process.end_writing)
        text = process.text()
        cut = last_lines(text, _SHOWN_LINES, target.shown)
        is_whole = not process.is_cut
        return {
            "sessionId": process.id, "pid": process.running.pid, "cwd": process.cwd,
            "startedAt": round(process.running.started * 1000), **describe_end(ended, process.seconds),
            "text": cut.text, "bytes": process.running.total, "cut": bool(cut.left) or not is_whole,
            "lines": _count_lines(cut.text), "totalLines": _count_lines(text) if is_whole else None,
            "key": "" if is_whole and not cut.left else await self._store_output(process),
            "notices": self._table.notices(process.scope), **process.origin,
        }  # fmt: skip

    async def _store_output(self, process: StartedProcess) -> str:
        """Keep what a command printed, from its beginning, where `result_get` finds it; return the key."""
        try:
            whole = await process.running.whole()
            packed = await in_thread(pack_output, whole.data, whole.missing, process.seen.sources)
            return await self._blobs.put(packed) if whole.data else ""
        except Exception:
            log.exception("the output of %s could not be kept; its end was shown", process.id)
            return ""

    async def _type(
        self, caller: Caller, id: str, data: bytes, after: Sequence[str], *, eof: bool = False
    ) -> dict[str, Any]:
        process = self._find(caller, id)
        if process.ended is not None:
            raise ToolError(f"{process.id} {process.ended.sentence()}; it reads nothing any more", code="closed")
        fresh = tuple(each for each in after if each not in process.seen.sources)
        process.seen.sources += fresh
        process.begin_writing(join_sources(fresh))
        try:
            if data:
                await process.running.write(data)
            if eof:
                await process.running.close_stdin()
        except ToolError as error:
            if error.code != "closed":
                raise
            raise ToolError(
                f"{process.id} reads no input; start a command with background or pty to type to it", code="closed"
            ) from None
        return {"sessionId": process.id, "bytes": len(data), "eof": eof}

    def _by_id(self, caller: Caller) -> dict[str, StartedProcess]:
        """Return the commands in the background that are the caller's own; the owner has all of the conversation."""
        own = self._target_of(caller)
        shared = (each for each in self._table.in_place(own.place) if self.is_theirs(caller, each.author))
        return {each.id: each for each in (*self._table.of(own.scope), *shared)}

    def _find(self, caller: Caller, id: str) -> StartedProcess:
        mine = self._by_id(caller)
        process = mine.get(id.strip())
        if process is None:
            hint = suggest(id, mine, f"there are {', '.join(mine) or 'none'}")
            raise ToolError(f"no command {id[:64]!r} in the background{hint}", code="not_found")
        return process


def clamp(value: float | None, default: float, low: float, high: float) -> float:
    """Return a number within bounds; the default for none, or for what is no number."""
    return max(low, min(default if value is None or math.isnan(value) else value, high))


async def _wait_for_news(process: StartedProcess, seconds: float) -> None:
    """Return when a command has printed something or ended, or when the time is over."""
    news = asyncio.Event()
    ended = asyncio.ensure_future(process.running.wait())
    ended.add_done_callback(lambda _: news.set())
    stop = process.running.watch(lambda _: news.set())
    try:
        async with asyncio.timeout(seconds):
            await news.wait()
    except TimeoutError:
        return
    finally:
        stop()
        ended.cancel()


def _count_lines(text: str) -> int:
    return text.count("\n") + (not text.endswith("\n")) if text else 0
