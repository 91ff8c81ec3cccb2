"""Cribs with MCP servers, real programs all of them, and their patience short."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from toolcrib.agent.belt import Belts
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.app.belt import Belt
from toolcrib.app.features import find_secrets, join_tools
from toolcrib.app.stores import STATE_FILE
from toolcrib.backends.mcp.reach import McpReach
from toolcrib.backends.stores.approvals import SqlitePins
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.config.load import load
from toolcrib.define.caller import OWNER
from toolcrib.define.context import Ports
from toolcrib.define.event import CallEvent
from toolcrib.define.mcp import LinkTerms
from toolcrib.define.result import Result
from toolcrib.define.tool import Tool
from toolcrib.policy.resolve import is_owner
from toolcrib.registry.catalog import Catalog
from toolcrib.registry.sources import Offer, collect_catalog
from toolcrib.services.feature import Feature
from toolcrib.services.mcp import ServerTools, mount_servers
from toolcrib.services.mcp.service import Mcp, McpTerms
from toolcrib.tools import SHELF

HERE = Path(__file__).parent
LIAR = HERE / "liar.py"
SECRET = "s3cret-value"
QUICK = McpTerms(first_delay=0.05, longest_delay=0.2, most_tries=3, nudge=0.0, patience=5.0, relist=0.05)
HASTY = McpTerms(first_delay=30.0, longest_delay=30.0, nudge=30.0, patience=0.5)
LINK = LinkTerms(handshake=60.0, listing=60.0, window=600.0)  # as a busy machine needs it


def liar(how: str, file: Path | str = "", **more: Any) -> dict[str, Any]:
    """Return the settings of a server that lies in this way."""
    args = ["-I", "-S", str(LIAR), how, *([str(file)] if file else [])]
    return {"command": sys.executable, "args": args, "env": {"API_KEY": SECRET}, **more}


def served(maker: str = "official", **more: Any) -> dict[str, Any]:
    """Return the settings of an honest server."""
    return {
        "command": sys.executable,
        "args": [str(HERE / "served.py"), maker, "stdio"],
        "env": {"API_KEY": SECRET},
        **more,
    }


@dataclass(frozen=True, slots=True)
class World:
    """Servers, and our own tools beside theirs."""

    feature: Feature
    config: Mapping[str, Any]

    @property
    def service(self) -> Mcp:
        service, _ = self.feature.services
        assert isinstance(service, Mcp)
        return service

    @property
    def prompts(self) -> ServerTools:
        _, tools = self.feature.services
        assert isinstance(tools, ServerTools)
        tools.run_as = lambda _, tool, args: self.belt(extra=(tool,)).call(tool.name, args)
        return tools

    @property
    def catalog(self) -> Catalog:
        return join_tools(collect_catalog([Offer(source="core", tools=SHELF)]), [self.feature])

    @property
    def problems(self) -> list[str]:
        return [problem.sentence for problem in self.catalog.problems]

    @property
    def theirs(self) -> list[str]:
        return [name for name, tool in self.catalog.items() if tool.source.startswith("mcp:")]

    def belt(
        self, watch: Callable[[CallEvent], None] | None = None, seconds: float = 99.0, extra: tuple[Tool, ...] = ()
    ) -> Belt:
        catalog, caller = self.catalog, OWNER
        return Belt(
            caller=caller,
            selection=Belts(catalog, load(self.config, {}).policy).belt_for(caller, extra),
            catalog=catalog,
            pipeline=CallPipeline(record=MemoryRecord(), watch=watch, timeout=seconds),
            ports=Ports(),
        )

    async def call(self, name: str, args: Mapping[str, Any] | None = None, *, seconds: float = 99.0) -> tuple[str, str]:
        """Return the status and the words of one call."""
        return said(await self.belt(seconds=seconds).call(name, args))

    async def until(self, is_so: Callable[[], bool]) -> None:
        """Wait until something about the servers is so; five seconds at most."""
        event = asyncio.Event()
        self.service.on_change(event.set)
        async with asyncio.timeout(60):
            while not is_so():
                await event.wait()
                event.clear()


def said(result: Result) -> tuple[str, str]:
    return result.status, result.plain_text


@contextlib.asynccontextmanager
async def opened(
    servers: Mapping[str, Any], state: Path, *, terms: McpTerms = QUICK, link: LinkTerms = LINK, ready: float = 60.0
) -> AsyncIterator[World]:
    """Open a world with these servers; it waits until each is there or has failed, so many seconds at most."""
    config = {"mcpServers": servers}
    world = World(mounted(config, state, terms=terms, link=link), config)
    try:
        await world.service.ready(ready)
        yield world
    finally:
        await world.feature.close()


def mounted(config: Mapping[str, Any], state: Path, *, terms: McpTerms = QUICK, link: LinkTerms = LINK) -> Feature:
    """Return the servers of a configuration, whose pins are in a folder."""
    loaded = load(config, {})
    return mount_servers(
        loaded.config.mcp_servers,
        McpReach(os.environ, link, state=state),
        SqlitePins(SqliteFile(state / STATE_FILE)),
        is_owner=lambda caller: is_owner(loaded.policy, caller),
        secrets_of=partial(find_secrets, loaded.document, "mcpServers"),
        terms=terms,
    )
