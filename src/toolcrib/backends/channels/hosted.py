"""What channels of hosted services share: which hosts are theirs, how far each chat was heard, what an action needs."""

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import orjson

from toolcrib.define.errors import ToolError

_MAX_CHATS = 50  # in which we look for messages that were missed
_SECURE = ("https", "wss")
_MAX_WAIT = 60.0


class HeardSoFar:
    """How far we have heard: the service's own session, and the last message of the chats that spoke last.

    A service forgets a session that was left for long; what was missed is asked for, chat by chat.
    """

    def __init__(self, cursor: str) -> None:
        state = orjson.loads(cursor) if cursor else {}
        self.session: dict[str, Any] = state.get("session", {})
        self.chats: dict[str, list[str]] = state.get("chats", {})

    def note(self, chat: str, id: str, about: str = "") -> None:
        """Note the last message of a chat, with what has to be known to ask for the next ones."""
        self.chats.pop(chat, None)
        self.chats[chat] = [id, about]
        while len(self.chats) > _MAX_CHATS:
            del self.chats[next(iter(self.chats))]

    def to_cursor(self) -> str:
        """Return it as a cursor."""
        return orjson.dumps({"session": self.session, "chats": self.chats}).decode()


def check_host(url: str, base: str, *domains: str) -> str:
    """Return an address that a service gave us; raise ToolError when it leads away from the service.

    `base` is where the operator says that it is; to its own domains we go only in secret.
    """
    parts, own = urlsplit(url), urlsplit(base)
    host = (parts.hostname or "").lower()
    is_own = (host, parts.port) == (own.hostname, own.port) and (parts.scheme in _SECURE or own.scheme not in _SECURE)
    is_theirs = parts.scheme in _SECURE and parts.port in (None, 443)
    if is_own or (is_theirs and any(f".{host}".endswith(f".{each}") for each in domains)):
        return url
    raise ToolError(f"{host[:100]!r} is none of the service's own hosts", code="denied")


def need(params: Mapping[str, Any], name: str) -> str:
    """Return what an action cannot do without."""
    value = params.get(name)
    if not isinstance(value, str | int) or isinstance(value, bool) or not str(value).strip():
        raise ToolError(f"{name} is missing", code="bad_arguments")
    return str(value).strip()


def to_wait(seconds: Any) -> float:
    """Return how long a service wants to be left alone, as far as we do that; a second where it does not say."""
    try:
        delay = float(seconds)
    except (TypeError, ValueError):
        return 1.0
    return max(0.0, min(delay, _MAX_WAIT)) if math.isfinite(delay) else 1.0


def to_limit(params: Mapping[str, Any], default: int = 20, maximum: int = 100) -> int:
    """Return how many rows are wanted."""
    value = params.get("limit")
    return max(1, min(value, maximum)) if isinstance(value, int) and not isinstance(value, bool) else default
