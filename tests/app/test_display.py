"""What a tool shows to people: `display` in place of its content, as Markdown where it says so; no model sees it."""

import json
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Agent, Call, Ctx, Result, tool
from toolcrib.adapter.events import event_line
from toolcrib.adapter.mcp import encode_result
from toolcrib.define.event import Event, ToolFinished, ToolProgress
from toolcrib.registry.sources import Offer
from toolcrib.testing.models import ScriptedModel, call_reply

pytestmark = pytest.mark.anyio

SECRET = "shop-0005-value"
CONFIG = {"secrets": {"SHOP": SECRET}}


@tool(effects={"read"}, markdown=True)
async def stock(ctx: Ctx, item: str) -> Result:
    """Say how many are left."""
    ctx.progress(Result.text("counting", display="**counting**"))
    return Result.text(f"12 of {item}", display=f"## {item}\n\n- 12 left\x1b[2J, {SECRET}\n" + "x" * 9_000)


@tool(effects={"read"})
async def plain(ctx: Ctx) -> Result:
    """Say something."""
    return Result.json({"n": 1}, display="one")


async def turn_with(*tools: Any, config: Any = CONFIG, **offer: Any) -> tuple[list[Event], ScriptedModel, Result]:
    """Return the events of a turn that calls each tool once, its model, and what the last call gave the program."""
    calls = [Call(f"c{n}", name, args) for n, (name, args) in enumerate(offer.pop("calls"))]
    script = offer.pop("script", [])
    crib = toolcrib.open(config, plugins=[Offer(source="plugin:p", tools=tools, **offer)])
    model = ScriptedModel([call_reply(*calls), *script, "done"])
    try:
        async with crib.turn("go", caller=OWNER, model=model) as turn:
            events = [event async for event in turn]
        direct = Result() if script else await crib.belt(OWNER).call(calls[-1].name, calls[-1].args)
    finally:
        await crib.close()
    return events, model, direct


def outcomes(events: list[Event]) -> dict[str, ToolFinished]:
    return {event.call.name: event for event in events if isinstance(event, ToolFinished)}


async def test_watchers_are_shown_the_display_and_the_model_never_is() -> None:
    events, model, _ = await turn_with(stock, plain, calls=[("stock", {"item": "nuts"}), ("plain", {})])
    found = outcomes(events)
    shown = found["stock"].result.display
    assert shown.startswith("## nuts\n\n- 12 left, …\nxxx")
    assert len(shown) <= 8_000
    assert (found["stock"].markdown, found["plain"].markdown) == (True, False)
    assert found["plain"].result.display == "one"
    (progress,) = [event for event in events if isinstance(event, ToolProgress)]
    assert progress.partial.display == "**counting**"
    told = json.loads(event_line(found["stock"]))
    assert (told["markdown"], told["result"]["display"]) == (True, shown)
    assert "markdown" not in json.loads(event_line(found["plain"]))
    asked = repr([request.messages for request in model.asked])
    assert "12 of nuts" in asked
    assert "## nuts" not in asked
    assert "12 left" not in asked


async def test_a_program_gets_the_display_without_secrets_and_an_mcp_client_does_not() -> None:
    _, _, result = await turn_with(stock, calls=[("stock", {"item": "nuts"})])
    assert result.display.startswith("## nuts")
    assert SECRET not in result.display
    assert "## nuts" not in json.dumps(encode_result(result))


@pytest.mark.parametrize("display", [5, None, ["a"]])
async def test_a_display_that_is_no_text_breaks_nothing(display: Any) -> None:
    @tool(effects={"read"})
    async def odd() -> Result:
        """Show something odd."""
        return Result.text("fine", display=display)

    for config in (CONFIG, {}):
        events, _, result = await turn_with(odd, calls=[("odd", {})], config=config)
        assert (result.status, result.plain_text) == ("ok", "fine")
        assert isinstance(outcomes(events)["odd"].result.display, str)


async def test_what_a_subagent_hands_in_is_markdown_for_people() -> None:
    worker = Agent(name="worker", description="works", prompt="I am worker.", inputs={}, label="Worker")
    script = [call_reply(Call("d", "complete_task", {"result": "- one\n- two"}))]
    events, model, _ = await turn_with(calls=[("worker", {})], script=script, agents=(worker,))
    finished = outcomes(events)["worker"]
    assert finished.markdown
    assert finished.result.display == "**Worker** finished after 1 reply\n\n- one\n- two"
    assert "**Worker**" not in repr([request.messages for request in model.asked])
