"""Plugins: entry points and plugin folders. A manifest declares their tools; a broken one is reported, not hidden.

A folder plugin holds `toolcrib.plugin.json` and a Python file; an installed one is an entry point of the group
`toolcrib.plugins`, with the same manifest among its files. Nothing of a plugin is imported to find or judge it.
`openclaw.plugin.json` is read where there is no manifest of ours; code of OpenClaw's is not run.
"""

import importlib.metadata
import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any

import jsonschema_rs
import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from toolcrib.define.errors import CribError, PluginError
from toolcrib.define.names import canonical, suggest
from toolcrib.define.plugin import Factory, Plugin, takes_caller
from toolcrib.define.schema.check import retrieve_nothing
from toolcrib.define.tool import Effect, Tool
from toolcrib.lazy import dataclass, field, replace

MANIFEST = "toolcrib.plugin.json"
_MANIFESTS = (MANIFEST, "openclaw.plugin.json")
ENTRY_POINTS = "toolcrib.plugins"
_MANIFEST_BYTES = 1 << 20


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True, defer_build=True)


class DeclaredTool(_Model):
    """A tool as its manifest declares it: enough for policy to judge it."""

    name: str
    description: str = ""
    group: str | None = None
    effects: tuple[Effect, ...] | None = None
    optional: bool = False
    owner_only: bool = Field(default=False, alias="ownerOnly")
    per_caller: bool = Field(default=False, alias="perCaller")
    requires: tuple[str, ...] = ()

    def tool(self) -> Tool:
        return Tool.declared(
            canonical(self.name) or self.name,
            self.description,
            group=self.group,
            effects=None if self.effects is None else frozenset(self.effects),
            optional=self.optional,
            owner_only=self.owner_only,
            requires=self.requires,
        )


class Manifest(_Model):
    """What a plugin says about itself. `configSchema` describes `plugins.<id>.config`; `{}` takes anything."""

    id: Annotated[str, Field(min_length=1)]
    config_schema: dict[str, Any] = Field(alias="configSchema")
    name: str = ""
    description: str = ""
    version: str = ""
    main: str = "plugin.py"
    tools: tuple[DeclaredTool, ...] | None = None
    channels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundPlugin:
    """A plugin that is there. `importer` imports it and raises PluginError when that fails."""

    id: str
    where: str
    manifest: Manifest | None
    importer: Callable[[], Plugin] = field(repr=False)
    code: Path | None = None  # the folder or file of its code, as far as that is known without importing it
    is_folder: bool = False

    def load_from(self, copy: Path) -> "FoundPlugin":
        """Return the plugin of a folder as a copy of that has it."""
        return replace(_from_folder(copy), where=self.where)

    @property
    def per_caller(self) -> tuple[Tool, ...]:
        """The tools that only its code can tell whether a caller has them."""
        declared = self.manifest.tools or () if self.manifest else ()
        return tuple(each.tool() for each in declared if each.per_caller)

    def declare_tools(self) -> tuple[Tool | Factory, ...]:
        """Return the tools as the manifest declares them; without one the plugin has to be loaded."""
        if self.manifest is not None and self.manifest.tools is not None:
            return tuple(declared.tool() for declared in self.manifest.tools)
        return self.importer().tools

    def load(self) -> Plugin:
        """Return the plugin itself, its tools as the manifest declares them to policy."""
        plugin = self.importer()
        if canonical(plugin.name) != canonical(self.id):
            raise PluginError(f"plugin {self.id!r} ({self.where}) calls itself {plugin.name!r}; give both one name")
        for name in plugin.channels if self.manifest else ():
            if self.manifest and name not in self.manifest.channels:
                what = f"plugin {self.id!r} brings a channel {name!r} that its manifest does not declare"
                raise PluginError(f"{what}; add it to `channels` in {self.where}")
        if self.manifest is None or self.manifest.tools is None:
            return plugin
        declared = {tool.name: tool for tool in (each.tool() for each in self.manifest.tools)}
        return replace(plugin, tools=tuple(self._as_declared(item, declared) for item in plugin.tools))

    def _as_declared(self, item: Tool | Factory, declared: Mapping[str, Tool]) -> Tool | Factory:
        if isinstance(item, Tool):
            return self._check_tool(item, declared)

        if takes_caller(item):
            declared = {tool.name: tool for tool in self.per_caller}
            if not declared:
                raise PluginError(
                    f"plugin {self.id!r} has a factory that is asked for every caller, and its manifest does not say "
                    f"so; write perCaller: true for its tools in {self.where}"
                )

        @wraps(item)
        def factory(*given: Any) -> tuple[Tool, ...]:
            made: Any = item(*given)
            tools = () if made is None else (made,) if isinstance(made, Tool) else tuple(made)
            return tuple(self._check_tool(tool, declared) if isinstance(tool, Tool) else tool for tool in tools)

        return factory

    def _check_tool(self, tool: Tool, declared: Mapping[str, Tool]) -> Tool:
        """Return the tool with what policy reads taken from the manifest, so that explain and a call say the same."""
        stated = declared.get(tool.name)
        if stated is None:
            raise PluginError(
                f"plugin {self.id!r} brings a tool {tool.name!r} that its manifest does not declare; "
                f"add it to `tools` in {self.where}"
            )
        for unsaid in _unsaid(tool, stated):
            raise PluginError(
                f"plugin {self.id!r}: the tool {tool.name!r} has {unsaid}, and its manifest does not say so; "
                f"add it in {self.where}"
            )
        return replace(
            tool,
            effects=stated.effects,
            group=stated.group,
            optional=stated.optional,
            owner_only=stated.owner_only,
            requires=stated.requires,
        )

    def check_config(self, config: Mapping[str, Any]) -> None:
        """Raise PluginError unless the plugin's own config fits the schema in its manifest."""
        if self.manifest is None or not self.manifest.config_schema:
            return
        try:
            validator = jsonschema_rs.validator_for(
                self.manifest.config_schema, retriever=retrieve_nothing, mask="the value"
            )
        except (jsonschema_rs.ValidationError, ValueError) as error:
            line = str(error).splitlines()[0]
            raise PluginError(f"plugin manifest {self.where}: configSchema is no JSON Schema: {line}") from None
        for misfit in validator.iter_errors(dict(config)):
            path = "".join(f".{part}" for part in misfit.instance_path)
            raise PluginError(
                f"plugins.{self.id}.config{path}: {misfit.message}; its manifest ({self.where}) says what fits"
            )


def _unsaid(tool: Tool, stated: Tool) -> Iterator[str]:
    """Yield what the tool's own code says and its manifest does not: a manifest may be stricter, never looser."""
    yield from (f"effect {effect!r}" for effect in sorted(tool.effects - stated.effects))
    yield from (f"requirement {need!r}" for need in tool.requires if need not in stated.requires)
    if tool.group not in (None, stated.group):
        yield f"group {tool.group!r}"
    if tool.owner_only and not stated.owner_only:
        yield "ownerOnly"
    if tool.optional and not stated.optional:
        yield "optional"


def read_manifest(path: Path) -> Manifest:
    """Return the manifest at `path`, or raise PluginError with the one thing to mend."""
    try:
        with path.open("rb") as file:
            raw = file.read(_MANIFEST_BYTES + 1)
    except OSError as error:
        raise PluginError(f"plugin manifest not found: {path} ({error.strerror})") from None
    if len(raw) > _MANIFEST_BYTES:
        raise PluginError(f"plugin manifest {path} is larger than 1 MiB")
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise PluginError(f"plugin manifest {path}:{error.lineno} is no JSON: {error.msg}") from None
    if not isinstance(value, dict):
        raise PluginError(f"plugin manifest {path} must be an object")
    return _manifest(value, path)


_FOR_PEOPLE = ("name", "description", "version")


def _manifest(value: Mapping[str, Any], path: Path) -> Manifest:
    if isinstance(value.get("id"), str):
        value = {**value, "id": value["id"].strip()}
    if path.name != MANIFEST:  # OpenClaw takes what is no text for left out
        value = {key: each for key, each in value.items() if key not in _FOR_PEOPLE or isinstance(each, str)}
    for needed, kind in (("id", str), ("configSchema", dict)):
        if not isinstance(value.get(needed), kind) or value[needed] == "":
            raise PluginError(f"plugin manifest {path} requires {needed}")
    try:
        manifest = Manifest.model_validate(value)
        for declared in manifest.tools or ():
            declared.tool()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise PluginError(f"plugin manifest {path}: {where}: {first['msg']}") from None
    except CribError as error:
        raise PluginError(f"plugin manifest {path}: {error}") from None
    return manifest


def find_plugins(folders: Iterable[Path]) -> tuple[dict[str, FoundPlugin], list[PluginError]]:
    """Return every plugin that is there, by id, and what was wrong with those that could not be read.

    A folder in `folders` is a plugin itself or holds plugins. Of two with one id the first counts.
    """
    found: dict[str, FoundPlugin] = {}
    broken: list[PluginError] = []
    points = importlib.metadata.entry_points(group=ENTRY_POINTS)
    for make in (
        *(partial(_from_folder, each) for folder in folders for each in _plugin_folders(folder)),
        *(partial(_from_entry_point, point) for point in points),
    ):
        try:
            plugin = make()
        except PluginError as error:
            broken.append(error)
            continue
        first = found.setdefault(plugin.id, plugin)
        if first is not plugin:
            broken.append(
                PluginError(f"there are two plugins {plugin.id!r}: {first.where} counts, {plugin.where} does not")
            )
    return found, broken


def pick(found: Mapping[str, FoundPlugin], wanted: Sequence[str]) -> list[FoundPlugin]:
    """Return the wanted plugins in order; raise PluginError for one that is not there."""
    for id in wanted:
        if id not in found:
            hint = suggest(id, found, "install it, or add its folder to plugins.folders")
            raise PluginError(f"plugins.{id}: no plugin of that name is here{hint}")
    return [found[id] for id in wanted]


def _plugin_folders(folder: Path) -> list[Path]:
    """Return the folder itself, or those in it that are plugins."""
    if _manifest_in(folder) or not folder.is_dir():
        return [folder]
    return sorted(path for path in folder.iterdir() if _manifest_in(path))


def _manifest_in(folder: Path) -> Path | None:
    return next((path for name in _MANIFESTS if (path := folder / name).exists()), None)


def _from_folder(folder: Path) -> FoundPlugin:
    if not folder.is_dir():
        raise PluginError(f"plugins.folders: {folder} is no folder")
    path = _manifest_in(folder) or folder / MANIFEST
    manifest = read_manifest(path)
    main = folder / manifest.main
    if not main.resolve().is_relative_to(folder.resolve()):
        raise PluginError(f"plugin {manifest.id!r}: main leads out of its folder ({manifest.main})")
    load = partial(_load_file, manifest.id, main, path)
    return FoundPlugin(id=manifest.id, where=str(path), manifest=manifest, importer=load, code=folder, is_folder=True)


def _load_file(id: str, main: Path, manifest: Path) -> Plugin:
    if manifest.name != MANIFEST and not main.is_file():
        raise PluginError(
            f"plugin {id!r} ({manifest}) is OpenClaw's, and toolcrib runs no JavaScript; turn it off, or put a "
            f"{main.name} of its own beside the manifest"
        )
    name = f"toolcrib_plugin_{id.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, main, submodule_search_locations=[str(main.parent)])
    if spec is None or spec.loader is None or not main.is_file():
        raise PluginError(f"plugin {id!r}: {main} is no Python file; `main` in its manifest names it")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module

    def run() -> Any:
        spec.loader.exec_module(module)  # type: ignore[union-attr]  # checked above
        return getattr(module, "plugin", None)

    try:
        return _plugin_from(id, run)
    except PluginError:
        del sys.modules[name]
        raise


def _from_entry_point(point: importlib.metadata.EntryPoint) -> FoundPlugin:
    files = (point.dist.files or ()) if point.dist else ()
    manifests = {path: read_manifest(path) for path in (Path(str(f.locate())) for f in files if f.name in _MANIFESTS)}
    path, manifest = next(((p, m) for p, m in manifests.items() if m.id == point.name), (None, None))
    for other, misnamed in manifests.items() if manifest is None else ():
        raise PluginError(f"plugin {point.name!r}: its manifest {other} calls it {misnamed.id!r}; give both one name")
    return FoundPlugin(
        id=point.name,
        where=str(path or point.value),
        manifest=manifest,
        importer=lambda: _plugin_from(point.name, point.load),
        code=_find_code(point.module),
    )


def _find_code(module: str) -> Path | None:
    """Return where the package of a module lies, None when that is unknown; nothing of it is imported."""
    with suppress(ImportError, ValueError):
        if spec := importlib.util.find_spec(module.partition(".")[0]):
            places = [*(spec.submodule_search_locations or ()), *([spec.origin or ""] if spec.has_location else ())]
            return Path(places[0]) if places else None
    return None


def _plugin_from(id: str, load: Callable[[], Any]) -> Plugin:
    """Run foreign module code; whatever it raises becomes one sentence."""
    try:
        plugin = load()
    except (Exception, SystemExit) as error:
        line = next(iter(str(error).splitlines()), "it did not say why")
        raise PluginError(f"plugin {id!r} raised {type(error).__name__} while it was loaded: {line}") from error
    if not isinstance(plugin, Plugin):
        raise PluginError(f"plugin {id!r} must have a `plugin = Plugin(...)`; what is there is {type(plugin).__name__}")
    return plugin
