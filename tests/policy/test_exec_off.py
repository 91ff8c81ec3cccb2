"""Where no command runs, `explain` says so, and with which setting (G4)."""

from typing import Any

import pytest

import toolcrib
from toolcrib import OWNER
from toolcrib.agent.belt import policy_snapshot
from toolcrib.agent.replay import judge_from
from toolcrib.define.caller import Caller
from toolcrib.define.message import Call

OFF: dict[str, Any] = {"exec": {"security": "deny"}}
FULL: dict[str, Any] = {"exec": {"security": "full"}}


@pytest.mark.parametrize(
    ("config", "caller", "expected"),
    [
        ({"tools": OFF}, OWNER, ("deny", "global", "deny", "tools.exec.security")),
        ({"tools": FULL}, OWNER, ("allow", None, None, None)),
        ({}, OWNER, ("allow", None, None, None)),
        (
            {"agents": {"dev": {"tools": OFF}}},
            Caller(agent="dev", owner=True),
            ("deny", "agent", "deny", "agents.dev.tools.exec.security"),
        ),
        ({"agents": {"dev": {"tools": OFF}}}, OWNER, ("allow", None, None, None)),
        # an agent's own setting stands in for everybody's, here as for the judge
        ({"tools": OFF, "agents": {"dev": {"tools": FULL}}}, Caller(agent="dev", owner=True), ("allow",)),
        ({"tools": OFF, "agents": {"dev": {"tools": {"exec": {"ask": "always"}}}}}, Caller(agent="dev"), ("deny",)),
        # and no child has what its parent lacks
        (
            {"agents": {"main": {"tools": OFF}, "dev": {"tools": FULL}}},
            Caller(agent="dev", parents=("main",)),
            ("deny",),
        ),
    ],
)
def test_the_verdict_on_exec_is_what_happens(config: Any, caller: Caller, expected: tuple[Any, ...]) -> None:
    crib = toolcrib.open(config, env={})
    verdict = crib.belt(caller).verdicts["exec"]
    assert (verdict.decision, verdict.layer, verdict.rule, verdict.origin)[: len(expected)] == expected
    judgement = crib.commands.judge(caller, "true")
    assert (verdict.decision == "deny") == (judgement.decision == "deny")


def test_the_sentence_names_the_setting_and_the_remedy() -> None:
    verdict = toolcrib.open({"tools": OFF}, env={}).belt(OWNER).verdicts["exec"]
    assert "tools.exec.security=deny" in verdict.reason
    assert "tools.exec.security" in (verdict.remedy or "")


@pytest.mark.anyio
async def test_the_model_is_not_shown_it_and_the_record_derives_it() -> None:
    crib = toolcrib.open({"tools": OFF}, env={})
    belt = crib.belt(OWNER)
    assert "exec" not in belt.tools
    result = (await belt.call_all([Call("a", "exec", {"command": "true"})]))[0]
    assert (result.details["code"], "tools.exec.security" in result.plain_text) == ("denied", True)
    assert belt.selection.grounds is not None
    told = policy_snapshot(crib.catalog, crib.loaded.policy, frozenset())
    assert told["settings"]["tools"]["exec"] == {"security": "deny"}
    verdict = belt.verdicts["exec"]
    decided = {"caller": {"owner": True}, "call": {"name": "exec"}, "verdict": None}
    assert repr(verdict.decision) in judge_from(told)(decided)
