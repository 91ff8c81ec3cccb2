"""Who is answered at all: explain and who say it beside what somebody would have, and change no decision."""

from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER

pytestmark = pytest.mark.anyio

CHANNEL: dict[str, Any] = {"botToken": "1:a", "groups": {"-100": {"tools": {"allow": ["web_search"]}}}}
GUEST = {"channel": "telegram", "sender": "id:9"}


async def explain(who: dict[str, Any], **channel: Any) -> dict[str, Any]:
    config = {"owners": ["telegram:id:1"], "channels": {"telegram": {**CHANNEL, **channel}}}
    async with toolcrib.open(config, env={}) as crib:
        told: dict[str, Any] = await crib.ask("policy.explain", {"who": who, "tool": "web_search"}, caller=OWNER)
        return told


@pytest.mark.parametrize(
    ("who", "channel", "why"),
    [
        ({**GUEST, "group": "-999"}, {}, "groups has neither this one nor *"),
        ({**GUEST, "group": "-999", "sender": "id:1"}, {}, "groups has neither"),
        (GUEST, {"dmPolicy": "disabled"}, "dmPolicy is disabled"),
        (GUEST, {"dmPolicy": "allowlist", "allowFrom": ["id:5"]}, "dmPolicy is allowlist"),
        (GUEST, {"dmPolicy": "allowlist", "allowFrom": ["username:ann"]}, "dmPolicy is allowlist"),
        ({**GUEST, "group": "-100"}, {"enabled": False}, "enabled is false"),
    ],
)
async def test_who_is_never_let_in_is_said_to_be_never_answered(
    who: dict[str, Any], channel: dict[str, Any], why: str
) -> None:
    told = await explain(who, **channel)
    assert told["answered"] is False
    assert why in told["why"]
    assert "channels.telegram" in told["why"]
    assert "dmPolicy" not in told["tools"][0]["reason"]


@pytest.mark.parametrize(
    ("who", "channel"),
    [
        ({**GUEST, "group": "-100"}, {}),
        ({**GUEST, "group": "-999"}, {"groups": {"*": {}}}),
        (GUEST, {}),  # a code may let them in
        (GUEST, {"dmPolicy": "open"}),
        (GUEST, {"dmPolicy": "allowlist", "allowFrom": ["id:9"]}),
        ({"channel": "telegram", "sender": "id:1"}, {"dmPolicy": "disabled"}),
        ({**GUEST, "channel": "app", "group": "x"}, {}),  # a program's own channel: it says who comes in
        ({}, {}),
    ],
)
async def test_of_who_may_be_answered_nothing_is_said(who: dict[str, Any], channel: dict[str, Any]) -> None:
    assert "answered" not in await explain(who, **channel)
