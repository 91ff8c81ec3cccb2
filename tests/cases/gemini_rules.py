"""gemini's policy rules as our configuration: lists of names and effects, and argv prefixes for commands.

A rule about a tool is an entry of `deny`, `ask` or `alsoAllow`; a prefix of a command is an entry of `tools.exec`. What
no rule of theirs allows is asked about, so it is put on `ask` here. A mode is another configuration: rules that do not
hold in the mode of a case are left out.
"""

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from toolcrib.define.errors import ToolError
from toolcrib.define.names import server_part, tool_name
from toolcrib.define.tool import Effect

Json = dict[str, Any]

SHELL = "run_shell_command"
NAMES = {SHELL: "exec", "search_file_content": "grep_search", "invoke_agent": "group:agents"}
EFFECTS: dict[str, Effect] = {"readOnlyHint": "read", "destructiveHint": "write", "openWorldHint": "network"}

_PREFIX = re.compile(r'\\"command\\":\\"(?P<text>.*)\(\?:\[\\s"\]\|\\\\"\)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ALWAYS = 0.95  # what the priority of a lasting approval ends with
_LISTS = {"deny": "deny", "ask_user": "ask", "allow": "alsoAllow"}


@dataclass(slots=True)
class Lists:
    """What is written into the configuration: everybody's lists, those of agents, and those of servers."""

    tools: Json = field(default_factory=lambda: {"deny": [], "ask": [], "exec": {"readOnly": []}})
    agents: Json = field(default_factory=dict)
    servers: Json = field(default_factory=dict)

    def config(self) -> Json:
        config: Json = {"tools": self.tools, "agents": self.agents}
        return {**config, "mcpServers": self.servers} if self.servers else config

    def add(self, rule: Json) -> None:
        """Take a rule in; raise ToolError when there is no way to say it."""
        decision, prefix = rule["decision"], prefix_of(rule)
        if prefix is not None:
            if decision != "ask_user":  # what is on no list is asked about
                self._of(rule)["exec"].setdefault(decision, []).append(prefix)
        elif "argsPattern" not in rule or decision != "allow":  # a denial that cannot be narrowed is about the tool
            self._add_entries(rule, decision)

    def _of(self, rule: Json) -> Json:
        """Return the lists of whom a rule is about."""
        if "subagent" not in rule:
            return self.tools
        tools: Json = self.agents.setdefault(rule["subagent"].rpartition("/")[2], {"tools": {"exec": {}}})["tools"]
        return tools

    def _add_entries(self, rule: Json, decision: str) -> None:
        tools = self._of(rule)
        if rule.get("mcpName") == "":  # a server without a name is refused by our own reading of it
            tools = self.servers.setdefault("", {"command": "server", "tools": {}})["tools"]
        if decision == "allow" and rule["toolName"] in (SHELL, "*"):
            self._of(rule)["exec"]["security"] = "full"
        tools.setdefault(_LISTS[decision], []).extend(entries_of(rule))


def entries_of(rule: Json) -> list[str]:
    """Return the entries that a rule's name and marks stand for; raise ToolError when there are none."""
    name: str = entry_about(rule["mcpName"], rule["toolName"]) if rule.get("mcpName") else our_name(rule["toolName"])
    name = rule.get("ours", name)
    marks = rule.get("toolAnnotations") or {}
    if not marks:
        return [name]
    if name != "*" or len(marks) > 1 or not all(EFFECTS.get(mark) and value is True for mark, value in marks.items()):
        raise ToolError("a rule names tools, or what they do (read, write, execute, network, send); no other marks")
    return [f"effect:{EFFECTS[mark]}" for mark in marks]


def our_name(name: str) -> str:
    """Return what we call a tool of theirs; `mcp_srv_tool` is split at its first underscore, as they split it."""
    if not name.startswith("mcp_"):
        return NAMES.get(name, name)
    if name.endswith("_*") and "*" not in name[:-1]:
        return entry_about(name[len("mcp_") : -len("_*")] or "*", "*")
    server, _, tool = name.removeprefix("mcp_").partition("_")
    return entry_about(server, tool or "*") if tool or server == "*" else name


def entry_about(server: str, tool: str) -> str:
    """Return the entry that means a tool of a server; either may be any."""
    if "*" in (server, tool):
        return "group:mcp" if server == tool else f"{'*' if server == '*' else server_part(server)}__{tool}"
    return tool_name(server, tool)


def prefix_of(rule: Json) -> list[str] | None:
    """Return the words that a rule's pattern wants a command to begin with; None when it is no such pattern."""
    found = _PREFIX.fullmatch(rule.get("argsPattern") or "")
    if rule["toolName"] != SHELL or found is None:
        return None
    text = _ESCAPED.sub(r"\1", found["text"])
    with suppress(ValueError):  # what JSON does not read is written as it is
        text = json.loads(f'"{text}"')
    return words_of(text)


def words_of(prefix: str) -> list[str] | None:
    """Return a prefix as a shell reads it."""
    try:
        return shlex.split(prefix) or None
    except ValueError:
        return None


def rules_in_force(config: Json) -> Iterator[Json]:
    """Yield the rules that hold in the mode of a case."""
    mode, interactive = config.get("approvalMode", "default"), not config.get("nonInteractive")
    for rule in config.get("rules") or ():
        if mode not in (rule.get("modes") or [mode]) or rule.get("interactive", interactive) is not interactive:
            continue
        if config.get("disableAlwaysAllow") and round(rule.get("priority", 0) % 1, 3) == _ALWAYS:
            continue  # what a person allowed for good is a grant, and can be taken back as a whole
        yield rule
