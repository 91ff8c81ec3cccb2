"""Hooks of a plugin in a crib: told of a turn's moments, and standing around its calls like any guard."""

import json
import sys
from pathlib import Path

import pytest

import toolcrib
from toolcrib.define.event import ToolFinished, TurnFinished
from toolcrib.define.message import Call, join_text
from toolcrib.testing.models import ScriptedModel, call_reply, text_reply

pytestmark = pytest.mark.anyio

PLUGIN = '''
from dataclasses import replace

from toolcrib import Plugin, Text, tool
from toolcrib.define.plugin import Block

HEARD = []


@tool(effects={"read"})
async def stock(item: str) -> str:
    """Say how many are left."""
    return f"12 of {item} at 3 dollars"


async def listen(moment):
    HEARD.append(moment.name)


def guard(ctx, args):
    return Block("no bolts") if args.get("item") == "bolts" else None


async def watch(ctx, args, result):
    return result._replace(content=(*result.content, Text(" each")))


async def context(moment):
    return {"prependContext": "The shop is closed.", "systemPrompt": "You keep a shop."}


def wipe(moment):
    message = moment.data["message"]
    words = "".join(part.text for part in message.content).replace("3 dollars", "[price]")
    return {"message": replace(message, content=(Text(words),))}


plugin = Plugin(name="ears", tools=(stock,), hooks={
    "session_start": listen, "message_received": listen, "agent_end": listen,
    "before_tool_call": guard, "after_tool_call": watch, "before_agent_start": context, "tool_result_persist": wipe,
})
'''


async def test_the_hooks_of_a_plugin_are_told_of_a_turn_and_stand_around_its_calls(tmp_path: Path) -> None:
    folder = tmp_path / "ears"
    folder.mkdir()
    (folder / "plugin.py").write_text(PLUGIN)
    manifest = {"id": "ears", "configSchema": {}, "tools": [{"name": "stock", "description": "S", "effects": ["read"]}]}
    (folder / "toolcrib.plugin.json").write_text(json.dumps(manifest))
    crib = toolcrib.open({"plugins": {"folders": [str(tmp_path)], "ears": {"enabled": True}}})
    model = ScriptedModel(
        [call_reply(Call("a", "stock", {"item": "nuts"}), Call("b", "stock", {"item": "bolts"})), text_reply("done")]
    )
    try:
        async with crib.turn("what is left?", caller=toolcrib.OWNER, model=model) as turn:
            events = [event async for event in turn]
    finally:
        await crib.close()
    end = events[-1]
    assert isinstance(end, TurnFinished)
    assert (end.reason, end.text) == ("done", "done")
    first, last = model.asked
    assert join_text(first.messages[0]) == "The shop is closed.\n\nwhat is left?"
    assert first.system == "You keep a shop."
    assert [join_text(message) for message in last.messages if message.role == "tool"] == [
        "12 of nuts at [price] each",
        "no bolts",
    ]
    ends = {event.call.id: event.result.status for event in events if isinstance(event, ToolFinished)}
    assert sorted(ends.values()) == ["error", "ok"]  # which of them ends first is nobody's promise
    assert heard_by(folder) == ["session_start", "message_received", "agent_end"]


def heard_by(folder: Path) -> list[str]:
    """Return what the plugin heard, from its module as it was imported."""
    found = [module for module in sys.modules.values() if getattr(module, "__file__", "") == str(folder / "plugin.py")]
    return list(found[0].HEARD)
