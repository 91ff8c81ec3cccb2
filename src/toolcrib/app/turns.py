"""Turns of a crib: a message in, a running turn out, whose events can be followed, steered and stopped."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from secrets import token_hex
from types import TracebackType
from typing import Any, Self

from toolcrib.agent.inbox import Inbox
from toolcrib.agent.limits import Limits
from toolcrib.agent.loop import Setup
from toolcrib.agent.outside import asked_after_outside
from toolcrib.agent.prompt import Surroundings, system_prompt
from toolcrib.agent.turn import Order, Turns, Work
from toolcrib.config.load import Loaded
from toolcrib.config.settings import Config, LimitSettings
from toolcrib.define import session
from toolcrib.define.caller import Caller
from toolcrib.define.errors import CribError
from toolcrib.define.event import Event, TurnFinished
from toolcrib.define.message import Message
from toolcrib.define.model import Effort, Model
from toolcrib.define.ports import Approver
from toolcrib.define.result import Text
from toolcrib.define.tool import Tool
from toolcrib.policy.resolve import agent_of, resolve

from .belt import Belt
from .models import Models

__all__ = ["Desk", "Running", "Wanted", "limits_of", "outside_entries", "today"]

Emit = Callable[[Event], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a turn is asked for besides its message; whatever is left out comes from the configuration.

    `leaf` is the line of the session to go on from; without one, its last. `system` makes the system prompt from the
    names of the tools, and `work` answers, where either is not the usual.
    """

    session: str = ""
    caller: Caller = field(default_factory=Caller)
    model: Model | str | None = None
    extra: tuple[Tool, ...] = ()
    approver: Approver | None = None
    limits: Limits | None = None
    effort: Effort = ""
    leaf: str | None = None
    system: Callable[[Iterable[str]], str] | None = None
    work: Work | None = None


class Running(AsyncIterator[Event]):
    """A turn that goes on: iterate over its events, or wait for its `end`.

    async with crib.turn("list the files in src") as turn:
        async for event in turn: ...

    Leaving the block stops it. Without the block it goes on until it is done, stopped, or the crib is closed.
    """

    def __init__(self, session: str, run: Callable[[Emit, Inbox], Coroutine[Any, Any, TurnFinished]]) -> None:
        self.session = session
        self._inbox = Inbox()
        self._events: deque[Event] = deque()
        self._news: asyncio.Future[None] | None = None  # whoever waits for an event
        self._task = asyncio.ensure_future(run(self._emit, self._inbox))
        self._task.add_done_callback(lambda _: self._wake())
        self._end: TurnFinished | None = None

    def _emit(self, event: Event) -> None:
        self._events.append(event)
        if self._news is not None:
            self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def __anext__(self) -> Event:
        while not self._events:
            if self._task.done():
                if not self._task.cancelled() and (error := self._task.exception()):
                    raise error
                raise StopAsyncIteration
            self._news = self._news or asyncio.get_running_loop().create_future()
            try:
                await asyncio.shield(self._news)
            finally:
                self._news = None
        event = self._events.popleft()
        if isinstance(event, TurnFinished):
            self._end = event
        return event

    async def end(self) -> TurnFinished:
        """Wait for the end, leaving out the events on the way."""
        async for _ in self:
            pass
        if self._end is None:
            return TurnFinished("stopped", sentence="stopped before it was done")
        return self._end

    def steer(self, message: str | Message) -> None:
        """Say something that is heard as soon as the calls under way are done."""
        self._inbox.steer(_message(message) if isinstance(message, str) else message)

    def follow_up(self, text: str) -> None:
        """Say something that is answered next, in the same turn."""
        self._inbox.follow_up(_message(text))

    def stop(self) -> None:
        """End it: bodies and their processes are stopped, calls that have not started never start."""
        self._task.cancel()

    def when_done(self, then: Callable[[], object]) -> None:
        """Call `then` at the end."""
        self._task.add_done_callback(lambda _: then())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        await asyncio.wait([self._task])


class Desk:
    """Takes messages for the sessions of one crib."""

    def __init__(self, loaded: Loaded, models: Models, turns: Turns, belt: Callable[..., Belt]) -> None:
        self._loaded, self._models, self._turns, self._belt = loaded, models, turns, belt
        self._going: set[Running] = set()

    def turn(self, message: str | Message, wanted: Wanted) -> Running:
        """Start a turn. A bad session key, model or message is a CribError at once."""
        key = wanted.session or wanted.caller.session or _new_key(agent_of(wanted.caller))
        if isinstance(wanted.model, str):
            self._models.get(wanted.model)
        order = Order(
            session=session.check_key(key),
            message=_message(message) if isinstance(message, str) else message,
            setup=lambda switched: self._setup(key, wanted, switched),
            caller=replace(wanted.caller, session=key),
            leaf=wanted.leaf,
            work=wanted.work,
        )
        running = Running(key, lambda emit, inbox: self._turns.run(order, emit, inbox))
        self._going.add(running)
        running.when_done(lambda: self._going.discard(running))
        return running

    async def close(self) -> None:
        """Stop every turn that still goes on."""
        for running in self._going:
            running.stop()
        for running in tuple(self._going):
            await running.__aexit__(None, None, None)

    def _setup(self, key: str, wanted: Wanted, switched: str) -> Setup:
        """Return who answers: the model asked for, else the one the session was switched to, else the configured."""
        agent = agent_of(replace(wanted.caller, session=key))
        named = wanted.model or self._models.name_for(agent, switched)
        model = self._models.get(named) if isinstance(named, str) else named
        caller = replace(wanted.caller, session=key, provider=model.card.provider, model=model.card.model)
        handle = self._belt(caller, wanted.extra, approver=wanted.approver)
        return Setup(
            model=model,
            belt=handle.selection,
            caller=caller,
            window=handle.window,
            ports=handle.ports,
            limits=wanted.limits or limits_of(self._loaded.config, agent),
            system=wanted.system(handle.tools) if wanted.system else _usual_prompt(handle.tools, agent),
            effort=wanted.effort,
            after_outside=asked_after_outside(
                outside_entries(self._loaded, caller), handle.selection, handle.catalog.groups
            ),
        )


def outside_entries(loaded: Loaded, caller: Caller) -> tuple[str, ...]:
    """Return what a human is asked about once something is from outside: for all, for the caller, for its parents."""
    who = resolve(loaded.policy, caller)
    agents = dict.fromkeys(each.agent for each in (who, *who.ceiling))
    settings = (loaded.config.agent(each) for each in agents)
    own = (entry for each in settings if each for entry in each.tools.ask_after_outside)
    return (*loaded.config.tools.ask_after_outside, *own)


def limits_of(config: Config, agent: str) -> Limits:
    """Return the limits of an agent's turns: its own where it has them, else everybody's, else the usual."""
    settings, usual = config.agent(agent), Limits()
    own = settings.limits if settings else LimitSettings()

    def first(name: str) -> Any:
        found = (getattr(each, name) for each in (own, config.limits, usual))
        return next((value for value in found if value is not None), None)

    return Limits(turns=first("turns"), seconds=first("seconds"), tokens=first("tokens"), cost=first("cost"))


def _usual_prompt(tools: Iterable[str], agent: str) -> str:
    return system_prompt(tuple(tools), Surroundings(agent=agent, date=today()))


def today() -> str:
    """Return the date where we are."""
    return datetime.now().astimezone().date().isoformat()


def _new_key(agent: str) -> str:
    return f"agent:{agent}:run:{token_hex(6)}"


def _message(text: str) -> Message:
    if not text.strip():
        raise CribError("the message is blank; say what is to be done")
    return Message(role="user", content=(Text(text),))
