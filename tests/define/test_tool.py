"""Tool: one object however it was declared, built at first use, narrowed to a channel, run in its own way."""

import asyncio
import functools
import threading
from collections.abc import Callable, Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from toolcrib.define.args import Args
from toolcrib.define.caller import Caller
from toolcrib.define.channel import Abilities
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ArgumentError, DeclarationError, ToolError
from toolcrib.define.result import Image, Result, Text
from toolcrib.define.schema.annotations import Schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import EFFECTS, Tool, tool
from toolcrib.testing import fake_ctx

pytestmark = pytest.mark.anyio

PICTURE = Image(b"\x89PNG", "image/png")


class Forecast(BaseModel):
    city: str = Field(description="where")
    days: int = Field(default=3, description="how many", ge=1, le=7)


@tool(name="forecast", group="web", effects={"network"})
async def by_function(
    ctx: Ctx,
    city: Annotated[str, "where"],
    days: Annotated[int, "how many", Field(ge=1, le=7)] = 3,
) -> Result:
    """Tell the weather."""
    return Result.text(f"{ctx.call.name}: {city} {days}")


@tool(name="forecast", group="web", effects={"network"}, parameters=Forecast)
async def by_model(ctx: Ctx, args: Forecast) -> Result:
    """Tell the weather."""
    return Result.text(f"{ctx.call.name}: {args.city} {args.days}")


@tool(
    name="forecast",
    group="web",
    effects={"network"},
    parameters={
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "where"},
            "days": {"type": "integer", "description": "how many", "default": 3, "minimum": 1, "maximum": 7},
        },
        "required": ["city"],
    },
)
async def by_schema(ctx: Ctx, args: Args) -> Result:
    """Tell the weather."""
    return Result.text(f"{ctx.call.name}: {args.string('city', required=True)} {args.integer('days') or 3}")


WAYS = pytest.mark.parametrize("forecast", [by_function, by_model, by_schema], ids=["function", "model", "schema"])


def described(tool: Tool) -> dict[str, Any]:
    """Return everything about a tool but what makes it run."""
    plain = {
        field.name: getattr(tool, field.name)
        for field in fields(tool)
        if field.name not in ("shape", "run", "function")
    }
    return {**plain, "parameters": tool.parameters}


@WAYS
def test_the_three_ways_of_declaring_give_the_same_tool(forecast: Tool) -> None:
    assert described(forecast) == described(by_function)
    assert forecast.parameters == {
        "type": "object",
        "properties": {
            "city": {"type": "string", "description": "where"},
            "days": {"type": "integer", "description": "how many", "default": 3, "minimum": 1, "maximum": 7},
        },
        "required": ["city"],
        "additionalProperties": False,
    }


@WAYS
async def test_the_three_ways_of_declaring_run_the_same(forecast: Tool) -> None:
    ctx = fake_ctx("forecast")
    assert await forecast.run(ctx, forecast.check({"city": "Kyiv", "days": "2"})) == Result.text("forecast: Kyiv 2")
    assert await forecast.run(ctx, forecast.check({"city": "Kyiv"})) == Result.text("forecast: Kyiv 3")


async def test_a_model_tool_also_runs_with_arguments_that_nobody_checked() -> None:
    assert await by_model.run(fake_ctx("forecast"), {"city": "Kyiv"}) == Result.text("forecast: Kyiv 3")


async def test_a_models_validators_run_once_between_the_check_and_the_body() -> None:
    runs: list[str] = []

    class Counted(BaseModel):
        word: str

        def model_post_init(self, context: Any, /) -> None:
            runs.append(self.word)

    probe = tool(name="probe", description="Probe.", parameters=Counted)(lambda args: args.word)
    assert await probe.run(fake_ctx(), probe.check({"word": "a"})) == Result.text("a")
    assert runs == ["a"]


def test_a_tool_has_the_defaults_of_the_design() -> None:
    @tool
    def probe() -> str:
        """Probe.

        Twice.
        """
        return ""

    assert described(probe) == {
        "name": "probe",
        "description": "Probe.\n\nTwice.",
        "parameters": {"type": "object", "properties": {}, "additionalProperties": False},
        "label": "",
        "effects": EFFECTS,
        "group": None,
        "source": "core",
        "owner_only": False,
        "optional": False,
        "exclusive": False,
        "timeout": None,
        "limit": None,
        "markdown": False,
        "notice": False,
        "requires": (),
        "aliases": {},
        "narrow": None,
        "late": "",
        "paths": (),
        "urls": (),
        "recipients": (),
        "commands": (),
        "written": (),
        "read_places": None,
        "output": None,
        "retry": None,
        "other_names": (),
        "own_name": "",
        "make": None,
    }


def test_every_option_reaches_the_tool() -> None:
    def narrow(schema: Schema, caller: Caller, channels: Mapping[str, Abilities]) -> Schema:
        return schema

    made = tool(
        name="probe",
        description="Probe.",
        parameters={"type": "object", "properties": {"a": {"type": "string"}}},
        label="The probe",
        effects=frozenset(),
        group="fs",
        owner_only=True,
        optional=True,
        exclusive=True,
        timeout=1.5,
        limit=500,
        markdown=True,
        notice=True,
        requires=("browser",),
        aliases={"b": "a"},
        narrow=narrow,
        late="it is dark",
        paths=("a",),
        urls=("b",),
    )(lambda args: "")
    assert described(made) == {
        "name": "probe",
        "description": "Probe.",
        "parameters": {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False},
        "label": "The probe",
        "effects": frozenset(),
        "group": "fs",
        "source": "core",
        "owner_only": True,
        "optional": True,
        "exclusive": True,
        "timeout": 1.5,
        "limit": 500,
        "markdown": True,
        "notice": True,
        "requires": ("browser",),
        "aliases": {"b": "a"},
        "narrow": narrow,
        "late": "it is dark",
        "paths": ("a",),
        "urls": ("b",),
        "recipients": (),
        "commands": (),
        "written": (),
        "read_places": None,
        "output": None,
        "retry": None,
        "other_names": (),
        "own_name": "",
        "make": None,
    }


@pytest.mark.parametrize(
    ("effects", "kind"),
    [
        (None, "execute"),  # undeclared counts as all
        ({"execute", "read"}, "execute"),
        ({"write", "read"}, "write"),
        ({"send"}, "write"),
        ({"read"}, "read"),
        ({"network"}, "read"),
        (set(), "think"),
    ],
)
def test_the_kind_is_the_strongest_effect(effects: Any, kind: str) -> None:
    assert tool(name="probe", description="Probe.", effects=effects)(lambda: "").kind == kind


def test_schemas_and_checks_are_built_at_first_use() -> None:
    built: list[str] = []

    def schema() -> Schema:
        built.append("schema")
        return {"type": "object"}

    def check(schema: Schema) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
        built.append("check")
        return lambda args: args

    shape = Shape(schema, check)
    assert built == []
    assert (shape.schema, shape.schema) == ({"type": "object"}, {"type": "object"})
    assert built == ["schema"]
    assert (shape.check({}), shape.check({"a": 1})) == ({}, {"a": 1})
    assert built == ["schema", "check"]


def test_declaring_and_narrowing_make_neither_schema_nor_check() -> None:
    made: list[str] = []

    def schema() -> Schema:
        made.append("schema")
        return {"type": "object", "properties": {"place": {"type": "string"}}}

    def check(schema: Schema) -> Callable[[Mapping[str, Any]], Mapping[str, Any]]:
        made.append("check")
        return dict

    def narrow(schema: Schema, caller: Caller, channels: Mapping[str, Abilities]) -> Schema:
        made.append("narrowed schema")
        return schema

    probe = Tool(name="probe", description="Probe.", shape=Shape(schema, check), narrow=narrow)
    narrowed = probe.narrow_for(Caller(), {})
    assert made == []
    assert narrowed.check({"place": "Kyiv"}) == narrowed.check({"place": "Kyiv"}) == {"place": "Kyiv"}
    assert made == ["schema", "narrowed schema", "check"]


def test_a_declared_tool_has_no_body_and_takes_anything_for_now() -> None:
    read = Tool.declared("read", "Read a file.", group="fs", effects={"read"})
    assert (read.has_body, by_function.has_body) == (False, True)
    assert (read.group, read.effects, read.kind) == ("fs", frozenset({"read"}), "read")
    assert read.check({"path": "a"}) == {"path": "a"}


async def test_running_a_declared_tool_says_that_it_is_not_carried() -> None:
    with pytest.raises(ToolError, match=r"^read is declared, but this installation does not carry it yet$") as raised:
        await Tool.declared("read", "Read a file.").run(fake_ctx("read"), {})
    assert raised.value.code == "unavailable"


@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("words", Result.text("words")),
        (Result.error("no"), Result.error("no")),
        ({"a": [1]}, Result.json({"a": [1]})),
        (None, Result.text("done")),
        (7, Result.json(7)),
        (Text("seen", "web:a"), Result((Text("seen", "web:a"),))),
        (PICTURE, Result((PICTURE,))),
        ([Text("a"), PICTURE], Result((Text("a"), PICTURE))),
        (
            ("look:", PICTURE, {"left": Decimal("1.50")}),
            Result((Text("look:"), PICTURE, Text('{\n  "left": "1.50"\n}'))),
        ),
        ([Result.text("a"), Result.error("no")], Result((Text("a"), Text("no")), status="error")),
        ([], Result.json([])),
        (Forecast(city="Kyiv"), Result.json({"city": "Kyiv", "days": 3})),
    ],
)
async def test_what_a_body_returns_becomes_a_result(value: Any, result: Result) -> None:
    assert await tool(name="probe", description="Probe.")(lambda: value).run(fake_ctx(), {}) == result


async def test_a_plain_function_runs_in_a_thread_and_holds_nobody_up() -> None:
    here, release = threading.get_ident(), threading.Event()

    @tool
    def slow() -> str:
        """Wait until somebody else has had a turn."""
        assert release.wait(60)
        return "elsewhere" if threading.get_ident() != here else "here"

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        running = tasks.create_task(_run(slow))
        await asyncio.sleep(0)  # the loop goes on while the body waits
        release.set()
    assert running.result() == Result.text("elsewhere")


async def _run(probe: Tool, **args: Any) -> Result:
    return await probe.run(fake_ctx(probe.name), args)


async def test_an_async_body_runs_on_the_loop() -> None:
    here = threading.get_ident()

    @tool
    async def probe() -> bool:
        """Probe."""
        return threading.get_ident() == here

    assert await _run(probe) == Result.json(True)


async def test_a_wrapper_may_hide_that_a_body_is_async() -> None:
    async def body(word: str) -> str:
        """Probe."""
        return word

    @functools.wraps(body)
    def wrapper(word: str) -> Any:
        return body(word)

    assert await _run(tool(wrapper), word="a") == Result.text("a")


async def test_a_body_may_do_without_the_context_or_call_it_otherwise() -> None:
    @tool
    async def without(word: str) -> str:
        """Probe."""
        return word

    @tool
    async def otherwise(c: Ctx, word: str) -> str:
        """Probe."""
        return f"{c.call.name} {word}"

    assert list(otherwise.parameters["properties"]) == ["word"]
    assert await _run(without, word="a") == Result.text("a")
    assert await _run(otherwise, word="a") == Result.text("otherwise a")


async def test_a_parameter_that_is_optional_by_none_gets_none() -> None:
    @tool
    async def probe(a: int, b: int | None, c: Annotated[list[str] | None, "names"]) -> str:
        """Probe."""
        return f"{a} {b} {c}"

    assert await probe.run(fake_ctx(), probe.check({"a": 1})) == Result.text("1 None None")
    assert await probe.run(fake_ctx(), probe.check({"a": 1, "b": "2", "c": None})) == Result.text("1 2 None")


def test_another_spelling_of_a_parameter_is_renamed_before_the_check() -> None:
    @tool(aliases={"file_path": "path", "filename": "path"})
    def read(path: str, limit: int = 5) -> str:
        """Read."""
        return f"{path} {limit}"

    assert read.check({"file_path": "a", "limit": "3"}) == {"path": "a", "limit": 3}
    assert read.check({"path": "a"}) == {"path": "a"}
    assert read.check({"path": "a", "file_path": "a"}) == {"path": "a"}
    assert read.check({"path": None, "file_path": "a", "filename": None}) == {"path": "a"}
    for args in ({"path": "a", "file_path": "b"}, {"filename": "a", "file_path": "b"}, {"path": "", "filename": "b"}):
        with pytest.raises(ArgumentError, match=r"^read: path is given under two names with two values; give it once"):
            read.check(args)
    with pytest.raises(ArgumentError) as raised:
        read.check({"file_pth": "a"})
    assert str(raised.value).endswith("path is required (path may be written file_path, path may be written filename)")


@pytest.mark.parametrize(
    ("aliases", "complaint"),
    [
        ({"limit": "path"}, "alias 'limit' is a parameter of its own; choose another spelling"),
        ({"file_path": "pth"}, "alias 'file_path' stands for 'pth', which is no parameter"),
    ],
)
def test_an_alias_that_would_mislead_is_refused_when_declared(aliases: dict[str, str], complaint: str) -> None:
    with pytest.raises(DeclarationError, match=f"^tool read: {complaint}$"):

        @tool(aliases=aliases)
        def read(path: str, limit: int = 5) -> str:
            """Read."""
            return f"{path} {limit}"


def buttons_only_where_they_exist(schema: Schema, caller: Caller, channels: Mapping[str, Abilities]) -> Schema:
    """Drop `buttons` unless the current channel, or one of all, has them, and say which channels there are."""
    current = [caller.channel] if caller.channel else channels
    has_buttons = any(channels[name].buttons for name in current if name in channels)
    kept = {name: inner for name, inner in schema["properties"].items() if name != "buttons" or has_buttons}
    return {**schema, "properties": kept, "description": " ".join(channels)}


@tool(narrow=buttons_only_where_they_exist)
def message(text: str, buttons: list[str] | None = None) -> str:
    """Send a message."""
    return f"{text} {buttons}"


@pytest.mark.parametrize(
    ("channel", "configured", "parameters", "told"),
    [
        ("telegram", ["irc", "telegram"], ["text", "buttons"], "irc telegram"),
        ("irc", ["irc", "telegram"], ["text"], "irc telegram"),
        ("other", ["telegram"], ["text"], "telegram"),
        (None, ["irc", "telegram"], ["text", "buttons"], "irc telegram"),
        (None, ["irc"], ["text"], "irc"),
        (None, [], ["text"], ""),
    ],
)
def test_narrowing_sees_what_the_configured_channels_can_do(
    channel: str | None, configured: list[str], parameters: list[str], told: str
) -> None:
    can = {name: Abilities(buttons=name == "telegram") for name in configured}
    narrowed = message.narrow_for(Caller(channel=channel), can)
    assert list(narrowed.parameters["properties"]) == parameters
    assert narrowed.parameters["description"] == told
    assert list(message.parameters["properties"]) == ["text", "buttons"]


def test_a_narrowed_tool_refuses_what_it_no_longer_shows() -> None:
    narrowed = message.narrow_for(Caller(channel="irc"), {})
    assert narrowed.check({"text": 5}) == {"text": "5"}
    with pytest.raises(ArgumentError, match=r"^message: there is no parameter 'buttons' \(it takes text\)$"):
        narrowed.check({"text": "a", "buttons": ["b"]})


def test_narrowing_never_widens_what_the_tool_takes() -> None:
    @tool(narrow=lambda schema, caller, channels: {"type": "object", "additionalProperties": True})
    def probe(text: str) -> str:
        """Probe."""
        return text

    narrowed = probe.narrow_for(Caller(), {})
    with pytest.raises(ArgumentError, match=r"there is no parameter 'other'.*text is required"):
        narrowed.check({"other": 1})


def test_a_tool_that_does_not_narrow_is_itself_for_everybody() -> None:
    assert by_function.narrow_for(Caller(channel="irc"), {}) is by_function


def test_a_factory_of_tools_is_an_ordinary_function() -> None:
    def dice(sides: int) -> Tool:
        @tool(name=f"d{sides}", description=f"Roll a die with {sides} sides.")
        def roll() -> int:
            return sides

        return roll

    assert [dice(6).name, dice(20).name] == ["d6", "d20"]


def test_two_tools_are_equal_only_when_they_are_the_same() -> None:
    one: Tool = by_function
    assert one == by_function
    assert one != by_model
    assert len({by_function, by_model, by_function}) == 2


def test_an_object_without_a_name_needs_one() -> None:
    nameless = functools.partial(lambda word: word, "a")
    with pytest.raises(DeclarationError, match="tool ''"):
        tool(description="Probe.")(nameless)
    assert tool(name="probe", description="Probe.")(nameless).name == "probe"


async def test_progress_reaches_whoever_watches() -> None:
    @tool
    async def probe(ctx: Ctx) -> str:
        """Probe."""
        ctx.progress(Result.text("half"))
        return "whole"

    ctx = fake_ctx()
    assert await probe.run(ctx, {}) == Result(content=(Text("whole"),))
    assert ctx.shown == [Result.text("half")]
