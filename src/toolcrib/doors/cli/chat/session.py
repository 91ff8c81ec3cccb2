"""The session a chat goes on with: the latest of its agent in this folder, unless another is named; and its lock."""

import fcntl
import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from secrets import token_hex
from typing import Any

from toolcrib.app.models import OFFLINE
from toolcrib.define.caller import OWNER, Caller
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.gateway import ServiceAsk
from toolcrib.define.model import model_name
from toolcrib.define.session import agent_from_key, to_agent
from toolcrib.doors.cli._format import flatten
from toolcrib.doors.cli._talk import AskAs, AskedTurn, read_attachment
from toolcrib.lazy import dataclass, replace
from toolcrib.policy.resolve import mark_terminal_owner

_MAX_SESSIONS = 1000  # sessions that are looked through
_FOLDER_NAME_CHARS = 24  # characters of a folder's name in a key


def new_chat_key(agent: str, folder: Path) -> str:
    """Return the key of a new chat."""
    return f"{_key_prefix(agent, folder)}:{token_hex(4)}"


async def find_latest(ask: ServiceAsk, agent: str, folder: Path) -> str | None:
    """Return the chat of this agent in this folder that was changed last."""
    beginning = f"{_key_prefix(agent, folder)}:"
    rows = (await ask("sessions.list", {"limit": _MAX_SESSIONS}))["sessions"]
    return next((row["key"] for row in rows if row["key"].startswith(beginning) and row["lines"]), None)


@dataclass(frozen=True, slots=True)
class Recap:
    """What stands in a session: how many messages, the last question, and its answer; without one, how it stands."""

    count: int
    asked: str
    answered: str
    unfinished: str


async def summarize_session(ask: ServiceAsk, key: str) -> Recap | None:
    """Return what stands in a session, None when there is none."""
    try:
        page = await ask("sessions.history", {"key": key, "most": _MAX_SESSIONS})
    except ToolError as error:
        if error.code == "not_found":
            return None
        raise
    rows = page["messages"]
    uncertain = (await ask("sessions.status", {"key": key}))["uncertain"]
    words = [row["text"].strip() for row in rows]
    index = next((index for index in range(len(rows) - 1, -1, -1) if rows[index]["role"] == "user" and words[index]), 0)
    begun = ", ".join(dict.fromkeys(flatten(call["name"]) for call in uncertain))
    unfinished = f"{begun} began and never ended, and may have done a part of it" if begun else "That was not finished"
    last = rows[-1] if len(rows) > index + 1 else None
    is_done = last is not None and last["role"] == "assistant" and "calls" not in last
    count = page["before"] + len(rows)
    return Recap(count, words[index] if words else "", words[-1] if is_done else "", unfinished)


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
    """One caller, who goes from session to session and from model to model, by asking the services of a crib.

    `busy_session` is the session that this one would have gone on with, did another chat not do so.
    """

    def __init__(self, ask: AskAs, caller: Caller, folder: Path, model: str | None, lock: SessionLock) -> None:
        self._ask, self._caller, self._model, self._lock = ask, caller, model, lock
        self.folder = folder
        self.agent = to_agent(caller.agent or "main")
        self.session = caller.session or ""
        self.busy_session = ""
        self.agents: Sequence[str] = ()
        self.models: Sequence[str] = ()
        self.tools: Sequence[str] = ()
        self._pictures: list[dict[str, str]] = []

    async def open(self, *, anew: bool = False) -> None:
        """Take the session that was named, else the latest of this agent and folder; `anew` begins another one."""
        self.busy_session = ""
        if anew or not self.session:
            found = None if anew else await find_latest(self.ask_owner, self.agent, self.folder)
            is_free = found is not None and self._lock.take(found)
            self.busy_session = "" if is_free else found or ""
            self.session = found if found and is_free else new_chat_key(self.agent, self.folder)
        self._lock.take(self.session)  # one that was named is taken even if another chat has it
        if not self.agents:
            self.agents = [each["agentId"] for each in (await self.ask_owner("health", {}))["agents"]]
            named = [each["id"] for each in (await self.ask_owner("models.list", {}))["models"]]
            self.tools = [each["tool"] for each in (await self.verdicts())["tools"]]
            self.models = tuple(dict.fromkeys(":".join(model_name(name)) for name in (*named, OFFLINE)))

    async def switch_session(self, key: str) -> None:
        """Go on with another session."""
        self.agent, self.session = agent_from_key(key), key
        await self.open()

    async def switch_agent(self, id: str) -> None:
        """Talk to another agent, in its latest session here."""
        if (agent := to_agent(id)) not in self.agents:
            raise CribError(f"there is no agent {id[:64]!r}; known: {', '.join(self.agents)}")
        self.agent, self.session, self._model = agent, "", None
        await self.open()

    async def switch_model(self, name: str) -> None:
        """Let another model answer from the next message on; `default` is the configured one."""
        chosen = None if name == "default" else ":".join(model_name(name))
        await self.ask("tools.list", {"sessionKey": self.session, "model": chosen or ""})  # says what is wrong with it
        self._model = chosen

    async def model(self) -> str:
        """Return the model that answers: the one chosen here, else the session's, else the agent's."""
        if self._model:
            return self._model
        who = (await self.verdicts())["caller"]
        return ":".join(filter(None, (who["provider"], who["model"])))

    async def verdicts(self, tool: str = "") -> dict[str, Any]:
        """Return the verdict on every tool of this caller with that model, or on one of them, layer by layer."""
        where = {"sessionKey": self.session, "model": self._model or ""}
        report: dict[str, Any] = await (
            self.ask("tools.explain", {**where, "tool": tool}) if tool else self.ask("tools.list", where)
        )
        return report

    @property
    def caller(self) -> Caller:
        """Who talks, in this session."""
        return mark_terminal_owner(replace(self._caller, session=self.session, agent=self.agent))

    async def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """Ask a service as the caller."""
        return await self._ask(self.caller, method, params)

    async def ask_owner(self, method: str, params: Mapping[str, Any]) -> Any:
        """Ask a service as the person at this terminal, whoever they talk as."""
        return await self._ask(OWNER, method, params)

    def attach(self, name: str) -> None:
        """Let a picture go with the next message."""
        self._pictures.append(read_attachment(self.folder / Path(name).expanduser()))

    def start_turn(self, text: str) -> AskedTurn:
        """Start to answer a message."""
        query = {"message": text, "agentId": self.agent, "model": self._model or "", "attachments": self._pictures}
        self._pictures = []
        return AskedTurn(self.ask, self.session, query)
