"""What was accepted of other people's MCP servers: in SQLite, shared by processes."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import apsw
import orjson

from toolcrib.define.errors import ToolError
from toolcrib.define.mcp import Pin
from toolcrib.threads import in_thread

from .sqlite import SqliteFile

_ROWS = "SELECT server, tool, digest, body, pinned_at FROM mcp_pins "


class SqlitePins:
    """A PinStore in a file. `run` calls a plain function where it holds up nobody."""

    def __init__(self, file: SqliteFile, run: Callable[..., Awaitable[Any]] = in_thread) -> None:
        self._file, self._run = file, run

    async def pins(self, server: str, /) -> tuple[Pin, ...]:
        def step(db: apsw.Connection) -> list[Any]:
            return db.execute(_ROWS + "WHERE server = ? ORDER BY tool", (server,)).fetchall()

        return tuple(map(_pin, await self._run(self._file.transact, step, writes=False)))

    async def pin(self, pins: Sequence[Pin], /, *, first: bool = False) -> None:
        def step(db: apsw.Connection) -> None:
            seen = {row[0] for row in db.execute("SELECT DISTINCT server FROM mcp_pins")} if first else set[str]()
            rows = [_row(pin) for pin in pins if pin.server not in seen]
            db.executemany("INSERT OR REPLACE INTO mcp_pins VALUES (?, ?, ?, ?, ?)", rows)

        await self._run(self._file.transact, step)

    def list_all(self) -> tuple[Pin, ...]:
        rows = self._file.transact(lambda db: db.execute(_ROWS + "ORDER BY server, tool").fetchall(), writes=False)
        return tuple(map(_pin, rows))


def _row(pin: Pin) -> tuple[str, str, str, str, float]:
    return pin.server, pin.tool, pin.digest, orjson.dumps(pin.definition).decode(), pin.pinned_at


def _pin(row: tuple[Any, ...]) -> Pin:
    server, tool, digest, body, pinned_at = row
    try:
        definition = orjson.loads(body)
    except (orjson.JSONDecodeError, TypeError):
        definition = None
    if not isinstance(definition, dict):
        raise ToolError(f"the state file is damaged: the pin of {tool!r} of {server!r} holds no definition")
    return Pin(server, tool, digest, definition, pinned_at)
