"""The belt for pydantic-ai: a toolset like any other, whose calls pass `invoke`.

agent = Agent("openai:gpt-5", toolsets=[CribToolset(belt)])

# one agent, many callers: the belt is chosen for each run
agent = Agent("openai:gpt-5", deps_type=Caller, toolsets=[CribToolset(lambda ctx: crib.belt(ctx.deps))])
"""

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from toolcrib.adapter.arguments import parse_arguments
from toolcrib.adapter.conversation import answer_message
from toolcrib.adapter.names import schema_for
from toolcrib.app import Belt
from toolcrib.define.errors import ArgumentError
from toolcrib.define.message import Call
from toolcrib.define.result import Image

from . import MissingPackageError, explain_cut_off

try:
    from pydantic_ai import BinaryContent, ModelRetry, RunContext, ToolDefinition, ToolFailed, ToolReturn
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.tools import AgentDepsT
    from pydantic_ai.toolsets import AbstractToolset, ToolsetTool
except ModuleNotFoundError as error:
    raise MissingPackageError("pydantic-ai-slim", "pydantic-ai") from error

_CUT = frozenset({"length", "content_filter", "error"})

# What is wrong with arguments that cannot be read travels under this name, so that `invoke` records and answers the
# call. A model that writes the name itself gains nothing: its call is not run.
_FLAW = "toolcrib:flaw"


class CribToolset(AbstractToolset[AgentDepsT]):
    """A belt, or a function from the run to a belt, as a toolset.

    Arguments that do not fit become the framework's retries, at most `max_retries` for a tool (the agent's number when
    None); every other failure is a result that is marked as failed.
    """

    def __init__(
        self,
        belt: Belt | Callable[[RunContext[AgentDepsT]], Belt],
        *,
        id: str | None = None,
        max_retries: int | None = None,
    ) -> None:
        self._belt, self._id, self._max_retries = belt, id, max_retries

    @property
    def id(self) -> str | None:
        """The name by which durable execution knows this toolset."""
        return self._id

    async def get_tools(self, ctx: RunContext[AgentDepsT]) -> dict[str, ToolsetTool[AgentDepsT]]:
        """Return the belt's tools; what is denied is not among them."""
        retries = ctx.max_retries if self._max_retries is None else self._max_retries
        return {
            tool.name: ToolsetTool(
                toolset=self,
                tool_def=ToolDefinition(
                    name=tool.name,
                    description=tool.description,
                    parameters_json_schema=deepcopy(schema_for(ctx.model.model_name, tool, "portable")),
                    sequential=tool.exclusive,
                    metadata={"source": tool.source, "group": tool.group, "effects": sorted(tool.effects)},
                ),
                max_retries=retries,
                args_validator=_AsWritten(),
            )
            for tool in self._belt_of(ctx).selection.shown
        }

    async def call_tool(
        self, name: str, tool_args: dict[str, Any], ctx: RunContext[AgentDepsT], tool: ToolsetTool[AgentDepsT]
    ) -> ToolReturn:
        """Run one call through the gate."""
        flaw = _explain_cut(ctx) or str(tool_args.get(_FLAW, ""))
        call = Call(id=ctx.tool_call_id or "", name=name, args={} if flaw else tool_args, parse_error=flaw)
        result = (await self._belt_of(ctx).call_all([call]))[0]
        message = answer_message(call, result)
        if message.status != "error":
            pictures = [
                BinaryContent(part.data, media_type=part.mime) for part in message.content if isinstance(part, Image)
            ]
            words = message.plain_text
            return ToolReturn(return_value=[words, *pictures] if pictures else words, metadata=result.details)
        if isinstance(result.details, Mapping) and result.details.get("code") == "bad_arguments":
            raise ModelRetry(message.plain_text)
        raise ToolFailed(message.plain_text)

    def _belt_of(self, ctx: RunContext[AgentDepsT]) -> Belt:
        return self._belt if isinstance(self._belt, Belt) else self._belt(ctx)


class _AsWritten:
    """Reads arguments without judging them: `invoke` checks them against the tool's whole schema."""

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> dict[str, Any]:
        text = input if isinstance(input, str) else input.decode(errors="replace")
        try:
            return parse_arguments(text)
        except ArgumentError as error:
            return {_FLAW: str(error)}

    def validate_python(self, input: Any, **_: Any) -> dict[str, Any]:
        return dict(input) if isinstance(input, Mapping) else {_FLAW: "the arguments are no object"}


def _explain_cut(ctx: RunContext[Any]) -> str:
    """Return what is wrong with a call in a reply that broke off, nothing when it did not."""
    for message in reversed(ctx.messages):
        if isinstance(message, ModelResponse):
            if message.state == "interrupted":
                return explain_cut_off("interrupted")
            return explain_cut_off(message.finish_reason) if message.finish_reason in _CUT else ""
    return ""
