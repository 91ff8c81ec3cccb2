"""Messages that nobody asked for, however they are wrapped, cost the connection they came through and nobody else."""

from collections.abc import Mapping
from typing import Any

import pytest

from toolcrib.backends.mcp.peer import ServerPeer, decode

pytestmark = pytest.mark.anyio


async def nowhere(message: Mapping[str, Any]) -> None:
    """Nobody reads it."""


@pytest.mark.parametrize("message", [b"[" * 1000 + b"]" * 1000, b"[[[]], {}, 1]", b"[]"])
async def test_batches_within_batches_are_no_messages(message: bytes) -> None:
    peer = ServerPeer("srv", nowhere, changed=lambda: None)
    peer.receive(decode(message))
    assert not peer.lost.done()


async def test_who_fails_to_watch_a_call_does_not_cost_it_its_answer(caplog: pytest.LogCaptureFixture) -> None:
    async def answered(message: Mapping[str, Any]) -> None:
        peer.receive(
            [
                {"method": "notifications/progress", "params": {"progressToken": message["id"], "progress": 1}},
                {"id": message["id"], "result": "done"},
            ]
        )

    def watched(done: float, total: float | None, words: str) -> None:
        raise ValueError("the screen is gone")

    peer = ServerPeer("srv", answered, changed=lambda: None)
    assert await peer.request("tools/call", {}, 5, watched) == "done"
    assert "who watches a call of the MCP server srv failed" in caplog.text


async def test_no_half_of_a_secret_is_left_where_words_are_cut() -> None:
    peer = ServerPeer("srv", nowhere, changed=lambda: None, redact=lambda text: text.replace("hunter2-hunter2", "…"))
    for at in range(380, 401):
        assert "hun" not in peer.words("x" * at + "hunter2-hunter2"), at


async def test_a_flood_of_empty_batches_is_cut_off() -> None:
    peer = ServerPeer("srv", nowhere, changed=lambda: None)
    for _ in range(5_001):
        peer.receive([])
    assert "that nobody asked for" in await peer.lost
