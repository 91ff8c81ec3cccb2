"""Which rule permits a plain command, or why none does."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from . import words as say
from .options import OddUseError, Within
from .programs import FILTERS, READERS, check
from .rules import Entries, Entry, LookUp, Rules, base_name, matches_program

__all__ = ["Plain", "permit"]


_NONE: Mapping[str, str] = MappingProxyType({})


class Plain(NamedTuple):
    """One command: its words (None for one that is not literal), the program they name, and the rule that permits it.

    `program` is a whole path, or None when no trusted folder has it; `sets` are variables set for it alone.
    """

    argv: tuple[str | None, ...]
    program: str | None = None
    rule: str = ""
    origin: str = ""
    why_not: str = ""
    sets: Mapping[str, str] = _NONE


def permit(argv: tuple[str, ...], rules: Rules, look_up: LookUp, within: Within) -> Plain:
    """Return a command with the rule that permits it, or with why there is none."""
    typed = argv[0]
    program = look_up(typed)
    if program is None:
        return Plain(argv, why_not=say.not_trusted(typed))
    name = base_name(typed)
    if entry := _entry(rules.exact, name, argv, program, exact=True):
        return Plain(argv, program, f"allowExact {entry}", entry.origin)
    if entry := _entry(rules.allow, name, argv, program, exact=False):
        return Plain(argv, program, f"allow {entry}", entry.origin)
    reasons: list[str] = []
    if name in rules.read_only:
        why_not = _use(name, argv[1:], within) if name in READERS else say.unknown_options(name, "readOnly")
        if not why_not:
            return Plain(argv, program, f"readOnly {name}", rules.read_only[name])
        reasons.append(say.not_reading(name, why_not))
    if name in rules.filters:
        why_not = _use(name, argv[1:], None) if name in FILTERS else say.unknown_options(name, "safeBins")
        if not why_not:
            return Plain(argv, program, f"safeBins {name}", rules.filters[name])
        reasons.append(say.not_filtering(name, why_not))
    return Plain(argv, program, why_not=reasons[0] if reasons else say.on_no_list(typed, rules.origin))


def _entry(entries: Entries, name: str, argv: tuple[str, ...], program: str, *, exact: bool) -> Entry | None:
    """Return the entry that this argv is, or begins with."""
    listed = entries.get(name, ())
    for entry in (*listed, *entries[""]) if "" in entries else listed:
        words = entry.words
        same = argv[1:] == words[1:] if exact else argv[1 : len(words)] == words[1:]
        if same and matches_program(words[0], argv[0], program):
            return entry
    return None


def _use(name: str, args: tuple[str, ...], within: Within | None) -> str:
    try:
        check(name, args, within)
    except OddUseError as odd:
        return str(odd)
    return ""
