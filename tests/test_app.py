"""The library: a crib opened from a path, a mapping or nothing; belts, calls and declarations from it."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import Call, Caller, ConfigError, CribError, Ctx, DeclarationError, Result, Sender, Text, Tool, tool
from toolcrib.app import sender_from
from toolcrib.backends.plugins import MANIFEST
from toolcrib.define.errors import PluginError
from toolcrib.define.ports import rpc
from toolcrib.registry.sources import Offer

pytestmark = pytest.mark.anyio


@tool(effects={"read"})
async def weather(place: str) -> str:
    """Tell the weather."""
    return f"rain in {place}"


@tool(effects=set(), timeout=0.05)
async def forever() -> str:
    """Wait."""
    await asyncio.Event().wait()
    return "never"


class Person:
    """Answers every question the same way, and remembers what was asked."""

    def __init__(self, answer: bool) -> None:
        self.answer, self.asked = answer, list[tuple[str, Mapping[str, Any], str]]()

    async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str]) -> bool:
        self.asked.append((call.name, call.args, reason))
        return self.answer


def dice(folder: Path, code: str = "", **manifest: Any) -> Path:
    """A folder with one plugin, which need not be importable."""
    own = folder / "dice"
    own.mkdir(parents=True)
    declared = [{"name": "dice", "description": "Roll.", "effects": []}]
    (own / MANIFEST).write_text(json.dumps({"id": "dice", "configSchema": {}, "tools": declared, **manifest}))
    (own / "plugin.py").write_text(code)
    return folder


DICE = '''
from toolcrib import Plugin, Tool, tool

def make(config):
    sides = config.get("sides", 6)

    @tool(effects=set())
    def dice() -> str:
        """Roll."""
        return f"{sides} sides"

    return dice

plugin = Plugin(name="dice", tools=(make,))
'''


# Open


def test_a_crib_opens_from_a_path_a_text_a_mapping_or_nothing(tmp_path: Path) -> None:
    path = tmp_path / "crib.yaml"
    path.write_text("tools: {deny: [exec]}")
    for source in (path, str(path), {"tools": {"deny": ["exec"]}}):
        assert toolcrib.open(source).belt(toolcrib.OWNER).verdicts["exec"].reason == "deny has 'exec' (tools)"
    assert toolcrib.open().belt(toolcrib.OWNER).verdicts["exec"].decision == "allow"


def test_opening_never_reads_what_was_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TOOLCRIB_CONFIG", str(tmp_path / "toolcrib.yaml"))
    (tmp_path / "toolcrib.yaml").write_text("}{")
    assert toolcrib.open().belt(toolcrib.OWNER).verdicts["exec"].decision == "allow"


@pytest.mark.parametrize("source", ["", "no/such/file.yaml", [], 5, {"tools": {"denny": []}}])
def test_what_cannot_be_opened_raises_one_error(source: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        toolcrib.open(source)
    assert len(str(caught.value).splitlines()) == 1


# Belts


def test_the_belt_of_the_documents() -> None:
    crib = toolcrib.open({"channels": {"telegram": {"groups": {"-100": {"tools": {"deny": ["exec"]}}}}}})
    belt = crib.belt(Caller(channel="telegram", group="-100", sender=Sender(id="7")), extra=[weather])
    assert belt.verdicts["exec"].reason == "deny has 'exec' (channels.telegram.groups.-100.tools)"
    assert "exec" not in belt.tools
    assert belt.verdicts["weather"].decision == "allow"
    assert belt.catalog["weather"].source == "client:program"


async def test_a_call_runs_through_the_gate() -> None:
    belt = toolcrib.open().belt(toolcrib.OWNER, extra=[weather])
    assert (await belt.call("weather", {"place": "Lviv"})).to_json()["content"] == [
        {"type": "text", "text": "rain in Lviv"}
    ]
    assert await belt.call("WEATHER", {"place": "Lviv"}) == await belt.call(" weather ", {"place": "Lviv"})


@pytest.mark.parametrize(
    ("config", "name", "args", "code"),
    [
        ({"tools": {"deny": ["weather"]}}, "weather", {"place": "x"}, "denied"),
        ({"tools": {"allow": ["read"]}}, "weather", {"place": "x"}, "denied"),
        ({"tools": {"ask": ["effect:read"]}}, "weather", {"place": "x"}, "not_approved"),
        ({}, "weather", {}, "bad_arguments"),
        ({}, "wether", {}, "not_found"),
        ({}, "message", {"action": "send", "message": "hi"}, "unavailable"),
        ({}, "forever", {}, "timeout"),
    ],
)
async def test_what_fails_comes_back_as_a_result(config: Any, name: str, args: Any, code: str) -> None:
    result = await toolcrib.open(config).belt(toolcrib.OWNER, extra=[weather, forever]).call(name, args)
    assert (result.status, (result.details or {})["code"]) == ("error", code)


@pytest.mark.parametrize(("answer", "status"), [(True, "ok"), (False, "error")])
async def test_a_question_goes_to_whoever_was_given(answer: bool, status: str) -> None:
    person = Person(answer)
    crib = toolcrib.open({"tools": {"ask": ["weather"]}}, approver=person)
    result: Result = await crib.belt(toolcrib.OWNER, extra=[weather]).call("weather", {"place": "Lviv"})
    assert result.status == status
    assert person.asked == [("weather", {"place": "Lviv"}, "a human is asked for weather (tools.ask)")]


async def test_the_time_limit_is_the_configurations() -> None:
    @tool(effects=set())
    async def slow() -> str:
        """Wait."""
        await asyncio.Event().wait()
        return "never"

    belt = toolcrib.open({"tools": {"timeoutSec": 0.01}}).belt(toolcrib.OWNER, extra=[slow])
    assert (await belt.call("slow")).details == {
        "status": "error",
        "error": "slow did not finish within 0.01 seconds",
        "code": "timeout",
        "tool": "slow",
    }


def test_declarations_hold_what_the_caller_has_and_nothing_else() -> None:
    belt = toolcrib.open({"tools": {"allow": ["weather", "read"]}}).belt(toolcrib.OWNER, extra=[weather])
    assert [each["name"] for each in belt.declare("anthropic")] == ["read", "weather"]


@pytest.mark.parametrize("provider", ["anthropic", "gemini", "mcp", "openai", "responses"])
async def test_what_is_declared_can_be_changed_without_changing_the_tools(provider: str) -> None:
    belt = toolcrib.open().belt(toolcrib.OWNER, extra=[weather])
    before = json.dumps(belt.declare(provider))
    ruin(belt.declare(provider))
    assert json.dumps(belt.declare(provider)) == before
    assert json.dumps(toolcrib.open().belt(toolcrib.OWNER, extra=[weather]).declare(provider)) == before


def ruin(value: Any) -> None:
    """Empty every list and mapping, the innermost first."""
    for inner in list(value.values()) if isinstance(value, dict) else value:
        if isinstance(inner, (dict, list)):
            ruin(inner)
    value.clear()


def test_a_programs_own_tool_cannot_take_a_name_that_is_taken() -> None:
    with pytest.raises(DeclarationError, match="there is a tool 'read' from core already"):
        toolcrib.open().belt(toolcrib.OWNER, extra=[Tool.declared("read", "Mine.")])


# Plugins


@pytest.mark.parametrize("group", ["openclaw", "plugins", "mcp", "agents"])
def test_a_programs_own_tool_cannot_join_a_group_that_others_are_known_by(group: str) -> None:
    stray = Tool.declared("stray", "Mine.", group=group)
    with pytest.raises(DeclarationError, match=f"'stray' names the core group '{group}'"):
        toolcrib.open().belt(toolcrib.OWNER, extra=[stray])
    with pytest.raises(DeclarationError, match=f"'stray' names the core group '{group}'"):
        toolcrib.open(tools=[stray])


def test_plugins_of_the_program_are_judged_like_any_other() -> None:
    offer = Offer(source="plugin:sky", tools=(weather,))
    crib = toolcrib.open({"tools": {"deny": ["sky"]}}, plugins=[offer])
    assert crib.belt(toolcrib.OWNER).verdicts["weather"].reason == "deny has 'sky' (tools)"


async def test_a_plugin_gets_its_own_config(tmp_path: Path) -> None:
    folder = dice(tmp_path, DICE)
    config = {"plugins": {"folders": [str(folder)], "dice": {"enabled": True, "config": {"sides": 20}}}}
    result = await toolcrib.open(config).belt(toolcrib.OWNER).call("dice")
    assert result.to_json()["content"][0]["text"] == "20 sides"


def test_folders_are_looked_up_beside_the_file(tmp_path: Path) -> None:
    dice(tmp_path / "plugins", DICE)
    (tmp_path / "crib.yaml").write_text("plugins: {folders: [plugins], allow: [dice]}")
    assert "dice" in toolcrib.open(tmp_path / "crib.yaml").catalog


def test_a_plugin_is_on_only_by_name(tmp_path: Path) -> None:
    folder = dice(tmp_path, "raise SystemExit")
    off: list[dict[str, Any]] = [{}, {"dice": {}}, {"dice": {"enabled": False}}]
    for plugins in (*off, {"allow": ["dice"], "dice": {"enabled": False}}):
        crib = toolcrib.open({"plugins": {"folders": [str(folder)], **plugins}})
        assert "dice" not in crib.catalog


def test_without_importing_the_manifest_is_enough(tmp_path: Path) -> None:
    config = {"plugins": {"folders": [str(dice(tmp_path, "raise SystemExit"))], "allow": ["dice"]}}
    assert toolcrib.open(config, import_plugins=False).belt(toolcrib.OWNER).verdicts["dice"].decision == "allow"
    with pytest.raises(PluginError, match=r"^plugins\.allow\[0\]: plugin 'dice' raised SystemExit"):
        toolcrib.open(config)


def test_a_second_plugin_of_the_same_name_is_told_and_the_first_counts(tmp_path: Path) -> None:
    first, second = dice(tmp_path / "a", DICE), dice(tmp_path / "b", DICE)
    crib = toolcrib.open({"plugins": {"folders": [str(first), str(second)], "allow": ["dice"]}})
    assert "dice" in crib.catalog
    assert [(each.kind, each.level) for each in crib.lint()] == [("plugin", "warning")]
    assert "there are two plugins 'dice'" in crib.lint()[0].message


def test_a_broken_neighbour_is_told_and_takes_nobody_down(tmp_path: Path) -> None:
    folder = dice(tmp_path, DICE)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / MANIFEST).write_text("{")
    crib = toolcrib.open({"plugins": {"folders": [str(folder)], "allow": ["dice"]}})
    assert "dice" in crib.catalog
    assert [problem.sentence for problem in crib.catalog.problems] == [
        f"plugin manifest {tmp_path}/other/{MANIFEST}:1 is no JSON: unexpected end of data"
    ]


# Lint


def test_expectations_are_checked_for_their_caller() -> None:
    config = {
        "tools": {"deny": ["exec"]},
        "expect": [
            {"has": ["read"], "lacks": ["exec"]},
            {"caller": {"sender": "id:7", "channel": "telegram"}, "lacks": ["gateway"]},
            {"caller": {"sender": {"id": "7"}, "parents": "main"}, "lacks": ["cron"], "has": ["exec"]},
            {"caller": {"sandboxed": True, "agent": "main", "provider": "openai", "model": "x"}, "has": ["browser"]},
        ],
    }
    found = [(each.kind, each.origin, each.message) for each in toolcrib.open(config).lint()]
    assert found == [
        ("expect", "expect[2]", "should have exec, but it is deny: deny has 'exec' (tools)"),
        ("expect", "expect[3]", "should have browser, but it is deny: not in allow (built-in sandbox list)"),
    ]


# Senders


@pytest.mark.parametrize(
    ("text", "sender"),
    [
        ("id:7", Sender(id="7")),
        ("ID: 7 ", Sender(id="7")),
        ("e164:+15550100", Sender(e164="+15550100")),
        ("username:bob", Sender(username="bob")),
        ("name:Bob Smith", Sender(name="Bob Smith")),
        ("7", Sender(id="7")),
        ("+15550100", Sender(id="+15550100", e164="+15550100")),
        ("@bob:matrix.test", Sender(id="@bob:matrix.test")),
        ("Name:x:y", Sender(name="x:y")),
    ],
)
def test_a_sender_is_read_as_it_is_written(text: str, sender: Sender) -> None:
    assert sender_from(text) == sender


@pytest.mark.parametrize("text", ["", " ", "id:", "name: ", "@", "e164:bob", "id:*"])
def test_a_sender_who_is_nobody_is_refused(text: str) -> None:
    with pytest.raises(CribError):
        sender_from(text)


async def test_a_tool_asks_a_service_as_its_caller() -> None:
    class Notes:
        @rpc("notes.add", clients="write", why="own")
        async def add(self, caller: Caller, text: str) -> dict[str, str | None]:
            """Keep a note."""
            return {"by": caller.channel, "text": text}

    @tool(effects={"write"})
    async def note(ctx: Ctx, text: str) -> Result:
        """Keep a note."""
        return Result.json(await ctx.rpc("notes.add", {"text": text}))

    belt = toolcrib.open(services=[Notes()]).belt(Caller(channel="telegram", group="-1"), extra=[note])
    assert (await belt.call("note", {"text": "milk"})).details == {"by": "telegram", "text": "milk"}


async def test_the_workspace_is_the_configured_folder_or_the_agents_own(tmp_path: Path) -> None:
    for folder in ("all", "own"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "which").write_text(folder)
    agents = {"builder": {"workspace": str(tmp_path / "own")}}
    crib = toolcrib.open({"workspace": {"root": str(tmp_path / "all")}, "agents": agents})
    for caller, text in ((Caller(owner=True), "all"), (Caller(agent="Builder", owner=True), "own")):
        assert (await crib.belt(caller).call("read", {"path": "which"})).content[0] == Text(text)


@pytest.mark.parametrize(("access", "read", "write"), [("ro", "ok", "error"), ("none", "error", "error")])
async def test_a_sandboxed_session_has_the_access_that_the_configuration_says(
    tmp_path: Path, access: str, read: str, write: str
) -> None:
    (tmp_path / "a").write_text("a")
    config = {"workspace": {"root": str(tmp_path)}, "sandbox": {"mode": "all", "workspaceAccess": access}}
    belt = toolcrib.open(config).belt(toolcrib.OWNER)
    assert (await belt.call("read", {"path": "a"})).status == read
    assert (await belt.call("write", {"path": "b", "content": "b"})).status == write
    assert not (tmp_path / "b").exists()
