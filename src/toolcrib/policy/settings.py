"""The policy section of the configuration: the lists people write, checked, where each stands, and our own lists.

Keys keep the documents' spelling (`alsoAllow`). The models are frozen; a rule's own place in the file travels with
it as `origin`, so that a verdict can name it.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Discriminator,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
    Tag,
    TypeAdapter,
    model_validator,
)

from toolcrib.define.channel import ID_RULES, IdRules
from toolcrib.define.names import fold_name, suggest
from toolcrib.define.verdict import OWNERS_CONSENT, ArgumentRule, Consent, Layer, Rule
from toolcrib.lazy import dataclass, field, replace

from .conditions import check_when, dump_when
from .identities import IDENTITIES, Identity, is_role, sender_key
from .match import MAX_ENTRY_CHARS, complaint_about

# The profiles, and the built-in lists of the sandbox and the subagent layer, as document 001 gives them.

# None does not limit.
PROFILES: Mapping[str, tuple[str, ...] | None] = {
    "minimal": ("session_status",),
    "coding": ("group:fs", "group:runtime", "group:sessions", "group:memory", "image"),
    "messaging": ("group:messaging", "sessions_list", "sessions_send", "session_status"),
    "full": None,
    # ours: a small model has room for little, and chooses badly among many
    "small": ("read", "write", "edit", "grep", "ls", "exec"),
}

SANDBOX_ALLOW: tuple[str, ...] = (
    "exec", "process", "read", "write", "edit", "apply_patch", "grep", "find", "ls", "image", "sessions_list",
    "sessions_history", "sessions_send", "sessions_spawn", "session_status", "subagents", "result_get", "find_tools",
)  # fmt: skip

SANDBOX_DENY: tuple[str, ...] = (
    "browser", "canvas", "nodes", "cron", "gateway",
    "telegram", "whatsapp", "discord", "googlechat", "slack", "signal", "imessage",
)  # fmt: skip

# What a subagent never gets: steering the main agent, running the system, logging in, and what its prompt hands over.
SUBAGENT_DENY: tuple[str, ...] = (
    "sessions_list", "sessions_history", "sessions_send", "sessions_spawn", "gateway", "agents_list", "whatsapp_login",
    "session_status", "cron", "memory_search", "memory_get",
)  # fmt: skip

SandboxMode = Literal["off", "non-main", "all"]


class Section(BaseModel):
    """A mapping of the configuration: camelCase keys by alias, nothing unknown, nothing changed later."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, hide_input_in_errors=True, defer_build=True
    )

    @model_validator(mode="before")
    @classmethod
    def _no_nulls(cls, value: Any) -> Any:
        # `allow:` with nothing behind it must not silently mean "no limit"
        if isinstance(value, Mapping):
            for key, inner in value.items():
                if inner is None:
                    raise ValueError(f"{key} is empty (null); write a value or remove the key")
        return value


def _check_entry(entry: str) -> str:
    complaint = complaint_about(entry)
    if complaint:
        raise ValueError(complaint)
    return entry


def _check_profile(name: str) -> str:
    if name not in PROFILES:
        hint = suggest(name, PROFILES, f"there are {', '.join(PROFILES)}")
        raise ValueError(f"no profile is called {name!r}{hint}")
    return name


def _tell_form(value: Any) -> str:
    """Tell the forms of a value apart by what it is, so that a complaint speaks about the one that was meant."""
    if isinstance(value, str):
        return "<text>"
    if value is None or isinstance(value, (bool, int, float)):
        return "<neither>"
    return "<list>" if isinstance(value, (list, tuple)) else "<map>"


FORM = Discriminator(_tell_form)
TEXT, LIST, MAP = Tag("<text>"), Tag("<list>"), Tag("<map>")

_Entry = Annotated[StrictStr, AfterValidator(_check_entry)]
Entries = tuple[_Entry, ...]


class EntrySettings(Section):
    """An entry of a list that holds for some arguments only."""

    tool: _Entry
    when: Mapping[StrictStr, Any]

    @model_validator(mode="after")
    def _can_be_judged(self) -> Self:
        check_when(self.when)
        return self

    def rule(self, kind: Any) -> ArgumentRule:
        return ArgumentRule(kind, self.tool, dump_when(self.when))


RuleEntries = tuple[Annotated[Annotated[_Entry, TEXT] | Annotated[EntrySettings, MAP], FORM], ...]


def _check_answerer(text: str) -> str:
    key = sender_key(text)
    if text != "owner" and not is_role(text) and (key.kind not in IDENTITIES or not key.value):
        raise ValueError(f"{text!r} is nobody who can answer; write owner, role:NAME, or an id like telegram:id:7")
    return text


class AnswererSettings(Section):
    """Who may say yes to what is asked: so many different persons of `by`."""

    by: Annotated[tuple[Annotated[StrictStr, AfterValidator(_check_answerer)], ...], Field(min_length=1)] = (
        OWNERS_CONSENT.by
    )
    count: Annotated[StrictInt, Field(ge=1, le=100)] = 1

    @property
    def consent(self) -> Consent:
        return Consent(tuple(dict.fromkeys(self.by)), self.count)


def _check_source(pattern: str) -> str:
    if not fold_name(pattern) or len(pattern) > MAX_ENTRY_CHARS:
        raise ValueError(f"a pattern for sources has 1 to {MAX_ENTRY_CHARS} characters, like 'web:*'")
    return pattern


class AskSettings(AnswererSettings):
    """An entry of an `ask` list that says when it asks, after which sources, and who may answer."""

    tool: _Entry
    when: Mapping[StrictStr, Any] = Field(default_factory=dict)
    taint: Annotated[StrictStr, AfterValidator(_check_source)] | None = None

    @model_validator(mode="after")
    def _can_be_judged(self) -> Self:
        if "when" in self.model_fields_set:
            check_when(self.when)
        if self.taint is not None and "taint" in self.when:
            raise ValueError("taint stands beside when and in it; write it once")
        return self

    def rule(self, kind: Any) -> ArgumentRule:
        taint = {} if self.taint is None else {"taint": self.taint}
        return ArgumentRule(kind, self.tool, dump_when({**self.when, **taint}), self.consent)


AskEntries = tuple[Annotated[Annotated[_Entry, TEXT] | Annotated[AskSettings, MAP], FORM], ...]


def _make_rule(**lists: RuleEntries | AskEntries | None) -> Rule:
    """Return lists as a rule, their entries about arguments apart."""
    plain = {
        kind: None if entries is None else tuple(each for each in entries if isinstance(each, str))
        for kind, entries in lists.items()
    }
    when = tuple(
        each.rule(kind) for kind, entries in lists.items() for each in entries or () if not isinstance(each, str)
    )
    return Rule(plain["allow"], plain.get("deny") or (), plain.get("ask") or (), plain.get("also") or (), when)


ProfileName = Annotated[StrictStr, AfterValidator(_check_profile)]


class TaintEntry(Section):
    """An entry that counts only after content from some sources."""

    tool: _Entry
    taint: Annotated[StrictStr, AfterValidator(_check_source)]


OutsideEntries = tuple[
    Annotated[
        Annotated[_Entry, Tag("<text>")] | Annotated[TaintEntry, Tag("<map>")],
        Discriminator(lambda value: "<map>" if isinstance(value, Mapping | TaintEntry) else "<text>"),
    ],
    ...,
]


class ListSettings(Section):
    """`allow` and `deny`, where nothing else makes sense."""

    allow: RuleEntries | None = None
    deny: RuleEntries = ()

    def rule(self) -> Rule:
        return _make_rule(allow=self.allow, deny=self.deny)


class RuleSettings(ListSettings):
    """One scope's lists. An absent `allow` does not limit; `[]` permits nothing."""

    also_allow: RuleEntries = Field(default=(), alias="alsoAllow")
    ask: AskEntries = ()

    @model_validator(mode="after")
    def _one_way_to_allow(self) -> Self:
        if self.allow and self.also_allow:
            raise ValueError("allow and alsoAllow cannot stand side by side; put all names into allow")
        return self

    def rule(self) -> Rule:
        return _make_rule(allow=self.allow, also=self.also_allow, deny=self.deny, ask=self.ask)


class ScopeSettings(RuleSettings):
    """A scope that may also choose a profile."""

    profile: ProfileName | None = None

    @property
    def gives(self) -> bool:
        """Whether it allows, and does not only deny."""
        return self.allow is not None or self.profile is not None


# What others than the owner have where no rule of their chat says it; profiles may stand in the list.
Guests = Annotated[Annotated[Literal["messaging", "minimal", "full"], TEXT] | Annotated[RuleEntries, LIST], FORM]
GUESTS: TypeAdapter[Guests] = TypeAdapter(Guests, config=ConfigDict(defer_build=True))


class SandboxTools(Section):
    tools: ListSettings = ListSettings()


class SubagentSettings(Section):
    """What subagents may have. `ceiling`: never more than the parent; `handover`: of that, only `include`."""

    enabled: StrictBool = True
    mode: Literal["ceiling", "own", "handover"] = "ceiling"
    max_depth: Annotated[StrictInt, Field(ge=0, le=8)] = Field(default=1, alias="maxDepth")
    max_concurrent: Annotated[StrictInt, Field(ge=1, le=1000)] = Field(default=8, alias="maxConcurrent")
    include: Entries | None = None
    exclude: Entries = ()
    tools: ListSettings = ListSettings()


class ExecPolicy(AnswererSettings):
    """The part of `tools.exec` that decides whether there are commands at all, whether one is asked about, and whom."""

    security: Literal["deny", "allowlist", "full"] = "allowlist"
    ask: Literal["off", "on-miss", "always"] = "on-miss"


class ToolsSettings(ScopeSettings):
    """`tools`, globally or of one agent."""

    exec: ExecPolicy = ExecPolicy()
    by_provider: Mapping[StrictStr, ScopeSettings] = Field(default_factory=dict, alias="byProvider")
    plugin_only_allow: Literal["strict", "additive"] = Field(default="strict", alias="pluginOnlyAllow")
    sandbox: SandboxTools = SandboxTools()
    subagents: SubagentSettings = SubagentSettings()
    ask_after_outside: OutsideEntries = Field(default=(), alias="askAfterOutside")
    deny_after_outside: OutsideEntries = Field(default=(), alias="denyAfterOutside")

    @model_validator(mode="after")
    def _one_entry_a_provider(self) -> Self:
        seen: dict[str, str] = {}
        for key in self.by_provider:
            first = seen.setdefault(fold_name(key), key)
            if first != key:
                raise ValueError(f"byProvider: {first!r} and {key!r} are the same provider; merge them")
            if not fold_name(key):
                raise ValueError("byProvider: a blank provider means nothing; remove it")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPolicy:
    """One group chat (or `*`), or all direct messages of a channel: lists, lists by sender, and where they stand."""

    origin: str
    tools: ScopeSettings | None = None
    by_sender: Mapping[str, ScopeSettings] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelPolicy:
    """A channel's groups, by account where the account has its own, its direct messages and its owners."""

    origin: str
    direct: GroupPolicy | None = None
    groups: Mapping[str, GroupPolicy] = field(default_factory=dict)
    accounts: Mapping[str, Mapping[str, GroupPolicy]] = field(default_factory=dict)
    owners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPolicy:
    """An agent's own lists and where they stand."""

    origin: str
    tools: ToolsSettings = field(default_factory=ToolsSettings)
    sandbox: SandboxMode | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySettings:
    """Everything policy reads: agents by slug, channels by normalised name, sources by `plugin:x` and `mcp:x`, the
    senders of each role by its folded name, the person that each identity of `people` is. An id without a channel
    counts for callers without one, and for the one channel that connects: `bare`, "" for none. `ids` are what channels
    say of theirs.

    `by_sender` is what bounds a sender wherever they write, by `tools.toolsBySender`.
    `mandates` are the agents that can be subagents, with the list of tools that each declares, None for no limit.
    `narrowed` is a profile, `only` are the tools and `bounds` the layers of a job that bound everybody, besides what is
    written in the file. `roots` are the names of the folder of each agent that has its own, "" those of everybody's.
    `place` tells where a setting stands in the file itself, when that is an OpenClaw file. `bounds_guests` says
    where `guests` holds: decisions from before it had a default in direct messages alone, or none.
    """

    tools: ToolsSettings = field(default_factory=ToolsSettings)
    agents: Mapping[str, AgentPolicy] = field(default_factory=dict)
    channels: Mapping[str, ChannelPolicy] = field(default_factory=dict)
    owners: tuple[str, ...] = ()
    roles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    people: Mapping[Identity, str] = field(default_factory=dict)
    bare: str = ""
    ids: Mapping[str, IdRules] = field(default_factory=lambda: ID_RULES)
    sandbox: SandboxMode = "off"
    workspace_access: Literal["none", "ro", "rw"] = "rw"
    sources: Mapping[str, tuple[str, ListSettings]] = field(default_factory=dict)
    mandates: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict)
    narrowed: str | None = None
    only: tuple[str, ...] | None = None
    bounds: tuple[Layer, ...] = ()
    by_sender: Mapping[str, ScopeSettings] = field(default_factory=dict)
    guests: Guests = "messaging"
    bounds_guests: Literal["everywhere", "direct", "nowhere"] = "everywhere"
    roots: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    place: Callable[[str], str] = field(default=str, repr=False)

    @property
    def guests_rule(self) -> Rule:
        """What guests may have, as an allow list."""
        rule = _make_rule(allow=(self.guests,) if isinstance(self.guests, str) else self.guests)
        names = rule.allow or ()
        if "full" in names:
            return Rule()
        return replace(rule, allow=tuple(entry for each in names for entry in PROFILES.get(each) or (each,)))
