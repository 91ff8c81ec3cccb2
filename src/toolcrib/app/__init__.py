"""The only place that knows everyone: configuration in, a wired crib out."""

import asyncio
import inspect
import os
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar

from toolcrib.adapter import losses
from toolcrib.adapter.trim import redact_value
from toolcrib.agent.hooks import Moments, bind_guards, bind_observers
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.agent.turn import Turns
from toolcrib.backends.channels import ShippedChannels
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.config.load import Loaded, SettingsInForce, load
from toolcrib.config.settings import Config
from toolcrib.define.caller import Caller
from toolcrib.define.errors import CribError
from toolcrib.define.message import Message
from toolcrib.define.model import Model
from toolcrib.define.plugin import Observer, Plugin, TimedObserver
from toolcrib.define.ports import SCOPES, Approver, Progress, Rpc, Scope
from toolcrib.define.result import Result
from toolcrib.define.tool import BodyRunner, Tool, as_tool, result_from
from toolcrib.define.turn import Limits, TurnRequest, user_message
from toolcrib.lazy import dataclass, fields, replace
from toolcrib.policy.lint import Finding, Level
from toolcrib.policy.resolve import is_owner
from toolcrib.policy.settings import PolicySettings
from toolcrib.registry.agents import Agents
from toolcrib.registry.catalog import Catalog
from toolcrib.registry.sources import Offer
from toolcrib.services.approvals import Approvals
from toolcrib.services.browser import Browser
from toolcrib.services.calls import PendingCalls
from toolcrib.services.canvas import Canvases
from toolcrib.services.channels import Channels
from toolcrib.services.chat import Chats
from toolcrib.services.cron import Cron
from toolcrib.services.devices import Devices
from toolcrib.services.effective import EffectiveVerdicts
from toolcrib.services.exec.judge import CommandRunner
from toolcrib.services.feature import Core, Feature, Mount, TurnCore, TurnMount
from toolcrib.services.gateway import Gateway
from toolcrib.services.mcp import ServerTools
from toolcrib.services.mcp.service import Mcp
from toolcrib.services.memory import Memories
from toolcrib.services.nodes import Nodes
from toolcrib.services.peers import Peers
from toolcrib.services.quotas import Quotas
from toolcrib.services.revocation import Revocations
from toolcrib.services.router import Method, Router
from toolcrib.services.subagents.runs import SubagentSlots
from toolcrib.services.subagents.service import Subagents
from toolcrib.services.toolbox import Toolbox

from .background import SubagentStarter
from .belt import Belt, BeltSource, GuardedWayOut, PortsOf, preview_change
from .features import FEATURES, TURN_FEATURES, find_secrets, mount_features
from .methods import GatewayAsker
from .models import Models
from .policies import PolicyView, sender_from
from .secrets import LogRedactor, lasting_redactors
from .settings import SettingsEditor, finding_from_problem
from .sources import collect_tools, folders_for, list_enabled_plugins, list_loaded_code, offers_from_program
from .stores import OpenFile, state_in, stores_for
from .subagents import SubagentRunner, with_agents
from .terms import terms_of
from .turns import AsideModels, Running, SetupResolver, TurnStarter

__all__ = ["Belt", "Crib", "Running", "list_enabled_plugins", "open", "run_sync", "sender_from"]

_Answer = TypeVar("_Answer")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parts:
    """What a crib is made of."""

    settings: SettingsInForce
    agents: Agents
    belts: BeltSource
    router: Router
    core: TurnCore
    features: tuple[Feature, ...]
    models: Models
    starter: TurnStarter
    exits: AsyncExitStack


class Crib:
    """A wired crib: which tools exist, who gets which, and the turns that use them."""

    def __init__(self, parts: _Parts) -> None:
        self.settings, self.agents = parts.settings, parts.agents
        core, self.models, self.sessions = parts.core, parts.models, parts.core.stores.sessions
        self.approvals, self.commands = core.find(Approvals), core.find(CommandRunner)
        self.mcp, self.mcp_tools, self.subagents = core.find(Mcp), core.find(ServerTools), core.find(Subagents)
        self.gateway, self.chat, self.devices = core.find(Gateway), core.find(Chats), core.find(Devices)
        self.revocations = core.find(Revocations)
        self.revocations.watch(parts.starter.list_live)
        self.cron, self.nodes, self.way_out = core.find(Cron), core.find(Nodes), core.way_out
        self.standing, self.calls = core.find(EffectiveVerdicts), core.find(PendingCalls)
        self.browser, self.canvases, self.channels = core.find(Browser), core.find(Canvases), core.find(Channels)
        self._belts, self._starter, self._router = parts.belts, parts.starter, parts.router
        self._features, self._exits, self._redact = parts.features, parts.exits, core.redact_errors
        self._view_of = core.view_of
        self._started_on: asyncio.AbstractEventLoop | None = None

    def __repr__(self) -> str:
        files = ", ".join(map(str, self.loaded.document.files))
        return f"<Crib{files and f' of {files}'}: {len(self.catalog.tools)} tools>"

    @property
    def loaded(self) -> Loaded:
        """What was read from the configuration, as it counts now."""
        return self.settings.loaded

    @property
    def config(self) -> Config:
        """The settings that count now."""
        return self.settings.config

    @property
    def policy(self) -> PolicySettings:
        """What policy reads now, with the agents that can be subagents."""
        return self._belts.belts.settings

    @property
    def bodies(self) -> BodyRunner:
        """What stands between calls and bodies; `toolcrib.testing.cassette` does."""
        return self._belts.pipeline.bodies

    @property
    def catalog(self) -> Catalog:
        """The tools there are now, those of MCP servers among them."""
        return self._belts.catalog

    def belt(
        self,
        caller: Caller,
        extra: Iterable[Tool | Callable[..., Any]] = (),
        *,
        approver: Approver | None = None,
        profile: str | None = None,
        only: Iterable[str | Tool | Callable[..., Any]] | None = None,
    ) -> Belt:
        """Return the caller's belt; `toolcrib.OWNER` is the caller of a program that acts for its owner.

        `extra` are tools for this belt alone. `profile` and `only` (names, or tools) are one more layer each: the
        caller has nothing that is not in it, whatever the configuration says.
        """
        if isinstance(only, str):
            raise CribError(f"`only` is a list of names or tools, not {only!r}")
        names = None if only is None else [each if isinstance(each, str) else as_tool(each).name for each in only]
        return self._belts.belt(caller, map(as_tool, extra), approver=approver, profile=profile, only=names)

    def turn(  # noqa: PLR0913  each by name, and all have a default
        self,
        message: str | Message,
        *,
        caller: Caller,
        session: str = "",
        model: Model | str | None = None,
        extra: Iterable[Tool | Callable[..., Any]] = (),
        approver: Approver | None = None,
        limits: Limits | None = None,
        leaf: str | None = None,
    ) -> Running:
        """Start to answer a message in a session, a new one when none is named; what happens can be followed.

        The model is the one named here, else the session's, the agent's or the configured one, else one that has a key,
        else the offline model. `leaf` is the line of the session to go on from, where that is not its last.
        """
        return self.start(
            TurnRequest(
                message=user_message(message) if isinstance(message, str) else message,
                session=session,
                caller=caller,
                model=model,
                extra=tuple(map(as_tool, extra)),
                approver=approver,
                limits=limits,
                leaf=leaf,
            )
        )

    def start(self, request: TurnRequest) -> Running:
        """Start a turn, as `turn` does."""
        running = self._starter.start(request)
        self.mcp.start()
        return running

    async def ask(
        self, method: str, params: Mapping[str, Any] | None = None, *, caller: Caller, progress: Progress | None = None
    ) -> Any:
        """Ask a service for something by name, like `sessions.list`, as a distant client would; plain JSON comes back.

        The owner may ask for everything, others for what a tool of theirs may: reading and writing, never approving.
        """
        scopes = SCOPES if is_owner(self.loaded.policy, caller) and not caller.parents else None
        asked = partial(self._router.ask, method, params or {}, caller=caller, scopes=scopes, progress=progress)
        return await asked(is_door=True)

    async def complete(self, handle: str, result: Any, *, caller: Caller, session: str = "") -> Result | None:
        """Complete a call that `ctx.later` left pending under a handle, once, with what a body may return.

        Only who it was made for may, and the owner; ToolError for others, and for whoever comes second. Its turn goes
        on with it; of a call outside of turns, what its caller reads is returned. `session` tells two handles apart.
        """
        _, read = await self.calls.finish(caller, handle, result_from(result), session=session)
        return read

    @property
    def methods(self) -> Mapping[str, Method]:
        """The methods of all services, by name."""
        return self._router.methods

    def rpc_for(self, caller: Caller, scopes: Collection[Scope]) -> Rpc:
        """Return what a door asks through, for a caller and the scopes that its credential has."""
        return self._router.rpc_for(caller, scopes)

    async def close(self) -> None:
        """Stop every turn and command that still runs, keep what is left to keep, and let go of the workspaces."""
        await self._exits.aclose()

    async def __aenter__(self) -> Self:
        """Start every feature, once on each loop; where one cannot start, the whole crib is closed."""
        loop = asyncio.get_running_loop()
        if self._started_on is not loop:
            self._started_on = loop
            try:
                for feature in self._features:
                    await feature.start()
            except BaseException:
                await self.close()
                raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def view(self, draft: Loaded | None = None) -> PolicyView:
        """Return how the configuration decides, or how a draft of it would, over the tools there are now."""
        view: PolicyView = self._view_of(draft)
        return view

    def lint(
        self,
        provider: str | None = None,
        *,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        expect: Loaded | None = None,
    ) -> list[Finding]:
        """Return what is odd about the configuration, the plugins and, for one provider, the schemas.

        `tools` are those that the program hands to belts and turns as `extra`, so that rules may be about them.
        `expect` are promises that stand in a file of their own.
        """
        extra, view = tuple(map(as_tool, tools)), self.view()
        found = view.lint(extra, expect)
        if provider is not None:
            for tool in view.belts.catalog_with(extra).tools.values():
                for loss in losses(tool, provider):
                    what = f"{provider} does not see {loss}; the arguments are checked here all the same"
                    found.append(Finding("loss", "note", tool.name, what, "say it in the description"))
        for name, near in self.channels.list_missing().items():
            what = f"nothing brings a channel {name!r}: nobody is heard there"
            remedy = f"did you mean {near!r}?" if near else "correct the name, or add its plugin"
            level: Level = "error" if self.loaded.config.channels[name].connects else "warning"
            found.append(Finding("unknown", level, f"channels.{name}", what, remedy))
        redact = self._redact or str
        return [replace(each, message=redact(each.message), remedy=redact(each.remedy)) for each in found]


def open(  # noqa: PLR0913  each by name, and all have a default
    config: str | Path | Mapping[str, Any] | Loaded | None = None,
    *,
    tools: Sequence[Tool | Callable[..., Any]] = (),
    plugins: Sequence[Plugin | Offer] = (),
    services: Sequence[object] = (),
    import_plugins: bool = True,
    approver: Approver | None = None,
    state: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Crib:
    """Open a crib from a path, a mapping, or nothing for the defaults.

    `tools` and `plugins` are a program's own, besides those that the configuration turns on; its tools are judged like
    any other, a plain function is declared as `@tool` does it, and a name that is taken is a DeclarationError.
    `services` are objects with `@rpc` methods, which tools reach through `ctx.rpc`; a client of a gateway among them
    has the sessions and chats that tools ask for so, under the rights of its credential. `import_plugins=False` takes
    enabled plugins as their manifests declare them: enough to explain and lint. `state` is the folder where sessions,
    the record of calls and big results are kept; without one they live as long as the crib.
    """
    loaded = config if isinstance(config, Loaded) else load(Path(config) if isinstance(config, str) else config, env)
    given = Given(
        offers=tuple(offers_from_program(tools, plugins)),
        services=tuple(each for each in services if not isinstance(each, GatewayAsker)),
        gateway=next((each for each in services if isinstance(each, GatewayAsker)), None),
        import_plugins=import_plugins,
        approver=approver,
        folder=None if state is None else Path(state),
        env=os.environ if env is None else env,
        # a program that says everything in a mapping has no user whose files count
        has_user=bool(loaded.document.files) if isinstance(config, Loaded) else not isinstance(config, Mapping),
    )
    return build(loaded, given)


def run_sync(awaitable: Awaitable[_Answer]) -> _Answer:
    """Wait for something of toolcrib's in a program without an event loop; one is made for it, by `asyncio.run`."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(_wait_for(awaitable))
    if inspect.iscoroutine(awaitable):
        awaitable.close()
    raise CribError("run_sync was called where an event loop runs; write `await` instead")


async def _wait_for(awaitable: Awaitable[_Answer]) -> _Answer:
    return await awaitable


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a program brings besides the configuration."""

    offers: tuple[Offer, ...] = ()
    services: tuple[object, ...] = ()
    gateway: GatewayAsker | None = None
    import_plugins: bool = True
    approver: Approver | None = None
    folder: Path | None = None
    env: Mapping[str, str]
    has_user: bool = False
    open_file: OpenFile = SqliteFile


class Closing(Protocol):
    """What is closed with a crib."""

    @property
    def close(self) -> Callable[[], Coroutine[Any, Any, None]]: ...


def build(
    loaded: Loaded, given: Given, mounts: Iterable[Mount] = FEATURES, turn_mounts: Iterable[TurnMount] = TURN_FEATURES
) -> Crib:
    """Wire a crib: tools and agents, stores, features, belts, turns, and the features that need turns."""
    folder, env, exits = given.folder, given.env, AsyncExitStack()  # what is opened first is closed last
    folders = folders_for(loaded, env, folder, own=given.has_user)
    offers, catalog, agents = collect_tools(loaded, given.offers, folders, import_plugins=given.import_plugins)
    settings, whole = SettingsInForce(loaded, env, offers), with_agents(catalog, agents, loaded.policy.tools.subagents)
    hidden, redactors, code = folders.make_hidden(), lasting_redactors(settings, env), list_loaded_code(loaded)
    kept, models = state_in(folder, given.open_file), Models(settings, env)
    stores = stores_for(loaded, kept, folder, env, redactors, given.open_file)
    core = Core(
        settings=settings,
        env=env,
        state=folder,
        stores=stores,
        tools=whole.tools,
        groups=whole.groups,
        agents=agents.offers,
        agent_problems=[problem.sentence for problem in agents.problems],
        models=models.names(),
        terms_of=(terms := terms_of(settings, hidden, code, kept.origins)),
        explain_unaccepted=folders.explain_program,
        admit_server=folders.admit_server,
        find_program=folders.find_program,
        secrets_below=partial(find_secrets, loaded.document),
        way_out=(way_out := GuardedWayOut(settings, env)),
        aside=(aside := AsideModels(settings, models)),
        redact=redactors[0],
        redact_errors=redactors[1],
        channel_kinds=ShippedChannels({name: kind for each in offers for name, kind in each.channels.items()}),
    )
    features, later, aside.meter = mount_features(core, mounts), core.find(PendingCalls), core.find(Quotas)
    router, approver = Router([*given.services, *core.mounted]), given.approver
    ports_of, slots = PortsOf(terms, router, stores.blobs, way_out, given.gateway, later=later.keep), SubagentSlots()
    runner = SubagentRunner(settings, models, ports_of, slots, None if folder is None else kept.sessions)
    pipeline, moments = _pipeline(core, offers, features, approver), _list_moments(offers, features)
    belts = BeltSource(settings, catalog, agents, pipeline, runner, core.channel_kinds)
    resolver, later.conclude = SetupResolver(settings, models, belts), belts.conclude
    turns = Turns(kept.sessions, stores.record, resolver, moments, memory=core.find(Memories), later=later)
    starter = TurnStarter(turns, models, redactors[0])
    behind = TurnCore(
        **{each.name: getattr(core, each.name) for each in fields(core)},
        running=turns.journal_of,
        start_turn=starter.start,
        belt_of=belts.belt,
        later_of=lambda who: models.later_for(belts.belt(who).selection, who),
        assign_model=models.assign,
        editor=SettingsEditor(settings, env),
        view_of=partial(_view_of, settings, belts, models, env),
        host=SubagentStarter(settings, agents, models, belts=belts, runner=runner, starter=starter, turns=turns),
        slots=slots,
    )
    turn_features = mount_features(behind, turn_mounts)
    router.mount(*(service for feature in turn_features for service in feature.services))
    belts.take((*features, *turn_features))
    router.call_tool, channels = behind.find(Toolbox).ask_as_tool, behind.find(Channels)
    belts.offered, ports_of.list_here = behind.find(Peers).tools_for, channels.talk.list_here
    settings.on_change(belts.renew, models.forget, channels.follow_settings, core.find(Revocations).end_soon)
    core.find(ServerTools).run_as = lambda who, tool, args: belts.belt(models.assign(who), [tool]).call(tool.name, args)
    exits.callback(ports_of.close)
    exits.callback(LogRedactor(redactors[1], loaded.config.logging.redact_patterns).install(settings))
    _close_in_turn(exits, [kept, models, *features, turns, starter, *turn_features])
    parts = _Parts(
        settings=settings,
        agents=agents,
        belts=belts,
        router=router,
        core=behind,
        features=(*features, *turn_features),
        models=models,
        starter=starter,
        exits=exits,
    )
    return Crib(parts)


def _view_of(
    settings: SettingsInForce, belts: BeltSource, models: Models, env: Mapping[str, str], draft: Loaded | None
) -> PolicyView:
    files = settings.document.files
    return PolicyView(
        loaded=draft or settings.loaded,
        belts=belts.make_belts(draft) if draft else belts.belts,
        assign=(Models(draft, env) if draft else models).assign,
        env_secrets=models.env_secrets,
        shown_as=str(files[0]) if files else "",
        problem_of=finding_from_problem,
    )


def _close_in_turn(exits: AsyncExitStack, parts: Iterable[Closing]) -> None:
    for each in parts:
        exits.push_async_callback(each.close)


def _list_moments(offers: Iterable[Offer], features: Iterable[Feature]) -> Moments:
    hooks = (*(each.hooks.items() for each in offers), *(each.moments for each in features))
    return Moments(hook for each in hooks for hook in each)


def _pipeline(
    core: Core, offers: Sequence[Offer], features: Sequence[Feature], approver: Approver | None
) -> CallPipeline:
    """Return what every call goes through."""
    # of features, those mounted first stand nearest to the call: what the judge judged is what runs
    guards = [guard for offer in offers for guard in offer.before]
    guards += [guard for feature in reversed(features) for guard in feature.guards]
    observers: list[TimedObserver | Observer] = [hook for offer in offers for hook in offer.after]
    observers += [hook for feature in features for hook in feature.observers]
    return CallPipeline(
        approver=approver,
        people=core.find(Approvals),
        preview=preview_change,
        record=core.stores.record,
        guards=bind_guards(guards),
        observers=bind_observers(observers),
        blobs=core.stores.blobs,
        meter=core.find(Quotas),
        later=core.find(PendingCalls),
        check_caller=core.find(Revocations).check,
        redact=core.redact,
        redact_errors=core.redact_errors,
        bodies=BodyRunner(partial(redact_value, redact=core.redact_errors or str)),
    )
