"""A talk with a crib, that of a gateway or one of our own: who talks, whom to ask, and the turns that answer."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from secrets import token_hex
from typing import Any, Self

import click

from toolcrib.adapter.events import follow_turn
from toolcrib.app import Crib
from toolcrib.client import GatewayClient
from toolcrib.define.caller import OWNER, Caller
from toolcrib.define.errors import CribError
from toolcrib.define.event import Event
from toolcrib.define.gateway import ServiceAsk
from toolcrib.define.session import agent_from_key, check_key

from ._far import find_answering
from ._options import CallerOptions, caller_from_options, crib_from_options
from .approvals import FarQuestions, QuestionDesk

_ALLOWED = ("agent", "model")  # options about a caller that a gateway is asked with

AskAs = Callable[[Caller, str, Mapping[str, Any]], Awaitable[Any]]  # a service, for this caller


class Talk:
    """Opens the crib that a command talks with: the gateway's, where one is named or runs, else one of our own."""

    def __init__(self, options: CallerOptions, tries: int = 0, *, headed: bool = False) -> None:
        found, key, agent = find_answering(options, here=True, allows=_ALLOWED), options["session"], options["agent"]
        if key is not None:
            check_key(key)
        self._opened: Crib | GatewayClient
        if found and headed:
            raise CribError("the browser is the gateway's, which runs; start that with --headed, or leave it out here")
        if found:
            self._opened = found.client(tries)
            self.caller = replace(OWNER, session=key, agent=agent or (agent_from_key(key) if key else None))
            return
        self._opened = crib = crib_from_options(options, import_plugins=True, keeps=True)
        crib.browser.is_headed = headed
        self.caller = caller_from_options(crib, options)
        crib.models.prepare(self.caller.provider, lambda words: click.echo(f"toolcrib: {words}", err=True))
        if options["model"]:
            crib.models.get(options["model"])

    async def __aenter__(self) -> Self:
        await self._opened.__aenter__()
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._opened.__aexit__(*failure)

    @property
    def crib(self) -> Crib | None:
        """The crib of our own."""
        return self._opened if isinstance(self._opened, Crib) else None

    @property
    def is_reached(self) -> bool:
        """Whether it answers at this moment, as far as is known."""
        return isinstance(self._opened, Crib) or self._opened.is_connected

    @property
    def questions(self) -> QuestionDesk:
        """Who asks people about calls."""
        return self._opened.approvals if isinstance(self._opened, Crib) else FarQuestions(self._opened)

    async def ask(self, caller: Caller, method: str, params: Mapping[str, Any]) -> Any:
        """Ask a service for a caller; a gateway takes everybody for whom their token says."""
        if isinstance(self._opened, Crib):
            return await self._opened.ask(method, params, caller=caller)
        return await self._opened.ask(method, params)


class AskedTurn:
    """A message that is being answered: iterate over what happens."""

    def __init__(self, ask: ServiceAsk, session: str, said: Mapping[str, Any]) -> None:
        self.session = session
        self._ask, self._said, self._id = ask, said, token_hex(12)
        self._stopping: asyncio.Future[Any] | None = None

    async def __aiter__(self) -> AsyncIterator[Event]:
        await self._send({**self._said, "idempotencyKey": self._id})
        if self._stopping is not None:  # before there was anything to stop
            await self._abort()
        async for event in follow_turn(self._ask, self._id, self.session):
            yield event

    async def steer(self, text: str) -> None:
        """Say something that is heard as soon as the calls under way are done."""
        await self._send({"message": text, "queue": "steer", "idempotencyKey": token_hex(12)})

    def stop(self) -> None:
        """End it."""
        self._stopping = asyncio.ensure_future(self._abort())

    async def _send(self, said: Mapping[str, Any]) -> None:
        await self._ask("chat.send", {**said, "sessionKey": self.session, "plain": True})

    async def _abort(self) -> None:
        await self._ask("chat.abort", {"sessionKey": self.session, "runId": self._id})
