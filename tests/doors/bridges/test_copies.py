"""What a bridge hands out belongs to the program that asked: changing it changes no tool."""

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("google.genai", reason="the package google-genai is not installed")

from tests.doors.bridges.world import world

from toolcrib.app import Belt
from toolcrib.doors.bridges import anthropic, genai, openai

TOOLS: dict[str, Callable[[Belt], Any]] = {
    "anthropic": anthropic.tools,
    "openai": openai.tools,
    "openai, strict": lambda belt: openai.tools(belt, strict=True),
    "responses": openai.response_tools,
    "genai": lambda belt: [each.model_dump() for each in genai.tools(belt)],
}


@pytest.mark.parametrize("bridge", TOOLS)
def test_tools_can_be_changed_without_changing_the_belt(bridge: str) -> None:
    belt = world().belt
    before = repr(TOOLS[bridge](belt))
    ruin(TOOLS[bridge](belt))
    assert repr(TOOLS[bridge](belt)) == before


def ruin(value: Any) -> None:
    """Empty every list and mapping, the innermost first."""
    for inner in list(value.values()) if isinstance(value, dict) else value:
        if isinstance(inner, (dict, list)):
            ruin(inner)
    value.clear()
