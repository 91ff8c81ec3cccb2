"""Who is answered at all: explain and who say it beside what somebody would have, and change no decision."""

import json
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.doors.world import ask, crib_file
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
        ({**GUEST, "group": "-100:topic:5"}, {}),
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


THEIRS = {"botToken": "1:a", "dmPolicy": "allowlist", "groupPolicy": "open"}


@pytest.mark.parametrize(
    ("channel", "who", "why"),
    [
        (THEIRS, ("--group", "-5", "--sender", "id:9"), "groups has neither this one nor *"),
        ({**THEIRS, "groups": {"-1": {}}}, ("--group", "-5", "--sender", "id:9"), "groups has neither this one nor *"),
        ({**THEIRS, "allowFrom": ["@bob"]}, ("--sender", "username:bob"), "allowFrom has nobody like this"),
        ({**THEIRS, "dmPolicy": "open", "enabled": False}, ("--sender", "id:9"), "enabled is false"),
        ({**THEIRS, "groups": {"*": {}}}, ("--group", "-5", "--sender", "id:9"), None),
        ({**THEIRS, "dmPolicy": "open"}, ("--sender", "id:9"), None),
        # said there in other words: it is refused, or does not connect here
        (THEIRS, ("--sender", "id:9"), None),
        ({"groupPolicy": "open"}, ("--group", "-5", "--sender", "id:9"), None),
    ],
)
def test_of_an_openclaw_file_whose_channel_connects_here_it_is_said_too(
    channel: dict[str, Any], who: tuple[str, ...], why: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = crib_file(tmp_path, json.dumps({"channels": {"telegram": channel}}), "openclaw.json")
    told = ask(capsys, "explain", "message", "--channel", "telegram", *who, "--config", path, "--json").json
    assert told.get("answered") is (None if why is None else False)
    assert why is None or why in told["why"]
