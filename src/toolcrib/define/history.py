"""History: a conversation that only grows, so that whatever is derived from it is derived once."""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

import orjson

from .event import Usage
from .message import Message, Thinking
from .result import Image, Text

__all__ = ["History", "estimate"]

_PER_TOKEN = 4  # characters, on average
_PICTURE = 1_200  # tokens


class History:
    """The messages a model is shown, oldest first.

    Nothing in it ever changes; it is appended to. Whoever needs it in another form keeps that form in `forms`, under a
    key of its own, together with how many messages it has seen, and goes on from there: a turn costs what is new in it.
    A history that was shortened is another one. `outside` names where texts in it came from, when that was not here; it
    is not forgotten when the texts are.
    """

    __slots__ = ("_after", "_known", "_messages", "forms", "outside")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self.forms: dict[Hashable, Any] = {}
        self.outside: dict[str, None] = {}
        self._messages: list[Message] = []
        self._known = self._after = 0
        for message in messages:
            self.append(message)

    def append(self, message: Message, usage: Usage | None = None) -> None:
        """Add a message; `usage` is what its provider counted, all that went before it included."""
        self._messages.append(message)
        for part in message.content:
            if type(part) is Text and part.source is not None:
                self.outside[part.source] = None
        if usage and usage.input:
            self._known, self._after = usage.input + usage.output, 0
        else:
            self._after += estimate(message)

    @property
    def tokens(self) -> int:
        """How long the conversation is: as the provider counted it last, and an estimate of what came since."""
        return self._known + self._after

    def __len__(self) -> int:
        return len(self._messages)

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)

    def __getitem__(self, at: int) -> Message:
        return self._messages[at]

    def since(self, at: int) -> list[Message]:
        """Return the messages from that place on."""
        return self._messages[at:]


def estimate(message: Message) -> int:
    """Return about how many tokens a message has."""
    characters = pictures = 0
    for part in message.content:
        if isinstance(part, Image):
            pictures += 1
        else:
            characters += len(part.text)
            if isinstance(part, Thinking):
                characters += len(part.mark)
    for call in message.calls:
        characters += len(call.name) + (_length(call.args) if call.args else 2)
    return -(-characters // _PER_TOKEN) + pictures * _PICTURE


def _length(args: Mapping[str, Any]) -> int:
    try:
        return len(orjson.dumps(args, default=str))
    except TypeError:  # a number beyond 64 bits, or half of a character
        return len(str(args))
