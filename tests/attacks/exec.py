"""attacks/exec: what the judge of command lines decides, under the rules that the case's profile describes.

What became of a command that ran (its output, the files it left) is for `executed`, once commands are run.
"""

from typing import Any

from toolcrib.config.settings import ExecSettings
from toolcrib.policy.command import Judgement, Rules, judge_argv, look_up_in, rules_from
from toolcrib.policy.command import judge as judge_line

from . import LATER, Outcome, alternatives, broken, kept

Json = dict[str, Any]

_DECISIONS = {"run": "allow", "ask": "ask", "deny": "deny"}


def judge(case: Json, profiles: Json) -> Outcome:
    """Judge the case's command and compare the decision with what must be."""
    profile = _profile(profiles, case["setup"]["profile"])
    if case["kind"] == "benign" and case["setup"].get("approvals"):
        return LATER  # runs because somebody said so
    found = decided(case, profile["policy"])
    decision = _DECISIONS[found.decision]
    if not any(_is_met(must.get("decision"), decision) for must in alternatives(case["must"])):
        return broken(f"{decision}: {found.reason}", {"decision": decision})
    why = executed(case, profile, found)
    return broken(why, {"decision": decision}) if why else kept({"decision": decision})


def decided(case: Json, policy: Json) -> Judgement:
    """Return the judgement on the case's command."""
    asked = case["input"]
    rules, look_up = rules_of(policy), look_up_in(policy["trusted_bin_dirs"])
    env = asked.get("env") or {}
    if "argv" in asked:
        return judge_argv(asked["argv"], rules, look_up, env=env)
    return judge_line(asked["command"], rules, look_up, env=env)


def executed(case: Json, profile: Json, found: Judgement) -> str:
    """Return what is wrong about what a command did, "" when nothing is: the hook for running what may run."""
    return ""


def rules_of(policy: Json) -> Rules:
    """Return the rules that a profile describes in its own words."""
    section = {
        "ask": {"ask": "on-miss", "deny": "off"}[policy["default"]],
        "allow": policy.get("allow_prefix", []),
        "allowExact": policy.get("allow_exact", []),
        "readOnly": policy.get("read_only", []),
        "safeBins": policy.get("safe_bins", []),
        "deny": policy.get("deny_prefix", []),
        "trustedDirs": policy["trusted_bin_dirs"],
    }
    return rules_from(ExecSettings.model_validate(section, by_alias=True, by_name=False))


def _profile(profiles: Json, name: str) -> Json:
    own: Json = profiles[name]
    if "extends" not in own:
        return own
    below = _profile(profiles, own["extends"])
    return {**below, **own, "policy": {**below["policy"], **own.get("policy", {}), **own.get("policy_override", {})}}


def _is_met(must: str | None, decision: str) -> bool:
    return must is None or must == decision or (must == "not_allow" and decision != "allow")
