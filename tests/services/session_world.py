"""A store with two sessions, and the service over them."""

from tests.agent.logs import Log
from toolcrib.agent.session_log import recall
from toolcrib.backends.stores.memory import MemorySessions
from toolcrib.backends.stores.sessions_json import read_log, write_log
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.errors import CribError
from toolcrib.define.event import Usage
from toolcrib.define.log import Body, Ended, Labelled, SessionHead
from toolcrib.define.ports import SCOPES, Rpc
from toolcrib.services.feature import ModelNames
from toolcrib.services.router import Router
from toolcrib.services.session_commands import SessionCommands
from toolcrib.services.sessions import LogCodec, Sessions

__all__ = ["BOB", "CODEC", "KNOWN", "OTHER", "OWN", "OWNER", "Turn", "World", "world"]

OWN, OTHER = "agent:main:main", "agent:main:telegram:dm:7"
OWNER = Caller(session=OWN, owner=True)
BOB = Caller(session=OTHER, channel="telegram", sender=Sender(id="7"), owner=False)
KNOWN = {"gpt-5": "openai:gpt-5", "openai:gpt-5": "openai:gpt-5"}


class Turn:
    """A turn that runs: it alone writes to its session."""

    def __init__(self) -> None:
        self.taken: list[Body] = []
        self.kept: list[Body] = []

    def add(self, body: Body, /) -> str:
        self.taken.append(body)
        return "x"

    async def flush(self) -> None:
        self.kept = list(self.taken)

    def abandon(self) -> None:
        self.taken.clear()


CODEC = LogCodec(read_log, write_log)


class World:
    """Two sessions in a store, and the service over them."""

    def __init__(self) -> None:
        self.store = MemorySessions()
        self.running: dict[str, Turn] = {}
        names = ModelNames(
            named=KNOWN.get, choose=lambda _, word: word, default=lambda agent: f"test:{agent}", window=self._window
        )
        self.sessions = Sessions(
            self.store,
            recall,
            codec=CODEC,
            models=names,
            is_owner=lambda caller: bool(caller.owner),
            running=self.running.get,
            now=lambda: 9.0,
        )
        self._router = Router([self.sessions, SessionCommands(self.store, self.sessions)])

    def _window(self, model: str) -> int:
        if model == "test:broken":
            raise CribError("no key")
        return 1_000

    def rpc(self, caller: Caller = OWNER) -> Rpc:
        return self._router.rpc_for(caller)

    def admin(self, caller: Caller = OWNER) -> Rpc:
        return self._router.rpc_for(caller, SCOPES)

    async def make(self, key: str, log: Log | None = None, at: float = 1.0) -> None:
        await self.store.make(SessionHead(key=key, made_at=at, changed_at=at))
        if log is not None:
            self.store.append(key, log.lines, at=0)


def talk() -> Log:
    log = Log()
    log.add(Labelled("greetings"))
    log.user("hello")
    log.reply("hi", usage=Usage(200, 20), cost=0.5)
    log.add(Ended("turns", "stopped after 3 replies", Usage(200, 20), 0.5))
    return log


async def world() -> World:
    made = World()
    await made.make(OWN, talk(), at=2.0)
    await made.make(OTHER, at=1.0)
    return made
