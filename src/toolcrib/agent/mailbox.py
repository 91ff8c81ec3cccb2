"""Messages that come while a turn goes on, and events that leave turns and calls in their order."""

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable

from toolcrib.adapter.trim import for_watchers, redact_result
from toolcrib.define.context import Ctx
from toolcrib.define.errors import ToolError
from toolcrib.define.event import CallEvent, Event, ToolFinished, ToolProgress, ToolStarted, Warned
from toolcrib.define.message import Message
from toolcrib.define.result import Result
from toolcrib.define.tool import Tool
from toolcrib.define.verdict import Verdict

log = logging.getLogger("toolcrib")

_WAITING_MESSAGES = 100


class Inbox:
    """Two queues: `steer` is heard as soon as the calls under way are done, `follow_up` when the turn would end.

    One message at a time: each gets a reply before the next one is heard.
    """

    def __init__(self) -> None:
        self._steering: deque[Message] = deque()
        self._following: deque[Message] = deque()
        self._is_closed = False

    def steer(self, message: Message) -> None:
        """Put in a message that changes the state of the turn."""
        self._put(self._steering, message)

    def follow_up(self, message: Message) -> None:
        """Put in a message to be answered after this one, in the same turn."""
        self._put(self._following, message)

    @property
    def is_empty(self) -> bool:
        """Whether nobody has more to say."""
        return not self._steering and not self._following

    @property
    def has_steering(self) -> bool:
        """Whether somebody wants to change the state of the turn."""
        return bool(self._steering)

    def next_steering(self) -> Message | None:
        """Take the next message that is to be heard now."""
        return self._steering.popleft() if self._steering else None

    def next_following(self) -> Message | None:
        """Take the next message that is to be answered once all else is."""
        return self._following.popleft() if self._following else None

    def close(self) -> list[Message]:
        """Take nothing more; return what nobody has heard, in the order in which it would have been."""
        left = [*self._steering, *self._following]
        self._steering.clear()
        self._following.clear()
        self._is_closed = True
        return left

    def _put(self, queue: deque[Message], message: Message) -> None:
        if self._is_closed:
            raise ToolError("the turn has ended; send it as a message of its own", code="ended")
        if len(queue) >= _WAITING_MESSAGES:
            words = f"{_WAITING_MESSAGES} messages wait in this session already; wait until it has heard them"
            raise ToolError(words, code="busy")
        queue.append(message)


# Returns the event to send once something is kept, or has failed to be; there may be nothing to send by then.
Late = Callable[[BaseException | None], Event | None]


class OrderedEmitter:
    """Tells events, as a function does; `after` puts one in line that nobody may hear before something is kept."""

    def __init__(self, emit: Callable[[Event], None]) -> None:
        self._emit = emit
        self._line: deque[Event | tuple[asyncio.Future[None], Late]] = deque()

    def __call__(self, event: Event) -> None:
        if self._line:
            self._line.append(event)
        else:
            self._emit(event)

    def after(self, kept: "asyncio.Future[None]", event: Late) -> None:
        """Tell what `event` returns once `kept` is done; it gets the error, if that failed."""
        self._line.append((kept, event))
        kept.add_done_callback(self.go_on)

    def go_on(self, _: object = None) -> None:
        """Tell all that need not wait any more."""
        while self._line:
            first = self._line[0]
            if isinstance(first, tuple):
                kept, late = first
                if not kept.done():
                    return
                self._line.popleft()
                failure = asyncio.CancelledError() if kept.cancelled() else kept.exception()
                if (event := late(failure)) is not None:
                    self._emit(event)
            else:
                self._line.popleft()
                self._emit(first)


class CallWatcher:
    """One call, as `watch` sees it: in order, on the loop's own thread, and never after its end."""

    def __init__(
        self,
        watch: Callable[[CallEvent], None],
        ctx: Ctx,
        verdict: Verdict | None,
        redact: Callable[[str], str] | None = None,
        tool: Tool | None = None,
    ) -> None:
        self._redact = redact
        self._watch, self._call, self._course = watch, ctx.call, ctx.course
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()
        ctx.course.watch, ctx.course.warn = self.progress, self.warn
        self._tell(ToolStarted(self._call, verdict, tool.label if tool else ""))

    def warn(self, sentence: str) -> None:
        """Tell that a quota is nearly used up."""
        self._tell(Warned(sentence, self._call))

    def progress(self, partial: Result) -> None:
        """Tell what a body has so far; a body in a thread is heard on the loop's thread."""
        shown = partial if self._redact is None else redact_result(partial, self._redact)
        event = ToolProgress(self._call, for_watchers(shown))
        if threading.get_ident() == self._thread:
            self._tell_in_time(event)
            return
        try:
            self._loop.call_soon_threadsafe(self._tell_in_time, event)
        except RuntimeError:
            log.debug("progress of %s came after its event loop had closed", self._call.name)

    def finish(self, result: Result, *, markdown: bool) -> None:
        self._tell(ToolFinished(self._call, for_watchers(result), markdown))

    def _tell_in_time(self, event: ToolProgress) -> None:
        if not self._course.stopped:
            self._tell(event)

    def _tell(self, event: CallEvent) -> None:
        try:
            self._watch(event)
        except Exception:
            log.exception("a watcher of %s failed; the call goes on", self._call.name)
