"""A small crib for policy tests: settings from a mapping, the shelf's tools, a belt for a caller."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from toolcrib.app import Crib, open
from toolcrib.define.caller import Caller
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Verdict
from toolcrib.policy.resolve import mark_terminal_owner
from toolcrib.registry.sources import Offer

Config = Mapping[str, Any]

WEATHER = Offer(
    source="plugin:weather",
    tools=(
        Tool.declared("forecast", "Tell the weather.", effects={"network"}),
        Tool.declared("radar", "Show rain.", effects={"network"}, optional=True),
    ),
)


def crib_of(config: Config) -> Crib:
    return open(config, plugins=[WEATHER], env={})


def unbounded(config: Config) -> Config:
    """Return a configuration for a test about layers: guests have whatever its rules leave them."""
    return {**config, "tools": {"guests": "full", **config.get("tools", {})}}


def verdict_of(config: Config, tool: str, caller: Caller | None = None) -> Verdict:
    return crib_of(unbounded(config)).belt(mark_terminal_owner(caller or Caller())).verdicts[tool]


@pytest.fixture
def has() -> Callable[..., bool]:
    """Tell whether a caller's belt has a tool under a configuration."""

    def ask(config: Config, tool: str, **caller: Any) -> bool:
        return tool in crib_of(unbounded(config)).belt(mark_terminal_owner(Caller(**caller))).tools

    return ask
