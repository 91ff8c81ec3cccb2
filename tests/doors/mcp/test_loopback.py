"""The recorded attacks by a call, made over the MCP server: it is no way around anything."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="the package mcp is not installed")

from tests.attacks import policy

DATA = json.loads((Path(policy.__file__).parent / "data" / "policy.json").read_text())
# ways in that make another caller of who calls, or bring a tool along, which is not what a client of the MCP does
OTHERS = ("client_tool", "cron_isolated", "hook_agent", "subagent")


def calls() -> Iterator[Any]:
    for case in DATA["cases"]:
        asked = case["input"]
        if asked["op"] == "call" and case["class"] != "subagent" and asked.get("via") not in OTHERS:
            yield pytest.param({**case, "input": {**asked, "via": "mcp_loopback"}}, id=case["id"])


@pytest.mark.parametrize("case", [*calls()])
def test_a_recorded_attack_gets_no_further_over_the_mcp_server(case: dict[str, Any]) -> None:
    outcome = policy.judge(case, DATA["profiles"])
    assert outcome.ok, outcome
