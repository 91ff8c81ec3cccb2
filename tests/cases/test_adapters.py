"""What a recorded case proves: a function of ours that the product uses, or one that is listed as used by nothing."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import toolcrib
from tests.cases import MODULES
from tests.cases.judge import find_adapter, read
from tests.cases.load import HERE, Case, Folders
from tests.cases.rows import read_rows

SOURCE = Path(toolcrib.__file__).parent
ROWS = read_rows(HERE)
PUBLIC = (HERE.parent / "golden" / "public.txt").read_text()
RECORDED = sorted({name for file, names in MODULES.items() if not file.startswith("attacks/") for name in names})


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def uses(node: ast.AST, inside: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield every name that is read, but not where it names itself."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        inside |= {node.name}
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in inside:
        yield node.id
    if isinstance(node, ast.Attribute) and node.attr not in inside:
        yield node.attr
    for child in ast.iter_child_nodes(node):
        yield from uses(child, inside)


@cache
def used() -> frozenset[str]:
    return frozenset(name for path in SOURCE.rglob("*.py") for name in uses(tree_of(path)))


def functions_of(path: Path) -> dict[str, ast.AST]:
    return {node.name: node for node in tree_of(path).body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def source_of(module: str) -> Path:
    path = SOURCE.parent / module.replace(".", "/")
    return path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"


def taken(path: Path) -> dict[str, Path]:
    """Return what a module of adapters takes from the product by name, with the file it stands in."""
    found: dict[str, Path] = {}
    for node in ast.walk(tree_of(path)):
        if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith("toolcrib"):
            continue
        for name in node.names:
            inner = source_of(f"{node.module}.{name.name}")
            if inner.is_file():
                named = {each for each in uses(tree_of(path)) if each in functions_of(inner)}
                found |= dict.fromkeys(named, inner)
            else:
                found[name.name] = source_of(str(node.module))
    return found


@pytest.mark.parametrize("module", RECORDED)
def test_a_function_that_nothing_calls_is_listed(module: str) -> None:
    listed = {name.rpartition("::")[2] for row in ROWS.uncalled for name in row.functions.values()}
    path = HERE.parent.parent / f"{module.replace('.', '/')}.py"
    idle = {
        name
        for name, where in taken(path).items()
        if name in functions_of(where) and name not in used() and f"def {name}(" not in PUBLIC
    }
    assert idle - listed == set()


def test_what_is_listed_is_a_function_that_nothing_calls() -> None:
    for row in ROWS.uncalled:
        for name in row.functions.values():
            file, _, function = name.partition("::")
            assert function in functions_of(SOURCE / file), f"there is no {name}"
            assert function not in used(), f"{name} is called; its cases prove what the product does"


def test_what_is_listed_is_recorded_and_answered() -> None:
    for row in ROWS.uncalled:
        for fn in row.functions:
            assert find_adapter(Case(file=row.file, fn=fn, id="", args={}, expected=None, body={})), f"{row.file} {fn}"


@pytest.mark.parametrize("module", RECORDED)
def test_no_adapter_answers_by_itself(module: str) -> None:
    alone = {fn for fn, value, path in table_of(module, "ADAPTERS") if not reaches(value, path, set())}
    assert alone - {"'fixture'"} == set()


# What asks the product only about our own answer: what it permits, means or is bound to.
ABOUT_OURS = frozenset({
    "_same_decision", "_same_digest", "_same_meaning", "_same_name", "_same_strip", "same_permission",
    "_same",  # of pi.agentLoop: the names of the calls that were made
})  # fmt: skip


@pytest.mark.parametrize("module", RECORDED)
def test_what_was_recorded_is_compared_as_it_is(module: str) -> None:
    """Nothing of ours makes the recorded answer into one that ours is sure to be."""
    through = {
        f"{name} {fn}"
        for name in ("FORM", "THEIRS", "SAME")
        for fn, value, path in table_of(module, name)
        if reaches(value, path, set()) and not (name == "SAME" and ast.unparse(value) in ABOUT_OURS)
    }
    assert through == set()


def table_of(module: str, name: str) -> Iterator[tuple[str, ast.AST, Path]]:
    """Yield each recorded function of a table in a module, with the expression that stands there."""
    path = HERE.parent.parent / f"{module.replace('.', '/')}.py"
    for node in tree_of(path).body:
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not ast.unparse(node).startswith(
            (f"{name}:", f"{name} =")
        ):
            continue
        if isinstance(node.value, ast.Dict):
            for key, value in zip(node.value.keys, node.value.values, strict=True):
                yield ast.unparse(key) if key else "**", value, path
        elif node.value:
            yield "*", node.value.args[-1] if isinstance(node.value, ast.Call) else node.value, path


def reaches(node: ast.AST, path: Path, seen: set[tuple[Path, str]]) -> bool:
    """Tell whether the product is used in a piece of a module, or in what that uses of its neighbours."""
    ours, near = set[str](), dict[str, Path]()
    for each in ast.walk(tree_of(path)):
        if isinstance(each, ast.Import):
            ours |= {name.asname or name.name for name in each.names if name.name.startswith("toolcrib")}
        elif isinstance(each, ast.ImportFrom) and each.level == 0 and (each.module or "").startswith("toolcrib"):
            ours |= {name.asname or name.name for name in each.names}
        elif isinstance(each, ast.ImportFrom) and (each.level or (each.module or "").startswith("tests.")):
            folder = path.parent if each.level else HERE.parent.parent
            near |= dict.fromkeys(
                [name.name for name in each.names], folder / f"{(each.module or '').replace('.', '/')}.py"
            )
    around = {
        each.name: each
        for each in tree_of(path).body
        if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    }
    for name in set(uses(node)):
        if name in ours:
            return True
        where = path if name in around else near.get(name)
        if where is None or not where.is_file() or (where, name) in seen:
            continue
        seen.add((where, name))
        inner = next((each for each in tree_of(where).body if getattr(each, "name", "") == name), None)
        if inner is not None and reaches(inner, where, seen):
            return True
    return False


def test_the_report_counts_what_nothing_calls() -> None:
    cases, known = read(Folders())
    counted = [case for case in cases if known.rows.uncalled_by(case)]
    assert counted
    assert {case.file for case in counted} == {row.file for row in known.rows.uncalled}
