"""The judge: a command line, rules and a look-up of programs to run, ask or deny, with the rule and the reason.

What is judged is what runs. A plain line comes back as argv (one command) or as a script in which every word is quoted
and every program is a whole path; only a line that a person approved as it stands is ever left to a shell as it stands.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Generic, Literal, TypeGuard, TypeVar

from toolcrib.define.display import quote_short
from toolcrib.lazy import dataclass, replace

from .environment import unsafe_names
from .literal import quote_word
from .options import IsWithin, is_beneath
from .parse import MAX_LINE_BYTES, FoundCommand, ParsedLine, parse
from .permit import Denial, Plain, explain_mixed, find_denial, may_write, permit
from .rules import CommandRules, LookUp, is_asked
from .wrappers import can_start_others

CommandDecision = Literal["run", "ask", "deny"]

T = TypeVar("T")

_DECISIONS = ("run", "ask", "deny")  # the strictest last
_MAX_COMMANDS = 500  # in one line
_NO_ENV: Mapping[str, str] = MappingProxyType({})
_DESTROYS = frozenset({"dd", "rm", "shred", "unlink"})  # they start nothing, and still no yes to them lasts
_EMPTY = "there is no command in it; write one"
_FULL = "security full"
_CANNOT_TELL = "what it would run cannot be known in advance"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What becomes of a command line.

    `argv` is set for one plain command without pipes and redirection: it runs as that, without a shell, the program
    being `commands[0].program` and `commands[0].sets` added to its environment. `script` is there for any plain line
    whose programs were all found. With neither, the line itself is all there is to run, once a person approved it.
    `parts` are the commands of a plain line and what joins them.
    """

    decision: CommandDecision
    reason: str
    commands: tuple[Plain, ...] = ()
    argv: tuple[str, ...] | None = None
    parts: tuple[Plain | str, ...] = ()
    rule: str = ""
    origin: str = ""
    doubt: str = ""

    @property
    def script(self) -> str | None:
        """A plain line as every shell reads it: each word quoted, each program a whole path; None for any other."""
        if not self.parts or any(command.program is None for command in self.commands):
            return None
        return " ".join(_make_portable(part) if isinstance(part, str) else _quote_command(part) for part in self.parts)

    @property
    def only_reads(self) -> bool:
        """Whether it runs because it only reads: then it is started where it can do nothing else."""
        readers = self.decision == "run" and self.rule != _FULL and any(command.reads for command in self.commands)
        return readers and not any(map(may_write, self.commands))

    @property
    def may_last(self) -> bool:
        """Whether an approval may be granted for longer: only where nothing in it can start something else."""
        names = [command.argv[0] or "" for command in self.commands if command.argv]
        return bool(names) and not self.doubt and not any(name in _DESTROYS or can_start_others(name) for name in names)


def judge(
    line: str, rules: CommandRules, look_up: LookUp, *, within: IsWithin = is_beneath, env: Mapping[str, str] = _NO_ENV
) -> Judgement:
    """Judge a command line.

    `look_up` gives the whole path of a program in a trusted folder, by bare name or by path, or None. `within` tells
    whether a path, seen from where the command runs, stays in the workspace. `env` is what the caller wants to set.
    """
    if rules.security == "deny":
        origin = f"{rules.origin}.security"
        return Judgement(
            decision="deny", reason=f"no command runs here ({origin} is deny)", rule="security deny", origin=origin
        )
    if unusable := _explain_unusable(line):
        return Judgement(decision="deny", reason=unusable)
    return _judge_parsed(parse(line), rules, look_up, within, env)


class SeenLook(Generic[T]):
    """A look at something outside, with what it `found`."""

    def __init__(self, look: Callable[[str], T]) -> None:
        self._look, self.found = look, dict[str, T]()

    def __call__(self, name: str) -> T:
        return self.found.setdefault(name, self._look(name))


def judge_strictest(
    line: str,
    rules: Sequence[tuple[CommandRules, LookUp]],
    *,
    within: IsWithin,
    odd: Callable[[str], str | None],
    unaccepted: Callable[[str], str | None],
    env: Mapping[str, str],
) -> Judgement:
    """Judge a command line by the rules of a caller and of everybody above it: it gets no more than any of them.

    `odd` tells why a program may do more than read, whatever it is given: what runs because it only reads must not.
    `unaccepted` tells why a program of the workspace, which a list names, does not run unasked.
    """

    def explain(command: Plain) -> str | None:
        return (odd if command.reads else unaccepted)(command.program) if command.program else None

    found = [_look_closer(judge(line, each, look_up, within=within, env=env), each, explain) for each, look_up in rules]
    # of equals the one that holds programs to reading by most, else the caller's own
    return max(found, key=_strictness)


def _strictness(judgement: Judgement) -> tuple[int, bool, int]:
    words = sum(len(command.argv) for command in judgement.commands)
    return _DECISIONS.index(judgement.decision), judgement.only_reads, words


def _look_closer(judgement: Judgement, rules: CommandRules, explain: Callable[[Plain], str | None]) -> Judgement:
    if judgement.decision != "run" or rules.security != "allowlist":
        return judgement
    for command in judgement.commands:
        if reason := explain(command):
            return replace(judgement, decision="deny" if rules.ask == "off" else "ask", reason=reason)
    return judgement


def judge_argv(argv: Sequence[str], rules: CommandRules, look_up: LookUp, **more: Any) -> Judgement:
    """Judge a command that is given as words, which no shell reads."""
    line = " ".join(map(quote_word, argv)) if argv and argv[0].strip() else ""
    return judge(line, rules, look_up, **more)


def _explain_unusable(line: str) -> str:
    """Return why a line cannot be run by anything, "" when it can."""
    if not line.strip():
        return _EMPTY
    if "\0" in line:
        return "the command holds a NUL character; write it without"
    try:
        length = len(line) if line.isascii() else len(line.encode())
    except UnicodeEncodeError:
        return "the command holds half a character; write it without"
    if length <= MAX_LINE_BYTES:
        return ""
    return f"the command has {length:,} bytes, of which {MAX_LINE_BYTES:,} can be judged; put the long part into a file"


def _judge_parsed(
    parsed: ParsedLine, rules: CommandRules, look_up: LookUp, within: IsWithin, env: Mapping[str, str]
) -> Judgement:
    denial = find_denial(parsed, rules, look_up, env) if rules.deny else None
    commands = tuple([_judge_command(found, rules, look_up, within) for found in parsed.commands[:_MAX_COMMANDS]])
    if len(parsed.commands) > _MAX_COMMANDS:
        parsed = parsed._replace(doubt=parsed.doubt or f"it holds more than {_MAX_COMMANDS} commands")
    if denial is not None and denial.entry is not None:
        denied = " ".join(word or "…" for word in denial.words)
        return Judgement(
            decision="deny",
            reason=f"{quote_short(denied)} never runs (deny has {quote_short(str(denial.entry))})",
            commands=commands,
            rule=f"deny {denial.entry}",
            origin=denial.entry.origin,
            doubt=parsed.doubt,
        )
    missing = _explain_missing(parsed, commands, rules, denial, env)
    decision, reason = _decide(missing, rules, commands)
    if decision != "run":
        rule, origin = f"ask {rules.ask}", f"{rules.origin}.ask"
    elif rules.security == "full":
        rule, origin = _FULL, f"{rules.origin}.security"
    else:
        rule, origin = commands[0].rule, commands[0].origin
    return Judgement(
        decision=decision,
        reason=reason,
        commands=commands,
        argv=_single_argv(parsed, commands),
        parts=_join_parts(parsed, commands),
        rule=rule,
        origin=origin,
        doubt=parsed.doubt,
    )


def _judge_command(found: FoundCommand, rules: CommandRules, look_up: LookUp, within: IsWithin) -> Plain:
    argv = found.words
    if not _are_literal(argv):
        return Plain(argv, why_not=f"{_CANNOT_TELL}: not all of its words are literal")
    plain = permit(argv, rules, look_up, within)
    if not found.sets:
        return plain
    return plain._replace(sets={name: value for name, value in found.sets if value is not None})


def _are_literal(words: tuple[str | None, ...]) -> TypeGuard[tuple[str, ...]]:
    return None not in words and len(words) > 0


def _explain_missing(
    parsed: ParsedLine, commands: Sequence[Plain], rules: CommandRules, denial: Denial | None, env: Mapping[str, str]
) -> str:
    """Return why the lists do not permit a line, "" when they do."""
    given = [*env, *[name for command in commands for name in command.sets]]
    unsafe = unsafe_names(given, rules.env) if given else ()
    variable = f"the variable {quote_short(unsafe[0])} may change what the command does" if unsafe else ""
    if denial is not None:
        doubt = parsed.doubt or variable or "part of it cannot be known in advance"
        return f"it may run something that is denied: {doubt}"
    if rules.security == "full":
        return ""
    if parsed.doubt:
        return f"{_CANNOT_TELL}: {parsed.doubt}"
    if variable:
        return variable
    return next((command.why_not for command in commands if command.why_not), "") or explain_mixed(commands)


def _decide(missing: str, rules: CommandRules, commands: Sequence[Plain]) -> tuple[CommandDecision, str]:
    if missing:
        return ("deny" if rules.ask == "off" else "ask"), missing
    if is_asked(rules.security, rules.ask, permitted=True):
        return "ask", f"a person is asked about every command ({rules.origin}.ask is always)"
    if rules.security == "full":
        return "run", f"every command runs here ({rules.origin}.security is full)"
    return "run", f"{', '.join(dict.fromkeys([command.rule for command in commands]))} permits it"


def _single_argv(parsed: ParsedLine, commands: Sequence[Plain]) -> tuple[str, ...] | None:
    if parsed.doubt or parsed.pieces[1:] not in ((), (";",)):
        return None
    words = commands[0].argv
    return words if _are_literal(words) else None


def _join_parts(parsed: ParsedLine, commands: tuple[Plain, ...]) -> tuple[Plain | str, ...]:
    if parsed.doubt:
        return ()
    if len(parsed.pieces) == 1:
        return commands
    waiting = iter(commands)
    return tuple([piece if isinstance(piece, str) else next(waiting) for piece in parsed.pieces])


def _quote_command(command: Plain) -> str:
    sets = [f"{name}={quote_word(value)}" for name, value in command.sets.items()]
    return " ".join([*sets, quote_word(command.program or ""), *(quote_word(word or "") for word in command.argv[1:])])


def _make_portable(piece: str) -> str:
    """Return a joint or a redirection in a spelling that is not only bash's."""
    if not piece.startswith("&>"):
        return piece
    return f"{piece[1:]} 2>&1"
