"""attacks/policy on the whole gate: configuration, catalog, belt and call as a program would use them."""

import asyncio
import json
import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from toolcrib.adapter.body import encode_body
from toolcrib.adapter.cards import Api, Target
from toolcrib.agent.belt import Belts
from toolcrib.agent.hooks import bind_guards, bind_observers
from toolcrib.agent.invoke import invoke, invoke_all
from toolcrib.agent.pipeline import CallPipeline
from toolcrib.app import Belt
from toolcrib.backends.plugins import DeclaredTool
from toolcrib.backends.stores.memory import MemoryRecord
from toolcrib.config.load import load
from toolcrib.define.caller import Caller, Sender
from toolcrib.define.context import CallState, Ctx, Ports
from toolcrib.define.errors import ConfigError, DeclarationError
from toolcrib.define.message import Call, Message
from toolcrib.define.model import History, Request
from toolcrib.define.plugin import Block, Hook, Observer, Rewrite
from toolcrib.define.record import Decided, Started
from toolcrib.define.result import Result, Text
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Selection
from toolcrib.policy.resolve import mark_terminal_owner
from toolcrib.registry.catalog import Catalog
from toolcrib.registry.sources import Offer, collect_catalog
from toolcrib.tools import SHELF

from . import Outcome, UnknownWordError, alternatives, broken, kept, subagents, ways

Json = dict[str, Any]

# Contested rules that docs/policy.md states: the configuration's author can know them, lint warns about them.
DOCUMENTED = frozenset({"agent profile replaces global profile", "model entry replaces provider entry"})

_QUIET = logging.NullHandler()  # what fails here fails on purpose
_CHANNELS = frozenset({"telegram", "slack", "discord", "whatsapp", "signal"})
_GROUPS = {tool.name: tool.group for tool in SHELF}


def judge(case: Json, profiles: Json) -> Outcome:
    """Build the case's crib and compare what its caller sees with what must be."""
    setup, asked = case["setup"], case["input"]
    profile = profiles[setup.get("profile", "core")]
    match asked["op"]:
        case "register" | "register_pair":
            return _registered(asked, profile, case["must"])
        case "provider_request":
            return _requested(setup, asked, profile, case["must"])
        case "call" if case["class"] == "subagent" and asked["name"] in subagents.REAL:
            return _called_for_real(setup, asked, case["must"])
        case "call":
            return _called(setup, asked, profile, case["must"])
        case "list":
            return _listed(setup, profile, case["must"])
    raise UnknownWordError(f"the op {asked['op']}")


def _listed(setup: Json, profile: Json, must: Json) -> Outcome:
    try:
        belt: Selection | None = _belts(setup, profile).belt_for(mark_terminal_owner(_caller(setup.get("context", {}))))
        error = ""
    except ConfigError as problem:
        belt, error = None, str(problem)
    complaints = [_complaint(each, belt, error) for each in alternatives(must)]
    seen = {"error": error} if belt is None else {"tools": list(belt.tools)}
    return kept(seen) if "" in complaints else broken("; ".join(complaints), seen)


def _complaint(must: Mapping[str, Any], belt: Selection | None, error: str) -> str:
    """Say what is not as it must be, "" when all is."""
    if must.get("documented_rule") in DOCUMENTED:
        return ""
    if belt is None:
        accepted = must.get("config_error") or must.get("config_error_ok")
        return "" if accepted else f"the configuration was refused: {error}"
    if must.get("config_error"):
        return "the configuration was accepted"
    seen = [name for name in must.get("hidden", ()) if name in belt.tools]
    missing = [name for name in must.get("visible", ()) if name not in belt.tools]
    return "; ".join(f"{name} is visible" for name in seen) + "".join(f"; {name} is hidden" for name in missing)


def _called(setup: Json, asked: Json, profile: Json, must: Json) -> Outcome:
    """Make the call alone and twice side by side; the bodies note that they ran, and with what.

    A list that was taken before a reload changes nothing here: a call is judged by what is in force when it is made.
    """
    ran = _Ran()
    caller = _caller_through(setup, asked)
    try:
        belt = _belts(setup, profile, ran).belt_for(caller, _offered(setup, asked, profile, ran))
    except ConfigError as problem:
        accepted = any(each.get("config_error") or each.get("config_error_ok") for each in alternatives(must))
        return kept({"error": str(problem)}) if accepted else broken(f"the configuration was refused: {problem}")
    if asked.get("via") in ways.WAYS and setup.keys() <= {"profile", "config"} and asked["name"] in _GROUPS:
        return _called_from_afar(setup, asked, must)
    complaints, worked = list[str](), time.process_time()
    for ids in (("call_1",), ("call_1", "call_2")):
        ran.clear()
        calls = [Call(id=id, name=asked["name"], args=asked.get("args") or {}) for id in ids]
        record = MemoryRecord()
        window = _window(setup, record)
        if asked.get("via") == "mcp_loopback":
            told = asyncio.run(_made_over_mcp(belt, caller, calls, window))
        else:
            told = asyncio.run(_made(belt, caller, calls, window))
        complaints.append(_unrecorded(record, ran) or _complaint_about(must, ran, len(calls), told))
    if (took := time.process_time() - worked) > must.get("max_seconds", 60):
        complaints.append(f"took {took:.1f} s")
    seen = {"ran": ran, "told": [result.details for result in told]}
    return broken("; ".join(filter(None, complaints)), seen) if any(complaints) else kept(seen)


def _called_from_afar(setup: Json, asked: Json, must: Json) -> Outcome:
    """Make the call through a real gateway, by the way in itself: its record says what ran."""
    complaints, seen = list[str](), list[Any]()
    for count in (1, 2):
        given = asked.get("args") or {}
        entries, told = ways.come_in(_about_layers(setup.get("config", {})), asked["via"], asked["name"], given, count)
        started = [each for each in entries if isinstance(each, Started)]
        ran = _Ran([each.tool for each in started])
        ran.given = [each.call.args for each in started]
        record = MemoryRecord()
        record.entries.extend(entries)
        seen = [ran, told]
        complaints.append(_unrecorded(record, ran) or _complaint_about(must, ran, count, list(map(Result.text, told))))
    return broken("; ".join(filter(None, complaints)), seen) if any(complaints) else kept(seen)


def _called_for_real(setup: Json, asked: Json, must: Json) -> Outcome:
    """Make the call with the tool itself: whether it did anything is for its service to say, too."""
    context = setup.get("context", {})
    depth = int(context.get("spawn_depth", 0))
    config = _about_layers(setup.get("config", {}))
    result = subagents.called(config, _caller_through(setup, asked), depth, asked["name"], asked.get("args") or {})
    ran = _Ran([asked["name"]] if result.status == "ok" else [])
    complaint = _complaint_about(must, ran, 1, [result])
    seen = {"ran": ran, "told": [result.details]}
    return broken(complaint, seen) if complaint else kept(seen)


async def _made(belt: Selection, caller: Caller, calls: Sequence[Call], window: CallPipeline) -> list[Result]:
    logging.getLogger("toolcrib").addHandler(_QUIET)
    first, *more = (Ctx(call=call, caller=caller, course=CallState()) for call in calls)
    return await invoke_all(belt, [first, *more], window) if more else [await invoke(belt, first, window)]


async def _made_over_mcp(belt: Selection, caller: Caller, calls: Sequence[Call], window: CallPipeline) -> list[Result]:
    from .loopback import made  # noqa: PLC0415  the SDK takes a second to load, and few cases come this way

    for name in ("toolcrib", "mcp"):
        logging.getLogger(name).addHandler(_QUIET)
    handle = Belt(caller=caller, selection=belt, catalog=Catalog(dict(belt.tools)), pipeline=window, ports=Ports())
    return await made(handle, calls)


class _Ran(list[str]):
    """The tools whose bodies ran, and what each was given."""

    def __init__(self, names: Sequence[str] = ()) -> None:
        super().__init__(names)
        self.given: list[Mapping[str, Any]] = []


def _complaint_about(must: Json, ran: _Ran, calls: int, told: Sequence[Result]) -> str:
    """Say what is not as it must be about the bodies that ran and what was told, "" when all is."""
    complaints = [list(_each_complaint(each, ran, calls, told)) for each in alternatives(must)]
    return "" if [] in complaints else "; ".join(complaint for each in complaints for complaint in each)


def _each_complaint(must: Mapping[str, Any], ran: _Ran, calls: int, told: Sequence[Result]) -> Iterator[str]:
    if must.get("config_error"):
        yield "the configuration was accepted"
    if "executed" in must and len(ran) != (calls if must["executed"] else 0):
        yield f"{len(ran)} of {calls} bodies ran"
    if "canonical" in must and ran != [must["canonical"]] * (calls if must["canonical"] else 0):
        yield f"{ran} ran"
    if must.get("executed_tool_not") in ran:
        yield f"{must['executed_tool_not']} ran"
    words = must.get("reason_has", "")
    if not all(words.lower() in result.plain_text.lower() for result in told):
        yield f"{words!r} is not told but {told[0].plain_text[:200]!r}"
    wanted = must.get("args", {})
    if any({key: given.get(key) for key in wanted} != dict(wanted) for given in ran.given) or (wanted and not ran):
        yield f"the bodies were given {ran.given}"


def _unrecorded(record: MemoryRecord, ran: list[str]) -> str:
    """Say which body ran without a permission and a start on record, or was started without a permission."""
    permitted = [
        entry.verdict.tool
        for entry in record.entries
        if isinstance(entry, Decided) and entry.verdict is not None and entry.verdict.decision != "deny"
    ]
    started = [entry.tool for entry in record.entries if isinstance(entry, Started)]
    found = [f"{name} ran without a recorded permission" for name in {*ran, *started} - {*permitted}]
    return "; ".join([*found, *(f"{name} ran without a recorded start" for name in {*ran} - {*started})])


def _window(setup: Json, record: MemoryRecord) -> CallPipeline:
    hooks = {name: said if isinstance(said, list) else [said] for name, said in setup.get("hooks", {}).items()}
    return CallPipeline(
        record=record,
        guards=bind_guards(map(_guard, hooks.get("before_tool_call", ()))),
        observers=bind_observers(map(_observer, hooks.get("after_tool_call", ()))),
    )


def _offered(setup: Json, asked: Json, profile: Json, ran: _Ran) -> tuple[Tool, ...]:
    """Return the tool of that name which a client offers, if that is the way in and the name is free."""
    if asked.get("via") != "client_tool":
        return ()
    try:
        offered = (_noting(Tool.declared(asked["name"], "offered by a client"), ran),)
        _belts(setup, profile, ran).catalog_with(offered)
    except DeclarationError:
        return ()  # taken, or no name at all: the client can only call what is there
    return offered


def _noting(tool: Tool, ran: _Ran) -> Tool:
    async def run(ctx: Ctx, args: Mapping[str, Any]) -> Result:
        ran.append(tool.name)
        ran.given.append(dict(args))
        return Result.text("done")

    return replace(tool, run=run)


def _guard(said: Json) -> Hook:
    """Return a guard that says what the case's hook says, as far as a guard has words for it."""

    async def guard(ctx: Ctx, args: Mapping[str, Any]) -> Any:
        match said:
            case {"raise": words}:
                raise RuntimeError(words)
            case {"return": {"block": True, **more}} | {"return": {"decision": "deny" | "block", **more}}:
                return Block(str(more.get("reason", "")))
            case {"return": {"params": dict(params)}}:
                return Rewrite(params)
            case {"return": dict()}:
                return None
            case {"return": other}:
                return other
        return await asyncio.Event().wait()

    return Hook(run=guard, name="guard", optional=said.get("kind") == "observer", seconds=0.05)


def _observer(said: Json) -> Observer:
    async def observer(ctx: Ctx, args: Mapping[str, Any], result: Result) -> Result | None:
        match said:
            case {"raise": words}:
                raise RuntimeError(words)
            case {"return": {"result": str(words)}}:
                return Result.text(words)
        return None

    return observer


def _registered(asked: Json, profile: Json, must: Json) -> Outcome:
    """Let one plugin or several offer their tools, and count those that came in."""
    offers = []
    for plugin, name in _offerings(asked):
        try:
            tool = DeclaredTool(name=name, description="offered by a plugin").tool()
        except DeclarationError:
            continue
        offers.append(Offer(source=f"plugin:{plugin}", tools=(tool,)))
    catalog = collect_catalog([_core(profile), *offers])
    count = sum(tool.source.startswith("plugin:") for tool in catalog.values())
    seen = {"registered": bool(count), "count": count}
    if must.get("registered", bool(count)) != bool(count) or must.get("registered_count", count) != count:
        return broken(f"{count} were registered", seen)
    return kept(seen)


def _offerings(asked: Json) -> Iterator[tuple[str, str]]:
    """Yield plugins and what they offer: each the same tool, or what stands with it."""
    plugins: list[Any] = asked["plugins"] if "plugins" in asked else [asked["plugin"]]
    for plugin in plugins:
        if isinstance(plugin, dict):
            names = plugin.get("tools", [plugin.get("tool", asked.get("tool"))])
            yield from ((str(plugin.get("id", "p")), name) for name in names)
        else:
            yield plugin, asked["tool"]


def _requested(setup: Json, asked: Json, profile: Json, must: Json) -> Outcome:
    """Look at what a provider is sent: tools of its own that a list denies are not switched on, under any name."""
    caller = mark_terminal_owner(_caller(setup.get("context", {})))
    belt = _belts(setup, profile).belt_for(caller)
    api: Api = {"google": "gemini", "anthropic": "anthropic"}.get(caller.provider or "", "openai")  # type: ignore[assignment]  # one of the four
    request = Request(history=History([Message(role="user", content=(Text("hi"),))]), tools=list(belt.tools.values()))
    body = json.loads(encode_body(request, Target(api=api, model=caller.model or "m", provider=caller.provider or api)))
    sent = [each for tool in body.get("tools", ()) for each in _native_words(tool)]
    there = [name for name in must.get("native_tools_absent") or asked["native_tools"] if name in sent]
    hidden = [name for name in must.get("hidden", ()) if name in belt.tools]
    return broken(f"{there or hidden} is sent", sent) if there or hidden else kept(sent)


def _native_words(tool: Json) -> Iterator[str]:
    """Yield what an entry of a request switches on at the provider, besides functions of ours."""
    if isinstance(tool.get("type"), str) and tool["type"] not in ("function", "custom"):
        yield tool["type"]
        yield re.sub(r"_(preview|\d+).*", "", tool["type"])
    yield from (key for key in tool if key not in ("type", "function", "functionDeclarations", "name", "description"))


def _core(profile: Json) -> Offer:
    owner_only = profile.get("owner_only", ())
    tools = (
        Tool.declared(name, name, group=_GROUPS.get(name), owner_only=name in owner_only) for name in profile["tools"]
    )
    return Offer(source="core", tools=tuple(tools))


def _catalog(setup: Json, profile: Json, ran: _Ran) -> Catalog:
    plugins = [
        Offer(source=f"plugin:{plugin['id']}", tools=tuple(Tool.declared(name, name) for name in plugin["tools"]))
        for plugin in setup.get("plugins", ())
    ]
    catalog = collect_catalog([_core(profile), *plugins])
    return Catalog({name: _noting(tool, ran) for name, tool in catalog.tools.items()}, catalog.problems)


def _belts(setup: Json, profile: Json, ran: _Ran | None = None) -> Belts:
    config = _about_layers(setup.get("config", {}))
    context = setup.get("context", {})
    if "owners" in context:
        config["owners"] = context["owners"]
    if scope := context.get("owner_wildcard_scope"):
        channels = config.get("channels", {})
        everybody = {**channels.get(scope, {}), "owners": ["*"]}
        config |= {"channels": {**channels, scope: everybody}} if scope in _CHANNELS else {"owners": ["*"]}
    return Belts(_catalog(setup, profile, _Ran() if ran is None else ran), load(config, {}).policy)


def neutral(config: Json) -> Json:
    """Return a configuration of the neutral layout in ours: `exec` and `subagents` stand under `tools`."""
    told = {key: value for key, value in config.items() if key not in ("exec", "subagents")}
    tools = dict(told.get("tools", {})) if isinstance(told.get("tools", {}), dict) else None
    moved = {key: config[key] for key in ("exec", "subagents") if key in config}
    if isinstance(moved.get("exec"), dict) and "timeout" in moved["exec"]:
        moved["exec"] = {("timeoutSec" if key == "timeout" else key): value for key, value in moved["exec"].items()}
    if tools is not None and moved:
        told["tools"] = {**tools, **moved}
    return told


def _about_layers(config: Json) -> Json:
    """Return a configuration of ours for a row about layers: what its rules leave a guest, they need not give."""
    told = neutral(config)
    return {**told, "tools": {"guests": "full", **tools}} if isinstance(tools := told.get("tools", {}), dict) else told


def _caller_through(setup: Json, asked: Json) -> Caller:
    """Return who calls, as the way in makes them known: a subagent has a parent, a job of its own a session."""
    caller = _caller(setup.get("context", {}))
    match asked.get("via"):
        case "subagent":
            caller = replace(caller, parents=caller.parents or (caller.session or "agent:main:main",))
        case "cron_isolated":
            caller = replace(caller, session=caller.session or "agent:main:cron:job:run:1")
        case "hook_agent":
            caller = replace(caller, session=caller.session or "agent:main:hook:1")
        case None | "client_tool" | "http_invoke" | "mcp_loopback" | "model" | "node" | "slash_skill":
            pass  # whoever calls that way calls as who they are
        case other:
            raise UnknownWordError(f"the way {other}")
    return mark_terminal_owner(caller)


def _caller(context: Json) -> Caller:
    sender = context.get("sender")
    who = None
    if sender is not None:
        given = {key: sender.get(key) for key in ("id", "e164", "username", "name")}
        who = Sender(**{key: str(value) for key, value in given.items() if isinstance(value, (str, int))})
    session = context.get("session")
    if claimed := context.get("claimed_group"):
        session = session or f"agent:main:{context.get('channel')}:group:{claimed}"
    caller = Caller(
        session=session,
        agent=context.get("agent"),
        provider=context.get("provider"),
        model=context.get("model"),
        channel=context.get("channel"),
        account=context.get("account"),
        group=context.get("group"),
        sender=who,
        sandboxed=bool(context.get("sandboxed")),
    )
    return replace(caller, parents=(context["spawned_by"],)) if context.get("spawned_by") else caller
