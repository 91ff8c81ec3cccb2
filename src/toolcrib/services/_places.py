"""Places for subagents: so many may run at once in one tree, whoever in it starts them and however."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from toolcrib.define.errors import ToolError

__all__ = ["Places"]


class Places:
    """How many subagents run in each tree; `root` is what all members of a tree have in common."""

    def __init__(self) -> None:
        self._taken: Counter[str] = Counter()
        self._coming = 0

    def take(self, root: str, most: int) -> None:
        """Take a place; raise ToolError when there is none. Nobody waits for one: it could be for those above it."""
        if self._taken[root] >= most:
            raise ToolError(
                f"{most} subagents run already, which is the most (tools.subagents.maxConcurrent); "
                "wait until one of them is done",
                code="busy",
            )
        self._taken[root] += 1

    def leave(self, root: str) -> None:
        """Give a place back."""
        self._taken[root] -= 1
        if not self._taken[root]:
            del self._taken[root]

    async def come_in(self) -> None:
        """Wait until those who came at the same time are in, so that all others get a turn between any two of them."""
        ahead, self._coming = self._coming, self._coming + 1
        try:
            for _ in range(ahead):
                await asyncio.sleep(0)
        finally:
            asyncio.get_running_loop().call_soon(self._came_in)

    def _came_in(self) -> None:
        self._coming -= 1

    @contextmanager
    def taken(self, root: str, most: int) -> Iterator[None]:
        """Hold a place for as long as the block runs."""
        self.take(root, most)
        try:
            yield
        finally:
            self.leave(root)
