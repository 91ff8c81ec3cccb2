"""What ordinary people ask for is done: a family with roles, a web backend, a device, a team with groups."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.doors.gateway.world import client_of, device, gateway_of
from toolcrib import OWNER, Caller, Sender

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

HOME: dict[str, Any] = {
    "people": {
        "olena": {"is": ["telegram:id:1000", "email:id:olena@home.test"]},
        "petro": {"is": ["telegram:id:1001", "slack:id:UPETRO"]},
        "ivan": {"is": ["telegram:id:1002", "matrix:id:@ivan:home.test"]},
    },
    "owners": ["telegram:id:1000", "telegram:id:1001"],
    "roles": {"kids": ["telegram:id:1002", "telegram:id:1003"], "devs": ["slack:id:UBOB"], "staff": ["app:id:ann"]},
    "tools": {"profile": "full", "askAfterOutside": ["effect:send", "effect:execute"]},
    "channels": {
        "telegram": {
            "allowFrom": ["role:kids"],
            "direct": {"toolsBySender": {"role:kids": {"allow": ["message", "image", "read", "grep", "find"]}}},
            "groups": {"-100": {"tools": {"profile": "messaging", "alsoAllow": ["image", "web_search"]}}},
        },
        "whatsapp": {"direct": {"tools": {"allow": ["message", "image"]}}},
        "matrix": {"groups": {"!fam:home.test": {"tools": {"allow": ["web_search"]}}}},
        "discord": {"groups": {"77/*": {"tools": {"allow": ["web_search"]}}, "77/5": {"tools": {"allow": ["read"]}}}},
        "slack": {
            "groups": {
                "CDEV": {"toolsBySender": {"role:devs": {"profile": "coding"}, "*": {"allow": ["read", "grep"]}}},
                "CHELP": {"tools": {"allow": ["web_fetch", "message"]}},
                "*": {"tools": {"profile": "messaging"}},
            }
        },
        "irc": {"groups": {"#shop": {"toolsBySender": {"id:ann": {"allow": ["read"]}, "*": {"allow": ["tts"]}}}}},
        "xmpp": {"groups": {"shop@rooms.test": {"tools": {"allow": ["read"]}}}},
        "hook": {"direct": {"toolsBySender": {"id:hook:ci": {"allow": ["read", "message"]}}}},
        "device": {"direct": {"tools": {"allow": ["read", "sessions_history"]}}},
        "app": {"direct": {"toolsBySender": {"role:staff": {"allow": ["group:fs"]}, "*": {"allow": ["tts"]}}}},
    },
}


def at(channel: str, id: str, group: str | None = None, **more: Any) -> Caller:
    return Caller(channel=channel, sender=Sender(id=id), group=group, **more)


USES = [
    (at("telegram", "1000"), "exec gateway cron browser memory_search"),
    (at("telegram", "1001"), "exec gateway cron"),  # a second owner
    (at("telegram", "1001", "-100"), "message image web_search"),
    (at("email", "Olena@home.test"), "exec gateway"),
    (at("slack", "UPETRO"), "exec gateway"),
    (at("telegram", "1002"), "message image read"),
    (at("telegram", "1003", session="agent:main:telegram:dm:1003"), "message image read"),
    (at("telegram", "9", "-100"), "message image web_search session_status"),
    (at("telegram", "9", "-100:topic:5"), "message image web_search"),
    (at("telegram", "9", "-100", session="agent:main:telegram:group:-100:thread:5"), "message image web_search"),
    (Caller(channel="whatsapp", sender=Sender(id="49151", e164="+49151", name="Oma")), "message image"),
    (at("matrix", "@ivan:home.test", "!fam:home.test"), "web_search"),
    (at("matrix", "@x:y", "!fam:home.test", session="agent:main:matrix:group:!fam:thread:=24a"), "web_search"),
    (at("discord", "7", "77/5"), "read"),
    (at("discord", "7", "77/6"), "web_search"),
    (at("slack", "UBOB", "CDEV"), "read write exec grep"),
    (at("slack", "UEVE", "CDEV"), "read grep"),
    (at("slack", "UEVE", "CHELP"), "web_fetch message"),
    (at("slack", "UEVE", "CNEW"), "message session_status"),
    (at("irc", "Ann", "#Shop"), "read"),
    (at("irc", "~bob!b@h", "#shop"), "tts"),
    (at("xmpp", "~shop@rooms.test/bob", "shop@rooms.test"), "read"),
    (at("hook", "hook:ci"), "read message"),
    (at("device", "phone"), "read"),
    (at("app", "ann"), "read write edit ls find grep"),
    (at("app", "eve"), "tts"),
    (at("telegram", "77"), "message session_status"),  # a stranger whom no rule knows
]


@cache
def home() -> toolcrib.Crib:
    return toolcrib.open(HOME, env={})


@pytest.mark.parametrize(("caller", "tool"), [(who, tool) for who, tools in USES for tool in tools.split()])
def test_everybody_has_what_the_configuration_says(caller: Caller, tool: str) -> None:
    verdict = home().belt(caller).verdicts[tool]
    assert verdict.decision == "allow", verdict.reason


CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("read", {"path": "plan.md"}, "the plan"),
    ("read", {"path": "./docs/../plan.md"}, "the plan"),
    ("grep", {"pattern": "plan"}, "plan.md:1: the plan"),
    ("find", {"pattern": "*.md"}, "plan.md"),
]


@pytest.mark.parametrize("caller", [OWNER, at("telegram", "1002"), at("app", "ann")], ids=["owner", "kid", "staff"])
@pytest.mark.parametrize(("tool", "args", "answer"), CALLS)
async def test_a_file_is_found_and_nothing_is_said_to_be_left_out(
    caller: Caller, tool: str, args: dict[str, Any], answer: str, tmp_path: Path
) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "plan.md").write_text("the plan")
    async with toolcrib.open({**HOME, "workspace": {"root": str(tmp_path)}}, env={}) as crib:
        assert (await crib.belt(caller).call(tool, args)).plain_text.strip() == answer


RULES: dict[str, Any] = {
    "tools": {
        "deny": [
            {"tool": "*", "when": {"path": "secret/**"}},
            {"tool": "*", "when": {"url": "*.evil.test"}},
            {"tool": "*", "when": {"to": "ann"}},
            {"tool": "exec", "when": {"command": {"matches": "^rm "}}},
        ]
    },
    "channels": {"app": {"direct": {"tools": {"allow": ["group:fs", "exec", "web_fetch", "image"]}}}},
}
PERMITTED: list[tuple[str, dict[str, Any]]] = [
    ("read", {"path": "plan.md"}),
    ("read", {"path": "docs/secrets.md"}),
    ("write", {"path": "docs/new.md", "content": "about secret/ things and a.evil.test"}),
    ("edit", {"path": "plan.md", "oldText": "the", "newText": "our"}),
    ("ls", {}),
    ("ls", {"path": "docs"}),
    ("grep", {"pattern": "secret"}),
    ("grep", {"pattern": "plan", "path": "docs"}),
    ("find", {"pattern": "*.md", "path": "docs"}),
    ("exec", {"command": "cat plan.md"}),
    ("exec", {"command": "ls docs"}),
    ("exec", {"command": "grep -rn plan docs"}),
    ("exec", {"command": "wc -l plan.md | sort"}),
]


@pytest.mark.parametrize("caller", [OWNER, at("app", "ann")], ids=["owner", "guest"])
@pytest.mark.parametrize(("tool", "args"), PERMITTED)
async def test_rules_about_some_places_leave_all_others_alone(
    caller: Caller, tool: str, args: dict[str, Any], tmp_path: Path
) -> None:
    for name in ("docs", "secret"):
        (tmp_path / name).mkdir()
    for name in ("plan.md", "docs/secrets.md", "docs/plan.md", "secret/key"):
        (tmp_path / name).write_text("the plan")
    async with toolcrib.open({**RULES, "workspace": {"root": str(tmp_path)}}, env={}) as crib:
        result = await crib.belt(caller).call(tool, args)
    assert result.status == "ok", result.plain_text
    assert "secret/key" not in result.plain_text


PHONE, OWN = "dt-1111-dt-1111-dt", "agent:main:device:dm:phone"


@pytest.mark.parametrize("key", ["", OWN])
async def test_a_device_reads_what_was_said_in_its_own_session(key: str, tmp_path: Path) -> None:
    scopes = ("operator.read", "operator.write")
    config = {**HOME, "workspace": {"root": str(tmp_path)}}
    async with (
        gateway_of(config, devices=[device("phone", PHONE, *scopes)]) as world,
        client_of(world, PHONE) as phone,
    ):
        where = {"sessionKey": key} if key else {}
        await phone.get("chat.send", {"message": "list .", "idempotencyKey": "1", **where})
        assert (await phone.get("agent.wait", {"runId": "1", "timeoutMs": 60_000}))["status"] == "ok"
        said = (await phone.get("chat.history", where))["messages"]
        assert said[0]["role"] == "user"
        read = await phone.get("tools.call", {"tool": "sessions_history", "args": {"sessionKey": OWN}})
        assert "list ." in read["content"][0]["text"]
