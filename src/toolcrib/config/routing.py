"""Where an OpenClaw file sends a caller, and whether it lets them in: `bindings`, `dmScope`, policies, allow lists."""

from collections.abc import Callable, Mapping
from typing import Any, get_args

from toolcrib.define import session
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.names import fold_name
from toolcrib.define.verdict import LayerName, Verdict
from toolcrib.lazy import dataclass, replace

from .read import Document


@dataclass(frozen=True, slots=True)
class Route:
    """The caller with the agent and session that a file gives it; `refusal` is where and why it is not let in at all,
    `silence` why it is never answered, whatever it may use.

    `doubts` are what is not certain, each behind what the names of the tools begin with that it is about.
    """

    caller: Caller
    refusal: tuple[LayerName, str, str] | None = None
    doubts: tuple[tuple[str, str], ...] = ()
    silence: str = ""
    foreign: bool = False

    def judge(self, verdict: Verdict) -> Verdict:
        """Return the verdict for this caller: who is not admitted has nothing."""
        if self.refusal is None:
            is_stricter = self.foreign and verdict.layer == "guests"
            return replace(verdict, reason=f"{verdict.reason}; {_STRICTER}") if is_stricter else verdict
        layer, origin, reason = self.refusal
        return Verdict(verdict.tool, "deny", layer, None, origin, f"{reason} ({origin})", f"change {origin}")

    def tell_silence(self) -> dict[str, Any]:
        """Return what explain and who add for a sender who is never answered."""
        return {"answered": False, "why": self.silence} if self.silence else {}

    def list_doubts(self, tool: str = "") -> tuple[str, ...]:
        """Return what is not certain about one tool, or about any."""
        return tuple(why for about, why in self.doubts if not tool or tool.startswith(about))


_STRICTER = "OpenClaw has no such default: there the sender is not held to it"
_ALIKE = {"direct": "dm", "channel": "group"}
_SCOPES = get_args(session.DmScope)
_DOORS = ("enabled", "dmPolicy", "allowFrom", "groupPolicy", "groupAllowFrom", "policy", "dm")
_MATCHED = frozenset({"channel", "accountId", "peer", "guildId"})


def route_caller(document: Document, caller: Caller) -> Route:
    """Return where an OpenClaw file sends a caller that names a channel: `bindings`, `dmScope`, who is let in."""
    raw, channel = document.value, session.to_channel(caller.channel or "")
    if channel is None or caller.parents:
        return Route(caller, foreign=True)
    doubts: list[tuple[str, str]] = []
    if caller.agent is None and caller.session is None:
        agent = _find_agent(raw, caller, channel, doubts)
        caller = replace(caller, agent=agent, session=_direct_key(raw, caller, agent, channel))
    name = next((key for key in _section(raw, "channels") if session.to_channel(key) == channel), channel)
    own = _section(raw, "channels", name)
    accounts, meant = _section(own, "accounts"), fold_name(caller.account or "default")
    account = next((each for each in accounts if fold_name(each) == meant), meant)
    theirs = _section(accounts, account)

    def place_of(key: str) -> str:
        return f"channels.{name}.{f'accounts.{account}.' if key in theirs else ''}{key}"

    refusal = _refuse({**own, **theirs}, caller, place_of, doubts)
    elevated = _section(raw, "tools", "elevated")
    if elevated.get("enabled") is not False and _is_among(caller.sender, _section(elevated, "allowFrom").get(channel)):
        doubts.append(
            ("exec", "tools.elevated lets this sender run commands beside the rules there; here nothing does")
        )
    return Route(caller, refusal, tuple(doubts), foreign=True)


def list_bound_groups(document: Document, channel: str) -> list[str]:
    """Return the groups of a channel that bindings name."""
    matches = [_section(each, "match") for each in _bindings(document.value)]
    peers = [_section(each, "peer") for each in matches if session.to_channel(str(each.get("channel", ""))) == channel]
    return [str(peer.get("id")) for peer in peers if _ALIKE.get(str(peer.get("kind")), peer.get("kind")) == "group"]


def list_accounts(document: Document, channel: str) -> list[str]:
    """Return the accounts of a channel, also those that say nothing of groups."""
    return list(_section(_find_channel(document.value, channel), "accounts"))


def list_let_in(document: Document, channel: str) -> list[str]:
    """Return whom an OpenClaw file names where it says who comes in, or is one person: each as id, e164, username."""
    own, raw = _find_channel(document.value, channel), document.value
    listed = [own, _section(own, "dm"), *(_section(own, "accounts", each) for each in _section(own, "accounts"))]
    found = [each.get(key) for each in listed for key in ("allowFrom", "groupAllowFrom")]
    found.append(_section(raw, "tools", "elevated", "allowFrom").get(channel))
    peers = [_section(each, "match", "peer") for each in _bindings(raw)]
    found.append([each.get("id") for each in peers if _ALIKE.get(str(each.get("kind")), each.get("kind")) == "dm"])
    words = (str(word).strip().lower() for each in found if isinstance(each, list | tuple) for word in each)
    names = dict.fromkeys(_list_spellings(word)[-1] for word in words if word and word != "*")
    return [f"{kind}:{name}" for name in names for kind in ("id", "e164", "username")]


def list_doors(document: Document) -> dict[str, Any]:
    """Return what an OpenClaw file says of who comes in, by the place where it stands."""
    found = dict[str, Any]()
    for name, own in _section(document.value, "channels").items():
        accounts = _section(own, "accounts")
        places = [(f"channels.{name}", _section(own)), (f"channels.{name}.dm", _section(own, "dm"))]
        places += [(f"channels.{name}.accounts.{each}", _section(accounts, each)) for each in accounts]
        found |= {f"{place}.{key}": each[key] for place, each in places for key in _DOORS if key in each}
    return found


def _find_channel(raw: Mapping[str, Any], channel: str) -> Mapping[str, Any]:
    found = _section(raw, "channels")
    return _section(found, next((key for key in found if session.to_channel(key) == channel), channel))


def _section(value: Any, *path: str) -> Mapping[str, Any]:
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def _bindings(raw: Mapping[str, Any]) -> list[Any]:
    found = raw.get("bindings")
    return found if isinstance(found, list) else []


def _find_agent(raw: Mapping[str, Any], caller: Caller, channel: str, doubts: list[tuple[str, str]]) -> str:
    """Return the agent of the binding that fits best: by peer, guild, account, channel; else the default one."""
    entries = [{"id": id, **_section(each)} for id, each in _section(raw, "agents", "entries").items()]
    listed = [each for each in (_section(raw, "agents").get("list") or entries) if isinstance(each, Mapping)]
    chosen = next((each for each in listed if each.get("default") is True), next(iter(listed), {}))
    best, agent = 0, str(chosen.get("id") or "main")
    for index, binding in enumerate(_bindings(raw)):
        match = _section(binding, "match")
        weight = _weigh(match, caller, channel)
        if weight and (unknown := sorted(set(match) - _MATCHED)):
            doubts.append(("", f"bindings[{index}] depends on {', '.join(unknown)}, which is not known of this caller"))
        elif weight > best:
            best, agent = weight, str(_section(binding).get("agentId") or agent)
    return agent


def _weigh(match: Mapping[str, Any], caller: Caller, channel: str) -> int:
    """Return how closely a binding fits, 0 when it does not."""
    if session.to_channel(str(match.get("channel", ""))) != channel:
        return 0
    account = fold_name(str(match.get("accountId") or "default"))
    if account not in ("*", fold_name(caller.account or "default")):
        return 0
    if peer := _section(match, "peer"):
        kind, id = str(peer.get("kind")), str(peer.get("id", "")).lower()
        if _ALIKE.get(kind, kind) == "group":
            own = (caller.group or "").lower()
            return 5 if id and id in (own, own.rpartition("/")[2]) else 0
        return 5 if caller.group is None and _is_among(caller.sender, [id]) else 0
    if guild := match.get("guildId"):
        return 4 if (caller.group or "").partition("/")[0] == str(guild) else 0
    return 1 if account == "*" or "accountId" not in match else 2


def _direct_key(raw: Mapping[str, Any], caller: Caller, agent: str, channel: str) -> str | None:
    """Return the session of a direct message where `dmScope` gives each sender one; None for the main session."""
    scope = _section(raw, "session").get("dmScope")
    if caller.group is not None or scope in (None, "main"):
        return None
    id = (caller.sender and (caller.sender.e164 or caller.sender.id)) or "unknown"
    peer = session.Peer(channel=channel, id=id, account=caller.account or "")
    return session.to_peer_key(agent, peer, scope=scope if scope in _SCOPES else "per-account-channel-peer")


def _refuse(
    own: Mapping[str, Any], caller: Caller, place_of: Callable[[str], str], doubts: list[tuple[str, str]]
) -> tuple[LayerName, str, str] | None:
    """Return where and why the channel does not let a message of this caller in."""
    layer: LayerName = "group" if caller.group is not None else "direct"
    if caller.group is not None:
        key, policy, allowed = "groupPolicy", own.get("groupPolicy"), own.get("groupAllowFrom") or own.get("allowFrom")
    else:
        inner = _section(own, "dm")
        key, policy = "dmPolicy", own.get("dmPolicy", inner.get("policy", "pairing"))
        allowed = own.get("allowFrom", inner.get("allowFrom"))
    if policy == "disabled":
        return layer, place_of(key), "no message gets in"
    if policy == "open" or _is_among(caller.sender, allowed):
        return None
    if policy == "allowlist" and caller.sender is not None:
        return layer, place_of(key), "allowlist, and this sender is not on the list"
    known = {"pairing": "who is paired stands elsewhere", None: "whom that lets in is for OpenClaw to say"}
    why = known.get(policy, "who writes decides whether it gets in")
    doubts.append(("", f"{place_of(key)} is {policy or 'not set'}: {why}"))
    return None


def _is_among(sender: Sender | None, listed: Any) -> bool:
    """Tell whether a list there names the sender, whatever word stands before the name (`tg:7`, `@bob`)."""
    own = {str(each).lower() for each in (sender.id, sender.e164, sender.username) if each} if sender else set[str]()
    for entry in listed if isinstance(listed, list | tuple) else ():
        plain = str(entry).strip().lower()
        if plain == "*" or not own.isdisjoint(_list_spellings(plain)):
            return True
    return False


def _list_spellings(word: str) -> tuple[str, ...]:
    """Return what a word of a list may name, what it most likely does last: `tg:7` is 7, `@ann:home` is itself."""
    plain = word.removeprefix("@")
    return (plain, word) if word.startswith("@") and ":" in word else (word, plain, plain.rpartition(":")[2])
