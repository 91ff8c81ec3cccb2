"""Tool and @tool: one object for every tool, however it was declared.

Three ways give the same `Tool`:

    @tool(effects={"network"})                    # a typed function; its docstring is what the model reads
    async def web_fetch(ctx: Ctx, url: str) -> Result: ...

    @tool(parameters=Forecast)                    # a pydantic model
    async def forecast(ctx: Ctx, args: Forecast) -> Result: ...

    @tool(parameters={"type": "object", ...})     # raw JSON Schema, read through `Args`
    async def lookup(ctx: Ctx, args: Args) -> Result: ...
"""

import inspect
import math
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from copy import copy
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    Literal,
    NamedTuple,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    get_args,
    overload,
)  # fmt: skip

from pydantic import BaseModel

from toolcrib.define.schema.annotations import (
    Parameter,
    Schema,
    check_portable,
    fields_of,
    fields_of_function,
    object_schema,
    parameters_of,
    read_docstring,
)
from toolcrib.define.schema.check import check_of_fields, check_of_model, check_of_schema, model_from, shape_of_output
from toolcrib.define.schema.portable import Shape, check_portable_schema
from toolcrib.lazy import dataclass, field, replace
from toolcrib.threads import in_thread

from .args import Args
from .caller import Caller
from .context import Ctx, constructor
from .errors import ArgumentError, DeclarationError, ToolError
from .names import canonical, is_name
from .result import Content, Image, Result, Status, Text

if TYPE_CHECKING:
    from .channel import Abilities

Effect = Literal["read", "write", "execute", "network", "send"]
EFFECTS: frozenset[Effect] = frozenset(get_args(Effect))

PROGRAM = "client:program"
"""The source of what a program brings itself."""

P = ParamSpec("P")
R = TypeVar("R")

Run = Callable[[Ctx, Mapping[str, Any]], Awaitable[Result]]
Narrow = Callable[[Schema, Caller, Mapping[str, "Abilities"]], Schema]
ReadPlaces = Callable[[Mapping[str, Any]], Mapping[str, Sequence[str]]]

_FROM_ELSEWHERE = ("mcp:", "plugin:", "client:")

_REPR_CHARS = 60
_MAX_RETRIES = 10
_ANYTHING: Schema = {"type": "object", "properties": {}, "additionalProperties": True}


async def not_carried(ctx: Ctx, args: Mapping[str, Any]) -> Result:
    """Stand in for the body of a tool that is declared here but not installed."""
    raise ToolError(f"{ctx.call.name} is declared, but this installation does not carry it yet", code="unavailable")


@dataclass(slots=True)
class BodyRunner:
    """What stands between calls and the bodies they run: nothing, or a cassette of `toolcrib.testing`.

    `redact` takes the crib's secrets out of a JSON value.
    """

    redact: Callable[[Any], Any] = copy
    between: "Callable[[Tool, Ctx, Mapping[str, Any]], Awaitable[Result]] | None" = None


class RetryTerms(NamedTuple):
    """How often a body is run again within the time of its call, and after errors of which codes."""

    times: int
    on: frozenset[str]


REPEATABLE: frozenset[Effect] = frozenset({"read", "network"})  # what may be done twice


class Options(TypedDict, total=False):
    """What an author may say about a tool besides its name, description, parameters and body."""

    label: str
    effects: Collection[Effect] | None
    group: str | None
    owner_only: bool
    optional: bool
    exclusive: bool
    timeout: float | None
    limit: int | None
    markdown: bool
    notice: bool
    requires: tuple[str, ...]
    aliases: Mapping[str, str]
    narrow: Narrow | None
    late: str
    paths: tuple[str, ...]
    urls: tuple[str, ...]
    recipients: tuple[str, ...]
    commands: tuple[str, ...]
    written: tuple[str, ...]
    read_places: ReadPlaces | None
    output: type | Schema | None
    retry: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Tool:
    """A tool: what the model reads, what policy judges, and the body that only `invoke` runs.

    `effects` None means undeclared, which counts as having all. `source` is core, plugin:x, channel:x, client:x,
    mcp:x or agent. `timeout` (seconds) and `limit` (characters of text for the model) default to the configuration's.
    `markdown` says how people are shown what it gives back; `notice` puts a warning to the model before outside text.
    `requires` names what the host must have (`browser`, `secret:KEY`, `model:openai`). `late` says when there is
    something for it ("a command is in the background"): a turn tells its model of it once a result `offers` it.
    `paths`, `urls`, `recipients` and `commands` are the parameters that say what a call reaches, so that rules can be
    about it: a recipient left out first is the chat of the call, and a command runs in `workdir`, if there is one;
    `written` are paths that are not read. Where a text holds such places, `read_places` finds them by these names.
    `output` is what the details of its results fit; `retry` says after which errors it is tried again. `own_name` is
    what an MCP server calls it, `other_names` are those that the configuration gives it besides. `make`, where there is
    one, returns the tool for one caller, None when this one has none, and a sentence when it failed; what it is handed
    besides holds what factories made for this belt before.
    """

    name: str
    description: str
    shape: Shape = field(repr=False)
    run: Run = field(default=not_carried, repr=False)
    label: str = ""
    effects: frozenset[Effect] = EFFECTS
    group: str | None = None
    source: str = "core"
    owner_only: bool = False
    optional: bool = False
    exclusive: bool = False
    timeout: float | None = None
    limit: int | None = None
    markdown: bool = False
    notice: bool = False
    requires: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict, repr=False)
    narrow: Narrow | None = field(default=None, repr=False)
    late: str = ""
    paths: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    recipients: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    read_places: ReadPlaces | None = field(default=None, repr=False)
    output: Shape | None = field(default=None, repr=False)
    retry: RetryTerms | None = None
    own_name: str = ""
    other_names: tuple[str, ...] = ()
    make: "Callable[[Caller, dict[Any, Any]], Tool | str | None] | None" = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"<Tool {self.name} ({self.source}): {self.description.partition(chr(10))[0][:_REPR_CHARS]}>"

    def __post_init__(self) -> None:
        if canonical(self.name) != self.name:
            meant = canonical(self.name)
            hint = f"; the canonical spelling is {meant!r}" if meant else ""
            raise DeclarationError(f"tool {self.name!r}: a name is 1 to 64 of a-z, 0-9, _ and -{hint}")
        if self.group is not None and not is_name(self.group):
            raise DeclarationError(f"tool {self.name}: group {self.group!r} is not made of a-z, 0-9, _ and -")
        unknown = self.effects - EFFECTS
        if unknown:
            raise DeclarationError(
                f"tool {self.name}: no effect {min(unknown)!r}; there are {', '.join(sorted(EFFECTS))}"
            )
        if self.timeout is not None and not (0 < self.timeout < math.inf):
            raise DeclarationError(
                f"tool {self.name}: timeout must be a positive number of seconds, not {self.timeout!r}"
            )
        if self.limit is not None and self.limit < 1:
            raise DeclarationError(f"tool {self.name}: limit must be a positive number of characters")

    @classmethod
    def declared(cls, name: str, description: str, /, **options: Unpack[Options]) -> "Tool":
        """Return a tool without a body: enough for policy to judge, explain and lint it."""
        return tool_named(name, description, Shape(lambda: _ANYTHING, check_of_schema), **options)

    @property
    def parameters(self) -> Schema:
        """The JSON Schema of the arguments."""
        return self.shape.schema

    @property
    def title(self) -> str:
        """What people are shown: its label, its name where it has none."""
        return self.label or self.name

    @property
    def has_body(self) -> bool:
        """False for a tool that is only declared: policy can judge it, nothing can run it."""
        return self.run is not not_carried

    @property
    def says_nothing(self) -> bool:
        """Whether it is not ours and tells nothing of what a call reaches: any text may name a place then."""
        stated = self.paths or self.urls or self.recipients or self.commands or self.read_places
        return not stated and self.source.startswith(_FROM_ELSEWHERE)

    @property
    def kind(self) -> str:
        """The documents' word for the strongest effect: execute, write, read, or think when there is none."""
        for kind, effects in (("execute", {"execute"}), ("write", {"write", "send"}), ("read", {"read", "network"})):
            if self.effects & effects:
                return kind
        return "think"

    def check(self, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the arguments under their own names, coerced; raise ArgumentError with every complaint at once."""
        try:
            return self.shape.check(self._rename_args(args) if self.aliases else args)
        except ArgumentError as error:
            raise ArgumentError(f"{self.name}: {error}{self._other_names(str(error))}") from None

    def check_known(self, args: Mapping[str, Any], needed: Collection[str] = ()) -> Mapping[str, Any]:
        """Return the arguments as `check` does, for a call that is only judged: it has at least the `needed` ones.

        What names the places of a call is always among them.
        """
        renamed = self._rename_args(args) if self.aliases else args
        missing = {*self.parameters.get("required", ())} - renamed.keys()
        if not missing or self.read_places or not missing.isdisjoint(needed):
            return self.check(args)
        try:
            return check_of_schema({**self.parameters, "required": []})(renamed)
        except ArgumentError as error:
            raise ArgumentError(f"{self.name}: {error}") from None

    def check_result(self, result: Result) -> Result:
        """Return a result whose details are what `output` says; raise ToolError when they are not."""
        if self.output is None or result.status != "ok":
            return result
        try:
            if isinstance(result.details, Mapping):
                return result._replace(details=self.output.check(Result.json(result.details).details))
            why = "its details are no object"
        except (ArgumentError, TypeError) as error:
            why = str(error)
        raise ToolError(f"{self.name} gave back what is not the output that it declares: {why}", code="bad_result")

    def _rename_args(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments with other spellings of a parameter (`file_path`) under its own name (`path`).

        Null says nothing, so it never stands against another spelling; two values that differ are refused.
        """
        renamed: dict[str, Any] = {}
        for name, value in args.items():
            own = self.aliases.get(name, name)
            before = renamed.get(own)
            if before is None or value is None:
                renamed[own] = value if before is None else before
            elif type(before) is not type(value) or before != value:
                raise ArgumentError(f"{own} is given under two names with two values; give it once")
        return renamed

    def _other_names(self, complaint: str) -> str:
        """Return how else a parameter may be written that the complaint is about: the model may know only that name."""
        words = set(re.findall(r"\w+", complaint))
        others = [f"{own} may be written {other}" for other, own in self.aliases.items() if own in words]
        return f" ({', '.join(others)})" if others else ""

    def narrow_for(self, caller: Caller, channels: Mapping[str, "Abilities"]) -> "Tool":
        """Return the tool as this caller sees it; `channels` are those that are configured, and what each can do."""
        if self.narrow is None:
            return self
        narrow, whole = self.narrow, self.shape

        def check(schema: Schema) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
            within = check_of_schema(schema)

            def both(args: Mapping[str, Any]) -> Mapping[str, Any]:
                within(args)
                return whole.check(args)

            return both

        return replace(self, shape=Shape(lambda: narrow(whole.schema, caller, channels), check), narrow=None)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FunctionTool(Tool, Generic[P, R]):
    """A tool declared from a function; calling it runs the function, without policy."""

    function: Callable[P, R] = field(repr=False)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)


_make_text, _make_result = constructor(Text), constructor(Result)

_Body = Callable[..., Any]
_Bind = Callable[[Mapping[str, Any]], Any]  # the arguments as the one value that the body takes


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: type[BaseModel] | Schema | None = None,
    **options: Unpack[Options],
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    parameters: type[BaseModel] | Schema | None = None,
    **options: Unpack[Options],
) -> FunctionTool[P, R] | Callable[[Callable[P, R]], FunctionTool[P, R]]:
    """Declare a tool from a function; what cannot be shown to every model is refused here, naming the parameter.

    Besides name, description and parameters: label, effects, group, owner_only, optional, exclusive, timeout, limit,
    markdown, notice, requires, aliases, narrow, paths, written, urls, recipients, commands, read_places, output, retry.
    """

    def declare(body: Callable[P, R]) -> FunctionTool[P, R]:
        title = name or str(getattr(body, "__name__", ""))
        summary, words = read_docstring(body)
        text = description if description is not None else summary
        where = f"tool {title} ({_where(body)})"
        if not text.strip():
            raise DeclarationError(f"{where}: needs a docstring or a description; a model chooses tools by it")
        shape, run = _shape_and_run(body, parameters, words, where)
        return FunctionTool(function=body, **_parts(title, text, shape, run, options))

    return declare if function is None else declare(function)


def as_tool(each: Tool | _Body) -> Tool:
    """Return a tool as it is, and a plain function as the tool that `@tool` makes of it."""
    if isinstance(each, Tool):
        return each
    if not callable(each):
        raise DeclarationError(f"{each!r} is no tool; give a function, or what @tool made of one")
    return tool(each)


def tool_named(name: str, description: str, shape: Shape, run: Run = not_carried, **options: Unpack[Options]) -> Tool:
    """Return a Tool from its parts; every way of declaring one ends here."""
    return Tool(**_parts(name, description, shape, run, options))


def _parts(name: str, description: str, shape: Shape, run: Run, options: Options) -> dict[str, Any]:
    """Return the fields of a tool."""
    parts: dict[str, Any] = {"name": name, "description": description, "shape": shape, "run": run}
    if not options:
        return parts
    if strange := options.keys() - Options.__annotations__.keys():
        known = ", ".join(Options.__annotations__)
        raise DeclarationError(f"tool {name}: no option {min(strange)!r}; there are {known}")
    effects = options.get("effects")
    if options.get("aliases"):
        properties = shape.schema.get("properties", {})
        for other, own in options["aliases"].items():
            if other in properties:
                raise DeclarationError(
                    f"tool {name}: alias {other!r} is a parameter of its own; choose another spelling"
                )
            if own not in properties and not shape.schema.get("additionalProperties", True):
                raise DeclarationError(f"tool {name}: alias {other!r} stands for {own!r}, which is no parameter")
    output, retry = options.get("output"), options.get("retry")
    parts |= options
    parts["effects"] = EFFECTS if effects is None else frozenset(effects)
    parts["output"] = None if output is None else shape_of_output(output, f"tool {name}")
    parts["retry"] = None if retry is None else _read_retry(retry, parts["effects"], f"tool {name}: retry")
    return parts


def _read_retry(written: Mapping[str, Any], effects: frozenset[Effect], where: str) -> RetryTerms:
    """Return when a body may run again; refuse it for one that does more than read and use the network."""
    if beyond := effects - REPEATABLE:
        raise DeclarationError(f"{where}: only what reads or uses the network is tried again; it has {min(beyond)!r}")
    if written.keys() != {"times", "on"}:
        raise DeclarationError(f"{where}: it takes times and on, and has {', '.join(map(str, written)) or 'nothing'}")
    times, codes = written["times"], written["on"]
    if type(times) is not int or not 1 <= times <= _MAX_RETRIES:
        raise DeclarationError(f"{where}: times is 1 to {_MAX_RETRIES}, not {times!r}")
    if isinstance(codes, str) or not codes or not all(isinstance(code, str) for code in codes):
        raise DeclarationError(f"{where}: on lists codes of errors, such as ('timeout', 'unavailable')")
    return RetryTerms(times, frozenset(codes))


_BLOCKS = (Text, Image, Result)


def result_from(value: Any) -> Result:
    """Return what a body gave back as a Result: words as text, pictures as they are, anything else as JSON."""
    if isinstance(value, Result):
        return value
    if isinstance(value, str):
        return _make_result((_make_text(value),))
    if value is None:
        return _make_result((_make_text("done"),))  # a model that reads null asks again
    if isinstance(value, Content):
        return _make_result((value,))
    if isinstance(value, list | tuple) and any(isinstance(each, _BLOCKS) for each in value):
        parts = [result_from(each) for each in value]
        status: Status = next((part.status for part in parts if part.status != "ok"), "ok")
        return Result(tuple(block for part in parts for block in part.content), status=status)
    return Result.json(value)


def _shape_and_run(
    body: _Body, parameters: type[BaseModel] | Schema | None, words: Mapping[str, str], where: str
) -> tuple[Shape, Run]:
    listed = parameters_of(body)
    takes_ctx = _takes_ctx(listed, where)
    if parameters is None:
        fields = fields_of_function(body, listed[takes_ctx:], where, words)
        check_portable(fields, where)
        shape = Shape(lambda: object_schema(fields), lambda schema: check_of_fields(fields, schema))
        return shape, _runner(body, takes_ctx, None)
    if isinstance(parameters, Mapping):
        check_portable_schema(parameters, where)
        schema = {"properties": {}, "additionalProperties": False, **parameters}
        shape = Shape(lambda: schema, check_of_schema)
        return shape, _runner(body, takes_ctx, Args)
    model = parameters
    shape = Shape(lambda: object_schema(fields_of(model, where)), lambda schema: check_of_model(model, schema))
    fields_of(model, where)
    return shape, _runner(body, takes_ctx, lambda args: model_from(model, args))


def _runner(body: _Body, takes_ctx: bool, bind: _Bind | None) -> Run:
    """Return the body as `run(ctx, args)`. A plain function runs in a thread, so that it cannot hold up the others."""
    start = body if inspect.iscoroutinefunction(body) else _beside_the_loop(body)

    async def run_named(ctx: Ctx, args: Mapping[str, Any]) -> Result:
        value = await (start(ctx, **args) if takes_ctx else start(**args))
        return _make_result((_make_text(value),)) if type(value) is str else result_from(value)

    async def run_bound(ctx: Ctx, args: Mapping[str, Any]) -> Result:
        one = bind(args) if bind else args
        return result_from(await (start(ctx, one) if takes_ctx else start(one)))

    return run_bound if bind else run_named


def _beside_the_loop(body: _Body) -> _Body:
    async def threaded(*args: Any, **named: Any) -> Any:
        value = await in_thread(body, *args, **named)
        # a decorated or callable object may hide that it is async
        return await value if inspect.isawaitable(value) else value

    return threaded


def _takes_ctx(parameters: Sequence[Parameter], where: str) -> bool:
    """Tell whether the first parameter is the context."""
    for index, parameter in enumerate(parameters):
        if parameter.name == "ctx" or parameter.annotation in (Ctx, "Ctx"):
            if index:
                raise DeclarationError(
                    f"{where}: parameter {parameter.name!r} is the context; write it first, and once"
                )
            return True
    return False


def _where(body: _Body) -> str:
    code = getattr(inspect.unwrap(body), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code else repr(body)
