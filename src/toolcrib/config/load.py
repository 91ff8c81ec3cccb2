"""A file (or a mapping) to checked settings; one error, with place and remedy, when it cannot be used."""

import contextlib
import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import platformdirs
from pydantic import ValidationError

from toolcrib.define import session
from toolcrib.define.channel import ID_RULES, ChannelKind, IdRules
from toolcrib.define.errors import ConfigError, ConfigLocation
from toolcrib.define.names import fold_name
from toolcrib.lazy import dataclass, field, replace
from toolcrib.policy import settings as policies
from toolcrib.policy.command import CommandRules, judge, look_up_in, rules_from
from toolcrib.policy.identities import ANYWHERE

from . import channels, settings
from .complain import complaint, conceal, failing_keys, unknown_keys
from .foreign import refuse_unfollowed
from .openclaw import Translated, from_openclaw
from .people import index_people, list_unused
from .positions import KeyPath, format_path, place_workspaces
from .read import Document, document, read_document
from .values import quote_value


def _check_examples(config: settings.Config, translated: Translated) -> None:
    """Raise ConfigError at the first example that the rules beside it judge otherwise than it says.

    Whether a program is installed is no matter of the rules: every name counts as one of a trusted folder.
    """
    for path, examples, rules in _list_examples(config):
        look_up = look_up_in(rules.trusted, listed=rules.lists_file)
        for expected, lines in (("run", examples.run), ("ask", examples.ask), ("deny", examples.deny)):
            for index, line in enumerate(lines):
                found = judge(line, rules, look_up)
                if found.decision != expected:
                    mismatch = f"is {found.decision}, not {expected}: {found.reason}; change a rule or the example"
                    sentence = conceal(f"{quote_value(line)} {mismatch}", translated.document)
                    raise ConfigError(sentence, translated.place((*path, "examples", expected, index)))


def _list_examples(config: settings.Config) -> Iterator[tuple[KeyPath, settings.Lines, CommandRules]]:
    """Yield every list of examples with its place and the rules it is about."""
    own = config.tools.exec
    path: KeyPath = ("tools", "exec")
    if "examples" in own.model_fields_set:
        yield path, own.examples, rules_from(own)
    for key, agent in config.agents_by_key().items():
        theirs = agent.tools.exec
        if "examples" in theirs.model_fields_set:
            yield ("agents", key, *path), theirs.examples, rules_from(theirs, over=rules_from(own))


SUFFIXES = (".json5", ".json", ".yaml", ".yml", ".toml")

_FOLDED = {ANYWHERE: IdRules(True, False)}  # OpenClaw compares senders in small letters, whatever the channel
_SMALL_WINDOW = 16_384  # tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """Checked settings, the policy in them, and what `lint` should say about the file itself.

    `ignored` are key paths of an OpenClaw file that toolcrib has no use for; `eclipsed` those that another spelling
    of the same thing stands before; `unused` are keys that this version checks but does not read yet; `exposed`
    is a file with secrets that others on this machine can read. `foreign` says that the file is OpenClaw's. `unset` are
    variables that the file takes from the environment and that stand in for nothing there.
    """

    config: settings.Config
    policy: policies.PolicySettings
    translated: Translated = field(repr=False)
    ignored: tuple[str, ...] = ()
    eclipsed: tuple[tuple[str, str], ...] = ()
    unused: tuple[str, ...] = ()
    exposed: str | None = None
    foreign: bool = False
    unset: tuple[str, ...] = ()
    ignore: Collection[str] | None = ()

    @property
    def document(self) -> Document:
        return self.translated.document

    def origin(self, *path: str | int) -> str:
        """Return where the thing at `path` stands in the file."""
        return self.translated.origin(path)

    def place(self, *path: str | int) -> ConfigLocation:
        """Return file, line and key path of the thing at `path`."""
        return self.translated.place(path)


class BringsChannels(Protocol):
    """What brings kinds of channels, as plugins do: their ids are compared as it says."""

    @property
    def channels(self) -> Mapping[str, ChannelKind]: ...


class SettingsInForce:
    """The settings that count now. A reload puts others into their place, whole or not at all."""

    def __init__(self, loaded: Loaded, env: Mapping[str, str], offers: Iterable[BringsChannels] = ()) -> None:
        brought = {name: kind.ids for each in offers for name, kind in each.channels.items()}
        self._ids, self._env = brought | dict(ID_RULES), env
        self.loaded = self._with_ids(loaded)
        self.problem = ""  # why the files do not count as they stand now
        self._listeners: list[Callable[[], None]] = []
        self._seen = self._stamps()

    @property
    def config(self) -> settings.Config:
        return self.loaded.config

    @property
    def policy(self) -> policies.PolicySettings:
        return self.loaded.policy

    @property
    def document(self) -> Document:
        return self.loaded.document

    def on_change(self, *listeners: Callable[[], None]) -> None:
        """Have `listeners` called when other settings count."""
        self._listeners += listeners

    def has_changed(self) -> bool:
        """Tell whether a file is another one than when this was asked before."""
        before, self._seen = self._seen, self._stamps()
        return before != self._seen

    def read(self, first: Path | None = None) -> Loaded:
        """Return what the files say now, with `first` in the place of the first; raise ConfigError as a start does."""
        first, foreign = first or self.document.files[0], self.loaded.foreign
        return self._with_ids(load(first, self._env, openclaw=foreign, ignore=self.loaded.ignore))

    def _with_ids(self, loaded: Loaded) -> Loaded:
        return loaded if loaded.foreign else replace(loaded, policy=replace(loaded.policy, ids=self._ids))

    def read_shadow(self) -> Loaded | None:
        """Return what `policy.shadow` names, None where it names nothing; raise ConfigError when that is of no use."""
        named = self.config.policy.shadow
        if named is None:
            return None
        home = self.document.files[0].parent if self.document.files else Path()
        return load(home / os.path.expanduser(named), self._env, fills=True)  # noqa: PTH111  Path's own raises for a user who is not there

    def reload(self) -> None:
        """Let count what the files say now; raise ConfigError when that cannot be, and then nothing has changed."""
        if not self.document.files:
            return
        try:
            loaded = self._read_for_now()
        except ConfigError as error:
            self.problem = str(error)
            raise
        self.loaded, self.problem = loaded, ""
        self._seen = self._stamps()
        for listener in self._listeners:
            listener()

    def _read_for_now(self) -> Loaded:
        loaded = self.read()
        if fixed := list_fixed(self.config, loaded.config):
            raise ConfigError(f"{', '.join(fixed)} changed, which counts from a start on; `toolcrib gateway restart`")
        return loaded

    def _stamps(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(path) for path in self.document.files]


def list_fixed(old: settings.Config, new: settings.Config) -> list[str]:
    """Return the sections in which two configurations differ and that are read at a start alone: code, and folders."""
    found = [name for name in ("plugins", "skills", "mcp_servers", "workspace", "audit") if _differ(name, old, new)]
    folders = ({id: each.workspace for id, each in config.list_agents() if each.workspace} for config in (old, new))
    named = [settings.Config.model_fields[name].alias or name for name in found]
    keys = ("hooks", "review", "names")
    named += [f"tools.{name}" for name in keys if getattr(old.tools, name) != getattr(new.tools, name)]
    return named if next(folders) == next(folders) else [*named, "agents.*.workspace"]


# what of `tools` and of an agent's own is about calls, and not about who has a tool
_CALLS = (
    "exec", "hosts", "ask_after_outside", "deny_after_outside", "hooks", "review", "message", "agent_to_agent",
    "aliases",
)  # fmt: skip
_ADMITTED = ("enabled", "dm_policy", "allow_from")  # of a channel: who comes to speak there at all
_JUDGED = {"mode": "off", "workspace_access": "rw"}  # of the sandbox, by every layer


_Names = tuple[str, ...]


def list_unjudged(old: settings.Config, new: settings.Config) -> list[str]:
    """Return in which keys two configurations differ that decide about calls, and not about who has a tool."""
    pairs: list[tuple[str, policies.Section, policies.Section, _Names]] = [("tools", old.tools, new.tools, _CALLS)]
    for id in dict.fromkeys(id for config in (old, new) for id, _ in config.list_agents()):
        one, other = (config.agent(id) or settings.AgentSettings() for config in (old, new))
        pairs.append((f"agents.{id}.tools", one.tools, other.tools, _CALLS))
        pairs.append((f"agents.{id}", one, other, ("workspace", "subagents")))
    for id in dict.fromkeys((*old.channels, *new.channels)):
        here, there = (config.channels.get(id, channels.ChannelSettings()) for config in (old, new))
        pairs.append((f"channels.{id}", here, there, _ADMITTED))
    found = [
        f"{place}.{type(one).model_fields[name].alias or name}"
        for place, one, other, names in pairs
        for name in names
        if getattr(one, name, None) != getattr(other, name, None)
    ]
    for id in dict.fromkeys((*old.mcp_servers, *new.mcp_servers)):
        servers = (config.mcp_servers.get(id) for config in (old, new))
        first, second = (each and each.model_copy(update={"tools": None}) for each in servers)
        found += [f"mcpServers.{id}"] if first != second else []
    found += _list_changed_roles(old, new)
    found += [name for name in ("quotas", "workspace") if _differ(name, old, new)]
    found += ["approvals.always"] if old.approvals.always != new.approvals.always else []
    found += ["sandbox"] if old.sandbox.model_copy(update=_JUDGED) != new.sandbox.model_copy(update=_JUDGED) else []
    return [*found, "web.ssrf"] if old.web.ssrf != new.web.ssrf else found


def _list_changed_roles(old: settings.Config, new: settings.Config) -> list[str]:
    """Return the roles of which others are members, and who is decides who comes to speak or what is counted."""
    named = {
        fold_name(word) for each in (old, new) for channel in each.channels.values() for word in channel.allow_from
    }
    named |= {fold_name(quota.who or "") for each in (old, new) for quota in each.quotas}
    one, other = ({f"role:{fold_name(name)}": set(held) for name, held in each.roles.items()} for each in (old, new))
    found = (name for name in dict.fromkeys((*one, *other)) if name in named and one.get(name) != other.get(name))
    return [f"roles.{name.removeprefix('role:')}" for name in found]


def _differ(section: str, old: settings.Config, new: settings.Config) -> bool:
    return bool(getattr(old, section) != getattr(new, section))


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def find_file(env: Mapping[str, str]) -> Path | None:
    """Return the configuration file in force: `$TOOLCRIB_CONFIG`, else the one in the user's configuration folder.

    A workspace is never searched: what lies in it is not configuration.
    """
    named = env.get("TOOLCRIB_CONFIG")
    if named:
        return Path(named)
    folder = Path(platformdirs.user_config_dir("toolcrib", appauthor=False))
    found = [path for path in (folder / f"toolcrib{suffix}" for suffix in SUFFIXES) if _is_there(path)]
    if len(found) > 1:
        names = " and ".join(path.name for path in found)
        raise ConfigError(f"{folder} holds {names}; keep one, or say which with --config")
    return found[0] if found else None


def _is_there(path: Path) -> bool:
    """Tell whether something lies there, readable or not: overlooking it would mean no limits."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise ConfigError(
            f"it cannot be looked at ({error.strerror}); mend that, or say --config", ConfigLocation(str(path))
        ) from None
    return True


class _FilledEnvironment(Mapping[str, str]):
    """An environment that lacks nothing: a variable that is not set has a value that no other has, and is in `unset`.

    Enough to look at a configuration where its secrets are not at hand.
    """

    def __init__(self, env: Mapping[str, str]) -> None:
        self._env, self.unset = env, dict[str, str]()

    def __getitem__(self, name: str) -> str:
        return self._env.get(name) or self.unset.setdefault(name, hashlib.sha256(name.encode()).hexdigest())

    def __iter__(self) -> Iterator[str]:
        return iter(self._env)

    def __len__(self) -> int:
        return len(self._env)


def load(
    source: Path | Mapping[str, Any] | None,
    env: Mapping[str, str] | None = None,
    *,
    openclaw: bool | None = None,
    fills: bool = False,
    ignore: Collection[str] | None = (),
) -> Loaded:
    """Return the settings in a file or mapping (None: the defaults). `openclaw` None decides by the file's name.

    `ignore` are keys of such a file that take something away there, and may be left out all the same; None for all.
    `fills` takes a `${NAME}` that is not set as something unknown, for looking at the rules only.
    """
    surroundings = _FilledEnvironment(os.environ if env is None else env)
    known = surroundings if fills else os.environ if env is None else env
    if isinstance(source, Path):
        read_in, theirs = read_document(source, known), source.name == "openclaw.json"
    else:
        read_in, theirs = document({} if source is None else source, known), False
    foreign = theirs if openclaw is None else openclaw
    translated = from_openclaw(read_in) if foreign else Translated(read_in, read_in.value)
    if surroundings.unset:
        # what is unknown may not fit everywhere, like an address: there it is left out
        key, named = translated.key, translated.document.referenced
        value, _ = _drop_keys(
            translated.value, lambda error: [each for each in failing_keys(error) if key(each) in named]
        )
        translated = replace(translated, value=value)
    loaded = replace(_check(translated, foreign=foreign), unset=tuple(surroundings.unset), ignore=ignore)
    if ignore is not None:
        refuse_unfollowed(loaded.document, loaded.translated.ignored, ignore)
    return loaded


def _check(translated: Translated, *, foreign: bool) -> Loaded:
    value = translated.value
    if translated.document.files:
        value = place_workspaces(value, lambda path: translated.place(path).file)
        translated = replace(translated, value=value)
    if foreign:
        value, more = _drop_keys(value, unknown_keys)
        ignored = dict.fromkeys((*translated.ignored, *map(translated.key, more)))
        translated = replace(translated, value=value, ignored=tuple(ignored))
    try:
        config = _validate(value)
    except ValidationError as error:
        raise complaint(error, translated) from None
    _check_examples(config, translated)
    policy = _policy(config, translated.origin)
    return Loaded(
        config=config,
        policy=replace(policy, ids=_FOLDED) if foreign else policy,
        translated=translated,
        ignored=tuple(map(format_path, translated.ignored)),
        eclipsed=tuple((format_path(lost), format_path(counts)) for lost, counts in translated.eclipsed),
        unused=tuple(list_unused(config.people)),
        exposed=_find_exposed(translated.document, config),
        foreign=foreign,
    )


def _validate(value: Mapping[str, Any]) -> settings.Config:
    # by alias only: `also_allow` is an unknown key, not another spelling that could stand beside the first
    return settings.Config.model_validate(value, by_alias=True, by_name=False)


def _drop_keys(
    value: Mapping[str, Any], choose: Callable[[ValidationError], list[KeyPath]]
) -> tuple[Mapping[str, Any], list[KeyPath]]:
    """Return the value without the keys that `choose` finds in what is wrong with it, and those keys."""
    dropped: list[KeyPath] = []
    while True:
        try:
            _validate(value)
        except ValidationError as error:
            chosen = choose(error)
            if not chosen:
                return value, dropped
            dropped += chosen
            value = _drop(value, frozenset(chosen), ())
        else:
            return value, dropped


def _drop(value: Any, paths: frozenset[KeyPath], here: KeyPath) -> Any:
    if isinstance(value, Mapping):
        return {k: _drop(v, paths, (*here, k)) for k, v in value.items() if (*here, k) not in paths}
    if isinstance(value, list):
        return [_drop(item, paths, (*here, index)) for index, item in enumerate(value) if (*here, index) not in paths]
    return value


_Origin = Callable[[KeyPath], str]


def _policy(config: settings.Config, origin: _Origin) -> policies.PolicySettings:
    """Return what policy reads, every part with the place it stands in."""
    sources: dict[str, tuple[str, policies.ListSettings]] = {}
    for name, plugin in config.plugins.items():
        if isinstance(plugin, settings.PluginSettings) and plugin.tools.model_fields_set:
            sources[f"plugin:{name}"] = (origin(("plugins", name, "tools")), plugin.tools)
    for name, server in config.mcp_servers.items():
        if server.tools.model_fields_set:
            sources[f"mcp:{name}"] = (origin(("mcpServers", name, "tools")), server.tools)
    own = {session.to_agent(id): _spell_folder(each.workspace) for id, each in config.list_agents() if each.workspace}
    return policies.PolicySettings(
        guests=config.tools.guests,
        by_sender=config.tools.tools_by_sender,
        tools=_with_small_belts(config),
        agents={
            session.to_agent(agent.id or str(key)): policies.AgentPolicy(
                origin=origin(("agents", key)), tools=agent.tools, sandbox=agent.sandbox
            )
            for key, agent in config.agents_by_key().items()
        },
        channels={
            session.to_channel(name) or name: _channel(channel, ("channels", name), origin)
            for name, channel in config.channels.items()
        },
        owners=config.owners,
        roles={fold_name(name): members for name, members in config.roles.items()},
        people=index_people(config.people, config.bare_channel),
        bare=config.bare_channel,
        sandbox=config.sandbox.mode,
        workspace_access=config.sandbox.workspace_access,
        sources=sources,
        roots={"": _spell_folder(config.workspace.root or ""), **own},
        place=lambda path: origin(tuple(path.split("."))),
    )


def _spell_folder(folder: str) -> tuple[str, ...]:
    """Return what a folder may be called in a rule: by its whole name, as it is without links, and from `~`."""
    home = os.path.expanduser("~")  # noqa: PTH111  Path's own raises for a user who is not there
    try:
        full = os.path.abspath(os.path.expanduser(folder))  # noqa: PTH100, PTH111
    except FileNotFoundError:  # the one we were started in is gone; what needs it says so when it is used
        return ()
    tilde = [f"~{full.removeprefix(home)}"] if full.startswith(f"{home}/") else []
    return tuple(dict.fromkeys((full, os.path.realpath(full), *tilde)))


def _with_small_belts(config: settings.Config) -> policies.ToolsSettings:
    """Return `tools` with the profile `small` for providers of small models, where `byProvider` does not speak of them.

    These are the model of this machine, unless a server of one's own has its name, and whatever has a small window.
    """
    models = {name: given for name, given in config.models.items() if isinstance(given, settings.ProviderSettings)}
    small = {name for name, given in models.items() if (given.context_window or _SMALL_WINDOW + 1) <= _SMALL_WINDOW}
    if "local" not in models or models["local"].base_url is None:
        small.add("local")
    small -= {fold_name(key).partition("/")[0] for key in config.tools.by_provider}
    entries = dict.fromkeys(sorted(small), policies.ScopeSettings(profile="small"))
    return config.tools.model_copy(update={"by_provider": {**config.tools.by_provider, **entries}})


def _channel(channel: channels.ChannelSettings, path: KeyPath, origin: _Origin) -> policies.ChannelPolicy:
    return policies.ChannelPolicy(
        origin=origin(path),
        direct=None if channel.direct is None else _chat(channel.direct, origin((*path, "direct"))),
        groups=_groups(channel.groups, path, origin),
        accounts={
            account: _groups(own.groups, (*path, "accounts", account), origin)
            for account, own in channel.accounts.items()
            if own.groups
        },
        owners=channel.owners,
    )


def _groups(
    groups: Mapping[str, channels.GroupSettings], path: KeyPath, origin: _Origin
) -> Mapping[str, policies.GroupPolicy]:
    return {id: _chat(group, origin((*path, "groups", id))) for id, group in groups.items()}


def _chat(chat: channels.DirectSettings, origin: str) -> policies.GroupPolicy:
    return policies.GroupPolicy(origin=origin, tools=chat.tools, by_sender=chat.tools_by_sender)


def _find_exposed(read_in: Document, config: settings.Config) -> str | None:
    """Return the name of the file when it holds secrets and others may read it."""
    if not _holds_secrets(config):
        return None
    for path in read_in.files:
        with contextlib.suppress(OSError):  # it was there a moment ago, and the next load sees what replaced it
            if path.stat().st_mode & (stat.S_IRGRP | stat.S_IROTH):
                return str(path)
    return None


def _holds_secrets(config: settings.Config) -> bool:
    providers = [entry for entry in config.models.values() if isinstance(entry, settings.ProviderSettings)]
    carried = [config.secrets, config.hooks.token, config.web.search.api_key, config.gateway and config.gateway.auth]
    carried += [held for provider in providers for held in (provider.api_key, provider.headers)]
    carried += [held for server in config.mcp_servers.values() for held in (server.env, server.headers)]
    return any(carried)
