"""Trying again: a model is asked until it has answered, and a body that only reads is run again where it says so."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from itertools import count
from typing import Any

from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.event import Event, Replied, Retrying, TextDelta
from toolcrib.define.message import Message
from toolcrib.define.model import Model, Request
from toolcrib.define.record import Judged, Record
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import REPEATABLE, Run, Tool
from toolcrib.lazy import dataclass

from .deadline import wait_to_end
from .limits import Babble

log = logging.getLogger("toolcrib")


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often to ask, and how long to wait between: `first` seconds, doubled each time, never more than `longest`."""

    tries: int = 4
    first: float = 2.0
    longest: float = 60.0
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


def ignore(event: object) -> None:
    """Hear nothing: for what nobody watches."""


async def reply_to(request: Request, model: Model, emit: Callable[[Event], None], retries: Retries) -> Replied:
    """Return the model's reply, telling `emit` of it as it comes.

    One that failed for a passing reason is asked for again: what came of it does not count, and no call of it runs.
    One that says the same over and over is broken off.
    """
    for attempt in range(1, retries.tries + 1):
        replied = await _ask_once(request, model, emit)
        if replied.retry is None or replied.message.finish != "error" or attempt == retries.tries:
            return replied
        if replied.retry > retries.longest:  # nobody wants to wait that long without having been asked
            return replied
        # some spread, so that many sessions do not come back all at once
        backed_off = min(retries.longest, retries.first * 2 ** (attempt - 1)) * random.uniform(0.75, 1)  # noqa: S311
        seconds = max(replied.retry, backed_off)
        emit(Retrying(attempt + 1, seconds, replied.error))
        await retries.sleep(seconds)
    raise AssertionError("tries is at least one")


async def _ask_once(request: Request, model: Model, emit: Callable[[Event], None]) -> Replied:
    pieces: list[str] = []
    babble, replied = Babble(), None
    try:
        async with aclosing(model.reply(request)) as events:  # type: ignore[type-var]  # every model's is a generator
            async for event in events:
                if type(event) is Replied:
                    replied = event
                    break
                emit(event)
                if type(event) is TextDelta:
                    pieces.append(event.text)
                    if babble.hears(event.text):
                        replied = _broken_reply(
                            model, pieces, "the model said the same over and over, so its reply was broken off"
                        )
                        break
    except AssertionError:  # of a model in a test: it is the test that has to hear of it
        raise
    except Exception as error:
        log.exception("the model %s failed unexpectedly", model.card.name)
        why = f"{model.card.name} failed unexpectedly ({type(error).__name__}); the operator's log has the details"
        return replied or _broken_reply(model, pieces, why)  # what fails while it lets go takes nothing back
    return replied or _broken_reply(model, pieces, f"{model.card.name} ended its reply without saying how")


def _broken_reply(model: Model, pieces: list[str], error: str) -> Replied:
    text = "".join(pieces)
    content = (Text(text),) if text else ()
    return Replied(Message(role="assistant", content=content, finish="error", by=model.card.name), error=error)


_RETRY_SECONDS = 0.1  # before a body is run again for the first time, doubled each time


async def run_again(tool: Tool, run: Run, ctx: Ctx, args: Mapping[str, Any], record: Record) -> Result:
    """Run the body of a tool that only reads until it does not fail for a passing reason, as often as it says."""
    times, codes = tool.retry if tool.retry and tool.effects <= REPEATABLE else (0, frozenset())
    for tried in count(1):
        try:
            result = await run(ctx, args)
            details = result.details if result.status == "error" and isinstance(result.details, Mapping) else {}
            code = details.get("code")
            if tried > times or code not in codes:
                return result
        except ToolError as error:
            code = error.code
            if tried > times or code not in codes:
                raise
        again = Judged(ctx.call, "retry", "allow", f"try {tried + 1} of {times + 1}, after {code!r}")
        if writing := record.write(again):
            await wait_to_end(writing)
        await asyncio.sleep(_RETRY_SECONDS * 2 ** (tried - 1))
    raise AssertionError("the last try returns or raises")
