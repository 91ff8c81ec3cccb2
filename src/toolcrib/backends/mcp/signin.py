"""How a person signs in: which addresses a server may name for it, and the page here that the browser comes back to."""

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from typing import Self
from urllib.parse import parse_qsl, urlsplit

from toolcrib.adapter.trim import error_text
from toolcrib.backends.models.failures import is_loopback
from toolcrib.backends.web.guard import EgressGuard, destination_of
from toolcrib.define.display import strip_to_line
from toolcrib.define.egress import PRIVATE, EgressRules, describe_special
from toolcrib.define.errors import ToolError

_PERSON_SECONDS = 300.0  # to sign in, and to come back
_HEAD_BYTES, _HEAD_SECONDS, _MAX_FIELDS = 16 * 1024, 10.0, 20
_GOODBYE = 1.0
_PATH = "/callback"
_BACK = b"toolcrib has what it waited for. You can close this page; the terminal says how it went.\n"
_ELSE = b"There is nothing here.\n"


class SignInGuard(EgressGuard):
    """Lets out to a server that the operator wrote down, and to addresses it names that are no nearer to us than it is.

    So one on the internet cannot point at this machine, its network or the address where a cloud gives out credentials.
    """

    def __init__(self, url: str, rules: EgressRules = EgressRules()) -> None:  # noqa: B008  frozen
        super().__init__(rules, own=destination_of(url))

    async def check(self, host: str, port: int) -> list[str]:
        """Return the addresses to dial; raise ToolError when one is nearer than the server."""
        self.check_name(host)
        addresses, own = await self.find_addresses(host, port), self.own
        for address in addresses:
            if refused := self._rules.judge_listed(host, address):
                raise refused
        if own is None or (host, port) == (own.host, own.port):
            return addresses
        if max(map(_nearness, addresses)) > min(map(_nearness, await self.find_addresses(own.host, own.port))):
            what = f"signing in goes through {strip_to_line(host)}, an address in a private network"
            raise ToolError(what, code="denied")
        return addresses


async def judge_address(url: str, own: str) -> None:
    """Raise ToolError for an address that the server at `own` may not send us to.

    It is a server's word where we knock with secrets: encrypted, and no nearer to us than the server itself is.
    """
    there, here = urlsplit(url), urlsplit(own)
    is_safe = there.scheme == "https" or (there.scheme == "http" and is_loopback(there.hostname or ""))
    if not is_safe:
        raise ToolError(f"signing in goes through {_name(url)}, which is not encrypted", code="denied")
    if (there.scheme, there.netloc) != (here.scheme, here.netloc):
        host = destination_of(url)
        try:
            await SignInGuard(own).check(host.host, host.port)
        except OSError:
            raise ToolError(f"signing in goes through {host.host}, which has no address", code="unavailable") from None


def _nearness(address: str) -> int:
    """Tell how near an address is: 0 anywhere, 1 a private network, 2 this machine, 3 something else."""
    what, range = describe_special(address)
    return {"": 0, PRIVATE: 1}.get(what, 2 if range in ("127.0.0.0/8", "::1/128") else 3)


def _name(url: str) -> str:
    there = urlsplit(url)
    return error_text(f"{there.scheme}://{there.netloc.rpartition('@')[2]}")


class CallbackPage:
    """A page on this machine, at a port of its own, that hears one answer to a question with this state."""

    def __init__(self, port: int) -> None:
        self._port, self._serving = port, dict["asyncio.Task[None]", asyncio.StreamWriter]()
        self._answer: asyncio.Future[Mapping[str, str]] = asyncio.get_running_loop().create_future()

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port, limit=_HEAD_BYTES)
        except OSError as error:
            raise ToolError(f"port {self._port} of this machine cannot be had: {error.strerror}", code="busy") from None
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        if self._serving:  # the browser is to read what it was sent
            await asyncio.wait(list(self._serving), timeout=_GOODBYE)
        for writer in self._serving.values():  # it opens more connections than it uses
            writer.transport.abort()
        if self._serving:
            await asyncio.wait(list(self._serving))

    @property
    def url(self) -> str:
        """Where the browser is sent back to."""
        return f"http://127.0.0.1:{self._port}{_PATH}"

    async def wait(self, state: str) -> Mapping[str, str]:
        """Return what the browser brought back; raise ToolError when that is no yes, or answers another question."""
        try:
            async with asyncio.timeout(_PERSON_SECONDS):
                answer = await self._answer
        except TimeoutError:
            words = f"nobody came back from the page within {_PERSON_SECONDS:g} seconds"
            raise ToolError(words, code="timeout") from None
        if not secrets.compare_digest(answer["state"].encode(), state.encode()):
            raise ToolError("the page came back with another state than it was given; nothing was taken", code="denied")
        if "error" in answer:
            raise ToolError(f"the page came back without a yes ({error_text(answer['error'][:80])})", code="denied")
        return answer

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._serving[task] = writer
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                method, target, _ = head.partition(b"\r\n")[0].decode().split(" ")
                there = urlsplit(target)
                fields = dict(parse_qsl(there.query, max_num_fields=_MAX_FIELDS))
                is_answer = method == "GET" and there.path == _PATH and "state" in fields
                body, status = (_BACK, "200 OK") if is_answer else (_ELSE, "404 Not Found")
                kind = f"content-type: text/plain\r\ncontent-length: {len(body)}\r\nconnection: close"
                writer.write(f"HTTP/1.1 {status}\r\n{kind}\r\n\r\n".encode() + body)
                await writer.drain()
                if is_answer and not self._answer.done():
                    self._answer.set_result(fields)
        except (OSError, ValueError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return  # a browser that only looked, or another client
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            del self._serving[task]
