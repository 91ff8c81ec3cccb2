"""The guard: names are resolved once, every address is judged, and a judged address is dialled, on every hop.

Everything that goes out by HTTP uses a client or a connection from here. Nothing is taken from the environment.
"""

import asyncio
import base64
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any
from urllib.parse import urlsplit

import httpcore2
import httpx2

from toolcrib.define.display import strip_to_line
from toolcrib.define.egress import Destination, EgressError, EgressRules, read_host
from toolcrib.define.errors import ToolError

Resolve = Callable[[str, int], Awaitable[list[str]]]

_CONNECT_SECONDS = 15.0
_MAX_ADDRESSES = 8  # of one name that are tried
_HEAD_BYTES = 16_384  # bytes in which a proxy has to say yes
_BUFFER_BYTES = 65_536


async def resolve_name(host: str, port: int) -> list[str]:
    """Return the addresses of a name, as the system finds them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


def destination_of(url: str) -> Destination:
    """Return where an address of the operator's leads, of any scheme: proxies have their own."""
    parts = urlsplit(url)
    port = parts.port or {"http": 80, "https": 443}.get(parts.scheme, 1080)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return Destination(parts.scheme, read_host(host), port)


def guard_for(url: str, rules: EgressRules = EgressRules()) -> "EgressGuard":  # noqa: B008  frozen
    """Return a guard that lets out to an address that the operator wrote down, wherever it is, and nowhere else.

    What `rules` say of hosts holds for it, too.
    """
    return EgressGuard(rules, own=destination_of(url))


class EgressGuard:
    """Lets connections out by `rules`; one made for an `own` destination, which the operator wrote, only there.

    That may be any address that the lists of hosts do not refuse.
    A `proxy` is dialled instead, and gets the address that was judged: it resolves nothing.
    """

    def __init__(
        self,
        rules: EgressRules,
        *,
        own: Destination | None = None,
        proxy: Destination | None = None,
        resolve: Resolve = resolve_name,
    ) -> None:
        self._rules, self.own, self.proxy, self._resolve = rules, own, proxy, resolve

    def only_for(self, own: Destination, *, direct: bool = False, listed: bool = False) -> "EgressGuard":
        """Return a guard that lets out to one destination of the operator's, wherever that is, and nowhere else.

        With `listed` the lists of hosts have their say in it.
        """
        rules = self._rules if listed else replace(self._rules, allow=None, deny=())
        return EgressGuard(rules, own=own, proxy=None if direct else self.proxy, resolve=self._resolve)

    async def check(self, host: str, port: int) -> list[str]:
        """Return the addresses to dial for a host, all of them judged; raise ToolError when that is not to be.

        Without an address it is an OSError, as when no host answers.
        """
        name = read_host(f"[{host}]" if ":" in host else host)
        if self.own is not None and (name, port) != (self.own.host, self.own.port):
            raise EgressError(name, "it is not where this way out leads", f"that is {self.own.host}:{self.own.port}")
        self.check_name(name)
        addresses, rules = await self.find_addresses(name, port), self._rules
        for address in addresses:
            if refused := rules.judge_listed(name, address) if self.own else rules.judge(name, address, port):
                raise refused
        return addresses

    def check_name(self, name: str) -> None:
        """Raise ToolError for a host that is refused by its name."""
        if refused := self._rules.judge_host(name):
            raise refused

    async def find_addresses(self, name: str, port: int) -> list[str]:
        """Return the addresses of a host, not judged yet; raise OSError when it has none."""
        if ":" in name or name.replace(".", "").isdigit():  # an address is what it is
            return [name]
        if f".{name}".endswith(".localhost"):  # whatever a name server says; one of both may be opened
            both = ["127.0.0.1", "::1"]
            return [each for each in both if not self._rules.judge(name, each, port)] or both
        try:
            found = (await self._resolve(name, port))[:_MAX_ADDRESSES]
        except (OSError, UnicodeError):
            found = []
        if not found:
            raise OSError("it has no address; check its spelling")
        return found

    async def dial(
        self, host: str, port: int, seconds: float = _CONNECT_SECONDS
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to a host, for bytes of any kind; raise ToolError when there is none to be had."""
        try:
            async with asyncio.timeout(seconds):
                addresses = await self.check(host, port)
                proxy = self.proxy
                reader, writer = await _open_first([proxy.host] if proxy else addresses, proxy.port if proxy else port)
                if proxy is not None:
                    try:
                        writer.write(_ask_proxy(proxy, addresses[0], port))
                        await _hear_consent(reader.read)
                    except BaseException:
                        writer.close()
                        raise
                return reader, writer
        except TimeoutError:
            raise ToolError(
                f"{strip_to_line(host)} did not take a connection in {seconds:g} seconds", code="timeout"
            ) from None
        except OSError as error:
            reason = strip_to_line(getattr(error, "strerror", None) or str(error) or type(error).__name__)
            raise ToolError(f"{strip_to_line(host)} cannot be reached: {reason}", code="unavailable") from None

    def open_client(
        self, *, secure: bool = True, timeout: httpx2.Timeout, proxy: str | None = None
    ) -> httpx2.AsyncClient:
        """Return a client whose every connection is let out by this guard; it follows no redirects.

        `proxy` is one that resolves names itself, for destinations of the operator's alone.
        """
        transport = _GuardedTransport(self, _context() if secure else _no_context(), proxy)
        return httpx2.AsyncClient(transport=transport, timeout=timeout, follow_redirects=False, trust_env=False)


async def _open_first(addresses: Iterable[str], port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    failed: OSError = OSError("it has no address")
    for address in addresses:
        try:
            return await asyncio.open_connection(address, port, limit=_BUFFER_BYTES)
        except OSError as error:
            failed = error
    raise failed


def _ask_proxy(proxy: Destination, address: str, port: int) -> bytes:
    """Return the words that have a proxy open a tunnel to an address."""
    place = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    lines = [f"CONNECT {place} HTTP/1.1", f"Host: {place}"]
    if proxy.credentials:
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(proxy.credentials.encode()).decode()}")
    return "\r\n".join([*lines, "", ""]).encode()


async def _hear_consent(read: Callable[[int], Awaitable[bytes]]) -> None:
    """Read what a proxy says to that, and not a byte more: those are the other side's."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = await read(1)
        head += piece
        if not piece or len(head) > _HEAD_BYTES:
            break
    status = head.partition(b"\r\n")[0].split(b" ")[1:2]
    if status != [b"200"]:
        raise OSError(f"the proxy of web.proxy answered {b''.join(status).decode('ascii', 'replace')[:3] or 'nothing'}")


@cache
def _context() -> ssl.SSLContext:
    return httpx2.create_ssl_context()


@cache
def _no_context() -> ssl.SSLContext:
    # reading the certificates of the system takes longer than a request to this machine
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class _GuardedTransport(httpx2.AsyncHTTPTransport):
    """HTTP over connections of a guard."""

    def __init__(self, guard: EgressGuard, context: ssl.SSLContext, proxy: str | None) -> None:
        super().__init__(verify=context, trust_env=False, proxy=proxy)
        # the pool takes it as a parameter, this transport does not hand it on
        self._pool._network_backend = _GuardedNetwork(guard)  # noqa: SLF001


class _GuardedNetwork(httpcore2.AsyncNetworkBackend):
    """Connections of a guard, as the HTTP library wants them."""

    def __init__(self, guard: EgressGuard) -> None:
        self._guard, self._inner = guard, httpcore2.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        """Dial a judged address of the host; only TLS sees the name."""
        try:
            addresses, proxy = await self._guard.check(host, port), self._guard.proxy
        except OSError as error:
            raise httpcore2.ConnectError(str(error)) from error
        failed: Exception = httpcore2.ConnectError("it has no address")
        for address in [proxy.host] if proxy else addresses:
            try:
                stream = await self._inner.connect_tcp(address, proxy.port if proxy else port, timeout)
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failed = error
                continue
            if proxy:
                await _tunnel(stream, _ask_proxy(proxy, addresses[0], port), timeout)
            return stream
        raise failed

    async def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore2.AsyncNetworkStream:
        """Refuse: a socket file is no address of the web."""
        raise httpcore2.ConnectError("no socket of this machine is a web page")

    async def sleep(self, seconds: float) -> None:
        """Wait, as the library asks between attempts."""
        await self._inner.sleep(seconds)


async def _tunnel(stream: Any, asked: bytes, timeout: float | None) -> None:
    try:
        await stream.write(asked, timeout)
        await _hear_consent(lambda count: stream.read(count, timeout))
    except OSError as error:
        await stream.aclose()
        raise httpcore2.ProxyError(str(error)) from None
