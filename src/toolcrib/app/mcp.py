"""The MCP servers of the configuration, wired: how each is reached, which secrets it holds, the tools it brings."""

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import platformdirs

from toolcrib.backends.exec.supervisor import SupervisorClient
from toolcrib.backends.stores.pins import SqlitePins
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.config.load import Loaded
from toolcrib.config.settings import McpSettings
from toolcrib.define.mcp import Link, LinkTerms, Progressed
from toolcrib.define.names import server_part
from toolcrib.define.tool import Tool
from toolcrib.policy.resolve import is_owner
from toolcrib.registry.catalog import Catalog, Problem
from toolcrib.services.mcp import Connect, Known, Mcp, McpTerms

from .state import FILE

__all__ = ["Servers", "servers_for"]

# What a program may take for granted; all else it is given by name, in `env`.
_BASICS = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
_SECRET_NAME = re.compile(r"(?i)key|token|secret|pass|auth|cred|cookie|session|signature")
_SHORTEST_SECRET, _SHORTEST_PLAIN = 4, 8
_ORDINARY = re.compile(r"(?:[~./]|[a-z]+://[^@]*$|[a-z_.-]*$|[0-9.:]*$)")  # paths, addresses, words, numbers


class Servers:
    """The servers of one crib: `service` is what doors and tools ask; its tools are joined to the rest of a catalog."""

    def __init__(self, service: Mcp, reach: "_Reach", redacts: Mapping[str, Callable[[str], str]]) -> None:
        self.service = service
        self._reach, self._redacts = reach, redacts
        self._made: dict[str, dict[str, tuple[str, Tool | None, str]]] = {}  # by digest, and what is wrong with it
        self._reading: dict[str, Sequence[Tool]] = {}

    def joined(self, catalog: Catalog) -> Catalog:
        """Return the catalog with the tools of every server that may be used now, and what is wrong with the others."""
        if not self.service.servers and not self.service.faults:
            return catalog
        tools, problems = dict(catalog.tools), [Problem("mcp", fault) for fault in self.service.faults]
        for name, known in self.service.servers.items():
            source, (made, faults) = f"mcp:{name}", self._tools(name, known)
            for tool in made:
                first = tools.setdefault(tool.name, tool)
                if first is not tool:
                    taken = f"{source} offers a tool {tool.name!r}, which {first.source} has; it was left out"
                    problems.append(Problem(source, taken))
            said = (*faults, *map(self._redacts[name], known.sentences()))
            problems += [Problem(source, sentence) for sentence in said]
        return Catalog(tools, (*catalog.problems, *problems))

    def start(self) -> None:
        """Begin to connect, beside everything else."""
        self.service.start()

    async def close(self) -> None:
        """End every server that was started; nothing of them is left."""
        await self.service.close()
        await self._reach.close()

    def _tools(self, name: str, known: Known) -> tuple[Sequence[Tool], Sequence[str]]:
        """Return the tools of a server; each is made once, and anew when another definition was accepted."""
        made, usable = self._made.setdefault(name, {}), known.accepted()
        digests = {own: known.pins[own].digest for own in usable}
        fresh = {own: usable[own] for own in usable if own not in made or made[own][0] != digests[own]}
        if fresh:
            from toolcrib.backends.mcp.tools import tools_from  # noqa: PLC0415  only who has servers pays

            async def call(tool: str, args: Mapping[str, Any], progress: Progressed | None) -> Any:
                return await self.service.call(name, tool, args, progress)

            tools, faults = tools_from(name, fresh, call, self._redacts[name])
            made |= {own: (digests[own], tools.get(own), faults.get(own, "")) for own in fresh}
        kept = [made[own] for own in usable]
        own_tools = [tool for _, tool, _ in kept if tool is not None]
        reading = self._resource_tools(name) if known.has_resources() else ()
        return (*own_tools, *reading), [fault for _, _, fault in kept if fault]

    def _resource_tools(self, name: str) -> Sequence[Tool]:
        if name not in self._reading:
            from toolcrib.backends.mcp.tools import resource_tools  # noqa: PLC0415  likewise

            async def ask(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
                return await self.service.ask(name, method, params)

            self._reading[name] = resource_tools(name, ask, self._redacts[name])
        return self._reading[name]


class _Reach:
    """How the servers are reached: the programs are started by one supervisor, which ends them with us."""

    def __init__(self, env: Mapping[str, str], terms: LinkTerms) -> None:
        self._env, self._terms = env, terms
        self._supervisor: SupervisorClient | None = None

    async def link(
        self, name: str, settings: McpSettings, redact: Callable[[str], str], changed: Callable[[], None]
    ) -> Link:
        """Connect to a server; raise ToolError when that fails."""
        if settings.url is not None:
            from toolcrib.backends.mcp import http  # noqa: PLC0415  only who has such a server pays

            address = http.Address(settings.url, dict(settings.headers))
            return await http.connect_over_http(name, address, changed=changed, redact=redact, terms=self._terms)
        from toolcrib.backends.mcp import stdio  # noqa: PLC0415  likewise

        built = {word: self._env[word] for word in _BASICS if word in self._env} | dict(settings.env)
        cwd = os.path.expanduser(settings.cwd) if settings.cwd else _here()  # noqa: PTH111
        program = stdio.Program((settings.command or "", *settings.args), built, cwd)
        self._supervisor = self._supervisor or SupervisorClient()
        return await stdio.connect_over_stdio(
            name, program, self._supervisor, changed=changed, redact=redact, terms=self._terms
        )

    async def close(self) -> None:
        """End every program."""
        if self._supervisor is not None:
            await self._supervisor.close()


def servers_for(
    loaded: Loaded,
    state: Path | None,
    env: Mapping[str, str],
    *,
    terms: McpTerms = McpTerms(),  # noqa: B008  frozen
    link: LinkTerms = LinkTerms(),  # noqa: B008  frozen
) -> Servers:
    """Return the servers of a configuration. None is started, and nothing on disk is touched but to read the pins.

    What was accepted stands in the state folder, which is the user's when none is named.
    """
    reach, faults = _Reach(env, link), list[str]()
    connects: dict[str, Connect] = {}
    redacts: dict[str, Callable[[str], str]] = {}
    parts: dict[str, str] = {}
    for name, settings in loaded.config.mcp_servers.items():
        first = parts.setdefault(server_part(name), name)
        if first != name:
            why = f"the MCP servers {first!r} and {name!r} would give their tools the same names"
            faults.append(f"{why}; rename one of them, {name!r} was left out")
            continue
        redacts[name] = _redact(loaded, name, settings)
        connects[name] = partial(reach.link, name, settings, redacts[name])
    named = env.get("TOOLCRIB_STATE", "").strip()
    folder = state or (Path(named) if named else platformdirs.user_state_path("toolcrib", appauthor=False))
    service = Mcp(
        connects,
        SqlitePins(SqliteFile(folder / FILE)),
        is_owner=lambda caller: is_owner(loaded.policy, caller),
        terms=terms,
        faults=faults,
    )
    return Servers(service, reach, redacts)


def _redact(loaded: Loaded, name: str, settings: McpSettings) -> Callable[[str], str]:
    """Return what takes the secrets of a server out of a text: it may say back what it was given."""
    hidden = {part for value in settings.headers.values() for part in (value, value.rpartition(" ")[2])}
    hidden |= {value for variable, value in settings.env.items() if _is_secret(variable, value)}
    hidden |= {part for value in _referenced(loaded, name) for part in (value, value.rpartition("=")[2])}
    if settings.url is not None:
        address = urlsplit(settings.url)
        hidden |= {value for _, value in parse_qsl(address.query)} | {address.query, address.password or ""}
    words = sorted((word for word in hidden if len(word.strip()) >= _SHORTEST_SECRET), key=len, reverse=True)

    def redact(text: str) -> str:
        for word in words:
            text = text.replace(word, "…")
        return text

    return redact


def _referenced(loaded: Loaded, name: str) -> Iterator[str]:
    """Yield what this server is given out of the environment, but for paths: those stand in every honest answer."""
    for path in loaded.document.referenced:
        if path[:2] == ("mcpServers", name):
            value: Any = loaded.document.value
            for key in path:
                value = value[key]
            if isinstance(value, str) and not value.startswith(("/", "~", "./")):
                yield value


def _is_secret(name: str, value: str) -> bool:
    """Tell whether a variable's value has to be hidden: a path or a plain word stands in many honest texts."""
    if _SECRET_NAME.search(name):
        return True
    return len(value) >= _SHORTEST_PLAIN and not _ORDINARY.match(value)


def _here() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "/"
