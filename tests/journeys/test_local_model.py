"""A small real model answers over a real socket: SmolLM2-135M behind llama.cpp, with one tool.

`./check full` runs it, or alone: `.venv/bin/python -m pytest tests/journeys/test_local_model.py`. The first run fetches
about 130 MB into the user's cache folder.
"""

from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import toolcrib
from toolcrib import Tool, tool
from toolcrib.app.stores import FILE, audit_in
from toolcrib.define.event import CallDelta, Event, Replied, TextDelta, ToolFinished, ToolStarted, TurnFinished

from .local_model import UnobtainableError, local_model

pytestmark = [pytest.mark.anyio, pytest.mark.full, pytest.mark.timeout(1800)]


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    try:
        with local_model() as url:
            yield url
    except UnobtainableError as error:
        pytest.skip(str(error))


def weather_told(asked: list[str]) -> Tool:
    @tool
    def weather(city: str) -> str:
        """Tell the weather in a city.

        Args:
            city: Name of the city.
        """
        asked.append(city)
        return "rain, 11 degrees"

    return weather


def config_for(base_url: str, **tools: Any) -> dict[str, Any]:
    models = {"default": "llamacpp:smollm2", "llamacpp": {"baseUrl": base_url}}
    return {"models": models, "tools": {"allow": ["weather"], **tools}}


async def turn(config: dict[str, Any], state: Path, tool: Tool) -> list[tuple[float, Event]]:
    """Ask for the weather; return what happened, and when."""
    async with toolcrib.open(config, state=state, env={}) as crib:
        asking = crib.turn("What is the weather in Paris?", caller=toolcrib.OWNER, extra=[tool])
        return [(monotonic(), event) async for event in asking]


async def test_a_real_model_calls_a_tool_and_answers_with_what_it_was_told(base_url: str, tmp_path: Path) -> None:
    asked: list[str] = []
    config = config_for(base_url)
    told = await turn(config, tmp_path, weather_told(asked))
    events = [event for _, event in told]
    end = events[-1]
    assert isinstance(end, TurnFinished)
    assert (end.reason, end.sentence, end.steps) == ("done", "", 2)
    assert asked == ["Paris"]
    assert "rain, 11 degrees" in end.text
    assert end.usage.input > 0
    assert end.usage.output > 0

    # the call and the answer came in pieces, each before the reply that they are part of
    replies = [at for at, event in enumerate(events) if isinstance(event, Replied)]
    calls = [at for at, event in enumerate(events) if isinstance(event, CallDelta)]
    words = [at for at, event in enumerate(events) if isinstance(event, TextDelta)]
    assert len(calls) > 1
    assert len(words) > 1
    assert max(calls) < replies[0] < min(words) < max(words) < replies[1]
    assert told[words[0]][0] < told[words[-1]][0] - 0.005, "nobody writes so many words at once"
    assert "".join(event.text for event in events if isinstance(event, TextDelta)).strip() == end.text.strip()

    # and it went through the gate, on the record
    started = next(event for event in events if isinstance(event, ToolStarted))
    assert started.verdict is not None
    assert (started.call.name, started.verdict.decision) == ("weather", "allow")
    rows = await audit_in(tmp_path / FILE, toolcrib.open(config, env={}).loaded).calls(session="", tool="", most=9)
    assert [(row["tool"], row["decision"], row["outcome"]) for row in rows] == [("weather", "allow", "ok")]


async def test_a_real_model_says_that_its_call_was_not_allowed(base_url: str, tmp_path: Path) -> None:
    asked: list[str] = []
    told = await turn(config_for(base_url, ask=["weather"]), tmp_path, weather_told(asked))
    results = [event.result for _, event in told if isinstance(event, ToolFinished)]
    end = told[-1][1]
    assert asked == []
    assert [result.status for result in results] == ["error"]
    assert isinstance(end, TurnFinished)
    assert end.reason == "done", end.sentence
    assert "rain" not in end.text
