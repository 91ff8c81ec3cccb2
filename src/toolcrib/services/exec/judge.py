"""The judge that stands before `exec`: what becomes of a command line, where it runs and with what, for each caller."""

import os
import shlex
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import orjson

from toolcrib.config.settings import ExecSettings, HookProgramSettings, SettingsSource
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.message import Call
from toolcrib.define.plugin import Allow, Ask, Block, Hook, Word
from toolcrib.define.ports import Blobs
from toolcrib.define.shell import Command, CommandLimits, Leftover, Shell
from toolcrib.define.verdict import Basis, Grounds, Verdict
from toolcrib.lazy import dataclass, field, replace
from toolcrib.policy.command import CommandRules, Judgement, look_up_in, rules_from
from toolcrib.policy.command.environment import FIXED, HELD
from toolcrib.policy.command.judge import SeenLook, judge_strictest
from toolcrib.policy.command.rules import base_name, dump_rules
from toolcrib.policy.resolve import ResolvedCaller, person_of, resolve
from toolcrib.threads import in_thread

from .binding import bind, explain_unbound, find_code, list_operands, look_at_files, spell_whole
from .processes import ExecTarget, Permit, Processes, name_conversation, remember
from .reach import FileTracer, ask_about_secrets, find_reach
from .repository import explain_odd_repository, find_inside, read_inside

TOOL = "exec"
_Event = Mapping[str, Any]

_DEFAULT_SECONDS, _MAX_SECONDS = 1_800.0, 21_600.0
_DEFAULT_SHOWN_CHARS, _MAX_SHOWN_CHARS = 50_000, 200_000
_MAX_PROGRAM_BYTES = 64 << 20  # of a program of the workspace
_WHOLE_OUTPUT_BYTES = 2_000_000  # from its beginning, that can be paged through

# Never a call's to set, whatever the rules say: they make loaders, shells and interpreters run something else.
_FORBIDDEN = frozenset({
    "PATH", "BASH_ENV", "ENV", "IFS", "SHELLOPTS", "BASHOPTS", "PS4", "PROMPT_COMMAND", "CDPATH", "GLOBIGNORE",
    "GCONV_PATH", "GLIBC_TUNABLES", "LOCPATH", "NODE_OPTIONS", "NODE_PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP",
    "RUBYLIB", "RUBYOPT", "PERL5LIB", "PERL5OPT", "PERL5DB", "SSLKEYLOGFILE",
})  # fmt: skip
_FORBIDDEN_PREFIXES = ("LD_", "DYLD_", "BASH_FUNC_")


class WorkspaceTerms(Protocol):
    """Which folder is a caller's workspace; what else stands in it is for the shells."""

    @property
    def root(self) -> Path: ...


class Shells(FileTracer, Protocol):
    """Where commands run: one shell for each host, folder and way it may be used."""

    @property
    def programs(self) -> Mapping[str, str]:
        """The programs that came with us, by name."""

    def find(self, host: str, terms: Any, /) -> Shell:
        """Return the shell of a host over a workspace."""

    async def sweep(self) -> Sequence[Leftover]:
        """End what a crib left running that died; return it."""

    async def close(self) -> None:
        """End every command."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentRules:
    """What the configuration says about the commands of one agent."""

    exec: ExecSettings
    rules: CommandRules
    look_up: Callable[[str], str | None] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallerRules:
    """What holds for the commands of one caller: its own rules, and in `all` also those of everybody above it."""

    own: AgentRules
    all: tuple[AgentRules, ...]
    root: str
    target: ExecTarget
    grounds: Grounds


class CommandRunner:
    """Joins the judge, the shells and the processes. `terms_of` says which workspace a caller has."""

    def __init__(
        self,
        *,
        settings: SettingsSource,
        terms_of: Callable[[Caller], WorkspaceTerms],
        shells: Shells,
        blobs: Blobs,
        environ: Mapping[str, str],
        explain_unaccepted: Callable[[str, bytes], str],
    ) -> None:
        self.redact: Callable[[str], str] | None = None
        self._explain = explain_unaccepted
        self._settings, self._terms_of, self._shells, self._config = settings, terms_of, shells, settings.config
        self._environ = dict(environ)
        self._agents: dict[str, AgentRules] = {}
        self._callers: dict[Caller, CallerRules] = {}
        self._lendable: dict[str, bool] = {}
        self.processes = Processes(lambda caller: self._rules_of(caller).target, blobs=blobs, sweep=shells.sweep)
        self.guard = Hook(run=self.decide, name="the judge of commands", tools=frozenset({TOOL}))

    async def close(self) -> None:
        """End every command of the crib."""
        await self.processes.close()
        await self._shells.close()

    def judge(
        self, caller: Caller, line: str, *, workdir: str = ".", env: Mapping[str, str] | None = None
    ) -> Judgement:
        """Return what becomes of a command line of this caller: never more than a parent of it would get (G7)."""
        known = self._rules_of(caller)
        judged = self._judge(known, line, workdir, env or {})[0]
        return ask_about_secrets(self._shells, known, judged, _make_permit(line, judged, workdir, {}), self.redact)

    def judge_call(self, caller: Caller, call: Call, verdict: Verdict) -> Verdict:
        """Return the verdict on a call of `exec` by its command line; any other verdict stands."""
        line, workdir = call.args.get("command"), call.args.get("workdir") or "."
        if verdict.decision != "allow" or verdict.tool != TOOL:
            return verdict
        if not isinstance(line, str) or not isinstance(workdir, str):
            return verdict
        try:
            own = self.judge(caller, line, workdir=workdir)
        except CribError:  # the call itself will say what is wrong with it
            return verdict
        if own.decision == "run":
            return verdict
        found = replace(verdict, decision=own.decision, rule=own.rule or None, origin=own.origin or None)
        if own.decision == "deny":
            return replace(found, reason=own.reason)
        remedy = "answer the question, or list the command in tools.exec.allow"
        return replace(found, layer="ask", reason=own.reason, remedy=remedy)

    def _judge(
        self, known: CallerRules, line: str, workdir: str, env: Mapping[str, str]
    ) -> tuple[Judgement, dict[str, Any], Sequence[str]]:
        """Judge a line; return also what was seen of the disk, from which it follows again, and what is to be held."""
        programs = [SeenLook(partial(self._look_up, each, known.root, workdir)) for each in known.all]
        within = SeenLook(_make_within(known.root, workdir))
        odd = SeenLook(lambda program: self._explain_odd_program(known.root, workdir, program))
        unaccepted = SeenLook(partial(self._explain_unaccepted, known.root, held := list[str]()))
        rules = [(each.rules, seen) for each, seen in zip(known.all, programs, strict=True)]
        judgement = judge_strictest(line, rules, within=within, odd=odd, unaccepted=unaccepted, env=env)
        seen = {"within": within.found, "odd": odd.found, "unaccepted": unaccepted.found}
        return judgement, {"programs": [each.found for each in programs], **seen}, held

    def _look_up(self, rules: AgentRules, root: str, workdir: str, name: str) -> str | None:
        """Return the program that a word means: of a trusted folder, or of the workspace if a list names its path."""
        path = rules.look_up(name)
        if "/" not in name if path is None else not _lies_in(root, path):
            return path
        try:
            end, about = find_inside(partial(self._shells.open_inside, root), path or os.path.join(workdir, name))  # noqa: PTH118
        except ToolError:  # it leads out of the workspace
            return path
        if about is None or not stat.S_ISREG(about.st_mode) or not about.st_mode & 0o111:
            return path
        # where its links end: they may be turned before it starts
        return end if path or rules.rules.lists_file(name, end) else None

    def _explain_unaccepted(self, root: str, held: list[str], program: str) -> str:
        """Return why a program of the workspace is not run unasked, "" when it is; `held` takes what is accepted."""
        if not _lies_in(root, program) or program in self._shells.programs.values():
            return ""
        try:
            held.append(self._read_accepted(root, program)[0])
        except ToolError as error:
            return str(error)
        return "" if len(held) == 1 else "programs of the workspace are held to what was accepted one at a time"

    def _read_accepted(self, root: str, program: str) -> tuple[str, bytes]:
        """Return a program of the workspace as the owner accepted it; ToolError when nobody has, as it is now."""
        data = read_inside(partial(self._shells.open_inside, root), program, _MAX_PROGRAM_BYTES)
        if why := self._explain(program, data):
            raise ToolError(why, code="changed")
        return program, data

    def _explain_odd_program(self, root: str, workdir: str, program: str) -> str:
        """Return why a program may do more than read, whatever it is given; "" when it does not."""
        if _lies_in(root, program):
            return f"{program!r} lies in the workspace, so it may be anything, whatever it is called"
        if base_name(program) != "git":
            return ""
        return explain_odd_repository(partial(self._shells.open_inside, root), os.path.realpath(root), workdir)

    def can_lend(self, call: Call, binding: Mapping[str, str]) -> str | None:
        """Return why a yes to a command must not last; None when nothing in it can start something else."""
        if call.name == TOOL and self._lendable.get(call.key):
            return None
        return f"{call.name} can run something else here, so every call is asked about"

    # programs that the configuration names

    async def run_named(
        self, caller: Caller, program: HookProgramSettings, event: _Event
    ) -> tuple[int | None, bytes, bytes]:
        """Run what the operator wrote down, unjudged; return its exit code (None: it was ended), its stdout and stderr.
        An accepted file of the workspace runs there; all else in `/`: what lies where it starts nobody has accepted.
        """
        known = self._rules_of(caller)
        root, words = os.path.realpath(known.root), list(program.run)
        code, looks_around = find_code(words)
        held = await in_thread(self._hold, root, words, code)
        is_host = program.host == "host" if program.host else known.target.is_host
        shell = self._shells.find(program.host, self._terms_of(caller)) if program.host else known.target.shell
        rules = known.own.rules
        env = build_environment(self._environ, rules.trusted, rules.env, terminal=False)
        if held or looks_around:  # what lies beside it, or where it runs, is no code, whatever it is called
            env |= {"PYTHONSAFEPATH": "1"}
        start = "" if held and any(os.path.normpath(os.path.join(root, each)) == held[0] for each in code) else "cd /; "  # noqa: PTH118
        words = [spell_whole(root, word, held[0]) for word in words] if held and start else words
        with ExitStack() as stack:
            if held and is_host:  # nothing keeps a file there as it is, so that a copy runs
                words = stack.enter_context(_copy_held(root, words, held))
            # stdout first, then stderr behind a zero: the streams of a command come as one
            line = f"exec 3>&1; {start}e=$({shlex.join(words)} 2>&1 >&3 3>&-); c=$?; printf '\\0%s' \"$e\"; exit $c"
            command = Command(line=line, env=env, stdin=orjson.dumps({**event, "cwd": root}, default=str), held=held)
            running = await shell.start(command, replace(known.target.limits, seconds=float(program.timeout_sec)))
            try:
                ended = await running.wait()
            finally:
                if running.ended is None:
                    await running.stop()
        printed = await running.whole()
        if printed.missing and ended.code == 0:  # what is missing may have been the word that counts
            raise ToolError(f"it printed more than can be read: {printed.why}", code="failed")
        out, _, err = printed.data.rpartition(b"\0")
        return ended.code if ended.reason == "exit" else None, out, err

    def _hold(self, root: str, words: Sequence[str], code: Sequence[str]) -> tuple[str, bytes] | None:
        """Return the file of the workspace that a program is made of, as it was accepted; ToolError when nobody has."""
        own = dict[str, None]()
        for word in (*list_operands(words[1:]), *code):
            path = os.path.join(root, word)  # noqa: PTH118
            is_there, is_code = os.path.lexists(path), word in code
            # what runs is held to it also while it is not there: it may be in the next moment
            if _lies_in(root, path) and (
                (is_there and (is_code or not os.path.isdir(path))) or (is_code and {"/", "."} & {*word})  # noqa: PTH112
            ):
                own[os.path.normpath(path)] = None
        if len(own) > 1:
            raise ToolError("of its files in a workspace one is held to what was accepted, not two", code="denied")
        held = self._read_accepted(root, next(iter(own))) if own else None
        first = held[1].partition(b"\n")[0] if held else b""
        if first.startswith(b"#!"):
            readers, _ = find_code(first[2:].decode(errors="replace").split())
            if any(_lies_in(root, os.path.join(root, each)) for each in readers):  # noqa: PTH118
                raise ToolError("what its first line says should read it lies in the workspace", code="denied")
        return held

    # the guard

    async def decide(self, ctx: Ctx, args: Mapping[str, Any]) -> Word:
        """Judge a command, and keep for its call what exactly may be started."""
        env: Mapping[str, str] = args.get("env") or {}
        if forbidden := [name for name in env if is_forbidden(name)]:
            return Block(f"the variable {forbidden[0]!r} is not for a call to set: it changes what a program runs")
        workdir = str(args.get("workdir") or ".")
        known = self._rules_of(ctx.caller)
        judgement, seen, held = self._judge(known, args["command"], workdir, env)
        basis = Basis(judgement.rule, judgement.origin, known.grounds, seen)
        if judgement.decision == "deny":
            return Block(judgement.reason, basis)
        built = self._environment(ctx.caller, judgement, env, terminal=bool(args.get("pty")))
        permit = _make_permit(args["command"], judgement, workdir, built)
        terms, taint = self._terms_of(ctx.caller), ctx.course.taint
        reach = await in_thread(find_reach, self._shells, terms, judgement, permit, taint, known.target)
        permit = replace(permit, reach=reach)
        judgement = await in_thread(ask_about_secrets, self._shells, known, judgement, permit, self.redact)
        if judgement.decision == "run":
            if held:
                permit = replace(permit, check_unchanged=partial(in_thread, self._read_accepted, known.root, held[0]))
            self.processes.permit(ctx.caller, ctx.call.key, permit)
            return Allow(judgement.reason, basis)
        alone = ((each, replace(known, all=(each,))) for each in known.all)
        asking = [each for each, one in alone if self._judge(one, args["command"], workdir, env)[0].decision != "run"]
        # about a secret no rule asks
        says = tuple(dict.fromkeys(each.exec.consent for each in asking or known.all))
        word = await self._ask(ctx, known, judgement, permit, basis)
        return replace(word, says=says) if isinstance(word, Ask) else word

    async def _ask(self, ctx: Ctx, known: CallerRules, judgement: Judgement, permit: Permit, basis: Basis) -> Word:
        """Ask about a command, with all that a yes is bound to; it is looked at again before the start."""
        open_inside = partial(self._shells.open_inside, known.root)
        try:
            folder, about = find_inside(open_inside, permit.cwd)
        except ToolError as error:
            return Block(str(error), basis)
        if about is None:
            return Block(f"no folder {permit.cwd!r} in the workspace to run the command in", basis)
        look = partial(in_thread, look_at_files, open_inside, folder, judgement, permit.line)
        files, _ = await look()

        async def check_unchanged() -> tuple[str, bytes] | None:
            now, held = await look()
            if changed := [path for path in {**files, **now} if files.get(path) != now.get(path)]:
                raise ToolError(f"{changed[0]!r} was changed after it was shown; ask again", code="changed")
            return held

        cwd = os.path.relpath(folder, os.path.realpath(known.root))
        permit = replace(permit, cwd=cwd, folder=about.st_ino, check_unchanged=check_unchanged)
        self.processes.permit(ctx.caller, ctx.call.key, permit)
        remember(self._lendable, ctx.call.key, judgement.may_last)
        unbound = explain_unbound(judgement, permit.line, is_host=known.target.is_host)
        return Ask(judgement.reason, bind(judgement, permit, folder, files, unbound), basis)

    def _environment(
        self, caller: Caller, judgement: Judgement, env: Mapping[str, str], *, terminal: bool
    ) -> dict[str, str]:
        rules = self._rules_of(caller).own.rules
        built = build_environment(self._environ, rules.trusted, rules.env, terminal=terminal)
        sets = judgement.commands[0].sets if judgement.argv is not None and judgement.commands else {}
        # what runs unasked was judged without a user's own settings of git, so it runs without them
        fixed = FIXED if judgement.decision == "run" and rules.security == "allowlist" else {}
        if judgement.only_reads:
            root = os.path.realpath(self._rules_of(caller).root)
            path = ":".join(folder for folder in rules.trusted if not _lies_in(root, folder))
            # nothing of the workspace is found by its name, and no repository above it
            fixed = {**HELD, "PATH": path, "GIT_CEILING_DIRECTORIES": os.path.dirname(root)}  # noqa: PTH120
        return {**built, **env, **sets, **fixed}

    # what holds for a caller

    def _rules_of(self, caller: Caller) -> CallerRules:
        """Return what holds for a caller, worked out once as long as it is one of the last to ask."""
        self._notice_reload()
        known = self._callers.get(caller)
        if known is None:
            who = resolve(self._settings.policy, caller)
            terms, own = self._terms_of(caller), self.rules_of_agent(who.agent)
            above = tuple({each.agent: self.rules_of_agent(each.agent) for each in who.ceiling}.values())
            settings = _narrow_settings(own.exec, [each.exec for each in above])
            whole = [e for each in (own, *above) for es in each.rules.deny.values() for e in es if len(e.words) == 1]
            denied = frozenset(base_name(entry.words[0]) for entry in whole)
            target = replace(self._make_target(who, settings, terms), denied=denied)
            grounds = Grounds(lambda: {"commands": dump_rules(each.rules for each in (own, *above))})
            known = CallerRules(own=own, all=(own, *above), root=str(terms.root), target=target, grounds=grounds)
            remember(self._callers, caller, known)
        return known

    def _notice_reload(self) -> None:
        """Forget what was worked out by settings that no longer count."""
        if self._config is not self._settings.config:
            self._config = self._settings.config
            self._callers, self._agents = {}, {}

    def rules_of_agent(self, agent: str) -> AgentRules:
        """Return what holds for an agent; what holds for everybody when the configuration has no such one."""
        self._notice_reload()
        known = agent if self._config.agent(agent) else ""
        if known not in self._agents:
            self._agents[known] = self._read_rules(known)
        return self._agents[known]

    def _read_rules(self, agent: str) -> AgentRules:
        own = self._config.tools.exec
        rules = rules_from(own)
        if agent and (settings := self._config.agent(agent)):
            theirs = settings.tools.exec
            rules = rules_from(theirs, f"agents.{self._config.find_written_id(agent)}.tools.exec", over=rules)
            own = own.model_copy(update={name: getattr(theirs, name) for name in theirs.model_fields_set})
        listed = look_up_in(rules.trusted, _is_program)
        return AgentRules(exec=own, rules=rules, look_up=lambda name: listed(name) or self._shells.programs.get(name))

    def _make_target(self, who: ResolvedCaller, settings: ExecSettings, terms: WorkspaceTerms) -> ExecTarget:
        sandbox, usual = self._config.sandbox, CommandLimits()
        limits = CommandLimits(
            seconds=float(settings.timeout_sec or _DEFAULT_SECONDS),
            memory=sandbox.memory_mb << 20 if sandbox.memory_mb else usual.memory,
            processes=sandbox.processes or usual.processes,
            file=sandbox.file_mb << 20,
            whole=_WHOLE_OUTPUT_BYTES,
            network=sandbox.network if who.is_sandboxed else settings.network,
        )
        place, hosts = name_conversation(who), {"host": "sandbox"} if who.is_sandboxed else {}
        return ExecTarget(
            shell=self._shells.find(hosts.get(settings.host, settings.host), terms),
            scope=f"{place} {'owner' if who.is_owner else person_of(who.settings, who.caller)}",
            place=place,
            is_host=settings.host == "host" and not who.is_sandboxed,
            limits=limits,
            longest=float(settings.timeout_sec or _MAX_SECONDS),
            window=10.0 if settings.background_ms is None else settings.background_ms / 1000,
            shown=min(settings.output_limit or _DEFAULT_SHOWN_CHARS, _MAX_SHOWN_CHARS),
        )


def _narrow_settings(own: ExecSettings, above: Sequence[ExecSettings]) -> ExecSettings:
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


def _make_permit(line: str, judgement: Judgement, workdir: str, env: Mapping[str, str]) -> Permit:
    """Return what is started: the words themselves where that is all there is, else what a shell reads."""
    program = judgement.commands[0].program if judgement.commands else None
    argv = (program, *judgement.argv[1:]) if judgement.argv is not None and program is not None else None
    reads = judgement.only_reads
    return Permit(line=line, argv=argv, script=judgement.script, cwd=workdir, env=env, only_reads=reads)


def _lies_in(root: str, path: str) -> bool:
    """Tell whether a path, as it is spelled or at the end of its links, lies in a folder."""
    top = f"{os.path.realpath(root).rstrip('/')}/"
    return any(f"{each}/".startswith(top) for each in (path, os.path.realpath(path)))


@contextmanager
def _copy_held(root: str, words: Sequence[str], held: tuple[str, bytes]) -> Iterator[list[str]]:
    """Give the words of a program with a copy in the place of its file in the workspace."""
    path, data = held
    with TemporaryDirectory(prefix="toolcrib-hook-") as folder:
        copy = Path(folder, Path(path).name)
        copy.write_bytes(data)
        copy.chmod(0o700)
        changed = [str(copy) if os.path.normpath(os.path.join(root, word)) == path else word for word in words]  # noqa: PTH118
        if changed == list(words):
            raise ToolError(f"{path!r} can only be held on the bare host where it is a word of its own", code="denied")
        yield changed


def _make_within(root: str, workdir: str) -> Callable[[str], bool]:
    """Return what tells whether a path, seen from the folder, stays in the workspace, links followed."""

    def within(path: str) -> bool:
        if path.startswith("~") or "\0" in path:
            return False
        top = os.path.realpath(root)
        end = os.path.realpath(os.path.join(top, workdir, path))  # noqa: PTH118
        return end == top or end.startswith(f"{top.rstrip('/')}/")

    return within


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)  # noqa: PTH113


# the environment: built from safe basics and what the operator lends by name, never inherited


def build_environment(
    environ: Mapping[str, str], trusted: tuple[str, ...], names: frozenset[str], *, terminal: bool = False
) -> dict[str, str]:
    """Return the environment that every command gets: safe basics, and what the operator lends by name."""
    basics = {
        "PATH": ":".join(trusted),
        "HOME": environ.get("HOME", "/tmp"),  # noqa: S108  in a sandbox it is private anyway
        "USER": environ.get("USER", "user"),
        "LOGNAME": environ.get("LOGNAME", environ.get("USER", "user")),
        "SHELL": "/bin/bash",
        "LANG": environ.get("LANG", "C.UTF-8"),
        "TERM": "xterm-256color" if terminal else "dumb",
    }
    if "TZ" in environ:
        basics["TZ"] = environ["TZ"]
    return {**basics, **{name: environ[name] for name in sorted(names) if name in environ}}


def is_forbidden(name: str) -> bool:
    """Tell whether a variable may never be set by a call, in whatever case it is written."""
    upper = name.strip().upper()
    return upper in _FORBIDDEN or upper.startswith(_FORBIDDEN_PREFIXES)
