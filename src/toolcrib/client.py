"""A client of a gateway, as a program uses it.

    async with toolcrib.connect("ws://127.0.0.1:18789", token) as crib:
        print(await crib.ask("sessions.list", {"limit": 5}))
        answer = await crib.say("list the files in src", on_event=print)
        await crib.offer([price], session="main")  # a function of this program, for models to call
        async for event, payload in crib.events(): ...

It connects again by itself, goes on with the answer it was waiting for, and does nothing twice.
"""

import asyncio
import contextlib
import logging
import os
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

import orjson

from toolcrib.define.caller import Caller
from toolcrib.define.context import CallState, Ctx, Ports
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.gateway import follow_run
from toolcrib.define.message import Call
from toolcrib.define.tool import Tool, as_tool, result_from

if TYPE_CHECKING:
    from toolcrib.backends.gateway import GatewayLink

TOKEN_VARIABLE = "TOOLCRIB_TOKEN"  # noqa: S105  its name
_COMPLETE = "calls.complete"
_MAX_ANSWER_BYTES = 500_000  # a frame of the gateway has room for little more

log = logging.getLogger("toolcrib")


class GatewayClient:
    """A crib in another process. What it may do is what its token may."""

    def __init__(self, link: "GatewayLink") -> None:
        self._link, self._id = link, secrets.token_hex(8)
        self._offers: dict[str, tuple[Mapping[str, Any], Mapping[str, Tool]]] = {}  # what was asked, and what with
        self._tasks: dict[str, asyncio.Task[None]] = {}  # calls that run, and who hears of them

    def __repr__(self) -> str:
        return f"<GatewayClient of {self._link.url}>"

    async def __aenter__(self) -> Self:
        await self._link.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in tuple(self._tasks.values()):
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._link.close()

    async def ask(
        self, method: str, params: Mapping[str, Any] | None = None, *, progress: Callable[[Any], None] | None = None
    ) -> Any:
        """Ask a service for something by name, like `sessions.list`; plain JSON comes back.

        `progress` hears what the method has to say before it is done.
        """
        return await self._link.ask(method, params, progress)

    async def call(
        self, tool: str, args: Mapping[str, Any] | None = None, *, session: str = "main", dry_run: bool = False
    ) -> dict[str, Any]:
        """Call a tool, through the same gate as a model's call; return its result and the verdict."""
        params = {"tool": tool, "args": dict(args or {}), "sessionKey": session, "dryRun": dry_run}
        answer: dict[str, Any] = await self._link.ask("tools.call", params)
        return answer

    async def say(
        self, message: str, *, session: str = "main", on_event: Callable[[dict[str, Any]], object] = bool, **how: Any
    ) -> str:
        """Say something in a session and return the answer; raise CribError when there is none.

        `on_event` hears what happens meanwhile, each event once. `how` is what else `chat.send` takes, like `agentId`.
        """
        params = {"message": message, "sessionKey": session, "idempotencyKey": secrets.token_hex(12), "plain": True}
        accepted, event = await self._link.ask("chat.send", {**params, **how}), dict[str, Any]()
        async for event in self.follow(accepted["runId"], session=session):
            on_event(event)
        if event["reason"] != "done":
            raise CribError(event["sentence"] or event["reason"])
        return str(event["text"])

    def follow(self, run: str = "", *, session: str = "main") -> AsyncIterator[dict[str, Any]]:
        """Yield what happens in a run, from its beginning to its end, the events of `toolcrib run --json`.

        Without an id it is the latest run of the session. Each comes once, however often the connection breaks; of a
        run that a restart of the gateway ended it is the last one, which says so.
        """
        return follow_run(self._link.ask, run, session)

    async def offer(self, tools: Iterable[Tool | Callable[..., Any]], *, session: str = "main") -> None:
        """Let models call functions of this program in a session, from its next turn on and while this is connected.

        They are declared as `@tool` does it, and called when the gateway's gate permits it. Offering again replaces
        what was offered there, and nothing at all takes it back. Raises ToolError when the gateway refuses.
        """
        held, key = {tool.name: tool for tool in map(as_tool, tools)}, f"{self._id}:{session}"
        words = [{"name": n, "description": t.description, "parameters": t.parameters} for n, t in held.items()]
        params = {"tools": words, "idempotencyKey": key, "sessionKey": session}
        if "" not in self._tasks:
            self._start("", self._hear())
        await self._link.ask("tools.offer", params)
        self._offers[key] = params, held

    def _start(self, key: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[key] = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda _: self._tasks.pop(key, None))

    async def _hear(self) -> None:
        """Start what is called, stop what nobody waits for, and offer again over a new connection."""
        async for event, call in self._link.events():
            if event == "tool.call" and (tool := self._offers.get(call["offerId"], ({}, {}))[1].get(call["tool"])):
                self._start(call["callId"], self._answer(tool, call))
            elif event == "tool.cancel" and (task := self._tasks.get(call["callId"])):
                task.cancel()
            elif event == "reconnected":
                for key, (params, _) in self._offers.items():
                    self._start(key, self._offer_again(params))

    async def _offer_again(self, params: Mapping[str, Any]) -> None:
        try:
            await self._link.ask("tools.offer", params)
        except CribError as error:
            log.warning("what was offered in %s is offered no longer: %s", params["sessionKey"], error)

    async def _answer(self, tool: Tool, request: Mapping[str, Any]) -> None:
        """Run a function of this program for a call that the gateway permitted, and send its result."""
        course = CallState()
        try:
            args = tool.check(request["args"])
            call, caller = Call(request["callId"], tool.name, args), Caller(session=request["sessionKey"])
            made = await tool.run(Ctx(call, caller, course, Ports(later=self._leave_pending)), args)
            if course.handle and made.status == "pending":
                return
            result = made.to_json()
            answer: dict[str, Any] = {"result": {"content": result["content"], "status": result["status"]}}
        except ToolError as error:
            answer = {"error": str(error)}
        except Exception as error:
            log.exception("%s failed in call %s", tool.name, request["callId"])
            answer = {"error": f"{tool.name} failed unexpectedly ({type(error).__name__})"}
        if len(orjson.dumps(answer)) > _MAX_ANSWER_BYTES:
            answer = {"error": f"what {tool.name} gave back is larger than {_MAX_ANSWER_BYTES:,} bytes; ask for less"}
        with contextlib.suppress(CribError):  # the gateway has failed the call already
            if course.handle:  # it was left pending, and is not
                content = answer.get("error") or answer["result"]["content"]
                is_error = "error" in answer or answer["result"]["status"] == "error"
                await self._link.ask(_COMPLETE, {"handle": course.handle, "content": content, "isError": is_error})
            else:
                await self._link.ask("tools.answer", {"callId": request["callId"], **answer})

    async def _leave_pending(self, ctx: Ctx, handle: str, seconds: float) -> str:
        params = {"callId": ctx.call.id, "later": handle, "seconds": seconds}
        return str((await self._link.ask("tools.answer", params))["handle"])

    async def complete(self, handle: str, result: Any, *, session: str = "") -> dict[str, Any]:
        """Complete a call that is pending under a handle, once, with what a tool's body may return.

        The turn that waits for it goes on. Raises ToolError for whoever comes second, and for everybody but who the
        call was made for and the owner. `session` is where it was made, where several wait under one handle.
        """
        made = result_from(result)
        fields = {"handle": handle, "content": made.to_json()["content"], "isError": made.status == "error"}
        fields |= {"structured": made.details} if isinstance(made.details, dict) else {}
        fields |= {"sessionKey": session, "idempotencyKey": secrets.token_hex(12)}
        answer: dict[str, Any] = await self._link.ask(_COMPLETE, fields)
        return answer

    @property
    def is_connected(self) -> bool:
        """Whether the gateway is reached at this moment; what is asked meanwhile waits until it is."""
        return self._link.is_connected

    def events(self) -> AsyncIterator[tuple[str, Any]]:
        """Yield the events from now on: the name and the payload of each."""
        return self._link.events()


def _is_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("ws", "wss") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port beyond all ports, half an address of IPv6
        return False


def connect(url: str = "ws://127.0.0.1:18789", token: str | None = None, *, tries: int | None = None) -> GatewayClient:
    """Return a client of the gateway at this address; use it with `async with`.

    The token is the one given, else $TOOLCRIB_TOKEN, and is never part of the address. A connection that breaks is
    made again for ever, or so many `tries`.
    """
    if token is None and not (token := os.environ.get(TOKEN_VARIABLE, "").strip()):
        raise CribError(f"a gateway needs a token: give one, or set {TOKEN_VARIABLE}")
    if not _is_address(url):
        raise CribError(f"{url!r} is no address of a gateway; write one like ws://127.0.0.1:18789")
    try:
        from toolcrib.backends.gateway import GatewayLink  # noqa: PLC0415  needs the extra
    except ImportError as error:
        raise CribError(f"a client needs the extra `gateway`: pip install 'toolcrib[gateway]' ({error})") from None
    client = {"id": "gateway-client", "version": version("toolcrib"), "platform": os.uname().sysname.lower()}
    return GatewayClient(GatewayLink(url, token, client | {"mode": "backend"}, tries))
