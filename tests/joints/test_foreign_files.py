"""An OpenClaw file: what narrows there is followed or refused by name, and nobody is told that nothing is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.doors.world import ask
from toolcrib import Caller, Sender
from toolcrib.config.foreign import refuse_unfollowed
from toolcrib.config.load import load
from toolcrib.define.channel import HeardMessage
from toolcrib.define.errors import ConfigError
from toolcrib.policy.trial import Claim

Json = dict[str, Any]


def nested(path: str, value: Any) -> Json:
    for key in reversed(path.split("/")):
        value = {key: value}
    return dict(value)


NARROWS: list[tuple[str, Any]] = [
    ("channels/telegram/groups/-2/enabled", False),
    ("channels/discord/guilds/1/users", ["7"]),
    ("channels/discord/dm/enabled", False),
    ("channels/discord/dm/groupChannels", ["g"]),
    ("channels/discord/guilds/1/channels/ops/users", ["7"]),
    ("channels/discord/guilds/1/channels/ops/roles", ["r"]),
    ("channels/discord/guilds/1/channels/general/allow", False),
    ("channels/telegram/groups/-1/topics", {"5": {"agentId": "dev"}}),
    ("channels/telegram/accounts/work/enabled", False),
    ("channels/defaults", {"groupPolicy": "disabled"}),
    ("agents/defaults/tools", {"deny": ["exec"]}),
    ("agents/defaults/skills", ["one"]),
    ("tools/sessions/visibility", "self"),
    ("agents/entries/dev/tools/toolsBySender", {"id:7": {"deny": ["exec"]}}),
    ("tools/media/audio/enabled", False),
    ("commands/allowFrom", {"*": ["7"]}),
    ("skills/entries/one/enabled", False),
    ("channels/telegram/groups/-1/allowFrom", ["7"]),
    ("channels/telegram/groups/-1/groupPolicy", "disabled"),
    ("channels/telegram/accounts/work/groups/-1/allowFrom", ["7"]),
    ("channels/telegram/direct/7/dmPolicy", "disabled"),
    ("channels/telegram/groups/-1/skills", ["one"]),
    ("session/sendPolicy", {"default": "deny"}),
    ("browser/evaluateEnabled", False),
    ("browser/ssrfPolicy/hostnameAllowlist", ["example.org"]),
    ("gateway/http/endpoints/chatCompletions/enabled", False),
    ("mcp/servers/files", {"command": "npx", "disabled": True}),
]
BENIGN: list[tuple[str, Any]] = [
    ("channels/telegram/groups/-2/enabled", True),
    ("channels/discord/guilds/1/users", []),
    ("channels/telegram/ackReaction", "👀"),
    ("channels/telegram/streaming", False),
    ("browser/enabled", True),
    ("tools/sessions/visibility", "all"),
    ("meta", {"lastTouchedVersion": "2026.8.1"}),
    ("messages/tts/enabled", False),
    ("wizard", {"lastRunAt": "2026-08-01"}),
    ("agents/defaults/timeoutSeconds", 60),
    ("gateway/auth", {"mode": "token"}),
    ("channels/telegram/allowFrom", ["7"]),
    ("channels/telegram/accounts/work/dmPolicy", "disabled"),
    ("channels/telegram/groups/-1/allowFrom", ["*"]),
    ("channels/telegram/groups/-1/groupPolicy", "open"),
    ("browser/evaluateEnabled", True),
    ("gateway/controlUi/enabled", True),
    ("cron/maxConcurrentRuns", 2),
    ("bindings", [{"agentId": "main", "match": {"channel": "telegram"}}]),
]


@pytest.mark.parametrize(("path", "value"), NARROWS)
def test_what_takes_something_away_and_is_not_followed_is_an_error_until_it_is_named(path: str, value: Any) -> None:
    config, key = nested(path, value), path.replace("/", ".")
    with pytest.raises(ConfigError, match=r"takes something away in OpenClaw and is not followed here; .*--ignore"):
        load(config, {}, openclaw=True)
    for accepted in (key, key.rpartition(".")[0]):
        assert load(config, {}, openclaw=True, ignore=[accepted]).ignored
    with pytest.raises(ConfigError):
        load(config, {}, openclaw=True, ignore=[key[:-1]])


@pytest.mark.parametrize(("path", "value"), BENIGN)
def test_what_takes_nothing_away_is_accepted(path: str, value: Any) -> None:
    load(nested(path, value), {}, openclaw=True)


def test_the_command_line_refuses_such_a_file_and_lint_tells_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "openclaw.json"
    file.write_text(json.dumps({"meta": {}, "ui": {}, **nested("channels/discord/guilds/1/users", ["7"])}, indent=1))
    given = ("--config", str(file))
    for command in (("explain", "exec"), ("who", "exec"), ("tools", "list"), ("policy", "prove", "--never", "exec")):
        told = ask(capsys, *command, *given)
        assert (told.code, "--ignore channels.discord.guilds.1.users" in told.err) == (
            2,
            True,
        )
    assert ask(capsys, "explain", "exec", *given, "--ignore", "channels.discord.guilds.1.users").code in (0, 1)
    told = ask(capsys, "lint", *given, "--json")
    ignored = [each for each in told.json["findings"] if each["kind"] == "ignored"]
    assert [(each["level"], each["origin"]) for each in ignored] == [
        ("warning", "channels.discord.guilds.1.users"),
        ("note", "2 keys"),
    ]


def test_a_gateway_with_a_channel_does_not_start_on_rules_that_only_explain_follows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "openclaw.json"
    telegram = {"botToken": "7:x", "groupPolicy": "allowlist", "groupAllowFrom": ["7"]}
    bound = [{"agentId": "dev", "match": {"channel": "telegram"}}]
    file.write_text(json.dumps({"channels": {"telegram": telegram}, "bindings": bound}))
    told = ask(capsys, "gateway", "--config", str(file), "--port", "0")
    assert (told.code, "--ignore bindings" in told.err) == (2, True)
    assert ask(capsys, "explain", "read", "--config", str(file)).code == 0


def test_agents_by_key_and_servers_are_read() -> None:
    config = {
        "agents": {"entries": {"Dev Bot": {"tools": {"deny": ["exec"]}, "model": {"primary": "openai/gpt-5"}}}},
        "mcp": {"servers": {"files": {"command": "npx", "args": ["x"]}, "off": {"command": "y", "enabled": False}}},
    }
    loaded = load(config, {}, openclaw=True)
    assert (list(loaded.config.mcp_servers), loaded.ignored) == (["files"], ())
    assert loaded.config.agent("dev-bot").model == "openai/gpt-5"  # type: ignore[union-attr]
    verdict = toolcrib.open(loaded, env={}).belt(Caller(agent="dev-bot", owner=True)).verdicts["exec"]
    assert (verdict.decision, verdict.origin) == ("deny", "agents.entries.Dev Bot.tools")


def test_where_our_default_is_stricter_than_theirs_the_answer_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "openclaw.json"
    file.write_text(json.dumps({"channels": {"telegram": {"dmPolicy": "open", "allowFrom": ["*"]}}}))
    asked = ("explain", "exec", "--config", str(file), "--channel", "telegram", "--sender", "id:666")
    assert "OpenClaw has no such default" in ask(capsys, *asked).out
    assert "OpenClaw" not in ask(capsys, "explain", "exec", "--config", str(file)).out


SESSIONS = "sessions_list"


@pytest.mark.parametrize("foreign", [True, False])
def test_rules_by_sender_hold_wherever_somebody_writes(foreign: bool) -> None:
    key = "channel:telegram:7" if foreign else "telegram:id:7"
    rules = {key: {"deny": ["message"]}, "username:bob": {"deny": ["message"]}, "*": {"deny": [SESSIONS]}}
    config = {"tools": {"toolsBySender": rules}, "channels": {"telegram": {"groups": {"-1": {}}}, "discord": {}}}
    crib = toolcrib.open(load(config, {}, openclaw=foreign), env={}, import_plugins=False)

    def told(**who: Any) -> tuple[str, str]:
        verdicts = crib.belt(Caller(**who)).verdicts
        return verdicts["message"].decision, verdicts[SESSIONS].decision

    seven, bob = Sender(id="7"), Sender(id="8", username="Bob")
    for group in (None, "-1"):
        assert told(channel="telegram", group=group, sender=seven) == ("deny", "allow")
        assert told(channel="discord", group=group, sender=seven) == ("allow", "deny")
        assert told(channel="telegram", group=group, sender=bob) == ("deny", "allow")
    assert told() == told(sender=seven) == ("allow", "deny")
    assert told(owner=True) == ("allow", "allow")  # at hand, and no sender
    assert told(channel="telegram", sender=Sender(id="7"), agent="other", owner=True) == ("deny", "allow")
    verdict = crib.belt(Caller(channel="discord", sender=seven)).verdicts[SESSIONS]
    assert (verdict.layer, verdict.origin) == ("global", "tools.toolsBySender.*")
    (held, found) = (crib.view().prove(Claim(entry=SESSIONS, excepting=each)) for each in (EXCEPT, EXCEPT[:1]))
    assert (held.counterexample is None, found.counterexample is None) == (True, False)


EXCEPT = ("owner", "telegram:id:7", "username:bob")


ANN, BOB = Sender(id="7"), Sender(id="8", username="bob")
LISTED = {"groupPolicy": "allowlist", "groupAllowFrom": ["tg:7"], "groups": {"*": {"requireMention": False}}}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("telegram", "group", "ann", "bob"),
    [
        (LISTED, "-1", True, False),
        ({**LISTED, "groupAllowFrom": [], "allowFrom": ["@bob"]}, "-1", False, True),
        ({**LISTED, "groupPolicy": "disabled"}, "-1", False, False),
        ({**LISTED, "groupPolicy": "open"}, "-1", True, True),
        ({**LISTED, "accounts": {"default": {"groupPolicy": "disabled"}}}, "-1", False, False),
        ({**LISTED, "dmPolicy": "open", "allowFrom": ["*"]}, "", True, True),
        ({"dmPolicy": "allowlist", "allowFrom": ["7"]}, "", True, False),
        ({"dmPolicy": "open", "allowFrom": ["*"], "dm": {"policy": "disabled"}}, "", True, True),
    ],
)
async def test_a_channel_lets_in_whom_an_openclaw_file_lets_in_and_explain_says_the_same(
    telegram: Json, group: str, ann: bool, bob: bool
) -> None:
    loaded = load({"channels": {"telegram": {"botToken": "7:x", **telegram}}}, {}, openclaw=True)
    refuse_unfollowed(loaded.document, loaded.translated.ignored, (), serves=True)
    async with toolcrib.open(loaded, env={}, import_plugins=False) as crib:
        for who, is_in in ((ANN, ann), (BOB, bob)):
            message = HeardMessage(id="1", chat="c", sender=who, kind="group" if group else "dm", group=group, text="x")
            caller = (await crib.channels.admission.judge("telegram", message)).caller
            asked = Caller(channel="telegram", group=group or None, sender=who)
            route = crib.view().route(asked)
            assert (caller is not None, route.refusal is None) == (is_in, is_in)
            own = loaded.document.value["channels"]["telegram"].get("accounts", {}).get("default", {})
            where = "channels.telegram.accounts.default." if own else "channels.telegram."
            assert route.refusal is None or route.refusal[1].startswith(where)
            assert bool(await crib.channels.admission.explain_refusal(asked, "")) is not is_in
