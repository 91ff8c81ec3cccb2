"""A crib whose assistant is on a channel; the model without a key answers."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import toolcrib
from tests.backends.exec.shells import until
from toolcrib.app import Crib

__all__ = ["assistant_on"]


@asynccontextmanager
async def assistant_on(
    channel: str, folder: Path, settings: Mapping[str, Any], more: Mapping[str, Any] | None = None
) -> AsyncIterator[Crib]:
    """Open a crib with this channel, and wait until it is connected, or has failed to be."""
    config = {"channels": {channel: settings}, "workspace": {"root": str(folder / "work")}, **(more or {})}
    (folder / "work").mkdir(exist_ok=True)
    async with toolcrib.open(config, state=folder / "state") as crib:
        await crib.channels.open()
        (line,) = crib.channels.lines
        await until(lambda: line.state == "connected" or bool(line.why))
        yield crib
