"""Which plugins the configuration turns on, and what they bring."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from toolcrib.backends.plugins import FoundPlugin, find_plugins, pick
from toolcrib.config.complain import conceal
from toolcrib.config.load import Loaded
from toolcrib.config.settings import Config, PluginSettings
from toolcrib.define.display import escape_unprintable
from toolcrib.define.errors import PluginError
from toolcrib.define.plugin import Plugin
from toolcrib.registry.catalog import Problem
from toolcrib.registry.sources import Offer

__all__ = ["enabled_plugins", "handed_over", "plugin_offers"]


def enabled_plugins(config: Config) -> tuple[str, ...]:
    """Return the plugins the configuration turns on by name; `enabled: false` wins over the short list."""
    allowed = config.plugins.get("allow", ())
    named = {name: entry for name, entry in config.plugins.items() if isinstance(entry, PluginSettings)}
    wanted = [
        *(allowed if isinstance(allowed, tuple) else ()),
        *(name for name, entry in named.items() if entry.enabled),
    ]
    return tuple(dict.fromkeys(name for name in wanted if name not in named or named[name].enabled is not False))


def plugin_offers(loaded: Loaded, *, import_plugins: bool) -> tuple[list[Offer], list[Problem]]:
    """Return what the enabled plugins bring; one that cannot be had is an error, told where it is turned on."""
    wanted, folders = enabled_plugins(loaded.config), _plugin_folders(loaded)
    if not wanted and not folders:
        return [], []
    found, broken = find_plugins(folders)
    offers: list[Offer] = []
    problems = [Problem("plugins", str(error)) for error in broken]
    for id in wanted:
        try:
            plugin = _picked(id, found, broken)
            offers.append(_plugin_offer(plugin, loaded.config, import_plugins=import_plugins))
        except PluginError as error:
            told = _placed(error, id, loaded)
            if not loaded.foreign:
                raise told from error
            # plugins of OpenClaw are not for us: without them the caller has less, never more
            problems.append(Problem("plugins", str(told)))
    return offers, problems


def handed_over(plugins: Sequence[Plugin | Offer]) -> list[Offer]:
    """Return what a program brings itself: nobody has to name it in the configuration, for the program did."""
    return [each if isinstance(each, Offer) else _offer_of(each, f"plugin:{each.name}", {}) for each in plugins]


def _picked(id: str, found: Mapping[str, FoundPlugin], broken: Sequence[PluginError]) -> FoundPlugin:
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


def _placed(error: PluginError, id: str, loaded: Loaded) -> PluginError:
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
    if not import_plugins:
        return Offer(source=source, tools=plugin.declare_tools(), config=own)
    return _offer_of(plugin.load(), source, own)


def _offer_of(plugin: Plugin, source: str, config: Mapping[str, Any]) -> Offer:
    return Offer(
        source=source,
        tools=plugin.tools,
        config=config,
        before=plugin.before,
        after=plugin.after,
        hooks=plugin.hooks,
        agents=plugin.agents,
    )


def _plugin_folders(loaded: Loaded) -> list[Path]:
    folders = loaded.config.plugins.get("folders", ())
    base = loaded.document.files[0].parent if loaded.document.files else Path()
    return [base / os.path.expanduser(folder) for folder in folders] if isinstance(folders, tuple) else []  # noqa: PTH111  Path's own raises for a user who is not there
