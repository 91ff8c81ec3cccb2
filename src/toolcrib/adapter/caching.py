"""Prompt caching: what a provider is told so that it need not read the same words again.

Anthropic keeps what stands before a mark, four of them at most, and finds it again only when a mark stands near where
one stood before. So one is on the tools, one on the system prompt, and one at the end of each of the user's last two
turns: the last is what the next request will find, the one before what this one finds. OpenAI keeps by itself and wants
a name to bring the requests of one conversation together. The others keep what they like.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from .target import Keep

__all__ = ["cache_key", "marked", "marked_turns"]

_Json = Mapping[str, Any]

_MARKED_TURNS = 2
_PLAIN_KEY = re.compile(r"[A-Za-z0-9._-]{1,64}")


def marked(blocks: Sequence[_Json], keep: Keep) -> list[_Json]:
    """Return the blocks with a mark on the last."""
    if keep == "none" or not blocks:
        return list(blocks)
    mark = {"type": "ephemeral", "ttl": "1h"} if keep == "long" else {"type": "ephemeral"}
    return [*blocks[:-1], {**blocks[-1], "cache_control": mark}]


def marked_turns(turns: Sequence[_Json], keep: Keep) -> list[_Json]:
    """Return the turns with a mark at the end of the user's last two."""
    made = list(turns)
    users = [at for at, turn in enumerate(turns) if turn["role"] == "user"] if keep != "none" else []
    for at in users[-_MARKED_TURNS:]:
        content = turns[at]["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        made[at] = {**turns[at], "content": marked(blocks, keep)}
    return made


def cache_key(session: str, keep: Keep) -> str:
    """Return the name that brings a conversation's requests together, "" for none; what may name people is hidden."""
    if not session or keep == "none":
        return ""
    return session if _PLAIN_KEY.fullmatch(session) else sha256(session.encode(errors="replace")).hexdigest()
