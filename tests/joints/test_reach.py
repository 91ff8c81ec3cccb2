"""What a call reaches: a rule by path, url, to or command holds for every tool, whatever its argument is called."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.mcp.world import liar
from tests.joints.asking_world import Box
from toolcrib import OWNER, Args, Caller, Crib, Ctx, Plugin, Result, Sender, ToolError, tool
from toolcrib.channels import Abilities, ChannelKind

pytestmark = pytest.mark.anyio

Json = Mapping[str, Any]
ACTIONS = ("send", "broadcast", "read", "addParticipant", "kick", "search", "react")
ANN = Caller(channel="box", sender=Sender(id="7", e164="+491"), owner=True)
TEAM = Caller(channel="box", group="-100", sender=Sender(id="7"), owner=True)


@tool(effects={"read"}, parameters={"type": "object", "properties": {}, "additionalProperties": True})
async def mirror(ctx: Ctx, args: Args) -> Result:
    """Say nothing of what a call reaches."""
    return Result.text("ok")


@tool(effects={"write"}, paths=("src", "dst"), urls=("feed",), recipients=("whom",), commands=("line",))
async def courier(ctx: Ctx, src: str = "a", dst: str = "b", feed: str = "", whom: str = "", line: str = "") -> Result:
    """Say all of it, by other names."""
    return Result.text("ok")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("secret/key.txt", "docs/plan.md", "secrets.md"):
        (tmp_path / "ws" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ws" / name).write_text("words")
    (tmp_path / "ws" / "short").symlink_to("secret")
    return tmp_path / "ws"


def opened(root: Path, more: Json | None = None, **tools: Any) -> Crib:
    config = {"workspace": {"root": str(root)}, "tools": tools, "channels": {"box": {"options": {"at": "here"}}}}
    kind = ChannelKind(Abilities(actions=ACTIONS, media=True), lambda settings, way_out: Box())
    plugins = [Plugin(name="shop", tools=(mirror,), channels={"box": kind})]
    return toolcrib.open({**config, **(more or {})}, tools=[courier], plugins=plugins, env={}, state=root.parent / "s")


async def decide(crib: Crib, name: str, args: Json, caller: Caller = OWNER) -> str:
    """Return the strictest word about a call, by what it reaches."""
    found = (await crib.belt(caller).judge_call(name, args, crib.way_out)).found
    return next((each.decision for each in found if each.decision != "allow"), "allow")


SECRETS: list[tuple[str, Json]] = [
    ("read", {"path": "secret/key.txt"}), ("browser", {"action": "upload", "paths": ["docs/plan.md", "short/key.txt"]}),
    ("exec", {"command": "ls", "workdir": "secret"}), ("exec", {"command": "cat secret/key.txt"}),
    ("exec", {"command": "cd docs; cat '../secret/key.txt' >x"}), ("exec", {"command": "tac --file=./Secret//key.txt"}),
    ("exec", {"command": "cat ../secret/key.txt", "workdir": "docs"}), ("exec", {"command": "cat short/key.txt"}),
    ("process", {"action": "submit", "sessionId": "a", "data": "cat secret/key.txt"}),
    ("nodes", {"action": "camera_clip", "node": "n", "outPath": "secret/x.mp4"}),
    ("message", {"action": "send", "target": "9", "filePath": "secret/key.txt"}),
    ("image", {"image": "short/x.png"}), ("canvas", {"action": "present", "target": "secret/x.html"}),
    ("canvas", {"action": "a2ui_push", "jsonlPath": "secret/x.jsonl"}), ("memory_get", {"path": "secret/key.txt"}),
    ("courier", {"dst": "secret/key.txt"}), ("courier", {"line": "cat secret/key.txt"}),
    ("mirror", {"path": "secret/key.txt"}), ("mirror", {"x": {"files": [{"name": "SECRET\\key.txt"}]}}),
    ("mirror", {"x": {"secret/key.txt": 1}}), ("mirror", {"to": "short/key.txt"}), ("mirror", {"x": "~/ws/secret/a"}),
    ("exec", {"command": "cat $'\\x73ecret/key.txt'"}), ("exec", {"command": "cat sec$'\\162'et/key.txt"}),
    ("mirror", {"x": ["--file=secret/key.txt"]}), ("mirror", {"x": "@secret/key.txt"}),
    ("mirror", {"x": "docs/plan.md,secret/key.txt"}), ("mirror", {"x": "file:///secret%2Fkey.txt"}),
    ("mirror", {"x": "../ws/secret/key.txt"}),
]  # fmt: skip
PLAIN: list[tuple[str, Json]] = [
    ("read", {"path": "docs/plan.md"}), ("exec", {"command": "ls -la docs"}), ("exec", {"command": "cat secrets.md"}),
    ("exec", {"command": "ls ..", "workdir": "docs"}), ("mirror", {"x": "keep it secret/safe"}),
    ("mirror", {"x": ["https://good.example/a?b=secret/c", "name=secrets/1", "a@secrets.example"]}),
    ("mirror", {"x": ["no", "secrets", "/help", "2/3", ".."], "text": "a\nsecret/b"}), ("courier", {}),
    ("message", {"action": "send", "target": "9", "message": "the secret/key is under the mat"}),
    ("browser", {"action": "upload", "paths": ["docs/plan.md"]}), ("canvas", {"action": "present", "html": "secret"}),
]  # fmt: skip


@pytest.mark.parametrize("kind", ["deny", "ask"])
async def test_a_rule_by_path_holds_for_whatever_a_tool_calls_it(root: Path, kind: str) -> None:
    rules: dict[str, Any] = {kind: [{"tool": "*", "when": {"path": "secret/**"}}]}
    async with opened(root, **rules) as crib:
        for name, args in SECRETS:
            assert await decide(crib, name, args) == kind, (name, args)
        assert await decide(crib, "mirror", {"x": str(root / "secret/key.txt")}) == kind
        for name, args in PLAIN:
            assert await decide(crib, name, args) == "allow", (name, args)


async def test_a_rule_by_url_holds_for_whatever_a_tool_calls_it(root: Path) -> None:
    bad, good = "https://x.evil.example/a", "https://good.example/evil"
    calls: list[tuple[str, Json, Json]] = [
        ("web_fetch", {"url": bad}, {"url": good}),
        ("browser", {"action": "open", "targetUrl": bad}, {"action": "open", "targetUrl": good}),
        ("browser", {"action": "navigate", "targetUrl": bad}, {"action": "navigate", "targetUrl": good}),
        ("canvas", {"action": "navigate", "url": bad}, {"action": "navigate", "url": good}),
        ("canvas", {"action": "present", "target": bad}, {"action": "present", "target": good}),
        ("image", {"image": "a.png", "images": [bad]}, {"image": "a.png", "images": [good]}),
        ("exec", {"command": f"curl -sS '{bad}'"}, {"command": f"curl {good}"}),
        ("exec", {"command": "ssh me@x.evil.example"}, {"command": "cat evil.example.txt"}),
        ("exec", {"command": "git clone git@x.evil.example:a/b"}, {"command": "git clone git@good.example:a/b"}),
        ("courier", {"feed": bad}, {"feed": good}),
        ("mirror", {"x": [{"href": f"see {bad} soon"}]}, {"x": [{"href": good}], "y": "an evil example"}),
        ("mirror", {"x": "x.EVIL.example"}, {"x": "evil"}),
        ("mirror", {"url": "//x.evil.example"}, {"url": "good.example"}),
    ]
    for wanted in ("*.evil.example", {"host": ["*.evil.example", "10.0.0.0/8"]}):
        async with opened(root, deny=[{"tool": "*", "when": {"url": wanted}}]) as crib:
            for name, refused, served in calls:
                if name == "courier":  # it says which address, so that one which is none cannot be judged
                    served = {"feed": good}
                assert await decide(crib, name, refused) == "deny", (name, refused)
                assert await decide(crib, name, served) == "allow", (name, served)


TO_ANN: list[Json] = [
    {"action": "send", "to": "7", "message": "x"}, {"action": "broadcast", "targets": ["9", "7"], "message": "x"},
    {"action": "read", "channelId": "7"}, {"action": "addParticipant", "target": "-5", "participant": "7"},
    {"action": "kick", "guildId": "g", "userId": "7"}, {"action": "send", "target": "-5", "threadId": "7"},
    {"action": "search", "channelIds": ["7"], "query": "x"}, {"action": "react", "chatId": "7", "emoji": "x"},
]  # fmt: skip


@pytest.mark.parametrize("word", ["to", "target", "channelId", "userId"])
async def test_a_rule_by_recipient_holds_for_whoever_a_call_reaches(root: Path, word: str) -> None:
    rule = {"tool": "message", "when": {word: "7"}}
    more = {"tools": {"deny": [rule], "message": {"broadcast": {"enabled": True}}}}
    async with opened(root, more) as crib:
        for args in TO_ANN if word in ("to", "target") else ():
            assert await decide(crib, "message", args) == "deny", args
        if word != "to":
            return
        here = {"action": "send", "message": "x"}
        assert await decide(crib, "message", here, ANN) == "deny"  # a chat is where it is called from
        assert await decide(crib, "message", {"action": "react", "messageId": "5", "emoji": "x"}, ANN) == "deny"
        assert await decide(crib, "message", here, TEAM) == "allow"
        assert await decide(crib, "message", {**here, "target": "9"}, ANN) == "allow"
        assert await decide(crib, "message", {**here, "target": "77"}) == "allow"
        assert await decide(crib, "message", {"action": "broadcast", "targets": ["9"], "message": "7"}, ANN) == "allow"


async def test_by_recipient_all_that_a_call_reaches_must_be_permitted(root: Path) -> None:
    more = {"tools": {"allow": [{"tool": "message", "when": {"to": {"in": ["7", "-100"]}}}, {"tool": "courier"}]}}
    more["tools"]["message"] = {"broadcast": {"enabled": True}}  # type: ignore[assignment]
    more["tools"]["allow"][1] = {"tool": "courier", "when": {"to": "7"}}
    async with opened(root, more) as crib:
        for args, caller, decision in (
            ({"action": "send", "target": "7"}, OWNER, "allow"),
            ({"action": "send"}, ANN, "allow"),
            ({"action": "send"}, TEAM, "allow"),
            ({"action": "send"}, OWNER, "deny"),
            ({"action": "broadcast", "targets": ["7", "9"]}, ANN, "deny"),
            ({"action": "broadcast", "targets": ["7"]}, OWNER, "allow"),
            ({"action": "addParticipant", "participant": "9"}, ANN, "deny"),
        ):
            assert await decide(crib, "message", {**args, "message": "x"}, caller) == decision, (args, caller)
        assert await decide(crib, "courier", {"whom": "7"}) == "allow"
        assert await decide(crib, "courier", {}, ANN) == "allow"
        assert await decide(crib, "courier", {"whom": "9"}, ANN) == "deny"


async def test_a_rule_by_command_holds_for_whatever_a_tool_calls_it(root: Path) -> None:
    async with opened(root, deny=[{"tool": "*", "when": {"command": {"matches": "^rm "}}}]) as crib:
        for name, args, decision in (
            ("exec", {"command": "RM -r x"}, "deny"), ("courier", {"line": "rm -r x"}, "deny"),
            ("process", {"action": "write", "sessionId": "a", "data": "rm -r x"}, "deny"),
            ("exec", {"command": "ls rm"}, "allow"), ("courier", {"line": "ls"}, "allow"),
        ):  # fmt: skip
            assert await decide(crib, name, args) == decision, (name, args)


async def test_what_says_nothing_reaches_nothing_that_is_allowed(root: Path) -> None:
    allow = [{"tool": name, "when": {"path": "docs/**"}} for name in ("mirror", "courier", "exec", "write")]
    async with opened(root, allow=allow) as crib:
        for name, args, decision in (
            ("mirror", {"x": "docs/a"}, "deny"), ("exec", {"command": "ls", "workdir": "docs"}, "deny"),
            ("courier", {"src": "docs/a", "dst": "docs/b"}, "deny"),
            ("write", {"path": "docs/a", "content": ""}, "allow"),
        ):  # fmt: skip
            assert await decide(crib, name, args) == decision, (name, args)
        said = [each.message for each in crib.lint() if each.kind == "dead"]
    assert len(said) == 2


async def test_lint_names_what_gets_around_a_rule_for_all_tools(root: Path) -> None:
    for entry in ("*", "effect:read", "group:fs"):
        async with opened(root, deny=[{"tool": entry, "when": {"path": "secret/**"}}]) as crib:
            (said,) = [each.message for each in crib.lint() if each.kind == "around"]
        assert "exec, process" in said
        assert ("browser" in said, "write" in said) == (entry == "group:fs", entry == "effect:read"), said


async def test_a_server_of_others_is_judged_by_its_texts(root: Path) -> None:
    async with opened(
        root, {"mcpServers": {"srv": liar("honest")}}, deny=[{"tool": "*", "when": {"path": "secret/**"}}]
    ) as crib:
        await crib.mcp.ready(30.0)
        belt = crib.belt(OWNER)
        assert (await belt.call("srv__echo", {"text": "secret/key.txt"})).details["code"] == "denied"
        assert (await belt.call("srv__echo", {"text": "docs/plan.md"})).status == "ok"
        assert (await belt.call("mirror", {"x": "short/key.txt"})).details["code"] == "denied"


async def test_a_canvas_serves_no_file_that_its_rules_deny(root: Path) -> None:
    for name in ("page.html", "docs/in.html", "secret/a.txt", "docs/a.txt"):
        (root / name).write_text("<p>hi</p>")
    rules: tuple[dict[str, Any], ...] = (
        {"deny": [{"tool": "*", "when": {"path": "secret/**"}}]},
        {"deny": [{"tool": "canvas", "when": {"path": "secret/**", "action": "present"}}]},
        {"allow": [{"tool": "canvas", "when": {"path": {"in": ["page.html", "docs/**"]}}}]},
    )
    for tools in rules:
        async with opened(root, **tools) as crib:
            crib.canvases.host = lambda seen: "http://here.test"
            told = await crib.belt(OWNER).call("canvas", {"action": "present", "target": "page.html"})
            canvas = crib.canvases.find_page(told.plain_text.partition("/c/")[2].partition("/")[0])
            assert canvas is not None
            assert (await crib.canvases.read_file(canvas, "docs/a.txt")).body == b"<p>hi</p>"
            for path in ("secret/a.txt", "Secret/a.txt", "short/a.txt", "docs/../secret/a.txt"):
                with pytest.raises(ToolError):
                    await crib.canvases.read_file(canvas, path)
