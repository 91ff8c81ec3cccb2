"""toolcrib policy: rules tried before they count; and toolcrib who: everybody that a file tells apart, and one tool."""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from typing import Any, Unpack

import click

from toolcrib.app import Crib, sender_from
from toolcrib.app.stores import STATE_FILE, audit_in
from toolcrib.config.routing import list_bound_groups
from toolcrib.define.approval import name_of
from toolcrib.define.caller import Caller
from toolcrib.define.display import escape
from toolcrib.define.errors import CribError
from toolcrib.define.names import suggest
from toolcrib.define.session import to_channel
from toolcrib.define.verdict import Verdict
from toolcrib.policy.callers import ChannelNames, join_halves, list_declared, list_people, list_places, list_speakers
from toolcrib.policy.explain import caller_json
from toolcrib.policy.lint import judge_promises
from toolcrib.policy.match import Inventory, complaint_about, list_meant
from toolcrib.policy.resolve import agent_of, resolve
from toolcrib.policy.trial import Claim, Trial, find_masked_changes, prove, rank

from ._format import print_json, print_table
from ._log import state_folder
from ._options import (
    CommandGroup,
    ConfigOptions,
    JsonOptions,
    crib_from_options,
    json_option,
    json_options,
    require_tool,
    show_examples,
)
from .lint import load_promises

_WHO = """\b
Examples:
  toolcrib who exec
  toolcrib who write --config openclaw.json
  toolcrib who gateway --config crib.yaml --json

`*` as a sender or a group is whoever the file has no word about.
"""
_MAX_RECORDED = 100_000


@click.group("policy", cls=CommandGroup)
def command() -> None:
    """Try rules before they count: compare two files, test what is expected, prove what nobody ever has."""


@command.command(
    "diff",
    epilog=show_examples(
        "policy diff new.yaml",
        "policy diff crib.yaml new.yaml --record",
        "policy diff old.yaml new.yaml --json",
    ),
)
@click.argument("files", metavar="[OLD] NEW", nargs=-1, required=True)
@click.option("--config", metavar="F", help="OLD where NEW alone is given; else it is the configuration in force.")
@click.option("--record", is_flag=True, help="Judge the calls on record, too, as far as they go back.")
@click.option("--from", "read_as", type=click.Choice(["openclaw"]), help="Read both as OpenClaw configurations.")
@json_option
def diff(files: tuple[str, ...], config: str | None, record: bool, read_as: str | None, as_json: bool) -> int:
    """Say for whom NEW decides otherwise than OLD, and about which tools.

    Every caller that one of them tells apart is asked about, every `expect` entry of theirs and, with --record, every
    call of before. Where a change only shows in a combination of these, one is named. Leaves with 1 when there are any.
    """
    if len(files) > 2 or (len(files) == 2 and config):
        raise CribError("two files are compared: OLD and NEW, or NEW with --config OLD")
    both: tuple[str | None, ...] = files if len(files) == 2 else (config, files[0])
    before, after = (_open({"config": each, "read_as": read_as}) for each in both)
    changes = list(_list_changes(before, after, _list_recorded(before) if record else Counter()))
    if as_json:
        print_json({"changes": changes})
    elif changes:
        rows = [
            (_describe(Caller.from_json(each["caller"])), each["tool"], each["before"] or "-", each["after"] or "-",
             each["reason"])
            for each in changes
        ]  # fmt: skip
        print_table(("caller", "tool", "before", "after", "because"), rows, colour=3)
    else:
        click.echo("nothing changes for anybody")
    return 1 if changes else 0


def _open(options: ConfigOptions) -> Crib:
    return crib_from_options(options, told=False, fills=True)


def _list_recorded(crib: Crib) -> "Counter[tuple[Caller, str]]":
    """Return who called what, and how often."""
    path = state_folder() / STATE_FILE
    if not path.exists():
        click.echo("toolcrib: nothing was recorded yet", err=True)
        return Counter()
    calls = asyncio.run(audit_in(path, crib.loaded, only_looks=True).calls(most=_MAX_RECORDED))
    return Counter((Caller.from_json(each["caller"]), each["tool"]) for each in calls)


def _list_changes(before: Crib, after: Crib, recorded: "Counter[tuple[Caller, str]]") -> Iterator[dict[str, Any]]:
    cribs, tools = (before, after), dict.fromkeys((*before.catalog.tools, *after.catalog.tools))
    declared = [each for crib in cribs for each in list_declared([one.policy for one in cribs], _list_named(crib))]
    expected = [expect.caller for crib in cribs for expect in crib.list_expected()]
    asked = [(caller, tool) for caller in (*declared, *expected) for tool in tools]
    seen = set[tuple[object, ...]]()
    changed = set[str]()

    def compare(pairs: Iterable[tuple[Caller, str]]) -> Iterator[dict[str, Any]]:
        for caller, tool in pairs:
            (_, old), (who, new) = (_judge(crib, caller, tool) for crib in cribs)
            rights = [verdict.decision if verdict else None for verdict in (old, new)]
            who = replace(who, agent=agent_of(who))
            if (who, tool) in seen or rights[0] == rights[1] or {*rights} == {None, "deny"}:
                continue
            seen.add((who, tool))
            changed.add(tool)
            reason = new.reason if new else "there is no such tool"
            told: dict[str, Any] = {"caller": caller_json(resolve(after.policy, who)), "tool": tool}
            told |= {"before": rights[0], "after": rights[1], "reason": reason}
            yield told | ({"calls": count} if (count := recorded[caller, tool]) else {})

    yield from compare(asked)
    yield from compare(recorded)
    trials = _trial_of(before), _trial_of(after)
    people = list_people([crib.policy for crib in cribs], declared)
    masked = find_masked_changes(*trials, [replace(each, parents=(), sandboxed=False) for each in people])
    yield from compare([(caller, tool) for tool, caller in masked if tool not in changed])


def _judge(crib: Crib, caller: Caller, tool: str) -> tuple[Caller, Verdict | None]:
    """Return where a file sends a caller, and its verdict on one tool; None where there is no such tool."""
    route = crib.route(caller)
    who = crib.models.assign(route.caller)
    verdict = crib.belt(who).verdicts.get(tool)
    return who, None if verdict is None else route.judge(verdict)


def _trial_of(crib: Crib) -> Trial:
    catalog = crib.catalog
    return Trial(
        settings=crib.policy,
        tools=catalog.tools,
        groups=catalog.groups,
        belt_for=lambda caller: crib.belt(caller).selection,
    )


def _list_named(crib: Crib) -> dict[str, ChannelNames]:
    """Return whom the channels let in and which groups bindings name."""
    found = {}
    for name, channel in crib.config.channels.items():
        slug = to_channel(name) or name
        bound = list_bound_groups(crib.loaded.document, slug) if crib.loaded.foreign else []
        found[slug] = ChannelNames(senders=channel.allow_from, groups=tuple(bound))
    return found


@command.command(
    "test", epilog=show_examples("policy test", "policy test --config openclaw.json --expect promises.yaml --json")
)
@click.option("--expect", metavar="FILE", help="A file of promises (`expect: [..]`) beside the configuration.")
@json_options
def test(expect: str | None, **options: Unpack[JsonOptions]) -> int:
    """Say of every `expect` entry, tool by tool, whether it holds, and why. Leaves with 1 when one does not."""
    crib = _open(options)
    inventory, entries, rows = Inventory(crib.catalog.tools, crib.catalog.groups), list[dict[str, Any]](), list[Any]()
    for each in crib.list_expected(load_promises(expect)):
        promises = list(judge_promises(each, crib.belt(each.caller).selection, inventory))
        told = [
            {
                "key": made.key,
                "entry": made.entry,
                "holds": made.is_kept,
                **(asdict(made.verdict) if made.verdict else {}),
            }
            for made in promises
        ]
        holds, caller = all(made.is_kept for made in promises), caller_json(resolve(crib.policy, each.caller))
        entries.append({"expect": each.origin, "caller": caller, "holds": holds, "promises": told})
        for made in promises:
            what = made.verdict.tool if made.verdict else made.entry
            because = made.verdict.reason if made.verdict else "names no tool that exists here"
            decision = made.verdict.decision if made.verdict else "-"
            word = "holds" if made.is_kept else "broken"
            rows.append((word, each.origin, f"{made.key} {escape(what)}", decision, because))
    failing = sum(not each["holds"] for each in entries)
    if options["as_json"]:
        print_json({"entries": entries, "failing": failing})
    elif rows:
        print_table(("result", "where", "promise", "verdict", "because"), rows, colour=3)
        click.echo(f"{len(entries) - failing} of {len(entries)} entries hold")
    else:
        click.echo("nothing is expected; write it under `expect`")
    return 1 if failing else 0


@command.command(
    "prove",
    epilog=show_examples(
        "policy prove --never exec --except owner --channel telegram",
        "policy prove --never effect:write --channel telegram --group -100123",
        "policy prove --never group:runtime --except id:7 --json",
    ),
)
@click.option("--never", metavar="ENTRY", required=True, help="A tool, a group or an effect, as rules write them.")
@click.option("--except", "excepting", metavar="WHO", multiple=True, help="owner, or a sender; may be given again.")
@click.option("--channel", metavar="C", help="Only about those who write in this channel.")
@click.option("--group", metavar="G", help="Only about this group; without --channel, of any that is configured.")
@json_options
def prove_never(
    never: str, excepting: tuple[str, ...], channel: str | None, group: str | None, **options: Unpack[JsonOptions]
) -> int:
    """Say whether nobody ever has ENTRY, asked or unasked: whatever agent, model, chat, sender, session or parents.

    All kinds of callers that the configuration tells apart are judged, also those that no door of ours makes today: a
    program may. Who has it is named, and was run through the gate. Leaves with 1 when there is such a caller.
    """
    crib = _open(options)
    claim = Claim(entry=never, excepting=tuple(map(_check_except, excepting)), channel=channel, group=group)
    _check_entry(crib, never)
    places = [channel] if channel else list(crib.policy.channels)
    if group is not None and not places:
        raise CribError("--group is a group of a channel, and none is configured; say which with --channel")
    asked = ChannelNames(groups=(group,) if group is not None else ())
    named = _list_named(crib) | {to_channel(each) or each: asked for each in places if channel or group is not None}
    people = list_people([crib.policy], list_places([crib.policy], named))
    proof = prove(claim, _trial_of(crib), [each for each in people if crib.route(each).refusal is None])
    unmet = [f"the MCP server {escape(each)} was never met: its tools are not known" for each in crib.mcp.unmet()]
    found = proof.counterexample
    if options["as_json"]:
        told = found and {"caller": caller_json(resolve(crib.policy, found[0])), **asdict(found[1])}
        print_json({"holds": not found, "classes": proof.classes, "counterexample": told, "uncertain": unmet})
    elif found is None:
        click.echo(f"It holds: of {proof.classes:,} kinds of callers nobody has {escape(never)}.")
    else:
        who, verdict = found
        where = "" if channel or who.channel else " (a caller of no channel, as a program makes one)"
        click.echo(
            f"It does not hold. {_describe(who)}{where}: {verdict.tool} is {verdict.decision}, {verdict.reason}."
        )
    for doubt in () if options["as_json"] else unmet:
        click.secho(f"Not certain: {doubt}.", fg="yellow")
    return 1 if found else 0


def _check_except(text: str) -> str:
    plain = text.strip()
    if plain.lower() == "owner":
        return "owner"
    if plain.lower().startswith("role:"):
        raise CribError(f"--except {plain[:64]!r}: this version knows no roles; name their senders")
    if plain == "*":
        raise CribError("--except '*' would leave nobody; name senders, or owner")
    sender_from(plain)
    return plain


def _check_entry(crib: Crib, entry: str) -> None:
    """Refuse an entry that means nothing: that nobody has it would be true, and say nothing."""
    if complaint := complaint_about(entry):
        raise CribError(f"--never: {complaint}")
    catalog = crib.catalog
    if not list_meant(entry, Inventory(catalog.tools, catalog.groups)):
        hint = suggest(entry, [*catalog.tools, *catalog.groups], "`toolcrib tools list` shows what there is")
        raise CribError(f"--never {entry[:64]!r} means no tool that exists here{hint}")


@click.command("who", epilog=_WHO)
@click.argument("tool")
@json_options
def who(tool: str, **options: Unpack[JsonOptions]) -> None:
    """Say of every caller that the configuration tells apart whether TOOL is theirs, and which layer decides.

    These are the owner here, agents, models, subagents, the sandbox, and in channels groups, senders, direct messages.
    Whoever would have it through another agent or model is listed with that, too.
    """
    crib = _open(options)
    name, told = require_tool(tool, crib.catalog.tools), list[dict[str, object]]()
    rows = list[tuple[str, str, str, str]]()
    declared = list_declared([crib.policy], _list_named(crib))
    for route in dict.fromkeys(crib.route(each) for each in _with_better_speakers(crib, name, declared)):
        caller, doubts = crib.models.assign(route.caller), route.list_doubts(name)
        verdict, known = route.judge(crib.belt(caller).verdicts[name]), resolve(crib.policy, caller)
        rule = {"layer": verdict.layer, "rule": verdict.rule, "origin": verdict.origin, "reason": verdict.reason}
        told.append({"caller": caller_json(known), "decision": verdict.decision, **rule, "uncertain": list(doubts)})
        because = "; ".join([verdict.reason, *(f"not certain: {doubt}" for doubt in doubts)])
        rows.append((_describe(route.caller), verdict.decision, verdict.layer or "-", because))
    if options["as_json"]:
        print_json({"tool": name, "callers": told})
    else:
        print_table(("caller", "verdict", "layer", "because"), rows, colour=1)


def _with_better_speakers(crib: Crib, tool: str, callers: Iterable[Caller]) -> Iterator[Caller]:
    """Yield the callers, and behind one in a chat who would have the tool there through another agent or model."""
    trial = _trial_of(crib)
    best = min(list_speakers([crib.policy], trial.needs), key=lambda each: rank(trial.judge_speaker(each)(tool)))
    for caller in callers:
        yield caller
        if caller.channel is None or crib.loaded.foreign:  # an OpenClaw file says whose agent is meant
            continue
        better, had = join_halves([crib.policy], best, caller), crib.belt(crib.models.assign(caller)).verdicts[tool]
        if rank(crib.belt(better).verdicts[tool].decision) < rank(had.decision):
            yield better


def _describe(caller: Caller) -> str:
    agent, here = agent_of(caller), "the owner here" if caller.owner else "somebody who is not the owner"
    parts = [name_of(replace(caller, agent=agent))]
    if caller.channel is None and not caller.parents:
        parts = [here, f"agent {escape(agent)}"] if caller.agent else [here]
    sender = caller.sender
    if sender and not (sender.id or sender.e164):
        parts += [f"{kind}:{escape(text)}" for kind in ("username", "name") if (text := getattr(sender, kind))]
    parts += [f"account {escape(caller.account)}"] if caller.account else []
    parts += ["sandboxed"] if caller.sandboxed else []
    parts += [f"model {escape('/'.join(filter(None, (caller.provider, caller.model))))}"] if caller.provider else []
    return ", ".join(parts)
