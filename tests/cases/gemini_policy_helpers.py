"""gemini-policy-helpers: their patterns as entries for the judge, their JSON as what an approval is bound to, their
regular expressions and files of rules as our configuration.
"""

import json
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolcrib.config.load import Loaded, load
from toolcrib.config.parse import parse_document
from toolcrib.define.approval import digest_of
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ConfigError, ToolError
from toolcrib.define.message import Call
from toolcrib.define.tool import Tool
from toolcrib.policy.command import judge, look_up_in, rules_from
from toolcrib.policy.lint import lint
from toolcrib.registry.catalog import groups_of

from .gemini_rules import SHELL, entry_about, prefix_of, words_of
from .load import Case
from .outcome import Refused, Same, Theirs, compare, is_same

Json = dict[str, Any]

# Their tools, so that a name which is none of them is told.
_TOOLS = {
    name: Tool.declared(name, name)
    for name in (
        "glob", "google_web_search", "grep_search", "list_directory", "read_file", "read_many_files", "replace", SHELL,
        "save_memory", "web_fetch", "write_file", "write_todos",
    )
}  # fmt: skip
_LISTS = {"allow": "alsoAllow", "ask_user": "ask", "deny": "deny"}
_PLUGIN, _WORKSPACE = 2, 3  # tiers: who brought a file


# Patterns for commands


def _patterns(args: Json) -> list[Any]:
    """Return what each prefix permits of three commands: itself, with a word more, and with a longer last word."""
    others = {key: args[key] for key in ("argsPattern", "commandRegex") if args.get(key) is not None}
    entries = [words_of(prefix) or [] for prefix in _prefixes(args)]
    rules = [
        rules_from(load({"tools": {"exec": {"allow": [entry], **others}}}, {}).config.tools.exec) for entry in entries
    ]
    if not rules:
        load({"tools": {"exec": others}}, {})
        return [] if args.get("commandPrefix") == [] else [None]
    look_up = look_up_in(("/usr/bin",))
    return [
        [judge(line, each, look_up).decision == "run" for line in _probes(prefix)]
        for prefix, each in zip(_prefixes(args), rules, strict=True)
    ]


def _prefixes(args: Json) -> list[str]:
    given = args.get("commandPrefix") or []
    return [given] if isinstance(given, str) else list(given)


def _probes(prefix: str) -> list[str]:
    return [prefix, f"{prefix} more", f"{prefix}more"]


def _their_patterns(case: Case) -> list[Any]:
    """Return what each recorded pattern finds in the same commands, written as theirs are."""
    return [
        None if pattern is None else [_finds(pattern, line) for line in _probes(prefix)]
        for pattern, prefix in zip(case.expected, _prefixes(case.args) or [""], strict=False)
    ]


def _finds(pattern: str, line: str) -> bool:
    command = json.dumps(line, ensure_ascii=False)
    return re.search(pattern, f'{{\0"command":{command}\0}}') is not None


# One way to write arguments


def _bound(args: Json) -> str:
    """Return what an approval of a call with this argument is bound to, the names in it in another order."""
    return _digest(_turned(args["value"]))


def _digest(value: Any) -> str:
    return digest_of(Caller(), Call("1", "t", {"value": value}), {})


def _turned(value: Any) -> Any:
    if isinstance(value, list):
        return [_turned(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {name: _turned(value[name]) for name in reversed(value)}


def _same_digest(case: Case, ours: Any) -> str:
    """Compare with what the value is bound to that their text says, without their marks around the outer names."""
    if isinstance(ours, Refused):
        return compare(case, ours)
    theirs = json.loads(case.expected.replace("\0", ""))
    if ours == _digest([theirs]):
        return "a list of the value is bound to the same"
    return "" if ours == _digest(theirs) else "another value is bound"


# Regular expressions


def _accepted(args: Json) -> bool:
    given = args["pattern"]
    pattern = given["repeat"] * given["times"] if isinstance(given, dict) else given
    try:
        load({"logging": {"redactPatterns": [pattern]}}, {})
    except ConfigError:
        return False
    return True


# Files of rules


def _loaded(args: Json) -> Json:
    """Return the rules that hold after a file was brought by whom the tier names, and what was complained about."""
    if args["tier"] == _PLUGIN:
        raise ToolError("a plugin brings tools, agents and hooks, and no rules")
    try:
        loaded = _from_workspace(args["toml"]) if args["tier"] == _WORKSPACE else load(_config(args["toml"]), {})
    except ConfigError:
        return {"rules": [], "checkers": 0, "errors": ["error"]}
    found = lint(loaded.policy, _TOOLS, groups_of(_TOOLS.values()))
    unknown = {finding.message for finding in found if finding.kind == "unknown"}
    return {"rules": _rules_of(loaded), "checkers": 0, "errors": ["warning"] * len(unknown)}


def _from_workspace(text: str) -> Loaded:
    """Return what holds for a workspace that the file lies in."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "toolcrib.toml").write_text(text, encoding="utf-8")
        return load({"workspace": {"root": folder}}, {})


def _config(text: str) -> Json:
    """Return a file of theirs as our configuration: what has no place there is handed on as it is, to be refused."""
    content, _ = parse_document(text, ".toml", "p.toml")
    config: Json = {**content, "tools": {"exec": {}}}
    rules = config.get("rule", [])
    if isinstance(rules, list) and all(isinstance(rule, dict) for rule in rules):
        config.pop("rule", None)
        for rule in rules:
            _add(config, dict(rule))
    return config


def _add(config: Json, rule: Json) -> None:
    rule.pop("priority", None)
    names, decision = rule.pop("toolName", ""), str(rule.pop("decision", ""))
    if isinstance(rule.get("mcpName"), str) and names:
        server = rule.pop("mcpName")
        names = [entry_about(server, name) for name in (names if isinstance(names, list) else [names])]
    lists = config["tools"]
    if "subagent" in rule:
        agents = config.setdefault("agents", {})
        lists = agents.setdefault(rule.pop("subagent"), {"tools": {"exec": {}}})["tools"]
    if names in (SHELL, [SHELL]) and "commandPrefix" in rule:
        given = rule.pop("commandPrefix")
        prefixes = given if isinstance(given, list) else [given]
        lists["exec"].setdefault(decision, []).extend(words_of(prefix) or [] for prefix in prefixes)
    else:
        lists.setdefault(_LISTS.get(decision, decision), []).extend(names if isinstance(names, list) else [names])
    lists.update(rule)


def _rules_of(loaded: Loaded) -> list[Json]:
    """Return what stands in the lists, as rules."""
    found: list[Json] = []
    for tools in (loaded.config.tools, *(agent.tools for _, agent in loaded.config.list_agents())):
        for decision, names in (("allow", tools.also_allow), ("ask_user", tools.ask), ("deny", tools.deny)):
            found += [{"toolName": name, "decision": decision} for name in names]
        for decision, entries in (("allow", tools.exec.allow), ("deny", tools.exec.deny)):
            found += [{"toolName": SHELL, "decision": decision, "words": list(words)} for words in entries]
    return sorted(found, key=json.dumps)


def _same_rules(case: Case, ours: Any) -> str:
    """Compare the rules without their rank, whether a file was refused, and that we complain where theirs does."""
    if isinstance(ours, Refused):
        return compare(case, ours)
    theirs = _their_rules(case)
    if not is_same(ours["rules"], theirs["rules"]) or ours["checkers"] != theirs["checkers"]:
        return f"theirs are {theirs}"
    levels = theirs["errors"]
    if ("error" in levels) is not ("error" in ours["errors"]):
        return "one of us refuses it"
    return "one of us does not complain" if levels.count("warning") > ours["errors"].count("warning") else ""


def _their_rules(case: Case) -> Json:
    found = [
        {"toolName": _meant(rule), "decision": rule["decision"]}
        | ({"words": prefix_of(rule)} if "argsPattern" in rule else {})
        for rule in case.expected["rules"]
    ]
    return {
        "rules": sorted(found, key=json.dumps),
        "checkers": case.expected["checkers"],
        "errors": [error["severity"] for error in case.expected["errors"]],
    }


def _meant(rule: Json) -> str:
    """Return the entry for a rule, whose name they put together from that of a server and that of a tool."""
    if "mcpName" not in rule:
        return str(rule["toolName"])
    of = rule["mcpName"]
    tool = rule["toolName"].removeprefix(f"mcp_{of}_") if rule["toolName"] != "mcp_*" else "*"
    return "group:mcp" if of == tool == "*" else f"{of}__{tool}"


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "gemini.buildArgsPatterns": _patterns,
    "gemini.isSafeRegExp": _accepted,
    "gemini.loadPoliciesFromToml": _loaded,
    "gemini.stableStringify": _bound,
}
SAME: dict[str, Same] = {"gemini.loadPoliciesFromToml": _same_rules, "gemini.stableStringify": _same_digest}
THEIRS: dict[str, Theirs] = {
    "gemini.buildArgsPatterns": _their_patterns,
    "gemini.loadPoliciesFromToml": _their_rules,
}
