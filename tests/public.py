"""What the public modules promise: every name with its signature, as it is written. A golden file holds them.

`python -m tests.public` writes tests/golden/public.txt anew; what a change of it breaks is said in CHANGELOG.md.
"""

import ast
import importlib
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType

__all__ = ["GOLDEN", "PUBLIC", "describe"]

ROOT = Path(__file__).parents[1]
GOLDEN = ROOT / "tests" / "golden" / "public.txt"
PUBLIC = (
    "toolcrib", "toolcrib.bridges", "toolcrib.channels", "toolcrib.events", "toolcrib.files", "toolcrib.hooks",
    "toolcrib.models", "toolcrib.policy", "toolcrib.testing",
)  # fmt: skip

_SHOWN_CHARS = 200  # of a value; a table is not its promise, its name is
_WIRE = ("declare", "request", "ReplyStream")  # what is promised of a module that spells one provider's API
_SPECIAL_METHODS = ("__init__", "__call__")

Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | ast.Assign | ast.AnnAssign


def describe() -> str:
    """Return every public module with its names and their signatures."""
    return "\n\n".join("\n".join(_module_lines(name)) for name in PUBLIC) + "\n"


def _module_lines(module: str) -> Iterator[str]:
    yield f"# {module}"
    names = importlib.import_module(module).__all__
    for name in sorted({*names, "open"} if module == "toolcrib" else names):
        if name == "__version__":
            yield name
            continue
        served = getattr(importlib.import_module(module), name)
        if isinstance(served, ModuleType):
            yield f"module {name}"
            for inner in _WIRE if module == "toolcrib.models" else served.__all__:
                yield from (f"    {line}" for line in _lines(inner, _definition(served.__name__, inner)))
        else:
            yield from _lines(name, _definition(module, name))


def _lines(name: str, node: Definition) -> Iterator[str]:
    match node:
        case ast.ClassDef():
            bases = ", ".join(map(ast.unparse, (*node.bases, *(each.value for each in node.keywords))))
            marks = "".join(f"@{ast.unparse(each)} " for each in node.decorator_list)
            yield f"{marks}class {name}({bases})"
            for inner in node.body:
                yield from (f"    {line}" for line in _member_lines(inner))
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            yield _signature(node)
        case ast.AnnAssign():
            yield f"{name}: {ast.unparse(node.annotation)}"
        case ast.Assign():
            yield f"{name} = {ast.unparse(node.value)}"[:_SHOWN_CHARS]


def _member_lines(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.AnnAssign(target=ast.Name(id=name)) if not name.startswith("_"):
            yield ast.unparse(node)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            if not name.startswith("_") or name in _SPECIAL_METHODS:
                marks = "".join(f"@{ast.unparse(each)} " for each in node.decorator_list)
                yield f"{marks}{_signature(node)}"


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    kind = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{kind} {node.name}({ast.unparse(node.args)}){returns}"


@cache
def _parsed(module: str) -> ast.Module:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def _definition(module: str, name: str) -> Definition:
    """Return where a name that a module serves is written, however many imports away."""
    own = [node for node in _parsed(module).body if _target(node) == name]
    if own:
        last = own[-1]  # behind its overloads
        assert isinstance(last, Definition)
        return last
    for home, names in getattr(importlib.import_module(module), "_HOMES", {}).items():
        if name in names.split():
            return _definition(f"toolcrib.{home}", name)
    for node in _parsed(module).body:
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            source = importlib.util.resolve_name("." * node.level + (node.module or ""), _package(module))
            return _definition(source, name)
    raise AssertionError(f"{module} has no {name}")


def _package(module: str) -> str:
    spec = importlib.util.find_spec(module)
    assert spec is not None
    return module if spec.submodule_search_locations else module.rpartition(".")[0]


def _target(node: ast.stmt) -> str:
    match node:
        case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            return name
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            return name
    return ""


if __name__ == "__main__":
    GOLDEN.write_text(describe(), encoding="utf-8")
