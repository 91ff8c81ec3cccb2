"""Guards before a call and observers after it, in order, each seeing what the one before made."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.hook import Ask, Block, Guard, Hook, Observer, Rewrite, Word
from toolcrib.define.result import Result
from toolcrib.define.tool import Tool

from .deadline import DeadlineError, within

__all__ = ["Ready", "guarded", "observed", "ready_guards", "ready_observers"]

log = logging.getLogger("toolcrib")

_PATIENCE = 5.0  # seconds an observer may take


@dataclass(frozen=True, slots=True)
class Ready:
    """A hook that is sure to be async: a plain function was put where it cannot hold up the others."""

    run: Callable[..., Coroutine[Any, Any, Any]]
    name: str
    optional: bool
    seconds: float


def ready_guards(guards: Iterable[Hook | Guard]) -> tuple[Ready, ...]:
    """Return the guards ready to be called."""
    hooks = [Hook.of(guard) for guard in guards]
    return tuple(Ready(_async(hook.run), hook.name, hook.optional, hook.seconds) for hook in hooks)


def ready_observers(observers: Iterable[Observer]) -> tuple[Ready, ...]:
    """Return the observers ready to be called; none of them can block anything."""
    return tuple(Ready(_async(each), getattr(each, "__name__", "a hook"), True, _PATIENCE) for each in observers)


async def guarded(
    guards: Sequence[Ready], tool: Tool, ctx: Ctx, args: Mapping[str, Any]
) -> tuple[Mapping[str, Any], list[str]]:
    """Return the arguments the guards leave, checked again, and what a human has to be asked for.

    Raises ToolError when one blocks. One that fails or hangs blocks too, unless it declares itself optional.
    """
    questions: list[str] = []
    for guard in guards:
        word = await _word(guard, ctx, args)
        if word is None:
            continue
        match word:
            case Block(reason):
                raise ToolError(reason or f"{tool.name} is blocked by {guard.name}", code="blocked")
            case Rewrite(changed):
                args = tool.check({**args, **changed})
            case Ask(reason):
                questions.append(reason)
    return args, questions


async def observed(observers: Sequence[Ready], ctx: Ctx, args: Mapping[str, Any], result: Result) -> Result:
    """Return the result as the observers leave it; one that fails or hangs changes nothing and is logged."""
    for observer in observers:
        try:
            made = await within(observer.seconds, observer.run(ctx, args, result))
        except (Exception, DeadlineError):
            log.exception("observer %s of %s failed; its word does not count", observer.name, ctx.call.name)
            continue
        if isinstance(made, Result):
            result = made
    return result


async def _word(guard: Ready, ctx: Ctx, args: Mapping[str, Any]) -> Word:
    try:
        word: Word = await within(guard.seconds, guard.run(ctx, args))
    except (Exception, DeadlineError) as error:
        log.exception("guard %s failed before %s", guard.name, ctx.call.name)
        if guard.optional:
            return None
        how = "did not answer in time" if isinstance(error, DeadlineError) else f"failed ({type(error).__name__})"
        return Block(f"{guard.name} {how}, so {ctx.call.name} was not run")
    return word


def _async(hook: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any]]:
    if inspect.iscoroutinefunction(hook):
        return hook

    async def threaded(*args: Any) -> Any:
        said: Any | Awaitable[Any] = await asyncio.to_thread(hook, *args)
        return await said if inspect.isawaitable(said) else said

    return threaded
