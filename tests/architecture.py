"""The architecture check: floors, rings, the shelf, sizes and names. Each function returns one sentence per fault.

Every import counts, also those inside functions and those for type checkers only, so that a ring cannot be hidden.
The root package and the faces are tables of names: `from toolcrib import Tool` counts as an import of the module where
Tool lives. They may name any floor, load nothing by themselves, and only tools and doors (the root) go through them.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

__all__ = [
    "FACES", "Tree", "dynamic_imports", "face_faults", "forbidden_imports", "rings", "shelf_faults", "size_faults",
    "word_faults",
]  # fmt: skip

ROOT = "toolcrib"

# Who may import whom: the table of design.md. A neighbour on the same floor is not in the list.
_ALLOWED: Mapping[str, frozenset[str]] = {
    "define": frozenset(),
    "lazy": frozenset(),
    "threads": frozenset({"define"}),
    "registry": frozenset({"define"}),
    "policy": frozenset({"define"}),
    "adapter": frozenset({"define"}),
    "tools": frozenset({"define"}),
    "agent": frozenset({"define", "registry", "policy", "adapter"}),
    "services": frozenset({"define", "policy", "adapter", "config"}),
    "backends": frozenset({"define", "adapter"}),
    "config": frozenset({"define", "policy"}),
    "testing": frozenset({"define"}),
    "client": frozenset({"define", "backends"}),
    "app": frozenset(
        {"define", "registry", "policy", "adapter", "tools", "agent", "services", "backends", "config"}
    ),
    "doors": frozenset(
        {"define", "registry", "policy", "adapter", "tools", "agent", "services", "backends", "config", "app", "client"}
    ),
    "__main__": frozenset({"doors"}),
}  # fmt: skip

# Only these parts of a room may use what the table grants it.
_ONLY = {
    ("backends", "adapter"): ("toolcrib.backends.models", "toolcrib.backends.mcp"),
}
# And only this part of a room may be used: services read settings, and never the file.
_ONLY_FROM = {
    ("services", "config"): ("toolcrib.config.settings", "toolcrib.config.services", "toolcrib.config.channels")
}
_FOR_ALL = frozenset({"lazy", "threads"})  # declarations, and plain functions in threads of their own
_CLIENT_MAY = "toolcrib.backends.gateway"
_MAY_IMPORT_ROOT = frozenset({"tools", "doors"})
# The public modules beside the root that are tables of names; `policy` and `testing` are faces of their own rooms.
FACES = frozenset({ROOT, *(f"{ROOT}.{name}" for name in ("events", "hooks", "files", "models", "bridges", "channels"))})
_MAY_IMPORT_BY_NAME = frozenset({"toolcrib", "toolcrib.doors.cli.main"})

_LONGEST_MODULE, _LONGEST_FUNCTION, _MOST_PARAMETERS = 500, 75, 8
_BANNED_MODULES = frozenset({"utils", "util", "helpers", "helper", "common", "core", "base", "misc", "impl"})
_BANNED_ENDINGS = ("Manager", "Handler", "Service", "Impl")


@dataclass(frozen=True, slots=True)
class Import:
    """One import: who, where, of which module, and through which face's table of names, if through one."""

    by: str
    line: int
    target: str
    through: str


class Tree:
    """The modules of a source folder that holds the package `toolcrib`, parsed."""

    def __init__(self, source: Path) -> None:
        self.package = source / ROOT
        self.paths = {_dotted(path.relative_to(source)): path for path in sorted(self.package.rglob("*.py"))}

    @cached_property
    def parsed(self) -> Mapping[str, ast.Module]:
        return {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in self.paths.items()}

    @cached_property
    def homes(self) -> Mapping[str, Mapping[str, str]]:
        """The tables of the root and the faces: public name to the module where it lives."""
        return {face: self._table(face) for face in FACES}

    def _table(self, face: str) -> Mapping[str, str]:
        for node in self.parsed.get(face, ast.Module([], [])).body:
            if isinstance(node, ast.Assign) and _names(node.targets) == ["_HOMES"]:
                table: dict[str, str] = ast.literal_eval(node.value)
                served = ((name, home) for home, names in table.items() for name in names.split())
                return {name: self._module(f"{ROOT}.{home}.{name}") for name, home in served}
        return {}

    @cached_property
    def imports(self) -> Sequence[Import]:
        return [found for name in self.parsed for found in self._imports_of(name)]

    def _imports_of(self, name: str) -> Iterator[Import]:
        faces: dict[str, str] = {}
        for node in ast.walk(self.parsed[name]):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name.partition(".")[0] == ROOT:
                        face = alias.name if alias.name in FACES else ""
                        yield Import(name, node.lineno, self._module(alias.name), face)
                        faces[alias.asname or ROOT] = face if alias.asname else ROOT
            elif isinstance(node, ast.ImportFrom):
                base = self.base_of(name, node)
                if base is not None and base.partition(".")[0] == ROOT:
                    for alias in node.names:
                        face = base if base in FACES else ""
                        yield Import(name, node.lineno, self._member(base, alias.name), face)
        for node in ast.walk(self.parsed[name]):
            # toolcrib.open and the like, after `import toolcrib`
            match node:
                case ast.Attribute(value=ast.Name(id=of), attr=served) if served in self.homes.get(
                    faces.get(of, ""), ()
                ):
                    yield Import(name, node.lineno, self.homes[faces[of]][served], faces[of])

    def base_of(self, name: str, node: ast.ImportFrom) -> str | None:
        """Return the module from which this statement in the module `name` imports."""
        if not node.level:
            return node.module
        is_package = self.paths[name].name == "__init__.py"
        parts = name.split(".")[: len(name.split(".")) - node.level + is_package]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def _member(self, base: str, name: str) -> str:
        if f"{base}.{name}" in self.paths:
            return f"{base}.{name}"
        return self.homes[base].get(name, base) if base in FACES else self._module(base)

    def _module(self, name: str) -> str:
        """Return the longest part of a dotted name that is a module here."""
        while name not in self.paths and "." in name:
            name = name.rpartition(".")[0]
        return name


def forbidden_imports(tree: Tree) -> list[str]:
    """Return every import that points upward or sideways."""
    faults = []
    for each in tree.imports:
        by, target = _room(each.by), _room(each.target)
        if each.by in FACES:
            continue  # a table may name any floor; `face_faults` sees that it loads none
        if not (_may_in_tools(each, tree) if by == "tools" else _may(each, by, target)):
            table = "the root package" if each.through == ROOT else each.through
            via = f" through {table}" if each.through not in ("", each.target) else ""
            faults.append(f"{each.by}:{each.line} imports {each.target}{via}; {by} may not")
    return faults


def face_faults(tree: Tree) -> list[str]:
    """Return every import of ours that a face does when it is loaded, not when a name of it is used."""
    faults = []
    for face in sorted(FACES & tree.parsed.keys()):
        for node in ast.walk(_without_type_checking(tree.parsed[face])):
            match node:
                case ast.ImportFrom(level=1, module=None, names=[ast.alias(name="_serve")]):
                    continue
                case ast.ImportFrom(level=level, module=module) if level or (module or "").startswith(ROOT):
                    faults.append(f"{face}:{node.lineno} imports what it should only name")
    return faults


def _without_type_checking(parsed: ast.Module) -> ast.Module:
    def is_for_checkers(node: ast.stmt) -> bool:
        return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"

    return ast.Module([node for node in parsed.body if not is_for_checkers(node)], [])


def _may(each: Import, by: str, target: str) -> bool:
    if (each.through == ROOT and by not in _MAY_IMPORT_ROOT) or each.through not in ("", ROOT):
        return False
    if each.target in FACES:
        return each.target == ROOT
    if target == by or target in _FOR_ALL:
        return True
    if by == "client" and target == "backends":
        return each.target == _CLIENT_MAY
    if each.target not in _ONLY_FROM.get((by, target), (each.target,)):
        return False
    only = _ONLY.get((by, target))
    return target in _ALLOWED.get(by, frozenset()) and (only is None or each.by.startswith(only))


def _may_in_tools(each: Import, tree: Tree) -> bool:
    """Tell whether a tool may: the faces' names for authors, and the underscore modules of its own folder or of all."""
    shelf = f"{ROOT}.tools"
    if each.through or _room(each.target) in _FOR_ALL:
        return each.target in FACES or _room(each.target) in _FOR_ALL or _room(each.target) == "define"
    if each.by == shelf:
        return each.target.startswith(f"{shelf}.")
    folder = each.by if tree.paths[each.by].name == "__init__.py" else each.by.rpartition(".")[0]
    own, _, module = each.target.rpartition(".")
    return own in (folder, shelf) and module.startswith("_")


def rings(tree: Tree) -> list[str]:
    """Return every set of modules that import one another. What a face serves is counted where it lives."""
    edges: dict[str, set[str]] = {name: set() for name in tree.paths}
    for each in tree.imports:
        if each.by not in FACES and each.by != each.target and each.target in edges:
            edges[each.by].add(each.target)
    while True:  # a module that imports nothing that is left is in no ring
        free = {name for name, targets in edges.items() if not targets & edges.keys()}
        if not free:
            break
        edges = {name: targets for name, targets in edges.items() if name not in free}
    tied = {name: _reachable(name, edges) for name in edges}
    knots = {frozenset(other for other in tied[name] if name in tied[other]) for name in edges if name in tied[name]}
    return [f"{', '.join(sorted(knot))} import one another" for knot in sorted(knots, key=sorted)]


def _reachable(name: str, edges: Mapping[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    ahead = [name]
    while ahead:
        for target in edges.get(ahead.pop(), ()):
            if target in edges and target not in seen:
                seen.add(target)
                ahead.append(target)
    return seen


def dynamic_imports(tree: Tree) -> list[str]:
    """Return every import by a computed name outside the two lazy tables: it would hide from this check."""
    return [
        f"{name}:{node.lineno} imports by a computed name; write an import statement"
        for name, parsed in tree.parsed.items()
        if name not in _MAY_IMPORT_BY_NAME
        for node in ast.walk(parsed)
        if isinstance(node, ast.Call) and _called(node.func) in ("import_module", "__import__")
    ]


def shelf_faults(tree: Tree) -> list[str]:
    """Return every file under tools/ that is not one tool of its own name and group, standing on the shelf."""
    shelf = _shelf_names(tree.parsed.get(f"{ROOT}.tools", ast.Module([], [])))
    faults = []
    for name, parsed in tree.parsed.items():
        parts = name.split(".")[2:]
        if not name.startswith(f"{ROOT}.tools.") or tree.paths[name].name == "__init__.py" or parts[-1].startswith("_"):
            continue
        faults += [f"{name}: {fault}" for fault in _tool_faults(parts, _declared(parsed), shelf)]
    return faults


@dataclass(frozen=True, slots=True)
class _Declared:
    made_by: str
    object: str
    name: str | None
    group: str | None


def _tool_faults(parts: Sequence[str], declared: Sequence[_Declared], shelf: frozenset[str]) -> Iterator[str]:
    if len(parts) != 2:
        yield "a tool stands in tools/<group>/<name>.py"
        return
    folder, stem = parts
    if len(declared) != 1:
        yield f"declares {len(declared)} tools; one file, one tool"
        return
    (one,) = declared
    if (one.made_by == "Agent") != (folder == "agents"):
        yield "agents stand in tools/agents, and nothing else does"
    if one.object != stem or one.name != stem:
        yield f"declares {one.name!r} as {one.object!r}; both are called like the file"
    expected = None if folder == "agents" or stem == "agents_list" else folder
    if one.group != expected and folder != "channels":  # they come with their channel, whatever group they join
        yield f"has group {one.group!r}, not {expected!r}"
    if stem not in shelf:
        yield "is not on the shelf in tools/__init__.py"


def _declared(parsed: ast.Module) -> list[_Declared]:
    found = []
    for node in parsed.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for decorator in node.decorator_list:
                call = decorator if isinstance(decorator, ast.Call) else None
                if _called(call.func if call else decorator) == "tool":
                    name = _text(call, "name") or node.name
                    found.append(_Declared("tool", node.name, name, _text(call, "group")))
        elif isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, ast.Call):
            made_by = _called(node.value.func)
            if made_by in ("actions", "Agent", "Tool", "declared"):
                (target,) = _names(node.targets if isinstance(node, ast.Assign) else [node.target])
                called = _text(node.value, "name") or _first(node.value)
                found.append(_Declared(made_by, target, called, _text(node.value, "group")))
    return found


def _shelf_names(parsed: ast.Module) -> frozenset[str]:
    """Return the plain names that stand in the shelf's literal lists."""
    lists = [
        node.value
        for node in parsed.body
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and isinstance(node.value, (ast.Tuple, ast.List))
    ]
    named = (node.value for node in parsed.body if isinstance(node, ast.AnnAssign) and isinstance(node.value, ast.Dict))
    lists += [each for one in named for each in one.values if isinstance(each, ast.Tuple)]
    return frozenset(element.id for each in lists for element in each.elts if isinstance(element, ast.Name))


def size_faults(tree: Tree) -> list[str]:
    """Return every module, function and parameter list that is too long."""
    faults = []
    for name, path in tree.paths.items():
        lines = len(path.read_text(encoding="utf-8").splitlines())
        if lines > _LONGEST_MODULE:
            faults.append(f"{name} has {lines} lines; {_LONGEST_MODULE} is the most")
        for node in ast.walk(tree.parsed[name]):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                faults += _function_faults(f"{name}:{node.lineno} {node.name}", node)
    return faults


def _function_faults(where: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    if lines > _LONGEST_FUNCTION:
        yield f"{where} has {lines} lines; {_LONGEST_FUNCTION} is the most"
    parameters = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
    own = parameters[1:] if parameters[:1] in (["self"], ["cls"]) else parameters
    count = len(own) + len(node.args.kwonlyargs)
    if count > _MOST_PARAMETERS:
        yield f"{where} has {count} parameters; {_MOST_PARAMETERS} is the most"


def word_faults(tree: Tree) -> list[str]:
    """Return every folder, module and class whose name says nothing."""
    faults = []
    for name, parsed in tree.parsed.items():
        if name.rpartition(".")[2].strip("_") in _BANNED_MODULES:
            faults.append(f"{name} is a drawer, not a room; name it after what is in it")
        for node in ast.walk(parsed):
            if isinstance(node, ast.ClassDef) and node.name.endswith(_BANNED_ENDINGS):
                faults.append(f"{name}:{node.lineno} class {node.name}; name it after what it is")
    return faults


def _dotted(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _room(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def _called(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _names(targets: Sequence[ast.expr]) -> list[str]:
    return [target.id for target in targets if isinstance(target, ast.Name)]


def _text(call: ast.Call | None, keyword: str) -> str | None:
    for each in call.keywords if call else ():
        if each.arg == keyword and isinstance(each.value, ast.Constant) and isinstance(each.value.value, str):
            return each.value.value
    return None


def _first(call: ast.Call) -> str | None:
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
