"""pydantic-ai with its own fake model, whole and streamed."""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from pydantic_ai import Agent, BinaryContent
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from tests.doors.bridges.wires import Asked, Heard, Told

from toolcrib.app import Belt
from toolcrib.doors.bridges.pydantic_ai import CribToolset

__all__ = ["agent", "agent_streamed", "told_in"]


async def agent(belt: Belt, calls: Sequence[Asked], finish: Any = None) -> Heard:
    heard: list[tuple[list[ModelMessage], AgentInfo]] = []

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        heard.append((list(messages), info))
        if len(heard) > 1:
            return ModelResponse([TextPart("done")])
        parts = [ToolCallPart(call.name, call.args, tool_call_id=call.id) for call in calls]
        return ModelResponse(parts, finish_reason=finish)

    result = await Agent(FunctionModel(reply), toolsets=[CribToolset[None](belt)]).run("go")
    assert result.output == "done"
    return _heard(heard)


async def agent_streamed(belt: Belt, calls: Sequence[Asked]) -> Heard:
    heard: list[tuple[list[ModelMessage], AgentInfo]] = []

    async def reply(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
        heard.append((list(messages), info))
        if len(heard) > 1:
            yield "done"
            return
        for at, call in enumerate(calls):
            half = len(call.args) // 2
            yield {at: DeltaToolCall(call.name, call.args[:half], tool_call_id=call.id)}
            yield {at: DeltaToolCall(json_args=call.args[half:], tool_call_id=call.id)}

    streamed = Agent(FunctionModel(stream_function=reply), toolsets=[CribToolset[None](belt)])
    async with streamed.run_stream("go") as result:
        assert await result.get_output() == "done"
    return _heard(heard)


def _heard(heard: Sequence[tuple[list[ModelMessage], AgentInfo]]) -> Heard:
    (_, info), (messages, _) = heard
    last = messages[-1]
    assert isinstance(last, ModelRequest)
    return Heard({tool.name: tool for tool in info.function_tools}, told_in([last]))


def told_in(messages: Sequence[ModelMessage]) -> list[Told]:
    """Read the answers to calls; what is to be tried again was a part of its own before 2.60."""
    parts: list[Any] = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    return [_told(part) for part in parts if part.part_kind in ("tool-return", "retry-prompt")]


def _told(part: Any) -> Told:
    content = part.content if isinstance(part.content, list) else [part.content]
    pictures = [each for each in content if isinstance(each, BinaryContent)]
    assert all(each.media_type == "image/png" for each in pictures)
    text = "\n".join(each for each in content if isinstance(each, str))
    return Told(part.tool_call_id, text, getattr(part, "outcome", "retried") != "success", len(pictures))
