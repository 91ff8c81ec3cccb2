"""Session keys: parse, build, classify.

    agent:<agent>:<rest>     rest is one of
        main                                   the agent's main session (the name is a setting)
        dm:<peer>  <channel>:dm:<peer>  <channel>:<account>:dm:<peer>
        <channel>:group:<id>  <channel>:channel:<id>           and then :thread:<id> or :topic:<id>
        subagent:<id>  acp:<id>  cron:<job>  hook:<id>  node:<id>

Older keys lack the first two words. A key is a label: it may narrow what its caller gets, never widen it (G5).
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from toolcrib.lazy import dataclass, regex

from .args import trim
from .display import escape, quote_short
from .errors import ToolError

SessionKind = Literal["main", "group", "cron", "hook", "node", "other"]
DmScope = Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]

_MAIN = "main"
_CHANNELS = frozenset({"discord", "googlechat", "imessage", "signal", "slack", "telegram", "whatsapp"})
_CHANNEL_ALIASES = {"imsg": "imessage", "gchat": "googlechat", "google-chat": "googlechat"}
_CHANNEL_ONLY = frozenset({"discord", "slack"})  # their groups are addressed as channels, too

_ID = regex(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NOT_ID = regex(r"[^a-z0-9_-]+")
_UUID = regex(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAX_KEY_BYTES = 255  # bytes of a key, as of a file's name
_PLAIN_KEY = regex(r"[A-Za-z0-9:;.,+=_@!#~&'()\[\] -]*")
_LAST_MARKER = regex(r"(.*):(?:thread|topic):", re.DOTALL | re.IGNORECASE | re.ASCII)
_THREAD_NUMBER = regex(r"(.*):(?:thread|topic):([0-9]+)", re.DOTALL)
_ODD_BYTE = regex(rb"[^a-z0-9_.@+-]|(?<=\.)\.")
_ESCAPED = regex(rb"=([0-9a-f]{2})", re.IGNORECASE)
_WORD = regex(r"(?:[a-z0-9_.@+-]|=[0-9a-f]{2})*(?:==[0-9a-f]{32})?")  # what an id is in a key


@dataclass(frozen=True, slots=True)
class SessionKey:
    """A key of an agent: whose session, and which."""

    agent: str
    rest: str

    def __str__(self) -> str:
        return f"agent:{self.agent}:{self.rest}"


@dataclass(frozen=True, slots=True)
class Chat:
    """The group or channel that a session talks in."""

    channel: str
    kind: Literal["group", "channel"]
    id: str


@dataclass(frozen=True, slots=True)
class AnnounceTarget:
    """Where an announcement of a session goes."""

    channel: str
    to: str
    thread: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Whom a message came from: a person (`dm`), a group or a channel."""

    channel: str = ""
    id: str = ""
    kind: Literal["dm", "group", "channel"] = "dm"
    account: str = ""


# Parse


def parse_key(key: str) -> SessionKey | None:
    """Return the two parts of an agent's key, or None when `key` is not one."""
    parts = _parts(trim(key))
    if len(parts) < 3 or parts[0] != "agent" or not (agent := trim(parts[1])):
        return None
    rest = parts[2:]
    while rest and not trim(rest[-1]):  # trimming would leave a part that is empty, and such parts are gone
        rest.pop()
    while rest and not trim(rest[0]):
        del rest[0]
    return SessionKey(agent, trim(":".join(rest))) if rest else None


def agent_from_key(key: str) -> str:
    """Return the id of the agent that a key belongs to; keys without one are the main agent's."""
    parsed = parse_key(key)
    return to_agent(parsed.agent if parsed else "")


def parent_from_key(key: str) -> str | None:
    """Return the key of the conversation that a thread or topic hangs from, or None when it is no thread."""
    found = _LAST_MARKER.match(trim(key))
    return (trim(found[1]) or None) if found else None


def chat_from_key(key: str) -> Chat | None:
    """Return the group or channel named in a key, whatever thread, agent or subagent stands around it."""
    parts = [trim(part) for part in _parts(trim(key))]
    words = [part.lower() for part in parts]  # in any case: finding a chat can only narrow, overlooking one would widen
    start = 2 if words[:1] == ["agent"] else 0
    start += words[start : start + 1] == ["subagent"]
    words, parts = words[start:], parts[start:]
    if len(parts) < 3 or words[1] not in ("group", "channel"):
        return None
    end = next((index for index, word in enumerate(words) if index > 2 and word in ("thread", "topic")), len(parts))
    channel, id = to_channel(words[0]), unescape_id(":".join(part for part in parts[2:end] if part))
    return Chat(channel, "group" if words[1] == "group" else "channel", id) if channel and id else None


def direct_from_key(key: str) -> str | None:
    """Return the channel of the direct message that a key is for, "" where it names none, None for every other key."""
    words = [trim(part).lower() for part in _parts(trim(key))]
    start = 2 if words[:1] == ["agent"] else 0
    start += words[start : start + 1] == ["subagent"]
    rest = words[start : start + 3]  # dm:, channel:dm: or channel:account:dm:
    at = next((at for at, word in enumerate(rest) if word in ("dm", "direct")), None)
    return None if at is None or chat_from_key(key) else to_channel(rest[0] if at else "") or ""


def target_from_key(key: str) -> AnnounceTarget | None:
    """Return where to announce the outcome of a session, or None when it has no group or channel."""
    whole = trim(key)
    parsed = parse_key(whole)
    parts = _parts(parsed.rest if parsed else whole)
    if len(parts) < 3 or parts[1] not in ("group", "channel"):
        return None
    kind, id, thread = parts[1], trim(":".join(parts[2:])), None
    if found := _THREAD_NUMBER.fullmatch(id):
        id, thread = found[1], found[2]
    channel, id = to_channel(parts[0]), unescape_id(id)
    if channel is None or not id:
        return None
    if channel in _CHANNELS:
        id = f"{'channel' if channel in _CHANNEL_ONLY else kind}:{id}"
    return AnnounceTarget(channel, id, thread)


def channel_from_key(key: str, kind: SessionKind, known: Iterable[str | None] = ()) -> str:
    """Return the channel a session belongs to: what is `known` of it, else what its key says."""
    if kind in ("cron", "hook", "node"):
        return "internal"
    for name in known:
        if name and (channel := trim(name)):
            return channel
    chat = chat_from_key(key)
    return chat.channel if chat else "unknown"


# Check


def check_key(key: str) -> str:
    """Return the key of a session as it is; raise ToolError unless it is one that names one session and nothing else.

    It is no path, and must not look like one: no `..`, no slash of any kind; nor like another key.
    """
    if not key.strip(". :~"):
        raise _bad_key(key, "is no name")
    if key != key.strip():
        raise _bad_key(key, "has blanks around it")
    if len(key.encode(errors="replace")) > _MAX_KEY_BYTES:
        raise _bad_key(key, f"is longer than {_MAX_KEY_BYTES} bytes")
    if ".." in key or not _is_plain(key):
        raise _bad_key(key, "holds what no key may")
    return key


def _is_plain(key: str) -> bool:
    """Tell whether a key is made of letters and digits of any script that pass for no other ones, and a few signs."""
    if _PLAIN_KEY.fullmatch(key):
        return True
    return (
        escape(key) == key
        and unicodedata.normalize("NFKC", key) == key
        and all(_PLAIN_KEY.fullmatch(sign) or unicodedata.category(sign)[0] in "LMN" for sign in key)
    )


def _bad_key(key: str, what: str) -> ToolError:
    return ToolError(
        f"the session key {quote_short(key, 64)} {what}; write letters, digits and signs like : - _ @ + # between them",
        code="bad_key",
    )


# Classify


def is_subagent(key: str) -> bool:
    """Tell whether a key claims to be a subagent's."""
    return _has_prefix(key, "subagent:")


def is_acp(key: str) -> bool:
    """Tell whether a key is one of the agent client protocol."""
    return _has_prefix(key, "acp:")


def is_session_id(text: str) -> bool:
    """Tell whether `text` is the id of a session (a UUID)."""
    return _UUID.fullmatch(trim(text).lower()) is not None


def is_key(text: str) -> bool:
    """Tell whether `text` has the shape of a session key."""
    whole = trim(text)
    return (
        whole in (_MAIN, "global", "unknown")
        or whole.startswith(("agent:", "cron:", "hook:", "node-", "node:"))
        or is_acp(whole)
        or _names_chat(whole)
    )


def may_be_session_id(text: str) -> bool:
    """Tell whether `text` is worth looking up as a session id: it is one, or it is no key."""
    return is_session_id(text) or not is_key(text)


def kind_from_key(key: str, main: tuple[str, ...] = (_MAIN,)) -> SessionKind:
    """Return what kind of session a key is for; `main` are the names of the main session."""
    whole = trim(key)
    parsed = parse_key(whole)
    rest = parsed.rest if parsed else whole
    if rest in main:
        return "main"
    if rest.startswith("cron:"):
        return "cron"
    if rest.startswith("hook:"):
        return "hook"
    if rest.startswith(("node-", "node:")):
        return "node"
    return "group" if _names_chat(whole) else "other"


# Build


def to_agent(text: str) -> str:
    """Return the agent id meant by `text`: lower case, path-safe, at most 64 characters."""
    return _slug(text) or _MAIN


def to_account(text: str) -> str:
    """Return the account id meant by `text`, `default` for none."""
    return _slug(text) or "default"


def to_channel(text: str) -> str | None:
    """Return the channel meant by `text`, its aliases resolved, or None for none."""
    name = trim(text).lower()
    return _CHANNEL_ALIASES.get(name, name) or None


def to_main(text: str) -> str:
    """Return the name of the main session meant by `text`."""
    return trim(text).lower() or _MAIN


def to_main_alias(text: str, scope: str) -> str:
    """Return what `main` stands for: one session for everybody in the scope `global`, else the main session."""
    return "global" if scope == "global" else to_main(text)


def to_request_key(key: str) -> str | None:
    """Return a key as its agent speaks of it: without the agent."""
    whole = trim(key)
    parsed = parse_key(whole)
    return parsed.rest if parsed else whole or None


def to_store_key(agent: str, request: str, *, main: str = _MAIN) -> str:
    """Return the full key that an agent's own word for a session stands for."""
    rest = trim(request)
    if rest in ("", _MAIN):
        rest = to_main(main)
    rest = rest.lower()
    return rest if rest.startswith("agent:") else str(SessionKey(to_agent(agent), rest))


def to_peer_key(
    agent: str,
    peer: Peer,
    *,
    scope: DmScope = "main",
    links: Mapping[str, Sequence[str]] | None = None,
    main: str = _MAIN,
) -> str:
    """Return the key of the session that a message of `peer` belongs to.

    `scope` says how far persons are kept apart; `links` maps one name for a person to the ids they have.
    """
    channel, id = trim(peer.channel).lower() or "unknown", trim(peer.id)
    if peer.kind != "dm":
        rest = f"{channel}:{peer.kind}:{id.lower() or 'unknown'}"
    elif scope == "main" or not id:
        rest = to_main(main)
    else:
        where = {
            "per-peer": "",
            "per-channel-peer": f"{channel}:",
            "per-account-channel-peer": f"{channel}:{to_account(peer.account)}:",
        }[scope]
        rest = f"{where}dm:{(_find_linked_name(peer, links or {}) or id).lower()}"
    return str(SessionKey(to_agent(agent), rest))


def to_thread_key(key: str, thread: str) -> str:
    """Return the key of a thread of the conversation `key`; with no thread, the conversation's own."""
    name = trim(thread).lower()
    return f"{key}:thread:{name}" if name else key


def escape_id(id: str, max_chars: int) -> str:
    """Return an id as a word of a key that no other id has: small letters, digits, `-_.@+`, and `=` with each other
    byte; of more than `most` characters the beginning and a sum.
    """
    word = _ODD_BYTE.sub(lambda found: b"=%02x" % found[0][0], id.encode(errors="surrogatepass")).decode()
    if len(word) <= max_chars:
        return word
    return f"{word[: max_chars - 34]}=={hashlib.blake2b(word.encode(), digest_size=16).hexdigest()}"


def unescape_id(word: str) -> str:
    """Return the id that a word of a key stands for."""
    data = _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), word.encode(errors="surrogatepass"))
    return data.decode(errors="replace")


def is_escaped(word: str) -> bool:
    """Tell whether some id may have this as its word of a key."""
    return _WORD.fullmatch(word) is not None


# Permit


def is_within(key: str, own: str) -> bool:
    """Tell whether a session is that of a caller, or one below it; a caller without one has none."""
    return bool(own) and (key == own or key.startswith(f"{own}:"))


def may_message(requester: str, target: str, *, enabled: bool, allow: Sequence[str] | None = None) -> bool:
    """Tell whether one agent may send to another's sessions; both must match `allow`, None means any agent."""
    if requester == target:
        return True
    return enabled and (
        allow is None or all(any(_matches_rule(rule, agent) for rule in allow) for agent in (requester, target))
    )


def _matches_rule(rule: str, agent: str) -> bool:
    pattern = trim(rule)
    if "*" not in pattern:
        return pattern == agent
    # only the star is a wildcard
    return fnmatchcase(agent.lower(), re.sub(r"[?\[]", r"[\g<0>]", pattern.lower()))


def _parts(key: str) -> list[str]:
    return [part for part in key.split(":") if part]


def _has_prefix(key: str, prefix: str) -> bool:
    whole = trim(key)
    parsed = parse_key(whole)
    return whole.lower().startswith(prefix) or (parsed is not None and parsed.rest.lower().startswith(prefix))


def _names_chat(key: str) -> bool:
    return ":group:" in key or ":channel:" in key


def _slug(text: str) -> str:
    whole = trim(text)
    if _ID.fullmatch(whole):
        return whole.lower()
    return _NOT_ID.sub("-", whole.lower()).strip("-")[:64]


def _find_linked_name(peer: Peer, links: Mapping[str, Sequence[str]]) -> str | None:
    """Return the one name of a person who is known by several ids."""
    id, channel = trim(peer.id).lower(), trim(peer.channel).lower()
    known = {id, f"{channel}:{id}"} if channel else {id}
    for name, ids in links.items():
        if trim(name) and any(trim(each).lower() in known for each in ids):
            return trim(name)
    return None
