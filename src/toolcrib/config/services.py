"""The settings of services: MCP servers, the gateway and its hooks, logs, clocks, memory, browser, web and media."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from toolcrib.define.names import fold_name
from toolcrib.policy.conditions import check_when
from toolcrib.policy.identities import IDENTITIES, is_role, sender_key
from toolcrib.policy.match import complaint_about
from toolcrib.policy.settings import FORM, MAP, TEXT, ListSettings, Section

from .channels import refuse_twins
from .values import (
    Amount,
    Bind,
    Bool,
    Count,
    EnvName,
    Int,
    MemberName,
    Network,
    OpenedAddress,
    Origin,
    Password,
    Pattern,
    Port,
    Proxy,
    Seconds,
    Str,
    Token,
    Url,
    Words,
    check_sender,
    is_local,
    name_mode,
    quote_value,
)


class OAuthSettings(Section):
    """How our client signs in to a server that asks for it; all of it may be left out where clients register."""

    grant: Literal["authorization_code", "client_credentials"] = "authorization_code"
    client_id: Words | None = Field(default=None, alias="clientId")
    client_secret: Words | None = Field(default=None, alias="clientSecret", repr=False)
    private_key: Words | None = Field(default=None, alias="privateKey", repr=False)  # PEM; signs RS256, or ES256
    issuer: Url | None = None
    port: Port | None = None  # of this machine, for the page that a person comes back to

    @model_validator(mode="after")
    def _goes_to_its_issuer(self) -> Self:
        has_secret = bool(self.client_secret or self.private_key)
        if has_secret and not (self.client_id and self.issuer):
            raise ValueError("a secret needs clientId and issuer: it is shown to that authorization server alone")
        if (self.grant == "client_credentials" and not has_secret) or (self.private_key and self.client_secret):
            raise ValueError("client_credentials needs either clientSecret or privateKey")
        if self.private_key and self.grant != "client_credentials":
            raise ValueError("privateKey is for grant: client_credentials")
        return self


class McpSettings(Section):
    command: Words | None = None
    args: tuple[Str, ...] = Field(default=(), repr=False)
    env: Mapping[EnvName, Str] = Field(default_factory=dict, repr=False)
    cwd: Words | None = None
    url: Url | None = Field(default=None, repr=False)
    headers: Mapping[Words, Str] = Field(default_factory=dict, repr=False)
    auth: Annotated[Annotated[Literal["oauth"], TEXT] | Annotated[OAuthSettings, MAP], FORM] | None = None
    tools: ListSettings = ListSettings()

    @model_validator(mode="after")
    def _one_way_to_reach_it(self) -> Self:
        if (self.command is None) == (self.url is None):
            raise ValueError("write either command (a program to start) or url (a server to reach)")
        if self.auth and (self.url is None or "authorization" in map(str.lower, self.headers)):
            raise ValueError("auth is for a server with a url and without a header Authorization; write one of them")
        return self


class LoggingSettings(Section):
    level: Literal["debug", "info", "warn", "warning", "error"] = "info"
    redact_patterns: tuple[Pattern, ...] = Field(default=(), alias="redactPatterns", repr=False)
    file: Words | None = None

    def path_in(self, folder: Path) -> Path:
        """Return where the log is: in the state folder, unless `file` is a whole path."""
        return folder / os.path.expanduser(self.file or "toolcrib.log")  # noqa: PTH111  Path's own raises


class SessionSettings(Section):
    dm_scope: Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"] = Field(
        default="main", alias="dmScope"
    )
    identity_links: Annotated[Mapping[Words, tuple[Words, ...]], refuse_twins(fold_name, "person")] = Field(
        default_factory=dict, alias="identityLinks"
    )


class AuthSettings(Section):
    mode: Literal["token", "password"] = "token"
    token: Token | None = Field(default=None, repr=False)
    password: Password | None = Field(default=None, repr=False)

    @model_validator(mode="after")
    def _has_its_secret(self) -> Self:
        if getattr(self, self.mode) is None:
            raise ValueError(
                f"mode {self.mode} needs a {self.mode}; write {self.mode}: ${{NAME}} to take it from the environment"
            )
        return self


class NodesSettings(Section):
    allow_commands: tuple[Str, ...] = Field(default=(), alias="allowCommands")
    deny_commands: tuple[Str, ...] = Field(default=(), alias="denyCommands")


class LocationSettings(Section):
    latitude: Annotated[float, Field(ge=-90, le=90)]
    longitude: Annotated[float, Field(ge=-180, le=180)]
    accuracy: Annotated[float, Field(ge=0, le=1e7, description="in metres")] = 1_000.0


class NodeSettings(Section):
    """What this machine has when it is a node: cameras by the side they look to, a display of X11, a place."""

    name: Words | None = None
    cameras: Mapping[Words, Words] = Field(default_factory=dict)
    screen: Words | None = None
    location: LocationSettings | None = None
    browser: Bool = False  # whether a gateway may use the browser here
    asks: Literal["gateway", "here"] = "gateway"  # whose people say yes to commands
    managed: Bool = False  # whether a gateway may change how commands are judged here


class GatewaySettings(Section):
    bind: Bind = "loopback"
    port: Port = 18789
    auth: Annotated[AuthSettings, BeforeValidator(name_mode)] | None = None
    allowed_origins: tuple[Origin, ...] = Field(default=(), alias="allowedOrigins")
    trusted_proxies: tuple[Network, ...] = Field(default=(), alias="trustedProxies")
    nodes: NodesSettings = NodesSettings()

    @model_validator(mode="after")
    def _nobody_unknown_from_afar(self) -> Self:
        if not is_local(self.bind) and self.auth is None:
            raise ValueError("bind: this reaches beyond this machine and needs gateway.auth; add it, or write loopback")
        return self


class HookSettings(Section):
    enabled: Bool = False
    token: Token | None = Field(default=None, repr=False)
    agents: Mapping[Words, Words] = Field(default_factory=dict)  # by the name of a hook, who looks at what it brings


class CronSettings(Section):
    enabled: Bool = True
    max_concurrent: Annotated[Int, Field(ge=1, le=1000)] = Field(default=10, alias="maxConcurrent")


def _tool_entry(entry: str) -> str:
    if complaint := complaint_about(entry):
        raise ValueError(complaint)
    return entry


ToolEntry = Annotated[Str, AfterValidator(_tool_entry)]


def _condition(when: Mapping[str, Any]) -> Mapping[str, Any]:
    check_when(when)
    return when


class StandingGrant(Section):
    """One of `approvals.always`: calls of a tool that need no question any more.

    They have exactly these `args`, or meet a condition as in rules (`when`).

    They are those of one person (`channel`, `account`, `group`, `sender`) with one agent, or of the owner.
    """

    tool: ToolEntry
    args: Mapping[Str, Any] | None = None
    when: Annotated[Mapping[Str, Any], AfterValidator(_condition)] | None = None
    agent: Words = "main"
    channel: Words | None = None
    account: Words | None = None
    group: Words | None = None
    sender: MemberName | None = None

    @model_validator(mode="after")
    def _is_about_arguments(self) -> Self:
        if (self.args is None) == (self.when is None):
            raise ValueError("write either args (exactly these arguments) or when (a condition, as in rules)")
        return self


class ApprovalSettings(Section):
    timeout_sec: Seconds | None = Field(default=None, alias="timeoutSec")
    always: tuple[StandingGrant, ...] = ()


def _quota_subject(text: str) -> str:
    kind, colon, rest = text.strip().partition(":")
    word = kind.strip().lower()
    if sender_key(text).kind in (*IDENTITIES, "role"):
        return check_sender(text).strip()
    if (colon and word == "agent" and rest.strip()) or (not colon and word in ("sender", "agent")):
        return text.strip()
    known = "sender or agent (each for itself), role:NAME (each of its members), id:123, e164:+380.. or agent:ID"
    raise ValueError(f"{quote_value(text)}: whom it is about is written {known}; leave it out for all together")


class QuotaSettings(Section):
    """One of `quotas`: how much of something may be taken in an hour or a day; without `tool`, by all of them.

    One about a role is each member's own, or what they have together where it is `shared`.
    """

    who: Annotated[Str, AfterValidator(_quota_subject)] | None = None
    shared: Bool = False
    tool: ToolEntry | None = None
    per: Literal["hour", "day"]
    calls: Count | None = None
    tokens: Count | None = None
    cost: Amount | None = None

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if self.calls is None and self.tokens is None and self.cost is None:
            raise ValueError("limits nothing; write calls, tokens or cost")
        if self.shared and not is_role(self.who or ""):
            raise ValueError("shared is for a role: one person or agent shares with nobody, and all together do anyway")
        return self


class MemorySettings(Section):
    """`memory`, and `agents.<id>.memory` where an agent has its own: what is searched, and who makes the vectors."""

    enabled: Bool = True
    extra_paths: tuple[Words, ...] = Field(default=(), alias="extraPaths")
    provider: Words | None = None
    sources: tuple[Literal["files", "sessions"], ...] = ("files",)
    note_before_compaction: Bool = Field(default=True, alias="noteBeforeCompaction")


class BrowserSettings(Section):
    enabled: Bool = True
    executable: Words | None = None
    headless: Bool = True
    profile: Literal["keep", "discard"] = "keep"  # what the pages of an agent store, from one session to the next


SearchProviderName = Literal["brave", "perplexity", "grok", "searxng", "local"]


class SearchSettings(Section):
    enabled: Bool = True
    provider: SearchProviderName | None = None
    api_key: Words | None = Field(default=None, alias="apiKey", repr=False)
    base_url: Url | None = Field(default=None, alias="baseUrl", repr=False)
    model: Words | None = None
    folder: Words | None = None
    max_results: Annotated[Int, Field(ge=1, le=100)] | None = Field(default=None, alias="maxResults")

    @model_validator(mode="after")
    def _has_what_its_provider_needs(self) -> Self:
        if self.provider == "searxng" and self.base_url is None:
            raise ValueError("provider searxng needs baseUrl, the address of your SearXNG")
        if self.provider == "local" and self.folder is None:
            raise ValueError("provider local needs folder, where the files are that are searched")
        return self


class FetchSettings(Section):
    enabled: Bool = True
    max_chars: Count | None = Field(default=None, alias="maxChars")
    timeout_seconds: Seconds | None = Field(default=None, alias="timeoutSeconds")


class SsrfSettings(Section):
    allow_private: tuple[OpenedAddress, ...] = Field(default=(), alias="allowPrivate")


class WebSettings(Section):
    """The way out: search, pages, and which addresses beyond the internet are reached. A `proxy` is dialled for all."""

    search: SearchSettings = SearchSettings()
    fetch: FetchSettings = FetchSettings()
    ssrf: SsrfSettings = SsrfSettings()
    proxy: Proxy | None = Field(default=None, repr=False)


class SpeechSettings(Section):
    """Who speaks; all but `enabled` is about `provider`, espeak where none is named."""

    enabled: Bool = True
    provider: Literal["espeak", "piper", "openai", "elevenlabs"] | None = None
    voice: Words | None = None
    model: Words | None = None
    api_key: Words | None = Field(default=None, alias="apiKey", repr=False)
    base_url: Url | None = Field(default=None, alias="baseUrl", repr=False)

    @model_validator(mode="after")
    def _says_whose_key_it_is(self) -> Self:
        if self.provider not in ("openai", "elevenlabs") and (self.api_key or self.base_url or self.model):
            raise ValueError("apiKey, baseUrl and model are for provider: openai or elevenlabs; name whose they are")
        return self


class HearingSettings(Section):
    """Who transcribes recordings: a server with /v1/audio/transcriptions."""

    enabled: Bool = False
    base_url: Url | None = Field(default=None, alias="baseUrl", repr=False)
    api_key: Words | None = Field(default=None, alias="apiKey", repr=False)
    model: Words | None = None
    language: Words | None = None
    max_seconds: Annotated[Int, Field(ge=1, le=1_800)] = Field(default=600, alias="maxSeconds")

    @model_validator(mode="after")
    def _says_who_listens(self) -> Self:
        if self.enabled and self.base_url is None:
            raise ValueError("stt needs baseUrl: https://api.openai.com/v1, or the address of your own whisper server")
        return self


class MediaSettings(Section):
    """Sound and pictures; `maxMb` is what one file of a sender may have."""

    max_mb: Annotated[Int, Field(ge=1, le=100)] = Field(default=16, alias="maxMb")
    tts: SpeechSettings = SpeechSettings()
    stt: HearingSettings = HearingSettings()


class DeploySettings(Section):
    run: tuple[Words, ...] = ()


class AuditSettings(Section):
    file: Words | None = None
