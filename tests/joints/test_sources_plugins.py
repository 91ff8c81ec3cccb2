"""From where: what somebody else's tool may have read by a way out of its own; a program's own tools are its word."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER, Ctx, Plugin, Result, Tool, ToolError, tool, vouch_for
from toolcrib.define.event import ToolFinished
from toolcrib.define.message import Call
from toolcrib.testing import FakeApprover, ScriptedModel, call_reply, text_reply

from .sources_world import CARD, ORDER, is_fenced, sources

pytestmark = pytest.mark.anyio

ASKS: Mapping[str, Any] = {"tools": {"askAfterOutside": ["effect:write"]}}


@tool(effects={"network"})
async def fetch_news() -> str:
    """Fetch the news by a client of its own."""
    return ORDER


@tool
async def look_around() -> str:
    """Do what it likes: it declares nothing."""
    return ORDER


@tool(effects={"network"})
async def fetch_badly(how: str) -> str:
    """Fail with words of the page."""
    raise (ToolError if how == "on purpose" else RuntimeError)(ORDER)


@tool(effects={"network"})
async def count_news() -> Result:
    """Count the news."""
    return Result((vouch_for("17", "a number is counted here"),))


@tool(effects={"read"})
async def read_price() -> str:
    """Read a price of our own list."""
    return "a nut costs 1"


@tool(effects=set())
async def add_up() -> str:
    """Add up."""
    return "2"


async def call(folder: Path, made: Tool, args: Mapping[str, Any], **brought: Any) -> tuple[Result, bool]:
    """Return what a call gave, and whether a write behind it was asked about."""
    people = FakeApprover(True)
    calls = [Call("a", made.name, args), Call("b", "write", {"path": "x.txt", "content": "y"})]
    model = ScriptedModel([*map(call_reply, calls), text_reply("done")], CARD)
    config = {"workspace": {"root": str(folder)}, **ASKS}
    async with toolcrib.open(config, state=folder / "state", env={}, **brought) as crib:
        events = [each async for each in crib.turn("go", caller=OWNER, model=model, approver=people)]
    first, _ = (each.result for each in events if isinstance(each, ToolFinished))
    return first, [each.name for _, each, _ in people.asked] == ["write"]


def as_plugin(made: Tool, **more: Any) -> dict[str, Any]:
    return {"plugins": [Plugin(name="news", tools=(made,), **more)]}


@pytest.mark.parametrize(
    ("made", "args"),
    [
        (fetch_news, {}),
        (look_around, {}),
        (fetch_badly, {"how": "on purpose"}),
        (fetch_badly, {"how": "by a bug"}),
    ],
)
async def test_what_a_plugin_may_have_read_by_itself_is_fenced_and_makes_the_next_call_ask(
    tmp_path: Path, made: Tool, args: Mapping[str, Any]
) -> None:
    result, asks = await call(tmp_path, made, args, **as_plugin(made))
    assert (sources(result), is_fenced(result, "squirrel"), asks) == ("plugin:news", True, True)


@pytest.mark.parametrize("made", [read_price, add_up, count_news])
async def test_what_declares_less_or_vouches_for_its_words_makes_nothing_ask(tmp_path: Path, made: Tool) -> None:
    result, asks = await call(tmp_path, made, {}, **as_plugin(made))
    assert (result.status, sources(result), asks) == ("ok", "", False)


@pytest.mark.parametrize("made", [fetch_news, look_around, read_price])
async def test_what_a_program_hands_over_itself_is_its_own_word(tmp_path: Path, made: Tool) -> None:
    result, asks = await call(tmp_path, made, {}, tools=[made])
    assert (result.status, sources(result), asks) == ("ok", "", False)


@tool(effects={"network"})
async def see_page() -> Result:
    """Say where its words are from."""
    return Result.text(ORDER, source="web:https://evil.test/nuts")


async def test_an_observer_that_says_it_in_other_words_takes_no_source_away(tmp_path: Path) -> None:
    async def rewrite(ctx: Ctx, args: Mapping[str, Any], result: Result) -> Result:
        return Result.text(f"in short: {result.plain_text}") if ctx.call.name == "see_page" else result

    plugin = Plugin(name="short", after=(rewrite,))
    result, asks = await call(tmp_path, see_page, {}, tools=[see_page], plugins=[plugin])
    assert ("in short" in result.plain_text, "web:https://evil.test/nuts" in sources(result), asks) == (
        True,
        True,
        True,
    )
