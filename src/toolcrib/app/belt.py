"""A caller's belt, as a program holds it, where belts come from, and what their tools may touch."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any

from toolcrib.adapter import declare
from toolcrib.adapter.cut import shorten
from toolcrib.agent.argued import JudgedWorkspace
from toolcrib.agent.belt import Belts
from toolcrib.agent.hooks import taint_guards
from toolcrib.agent.invoke import invoke, invoke_all
from toolcrib.agent.line import new_key
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.agent.reached import ReachedFiles, open_judged
from toolcrib.agent.shadow import Shadow
from toolcrib.backends.files.disk import Terms
from toolcrib.backends.files.local import DryRunWorkspace, LocalWorkspace, Workspaces
from toolcrib.backends.web.http import GuardedHttp, SecretRefs
from toolcrib.backends.web.search import HttpProvider, make_provider
from toolcrib.config.channels import list_abilities
from toolcrib.config.load import Loaded, SettingsInForce, list_unjudged
from toolcrib.config.settings import Config
from toolcrib.define.approval import CHANGE
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.channel import ChannelKind
from toolcrib.define.context import CallState, Ctx, Ports, constructor
from toolcrib.define.egress import EgressRules, Opening, judge_port, read_url
from toolcrib.define.errors import ConfigError, DeclarationError, ToolError
from toolcrib.define.event import CallEvent
from toolcrib.define.later import PendingCall
from toolcrib.define.message import Call
from toolcrib.define.ports import Approver, Blobs, Workspace
from toolcrib.define.result import Result
from toolcrib.define.session import to_agent
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Layer, LayerStep, Selection, Verdict
from toolcrib.define.web import WayOut
from toolcrib.lazy import dataclass, field, fields, replace
from toolcrib.policy.explain import JudgedCall, judge_call
from toolcrib.policy.taint import taint_rules_for
from toolcrib.registry.agents import Agents
from toolcrib.registry.catalog import Catalog, Problem, name_tools
from toolcrib.services.feature import Feature
from toolcrib.services.router import Router, RunMethod

from .features import join_tools
from .methods import BodyMethods, CallMaker, GatewayAsker, call_instead, make_call
from .subagents import SubagentRunner, Within, with_agents
from .terms import find_here

if TYPE_CHECKING:
    from toolcrib.backends.web.guard import EgressGuard

log = logging.getLogger("toolcrib")

_RANKS = {"allow": 0, "ask": 1, "deny": 2}
_make_call, _make_ctx = constructor(Call), constructor(Ctx)


@dataclass(frozen=True, slots=True, kw_only=True)
class Belt:
    """What a caller may use, joined to the adapters and to `invoke`.

    `selection` is what policy says of it, as a value.
    """

    caller: Caller
    selection: Selection
    catalog: Catalog = field(repr=False)
    pipeline: CallPipeline = field(repr=False)
    ports: Ports = field(repr=False)

    def __repr__(self) -> str:
        return f"<Belt of {_brief(self.caller)}: {len(self.tools)} of {len(self.verdicts)} tools>"

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The tools the caller has, allowed or to be asked about."""
        return self.selection.tools

    @property
    def verdicts(self) -> Mapping[str, Verdict]:
        """The verdict on every tool that exists, each with its reason."""
        return self.selection.verdicts

    def steps(self, name: str) -> tuple[LayerStep, ...]:
        """Return what every layer decided about one tool, in order."""
        return self.selection.steps(name)

    def declare(self, provider: str) -> list[dict[str, Any]]:
        """Return the belt's tools that have a body as `provider` takes them, for the program to keep and change."""
        return [deepcopy(declare(tool, provider)) for tool in self.selection.shown]

    def call(
        self,
        name: str,
        args: Mapping[str, Any] | None = None,
        *,
        id: str = "",
        progress: Callable[[Result], None] | None = None,
    ) -> Coroutine[Any, Any, Result]:
        """Run one tool for this caller, when awaited; what fails comes back as a Result that says so.

        `progress` hears what the body shows of its work, as it is and in the body's own thread, unless the belt is
        watched; `watched_by` is for whoever wants to hear more, or to hear it on the loop.
        """
        key, course = new_key(), CallState()
        if progress is not None:
            course.watch = progress
        call = _make_call(id or key, name, args or {}, key)
        return invoke(self.selection, _make_ctx(call, self.caller, course, self.ports), self.pipeline)

    async def open_files(self, name: str, args: Mapping[str, Any]) -> Workspace:
        """Return the caller's files as a call of a tool comes to them."""
        return await open_judged(self.selection, Ctx(make_call(name, args), self.caller, CallState(), self.ports))

    async def call_instead(self, name: str, args: Mapping[str, Any], run: RunMethod) -> Any:
        """Return what `run` gives, in the place of a tool's body in one call of it; raise ToolError for a failure."""
        ctx = Ctx(make_call(name, args), self.caller, CallState(), self.ports)
        return await call_instead(self.selection, ctx, self.pipeline, run)

    async def call_all(self, calls: Iterable[Call]) -> list[Result]:
        """Run the calls of one reply: checked in their order, run side by side, answered in their order."""
        keyed = (call if call.key else call._replace(key=new_key()) for call in calls)
        ctxs = [Ctx(call, self.caller, CallState(), self.ports) for call in keyed]
        return await invoke_all(self.selection, ctxs, self.pipeline)

    async def judge_call(
        self, name: str, args: Mapping[str, Any], way_out: WayOut, sources: Collection[str] = ()
    ) -> JudgedCall:
        """Return what the rules about arguments and hosts say of a call that nobody makes."""
        tool = self.tools.get(name)
        if tool is None:
            return JudgedCall([], args)
        rules = self.selection.rules_about and self.selection.rules_about(tool)
        checked = tool.check_known(args, needed={tool.aliases.get(each, each) for each in rules.names} if rules else ())
        judged = await judge_call(self.selection, tool, (checked, sources), self.ports, way_out)
        ctx = Ctx(make_call(name, judged.args), self.caller, CallState(), self.ports)
        files = ReachedFiles.of(self.selection, tool, ctx, lambda: sources)
        return judged._replace(found=[*judged.found, *(await files.list_verdicts()).values()]) if files else judged

    def watched_by(self, watch: Callable[[CallEvent], None]) -> "Belt":
        """Return the same belt, whose calls tell `watch` how they go."""
        return replace(self, pipeline=replace(self.pipeline, watch=watch))


def _brief(who: Caller | Sender) -> str:
    """Return what is known of somebody."""
    fields_of = ((each.name, getattr(who, each.name)) for each in fields(who))
    known = (
        f"{name}={_brief(value) if isinstance(value, Sender) else repr(value)}" for name, value in fields_of if value
    )
    return f"{type(who).__name__}({', '.join(known)})"


class BeltSource:
    """The belts of one crib, over the tools that there are now; a belt that was handed out stays as it is."""

    def __init__(
        self,
        settings: SettingsInForce,
        catalog: Catalog,
        agents: Agents,
        pipeline: CallPipeline,
        runner: SubagentRunner,
        kinds: Mapping[str, ChannelKind],
    ) -> None:
        self._settings, self._own, self._agents = settings, catalog, agents
        self.pipeline, self._runner, self._kinds = pipeline, runner, kinds
        self._meter = pipeline.meter
        self._features: tuple[Feature, ...] = ()
        self._shadow: tuple[Loaded, Loaded | None, tuple[Problem, ...]] | None = None  # as these settings name it
        self.offered: Callable[[Caller], tuple[Tool, ...]] = lambda _: ()  # by programs, for a session
        self.renew()

    def take(self, features: Sequence[Feature]) -> None:
        """Take in the tools of more features, now and whenever they change."""
        self._features = (*self._features, *features)
        for feature in features:
            if feature.tools is not None:
                feature.tools.on_change(self.renew)
        self.renew()

    def renew(self) -> None:
        """Take in what features bring and what is configured now."""
        loaded = self._settings.loaded
        tools, (trial, problems) = loaded.config.tools, self._read_shadow(loaded)
        self.belts = self.make_belts(loaded, problems)
        self.catalog = self.belts.catalog
        self.pipeline = replace(
            self.pipeline,
            timeout=float(tools.timeout_sec),
            limit=tools.results.max_chars,
            notice=tools.results.notice,
            # without a file nothing is configured later: what is not there now is never asked again
            rejudge=partial(self._rejudge, loaded) if loaded.document.files else None,
            meter=self._meter if loaded.config.quotas or loaded.document.files else None,
        )
        self._on_trial: Belts | None = None
        if trial is not None:
            own = self.belts.settings
            policy = replace(trial.policy, mandates=own.mandates, roots=own.roots, ids=own.ids)
            self._on_trial = Belts(self.catalog, policy, host=_host_facts(trial.config))
            self._untried = tuple(list_unjudged(loaded.config, trial.config))

    def make_belts(self, loaded: Loaded, problems: tuple[Problem, ...] = ()) -> Belts:
        """Return the belts that a configuration gives, over the tools that there are now."""
        policy = replace(loaded.policy, mandates={to_agent(agent.name): agent.tools for agent in self._agents})
        tools = loaded.config.tools
        catalog = join_tools(with_agents(self._own, self._agents, policy.tools.subagents), self._features)
        catalog = name_tools(catalog, tools.aliases) if tools.aliases else catalog
        if problems:
            catalog = Catalog(catalog.tools, (*catalog.problems, *problems))
        can = list_abilities(loaded.config.channels, self._kinds, broadcasts=tools.message.broadcast.enabled)
        return Belts(catalog, policy, host=_host_facts(loaded.config), channels=can)

    def _read_shadow(self, loaded: Loaded) -> tuple[Loaded | None, tuple[Problem, ...]]:
        """Return the policy on trial, and why there is none where one is named; a file is read once."""
        if self._shadow is None or self._shadow[0] is not loaded:
            try:
                self._shadow = loaded, self._settings.read_shadow(), ()
            except ConfigError as error:
                sentence = f"policy.shadow is not judged: {error}"
                log.warning("%s", sentence)
                self._shadow = loaded, None, (Problem("policy.shadow", sentence),)
        return self._shadow[1:]

    def _rejudge(self, made_by: Loaded, belt: Selection, ctx: Ctx) -> Selection:
        """Return what a call of a belt is judged by: newer settings where these permit no more than the belt, else the
        belt with what the newer ones say about arguments.
        """
        if made_by is self._settings.loaded:
            return belt
        name = belt.find(ctx.call.name) or ""
        tool, before = belt.tools.get(name), belt.verdicts.get(name)
        if tool is None or before is None:
            return belt
        now = self.belts.belt_for(ctx.caller, () if name in self.catalog.tools else (tool,))
        if name not in now.verdicts:
            return replace(belt)
        is_wider = _RANKS[now.verdicts[name].decision] < _RANKS[before.decision]
        return replace(belt, rules_about=now.rules_about, rule_grounds=now.grounds) if is_wider else now

    async def conclude(self, pending: PendingCall) -> Result:
        """Return what a call outside of turns was completed with, as a direct one would have given it."""
        belt, course = self.belt(pending.asker), CallState.of_pending(pending.handle, pending.outside)
        return await invoke(belt.selection, Ctx(pending.call, pending.asker, course, belt.ports), belt.pipeline)

    def belt(  # noqa: PLR0913  each by name, and nearly all have a default
        self,
        caller: Caller,
        extra: Iterable[Tool] = (),
        *,
        approver: Approver | None = None,
        profile: str | None = None,
        only: Iterable[str] | None = None,
        bounds: tuple[Layer, ...] = (),
        sources: Collection[str] = (),
    ) -> Belt:
        """Return the caller's belt: nothing but what is in `profile`, `only` and `bounds`, whatever is configured.

        `sources` are those that its calls may go back to.
        """
        own, known = tuple(extra), self.catalog
        if taken := next((tool.name for tool in own if tool.name in known.groups), None):
            raise DeclarationError(f"{taken!r} stands for other tools in rules already; choose another name")
        if offered := self.offered(caller):  # none of which takes the place of another tool
            names = {*known.tools, *known.groups, *(tool.name for tool in own)}
            own += tuple(tool for tool in offered if tool.name not in names)
        belts = self.belts.narrow(profile, only, own, bounds)
        pipeline = self.pipeline if approver is None else replace(self.pipeline, approver=approver)
        if sources:
            after = taint_rules_for(self.belts.settings, caller, known.tools, known.groups)
            guards = taint_guards(after, belts.belt_for(caller, own), lambda: sources)
            pipeline = replace(pipeline, guards=(*guards, *pipeline.guards), taint=lambda: sources)
        if self._on_trial is not None:
            trial = self._on_trial.narrow(profile, only, own, bounds)
            shadow = Shadow(trial, own, pipeline.record, self._untried)
            pipeline = replace(pipeline, shadow=shadow)
        return Belt(
            caller=caller,
            selection=belts.belt_for(caller, own),
            catalog=belts.catalog_with(own),
            pipeline=pipeline,
            ports=self._runner.ports(caller, Within(belts, own, pipeline)),
        )


async def _preview(tool: Tool, ctx: Ctx, args: Mapping[str, Any]) -> str:
    """Return what a call would change in files, for the person who is asked about it; "" for a call of another kind.

    The body itself says it, in a workspace where nothing is changed. Why it would fail is for the person alone: who
    asks may have no right to read the file.
    """
    workspace = ctx.ports.workspace
    while isinstance(workspace, JudgedWorkspace):
        workspace = workspace.inner
    if tool.source != "core" or tool.name not in _CHANGING or not isinstance(workspace, LocalWorkspace):
        return ""
    rehearsed = DryRunWorkspace(workspace)
    try:
        result = await tool.run(Ctx(ctx.call, ctx.caller, CallState(), replace(ctx.ports, workspace=rehearsed)), args)
        diff = await rehearsed.diff()
    except ToolError as error:
        return f"nothing: {error}"
    counted = result.details.get("replacements") if isinstance(result.details, Mapping) else None
    places = counted if isinstance(counted, int) else diff.count("\n@@ ")
    files = len(rehearsed.changes)
    head = f"{places} place{'s' * (places != 1)} in {files} file{'s' * (files != 1)}"
    return f"{head}\n{shorten(diff, _PREVIEW_CHARS)}" if diff else "nothing: the same stands there already"


async def preview_change(
    tool: Tool, ctx: Ctx, args: Mapping[str, Any], binding: dict[str, str]
) -> Callable[[], Awaitable[None]]:
    """Bind a question to what the call would change; what is returned raises ToolError when that is another change.

    Another call of the same reply may move the lines meanwhile: only those that are added and removed count.
    """
    if shown := await _preview(tool, ctx, args):
        binding[CHANGE] = shown

    async def check() -> None:
        if _select_changed(shown) != _select_changed(await _preview(tool, ctx, args)):
            what = f"what {tool.name} would change is no longer what a human said yes to; look at the file again"
            raise ToolError(what, code="changed")

    return check


def _select_changed(diff: str) -> list[str]:
    return [line for line in diff.split("\n") if line.startswith(("+", "-"))]


_CHANGING = ("write", "edit", "apply_patch")
_PREVIEW_CHARS = 100_000  # characters of a diff that are shown; the arguments are shown whole


def _host_facts(config: Config) -> frozenset[str]:
    """Return the requirements this host meets: the parts of toolcrib that are switched on, the secrets it holds."""
    switches = {
        "browser": config.browser.enabled,
        "cron": config.cron.enabled,
        "media.tts": config.media.tts.enabled,
        "memory": config.memory.enabled,
        "web.fetch": config.web.fetch.enabled,
        "web.search": config.web.search.enabled,
    }
    return frozenset(f"setting:{name}" for name, on in switches.items() if on).union(
        (f"secret:{name}" for name in config.secrets),
        (f"channel:{name}" for name, each in config.channels.items() if each.enabled and each.connects),
    )


class GuardedWayOut:
    """Every way out of one crib. The rules are read anew for each connection: a file that changed counts at once."""

    def __init__(self, settings: SettingsInForce, env: Mapping[str, str]) -> None:
        self._settings, self._env = settings, env
        self._refs = SecretRefs(lambda: settings.config.secrets)
        self.http = GuardedHttp(self.make_guard, self._refs, lambda: settings.config.web.fetch.timeout_seconds)
        self.secret = self._refs.refer

    def rules(self) -> EgressRules:
        config = self._settings.config
        hosts = config.tools.hosts
        opened = tuple(Opening.read(each) for each in config.web.ssrf.allow_private)
        return EgressRules(opened=opened, allow=hosts.allow, deny=hosts.deny)

    def make_guard(self) -> "EgressGuard":
        """Return a guard of these rules."""
        from toolcrib.backends.web.guard import EgressGuard  # noqa: PLC0415  HTTP takes longer to load than we do

        proxy = self._settings.config.web.proxy
        return EgressGuard(self.rules(), proxy=read_url(proxy) if proxy else None)

    async def explain(self, url: str, /) -> str:
        """Return a URL as it would be dialled; raise what would be raised then."""
        there = read_url(url)
        if refused := judge_port(there.host, there.port):
            raise refused
        await self.make_guard().check(there.host, there.port)
        return there.url

    async def explain_server(self, source: str, /) -> None:
        """Raise ToolError where `tools.hosts` does not let out to an MCP server, or to whom `web_search` asks."""
        server = self._settings.config.mcp_servers.get(source.removeprefix("mcp:"))
        url = self._find_search() if source == "search" else server.url if server else None
        if url is not None:
            there = read_url(url)
            await self.make_guard().only_for(there, listed=True).check(there.host, there.port)

    def _find_search(self) -> str | None:
        try:
            provider = make_provider(self._settings.config.web.search, self._env, http_for=self.for_listed)
        except ToolError:  # nobody is asked; the search itself says why
            return None
        return provider.base if isinstance(provider, HttpProvider) else None

    def for_listed(self, url: str, /) -> GuardedHttp:
        return GuardedHttp(lambda: self.make_guard().only_for(read_url(url), listed=True))

    def for_own(self, url: str, /) -> GuardedHttp:
        """Return the way to one server that the operator wrote down."""
        return GuardedHttp(lambda: self.make_guard().only_for(read_url(url)))

    async def dial(self, host: str, port: int, /) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to an address that was judged."""
        return await self.make_guard().dial(host, port)

    async def dial_own(self, host: str, port: int, /) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to a server that the operator wrote down."""
        shown = f"[{host}]" if ":" in host else host
        return await self.make_guard().only_for(read_url(f"http://{shown}:{port}")).dial(host, port)


class PortsOf:
    """Opens the ports of callers; `terms` says which workspace each has, `far` has the sessions where it is not us."""

    def __init__(
        self,
        terms: Callable[[Caller], Terms],
        router: Router,
        blobs: Blobs,
        way_out: WayOut,
        far: GatewayAsker | None = None,
        *,
        later: Callable[[Ctx, str, float], Awaitable[str]],
    ) -> None:
        self._router, self._blobs, self._way_out, self._far, self._later = router, blobs, way_out, far, later
        self._workspaces, self._terms_of = Workspaces(), terms
        self.list_here: Callable[[Caller], Sequence[str]] = lambda _: ()

    def __call__(self, caller: Caller, *, is_bound: bool = False, judge: CallMaker | None = None) -> Ports:
        """Return what the tools of this caller may touch; `judge` makes the calls that bodies ask for as methods."""
        terms = self._terms_of(caller)
        files = self._workspaces.open(terms, caller.session or "")
        workspace: Workspace = files
        if terms.inbox:
            workspace = JudgedWorkspace(workspace, files.check_inbox, set(), by_rules=False)
        folder = "" if terms.refusal or terms.access == "none" else str(find_here() / terms.root)
        rpc = BodyMethods(self._router, caller, self._far, is_bound=is_bound)
        http, secret = self._way_out.http, self._way_out.secret
        ports = Ports(workspace=workspace, folder=folder, http=http, rpc=rpc, blobs=self._blobs, secret=secret)
        here = partial(self.list_here, caller)
        return replace(
            ports,
            here=here,
            later=self._later,
            owns=files.owns,
            rpc_in=None if judge is None else partial(rpc.ask_within, judge),
        )

    def close(self) -> None:
        """Let go of every root."""
        self._workspaces.close()
