"""Limits of each room: files, lines, functions, late imports, `noqa`, and words on the deny-list, all in limits.toml.

`python -m tests.limits` says what is above its limit; with `--lower` it also takes down every limit that the tree is
below of. Nothing takes one up: a person does, by the rules of `find_raises`, which test_limits_history.py holds.
"""

import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.architecture import ROOT, Tree
from tests.ratchets import EXCEPTIONS, room_of

__all__ = ["FILE", "Limits", "find_excess", "find_raises", "format_limits", "lower", "measure"]

FILE = Path(__file__).with_suffix(".toml")
Limits = Mapping[str, Mapping[str, Any]]

_LINES_STEP = 50  # a limit of lines is a multiple of this, so that not every line is a matter of limits
_WEIGHTS = ("files", "lines", "noqa")  # go up with a record
_COUNTS = ("late_imports",)  # go up in one room, with a record, only when they go down in another
_BY_WORD = ("words", "names")
_HEAD = """\
# The most that each room may have (tests/limits.py counts). After work that made something less:
#
#     .venv/bin/python -m tests.limits --lower
#
# `files`, `lines` and `noqa` of a room go up only with a decision: the row says `by = "0085"`, and that record, made or
# changed in the same commit, names the room as `room`. All else only goes down; a record can move it to another room.
# `functions` are for 1,000 lines, `late_imports` those of our own modules inside functions.
"""


def measure(tree: Tree, words: Limits) -> dict[str, dict[str, Any]]:
    """Return what the tree has, in the shape of limits.toml; `words` is a file of limits, for its words."""
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    counts: dict[str, dict[str, dict[str, int]]] = {kind: {word: {} for word in words[kind]} for kind in _BY_WORD}
    for module, path in tree.paths.items():
        text, room = path.read_text(encoding="utf-8"), room_of(tree, module)
        rooms[room] += Counter(
            files=1,
            lines=len(text.splitlines()),
            functions=sum(
                isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef) for each in ast.walk(tree.parsed[module])
            ),
            late_imports=sum(1 for _ in _late_imports(tree.parsed[module])),
            noqa=len(re.findall(r"#\s*noqa", text)),
        )
        for kind, of in zip(_BY_WORD, (_words_in(text), _names_in(tree.parsed[module])), strict=True):
            for word, by_room in counts[kind].items():
                if of[word]:
                    by_room[room] = by_room.get(room, 0) + of[word]
    counts = {kind: {word: dict(sorted(row.items())) for word, row in table.items()} for kind, table in counts.items()}
    total = sum(rooms.values(), Counter[str]())
    weights = {room: {each: count[each] for each in (*_WEIGHTS, *_COUNTS)} for room, count in sorted(rooms.items())}
    for room, count in rooms.items():
        weights[room]["functions"] = _per_thousand(count)
    exceptions = {rule: len(listed) for rule, listed in EXCEPTIONS.items()}
    return {"total": {"functions": _per_thousand(total)}, "rooms": weights, **counts, "exceptions": exceptions}


def find_excess(limits: Limits, found: Limits) -> list[str]:
    """Return a sentence for each number that is above its limit; what has no limit may not be at all."""
    allowed = dict(_flatten(limits))
    return [
        f"{'.'.join(key)} is {number}; tests/limits.toml allows {allowed.get(key, 0)}"
        for key, number in _flatten(found)
        if number > allowed.get(key, 0)
    ]


def lower(limits: Limits, found: Limits) -> dict[str, dict[str, Any]]:
    """Return the limits with each at what was found where that is less, and without rooms that are gone."""
    lowered: dict[str, dict[str, Any]] = {kind: {} for kind in limits}
    for room, row in limits["rooms"].items():
        if has := found["rooms"].get(room):
            rounded = {**has, "lines": -(-has["lines"] // _LINES_STEP) * _LINES_STEP}
            lowered["rooms"][room] = {each: min(most, rounded.get(each, most)) for each, most in row.items()}
    for kind in ("total", "exceptions"):
        lowered[kind] = {name: min(most, found[kind].get(name, 0)) for name, most in limits[kind].items()}
    for kind in _BY_WORD:
        lowered[kind] = {
            word: {room: count for room, most in row.items() if (count := min(most, found[kind][word].get(room, 0)))}
            for word, row in limits[kind].items()
        }
    return lowered


def find_raises(before: Limits, after: Limits, records: Mapping[str, str]) -> list[str]:
    """Return a sentence for each limit that may not have changed so; `records` are those made or changed with it.

    A room's limit goes up when its row is `by` one of these records and that names the room. What is not
    of these three may not go up over all rooms, whatever a record says, and no word may leave its list.
    """
    was, faults = dict(_flatten(before)), []
    for key, number in _flatten(after):
        kind, name, *rest = key
        is_new = key not in was if kind == "exceptions" else kind in _BY_WORD and name not in before[kind]
        if number <= was.get(key, 0) or is_new:
            continue
        room = name if kind == "rooms" else "".join(rest)
        record = records.get(after["rooms"].get(room, {}).get("by", ""), "")
        if not room:
            faults.append(f"{'.'.join(key)} only goes down")
        elif f"`{room}`" not in record:
            faults.append(f"{'.'.join(key)} goes up to {number} without a record that names `{room}`")
    for where, row in _sums(after).items():
        if row > _sums(before).get(where, row):
            faults.append(f"{where} of all rooms together only goes down")
    return faults + [f"{where} left its list" for where in _sums(before).keys() - _sums(after).keys()]


def format_limits(limits: Limits) -> str:
    """Return the text of limits.toml."""
    parts = [_HEAD]
    for kind, table in limits.items():
        width = max(len(_key(name)) for name in table)
        parts += [f"\n[{kind}]\n", *(f"{_key(name):{width}} = {_value(row)}\n" for name, row in table.items())]
    return "".join(parts)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[\w-]+", name) else f'"{name}"'


def _value(value: object) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(name)} = {_value(each)}" for name, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _flatten(limits: Limits) -> Iterator[tuple[tuple[str, ...], int]]:
    for kind, table in limits.items():
        for name, row in table.items():
            for key, number in row.items() if isinstance(row, Mapping) else [("", row)]:
                if isinstance(number, int):
                    yield tuple(filter(None, (kind, name, key))), number


def _sums(limits: Limits) -> dict[str, int]:
    """Return what all rooms have together of each thing that only goes down."""
    columns = {each: sum(row[each] for row in limits["rooms"].values()) for each in _COUNTS}
    return columns | {word: sum(row.values()) for kind in _BY_WORD for word, row in limits[kind].items()}


def _per_thousand(count: Mapping[str, int]) -> int:
    return -(-1000 * count["functions"] // count["lines"]) if count["lines"] else 0


def _late_imports(parsed: ast.Module) -> set[ast.AST]:
    """Return the imports of our own modules inside functions."""
    functions = [each for each in ast.walk(parsed) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {
        each
        for function in functions
        for each in ast.walk(function)
        if (isinstance(each, ast.ImportFrom) and (each.level or (each.module or "").partition(".")[0] == ROOT))
        or (isinstance(each, ast.Import) and any(name.name.partition(".")[0] == ROOT for name in each.names))
    }


def _words_in(text: str) -> Counter[str]:
    """Count the words of names and prose, singular: `_told_to` holds told, and `SessionDesks` holds desk."""
    words = Counter(re.findall(r"[a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", text).lower()))
    return words + Counter({word.removesuffix("s"): count for word, count in words.items() if word.endswith("s")})


def _names_in(parsed: ast.Module) -> Counter[str]:
    """Count the names that stand whole in a module: of variables, parameters, attributes and functions."""
    fields = ("id", "arg", "attr", "name", "asname")
    return Counter(
        name for each in ast.walk(parsed) for field in fields if isinstance(name := getattr(each, field, 0), str)
    )


def main(words: list[str]) -> int:
    """Say what is above its limit, and take down what is below."""
    limits = tomllib.loads(FILE.read_text(encoding="utf-8"))
    found = measure(Tree(Path(__file__).parents[1] / "src"), limits)
    if words == ["--lower"]:
        FILE.write_text(format_limits(lower(limits, found)), encoding="utf-8")
    excess = find_excess(limits, found)
    sys.stdout.write("".join(f"{each}\n" for each in excess))
    return 1 if excess else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
