"""One provider is asked, as long as the settings name it; what it said is said again for a quarter of an hour."""

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from toolcrib.config.services import SearchSettings
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ArgumentError, ToolError
from toolcrib.define.ports import Rpc
from toolcrib.define.web import WebQuery
from toolcrib.services.router import Router
from toolcrib.services.search import WebSearches

pytestmark = pytest.mark.anyio

ROW = {"title": "Nuts", "url": "https://nuts.test/", "description": "They grow."}


class Echo:
    """A provider that remembers what it was asked."""

    name = "echo"

    def __init__(self, *, is_cacheable: bool = True) -> None:
        self.asked: list[WebQuery] = []
        self.is_cacheable = is_cacheable

    async def search(self, query: WebQuery, /) -> dict[str, Any]:
        self.asked.append(query)
        return {"results": [ROW] * query.count}


class World:
    """Searches over a provider, settings that may change, and a clock."""

    def __init__(self, provider: Any = None) -> None:
        self.settings, self.provider, self.time, self.made = SearchSettings(), provider or Echo(), 0.0, 0
        service = WebSearches(lambda: self.settings, {"A": "b"}, self.make, lambda: self.time)
        self.rpc: Rpc = Router([service]).rpc_for(Caller())

    def make(self, settings: SearchSettings, env: Mapping[str, str]) -> Any:
        assert env == {"A": "b"}
        self.made += 1
        return self.provider

    async def ask(self, query: str = "nuts", **more: Any) -> Any:
        return await self.rpc("web.search", {"query": query, **more})


async def test_what_was_found_is_told_with_who_found_it_and_how_long_it_took() -> None:
    world = World()
    assert await world.ask(" Nuts ", count=1) == {
        "sources": ["web_search:echo"], "query": "Nuts", "provider": "echo", "count": 1, "tookMs": 0, "results": [ROW],
    }  # fmt: skip
    assert world.provider.asked == [WebQuery(words="Nuts", count=1)]


async def test_the_number_of_results_is_five_or_what_the_settings_say_and_never_more_than_ten() -> None:
    world = World()
    assert (await world.ask())["count"] == 5
    for most, count in ((3, 3), (100, 10)):
        world.settings = SearchSettings(max_results=most)
        assert (await world.ask())["count"] == count
    for bad in (0, 11, -1, "many"):
        with pytest.raises(ArgumentError):
            await world.ask(count=bad)


async def test_an_answer_is_given_again_for_a_quarter_of_an_hour_and_to_the_same_question_alone() -> None:
    world = World()
    first = await world.ask()
    world.time = 899
    assert await world.ask(" nuts", freshness=" ") == {**first, "cached": True}
    for more in ({"count": 4}, {"country": "DE"}, {"search_lang": "de"}, {"ui_lang": "de-DE"}, {"freshness": "pd"}):
        assert "cached" not in await world.ask(**more), more
    assert "cached" not in await world.ask("Nuts")
    world.time = 900
    assert "cached" not in await world.ask()


async def test_a_hundred_answers_are_kept() -> None:
    world = World()
    for number in range(101):
        await world.ask(str(number))
    assert (await world.ask("1"))["cached"]
    assert "cached" not in await world.ask("0")


async def test_other_settings_make_another_provider_which_does_not_say_what_the_last_one_said() -> None:
    world = World()
    await world.ask()
    await world.ask("bolts")
    assert world.made == 1
    world.settings = SearchSettings(provider="grok")
    assert "cached" not in await world.ask()
    assert world.made == 2
    world.settings = SearchSettings(enabled=False)
    with pytest.raises(ToolError, match=r"web\.search\.enabled is false"):
        await world.ask()


async def test_what_changes_by_itself_is_not_kept() -> None:
    world = World(Echo(is_cacheable=False))
    await world.ask()
    assert "cached" not in await world.ask()


async def test_an_answer_that_comes_after_the_settings_changed_is_not_kept() -> None:
    class Slow(Echo):
        async def search(self, query: WebQuery, /) -> dict[str, Any]:
            world.settings = SearchSettings(provider="brave")
            world.provider = Echo()
            await world.ask("bolts")
            return await super().search(query)

    world = World(Slow())
    await world.ask("nuts")
    assert "cached" not in await world.ask("nuts")


async def test_a_failure_is_told_as_it_is_and_not_kept() -> None:
    class Failing(Echo):
        async def search(self, query: WebQuery, /) -> dict[str, Any]:
            if not self.asked:
                self.asked.append(query)
                raise ToolError("echo answered 500", source="web_search:echo")
            return await super().search(query)

    world = World(Failing())
    with pytest.raises(ToolError, match="echo answered 500"):
        await world.ask()
    assert "cached" not in await world.ask()


async def test_a_provider_that_is_slow_is_told_so() -> None:
    class Silent(Echo):
        async def search(self, query: WebQuery, /) -> dict[str, Any]:
            raise TimeoutError

    with pytest.raises(ToolError, match="echo did not answer within 30 seconds") as caught:
        await World(Silent()).ask()
    assert caught.value.code == "timeout"


async def test_a_search_that_is_cancelled_ends() -> None:
    class Endless(Echo):
        async def search(self, query: WebQuery, /) -> dict[str, Any]:
            begun.set()
            await asyncio.Event().wait()
            return {}

    begun = asyncio.Event()
    task = asyncio.ensure_future(World(Endless()).ask())
    await asyncio.wait_for(begun.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "freshness", ["yesterday", "2026-02-01to2026-01-01", "2026-02-30to2026-03-01", "pd pw", "p\nd"]
)
async def test_a_freshness_that_says_nothing_is_refused_before_anybody_is_asked(freshness: str) -> None:
    world = World()
    with pytest.raises(ToolError, match="is neither pd, pw, pm or py nor like 2026-01-01to2026-01-31") as caught:
        await world.ask(freshness=freshness)
    assert (caught.value.code, world.provider.asked) == ("invalid_freshness", [])


@pytest.mark.parametrize("query", ["", "  \n", "x" * 4_001, "nuts \ud83d"])
async def test_a_query_that_is_none_is_refused(query: str) -> None:
    with pytest.raises(ToolError):
        await World().ask(query)
