"""Document 001's six situations over a real channel: what the model is told of there, and what a forbidden call gets.

People write on Telegram, a model behind a socket answers them, and it tries what it must not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.backends.channels.telegram_world import TOKEN, telegram
from tests.backends.exec.shells import until
from tests.doors.talking import Say, call, talking

import toolcrib
from toolcrib import OWNER

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

OWNED, STRANGER, OPS, HELP, FAMILY = 1000, 7, -100, -200, -300
EXEC, SEND = ("exec", '{"command": "echo it ran"}'), ("sessions_send", '{"sessionKey": "main", "message": "hi"}')
BRIEF = '{"task": "look"}'
TOOLS = {"exec": {"allow": [["echo"]]}}
GROUPS = {
    str(OPS): {"tools": {"allow": ["*"], "deny": ["gateway"]}},
    str(HELP): {"tools": {"allow": ["web_fetch", "message"]}},
    "*": {
        "toolsBySender": {
            f"id:{OWNED}": {"allow": ["*"]},
            "*": {"allow": ["*"], "deny": ["group:runtime", "group:automation", "group:fs"]},
        }
    },
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """Who writes where, and which tools the model has then; `tries` is refused by a layer, None where it runs."""

    by: int
    chat: int = 0
    has: frozenset[str]
    lacks: frozenset[str] = frozenset()
    tries: tuple[str, str] = EXEC
    layer: str | None = None
    origin: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    within: bool = False  # a subagent tries it


def names(text: str) -> frozenset[str]:
    return frozenset(text.split())


SITUATIONS = {
    "a stranger mentions it in a group": Situation(
        by=STRANGER, chat=FAMILY, has=names("web_search"), lacks=names("exec gateway read cron"),
        layer="group", origin="channels.telegram.groups.*.toolsBySender.*",
    ),
    "a subagent does not get around the main agent": Situation(
        by=OWNED, has=names("read exec"), lacks=names("sessions_send memory_search cron"), tries=SEND,
        layer="subagent", origin="built-in subagent list", within=True,
    ),
    "in a container there are files and nothing else": Situation(
        by=OWNED, chat=FAMILY, has=names("read exec"), lacks=names("browser cron web_fetch"),
        tries=("cron", '{"action": "list"}'), layer="sandbox", origin="built-in sandbox list",
        config={"sandbox": {"mode": "non-main"}},
    ),
    "a provider gets what it can use": Situation(
        by=OWNED, has=names("read"), lacks=names("browser exec process"),
        layer="global-provider", origin="tools.byProvider.local",
        config={"tools": {**TOOLS, "byProvider": {"local": {"deny": ["browser", "group:runtime"]}}}},
    ),
    "the operations group runs commands": Situation(
        by=STRANGER, chat=OPS, has=names("exec read"), lacks=names("gateway"),
    ),
    "the customers' group does not": Situation(
        by=STRANGER, chat=HELP, has=names("web_fetch"), lacks=names("exec read web_search"),
        layer="group", origin=f"channels.telegram.groups.{HELP}.tools",
    ),
    "the owner has all, in the group where a stranger has little": Situation(
        by=OWNED, chat=FAMILY, has=names("exec read gateway cron web_search"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SITUATIONS)
async def test_each_has_its_belt_and_a_forbidden_call_is_refused_with_its_reason(name: str, tmp_path: Path) -> None:
    here = SITUATIONS[name]
    tried, end = call(*here.tries, id="tried"), Say(text="That is all.")
    acts = [call("generalist", BRIEF), tried, call("complete_task", '{"result": "no"}')] if here.within else [tried]
    with telegram() as server, talking(*acts, end) as model:
        settings = {"botToken": TOKEN, "apiBase": server.address, "owners": [f"id:{OWNED}"], "groups": GROUPS}
        config = {
            "channels": {"telegram": settings},
            "models": {"default": "local:small", "local": {"baseUrl": model.base_url, "contextWindow": 200_000}},
            "workspace": {"root": str(tmp_path)},
            "tools": TOOLS,
            **here.config,
        }
        async with toolcrib.open(config, state=tmp_path / "state", env={}) as crib:
            await crib.channels.open()
            server.say("@crib_bot do it" if here.chat else "do it", by=here.by, chat=here.chat)
            await until(lambda: "That is all." in server.said(here.chat or here.by))
            rows = await crib.ask("audit.tail", {}, caller=OWNER)
    asked = [each.body for each in model.asked]
    declared = {each["function"]["name"] for each in asked[1 if here.within else 0]["tools"]}
    assert here.has <= declared
    assert not here.lacks & declared
    (row,) = [each for each in rows if each["tool"] == here.tries[0]]
    answer = next(each for each in asked[2 if here.within else 1]["messages"] if each.get("tool_call_id") == "tried")
    if here.layer is None:
        assert (row["decision"], row["outcome"]) == ("allow", "ok")
        assert "it ran" in answer["content"]
    else:
        assert (row["decision"], row["layer"], row["ran"]) == ("deny", here.layer, False)
        assert here.origin in row["origin"]
        assert "is not permitted here" in answer["content"]
