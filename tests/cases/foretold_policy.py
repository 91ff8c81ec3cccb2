"""What our lists and our judge decide about a call, told in a few lines: for differences/*.toml."""

import re
import shlex
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

__all__ = ["commanded", "in_force", "is_plain", "is_unreadable", "line_of", "listed", "patterns", "prefix"]

Json = dict[str, Any]

_STRICTEST = ("deny", "ask_user", "allow")
_WRAPPERS = {"sudo", "env", "time", "nohup", "nice", "xargs", "eval", "bash", "sh", "zsh"}
_BETWEEN = {"&&", "||", "|", ";"}
_OURS = {"search_file_content": "grep_search"}


def in_force(args: Json) -> Iterator[Json]:
    """Yield the rules that hold in the mode of a case."""
    config = args["config"]
    mode, alone = config.get("approvalMode", "default"), bool(config.get("nonInteractive"))
    for rule in config.get("rules") or ():
        lasting = config.get("disableAlwaysAllow") and round(rule.get("priority", 0) % 1, 3) == 0.95
        if mode in (rule.get("modes") or [mode]) and rule.get("interactive", not alone) is not alone and not lasting:
            yield rule


def listed(args: Json) -> Json:
    """Return the strictest word of the lists about a tool; ValueError where none is said.

    What only one agent is allowed, or only for some arguments, is not allowed by that; a denial of it is one.
    """
    said = [rule for rule in in_force(args) if _means(rule, args)]
    chain = (args.get("subagent") or "").split("/")
    said = [
        rule
        for rule in said
        if (rule["decision"] != "allow" and rule.get("subagent", chain[0]).rpartition("/")[2] in chain)
        or ("subagent" not in rule and "argsPattern" not in rule)
    ]
    decision = next(each for each in (*_STRICTEST, "") if any(rule["decision"] == each for rule in said) or not each)
    rule = next((rule["toolName"] for rule in said if rule["decision"] == decision), None)
    return _with_nobody_to_ask(args, decision or _otherwise(args), rule)


def _otherwise(args: Json) -> str:
    config = args["config"]
    return str(config.get("defaultDecision", "allow" if config.get("approvalMode") == "yolo" else "ask_user"))


def _with_nobody_to_ask(args: Json, decision: str, rule: str | None) -> Json:
    if decision == "ask_user" and args["config"].get("nonInteractive"):
        decision = "deny"
    return {"decision": decision, "rule": rule}


def _means(rule: Json, args: Json) -> bool:
    called = args["call"]["name"]
    server = args.get("serverName") or (called.split("_")[1] if called.startswith("mcp_") else None)
    name, of = str(_OURS.get(rule["toolName"], rule["toolName"])), rule.get("mcpName")
    if of is not None:
        return bool(server) and of in (server, "*") and name in ("*", called, called.removeprefix(f"mcp_{server}_"))
    if name.startswith("mcp_") and name.endswith("_*") and name != "mcp_*":
        return name == f"mcp_{server}_*" or ("*" in name[:-1] and fnmatchcase(called, name))
    if name == "mcp_*":
        return bool(server)
    agent = (args["call"].get("args") or {}).get("agent_name")
    return fnmatchcase(called, name) or (called == "invoke_agent" and agent is not None and fnmatchcase(agent, name))


# Commands


def line_of(args: Json) -> str:
    """Return the command; blank where there is none."""
    return str((args["call"].get("args") or {}).get("command", ""))


def prefix(rule: Json) -> list[str]:
    """Return the words that a rule wants a command to begin with; ValueError when it wants something else."""
    found = re.fullmatch(r'\\"command\\":\\"(.*)\(\?:\[\\s"\]\|\\\\"\)', rule.get("argsPattern", ""), re.DOTALL)
    if rule["toolName"] != "run_shell_command" or found is None:
        raise ValueError("no prefix")
    return shlex.split(found[1].replace("\\", ""))


def patterns(args: Json) -> list[Json]:
    """Return the rules about commands whose pattern is no prefix."""
    return [rule for rule in in_force(args) if rule["toolName"] == "run_shell_command" and _is_pattern(rule)]


def _is_pattern(rule: Json) -> bool:
    try:
        return "argsPattern" in rule and not prefix(rule)
    except ValueError:
        return True


def _commands(line: str) -> list[list[str]]:
    """Return the words of each command of a line without any art; ValueError for others."""
    line = re.sub(r"\s\d?>(&\d|\s*/dev/null)(?=\s|$)", " ", line)  # what goes nowhere, or where the rest goes
    if re.search(r"[$`(){}*?~!<>#\\\n]", line):
        raise ValueError("not plain")
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;")
    lexer.whitespace_split = True
    commands: list[list[str]] = [[]]
    for word in lexer:
        if word in _BETWEEN:
            commands.append([])
        elif set(word) <= set("&|;"):
            raise ValueError("not plain")
        elif commands[-1] or not re.match(r"\w+=", word):  # what is set for one command is not part of it
            commands[-1].append(word.removeprefix("/usr/bin/") if not commands[-1] else word)
    if not all(commands):
        raise ValueError("not plain")
    return commands


def is_unreadable(args: Json) -> bool:
    """Tell whether a line has quotes that nothing closes."""
    try:
        shlex.split(line_of(args))
    except ValueError:
        return True
    return False


def is_plain(args: Json) -> bool:
    """Tell whether a line is commands that start nothing else, except where a prefix says that they may."""
    prefixes = [prefix(rule) for rule in in_force(args)]
    known = {words[0] for words in prefixes if words}
    return all(words[0] not in _WRAPPERS or words[0] in known for words in _commands(line_of(args)))


def commanded(args: Json) -> Json:
    """Return what prefixes decide about a plain line: every command of it must be allowed, by its first words."""
    stated: dict[str, list[list[str]]] = {each: [] for each in _STRICTEST}
    asking = (args.get("subagent") or "").rpartition("/")[2]
    for rule in in_force(args):
        if rule.get("subagent", asking).rpartition("/")[2] == asking:
            stated[rule["decision"]].append(prefix(rule))

    def begins(words: list[str], decision: str) -> bool:
        return any(words[: len(first)] == first for first in stated[decision] if first)

    commands = _commands(line_of(args))
    if any(begins(words, "deny") for words in commands):
        return {"decision": "deny", "rule": "run_shell_command"}
    if all(begins(words, "allow") and "/" not in words[0] for words in commands):
        return {"decision": "allow", "rule": "run_shell_command"}
    return _with_nobody_to_ask(args, "ask_user", None)
