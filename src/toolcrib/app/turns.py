"""Turns of a crib: a message in, a running turn out, whose events can be followed, steered and stopped."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from dataclasses import replace
from secrets import token_hex
from typing import Annotated, Any, Self

from toolcrib.adapter.trim import redact_parts
from toolcrib.agent.limits import Spent, reserve_for
from toolcrib.agent.loop import Loop, TurnSetup, current_turn
from toolcrib.agent.mailbox import Inbox
from toolcrib.agent.notes import gather_found
from toolcrib.agent.prompt import subagent_prompt, system_prompt
from toolcrib.agent.retry import Retries, ignore, reply_to
from toolcrib.agent.turn import Turns
from toolcrib.config.settings import Config, LimitSettings, SettingsSource
from toolcrib.define import event as events
from toolcrib.define import session
from toolcrib.define.agent import prompts_of
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.message import Message
from toolcrib.define.model import Model, Request, model_name
from toolcrib.define.quota import Meter, Reservation
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import tool
from toolcrib.define.turn import Limits, TurnRequest, user_message
from toolcrib.define.verdict import FIND_TOOLS
from toolcrib.policy.resolve import agent_of, is_owner
from toolcrib.policy.taint import taint_rules_for
from toolcrib.services.revocation import LiveWork

from .belt import BeltSource
from .methods import turn_of
from .models import Models
from .subagents import describe_place, today

Emit = Callable[[events.Event], None]

_SHOWN_CHARS = 64  # of a name of a model that is none
_LINE_CHARS = 160  # of a tool that was found
_UNFOLDED_EVENTS = 10_000  # of a turn, until the pieces among them are left out
_NO_LOOP = (
    "a turn needs a running event loop: start it inside an `async def` that asyncio.run or toolcrib.run_sync runs"
)


class _Link:
    """Room for one event; it has come, `at` its time, once there is a `next` link. `number` of them came before it."""

    __slots__ = ("at", "event", "next", "number")
    event: events.Event
    at: float

    def __init__(self, number: int) -> None:
        self.next: _Link | None = None
        self.number = number


class _Events:
    """The events of a turn so far, for readers who each go at their own pace."""

    def __init__(self) -> None:
        self.first = self._last = _Link(0)
        self.done: asyncio.Task[events.TurnFinished] | None = None
        self.end: events.TurnFinished | None = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._count, self._fold_at = 0, _UNFOLDED_EVENTS

    def add(self, event: events.Event) -> None:
        """Append an event and wake who waits for one."""
        link = self._last
        link.event, link.at, link.next = event, time.time(), _Link(link.number + 1)
        self._last = link.next
        if type(event) is events.TurnFinished:
            self.end = event
        self._count += 1
        if self._count >= self._fold_at:
            self._fold()
        if self._waiting:
            self._wake()

    def close(self, done: "asyncio.Task[events.TurnFinished]") -> None:
        """Take note that nothing more will come."""
        self.done = done
        self._wake()

    async def news(self) -> None:
        """Wait for the next event, or for the end."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.add(waiting)
        try:
            await waiting
        finally:
            self._waiting.discard(waiting)

    def _wake(self) -> None:
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_result(None)

    def _fold(self) -> None:
        """Leave out the pieces of what has come whole since, so that a long turn costs no more than its conversation.

        A reader who stands on such a piece gets it, and goes on with what is kept.
        """
        links, at = list[_Link](), self.first
        while at.next is not None:
            links.append(at)
            at = at.next
        following, is_whole, shown, self._count = at, False, set[str](), 0
        for link in reversed(links):
            link.next = following
            match link.event:
                case events.TextDelta() | events.ThinkingDelta() | events.CallDelta():
                    is_kept = not is_whole
                case events.ToolProgress(call=call) | events.ToolFinished(call=call):
                    is_kept = isinstance(link.event, events.ToolFinished) or call.key not in shown
                    shown.add(call.key)
                case event:
                    is_kept = True
                    is_whole = is_whole or isinstance(event, events.Replied | events.Retrying)
            if is_kept:
                following = link
                self._count += 1
        self.first = following
        self._fold_at = 2 * self._count + _UNFOLDED_EVENTS


class Subscription(AsyncIterator[events.Event]):
    """One reader of a turn: every event from the first one on, in order, however late or slowly it reads.

    Of a very long turn a reader who is far behind gets no pieces of replies and no progress of calls that have come
    whole since. Raises what the turn failed with. It holds up nobody, and may be dropped at any time.
    """

    def __init__(self, kept: _Events, after: int = 0) -> None:
        self._events, self._at, self.time = kept, kept.first, 0.0
        while self._at.number < after and self._at.next is not None:
            self._at = self._at.next

    @property
    def number(self) -> int:
        """How many events came before the one that is next."""
        return self._at.number

    @property
    def is_behind(self) -> bool:
        """Whether there is an event to read already."""
        return self._at.next is not None

    async def __anext__(self) -> events.Event:
        link = self._at
        while link.next is None:
            if (done := self._events.done) is not None:
                if not done.cancelled() and (error := done.exception()):
                    raise error
                raise StopAsyncIteration
            await self._events.news()
        self._at, self.time = link.next, link.at
        return link.event


class Running(AsyncIterator[events.Event]):
    """A turn that goes on: iterate over its events, or wait for its `end`.

    async with crib.turn("list the files in src", caller=toolcrib.OWNER) as turn:
        async for event in turn: ...

    Leaving the block stops it. Without the block it goes on until it is done, stopped, or the crib is closed. Any
    number of others may follow it, each by a `subscribe()` of its own.
    """

    def __init__(self, session: str, run: Callable[[Emit, Inbox], Coroutine[Any, Any, events.TurnFinished]]) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise CribError(_NO_LOOP) from None
        self.session = session
        self._inbox, self._events = Inbox(), _Events()
        self._own = self.subscribe()
        self._task = loop.create_task(run(self._events.add, self._inbox))
        self._task.add_done_callback(self._events.close)

    def subscribe(self, after: int = 0) -> Subscription:
        """Return one more reader of this turn, which gets every event but the first so many, also after the end."""
        return Subscription(self._events, after)

    async def __anext__(self) -> events.Event:
        return await anext(self._own)

    async def end(self) -> events.TurnFinished:
        """Wait for the end; raise what the turn failed with."""
        await asyncio.wait([self._task])
        if not self._task.cancelled() and (error := self._task.exception()):
            raise error
        return self._events.end or events.TurnFinished("stopped", sentence="stopped before it was done")

    def steer(self, message: str | Message) -> None:
        """Say something that is heard as soon as the calls under way are done."""
        self._inbox.steer(user_message(message) if isinstance(message, str) else message)

    def follow_up(self, message: str | Message) -> None:
        """Say something that is answered next, in the same turn."""
        self._inbox.follow_up(user_message(message) if isinstance(message, str) else message)

    def stop(self) -> None:
        """End it: bodies and their processes are stopped, calls that have not started never start."""
        self._task.cancel()

    def when_done(self, then: Callable[[], object]) -> None:
        """Call `then` at the end."""
        self._task.add_done_callback(lambda _: then())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.stop()
        await asyncio.wait([self._task])


class TurnStarter:
    """Starts the turns of one crib, and stops those that still go on when it is closed."""

    def __init__(self, turns: Turns, models: Models, redact: Callable[[str], str] | None = None) -> None:
        self._turns, self._models, self._redact = turns, models, redact
        self._going = dict[Running, Caller]()

    def start(self, request: TurnRequest) -> Running:
        """Start a turn, in a new session when none is named. A bad session key or model is a CribError at once."""
        new_key = f"agent:{agent_of(request.caller)}:run:{token_hex(6)}"
        key = request.session or request.caller.session or new_key
        if model := request.model or self._models.choose(request.caller, request.asked_model):
            request = replace(request, model=self._models.get(model) if isinstance(model, str) else model)
        if self._redact is not None and request.message is not None:
            content = redact_parts(request.message.content, self._redact)
            request = replace(request, message=replace(request.message, content=content))
        placed = replace(request, session=session.check_key(key), caller=replace(request.caller, session=key))
        running = Running(key, lambda emit, inbox: self._turns.run(placed, emit, inbox))
        self._going[running] = placed.caller
        running.when_done(lambda: self._going.pop(running))
        return running

    def list_live(self) -> Iterator[LiveWork]:
        """Yield every turn that goes on."""
        return (LiveWork(caller, running.stop) for running, caller in self._going.items())

    async def close(self) -> None:
        """Stop every turn that still goes on."""
        for running in tuple(self._going):
            running.stop()
        for running in tuple(self._going):
            await running.__aexit__()


class SetupResolver:
    """Says by the configuration who answers, with which tools and within which bounds."""

    def __init__(self, settings: SettingsSource, models: Models, belts: BeltSource) -> None:
        self._settings, self._models, self._belts = settings, models, belts

    def resolve(self, request: TurnRequest, switched: str, /) -> TurnSetup:
        """Return who answers: the model asked for, else the one the session was switched to, else the configured."""
        agent = agent_of(request.caller)
        named = request.model or self._models.name_for(agent, switched)
        model = self._models.get(named) if isinstance(named, str) else named
        caller = replace(request.caller, provider=model.card.provider, model=model.card.model)
        held = self._belts.belt(caller, request.extra, approver=request.approver, bounds=request.bounds)
        return TurnSetup(
            model=model,
            belt=held.selection,
            caller=caller,
            pipeline=held.pipeline,
            ports=held.ports,
            limits=request.limits or limits_of(self._settings.config, agent),
            system=_system_prompt(request, agent, held.tools, describe_place(held.ports)),
            effort=request.effort,
            after_outside=taint_rules_for(self._settings.policy, caller, held.catalog.tools, held.catalog.groups),
        )


class AsideModels:
    """Asks a model once in the midst of whatever goes on: the one that looks at pictures, or one that is named."""

    def __init__(self, settings: SettingsSource, models: Models) -> None:
        self._settings, self._models = settings, models
        self.meter: Meter | None = None

    async def look(self, caller: Caller, request: Request, word: str = "") -> tuple[str, events.Replied] | None:
        """Return the name of the model that was asked and its reply; None where none that is configured sees.

        `word` names one of the configured models. What the reply takes counts in the turn of the caller, as a summary
        does, and against quotas; who has no tokens or money left asks nobody.
        """
        turn = turn_of(caller)
        if word and not is_owner(self._settings.policy, caller):
            word = self._models.choose(caller, word, *self._models.list_seeing(caller)[:1])
        try:
            model = self._find(caller, word, turn.setup.model if turn else None)
        except CribError as error:
            raise ToolError(f"no model can look at it: {error}", code="unavailable") from error
        return None if model is None else (model.card.name, await self._ask(caller, turn, model, request))

    async def consult(self, caller: Caller, request: Request, word: str) -> events.Replied:
        """Return what the model that `word` names says; CribError when the configuration names no such one."""
        model = self._models.get(self._models.find_named(word) or word)
        return await self._ask(caller, turn_of(caller), model, request)

    def read_course(self, caller: Caller) -> tuple[str, tuple[str, ...]]:
        """Return what the turn of a caller was asked last, and from where outside it has read."""
        turn = turn_of(caller)
        if turn is None:
            return "", ()
        messages = [each.plain_text for each in turn.history if each.role == "user"]
        return messages[-1] if messages else "", tuple(turn.history.outside)

    async def _ask(self, caller: Caller, turn: Loop | None, model: Model, request: Request) -> events.Replied:
        price, reserved = model.card.price, reserve_for(model.card)
        spent = Spent(Limits(), meter=self.meter) if turn is None else turn.spent

        async def charge(begins: Reservation | None = None, ends: Reservation | None = None) -> str:
            if turn is None:
                return (await spent.charge(caller, price, begins, ends)).reason
            over = await turn.charge(model, begins, ends)
            return over[1] if over else ""

        try:
            if over := spent.over_budget():
                raise ToolError(f"no model was asked: {over[1]}", code="unavailable")
            if full := await charge(begins=reserved):
                raise ToolError(f"no model was asked: {full}", code="unavailable")
            replied = await reply_to(request, model, ignore, Retries(tries=2))
            spent.add_aside(replied.usage, price)
        finally:
            await charge(ends=reserved)
        return replied

    def _find(self, caller: Caller, word: str, current: Model | None) -> Model | None:
        """Return who looks: the model that is asked for, else the one configured for that, else the current one."""
        names = self._models.list_seeing(caller)
        if word:
            named = self._models.find_named(word)
            if named is None or not self._models.card(*model_name(named)).sees:
                why = "sees no pictures" if named else "is not named in the configuration"
                known = ", ".join(names) or "none; set models.image"
                raise CribError(f"the model {word[:_SHOWN_CHARS]!r} {why}; there is {known}")
            return self._models.get(named)
        if current is not None and current.card.sees and not self._settings.config.image_model(agent_of(caller)):
            return current
        return self._models.get(names[0]) if names else None


def limits_of(config: Config, agent: str) -> Limits:
    """Return the limits of an agent's turns: its own where it has them, else everybody's, else the usual."""
    settings, usual = config.agent(agent), Limits()
    own = settings.limits if settings else LimitSettings()

    def first(name: str) -> Any:
        found = (getattr(each, name) for each in (own, config.limits, usual))
        return next((value for value in found if value is not None), None)

    return Limits(turns=first("turns"), seconds=first("seconds"), tokens=first("tokens"), cost=first("cost"))


def _system_prompt(request: TurnRequest, agent: str, tools: Collection[str], place: str) -> str:
    found = gather_found(current_turn()) if request.caller.parents else ""  # by whoever started it
    if (task := request.task) is not None:
        own = prompts_of(task.agent, task.inputs).system
        return subagent_prompt(own, tools, agent=task.agent.name, date=today(), place=place, found=found)
    return system_prompt(tools, agent=agent, date=today(), place=place, extras=(found,))


@tool(name=FIND_TOOLS, group="sessions", effects={"read"})
async def find_tools(ctx: Ctx, query: Annotated[str, "what it should do"]) -> Result:
    """Get another tool, where those you know cannot do it."""
    turn = turn_of(ctx.caller)
    found = [] if turn is None else turn.declarations.search(query)
    if not found:
        return Result.text("There are no other tools; use those you know.")
    # what a server says of its tools is from outside, like all it says
    about = [f"{each.name}: {each.description.partition(chr(10))[0][:_LINE_CHARS]}" for each in found]
    sources = [each.source if each.source.startswith("mcp:") else None for each in found]
    lines = tuple(map(Text, about, sources))
    names = tuple(each.name for each in found)
    head = "These tools can be called from now on:"
    return Result(content=lines, details={"tools": names}, head=head, end="That is all.", offers=names)
