"""A crib with MCP servers: their tools come in while it runs, are told about, and go with it."""

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.backends.mcp.world import SECRET, liar, said

import toolcrib
from toolcrib import Call
from toolcrib.app import Crib
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.errors import ToolError
from toolcrib.define.result import Text
from toolcrib.testing.models import ScriptedModel, call_reply, text_reply

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def workspace(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A workspace that the scripts of our servers do not lie in."""
    monkeypatch.chdir(tmp_path_factory.mktemp("work"))


def crib_with(state: Path, **servers: Any) -> Crib:
    return toolcrib.open({"mcpServers": servers}, state=state)


async def test_tools_come_in_while_the_crib_runs_and_a_belt_in_hand_stays_as_it_is(tmp_path: Path) -> None:
    async with crib_with(tmp_path, srv=liar("honest")) as crib:
        before = crib.belt(toolcrib.OWNER)
        await crib.mcp.ready(20.0)
        assert "srv__echo" not in before.tools
        assert crib.belt(toolcrib.OWNER).tools["srv__echo"].source == "mcp:srv"
        assert said(await crib.belt(toolcrib.OWNER).call("srv__echo", {"text": "hi"}))[0] == "ok"


async def test_what_was_accepted_is_known_without_a_connection(tmp_path: Path) -> None:
    async with crib_with(tmp_path, srv=liar("honest")) as crib:
        await crib.mcp.ready(20.0)
    # explain and lint open a crib in this way, and start nothing
    closed = toolcrib.open({"mcpServers": {"srv": liar("honest")}}, state=tmp_path, import_plugins=False)
    assert "srv__echo" in closed.belt(toolcrib.OWNER).verdicts
    assert closed.mcp.servers["srv"].state == "idle"


async def test_a_call_connects_a_server_that_nobody_has_started(tmp_path: Path) -> None:
    async with crib_with(tmp_path, srv=liar("honest")) as crib:
        await crib.mcp.ready(20.0)
    crib = crib_with(tmp_path, srv=liar("honest"))
    try:
        assert said(await crib.belt(toolcrib.OWNER).call("srv__echo", {"text": "hi"}))[0] == "ok"
    finally:
        await crib.close()
    with pytest.raises(ToolError, match="the MCP server 'srv' was let go: this crib is closed"):
        await crib.mcp.call("srv", "echo", {"text": "hi"})


async def test_a_turn_begins_to_connect(tmp_path: Path) -> None:
    crib = crib_with(tmp_path, srv=liar("honest"))
    try:
        await crib.turn("hello", caller=toolcrib.OWNER, model="offline:rules").end()
        assert crib.mcp.servers["srv"].state != "idle"
    finally:
        await crib.close()


async def test_lint_tells_what_is_wrong_with_a_server(tmp_path: Path) -> None:
    settings = liar("changed", tmp_path / "seen")
    for _ in range(2):
        async with crib_with(tmp_path, srv=settings) as crib:
            await crib.mcp.ready(20.0)
    found = [(each.kind, each.level, each.origin) for each in crib.lint() if each.origin.startswith("mcp")]
    assert found == [("mcp", "warning", "mcp:srv")]


async def test_a_stranger_gets_what_the_rules_give(tmp_path: Path) -> None:
    rules = {"tools": {"deny": ["srv__*"]}}
    config = {"mcpServers": {"srv": liar("honest")}, "channels": {"telegram": {"groups": {"*": rules}}}}
    async with toolcrib.open(config, state=tmp_path) as crib:
        await crib.mcp.ready(20.0)
        stranger = Caller(channel="telegram", group="-100", sender=Sender(id="7"))
        verdict = crib.belt(stranger).verdicts["srv__echo"]
        assert (verdict.decision, verdict.rule) == ("deny", "srv__*")
        assert crib.belt(toolcrib.OWNER).verdicts["srv__echo"].decision == "allow"


async def test_no_secret_is_in_anything_that_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with crib_with(tmp_path, srv=liar("crash"), other=liar("error with secret")) as crib:
        await crib.mcp.ready(20.0)
        for name in ("srv__echo", "other__echo"):
            await crib.belt(toolcrib.OWNER).call(name, {"text": "hi"})
        told = [*map(str, crib.lint()), str(await crib.mcp.status(toolcrib.OWNER)), caplog.text, repr(crib.config)]
        assert SECRET not in "\n".join(told)
        kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
        assert SECRET.encode() not in kept


class Refuser:
    """A person who says no, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked = list[str]()

    async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str], /) -> bool:
        self.asked.append(f"{call.name}: {reason}")
        return False


@pytest.mark.parametrize("how", ["error with orders", "picture", "nothing", "odd kind", "neither", "crash", "honest"])
async def test_whatever_a_server_answers_is_fenced_and_asked_about_before_the_next_step(
    how: str, tmp_path: Path
) -> None:
    person, workspace = Refuser(), tmp_path / "work"
    workspace.mkdir()
    write = Call(id="w", name="write", args={"path": "a.txt", "content": "x"})
    config = {
        "mcpServers": {"srv": liar(how)},
        "tools": {"askAfterOutside": ["write"]},
        "workspace": {"root": str(workspace)},
    }
    async with toolcrib.open(config, state=tmp_path / "state", approver=person) as crib:
        await crib.mcp.ready(20.0)
        call = Call(id="c", name="srv__echo", args={"text": "hi"})
        script = [call_reply(write), call_reply(call), call_reply(write._replace(id="v")), text_reply("done")]
        model = ScriptedModel(script)
        await crib.turn("go", caller=toolcrib.OWNER, session="agent:main:main", model=model).end()
        answers = [each for each in model.asked[-1].messages if each.role == "tool"]
        # before the server said anything nobody is asked
        assert [answers[0].status, answers[2].status] == ["ok", "error"]
        assert len(person.asked) == 1
        assert "(mcp:srv;" in person.asked[0]
        for part in answers[1].content:
            assert part.source == "mcp:srv"  # type: ignore[union-attr]  # a tool's answer holds no thoughts
            if isinstance(part, Text):
                assert re.fullmatch(
                    r'<<<(\w+) id="(\w+)">>>\nSource: mcp:srv\n---\n(?:(?!<<<)[\s\S])*\n<<<END_\1 id="\2">>>', part.text
                )
                assert "<|im_start|>" not in part.text
    # and a later crib has not forgotten it
    async with toolcrib.open(config, state=tmp_path / "state", approver=person) as crib:
        model = ScriptedModel([call_reply(write._replace(id="u")), text_reply("done")])
        await crib.turn("again", caller=toolcrib.OWNER, session="agent:main:main", model=model).end()
        assert len(person.asked) == 2


async def test_a_denied_call_of_a_server_is_answered_in_our_own_words(tmp_path: Path) -> None:
    config = {"mcpServers": {"srv": liar("honest")}, "tools": {"deny": ["srv__echo"]}}
    async with toolcrib.open(config, state=tmp_path) as crib:
        await crib.mcp.ready(20.0)
        (part,) = (await crib.belt(toolcrib.OWNER).call("srv__echo", {"text": "hi"})).content
        assert isinstance(part, Text)
        assert part.source is None
        assert "denied" in part.text


async def test_a_tool_of_a_server_can_be_granted_with_its_arguments(tmp_path: Path) -> None:
    config = {"mcpServers": {"srv": liar("honest")}, "tools": {"ask": ["group:mcp"]}}
    async with toolcrib.open(config, state=tmp_path) as crib:
        await crib.mcp.ready(20.0)
        belt, asked = crib.belt(toolcrib.OWNER), asyncio.Queue[str]()
        detach = crib.approvals.on_question(lambda each: asked.put_nowait(each.id) if each.state == "pending" else None)
        running = asyncio.create_task(belt.call("srv__echo", {"text": "hi"}))
        await crib.approvals.answer(toolcrib.OWNER, await asked.get(), "lasting", calls=2)
        await running
        detach()
        codes = [said(await belt.call("srv__echo", {"text": text}))[0] for text in ("hi", "hi", "ho")]
        assert codes == ["ok", "error", "error"]  # one was left, and nobody is there to ask
