"""An existing OpenClaw file, its keys and their meaning translated into ours.

`agents.list` and `agents.defaults`, rooms and guilds, plugin entries and provider lists move to where toolcrib keeps
them. An empty allow list means no limit there, and a plugin-only list adds: both are kept. A key that narrows is
never dropped silently; what toolcrib has no use for is left out and reported; what neither takes is left in, for the
check to complain about.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, get_args

from toolcrib.define.errors import ConfigError, ConfigLocation
from toolcrib.define.names import fold_name
from toolcrib.lazy import dataclass, field
from toolcrib.policy.match import complaint_about

from .positions import KeyPath, format_path, place
from .read import Document
from .services import SearchProviderName
from .values import is_address


@dataclass(frozen=True, slots=True)
class Translated:
    """A configuration in toolcrib's layout; `moved` maps its key paths to those of the file where they differ.

    `ignored` are keys nothing here reads; `eclipsed` are keys that another spelling of the same thing stands before,
    each with that other one. Both are paths of the file.
    """

    document: Document = field(repr=False)
    value: Mapping[str, Any] = field(repr=False)
    moved: Mapping[KeyPath, KeyPath] = field(default_factory=dict)
    ignored: tuple[KeyPath, ...] = ()
    eclipsed: tuple[tuple[KeyPath, KeyPath], ...] = ()

    def key(self, path: KeyPath) -> KeyPath:
        """Return the key path in the file of the thing at `path`."""
        for end in range(len(path), 0, -1):
            theirs = self.moved.get(path[:end])
            if theirs is not None:
                return (*theirs, *path[end:])
        return path

    def origin(self, path: KeyPath) -> str:
        """Return where the thing at `path` stands in the file, as people write it."""
        return format_path(self.key(path))

    def place(self, path: KeyPath) -> ConfigLocation:
        """Return file, line and key path of the thing at `path`."""
        return locate(self.document, self.key(path))


def locate(document: Document, path: KeyPath) -> ConfigLocation:
    """Return where the thing at `path` of the file stands: its own line, or that of the nearest key around it."""
    near = next((path[:end] for end in range(len(path), -1, -1) if path[:end] in document.places), None)
    at = ConfigLocation() if near is None else document.places[near]
    return place(at.file, at.line, path)


class Notes:
    """Collects what moved and what was left out while a file is translated."""

    def __init__(self, document: Document) -> None:
        self.moved: dict[KeyPath, KeyPath] = {}
        self.ignored: list[KeyPath] = []
        self.eclipsed: list[tuple[KeyPath, KeyPath]] = []
        self._document = document

    def refusal(self, path: KeyPath, sentence: str) -> ConfigError:
        """Return the error that the thing at `path` of the file is."""
        return ConfigError(sentence, locate(self._document, path))

    def mapping(self, value: Any, path: KeyPath) -> Mapping[str, Any]:
        """Return a section, an empty one for none."""
        if not isinstance(value, Mapping | None):
            raise self.refusal(path, "should be a mapping")
        return value or {}

    def names(self, value: Any, path: KeyPath) -> list[str]:
        """Return a list of names, nothing for none."""
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise self.refusal(path, "should be a list of names")
        return value


_LISTS = ("allow", "alsoAllow", "deny", "ask")


def set_keys(section: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys that are set: null is the same as absent there."""
    return {key: value for key, value in section.items() if value is not None}


def lists(rule: Any, path: KeyPath, notes: Notes) -> Any:
    """Return a scope without an empty allow list, which limits nothing there.

    Entries that can match no tool are left out and reported; a list that loses all of them still permits nothing.
    """
    if not isinstance(rule, Mapping):
        return rule
    kept = set_keys(rule)
    for key in _LISTS:
        entries = kept.get(key)
        if key == "allow" and entries == []:
            del kept[key]
        elif isinstance(entries, list) and all(isinstance(entry, str) for entry in entries):
            notes.ignored += [(*path, key, index) for index, entry in enumerate(entries) if complaint_about(entry)]
            kept[key] = [entry for entry in entries if not complaint_about(entry)]
    return kept


_SPACES, _ROOMS = ("guilds", "teams"), ("channels", "rooms")
_USED = ("requireMention", "tools", "toolsBySender")


def channel(entry: Any, path: KeyPath, notes: Notes) -> Any:
    """Return a channel with all its groups in one place."""
    if not isinstance(entry, Mapping):
        return entry
    ours = _with_groups(set_keys(entry), path, notes)
    accounts = ours.get("accounts")
    if isinstance(accounts, Mapping):
        ours["accounts"] = {id: _account(own, (*path, "accounts", id), notes) for id, own in set_keys(accounts).items()}
    if isinstance(ours.get("allowFrom"), list):
        ours["allowFrom"] = [str(sender) if type(sender) is int else sender for sender in ours["allowFrom"]]
    return ours


def _account(account: Any, path: KeyPath, notes: Notes) -> Any:
    if not isinstance(account, Mapping):
        return account
    section = _with_groups(set_keys(account), path, notes)
    notes.ignored += [(*path, key) for key in section if key != "groups"]
    return {key: section[key] for key in ("groups",) if key in section}


def _with_groups(section: dict[str, Any], path: KeyPath, notes: Notes) -> dict[str, Any]:
    """Return the channel or account with guilds, teams and rooms among its groups."""
    groups = section.pop("groups", {})
    if not isinstance(groups, Mapping):
        return {**section, "groups": groups}
    gathered = {id: _group(group, (*path, "groups", id), notes) for id, group in set_keys(groups).items()}
    places = {fold_name(id): (*path, "groups", id) for id in gathered}
    for id, theirs, group in _rooms(section, path, notes):
        first = places.setdefault(fold_name(id), theirs)
        if first != theirs:
            raise notes.refusal(theirs, f"is the same group as {first[-1]!r}; merge the two")
        gathered[id] = _group(group, theirs, notes)
        notes.moved[*path, "groups", id] = theirs
    rest = {key: value for key, value in section.items() if key not in (*_SPACES, *_ROOMS)}
    return {**rest, "groups": gathered} if gathered else rest


_Found = Iterator[tuple[str, KeyPath, Any]]


def _rooms(section: Mapping[str, Any], path: KeyPath, notes: Notes) -> _Found:
    """Yield every group that does not stand under `groups`: its id here, its place there, what is written."""
    for key in (*_SPACES, *_ROOMS):
        for id, entry in set_keys(notes.mapping(section.get(key), (*path, key))).items():
            if key in _ROOMS:
                yield id.removeprefix("#") or id, (*path, key, id), entry
            else:
                yield from _space(id, entry, (*path, key, id), notes)


def _space(id: str, entry: Any, path: KeyPath, notes: Notes) -> _Found:
    written = entry if isinstance(entry, Mapping) else {}
    rooms, slug = notes.mapping(written.get("channels"), (*path, "channels")), written.get("slug")
    for name in dict.fromkeys([id, slug] if isinstance(slug, str) and slug.strip() else [id]):
        for room, own in set_keys(rooms).items():
            yield f"{name}/{room.removeprefix('#')}", (*path, "channels", room), own
        yield f"{name}/*", path, entry


def _group(group: Any, path: KeyPath, notes: Notes) -> Any:
    if not isinstance(group, Mapping):
        return group
    kept = {key: value for key, value in set_keys(group).items() if key in _USED}
    inner = ("channels", "slug") if path[-2] in _SPACES else ()
    notes.ignored += [(*path, key) for key in set_keys(group) if key not in (*_USED, *inner)]
    if "tools" in kept:
        kept["tools"] = lists(kept["tools"], (*path, "tools"), notes)
    if isinstance(kept.get("toolsBySender"), Mapping):
        kept["toolsBySender"] = _senders(kept["toolsBySender"], (*path, "toolsBySender"), notes)
    return kept


def _senders(rules: Mapping[str, Any], path: KeyPath, notes: Notes) -> dict[str, Any]:
    """Return the rules by sender; of two spellings of one sender the first counts there, and a blank one is nobody."""
    senders: dict[str, Any] = {}
    first: dict[str, str] = {}
    for key, rule in set_keys(rules).items():
        folded = key.strip().removeprefix("@").lower()
        counts = first.setdefault(folded, key)
        if not folded:
            notes.ignored.append((*path, key))
        elif counts != key:
            notes.eclipsed.append(((*path, key), (*path, counts)))
        else:
            # of one channel; here it is spelled otherwise
            senders[re.sub(r"(?i)^\s*channel:([^:]+):(?=.)", r"\1:id:", key)] = lists(rule, (*path, key), notes)
    return senders


def from_openclaw(document: Document) -> Translated:
    """Return an OpenClaw file in toolcrib's layout."""
    notes = Notes(document)
    config = set_keys(document.value)
    config["tools"] = _tools(config.get("tools", {}), ("tools",), notes)
    if isinstance(config["tools"], dict):
        config["tools"]["pluginOnlyAllow"] = "additive"
        if isinstance(by_sender := config["tools"].get("toolsBySender"), Mapping):
            config["tools"]["toolsBySender"] = _senders(by_sender, ("tools", "toolsBySender"), notes)
        _web(config, notes)
    if isinstance(config.get("models"), Mapping):
        config["models"] = _models(config["models"], notes)
    if isinstance(config.get("agents"), Mapping):
        _agents(config, config.pop("agents"), notes)
    _servers(config, notes.mapping(config.pop("mcp", None), ("mcp",)), notes)
    if isinstance(config.get("channels"), Mapping):
        config["channels"] = _channels(config["channels"], notes)
    if isinstance(config.get("plugins"), Mapping):
        if not _has_memory(config["plugins"], notes):
            config["memory"] = {**notes.mapping(config.get("memory"), ("memory",)), "enabled": False}
        config["plugins"] = _plugins(config["plugins"], notes)
    _leave_out(config, notes)
    return Translated(document, config, notes.moved, tuple(notes.ignored), tuple(notes.eclipsed))


# Tools


def _tools(tools: Any, path: KeyPath, notes: Notes) -> Any:
    if not isinstance(tools, Mapping):
        return tools
    kept: dict[str, Any] = lists(tools, path, notes)
    if isinstance(kept.get("byProvider"), Mapping):
        kept["byProvider"] = _providers(kept["byProvider"], (*path, "byProvider"), notes)
    for name in ("sandbox", "subagents"):
        if isinstance(kept.get(name), Mapping):
            section = kept[name] = set_keys(kept[name])
            if "tools" in section:
                inner = section["tools"]
                section["tools"] = lists(inner, (*path, name, "tools"), notes)
                if name == "sandbox" and isinstance(inner, Mapping) and inner.get("allow") == []:
                    section["tools"]["allow"] = ["*"]  # the built-in list would narrow what is documented as no limit
    if isinstance(kept.get("exec"), Mapping):
        kept["exec"] = _exec(kept["exec"], (*path, "exec"), notes)
    return kept


def _providers(providers: Mapping[str, Any], path: KeyPath, notes: Notes) -> dict[str, Any]:
    """Return the entries; of two spellings of one provider the last counts there."""
    last = {key.strip().lower(): key for key in providers}
    for key in providers:
        counts = last[key.strip().lower()]
        if counts != key:
            notes.eclipsed.append(((*path, key), (*path, counts)))
    return {key: lists(providers[key], (*path, key), notes) for key in last.values() if providers[key] is not None}


def _exec(section: Mapping[str, Any], path: KeyPath, notes: Notes) -> dict[str, Any]:
    """Return how commands run; the machine of the gateway is `host` here, and there are no nodes."""
    kept = set_keys(section)
    if kept.get("host") == "gateway":
        kept["host"] = "host"
    elif kept.get("host") == "node":
        del kept["host"]
        notes.ignored.append((*path, "host"))
    return kept


def _web(config: dict[str, Any], notes: Notes) -> None:
    """Move `tools.web` to `web`, which is something else there."""
    if config.pop("web", None) is not None:
        notes.ignored.append(("web",))
    if "web" in config["tools"]:
        config["web"] = web = config["tools"].pop("web")
        notes.moved["web",] = ("tools", "web")
        search = web.get("search") if isinstance(web, Mapping) else {}
        provider = search.get("provider") if isinstance(search, Mapping) else None
        if isinstance(search, Mapping) and isinstance(provider, str) and provider not in get_args(SearchProviderName):
            notes.ignored.append(("tools", "web", "search", "provider"))
            config["web"] = {**web, "search": {key: each for key, each in search.items() if key != "provider"}}


# Agents


def _agents(config: dict[str, Any], agents: Mapping[str, Any], notes: Notes) -> None:
    """Move `agents.list` to `agents`, and what `agents.defaults` says to the sections it is about."""
    path = ("agents", "defaults")
    defaults = notes.mapping(agents.get("defaults"), path)
    search = (*path, _MEMORY)
    remembers = _memory(defaults.get(_MEMORY), search, ("memory",), notes)
    if remembers:
        config["memory"] = {**notes.mapping(config.get("memory"), ("memory",)), **remembers}
    listed, origin = agents.get("list"), ("agents", "list")
    if listed is None and (entries := notes.mapping(agents.get("entries"), ("agents", "entries"))):
        # newer files name their agents by key
        config["agents"] = {
            id: _agent(agent, ("agents", "entries", id), remembers.get("extraPaths", []), notes)
            for id, agent in set_keys(entries).items()
        }
        origin = ("agents", "entries")
    elif isinstance(listed, list):
        shared = remembers.get("extraPaths", [])
        place = ("agents", "list")
        config["agents"] = [_agent(agent, (*place, index), shared, notes) for index, agent in enumerate(listed)]
    elif listed is not None:
        raise notes.refusal(("agents", "list"), "should be a list")
    notes.moved["agents",] = origin
    notes.ignored += [("agents", key) for key in agents if key not in (origin[1], "defaults")]
    used = {"sandbox", "subagents", _MEMORY}
    for theirs, ours in (("model", "default"), ("imageModel", "image")):
        used |= {theirs} if _model(config, ours, defaults.get(theirs), (*path, theirs), notes) else set()
    _sandbox(config, defaults.get("sandbox"), (*path, "sandbox"), notes)
    _subagents(config, defaults.get("subagents"), (*path, "subagents"), notes)
    notes.ignored += [(*path, key) for key in defaults if key not in used]


def _agent(agent: Any, path: KeyPath, shared: list[str], notes: Notes) -> Any:
    """Return an agent; `shared` are the places that all of them remember from, besides its own."""
    if not isinstance(agent, Mapping):
        return agent
    kept, ours = set_keys(agent), ("agents", path[-1])
    if _MEMORY in kept:
        kept["memory"] = own = _memory(kept.pop(_MEMORY), (*path, _MEMORY), (*ours, "memory"), notes)
        if isinstance(own.get("extraPaths"), list):
            own["extraPaths"] = list(dict.fromkeys((*shared, *own["extraPaths"])))
    if "tools" in kept:
        kept["tools"] = _tools(kept["tools"], (*path, "tools"), notes)
    if isinstance(kept.get("sandbox"), Mapping):
        sandbox = set_keys(kept.pop("sandbox"))
        notes.ignored += [(*path, "sandbox", key) for key in sandbox if key != "mode"]
        if "mode" in sandbox:
            kept["sandbox"] = sandbox["mode"]
            notes.moved[*ours, "sandbox"] = (*path, "sandbox", "mode")
    if kept.pop("heartbeat", None) is not None:  # it has more to it there, and would begin by itself
        notes.ignored.append((*path, "heartbeat"))
    for key in ("model", "imageModel"):
        if isinstance(kept.get(key), Mapping):
            model = set_keys(kept.pop(key))
            if "primary" in model:
                kept[key] = model["primary"]
                notes.moved[*ours, key] = (*path, key, "primary")
    return kept


_MEMORY = "memorySearch"


def _memory(section: Any, path: KeyPath, ours: KeyPath, notes: Notes) -> dict[str, Any]:
    """Return how memory is searched: whether, who makes the vectors, in which other places, and whether in sessions."""
    theirs = set_keys(notes.mapping(section, path))
    memory: dict[str, Any] = {key: theirs[key] for key in ("enabled", "provider", "extraPaths") if key in theirs}
    if memory.get("provider") == "auto":
        del memory["provider"]
    elif isinstance(model := theirs.get("model"), str) and memory.get("provider") in ("openai", "gemini"):
        memory["provider"] = f"{memory['provider']}:{model}"
    if isinstance(extra := memory.get("extraPaths"), list) and all(isinstance(each, str) for each in extra):
        memory["extraPaths"] = list(dict.fromkeys(each.strip() for each in extra if each.strip()))
    trial = notes.mapping(theirs.get("experimental"), (*path, "experimental"))
    if trial.get("sessionMemory") is True and "sessions" in notes.names(theirs.get("sources"), (*path, "sources")):
        memory["sources"] = ["files", "sessions"]
    notes.moved |= {(*ours, key): (*path, key) for key in memory}
    used = {"enabled", "provider", "model", "extraPaths", "experimental", "sources"}
    notes.ignored += [(*path, key) for key in theirs if key not in used]
    return memory


def _model(config: dict[str, Any], ours: str, model: Any, path: KeyPath, notes: Notes) -> bool:
    """Take the model of agents that name none; it is `models.default` here, or `models.image`."""
    if isinstance(model, Mapping):
        model, path = model.get("primary"), (*path, "primary")
    if not isinstance(model, str) or not isinstance(config.get("models", {}), Mapping):
        return False
    config["models"] = {**config.get("models", {}), ours: model}
    notes.moved["models", ours] = path
    return True


def _sandbox(config: dict[str, Any], defaults: Any, path: KeyPath, notes: Notes) -> None:
    sandbox = notes.mapping(defaults, path)
    kept = {key: sandbox[key] for key in ("mode", "workspaceAccess") if sandbox.get(key) is not None}
    if kept:
        config["sandbox"] = {**config.get("sandbox", {}), **kept}
        notes.moved |= {("sandbox", key): (*path, key) for key in kept}
    notes.ignored += [(*path, key) for key in sandbox if key not in kept]


def _subagents(config: dict[str, Any], defaults: Any, path: KeyPath, notes: Notes) -> None:
    subagents = notes.mapping(defaults, path)
    names = {"maxConcurrent": "maxConcurrent", "maxSpawnDepth": "maxDepth"}
    kept = {ours: subagents[theirs] for theirs, ours in names.items() if subagents.get(theirs) is not None}
    section = config["tools"].get("subagents", {}) if isinstance(config["tools"], dict) else None
    if kept and isinstance(section, Mapping):
        config["tools"]["subagents"] = {**section, **kept}
        notes.moved |= {("tools", "subagents", ours): (*path, theirs) for theirs, ours in names.items() if ours in kept}
    notes.ignored += [(*path, key) for key in subagents if key not in names]


# Channels, models, plugins


def _channels(channels: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    entries = set_keys(channels)
    if entries.pop("defaults", None) is not None:
        notes.ignored.append(("channels", "defaults"))
    return {name: channel(entry, ("channels", name), notes) for name, entry in entries.items()}


def _models(models: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    """Return the providers; they stand one level deeper there."""
    providers = notes.mapping(models.get("providers"), ("models", "providers"))
    entries = {name: set_keys(entry) if isinstance(entry, Mapping) else entry for name, entry in providers.items()}
    notes.moved |= {("models", name): ("models", "providers", name) for name in entries}
    notes.ignored += [("models", key) for key in models if key != "providers"]
    return entries


def _servers(config: dict[str, Any], mcp: Mapping[str, Any], notes: Notes) -> None:
    """Move `mcp.servers` to `mcpServers`, without those that are switched off."""
    path = ("mcp", "servers")
    servers = {
        name: notes.mapping(each, (*path, name)) for name, each in notes.mapping(mcp.get("servers"), path).items()
    }
    used = {name: each for name, each in servers.items() if each.get("enabled") is not False}
    if used:
        config["mcpServers"] = {
            name: {key: value for key, value in set_keys(each).items() if key != "enabled"}
            for name, each in used.items()
        }
    notes.moved |= {("mcpServers", name): (*path, name) for name in used}
    notes.ignored += [("mcp", key) for key in mcp if key != "servers"]


def _plugins(plugins: Mapping[str, Any], notes: Notes) -> dict[str, Any]:
    """Return which plugins are on: off altogether, denied, not allowed, or switched by their own entry."""
    denied, allowed = (notes.names(plugins.get(key), ("plugins", key)) for key in ("deny", "allow"))
    load, entries = (notes.mapping(plugins.get(key), ("plugins", key)) for key in ("load", "entries"))
    off = plugins.get("enabled") is False
    kept: dict[str, Any] = {"folders": load.get("paths") or []}
    notes.moved["plugins", "folders"] = ("plugins", "load", "paths")
    kept["allow"] = [] if off else [id for id in allowed if id not in denied]
    for id, entry in entries.items():
        if id in ("folders", "allow"):
            notes.ignored.append(("plugins", "entries", id))
            continue
        kept[id] = entry
        if isinstance(entry, Mapping):
            kept[id] = {key: entry[key] for key in ("config", "enabled") if entry.get(key) is not None}
            if off or id in denied or (allowed and id not in allowed):
                kept[id]["enabled"] = False
            notes.ignored += [("plugins", "entries", id, key) for key in entry if key not in ("config", "enabled")]
        notes.moved["plugins", id] = ("plugins", "entries", id)
    for id in denied:
        kept.setdefault(id, {"enabled": False})
    notes.ignored += [("plugins", key) for key in plugins if key not in ("enabled", "deny", "allow", "load", "entries")]
    return kept


def _has_memory(plugins: Mapping[str, Any], notes: Notes) -> bool:
    """Tell whether the plugin is on that memory is there: not denied, not left out, and no other one in its slot."""
    denied, allowed = (notes.names(plugins.get(key), ("plugins", key)) for key in ("deny", "allow"))
    slots, entries = (notes.mapping(plugins.get(key), ("plugins", key)) for key in ("slots", "entries"))
    entry, slot = entries.get(_MEMORY_PLUGIN), slots.get("memory")
    is_off = plugins.get("enabled") is False or (isinstance(entry, Mapping) and entry.get("enabled") is False)
    is_left_out = _MEMORY_PLUGIN in denied or (bool(allowed) and _MEMORY_PLUGIN not in allowed)
    return not is_off and not is_left_out and slot in (None, "", _MEMORY_PLUGIN)


_MEMORY_PLUGIN = "memory-core"


def _leave_out(config: dict[str, Any], notes: Notes) -> None:
    """Leave out what sections of the same name say there and nothing here reads; what is wrong is left in."""
    if config.pop("secrets", None) is not None:
        notes.ignored.append(("secrets",))
    for section, key, is_theirs in _THEIRS:
        written = config.get(section)
        if isinstance(written, Mapping) and key in written and is_theirs(written[key]):
            config[section] = {name: value for name, value in written.items() if name != key}
            notes.ignored.append((section, key))


# Section, key, and whether the value is one that OpenClaw would take.
_THEIRS: tuple[tuple[str, str, Callable[[Any], bool]], ...] = (
    ("gateway", "bind", lambda bind: bind in ("auto", "custom", "lan", "loopback", "tailnet") or is_address(bind)),
    ("gateway", "auth", lambda auth: isinstance(auth, Mapping) and auth.get("mode") in (None, "token", "password")),
    ("hooks", "token", lambda token: isinstance(token, str)),
    ("logging", "level", lambda level: level in ("silent", "fatal", "trace")),
    ("logging", "redactPatterns", lambda patterns: isinstance(patterns, list)),
)
