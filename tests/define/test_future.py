"""Annotations left as text by `from __future__ import annotations` mean what they say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from toolcrib.define.agent import Agent
from toolcrib.define.context import Ctx
from toolcrib.define.errors import DeclarationError
from toolcrib.define.result import Result
from toolcrib.define.tool import Tool, tool
from toolcrib.testing import fake_ctx

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Point:
    x: int
    y: int | None


@tool
async def outside(ctx: Ctx, at: Point, unit: Annotated[Literal["px", "em"], "of length"] = "px") -> Result:
    """Probe."""
    return Result.text(f"{ctx.call.name} {at.x} {at.y} {unit}")


def declared_inside() -> Tool:
    class Size(BaseModel):
        width: int = Field(gt=0)

    @dataclass
    class Box:
        sides: list[int]

    @tool
    async def inside(ctx: Ctx, size: Size, boxes: list[Box], at: Point | None) -> str:
        """Probe."""
        return f"{size.width} {boxes[0].sides} {at}"

    return inside


async def test_a_tool_of_the_module_is_read() -> None:
    assert outside.parameters["properties"]["unit"] == {
        "type": "string",
        "enum": ["px", "em"],
        "description": "of length",
        "default": "px",
    }
    assert outside.parameters["required"] == ["at"]
    args = outside.check({"at": {"x": "1"}})
    assert await outside.run(fake_ctx("outside"), args) == Result.text("outside 1 None px")


async def test_a_tool_declared_inside_a_function_sees_the_types_around_it() -> None:
    probe = declared_inside()
    assert probe.parameters["properties"]["size"]["properties"] == {"width": {"type": "integer", "exclusiveMinimum": 0}}
    args = probe.check({"size": {"width": "3"}, "boxes": [{"sides": [1]}]})
    assert await probe.run(fake_ctx(), args) == Result.text("3 [1] None")


def test_a_helper_between_the_function_and_the_decorator_does_not_matter() -> None:
    class Size(BaseModel):
        width: int

    def declare(body: Any) -> Tool:
        Size = None  # noqa: N806, F841  what is called so here is not what the author meant
        return tool(body)

    @declare
    def probe(size: Size) -> str:
        """Probe."""
        return str(size)

    assert probe.parameters["properties"]["size"]["properties"] == {"width": {"type": "integer"}}


def test_a_union_is_refused_all_the_same() -> None:
    def probe(x: int | str) -> None:
        """Probe."""

    with pytest.raises(DeclarationError, match=r"test_future\.py:\d+\): parameter 'x' is a union"):
        tool(probe)


def test_a_name_that_means_nothing_is_told() -> None:
    def probe(x: Nowhere) -> None:  # type: ignore[name-defined]  # noqa: F821  that it means nothing is the point
        """Probe."""

    with pytest.raises(DeclarationError, match=r"parameter 'x': annotation 'Nowhere' cannot be read"):
        tool(probe)


def test_the_inputs_of_an_agent_are_read() -> None:
    agent = Agent(name="walker", description="Walks.", prompt="Walk.", inputs=Point)
    assert agent.inputs is Point
