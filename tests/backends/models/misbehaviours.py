"""Everything that a provider can do wrong, as one table; each row is a server on loopback that does it once.

    async with misbehaving(MISBEHAVIOURS["cut inside arguments"], "openai") as trouble:
        model = trouble.model()     # its first request is answered badly, the next ones well

The calls in these replies are to a tool `note` with one parameter `text`.
"""

import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from typing import Any

import orjson

from toolcrib.adapter.cards import Api
from toolcrib.backends.models.http import HttpModel, Patience
from toolcrib.define.event import Replied

from . import wrong
from .asking import KEY, model_at, runnable
from .servers import APIS, Say, Server, Talk, answering, said, sent_whole, serving

__all__ = ["BUSY", "GOOD", "MISBEHAVIOURS", "QUICK", "Misbehaviour", "Trouble", "misbehaving"]

GOOD = Say(text="All is well.")
CALM = Patience(connect=20.0, idle=20.0, closing=20.0, rest=0.1, whole=120.0)  # a busy machine answers late, too
QUICK = replace(CALM, connect=1.5, idle=1.5, closing=0.2)  # for those who are silent
BUSY = 5  # times as long as on a quiet machine: only what would never end is to be found

Check = Callable[[Replied, Api], str]


@dataclass(frozen=True)
class Misbehaviour:
    """What a server does, and what must come of it.

    `runs` is how many calls of the reply may run; a reply is `fine` when it counts for all that. `says` stands in the
    error. `retry` tells whether asking again is worth it, `waits` how long to wait first. `check` tells what else is
    wrong with a reply, "" for nothing.
    """

    name: str
    act: wrong.Act
    apis: tuple[Api, ...] = APIS
    fine: Collection[Api] = ()
    runs: int = 0
    says: str = ""
    retry: bool | None = True
    waits: float = 0.0
    within: float = 5.0  # seconds on a quiet machine
    megabytes: int = 0
    patience: Patience = CALM
    check: Check = lambda replied, api: ""
    at: str = ""  # another address than the server's
    recovers: bool = True


@dataclass
class Trouble:
    """A server that misbehaves."""

    api: Api
    server: Server
    base_url: str
    row: Misbehaviour
    elsewhere: list[Any] = field(default_factory=list)

    def model(self) -> HttpModel:
        return model_at(self.api, self.base_url, self.row.patience)

    def complaints(self, replied: Replied) -> list[str]:
        """Return what is wrong with how a misbehaviour ended."""
        row, message = self.row, replied.message
        is_fine = self.api in row.fine
        found = [] if is_fine == (not replied.error) else [f"the error is {replied.error!r}"]
        if not is_fine and message.finish not in ("error", "length"):
            found.append(f"the reply ended as {message.finish}")
        if len(runnable(replied)) != (row.runs if is_fine else 0):
            found.append(f"{runnable(replied)} may run")
        if row.says not in replied.error and not is_fine:
            found.append(f"it does not say {row.says!r}, but {replied.error!r}")
        if row.retry is not None and not is_fine and (replied.retry is not None) != row.retry:
            found.append(f"retry is {replied.retry}")
        if not is_fine and replied.retry is not None and abs(replied.retry - row.waits) > 2:
            found.append(f"it waits for {replied.retry}")
        if KEY in str(replied):
            found.append("the key is shown")
        if len(replied.error) > 1_000 or "\n" in replied.error:
            found.append("the error is no sentence")
        return [*found, *filter(None, [row.check(replied, self.api)])]


@asynccontextmanager
async def misbehaving(row: Misbehaviour, api: Api, times: int = 1) -> AsyncIterator[Trouble]:
    """Start a server that misbehaves so many times and is good from then on."""
    left = times
    good = answering(api, GOOD)
    trouble: Trouble | None = None

    async def act(talk: Talk) -> None:
        nonlocal left
        left -= 1
        if left >= 0:
            await row.act(talk, api)
        else:
            await good(talk)

    async def stray(talk: Talk) -> None:
        assert trouble
        trouble.elsewhere.append(talk.asked)
        await good(talk)

    async with serving(act) as server, serving(stray) as other:
        wrong.ELSEWHERE[server.port] = other.origin
        trouble = Trouble(api, server, row.at.format(port=server.port) or server.base_url, row)
        yield trouble


_BOTH: tuple[Api, ...] = ("openai", "anthropic")
_REASONED: tuple[Api, ...] = ("openai", "anthropic", "gemini")  # these tell a reason before the mark
_MARKED: tuple[Api, ...] = ("openai", "anthropic", "responses")  # in these a mark says where a reply ends
_DEEP = b"data: " + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n\n"
_SOON = 7.0

_ROWS = [
    # silence; what has not begun may still be worked on
    Misbehaviour("stall before the headers", act=wrong.silent, says="1.5 seconds", patience=QUICK, retry=False),
    Misbehaviour(
        "stall after the headers", act=wrong.held(lambda api: b""), says="1.5 seconds", patience=QUICK, retry=False
    ),
    Misbehaviour("stall in mid-stream", act=wrong.held(wrong.call_announced), says="1.5 seconds", patience=QUICK),
    Misbehaviour("stall within a line", act=wrong.held(wrong.upto(b'"note"', 3)), says="1.5 seconds", patience=QUICK),
    Misbehaviour(
        "stall after the reason of the end",
        wrong.held(lambda api: b"".join(wrong.without_last(api))),
        fine=_REASONED,
        runs=1,
        patience=QUICK,
    ),
    Misbehaviour("slow loris", act=wrong.loris, says="1.5 seconds", patience=QUICK, retry=False),
    Misbehaviour(
        "alive and mute", act=wrong.alive_and_mute, patience=replace(CALM, whole=1.5), says="longer than", retry=False
    ),
    Misbehaviour("early hints without end", wrong.early_hints, patience=QUICK, retry=False),
    # cuts
    Misbehaviour("cut before the headers", act=wrong.gone),
    Misbehaviour("cut after the headers", act=wrong.cut(lambda api: b"")),
    Misbehaviour("cut inside utf-8", act=wrong.cut(wrong.upto("😀".encode(), 2))),
    Misbehaviour("cut inside arguments", act=wrong.cut(wrong.in_arguments)),
    Misbehaviour("cut inside a line", act=wrong.cut(wrong.upto(b'"note"', 3))),
    Misbehaviour("cut after a call was announced", act=wrong.cut(wrong.call_announced)),
    Misbehaviour("cut after all of a call", act=wrong.cut(lambda api: b"".join(wrong.without_reason(api)))),
    Misbehaviour("reset after a call was announced", act=wrong.reset(wrong.call_announced), says="broke off"),
    Misbehaviour("reset after the end", act=wrong.reset(wrong.joined), fine=APIS, runs=1),
    Misbehaviour("chunks that are none", act=wrong.broken_chunks, says="broke off"),
    Misbehaviour("a length that is too long", act=wrong.too_long_told, says="broke off"),
    Misbehaviour("a length that is too short", wrong.too_short_told),
    # order
    Misbehaviour(
        "every event twice",
        wrong.streams(lambda api: [each for each in said(api, wrong.BAD) for _ in "12"]),
        apis=_MARKED,
        fine=_MARKED,
    ),
    Misbehaviour("arguments in another order", act=wrong.streams(wrong.reordered), apis=_MARKED, fine=_MARKED),
    Misbehaviour("the end first", act=wrong.streams(lambda api: said(api, wrong.BAD)[::-1]), apis=_BOTH, retry=None),
    Misbehaviour(
        "events after the end",
        apis=_MARKED,
        fine=_MARKED,
        runs=1,
        act=wrong.streams(lambda api: [*said(api, wrong.BAD), *said(api, wrong.calling(3, id="late_{at}"))]),
    ),
    Misbehaviour("no mark at the end", act=wrong.streams(wrong.without_last), fine=_REASONED, runs=1),
    Misbehaviour("no reason at the end", act=wrong.streams(wrong.without_reason), says="broke off"),
    Misbehaviour(
        "two ends", wrong.streams(lambda api: [*said(api, wrong.BAD), said(api, wrong.BAD)[-1]]), fine=APIS, runs=1
    ),
    # what is no reply
    Misbehaviour(
        "html with status 200",
        wrong.answers(200, lambda api: b"<!doctype html><p>Hi", "text/html"),
        says="http://127.0.0.1",
        retry=False,
    ),
    Misbehaviour(
        "html as a stream", wrong.streams(lambda api: [b"\n <html><body>Log in"]), says="web page", retry=False
    ),
    Misbehaviour("an empty 200", act=wrong.answers(200, lambda api: b"", "text/event-stream"), says="empty"),
    Misbehaviour(
        "plain words with status 200",
        act=wrong.answers(200, lambda api: b"upstream is gone", "text/plain"),
        says="upstream is gone",
    ),
    Misbehaviour("bytes with status 200", act=wrong.answers(200, lambda api: bytes(range(128, 256)) * 99, "image/png")),
    Misbehaviour(
        "json for a stream", act=wrong.answers(200, lambda api: sent_whole(api, wrong.BAD)), fine=APIS, runs=1
    ),
    Misbehaviour(
        "json that is no reply", wrong.answers(200, lambda api: {"status": "up"}), says="baseUrl", retry=False
    ),
    Misbehaviour(
        "json that breaks off", act=wrong.answers(200, lambda api: orjson.dumps(sent_whole(api, wrong.BAD))[:-9])
    ),
    Misbehaviour(
        "an error with status 200",
        act=wrong.answers(200, wrong.complaint("No such luck.")),
        says="No such luck.",
        retry=False,
    ),
    Misbehaviour(
        "an sse stream by another name",
        fine=APIS,
        runs=1,
        act=wrong.answers(200, wrong.joined, "application/octet-stream"),
    ),
    Misbehaviour("packed although not asked for", act=wrong.truly_packed, fine=APIS, runs=1),
    Misbehaviour("a lie about packing", act=wrong.packed_lie, says="packed"),
    Misbehaviour("packed in an unknown way", act=wrong.packed_unheard, says="packed"),
    Misbehaviour("no http at all", act=wrong.no_http),
    Misbehaviour("byte by byte with a bom", act=wrong.byte_by_byte, fine=APIS, runs=1, within=20),
    Misbehaviour("no length and no chunks", act=wrong.old_http, fine=APIS, runs=1),
    # measure
    Misbehaviour(
        "500 mb of arguments",
        wrong.endless_arguments(60_000, 500_000_000),
        apis=_MARKED,
        retry=False,
        says="arguments longer",
        within=20,
        megabytes=80,
    ),
    Misbehaviour(
        "a million tiny pieces",
        wrong.endless_arguments(1, 1_000_000),
        apis=_MARKED,
        retry=False,
        says="events",
        within=40,
        megabytes=80,
    ),
    Misbehaviour(
        "ten thousand calls",
        wrong.many_calls,
        says="calls",
        retry=False,
        within=20,
        megabytes=80,
    ),
    Misbehaviour(
        "a line of 100 mb",
        wrong.long_line,
        says="bytes",
        retry=False,
        within=20,
        megabytes=80,
    ),
    Misbehaviour("a packed bomb", wrong.bomb, says="bytes", retry=False, within=20, megabytes=80),
    Misbehaviour("a head without end", wrong.endless_head, within=10),
    # events
    Misbehaviour("nul bytes", act=wrong.streams(wrong.with_event(b'data: {"x": "\0"}\n\n')), says="no JSON"),
    Misbehaviour("an event that is no json", act=wrong.streams(wrong.with_event(b"data: {oops\n\n")), says="no JSON"),
    Misbehaviour(
        "an event that is no utf-8", act=wrong.streams(wrong.with_event(b'data: {"x": "\xff"}\n\n')), says="JSON"
    ),
    Misbehaviour("an event that is nested", act=wrong.streams(wrong.with_event(_DEEP)), says="no JSON"),
    Misbehaviour(
        "events nobody knows",
        fine=APIS,
        runs=1,
        act=wrong.streams(wrong.with_event(b'event: moon\ndata: [1]\n\ndata: {"type":"moon"}\n\ndata\n\nfield: 1\n\n')),
    ),
    Misbehaviour(
        "half of a character", fine=APIS, runs=1, act=wrong.streams(wrong.with_event(b'data: {"x": "\\ud83d"}\n\n'))
    ),
    Misbehaviour(
        "one id for two calls",
        wrong.streams(lambda api: said(api, wrong.calling(2, id="same"))),
        fine=APIS,
        runs=2,
        apis=("responses", "anthropic", "gemini"),
        check=wrong.ids_differ,
    ),
    Misbehaviour(
        "calls without ids",
        wrong.streams(lambda api: said(api, wrong.calling(2, id=""))),
        fine=APIS,
        runs=2,
        check=wrong.ids_differ,
    ),
    Misbehaviour("calls without names", act=wrong.streams(lambda api: said(api, wrong.calling(2, name=""))), fine=APIS),
    Misbehaviour("an unknown reason", act=wrong.streams(wrong.unknown_reason), retry=None),
    Misbehaviour(
        "negative usage", act=wrong.streams(wrong.counting(all="-5")), fine=APIS, runs=1, check=wrong.odd_counts
    ),
    Misbehaviour(
        "huge usage", act=wrong.streams(wrong.counting(all="1" + "0" * 40)), fine=APIS, runs=1, check=wrong.odd_counts
    ),
    Misbehaviour(
        "usage that is no number", wrong.streams(wrong.counting(all="NaN")), fine=APIS, runs=1, check=wrong.odd_counts
    ),
    # refusals
    Misbehaviour(
        "429 with seconds",
        wrong.answers(429, wrong.complaint("Slow down."), retry_after="7"),
        says="Slow down.",
        waits=_SOON,
    ),
    Misbehaviour(
        "429 with milliseconds", act=wrong.answers(429, wrong.complaint("Slow."), retry_after_ms="7000"), waits=_SOON
    ),
    Misbehaviour(
        "429 with a date",
        act=lambda talk, api: talk.whole(429, {}, retry_after=formatdate(time.time() + _SOON, usegmt=True)),
        waits=_SOON,
    ),
    Misbehaviour("429 without a time", act=wrong.answers(429, wrong.complaint("Slow down.")), says="429"),
    Misbehaviour("429 with nonsense", act=wrong.answers(429, wrong.complaint("Slow."), retry_after="NaN"), says="429"),
    Misbehaviour(
        "429 for want of money",
        wrong.answers(429, wrong.complaint("No credit.", code="insufficient_quota")),
        says="No credit.",
        retry=False,
    ),
    Misbehaviour("503 as a page", act=wrong.answers(503, lambda api: b"<html>Sorry", "text/html"), says="503"),
    Misbehaviour(
        "529", act=wrong.answers(529, wrong.complaint("Overloaded", type="overloaded_error")), says="Overloaded"
    ),
    Misbehaviour("overloaded in mid-stream", act=wrong.streams(wrong.overloaded), says="verloaded"),
    Misbehaviour("401", act=wrong.answers(401, wrong.complaint(f"Bad key {KEY}")), says="_API_KEY", retry=False),
    Misbehaviour(
        "403", act=wrong.answers(403, wrong.complaint(f"Not with {KEY}")), says="Not with [hidden]", retry=False
    ),
    Misbehaviour("404", act=wrong.answers(404, wrong.complaint("What?")), says="'m'", retry=False),
    Misbehaviour(
        "400 that shows the key",
        wrong.answers(400, wrong.complaint(f"Odd: {KEY}\nmore")),
        says="Odd: [hidden]",
        retry=False,
    ),
    Misbehaviour(
        "400 for its length",
        retry=False,
        says="context_length_exceeded",
        act=wrong.answers(400, wrong.complaint("Too big.", code="context_length_exceeded")),
    ),
    Misbehaviour("redirect elsewhere", wrong.redirect, says="baseUrl", retry=False),
    # addresses
    Misbehaviour(
        "nobody listens",
        wrong.silent,
        at="http://127.0.0.1:1/v1",
        says="nothing listens there; start it",
        retry=False,
        recovers=False,
    ),
    Misbehaviour(
        "no such host", wrong.silent, at="http://nobody.invalid/v1", says="http://nobody.invalid", recovers=False
    ),
    Misbehaviour(
        "tls to a plain port",
        wrong.silent,
        at="https://127.0.0.1:{port}/v1",
        says="secure",
        retry=None,
        recovers=False,
        patience=QUICK,
    ),
]

MISBEHAVIOURS: Mapping[str, Misbehaviour] = {row.name: row for row in _ROWS}
