"""openclaw-exec-allowlist: our judge asked what theirs was; a pattern is an entry of `allow`, a safe bin one of ours.

A case brings its own programs, which are the only ones there are. Skills, whose programs theirs permits by
name, are entries of `allow` here.
"""

from collections.abc import Mapping
from typing import Any

from toolcrib.config.settings import ExecSettings
from toolcrib.policy.command import CommandRules, Judgement, judge, judge_argv, look_up_in, rules_from
from toolcrib.policy.command.rules import is_asked, matches_program, stricter_ask, stricter_security

from .load import Case

Json = dict[str, Any]

SAFE = ("jq", "grep", "cut", "sort", "uniq", "head", "tail", "tr", "wc")
ROOT = "/recorded"  # what {ROOT} stands for: nothing is looked up on this machine
FOLDERS = ("bin", "opt/tools", "opt/tools/sub", "opt")


def permitted(args: Json) -> bool:
    """Return whether the lists permit a line."""
    return _judged(args, _rules(args)).decision == "run"


def analysed(args: Json) -> Json:
    """Return whether a line can be read, and its commands."""
    found = _judged(args, _rules({}))
    return {"ok": not found.doubt and bool(found.commands), "segments": _argvs(found)}


def analysed_argv(args: Json) -> Json:
    """Return the same for words that no shell reads."""
    found = judge_argv(args["argv"], _rules({}), look_up_in(FOLDERS))
    return {"ok": bool(found.commands), "segments": _argvs(found)}


def matched(args: Json) -> Json | None:
    """Return the first pattern that a program's path matches."""
    path = args["resolution"].get("resolvedPath")
    if path is None:
        return None
    return next(
        (
            entry
            for entry in args["entries"]
            if matches_program(entry["pattern"], path, path) and "/" in entry["pattern"]
        ),
        None,
    )


def resolved(args: Json) -> Json:
    """Return what holds for an agent: everybody's settings, and its own over them."""
    agents: dict[str, Json] = dict(args["file"].get("agents", {}))
    if "default" in agents:
        agents["main"] = _with_legacy(agents.get("main", {}), agents.pop("default"))
    everybody = _settings_over(None, {**args.get("overrides", {}), **args["file"].get("defaults", {})})
    rules = _settings_over(everybody, agents.get("*", {}))
    rules = _settings_over(rules, agents.get(args.get("agentId", "main"), {}))
    return {
        "defaults": {"security": everybody.security, "ask": everybody.ask},
        "agent": {"security": rules.security, "ask": rules.ask},
        "allowlist": [entry.words[0] for each in rules.allow.values() for entry in each],
    }


def _with_legacy(own: Json, legacy: Json) -> Json:
    """Return the main agent's settings with those under its old name."""
    listed = own.get("allowlist", [])
    known = {entry["pattern"].lower() for entry in listed}
    more = [entry for entry in legacy.get("allowlist", []) if entry["pattern"].lower() not in known]
    return {**legacy, **own, "allowlist": [*listed, *more]}


def _settings_over(rules: CommandRules | None, said: Json) -> CommandRules:
    """Return settings over those of everybody; what an agent allows is added to what everybody is."""
    allow = [[entry["pattern"]] for entry in said.get("allowlist", ())]
    before = [list(entry.words) for each in (rules.allow.values() if rules else ()) for entry in each]
    named: Json = {key: said[key] for key in ("security", "ask") if key in said}
    named = named if rules else {"security": "deny", **named}
    section: Json = {**named, "allow": [*before, *allow]}
    return rules_from(ExecSettings.model_validate(section, by_alias=True, by_name=False), over=rules)


def _rules(args: Json) -> CommandRules:
    skills = args.get("skillBins", ()) if args.get("autoAllowSkills") else ()
    patterns = [entry["pattern"].replace("{ROOT}", ROOT) for entry in args.get("allowlist", ())]
    section = {
        "allow": [[entry] for entry in (*(each for each in patterns if "/" in each), *skills)],
        "safeBins": list(args.get("safeBins", SAFE)),
        "readOnly": [],  # these lists are all that is permitted
        "trustedDirs": [f"{ROOT}/{folder}" for folder in FOLDERS],
    }
    return rules_from(ExecSettings.model_validate(section, by_alias=True, by_name=False))


def _judged(args: Json, rules: CommandRules) -> Judgement:
    there = {
        f"{ROOT}/{path}" for path, held in args.get("files", {}).items() if isinstance(held, Mapping) and "exec" in held
    }
    look_up = look_up_in(rules.trusted, there.__contains__)
    return judge(args["command"].replace("{ROOT}", ROOT), rules, look_up)


def _argvs(found: Judgement) -> list[list[str]]:
    if found.doubt:
        return []
    return [[(word or "").replace(ROOT, "{ROOT}") for word in command.argv] for command in found.commands]


def same_permission(case: Case, ours: Any) -> str:
    """Compare the answer and, where both permit the line, the words that would run."""
    theirs = case.expected["result"]
    if ours != theirs["allowlistSatisfied"]:
        return "one of us permits it"
    words = [segment["argv"] for segment in theirs["segments"]]
    return "" if not ours or _argvs(_judged(case.args, _rules(case.args))) == words else "the words differ"


def same_reading(case: Case, ours: Any) -> str:
    """Compare what was read; how a program was found is theirs."""
    theirs = case.expected["result"]
    wanted = {"ok": theirs["ok"], "segments": [segment["argv"] for segment in theirs["segments"]]}
    return "" if ours == wanted else f"theirs is {wanted}"


def same_settings(case: Case, ours: Any) -> str:
    """Compare what we have a word for: security, ask and the patterns."""
    theirs = case.expected["result"]
    levels = {level: {key: theirs[level][key] for key in ("security", "ask")} for level in ("defaults", "agent")}
    wanted = {**levels, "allowlist": [entry["pattern"] for entry in theirs["allowlist"]]}
    return "" if ours == wanted else f"theirs is {wanted}"


ADAPTERS = {
    "evaluateShellAllowlist": permitted,
    "analyzeShellCommand": analysed,
    "analyzeArgvCommand": analysed_argv,
    "matchAllowlist": matched,
    "resolveExecApprovalsFromFile": resolved,
    "requiresExecApproval": lambda args: is_asked(
        args["security"], args["ask"], permitted=args["analysisOk"] and args["allowlistSatisfied"]
    ),
    "minSecurity": lambda args: stricter_security(args["a"], args["b"]),
    "maxAsk": lambda args: stricter_ask(args["a"], args["b"]),
}
SAME = {
    "evaluateShellAllowlist": same_permission,
    "analyzeShellCommand": same_reading,
    "analyzeArgvCommand": same_reading,
    "resolveExecApprovalsFromFile": same_settings,
}
