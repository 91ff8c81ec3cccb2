"""A talk with a crib, that of a gateway or one of our own: who talks, whom to ask, and the turns that answer."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from secrets import token_hex
from typing import Any, Self

import click

from toolcrib.adapter.events import follow_turn
from toolcrib.app import Crib
from toolcrib.client import GatewayClient
from toolcrib.define.caller import OWNER, Caller
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.event import Event
from toolcrib.define.gateway import ServiceAsk
from toolcrib.define.session import agent_from_key, check_key
from toolcrib.tools._media import fit_any_picture

from ._options import CallerOptions, caller_from_options, crib_from_options
from ._remote import find_answering
from .approvals import ApprovalPrompts, RemoteApprovals

_PICTURE_BYTES = 50 * 1024 * 1024
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
    def questions(self) -> ApprovalPrompts:
        """Who asks people about calls."""
        return self._opened.approvals if isinstance(self._opened, Crib) else RemoteApprovals(self._opened)

    async def ask(self, caller: Caller, method: str, params: Mapping[str, Any]) -> Any:
        """Ask a service for a caller; a gateway takes everybody for whom their token says."""
        if isinstance(self._opened, Crib):
            return await self._opened.ask(method, params, caller=caller)
        return await self._opened.ask(method, params)


def read_attachment(path: Path) -> dict[str, str]:
    """Return a picture of this machine as it goes with a message, small enough for every model."""
    try:
        with path.open("rb") as file:
            data = file.read(_PICTURE_BYTES + 1)
    except OSError as error:
        raise CribError(f"the picture {str(path)!r} cannot be read: {error.strerror}") from None
    if len(data) > _PICTURE_BYTES:
        raise CribError(f"the picture {str(path)!r} has more than {_PICTURE_BYTES:,} bytes; make a smaller copy")
    try:
        picture = fit_any_picture(data)
    except ToolError as error:
        raise CribError(f"the picture {str(path)!r} cannot be shown: {error}") from None
    content = b64encode(picture.data).decode()
    return {"type": "image", "mimeType": picture.mime, "fileName": path.name, "content": content}


class AskedTurn:
    """A message that is being answered: iterate over what happens."""

    def __init__(self, ask: ServiceAsk, session: str, query: Mapping[str, Any]) -> None:
        self.session = session
        self._ask, self._query, self._id = ask, query, token_hex(12)
        self._stopping: asyncio.Future[Any] | None = None

    async def __aiter__(self) -> AsyncIterator[Event]:
        await self._send({**self._query, "idempotencyKey": self._id})
        if self._stopping is not None:  # before there was anything to stop
            await self._abort()
        async for event in follow_turn(self._ask, self._id, self.session):
            yield event

    async def steer(self, text: str) -> "AskedTurn | None":
        """Say something that is heard as soon as the calls under way are done.

        Returns the turn that it began where this one had ended meanwhile.
        """
        turn = AskedTurn(self._ask, self.session, {"message": text})
        answer = await self._send({**turn._query, "queue": "steer", "idempotencyKey": turn._id})
        return turn if answer["runId"] == turn._id else None

    def stop(self) -> None:
        """End it."""
        self._stopping = asyncio.ensure_future(self._abort())

    async def _send(self, query: Mapping[str, Any]) -> Any:
        return await self._ask("chat.send", {**query, "sessionKey": self.session, "plain": True})

    async def _abort(self) -> None:
        await self._ask("chat.abort", {"sessionKey": self.session, "runId": self._id})
