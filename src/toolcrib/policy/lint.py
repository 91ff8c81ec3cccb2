"""Lint: rules that do not do what their author thinks.

unknown       names no tool, group or plugin that exists             dead         can never have an effect
shadowed      an earlier entry says the same                         empty        `allow: []` permits nothing
plugin-only   an allow list of plugins shuts out every core tool     widening     gives what another rule withholds
dropped-deny  a rule that replaces another leaves out its deny       worn         gives rights by a name anyone can take
dropped-profile  ... or its profile                                  expect       an `expect` entry does not hold
outside       text from outside reaches what sends or runs, and nobody is asked
around        what is denied by path another tool can do
guests        nothing bounds whoever is not the owner, or an entry of a chat gives them nothing
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal

from toolcrib.define.caller import OWNER, Caller, Sender
from toolcrib.define.names import beginning_of, fold_name, nearest
from toolcrib.define.taint import SOURCE_KINDS, is_known_kind
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Rule, Selection, Verdict
from toolcrib.lazy import dataclass, replace

from .gate import is_plugin_only
from .identities import SENDER_TYPES, SenderKey, fold_username, sender_key, to_sender
from .lint_arguments import explain_dead, find_ways_around
from .lint_chats import advise_identity, check_guests, check_roles
from .lint_replaced import check_also_allow, check_replaced, find_shut, list_chats, list_some, match_entries
from .match import Groups, Inventory, is_glob, list_meant
from .resolve import is_owner
from .settings import PROFILES, ListSettings, PolicySettings, ToolsSettings
from .taint import list_taint_rules, taint_rules_for

FindingKind = Literal[
    "unknown", "dead", "shadowed", "empty", "plugin-only", "widening", "dropped-deny", "dropped-profile", "worn",
    "around", "expect", "agent", "collision", "mcp", "plugin", "skill", "ignored", "unused", "permissions", "shared",
    "loss", "unset", "outside", "shadow", "guests",
]  # fmt: skip
Level = Literal["error", "warning", "note"]
LEVELS: tuple[Level, ...] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to look at: where it stands, what it means, what to do. A note alone does not fail a lint."""

    kind: FindingKind
    level: Level
    origin: str
    message: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Expect:
    """What the operator expects of one caller's belt; `has` and `lacks` hold names, groups and globs."""

    origin: str
    caller: Caller
    has: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    judge: Callable[[Verdict], Verdict] = lambda verdict: verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scope:
    """A rule and its path. `about` tells rules for everybody from those of one sandbox, subagent or source.

    `within` is what the names of the tools begin with that the rule calls as their MCP server does.
    """

    origin: str
    rule: Rule
    about: Literal["everything", "sandbox", "subagent", "source"] = "everything"
    additive: bool = False
    within: str = ""

    def lists(self) -> Iterator[tuple[str, Sequence[str]]]:
        """Yield each list by the key it is written under."""
        names = ("include", "exclude") if self.origin.endswith(".subagents") else ("allow", "deny")
        yield names[0], self.rule.allow or ()
        yield names[1], self.rule.deny
        yield "alsoAllow", self.rule.also
        yield "ask", self.rule.ask


def lint(
    settings: PolicySettings,
    tools: Mapping[str, Tool],
    groups: Groups,
    expects: Sequence[Expect] = (),
    belt_for: Callable[[Caller], Selection] | None = None,
) -> list[Finding]:
    """Return every finding, in the order of the file's sections."""
    inventory = Inventory(tools, groups)
    found: list[Finding] = []
    for scope in scopes_of(settings):
        found += _check_entries(scope, settings, inventory)
        found += _check_lists(scope, settings, inventory)
        found += _check_conditions(scope, settings, inventory)
    found += _check_dead(settings, inventory)
    found += itertools.starmap(_warn, check_replaced(settings, inventory))
    known = {(each.kind, each.origin) for each in found}
    idle = itertools.starmap(_warn, check_also_allow(settings, inventory))
    found += [each for each in idle if (each.kind, each.origin) not in known]
    found += _check_senders(settings)
    found += _check_sources(settings, inventory)
    for entry in settings.guests if not isinstance(settings.guests, str) else ():
        if isinstance(entry, str) and entry not in PROFILES:
            found += check_named(entry, "tools.guests", tools, groups)
    for each in check_guests(settings, inventory):
        found.append(Finding("guests", "warning" if each.is_open else "note", each.origin, each.message, each.remedy))
    entries = [group for groups in list_chats(settings) for group in groups.values()]
    senders = ((key, f"{each.origin}.toolsBySender.{key}") for each in entries for key in each.by_sender)
    found += itertools.starmap(_warn, check_roles(settings.roles, senders))
    if belt_for is not None:
        for expect in expects:
            found += _check_expectation(expect, belt_for(expect.caller), inventory)
        found += _check_outside(settings, inventory, belt_for)
    return list(dict.fromkeys(found))


def _advise_removal(scope: _Scope, what: str, rest: Rule, settings: PolicySettings, inventory: Inventory) -> str:
    """Return the advice to take an entry out, unless what is left would permit more.

    An OpenClaw file reads an empty allow list as no limit, and one of plugins alone as an addition.
    """
    is_limit = rest.allow is not None and settings.tools.plugin_only_allow == "additive"
    is_last = not (rest.allow or rest.of("allow").when)
    if is_limit and (is_last or (scope.additive and is_plugin_only(rest, inventory))):
        return f"leave {what}: without it the list would limit nothing"
    return f"take {what} out"


def _drop(rule: Rule, key: str, entry: str) -> Rule:
    """Return a rule without an entry of its allow list; another list limits nothing by being shorter."""
    if key != "allow" or rule.allow is None:
        return Rule()
    return replace(rule, allow=tuple(each for each in rule.allow if each != entry))


def _check_entries(scope: _Scope, settings: PolicySettings, inventory: Inventory) -> Iterator[Finding]:
    """Unknown and shadowed entries of each list."""
    for key, entries in scope.lists():
        origin, covered, folded = f"{scope.origin}.{key}", set[str](), set[str]()
        for entry in entries:
            if (name := fold_name(entry)) == "*":
                covered = set(inventory.tools)
                continue
            permits = key in ("allow", "alsoAllow", "include")
            meant = match_entries([entry], inventory, permits=permits, within=scope.within)
            rest = _drop(scope.rule, key, entry)
            if not meant:
                out = _advise_removal(scope, "it", rest, settings, inventory)
                yield _report_unknown(entry, origin, inventory, out)
            elif meant <= covered or name in folded:
                what = f"{entry!r} says nothing that an earlier entry does not say"
                yield _warn("shadowed", origin, what, _advise_removal(scope, repr(entry), rest, settings, inventory))
            covered |= meant
            folded.add(name)


def check_named(entry: str, origin: str, tools: Mapping[str, Tool], groups: Groups) -> Iterator[Finding]:
    """Yield what is odd about an entry that stands outside of lists: it may be about nothing that exists."""
    inventory = Inventory(tools, groups)
    if fold_name(entry) != "*" and not match_entries([entry], inventory):
        yield _report_unknown(entry, origin, inventory)


def _report_unknown(entry: str, origin: str, inventory: Inventory, out: str = "take it out") -> Finding:
    if is_glob(entry):
        return _warn("unknown", origin, f"{entry!r} matches no tool", f"correct the pattern, or {out}")
    name, close = fold_name(entry), nearest(entry, [*inventory.tools, *inventory.groups])
    word = "group" if name.startswith("group:") else "tool, group or plugin"
    what = "holds no tool here" if name in inventory.groups else f"names no {word} that exists here"
    is_near = close and name not in inventory.groups
    remedy = f"did you mean {close[0]!r}?" if is_near else f"correct it, install what brings it, or {out}"
    return _warn("unknown", origin, f"{entry!r} {what}", remedy)


def _check_lists(scope: _Scope, settings: PolicySettings, inventory: Inventory) -> Iterator[Finding]:
    """Allow lists that permit nothing, or only plugins: in a chat that is what such a list is for."""
    allow = scope.rule.allow
    if allow == () and not scope.rule.also and not scope.rule.of("allow", "also").when:
        remedy = "write the names, or remove the key for no limit"
        yield _warn("empty", f"{scope.origin}.allow", "allow is empty and permits nothing", remedy)
    elif allow and scope.additive and is_plugin_only(scope.rule, inventory):
        if settings.tools.plugin_only_allow == "additive":
            what = "allow names only plugins and is read as an addition (tools.pluginOnlyAllow: additive)"
        else:
            what = "allow names only plugins and shuts out every core tool"
        yield _warn("plugin-only", f"{scope.origin}.allow", what, "name the core tools that are meant, too")


def _check_conditions(scope: _Scope, settings: PolicySettings, inventory: Inventory) -> Iterator[Finding]:
    """Entries about arguments: of no tool, of no call, or got around."""

    def match(entry: str) -> set[str]:
        return match_entries([entry], inventory, within=scope.within)

    roots = [root for names in settings.roots.values() for root in names]
    shut = match_entries(scope.rule.deny, inventory, within=scope.within)
    shut |= match_entries(settings.tools.rule().deny, inventory)
    for rule in scope.rule.when:
        origin, named = f"{scope.origin}.{'alsoAllow' if rule.kind == 'also' else rule.kind}", match(rule.tool)
        rest = replace(scope.rule, when=tuple(each for each in scope.rule.when if each != rule))
        out = _advise_removal(scope, "it", rest if rule.kind == "allow" else Rule(), settings, inventory)
        if not named:
            yield _report_unknown(rule.tool, origin, inventory, out)
        elif why := explain_dead(rule, [inventory.tools[name] for name in sorted(named)], roots):
            yield _warn("dead", origin, f"{rule} can never hold: {why}", f"correct the condition, or {out}")
        elif rule.kind == "deny" and (ways := find_ways_around(rule, scope.rule, shut, inventory.tools, match)):
            what = f"{rule} can be got around with {list_some(ways, in_order=True)}"
            yield _warn("around", origin, what, "deny those for the same arguments, or altogether")


def _check_dead(settings: PolicySettings, inventory: Inventory) -> Iterator[Finding]:
    """Allow entries that a deny beside or above them makes pointless."""
    shut_above = find_shut(settings.tools.rule(), inventory)
    for scope in scopes_of(settings):
        own = match_entries(scope.rule.deny, inventory, within=scope.within)
        inner = scope.origin != "tools" and scope.about == "everything"
        for key, entries in scope.lists():
            if key not in ("allow", "alsoAllow"):
                continue
            for entry in entries:
                meant = match_entries([entry], inventory, permits=True, within=scope.within)
                if fold_name(entry) == "*" or not meant:
                    continue
                origin = f"{scope.origin}.{key}"
                out = _advise_removal(scope, "it", _drop(scope.rule, key, entry), settings, inventory)
                if meant <= own:
                    what = f"{entry!r} is allowed and denied here; deny wins"
                    yield _warn("dead", origin, what, out.replace("take it out", f"take it out of {key}"))
                elif inner and meant <= shut_above:
                    what = f"{entry!r} never gets through: the global tools lists shut it out"
                    yield _warn("dead", origin, what, out)


def _check_senders(settings: PolicySettings) -> Iterator[Finding]:
    """Typed `username:` and `name:` keys: the operator's word, but anyone can take such a name."""
    for group in (group for groups in list_chats(settings) for group in groups.values()):
        seen: dict[SenderKey, str] = {}
        for key in group.by_sender:
            kind = (typed := sender_key(key)).kind
            typed = typed if kind else typed._replace(value=fold_username(typed.value))
            origin = f"{group.origin}.toolsBySender.{key}"
            if kind in ("username", "name"):
                what = f"rights by {kind}: anyone can call themselves {key.partition(':')[2]!r}"
                yield _warn("worn", origin, what, advise_identity(group.by_sender[key]))
            first = seen.setdefault(typed, key)
            if first != key:
                yield _warn("shadowed", origin, f"{first!r} is the same sender and counts alone", "take it out")


def _check_sources(settings: PolicySettings, inventory: Inventory) -> Iterator[Finding]:
    """Entries about what comes after outside that mean no tool, or no source."""
    for rule in list_taint_rules(settings, settings.agents):
        if not match_entries([rule.rule], inventory):
            yield _report_unknown(rule.rule, rule.origin, inventory)
        if not is_known_kind(rule.taint):
            close = nearest(rule.taint.partition(":")[0], SOURCE_KINDS)
            remedy = f"did you mean '{close[0]}:*'?" if close else f"there are {', '.join(SOURCE_KINDS)}"
            yield _warn("unknown", rule.origin, f"{rule.taint!r} matches no kind of source that is known here", remedy)


def _check_outside(
    settings: PolicySettings, inventory: Inventory, belt_for: Callable[[Caller], Selection]
) -> Iterator[Finding]:
    """Belts on which text from outside can reach what sends or runs, unasked; a note, unless any command would run."""
    found: dict[Level, dict[str, str]] = {"warning": {}, "note": {}}
    for who, caller in _list_readers(settings):
        belt, agent = belt_for(caller), settings.agents.get(caller.agent or "")
        tools = {name: tool for name, tool in belt.tools.items() if tool.has_body}
        # what guests write is from outside itself
        if caller.owner and not any("network" in each.effects or _is_foreign(each) for each in tools.values()):
            continue
        rules = taint_rules_for(settings, caller, inventory.tools, inventory.groups)
        commands = [each.exec for each in (settings.tools, *([agent.tools] if agent else ()))]
        is_free = all(each.security == "full" and each.ask != "always" for each in commands)
        for name, tool in tools.items():
            if belt.verdicts[name].decision != "allow" or not tool.effects & {"send", "execute"} or name in rules.tools:
                continue
            if name in ("exec", "process"):  # a command that no rule names is asked about
                if is_free:
                    found["warning"].setdefault(name, who)
            # what goes to a session or a subagent stays marked as from outside; the owner knows our own
            elif tool.group != "sessions" and (_is_foreign(tool) or not caller.owner):
                found["note"].setdefault(name, who)
    remedy = "add effect:send and effect:execute to tools.askAfterOutside, or to denyAfterOutside"
    for level, names in found.items():
        if names:
            what = f"text from outside can reach {list_some(names)} unasked, for {next(iter(names.values()))}"
            yield Finding("outside", level, "tools.askAfterOutside", what, remedy)


def _list_readers(settings: PolicySettings) -> Iterator[tuple[str, Caller]]:
    """Yield who could be answered with text from outside in the conversation: the owner, and guests in every chat."""
    yield "the owner", OWNER
    for agent in settings.agents:
        yield f"the owner with agent {agent}", replace(OWNER, agent=agent)
    for name, channel in settings.channels.items():
        for id, group in {"": channel.direct, **channel.groups}.items():
            for key in (*(group.by_sender if group else ()), "*"):
                sender = to_sender(key) if sender_key(key).kind in SENDER_TYPES else Sender(id=key.strip())
                caller = Caller(channel=name, group=id or None, sender=sender)
                if not is_owner(settings, caller):
                    yield f"{key} in {name}{f', group {id}' if id else ''}", replace(caller, owner=False)


def _is_foreign(tool: Tool) -> bool:
    return tool.source.startswith(("mcp:", "client:", "plugin:"))


@dataclass(frozen=True, slots=True)
class Promise:
    """One tool that an `expect` entry is about: by which key and entry, what the gate says, and whether that is so.

    Without a verdict the entry names no tool.
    """

    key: Literal["has", "lacks"]
    entry: str
    verdict: Verdict | None
    is_kept: bool


def judge_promises(expect: Expect, belt: Selection, inventory: Inventory) -> Iterator[Promise]:
    """Yield what becomes of every tool that an `expect` entry is about."""
    keys: tuple[tuple[Literal["has", "lacks"], tuple[str, ...]], ...] = (("has", expect.has), ("lacks", expect.lacks))
    for key, entries in keys:
        for entry in entries:
            meant = sorted(list_meant(entry, inventory))
            if not meant:
                yield Promise(key, entry, None, is_kept=False)
            for tool in meant:
                verdict = expect.judge(belt.verdicts[tool])
                yield Promise(key, entry, verdict, is_kept=(verdict.decision == "deny") == (key == "lacks"))


def _check_expectation(expect: Expect, belt: Selection, inventory: Inventory) -> Iterator[Finding]:
    for promise in judge_promises(expect, belt, inventory):
        verdict = promise.verdict
        if verdict is None:
            what = f"{promise.key}: {promise.entry!r} names no tool that exists here"
            yield Finding("expect", "error", expect.origin, what, "correct it")
        elif not promise.is_kept:
            word = "have" if promise.key == "has" else "lack"
            what = f"should {word} {verdict.tool}, but it is {verdict.decision}: {verdict.reason}"
            remedy = verdict.remedy or "deny it in one of the layers"
            yield Finding("expect", "error", expect.origin, what, remedy)


def _warn(kind: FindingKind, origin: str, message: str, remedy: str) -> Finding:
    return Finding(kind, "warning", origin, message, remedy)


# Every place in the settings where a rule can stand


def scopes_of(settings: PolicySettings) -> Iterator[_Scope]:
    """Yield every rule that is written down."""
    yield from _scopes_in_tools("tools", settings.tools)
    for agent in settings.agents.values():
        yield from _scopes_in_tools(f"{agent.origin}.tools", agent.tools)
    for group in (group for groups in list_chats(settings) for group in groups.values()):
        if group.tools is not None:
            yield _Scope(origin=f"{group.origin}.tools", rule=group.tools.rule())
        for sender, lists in group.by_sender.items():
            yield _Scope(origin=f"{group.origin}.toolsBySender.{sender}", rule=lists.rule())
    for source, (origin, narrowed) in settings.sources.items():
        yield _Scope(origin=origin, rule=narrowed.rule(), about="source", within=beginning_of(source))


def _scopes_in_tools(origin: str, tools: ToolsSettings) -> Iterator[_Scope]:
    yield _Scope(origin=origin, rule=tools.rule(), additive=True)
    for key, entry in tools.by_provider.items():
        yield _Scope(origin=f"{origin}.byProvider.{key}", rule=entry.rule(), additive=True)
    yield from _scopes_in_lists(f"{origin}.sandbox.tools", tools.sandbox.tools, "sandbox")
    yield from _scopes_in_lists(f"{origin}.subagents.tools", tools.subagents.tools, "subagent")
    handed = Rule(allow=tools.subagents.include, deny=tools.subagents.exclude)
    if handed.allow is not None or handed.deny:
        yield _Scope(origin=f"{origin}.subagents", rule=handed, about="subagent")


def _scopes_in_lists(origin: str, lists: ListSettings, about: Literal["sandbox", "subagent"]) -> Iterator[_Scope]:
    if lists.model_fields_set:
        yield _Scope(origin=origin, rule=lists.rule(), about=about)
