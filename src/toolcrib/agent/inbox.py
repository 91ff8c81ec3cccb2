"""Messages that come while a turn goes on."""

from collections import deque

from toolcrib.define.errors import ToolError
from toolcrib.define.message import Message

__all__ = ["Inbox"]

_MOST = 100


class Inbox:
    """Two queues: `steer` is heard as soon as the calls under way are done, `follow_up` when the turn would end.

    One message at a time: each gets a reply before the next one is heard.
    """

    def __init__(self) -> None:
        self._steering: deque[Message] = deque()
        self._following: deque[Message] = deque()
        self._is_closed = False

    def steer(self, message: Message) -> None:
        """Put in a message that changes the course of the turn."""
        self._put(self._steering, message)

    def follow_up(self, message: Message) -> None:
        """Put in a message to be answered after this one, in the same turn."""
        self._put(self._following, message)

    @property
    def is_empty(self) -> bool:
        """Whether nobody has more to say."""
        return not self._steering and not self._following

    @property
    def has_steering(self) -> bool:
        """Whether somebody wants to change the course of the turn."""
        return bool(self._steering)

    def next_steering(self) -> Message | None:
        """Take the next message that is to be heard now."""
        return self._steering.popleft() if self._steering else None

    def next_following(self) -> Message | None:
        """Take the next message that is to be answered once all else is."""
        return self._following.popleft() if self._following else None

    def close(self) -> list[Message]:
        """Take nothing more; return what nobody has heard, in the order in which it would have been."""
        left = [*self._steering, *self._following]
        self._steering.clear()
        self._following.clear()
        self._is_closed = True
        return left

    def _put(self, queue: deque[Message], message: Message) -> None:
        if self._is_closed:
            raise ToolError("the turn has ended; send it as a message of its own", code="ended")
        if len(queue) >= _MOST:
            words = f"{_MOST} messages wait in this session already; wait until it has heard them"
            raise ToolError(words, code="busy")
        queue.append(message)
