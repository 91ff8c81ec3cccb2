"""Ports: what the crib needs from the world, as Protocols. `backends/` and `testing` implement them.

Methods of services are asked for by name:
    class Cron:
        @rpc("cron.add", clients="admin", tools="write", as_tool="cron")
        async def add(self, caller: Caller, name: str, every: int = 60) -> dict[str, Any]: ...

    await ctx.rpc("cron.add", {"name": "water the plants"})

A method takes `caller` when it wants to know who asks, `rights` when it matters which scopes they came with, and
`progress` when it has something to say before it is done.
All else are parameters, passed by name and checked against their annotations. What it returns is plain JSON.
"""

from __future__ import annotations  # so that who only declares a tool does not load the words about files

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn, Protocol, TypedDict, TypeVar, Unpack

from toolcrib.lazy import regex

from .caller import Caller
from .errors import DeclarationError, ToolError
from .message import Call

Scope = Literal["read", "write", "approve", "pair", "admin", "node"]  # the last is a role: what a node itself calls
SCOPES: tuple[Scope, ...] = ("read", "write", "approve", "pair", "admin", "node")

Why = Literal["", "turn", "own", "key", "owner", "gate", "harmless"]
WHYS: Mapping[Why, str] = {
    "turn": "says something in a session of the caller's own: every call of that turn is judged",
    "own": "tells or touches what is the caller's own, and nothing else",
    "key": "asks for the key of a call that the gate let through",
    "owner": "refuses everybody but the owner",
    "gate": "is the gate itself, or tells what it says",
    "harmless": "says no more than that it works",
}
"""Why a method that does no tool's work may be called by every admitted client; the same for routes and commands."""


def check_why(where: str, why: str) -> None:
    """Raise DeclarationError for what guests may ask for, is no tool's work and gives no reason."""
    if why not in WHYS:
        raise DeclarationError(f"{where}: guests may ask for it; say as_tool, or why that is right: {', '.join(WHYS)}")


Progress = Callable[[Any], None]

# the protocol of the gateway has a few that are one word: agent, wake, system-presence
_METHOD_NAME = regex(r"[a-z][a-zA-Z_-]*(\.[a-zA-Z_]+)*")

_Method = TypeVar("_Method", bound=Callable[..., Any])


class Rpc(Protocol):
    """The services' methods, bound to one caller: it can never do more than that caller may."""

    async def __call__(self, method: str, params: Mapping[str, Any], /, progress: Progress | None = None) -> Any:
        """Return what the method returns; `progress` gets what it has so far, as often as it reports.

        An answer with words from outside says under `sources` (or `source`) where they came from.
        """


class ToolWork(NamedTuple):
    """The call that asking for a method is: `to_call` gives the tool's name and its arguments.

    `by_hand` is done by the owner in person at a door, and policy does not judge it: a model uses the tool.
    """

    to_call: Callable[[Mapping[str, Any]], tuple[str, Mapping[str, Any]]]
    by_hand: bool = False


def work_of(tool: str, renamed: Mapping[str, str] | None = None, /, *, by_hand: bool = False, **fixed: Any) -> ToolWork:
    """Return a tool's work with a method's parameters as its arguments, `renamed` where it calls them otherwise.

    What the tool does not take is left out; `fixed` are arguments besides, an `action` for one.
    """
    names = renamed or {}

    def to_call(params: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
        given = {names.get(each, each): value for each, value in params.items() if value not in (None, "")}
        return tool, {**given, **fixed}

    return ToolWork(to_call, by_hand)


class Mark(NamedTuple):
    """By which right a method is asked, as `rpc` takes it."""

    name: str
    clients: Scope
    tools: Scope
    as_tool: ToolWork | None = None
    reads: bool = False
    starts_turn: bool = False
    shared: bool = False
    two_answers: bool = False
    at_once: bool = False
    why: Why = ""


class MethodFacts(TypedDict, total=False):
    """What else `rpc` may say of a method; what is left out is not so."""

    reads: bool
    starts_turn: bool
    shared: bool
    two_answers: bool
    why: Why


def rpc(
    name: str, *, clients: Scope, tools: Scope | None = None, as_tool: str | ToolWork = "", **facts: Unpack[MethodFacts]
) -> Callable[[_Method], _Method]:
    """Offer a service's method under a name, `service.verb`, to clients and to tool bodies who have the scope.

    `tools` is the scope that a tool body needs where that is another one. `as_tool` is the tool whose work it does:
    asked over a door, or from the body of another tool, it is a call of that one, judged and recorded. One that does no
    tool's work and that guests may ask for says `why` (`WHYS`), or it is not offered. One that `reads`
    changes nothing, so it may be asked again; by default those are all that need no more than `read`. One that
    `starts_turn` has a model answer, or calls something, where a bound belt would not bind it. A `shared` one is asked
    at the gateway where a program is a client of one. One with `two_answers` says that it was taken, and later what
    came of it.
    """
    if not _METHOD_NAME.fullmatch(name):
        raise DeclarationError(f"a method is called service.verb, not {name!r}")
    needed = clients, tools or clients
    if odd := next((each for each in needed if each not in SCOPES), None):
        raise DeclarationError(f"{name}: no scope {odd!r}; there are {', '.join(SCOPES)}")
    work = work_of(as_tool) if isinstance(as_tool, str) and as_tool else as_tool or None
    stated: MethodFacts = {"reads": "read" in needed, **facts}
    made = Mark(name, *needed, work, **stated)

    def mark(method: _Method) -> _Method:
        method.__rpc__ = made  # type: ignore[attr-defined]  # read back by mark_of
        return method

    return mark


def at_once(method: _Method) -> _Method:
    """Mark a method that does no I/O, so that it runs inline on the connection's read loop."""
    if (mark := mark_of(method)) is not None:
        method.__rpc__ = mark._replace(at_once=True)  # type: ignore[attr-defined]
    return method


def mark_of(method: Any) -> Mark | None:
    """Return the `@rpc` mark of a method, None when it is not offered."""
    mark = getattr(method, "__rpc__", None)
    return mark if isinstance(mark, Mark) else None


if TYPE_CHECKING:
    from .files import Change, Entry, Find, Found, Listing, Names, Passage, Search


class Workspace(Protocol):
    """Files beneath one pinned root, for one session. Nothing leads out: not `..`, a link, a special file or a race.

    Every path is relative to the root, or absolute and inside it. What cannot be done is a ToolError of one sentence,
    with the code `not_found`, `is_folder`, `not_folder`, `exists`, `denied` (outside, linked, special, protected,
    read-only), `changed` (not the version expected), `too_large`, `bad_path` or `failed` (an error of the disk).
    """

    async def stat(self, path: str, /) -> Entry:
        """Return what stands there."""

    async def read(self, path: str, /, start: int = 0, length: int | None = None) -> bytes:
        """Return a file's bytes, or those from `start`; a whole that is too large to hold is refused."""

    async def lines(self, path: str, /, first: int, most: int, size: int) -> Passage:
        """Return whole lines from line `first`, never holding the file in memory.

        At most `most` of them and, the end of the last line not counted, at most `size` bytes.
        """

    async def list(self, path: str, /, most: int = 10_000) -> Listing:
        """Return the first `most` entries of a folder."""

    async def write(self, path: str, data: bytes, /) -> Entry:
        """Put a file there at once, parents made, permissions kept: a reader or a crash sees the old or the new."""

    async def change(self, changes: Sequence[Change], /) -> tuple[Entry, ...]:
        """Write and delete several files, all or none, also across a crash; return the files written, in order."""

    async def delete(self, path: str, /, *, recursive: bool = False) -> None:
        """Remove a file, a link itself, an empty folder or, when `recursive`, a folder with what is in it."""

    async def mkdir(self, path: str, /) -> None:
        """Make a folder and its parents; one that is there already is fine."""

    async def move(self, path: str, to: str, /) -> None:
        """Rename a file or a folder, parents of the new name made; never onto something that exists."""

    async def search(self, query: Search, /) -> Found:
        """Return the lines that match."""

    async def find(self, query: Find, /) -> Names:
        """Return the names that match."""

    async def resolve(self, path: str, /) -> str:
        """Return where a path leads, links followed, as far as something is there; refuse one that leads out."""

    def note(self, entry: Entry, /) -> None:
        """Remember that the session has been shown this version of a file; what it wrote itself is noted already."""

    def is_shut(self, path: str, /) -> bool:
        """Tell whether a rule about this call keeps it from a path, as `resolve` spells it; nothing is looked up."""

    def without_links(self) -> Workspace:
        """Return the same workspace, in which no link is followed: for paths that `resolve` returned."""

    async def trace(self, paths: Collection[str], /, *, names: bool = False) -> tuple[str, ...]:
        """Return where what lies at these paths came from, as far as it is outside; with `names`, where names did."""

    async def mark(self, contents: Mapping[str, bytes | None], source: str, /) -> None:
        """Keep that these contents, about to be written to these paths, go back to a source, "" for none; None is a
        whole folder."""

    def last_seen(self, path: str, /) -> Entry | None:
        """Return the file as the session last saw it, None when it never did."""


AskPerson = Callable[[str, Mapping[str, Any]], Awaitable[Mapping[str, Any] | None]]
"""Shows the user of the client a form: a sentence, and the JSON Schema of what to fill in; None when they will not."""


class Blobs(Protocol):
    """Big values by content hash."""

    async def put(self, data: bytes, /) -> str: ...

    async def get(self, key: str, /) -> bytes: ...


class Approver(Protocol):
    """A human who says yes or no to one call, shown in full with what it is bound to.

    The answer is written to the record, unless the approver does that itself and says so: `writes_record = True`.
    """

    async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str], /) -> bool:
        """Return whether the human says yes; raise ToolError when there is a better word than no for what happened."""


class Absent:
    """Stands where a port is not wired: a call of any method fails with a sentence that says so."""

    __slots__ = ("_port",)

    def __init__(self, port: str) -> None:
        self._port = port

    def _refuse_now(self, *args: Any, **named: Any) -> NoReturn:
        raise ToolError(f"this crib has no {self._port}", code="unavailable")

    async def _refuse(self, *args: Any, **named: Any) -> Any:
        self._refuse_now()

    stat = read = lines = list = write = change = delete = mkdir = move = search = find = resolve = _refuse
    trace = mark = _refuse
    get = put = send = __call__ = _refuse
    note = last_seen = _refuse_now

    def is_shut(self, path: str, /) -> bool:
        return False

    def without_links(self) -> Absent:
        return self

    def judge_with(self, judge: Any, /) -> Absent:
        return self
