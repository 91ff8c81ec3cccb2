"""What `lint` says about the file itself: unused keys, secrets others can read, settings that open a door."""

import ipaddress
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from toolcrib.define import session
from toolcrib.define.caller import Caller
from toolcrib.define.egress import Opening
from toolcrib.define.names import fold_name, nearest
from toolcrib.lazy import regex
from toolcrib.policy.command.programs import FILTERS, READERS
from toolcrib.policy.command.wrappers import runs_anything
from toolcrib.policy.identities import is_role, sender_key, to_sender
from toolcrib.policy.lint import Finding
from toolcrib.policy.lint_chats import advise_gift
from toolcrib.policy.resolve import is_owner

from .channels import ChannelSettings
from .foreign import find_ignored
from .load import Loaded
from .settings import ExecSettings, PluginSettings

_METADATA = tuple(map(ipaddress.ip_address, ("169.254.169.254", "fd00:ec2::254")))
_WIDE = {4: 16, 6: 48}  # a prefix shorter than that is too wide for anyone's proxies


# What opens a way in to us; the second is a client's word for the first.
_DOORS = regex(r"gateway\.auth\.(?:token|password)|hooks\.token|\$TOOLCRIB_MCP_TOKEN")
_SAME_DOOR = {"$TOOLCRIB_TOKEN": "gateway"}
_MIN_SECRET_CHARS = 8


def advice(
    loaded: Loaded, env: Mapping[str, str] = MappingProxyType({}), is_seen: Callable[[str], bool] = bool
) -> Iterator[Finding]:
    """Yield what is odd about the file, as it stands; `env` are the keys and tokens that we take from elsewhere.

    `is_seen` tells whether a path of this machine can be seen in the sandbox.
    """
    yield from _find_ignored_keys(loaded)
    for key in loaded.unused:
        remedy = "to make them an owner write their ids into owners" if key.endswith(".owner") else "nothing to do"
        yield Finding("unused", "note", key, "checked, but not used by this version yet", remedy)
    if loaded.unset:
        what = f"not set here, and taken as something unknown: {', '.join(loaded.unset)}"
        yield Finding("unset", "note", "environment", what, "set them where a rule depends on one")
    if loaded.exposed:
        what = "the file holds secrets and its permissions let others on this machine read it"
        yield Finding("permissions", "warning", loaded.exposed, what, f"chmod 600 {loaded.exposed}")
    for name, channel in loaded.config.channels.items():
        yield from _who_may_write(channel, loaded.origin("channels", name), loaded.policy.roles)
        yield from _guests_without_rules(name, channel, loaded)
    yield from _owners(loaded)
    yield from _quotas(loaded)
    yield from _unknown_subagents(loaded)
    yield from _idle_plugins(loaded)
    yield from _commands(loaded)
    yield from _find_unseen(loaded, is_seen)
    yield from _networks(loaded)
    yield from _find_shared_secrets(loaded, env)


def _find_ignored_keys(loaded: Loaded) -> Iterator[Finding]:
    yield from find_ignored(loaded.document, loaded.translated.ignored)
    for lost, counts in loaded.eclipsed:
        what = f"{counts} is the same and counts alone"
        yield Finding("dropped-deny", "warning", lost, what, f"write what it denies into {counts}, and take it out")


def _quotas(loaded: Loaded) -> Iterator[Finding]:
    """Quotas about an agent or a role that is not configured."""
    for index, quota in enumerate(loaded.config.quotas):
        kind, _, name = (quota.who or "").partition(":")
        kind, place = kind.lower(), f"quotas[{index}].who"
        known = loaded.config.agent_ids() if kind == "agent" else loaded.policy.roles
        own = session.to_agent(name.strip()) if kind == "agent" else fold_name(name)
        if kind in ("agent", "role") and name and own not in known:
            close = nearest(name, known)
            remedy = f"did you mean '{kind}:{close[0]}'?" if close else "correct it, or write it down"
            yield Finding("unknown", "warning", place, f"no {kind} is called {name.strip()!r}", remedy)


def _who_may_write(channel: ChannelSettings, origin: str, roles: Mapping[str, Sequence[str]]) -> Iterator[Finding]:
    """Whom `dmPolicy` and `allowFrom` let in between them."""
    place, policy = f"{origin}.allowFrom", channel.dm_policy
    everybody = any(sender.strip() == "*" for sender in channel.allow_from)
    if policy == "open":
        what = "dmPolicy open lets everybody write to the agent, whatever allowFrom says"
        yield Finding("widening", "warning", place, what, "keep it if that is meant, else dmPolicy: allowlist")
    elif policy != "disabled" and everybody:
        what = f"'*' lets everybody write to the agent, so that dmPolicy {policy} has no effect"
        yield Finding("widening", "warning", place, what, "list the senders, or write dmPolicy: open")
    elif policy == "allowlist" and not channel.allow_from:
        what = "allowFrom is empty, so that dmPolicy allowlist lets nobody in"
        yield Finding("empty", "warning", place, what, "list the senders, or write dmPolicy: disabled")
    for sender in channel.allow_from:
        kind, role = sender_key(sender)[:2]
        if kind == "role" and role not in roles:
            what = f"there is no role {role!r}, so that this is nobody"
            yield Finding("unknown", "warning", place, what, "write it under roles, or take it out")
        if _is_spoofable(sender):
            what = f"{sender!r} is a name that anyone can take"
            yield Finding("worn", "warning", place, what, "use id: or e164: of who may write")


def _guests_without_rules(name: str, channel: ChannelSettings, loaded: Loaded) -> Iterator[Finding]:
    """People who are let in directly, where nothing says what they may have."""
    rule, place = loaded.policy.guests_rule, f"{loaded.origin('channels', name)}.direct"
    senders = (to_sender(each) for each in channel.allow_from if not is_role(each))
    lets_in = "dm_policy" in channel.model_fields_set and channel.dm_policy != "allowlist"
    lets_in |= any(map(is_role, channel.allow_from))
    lets_in |= not all(is_owner(loaded.policy, Caller(channel=name, sender=each)) for each in senders)
    lets_in &= channel.enabled and channel.direct is None and channel.dm_policy != "disabled"
    if lets_in and rule.allow is not None:
        what = "is not there, so that who is let in by allowFrom or a code has no more than tools.guests"
        yield Finding("guests", "note", place, what, advise_gift(f"{place}.tools", rule))


def _is_spoofable(sender: str) -> bool:
    plain = sender.strip().lower()
    # @bob is a user's name; @bob:server is an id on Matrix
    return plain.startswith(("username:", "name:")) or (plain.startswith("@") and ":" not in plain)


def _owners(loaded: Loaded) -> Iterator[Finding]:
    channels = loaded.config.channels.items()
    places = [(loaded.origin("owners"), loaded.config.owners)]
    places += [(loaded.origin("channels", name, "owners"), channel.owners) for name, channel in channels]
    for origin, owners in places:
        for owner in owners:
            if _is_spoofable(owner):
                what = f"{owner!r} is a name; owners are known by id or E.164, so that this is nobody"
                yield Finding("dead", "warning", origin, what, "write id:.. or e164:+.. of who shall be an owner")


def _unknown_subagents(loaded: Loaded) -> Iterator[Finding]:
    """Agents that another one may start, by an unknown id."""
    ids = loaded.config.agent_ids()
    for key, agent in loaded.config.agents_by_key().items():
        for wanted in agent.subagents.allow_agents:
            if wanted.strip() != "*" and session.to_agent(wanted) not in ids:
                meant = nearest(wanted, ids)
                remedy = f"did you mean {meant[0]!r}?" if meant else "correct it, or take it out"
                origin = loaded.origin("agents", key, "subagents", "allowAgents")
                yield Finding("unknown", "warning", origin, f"no agent is called {wanted!r}", remedy)


def _idle_plugins(loaded: Loaded) -> Iterator[Finding]:
    """Plugins that are set up and never turned on."""
    listed = loaded.config.plugins.get("allow", ())
    for name, entry in loaded.config.plugins.items():
        if not isinstance(entry, PluginSettings):
            continue
        origin = loaded.origin("plugins", name)
        if entry.enabled is None and name not in listed:
            what = f"nothing turns the plugin {name!r} on, so that what stands here has no effect"
            yield Finding("dead", "warning", origin, what, f"take it out; {origin}.enabled: true would turn it on")
        elif entry.enabled is False and name in listed and not loaded.foreign:
            what = f"{name!r} is in plugins.allow, and its own enabled: false wins"
            yield Finding("dead", "note", origin, what, "take it out of plugins.allow")


def _list_exec(loaded: Loaded) -> Iterator[tuple[str, ExecSettings]]:
    yield loaded.origin("tools", "exec"), loaded.config.tools.exec
    for key, agent in loaded.config.agents_by_key().items():
        yield loaded.origin("agents", key, "tools", "exec"), agent.tools.exec


def _find_unseen(loaded: Loaded, is_seen: Callable[[str], bool]) -> Iterator[Finding]:
    """Programs by whole names that lie on this machine and that the sandbox, where they would run, does not show."""
    host = loaded.config.tools.exec.host
    named = [
        (f"{loaded.origin('tools', 'hooks')}[{index}].run", hook.run, hook.host or host)
        for index, hook in enumerate(loaded.config.tools.hooks)
    ]
    for origin, commands in _list_exec(loaded):
        for key, entries in (("allow", commands.allow), ("allowExact", commands.allow_exact)):
            named += [(f"{origin}.{key}", entry, commands.host) for entry in entries]
        named.append((f"{origin}.trustedDirs", commands.trusted_dirs, commands.host))
    for origin, words, where in named:
        for word in words if where == "sandbox" else ():
            if word.startswith("/") and Path(word).exists() and not is_seen(word):
                what = f"{word} is not there in the sandbox, where it would run"
                remedy = "put it where the sandbox sees it, as in /usr/local"
                remedy += ", or write host: host beside it" * origin.endswith(".run")
                yield Finding("dead", "warning", origin, what, remedy)


def _commands(loaded: Loaded) -> Iterator[Finding]:
    if loaded.config.sandbox.docker.model_fields_set:
        what = "docker is not built yet, so that nothing of this counts: the sandbox is one of this machine"
        remedy = "take it out; sandbox.network, memoryMb and processes count there"
        yield Finding("dead", "warning", loaded.origin("sandbox", "docker"), what, remedy)
    for origin, commands in _list_exec(loaded):
        if commands.host == "docker":
            what = "docker is not built yet: every command is refused"
            yield Finding("dead", "warning", f"{origin}.host", what, "write sandbox: commands run there then")
        if commands.security == "full" and commands.ask == "off":
            where = "on this machine" if commands.host == "host" else "in the sandbox"
            what = f"security full and ask off run every command {where} unasked"
            yield Finding("widening", "warning", origin, what, "write security: allowlist or ask: on-miss")
        for entry in filter(runs_anything, commands.allow):
            what = f"{' '.join(entry)!r} runs what the words behind it say, so that every command runs unasked"
            remedy = "write those words, too, or put the whole line under allowExact"
            yield Finding("widening", "warning", f"{origin}.allow", what, remedy)
        for key, names, known in (("readOnly", commands.read_only, READERS), ("safeBins", commands.safe_bins, FILTERS)):
            for name in names or ():
                if name not in known:
                    what = f"{name!r} never runs by this list: which of its options only read is not known"
                    remedy = f"move it to allow with the words that may run; known are {', '.join(sorted(known))}"
                    yield Finding("dead", "warning", f"{origin}.{key}", what, remedy)


def _find_shared_secrets(loaded: Loaded, env: Mapping[str, str]) -> Iterator[Finding]:
    """Secrets of a door that are used elsewhere, too: one leak opens both."""
    places: dict[str, list[str]] = {}
    for path, text in (*_texts(loaded.document.value), *((f"${name}", value) for name, value in env.items())):
        places.setdefault(text.rpartition(" ")[2], []).append(path)  # `Bearer x` is x
    for secret, found in places.items():
        door = next(filter(_DOORS.fullmatch, found), "")
        others = [path for path in found if _door_of(path) != _door_of(door)]
        if door and others and len(secret) >= _MIN_SECRET_CHARS:
            what = f"the same secret is that of {', '.join(others)}: whoever learns one of them has the other"
            yield Finding("shared", "warning", door, what, "give each a secret of its own")


def _door_of(path: str) -> str:
    return _SAME_DOOR.get(path) or path.partition(".")[0]


def _texts(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every text of a configuration with its path."""
    if isinstance(value, str):
        yield path, value
    for key, each in value.items() if isinstance(value, Mapping) else ():
        yield from _texts(each, f"{path}.{key}".lstrip("."))
    for index, each in enumerate(value if isinstance(value, list | tuple) else ()):
        yield from _texts(each, f"{path}[{index}]")


def _networks(loaded: Loaded) -> Iterator[Finding]:
    config = loaded.config
    for text in config.web.ssrf.allow_private:
        network = Opening.read(text).network
        if any(address in network for address in _METADATA):
            origin, what = loaded.origin("web", "ssrf", "allowPrivate"), "where a cloud gives out credentials"
            yield Finding("widening", "warning", origin, f"{text!r} holds the address {what}", "name what is needed")
    for text in config.gateway.trusted_proxies if config.gateway else ():
        network = ipaddress.ip_network(text, strict=False)
        if network.prefixlen < _WIDE[network.version]:
            what = f"{text!r}: each of {network.num_addresses} addresses may say who a caller is"
            yield Finding("widening", "warning", loaded.origin("gateway", "trustedProxies"), what, "name the proxies")
