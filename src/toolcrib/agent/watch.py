"""What watchers hear of a call: that it was taken up, how far it is, what came of it."""

import asyncio
import logging
import threading
from collections.abc import Callable

from toolcrib.adapter.trim import for_watchers
from toolcrib.define.context import Ctx
from toolcrib.define.event import CallEvent, ToolFinished, ToolProgress, ToolStarted
from toolcrib.define.result import Result
from toolcrib.define.verdict import Verdict

__all__ = ["Watched"]

log = logging.getLogger("toolcrib")


class Watched:
    """One call, as it is told to `watch`: in order, on the loop's own thread, and never after its end."""

    def __init__(self, watch: Callable[[CallEvent], None], ctx: Ctx, verdict: Verdict | None) -> None:
        self._watch, self._call, self._course = watch, ctx.call, ctx.course
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        ctx.course.watch = self.progressed
        self._tell(ToolStarted(self._call, verdict))

    def progressed(self, partial: Result) -> None:
        """Tell what a body has so far; a body in a thread is heard on the loop's thread."""
        event = ToolProgress(self._call, for_watchers(partial))
        if threading.get_ident() == self._thread:
            self._tell_in_time(event)
            return
        try:
            self._loop.call_soon_threadsafe(self._tell_in_time, event)
        except RuntimeError:
            log.debug("progress of %s came after its event loop had closed", self._call.name)

    def finished(self, result: Result) -> None:
        self._tell(ToolFinished(self._call, for_watchers(result)))

    def _tell_in_time(self, event: ToolProgress) -> None:
        if not self._course.stopped:
            self._tell(event)

    def _tell(self, event: CallEvent) -> None:
        try:
            self._watch(event)
        except Exception:
            log.exception("a watcher of %s failed; the call goes on", self._call.name)
