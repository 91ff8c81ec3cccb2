"""The table of contents of all settings: one model a section, camelCase keys as the documents write them.

A check that is about one key of several begins its sentence with `key: `, so that the complaint can point at it.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, Protocol, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from toolcrib.define import session
from toolcrib.define.names import fold_name
from toolcrib.define.tool import Effect
from toolcrib.policy.settings import (
    FORM,
    LIST,
    MAP,
    TEXT,
    Entries,
    ExecPolicy,
    Guests,
    ListSettings,
    PolicySettings,
    SandboxMode,
    ScopeSettings,
    Section,
    ToolsSettings,
)

from .channels import ChannelSettings, check_connection, refuse_twins
from .expect import Expectation
from .people import PersonSettings, check_answerers, check_lists, find_bare_channel, list_answerers, list_connecting
from .services import (
    ApprovalSettings,
    AuditSettings,
    BrowserSettings,
    CronSettings,
    DeploySettings,
    GatewaySettings,
    HookSettings,
    LoggingSettings,
    McpSettings,
    MediaSettings,
    MemorySettings,
    NodeSettings,
    QuotaSettings,
    SessionSettings,
    WebSettings,
)
from .values import (
    AgentId,
    Amount,
    Bool,
    Count,
    DockerImage,
    DockerMemory,
    DockerNetwork,
    EnvName,
    Every,
    Folder,
    HostEntry,
    Int,
    MemberName,
    OwnerName,
    RoleName,
    Seconds,
    SenderName,
    Str,
    ToolName,
    Url,
    Volume,
    Words,
    parse_length,
    quote_value,
)


class Lines(Section):
    run: tuple[Words, ...] = ()
    ask: tuple[Words, ...] = ()
    deny: tuple[Words, ...] = ()


Argv = Annotated[tuple[Words, ...], Field(min_length=1)]


class ExecSettings(ExecPolicy):
    host: Literal["sandbox", "host", "docker"] = "sandbox"
    timeout_sec: Seconds | None = Field(default=None, alias="timeoutSec")
    background_ms: Count | None = Field(default=None, alias="backgroundMs")
    output_limit: Count | None = Field(default=None, alias="outputLimit")
    allow: tuple[Argv, ...] = ()
    allow_exact: tuple[Argv, ...] = Field(default=(), alias="allowExact")
    read_only: tuple[Words, ...] | None = Field(default=None, alias="readOnly")
    safe_bins: tuple[Words, ...] = Field(default=(), alias="safeBins")
    deny: tuple[Argv, ...] = ()
    trusted_dirs: tuple[Folder, ...] = Field(default=(), alias="trustedDirs")
    env: tuple[EnvName, ...] = ()
    network: Bool = False
    examples: Lines = Lines()


class ResultSettings(Section):
    max_chars: Annotated[Int, Field(ge=100, le=1_000_000)] = Field(default=8000, alias="maxChars")
    notice: Bool = False


class ToolSettings(ToolsSettings):
    """`tools`: the policy, and how tools run."""

    exec: ExecSettings = ExecSettings()
    results: ResultSettings = ResultSettings()
    timeout_sec: Seconds = Field(default=120, alias="timeoutSec")


MarkerWords = Annotated[Str, Field(max_length=200)]


class AgentToAgentSettings(Section):
    """`tools.agentToAgent`: whether agents may send to one another's sessions, and which."""

    enabled: Bool = False
    allow: tuple[Words, ...] | None = None


# the events of hooks, and what they are called elsewhere
_EVENTS = {
    "PreToolUse": "before_tool_call", "BeforeTool": "before_tool_call", "PostToolUse": "after_tool_call",
    "AfterTool": "after_tool_call", "Stop": "agent_end", "AfterAgent": "agent_end", "SessionStart": "session_start",
    "SessionEnd": "session_end", "PreCompact": "before_compaction", "PreCompress": "before_compaction",
}  # fmt: skip


def _read_event(value: Any) -> Any:
    if value in ("UserPromptSubmit", "BeforeAgent"):  # whoever has such a guard must not believe that it guards
        raise ValueError(f"{value} can refuse a message elsewhere, and no program does here; message_received listens")
    return _EVENTS.get(value, value) if isinstance(value, str) else value


def _split_entries(value: Any) -> Any:
    """Return `Edit|Write`, as others write it, as two entries."""
    if not isinstance(value, list | tuple):
        return value
    return [part for each in value for part in (each.split("|") if isinstance(each, str) else (each,))]


class ReviewSettings(Section):
    """`tools.review`: a second model that reads calls with these effects, and may only say less than yes."""

    effects: Annotated[tuple[Effect, ...], Field(min_length=1)] = ("send", "execute")
    model: Words
    prompt: Words | None = None
    timeout_sec: Seconds = Field(default=30, alias="timeoutSec")


class HookProgramSettings(Section):
    """One of `tools.hooks`: a program that gets an event; before a call it can refuse it, ask or change it."""

    on: Annotated[
        Literal[
            "before_tool_call", "after_tool_call", "message_received", "message_sent", "agent_end", "session_start",
            "session_end", "before_compaction", "after_compaction",
        ],
        BeforeValidator(_read_event),
    ]  # fmt: skip
    run: Argv
    tools: Annotated[Entries, BeforeValidator(_split_entries)] = ()
    timeout_sec: Seconds = Field(default=60, alias="timeoutSec")
    optional: Bool = False
    host: Literal["sandbox", "host"] | None = None


class HostSettings(Section):
    """`tools.hosts`: which hosts of the web are reached, by name (`*.example.com`: all beneath), address or network."""

    allow: tuple[HostEntry, ...] | None = None
    deny: tuple[HostEntry, ...] = ()


class MarkerSettings(Section):
    """`tools.message.crossContext.marker`: what stands around words that were written for another chat."""

    enabled: Bool = True
    prefix: MarkerWords = "[from {channel}] "
    suffix: MarkerWords = ""


class CrossContextSettings(Section):
    """`tools.message.crossContext`: which other chats may be written to from a chat.

    Where `allowWithinProvider` is absent, only the owner may write to others of the same channel.
    """

    allow_within_provider: Bool | None = Field(default=None, alias="allowWithinProvider")
    allow_across_providers: Bool = Field(default=False, alias="allowAcrossProviders")
    marker: MarkerSettings = MarkerSettings()


class BroadcastSettings(Section):
    enabled: Bool = False


class MessageSettings(Section):
    """`tools.message`: how far the tool reaches."""

    cross_context: CrossContextSettings = Field(default=CrossContextSettings(), alias="crossContext")
    allow_cross_context_send: Bool = Field(default=False, alias="allowCrossContextSend")
    broadcast: BroadcastSettings = BroadcastSettings()


class SharedToolSettings(ToolSettings):
    """`tools` for everybody: besides, what agents are to one another, which hosts and which chats are reached."""

    hosts: HostSettings = HostSettings()
    hooks: tuple[HookProgramSettings, ...] = ()
    review: ReviewSettings | None = None
    message: MessageSettings = MessageSettings()
    aliases: Mapping[ToolName, ToolName] = Field(default_factory=dict)
    names: Literal["own", "claude-code"] = "own"
    guests: Guests = "messaging"
    tools_by_sender: Mapping[SenderName, ScopeSettings] = Field(default_factory=dict, alias="toolsBySender")
    agent_to_agent: AgentToAgentSettings = Field(default=AgentToAgentSettings(), alias="agentToAgent")


_AtLeastOne = Annotated[Int, Field(ge=1, le=1_000_000_000)]


class LimitSettings(Section):
    turns: _AtLeastOne | None = None  # 0 would end every turn before its first reply
    seconds: Seconds | None = None
    tokens: _AtLeastOne | None = None
    cost: Amount | None = None


class AllowAgents(Section):
    allow_agents: tuple[Words, ...] = Field(default=(), alias="allowAgents")


class HeartbeatSettings(Section):
    """`agents.<id>.heartbeat`: how often an agent looks by itself whether there is something to say, and where."""

    every: Every | None = None
    deliver: bool | None = None
    channel: Words | None = None
    to: Words | None = None

    @property
    def seconds(self) -> int:
        """How often in seconds, 0 for never."""
        return parse_length(self.every or "") or 0


class AgentSettings(Section):
    id: AgentId | None = None
    name: Words | None = None
    model: Words | None = None
    image_model: Words | None = Field(default=None, alias="imageModel")
    workspace: Words | None = None
    tools: ToolSettings = ToolSettings()
    sandbox: SandboxMode | None = None
    subagents: AllowAgents = AllowAgents()
    heartbeat: HeartbeatSettings = HeartbeatSettings()
    limits: LimitSettings = LimitSettings()
    memory: MemorySettings = MemorySettings()


class DockerSettings(Section):
    image: DockerImage | None = None
    network: DockerNetwork = "none"
    memory: DockerMemory | None = None
    pids_limit: Annotated[Int, Field(ge=1, le=1_000_000)] | None = Field(default=None, alias="pidsLimit")
    binds: tuple[Volume, ...] = ()


class SandboxSettings(Section):
    mode: SandboxMode = "off"
    workspace_access: Literal["none", "ro", "rw"] = Field(default="rw", alias="workspaceAccess")
    network: Bool = False
    memory_mb: Annotated[Int, Field(ge=16, le=10_000_000)] | None = Field(default=None, alias="memoryMb")
    processes: Annotated[Int, Field(ge=1, le=1_000_000)] | None = None
    file_mb: Annotated[Int, Field(ge=1, le=10_000_000)] = Field(default=4_096, alias="fileMb")
    docker: DockerSettings = DockerSettings()


class WorkspaceSettings(Section):
    root: Words | None = None
    protected: tuple[Words, ...] = ()
    linked: tuple[Words, ...] = ("**/node_modules/**", "**/.venv/**", "**/.git/objects/**")


class ProviderSettings(Section):
    base_url: Url | None = Field(default=None, alias="baseUrl")
    api_key: Words | None = Field(default=None, alias="apiKey", repr=False)
    headers: Mapping[Words, Str] = Field(default_factory=dict, repr=False)
    file: Folder | None = None  # a GGUF file, for the provider `local`
    timeout_sec: Seconds | None = Field(default=None, alias="timeoutSec")
    context_window: Annotated[Int, Field(ge=1024, le=1_000_000_000)] | None = Field(default=None, alias="contextWindow")


class PluginSettings(Section):
    enabled: Bool | None = None
    tools: ListSettings = ListSettings()
    config: Mapping[str, Any] = Field(default_factory=dict, repr=False)
    rename: Mapping[ToolName, ToolName] = Field(default_factory=dict)
    prefix: ToolName | None = None


class SkillSettings(Section):
    folders: tuple[Words, ...] = ()


_AgentMap = Annotated[Mapping[AgentId, AgentSettings], refuse_twins(session.to_agent, "agent"), MAP]
_Agents = Annotated[_AgentMap | Annotated[tuple[AgentSettings, ...], LIST], FORM]


def _agents(agents: _Agents) -> _Agents:
    """Refuse agents without an id, or with an id that another one has."""
    if isinstance(agents, Mapping):
        for id, agent in agents.items():
            if agent.id is not None and agent.id != id:
                raise ValueError(f"{id}: is also called {quote_value(agent.id)}; give it one id")
        return agents
    seen: dict[str, str] = {}
    for index, agent in enumerate(agents):
        if agent.id is None:
            raise ValueError(f"{index}: an agent in a list needs an id; add one")
        first = seen.setdefault(session.to_agent(agent.id), agent.id)
        if first is not agent.id:
            same = f"{quote_value(agent.id)} is the same agent as {quote_value(first)}"
            raise ValueError(f"{index}: {same}; merge the two")
    return agents


def _channel(name: str) -> str:
    return session.to_channel(name) or name


def _plugins(plugins: Any) -> Any:
    """Tell the two lists from the plugins, so that a complaint speaks about what was meant."""
    for name, value in plugins.items() if isinstance(plugins, Mapping) else ():
        if name in ("folders", "allow") and not isinstance(value, (list, tuple)):
            raise ValueError(f"{name}: should be a list; a plugin's own mapping stands under its name")
        if name not in ("folders", "allow") and not isinstance(value, (Mapping, PluginSettings)):
            raise ValueError(f"{name}: should be a mapping, like {{enabled: true}}")
    return plugins


def _models(models: Any) -> Any:
    for name, value in models.items() if isinstance(models, Mapping) else ():
        if name in ("default", "image") and not isinstance(value, str):
            raise ValueError(f"{name}: should be text, provider:model")
        if name not in ("default", "image") and not isinstance(value, (Mapping, ProviderSettings)):
            raise ValueError(f"{name}: should be a mapping, like {{baseUrl: .., apiKey: ..}}")
        if name != "local" and isinstance(value, Mapping) and "file" in value:
            raise ValueError(f"{name}: has no file of its own; only models.local runs one")
    return models


class TrialSettings(Section):
    """`policy`: a file whose rules are judged beside these, and never count."""

    shadow: Words | None = None


class Config(Section):
    """The whole file."""

    tools: SharedToolSettings = SharedToolSettings()
    limits: LimitSettings = LimitSettings()
    agents: Annotated[_Agents, AfterValidator(_agents)] = Field(default_factory=dict)
    channels: Annotated[
        Mapping[Words, ChannelSettings], BeforeValidator(check_connection), refuse_twins(_channel, "channel")
    ] = Field(default_factory=dict)
    owners: tuple[OwnerName, ...] = ()
    roles: Annotated[Mapping[RoleName, tuple[MemberName, ...]], refuse_twins(fold_name, "role")] = Field(
        default_factory=dict
    )
    people: Annotated[Mapping[RoleName, PersonSettings], refuse_twins(fold_name, "person")] = Field(
        default_factory=dict
    )
    sandbox: SandboxSettings = SandboxSettings()
    workspace: WorkspaceSettings = WorkspaceSettings()
    models: Annotated[
        Mapping[Words, Annotated[Annotated[Words, TEXT] | Annotated[ProviderSettings, MAP], FORM]],
        BeforeValidator(_models),
    ] = Field(default_factory=dict)
    plugins: Annotated[
        Mapping[Words, Annotated[Annotated[tuple[Words, ...], LIST] | Annotated[PluginSettings, MAP], FORM]],
        BeforeValidator(_plugins),
    ] = Field(default_factory=dict)
    skills: SkillSettings = SkillSettings()
    mcp_servers: Mapping[Words, McpSettings] = Field(default_factory=dict, alias="mcpServers")
    logging: LoggingSettings = LoggingSettings()
    session: SessionSettings = SessionSettings()
    gateway: GatewaySettings | None = None
    node: NodeSettings = NodeSettings()
    hooks: HookSettings = HookSettings()
    cron: CronSettings = CronSettings()
    approvals: ApprovalSettings = ApprovalSettings()
    memory: MemorySettings = MemorySettings()
    browser: BrowserSettings = BrowserSettings()
    web: WebSettings = WebSettings()
    media: MediaSettings = MediaSettings()
    deploy: DeploySettings = DeploySettings()
    audit: AuditSettings = AuditSettings()
    secrets: Mapping[Words, Str] = Field(default_factory=dict, repr=False)
    policy: TrialSettings = TrialSettings()
    quotas: tuple[QuotaSettings, ...] = ()
    expect: tuple[Expectation, ...] = ()

    @model_validator(mode="after")
    def _knows_who_is_who(self) -> Self:
        links = {f"session.identityLinks: {name}": ids for name, ids in self.session.identity_links.items()}
        lists = {f"roles: {name}": members for name, members in self.roles.items()}
        check_lists(self.people, self.channels, {"owners": self.owners}, {**lists, **links})
        sections = {"tools": self.tools, "agents": self.agents, "channels": self.channels}
        found = [each for name, section in sections.items() for each in list_answerers(section, name)]
        owners = [*self.owners, *(owner for each in self.channels.values() for owner in each.owners)]
        check_answerers(found, self.people, self.roles, owners, list_connecting(self.channels))
        return self

    @model_validator(mode="after")
    def _beats_have_a_channel(self) -> Self:
        for id, agent in self.list_agents():
            name = agent.heartbeat.channel
            own = self.channels.get(name or "")
            if name not in (None, "last", "webchat") and (own is None or not own.connects):
                raise ValueError(f"agents: {id}.heartbeat.channel: no channel {quote_value(name)} connects here")
        return self

    @property
    def bare_channel(self) -> str:
        """The one channel that connects, of which an id is that names none; "" where there is none or several."""
        return find_bare_channel(self.channels)

    def agents_by_key(self) -> Mapping[str | int, AgentSettings]:
        """Return the agents by their key in the file: the id as written, or the place in a list."""
        return dict(self.agents.items()) if isinstance(self.agents, Mapping) else dict(enumerate(self.agents))

    def list_agents(self) -> tuple[tuple[str, AgentSettings], ...]:
        """Return the agents with their ids as written, in order, whichever form they were written in."""
        return tuple((str(key) if agent.id is None else agent.id, agent) for key, agent in self.agents_by_key().items())

    def agent(self, id: str | None) -> AgentSettings | None:
        """Return the settings of an agent, however its id is spelled (none means `main`); None when it has none."""
        found = self._agents_by_id.get(session.to_agent(id or ""))
        return found[1] if found else None

    def memory_of(self, id: str) -> MemorySettings:
        """Return the settings of an agent's memory: its own where it says something, else everybody's."""
        own = agent.memory if (agent := self.agent(id)) else MemorySettings()
        return self.memory.model_copy(update={name: getattr(own, name) for name in own.model_fields_set})

    def agent_ids(self) -> tuple[str, ...]:
        """Return the ids of all agents, `main` first: there is always one."""
        return tuple(dict.fromkeys(("main", *self._agents_by_id)))

    def find_written_id(self, id: str) -> str:
        """Return the id of an agent as the file writes it, for naming a place in the file."""
        return self._agents_by_id[session.to_agent(id)][0]

    @property
    def default_model(self) -> str:
        """`models.default`, blank for none: an agent without a model of its own has this one."""
        found = self.models.get("default")
        return found if isinstance(found, str) else ""

    def image_model(self, agent: str) -> str:
        """Return the model that looks at pictures for an agent: its own, else `models.image`; blank for none."""
        own, shared = self.agent(agent), self.models.get("image")
        return (own and own.image_model) or (shared if isinstance(shared, str) else "")

    def list_image_models(self) -> tuple[str, ...]:
        """Return every model that is configured to look at pictures."""
        shared = self.models.get("image")
        named = (*(each.image_model for _, each in self.list_agents()), shared if isinstance(shared, str) else "")
        return tuple(name for name in named if name)

    @cached_property
    def _agents_by_id(self) -> Mapping[str, tuple[str, AgentSettings]]:
        return {session.to_agent(id): (id, agent) for id, agent in self.list_agents()}


class SettingsSource(Protocol):
    """What is configured now: a crib that reads its file again may give another answer later."""

    @property
    def config(self) -> Config: ...
    @property
    def policy(self) -> PolicySettings: ...
