"""What only pydantic-ai has: its own models, retries, a belt for every run, and names it refuses by itself."""

from typing import Any

import pytest

pytest.importorskip("pydantic_ai", reason="the package pydantic-ai-slim is not installed")

from pydantic_ai import Agent, ModelRetry, RunContext, ToolFailed
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import ToolsetTool
from pydantic_ai.usage import RunUsage
from tests.doors.bridges.wires import Asked
from tests.doors.bridges.with_pydantic_ai import agent, told_in
from tests.doors.bridges.world import world

from toolcrib import OWNER, Caller, Sender, tool
from toolcrib.doors.bridges.pydantic_ai import CribToolset

pytestmark = pytest.mark.anyio


def run_context(deps: Any = None, **more: Any) -> RunContext[Any]:
    return RunContext(deps=deps, model=TestModel(), usage=RunUsage(), **more)


async def call(toolset: CribToolset[Any], name: str, args: dict[str, Any], ctx: RunContext[Any]) -> Any:
    """Call as the framework does, also what is not in the list."""
    any_tool: ToolsetTool[Any] = (await toolset.get_tools(ctx))["add"]
    return await toolset.call_tool(name, args, ctx, any_tool)


async def test_the_framework_s_own_fake_model_calls_tools_of_the_belt() -> None:
    here = world()
    calls = TestModel(call_tools=["add", "photo"])
    result = await Agent(calls, toolsets=[CribToolset[None](here.belt)]).run("go")
    assert result.output
    assert sorted(here.ran) == ["add", "photo"]
    assert [entry[1:3] for entry in here.record if entry[0] == "finished"] == [("add", "ok"), ("photo", "ok")]


async def test_details_are_kept_for_the_program() -> None:
    returned = await call(CribToolset(world().belt), "photo", {}, run_context(tool_call_id="x"))
    assert returned.metadata == {"width": 1, "height": 1}


@pytest.mark.parametrize(
    ("name", "args", "error", "sentence", "written"),
    [
        ("vault", {}, ToolFailed, "Refused: vault is not permitted here", ["decided", "finished"]),
        ("add", {}, ModelRetry, "a is required", ["decided", "finished"]),
        ("shop", {"name": "x"}, ToolFailed, "no shop 'x'", ["decided", "started", "finished"]),
        ("nothing", {}, ToolFailed, "there is no tool 'nothing'", ["decided", "finished"]),
    ],
)
async def test_arguments_are_retried_and_everything_else_has_failed(
    name: str, args: dict[str, Any], error: type[Exception], sentence: str, written: list[str]
) -> None:
    here = world()
    with pytest.raises(error, match=sentence):
        await call(CribToolset(here.belt), name, args, run_context(tool_call_id="x"))
    assert [entry[0] for entry in here.record] == written


async def test_a_tool_outside_the_list_is_refused_by_the_framework_and_never_runs() -> None:
    here = world()
    heard = await agent(here.belt, [Asked("vault")])
    assert [(told.failed, "Unknown tool name: 'vault'" in told.text) for told in heard.told] == [(True, True)]
    assert here.ran == []


async def test_one_agent_serves_many_callers_each_with_their_own_belt() -> None:
    crib = world().crib

    @tool(effects=set())
    async def who() -> str:
        """Say who asks."""
        return "somebody"

    @tool(effects=set(), owner_only=True)
    async def safe() -> str:
        """Open the safe."""
        return "open"

    offered: list[list[str]] = []

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        offered.append([tool.name for tool in info.function_tools])
        return ModelResponse([TextPart("done")])

    toolset = CribToolset[Caller](lambda ctx: crib.belt(ctx.deps, extra=[who, safe]))
    serving = Agent(FunctionModel(reply), deps_type=Caller, toolsets=[toolset])
    await serving.run("go", deps=OWNER)
    await serving.run("go", deps=Caller(channel="irc", group="#shop", sender=Sender(id="7")))
    owner, stranger = offered
    assert "safe" in owner
    assert "safe" not in stranger
    assert {"who"} <= set(owner) & set(stranger)


async def test_an_exclusive_tool_is_a_barrier() -> None:
    @tool(effects=set(), exclusive=True)
    async def alone() -> str:
        """Run alone."""
        return "done"

    belt = world().crib.belt(OWNER, extra=[alone])
    tools = await CribToolset[None](belt, id="crib", max_retries=3).get_tools(run_context())
    assert tools["alone"].tool_def.sequential
    assert tools["alone"].max_retries == 3
    assert not tools["result_get"].tool_def.sequential


async def test_a_model_that_mends_its_arguments_gets_the_answer() -> None:
    here = world()
    asked = iter(['{"a": ', '{"a": 41}'])

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        args = next(asked, None)
        return ModelResponse([ToolCallPart("add", args) if args else TextPart("done")])

    result = await Agent(FunctionModel(reply), toolsets=[CribToolset[None](here.belt)], retries=2).run("go")
    told = told_in(result.all_messages())
    assert [(each.failed, "the sum is 42" in each.text) for each in told] == [(True, False), (False, True)]
    assert [entry for entry in here.record if entry[0] != "decided"] == [
        ("finished", "add", "error", "bad_arguments", "not run"),
        ("started", "add"),
        ("finished", "add", "ok", "", "ran"),
    ]


async def test_a_call_from_an_interrupted_reply_never_runs() -> None:
    here = world()
    broken = ModelResponse([ToolCallPart("photo", "{}", tool_call_id="x")], state="interrupted")
    with pytest.raises(ModelRetry, match="cut off"):
        await call(CribToolset(here.belt), "photo", {}, run_context(tool_call_id="x", messages=[broken]))
    assert here.ran == []
