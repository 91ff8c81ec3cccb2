"""What only OpenAI's wires have: strict schemas, and no need of the package itself."""

from collections.abc import Awaitable, Callable

import pytest

pytest.importorskip("openai", reason="the package openai is not installed")

from tests.doors.bridges.wires import Asked, Heard, Told
from tests.doors.bridges.with_openai import chat, responses
from tests.doors.bridges.world import world

from toolcrib import OWNER, tool

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("converse", [chat, responses])
async def test_a_strict_tool_names_every_parameter_and_takes_null_for_one_that_is_not_given(
    converse: Callable[..., Awaitable[Heard]],
) -> None:
    here = world()
    heard = await converse(here.belt, [Asked("add", '{"a": 1, "b": null}')], strict=True)
    add = heard.offered["add"]
    assert (add["strict"], add["parameters"]["required"]) == (True, ["a", "b"])
    assert heard.told == [Told("call_1", "the sum is 2")]


@pytest.mark.parametrize("converse", [chat, responses])
async def test_a_tool_that_takes_any_names_is_not_declared_strict(converse: Callable[..., Awaitable[Heard]]) -> None:
    @tool(effects=set())
    async def label(labels: dict[str, str]) -> str:
        """Put labels on."""
        return ", ".join(sorted(labels))

    belt = world().crib.belt(OWNER, extra=[label])
    heard = await converse(belt, [Asked("label", '{"labels": {"b": "1", "a": "2"}}')], strict=True)
    assert not heard.offered["label"].get("strict")
    assert heard.offered["label"]["parameters"]["properties"]["labels"]["additionalProperties"] == {"type": "string"}
    assert heard.told == [Told("call_1", "a, b")]


async def test_without_strict_a_response_tool_says_that_it_is_not() -> None:
    heard = await responses(world().belt, [Asked("add", '{"a": 1}')])
    assert {tool["strict"] for tool in heard.offered.values()} == {False}


async def test_an_id_is_answered_as_it_was_given_however_long() -> None:
    long = "call_" + "x" * 80
    heard = await chat(world().belt, [Asked("add", '{"a": 1}', long)])
    assert [told.id for told in heard.told] == [long]
