"""openclaw-nodes-canvas-browser, as far as it is about nodes and A2UI: which node is meant, what it may be asked for.

Of an error, what is compared is that there is one, and that it names every node or line that the recorded one names.
"""

import re
from collections.abc import Callable
from typing import Any

from toolcrib.config.load import load
from toolcrib.config.services import NodesSettings
from toolcrib.define.a2ui import read_a2ui, write_a2ui_text
from toolcrib.define.errors import ToolError
from toolcrib.define.node import Node, explain_unasked, find_node, list_allowed_commands, pick_default_node
from toolcrib.tools.nodes.nodes import read_duration_ms

from .load import Case
from .outcome import Refused, SaidError, Same, is_same

Json = dict[str, Any]


def _find(args: Json) -> str:
    nodes = [
        Node(
            id=each["nodeId"],
            name=each.get("displayName", ""),
            platform=each.get("platform", ""),
            address=each.get("remoteIp", ""),
            caps=tuple(each.get("caps", ())),
            connected_at=float(bool(each.get("connected"))),
        )
        for each in args["nodes"]
    ]
    query = args.get("query") or ""
    if not query.strip() and args.get("allowDefault") and (found := pick_default_node(nodes, "canvas")):
        return found.id
    try:
        return find_node(nodes, query).id
    except ToolError as error:
        raise SaidError(str(error)) from None


def _allow(args: Json) -> list[str]:
    given = (args.get("config") or {}).get("gateway", {}).get("nodes", {})
    config = load({"gateway": {"nodes": given}}, {}).config.gateway
    settings, node = config.nodes if config else NodesSettings(), args.get("node") or {}
    platform, family = node.get("platform") or "", node.get("deviceFamily") or ""
    return list(list_allowed_commands(platform, family, settings.allow_commands, settings.deny_commands))


def _judge(args: Json) -> Json:
    why = explain_unasked(args["command"], args.get("declaredCommands") or (), args["allowlist"])
    return {"ok": False, "reason": why} if why else {"ok": True}


def _duration(args: Json) -> float:
    unit = (args.get("opts") or {}).get("defaultUnit") or "ms"
    raw = args["raw"].strip()
    try:
        return round(read_duration_ms(f"{raw}{unit}" if re.fullmatch(r"[0-9.]+", raw) else raw))
    except ToolError as error:
        raise SaidError(str(error)) from None


def _check_a2ui(args: Json) -> Json:
    try:
        found = read_a2ui(args["jsonl"])
    except ToolError as error:
        raise SaidError(str(error)) from None
    return {"version": found.version, "messageCount": len(found.messages)}


def _same_lines(case: Case, ours: Any) -> str:
    if case.expected["ok"]:
        return "" if is_same(ours, case.expected["result"]) else f"recorded: {case.expected['result']}"
    if not isinstance(ours, Refused):
        return "recorded is an error, ours is not"
    lines = [set(re.findall(r"\b(line \d+):", each)) for each in (case.expected["error"]["message"], ours.message)]
    return "" if lines[0] == lines[1] else f"we name {sorted(lines[1])}"


def _same_node(case: Case, ours: Any) -> str:
    if case.expected["ok"]:
        return "" if is_same(ours, case.expected["result"]) else f"recorded: {case.expected['result']}"
    if not isinstance(ours, Refused):
        return "recorded is an error, ours is not"
    listed = re.search(r"\((?:known|matches): (.*)\)", case.expected["error"]["message"])
    missing = [name for name in (listed[1].split(", ") if listed else ()) if name not in ours.message]
    return f"our sentence does not name {', '.join(missing)}" if missing else ""


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "buildA2UITextJsonl": lambda args: write_a2ui_text(args["text"]),
    "isNodeCommandAllowed": _judge,
    "parseDurationMs": _duration,
    "resolveNodeCommandAllowlist": _allow,
    "resolveNodeIdFromList": _find,
    "validateA2UIJsonl": _check_a2ui,
}
SAME: dict[str, Same] = {
    "parseDurationMs": _same_node,
    "resolveNodeIdFromList": _same_node,
    "validateA2UIJsonl": _same_lines,
}
