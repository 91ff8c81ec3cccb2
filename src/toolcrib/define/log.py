"""The log of a session: lines that are only ever added, each behind its parent, and the port that keeps them.

    a1 Said user      a2 Said assistant     a3 Began call      a4 Said tool      a5 Ended
                      └── b1 Said user      b2 Said assistant ...              a branch: its parent is an older line

The last line is where the session stands; the path from the first line to it is its conversation.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol

from toolcrib.lazy import dataclass, regex, replace

from .errors import ToolError
from .event import Ending, Usage
from .message import Call, Message
from .taint import source_after, sources_of

_ID_CHARS = 64
_ID = regex(rf"[A-Za-z0-9_.:-]{{1,{_ID_CHARS}}}")


class Said(NamedTuple):
    """A message; a reply with what it took."""

    message: Message
    usage: Usage | None = None
    cost: float | None = None


class Began(NamedTuple):
    """The body of a call is about to run. Without an answer behind it, its outcome is unknown."""

    call: Call


class Shortened(NamedTuple):
    """From here on a summary stands for the lines before `kept`; those from it on stay as they are."""

    summary: str
    kept: str
    tokens: int


class Switched(NamedTuple):
    """Another model from here on, `provider:model`; "" is the configured one."""

    model: str


class Noted(NamedTuple):
    """What a plugin keeps with the session; no model sees it."""

    name: str
    data: Any


class Labelled(NamedTuple):
    """The session's title, for people."""

    title: str


class Ended(NamedTuple):
    """How a turn ended."""

    reason: Ending
    sentence: str
    usage: Usage
    cost: float | None


Body = Said | Began | Shortened | Switched | Noted | Labelled | Ended


class Line(NamedTuple):
    """One line of a log. `at` is seconds since the epoch."""

    id: str
    parent: str | None
    at: float
    body: Body


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionHead:
    """A session as a list shows it. `parents` is the recorded chain of who started it, `count` its number of lines.

    `source` says where its title came from, when that is outside.
    """

    key: str
    made_at: float
    changed_at: float
    count: int = 0
    parents: tuple[str, ...] = ()
    title: str = ""
    model: str = ""
    source: str = ""


def head_after(head: SessionHead, lines: Sequence[Line]) -> SessionHead:
    """Return the head of a session to which these lines were added."""
    model, title = settings_after(lines, head.model, head.title)
    changed_at = lines[-1].at if lines else head.changed_at
    source = "" if any(isinstance(line.body, Labelled) for line in lines) else head.source  # labels are the owner's
    return replace(head, changed_at=changed_at, count=head.count + len(lines), title=title, model=model, source=source)


def settings_after(lines: Iterable[Line], model: str = "", title: str = "") -> tuple[str, str]:
    """Return the model and the title that hold behind these lines, where those before them left these."""
    for line in lines:
        match line.body:
            case Switched():
                model = line.body.model
            case Labelled():
                title = line.body.title
    return model, title


def check_lines(lines: Sequence[Line], is_known: Callable[[str], bool]) -> None:
    """Raise ToolError unless every line has an id of its own and names only lines before it; `is_known`: older ids."""
    fresh: set[str] = set()
    for line in lines:
        id, parent, body = line.id, line.parent, line.body
        for named in (parent, body.kept) if type(body) is Shortened else (parent,):
            if named is not None and not is_known(named) and named not in fresh:
                raise ToolError(f"the line {id!r} names a line {named!r} that is not before it", code="bad_line")
        if not (id.isalnum() and id.isascii() and len(id) <= _ID_CHARS) and not _ID.fullmatch(id):
            raise ToolError(f"{id!r:.80} is no id of a line; write letters, digits and dashes", code="bad_line")
        if id in fresh or is_known(id):
            raise ToolError(f"there is a line {id!r} already; every line has an id of its own", code="bad_line")
        fresh.add(id)


def went_on(key: str, count: int, at: int) -> ToolError:
    """Return the refusal of lines for a session that is somewhere else by now."""
    return ToolError(
        f"the session {key!r} has {count} lines, not {at}: somebody else goes on with it; load it again", code="changed"
    )


Order = Literal["changed", "made"]


class SessionStore(Protocol):
    """Where logs are kept. What cannot be done is a ToolError of one sentence.

    A key that `check_key` refuses is refused; so is a log of which a line cannot be read, with that line's number.
    """

    async def add(self, head: SessionHead, lines: Sequence[Line], /) -> SessionHead:
        """Keep a whole session, all of it or nothing; refused with the code `exists` when the key is taken."""

    async def make(self, head: SessionHead, /) -> SessionHead:
        """Return the session with that key, made from `head` when there is none."""

    async def find(self, key: str, /) -> SessionHead | None:
        """Return the session with that key."""

    async def rename(self, old: str, new: str, /) -> bool:
        """Give a session another key, its jobs and pending calls too; False for none, or where that key has one."""

    async def list(self, *, most: int = 100, order: Order = "changed") -> tuple[SessionHead, ...]:
        """Return the latest sessions, newest first."""

    async def lines(self, key: str, /) -> tuple[Line, ...]:
        """Return all lines of a session, in the order in which they were added."""

    def append(self, key: str, lines: Sequence[Line], /, *, at: int) -> Awaitable[None] | None:
        """Add lines to the session's `at` ones: all of them or none, and in the order of these calls.

        They are kept when nothing is returned, else once what is returned was awaited. Refused with the code `changed`
        when the session has another number of lines by then: another process appends to it, too; with `not_found` when
        there is none; with `bad_line` when a line's id is not new, or its parent is not before it.
        """

    async def delete(self, key: str, /) -> bool:
        """Forget a session; return whether there was one."""


def trace_messages(messages: Iterable[Message], key: str, path: Iterable[Line] = ()) -> Iterator[tuple[str, ...]]:
    """Yield where each message of a session came from, as far as it is outside.

    A reply is from all that it followed; so is what stands first where the lines of its `path` were shortened.
    """
    bodies = [line.body for line in path]
    is_short = any(isinstance(body, Shortened) for body in bodies)
    seen = sources_of(body.message for body in bodies if isinstance(body, Said)) if is_short else dict[str, None]()
    for message in messages:
        own = tuple(sources_of([message]))
        after = source_after(f"agent:{key}", seen) if is_short or message.role == "assistant" else None
        yield own or ((after,) if after else ())
        seen.update(dict.fromkeys(own))
        is_short = False


async def read_sources(store: SessionStore, key: str) -> dict[str, None]:
    """Return where content of a session's conversation came from, as far as it is outside; none where there is none."""
    lines = {line.id: line for line in (await store.lines(key) if key and await store.find(key) else ())}
    messages, newest = list[Message](), next(reversed(lines), None)
    while newest is not None and (line := lines.pop(newest, None)):
        messages += [line.body.message] if isinstance(line.body, Said) else []
        newest = line.parent
    return sources_of(reversed(messages))
