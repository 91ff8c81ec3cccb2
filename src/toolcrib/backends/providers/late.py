"""A model that is made when it is first asked, beside the event loop: what it is made of takes long to load."""

import asyncio
from collections.abc import AsyncIterator, Callable

from toolcrib.define.event import ReplyEvent
from toolcrib.define.model import Model, ModelCard, Request
from toolcrib.threads import in_thread

__all__ = ["LateModel"]


class LateModel:
    """A model behind its card. `make` is called once, in a thread; whoever asks meanwhile waits for the same one."""

    def __init__(self, card: ModelCard, make: Callable[[], Model]) -> None:
        self.card, self._make = card, make
        self._model: Model | None = None
        self._making = asyncio.Lock()

    async def reply(self, request: Request, /) -> AsyncIterator[ReplyEvent]:
        """Ask the model."""
        model = self._model or await self._made()
        async for event in model.reply(request):
            yield event

    async def _made(self) -> Model:
        async with self._making:
            if self._model is None:
                self._model = await in_thread(self._make)
            return self._model

    async def close(self) -> None:
        """Let go of what the model holds, if there ever was one."""
        if self._model is not None:
            await self._model.close()
