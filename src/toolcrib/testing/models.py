"""Models that say what a test wants: a script of replies, or a function that makes them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence

from toolcrib.define.event import CallDelta, Replied, ReplyEvent, TextDelta, Usage
from toolcrib.define.message import Call, Message
from toolcrib.define.model import ModelCard, Request
from toolcrib.define.result import Text
from toolcrib.lazy import dataclass, replace

_CARD = ModelCard(provider="test", model="scripted", sees=True)
_NOTHING = Usage()

Reply = Replied | Message | str


def text_reply(text: str, usage: Usage = _NOTHING) -> Replied:
    """Return a reply in words."""
    return Replied(Message(role="assistant", content=(Text(text),), by=_CARD.name), usage)


def call_reply(*calls: Call, text: str = "", usage: Usage = _NOTHING) -> Replied:
    """Return a reply that asks for tools."""
    content = (Text(text),) if text else ()
    return Replied(Message(role="assistant", content=content, calls=calls, finish="calls", by=_CARD.name), usage)


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """One request as a model got it: the messages that stood there then, and the names of its tools."""

    messages: Sequence[Message]
    tools: tuple[str, ...]
    system: str
    request: Request


class FunctionModel:
    """A model whose replies a function makes: of the request, a `Replied`, a message or plain words.

    `asked` lists what it was asked, for the test to look at; `keep=False` when that would grow too long.
    """

    def __init__(
        self, answer: Callable[[Request], Reply | Awaitable[Reply]], card: ModelCard = _CARD, *, keep: bool = True
    ) -> None:
        self._answer, self.card, self._keep = answer, card, keep
        self.asked: list[RecordedRequest] = []

    async def reply(self, request: Request, /) -> AsyncIterator[ReplyEvent]:
        if self._keep:
            names = tuple(tool.name for tool in request.tools)
            self.asked.append(RecordedRequest(tuple(request.history), names, request.system, request))
        answer = self._answer(request)
        replied = _as_replied(answer if isinstance(answer, Replied | Message | str) else await answer)
        for part in replied.message.content:
            if isinstance(part, Text):
                yield TextDelta(part.text)
        for index, call in enumerate(replied.message.calls):
            yield CallDelta(index, call.name, "")
        yield replied

    async def close(self) -> None:
        """Nothing is held."""


class ScriptedModel(FunctionModel):
    """A model that follows its script, one reply a request; `done()` fails when a part of it was never used."""

    def __init__(self, script: Iterable[Reply], card: ModelCard = _CARD) -> None:
        self._script = list(script)
        for each in self._script:
            if not isinstance(each, Replied | Message | str):
                raise TypeError(f"a reply is words, a Message, text_reply(...) or call_reply(call), not {each!r}")
        super().__init__(self._next, card)

    def _next(self, request: Request) -> Reply:
        at = len(self.asked) - 1
        if at >= len(self._script):
            raise AssertionError(f"the script has {len(self._script)} replies, and another one is wanted")
        return self._script[at]

    def done(self) -> None:
        """Fail unless the whole script was used."""
        if len(self.asked) != len(self._script):
            raise AssertionError(f"{len(self.asked)} of {len(self._script)} replies were asked for")


def _as_replied(reply: Reply) -> Replied:
    if isinstance(reply, str):
        return text_reply(reply)
    if isinstance(reply, Message):
        return Replied(reply)
    if reply.message.role != "assistant":
        return replace(reply, message=replace(reply.message, role="assistant"))
    return reply
