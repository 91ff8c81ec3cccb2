"""Which session a chat goes on with: the latest of its agent in this folder, unless another is named."""

import hashlib
from pathlib import Path
from secrets import token_hex

from toolcrib.agent.recall import recall
from toolcrib.define.log import SessionStore
from toolcrib.define.message import Message
from toolcrib.define.result import Text
from toolcrib.define.session import to_agent

__all__ = ["Recap", "latest", "new_key", "recap"]

_MOST = 1000  # sessions that are looked through
_LONGEST = 24  # characters of a folder's name in a key


def new_key(agent: str, folder: Path) -> str:
    """Return the key of a new chat."""
    return f"{_beginning(agent, folder)}:{token_hex(4)}"


async def latest(store: SessionStore, agent: str, folder: Path) -> str | None:
    """Return the chat of this agent in this folder that was changed last."""
    beginning = f"{_beginning(agent, folder)}:"
    heads = await store.list(most=_MOST)
    return next((head.key for head in heads if head.key.startswith(beginning) and head.count), None)


class Recap:
    """What stands in a session: how many messages, the last question and the last answer."""

    def __init__(self, messages: list[Message]) -> None:
        self.count = len(messages)
        self.asked, self.answered = _last(messages, "user"), _last(messages, "assistant")


async def recap(store: SessionStore, key: str) -> Recap:
    """Return what stands in a session."""
    return Recap(list(recall(await store.lines(key)).history))


def _beginning(agent: str, folder: Path) -> str:
    """Return what all chats of an agent in a folder begin with: its name, for people, and what makes it unlike others.

    The name of a folder can be anything, so nothing of it may look like another part of a key.
    """
    name = to_agent(folder.name)[:_LONGEST].strip("-_") or "folder"
    mark = hashlib.sha256(str(folder).encode(errors="surrogateescape")).hexdigest()[:8]
    return f"agent:{to_agent(agent)}:chat:{name}-{mark}"


def _last(messages: list[Message], role: str) -> str:
    for message in reversed(messages):
        words = "\n".join(part.text for part in message.content if isinstance(part, Text)).strip()
        if message.role == role and words:
            return words
    return ""
