"""The words that a case may use, from VOCABULARY.md beside the cases and the attacks; any other word fails its case.

Of a recorded case these are its function, its arguments and the keys of its row; of an attack its class, what it is
asked to do, and the keys of what is set up, asked for and demanded. Keys that are data (a file's name, a variable, a
rule of a configuration) are no words.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from .load import HERE, Case

_ENTRY = re.compile(r"- `(?P<name>.+?)` \((?P<kind>.*?)\)(?:: (?P<rest>.*))?")
_ROW = frozenset({"id", "fn", "args", "expected", "note"})
_ATTACK = frozenset({"area", "class", "id", "input", "kind", "must", "note", "ref", "setup", "verified", "why"})
# What the files of attacks say in `how_to_read` and nowhere else.
_SAID: Mapping[str, Mapping[str, set[str]]] = {
    "config": {"must.verdict": {"accept_warn", "reject_or_accept_warn"}},
    "policy": {"must.config_error": set(), "must.documented_rule": set()},
}
# Objects whose keys are words, and texts that name what is to be done; of all others the inside is data.
RECORDS = frozenset(
    {
        *("setup", "setup.context", "setup.hooks", "setup.pending", "setup.policy_override", "setup.race"),
        *("input", "input.args_gen", "input.file_gen", "input.gen", "input.http", "input.meta", "input.patch"),
        *("input.patch_gen", "input.raw_gen", "input.resolve", "input.tree_gen", "input.ws_many", "input.ws_raw"),
        *("must", "must.oracle"),
    }
)
CHOICES = frozenset(
    {
        *("input.op", "input.via", "input.by", "input.then", "input.args_gen.json", "input.resolve.decision"),
        *("must.verdict", "must.decision"),
    }
)


@dataclass(frozen=True, slots=True)
class Words:
    """What one file may say: functions with their keys, or classes and the keys of their rows with what they hold."""

    functions: Mapping[str, frozenset[str]] = field(default_factory=dict)
    rows: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    keys: Mapping[str, frozenset[str]] = field(default_factory=dict)


def find_unknown(case: Case) -> str:
    """Say which word of a case nobody knows, "" when all are known."""
    words = read_words().get(case.file)
    if words is None:
        return ""  # such a file has no adapter, and that is told of each of its cases
    found = sorted(set(_unknown_in_attack(case, words) if words.classes else _unknown_in_row(case, words)))
    return f"unknown word: {', '.join(found)}" if found else ""


def _unknown_in_row(case: Case, words: Words) -> Iterator[str]:
    known = words.functions.get(case.fn)
    if known is None:
        yield f"the function {case.fn}"
        return
    given = case.args if isinstance(case.args, Mapping) else {}
    yield from (f"the argument {key} of {case.fn}" for key in given if key not in known)
    yield from (f"the key {key} of a row" for key in case.body if key not in _ROW | words.rows)


def _unknown_in_attack(case: Case, words: Words) -> Iterator[str]:
    if case.fn not in words.classes:
        yield f"the class {case.fn}"
    yield from (f"the key {key} of a row" for key in case.body if key not in _ATTACK)
    for part in ("setup", "input", "must"):
        for place, value in places(part, case.body.get(part, {})):
            if place not in words.keys:
                yield place
            elif place in CHOICES and isinstance(value, str) and value not in words.keys[place]:
                yield f"{place} {value!r}"


def places(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield every word of a part of an attack with what it holds; `any_of` holds demands like those around it."""
    if place not in RECORDS or not isinstance(value, Mapping):
        return
    for key, each in value.items():
        yield f"{place}.{key}", each
        if f"{place}.{key}" == "must.any_of":
            for one in each:
                yield from places("must", one)
        else:
            yield from places(f"{place}.{key}", each)


@cache
def read_words() -> Mapping[str, Words]:
    """Return the words of every file that has some."""
    recorded, attacks = (path / "VOCABULARY.md" for path in (HERE / "data", HERE.parent / "attacks" / "data"))
    found = {file: _recorded(lines) for file, lines in _sections(recorded)}
    return found | {f"attacks/{area}": _attacked(area, lines) for area, lines in _sections(attacks)}


def _sections(path: Path) -> Iterator[tuple[str, list[str]]]:
    for section in path.read_text(encoding="utf-8").split("\n## ")[1:]:
        name, *lines = section.splitlines()
        yield name.strip(), lines


def _recorded(lines: list[str]) -> Words:
    functions: dict[str, frozenset[str]] = {}
    rows: set[str] = set()
    for entry in filter(None, map(_ENTRY.fullmatch, lines)):
        arguments, _, more = (entry["rest"] or "").partition("; row keys ")
        functions[entry["name"]] = frozenset(arguments.split(", ")) - {"positional"}
        rows |= set(more.split(", "))
    return Words(functions=functions, rows=frozenset(rows))


def _attacked(area: str, lines: list[str]) -> Words:
    classes = next(line.removeprefix("Classes: ").rstrip(".") for line in lines if line.startswith("Classes: "))
    keys = {
        each["name"]: set(filter(None, (each["rest"] or "").split(", ")))
        for each in map(_ENTRY.fullmatch, lines)
        if each
    }
    for key, more in _SAID.get(area, {}).items():
        keys[key] = keys.get(key, set()) | more
    return Words(classes=frozenset(classes.split(", ")), keys={key: frozenset(values) for key, values in keys.items()})
