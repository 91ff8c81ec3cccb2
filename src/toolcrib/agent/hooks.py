"""Guards before a call, observers after it, and hooks on the moments of a turn and a session.

Guards and observers run in order, each seeing what the one before made. Of the moments

    before_agent_start   may return `systemPrompt` (instead) and `prependContext` (added before the message)
    message_sending      may return `content` (instead) and `cancel`
    tool_result_persist  may return `message`: what the session keeps of an answer
    message_received, message_sent, agent_end, session_start, session_end, before_compaction, after_compaction

hooks that only listen run at the same time. Those that may change something run one after another, each seeing
what the one before made. None of them can hold a turn up for long, permit anything, or bring it down.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Mapping
from copy import deepcopy
from typing import Any

from toolcrib.define.caller import Caller
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call, Message, Thinking
from toolcrib.define.plugin import Allow, Ask, Block, Guard, Hook, Moment, Observer, Rewrite, TimedObserver
from toolcrib.define.result import Result
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Basis, Consent, Selection
from toolcrib.lazy import dataclass
from toolcrib.policy.taint import TaintRules
from toolcrib.threads import in_thread

from .deadline import Deadline, is_cancelled

log = logging.getLogger("toolcrib")

_NESTED = frozenset({dict, list})
_PATIENCE = 5.0  # seconds that a hook on a moment may take


@dataclass(frozen=True, slots=True)
class BoundHook:
    """A hook that is sure to be async: a plain function was put where it cannot hold up the others."""

    run: Callable[..., Coroutine[Any, Any, Any]]
    name: str
    optional: bool
    seconds: float
    tools: frozenset[str] = frozenset()


class LateError(Exception):
    """A hook did not answer in its time; other than a TimeoutError of its own."""


def bind_guards(guards: Iterable[Hook | Guard]) -> tuple[BoundHook, ...]:
    """Return the guards ready to be called."""
    hooks = [Hook.of(guard) for guard in guards]
    return tuple(BoundHook(_as_async(hook.run), hook.name, hook.optional, hook.seconds, hook.tools) for hook in hooks)


def bind_observers(observers: Iterable[TimedObserver | Observer]) -> tuple[BoundHook, ...]:
    """Return the observers ready to be called; none of them can block anything."""
    hooks = map(TimedObserver.of, observers)
    return tuple(BoundHook(_as_async(hook.run), hook.name, True, hook.seconds) for hook in hooks)


def copy_args(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy to hand out: what somebody does to it changes nothing here."""
    copied = {**args}
    for value in copied.values():
        if type(value) in _NESTED:
            return deepcopy(copied)
    return copied


def hook_failure(error: BaseException, deadline: Deadline) -> BaseException:
    """Return how a hook failed; a cancellation from outside goes on."""
    if isinstance(error, asyncio.CancelledError):
        if deadline.was_missed():
            return LateError()
        if is_cancelled():
            raise error
    return error


def apply_guard(
    guard: BoundHook, word: Any, tool: Tool, args: Mapping[str, Any], questions: list[Ask]
) -> Mapping[str, Any]:
    """Return the arguments as a guard leaves them, checked again; what a human is to be asked joins the questions.

    Raises ToolError when it blocks. One that fails, hangs or says what is no word blocks too, unless it is optional.
    """
    match word:
        case Rewrite(changed):
            if any(question.binding for question in questions):
                how = "rewrote what a question is bound to already"
                raise ToolError(f"{guard.name} {how}, so {tool.name} was not run", code="blocked")
            return tool.check({**args, **changed})
        case Allow():
            return args
        case Ask():
            questions.append(word)
            return args
        case Block(reason):
            raise ToolError(reason or f"{tool.name} is blocked by {guard.name}", code="blocked")
        case None:
            how = "changed the arguments it was shown instead of saying so"
        case LateError():
            how = "did not answer in time"
        case ToolError():
            how = f"failed: {word}"
        case BaseException():
            how = f"failed ({type(word).__name__})"
        case _:
            how = f"said {type(word).__name__}, which is no Block, Rewrite or Ask"
    cause = None if isinstance(word, ToolError) else _as_exception(word)  # that one says all there is to know
    log.error("guard %s %s, before %s", guard.name, how, tool.name, exc_info=cause)
    if not guard.optional:
        raise ToolError(f"{guard.name} {how}, so {tool.name} was not run", code="blocked")
    return args


def apply_observer(observer: BoundHook, word: Any, name: str, result: Result) -> Result:
    """Return the result as an observer leaves it; one that fails or hangs changes nothing and is logged.

    An observer may call a success a failure. A failure stays one, whatever is made of its words.
    """
    if isinstance(word, Result):
        return word if result.status != "error" else word._replace(status="error")
    log.error("observer %s of %s does not count", observer.name, name, exc_info=_as_exception(word))
    return result


def _as_exception(word: Any) -> BaseException | None:
    return word if isinstance(word, BaseException) else None


def _as_async(hook: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    if inspect.iscoroutinefunction(hook):
        return hook

    async def run_in_thread(*args: Any) -> Any:
        value: Any | Awaitable[Any] = await in_thread(hook, *args)
        return await value if inspect.isawaitable(value) else value

    return run_in_thread


def taint_guards(rules: TaintRules, belt: Selection, sources: Callable[[], Collection[str]]) -> tuple[BoundHook, ...]:
    """Return what asks about tools, or denies them, as soon as there are sources that the rules mean."""

    async def judge(ctx: Ctx, args: Mapping[str, Any]) -> Ask | Block | None:
        """Look whether something from outside could be what the call goes back to."""
        found = rules.judge(ctx.call.name, sources())
        if found is None:
            return None
        rule, source = found
        seen = {"tool": ctx.call.name, "taint": source, "agents": list(rules.agents)}
        basis = Basis(rule.rule, rule.origin, belt.grounds, seen)
        if rule.decision == "ask":
            return Ask(rule.explain(source), basis=basis, says=(Consent(outside=True),))
        return Block(f"{ctx.call.name} is denied: {rule.explain(source)}", basis)

    return bind_guards([Hook(run=judge, name="taint", tools=frozenset(rules.tools))] if rules else [])


_SAYS: Mapping[str, Mapping[str, type]] = {
    "before_agent_start": {"systemPrompt": str, "prependContext": str},
    "message_sending": {"content": str, "cancel": bool},
    "tool_result_persist": {"message": Message},
}
_JOINED = frozenset({"prependContext"})


class Moments:
    """The hooks of all plugins, by their moment, in the order of the plugins."""

    def __init__(self, hooks: Iterable[tuple[str, Callable[[Moment], Any]]] = (), patience: float = _PATIENCE) -> None:
        self._hooks: dict[str, list[Callable[..., Coroutine[Any, Any, Any]]]] = {}
        self._patience = patience
        for name, hook in hooks:
            self._hooks.setdefault(name, []).append(_as_async(hook))

    def __contains__(self, name: str) -> bool:
        return name in self._hooks

    async def tell(self, name: str, caller: Caller, **data: Any) -> None:
        """Tell every hook that listens to this moment, all at once."""
        if hooks := self._hooks.get(name):
            await asyncio.gather(*(self._call(hook, Moment(name=name, caller=caller, data={**data})) for hook in hooks))

    async def apply(self, name: str, caller: Caller, **data: Any) -> Mapping[str, Any]:
        """Return the data as the hooks leave it; one that fails, or answers what has no place here, changes nothing."""
        for hook in self._hooks.get(name, ()):
            changes = await self._call(hook, Moment(name=name, caller=caller, data={**data}))
            for key, value in _select_understood(name, changes).items():
                data[key] = f"{data[key]}\n\n{value}" if key in _JOINED and data.get(key) else value
        return data

    async def apply_to_answer(self, caller: Caller, call: Call, message: Message) -> Message:
        """Return what the session keeps of an answer. Whatever a hook makes of it, it answers the same call, and a
        failure stays one.
        """
        name = "tool_result_persist"
        for hook in self._hooks.get(name, ()):
            data = {"message": message, "toolName": call.name, "toolCallId": call.id}
            changes = await self._call(hook, Moment(name=name, caller=caller, data=data))
            made = _select_understood(name, changes).get("message", message)
            if why := _explain_misfit(made, message):
                log.error("a hook of %s made another message of the answer to %s, which %s", name, call.id, why)
            else:
                message = made
        return message

    async def _call(self, hook: Callable[..., Coroutine[Any, Any, Any]], moment: Moment) -> Any:
        try:
            async with asyncio.timeout(self._patience):
                return await hook(moment)
        except (Exception, SystemExit, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and is_cancelled():
                raise
            log.exception("a hook of %s failed; it goes on without", moment.name)
            return None


def _select_understood(name: str, changes: Any) -> dict[str, Any]:
    """Return what a hook may say at this moment; the rest is logged and left out."""
    if changes is None:
        return {}
    if not isinstance(changes, Mapping):
        log.error("a hook of %s said %s, which is no mapping; it goes on without", name, type(changes).__name__)
        return {}
    kinds = _SAYS.get(name, {})
    understood = {key: value for key, value in changes.items() if key in kinds and isinstance(value, kinds[key])}
    for key in changes.keys() - understood.keys():
        if changes[key] is not None:
            log.error("a hook of %s said %r, which cannot be said there; it goes on without", name, key)
    return understood


def _explain_misfit(made: Message, message: Message) -> str:
    """Say why a message cannot stand in for an answer."""
    if made.role != "tool" or made.call_id != message.call_id or made.calls:
        return "answers something else"
    if message.status == "error" and made.status != "error":
        return "makes a success of a failure"
    if any(isinstance(part, Thinking) for part in made.content):
        return "has a thought in it"
    return ""
