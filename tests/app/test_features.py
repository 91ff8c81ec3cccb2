"""A feature is one module that mounts itself: services, a guard, tools that come and go, a start and a close."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from toolcrib import Caller, CribError, Ctx, Tool, tool
from toolcrib.app import Crib, Given, build
from toolcrib.app.features import FEATURES, TURN_FEATURES
from toolcrib.config.load import load
from toolcrib.define.plugin import Block, Hook, Word
from toolcrib.define.ports import rpc
from toolcrib.services.approvals import Approvals
from toolcrib.services.feature import Core, Feature, Mount

pytestmark = pytest.mark.anyio

OWNER = Caller(owner=True)


@tool(effects=set())
async def ring(ctx: Ctx, times: int = 1) -> str:
    """Ring the bell."""
    answer: str = await ctx.rpc("bell.ring", {"times": times})
    return answer


@dataclass
class Bell:
    """A service that writes down what happens to it; its tool is there as long as it hangs."""

    name: str = "bell"
    story: list[str] = field(default_factory=list)
    fails: bool = False
    hangs: bool = True
    listeners: list[Callable[[], None]] = field(default_factory=list)

    @rpc("bell.ring", clients="write", why="own")
    async def ring(self, times: int) -> str:
        return "ding " * times

    async def start(self) -> None:
        self.story.append(f"{self.name} starts")
        if self.fails:
            raise CribError(f"{self.name} is cracked")

    async def close(self) -> None:
        self.story.append(f"{self.name} closes")

    def tools(self) -> Iterable[Tool]:
        return (ring,) if self.hangs else ()

    def problems(self) -> Iterable[tuple[str, str]]:
        return () if self.hangs else [("bell", "the bell was taken down")]

    def on_change(self, listener: Callable[[], None], /) -> Callable[[], None]:
        self.listeners.append(listener)
        return lambda: self.listeners.remove(listener)

    def take_down(self) -> None:
        self.hangs = False
        for listener in self.listeners:
            listener()


async def be_quiet(ctx: Ctx, args: Mapping[str, Any]) -> Word:
    return Block("it is late") if args["times"] > 3 else None


def crib_with(*mounts: Mount) -> Crib:
    return build(load({}, {}), Given(env={}), (*FEATURES, *mounts))


def whole(bell: Bell) -> Mount:
    guard = Hook(run=be_quiet, name="the neighbours", tools=frozenset({"ring"}))
    return lambda core: Feature(services=(bell,), guards=(guard,), tools=bell, start=bell.start, close=bell.close)


def only_lives(bell: Bell) -> Mount:
    return lambda core: Feature(start=bell.start, close=bell.close)


async def test_a_feature_brings_services_a_guard_and_tools() -> None:
    async with crib_with(whole(Bell())) as crib:
        belt = crib.belt(OWNER)
        assert "ding ding " in str(await belt.call("ring", {"times": 2}))
        assert "it is late" in str(await belt.call("ring", {"times": 4}))
        assert await crib.ask("bell.ring", {"times": 1}, caller=OWNER) == "ding "


async def test_tools_go_and_what_is_wrong_is_told_while_a_belt_stays_as_it_was() -> None:
    bell = Bell()
    async with crib_with(whole(bell)) as crib:
        before = crib.belt(OWNER)
        bell.take_down()
        assert ("ring" in before.tools, "ring" in crib.belt(OWNER).tools) == (True, False)
        assert crib.catalog.problems[-1].sentence == "the bell was taken down"


async def test_a_tool_that_has_a_name_of_somebody_else_is_left_out_and_told() -> None:
    async with crib_with(whole(Bell()), lambda core: Feature(tools=OtherBell())) as crib:
        assert crib.catalog["ring"] is ring
        assert "offers a tool 'ring', which" in crib.catalog.problems[-1].sentence


class OtherBell(Bell):
    """Another bell, whose tool has the same name."""

    def tools(self) -> Iterable[Tool]:
        @tool(name="ring", effects=set())
        async def other() -> str:
            """Ring another bell."""
            return "dong"

        return (other,)


async def test_features_start_in_their_order_and_close_in_the_reverse_of_it() -> None:
    story: list[str] = []
    async with crib_with(*(only_lives(Bell(name, story)) for name in ("low", "high"))):
        assert story == ["low starts", "high starts"]
    assert story == ["low starts", "high starts", "high closes", "low closes"]


async def test_one_that_cannot_start_closes_what_had_started() -> None:
    story: list[str] = []
    crib = crib_with(only_lives(Bell("low", story)), only_lives(Bell("high", story, fails=True)))
    with pytest.raises(CribError, match="high is cracked"):
        await crib.__aenter__()
    assert story == ["low starts", "high starts", "high closes", "low closes"]


async def test_one_that_fails_to_close_keeps_no_other_from_closing() -> None:
    story: list[str] = []

    async def fail() -> None:
        raise CribError("stuck")

    crib = crib_with(only_lives(Bell("low", story)), lambda core: Feature(close=fail))
    with pytest.raises(CribError, match="stuck"):
        await crib.close()
    assert story == ["low closes"]


def test_a_feature_finds_the_services_of_those_before_it_only() -> None:
    found: list[object] = []

    def late(core: Core) -> Feature:
        found.append(core.find(Approvals))
        core.find(Bell)
        return Feature()

    with pytest.raises(CribError, match="no feature before this one has mounted Bell; move it up in FEATURES"):
        crib_with(late, whole(Bell()))
    assert isinstance(found[0], Approvals)


async def test_what_starts_turns_is_closed_before_what_calls_stand_on() -> None:
    story: list[str] = []
    below, behind = only_lives(Bell("below", story)), only_lives(Bell("behind", story))
    crib = build(load({}, {}), Given(env={}), (*FEATURES, below), (*TURN_FEATURES, behind))
    async with crib:
        assert story == ["below starts", "behind starts"]
    assert story[2:] == ["behind closes", "below closes"]


def test_a_guard_that_would_come_too_late_is_refused() -> None:
    with pytest.raises(CribError, match="brings no guards"):
        build(load({}, {}), Given(env={}), FEATURES, (*TURN_FEATURES, whole(Bell())))
