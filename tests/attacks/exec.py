"""attacks/exec: what the judge decides under the rules of the case's profile, and what becomes of it on the whole path.

Every line goes through `exec` as a model's call would, in a copy of the profile's tree; a human says yes to just what
the case says was approved.
"""

import asyncio
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from multiprocessing.util import Finalize
from pathlib import Path
from typing import Any

import orjson

from tests.commands import belt_in, said
from tests.memory_stores import MemoryApprovals
from tests.services.approval_world import Clock, Door
from toolcrib.config.settings import ExecSettings
from toolcrib.define.approval import sheet
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.result import Result
from toolcrib.policy.command import CommandRules, Judgement, judge_argv, look_up_in, rules_from
from toolcrib.policy.command import judge as judge_line
from toolcrib.services.approvals import Approvals, ApprovalTerms

from . import Outcome, alternatives, broken, kept

Json = dict[str, Any]

_DECISIONS = {"run": "allow", "ask": "ask", "deny": "deny"}


def judge(case: Json, profiles: Json) -> Outcome:
    """Judge the case's command, run what may run, and compare both with what must be."""
    if "resolve" in case["input"]:
        return _resolved(case)
    profile = _overridden(profile_of(profiles, case["setup"]["profile"]), case["setup"].get("policy_override", {}))
    found = decided(case, profile["policy"])
    decision = _DECISIONS[found.decision]
    is_approved = case["kind"] == "benign" and case["setup"].get("approvals")
    if not is_approved and not any(_is_met(must.get("decision"), decision) for must in alternatives(case["must"])):
        return broken(f"{decision}: {found.reason}", {"decision": decision})
    why = executed(case, profile)
    return broken(why, {"decision": decision}) if why else kept({"decision": decision})


def decided(case: Json, policy: Json) -> Judgement:
    """Return the judgement on the case's command."""
    asked = case["input"]
    rules, look_up = rules_of(policy), look_up_in(policy["trusted_bin_dirs"])
    env = asked.get("env") or {}
    if "argv" in asked:
        return judge_argv(asked["argv"], rules, look_up, env=env)
    return judge_line(asked["command"], rules, look_up, env=env)


def executed(case: Json, profile: Json) -> str:
    """Return what is wrong about what came of the command, "" when nothing is."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(template(profile), folder, dirs_exist_ok=True, symlinks=True)
        root = Path(folder)
        _plant(root, case["setup"].get("tree_extra", ()))
        human = _Human(case["setup"], root)
        result = asyncio.run(_called(case, profile["policy"], root, human))
        complaints = [
            _harm(must, result, root / "ws") or _misshown(must, human.shown) for must in alternatives(case["must"])
        ]
    return "" if "" in complaints else complaints[0]


async def _called(case: Json, policy: Json, root: Path, human: "_Human") -> Result:
    """Make the call with all that the model wrote, also what is no parameter; a list of words is given as a line."""
    asked = dict(case["input"])
    if "argv" in asked:
        asked["command"] = shlex.join(asked.pop("argv"))
    async with belt_in(root / "ws", {"host": "host", **_section(policy)}, approver=human) as belt:
        return await belt.call("exec", asked)


class _Human:
    """Says yes to the commands that the case says were approved; what is to change afterwards changes then."""

    def __init__(self, setup: Json, root: Path) -> None:
        self._setup, self._root = setup, root
        self.shown = ""

    async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str], /) -> bool:
        self.shown += sheet(caller, call, reason, binding)  # the same on every surface, setup.approver_ui or another
        for given in self._setup.get("approvals", ()):
            if given["command"] == call.args["command"] and given.get("env", {}) == (call.args.get("env") or {}):
                _plant(self._root, self._setup.get("mutate_before_run", ()))
                return True
        return False


def _harm(must: Mapping[str, Any], result: Result, workspace: Path) -> str:
    """Say what must not be and is, or must be and is not."""
    oracle, words = must.get("oracle", {}), said(result)
    there = [name for name in oracle.get("no_file", ()) if (workspace / name).exists()]
    told = [text for text in oracle.get("no_output", ()) if text in words]
    if there or told:
        return f"{there or told} is there"
    branches = subprocess.run(["git", "branch", "--list"], cwd=workspace, capture_output=True, text=True).stdout.split()
    made = [name for name in oracle.get("no_git_branch", ()) if name in branches]
    gone = [name for name in oracle.get("must_exist", ()) if not os.path.lexists(workspace / name)]
    if made or gone:
        return f"the branches {made} are there" if made else f"{gone} is not there"
    for name, content in oracle.get("file_equals", {}).items():
        if not (workspace / name).is_file() or (workspace / name).read_bytes() != content.encode():
            return f"{name} does not hold what it must"
    if must.get("decision") == "allow" and result.details.get("code") in ("not_approved", "blocked", "bad_arguments"):
        return f"did not run: {words}"
    missing = must.get("output_has", "")
    return f"does not print {missing!r} but {words[:200]!r}" if missing not in words else ""


def _misshown(must: Mapping[str, Any], shown: str) -> str:
    """Say what a human was shown and must not be, or was not shown and must be."""
    if must.get("prompt_shows", "") not in shown:
        return f"{must['prompt_shows']!r} is not shown: {shown[:200]!r}"
    there = [each for each in must.get("prompt_has_no", ()) if each in shown]
    return f"{there} is shown" if there else ""


def _resolved(case: Json) -> Outcome:
    """Let somebody answer a question that has waited, and see whether the answer counts and the call may run."""
    resolved, may_run = asyncio.run(_answered(case["setup"]["pending"], case["input"]["resolve"]))
    seen = {"resolved": resolved, "ran": may_run}
    must, yes = case["must"], case["input"]["resolve"]["decision"] != "deny"
    if resolved != must.get("resolved", resolved):
        return broken(f"resolved is {resolved}", seen)
    return broken("what may run is not what was answered", seen) if may_run != (resolved and yes) else kept(seen)


async def _answered(pending: Json, resolve: Json) -> tuple[bool, bool]:
    clock = Clock()
    approvals = Approvals(
        MemoryApprovals(),
        is_owner=lambda caller: caller.sender is not None and caller.sender.id in pending["approvers"],
        can_lend=lambda *_: "only once",
        terms=ApprovalTerms(seconds=pending.get("timeout_s", 300)),
        now=clock.now,
        pause=clock.pause,
    )
    door = Door(approvals)
    call = Call("call_1", "exec", {"command": pending["command"]}, "key_1")
    asked = asyncio.ensure_future(approvals.approve(Caller(session="agent:main:main"), call, "it is not listed", {}))
    question = await door.question()
    clock.pass_(pending.get("age_s", 0))
    try:
        await approvals.answer(
            Caller(channel="telegram", sender=Sender(id=resolve["by"])),
            question.id if resolve["id"] == pending["id"] else resolve["id"],
            "no" if resolve["decision"] == "deny" else "once",
        )
        resolved = True
    except ToolError:
        resolved = False
    if not resolved:
        clock.pass_(pending.get("timeout_s", 300) + 1)  # who is still waiting then has waited long enough
    (told,) = await asyncio.gather(asked, return_exceptions=True)
    return resolved, told is True


def template(profile: Json) -> Path:
    """Return a folder with a profile's tree, made once and to be copied."""
    return Path(_template(orjson.dumps(profile)).name)


@cache
def _template(profile: bytes) -> "tempfile.TemporaryDirectory[str]":
    described = orjson.loads(profile)
    folder = tempfile.TemporaryDirectory(prefix="toolcrib-attacks-")
    Finalize(folder, folder.cleanup, exitpriority=1)  # workers of a pool leave without the usual farewells
    _plant(Path(folder.name), described["tree"])
    if described.get("git_repo_with_one_commit"):
        who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
        for args in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "one"]):
            subprocess.run(["git", *who, *args], cwd=f"{folder.name}/ws", check=True, capture_output=True)
    return folder


def _plant(root: Path, tree: Any) -> None:
    for entry in tree:
        path = root / entry["path"]
        if entry.get("type") == "dir":
            path.mkdir(parents=True, exist_ok=True)
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(entry["content"])
        if "mode" in entry:
            path.chmod(int(entry["mode"], 8))


def rules_of(policy: Json) -> CommandRules:
    """Return the rules that a profile describes in its own words."""
    return rules_from(ExecSettings.model_validate(_section(policy), by_alias=True, by_name=False))


def _section(policy: Json) -> Json:
    return {
        "ask": {"ask": "on-miss", "deny": "off"}[policy["default"]],
        "allow": policy.get("allow_prefix", []),
        "allowExact": policy.get("allow_exact", []),
        "readOnly": policy.get("read_only", []),
        "safeBins": policy.get("safe_bins", []),
        "deny": policy.get("deny_prefix", []),
        "trustedDirs": policy["trusted_bin_dirs"],
    }


def _overridden(profile: Json, more: Json) -> Json:
    return {**profile, "policy": {**profile["policy"], **more}}


def profile_of(profiles: Json, name: str) -> Json:
    own: Json = profiles[name]
    if "extends" not in own:
        return own
    below = profile_of(profiles, own["extends"])
    return {**below, **own, "policy": {**below["policy"], **own.get("policy", {}), **own.get("policy_override", {})}}


def _is_met(must: str | None, decision: str) -> bool:
    return must is None or must == decision or (must == "not_allow" and decision != "allow")
