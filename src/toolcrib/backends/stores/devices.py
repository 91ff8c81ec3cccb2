"""The devices that are paired, and those that wait, in SQLite: kept over restarts, shared by processes."""

import os
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import Any, TypeVar

import apsw
import orjson

from toolcrib.define.device import Device, DeviceBook, PairRequest
from toolcrib.define.errors import ToolError
from toolcrib.threads import in_turn

from .sqlite import SqliteFile

T = TypeVar("T")


class SqliteDevices:
    """A DeviceStore in a file."""

    def __init__(self, file: SqliteFile) -> None:
        self._file, self._numbers = file, count(1)
        self._ahead = f"{os.fspath(file.path)}-wal"
        self._seen: object = None

    async def change(self, step: Callable[[DeviceBook], T], /) -> tuple[T, DeviceBook, int]:
        def run(db: apsw.Connection) -> tuple[T, DeviceBook, int]:
            book = _read(db)
            before = DeviceBook(dict(book.devices), dict(book.requests))
            value = step(book)
            _write(db, before, book)
            return value, book, next(self._numbers)  # one step at a time gets here

        return await in_turn(self._file.transact, run)

    async def reread(self) -> tuple[DeviceBook, int] | None:
        stamp = self._stamp()
        if stamp == self._seen:
            return None
        book, number = await in_turn(self._file.transact, lambda db: (_read(db), next(self._numbers)), writes=False)
        self._seen = stamp  # of before: what was written meanwhile is read the next time
        return book, number

    def _stamp(self) -> object:
        """Return what changes with every commit."""
        try:
            found = os.stat(self._ahead)  # noqa: PTH116  asked for every second
        except FileNotFoundError:
            return ()
        return found.st_mtime_ns, found.st_size, found.st_ino


def _read(db: apsw.Connection) -> DeviceBook:
    rows: list[Any] = db.execute("SELECT id, role, body FROM devices").fetchall()
    devices = [_device(id, role, _body(body)) for id, role, body in rows]
    waiting: list[Any] = db.execute("SELECT id, device, role, asked_at, body FROM device_requests").fetchall()
    requests = [PairRequest(id, _device(device, role, _body(body)), at) for id, device, role, at, body in waiting]
    return DeviceBook({each.key: each for each in devices}, {each.id: each for each in requests})


def _write(db: apsw.Connection, before: DeviceBook, after: DeviceBook) -> None:
    db.executemany("DELETE FROM devices WHERE id = ? AND role = ?", list(before.devices.keys() - after.devices.keys()))
    db.executemany(
        "DELETE FROM device_requests WHERE id = ?", [(id,) for id in before.requests.keys() - after.requests]
    )
    fresh = [each for key, each in after.devices.items() if before.devices.get(key) != each]
    db.executemany("INSERT OR REPLACE INTO devices VALUES (?, ?, ?)", [(*each.key, _to_body(each)) for each in fresh])
    asked = [each for key, each in after.requests.items() if before.requests.get(key) != each]
    rows = [(each.id, *each.device.key, each.asked_at, _to_body(each.device)) for each in asked]
    db.executemany("INSERT OR REPLACE INTO device_requests VALUES (?, ?, ?, ?, ?)", rows)


def _to_body(device: Device) -> str:
    kept = {"tokenHash": device.token_hash, "scopes": sorted(device.scopes), "about": dict(device.about)}
    return orjson.dumps(kept | {"pairedAt": device.paired_at, "tokenAt": device.token_at}).decode()


def _body(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise ToolError("the state file is damaged: the row of a device cannot be read", code="broken")
    return value


def _device(id: str, role: Any, kept: dict[str, Any]) -> Device:
    device = Device(id, kept["tokenHash"], role, frozenset(kept["scopes"]), kept["about"])
    return replace(device, paired_at=kept["pairedAt"], token_at=kept["tokenAt"])
