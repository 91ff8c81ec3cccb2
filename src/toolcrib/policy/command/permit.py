"""Which rule permits a plain command, and what is denied wherever in a line it stands.

A denial is found behind wrappers, in nested shells, in loops and substitutions.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from toolcrib.define.display import quote_short
from toolcrib.lazy import regex

from .environment import unsafe_names
from .options import IsWithin, UnsafeUsageError, names
from .parse import MAX_LINE_BYTES, FoundCommand, ParsedLine, parse
from .programs import CAN_DO_MORE, FILTERS, READERS, check, restrain
from .programs_git import GIT_OWN
from .rules import CommandEntries, CommandEntry, CommandRules, LookUp, base_name, matches_program
from .wrappers import Inner, can_start_others, inner_anywhere, inner_of, is_opened

_NO_SETS: Mapping[str, str] = MappingProxyType({})


class Plain(NamedTuple):
    """One command: its words (None for one that is not literal), the program they name, and the rule that permits it.

    `program` is a whole path, or None when no trusted folder has it; `sets` are variables set for it alone. A program
    that runs because it only reads (`reads`) is given options that hold it to that besides its own words.
    """

    argv: tuple[str | None, ...]
    program: str | None = None
    rule: str = ""
    origin: str = ""
    why_not: str = ""
    sets: Mapping[str, str] = _NO_SETS
    reads: bool = False


def permit(argv: tuple[str, ...], rules: CommandRules, look_up: LookUp, within: IsWithin) -> Plain:
    """Return a command with the rule that permits it, or with why there is none."""
    typed = argv[0]
    program = look_up(typed)
    if program is None:
        return Plain(argv, why_not=f"{quote_short(typed)} is no program of a trusted folder")
    # a file of the workspace is meant by its path alone: a bare name, also that of a reader, is another program
    name = base_name(typed) if "/" not in typed or typed.rpartition("/")[0] in rules.trusted else typed
    if entry := _find_entry(rules.exact, name, argv, program, exact=True):
        return Plain(argv, program, f"allowExact {entry}", entry.origin)
    if entry := _find_entry(rules.allow, name, argv, program, exact=False):
        return Plain(argv, program, f"allow {entry}", entry.origin)
    reasons: list[str] = []
    restrained = (typed, *restrain(name, argv[1:]))
    if place := rules.find_reader(name):
        why_not = _explain_unsafe_use(name, argv[1:], within)
        if not why_not:
            return Plain(restrained, program, f"readOnly {name}", place, reads=True)
        reasons.append(f"{name!r} may only read here: {why_not}")
    if name in rules.filters:
        why_not = _explain_unsafe_use(name, argv[1:], None)
        if not why_not:
            return Plain(restrained, program, f"safeBins {name}", rules.filters[name], reads=True)
        reasons.append(f"{name!r} may only filter its standard input here: {why_not}")
    reasons.append(f"{quote_short(typed)} is on no list of {rules.origin}")
    return Plain(argv, program, why_not=reasons[0])


def _find_entry(
    entries: CommandEntries, name: str, argv: tuple[str, ...], program: str, *, exact: bool
) -> CommandEntry | None:
    """Return the entry that this argv is, or begins with."""
    listed = entries.get(base_name(name), ())
    for entry in (*listed, *entries[""]) if "" in entries else listed:
        words = entry.words
        if "/" in name and "/" not in words[0]:
            continue
        same = argv[1:] == words[1:] if exact else argv[1 : len(words)] == words[1:]
        if same and matches_program(words[0], argv[0], program):
            return entry
    return None


def explain_mixed(commands: Sequence[Plain]) -> str:
    """Return which command only reads beside one that may write, with nothing to hold it to that; "" when none does."""
    writers = [each.argv[0] or "" for each in commands if may_write(each)]
    for each in commands if writers else ():
        name, args = base_name(each.argv[0] or ""), tuple(word or "" for word in each.argv[1:])
        if each.reads and name in CAN_DO_MORE and (name not in FILTERS or _explain_unsafe_use(name, args, None)):
            beside = f"beside {quote_short(writers[0])} nothing holds it to that"
            return f"{name!r} may only read, and {beside}; run it by itself"
    return ""


def may_write(command: Plain) -> bool:
    """Tell whether a command that is permitted may change files."""
    return not command.reads and base_name(command.argv[0] or "") not in _WRITES_NOTHING


_WRITES_NOTHING = names(
    ": [ basename date dirname echo expr false id printenv printf pwd seq sleep test true uname which"
)


def _explain_unsafe_use(name: str, args: tuple[str, ...], within: IsWithin | None) -> str:
    """Return why a program is not used for reading only (for filtering only, without `within`), "" when it is."""
    known, key = (FILTERS, "safeBins") if within is None else (READERS, "readOnly")
    if name not in known:
        return f"its options are not known; list what it may be given under allow, not {key}"
    try:
        check(name, args, within)
    except UnsafeUsageError as odd:
        return str(odd)
    return ""


# Denials

_MAX_NESTED_SHELLS = 8
_MAX_COMMANDS = 1_000  # that are looked at in one line
_SEARCHED_WORDS = 8  # of a command that lies too deep to be followed

_Words = Sequence[str | None]


class Denial(NamedTuple):
    """The entry that denies, and the words that it denies. Without an entry, something in the line could be denied."""

    words: _Words = ()
    entry: CommandEntry | None = None


def find_denial(line: ParsedLine, rules: CommandRules, look_up: LookUp, env: Mapping[str, str]) -> Denial | None:
    """Return what an entry denies in a line and all that it starts; None when nothing in it can be denied."""
    possible: Denial | None = None
    given = [*env, *(name for each in line.commands for name, _ in each.sets)]
    if line.unread or unsafe_names(given, rules.env):
        possible = Denial()
    for words in follow((*line.commands, *line.guesses)):
        if words is None:
            possible = possible or Denial()
            continue
        found = _match_denial(words, rules.deny, look_up)
        if found is not None and found.entry is not None:
            return found
        if possible is None and (found or not _is_read_to_its_end(words, rules, look_up)):
            possible = Denial(words)
    return possible


def _is_read_to_its_end(words: _Words, rules: CommandRules, look_up: LookUp) -> bool:
    """Tell whether a command starts only what its words show, or is permitted by name, whatever it starts."""
    name = words[0] if words else ""
    if not name or (not can_start_others(name) and not _may_evaluate(name, words)):
        return True
    literal = tuple(word for word in words if word is not None)
    if len(literal) == len(words):
        if permit(literal, rules, look_up, lambda _: True).rule:
            return True
        if (
            look_up(name)
            and base_name(name) in READERS
            and not _explain_unsafe_use(base_name(name), literal[1:], lambda _: True)
        ):
            return True
    return is_opened(words)


def _may_evaluate(name: str, words: _Words) -> bool:
    """Tell whether a builtin is given the name of a variable, whose index a shell evaluates."""
    given = words[1:2] if name == "printf" else words[1:] if name in ("test", "[", "wait") else ()
    return any(word is None or word.startswith(("-v", "-R", "-p")) for word in given)


def follow(commands: Iterable[FoundCommand]) -> Iterator[_Words | None]:
    """Yield the words of every command and of what it starts; None for something unknown."""
    waiting: list[tuple[_Words, int]] = [(command.words, 0) for command in commands]
    waiting.reverse()
    looked_at = read = 0
    while waiting:
        words, depth = waiting.pop()
        yield words
        looked_at += 1
        for inner in inner_of(words):
            read += len(inner.text or "")
            if looked_at + len(waiting) > _MAX_COMMANDS or depth >= _MAX_NESTED_SHELLS or read > 2 * MAX_LINE_BYTES:
                yield None  # too deep to follow: any of its words may be the program that starts
                yield from (words[index : index + _SEARCHED_WORDS] for index in range(1, len(words)))
                break
            more, known = _open_inner(inner)
            waiting.extend((each, depth + (inner.text is not None)) for each in more)
            if not known:
                yield None


def _open_inner(inner: Inner) -> tuple[list[_Words], bool]:
    """Return the commands of an inner command, and whether all of them are known."""
    if inner.text is None:
        return ([inner.words] if inner.words else []), inner.known
    if len(inner.text) > MAX_LINE_BYTES:
        return [], False
    parsed = parse(inner.text)
    found: list[_Words] = [command.words for command in (*parsed.commands, *parsed.guesses)]
    if parsed.doubt:
        # "$@" and "$0" may stand for any of the parameters
        for each in inner_anywhere(inner.parameters, 0):
            deeper = parse(each.text) if each.text else ParsedLine((FoundCommand(each.words),))
            found += [command.words for command in (*deeper.commands, *deeper.guesses)]
    return found, inner.known and not parsed.doubt


def _match_denial(words: _Words, entries: CommandEntries, look_up: LookUp) -> Denial | None:
    typed = words[0] if words else ""
    if typed is None:
        return Denial()
    possible = None
    name = base_name(typed)
    path = look_up(typed) or typed
    globs = [entry for entry in entries.get("", ()) if matches_program(entry.words[0], typed, path)]
    for entry in (*entries.get(name, ()), *globs):
        begins = _match_beginning(words, entry.words[1:])
        if begins:
            return Denial(words, entry)
        if begins is None or (len(entry.words) > 1 and _may_rename(name, words)):
            possible = Denial(words)
    return possible


def _match_beginning(words: _Words, rest: Sequence[str]) -> bool | None:
    """Tell whether `rest` stands behind the program, at once or with options before each word; None when it may."""
    may_be = False
    starts = {1}
    for wanted in rest:
        found: set[int] = set()
        is_open = False
        for index in range(1, len(words)):
            is_open = is_open or index in starts
            if not is_open:
                continue
            if words[index] == wanted:
                found.add(index + 1)
            may_be = may_be or words[index] is None
            # a subcommand or an operand: what follows belongs to it
            is_open = _is_option(words[index]) or (index > 1 and _is_option(words[index - 1]))
        starts = found
    return True if starts else (None if may_be else False)


def _is_option(word: str | None) -> bool:
    return (word or "").startswith("-")


# What may give a subcommand another name or another program, in front of it; and what is known not to.
_RENAMING = ("-c", "--config", "--exec-path", "--alias")
_RENAMES_NOTHING = regex(r"(?:user|color|column)\.|core\.quotepath=", re.IGNORECASE)


def _may_rename(name: str, words: _Words) -> bool:
    """Tell whether a denied subcommand may be called by another name: by an option in front of it, or as an alias."""
    index = 1
    while index < len(words) and _is_option(words[index]):
        word, following = words[index] or "", (words[index + 1] if index + 1 < len(words) else None) or ""
        if word.startswith(_RENAMING) and not (word == "-c" and _RENAMES_NOTHING.match(following)):
            return True
        index += 2 if word in ("-c", "-C", "--git-dir", "--work-tree", "--namespace") else 1
    # git's own subcommands cannot be aliases; any other may be one, of whatever repository it stands in
    return name == "git" and index < len(words) and words[index] not in GIT_OWN
