"""Ratchets on names, small files and private imports. What breaks a rule stands in ratchets.toml, which only shrinks.

Each function returns what breaks its rule as words that ratchets.toml can hold. A word that stands there and no longer
breaks the rule must be taken out, so that nobody can lean on it again.
"""

import ast
import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.architecture import ROOT, Tree

__all__ = [
    "EXCEPTIONS", "bare_limits", "crumbs", "homonyms", "participles", "private_imports", "room_of",
]  # fmt: skip

EXCEPTIONS: Mapping[str, Mapping[str, str]] = tomllib.loads(
    Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
)

_CRUMB_LINES = 60
_CUSTOMARY = {"K", "P", "R", "T", "V", "log"}  # type variables, and the logger of a module
_IRREGULAR = (
    "bound", "broken", "brought", "built", "chosen", "drawn", "found", "given", "gone", "heard", "held", "kept",
    "known", "left", "made", "meant", "met", "said", "seen", "sent", "shown", "spoken", "taken", "told", "worn",
    "woven", "written",
)  # fmt: skip
_PARTICIPLE = re.compile(
    rf"_*(?:{'|'.join(_IRREGULAR)}|(?!(?:need|feed|seed|embed|exceed|proceed|shed|speed|succeed)(?:_|$))[a-z]+ed)(?:_|$)"
)
_BARE_LIMIT = re.compile(r"_?(?:MOST|LEAST|(?:LONG|DEEP|LARG|WID|SMALL|FEW|HIGH|LOW|SHORT|NEW|OLD)I?EST)")


def homonyms(tree: Tree) -> dict[str, str]:
    """Return every public name that two modules define, with those modules."""
    homes: dict[str, list[str]] = defaultdict(list)
    for module, parsed in tree.parsed.items():
        for name in {name for name in _defined(parsed) if not name.startswith("_") and name not in _CUSTOMARY}:
            homes[name].append(module.removeprefix(f"{ROOT}."))
    return {name: ", ".join(places) for name, places in homes.items() if len(places) > 1}


def participles(tree: Tree) -> set[str]:
    """Return every public function, as `module.name`, that is called after what was done instead of what it does."""
    return {
        f"{module.removeprefix(f'{ROOT}.')}.{node.name}"
        for module, parsed in tree.parsed.items()
        for node in (*parsed.body, *_members(parsed))
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        and not node.name.startswith("_")
        and _PARTICIPLE.match(node.name)
        and not any("property" in ast.unparse(each) for each in node.decorator_list)
    }


def bare_limits(tree: Tree) -> set[str]:
    """Return every constant that is a superlative and does not say of what."""
    return {
        f"{module.removeprefix(f'{ROOT}.')}.{name}"
        for module, parsed in tree.parsed.items()
        for name in _defined(parsed)
        if _BARE_LIMIT.fullmatch(name)
    }


def crumbs(tree: Tree) -> set[str]:
    """Return every module too small to stand alone: below sixty lines, and only one other imports it."""
    importers: dict[str, set[str]] = defaultdict(set)
    for each in tree.imports:
        if each.by != each.target:
            importers[each.target].add(each.by)
    return {
        module.removeprefix(f"{ROOT}.")
        for module, path in tree.paths.items()
        if path.name != "__init__.py"
        and not module.startswith((f"{ROOT}.tools.", f"{ROOT}.doors.cli."))  # one file, one tool; one file, one command
        and len(importers[module]) == 1
        and len(path.read_text(encoding="utf-8").splitlines()) < _CRUMB_LINES
    }


def private_imports(tree: Tree) -> set[str]:
    """Return every import, as `module imports module.name`, of another room's module or name with an underscore."""
    found = set()
    for module, parsed in tree.parsed.items():
        for node in ast.walk(parsed):
            if (
                isinstance(node, ast.ImportFrom)
                and (base := tree.base_of(module, node) or "").partition(".")[0] == ROOT
            ):
                for target in (f"{base}.{each.name}" for each in node.names):
                    is_private = any(re.match(r"_(?!_)", part) for part in target.split("."))
                    if is_private and room_of(tree, target) != room_of(tree, module):
                        found.add(f"{module} imports {target}".replace(f"{ROOT}.", ""))
    return found


def room_of(tree: Tree, module: str) -> str:
    """Return the room of a module: its folder below the root, or `features/<name>`; what lies in the root has that."""
    parts = module.split(".")[1:]
    if tree.paths.get(f"{ROOT}.{''.join(parts[:1])}", Path()).name != "__init__.py":
        return ROOT
    return "/".join(parts[: 2 if parts[0] == "features" else 1])


def _members(parsed: ast.Module) -> Iterator[ast.stmt]:
    for node in parsed.body:
        if isinstance(node, ast.ClassDef):
            yield from node.body


def _defined(parsed: ast.Module) -> Iterator[str]:
    for node in parsed.body:
        if isinstance(node, ast.ClassDef) or (
            isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and not _is_registered(node)
        ):
            yield node.name
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (each.id for target in targets for each in ast.walk(target) if isinstance(each, ast.Name))


def _is_registered(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Tell whether a decorator hands the function over, as a command or a tool: nobody imports it by its name."""
    return any(not ast.unparse(each).startswith(("overload", "cache", "lru_cache")) for each in node.decorator_list)
