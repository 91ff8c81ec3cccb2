"""Decisions made again: recorded grounds to a judge that says whether a recorded decision follows from them."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from typing import Any

from pydantic import TypeAdapter

from toolcrib.define.agent import COMPLETE
from toolcrib.define.caller import Caller
from toolcrib.define.verdict import Selection
from toolcrib.policy.command.judge import judge_strictest
from toolcrib.policy.command.rules import CommandRules
from toolcrib.policy.gate import PASSES
from toolcrib.policy.resolve import agent_of, mark_terminal_owner
from toolcrib.policy.settings import PolicySettings
from toolcrib.policy.taint import taint_rules
from toolcrib.registry.catalog import Catalog

from .belt import Belts, catalog_from, no_such_tool, settings_from
from .subagent import completion_verdict

_Json = Mapping[str, Any]


def judge_from(grounds: _Json) -> Callable[[_Json], str]:
    """Return what says how a recorded decision differs from the one that follows from these grounds, "" if it does not.

    Raises ValueError when they cannot be read.
    """
    if "commands" in grounds:
        return _judge_commands(grounds)
    try:
        settings = settings_from(grounds["settings"])
        belts = Belts(catalog_from(grounds["tools"]), settings, host=frozenset(grounds["host"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__}: {error}") from None

    def judge(decided: _Json) -> str:
        try:
            if "seen" in decided:
                if decided.get("by") == "argument" or "verdict" in decided:  # the second of a policy on trial
                    return _difference_by_arguments({**decided, **decided.get("verdict", {})}, belts)
                return _compare_taint(decided, settings, belts.catalog)
            caller = _caller_from(decided["caller"])
            if decided["call"]["name"] == COMPLETE and caller.parents and agent_of(caller) in settings.mandates:
                return _compare_verdicts(decided.get("verdict"), asdict(completion_verdict(agent_of(caller))))
            return _difference(decided, belts.belt_for(caller))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            return f"it cannot be read ({type(error).__name__}: {error})"

    return judge


def _difference_by_arguments(judged: _Json, belts: Belts) -> str:
    """Return how a judgement about arguments differs from what follows from the rules and what they looked at."""
    seen = judged["seen"]
    belt = belts.belt_for(_caller_from(seen["caller"]))
    tool = belts.catalog.tools[seen["tool"]]
    tool = replace(tool, paths=(*tool.paths, *seen["paths"]), urls=(*tool.urls, *seen["urls"]))
    rules = belt.rules_about and belt.rules_about(tool)
    found = rules.judge(seen["values"]) if rules else None
    derived = {name: getattr(found, name, None) for name in ("decision", "rule", "origin", "reason")}
    unlike = [name for name, value in derived.items() if judged.get(name) != value]
    return f"its {unlike[0]} is not {derived[unlike[0]]!r}" if unlike else ""


def _judge_commands(grounds: _Json) -> Callable[[_Json], str]:
    """Return what judges command lines again, by the rules and what was seen of the disk then."""
    rules = TypeAdapter(list[CommandRules]).validate_python(grounds["commands"])

    def judge(judged: _Json) -> str:
        try:
            args, seen = judged["call"]["args"], judged["seen"]
            looks = [(each, programs.get) for each, programs in zip(rules, seen["programs"], strict=True)]
            env, within, odd = args.get("env") or {}, seen["within"].get, seen["odd"].get
            accepted = seen.get("unaccepted", {}).get  # rows used to leave it out
            found = judge_strictest(args["command"], looks, within=within, odd=odd, unaccepted=accepted, env=env)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            return f"it cannot be read ({type(error).__name__}: {error})"
        decision = "allow" if found.decision == "run" else found.decision
        derived = {"decision": decision, "rule": found.rule, "origin": found.origin, "reason": found.reason}
        unlike = [name for name, value in derived.items() if judged.get(name) != value]
        return f"its {unlike[0]} is not {derived[unlike[0]]!r}" if unlike else ""

    return judge


def _compare_taint(judged: _Json, settings: PolicySettings, catalog: Catalog) -> str:
    """Say how a word about a call after outside differs from the one that follows from the source it names."""
    seen = judged["seen"]
    rules = taint_rules(settings, seen["agents"], catalog.tools, catalog.groups)
    found = rules.judge(seen["tool"], [seen["taint"]])
    written = {name: judged.get(name) for name in ("decision", "rule", "origin")}
    derived = None if found is None else {name: getattr(found[0], name) for name in written}
    return "" if derived == written else f"it is {written}, and {derived} follows"


def _difference(decided: _Json, belt: Selection) -> str:
    name, written = decided["call"]["name"], decided.get("verdict")
    if isinstance(name, str):
        verdict = belt.verdicts.get(belt.find(name) or "")
        reason = no_such_tool(name, belt.tools)
    else:  # cut: which tool it named is known from the verdict alone
        verdict = belt.verdicts.get(written["tool"]) if written else None
        reason = decided.get("reason", "")
    derived = asdict(verdict) if verdict else None
    if unlike := _compare_verdicts(written, derived):
        return unlike
    if verdict is None and decided.get("reason") != reason:
        return f"its reason is not {reason!r}"
    return ""


def _compare_verdicts(written: _Json | None, derived: _Json | None) -> str:
    if written is not None:  # as it was written while the layers were nine
        written = {**written, "reason": str(written.get("reason")).replace("passes all 9 layers", PASSES)}
    return "" if written == derived else f"it has {_describe(written)}, and {_describe(derived)} follows"


def _describe(verdict: _Json | None) -> str:
    if verdict is None:
        return "no such tool"
    return f"{verdict.get('decision')!r} for {verdict.get('tool')} ({verdict.get('reason')})"


def _caller_from(snapshot: _Json) -> Caller:
    caller = Caller.from_json(snapshot)
    # rows used to leave `owner` out, and whoever named nobody was the owner at the terminal
    return caller if "owner" in snapshot else mark_terminal_owner(caller)
