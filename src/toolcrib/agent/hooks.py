"""Guards before a call and observers after it, in order, each seeing what the one before made."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from toolcrib.define.errors import ToolError
from toolcrib.define.plugin import Ask, Block, Guard, Hook, Observer, Rewrite
from toolcrib.define.result import Result
from toolcrib.define.tool import Tool
from toolcrib.threads import in_thread

from .deadline import Deadline, is_cancelled

__all__ = ["Ready", "amended", "failure", "heeded", "own", "ready_guards", "ready_observers"]

log = logging.getLogger("toolcrib")

_NESTED = frozenset({dict, list})
_PATIENCE = 5.0  # seconds an observer may take


@dataclass(frozen=True, slots=True)
class Ready:
    """A hook that is sure to be async: a plain function was put where it cannot hold up the others."""

    run: Callable[..., Coroutine[Any, Any, Any]]
    name: str
    optional: bool
    seconds: float
    tools: frozenset[str] = frozenset()


class LateError(Exception):
    """A hook did not answer in its time; told apart from a TimeoutError of its own."""


def ready_guards(guards: Iterable[Hook | Guard]) -> tuple[Ready, ...]:
    """Return the guards ready to be called."""
    hooks = [Hook.of(guard) for guard in guards]
    return tuple(Ready(_async(hook.run), hook.name, hook.optional, hook.seconds, hook.tools) for hook in hooks)


def ready_observers(observers: Iterable[Observer]) -> tuple[Ready, ...]:
    """Return the observers ready to be called; none of them can block anything."""
    return tuple(Ready(_async(each), getattr(each, "__name__", "a hook"), True, _PATIENCE) for each in observers)


def own(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy to hand out: what somebody does to it changes nothing here."""
    for value in args.values():
        if type(value) in _NESTED:
            return deepcopy(dict(args))
    return dict(args)


def failure(error: BaseException, deadline: Deadline) -> BaseException:
    """Return how a hook failed; a cancellation from outside goes on."""
    if isinstance(error, asyncio.CancelledError):
        if deadline.was_missed():
            return LateError()
        if is_cancelled():
            raise error
    return error


def heeded(guard: Ready, said: Any, tool: Tool, args: Mapping[str, Any], questions: list[Ask]) -> Mapping[str, Any]:
    """Return the arguments as a guard leaves them, checked again; what a human is to be asked joins the questions.

    Raises ToolError when it blocks. One that fails, hangs or says what is no word blocks too, unless it is optional.
    """
    match said:
        case Rewrite(changed):
            if any(question.binding for question in questions):
                how = "rewrote what a question is bound to already"
                raise ToolError(f"{guard.name} {how}, so {tool.name} was not run", code="blocked")
            return tool.check({**args, **changed})
        case Ask():
            questions.append(said)
            return args
        case Block(reason):
            raise ToolError(reason or f"{tool.name} is blocked by {guard.name}", code="blocked")
        case None:
            how = "changed the arguments it was shown instead of saying so"
        case LateError():
            how = "did not answer in time"
        case BaseException():
            how = f"failed ({type(said).__name__})"
        case _:
            how = f"said {type(said).__name__}, which is no Block, Rewrite or Ask"
    log.error("guard %s %s, before %s", guard.name, how, tool.name, exc_info=_failed(said))
    if not guard.optional:
        raise ToolError(f"{guard.name} {how}, so {tool.name} was not run", code="blocked")
    return args


def amended(observer: Ready, said: Any, name: str, result: Result) -> Result:
    """Return the result as an observer leaves it; one that fails or hangs changes nothing and is logged.

    An observer may call a success a failure. A failure stays one, whatever is made of its words.
    """
    if isinstance(said, Result):
        return said if result.status != "error" else said._replace(status="error")
    log.error("observer %s of %s does not count", observer.name, name, exc_info=_failed(said))
    return result


def _failed(said: Any) -> BaseException | None:
    return said if isinstance(said, BaseException) else None


def _async(hook: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    if inspect.iscoroutinefunction(hook):
        return hook

    async def threaded(*args: Any) -> Any:
        said: Any | Awaitable[Any] = await in_thread(hook, *args)
        return await said if inspect.isawaitable(said) else said

    return threaded
