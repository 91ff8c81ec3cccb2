"""What a turn, a reply and a call say as they happen; a program iterates over them.

async with crib.turn("what is new?", caller=caller) as turn:
    async for event in turn:
        if isinstance(event, TextDelta): ...
"""

from typing import TYPE_CHECKING

from . import _serve

if TYPE_CHECKING:
    from .define.event import (
        CallDelta,
        CallEvent,
        Compacted,
        Ending,
        Event,
        Received,
        Replied,
        ReplyEvent,
        Retrying,
        TextDelta,
        ThinkingDelta,
        ToolFinished,
        ToolProgress,
        ToolStarted,
        TurnFinished,
        TurnStarted,
        Usage,
        Warned,
    )

_HOMES = {
    "define.event": (
        "CallDelta CallEvent Compacted Ending Event Received Replied ReplyEvent Retrying TextDelta "
        "ThinkingDelta ToolFinished ToolProgress ToolStarted TurnFinished TurnStarted Usage Warned"
    ),
}

__all__ = [
    "CallDelta", "CallEvent", "Compacted", "Ending", "Event", "Received", "Replied", "ReplyEvent", "Retrying",
    "TextDelta", "ThinkingDelta", "ToolFinished", "ToolProgress", "ToolStarted", "TurnFinished", "TurnStarted",
    "Usage", "Warned",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = _serve(__name__, _HOMES)
