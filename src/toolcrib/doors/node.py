"""This machine as a node: what a gateway has it do, within its own rules.

A command is judged here, by the rules of this machine's own crib, and runs as any command of that crib does. Where the
judge wants a person's yes, the gateway gets exactly what would run, and asks its people. Their yes is for that: it
names a plan of ours, is spent once, and counts only while the judge says the very same.
"""

import asyncio
import contextlib
import hashlib
import logging
import secrets
import shlex
import sys
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import orjson

from toolcrib.app import Crib
from toolcrib.backends.gateway import GatewayLink
from toolcrib.backends.senses import Sensors
from toolcrib.define.approval import Question
from toolcrib.define.caller import OWNER, Caller
from toolcrib.define.context import CallState, Ctx
from toolcrib.define.display import escape
from toolcrib.define.errors import ArgumentError, CribError, ToolError
from toolcrib.define.message import Call
from toolcrib.define.node import BROWSE, PREPARE, RUN
from toolcrib.define.plugin import Allow, Ask, Block
from toolcrib.define.result import Result

log = logging.getLogger("toolcrib")

_PLAN_SECONDS, _MAX_PLANS, _MAX_SEEN = 86_400.0, 256, 4_096
_RUN_SECONDS, _MAX_RUN_SECONDS, _WINDOW_MS, _POLL_SECONDS = 120.0, 21_600.0, 1_000, 20.0
_MAX_AT_ONCE, _MAX_CHARS = 64, 200_000
# a gateway may do what this machine's owner may: whoever starts a node lets it; how far is for `tools` to say
_CALLER = replace(OWNER, session="agent:main:node:gateway")
_ROUTE_PARAMS = ("method", "path", "query", "body", "timeoutMs", "profile")

_Do = Callable[[Mapping[str, Any]], Awaitable[Any]]


class _Plan(NamedTuple):
    """What was judged, and what a yes to it is bound to."""

    args: Mapping[str, Any]
    binding: Mapping[str, str]
    until: float


class _PlanApprover:
    """Says yes to the plan that people were shown, and to nothing else."""

    def __init__(self, plan: _Plan | None) -> None:
        self._plan = plan

    async def approve(self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str], /) -> bool:
        """Return whether this is what they approved."""
        if self._plan is None:
            what = f"{reason}: it needs a person's yes; ask by the tool nodes of the gateway"
            raise ToolError(f"{what}, or list it in tools.exec.allow of this node", code="not_approved")
        if dict(call.args) != self._plan.args or dict(binding) != self._plan.binding:
            raise ToolError("what would run now is not what was approved; ask again", code="changed")
        return True


class NodeHost:
    """Answers a gateway as long as it is connected."""

    def __init__(self, crib: Crib, sensors: Sensors) -> None:
        self._crib, self._sensors, settings = crib, sensors, crib.config.node
        self.questions = crib.approvals
        self._asks_here = settings.asks == "here"
        self._plans: OrderedDict[str, _Plan] = OrderedDict()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._seen: OrderedDict[str, None] = OrderedDict()  # idempotency keys
        self.answers: dict[str, _Do] = {
            RUN: self._run,
            PREPARE: self._prepare,
            "system.which": self._which,
            "system.notify": self._notify,
            "system.execApprovals.get": self._show_rules,
            "system.execApprovals.set": self._change_rules,
        }
        if settings.cameras:
            self.answers |= {"camera.list": self._list_cameras, "camera.snap": self._snap, "camera.clip": self._clip}
        if settings.screen:
            self.answers["screen.record"] = self._record
        if settings.location:
            self.answers["location.get"] = self._locate
        if settings.browser:
            self.answers[BROWSE] = self._browse

    def describe(self) -> dict[str, Any]:
        """Return what this node says of itself when it connects."""
        caps = dict.fromkeys(name.partition(".")[0] for name in self.answers)
        return {"role": "node", "caps": list(caps), "commands": list(self.answers)}

    @contextlib.asynccontextmanager
    async def live(self) -> AsyncIterator[None]:
        """Be there for a gateway: with a crib that has started."""
        async with self._crib:
            stop_asking = self.questions.on_question(_note_question) if self._asks_here else bool
            try:
                yield
            finally:
                stop_asking()
                await self._sensors.close()

    async def serve(self, link: GatewayLink, heard: AsyncIterator[tuple[str, Any]]) -> None:
        """Answer what the gateway asks for, until it turns this node out: then CribError is raised."""
        hearing, lost = asyncio.ensure_future(self._hear(link, heard)), asyncio.ensure_future(link.lost())
        try:
            await asyncio.wait([hearing, lost], return_when=asyncio.FIRST_COMPLETED)
            lost.result() if lost.done() else hearing.result()
        finally:
            ends = [hearing, lost, *self._tasks.values()]
            for task in ends:
                task.cancel()
            await asyncio.gather(*ends, return_exceptions=True)

    async def _hear(self, link: GatewayLink, heard: AsyncIterator[tuple[str, Any]]) -> None:
        async for event, payload in heard:
            is_request = isinstance(payload, Mapping) and isinstance(payload.get("id"), str) and "nodeId" in payload
            if not (is_request and event.startswith("node.invoke.")):
                continue
            if event == "node.invoke.request" and len(self._tasks) < _MAX_AT_ONCE:  # more than that is left to time out
                task = asyncio.get_running_loop().create_task(self._answer(link, payload))
                self._tasks[payload["id"]] = task
                task.add_done_callback(partial(self._forget, payload["id"]))
            elif event == "node.invoke.cancel" and (running := self._tasks.get(payload["id"])):
                running.cancel()

    def _forget(self, id: str, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(id, None)

    async def _answer(self, link: GatewayLink, request: Mapping[str, Any]) -> None:
        """Do a request, and send its result."""
        answer: dict[str, Any] = {"id": request["id"], "nodeId": request["nodeId"]}
        try:
            payload = await self._do_once(request)
            answer |= {"ok": True, "payloadJSON": orjson.dumps(payload).decode()}
        except ToolError as error:
            answer |= {"ok": False, "error": {"code": error.code.upper(), "message": str(error)}}
        except Exception:
            log.exception("%s failed", escape(str(request.get("command"))))
            answer |= {"ok": False, "error": {"code": "FAILED", "message": "it failed; the log of the node says why"}}
        try:
            await link.ask("node.invoke.result", answer)
        except CribError as error:  # the gateway has failed the request already
            log.warning("the answer to %s was not taken: %s", escape(str(request.get("command"))), error)

    async def _do_once(self, request: Mapping[str, Any]) -> Any:
        """Return the result of a request; the same one again is refused."""
        answer, key = self.answers.get(str(request.get("command"))), str(request.get("idempotencyKey"))
        params = orjson.loads(request.get("paramsJSON") or "{}")
        if answer is None or not isinstance(params, dict):
            raise ToolError(f"this node has no command {str(request.get('command'))[:64]!r}", code="not_found")
        if key in self._seen:
            raise ToolError("this was asked for before; ask anew, with another key", code="repeated")
        self._seen[key] = None
        while len(self._seen) > _MAX_SEEN:
            self._seen.popitem(last=False)
        return await answer(params)

    # commands

    async def _prepare(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Say what would become of a command, and what exactly it would be."""
        args = _read_command(params)
        verdict = self._crib.belt(_CALLER).verdicts.get("exec")
        if verdict is None or verdict.decision == "deny":
            return {"decision": "deny", "reason": verdict.reason if verdict else "this node runs no commands"}
        call = Call(secrets.token_hex(8), "exec", args, secrets.token_hex(8))
        word = await self._crib.commands.decide(Ctx(call, _CALLER, CallState()), args)
        if isinstance(word, Block):
            return {"decision": "deny", "reason": word.reason}
        reason = word.reason if isinstance(word, (Ask, Allow)) else verdict.reason
        if self._asks_here or not (isinstance(word, Ask) or verdict.decision == "ask"):
            return {"decision": "run", "reason": reason}
        binding = dict(word.binding) if isinstance(word, Ask) else {}
        now, id = time.monotonic(), secrets.token_hex(16)
        self._plans[id] = _Plan(args, binding, now + _PLAN_SECONDS)
        while len(self._plans) > _MAX_PLANS:
            self._plans.popitem(last=False)
        return {"decision": "ask", "reason": reason, "binding": {"command": args["command"], **binding}, "plan": id}

    async def _run(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run a command, as this machine's own crib does."""
        args, plan = _read_command(params), None
        if (id := params.get("plan")) is not None:
            plan = self._plans.pop(str(id), None)  # a yes is spent, whatever comes of it
            if plan is None or plan.until < time.monotonic():
                raise ToolError("this node does not know what was approved any more; ask again", code="changed")
        belt = self._crib.belt(_CALLER, approver=None if self._asks_here else _PlanApprover(plan))
        return await self._follow(await belt.call("exec", args))

    async def _follow(self, result: Result) -> dict[str, Any]:
        """Return how a command ended; one that takes long is waited for."""
        details = dict(result.details) if isinstance(result.details, Mapping) else {}
        if "exitCode" not in details and details.get("status") != "running":
            raise ToolError(result.plain_text, code=str(details.get("code", "failed")))
        text = "" if details.get("status") == "running" else result.plain_text
        try:
            while details.get("status") == "running":
                asked = {"id": details["sessionId"], "wait": _POLL_SECONDS}
                details = await self._crib.belt(_CALLER).ports.rpc("process.poll", asked)
                text = f"{text}{details['text']}"[-_MAX_CHARS:]
        except asyncio.CancelledError:
            await self._crib.belt(_CALLER).ports.rpc("process.kill", {"id": details["sessionId"]})
            raise
        code, timed_out = details.get("exitCode"), bool(details.get("timedOut"))
        ended = {"exitCode": code, "timedOut": timed_out, "success": code == 0, "stdout": text, "stderr": ""}
        return ended | ({"error": details["error"]} if details.get("error") else {})

    async def _which(self, params: Mapping[str, Any]) -> dict[str, Any]:
        names = params.get("bins")
        if not isinstance(names, list) or len(names) > _MAX_PLANS:
            raise ArgumentError("system.which needs bins, a list of names")
        look_up = self._crib.commands.rules_of_agent("main").look_up
        found = {name: look_up(name) for name in names if isinstance(name, str)}
        return {"bins": {name: path for name, path in found.items() if path}}

    async def _show_rules(self, params: Mapping[str, Any]) -> dict[str, Any]:
        shown = await self._crib.ask("config.get", {}, caller=OWNER)
        rules = self._crib.config.tools.exec.model_dump(mode="json", by_alias=True, exclude_unset=True)
        return {"path": shown.get("path"), "hash": shown.get("hash"), "exec": rules}

    async def _change_rules(self, params: Mapping[str, Any]) -> dict[str, Any]:
        if not self._crib.config.node.managed:
            raise ToolError("this node's rules are changed on it; node.managed: true lets a gateway", code="denied")
        raw = orjson.dumps({"tools": {"exec": params.get("exec")}}).decode()
        await self._crib.ask("config.patch", {"raw": raw, "baseHash": str(params.get("baseHash", ""))}, caller=OWNER)
        return await self._show_rules({})

    # the machine

    async def _browse(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Use the browser of this machine by its routes; each session of the gateway's has pages of its own."""
        verdict = self._crib.belt(_CALLER).verdicts.get("browser")
        if verdict is None or verdict.decision != "allow":
            raise ToolError(verdict.reason if verdict else "this node has no browser", code="denied")
        asked = {key: params[key] for key in _ROUTE_PARAMS if params.get(key) is not None}
        session = hashlib.sha256(str(params.get("session")).encode()).hexdigest()[:16]
        who = replace(_CALLER, session=f"{_CALLER.session}:{session}")
        return {"result": await self._crib.ask("browser.request", asked, caller=who)}

    async def _notify(self, params: Mapping[str, Any]) -> dict[str, Any]:
        title, body = str(params.get("title") or ""), str(params.get("body") or "")
        try:
            await self._sensors.notify(title, body, priority=str(params.get("priority") or "active"))
        except ToolError as error:
            if error.code != "unavailable":
                raise
            sys.stderr.write(f"{escape(': '.join(filter(None, (title, body))))[:4_000]}\n")
            sys.stderr.flush()
        return {"ok": True}

    async def _list_cameras(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"devices": await self._sensors.list_cameras()}

    async def _snap(self, params: Mapping[str, Any]) -> dict[str, Any]:
        named = {"max_width": "maxWidth", "quality": "quality", "device_id": "deviceId", "delay_ms": "delayMs"}
        return await self._sensors.snap(str(params.get("facing") or ""), **_rename(params, named))

    async def _clip(self, params: Mapping[str, Any]) -> dict[str, Any]:
        named = {"duration_ms": "durationMs", "include_audio": "includeAudio", "device_id": "deviceId"}
        return await self._sensors.clip(str(params.get("facing") or ""), **_rename(params, named))

    async def _record(self, params: Mapping[str, Any]) -> dict[str, Any]:
        named = {"duration_ms": "durationMs", "fps": "fps", "screen_index": "screenIndex"}
        return await self._sensors.record(**_rename(params, named))

    async def _locate(self, params: Mapping[str, Any]) -> dict[str, Any]:
        at = self._crib.config.node.location
        if at is None:
            raise ToolError("this node does not know where it is; write node.location", code="unavailable")
        where = {"lat": at.latitude, "lon": at.longitude, "accuracyMeters": at.accuracy}
        return {**where, "timestamp": int(time.time() * 1000), "source": "configuration"}


def _note_question(question: Question) -> None:
    """Let a question wait for an answer, also where nobody sits at this terminal."""
    if question.state == "pending":
        log.info("a command waits for an answer: toolcrib approvals allow %s", question.id)


def _rename(params: Mapping[str, Any], named: Mapping[str, str]) -> dict[str, Any]:
    return {ours: params[theirs] for ours, theirs in named.items() if params.get(theirs) is not None}


def _read_seconds(params: Mapping[str, Any]) -> float:
    timeout = params.get("timeoutMs")
    return min(max(float(timeout) / 1000, 0.1), _MAX_RUN_SECONDS) if isinstance(timeout, (int, float)) else _RUN_SECONDS


def _read_command(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of `exec` for a request: what is judged is what runs; `rawCommand` is nothing to us."""
    words, env, cwd = params.get("command"), params.get("env") or {}, params.get("cwd") or "."
    if not isinstance(words, list) or not words or not all(isinstance(each, str) for each in words):
        raise ArgumentError("system.run needs command, a list of words")
    if not isinstance(env, dict) or not isinstance(cwd, str):
        raise ArgumentError("system.run takes env, an object, and cwd, a folder")
    args: dict[str, Any] = {"command": shlex.join(words), "workdir": cwd, "yieldMs": _WINDOW_MS}
    args["timeout"] = _read_seconds(params)
    return args | ({"env": {str(key): str(value) for key, value in env.items()}} if env else {})
