"""MCP servers of other people: how each is reached, which secrets it holds, and the tools it brings."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Literal, Protocol
from urllib.parse import parse_qsl, urlsplit

from toolcrib.adapter.trim import redact_value
from toolcrib.config.services import McpSettings
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.display import escape_unprintable
from toolcrib.define.errors import ToolError
from toolcrib.define.mcp import Definition, Link, PinStore
from toolcrib.define.names import server_part
from toolcrib.define.ports import rpc
from toolcrib.define.result import Result
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import Tool
from toolcrib.lazy import regex
from toolcrib.services.feature import Core, Feature

from .servers import KnownServer
from .service import Connect, Mcp, McpTerms

_Redact = Callable[[str], str]

_SECRET_NAME = regex(r"(?i)key|token|secret|pass|auth|cred|cookie|session|signature")
_MIN_SECRET_CHARS, _MIN_VALUE_CHARS = 4, 8
_PROMPT_CHARS = 200_000
_READY_SECONDS = 10.0  # for servers that are still connecting when a client asks what they offer
_ORDINARY = regex(r"(?:[~./]|[a-z]+://[^@]*$|[a-z_.-]*$|[0-9.:]*$)")  # paths, addresses, words, numbers


class McpBackend(Protocol):
    """What speaks the protocol: connects to a server, and makes tools of what it declares."""

    def admit(self, settings: McpSettings, /) -> McpSettings:
        """Return a server as it may be started; raise ToolError when nobody has accepted its code in a workspace."""

    async def connect(self, name: str, settings: McpSettings, redact: _Redact, changed: Callable[..., None], /) -> Link:
        """Connect to a server that is admitted now; raise ToolError when that fails."""

    async def sign_in(self, name: str, settings: McpSettings, redact: _Redact, show: Callable[[str], None], /) -> str:
        """Have a person sign in at the address that `show` is given; return what the server calls itself."""

    def sign_out(self, name: str, settings: McpSettings, /) -> bool:
        """Forget the token of a server, and tell whether there was one."""

    def secrets(self, name: str, /) -> Iterator[str]:
        """Yield the tokens that are in use for a server."""

    def make_tools(
        self, name: str, definitions: Mapping[str, Definition], call: Callable[..., Awaitable[Any]], redact: _Redact, /
    ) -> tuple[Mapping[str, Tool], Mapping[str, str]]:
        """Return the tools by the server's own names, and what is wrong with those that cannot be made."""

    def make_resource_tools(
        self, name: str, ask: Callable[..., Awaitable[Mapping[str, Any]]], redact: _Redact, /
    ) -> Sequence[Tool]:
        """Return the tools that list and read the resources of a server."""

    async def close(self) -> None:
        """End every server that was started; nothing of them is left."""


def mount(core: Core, backend: Callable[..., McpBackend]) -> Feature:
    """Mount the servers of the configuration. None is started, and nothing on disk is touched but to read the pins."""
    return mount_servers(
        core.config.mcp_servers,
        backend(core.env, admit=core.admit_server, state=core.state, rules=core.way_out.rules),
        core.stores.pins,
        is_owner=core.is_owner,
        secrets_of=partial(core.secrets_below, "mcpServers"),
    )


def mount_servers(
    servers: Mapping[str, McpSettings],
    backend: McpBackend,
    pins: PinStore,
    *,
    is_owner: Callable[[Caller], bool],
    secrets_of: Callable[[str], Iterator[str]],
    terms: McpTerms | None = None,
) -> Feature:
    """Mount servers; `secrets_of` yields what the environment gave to one of them."""
    faults = list[str]()
    connects: dict[str, Connect] = {}
    redacts: dict[str, _Redact] = {}
    parts: dict[str, str] = {}
    for name, settings in servers.items():
        first = parts.setdefault(server_part(name), name)
        if first != name:
            why = f"the MCP servers {first!r} and {name!r} would give their tools the same names"
            faults.append(f"{why}; rename one of them, {name!r} was left out")
            continue
        try:
            backend.admit(settings)
        except ToolError as error:
            faults.append(escape_unprintable(f"the MCP server {name!r} was left out: {error}"))
            continue
        redacts[name] = _make_redact(settings, secrets_of(name), partial(backend.secrets, name))
        connects[name] = partial(backend.connect, name, settings, redacts[name])
    service = Mcp(connects, pins, is_owner=is_owner, terms=terms or McpTerms(), faults=faults)

    async def start() -> None:
        service.start()

    async def close() -> None:
        await service.close()
        await backend.close()

    tools = ServerTools(service, backend, redacts, {name: servers[name] for name in redacts})
    return Feature(services=(service, tools), tools=tools, start=start, close=close)


class ServerTools:
    """The tools of all servers; each is made once, and anew when another definition of it was accepted.

    Prompts are for people and programs. Who asks for them is judged and answered as if a tool of the server were
    called, by `run_as`, which runs a tool for a caller without showing it to any model.
    """

    run_as: Callable[[Caller, Tool, Mapping[str, Any]], Awaitable[Result]]

    def __init__(
        self, service: Mcp, backend: McpBackend, redacts: Mapping[str, _Redact], settings: Mapping[str, McpSettings]
    ) -> None:
        self._service, self._backend, self._redacts, self._settings = service, backend, redacts, settings
        self._made: dict[str, dict[str, tuple[str, Tool | None, str]]] = {}  # by digest, and what is wrong with it
        self._reading: dict[str, Sequence[Tool]] = {}

    def tools(self) -> Iterable[Tool]:
        """Return the tools of every server that may be used now."""
        for name, known in self._service.servers.items():
            yield from (tool for _, tool, _ in self._make(name, known) if tool is not None)
            if known.has_resources():
                yield from self._make_for_resources(name)

    def problems(self) -> Iterable[tuple[str, str]]:
        """Return what is wrong with the configuration of servers, and with each of them."""
        yield from (("mcp", fault) for fault in self._service.faults)
        for name, known in self._service.servers.items():
            faults = (fault for _, _, fault in self._make(name, known) if fault)
            yield from ((f"mcp:{name}", each) for each in (*faults, *map(self._redacts[name], known.sentences())))

    def on_change(self, listener: Callable[[], None], /) -> Callable[[], None]:
        """Have `listener` called when a server offers something else, comes or goes."""
        return self._service.on_change(listener)

    async def sign_in(self, server: str, show: Callable[[str], None]) -> str:
        """Have a person sign in to a server at the address that `show` is given; return what it calls itself."""
        settings = self._service.require(server, self._settings)
        return await self._backend.sign_in(server, settings, self._redacts[server], show)

    def sign_out(self, server: str) -> bool:
        """Forget the token of a server, and tell whether there was one."""
        return self._backend.sign_out(server, self._service.require(server, self._settings))

    @rpc("mcp.prompts", clients="read", starts_turn=True, why="gate")
    async def prompts(
        self, caller: Caller, server: Annotated[str, "the name of the server in the configuration"]
    ) -> dict[str, str]:
        """List the prompts that an MCP server offers, as it writes them; for who may call its tools."""
        return await self._ask_as(caller, server, "prompts/list", {})

    @rpc("mcp.prompt", clients="read", starts_turn=True, why="gate")
    async def prompt(
        self,
        caller: Caller,
        server: Annotated[str, "the name of the server in the configuration"],
        name: Annotated[str, "the prompt, as the server calls it"],
        args: Annotated[dict[str, str] | None, "what it is filled in with"] = None,
    ) -> dict[str, str]:
        """Return a prompt of an MCP server, as it writes it; for who may call its tools."""
        return await self._ask_as(caller, server, "prompts/get", {"name": name, "arguments": args or {}})

    async def find_servers(self, kind: Literal["resources", "prompts"]) -> list[str]:
        """Return the servers that offer such things, in the order of the configuration; wait a while for slow ones."""
        await self._service.ready(_READY_SECONDS)
        there = [each for each in self._service.servers.values() if each.link is not None and each.offered is not None]
        return [each.name for each in there if getattr(each.offered, f"has_{kind}")]

    def on_update(self, listener: Callable[[str, str], None]) -> Callable[[], None]:
        """Have `listener` called with the server and the address of a resource that has changed, once subscribed to."""
        return self._service.on_update(listener)

    def make_request(self, server: str, method: str) -> Tool:
        """Return what asks a server for something other than a tool, as a tool that no model is shown.

        Its arguments are the parameters of the method, and its details what the server answered.
        """
        source, name = f"mcp:{server}", f"{server_part(server)}__{method.replace('/', '__')}"  # as no tool is called

        async def run(ctx: Ctx, args: Mapping[str, Any]) -> Result:
            value = await self._service.ask(server, method, args)
            return Result.json(redact_value(value, self._redacts[server]), source=source)

        return Tool(
            name=name, description=method, shape=Shape(lambda: {"type": "object"}, check_of_schema), run=run,
            source=source, effects=frozenset({"read", "network"}), limit=_PROMPT_CHARS,
        )  # fmt: skip

    async def _ask_as(self, caller: Caller, server: str, method: str, params: Mapping[str, Any]) -> dict[str, str]:
        """Return what a server answers, as JSON between marks; raise ToolError when the caller may not ask."""
        result = await self.run_as(caller, self.make_request(server, method), params)
        if result.status == "error":
            outside = next((part.source for part in result.content), None)
            raise ToolError(result.details["error"], code=result.details["code"], source=outside)
        return {"source": f"mcp:{server}", "text": result.plain_text}

    def _make(self, name: str, known: KnownServer) -> Sequence[tuple[str, Tool | None, str]]:
        made, usable = self._made.setdefault(name, {}), known.accepted()
        digests = {own: known.pins[own].digest for own in usable}
        fresh = {own: usable[own] for own in usable if own not in made or made[own][0] != digests[own]}
        if fresh:
            call = partial(self._service.call, name)
            tools, faults = self._backend.make_tools(name, fresh, call, self._redacts[name])
            made |= {own: (digests[own], tools.get(own), faults.get(own, "")) for own in fresh}
        return [made[own] for own in usable]

    def _make_for_resources(self, name: str) -> Sequence[Tool]:
        if name not in self._reading:
            ask = partial(self._service.ask, name)
            self._reading[name] = self._backend.make_resource_tools(name, ask, self._redacts[name])
        return self._reading[name]


def _make_redact(settings: McpSettings, given: Iterator[str], tokens: Callable[[], Iterator[str]]) -> _Redact:
    """Return what takes the secrets of a server out of a text: it may say back what it was given."""
    hidden = {part for value in settings.headers.values() for part in (value, value.rpartition(" ")[2])}
    hidden |= {value for variable, value in settings.env.items() if _is_secret(variable, value)}
    # paths stand in every honest answer
    lent = (value for value in given if not value.startswith(("/", "~", "./")))
    hidden |= {part for value in lent for part in (value, value.rpartition("=")[2])}
    if settings.url is not None:
        address = urlsplit(settings.url)
        hidden |= {value for _, value in parse_qsl(address.query)} | {address.query, address.password or ""}
    words = sorted((word for word in hidden if len(word.strip()) >= _MIN_SECRET_CHARS), key=len, reverse=True)

    def redact(text: str) -> str:
        for word in (*tokens(), *words):
            text = text.replace(word, "…")
        return text

    return redact


def _is_secret(name: str, value: str) -> bool:
    """Tell whether a variable's value has to be hidden: a path or a plain word stands in many honest texts."""
    if _SECRET_NAME.search(name):
        return True
    return len(value) >= _MIN_VALUE_CHARS and not _ORDINARY.match(value)
