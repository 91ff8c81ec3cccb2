"""A crib is asked for what its services do by name, as a distant client would; what a caller may ask depends on it."""

from pathlib import Path
from typing import Any

import pytest

import toolcrib
from toolcrib import Caller, ToolError
from toolcrib.define.ports import rpc

pytestmark = pytest.mark.anyio

OWNER = Caller(owner=True)
GUEST = Caller(channel="telegram", owner=False)


class Bell:
    """A service of a program."""

    @rpc("bell.ring", clients="write", why="own")
    async def ring(self, caller: Caller, times: int = 1) -> dict[str, Any]:
        return {"rung": times, "channel": caller.channel}

    @rpc("bell.melt", clients="admin")
    async def melt(self) -> str:
        return "molten"


async def test_a_service_is_asked_by_name_as_a_caller() -> None:
    crib = toolcrib.open({}, services=[Bell()])
    assert await crib.ask("bell.ring", {"times": 3}, caller=GUEST) == {"rung": 3, "channel": "telegram"}
    assert await crib.ask("bell.melt", caller=OWNER) == "molten"
    with pytest.raises(ToolError, match=r"no method 'bell\.rign'; did you mean 'bell\.ring'\?"):
        await crib.ask("bell.rign", caller=OWNER)


@pytest.mark.parametrize("caller", [GUEST, Caller(owner=True, parents=("agent:main:main",))])
async def test_neither_a_guest_nor_a_subagent_of_the_owner_administrates(caller: Caller) -> None:
    crib = toolcrib.open({}, services=[Bell()])
    with pytest.raises(ToolError, match="needs the scope 'admin'"):
        await crib.ask("bell.melt", caller=caller)


async def test_the_record_and_the_agents_are_asked_for_like_anything_else(tmp_path: Path) -> None:
    crib = toolcrib.open({}, state=tmp_path)
    assert (await crib.ask("audit.verify", caller=OWNER))["rows"] == 0
    found = await crib.ask("agents.registered", caller=OWNER)
    assert "generalist" in [agent["name"] for agent in found["agents"]]
    shown = await crib.ask("agents.show", {"name": "generalist"}, caller=OWNER)
    assert shown["prompt"]
    with pytest.raises(ToolError, match="there is no agent 'generalists'; did you mean 'generalist'"):
        await crib.ask("agents.show", {"name": "generalists"}, caller=OWNER)
    await crib.close()
