"""Resources, prompts and completion of MCP servers that we use ourselves, for the clients of ours.

Every request is judged, asked about, recorded and redacted like a call of the server's tools, and what comes back is
fenced like a result. What a caller may not ask for is not listed.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol

from mcp.server import ServerRequestContext
from mcp.server.connection import Connection
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CompleteRequestParams,
    GetPromptRequestParams,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    RequestParams,
    SubscribeRequestParams,
    UnsubscribeRequestParams,
)

from toolcrib.adapter import mcp as wire
from toolcrib.adapter.fence import new_token, suspicions
from toolcrib.adapter.trim import present
from toolcrib.app import Belt
from toolcrib.define.display import strip_to_line
from toolcrib.define.errors import ToolError
from toolcrib.define.marks import defuse
from toolcrib.define.names import RESOURCES_LIST, RESOURCES_READ, server_part, suggest, tool_name
from toolcrib.define.ports import Why, check_why
from toolcrib.define.result import Result
from toolcrib.define.tool import Tool
from toolcrib.lazy import dataclass

Context = ServerRequestContext[Any, Any]
_Answer = dict[str, Any]
Handle = Callable[[Context, Any], Awaitable[_Answer]]

_MAX_PAGES, _MAX_ROWS, _MAX_VALUES = 10, 500, 100
_LABEL_CHARS, _URI_CHARS, _RESULT_CHARS = 1_000, 2_000, 200_000
_NO_RESOURCE = -32002  # what the protocol answers where there is no such resource


class ServerRequests(Protocol):
    """What is known of other people's servers."""

    async def find_servers(self, kind: Literal["resources", "prompts"]) -> Sequence[str]:
        """Return the servers that offer such things."""

    def make_request(self, server: str, method: str) -> Tool:
        """Return what asks a server for something other than a tool; its details are what the server answered."""

    def on_update(self, listener: Callable[[str, str], None]) -> Callable[[], None]:
        """Have `listener` called with the server and the address of a resource that has changed."""


@dataclass(frozen=True, slots=True)
class RelayMethod:
    """A method of MCP that is answered here, and why guests may ask for it: the gate judges what a server is asked."""

    name: str
    params: type[RequestParams]
    handle: Handle
    why: Why = ""

    def __post_init__(self) -> None:
        check_why(self.name, self.why)


class Relay:
    """Answers for other people's servers. `belt` returns the served belt with tools that no client is shown.

    A prompt is called like a tool, `server__prompt`; by its own name, too, while no other server has one so called.
    Of servers that list the same resource the first in the configuration is asked.
    """

    def __init__(self, belt: Callable[[Sequence[Tool]], Belt], servers: ServerRequests) -> None:
        self._belt, self._servers = belt, servers
        self._prompts: dict[str, tuple[str, str]] = {}  # the server and its own name for each
        self._resources: dict[str, str] = {}  # the server of each address, and of each beginning of a template
        self._templates: dict[str, str] = {}
        self._subscribed: dict[str, set[Connection]] = {}
        self._sending: set[asyncio.Task[None]] = set()
        servers.on_update(self._pass_on)

    def handlers(self) -> Iterator[RelayMethod]:
        """Yield the methods that are answered here."""
        yield RelayMethod("resources/list", PaginatedRequestParams, self._list_resources, "gate")
        yield RelayMethod("resources/templates/list", PaginatedRequestParams, self._list_templates, "gate")
        yield RelayMethod("resources/read", ReadResourceRequestParams, self._read_resource, "gate")
        yield RelayMethod("resources/subscribe", SubscribeRequestParams, self._subscribe, "gate")
        yield RelayMethod("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe, "gate")
        yield RelayMethod("prompts/list", PaginatedRequestParams, self._list_prompts, "gate")
        yield RelayMethod("prompts/get", GetPromptRequestParams, self._get_prompt, "gate")
        yield RelayMethod("completion/complete", CompleteRequestParams, self._complete, "gate")

    # resources

    async def _list_resources(self, ctx: Context, params: Any = None) -> _Answer:
        return {"resources": (await self._look_for_resources())[0]}

    async def _list_templates(self, ctx: Context, params: Any = None) -> _Answer:
        return {"resourceTemplates": (await self._look_for_resources())[1]}

    async def _look_for_resources(self) -> tuple[list[_Answer], list[_Answer]]:
        """Return what every server lists, and remember where each stands."""
        found: dict[str, _Answer] = {}
        templates: dict[str, _Answer] = {}
        where, starts = dict[str, str](), dict[str, str]()
        for server in await self._servers.find_servers("resources"):
            async for page in self._pages(f"{server_part(server)}__{RESOURCES_LIST}"):
                for row in _rows(page.get("resources"), "uri"):
                    where.setdefault(row["uri"], server)
                    found.setdefault(row["uri"], row)
                for row in _rows(page.get("resourceTemplates"), "uriTemplate"):
                    starts.setdefault(row["uriTemplate"].partition("{")[0], server)
                    templates.setdefault(row["uriTemplate"], row)
        self._resources, self._templates = where, starts
        return list(found.values()), list(templates.values())

    async def _server_of(self, uri: str) -> str:
        if uri not in self._resources and not self._start_of(uri):
            await self._look_for_resources()
        server = self._resources.get(uri) or self._templates.get(self._start_of(uri) or "")
        if server is None or f"{server_part(server)}__{RESOURCES_READ}" not in self._belt(()).tools:
            raise MCPError(_NO_RESOURCE, f"there is no resource {strip_to_line(uri[:200])!r}")
        return server

    def _start_of(self, uri: str) -> str | None:
        return max((start for start in self._templates if uri.startswith(start)), key=len, default=None)

    async def _read_resource(self, ctx: Context, params: ReadResourceRequestParams) -> _Answer:
        uri = str(params.uri)
        name = f"{server_part(await self._server_of(uri))}__{RESOURCES_READ}"
        result = _check(await self._belt(()).call(name, {"uri": uri}))
        contents = [_content(block, uri) for block in wire.encode_result(result)["content"]]
        # a fence stands before a picture or a file; programs look at the first
        return {"contents": sorted(contents, key=lambda each: "text" in each)}

    async def _subscribe(self, ctx: Context, params: SubscribeRequestParams) -> _Answer:
        uri, connection = str(params.uri), ctx.session._connection  # noqa: SLF001  nothing else tells of its end
        await self._ask(await self._server_of(uri), "resources/subscribe", {"uri": uri})
        self._subscribed.setdefault(uri, set()).add(connection)
        connection.exit_stack.push_async_callback(self._leave, uri, connection)
        return {}

    async def _unsubscribe(self, ctx: Context, params: UnsubscribeRequestParams) -> _Answer:
        await self._leave(str(params.uri), ctx.session._connection)  # noqa: SLF001  likewise
        return {}

    async def _leave(self, uri: str, connection: Connection) -> None:
        clients = self._subscribed.get(uri, set())
        if connection in clients:
            clients.discard(connection)
            if not clients:
                del self._subscribed[uri]
                with contextlib.suppress(MCPError):
                    await self._ask(await self._server_of(uri), "resources/unsubscribe", {"uri": uri})

    def _pass_on(self, server: str, uri: str) -> None:
        """Tell who subscribed to a resource that it has changed; a server speaks for its own ones alone."""
        if self._resources.get(uri, self._templates.get(self._start_of(uri) or "")) == server:
            for connection in tuple(self._subscribed.get(uri, ())):
                task = asyncio.get_running_loop().create_task(connection.send_resource_updated(uri))
                self._sending.add(task)
                task.add_done_callback(self._sending.discard)

    # prompts

    async def _list_prompts(self, ctx: Context | None = None, params: Any = None) -> _Answer:
        prompts: dict[str, tuple[str, str]] = {}
        found: list[_Answer] = []
        own: dict[str, list[tuple[str, str]]] = {}
        for server in await self._servers.find_servers("prompts"):
            pages = self._pages(self._servers.make_request(server, "prompts/list"))
            rows = {row["name"]: row async for page in pages for row in _rows(page.get("prompts"), "name")}
            for called, row in rows.items():
                name = tool_name(server, called, rows)
                prompts[name] = server, called
                own.setdefault(called, []).append((server, called))
                found.append({"description": f"A prompt of the MCP server {server!r}.", **row, "name": name})
        alone = {name: those[0] for name, those in own.items() if len(those) == 1}
        self._prompts = alone | prompts
        return {"prompts": found}

    async def _find_prompt(self, name: str) -> tuple[str, str]:
        if name not in self._prompts:
            await self._list_prompts()
        if name not in self._prompts:
            hint = suggest(name, self._prompts)
            raise MCPError(INVALID_PARAMS, f"there is no prompt {strip_to_line(name[:200])!r}{hint}")
        return self._prompts[name]

    async def _get_prompt(self, ctx: Context, params: GetPromptRequestParams) -> _Answer:
        server, name = await self._find_prompt(params.name)
        prompt = await self._ask(server, "prompts/get", {"name": name, "arguments": dict(params.arguments or {})})
        token, messages = new_token(), list[_Answer]()
        for each in prompt["messages"] if isinstance(prompt.get("messages"), list) else ():
            if isinstance(each, dict) and each.get("role") in ("user", "assistant"):
                try:
                    read = wire.read_result({"content": [each.get("content")]}, server)
                except ToolError as error:
                    raise MCPError(INTERNAL_ERROR, str(error)) from None
                blocks = wire.encode_result(present(read, token, _RESULT_CHARS))["content"]
                messages += [{"role": each["role"], "content": block} for block in blocks]
        return {"messages": messages} | _words(prompt, "description")

    async def _complete(self, ctx: Context, params: CompleteRequestParams) -> _Answer:
        ref = params.ref.model_dump(by_alias=True, exclude_none=True)
        if "uri" in ref:
            server = await self._server_of(str(ref["uri"]))
        else:
            server, ref["name"] = await self._find_prompt(ref["name"])
        asked = {"ref": ref, "argument": params.argument.model_dump(by_alias=True, exclude_none=True)}
        if params.context is not None:
            asked["context"] = params.context.model_dump(by_alias=True, exclude_none=True)
        try:
            answer = await self._ask(server, "completion/complete", asked)
        except MCPError:  # it completes nothing, or may not be asked
            answer = {}
        completion = answer.get("completion")
        values = completion.get("values") if isinstance(completion, dict) else None
        clean = (_clean(each) for each in values) if isinstance(values, list) else ()
        return {"completion": {"values": [each for each in clean if each][:_MAX_VALUES], "hasMore": False}}

    # asking

    async def _ask(self, server: str, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        request = self._servers.make_request(server, method)
        details = _check(await self._belt((request,)).call(request.name, params)).details
        return details if isinstance(details, Mapping) else {}

    async def _pages(self, tool: Tool | str) -> AsyncIterator[Mapping[str, Any]]:
        """Yield the pages of a list, none where this caller may not see it."""
        extra, name = ((), tool) if isinstance(tool, str) else ((tool,), tool.name)
        params: dict[str, str] = {}
        for _ in range(_MAX_PAGES):
            result = await self._belt(extra).call(name, params)
            if result.status == "error" or not isinstance(result.details, Mapping):
                return
            yield result.details
            cursor = result.details.get("nextCursor")
            if not isinstance(cursor, str) or not cursor:
                return
            params = {"cursor": cursor}


def _content(block: _Answer, uri: str) -> _Answer:
    match block:
        case {"resource": dict(held)}:
            return {**held, "uri": uri}
        case {"text": str(text)}:
            return {"uri": uri, "mimeType": "text/plain", "text": text}
    return {"uri": uri, "mimeType": block["mimeType"], "blob": block["data"]}


def _check(result: Result) -> Result:
    """Return a result that is none of a failure, which is answered as an error of the protocol."""
    if result.status == "error":
        raise MCPError(INVALID_PARAMS, result.plain_text)
    return result


def _rows(value: Any, key: str, inner: str = "arguments") -> Iterator[_Answer]:
    """Yield what a server lists, its words cleaned; without words that read like orders to a model."""
    for each in value[:_MAX_ROWS] if isinstance(value, list) else ():
        if isinstance(each, dict) and isinstance(name := each.get(key), str) and name == _clean(name, _URI_CHARS):
            named = {} if key == "name" else {"name": _clean(each.get("name")) or name}
            row = {key: name, **named, **_words(each, "title", "description", "mimeType")}
            if key == "name" and isinstance(each.get(inner), list):
                row[inner] = [*_rows(each[inner], key, "")]
            if each.get("required") is True:
                row["required"] = True
            yield row


def _words(each: Mapping[str, Any], *keys: str) -> _Answer:
    return {key: words for key in keys if (words := _clean(each.get(key)))}


def _clean(value: Any, longest: int = _LABEL_CHARS) -> str:
    words = defuse(strip_to_line(value[:longest])) if isinstance(value, str) else ""
    return "" if suspicions(words) else words
