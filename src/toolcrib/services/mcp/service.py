"""Other people's MCP servers: connected in the background, restarted with patience, their definitions pinned by hash.

What a server offered when it was first seen is accepted: the operator wrote it into the configuration. From then on
a definition that changed, or that is new, is withheld until somebody accepts it; the server's other tools go on.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Annotated, Any, TypeVar

from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.mcp import Link, Pin, PinStore, Progressed, definition_digest
from toolcrib.define.names import server_part, suggest
from toolcrib.define.ports import rpc
from toolcrib.lazy import dataclass

from .servers import KnownServer

log = logging.getLogger("toolcrib")
T = TypeVar("T")
_MEET_SECONDS = 30.0  # npx and uvx fetch what they start first

Connect = Callable[[Callable[..., None]], Awaitable[Link]]
"""Connects to a server; what it is given is to be called when the server says that its offer has changed, and with the
address of a resource when it says that this one has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpTerms:
    """Seconds, and how often.

    A server that fails is tried again after `first_delay`, then twice as long each time up to `longest_delay`; after
    `most_tries` in a row only a call brings it back, at most one every `nudge`. One that stayed up for `steady` begins
    anew. A call waits for a connection as long as `patience`; a changed offer is looked at once every `relist`.
    """

    first_delay: float = 1.0
    longest_delay: float = 60.0
    most_tries: int = 10
    steady: float = 60.0
    nudge: float = 10.0
    patience: float = 20.0
    relist: float = 1.0


class Mcp:
    """The servers of one crib. Nothing is connected before `start`, or before somebody calls one of their tools."""

    def __init__(
        self,
        servers: Mapping[str, Connect],
        store: PinStore,
        *,
        is_owner: Callable[[Caller], bool],
        terms: McpTerms = McpTerms(),  # noqa: B008  frozen
        now: Callable[[], float] = time.time,
        faults: Iterable[str] = (),
    ) -> None:
        self._connects, self._store, self._is_owner, self._terms, self._now = servers, store, is_owner, terms, now
        self.servers = {name: KnownServer(name) for name in servers}  # as each is known now
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._listeners: dict[object, Callable[[], None]] = {}
        self._watchers: dict[object, Callable[[str, str], None]] = {}
        self._is_closed = False
        self.faults = [*faults, *self._remember()]
        self.tools_of: Callable[[Caller], Collection[str]] = lambda caller: ()

    # what the catalog is made of

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Have `listener` called when the tools of a server, or what is wrong with it, change; return how to end it."""
        key = object()  # the same one may listen twice
        self._listeners[key] = listener
        return lambda: self._listeners.pop(key, None) and None

    def on_update(self, listener: Callable[[str, str], None]) -> Callable[[], None]:
        """Have `listener` called with the server and the address of a resource that has changed; return how to end."""
        key = object()
        self._watchers[key] = listener
        return lambda: self._watchers.pop(key, None) and None

    def unmet(self) -> list[str]:
        """Return the servers of which nothing is known yet: never seen before, and not heard of since the start."""
        return [name for name, each in self.servers.items() if not each.pins and not each.settled.is_set()]

    # connecting

    def start(self) -> None:
        """Begin to connect to every server, beside everything else; once started, nothing happens."""
        if not self.servers or self._is_closed or self._loop is (loop := asyncio.get_running_loop()):
            return
        # a crib may live through several loops, one after the other; what belonged to the last one is gone with it
        for name in self.servers if self._loop else ():
            known, self.servers[name] = self.servers[name], KnownServer(name)
            self.servers[name].take(known.pins.values())
        self._loop = loop
        self._tasks = {loop.create_task(self._keep(each)) for each in self.servers.values()}

    async def ready(self, seconds: float, servers: Iterable[str] | None = None) -> None:
        """Connect, and wait until all servers, or those named, are there or failed once; so many seconds at most."""
        self.start()
        waits = [
            asyncio.ensure_future(each.settled.wait())
            for name, each in self.servers.items()
            if servers is None or name in servers
        ]
        if waits:
            await asyncio.wait(waits, timeout=seconds)
        for wait in waits:
            wait.cancel()

    async def meet(self, tool: str, seconds: float = _MEET_SECONDS) -> str:
        """Connect to the server that a tool is named after, where nothing is known of it; return why it has no tools.

        That is "" where it has answered, and where no server is meant.
        """
        name = next((each for each in self.servers if tool.lower().startswith(f"{server_part(each)}__".lower())), None)
        if name is None or self.servers[name].pins:
            return ""
        await self.ready(seconds, [name])
        if self.servers[name].pins or self.servers[name].state == "connected":
            return ""
        why = self.servers[name].why or f"the MCP server {name!r} has not answered within {seconds:g} seconds"
        return f"{why}, so its tools are not known; `toolcrib mcp list` connects anew and says how it stands"

    async def reach(self, server: str) -> KnownServer:
        """Return a server that is connected; raise ToolError with the reason when it is not."""
        await self._link(server)
        return self.servers[server]

    async def close(self) -> None:
        """End every connection, and every server that was started."""
        self._is_closed = True
        tasks, self._tasks = self._tasks, set()
        if tasks and self._loop is asyncio.get_running_loop():
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    def require(self, server: str, found: Mapping[str, T]) -> T:
        """Return what belongs to a server of the configuration; raise ToolError when there is no such server."""
        if server not in found:
            hint = suggest(server, found)
            raise ToolError(f"the configuration has no MCP server {server[:64]!r}{hint}", code="not_found")
        return found[server]

    # what tools do

    async def call(self, server: str, tool: str, args: Mapping[str, Any], progress: Progressed | None = None) -> Any:
        """Return what a tool answered, as the server sent it; raise ToolError when there is no way to ask."""
        link = await self._link(server)
        at = self.servers[server].standings().get(tool, "gone")
        if at == "gone":
            raise ToolError(f"the MCP server {server!r} offers no tool {tool[:64]!r} any more", code="not_found")
        if at != "accepted":
            raise ToolError(
                f"the MCP server {server!r} changed what {tool[:64]!r} is, and nobody has accepted that yet",
                code="denied",
            )
        return await link.call(tool, args, progress)

    async def ask(self, server: str, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return what a server answers to a request of the protocol."""
        return await (await self._link(server)).ask(method, params)

    # what doors ask for

    @rpc("mcp.status", clients="read", why="own")
    async def status(self, caller: Caller) -> list[dict[str, Any]]:
        """Tell how every MCP server stands, its tools, and what is wrong; to a guest, those whose tools they have."""
        if self._is_owner(caller):
            return [each.to_json() for each in self.servers.values()]
        had, unsaid = self.tools_of(caller), {"about": "", "problems": [], "said": ""}
        mine = [name for name in self.servers if any(each.startswith(f"{server_part(name)}__") for each in had)]
        rows = [self.servers[name].to_json() | unsaid for name in mine]
        return [row | {"tools": [tool for tool in row["tools"] if tool["name"] in had]} for row in rows]

    @rpc("mcp.list", clients="admin")
    async def overview(
        self, caller: Caller, wait: Annotated[float, "seconds to wait for servers that are not there yet"] = 0.0
    ) -> dict[str, Any]:
        """Connect, and tell how every server stands and what is wrong with the configuration of servers."""
        await self.ready(wait)
        return {"servers": await self.status(caller), "problems": self.faults}

    @rpc("mcp.changes", clients="admin")
    async def changes(self, server: Annotated[str, "the name of the server in the configuration"]) -> dict[str, Any]:
        """Connect to a server; return the tools it has, and those that wait to be accepted, as they were and are."""
        each = await self.reach(server)
        waiting = [
            {
                "tool": change.tool,
                "standing": change.standing,
                "before": change.before,
                "after": change.after,
                "digest": definition_digest(change.after),
            }
            for change in each.changes()
        ]
        return {"tools": [*each.standings()], "changes": waiting}

    @rpc("mcp.accept", clients="admin")
    async def accept(
        self,
        caller: Caller,
        server: Annotated[str, "the name of the server in the configuration"],
        tool: Annotated[str, "one tool, as the server calls it; all that wait when empty"] = "",
        digest: Annotated[str, "what the definition must be, so that nothing unseen is accepted"] = "",
    ) -> list[str]:
        """Accept definitions that changed or are new; return the tools, as the server calls them."""
        if not self._is_owner(caller):
            raise ToolError("only the owner may accept what an MCP server declares", code="denied")
        each = await self.reach(server)
        wanted = [change for change in each.changes() if tool in ("", change.tool)]
        if digest and any(definition_digest(change.after) != digest for change in wanted):
            raise ToolError(f"{tool[:64]!r} is not what it was when you looked; look again", code="changed")
        if tool and not wanted:
            known = each.standings()
            if known.get(tool) == "accepted":
                return []
            hint = suggest(tool, known)
            raise ToolError(f"the MCP server {server!r} offers no tool {tool[:64]!r}{hint}", code="not_found")
        at = self._now()
        pins = [Pin(server, change.tool, definition_digest(change.after), change.after, at) for change in wanted]
        await self._store.pin(pins)
        each.take(await self._store.pins(server))
        self._notify()
        return [change.tool for change in wanted]

    # steps

    def _remember(self) -> list[str]:
        """Take what was pinned before; return why that cannot be read, nothing when it can."""
        try:
            pins = self._store.list_all() if self.servers else ()
        except ToolError as error:
            return [f"what was accepted of MCP servers cannot be read: {error}"]
        for name, each in self.servers.items():
            each.take(pin for pin in pins if pin.server == name)
        return []

    async def _link(self, server: str) -> Link:
        """Return the connection to a server; wait for one that is being made, bring back one that is down."""
        self.require(server, self.servers)
        if self._is_closed:
            raise ToolError(f"the MCP server {server!r} was let go: this crib is closed", code="unavailable")
        self.start()
        each = self.servers[server]
        try:
            async with asyncio.timeout(self._terms.patience):
                await self._wait_settled(each)
        except TimeoutError:
            raise ToolError(
                f"the MCP server {server!r} is not connected yet; try again later", code="unavailable"
            ) from None
        if each.link is None:
            raise ToolError(each.why, code="unavailable", source=f"mcp:{server}")
        return each.link

    async def _wait_settled(self, each: KnownServer) -> None:
        """Wait until it is clear whether a server is there; one that is down is tried again, though not every time."""
        if each.link is not None and each.link.is_gone:
            # nobody has had the time yet to see that it is
            each.link = None
            each.settled.clear()
            await each.settled.wait()
        if each.link is None and each.state in ("waiting", "given up"):
            if asyncio.get_running_loop().time() - each.tried_at < self._terms.nudge:
                return
            each.settled.clear()
            each.wake.set()
        await each.settled.wait()

    async def _keep(self, server: KnownServer) -> None:
        """Keep one server connected, as long as this crib lives."""
        tries, reason, loop, terms = 0, "", asyncio.get_running_loop(), self._terms
        while True:
            server.state, server.tried_at = "connecting", loop.time()
            server.wake.clear()
            before, server.why = reason, await self._stay_connected(server)
            if loop.time() - server.tried_at >= terms.steady:
                tries = 0
            tries += 1
            server.state = "waiting" if tries < terms.most_tries else "given up"
            if (reason := server.why) != before:  # the same once more is no news
                log.warning("%s", reason)
            server.settled.set()
            self._notify()
            delay = min(terms.first_delay * 2 ** min(tries - 1, 30), terms.longest_delay)
            try:
                async with asyncio.timeout(delay if server.state == "waiting" else None):
                    await server.wake.wait()
            except TimeoutError:
                log.debug("the MCP server %s is tried again", server.name)

    async def _stay_connected(self, server: KnownServer) -> str:
        """Connect to a server and stay until it is gone; return the sentence why it is."""
        link: Link | None = None
        try:
            link = await self._connects[server.name](partial(self._hear, server))
            await self._look(server, link)
            server.link, server.about, server.state, server.why = link, link.about, "connected", ""
            server.settled.set()
            self._notify()
            return f"the MCP server {server.name!r} {await self._follow_offer(server, link)}"
        except ToolError as error:
            named = str(error).startswith("the MCP server")
            return str(error) if named else f"the MCP server {server.name!r} is not there: {error}"
        except Exception:
            log.exception("the connection to the MCP server %s failed", server.name)
            return f"the MCP server {server.name!r} failed unexpectedly; the operator's log has the details"
        finally:
            server.link = None
            server.settled.clear()
            if link is not None:
                await link.close()
                server.diagnostics = link.diagnostics()

    async def _follow_offer(self, each: KnownServer, link: Link) -> str:
        """Look again whenever the server says that its offer changed, until it is gone; return why it is."""
        gone, changed = asyncio.ensure_future(link.wait_closed()), asyncio.ensure_future(each.changed.wait())
        try:
            while True:
                await asyncio.wait((gone, changed), return_when=asyncio.FIRST_COMPLETED)
                if gone.done():
                    return gone.result()
                each.changed.clear()
                changed = asyncio.ensure_future(each.changed.wait())
                await self._look(each, link)
                self._notify()
                await asyncio.wait((gone,), timeout=self._terms.relist)
        finally:
            gone.cancel()
            changed.cancel()

    async def _look(self, each: KnownServer, link: Link) -> None:
        """See what a server offers, and pin all of it if it was never seen before."""
        offered = await link.fetch_offer()
        if not (pins := await self._store.pins(each.name)):
            at = self._now()
            own = Pin(each.name, "", "", {"resources": offered.has_resources, "about": link.about}, at)
            first = [Pin(each.name, tool["name"], definition_digest(tool), tool, at) for tool in offered.tools]
            await self._store.pin([own, *first], first=True)
            pins = await self._store.pins(each.name)
        each.offered = offered
        each.take(pins)

    def _hear(self, each: KnownServer, uri: str = "") -> None:
        if not uri:
            each.changed.set()
        for watcher in tuple(self._watchers.values()) if uri else ():
            watcher(each.name, uri)

    def _notify(self) -> None:
        for listener in tuple(self._listeners.values()):
            try:
                listener()
            except Exception:
                log.exception("who listens for changes of MCP servers failed; the servers go on")
