"""The local model, for real: SmolLM2-135M behind llama.cpp calls a tool, and every tool's grammar is one it takes.

`./check full` runs it, or alone, after `sh bin/bootstrap dev local-llm`:
`.venv/bin/python -m pytest tests/journeys/test_local_model.py`. The first run fetches 93 MB into the user's cache.
"""

from pathlib import Path

import pytest

import toolcrib
from toolcrib.backends.models.local import fetch_weights, local_model
from toolcrib.define.event import Replied, TextDelta, ToolFinished, ToolStarted, TurnFinished
from toolcrib.define.message import Message
from toolcrib.define.model import Choice, History, Request
from toolcrib.define.result import Text
from toolcrib.tools import SHELF

pytestmark = [pytest.mark.anyio, pytest.mark.full, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module", autouse=True)
def weights() -> None:
    fetch_weights(print)


async def test_a_real_model_calls_a_tool_and_answers_in_words(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "plan.md").write_text("# Plan\n")
    async with toolcrib.open({"workspace": {"root": str(tmp_path)}}, env={}) as crib:
        events = [event async for event in crib.turn("Show the files in docs", caller=toolcrib.OWNER, model="local")]
    (started,) = [event for event in events if isinstance(event, ToolStarted)]
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    end = events[-1]
    assert isinstance(end, TurnFinished)
    assert (end.reason, end.sentence) == ("done", "")
    assert (started.call.name, dict(started.call.args)) == ("ls", {"path": "docs"})
    assert finished.result.status == "ok"
    assert len([event for event in events if isinstance(event, TextDelta)]) > 1, "words come as they are found"
    assert end.usage.input > 0


@pytest.mark.parametrize("choice", ["auto", "required"])
async def test_llama_cpp_takes_the_grammar_of_every_tool_and_holds_the_model_to_it(choice: Choice) -> None:
    tools = {tool.name: tool for tool in SHELF if tool.has_body}
    model = local_model("smollm2")
    try:
        for some in (list(tools.values()), [tools["exec"]]):
            history = History([Message(role="user", content=(Text("Run date"),))])
            request = Request(history=history, tools=some, choice=choice, longest=200)
            (replied,) = [event async for event in model.reply(request) if isinstance(event, Replied)]
            assert replied.error == ""
            for call in replied.message.calls:
                tools[call.name].check(call.args)
            assert choice == "auto" or replied.message.calls or replied.message.finish == "length"
    finally:
        await model.close()
