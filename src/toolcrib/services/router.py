"""Method name to service method: who may ask for what, with which parameters. Every way in to a service ends here."""

import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import cache, lru_cache, partial
from importlib.metadata import version
from typing import Any

from toolcrib.define.caller import Caller
from toolcrib.define.errors import ArgumentError, DeclarationError, ToolError
from toolcrib.define.names import suggest
from toolcrib.define.ports import Mark, Progress, Rpc, Scope, ToolWork, check_why, mark_of, rpc
from toolcrib.define.schema.annotations import (
    Schema,
    check_portable,
    fields_of_function,
    members_of,
    object_schema,
    parameters_of,
)
from toolcrib.define.schema.check import check_of_fields
from toolcrib.define.schema.portable import Shape
from toolcrib.lazy import dataclass, field, replace

log = logging.getLogger("toolcrib")

# What tools may ask for. Never `approve` or `admin`: a model must not say yes to itself, nor widen its limits (G8).
TOOL_SCOPES: frozenset[Scope] = frozenset({"read", "write"})

RunMethod = Callable[[], Awaitable[Any]]

_OURS = ("caller", "progress", "rights")  # given by the router, never by who asks


@cache
def read_version() -> str:
    """Return the version of this package."""
    return version("toolcrib")


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One method of a service: its name and by which right it is asked, what it takes and does."""

    name: str
    mark: Mark
    doc: str
    shape: Shape = field(repr=False)
    run: Callable[..., Any] = field(repr=False)
    wants: frozenset[str]

    @property
    def parameters(self) -> Schema:
        """The JSON Schema of the parameters."""
        return self.shape.schema

    def to_json(self) -> dict[str, Any]:
        """Return its row in an OpenRPC document."""
        schema = self.parameters
        required, properties = schema.get("required", ()), schema.get("properties", {})
        params = [{"name": name, "required": name in required, "schema": each} for name, each in properties.items()]
        row = {"name": self.name, "summary": self.doc.partition("\n")[0], "paramStructure": "by-name"}
        return {**row, "params": params, "result": {"name": "payload", "schema": {}}, "x-scope": self.mark.clients}


class Router:
    """The methods of all services, by name; `call_tool` makes the call of a tool that asking for one over a door is."""

    call_tool: Callable[[Caller, ToolWork, Mapping[str, Any], RunMethod], Awaitable[Any]]

    def __init__(self, services: Iterable[object] = ()) -> None:
        self.methods: dict[str, Method] = {}
        self.mount(self, *services)

    @rpc("rpc.discover", clients="read", why="gate")
    async def discover(self) -> dict[str, Any]:
        """Describe every method: an OpenRPC document."""
        about = {"title": "toolcrib gateway", "version": read_version()}
        return {"openrpc": "1.3.2", "info": about, "methods": [each.to_json() for each in self.methods.values()]}

    def mount(self, *services: object) -> None:
        """Offer the methods of more services."""
        for service in services:
            for name, function in inspect.getmembers(type(service), inspect.isfunction):
                if mark_of(function) is None:
                    continue
                method = _bind_method(getattr(service, name))
                if method.name in self.methods:
                    raise DeclarationError(f"two services offer the method {method.name!r}")
                self.methods[method.name] = method

    def rpc_for(self, caller: Caller, scopes: Collection[Scope] | None = None) -> Rpc:
        """Return what a caller asks through: as a client with the scopes it came with; without any, as a tool body."""
        return partial(self.ask, caller=caller, scopes=scopes, is_door=scopes is not None)

    async def ask(
        self,
        name: str,
        params: Mapping[str, Any],
        *,
        caller: Caller,
        scopes: Collection[Scope] | None = None,
        progress: Progress | None = None,
        is_door: bool = False,
    ) -> Any:
        """Return what the method returns; raise ToolError when there is none, it is out of reach, or it fails.

        Without scopes it takes the word for tools. Over a door, one that does a tool's work is a call of that tool,
        unless it needs a scope that no tool has: who came with it answers for the owner.
        """
        method = self.methods.get(name)
        if method is None:
            raise ToolError(f"no method {name[:64]!r}{suggest(name, self.methods)}", code="not_found")
        needed = method.mark.tools if scopes is None else method.mark.clients
        if needed not in (scopes := TOOL_SCOPES if scopes is None else scopes):
            raise ToolError(f"{name} needs the scope {needed!r}, which this caller lacks", code="denied")
        try:
            args = dict(method.shape.check(params))
        except ArgumentError as error:
            raise ArgumentError(f"{name}: {error}") from None
        # what a model writes for "nothing" counts as not given; who asks by name means what they say
        if params and (odd := next((key for key in params if key not in args and params[key] is not None), None)):
            raise ArgumentError(f"{name}: {odd} cannot be {params[odd]!r:.64}")
        if "caller" in method.wants:
            args["caller"] = caller
        if "progress" in method.wants:
            args["progress"] = _guard_progress(name, progress)
        if "rights" in method.wants:
            args["rights"] = frozenset(scopes)
        if is_door and method.mark.as_tool is not None and needed in TOOL_SCOPES:
            return await self.call_tool(caller, method.mark.as_tool, params, partial(method.run, **args))
        return await method.run(**args)


def _bind_method(bound: Any) -> Method:
    method, query = _read_method(bound.__func__)
    return replace(method, run=bound if query is None else _gather_query(bound, query))


@lru_cache(maxsize=1024)  # every crib of a process offers the same
def _read_method(function: Callable[..., Any]) -> tuple[Method, Callable[..., Any] | None]:
    """Return what a function of a service declares, and what its one parameter `query` is made of, where it has one."""
    mark = mark_of(function)
    assert mark is not None
    where = f"method {mark.name} ({function.__qualname__})"
    if not inspect.iscoroutinefunction(function):
        raise DeclarationError(f"{where}: is not async")
    _, *listed = parameters_of(function)
    own = [each for each in listed if each.name not in _OURS]
    fields, query = fields_of_function(function, own, where), None
    if [each.name for each in own] == ["query"] and (members := members_of(fields[0].annotation, where)) is not None:
        fields, query = members, fields[0].annotation
    check_portable(fields, where)
    if mark.as_tool is None and mark.clients in TOOL_SCOPES:
        check_why(where, mark.why)
    method = Method(
        name=mark.name,
        mark=mark,
        doc=inspect.getdoc(function) or "",
        shape=Shape(lambda: object_schema(fields), lambda schema: check_of_fields(fields, schema)),
        run=function,
        wants=frozenset(_OURS) & {each.name for each in listed},
    )
    return method, query


def _gather_query(bound: Callable[..., Any], shape: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method as it is called with the fields of its one parameter, which is called `query`."""

    def run(**named: Any) -> Any:
        ours = {name: named.pop(name) for name in _OURS if name in named}
        return bound(query=shape(**named), **ours)

    return run


def _guard_progress(name: str, progress: Progress | None) -> Progress:
    """Return a `progress` that a method can call whether anybody listens or not, and whatever the listener does."""

    def tell(part: Any) -> None:
        if progress is None:
            return
        try:
            progress(part)
        except Exception:
            log.exception("who listens to %s failed; the method goes on", name)

    return tell
