"""True words: what a configuration says and nothing does is told."""

from typing import Any

import pytest

import toolcrib

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("name", "own", "is_told"),
    [
        ("signal", {"host": "127.0.0.1"}, True),
        ("telegramm", {"botToken": "1:a"}, True),
        ("signal", {"host": "127.0.0.1", "enabled": False}, False),
        ("telegramm", {"groups": {"*": {"tools": {"deny": ["exec"]}}}}, True),  # rules that hold for nobody
        ("Telegram", {"groups": {"*": {}}}, False),
        ("web", {"direct": {"toolsBySender": {}}}, False),
        ("hook", {"direct": {"toolsBySender": {}}}, False),
        ("app", {"direct": {"toolsBySender": {}}}, False),  # of a program's own users
        ("irc", {"host": "127.0.0.1", "nick": "crib"}, False),
    ],
)
async def test_a_channel_that_nothing_brings_is_told(name: str, own: dict[str, Any], is_told: bool) -> None:
    async with toolcrib.open({"channels": {name: own}}) as crib:
        told = [
            each.message
            for each in crib.lint()
            if each.origin == f"channels.{name}" and "nothing brings" in each.message
        ]
    assert bool(told) is is_told
