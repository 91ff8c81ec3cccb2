"""Every store of pins keeps what was accepted, and of two first connections the first."""

from pathlib import Path

import pytest
from tests.memory_stores import MemoryPins

from toolcrib.backends.stores.approvals import SqlitePins
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.errors import ToolError
from toolcrib.define.mcp import Pin, PinStore, definition_digest

pytestmark = pytest.mark.anyio

ECHO = {"name": "echo", "description": "Say it again.", "inputSchema": {"type": "object"}}


def pin(tool: str, server: str = "srv", **more: object) -> Pin:
    definition = {**ECHO, "name": tool, **more}
    return Pin(server, tool, definition_digest(definition), definition, 1.5)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> PinStore:
    return MemoryPins() if request.param == "memory" else SqlitePins(SqliteFile(tmp_path / "crib.db"))


async def test_what_was_pinned_is_there_by_server_and_all_at_once(store: PinStore) -> None:
    assert (await store.pins("srv"), store.list_all()) == ((), ())
    await store.pin([pin(""), pin("echo"), pin("echo", "other")])
    assert await store.pins("srv") == (pin(""), pin("echo"))
    assert store.list_all() == (pin("echo", "other"), pin(""), pin("echo"))


async def test_a_later_pin_takes_the_place_of_an_earlier_one(store: PinStore) -> None:
    await store.pin([pin("a"), pin("b")])
    await store.pin([pin("a", description="Another.")])
    assert await store.pins("srv") == (pin("a", description="Another."), pin("b"))


async def test_of_two_first_connections_the_first_counts(store: PinStore) -> None:
    await store.pin([pin(""), pin("a")], first=True)
    await store.pin([pin(""), pin("a", description="Another."), pin("b")], first=True)
    await store.pin([pin("a", "other")], first=True)
    assert await store.pins("srv") == (pin(""), pin("a"))
    assert await store.pins("other") == (pin("a", "other"),)


async def test_pins_outlive_the_process(tmp_path: Path) -> None:
    await SqlitePins(SqliteFile(tmp_path / "crib.db")).pin([pin("echo")])
    assert SqlitePins(SqliteFile(tmp_path / "crib.db")).list_all() == (pin("echo"),)


async def test_to_look_makes_no_file(tmp_path: Path) -> None:
    assert SqlitePins(SqliteFile(tmp_path / "crib.db")).list_all() == ()
    assert not (tmp_path / "crib.db").exists()


@pytest.mark.parametrize("body", ["{", "[]", ""])
async def test_a_damaged_pin_is_told(tmp_path: Path, body: str) -> None:
    file = SqliteFile(tmp_path / "crib.db")
    await SqlitePins(file).pin([pin("echo")])
    file.transact(lambda db: db.execute("UPDATE mcp_pins SET body = ?", (body,)).fetchall())
    with pytest.raises(ToolError, match="the pin of 'echo' of 'srv' holds no definition"):
        SqlitePins(file).list_all()


async def test_a_broken_store_is_told(tmp_path: Path) -> None:
    (tmp_path / "crib.db").write_bytes(b"not a store" * 100)
    with pytest.raises(ToolError, match="broken"):
        SqlitePins(SqliteFile(tmp_path / "crib.db")).list_all()


@pytest.mark.parametrize(
    "change",
    [
        {"description": "Say it again. "},
        {"title": "Echo"},
        {"inputSchema": {"type": "object", "properties": {}}},
        {"annotations": {"readOnlyHint": True}},
        {"outputSchema": {"type": "object"}},
    ],
)
def test_whatever_says_what_a_tool_is_is_pinned(change: dict[str, object]) -> None:
    assert definition_digest({**ECHO, **change}) != definition_digest(ECHO)
    assert definition_digest({**ECHO, "_meta": {"seen": 7}}) == definition_digest(dict(reversed(ECHO.items())))
