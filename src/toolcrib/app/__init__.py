"""The only place that knows everyone: configuration in, a wired crib out."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from toolcrib.adapter import losses
from toolcrib.agent.hooks import Moments, bind_guards, bind_observers
from toolcrib.agent.invoke import CallPipeline
from toolcrib.agent.turn import Turns
from toolcrib.config.advice import advice
from toolcrib.config.complain import conceal
from toolcrib.config.load import Loaded, load
from toolcrib.config.settings import ExpectedCaller
from toolcrib.config.values import check_sender
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.errors import CribError
from toolcrib.define.message import Message
from toolcrib.define.model import Model
from toolcrib.define.plugin import Guard, Hook, Plugin
from toolcrib.define.ports import SCOPES, Approver
from toolcrib.define.record import Record
from toolcrib.define.tool import Tool
from toolcrib.define.turn import Limits, TurnRequest, user_message
from toolcrib.policy.lint import Expect, Finding, lint
from toolcrib.policy.resolve import is_owner, sender_key
from toolcrib.registry.agents import Agents
from toolcrib.registry.catalog import Catalog, Problem
from toolcrib.registry.sources import Offer, collect_catalog
from toolcrib.services.agents import AgentShelf
from toolcrib.services.approvals import Approvals
from toolcrib.services.router import TOOL_SCOPES, Router
from toolcrib.services.subagents.runs import SubagentSlots
from toolcrib.services.subagents.service import Subagents
from toolcrib.tools import CHANNEL_TOOLS, SHELF

from .agents import agents_for, folders_for
from .approvals import approvals_for
from .background import SubagentStarter
from .belt import Belt, BeltSource
from .commands import Commands
from .mcp import Servers, servers_for
from .models import Models
from .plugins import enabled_plugins, handed_over, plugin_offers
from .ports import PortsOf, terms_of
from .record import audit_in, record_for, redact_for
from .sessions import sessions_for
from .state import FILE, State, state_in
from .subagents import SubagentRunner, with_agents
from .turns import Running, SetupResolver, TurnStarter

__all__ = ["Belt", "Crib", "Running", "enabled_plugins", "open", "sender_from"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a crib is made of."""

    loaded: Loaded
    agents: Agents
    belts: BeltSource
    ports_of: PortsOf
    router: Router
    approvals: Approvals
    commands: Commands
    mcp: Servers
    models: Models
    state: State
    turns: Turns
    starter: TurnStarter
    subagents: Subagents


class Crib:
    """A wired crib: which tools exist, who gets which, and the turns that use them."""

    def __init__(self, parts: Parts) -> None:
        loaded = parts.loaded
        self.loaded, self.config, self.agents = loaded, loaded.config, parts.agents
        self.approvals, self.commands, self.models = parts.approvals, parts.commands, parts.models
        self.sessions, self.mcp, self.subagents = parts.state.sessions, parts.mcp, parts.subagents
        self._belts, self._turns, self._starter = parts.belts, parts.turns, parts.starter
        self._state, self._ports_of, self._router = parts.state, parts.ports_of, parts.router

    @property
    def catalog(self) -> Catalog:
        """The tools there are now, those of MCP servers among them."""
        return self._belts.catalog

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
        return self._belts.belt(caller or Caller(), extra, approver=approver, profile=profile)

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
        return self.start(
            TurnRequest(
                message=user_message(message) if isinstance(message, str) else message,
                session=session,
                caller=caller or Caller(),
                model=model,
                extra=tuple(extra),
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

    async def ask(self, method: str, params: Mapping[str, Any] | None = None, *, caller: Caller) -> Any:
        """Ask a service for something by name, like `sessions.list`, as a distant client would; plain JSON comes back.

        The owner may ask for everything, others for what a tool of theirs may: reading and writing, never approving.
        """
        scopes = SCOPES if is_owner(self.loaded.policy, caller) and not caller.parents else TOOL_SCOPES
        return await self._router.ask(method, params or {}, caller=caller, scopes=scopes)

    async def close(self) -> None:
        """Stop every turn and command that still runs, keep what is left to keep, and let go of the workspaces."""
        await self.subagents.close()
        await self._starter.close()
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
        found = lint(
            self.loaded.policy, self.catalog.tools, self.catalog.groups, self._expects(), self._belts.belts.belt_for
        )
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
    catalog = collect_catalog([Offer(source="core", tools=SHELF), *offers, *channels], problems)
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
    pipeline = replace(
        _pipeline(loaded, offers, record, commands.guard), approver=approver or approvals, blobs=kept.blobs
    )
    models = Models(loaded.config, surroundings)
    servers = servers_for(loaded, folder, surroundings)
    audits = [] if folder is None else [audit_in(folder / FILE, loaded)]
    # what tools ask for comes before what starts turns: services that need turns are mounted behind them
    router = Router([*services, approvals, commands.processes, servers.service, _shelf_for(agents), *audits])
    ports_of, slots = PortsOf(terms, router, kept.blobs), SubagentSlots()
    runner = SubagentRunner(loaded, models, ports_of, slots, None if folder is None else kept.sessions)
    belts = BeltSource(loaded, whole, agents, servers, pipeline, runner)
    turns = Turns(kept.sessions, record, SetupResolver(loaded, models, belts), _moments(offers))
    starter = TurnStarter(turns, models)
    host = SubagentStarter(loaded, agents, models, belts=belts, runner=runner, starter=starter, turns=turns)
    subagents = Subagents(kept.sessions, loaded.policy, host, slots)
    router.mount(sessions_for(loaded, kept.sessions, turns, models), subagents)
    return Crib(
        Parts(
            loaded=loaded,
            agents=agents,
            belts=belts,
            ports_of=ports_of,
            router=router,
            approvals=approvals,
            commands=commands,
            mcp=servers,
            models=models,
            state=kept,
            turns=turns,
            starter=starter,
            subagents=subagents,
        )
    )


def _moments(offers: Sequence[Offer]) -> Moments:
    return Moments(hook for offer in offers for hook in offer.hooks.items())


def _shelf_for(agents: Agents) -> AgentShelf:
    return AgentShelf(agents.offers, [problem.sentence for problem in agents.problems])


def _pipeline(loaded: Loaded, offers: Sequence[Offer], record: Record, judge: Hook | Guard) -> CallPipeline:
    """Return what every call goes through."""
    # the judge comes last: what it judged is what runs
    guards = [*(hook for offer in offers for hook in offer.before), judge]
    return CallPipeline(
        record=record,
        guards=bind_guards(guards),
        observers=bind_observers(hook for offer in offers for hook in offer.after),
        redact=redact_for(loaded) or str,
        timeout=float(loaded.config.tools.timeout_sec),
        limit=loaded.config.tools.results.max_chars,
    )


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
