"""What is generated in the pages: tables from the settings and from policy, and the drawn tree of the modules.

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`; `python -m tests.test_docs` makes all of
them anew. The tree keeps its order and its words; a module that is new gets the first line of its docstring.
"""

import ast
import re
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

import toolcrib
from toolcrib.config import Config
from toolcrib.config import services as service_settings
from toolcrib.config import settings as config_settings
from toolcrib.config.foreign import RULES
from toolcrib.config.foreign import TABLE as FOREIGN
from toolcrib.define.gateway import NEEDED, OPERATOR_SCOPES
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import LayerName
from toolcrib.policy import PROFILES, SUBAGENT_DENY
from toolcrib.policy import settings as policy_settings
from toolcrib.policy.settings import SANDBOX_ALLOW, SANDBOX_DENY
from toolcrib.tools import SHELF

__all__ = ["ROOT", "drawn_paths", "modules", "regenerated"]

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "toolcrib"


def regenerated(text: str) -> str:
    """Return a page with its generated parts made anew."""

    def replaced(found: re.Match[str]) -> str:
        what, old = found[1], found[2]
        section = what.removeprefix("settings ")
        made = settings_table(section) if section != what else GENERATED[what](old)
        return f"<!-- generated: {what} -->\n{made}\n<!-- end -->"

    return re.sub(r"<!-- generated: (.+?) -->\n(.*?)<!-- end -->", replaced, text, flags=re.DOTALL)


# The gateway


def methods_table(_: str) -> str:
    """Return every method of the gateway: its scope, its parameters, and what it does; then those of later versions."""
    crib = toolcrib.open({})
    rows = ["| method | needs | takes | does |", "|---|---|---|---|"]
    for name, method in sorted(crib.methods.items()):
        schema = method.parameters
        takes = [f"`{each}`" + ("" if each in schema.get("required", ()) else "?") for each in schema["properties"]]
        needed = OPERATOR_SCOPES.get(method.mark.clients, method.mark.clients)
        rows.append(f"| `{name}` | {needed} | {', '.join(takes)} | {method.doc.partition(chr(10))[0]} |")
    later = ", ".join(f"`{name}`" for name in sorted(NEEDED) if name not in crib.methods)
    return "\n".join([*rows, "", f"Known and not there yet: {later}."])


# The tree

_ROOMS = ("define", "registry", "policy", "adapter", "tools", "agent", "services", "backends", "config", "doors")
_COLUMN = 29  # where the words begin


def modules() -> set[str]:
    """Return every package (`define/`) and module (`define/tool.py`) of the library, as the tree writes them."""
    files = [path.relative_to(SOURCE) for path in SOURCE.rglob("*.py")]
    packages = {f"{path.parent}/" for path in files if path.name == "__init__.py" and path.parent != Path()}
    return packages | {str(path) for path in files if path.name != "__init__.py"}


def folders(old: str) -> str:
    """Return the drawn tree of the folders there are; the words are those of the `old` one."""
    said = dict(_drawn(old))
    return "\n".join(["```text", "src/toolcrib/", *_branches("", said, only_folders=True), "```"])


def module_list(_: str) -> str:
    """Return the drawn tree of all modules, each with its first words."""
    return "\n".join(["```text", "src/toolcrib/", *_branches("", {}, only_folders=False), "```"])


def drawn_paths(drawing: str) -> set[str]:
    """Return the paths of a drawn tree; a folder ends in a slash."""
    return {path for path, _ in _drawn(drawing)}


def _drawn(drawing: str) -> Iterator[tuple[str, str]]:
    above: list[str] = []
    for line in drawing.splitlines():
        found = re.match(r"([│ ]*)[├└]── (\S+) *(.*)", line)
        if found is not None:
            above = [*above[: len(found[1]) // 4], found[2]]
            yield "".join(above), found[3]


def _branches(folder: str, said: Mapping[str, str], margin: str = "", *, only_folders: bool) -> Iterator[str]:
    def rank(path: str) -> tuple[bool, int, str]:
        room = path.partition("/")[0]
        is_room = not folder and room in _ROOMS
        return path.endswith("/"), _ROOMS.index(room) if is_room else len(_ROOMS), path

    there = (path for path in modules() if _above(path) == folder and (path.endswith("/") or not only_folders))
    listed = sorted(there, key=rank)
    for path in listed:
        last = path == listed[-1]
        name = path.removeprefix(folder)
        drawn_name = f"{margin}{'└' if last else '├'}── {name}"
        yield f"{drawn_name.ljust(_COLUMN - 1)} {said.get(path) or _first_words(path)}"
        if path.endswith("/"):
            yield from _branches(path, said, f"{margin}{' ' if last else '│'}   ", only_folders=only_folders)


def _above(path: str) -> str:
    """Return the folder that a path stands in, as the tree writes it."""
    folder = path.rstrip("/").rpartition("/")[0]
    return f"{folder}/" if folder else ""


def _first_words(path: str) -> str:
    file = SOURCE / path / "__init__.py" if path.endswith("/") else SOURCE / path
    line = (ast.get_docstring(ast.parse(file.read_text())) or "").partition("\n")[0]
    plain = re.split(r"\. |: " if len(line) > 80 else r"\. ", line)[0].rstrip(".")
    return plain if plain[1:2].isupper() else plain[:1].lower() + plain[1:]


# The shelf


def shelf(_: str) -> str:
    """Return what every tool with a body does and takes, as its own declaration says."""
    return "\n\n".join(_tool_section(tool) for tool in SHELF if tool.has_body)


def _tool_section(tool: Tool) -> str:
    effects = ", ".join(sorted(tool.effects)) or "none"
    needs = f" · needs {', '.join(f'`{need}`' for need in tool.requires)}" if tool.requires else ""
    group = f"`group:{tool.group}`" if tool.group else "in no group"
    head = f"## {tool.name}\n\n{group} · effects: {effects}{needs}"
    rows = [_parameter_row(name, schema, tool) for name, schema in tool.parameters["properties"].items()]
    table = ["| parameter | is | means |", "|---|---|---|", *rows]
    return "\n\n".join([head, tool.description.strip(), *(["\n".join(table)] if rows else [])])


def _parameter_row(name: str, schema: Mapping[str, Any], tool: Tool) -> str:
    others = [other for other, own in tool.aliases.items() if own == name]
    spelled = f"`{name}`" + (f" (also {', '.join(f'`{other}`' for other in others)})" if others else "")
    kind = schema.get("type", "any")
    if kind == "array":
        kind = f"list of {schema['items'].get('type', 'any')}"
    if "enum" in schema:
        kind = ", ".join(f"`{value}`" for value in schema["enum"])
    if name in tool.parameters.get("required", ()):
        kind += ", required"
    elif "default" in schema:
        kind += f", default `{str(schema['default']).lower() if schema['type'] == 'boolean' else schema['default']}`"
    return f"| {spelled} | {kind} | {schema.get('description', '')} |".replace("|  |", "| |")


# The settings

# what the kinds of values are called in the tables, the most particular first
_CALLED = {
    "Entry": "entry",
    "ProfileName": "profile",
    "SenderName": "sender",
    "OwnerName": "`telegram:id:`, `id:` or `e164:` sender",
    "AgentId": "agent id",
    "Every": "length of time, from `1m` on",
    "Seconds": "seconds",
    "Amount": "number",
    "Port": "port",
    "Token": "token",
    "Password": "password",
    "Bind": "`loopback`, `lan` or an address",
    "Network": "address or network",
    "Origin": "origin",
    "Url": "address of a server",
    "Pattern": "pattern",
    "EnvName": "name of a variable",
    "Folder": "folder",
    "DockerImage": "image",
    "DockerNetwork": "network name",
    "DockerMemory": "amount of memory",
    "Volume": "`source:/target`",
    "Words": "text",
    "Str": "text",
    "Bool": "true or false",
    "Int": "whole number",
}
_PLAIN: tuple[tuple[Any, str], ...] = ((str, "text"), (int, "whole number"), (float, "number"), (Any, "anything"))
_NAMED = {**vars(policy_settings), **vars(service_settings), **vars(config_settings)}
_KINDS = (*((_NAMED[name], words) for name, words in _CALLED.items() if name in _NAMED), *_PLAIN)
_PLACEHOLDERS = {
    "byProvider": "<provider>",
    "agents": "<id>",
    "channels": "<channel>",
    "groups": "<group>",
    "toolsBySender": "<sender>",
    "accounts": "<account>",
    "models": "<provider>",
    "secrets": "<NAME>",
}
_MANY = {
    "entry": "entries",
    "address or network": "addresses or networks",
    "name of a variable": "names of variables",
    "`source:/target`": "`source:/target` pairs",
}
# keys that mean something of their own in a map of sections
_RESERVED = {"models": ("default", "image"), "plugins": ("folders", "allow")}


def settings_table(section: str) -> str:
    """Return one section of the configuration as a table: key, type, default."""
    rows = list(_rows(Config, ""))
    kept = [row for row in rows if re.split(r"[.\[]", row[0])[0] == section]
    return _table(("key", "type", "default"), [(f"`{key}`", kind, default) for key, kind, default in kept])


def _rows(model: type[BaseModel], path: str, seen: dict[type[BaseModel], str] | None = None) -> Iterator[Any]:
    known = {} if seen is None else seen
    hints = typing.get_type_hints(model, include_extras=True)
    for name, info in model.model_fields.items():
        key = info.alias or name
        here = f"{path}.{key}" if path else key
        nested = False
        for place, inner in _models(hints[name], here, key):
            nested = True
            if inner in known:
                yield place, f"as `{known[inner]}`", ""
            else:
                known[inner] = place
                yield from _rows(inner, place, known)
        words, default = _words(hints[name]), info.get_default(call_default_factory=True)
        if words and not nested:
            yield here, words, "needed" if info.is_required() else _default(default)
        elif words:
            places = [f"{here}.{word}" for word in _RESERVED[key]] if key in _RESERVED else [here]
            shown = _default(default) if isinstance(default, str) else "absent"
            yield from ((place, words.removeprefix("map to "), shown) for place in places)


def _models(kind: Any, path: str, key: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the sections that a value of this kind holds, each with its path."""
    origin, args = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield path, kind
    elif origin in (Annotated, Union, types.UnionType):
        for each in args[:1] if origin is Annotated else args:
            yield from _models(each, path, key)
    elif origin is tuple:
        yield from _models(args[0], f"{path}[]", key)
    elif origin is Mapping:
        yield from _models(args[1], f"{path}.{_PLACEHOLDERS.get(key, '<name>')}", key)


def _words(kind: Any) -> str:
    for known, words in _KINDS:
        if kind == known:
            return words
    origin, args = get_origin(kind), get_args(kind)
    if origin is Literal:
        return ", ".join(f"`{value}`" for value in args)
    if origin is Annotated:
        return _ranged(args)
    if origin in (Union, types.UnionType):
        return " or ".join(filter(None, (_words(each) for each in args if each is not type(None))))
    if origin is tuple:
        inner = _words(args[0])
        return f"list of {_many(inner)}" if inner else ""
    if origin is Mapping:
        inner = _words(args[1])
        return f"map to {inner}" if inner else ""
    return ""


def _many(words: str) -> str:
    if words in _MANY:
        return _MANY[words]
    return words.replace("list", "lists", 1) if words.startswith("list") else f"{words}s"


def _ranged(args: tuple[Any, ...]) -> str:
    words = _words(args[0])
    limits = [limit for note in args[1:] for limit in getattr(note, "metadata", ())]
    lowest = next((limit.ge for limit in limits if hasattr(limit, "ge")), None)
    highest = next((limit.le for limit in limits if hasattr(limit, "le")), None)
    return words if lowest is None else f"{words}, {lowest:,} to {highest:,}"


def _default(value: Any) -> str:
    match value:
        case None | {}:
            return "absent"
        case bool():
            return str(value).lower()
        case ():
            return "`[]`"
        case tuple():
            return ", ".join(f"`{each}`" for each in value)
        case str():
            return f"`{value}`"
    return str(value)


def _table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [columns, tuple("---" for _ in columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


# Policy


def _names(entries: tuple[str, ...] | None) -> str:
    return "no limit" if entries is None else ", ".join(f"`{entry}`" for entry in entries)


def groups_table() -> str:
    catalog = toolcrib.open({}).catalog
    listed = {group: tuple(name for name in catalog if name in members) for group, members in catalog.groups.items()}
    return _table(("group", "tools"), [(f"`{group}`", _names(names)) for group, names in listed.items() if names])


def lists_table() -> str:
    lists = {
        "sandbox, allow": SANDBOX_ALLOW,
        "sandbox, deny": SANDBOX_DENY,
        "subagent, deny": SUBAGENT_DENY,
    }
    return _table(("built-in list", "entries"), [(name, _names(entries)) for name, entries in lists.items()])


def foreign_table() -> str:
    """Return what becomes of each key of an OpenClaw file that nothing here reads."""
    rows: list[tuple[str, ...]] = [(f"`{row.pattern}`", row.fate, row.words) for row in FOREIGN if row.words != RULES]
    return _table(("key", "", "what it means, or what to write"), rows)


def layers_table(old: str) -> str:
    """Return the layers in their order, each with what the page says of it."""
    head, line, *rows = old.strip().splitlines()
    known = {row.split("`")[1]: row for row in rows}
    return "\n".join((head, line, *(known.get(name, f"| `{name}` | | |") for name in get_args(LayerName))))


GENERATED: Mapping[str, Callable[[str], str]] = {
    "foreign keys": lambda _: foreign_table(),
    "methods": methods_table,
    "layers": layers_table,
    "shelf": shelf,
    "folders": folders,
    "modules": module_list,
    "groups": lambda _: groups_table(),
    "profiles": lambda _: _table(("profile", "allows"), [(f"`{n}`", _names(e)) for n, e in PROFILES.items()]),
    "built-in lists": lambda _: lists_table(),
}
