"""webchat: the gateway's own chats as a channel. A message goes into the log of its session, and to its clients.

People there are heard by `chat.send`; who connects later reads it in the history. It is begun by the first who writes
there, and nobody configures it.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any

from toolcrib.define.channel import Abilities, Attachment, Hear, Post, refuse_action
from toolcrib.define.display import quote_short
from toolcrib.define.errors import ToolError
from toolcrib.define.gateway import Bus
from toolcrib.define.log import Said
from toolcrib.define.message import Message
from toolcrib.define.result import Text
from toolcrib.services.chat_events import tell_answer
from toolcrib.services.feature import TurnCore

WEBCHAT = "webchat"


class WebchatChannel:
    """Every session of one crib; a chat is the key of a session."""

    abilities = Abilities(actions=("send", "broadcast"), longest=16_000, knows_keys=True)

    def __init__(self, core: TurnCore) -> None:
        self._sessions, self._host, self._bus = core.stores.sessions, core.host, core.find(Bus)

    async def listen(self, hear: Hear, cursor: str, ready: Callable[[], None], /) -> None:
        """Wait: people are heard by `chat.send`."""
        ready()
        await asyncio.Event().wait()

    async def post(self, post: Post, key: str, /) -> str:
        """Keep a message, once for a key, and publish it to connected clients."""
        if await self._sessions.find(post.chat) is None:
            raise ToolError(f"there is no session {quote_short(post.chat)}", code="not_found")
        lines = await self._sessions.lines(post.chat)
        if any(isinstance(line.body, Said) and line.body.message.by == key for line in lines):
            return key
        timestamp = time.time()
        # whoever had it sent: in this session it is no word of the model's own
        words = Text(post.text, f"message:{WEBCHAT}")
        await self._host.add(post.chat, Said(Message(role="assistant", content=(words,), at=timestamp, by=key)))
        tell_answer(self._bus, key, post.chat, post.text, timestamp)
        return key

    async def act(self, action: str, chat: str, params: Mapping[str, Any], /) -> dict[str, Any]:
        raise refuse_action(WEBCHAT, action, self.abilities)

    async def fetch(self, attachment: Attachment, max_bytes: int, /) -> bytes:
        raise ToolError("files of a webchat come with its messages", code="unsupported")

    async def show_typing(self, chat: str, thread: str, /) -> None:
        """Do nothing: who follows a run sees it."""

    async def close(self) -> None:
        """Do nothing: the gateway has the connections."""
