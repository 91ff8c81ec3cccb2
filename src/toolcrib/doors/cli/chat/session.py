"""The session a chat goes on with: the latest of its agent in this folder, unless another is named; and its lock."""

import fcntl
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex

from toolcrib.agent.session_log import recall
from toolcrib.app import Belt, Crib, Running
from toolcrib.app.models import OFFLINE
from toolcrib.define.caller import Caller
from toolcrib.define.errors import CribError
from toolcrib.define.log import SessionStore
from toolcrib.define.model import model_name
from toolcrib.define.session import agent_from_key, to_agent
from toolcrib.define.turn import TurnRequest, user_message
from toolcrib.doors.cli._format import flatten
from toolcrib.policy.resolve import mark_terminal_owner

_MAX_SESSIONS = 1000  # sessions that are looked through
_FOLDER_NAME_CHARS = 24  # characters of a folder's name in a key


def new_chat_key(agent: str, folder: Path) -> str:
    """Return the key of a new chat."""
    return f"{_key_prefix(agent, folder)}:{token_hex(4)}"


async def find_latest(store: SessionStore, agent: str, folder: Path) -> str | None:
    """Return the chat of this agent in this folder that was changed last."""
    beginning = f"{_key_prefix(agent, folder)}:"
    heads = await store.list(most=_MAX_SESSIONS)
    return next((head.key for head in heads if head.key.startswith(beginning) and head.count), None)


@dataclass(frozen=True, slots=True)
class Recap:
    """What stands in a session: how many messages, the last question, and its answer; without one, how it stands."""

    count: int
    asked: str
    answered: str
    unfinished: str


async def summarize_session(store: SessionStore, key: str) -> Recap:
    """Return what stands in a session."""
    found = recall(await store.lines(key))
    messages = list(found.history)
    words = [message.plain_text.strip() for message in messages]
    at = next((at for at in range(len(messages) - 1, -1, -1) if messages[at].role == "user" and words[at]), 0)
    begun = ", ".join(dict.fromkeys(flatten(call.name) for call in found.uncertain))
    unfinished = f"{begun} began and never ended, and may have done a part of it" if begun else "That was not finished"
    last = messages[-1] if len(messages) > at + 1 else None
    is_done = last is not None and last.role == "assistant" and not last.calls
    return Recap(len(messages), words[at] if words else "", words[-1] if is_done else "", unfinished)


class SessionLock:
    """Holds one session for this chat, so that another chat in the same folder begins its own.

    The kernel lets go of it with the process, however that ends.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = self._at = -1

    def take(self, key: str) -> bool:
        """Hold this session and no other from here on; return False when another chat holds it."""
        at = int.from_bytes(hashlib.sha256(key.encode()).digest()[:7])
        if at == self._at or not self._open():
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

    def _open(self) -> bool:
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


def _key_prefix(agent: str, folder: Path) -> str:
    """Return what all chats of an agent in a folder begin with: its name, for people, and what makes it unlike others.

    The name of a folder can be anything, so nothing of it may look like another part of a key.
    """
    name = to_agent(folder.name)[:_FOLDER_NAME_CHARS].strip("-_") or "folder"
    mark = hashlib.sha256(str(folder).encode(errors="surrogateescape")).hexdigest()[:8]
    return f"agent:{to_agent(agent)}:chat:{name}-{mark}"


class ChatSession:
    """One caller of a crib, who goes from session to session and from model to model.

    `busy_session` is the session that this one would have gone on with, did another chat not do so.
    """

    def __init__(self, crib: Crib, caller: Caller, folder: Path, model: str | None, lock: SessionLock) -> None:
        self.crib, self.folder = crib, folder
        self.agent = to_agent(caller.agent or "main")
        self.session = caller.session or ""
        self._caller, self._model, self._lock = caller, model, lock
        self.busy_session = ""

    async def open(self, *, anew: bool = False) -> None:
        """Take the session that was named, else the latest of this agent and folder; `anew` begins another one."""
        self.busy_session = ""
        if anew or not self.session:
            found = None if anew else await find_latest(self.crib.sessions, self.agent, self.folder)
            is_free = found is not None and self._lock.take(found)
            self.busy_session = "" if is_free else found or ""
            self.session = found if found and is_free else new_chat_key(self.agent, self.folder)
        self._lock.take(self.session)  # one that was named is taken even if another chat has it

    async def switch_session(self, key: str) -> None:
        """Go on with another session."""
        self.agent, self.session = agent_from_key(key), key
        await self.open()

    async def switch_agent(self, id: str) -> None:
        """Talk to another agent, in its latest session here."""
        if (agent := to_agent(id)) not in self.agents():
            raise CribError(f"there is no agent {id[:64]!r}; known: {', '.join(self.agents())}")
        self.agent, self.session, self._model = agent, "", None
        await self.open()

    def switch_model(self, name: str) -> None:
        """Let another model answer from the next message on; `default` is the configured one."""
        if name != "default":
            self.crib.models.get(name)  # says what is wrong with it
        self._model = None if name == "default" else ":".join(model_name(name))

    def agents(self) -> Sequence[str]:
        """Return the agents there are."""
        return self.crib.config.agent_ids()

    def models(self) -> Sequence[str]:
        """Return the models that the configuration or the environment names."""
        named = [each.model for _, each in self.crib.config.list_agents()]
        known = [self.crib.models.name_for(self.agent), self.crib.config.default_model, *named, OFFLINE]
        return tuple(dict.fromkeys(":".join(model_name(name)) for name in known if name))

    async def model(self) -> str:
        """Return the model that answers: the one chosen here, else the session's, else the agent's."""
        if self._model:
            return self._model
        head = await self.crib.sessions.find(self.session)
        return self.crib.models.name_for(self.agent, head.model if head else "")

    async def belt(self) -> Belt:
        """Return the tools of this caller, with that model."""
        provider, model = model_name(await self.model())
        return self.crib.belt(replace(self.caller, provider=provider, model=model))

    @property
    def caller(self) -> Caller:
        """Who talks, in this session."""
        return mark_terminal_owner(replace(self._caller, session=self.session, agent=self.agent))

    def start_turn(self, text: str) -> Running:
        """Start to answer a message."""
        request = TurnRequest(message=user_message(text), caller=self.caller, model=self._model)
        return self.crib.start(request)
