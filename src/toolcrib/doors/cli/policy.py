"""toolcrib policy: rules tried before they count; and toolcrib who: everybody that a file tells apart, and one tool."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import asdict, replace
from itertools import chain
from typing import Any, Unpack

import click

from toolcrib.app import Crib, sender_from
from toolcrib.app.policies import list_changes
from toolcrib.app.stores import STATE_FILE, audit_in
from toolcrib.config.load import list_unjudged
from toolcrib.config.routing import list_doors
from toolcrib.define.approval import name_of
from toolcrib.define.caller import Caller
from toolcrib.define.display import escape
from toolcrib.define.errors import CribError
from toolcrib.define.names import suggest
from toolcrib.policy.callers import join_halves, list_declared, list_speakers
from toolcrib.policy.explain import caller_json
from toolcrib.policy.identities import is_role, sender_key
from toolcrib.policy.match import Inventory, complaint_about, list_meant
from toolcrib.policy.resolve import agent_of, resolve
from toolcrib.policy.trial import Claim, decide, rank
from toolcrib.services.toolbox import describe_tool

from ._format import print_json, print_table
from ._log import state_folder
from ._loop import run_loop
from ._options import (
    CommandGroup,
    ConfigOptions,
    JsonOptions,
    crib_from_options,
    ignore_option,
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
@ignore_option
@json_option
def diff(files: tuple[str, ...], record: bool, as_json: bool, **options: Unpack[ConfigOptions]) -> int:
    """Say for whom NEW decides otherwise than OLD, and about which tools.

    Every caller that one of them tells apart is asked about, every `expect` entry of theirs and, with --record, every
    call of before. Where a change only shows in a combination of these, one is named. What else decides about calls
    (commands, hosts, quotas ..) is named where it differs. Leaves with 1 when anything changes.
    """
    if len(files) > 2 or (len(files) == 2 and options["config"]):
        raise CribError("two files are compared: OLD and NEW, or NEW with --config OLD")
    both: tuple[str | None, ...] = files if len(files) == 2 else (options["config"], files[0])
    before, after = (_open({**options, "config": each}) for each in both)
    changes = list(list_changes(before.view(), after.view(), _list_recorded(before) if record else Counter()))
    beside = list_unjudged(before.loaded.config, after.loaded.config)
    doors = [list_doors(each.loaded.document) if each.loaded.foreign else {} for each in (before, after)]
    beside += [key for key in dict.fromkeys(chain(*doors)) if len({repr(each.get(key)) for each in doors}) > 1]
    if as_json:
        print_json({"changes": changes, **({"beside": beside} if beside else {})})
    elif changes:
        rows = [
            (_describe(Caller.from_json(each["caller"])), each["tool"], each["before"] or "-", each["after"] or "-",
             each["reason"])
            for each in changes
        ]  # fmt: skip
        print_table(("caller", "tool", "before", "after", "because"), rows, colour=3)
    elif not beside:
        click.echo("nothing changes for anybody")
    if beside and not as_json:
        first = "these differ, too," if changes else "nobody gets or loses a tool; these differ,"
        click.echo(f"{first} and are not compared by caller: {', '.join(beside)}")
    return 1 if changes or beside else 0


def _open(options: ConfigOptions) -> Crib:
    return crib_from_options(options, warn=False, fills=True)


def _list_recorded(crib: Crib) -> "Counter[tuple[Caller, str]]":
    """Return who called what, and how often."""
    path = state_folder() / STATE_FILE
    if not path.exists():
        click.echo("toolcrib: nothing was recorded yet", err=True)
        return Counter()
    calls = run_loop(audit_in(path, crib.loaded, only_looks=True).calls(most=_MAX_RECORDED))
    return Counter((Caller.from_json(each["caller"]), each["tool"]) for each in calls)


@command.declare(
    "test", "policy test", "policy test --config openclaw.json --expect promises.yaml --json", options=json_options
)
@click.option("--expect", metavar="FILE", help="A file of promises (`expect: [..]`) beside the configuration.")
def test(expect: str | None, **options: Unpack[JsonOptions]) -> int:
    """Say of every `expect` entry, tool by tool, whether it holds, and why. Leaves with 1 when one does not."""
    entries, rows = _open(options).view().judge_expected(load_promises(expect)), list[Any]()
    for each in entries:
        for made in each["promises"]:
            word, because = "holds" if made["holds"] else "broken", made.get("reason", "names no tool that exists here")
            what = f"{made['key']} {escape(made.get('tool', made['entry']))}"
            rows.append((word, each["expect"], what, made.get("decision", "-"), because))
    failing = sum(not each["holds"] for each in entries)
    if options["as_json"]:
        print_json({"entries": entries, "failing": failing})
    elif rows:
        print_table(("result", "where", "promise", "verdict", "because"), rows, colour=3)
        click.echo(f"{len(entries) - failing} of {len(entries)} entries hold")
    else:
        click.echo("nothing is expected; write it under `expect`")
    return 1 if failing else 0


@command.declare(
    "prove",
    "policy prove --never exec --except owner --channel telegram",
    "policy prove --never effect:write --channel telegram --group -100123",
    "policy prove --never group:runtime --except id:7 --json",
    options=json_options,
)
@click.option("--never", metavar="ENTRY", required=True, help="A tool, a group or an effect, as rules write them.")
@click.option(
    "--except", "excepting", metavar="WHO", multiple=True, help="owner, a sender, or role:NAME; may be given again."
)
@click.option("--channel", metavar="C", help="Only about those who write in this channel.")
@click.option("--group", metavar="G", help="Only about this group; without --channel, of any that is configured.")
def prove_never(
    never: str, excepting: tuple[str, ...], channel: str | None, group: str | None, **options: Unpack[JsonOptions]
) -> int:
    """Say whether nobody ever has ENTRY, asked or unasked: whatever agent, model, chat, sender, session or parents.

    All kinds of callers that the configuration tells apart are judged, also those that no door of ours makes today: a
    program may. Who has it is named, and was run through the gate. Leaves with 1 when there is such a caller.
    """
    crib = _open(options)
    claim = Claim(
        entry=never,
        excepting=tuple(_check_except(each, crib.policy.roles) for each in excepting),
        channel=channel,
        group=group,
    )
    meant = _find_meant(crib, never)
    places = [channel] if channel else list(crib.policy.channels)
    if group is not None and not places:
        raise CribError("--group is a group of a channel, and none is configured; say which with --channel")
    view = crib.view()
    proof = view.prove(claim)
    unmet = [f"the MCP server {escape(each)} was never met: its tools are not known" for each in crib.mcp.unmet()]
    unmet += [f"{each} decides about access and is not followed" for each in view.list_unfollowed()]
    found = proof.counterexample
    shut = "" if found is None else view.explain_refusal(found[0])
    if found is None:
        made = [name for name in sorted(meant) if crib.catalog.tools[name].make]
        unmet += [f"who gets {each} is not certain: its plugin makes it for each caller" for each in made]
    if options["as_json"]:
        example = found and {"caller": caller_json(resolve(crib.policy, found[0])), **asdict(found[1])}
        example = example and (example | {"answered": False, "why": shut} if shut else example)
        print_json({"holds": not found, "classes": proof.classes, "counterexample": example, "uncertain": unmet})
    elif found is None:
        click.echo(f"It holds: of {proof.classes:,} kinds of callers nobody has {escape(never)}.")
    else:
        who, verdict = found
        where = "" if channel or who.channel else " (a caller of no channel, as a program makes one)"
        click.echo(
            f"It does not hold. {_describe(who)}{where}: {verdict.tool} is {verdict.decision}, {verdict.reason}."
            + (f" The file lets nobody like that in: {shut}." if shut else "")
        )
    for doubt in () if options["as_json"] else unmet:
        click.secho(f"Not certain: {doubt}.", fg="yellow")
    return 1 if found else 0


def _check_except(text: str, roles: Collection[str]) -> str:
    plain = text.strip()
    if plain.lower() == "owner":
        return "owner"
    if is_role(plain):
        if sender_key(plain).value not in roles:
            raise CribError(f"--except {plain[:64]!r}: there is no such role; there are {', '.join(roles) or 'none'}")
        return plain
    if plain == "*":
        raise CribError("--except '*' would leave nobody; name senders, or owner")
    sender_from(plain)
    return plain


def _find_meant(crib: Crib, entry: str) -> frozenset[str]:
    """Return the tools that an entry means; one that means nothing is refused: that nobody has it would say nothing."""
    if complaint := complaint_about(entry):
        raise CribError(f"--never: {complaint}")
    catalog = crib.catalog
    if not (meant := list_meant(entry, Inventory(catalog.tools, catalog.groups))):
        hint = suggest(entry, [*catalog.tools, *catalog.groups], "`toolcrib tools list` shows what there is")
        raise CribError(f"--never {entry[:64]!r} means no tool that exists here{hint}")
    return meant


@click.command("who", epilog=_WHO)
@click.argument("tool")
@json_options
def who(tool: str, **options: Unpack[JsonOptions]) -> None:
    """Say of every caller that the configuration tells apart whether TOOL is theirs, and which layer decides.

    These are the owner here, agents, models, subagents, the sandbox, and in channels groups, senders, direct messages.
    Whoever would have it through another agent or model is listed with that, too.
    """
    crib = _open(options)
    tools, callers = crib.catalog.tools, list[dict[str, object]]()
    name = require_tool(tool, tools, map(describe_tool, tools.values()))
    rows = list[tuple[str, str, str, str]]()
    view = crib.view()
    declared = list_declared([crib.policy], view.list_named())
    for route in dict.fromkeys(view.route(each) for each in _with_better_speakers(crib, name, declared)):
        caller, doubts = crib.models.assign(route.caller), route.list_doubts(name)
        verdict, known = route.judge(crib.belt(caller).verdicts[name]), resolve(crib.policy, caller)
        rule = {"layer": verdict.layer, "rule": verdict.rule, "origin": verdict.origin, "reason": verdict.reason}
        callers.append(
            {"caller": caller_json(known), "decision": verdict.decision, **rule, "uncertain": list(doubts)}
            | route.tell_silence()
        )
        silence = [f"never answered: {route.silence}"] if route.silence else []
        because = "; ".join([verdict.reason, *silence, *(f"not certain: {doubt}" for doubt in doubts)])
        rows.append((_describe(route.caller), verdict.decision, verdict.layer or "-", because))
    if options["as_json"]:
        print_json({"tool": name, "callers": callers})
    else:
        print_table(("caller", "verdict", "layer", "because"), rows, colour=1)


def _with_better_speakers(crib: Crib, tool: str, callers: Iterable[Caller]) -> Iterator[Caller]:
    """Yield the callers, and behind one in a chat who would have the tool there through another agent or model."""
    trial = crib.view().make_trial()
    best = min(
        list_speakers([crib.policy], trial.needs), key=lambda each: rank(decide(trial.judge_speaker(each), tool))
    )
    for caller in callers:
        yield caller
        if caller.channel is None or crib.loaded.foreign:  # an OpenClaw file says whose agent is meant
            continue
        better, had = join_halves([crib.policy], best, caller), crib.belt(crib.models.assign(caller)).verdicts[tool]
        if rank(crib.belt(better).verdicts[tool].decision) < rank(had.decision):
            yield better


def _describe(caller: Caller) -> str:
    agent, here = agent_of(caller), "the owner here" if caller.owner else "somebody who is not the owner"
    parts = ["the owner"] * bool(caller.owner and caller.channel) + [name_of(replace(caller, agent=agent))]
    if caller.channel is None and not caller.parents:
        parts = [here, f"agent {escape(agent)}"] if caller.agent else [here]
    sender = caller.sender
    if sender and not (sender.id or sender.e164):
        parts += [f"{kind}:{escape(text)}" for kind in ("username", "name") if (text := getattr(sender, kind))]
    parts += [f"account {escape(caller.account)}"] if caller.account else []
    parts += ["sandboxed"] if caller.sandboxed else []
    parts += [f"model {escape('/'.join(filter(None, (caller.provider, caller.model))))}"] if caller.provider else []
    return ", ".join(parts)
