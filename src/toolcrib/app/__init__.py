"""The only place that knows everyone: configuration in, a wired crib out."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from toolcrib.adapter import losses
from toolcrib.agent.belt import Belts
from toolcrib.agent.hooks import ready_guards, ready_observers
from toolcrib.agent.limits import Limits
from toolcrib.agent.moments import Moments
from toolcrib.agent.turn import Turns
from toolcrib.agent.window import Window
from toolcrib.config.advice import advice
from toolcrib.config.complain import conceal
from toolcrib.config.load import Loaded, load
from toolcrib.config.settings import Config, ExpectedCaller
from toolcrib.config.values import check_sender
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.errors import CribError
from toolcrib.define.message import Message
from toolcrib.define.model import Model
from toolcrib.define.plugin import Plugin
from toolcrib.define.ports import Approver
from toolcrib.define.rpc import SCOPES
from toolcrib.define.tool import Tool
from toolcrib.policy.lint import Expect, Finding, lint
from toolcrib.policy.resolve import is_owner, sender_key
from toolcrib.registry.agents import Agents
from toolcrib.registry.catalog import Catalog, Problem
from toolcrib.registry.sources import Offer, catalog_from
from toolcrib.services.agents import AgentShelf
from toolcrib.services.approvals import Approvals
from toolcrib.services.router import TOOL_SCOPES, Router
from toolcrib.tools import CHANNEL_TOOLS, SHELF

from .agents import agents_for, folders_for
from .approvals import approvals_for
from .background import Background
from .belt import Belt
from .commands import Commands
from .mcp import Servers, servers_for
from .models import Models
from .plugins import enabled_plugins, handed_over, plugin_offers
from .ports import PortsOf, terms_of
from .record import audit_in, record_for, redact_for
from .sessions import sessions_for
from .state import FILE, State, state_in
from .subagents import Agency, Within, mandates_of, with_agents
from .turns import Desk, Running, Wanted

__all__ = ["Belt", "Crib", "Running", "enabled_plugins", "open", "sender_from"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a crib is made of."""

    loaded: Loaded
    catalog: Catalog
    agents: Agents
    window: Window
    ports_of: PortsOf
    router: Router
    approvals: Approvals
    commands: Commands
    mcp: Servers
    models: Models
    state: State
    turns: Turns
    agency: Agency
    background: Background


class Crib:
    """A wired crib: which tools exist, who gets which, and the turns that use them."""

    def __init__(self, parts: Parts) -> None:
        loaded = parts.loaded
        self.loaded, self.config, self.catalog, self.window = loaded, loaded.config, parts.catalog, parts.window
        self.agents = parts.agents
        self.approvals, self.commands, self.models = parts.approvals, parts.commands, parts.models
        self.sessions, self._router = parts.state.sessions, parts.router
        self._state, self._ports_of, self._turns = parts.state, parts.ports_of, parts.turns
        self.mcp, self._own = parts.mcp, parts.catalog
        self.renew()
        self.mcp.service.on_change(self.renew)
        self._agency, self.subagents = parts.agency, parts.background.service
        self._desk = Desk(loaded, parts.models, parts.turns, self.belt)
        parts.background.join(self._desk.turn, self._agency, self.belt)

    def renew(self) -> None:
        """Take in what MCP servers bring now; a belt that was handed out stays as it is."""
        policy = replace(self.loaded.policy, mandates=mandates_of(self.agents))
        self.catalog = self.mcp.joined(self._own)
        self._belts = Belts(self.catalog, policy, host=_host_facts(self.config), channels=tuple(policy.channels))

    def belt(
        self,
        caller: Caller | None = None,
        extra: Iterable[Tool] = (),
        *,
        approver: Approver | None = None,
        profile: str | None = None,
    ) -> Belt:
        """Return the caller's belt; with no caller, that of the owner at the terminal.

        `profile` is one more layer: the caller has nothing that is not in it, whatever the configuration says.
        """
        who, own = caller or Caller(), tuple(extra)
        belts = self._belts if profile is None else self._belts.narrowed(profile)
        window = self.window if approver is None else replace(self.window, approver=approver)
        return Belt(
            caller=who,
            selection=belts.belt_for(who, own),
            catalog=belts.catalog_with(own),
            window=window,
            ports=self._agency.ports(who, Within(belts, own, window)),
        )

    def turn(  # noqa: PLR0913  each by name, and all have a default
        self,
        message: str | Message,
        *,
        caller: Caller | None = None,
        session: str = "",
        model: Model | str | None = None,
        extra: Iterable[Tool] = (),
        approver: Approver | None = None,
        limits: Limits | None = None,
        leaf: str | None = None,
    ) -> Running:
        """Start to answer a message in a session, a new one when none is named; what happens can be followed.

        The model is the one named here, else the session's, the agent's or the configured one, else one that has a key,
        else the offline model. `leaf` is the line of the session to go on from, where that is not its last.
        """
        wanted = Wanted(
            session=session,
            caller=caller or Caller(),
            model=model,
            extra=tuple(extra),
            approver=approver,
            limits=limits,
            leaf=leaf,
        )
        self.mcp.start()
        return self._desk.turn(message, wanted)

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, *, caller: Caller) -> Any:
        """Ask a service for something by name, like `sessions.list`, as a distant client would; plain JSON comes back.

        The owner may ask for everything, others for what a tool of theirs may: reading and writing, never approving.
        """
        scopes = SCOPES if is_owner(self.loaded.policy, caller) and not caller.parents else TOOL_SCOPES
        return await self._router.ask(method, params or {}, caller=caller, scopes=scopes)

    async def close(self) -> None:
        """Stop every turn and command that still runs, keep what is left to keep, and let go of the workspaces."""
        await self.subagents.close()
        await self._desk.close()
        await self._turns.close()
        await self.mcp.close()
        await self.commands.close()
        await self.models.close()
        await self._state.close()
        self._ports_of.close()

    async def __aenter__(self) -> Self:
        self.mcp.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def lint(self, provider: str | None = None) -> list[Finding]:
        """Return what is odd about the configuration, the plugins and, for one provider, the schemas."""
        found = lint(self.loaded.policy, self.catalog.tools, self.catalog.groups, self._expects(), self._belts.belt_for)
        found += advice(self.loaded)
        found += map(_problem_finding, self.catalog.problems)
        if provider is not None:
            for tool in self.catalog.tools.values():
                for loss in losses(tool, provider):
                    what = f"{provider} is not told about {loss}; the arguments are checked here all the same"
                    found.append(Finding("loss", "note", tool.name, what, "say it in the description"))
        return [self._concealed(finding) for finding in found]

    def _concealed(self, finding: Finding) -> Finding:
        document = self.loaded.document
        if not document.referenced:
            return finding
        return replace(finding, message=conceal(finding.message, document), remedy=conceal(finding.remedy, document))

    def _expects(self) -> list[Expect]:
        return [
            Expect(
                origin=f"expect[{at}]",
                caller=self.models.assign(_expected_caller(each.caller)),
                has=each.has,
                lacks=each.lacks,
            )
            for at, each in enumerate(self.config.expect)
        ]


def open(  # noqa: PLR0913  each by name, and all have a default
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    plugins: Sequence[Plugin | Offer] = (),
    services: Sequence[object] = (),
    import_plugins: bool = True,
    openclaw: bool | None = None,
    approver: Approver | None = None,
    state: str | Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Crib:
    """Open a crib from a path, a mapping, or nothing for the defaults.

    `plugins` are a program's own, besides those that the configuration turns on. `services` are objects with `@rpc`
    methods, which tools reach through `ctx.rpc`. `import_plugins=False` takes enabled plugins as their manifests
    declare them: enough to explain and lint. `state` is the folder where sessions, the record of calls and big results
    are kept; without one they live as long as the crib.
    """
    loaded = load(Path(config) if isinstance(config, str) else config, env, openclaw=openclaw)
    found, problems = plugin_offers(loaded, import_plugins=import_plugins)
    offers = [*found, *handed_over(plugins)]
    channels = [Offer(source=f"channel:{name}", tools=tools) for name, tools in CHANNEL_TOOLS.items()]
    catalog = catalog_from([Offer(source="core", tools=SHELF), *offers, *channels], problems)
    # what a factory raised may quote the configuration it was given
    told = tuple(replace(problem, sentence=conceal(problem.sentence, loaded.document)) for problem in catalog.problems)
    folder, surroundings = None if state is None else Path(state), os.environ if env is None else env
    # a program that says everything in a mapping has no user whose files count
    folders = folders_for(loaded, surroundings, folder, own=not isinstance(config, Mapping))
    agents = agents_for(loaded, catalog, offers, folders, imported=import_plugins)
    tools = Catalog(catalog.tools, (*told, *agents.problems))
    whole = with_agents(tools, agents, loaded.policy.tools.subagents)
    kept = state_in(folder)
    record = record_for(loaded, kept.commits)
    terms = terms_of(loaded, (folders.accepted.folder.parent, folders.accepted.folder))
    commands = Commands(loaded, terms, kept.blobs)
    approvals = approvals_for(loaded, whole, state=folder, can_lend=commands.can_lend, record=record)
    # the judge comes last: what it judged is what runs
    guards = [*(hook for offer in offers for hook in offer.before), commands.guard]
    window = Window(
        record=record,
        guards=ready_guards(guards),
        observers=ready_observers(hook for offer in offers for hook in offer.after),
        approver=approver or approvals,
        blobs=kept.blobs,
        redact=redact_for(loaded) or str,
        timeout=float(loaded.config.tools.timeout_sec),
        limit=loaded.config.tools.results.max_chars,
    )
    models = Models(loaded.config, surroundings)
    turns = Turns(kept.sessions, record, Moments(hook for offer in offers for hook in offer.hooks.items()))
    sessions = sessions_for(loaded, kept.sessions, turns, models)
    audits = [] if folder is None else [audit_in(folder / FILE, loaded)]
    servers = servers_for(loaded, folder, surroundings)
    background = Background(loaded, kept.sessions, turns, models, agents)
    own = [approvals, commands.processes, sessions, servers.service, background.service, _shelf_for(agents)]
    router = Router([*services, *own, *audits])
    ports_of = PortsOf(terms, router, kept.blobs)
    return Crib(
        Parts(
            loaded=loaded,
            catalog=whole,
            agents=agents,
            window=window,
            ports_of=ports_of,
            router=router,
            approvals=approvals,
            commands=commands,
            mcp=servers,
            models=models,
            state=kept,
            turns=turns,
            agency=Agency(loaded, models, ports_of, background.places, None if folder is None else kept.sessions),
            background=background,
        )
    )


def _shelf_for(agents: Agents) -> AgentShelf:
    return AgentShelf(agents.offers, [problem.sentence for problem in agents.problems])


def sender_from(text: str) -> Sender:
    """Return the sender meant by `id:7`, `e164:+380..`, `username:bob` or `name:Bob`; a bare word is an id."""
    try:
        check_sender(text)
    except ValueError as error:
        raise CribError(str(error)) from None
    kind, _ = sender_key(text)
    if kind is None or kind == "*":
        plain = text.strip()
        return Sender(id=plain, e164=plain if plain.startswith("+") else None)
    return Sender(**{kind: text.partition(":")[2].strip()})


def _host_facts(config: Config) -> frozenset[str]:
    """Return the requirements this host meets: the parts of toolcrib that are switched on."""
    switches = {
        "browser": config.browser.enabled,
        "cron": config.cron.enabled,
        "memory": config.memory.enabled,
        "web.fetch": config.web.fetch.enabled,
        "web.search": config.web.search.enabled,
    }
    return frozenset(f"setting:{name}" for name, on in switches.items() if on)


def _problem_finding(problem: Problem) -> Finding:
    """Return what lint says about something that was offered and not taken in."""
    if problem.source == "plugins":
        return Finding("plugin", "warning", "plugins", problem.sentence, "mend it, or take it away")
    if problem.source == "agents":
        return Finding("agent", "warning", "agents", problem.sentence, "mend it, accept it, or take it away")
    if problem.source.partition(":")[0] == "mcp":
        return Finding("mcp", "warning", problem.source, problem.sentence, "`toolcrib mcp list` tells more")
    return Finding("collision", "error", problem.source, problem.sentence, "rename one, or leave the plugin out")


def _expected_caller(expected: ExpectedCaller) -> Caller:
    sender = expected.sender
    if isinstance(sender, str):
        who: Sender | None = sender_from(sender)
    else:
        who = None if sender is None else Sender(**sender.model_dump())
    parents = expected.parents
    chain = tuple(parents.split("/")) if isinstance(parents, str) else tuple(parents)
    plain = expected.model_dump(exclude={"sender", "parents"})
    return Caller(**plain, sender=who, parents=chain)
