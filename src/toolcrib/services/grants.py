"""Grants: what a yes may be for beyond the call that was asked about, and what the configuration says for good."""

import json
from collections.abc import Iterator, Mapping
from secrets import token_hex
from typing import Any

from toolcrib.config.services import StandingGrant
from toolcrib.define import approval
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ArgumentError, ToolError
from toolcrib.define.message import Call
from toolcrib.define.session import to_agent, to_channel
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import ArgumentRule
from toolcrib.lazy import dataclass
from toolcrib.policy.arguments import is_open
from toolcrib.policy.conditions import check_when, dump_when
from toolcrib.policy.lint_arguments import explain_dead
from toolcrib.policy.resolve import agent_of, is_among

from .feature import Core

CONFIGURATION = "the configuration"


@dataclass(frozen=True, slots=True)
class GrantOption:
    """What a lasting yes is for: in words, the digest of its calls, and a condition instead where it has one."""

    shown: str
    digest: str
    when: str = ""


def pick_option(question: approval.Question, which: int) -> GrantOption:
    """Return one of the choices of a question."""
    if not question.lasting:
        raise ToolError(f"{question.tool} can only be allowed once: {question.once}", code="denied")
    if not 0 <= which < len(question.lasting):
        raise ArgumentError(f"which: there are {len(question.lasting)} choices, counted from 0, not {which}")
    chosen = question.lasting[which]
    return GrantOption(question.shown if which == 0 else chosen.shown, chosen.digest)


def lend_when(tool: str, when: Mapping[str, Any]) -> GrantOption:
    """Return a yes to every call of a tool that meets a condition."""
    try:
        check_when(when)
    except ValueError as error:
        raise ArgumentError(str(error)) from None
    written = dump_when(when)
    return GrantOption(_describe(tool, written), f"when:{token_hex(16)}", written)


def check_condition(tool: Tool | None, name: str, when: str) -> None:
    """Raise ArgumentError where a grant for calls of this tool cannot have this condition."""
    if tool is None:
        raise ArgumentError(f"when: {name} is not a tool that is always here; allow exactly this call")
    if why := explain_dead(ArgumentRule("allow", name, when), [tool]):
        raise ArgumentError(f"when: {when} can never hold: {why}")
    if is_open(tool, when):
        raise ArgumentError(f"when: {when} holds whatever {name} is called with; name the arguments that are meant")


def _describe(tool: str, when: str) -> str:
    return f"every call of {tool} with {when}"


def find_always(core: Core, caller: Caller, call: Call) -> str:
    """Return the entry of `approvals.always` that lets exactly this call of this caller pass."""
    for at, each in enumerate(core.config.approvals.always):
        is_same = each.tool == call.name and each.args is not None and approval.has_exactly(each.args, call.args)
        if is_same and _is_by(core, caller, each):
            return f"approvals.always[{at}]"
    return ""


def list_standing(core: Core, caller: Caller) -> Iterator[approval.Grant]:
    """Yield the entries of `approvals.always` that are about calls of this caller, as grants."""
    for at, each in enumerate(core.config.approvals.always):
        if _is_by(core, caller, each):
            args, when = json.dumps(each.args or {}, sort_keys=True), dump_when(each.when) if each.when else ""
            call = Call("", each.tool, each.args or {})
            yield approval.Grant(
                id=f"approvals.always[{at}]",
                digest="" if each.args is None else approval.lasting_digest(caller, call, {}, ""),
                tool=each.tool,
                shown=_describe(each.tool, when) if when else f"{each.tool} with exactly {args}",
                person="",
                by=CONFIGURATION,
                made_at=0,
                until=approval.SESSION_END,
                asker=caller,
                when=when,
            )


def _is_by(core: Core, caller: Caller, entry: StandingGrant) -> bool:
    """Tell whether an entry is about calls of this caller: of the owner where it names no channel, else of a sender."""
    if caller.parents or agent_of(caller) != to_agent(entry.agent):
        return False
    if entry.channel is None:
        return caller.channel is None and caller.group is None and core.is_owner(caller)
    own = (to_channel(caller.channel or ""), caller.account, caller.group)
    is_there = own == (to_channel(entry.channel), entry.account, entry.group)
    return (
        is_there
        and entry.sender is not None
        and is_among(core.policy, caller, [entry.sender], at=to_channel(entry.channel))
    )
