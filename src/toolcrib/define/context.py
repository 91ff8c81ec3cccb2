"""Ctx: everything a running tool may touch."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import islice
from secrets import token_hex
from types import MethodType
from typing import Any, NamedTuple, NoReturn, ParamSpec, TypeVar

from toolcrib.lazy import dataclass

from .caller import Caller
from .errors import ArgumentError, ToolError
from .later import LATER_SECONDS, pending_result
from .message import Call
from .ports import Absent, AskPerson, Blobs, Rpc, Workspace
from .result import Result
from .schema.check import check_of_schema
from .sourced import SourcedHttp, SourcedWorkspace, attribute, gather_from_rpc
from .taint import MAX_SOURCES, join_sources
from .web import Http

P = ParamSpec("P")
T = TypeVar("T")


def constructor(kind: Callable[P, T]) -> Callable[P, T]:
    """Return what makes a named tuple as calling its class does, with the same arguments and checked like that.

    `type.__call__` looks for an `__init__`, too: without it a value takes 0.35 us, not 0.58, and a call makes six.
    """
    make: Callable[P, T] = MethodType(kind.__new__, kind)
    return make


_NO_WORKSPACE, _NO_HTTP = Absent("workspace"), Absent("way out to the web")
_NO_RPC, _NO_BLOBS = Absent("gateway"), Absent("blob store")


def _no_secret(name: str) -> str:
    raise ToolError(f"this crib holds no secret {name!r}", code="unavailable")


async def _no_person(message: str, schema: Mapping[str, Any]) -> NoReturn:
    raise ToolError("nobody can be asked here; do without, or have the user say it first", code="unavailable")


async def _no_later(ctx: Any, handle: str, seconds: float) -> NoReturn:
    raise ToolError("this crib keeps no call that is finished later", code="unavailable")


async def _owns_nothing(path: str) -> bool:
    return False


async def _no_agents(agent: Any, ctx: Any, args: Mapping[str, Any]) -> NoReturn:
    raise ToolError(f"this crib has nothing that could run the agent {agent.name}", code="unavailable")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports that are open to the tools of one caller; one that is not wired says so when it is used.

    `folder` is where the workspace lies, "" where there is none.
    """

    workspace: Workspace = _NO_WORKSPACE
    folder: str = ""
    http: Http = _NO_HTTP
    rpc: Rpc = _NO_RPC
    # the services as the body of one call asks for them: what does another tool's work is a call of that one
    rpc_in: "Callable[[Ctx], Rpc] | None" = None
    blobs: Blobs = _NO_BLOBS
    secret: Callable[[str], str] = _no_secret
    ask: AskPerson = _no_person
    later: "Callable[[Ctx, str, float], Awaitable[str]]" = _no_later
    owns: Callable[[str], Awaitable[bool]] = _owns_nothing  # whether a file came or was made in the caller's own chats
    here: Callable[[], Sequence[str]] = tuple  # the names of the chat that the caller is answered in, its own one first
    # runs an Agent for this caller, within what this caller has; only the tools that agents become reach for it
    perform: "Callable[[Any, Ctx, Mapping[str, Any]], Awaitable[Result]]" = _no_agents


_NO_PORTS = Ports()


class CallState:
    """How one call goes: whether its body has `started`, whether it was `stopped`, how many `seconds` it took, and who
    watches its progress or hears a warning.

    `sources` are where words from outside came from that the ports have given to the body: whatever it returns is from
    there, too. `taint` are those of the conversation before the call: what it writes goes back to both.
    `adjusted` says which arguments were read otherwise than they were written. `handle` is what a call is completed by
    that is finished later, `in_turn` whether a turn waits for that, `resumed` whether its body ran before, elsewhere,
    and `left` whether it is left for the next process to wait for.
    The only part of a context that changes; `invoke` writes it, and what a body asks the services through.
    """

    started = False
    stopped = False
    seconds = 0.0
    sources: tuple[str, ...] = ()
    taint: tuple[str, ...] = ()
    adjusted: Sequence[Mapping[str, Any]] = ()
    handle = ""
    in_turn = False
    resumed = False
    left = False
    watch: Callable[[Result], None] | None = None
    warn: Callable[[str], None] | None = None

    @classmethod
    def of_pending(cls, handle: str, outside: str | None, *, in_turn: bool = False) -> "CallState":
        """Return the state of a call whose body ran before, and which waits to be completed."""
        state = cls()
        state.started = state.resumed = True
        state.handle, state.in_turn = handle, in_turn
        state.add_sources((outside,) if outside else ())
        return state

    @property
    def source(self) -> str | None:
        """All of its sources as one, None for none."""
        return join_sources(self.sources) or None

    def add_sources(self, sources: Iterable[str], /) -> None:
        """Take in where words came from that the body is given; of very many, that there are others is enough."""
        if len(self.sources) <= MAX_SOURCES:
            self.sources = tuple(islice(dict.fromkeys((*self.sources, *sources)), MAX_SOURCES + 1))


class Ctx(NamedTuple):
    """One call, seen from inside the tool: who asks, what for, and the ports it may use."""

    call: Call
    caller: Caller
    course: CallState
    ports: Ports = _NO_PORTS

    @property
    def workspace(self) -> Workspace:
        return SourcedWorkspace(self.ports.workspace, self.course)

    @property
    def http(self) -> Http:
        return SourcedHttp(self.ports.http, self.course)

    @property
    def rpc(self) -> Rpc:
        ports = self.ports
        return gather_from_rpc(ports.rpc if ports.rpc_in is None else ports.rpc_in(self), self.course)

    @property
    def blobs(self) -> Blobs:
        return self.ports.blobs

    @property
    def seconds(self) -> float:
        """How long the body took, for observers: 0 before it ended, and where it never ran."""
        return self.course.seconds

    def secret(self, name: str) -> str:
        """Return what stands for a secret of the configuration: `ctx.http` puts the value there as it is sent."""
        return self.ports.secret(name)

    async def ask(self, message: str, schema: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Have the user of the client fill in a small form; None when they decline.

        What comes back fits the schema, an object of plain values, and is never a yes to a call: a client may let its
        model answer. ToolError where there is no one to ask.
        """
        check = check_of_schema(schema)
        answer = await self.ports.ask(message, schema)
        try:
            return None if answer is None else check(answer)
        except ArgumentError as error:
            raise ToolError(f"what was filled in does not fit what was asked for: {error}") from None

    async def later(self, handle: str = "", *, seconds: float = LATER_SECONDS) -> Result:
        """Keep this call open for later completion, and return the Result that says so: the body returns it.

        Begin the work after this: it is completed by the handle (`crib.complete`, `calls.complete`), in this process or
        another one, within so many seconds. The Result has the handle in its details; one is made when none is given.
        """
        course = self.course
        before, course.handle = (
            course.handle,
            handle or f"call-{token_hex(8)}",
        )  # first: a stop in between takes it back
        try:
            course.handle = await self.ports.later(self, course.handle, seconds)
        except ToolError:
            course.handle = before
            raise
        return pending_result(self.call.name, course.handle)

    def progress(self, partial: Result) -> None:
        """Show watchers how far the work has come."""
        watch = self.course.watch
        if watch is not None:
            sources = self.course.sources
            watch(attribute(partial, sources) if sources else partial)

    def cancelled(self) -> bool:
        """Tell a body that runs in a thread whether it should stop because its call was cancelled."""
        return self.course.stopped
