"""The only place that knows everyone: configuration in, a wired crib out."""

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from toolcrib.adapter import declare, losses
from toolcrib.agent.belt import Belts
from toolcrib.agent.hooks import ready_guards, ready_observers
from toolcrib.agent.invoke import Window, invoke, invoke_all
from toolcrib.agent.keys import new_key
from toolcrib.backends.stores.memory import MemoryBlobs, MemoryRecord
from toolcrib.config.advice import advice
from toolcrib.config.complain import conceal
from toolcrib.config.load import Loaded, load
from toolcrib.config.settings import Config, ExpectedCaller
from toolcrib.config.values import check_sender
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.context import Course, Ctx, Ports
from toolcrib.define.errors import CribError
from toolcrib.define.event import CallEvent
from toolcrib.define.make import maker
from toolcrib.define.message import Call
from toolcrib.define.ports import Approver
from toolcrib.define.result import Result
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Belt, Verdict
from toolcrib.policy.identity import sender_key
from toolcrib.policy.lint import Expect, Finding, lint
from toolcrib.registry.catalog import Catalog, Problem
from toolcrib.registry.sources import Offer, catalog_from
from toolcrib.services.approvals import Approvals
from toolcrib.services.router import Router
from toolcrib.tools import CHANNEL_TOOLS, SHELF

from .approvals import approvals_for
from .commands import Commands
from .plugins import enabled_plugins, plugin_offers
from .ports import PortsOf, terms_of

__all__ = ["BeltHandle", "Crib", "enabled_plugins", "open", "sender_from"]

_make_call, _make_ctx = maker(Call), maker(Ctx)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeltHandle:
    """A caller's belt, joined to the adapters and to `invoke`."""

    caller: Caller
    belt: Belt
    catalog: Catalog = field(repr=False)
    window: Window = field(repr=False)
    ports: Ports = field(repr=False)

    @property
    def tools(self) -> Mapping[str, Tool]:
        return self.belt.tools

    @property
    def verdicts(self) -> Mapping[str, Verdict]:
        return self.belt.verdicts

    def declare(self, provider: str) -> list[dict[str, Any]]:
        """Return the belt's tools as `provider` takes them, for the program to keep and change."""
        return [deepcopy(declare(tool, provider)) for tool in self.belt.tools.values()]

    def call(self, name: str, args: Mapping[str, Any] | None = None, *, id: str = "") -> Coroutine[Any, Any, Result]:
        """Run one tool for this caller, when awaited; what fails comes back as a Result that says so."""
        key = new_key()
        call = _make_call((id or key, name, args or {}, key, "", ""))
        return invoke(self.belt, _make_ctx((call, self.caller, Course(), self.ports)), self.window)

    async def call_all(self, calls: Iterable[Call]) -> list[Result]:
        """Run the calls of one reply: checked in their order, run side by side, answered in their order."""
        keyed = (call if call.key else call._replace(key=new_key()) for call in calls)
        ctxs = [Ctx(call, self.caller, Course(), self.ports) for call in keyed]
        return await invoke_all(self.belt, ctxs, self.window)

    def watched_by(self, watch: Callable[[CallEvent], None]) -> "BeltHandle":
        """Return the same belt, whose calls tell `watch` how they go."""
        return replace(self, window=replace(self.window, watch=watch))


class Crib:
    """A wired crib: which tools exist, and who gets which."""

    def __init__(
        self,
        loaded: Loaded,
        catalog: Catalog,
        window: Window,
        ports_of: PortsOf,
        approvals: Approvals,
        commands: Commands,
    ) -> None:
        self.loaded, self.config, self.catalog, self.window = loaded, loaded.config, catalog, window
        self.approvals, self.commands = approvals, commands
        self._ports_of = ports_of
        self._belts = Belts(
            catalog, loaded.policy, host=_host_facts(loaded.config), channels=tuple(loaded.policy.channels)
        )

    def belt(
        self, caller: Caller | None = None, extra: Iterable[Tool] = (), *, approver: Approver | None = None
    ) -> BeltHandle:
        """Return the caller's belt; with no caller, that of the owner at the terminal."""
        who, own = caller or Caller(), tuple(extra)
        return BeltHandle(
            caller=who,
            belt=self._belts.belt_for(who, own),
            catalog=self._belts.catalog_with(own),
            window=self.window if approver is None else replace(self.window, approver=approver),
            ports=self._ports_of(who),
        )

    async def close(self) -> None:
        """End every command that still runs, and let go of the workspaces."""
        await self.commands.close()
        self._ports_of.close()

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
            Expect(origin=f"expect[{at}]", caller=_expected_caller(each.caller), has=each.has, lacks=each.lacks)
            for at, each in enumerate(self.config.expect)
        ]


def open(  # noqa: PLR0913  each by name, and all have a default
    config: str | Path | Mapping[str, Any] | None = None,
    *,
    plugins: Sequence[Offer] = (),
    services: Sequence[object] = (),
    import_plugins: bool = True,
    openclaw: bool | None = None,
    approver: Approver | None = None,
    env: Mapping[str, str] | None = None,
) -> Crib:
    """Open a crib from a path, a mapping, or nothing for the defaults.

    `services` are objects with `@rpc` methods, which tools reach through `ctx.rpc`. `import_plugins=False` takes
    enabled plugins as their manifests declare them: enough to explain and lint.
    """
    loaded = load(Path(config) if isinstance(config, str) else config, env, openclaw=openclaw)
    offers, problems = plugin_offers(loaded, import_plugins=import_plugins)
    channels = [Offer(source=f"channel:{name}", tools=tools) for name, tools in CHANNEL_TOOLS.items()]
    catalog = catalog_from([Offer(source="core", tools=SHELF), *offers, *plugins, *channels], problems)
    # what a factory raised may quote the configuration it was given
    told = tuple(replace(problem, sentence=conceal(problem.sentence, loaded.document)) for problem in catalog.problems)
    whole = Catalog(catalog.tools, told)
    blobs = MemoryBlobs()
    commands = Commands(loaded, terms_of(loaded), blobs)
    approvals = approvals_for(loaded, whole, can_lend=commands.can_lend)
    # the judge comes last: what it judged is what runs
    guards = [*(hook for offer in (*offers, *plugins) for hook in offer.before), commands.guard]
    window = Window(
        record=MemoryRecord(),
        guards=ready_guards(guards),
        observers=ready_observers(hook for offer in (*offers, *plugins) for hook in offer.after),
        approver=approver or approvals,
        blobs=blobs,
        timeout=float(loaded.config.tools.timeout_sec),
        limit=loaded.config.tools.results.max_chars,
    )
    router = Router([*services, approvals, commands.processes])
    return Crib(loaded, whole, window, PortsOf(loaded, router, blobs), approvals, commands)


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
