"""Logins of channels: which there are, whether their credentials hold and as whom, and a number proven by a code."""

import asyncio
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Protocol

from pydantic import Field

from toolcrib.define.caller import Caller
from toolcrib.define.channel import Channel, HeardMessage, Identified, MessageStore, PhoneLogin, SignedIn
from toolcrib.define.errors import ToolError
from toolcrib.define.ports import rpc, work_of
from toolcrib.services.feature import TurnCore

from .worker import ChannelWorker

LoginChannel = Annotated[str, Field(min_length=1, max_length=64)]

_CHECK_SECONDS, _POLL_SECONDS = 60.0, 1.0
_PHONE = "whatsapp"


class _ReadyError(Exception):
    """A channel is connected: nothing more is wanted of it."""


class WorkingChannels(Protocol):
    """The channels of a crib, as far as they are begun and ended."""

    @property
    def store(self) -> MessageStore: ...
    @property
    def lines(self) -> tuple[ChannelWorker, ...]: ...
    @property
    def is_open(self) -> bool: ...
    def make(self, name: str, /) -> Channel: ...
    def start(self, name: str, /) -> None: ...
    async def stop(self, name: str, /) -> bool: ...


class ChannelLogins:
    """Begins and ends what channels do; only the owner asks for that."""

    def __init__(self, core: TurnCore, channels: WorkingChannels) -> None:
        self._core, self._channels, self._kinds = core, channels, core.channel_kinds

    @rpc("channels.list", clients="read", why="own")
    async def list(self, caller: Caller) -> dict[str, Any]:
        """List the channels that there can be, which are configured, and what each can do; to a guest, their own."""
        rows, names = [], {*self._kinds, *self._core.config.channels}
        for name in sorted(names if self._core.is_owner(caller) else names & {caller.channel or ""}):
            settings, kind = self._core.config.channels.get(name), self._kinds.get(name)
            row: dict[str, Any] = {"channel": name, "configured": settings is not None and settings.connects}
            if kind is not None:
                can = kind.abilities
                shows = ("buttons", "cards", "media", "typing")
                row |= {"actions": [*can.actions], **{each: getattr(can, each) for each in shows}}
            rows.append(row)
        return {"channels": rows}

    @rpc("channels.login", clients="admin")
    async def login(self, channel: LoginChannel) -> dict[str, Any]:
        """Check the credentials of a channel now, and tell as whom we are there; one that was ended begins again."""
        line = self._find_line(channel)
        is_ours = line is not None and isinstance(line.channel, Identified)
        client = line.channel if line is not None and is_ours else self._channels.make(channel)
        identity = ""
        try:
            async with asyncio.timeout(_CHECK_SECONDS):
                if isinstance(client, Identified):
                    identity = await client.identify()
                else:
                    await _check(client)
                if not is_ours and isinstance(client, SignedIn):
                    await client.sign_out()
        except (OSError, TimeoutError) as error:
            what = str(error) or f"it did not answer within {_CHECK_SECONDS:.0f} seconds"
            raise ToolError(f"{channel} cannot be reached: {what}", code="unavailable") from None
        finally:
            if not is_ours:
                await client.close()
        if line is None and self._channels.is_open:
            self._channels.start(channel)
        return {"channel": channel, "ok": True, "as": identity}

    @rpc("channels.logout", clients="admin")
    async def logout(self, channel: LoginChannel) -> dict[str, Any]:
        """End a channel until it is logged in, or the gateway starts again; forget its cursor, and a token it got."""
        line = self._find_line(channel)
        if line is None and channel not in self._core.config.channels:
            known = ", ".join(self._core.config.channels) or "none"
            raise ToolError(f"no channel {channel!r} is configured; there are: {known}", code="not_found")
        outcome = {"channel": channel, "loggedOut": await self._channels.stop(channel)}
        await self._channels.store.forget_cursor(channel)
        if line is not None and isinstance(line.channel, SignedIn):
            try:
                await line.channel.sign_out()
            except (ToolError, OSError) as error:
                outcome["problem"] = f"its token may still hold: {error}"
        return outcome

    def _find_line(self, name: str) -> ChannelWorker | None:
        return next((line for line in self._channels.lines if line.name == name), None)

    # A number, proven by a code

    @rpc("web.login.start", clients="admin", tools="write", as_tool=work_of("whatsapp_login", action="start"))
    async def begin_phone(
        self,
        caller: Caller,
        method: Literal["sms", "voice"] = "sms",
        language: Annotated[str, Field(pattern="^[a-z]{2,3}(_[A-Z]{2})?$", max_length=6)] = "en_US",
        force: bool = False,
    ) -> dict[str, Any]:
        """Have Meta send a code to the number; `force` where it is registered already."""
        phone = self._find_phone(caller)
        if not force and await phone.is_registered():
            return {"connected": True, "message": f"{await phone.identify()} is registered already"}
        await phone.request_code(by_voice=method == "voice", language=language)
        way = "comes by a voice call" if method == "voice" else "comes by SMS"
        return {"connected": False, "message": f"A code {way} to {await phone.identify()}. Take it with wait."}

    @rpc("web.login.wait", clients="admin", tools="write", as_tool=work_of("whatsapp_login", action="wait"))
    async def finish_phone(
        self,
        caller: Caller,
        code: Annotated[str, Field(max_length=16)] = "",
        pin: Annotated[str, Field(max_length=16)] = "",
        timeoutMs: Annotated[int, Field(ge=0, le=600_000)] = 0,  # noqa: N803  as the protocol spells it
    ) -> dict[str, Any]:
        """Take the code, and register the number under a pin; without a code, wait until somebody has done so."""
        phone = self._find_phone(caller)
        if code:
            digits = re.sub(r"[\s-]", "", code)
            if not re.fullmatch("[0-9]{6}", digits) or not re.fullmatch("[0-9]{6}", pin):
                what = "the code has six digits, and so has the pin, which you choose (or chose: it is asked for again)"
                raise ToolError(what, code="bad_arguments")
            await phone.confirm_code(digits, pin)
            return {"connected": True, "message": f"{await phone.identify()} is registered"}
        end = asyncio.get_running_loop().time() + timeoutMs / 1_000
        while not (is_there := await phone.is_registered()) and asyncio.get_running_loop().time() < end:
            await asyncio.sleep(_POLL_SECONDS)
        who = await phone.identify()
        return {"connected": is_there, "message": f"{who} is {'registered' if is_there else 'not registered yet'}"}

    @rpc("web.login.status", clients="read", why="owner")
    async def tell_phone(self, caller: Caller) -> dict[str, Any]:
        """Tell whether the number is registered."""
        return await self.finish_phone(caller)

    def _find_phone(self, caller: Caller) -> PhoneLogin:
        if not self._core.is_owner(caller) or caller.parents:
            raise ToolError("only the owner logs in to WhatsApp", code="denied")
        made = self._channels.make(_PHONE)
        if not isinstance(made, PhoneLogin):
            raise ToolError(f"{_PHONE} has no number to be proven", code="unsupported")
        return made


async def _check(channel: Channel) -> None:
    """Connect a channel, and leave when it is ready: nothing is heard."""

    async def refuse(messages: Sequence[HeardMessage], cursor: str) -> None:
        raise ToolError("it is only being checked", code="unavailable")

    def stop() -> None:
        raise _ReadyError

    try:
        await channel.listen(refuse, "", stop)
    except _ReadyError:
        return
