"""gemini-subagent-loop and gemini-complete-task on our executor: scripted replies, made-up tools, rules as policy.

Compared is what a run comes to: why it ended, its answer, how often the model was asked before the last reply, which
tools it was offered, and what each of its calls was answered.
"""

import asyncio
import base64
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from typing import Any

from toolcrib.adapter.arguments import parse_arguments
from toolcrib.agent.belt import Belts
from toolcrib.agent.loop import TurnSetup
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.agent.retry import Retries
from toolcrib.agent.subagent import Completion, run_agent
from toolcrib.agent.subagent_report import Outcome
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.config.load import load
from toolcrib.define.agent import Agent, answer_text, prompts_of
from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ArgumentError, ToolError
from toolcrib.define.event import Replied, ReplyEvent
from toolcrib.define.message import Call, Message
from toolcrib.define.model import ModelCard, Request
from toolcrib.define.result import Content, Image, Result, Text
from toolcrib.define.schema.check import check_of_schema
from toolcrib.define.schema.portable import Shape
from toolcrib.define.tool import Tool, tool_named
from toolcrib.define.turn import Limits
from toolcrib.registry.catalog import Catalog

from .jump import run
from .load import Case
from .outcome import Refused, Same, Theirs, check_keys, is_same, mentions
from .outputs import written

Json = dict[str, Any]

_QUIET = logging.NullHandler()  # what fails here fails on purpose
_ANYTHING: Json = {"type": "object", "properties": {}, "additionalProperties": True}
_CHILD = Caller(owner=True, agent="worker", session="agent:worker:subagent:1", parents=("agent:main:main",))
_REASONS = {
    "goal": "GOAL",
    "rescued": "RESCUED",
    "spoken": "SPOKEN",
    "timeout": "TIMEOUT",
    "max_turns": "MAX_TURNS",
    "budget": "BUDGET",
    "no_completion": "ERROR_NO_COMPLETE_TASK_CALL",
    "error": "ERROR",
}


class _Script:
    """The model: one scripted reply a request."""

    card = ModelCard(provider="test", model="script", sees=True)

    def __init__(self, script: list[Json]) -> None:
        self._script = script
        self.asked: list[tuple[list[Message], list[str]]] = []
        self.task: asyncio.Task[Any] | None = None

    async def reply(self, request: Request, /) -> AsyncIterator[ReplyEvent]:
        at = len(self.asked)
        self.asked.append((list(request.history), [tool.name for tool in request.tools]))
        how = self._script[at] if at < len(self._script) else {"text": ""}
        if how.get("hangUntilAbort"):
            await asyncio.Event().wait()
        if how.get("abortUser"):
            self.stop()
            await asyncio.sleep(0)  # where it is heard
        if "throws" in how or how.get("throwAbort"):
            yield Replied(Message(role="assistant", finish="error"), error=how.get("throws", "aborted"))
            return
        calls = tuple(_call(at, number, *each) for number, each in enumerate(how.get("calls", ())))
        content = (Text(how["text"]),) if how.get("text") else ()
        yield Replied(
            Message(role="assistant", content=content, calls=calls, finish="calls" if calls else "stop", by="script")
        )

    def stop(self) -> None:
        """Do what a person does who has enough."""
        if self.task is not None:
            self.task.cancel()

    async def close(self) -> None:
        """Nothing is held."""


def _call(at: int, number: int, name: str, given: Any = None, id: str = "") -> Call:
    """Return a call as our adapters read it: arguments that are text are read, and what is wrong with them is told."""
    args, flaw = {} if given is None else given, ""
    if isinstance(given, str):
        try:
            args = parse_arguments(given)
        except ArgumentError as error:
            args, flaw = {}, str(error)
    return Call(id or f"c{at}-{number}", name, args, parse_error=flaw)


def _tool(name: str, how: Json, stop: Callable[[], None]) -> Tool:
    async def run(ctx: Ctx, args: Mapping[str, Any]) -> Result:
        if any("abort" in key.lower() and how[key] for key in how):
            stop()
        if delay := how.get("delay"):
            await asyncio.sleep(delay / 1000)
        if "error" in how:
            raise ToolError(how["error"])
        if "throws" in how:
            raise RuntimeError(how["throws"])
        if isinstance(how.get("llmContent"), str):
            return Result.text(how["llmContent"])
        if "llmContent" in how:
            parts = how["llmContent"] if isinstance(how["llmContent"], list) else [how["llmContent"]]
            return Result(tuple(map(_part, parts)))
        return Result.text(str(how.get("result", "ok")))

    schema = how.get("schema") or _ANYTHING
    made = tool_named(name, "A tool.", Shape(lambda: schema, check_of_schema), run, effects=set())
    return replace(made, source="agent") if how.get("kind") == "agent" else made


def _part(part: Json | str) -> Content:
    if isinstance(part, str):
        return Text(part)
    if "text" in part:
        return Text(part["text"])
    return Image(base64.b64decode(part["inlineData"]["data"]), part["inlineData"]["mimeType"])


def _agent(args: Json) -> Agent:
    output = args.get("output")
    return Agent(
        name="worker",
        description="works",
        prompt="" if args.get("noPrompt") else args.get("systemPrompt", "You work."),
        inputs={"q": {"type": "string"}},
        query=args.get("query", "Get Started!"),
        tools=tuple(args["toolConfig"]["tools"]) if args.get("toolConfig") else None,
        output=_wanted(args, output["schema"]) if output else None,
        output_name=output["name"] if output else "result",
        render=_in_brackets if any("process" in key.lower() for key in output or ()) else None,
        max_turns=args.get("maxTurns", 30),
        timeout=args.get("maxTimeMinutes", 10) * 60,
    )


def _wanted(args: Json, kind: str) -> Json:
    """Return a kind of output as a schema.

    What an `object` holds is not in the recording; where answers have a summary it is what complete_task's cases say.
    """
    if kind != "object":
        return {"type": kind}
    if '"summary"' not in json.dumps(args["script"]):
        return _ANYTHING
    return {**_ANYTHING, "properties": {"summary": {"type": "string"}}, "required": ["summary"]}


def _config(rules: list[Json]) -> Json:
    """Return rules of theirs as lists of ours, everybody's or one agent's."""
    tools: Json = {}
    agents: Json = {}
    for rule in rules:
        if (name := {"deny": "deny", "ask_user": "ask"}.get(rule["decision"])) is not None:
            lists = agents.setdefault(rule["subagent"], {"tools": {}})["tools"] if "subagent" in rule else tools
            named = rule["toolName"] if isinstance(rule["toolName"], list) else [rule["toolName"]]
            lists.setdefault(name, []).extend(named)
    return {"tools": tools, "agents": agents}


class _Person:
    """Answers by the id of a call or the name of its tool; one who was given no answer says no."""

    def __init__(self, answers: Json) -> None:
        self._answers = answers

    async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str], /) -> bool:
        return str(self._answers.get(call.id, self._answers.get(call.name, ""))).startswith("proceed")


def _run(args: Json) -> Json:
    logging.getLogger("toolcrib").addHandler(_QUIET)
    known = (
        "answers inputs interactive maxTimeMinutes maxTurns noPrompt output query realChat rules script systemPrompt"
    )
    check_keys(args, f"{known} toolConfig tools", "a case")
    for step in args["script"]:
        check_keys(step, "calls hangUntilAbort text throwAbort throws", "a reply")
    for how in args.get("tools", {}).values():
        check_keys(how, "delay error kind llmContent result schema throws", "a tool")
    return run(_worked(args))


async def _worked(args: Json) -> Json:
    agent = _agent(args)
    model = _Script(args["script"])
    tools = {name: _tool(name, how or {}, model.stop) for name, how in args.get("tools", {}).items()}
    policy = replace(load(_config(args.get("rules", [])), {}).policy, mandates={"worker": agent.tools})
    prompts = prompts_of(agent, args.get("inputs") or {})
    setup = TurnSetup(
        model=model,
        belt=Belts(Catalog(tools, ()), policy).belt_for(_CHILD),
        caller=_CHILD,
        pipeline=CallPipeline(
            record=MemoryRecord(), approver=_Person(args["answers"]) if args.get("answers") else None
        ),
        limits=Limits(turns=agent.max_turns, seconds=agent.timeout),
        retries=Retries(tries=1),
        system=prompts.system,
    )
    model.task = asyncio.ensure_future(run_agent(agent, setup, prompts.query))
    await asyncio.wait([model.task])
    outcome: Outcome | None = None if model.task.cancelled() else model.task.result()
    # the last reply is offered one tool only, and asked for by one more message of the user
    usual = [each for at, each in enumerate(model.asked) if not at or each[0][-1].role != "user"]
    answer = None if outcome is None or outcome.answer is None else answer_text(agent, outcome.answer)
    return {
        "reason": "ABORTED" if outcome is None else _REASONS[outcome.reason],
        "result": answer if answer is not None or outcome is None or outcome.reason != "error" else outcome.why,
        "turns": len(usual),
        "modelCalls": len(model.asked),
        "offered": model.asked[0][1],
        "answered": [answer for messages, _ in usual for answer in _answers(messages)],
    }


def _answers(messages: list[Message]) -> list[list[str]]:
    """Return what the calls of the last reply were answered: the tool, and its words unless it failed."""
    names = {call.id: call.name for message in messages for call in message.calls}
    last: list[list[str]] = []
    for message in reversed(messages):
        if message.role != "tool":
            break
        text = message.plain_text
        last.append([names[message.call_id or ""], "error" if message.status == "error" else text])
    return last[::-1]


def _same(case: Case, ours: Any) -> str:
    """Return "" when our run came to what theirs did, else how not."""
    theirs = case.expected
    if "thrown" in theirs and not theirs["modelCalls"]:
        return "" if isinstance(ours, Refused) else "recorded is a refusal before the first reply, ours is not"
    if isinstance(ours, Refused):
        return f"ours is an error: {ours.message}"
    if "thrown" in theirs:
        stopped = any(step.get("abortUser") for step in case.args["script"])
        reason = "ABORTED" if theirs["name"] == "AbortError" and stopped else "ERROR"
        said = theirs["thrown"] in str(ours["result"]) or reason == "ABORTED"
        return "" if ours["reason"] == reason and said else "the ends differ"
    return "" if is_same(ours, _recorded(case)) else "the runs differ"


def _recorded(case: Case) -> Json:
    """Return a recorded run in the words of `_worked`."""
    theirs = case.expected
    if "thrown" in theirs:
        return {"thrown": theirs["thrown"]}
    answers = [part for message in theirs["messagesToModel"] for part in message if isinstance(part, dict)]
    reason = theirs["terminate_reason"]
    return {
        "reason": reason,
        "result": theirs["result"] if reason == "GOAL" else None,
        "modelCalls": theirs["modelCalls"],
        "turns": theirs["turn_count"],
        "offered": theirs["toolsOffered"],
        "answered": [
            [part["tool"], "error" if "error" in part["response"] else part["response"].get("output", "")]
            for part in answers
            if "tool" in part
        ],
    }


def _output(config: str | None) -> Agent:
    """Return an agent whose output is what theirs is written as, `report:{summary:string,n?:number}`."""
    options: Json = {}
    if config is not None:
        name, schema, is_processed = written(config)
        options = {"output_name": name, "output": schema, "render": _in_brackets if is_processed else None}
    return Agent(name="worker", description="works", prompt="You work.", inputs={}, **options)


def _in_brackets(value: Any) -> str:
    return f"<<{value['summary'] if isinstance(value, dict) else value}>>"


def _completed(args: Json) -> Json:
    agent = _output(args["outputConfig"])
    checked = Completion(agent).tool.check(args["params"])
    return {"submittedOutput": answer_text(agent, checked)}


def _completed_same(case: Case, ours: Any) -> str:
    theirs = case.expected
    if not theirs["ok"]:
        if not isinstance(ours, Refused):
            return "recorded is an error, ours is not"
        missing = [word for word in mentions(theirs["error"], case.args["params"]) if word not in ours.message]
        return f"our error does not mention {', '.join(map(repr, missing))}" if missing else ""
    if isinstance(ours, Refused):
        return f"ours is an error: {ours.message}"
    return "" if ours["submittedOutput"] == theirs["data"]["submittedOutput"] else "the answers differ"


def _completion_schema(args: Json) -> Json:
    schema: Json = _undescribed(Completion(_output(args["outputConfig"])).tool.parameters)
    return schema


def _undescribed(value: Any) -> Any:
    """Return a schema without the words for people and models, which each has of its own."""
    if isinstance(value, Mapping):
        return {
            key: _undescribed(each) for key, each in value.items() if key != "description" or not isinstance(each, str)
        }
    return [_undescribed(each) for each in value] if isinstance(value, list | tuple) else value


def _schema_same(case: Case, ours: Any) -> str:
    """Their schemas carry one more argument, by which calls wait for others; ours are in line anyway."""
    theirs = _undescribed(case.expected)
    properties = {name: each for name, each in theirs["properties"].items() if name != "wait_for_previous"}
    wanted = {**theirs, "properties": properties}
    mine = {name: each for name, each in ours.items() if name != "additionalProperties"}
    return "" if is_same(mine, wanted) else "the schemas differ"


ADAPTERS = {
    "gemini.LocalAgentExecutor.run": _run,
    "gemini.complete_task": _completed,
    "gemini.complete_task.schema": _completion_schema,
}
SAME: dict[str, Same] = {
    "gemini.LocalAgentExecutor.run": _same,
    "gemini.complete_task": _completed_same,
    "gemini.complete_task.schema": _schema_same,
}
THEIRS: dict[str, Theirs] = {"gemini.LocalAgentExecutor.run": _recorded}
