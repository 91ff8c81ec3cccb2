"""What a plugin's channel is made of: the port, its messages and posts, and what a gateway hands on."""

from typing import TYPE_CHECKING

from . import _serve

if TYPE_CHECKING:
    from .define.channel import (
        Abilities,
        Attachment,
        Button,
        Channel,
        ChannelKind,
        Hear,
        HeardMessage,
        InboundAnswer,
        InboundRequest,
        Post,
        Receiver,
    )
    from .define.web import WayOut

_HOMES = {
    "define.channel": (
        "Abilities Attachment Button Channel ChannelKind Hear HeardMessage InboundAnswer InboundRequest Post Receiver"
    ),
    "define.web": "WayOut",
}

__all__ = [
    "Abilities", "Attachment", "Button", "Channel", "ChannelKind", "Hear", "HeardMessage", "InboundAnswer",
    "InboundRequest", "Post", "Receiver", "WayOut",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = _serve(__name__, _HOMES)
