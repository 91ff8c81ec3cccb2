"""Feature: one part of a crib that mounts itself; and what it stands on.

    def mount(core: Core) -> Feature:
        bell = Bell(core.stores.sessions)
        return Feature(services=(bell,), start=bell.start, close=bell.close)

A feature is a module with a `mount`, and one line in `FEATURES` (app/features.py), behind those that it needs:
`core.find` gives what they mounted. Features are started in their order and closed in the reverse of it.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from toolcrib.config.services import McpSettings
from toolcrib.config.settings import Config, SettingsSource
from toolcrib.define.agent import Agent
from toolcrib.define.approval import ApprovalStore
from toolcrib.define.caller import Caller
from toolcrib.define.channel import ChannelKind, MessageStore
from toolcrib.define.device import DeviceStore
from toolcrib.define.errors import CribError
from toolcrib.define.event import Replied
from toolcrib.define.job import JobStore
from toolcrib.define.later import PendingStore
from toolcrib.define.log import Body, SessionStore
from toolcrib.define.mcp import PinStore
from toolcrib.define.model import Request
from toolcrib.define.plugin import Hook, Moment, Observer, TimedObserver
from toolcrib.define.ports import Blobs
from toolcrib.define.quota import QuotaStore
from toolcrib.define.record import Record, Rows
from toolcrib.define.tool import Tool
from toolcrib.define.turn import FollowedTurn, TurnRequest
from toolcrib.define.web import WayOut
from toolcrib.lazy import dataclass, field
from toolcrib.policy.resolve import is_among, is_owner, person_of
from toolcrib.policy.settings import PolicySettings
from toolcrib.services.members import Members
from toolcrib.services.subagents.runs import SubagentHost, SubagentSlots

T = TypeVar("T")


class AsideAsker(Protocol):
    """Asks a model once in the midst of whatever goes on."""

    async def look(self, caller: Caller, request: Request, word: str = "", /) -> tuple[str, Replied] | None:
        """Ask the model that looks at pictures for a caller, or the one that `word` names; give its name and reply.

        None where none that is configured sees.
        """

    async def consult(self, caller: Caller, request: Request, word: str, /) -> Replied:
        """Ask the model that `word` names."""

    def read_course(self, caller: Caller, /) -> tuple[str, Sequence[str]]:
        """Return what the caller's turn was asked last, and from where outside it has read; nothing without a turn."""


class RegisteredAgent(Protocol):
    """An agent, where it comes from, and the file it stands in, "" for none."""

    @property
    def agent(self) -> Agent: ...
    @property
    def source(self) -> str: ...
    @property
    def file(self) -> str: ...


class RunningTurn(Protocol):
    """The turn that runs in a session: it alone adds lines meanwhile."""

    def add(self, body: Body, /) -> str:
        """Take a line behind the last one; return its id."""

    def flush(self) -> Awaitable[None]:
        """Wait until what was taken is kept."""

    def abandon(self) -> None:
        """Keep nothing more: what is open stays so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelNames:
    """What the configuration says about models.

    `named` gives the `provider:model` that a word stands for, None when the configuration names no such model;
    `choose` the one that a word of a caller means, "" for the configured one, and raises ToolError where the choice is
    not theirs; `default` the one an agent has, `window` how many tokens a model can be shown, 0 when that is not known.
    """

    named: Callable[[str], str | None]
    choose: Callable[[Caller, str], str]
    default: Callable[[str], str]
    window: Callable[[str], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """What a crib keeps, and the `members` that share it. `rows` are those of its record, `devices` those that were
    paired; None where all that is in memory."""

    sessions: SessionStore
    blobs: Blobs
    record: Record
    approvals: ApprovalStore
    pins: PinStore
    jobs: JobStore
    messages: MessageStore
    quotas: QuotaStore
    pending: PendingStore
    members: Members = field(default_factory=Members)
    rows: Rows | None = None
    devices: DeviceStore | None = None


class ToolSource(Protocol):
    """Tools that may come and go while a crib is open."""

    def tools(self) -> Iterable[Tool]:
        """Return the tools that may be used now."""

    def problems(self) -> Iterable[tuple[str, str]]:
        """Return what is wrong: a source, like `mcp:files`, and a sentence about it."""

    def on_change(self, listener: Callable[[], None], /) -> Callable[[], None]:
        """Have `listener` called when either changes; return how to end that."""


class Difference(NamedTuple):
    """One key of the configuration that a change would set otherwise; None where there is or was none."""

    path: tuple[str, ...]
    old: Any
    new: Any


class PreparedChange(NamedTuple):
    """A configuration file as it would be: its text, the hash of what it replaces, what would differ.

    `fixed` are sections that count from the next start on.
    """

    text: str
    base: str
    differences: tuple[Difference, ...]
    fixed: tuple[str, ...]


class ConfigEditor(Protocol):
    """Shows and changes the configuration; raises ToolError when that cannot be done."""

    def show(self, *, has_text: bool = False) -> dict[str, Any]: ...
    def schema(self) -> dict[str, Any]: ...
    def prepare(self, raw: str, base: str, /, *, merges: bool) -> PreparedChange: ...
    def propose(self, path: Sequence[str], entry: Any, /) -> tuple[str, PreparedChange]: ...
    def commit(self, change: PreparedChange, /) -> str: ...
    def read_draft(self, raw: str, /, *, merges: bool) -> Any: ...


async def _do_nothing() -> None:
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """What a feature brings.

    `services` are objects with `@rpc` methods, which tools, doors and clients ask by name. `guards` stand before calls
    and `observers` behind them, after those of plugins; `moments` are listeners, by the name of their moment. `start`
    begins what goes on by itself; it may be called again, also on another loop, and `close` may be called without it.
    """

    services: Sequence[object] = ()
    guards: Sequence[Hook] = ()
    observers: Sequence[TimedObserver | Observer] = ()
    moments: Sequence[tuple[str, Callable[[Moment], Any]]] = ()
    tools: ToolSource | None = None
    start: Callable[[], Coroutine[Any, Any, None]] = _do_nothing
    close: Callable[[], Coroutine[Any, Any, None]] = _do_nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """What every feature stands on.

    `tools` are those of the shelf, of plugins and of agents, with their `groups`; `agents` are those agents, and
    `agent_problems` sentences about the ones that were left out. `terms_of` says what a caller's workspace is, for the
    backend that opens it.
    `explain_unaccepted` says why a program of a workspace with these contents does not run unasked, "" when it was
    accepted; `admit_server` gives a server as it may be started, ToolError when its code was not accepted;
    `find_program` gives where a program of ours lies, None where it is not there, ToolError where that is a workspace.
    `secrets_below` yields what the environment gave to a part of the configuration; `redact` takes every known secret
    out of a text, and is None when there is none; `redact_errors` is stricter, for errors, the record and the log.
    `channel_kinds` are the channels that can be made, ours and those of plugins.
    Whoever holds something for a session adds to `session_ends` what lets go of it when the session is deleted.
    """

    settings: SettingsSource
    env: Mapping[str, str]
    state: Path | None
    stores: Stores
    tools: Mapping[str, Tool]
    groups: Mapping[str, frozenset[str]]
    agents: Mapping[str, RegisteredAgent]
    agent_problems: Sequence[str]
    models: ModelNames
    terms_of: Callable[[Caller], Any]
    explain_unaccepted: Callable[[str, bytes], str]
    admit_server: Callable[[McpSettings], McpSettings]
    find_program: Callable[[str], str | None]
    secrets_below: Callable[..., Iterator[str]]
    way_out: WayOut
    aside: AsideAsker
    redact: Callable[[str], str] | None = None
    redact_errors: Callable[[str], str] | None = None
    channel_kinds: Mapping[str, ChannelKind] = field(default_factory=dict)
    mounted: list[object] = field(default_factory=list)
    session_ends: list[Callable[[str], Awaitable[None]]] = field(default_factory=list)

    @property
    def config(self) -> Config:
        """What is configured now."""
        return self.settings.config

    @property
    def policy(self) -> PolicySettings:
        """The part of it that decides who may use what."""
        return self.settings.policy

    def is_owner(self, caller: Caller) -> bool:
        """Tell whether a caller is the owner."""
        return is_owner(self.policy, caller)

    def person_of(self, caller: Caller) -> str:
        """Return who is behind a caller as one text that nobody else has, "" where that is not known."""
        return person_of(self.policy, caller)

    def is_among(self, caller: Caller, listed: Sequence[str]) -> bool:
        """Tell whether a list of senders and roles names who is behind a caller; by names nobody is."""
        return is_among(self.policy, caller, listed)

    def is_theirs(self, caller: Caller, author: Caller) -> bool:
        """Tell whether what `author` began, and what outlives the message that began it, is this caller's, too.

        It is the author's and the owner's. A program's caller who is nobody's has what its own session began.
        """
        if self.is_owner(caller):
            return True
        person = self.person_of(author)
        if person or self.person_of(caller):
            return person == self.person_of(caller)
        return not self.is_owner(author) and bool(author.session) and caller.session == author.session

    def find(self, kind: type[T]) -> T:
        """Return the service of this class that a feature before this one has mounted."""
        for service in self.mounted:
            if isinstance(service, kind):
                return service
        raise CribError(f"no feature before this one has mounted {kind.__name__}; move it up in FEATURES")


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnCore(Core):
    """What features stand on that look at turns or start them: `running` is the turn in a session, `start_turn` starts
    one; `belt_of` gives what a caller may use, `later_of` the tools that its model gets later, and when;
    `assign_model` names the model that answers a caller, in a session that was switched to one. `host` and `slots` are
    for subagents. `editor` shows the configuration and changes it; `view_of` is how it decides, or how a draft would.
    """

    running: Callable[[str], RunningTurn | None]
    start_turn: Callable[[TurnRequest], FollowedTurn]
    belt_of: Callable[..., Any]
    later_of: Callable[[Caller], Mapping[str, str]]
    assign_model: Callable[[Caller, str], Caller]
    editor: ConfigEditor
    view_of: Callable[[Any], Any]
    host: SubagentHost
    slots: SubagentSlots


Mount = Callable[[Core], Feature]
TurnMount = Callable[[TurnCore], Feature]
