"""The belt for OpenAI's client, and for every client that speaks its chat completions or its responses.

    reply = await client.chat.completions.create(model=..., messages=messages, tools=bridge.tools(belt))
    messages += [reply.choices[0].message, *await bridge.answers(belt, reply)]

    reply = await client.responses.create(model=..., input=items, tools=bridge.response_tools(belt))
    items += [*reply.output, *await bridge.response_answers(belt, reply)]

No answers means that the model made no calls and is done. What is sent is plain JSON: the package itself is wanted by
type checkers only.
"""

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from toolcrib.adapter import openai as chat
from toolcrib.adapter import responses
from toolcrib.adapter.cards import Target
from toolcrib.app import Belt

from . import run_calls

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletion, ChatCompletionFunctionToolParam, ChatCompletionMessageParam
    from openai.types.responses import FunctionToolParam, Response
    from openai.types.responses.response_input_item_param import FunctionCallOutput

__all__ = ["answers", "response_answers", "response_tools", "tools"]


def tools(belt: Belt, *, strict: bool = False) -> "list[ChatCompletionFunctionToolParam]":
    """Return the belt's tools for `chat.completions.create(tools=...)`; `strict` holds the model to their schemas."""
    declared: Any = [deepcopy(chat.declare(tool, strict=strict)) for tool in belt.selection.shown]
    listed: list[ChatCompletionFunctionToolParam] = declared
    return listed


def response_tools(belt: Belt, *, strict: bool = False) -> "list[FunctionToolParam]":
    """Return the belt's tools for `responses.create(tools=...)`; `strict` holds the model to their schemas."""
    declared: Any = [deepcopy(responses.declare(tool, strict=strict)) for tool in belt.selection.shown]
    listed: list[FunctionToolParam] = declared
    return listed


async def answers(belt: Belt, reply: "ChatCompletion", *, sees: bool = True) -> "list[ChatCompletionMessageParam]":
    """Run the calls of a reply and return the messages that answer them, in their order.

    An answer of a tool takes no pictures here: they follow in one message of the user's, or as words for a model that
    does not see.
    """
    target = Target(api="openai", model=reply.model or "", sees=sees)
    raw = reply.model_dump(mode="json", warnings=False)
    exchange = await run_calls(belt, chat.read_reply(raw, target))
    if not exchange:
        return []
    _, *encoded = chat.request(exchange, (), target)["messages"]
    # the client keeps the reply with the ids it came with, be they doubled or too long
    given = [call.id for call in reply.choices[0].message.tool_calls or ()]
    matched: Any = [{**each, "tool_call_id": id} for each, id in zip(encoded, given, strict=False)]
    messages: list[ChatCompletionMessageParam] = [*matched, *encoded[len(matched) :]]
    return messages


async def response_answers(belt: Belt, reply: "Response", *, sees: bool = True) -> "list[FunctionCallOutput]":
    """Run the calls of a response and return the items that answer them, in their order, pictures inside."""
    target = Target(api="responses", model=reply.model or "", sees=sees)
    raw = reply.model_dump(mode="json", by_alias=True, warnings=False)
    exchange = await run_calls(belt, responses.read_reply(raw, target))
    if not exchange:
        return []
    encoded = [item for item in responses.request(exchange, (), target)["input"] if item["type"] != "function_call"]
    given = [item.call_id for item in reply.output if item.type == "function_call"]
    matched: Any = [{**each, "call_id": id} for each, id in zip(encoded, given, strict=False)]
    items: list[FunctionCallOutput] = matched
    return items
