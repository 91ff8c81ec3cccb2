"""gemini-message-bus on approvals: a call of `t`, a door that hears of questions, subagents as callers with parents.

What their bus publishes is what is known here: that a call ran or was refused, and what a door was shown of a question.
"""

import asyncio
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import toolcrib
from tests.memory_stores import MemoryApprovals
from toolcrib.define.approval import Question
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.names import tool_name
from toolcrib.define.result import Result
from toolcrib.define.tool import tool
from toolcrib.services.approvals import Approvals, ApprovalTerms

from .gemini_rules import entry_about
from .jump import run
from .load import Case
from .outcome import Same, Theirs

Json = dict[str, Any]

_LISTS = {"deny": "deny", "ask_user": "ask"}
_CHAIN = re.compile(r"asked by agent (\S+), started by main(/\S+)?$", re.MULTILINE)
_MAIN = re.compile(r"asked by the terminal$", re.MULTILINE)


@tool(effects={"read"})
async def t(ctx: Ctx) -> Result:
    """Do something."""
    return Result.text("done")


def caller_of(chain: list[str]) -> Caller:
    """Return the subagent at the end of a chain of names that begins below the main agent; without one, its owner."""
    return Caller(agent=chain[-1], parents=("main", *chain[:-1])) if chain else Caller()


def _approvals(seconds: float = 300.0) -> Approvals:
    """Return approvals whose clock is that of the event loop."""
    now = asyncio.get_running_loop().time
    terms = ApprovalTerms(seconds=seconds)
    return Approvals(
        MemoryApprovals(), is_owner=lambda caller: True, can_lend=lambda *_: "only once", terms=terms, now=now
    )


def _published(args: Json) -> list[Json]:
    if not isinstance(args["message"], str):
        raise ToolError("there is no bus to publish on: watchers hear of calls, doors of questions, each from its own")
    return run(_asked(args))


async def _asked(args: Json) -> list[Json]:
    """Make the call, as far as it comes without an answer."""
    approvals, questions, heard = _approvals(), list[Question](), asyncio.Event()

    def listen(question: Question) -> None:
        questions.append(question)
        heard.set()

    if args["listener"]:
        approvals.on_question(listen)
    crib = toolcrib.open(_config(args))
    try:
        named = _named("t", args)
        own = replace(t, name=named, source=f"mcp:{args['serverName']}" if args["serverName"] else t.source)
        belt = crib.belt(caller_of(args["derive"]), extra=[own], approver=approvals)
        call, question = asyncio.ensure_future(belt.call(named)), asyncio.ensure_future(heard.wait())
        await asyncio.wait([call, question], return_when=asyncio.FIRST_COMPLETED)
        question.cancel()
        if not call.done():
            call.cancel()
            await asyncio.wait([call])
            return [{"type": "request-forwarded", **_chain(questions[0])}]
        return _answers(call.result())
    finally:
        await crib.close()


def _named(name: str, args: Json) -> str:
    """Return what we call a tool: by its server, where the call says which."""
    return tool_name(args["serverName"], name) if args["serverName"] else name


def _config(args: Json) -> Json:
    """Return the default decision as everybody's list, and the rules as everybody's or one agent's."""
    tools: Json = {"deny": [], "ask": []}
    agents: Json = {}
    rules = [{"toolName": "t", "decision": args["decision"]}, *args["rules"]]
    for rule in rules:
        lists = tools
        if "subagent" in rule:
            agent = agents.setdefault(rule["subagent"].rpartition("/")[2], {"tools": {"deny": [], "ask": []}})
            lists = agent["tools"]
        if rule["decision"] in _LISTS:
            lists[_LISTS[rule["decision"]]].append(_entry(rule, args))
    return {"tools": tools, "agents": agents}


def _entry(rule: Json, args: Json) -> str:
    """Return what a rule is about, as an entry of our lists."""
    if "mcpName" in rule:
        return entry_about(rule["mcpName"], rule["toolName"])
    return "*" if rule["toolName"] == "*" else _named(rule["toolName"], args)


def _answers(result: Result) -> list[Json]:
    response: Json = {"type": "tool-confirmation-response", "confirmed": result.status == "ok"}
    if result.status == "ok":
        return [response]
    if result.details["code"] == "denied":
        return [{"type": "tool-policy-rejection"}, response]
    if result.details["code"] != "not_approved":
        raise AssertionError(f"t failed: {result.details}")
    return [{**response, "requiresUserConfirmation": True}]


def _chain(question: Question) -> Json:
    """Return the names below the main agent, as a person is shown them."""
    if _MAIN.search(question.shown):
        return {}
    shown = _CHAIN.search(question.shown)
    if shown is None:
        raise AssertionError(f"the question does not say who asks: {question.shown}")
    above = (shown[2] or "").removeprefix("/")
    return {"subagent": f"{above}/{shown[1]}" if above else shown[1]}


def _requested(args: Json) -> Json:
    return run(_unanswered(args["timeoutMs"] / 1000))


async def _unanswered(seconds: float) -> Json:
    """Ask where a door listens and nobody answers; tell what is said and how long that took."""
    now, approvals = asyncio.get_running_loop().time, _approvals(seconds)
    approvals.on_question(lambda question: None)
    began = now()
    try:
        await approvals.approve(Caller(), Call("1", "t"), "a human is asked for t", {})
    except ToolError as error:
        return {"error": str(error), "waitedAtLeastMs": round((now() - began) * 1000)}
    raise AssertionError("nobody said yes")


def _messages(case: Case) -> list[Any]:
    """Return what was published; of a question only from whom it comes."""
    return [
        {key: value for key, value in each.items() if value is not None} if isinstance(each, dict) else each
        for each in case.expected
    ]


def _same_wait(case: Case, ours: Any) -> str:
    """Compare that both give up, no earlier than they were told; the words are ours."""
    if ours.keys() != case.expected.keys():
        return "one of us got an answer"
    return "" if ours["waitedAtLeastMs"] >= case.expected["waitedAtLeastMs"] else "ours gave up too early"


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "gemini.MessageBus.publish": _published,
    "gemini.MessageBus.request": _requested,
}
SAME: dict[str, Same] = {"gemini.MessageBus.request": _same_wait}
THEIRS: dict[str, Theirs] = {"gemini.MessageBus.publish": _messages}
