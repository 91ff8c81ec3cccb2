"""Lives of a crib that ends by being killed: turn after turn in one session, each step told on stdout as it is shown.

Run as a program. Every line on stdin is a life, started by a fork so that nobody waits for imports; it says:

    pid NUMBER           it lives
    turn TEXT            TurnStarted        heard TEXT     Received          shortened      Compacted
    tool KEY STATUS      ToolFinished       end REASON     TurnFinished
    did KEY NUMBER HOW   a body has just had its effect: one more line in the file of effects
    asked                the model of this life was asked for the first time; before it, for calls that have no result:
    told KEY KIND        it was told that nobody knows (`uncertain`), or that it was not run (`unrun`)
    summary              a summary was asked for
    strayed              a process was started that nobody keeps

and after its death `ended`, or `left` and how many processes outlived it.
"""

import asyncio
import ctypes
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import toolcrib
from toolcrib.agent.loop import TurnSetup
from toolcrib.agent.turn import Turns
from toolcrib.app import Crib, Running
from toolcrib.app.turns import TurnStarter
from toolcrib.backends.stores.blobs import SqliteBlobs
from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.record import SqliteRecord
from toolcrib.backends.stores.sessions import SqliteSessions
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.context import Ctx
from toolcrib.define.event import (
    Compacted,
    Event,
    Received,
    Replied,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from toolcrib.define.log import Line
from toolcrib.define.message import Call, Message, join_text
from toolcrib.define.model import ModelCard, Request
from toolcrib.define.record import RecordEntry
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import Tool, tool
from toolcrib.define.turn import TurnRequest, user_message
from toolcrib.testing.models import FunctionModel, call_reply, text_reply

__all__ = ["CARD", "KEY", "KINDS", "Life", "config_for", "long_text", "picture", "tell", "tools_for"]

KEY = "agent:main:run:lives"
CARD = ModelCard(provider="test", model="small", window=12_000, sees=True)
KINDS = {"uncertain": "nobody knows whether it took effect", "unrun": "was not run"}

_HOWS = ("quick", "quick", "slow", "long", "picture", "failing", "command")
_SLOW = 0.05  # seconds: long enough for a kill
_SUBREAPER = 36

Say = Callable[[str], None]
Start = Callable[..., Running]


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What one life is told: where it stands, and what it does by chance."""

    folder: Path
    number: int
    seed: int
    how: str = "kept"
    reuses_ids: bool = False
    first: str = ""  # a command that is the first call
    only: str = ""  # what every call is like
    patience: float = 5.0  # seconds that what outlives it may take to end

    @property
    def effects(self) -> Path:
        return self.folder / "effects"

    @property
    def state(self) -> Path:
        return self.folder / "state"


def tell(words: str) -> None:
    """Say a line: whoever reads it has it, whatever becomes of us."""
    os.write(1, words.encode() + b"\n")


def long_text(number: str) -> str:
    return f"paid {number} " + "word " * 2_000


def picture(number: str) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + number.encode() * 400


# the tools


def tools_for(life: Life, say: Say = tell) -> tuple[Tool, ...]:
    """Return a tool with an outside effect that can be counted, and the same one for bodies that run alone."""

    async def paid(ctx: Ctx, number: str, how: str) -> Result:
        _append(life.effects, f"{ctx.call.key} {number}\n")
        say(f"did {ctx.call.key} {number} {how}")
        match how:
            case "slow":
                ctx.progress(Result.text("half of it"))
                await asyncio.sleep(_SLOW)
            case "long":
                return Result.text(long_text(number))
            case "picture":
                return Result.image(picture(number), label=f"paid {number}")
            case "stray":
                subprocess.Popen(["sleep", "4321"], start_new_session=True)  # nobody keeps it
                say("strayed")
                await asyncio.Event().wait()
            case "failing":
                return Result.error(f"paid {number} and was not thanked")
        return Result.text(f"paid {number}")

    @tool(effects=set())
    async def pay(ctx: Ctx, number: str, how: str) -> Result:
        """Pay."""
        return await paid(ctx, number, how)

    @tool(effects=set(), exclusive=True)
    async def pay_alone(ctx: Ctx, number: str, how: str) -> Result:
        """Pay while nobody else does."""
        return await paid(ctx, number, how)

    return pay, pay_alone


def _append(path: Path, line: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(fd, line.encode())
        os.fsync(fd)
    finally:
        os.close(fd)


# the model


class Mind:
    """What the model of one life says: now a few calls, now a few words."""

    def __init__(self, life: Life, say: Say = tell) -> None:
        self._life, self._say = life, say
        self._chance = random.Random(life.seed)
        self._count = 0
        self._was_asked = False

    def number(self) -> str:
        self._count += 1
        return f"{self._life.number}.{self._count}"

    def answer(self, request: Request) -> Replied:
        if request.choice == "none":
            self._say("summary")
            return text_reply(f"notes by life {self._life.number}")
        if not self._was_asked:
            self._was_asked = True
            for key, kind in _without_result(request.history.since(0)):
                self._say(f"told {key} {kind}")
            self._say("asked")
        if request.history[-1].role == "tool" and self._chance.random() < 0.4:
            return text_reply(f"done {self.number()}")
        if self._life.first and self._count == 1:
            return call_reply(Call("first", "exec", {"command": self._life.first}))
        return call_reply(*(self._call(at) for at in range(self._chance.choice((1, 1, 2, 3)))))

    def _call(self, at: int) -> Call:
        number, how = self.number(), self._life.only or self._chance.choice(_HOWS)
        id = f"call_{at}" if self._life.reuses_ids else f"call_{number}"
        if how == "command":
            line = f"echo - {number} >> {self._life.effects}; sleep 0.02; echo paid {number}"
            return Call(id, "exec", {"command": line})
        name = "pay_alone" if self._chance.random() < 0.3 else "pay"
        return Call(id, name, {"number": number, "how": how})


def _without_result(messages: Sequence[Message]) -> Iterator[tuple[str, str]]:
    """Give the keys of the calls whose answers say that there is no result, and what they say."""
    keys: dict[str | None, str] = {}
    for message in messages:
        if message.role == "assistant":
            keys = {call.id: call.key for call in message.calls}
        elif message.role == "tool":
            words = "".join(part.text for part in message.content if isinstance(part, Text))
            for kind, sentence in KINDS.items():
                if sentence in words:
                    yield keys[message.call_id], kind


# the crib


class HastySessions(SqliteSessions):
    """Says that a line is kept before it is."""

    def append(self, key: str, lines: Sequence[Line], /, *, at: int) -> None:  # type: ignore[override]
        super().append(key, lines, at=at)


class HastyRecord(SqliteRecord):
    """Says that an entry is kept before it is."""

    def write(self, entry: RecordEntry, /) -> None:  # type: ignore[override]
        super().write(entry)


def config_for(life: Life) -> dict[str, Any]:
    return {
        # what is noted before a conversation is shortened is in the record, and on purpose in no log
        "memory": {"noteBeforeCompaction": False},
        "workspace": {"root": str(life.folder / "work")},
        "tools": {"exec": {"host": "host", "security": "full", "ask": "off"}},
    }


@asynccontextmanager
async def starting(life: Life) -> AsyncIterator[Start]:
    """Give what starts a turn: a crib that keeps its state, or one whose stores only say that they do."""
    (life.folder / "work").mkdir(exist_ok=True)
    if life.how == "kept":
        async with toolcrib.open(config_for(life), state=life.state, env={}) as crib:
            yield crib.turn
        return
    commits = Commits(SqliteFile(life.state / "crib.db", sync=life.how != "unsynced"))
    is_hasty = life.how == "hasty"
    sessions = (HastySessions if is_hasty else SqliteSessions)(commits)
    record = (HastyRecord if is_hasty else SqliteRecord)(commits)
    async with toolcrib.open(config_for(life), env={}) as crib:
        starter = TurnStarter(Turns(sessions, record, Resolver(crib, SqliteBlobs(commits))), crib.models)
        yield lambda message, **asked: starter.start(
            TurnRequest(message=user_message(message), **{**asked, "extra": tuple(asked["extra"])})
        )
    commits.close()


class Resolver:
    """Gives a turn what the crib gives it, with other blobs."""

    def __init__(self, crib: Crib, blobs: SqliteBlobs) -> None:
        self._crib, self._blobs = crib, blobs

    def resolve(self, request: TurnRequest, switched: str, /) -> TurnSetup:
        held = self._crib.belt(request.caller, request.extra)
        assert request.model is not None
        assert not isinstance(request.model, str)
        pipeline = replace(held.pipeline, blobs=self._blobs)
        return TurnSetup(
            model=request.model, belt=held.selection, caller=held.caller, pipeline=pipeline, ports=held.ports
        )


def told(event: Event) -> str:
    """Return what is said of an event, "" when nothing is."""
    match event:
        case TurnStarted(message=message):
            return f"turn {join_text(message)}"
        case Received(message=message):
            return f"heard {join_text(message)}"
        case Compacted():
            return "shortened"
        case ToolFinished(call=call, result=result):
            return f"tool {call.key} {result.status}"
        case TurnFinished(reason=reason):
            return f"end {reason}"
    return ""


async def live(life: Life) -> None:
    """Take turns without end."""
    chance = random.Random(life.seed + 1)
    mind = Mind(life)
    model = FunctionModel(mind.answer, CARD, keep=False)
    async with starting(life) as start:
        while True:
            turn = start(
                f"message {mind.number()}", caller=toolcrib.OWNER, session=KEY, model=model, extra=tools_for(life)
            )
            async for event in turn:
                if words := told(event):
                    tell(words)
                if isinstance(event, ToolStarted) and chance.random() < 0.1:
                    turn.steer(f"steered {mind.number()}")


async def measure(life: Life, turns: int = 3) -> None:
    """Take a few turns of two calls and a follow-up; nothing goes on in them before all that is shown was told."""
    shown, news = 0, asyncio.Condition()

    async def answer(request: Request) -> Replied:
        messages = request.history.since(0)
        begun = max(at for at, message in enumerate(messages) if join_text(message).startswith("message"))
        roles = [message.role for message in messages[begun:]]
        answers = roles.count("tool")
        async with news:
            await news.wait_for(lambda: shown == roles.count("user") + answers)
        number = f"{life.number}.{len(messages)}"
        return (
            text_reply("done")
            if answers == 2
            else call_reply(Call(f"c{number}", "pay", {"number": number, "how": "quick"}))
        )

    model = FunctionModel(answer, ModelCard(provider="test", model="patient"), keep=False)
    async with starting(life) as start:
        for at in range(turns):
            shown = 0
            turn = start(f"message {at}", caller=toolcrib.OWNER, session=KEY, model=model, extra=tools_for(life))
            turn.follow_up(f"follow-up {at}")
            async for event in turn:
                if words := told(event):
                    tell(words)
                    async with news:
                        shown += 1
                        news.notify_all()


def main() -> None:
    """Live once for every line of stdin; when a life is given as an argument, measure that."""
    if len(sys.argv) > 1:
        asyncio.run(measure(_life(sys.argv[1])))
        return
    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)  # whatever outlives a life comes to us
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    for line in sys.stdin:
        life = _life(line)
        if (child := os.fork()) == 0:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            tell(f"pid {os.getpid()}")
            asyncio.run(live(life))
        os.waitpid(child, 0)
        tell(f"left {left}" if (left := _outlived(life.patience)) else "ended")


def _life(text: str) -> Life:
    spec = json.loads(text)
    return Life(**{**spec, "folder": Path(spec["folder"])})


def _outlived(patience: float) -> int:
    """Wait for all that is left of a life; return how many processes do not end by themselves, having ended them."""
    end = time.monotonic() + patience
    while True:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return 0
        if (seconds := end - time.monotonic()) <= 0 or signal.sigtimedwait([signal.SIGCHLD], seconds) is None:
            left = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
            for each in left:
                os.kill(int(each), signal.SIGKILL)
                os.waitpid(int(each), 0)
            return len(left)


if __name__ == "__main__":
    main()
