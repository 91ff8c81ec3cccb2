"""A model is told at once of what it needs, and of the rest once there is something for it."""

import re
from typing import Any

import orjson
import pytest

import toolcrib
from toolcrib import OWNER, Result, Tool, tool
from toolcrib.adapter import declare
from toolcrib.agent.declare import Declarations
from toolcrib.agent.prompt import system_prompt
from toolcrib.define.event import TurnFinished
from toolcrib.define.message import Call
from toolcrib.define.model import ModelCard
from toolcrib.registry.sources import Offer
from toolcrib.testing.models import Reply, ScriptedModel, call_reply

pytestmark = pytest.mark.anyio

UNKNOWN = ModelCard(provider="desk", model="qwen", is_window_known=False)
SMALL = ModelCard(provider="desk", model="qwen", window=32_000)
LARGE = ModelCard(provider="desk", model="large", window=128_000)
EVERYDAY = ["read", "write", "edit", "grep", "find", "ls", "exec"]


def told(config: dict[str, Any], card: ModelCard, *extra: Tool) -> Declarations:
    return Declarations(toolcrib.open(config, env={}).belt(OWNER, extra).selection, card)


def names(told: Declarations, *offered: str) -> list[str]:
    return [each.name for each in told.choose(offered)]


def foreign(many: int) -> Offer:
    """A server with tools of two hundred characters each."""

    async def count() -> str:
        return "one"

    words = f"It is a part. {'x' * 120}"
    made = (tool(name=f"shop__part_{at}", description=f"Count part {at}. {words}")(count) for at in range(many))
    return Offer(source="mcp:shop", tools=tuple(made))


@pytest.mark.parametrize("card", [UNKNOWN, SMALL])
def test_a_small_or_unknown_window_gets_what_everyday_work_needs(card: ModelCard) -> None:
    assert names(told({}, card)) == [*EVERYDAY, "find_tools"]


def test_a_large_window_gets_all_that_needs_nothing_first() -> None:
    shown = names(told({}, LARGE))
    assert "sessions_spawn" in shown
    assert "generalist" in shown
    assert not {"process", "result_get", "subagents", "find_tools"} & set(shown)


def test_what_is_offered_comes_last_and_in_its_order() -> None:
    first = told({}, UNKNOWN)
    assert names(first, "result_get", "process", "no_such_tool", "read") == [
        *EVERYDAY,
        "find_tools",
        "result_get",
        "process",
    ]


def test_what_an_allow_list_names_is_told_at_once() -> None:
    assert "sessions_spawn" in names(told({"tools": {"allow": ["group:fs", "sessions_spawn", "find_tools"]}}, UNKNOWN))
    assert "sessions_spawn" not in names(told({"tools": {"allow": ["*"]}}, UNKNOWN))


def test_without_the_search_nothing_waits_for_it() -> None:
    shown = names(told({"tools": {"deny": ["find_tools"]}}, UNKNOWN))
    assert {"sessions_spawn", "generalist", "session_status"} <= set(shown)


def test_the_search_is_told_where_there_is_something_to_find_and_names_it() -> None:
    belt = toolcrib.open({}, plugins=[foreign(40)], env={}).belt(OWNER).selection
    search = next(each for each in Declarations(belt, UNKNOWN).choose() if each.name == "find_tools")
    assert "shop__part_7, " in search.description
    assert re.search(r"and \d+ more", search.description)
    assert "process" not in search.description


@pytest.mark.parametrize(
    ("message", "asked"),
    [
        ("let generalist do it", ("generalist",)),
        ("Ask the codebase investigator where it is", ("codebase_investigator",)),
        ("do that in the background", ("sessions_spawn",)),
        ("list the files in src and fix the test", ()),
    ],
)
def test_a_message_that_asks_for_a_tool_brings_it(message: str, asked: tuple[str, ...]) -> None:
    assert told({}, UNKNOWN).list_asked(message) == asked
    assert told({}, LARGE).list_asked(message) == ()


async def test_what_a_message_asked_for_stays_for_the_session() -> None:
    model = ScriptedModel(["yes", "no"], UNKNOWN)
    await turn(model, [], "let generalist do it", "thanks")
    assert [request.tools[-1] for request in model.asked] == ["generalist", "generalist"]


def test_the_first_request_of_the_default_belt_stays_small() -> None:
    """1,600 tokens of the model that was measured; 4,700 bytes were 1,449 of them."""
    first = told({}, UNKNOWN).choose()
    prompt = system_prompt([each.name for each in first], date="2026-01-02", place="/home/me/shop on Linux")
    assert sum(len(orjson.dumps(declare(each, "openai"))) for each in first) + len(prompt) <= 4_900


@pytest.mark.parametrize(("query", "best"), [("background worker", "sessions_spawn"), ("cost", "session_status")])
def test_words_of_a_query_find_the_tool(query: str, best: str) -> None:
    assert told({}, UNKNOWN).search(query)[0].name == best


def test_a_query_that_nothing_answers_shows_what_there_is() -> None:
    assert told({}, UNKNOWN).search("zzz")


async def turn(model: ScriptedModel, offers: list[Offer], *asks: str) -> list[TurnFinished]:
    async with toolcrib.open({}, plugins=offers, env={}) as crib:
        ends = []
        for ask in asks:
            async with crib.turn(ask, caller=OWNER, model=model, session="agent:main:shop") as going:
                ends.append(await going.end())
        return ends


def script(*calls: Call) -> list[Reply]:
    return [*(call_reply(call) for call in calls), "done"]


async def test_a_tool_is_told_once_a_result_offers_it_and_stays_for_the_session() -> None:
    @tool(effects=set(), late="there is a box")
    async def unpack() -> str:
        """Unpack the box."""
        return "nuts"

    @tool(effects=set())
    async def order() -> Result:
        """Order a box."""
        return Result.text("here is a box")._replace(offers=("unpack",))

    model = ScriptedModel([*script(Call("a", "order")), "later"], LARGE)
    await turn(model, [Offer(source="plugin:shop", tools=(unpack, order))], "go", "and now?")
    seen = [request.tools for request in model.asked]
    assert "unpack" not in seen[0]
    assert seen[1] == seen[2] == (*seen[0], "unpack")


async def test_tools_of_a_large_server_are_found_and_then_called() -> None:
    model = ScriptedModel(
        script(Call("a", "find_tools", {"query": "count part 7"}), Call("b", "shop__part_7")), UNKNOWN
    )
    (end,) = await turn(model, [foreign(40)], "count part 7")
    assert end.reason == "done"
    first, second, third = (request.tools for request in model.asked)
    assert "shop__part_7" not in first
    assert "shop__part_7" in second
    assert second == third
    answers = [message for message in model.asked[2].messages if message.role == "tool"]
    assert "EXTERNAL_UNTRUSTED_CONTENT" in answers[0].plain_text  # a server's words about itself are a server's words
    assert "one" in answers[1].plain_text


def test_a_small_server_is_told_at_once() -> None:
    belt = toolcrib.open({}, plugins=[foreign(3)], env={}).belt(OWNER).selection
    assert "shop__part_1" in [each.name for each in Declarations(belt, UNKNOWN).choose()]
