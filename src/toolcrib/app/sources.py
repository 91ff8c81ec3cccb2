"""What plugins and files bring: the plugins that the configuration turns on, and the agents of all sources."""

import os
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import platformdirs

from toolcrib.backends.agent_files import AgentFile, agent_files, read_agent_file
from toolcrib.backends.plugins import FoundPlugin, find_plugins, pick
from toolcrib.backends.stores.accepted import AcceptedContents, hash_file, read_content
from toolcrib.config.complain import conceal
from toolcrib.config.load import Loaded
from toolcrib.config.parse import parse_yaml
from toolcrib.config.services import McpSettings
from toolcrib.config.settings import Config, PluginSettings
from toolcrib.define.display import escape_unprintable
from toolcrib.define.errors import DeclarationError, PluginError, ToolError
from toolcrib.define.names import suggest
from toolcrib.define.plugin import Plugin
from toolcrib.define.tool import PROGRAM, Tool, as_tool
from toolcrib.lazy import dataclass, replace
from toolcrib.registry.agents import AgentOffer, Agents, KnownNames, collect_agents
from toolcrib.registry.catalog import Catalog, Problem
from toolcrib.registry.sources import Offer, collect_catalog, rename_tools
from toolcrib.tools import AGENTS, CHANNEL_TOOLS, SHELF

from .server_code import is_bare_python, list_code_around, list_server_code, place_server
from .skills import Skill, find_skills, offer_skills
from .stores import user_folder
from .terms import explain_refusal
from .turns import find_tools

IN_WORKSPACE, SKILLS_IN_WORKSPACE = Path(".toolcrib", "agents"), Path(".toolcrib", "skills")
_SHIPPED = "ec7e3e807ec9424eb59e5eb8e72253f3f116226a3839887003df84fe189c7dc6"  # examples/shop


def list_enabled_plugins(config: Config) -> tuple[str, ...]:
    """Return the plugins the configuration turns on by name; `enabled: false` wins over the short list."""
    allowed = config.plugins.get("allow", ())
    named = {name: entry for name, entry in config.plugins.items() if isinstance(entry, PluginSettings)}
    wanted = [
        *(allowed if isinstance(allowed, tuple) else ()),
        *(name for name, entry in named.items() if entry.enabled),
    ]
    return tuple(dict.fromkeys(name for name in wanted if name not in named or named[name].enabled is not False))


def plugin_offers(
    loaded: Loaded, folders: "AgentFolders", *, import_plugins: bool
) -> tuple[list[Offer], list[Problem]]:
    """Return what the enabled plugins bring; one that cannot be loaded is an error where it is turned on."""
    wanted = list_enabled_plugins(loaded.config)
    if not wanted and not _plugin_folders(loaded):
        return [], []
    found, broken = search_plugins(loaded, folders)
    offers: list[Offer] = []
    problems = [Problem("plugins", str(error)) for error in broken]
    for id in wanted:
        try:
            plugin = _accept_plugin(_pick_plugin(id, found, broken), folders)
            offers.append(_plugin_offer(plugin, loaded.config, import_plugins=import_plugins))
        except PluginError as error:
            located = _locate_error(error, id, loaded)
            if not loaded.foreign:
                raise located from error
            # plugins of OpenClaw are not for us: without them the caller has less, never more
            problems.append(Problem("plugins", str(located)))
    return offers, problems


def search_plugins(loaded: Loaded, folders: "AgentFolders") -> tuple[dict[str, FoundPlugin], list[PluginError]]:
    """Return every plugin that is there, the user's own first, and what was wrong with the others."""
    return find_plugins((*folders.list_own("plugins"), *_plugin_folders(loaded)))


def _accept_plugin(plugin: FoundPlugin, folders: "AgentFolders") -> FoundPlugin:
    """Return a plugin as it was accepted, if it lies in a workspace.

    One that nobody accepted is an error: without it its guards would be missing, and the caller would have more.
    """
    try:
        digest = folders.check(plugin.code) if plugin.code else ""
    except ToolError as unaccepted:
        raise PluginError(f"the plugin {plugin.id!r} lies in a workspace: {unaccepted}") from unaccepted
    return plugin.load_from(folders.accepted.find_copy(digest)) if digest and plugin.is_folder else plugin


def offers_from_program(tools: Sequence[Tool | Callable[..., Any]], plugins: Sequence[Plugin | Offer]) -> list[Offer]:
    """Return what a program brings itself: nobody has to name it in the configuration, for the program did."""
    brought = [each if isinstance(each, Offer) else _offer_of(each, f"plugin:{each.name}", {}) for each in plugins]
    return [*brought, Offer(source=PROGRAM, tools=tuple(map(as_tool, tools)))] if tools else brought


def _pick_plugin(id: str, found: Mapping[str, FoundPlugin], broken: Sequence[PluginError]) -> FoundPlugin:
    try:
        return pick(found, [id])[0]
    except PluginError as missing:
        # a plugin that could not be read has no id, but its folder mostly has its name
        for error in broken:
            if repr(id) in str(error) or f"/{id}/" in str(error):
                raise error from None
        if not broken:
            raise
        raise PluginError(f"{missing} (besides, {broken[0]})") from None


def _locate_error(error: PluginError, id: str, loaded: Loaded) -> PluginError:
    """Return the error with the place in the file it is about, what to do, and nothing that is a secret."""
    sentence = escape_unprintable(conceal(str(error), loaded.document))
    path, _, rest = sentence.partition(": ")
    if path.startswith(f"plugins.{id}."):
        place, sentence = loaded.place("plugins", id, *path.removeprefix(f"plugins.{id}.").split(".")), rest
    else:
        allowed = loaded.config.plugins.get("allow", ())
        at = allowed.index(id) if isinstance(allowed, tuple) and id in allowed else None
        place = loaded.place("plugins", id) if at is None else loaded.place("plugins", "allow", at)
        sentence = sentence.removeprefix(f"plugins.{id}: ")
    remedy = "" if "; " in sentence else "; mend it, or turn it off"
    return PluginError(f"{place}: {sentence}{remedy}" if str(place) else f"{sentence}{remedy}")


def _plugin_offer(plugin: FoundPlugin, config: Config, *, import_plugins: bool) -> Offer:
    entry = config.plugins.get(plugin.id)
    own = entry.config if isinstance(entry, PluginSettings) else {}
    plugin.check_config(own)
    source = f"plugin:{plugin.id}"
    if not import_plugins and not plugin.per_caller:
        offer = Offer(source=source, tools=plugin.declare_tools(), config=own)
    else:
        offer = replace(_offer_of(plugin.load(), source, own), per_caller=plugin.per_caller)
    if not isinstance(entry, PluginSettings) or not (entry.rename or entry.prefix):
        return offer
    known = {each.name: each for each in (*offer.tools, *offer.per_caller) if isinstance(each, Tool)}
    for name in entry.rename:
        if name not in known and len(known) == len(offer.tools):  # what factories make is known later
            raise PluginError(f"plugins.{plugin.id}.rename.{name}: it has no tool {name!r}{suggest(name, known)}")
    try:
        return rename_tools(offer, entry.rename, entry.prefix or "")
    except DeclarationError as error:
        raise PluginError(f"plugins.{plugin.id}.{'prefix' if entry.prefix else 'rename'}: {error}") from None


def _offer_of(plugin: Plugin, source: str, config: Mapping[str, Any]) -> Offer:
    return Offer(
        source=source,
        tools=plugin.tools,
        config=config,
        before=plugin.before,
        after=plugin.after,
        hooks=plugin.hooks,
        agents=plugin.agents,
        channels=plugin.channels,
    )


def _plugin_folders(loaded: Loaded) -> list[Path]:
    folders = loaded.config.plugins.get("folders", ())
    return _name_folders(loaded, folders) if isinstance(folders, tuple) else []


def _name_folders(loaded: Loaded, folders: Iterable[str]) -> list[Path]:
    """Return folders that a configuration names, as it means them: from where it stands."""
    base = loaded.document.files[0].parent if loaded.document.files else Path()
    return [base / os.path.expanduser(folder) for folder in folders]  # noqa: PTH111  Path's own raises for a user who is not there


def list_loaded_code(loaded: Loaded) -> tuple[Path, ...]:
    """Return what runs on the host as part of us: plugins, scripts of MCP servers, our own package and environment."""
    found, wanted = _list_own_code(), list_enabled_plugins(loaded.config)
    for folder in _plugin_folders(loaded):
        found += (folder, *(manifest.parent for manifest in folder.glob("*/*.plugin.json")))
    installed = find_plugins(())[0] if wanted else {}
    found += [each.code for id, each in installed.items() if id in wanted and each.code]
    return tuple(chain(found, *map(list_server_code, loaded.config.mcp_servers.values())))


def _list_own_code() -> list[Path]:
    return [
        Path(__file__).resolve().parents[1],
        *([Path(sys.prefix).resolve()] if sys.prefix != sys.base_prefix else []),
    ]


def _bound_shelf(config: Config) -> tuple[Tool, ...]:
    """Return the shelf with what the configuration says about how much a page may fill."""
    most = config.web.fetch.max_chars
    return tuple(replace(each, limit=most) if most and each.name == "web_fetch" else each for each in SHELF)


def collect_tools(
    loaded: Loaded, brought: Iterable[Offer], folders: "AgentFolders", *, import_plugins: bool
) -> tuple[list[Offer], Catalog, Agents]:
    """Return what plugins and the program offer, the catalog of all tools, and the agents that can work with them."""
    found, problems = plugin_offers(loaded, folders, import_plugins=import_plugins)
    offers = [*found, *brought]
    skills, unused = folders.find_skills(loaded)
    problems += unused
    if skills:
        offers.append(offer_skills(skills))
    offers.append(Offer(source="core", tools=(find_tools,)))
    channels = [Offer(source=f"channel:{name}", tools=tools) for name, tools in CHANNEL_TOOLS.items()]
    catalog = collect_catalog([Offer(source="core", tools=_bound_shelf(loaded.config)), *offers, *channels], problems)
    for problem in catalog.problems:
        if problem.source == PROGRAM:  # a program hears of it at once; there is nobody to read a report
            raise DeclarationError(problem.sentence.removesuffix("; it was left out"))
    agents = agents_for(loaded, catalog, offers, folders, imported=import_plugins)
    # what a factory raised may quote the configuration it was given
    shown = tuple(replace(each, sentence=conceal(each.sentence, loaded.document)) for each in catalog.problems)
    return offers, Catalog(catalog.tools, (*shown, *agents.problems)), agents


# agents


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFolders:
    """Where files of agents are looked for: `own` holds the user's, None for none; a workspace's need a yes each.

    Every agent of the configuration may have a workspace of its own. What any of them brings, once accepted, is there
    for all: whom it serves is a matter of policy, as with any other tool.
    """

    own: Path | None
    workspaces: tuple[Path, ...]
    guarded: tuple[Path, ...]  # those workspaces that tools can work in, each by its one name
    accepted: AcceptedContents
    path: str = ""  # where programs are looked for

    def check(self, code: Path) -> str:
        """Return the hash by which code in a workspace was accepted, "" for any other; ToolError when it was not."""
        place = _resolve_folder(code)
        if not self._is_guarded(code) or (digest := read_content(place)[0]) == _SHIPPED:
            return ""
        if why := self.accepted.explain(place, digest):
            raise ToolError(why, code="denied")
        return digest

    def _is_guarded(self, code: Path) -> bool:
        """Tell whether code lies in a workspace, where a tool may have put it."""
        place = _resolve_folder(code)
        places = (place, _place_link(code))  # a link in a workspace may lead elsewhere tomorrow
        is_inside = any(each.is_relative_to(folder) for each in places for folder in self.guarded)
        return is_inside and not any(map(place.is_relative_to, _list_own_code()))

    def list_own(self, kind: str) -> tuple[Path, ...]:
        """Return the user's folder of skills or plugins, if there is one."""
        return (folder,) if self.own is not None and (folder := self.own.parent / kind).is_dir() else ()

    def find_skills(self, loaded: Loaded) -> tuple[dict[str, Skill], list[Problem]]:
        """Return the skills of the user, of the configuration and of workspaces, and what was left out of them."""
        places = [(folder, "user") for folder in self.list_own("skills")]
        places += [(folder, "config") for folder in _name_folders(loaded, loaded.config.skills.folders)]
        places += [(folder / SKILLS_IN_WORKSPACE, "workspace") for folder in self.workspaces]
        return find_skills(places, map(_resolve_folder, self.workspaces), self.accepted)

    def make_hidden(self) -> tuple[Path, ...]:
        """Make those of our folders that would lie in a workspace: what is not there cannot be hidden from commands."""
        kept = (self.accepted.folder.parent, self.accepted.folder, *((self.own.parent,) if self.own else ()))
        for place in map(_resolve_folder, kept):
            if any(map(place.is_relative_to, self.guarded)):
                with suppress(OSError):  # then no command can make it either
                    place.mkdir(mode=0o700, parents=True, exist_ok=True)
        return kept

    def explain_program(self, path: str, data: bytes) -> str:
        """Say why a program of a workspace with these contents does not run unasked; "" when it was accepted."""
        return self.accepted.explain(Path(path), hash_file(data), so="it does not run unasked")

    def admit_server(self, server: McpSettings) -> McpSettings:
        """Return a server as it may be started; ToolError when nobody has accepted its code in a workspace."""
        if server.command is None:
            return server
        server = place_server(self._bound_path(server), self._make_start_folder())
        named = sorted(set(map(_place_link, list_server_code(server))))
        code = {*named, *list_code_around(server, named, self.guarded)}
        outermost = [path for path in code if not code & {*path.parents}]
        if not {self.check(path) for path in outermost} - {""}:
            return server
        # Python takes what it compiled before from there, and not from beside a source, where anybody may have put it
        private = {"PYTHONPYCACHEPREFIX": str(self.accepted.folder.parent / "bytecode")}
        if any(is_bare_python(server, path) for path in outermost):
            private["PYTHONSAFEPATH"] = "1"
        return server.model_copy(update={"env": {**server.env, **private}})

    def find_program(self, name: str) -> str | None:
        """Return where a program of ours lies, None where it is not there; ToolError where that is a workspace."""
        path = self._join_path(outside=True) or os.defpath
        found = shutil.which(os.path.expanduser(name), path=path)  # noqa: PTH111  Path's own raises
        if found and self._is_guarded(Path(found)):
            raise ToolError(f"{found} lies in a workspace, where tools write; name one outside", code="denied")
        return found

    def _join_path(self, *, outside: bool) -> str:
        """Return the folders of PATH that have a whole name, without those of a workspace where `outside`."""
        folders = [each for each in self.path.split(os.pathsep) if os.path.isabs(each)]  # noqa: PTH117
        return os.pathsep.join(each for each in folders if not (outside and self._is_guarded(Path(each))))

    def _bound_path(self, server: McpSettings) -> McpSettings:
        """Return a server for which programs are not looked for in a workspace, unless its own `env` says so."""
        kept = self._join_path(outside=True)
        if "PATH" in server.env or kept == self.path:
            return server
        command = shutil.which(server.command or "", path=self._join_path(outside=False)) or server.command
        return server.model_copy(update={"command": command, "env": {**server.env, "PATH": kept}})

    def _make_start_folder(self) -> Path:
        """Make the empty folder that servers start in; what would lie in a workspace is not used."""
        folder = self.accepted.folder.parent / "servers"
        if any(map(_resolve_folder(folder).is_relative_to, self.guarded)):
            return Path("/")
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder


def folders_for(loaded: Loaded, env: Mapping[str, str], state: Path | None, *, own: bool) -> AgentFolders:
    """Return the folders of a crib; with `own` the user's are among them."""
    roots = [loaded.config.workspace.root or "", *(each.workspace for _, each in loaded.config.list_agents())]
    named = roots[1:] if not roots[0] and explain_refusal() else roots
    workspaces: dict[Path, Path] = {}
    for root in roots:
        if root is not None:
            folder = Path(os.path.expanduser(root))  # noqa: PTH111  Path's own raises for a user who is not there
            workspaces.setdefault(_resolve_folder(folder), folder)
    return AgentFolders(
        own=own_folder("agents") if own else None,
        workspaces=tuple(workspaces.values()),
        guarded=tuple(_resolve_folder(Path(os.path.expanduser(root))) for root in named if root is not None),  # noqa: PTH111
        accepted=open_accepted(env, state),
        path=env.get("PATH", ""),
    )


def own_folder(kind: str) -> Path:
    """Return where the user's own agents, skills or plugins lie."""
    return Path(platformdirs.user_config_dir("toolcrib", appauthor=False)) / kind


def open_accepted(env: Mapping[str, str], state: Path | None) -> AcceptedContents:
    """Return what the owner accepted: it stands in the state folder, which is the user's when none is named."""
    return AcceptedContents((state or user_folder(env)) / "agents")


def agents_for(
    loaded: Loaded, catalog: Catalog, offers: Iterable[Offer], folders: AgentFolders, *, imported: bool = True
) -> Agents:
    """Return the agents that exist; one that cannot be used is a problem with its file and line, and the others stay.

    Where plugins were not `imported`, nobody knows what agents they would bring, and a name that is missing may be one.
    """
    problems: list[Problem] = []
    found = [AgentOffer(agent=agent, source="core") for agent in AGENTS]
    found += [AgentOffer(agent=agent, source=offer.source) for offer in offers for agent in offer.agents]
    if folders.own is not None:
        # tools could write there: what lies in a workspace is nobody's configuration
        own = _resolve_folder(folders.own)
        is_inside = any(own.is_relative_to(_resolve_folder(each)) for each in folders.workspaces)
        found += _from_files(folders.own, folders.accepted if is_inside else None, "user", problems)
    for workspace in folders.workspaces:
        found += _from_files(workspace / IN_WORKSPACE, folders.accepted, "workspace", problems)
    known = KnownNames(
        catalog, servers=tuple(loaded.config.mcp_servers), is_whole=imported or not list_enabled_plugins(loaded.config)
    )
    agents = collect_agents(found, known, problems)
    # the name of a file is whatever somebody gave it
    escaped = tuple(replace(problem, sentence=escape_unprintable(problem.sentence)) for problem in agents.problems)
    return replace(agents, problems=escaped)


def file_at(path: Path) -> AgentFile:
    """Read one file of an agent, accepted or not."""
    return read_agent_file(path, parse_yaml)


def _from_files(
    folder: Path, accepted: AcceptedContents | None, source: str, problems: list[Problem]
) -> Iterable[AgentOffer]:
    """Yield the agents in a folder; with `accepted`, those alone whose content was."""
    for file in agent_files(folder, parse_yaml):
        if accepted is not None and file.digest and (why := accepted.explain(file.path, file.digest, "agents accept")):
            problems.append(Problem("agents", why))
            continue
        problems += [Problem("agents", f"{each} (the agent was left out)") for each in file.complaints]
        if file.agent is not None:
            yield AgentOffer(agent=file.agent, source=source, file=str(file.path), lines=file.lines)


def _place_link(path: Path) -> Path:
    """Return one name for what lies there, be it a link."""
    return _resolve_folder(path.parent) / path.name


def _resolve_folder(folder: Path) -> Path:
    """Return one name for a folder that may be written in several ways."""
    try:
        return folder.resolve()
    except FileNotFoundError:  # the current folder is gone, and nothing can lie in it
        return folder
