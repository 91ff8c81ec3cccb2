"""Which session a chat goes on with: the latest of its agent in this folder, unless another is named."""

import fcntl
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex

from toolcrib.agent.session_log import recall
from toolcrib.define.log import SessionStore
from toolcrib.define.message import Message
from toolcrib.define.session import to_agent
from toolcrib.doors.cli._calls import flat

__all__ = ["Claim", "Recap", "latest", "new_key", "recap"]

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


@dataclass(frozen=True, slots=True)
class Recap:
    """What stands in a session: how many messages, the last question, and its answer; without one, how it stands."""

    count: int
    asked: str
    answered: str
    unfinished: str


async def recap(store: SessionStore, key: str) -> Recap:
    """Return what stands in a session."""
    found = recall(await store.lines(key))
    messages = list(found.history)
    at = next(
        (at for at in range(len(messages) - 1, -1, -1) if messages[at].role == "user" and _words(messages[at])), 0
    )
    begun = ", ".join(dict.fromkeys(flat(call.name) for call in found.uncertain))
    unfinished = f"{begun} began and never ended, and may have done a part of it" if begun else "That was not finished"
    last = messages[-1] if len(messages) > at + 1 else None
    is_done = last is not None and last.role == "assistant" and not last.calls
    asked = _words(messages[at]) if messages else ""
    return Recap(len(messages), asked, _words(last) if last and is_done else "", unfinished)


class Claim:
    """Holds one session for this chat, so that another chat in the same folder begins its own.

    The kernel lets go of it with the process, however that ends.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = self._at = -1

    def take(self, key: str) -> bool:
        """Hold this session and no other from here on; return False when another chat holds it."""
        at = int.from_bytes(hashlib.sha256(key.encode()).digest()[:7])
        if at == self._at or not self._opened():
            return True  # where nothing can be kept, nobody goes on with anything either
        try:
            fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, at)
        except (BlockingIOError, PermissionError):
            return False
        except OSError:  # a file system without locks
            return True
        if self._at >= 0:
            fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, self._at)
        self._at = at
        return True

    def _opened(self) -> bool:
        if self._fd < 0:
            try:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError:
                return False
        return True

    def close(self) -> None:
        """Let go."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = self._at = -1


def _beginning(agent: str, folder: Path) -> str:
    """Return what all chats of an agent in a folder begin with: its name, for people, and what makes it unlike others.

    The name of a folder can be anything, so nothing of it may look like another part of a key.
    """
    name = to_agent(folder.name)[:_LONGEST].strip("-_") or "folder"
    mark = hashlib.sha256(str(folder).encode(errors="surrogateescape")).hexdigest()[:8]
    return f"agent:{to_agent(agent)}:chat:{name}-{mark}"


def _words(message: Message) -> str:
    return message.plain_text.strip()
