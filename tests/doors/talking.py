"""A model behind a socket for tests of the command line: a server on loopback, beside the test, that says a script."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.backends.models.servers import Act, Say, Server, Talk, answering, serving

from .world import crib_file

__all__ = ["Say", "Talk", "call", "crib_with", "in_turn", "talking"]

SECONDS = 120


def call(name: str, args: str = "{}", *, id: str = "call_1", text: str = "") -> Say:
    """Return a reply that wants one call."""
    return Say(text=text, calls=((id, name, args),))


def in_turn(*acts: Act | Say) -> Act:
    """Return what answers with each of these in turn, the last again and again."""
    left = [answering("openai", act) if isinstance(act, Say) else act for act in acts]

    async def act(talk: Talk) -> None:
        await (left.pop(0) if len(left) > 1 else left[0])(talk)

    return act


@contextmanager
def talking(*acts: Act | Say) -> Iterator[Server]:
    """A server that says this, in a thread of its own, until the block ends."""
    loop, ready, over = asyncio.new_event_loop(), threading.Event(), asyncio.Event()
    found: list[Server] = []

    async def serve() -> None:
        async with serving(in_turn(*acts)) as server:
            found.append(server)
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        assert ready.wait(SECONDS)
        yield found[0]
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(SECONDS)
        assert not thread.is_alive()
        loop.close()


def crib_with(server: Server, folder: Path, more: str = "") -> Path:
    """Return a configuration whose model is that server; `more` is other sections of it."""
    models = f"models: {{default: 'local:small', local: {{baseUrl: '{server.base_url}'}}}}"
    return crib_file(folder, f"{models}\n{more}\n")
