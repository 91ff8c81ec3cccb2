"""The belt inside other people's programs: their client or framework asks, `invoke` answers.

    from toolcrib.doors.bridges import openai as bridge      # or anthropic, or genai

    reply = await client.chat.completions.create(model=..., messages=messages, tools=bridge.tools(belt))
    messages += [reply.choices[0].message, *await bridge.answers(belt, reply)]

    from toolcrib.doors.bridges.pydantic_ai import CribToolset

    agent = Agent(..., toolsets=[CribToolset(belt)])

Each bridge is an extra of its own name (`pip install 'toolcrib[openai]'`); a foreign package is imported by its bridge
and by nothing else.
"""

from collections.abc import Sequence

from toolcrib.adapter.conversation import BROKEN, answer_message
from toolcrib.app import Belt
from toolcrib.define.errors import CribError
from toolcrib.define.event import Replied
from toolcrib.define.message import Call, Message


class MissingPackageError(CribError, ImportError):
    """The package that a bridge leads to is not installed."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this bridge needs the package {package}; install it with: pip install 'toolcrib[{extra}]'")


async def run_calls(belt: Belt, replied: Replied) -> list[Message]:
    """Run the calls of a reply; return the reply with its answers, or nothing when it made no calls.

    A call in a reply that broke off never runs, and is answered all the same: the client keeps that reply, and its
    provider takes no call without an answer.
    """
    reply = replied.message
    calls: Sequence[Call] = reply.calls
    if not calls:
        return []
    if reply.finish in BROKEN:
        calls = [
            Call(id=call.id, name=call.name, parse_error=explain_cut_off(replied.error or reply.finish))
            for call in calls
        ]
    results = await belt.call_all(calls)
    asked = Message(role="assistant", calls=tuple(calls), finish="calls", by=reply.by)
    return [asked, *map(answer_message, calls, results)]


def explain_cut_off(why: str) -> str:
    """Return the error for a call in a reply that was cut off, as the model reads it."""
    return f"the reply was cut off ({why}), so this call was not run; make it again"
