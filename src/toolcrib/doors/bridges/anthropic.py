"""The belt for Anthropic's client.

    reply = await client.messages.create(model=..., max_tokens=..., messages=messages, tools=bridge.tools(belt))
    messages += [{"role": "assistant", "content": reply.content}, *await bridge.answers(belt, reply)]

No answers means that the model made no calls and is done. What is sent is plain JSON: the package itself is wanted by
type checkers only.
"""

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from toolcrib.adapter import anthropic as wire
from toolcrib.adapter.cards import Target
from toolcrib.adapter.names import claude_names
from toolcrib.app import Belt

from . import run_calls

if TYPE_CHECKING:
    from anthropic.types import Message, MessageParam, ToolParam

__all__ = ["answers", "tools"]


def tools(belt: Belt, *, claude_code: bool = False) -> "list[ToolParam]":
    """Return the belt's tools for `messages.create(tools=...)`.

    `claude_code` names them as Claude Code does (`Read`, `Bash`), which its models know best; say it to `answers` too.
    """
    target = Target(api="anthropic", claude_code=claude_code)
    declared: Any = wire.request((), belt.selection.shown, target).get("tools", [])
    listed: list[ToolParam] = deepcopy(declared)
    return listed


async def answers(
    belt: Belt, reply: "Message", *, claude_code: bool = False, sees: bool = True
) -> "list[MessageParam]":
    """Run the calls of a reply and return the message that answers them all, in their order, pictures inside."""
    target = Target(api="anthropic", model=reply.model or "", claude_code=claude_code, sees=sees)
    raw = reply.model_dump(mode="json", warnings=False)
    exchange = await run_calls(belt, wire.read_reply(raw, target, _own_names(belt, target)))
    if not exchange:
        return []
    *_, message = wire.request(exchange, (), target)["messages"]
    # the client keeps the reply with the ids it came with, be they doubled or too long
    given = [block.id for block in reply.content if block.type == "tool_use"]
    content: Any = [{**each, "tool_use_id": id} for each, id in zip(message["content"], given, strict=False)]
    return [{"role": "user", "content": content}]


def _own_names(belt: Belt, target: Target) -> dict[str, str]:
    """Return tools' own names by those the model was shown, and by those it may know of tools that are denied."""
    known = {claude_names(name)[0]: name for name in belt.verdicts} if target.claude_code else {}
    return known | wire.own_names(tuple(belt.tools.values()), target)
