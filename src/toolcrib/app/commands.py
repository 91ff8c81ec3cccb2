"""Commands of a crib: the judge that stands before `exec`, where each caller's commands run, and with what."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from toolcrib.backends.exec.bubblewrap import Bubblewrap
from toolcrib.backends.exec.host import Host, own_programs
from toolcrib.backends.exec.supervisor import SupervisorClient, end_leftovers
from toolcrib.backends.files.local import Terms
from toolcrib.config.load import Loaded
from toolcrib.config.settings import ExecSettings
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.plugin import Ask, Block, Hook, Word
from toolcrib.define.ports import Blobs
from toolcrib.define.shell import Command, Confinement, Leftover, Limits, Running, Shell
from toolcrib.policy.command import Judgement, Rules, judge, look_up_in, rules_from
from toolcrib.policy.command.environment import FIXED
from toolcrib.policy.resolve import ResolvedCaller, resolve
from toolcrib.services.processes import Permit, Place, Processes
from toolcrib.threads import in_thread

from .bindings import binding_of, contents_of
from .environment import environment_of, is_forbidden

__all__ = ["Commands"]

TOOL = "exec"

K = TypeVar("K")
V = TypeVar("V")

_STRICT = ("run", "ask", "deny")
_SECONDS, _LONGEST = 1_800.0, 21_600.0
_SHOWN, _MOST_SHOWN = 50_000, 200_000
_WHOLE = 2_000_000  # bytes of output from its beginning that can be paged through
_own = cache(own_programs)
_MOST = 4_096  # callers and judgements that are remembered


@dataclass(frozen=True, slots=True)
class NoShell:
    """Stands where commands cannot run, and says why."""

    reason: str

    async def start(self, command: Command, limits: Limits, /) -> Running:
        raise ToolError(self.reason, code="unavailable")

    async def describe(self) -> Confinement:
        raise ToolError(self.reason, code="unavailable")

    async def close(self) -> None:
        return


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the configuration says about the commands of one agent."""

    exec: ExecSettings
    rules: Rules
    look_up: Callable[[str], str | None] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What holds for the commands of one caller."""

    said: Said
    above: tuple[Said, ...]
    root: str
    place: Place

    @property
    def all(self) -> tuple[Said, ...]:
        """What was said to the caller, and to everybody above it."""
        return (self.said, *self.above)


class Commands:
    """Joins the judge, the shells and the processes. `terms_of` says which workspace a caller has."""

    def __init__(
        self,
        loaded: Loaded,
        terms_of: Callable[[Caller], Terms],
        blobs: Blobs,
        *,
        environ: Mapping[str, str] | None = None,
        state: Path | None = None,
    ) -> None:
        self._loaded, self._terms_of, self._state = loaded, terms_of, state
        self._environ = dict(os.environ if environ is None else environ)
        self._said: dict[str, Said] = {}
        self._callers: dict[Caller, Known] = {}
        self._shells: dict[tuple[str, str, str], Shell] = {}
        self._supervisor: SupervisorClient | None = None
        self._lendable: dict[str, bool] = {}
        self.processes = Processes(lambda caller: self._known(caller).place, blobs=blobs, sweep=self._sweep)
        self.guard = Hook(run=self._guard, name="the judge of commands", tools=frozenset({TOOL}))

    async def close(self) -> None:
        """End every command of the crib."""
        await self.processes.close()
        if self._supervisor is not None:
            await self._supervisor.close()

    def judged(
        self, caller: Caller, line: str, *, workdir: str = ".", env: Mapping[str, str] | None = None
    ) -> Judgement:
        """Return what becomes of a command line of this caller: never more than a parent of it would get (G7)."""
        known = self._known(caller)
        within = _within(known.root, workdir)
        found = [judge(line, each.rules, each.look_up, within=within, env=env or {}) for each in known.all]
        return max(found, key=lambda judgement: _STRICT.index(judgement.decision))  # of equals, the caller's own

    def can_lend(self, call: Call, binding: Mapping[str, str]) -> str | None:
        """Return why a yes to a command must not last; None when nothing in it can start something else."""
        if call.name == TOOL and self._lendable.get(call.key):
            return None
        return f"{call.name} can run something else here, so every call is asked about"

    # the guard

    async def _guard(self, ctx: Ctx, args: Mapping[str, Any]) -> Word:
        """Judge a command, and keep for its call what exactly may be started."""
        env: Mapping[str, str] = args.get("env") or {}
        if forbidden := [name for name in env if is_forbidden(name)]:
            return Block(f"the variable {forbidden[0]!r} is not for a call to set: it changes what a program runs")
        workdir = str(args.get("workdir") or ".")
        judgement = self.judged(ctx.caller, args["command"], workdir=workdir, env=env)
        if judgement.decision == "deny":
            return Block(judgement.reason)
        built = self._environment(ctx.caller, judgement, env, terminal=bool(args.get("pty")))
        permit = _permit(args["command"], judgement, workdir, built)
        if judgement.decision == "run":
            self.processes.permit(ctx.caller, ctx.call.key, permit)
            return None
        folder = os.path.realpath(os.path.join(self._known(ctx.caller).root, workdir))  # noqa: PTH118
        files = await in_thread(contents_of, folder, judgement)

        async def unchanged() -> None:
            now = await in_thread(contents_of, folder, judgement)
            if changed := [path for path in {**files, **now} if files.get(path) != now.get(path)]:
                raise ToolError(f"{changed[0]!r} was changed after it was shown; ask again", code="changed")

        self.processes.permit(ctx.caller, ctx.call.key, replace(permit, unchanged=unchanged))
        _put(self._lendable, ctx.call.key, judgement.may_last)
        return Ask(judgement.reason, binding_of(judgement, permit, folder, files))

    def _environment(
        self, caller: Caller, judgement: Judgement, env: Mapping[str, str], *, terminal: bool
    ) -> dict[str, str]:
        rules = self._known(caller).said.rules
        built = environment_of(self._environ, rules.trusted, rules.env, terminal=terminal)
        sets = judgement.commands[0].sets if judgement.argv is not None and judgement.commands else {}
        # what runs unasked was judged without a user's own settings of git, so it runs without them
        fixed = FIXED if judgement.decision == "run" and rules.security == "allowlist" else {}
        return {**built, **env, **sets, **fixed}

    # what holds for a caller

    def _known(self, caller: Caller) -> Known:
        """Return what holds for a caller, worked out once as long as it is one of the last to ask."""
        known = self._callers.get(caller)
        if known is None:
            who = resolve(self._loaded.policy, caller)
            terms, said = self._terms_of(caller), self._said_to(who.agent)
            above = tuple({each.agent: self._said_to(each.agent) for each in who.ceiling}.values())
            settings = _bounded(said.exec, [each.exec for each in above])
            place = self._place_of(who, settings, terms)
            known = Known(said=said, above=above, root=str(terms.root), place=place)
            _put(self._callers, caller, known)
        return known

    def _said_to(self, agent: str) -> Said:
        known = agent if self._loaded.config.agent(agent) else ""
        if known not in self._said:
            self._said[known] = self._read(known)
        return self._said[known]

    def _read(self, agent: str) -> Said:
        config = self._loaded.config
        own = config.tools.exec
        rules = rules_from(own)
        if agent and (settings := config.agent(agent)):
            theirs = settings.tools.exec
            rules = rules_from(theirs, f"agents.{config.written_id(agent)}.tools.exec", over=rules)
            own = own.model_copy(update={name: getattr(theirs, name) for name in theirs.model_fields_set})
        return Said(exec=own, rules=rules, look_up=_look_up(rules.trusted))

    def _place_of(self, who: ResolvedCaller, settings: ExecSettings, terms: Terms) -> Place:
        config = self._loaded.config
        confined = who.is_sandboxed
        seconds = float(settings.timeout_sec or _SECONDS)
        memory = config.sandbox.memory_mb
        limits = Limits(
            seconds=seconds,
            memory=memory << 20 if memory else Limits().memory,
            processes=config.sandbox.processes or Limits().processes,
            whole=_WHOLE,
            network=config.sandbox.network if confined else settings.network,
        )
        return Place(
            shell=self._shell("sandbox" if confined and settings.host == "host" else settings.host, terms),
            scope=_scope(who),
            limits=limits,
            longest=float(settings.timeout_sec or _LONGEST),
            window=10.0 if settings.background_ms is None else settings.background_ms / 1000,
            shown=min(settings.output_limit or _SHOWN, _MOST_SHOWN),
        )

    def _shell(self, host: str, terms: Terms) -> Shell:
        root = str(terms.root)
        key = (host, root, terms.access)
        if key not in self._shells:
            if self._supervisor is None:
                self._supervisor = SupervisorClient(str(self._folder(terms)))
            self._shells[key] = _new_shell(host, root, terms, self._supervisor)
        return self._shells[key]

    def _folder(self, terms: Terms) -> Path:
        return (self._state or terms.state) / "commands"

    async def _sweep(self) -> tuple[Leftover, ...]:
        if self._supervisor is None:
            return ()
        return tuple(await in_thread(end_leftovers, str(self._folder(self._terms_of(Caller())))))


def _bounded(own: ExecSettings, above: Sequence[ExecSettings]) -> ExecSettings:
    """Return the settings without the bare host, a network or a time that somebody above does not have."""
    others = [each for each in above if each is not own]
    if not others:
        return own
    hosts = [each.host for each in (own, *others)]
    times = [each.timeout_sec for each in (own, *others) if each.timeout_sec]
    return own.model_copy(
        update={
            "host": own.host if own.host != "host" else next((host for host in hosts if host != "host"), "host"),
            "network": all(each.network for each in (own, *others)),
            "timeout_sec": min(times, default=None),
        }
    )


def _new_shell(host: str, root: str, terms: Terms, supervisor: SupervisorClient) -> Shell:
    if host == "host":
        return Host(root, supervisor)
    if host == "sandbox":
        return Bubblewrap(root, access=terms.access, folders=tuple(_own().values()), supervisor=supervisor)
    return NoShell("commands in docker are not built yet; use tools.exec.host: sandbox")


def _scope(who: ResolvedCaller) -> str:
    """Return whose processes these are: those of an agent in one conversation; without one, of who speaks."""
    caller, sender = who.caller, who.caller.sender
    conversation = caller.session or json.dumps(
        [caller.channel, caller.account, caller.group, sender and (sender.id or sender.e164), caller.parents]
    )
    return f"{who.agent} {conversation}"


def _permit(line: str, judgement: Judgement, workdir: str, env: Mapping[str, str]) -> Permit:
    """Return what is started: the words themselves where that is all there is, else what a shell reads."""
    program = judgement.commands[0].program if judgement.commands else None
    argv = (program, *judgement.argv[1:]) if judgement.argv is not None and program is not None else None
    return Permit(line=line, argv=argv, script=judgement.script, cwd=workdir, env=env)


def _within(root: str, workdir: str) -> Callable[[str], bool]:
    """Return what tells whether a path, seen from the folder, stays in the workspace, links followed."""

    def within(path: str) -> bool:
        if path.startswith("~") or "\0" in path:
            return False
        top = os.path.realpath(root)
        end = os.path.realpath(os.path.join(top, workdir, path))  # noqa: PTH118
        return end == top or end.startswith(f"{top.rstrip('/')}/")

    return within


def _put(table: dict[K, V], key: K, value: V) -> None:
    """Remember something; of too much, the oldest is forgotten."""
    table[key] = value
    while len(table) > _MOST:
        del table[next(iter(table))]


def _look_up(trusted: tuple[str, ...]) -> Callable[[str], str | None]:
    """Return the look-up of programs: in the trusted folders, and then among those that came with us."""
    listed = look_up_in(trusted, _is_program)
    return lambda name: listed(name) or _own().get(name)


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113
