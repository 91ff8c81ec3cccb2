"""What becomes of the keys of an OpenClaw file that nothing here reads: which of them may be left out, and how."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

from toolcrib.define.errors import ConfigError
from toolcrib.policy.lint import Finding, Level

from .openclaw import locate
from .positions import KeyPath, format_path
from .read import Document

Fate = Literal["followed", "equivalent", "narrows", "meaningless"]
NARROWING = ("byProvider", "deny", "profile", "tools", "toolsBySender", "workspaceAccess")


class _Row(NamedTuple):
    pattern: str
    fate: Fate
    words: str
    holds: Callable[[Any], bool] = bool


def _is_off(value: Any) -> bool:
    return value is False


def _shuts_groups(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("groupPolicy") in ("allowlist", "disabled")


def _keeps_out(value: Any) -> bool:
    return bool(value) and value != "open" and "*" not in value


_ASKED = "explain, who and promises follow it; calls do not"
_ADMITTED = "explain, who, promises and channels follow it"
RULES = "write rules in tools, agents or channels that take the same away"
_PEOPLE = "write toolsBySender: the people's own rules, and '*': {deny: ['*']}"
# Key paths with dots, of which the first that fits counts where its value says something.
TABLE: tuple[_Row, ...] = (
    _Row("agents.list.*.default", "followed", _ASKED),
    _Row("agents.entries.*.default", "followed", _ASKED),
    _Row("bindings", "followed", _ASKED),
    _Row("session.dmScope", "followed", _ASKED),
    _Row("tools.toolsBySender", "followed", "it is the same key here"),
    _Row("tools.elevated", "followed", _ASKED),
    *(_Row(f"channels.*.{where}.*.{key}", "narrows", _PEOPLE, _keeps_out)  # of one chat, not of a channel or account
      for where in ("groups", "direct") for key in ("allowFrom", "groupPolicy", "dmPolicy")),
    *(_Row(f"channels.*.{key}", "followed", _ADMITTED)
      for key in ("dmPolicy", "groupPolicy", "allowFrom", "groupAllowFrom", "dm.policy")),
    _Row("channels.*.dm.groupChannels", "narrows", "name the groups that are meant in groups"),
    _Row("gateway.auth", "equivalent", "gateway.auth: {mode, token or password}"),
    _Row("gateway.bind", "equivalent", "gateway.bind: loopback, lan or an address"),
    _Row("hooks.token", "equivalent", "hooks.NAME.token"),
    _Row("approvals.exec", "equivalent", "nothing: questions go to who may answer them"),
    _Row("commands.ownerAllowFrom", "equivalent", "owners"),
    _Row("agents.*heartbeat", "equivalent", "agents.ID.heartbeat"),
    _Row("tools.fs.workspaceOnly", "equivalent", "nothing: files outside of the workspace are out of reach"),
    _Row("channels.defaults", "narrows", _PEOPLE, _shuts_groups),
    *(_Row(f"channels.*.{key}", "narrows", "write tools: {deny: ['*']} there, or policies that say disabled", _is_off)
      for key in ("enabled", "allow")),
    _Row("channels.*.users", "narrows", _PEOPLE),
    _Row("channels.*.roles", "narrows", _PEOPLE),
    _Row("channels.*.topics", "narrows", "write the rule for the whole group"),
    _Row("channels.*.skills", "narrows", "name the folders that are meant in skills.folders"),
    _Row("channels.*.execApprovals.approvers", "equivalent", "tools.exec.by, and by in entries of ask"),
    _Row("session.sendPolicy", "narrows", "name message in the deny of the chats that it is about"),
    _Row("browser.evaluateEnabled", "narrows", "name {tool: browser, when: {action: act}} in a deny", _is_off),
    _Row("*.hostnameAllowlist", "narrows", "name the hosts in tools.hosts.allow"),
    _Row("gateway.*.enabled", "narrows", "nobody is served there without the gateway's token", _is_off),
    _Row("mcp.servers.*.disabled", "narrows", "take the server out"),
    _Row("cron.maxConcurrentRuns", "equivalent", "cron.maxConcurrent"),
    _Row("tools.*.enabled", "narrows", "name the tool in tools.deny", _is_off),
    _Row("canvasHost.enabled", "narrows", "name canvas in tools.deny", _is_off),
    _Row("cron.enabled", "narrows", "name cron in tools.deny", _is_off),
    _Row("skills.entries.*.enabled", "narrows", "take the skill's folder out of skills.folders", _is_off),
    _Row("skills.allowBundled", "narrows", "name the folders that are meant in skills.folders"),
    _Row("agents.*.skills", "narrows", "name the folders that are meant in skills.folders"),
    _Row("tools.sessions.visibility", "narrows", "name the tools for sessions in tools.deny", lambda who: who != "all"),
    _Row("commands.allowFrom", "narrows", "name in channels.NAME.allowFrom who may write at all"),
    _Row("hooks.allowedAgentIds", "narrows", "write hooks.NAME.agent"),
    _Row("agents.*.sandbox.workspaceAccess", "narrows", "sandbox.workspaceAccess holds for every agent"),
    *(_Row(f"{start}*.{key}", "narrows", RULES, lambda value: value not in (None, [], {}, "full"))
      for start in ("tools", "agents", "channels", "gateway") for key in NARROWING),
)  # fmt: skip
_MEANINGLESS = _Row("*", "meaningless", "")


def _list_rows(document: Document, ignored: Iterable[KeyPath]) -> Iterator[tuple[str, KeyPath, _Row]]:
    """Yield each key that nothing here reads, or those in it that say something, with what becomes of it."""
    for path in ignored:
        value: Any = document.value
        for part in path:
            value = value[part]
        rows = list(_descend(path, value)) or [(path, _MEANINGLESS)]
        yield from ((format_path(inner), inner, row) for inner, row in rows)


def _descend(path: KeyPath, value: Any) -> Iterator[tuple[KeyPath, _Row]]:
    dotted = ".".join(map(str, path))
    if row := next((row for row in TABLE if fnmatchcase(dotted, row.pattern) and row.holds(value)), None):
        yield path, row
        return
    for key, inner in value.items() if isinstance(value, Mapping) else ():
        yield from _descend((*path, key), inner)


def refuse_unfollowed(
    document: Document, ignored: Iterable[KeyPath], accepted: Collection[str], *, serves: bool = False
) -> None:
    """Raise ConfigError for the first key that takes something away, is not followed and is not `accepted`.

    Where strangers are served nothing follows what explain and who follow, either.
    """
    for key, path, row in _list_rows(document, ignored):
        if row.fate != "narrows" and not (serves and row.words == _ASKED):
            continue
        if not any(key == each or key.startswith((f"{each}.", f"{each}[")) for each in accepted):
            words = row.words if row.fate == "narrows" else RULES
            what = f"it takes something away in OpenClaw and is not followed here; {words}, or say --ignore {key}"
            raise ConfigError(what, locate(document, path))


def find_ignored(document: Document, ignored: Iterable[KeyPath]) -> Iterator[Finding]:
    """Yield what lint says of the keys that nothing here reads; those without meaning are one note."""
    meaningless = list[str]()
    for key, _, row in _list_rows(document, ignored):
        match row.fate:
            case "narrows":
                what = "takes something away in OpenClaw, and is not followed here"
                yield Finding("ignored", "warning", key, what, row.words)
            case "followed":
                level: Level = "warning" if row.words == _ASKED else "note"
                remedy = RULES if level == "warning" else "nothing to do"
                yield Finding("ignored", level, key, f"decides about access in OpenClaw; {row.words}", remedy)
            case "equivalent":
                yield Finding("ignored", "note", key, "toolcrib has another key for this", f"write {row.words}")
            case _:
                meaningless.append(key)
    if meaningless:
        first, more = meaningless[0], len(meaningless) - 1
        what = (
            "toolcrib has no use for this key" if not more else f"toolcrib has no use for these: {_join(meaningless)}"
        )
        where = first if not more else f"{more + 1} keys"
        yield Finding("ignored", "note", where, what, "remove it, or keep it for OpenClaw")


def _join(keys: list[str]) -> str:
    shown = ", ".join(keys[:_SHOWN_KEYS])
    return shown if len(keys) <= _SHOWN_KEYS else f"{shown} and {len(keys) - _SHOWN_KEYS} more"


_SHOWN_KEYS = 20
