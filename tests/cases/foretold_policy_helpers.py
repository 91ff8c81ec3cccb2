"""What prefixes permit, patterns may be and files of rules come to by our rules: for differences/*.toml."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from typing import Any

__all__ = ["KNOWN", "loaded", "matches_nothing", "nests", "pattern", "permitted", "rules"]

Json = dict[str, Any]

KNOWN = {"toolName", "decision", "priority", "commandPrefix", "subagent", "mcpName"}  # what a rule of ours can say
_SHELL = "run_shell_command"


def permitted(args: Json) -> list[list[bool]]:
    """Return what each prefix permits of three commands: itself, with a word more, and with a longer last word."""
    given = args["commandPrefix"]
    return [_permitted(prefix) for prefix in ([given] if isinstance(given, str) else given)]


def _permitted(prefix: str) -> list[bool]:
    program = prefix.split()[0]
    is_found = "/" not in program or program.startswith("/usr/bin/")
    is_plain = not re.search(r"[$`(){}*?~!<>&;|\[\]]", prefix) and "=" not in program
    return [True, True, prefix != prefix.rstrip()] if is_found and is_plain else [False, False, False]


def pattern(args: Json) -> str:
    """Return a regular expression that may be written as a repetition."""
    given = args["pattern"]
    return given if isinstance(given, str) else str(given["repeat"]) * int(given["times"])


def matches_nothing(text: str) -> bool:
    """Tell whether an expression is found in the empty text."""
    try:
        return re.search(text, "") is not None
    except re.error as error:
        raise ValueError("no expression") from error


def nests(text: str) -> bool:
    """Tell whether a group is repeated that has a repetition in it."""
    stack, at = [False], 0
    while at < len(text):
        char = text[at]
        if char == "\\":
            at += 1
        elif char == "(":
            stack.append(False)
        elif char in "*+?{" and text[at - 1 : at] != "(":
            stack[-1] = True
        elif char == ")" and len(stack) > 1:
            inside = stack.pop()
            if inside and text[at + 1 : at + 2] in ("*", "+", "?", "{"):
                return True
            stack[-1] = stack[-1] or inside
        at += 1
    return False


def rules(args: Json) -> list[Json]:
    """Return the rules in a file; ValueError where it has none."""
    content = tomllib.loads(args["toml"])
    found = content.get("rule", [])
    if set(content) - {"rule"} or not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise ValueError("no rules")
    return found


def loaded(args: Json, known: set[str]) -> Json:
    """Return what stands in the lists after a file of rules, each of which says what ours can say."""
    listed = sorted((each for rule in rules(args) for each in _entries(rule)), key=json.dumps)
    unknown = {each["toolName"] for each in listed if "words" not in each and "*" not in each["toolName"]} - known
    return {"rules": listed, "checkers": 0, "errors": ["warning"] * len(unknown)}


def _entries(rule: Json) -> Iterator[Json]:
    names = rule["toolName"] if isinstance(rule["toolName"], list) else [rule["toolName"]]
    if "commandPrefix" in rule:
        given = rule["commandPrefix"]
        for prefix in given if isinstance(given, list) else [given]:
            yield {"toolName": _SHELL, "decision": rule["decision"], "words": shlex.split(prefix)}
        return
    for name in names:
        yield {"toolName": name, "decision": rule["decision"]}
