"""The chat on a terminal that can move its cursor: what goes on stands above the line that is being written."""

import asyncio
import contextlib
import os
import select
import sys
import termios
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import Completer
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.input.typeahead import clear_typeahead
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import ColorDepth
from prompt_toolkit.shortcuts import CompleteStyle
from prompt_toolkit.styles import Style as Styles

from toolcrib.doors.cli._format import Style
from toolcrib.threads import in_thread

_STYLES = Styles.from_dict(
    {"bold": "bold", "dim": "ansibrightblack", "good": "ansigreen", "ask": "ansiyellow", "bad": "ansired",
     "accent": "ansicyan", "prompt": "bold"}
)  # fmt: skip
_PROMPT, _MORE = "› ", "  "
_HASTE_SECONDS = 0.5  # seconds in which nobody reads a question: whoever was writing ends their own line
_MAX_LIVE_LINES = 12  # lines above the prompt that tell what goes on

Live = Callable[[int, int], Sequence[tuple[Style, str]]]


class _FileHistory(FileHistory):
    """What was typed, in a file; answers to questions are no part of it, and a full disk ends nothing."""

    is_closed = False

    def append_string(self, string: str) -> None:
        if not self.is_closed and string.strip():
            super().append_string(string)

    def store_string(self, string: str) -> None:
        try:
            super().store_string(string)
        except OSError:
            self.is_closed = True


class PromptTerminal:
    """Reads what is typed, and writes above it. `live` tells what goes on, `stop` hears of Ctrl-C."""

    def __init__(
        self,
        *,
        history: Path,
        completer: Completer,
        live: Live,
        stop: Callable[[], None],
        colour: bool,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._live, self._stop, self._now = live, stop, now
        self._history = _history_in(history)
        self._session: PromptSession[str] = PromptSession(
            self._message,
            multiline=True,
            prompt_continuation=_MORE,
            history=self._history,
            completer=completer,
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            reserve_space_for_menu=0,
            enable_suspend=True,
            key_bindings=self._keys(),
            style=_STYLES,
            include_default_pygments_style=False,
            color_depth=None if colour else ColorDepth.DEPTH_1_BIT,
            refresh_interval=1.0,  # the seconds of a running call are shown
        )
        self._answer: asyncio.Future[str] | None = None
        self._meant: asyncio.Future[str] | None = None  # the question that stood there when Enter was pressed
        self._question = ""
        self._draft = ""
        self._cut_off_at = -_HASTE_SECONDS  # when a question came while a line was being written
        self._is_over = False

    # what the loop of the chat needs

    async def line(self) -> str | None:
        """Return what is typed next; None when the person leaves."""
        while not self._is_over:
            draft, self._meant = "", None
            if self._answer is None:
                draft, self._draft = self._draft, ""
            else:
                self._forget()
            try:
                text = await self._session.prompt_async(default=draft, handle_sigint=False)
            except EOFError:
                if self._answer is None or self._is_over:
                    return None
                text, self._meant = "", self._answer
            self._session.default_buffer.reset()
            # a question may have come, or gone, since Enter was pressed: what was typed is no answer to another one
            if self._meant is None:
                return text
            if not self._meant.done():
                self._meant.set_result(text)
            await asyncio.sleep(0)  # whoever asked may have another question
        return None

    async def ask(self, prompt: str) -> str:
        """Return what the person types after a prompt; what they were writing comes back when it is answered."""
        buffer, app = self._session.default_buffer, self._session.app
        self._catch_up()
        if not app.is_done:  # else it was sent just now
            if buffer.text:
                self._draft, self._cut_off_at = buffer.text, self._now()
            buffer.reset()
        self._question = prompt
        self._answer = asyncio.get_running_loop().create_future()
        if isinstance(self._history, _FileHistory):
            self._history.is_closed = True
        self.refresh()
        try:
            return await self._answer
        finally:
            self._answer, self._question = None, ""
            if isinstance(self._history, _FileHistory):
                self._history.is_closed = False
            if app.is_running and not app.is_done:
                # withdrawn: nobody answered, and the same line goes on
                buffer.text, self._draft = self._draft, ""
                buffer.cursor_position = len(buffer.text)
            self.refresh()

    def busy(self, is_busy: bool) -> None:
        """Take note that a turn begins or ends."""
        self.refresh()

    def leave(self) -> None:
        """Say that nothing more will be read."""
        self._is_over = True
        app = self._session.app
        if app.is_running and not app.is_done:
            app.exit(exception=EOFError)

    def clear(self) -> bool:
        """Throw away what was typed; return whether there was something."""
        buffer = self._session.default_buffer
        had = bool(buffer.text)
        buffer.reset()
        return had

    def write(self, text: str, /) -> None:
        """Write whole lines above the one that is being written."""
        app = self._session.app
        if app.is_running and not app.is_done:
            app.renderer.erase()
        app.output.write_raw(text)
        app.output.flush()
        self.refresh()

    def refresh(self) -> None:
        """What goes on has changed."""
        self._session.app.invalidate()

    def close(self) -> None:
        """Nothing is held between two lines."""

    # what was typed before a question

    def _catch_up(self) -> None:
        """Take in what was typed and not read yet, while it is still part of a message."""
        app = self._session.app
        if app.is_running and not app.is_done and app.context is not None:
            app.context.copy().run(self._read)

    def _read(self) -> None:
        app = self._session.app
        app.key_processor.feed_multiple(app.input.read_keys())
        app.key_processor.process_keys()

    def _forget(self) -> None:
        """Throw away what was typed while nothing was read."""
        source = self._session.app.input
        clear_typeahead(source)
        with contextlib.suppress(termios.error):  # no terminal
            termios.tcflush(source.fileno(), termios.TCIFLUSH)

    # the line that is being written

    def _message(self) -> StyleAndTextTuples:
        app = self._session.app
        prompt: StyleAndTextTuples = [("class:ask" if self._question else "class:prompt", self._question or _PROMPT)]
        if app.is_done:
            return prompt
        size = app.output.get_size()
        max_lines = max(min(_MAX_LIVE_LINES, size.rows - 4), 1)
        shown = self._live(size.columns - 1, max_lines)
        return [*((f"class:{style}" if style else "", f"{text}\n") for style, text in shown), *prompt]

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("enter")
        def _(event: KeyPressEvent) -> None:
            buffer, self._meant = event.current_buffer, self._answer
            if self._answer is not None and self._now() - self._cut_off_at < _HASTE_SECONDS:
                buffer.text, self._draft, self._meant = self._draft + buffer.text, "", None
                self._cut_off_at = -_HASTE_SECONDS
            if self._answer is None and buffer.document.text_before_cursor.endswith("\\"):
                buffer.delete_before_cursor()
                buffer.insert_text("\n")
            else:
                buffer.validate_and_handle()

        @keys.add("escape", "enter")
        def _(event: KeyPressEvent) -> None:
            event.current_buffer.insert_text("\n")

        @keys.add("c-c")
        @keys.add("<sigint>")
        def _(event: KeyPressEvent) -> None:
            self._stop()

        return keys


def _history_in(path: Path) -> History:
    """Return the history in a file that nobody else can read, or one in memory where there can be no such file."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return _FileHistory(str(path))


_READ_BYTES = 65_536  # bytes read at once


class PlainTerminal:
    """Reads lines and writes lines. From a pipe the next line is read when the last one was answered."""

    def __init__(self) -> None:
        self._is_terminal = sys.stdin is not None and sys.stdin.isatty()
        self._quiet = asyncio.Event()
        self._quiet.set()
        self._typed: deque[str] = deque()
        self._news = asyncio.Event()
        self._left = b""
        self._is_over = sys.stdin is None
        self._answer: asyncio.Future[str] | None = None
        self._is_prompted = False
        self._is_listening = False

    # what the loop of the chat needs

    async def line(self) -> str | None:
        """Return what is typed next; None at the end. A line that ends with a backslash goes on in the next."""
        parts = list[str]()
        while True:
            if self._quiet.is_set():
                self._prompt("> " if not parts else ". ")
            part = await (self._from_terminal() if self._is_terminal else self._from_pipe())
            if part is None:
                return "\n".join(parts) if parts else None
            self._is_prompted = False
            parts.append(part.removesuffix("\\"))
            if not part.endswith("\\"):
                return "\n".join(parts)

    async def ask(self, prompt: str) -> str:
        """Return what the person types after a prompt; what they typed before is no answer to it."""
        if self._is_listening and not self._is_over:
            self._catch_up()
        self._answer = asyncio.get_running_loop().create_future()
        self._prompt(prompt)
        try:
            return await self._answer
        finally:
            self._answer = None

    def busy(self, is_busy: bool) -> None:
        """Take note that a turn begins or ends."""
        if is_busy:
            self._quiet.clear()
            self._is_prompted = False
        else:
            self._quiet.set()
            if self._is_terminal:
                self._prompt("> ")

    def leave(self) -> None:
        """Say that nothing more will be read."""
        self._is_over = True
        self._quiet.set()
        self._news.set()

    def clear(self) -> bool:
        """Return whether something was typed that is thrown away now: a terminal has done that itself."""
        return False

    def write(self, text: str, /) -> None:
        """Write whole lines."""
        if self._is_prompted:
            text = f"\n{text}"
            self._is_prompted = False
        if sys.stdout is not None:
            sys.stdout.write(text)
            sys.stdout.flush()

    def refresh(self) -> None:
        """Do nothing: progress is printed as lines of its own."""

    def close(self) -> None:
        """Let go of the terminal."""
        if self._is_listening:
            asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        if self._is_prompted:
            self.write("")

    # reading

    async def _from_terminal(self) -> str | None:
        if not self._is_listening and not self._is_over:
            asyncio.get_running_loop().add_reader(sys.stdin.fileno(), self._hear)
            self._is_listening = True
        while not self._typed and not self._is_over:
            self._news.clear()
            await self._news.wait()
        return self._typed.popleft() if self._typed else None

    async def _from_pipe(self) -> str | None:
        await self._quiet.wait()
        if self._is_over:
            return None
        data: bytes = await in_thread(sys.stdin.buffer.readline)
        if not data:
            self._is_over = True
            return None
        return data.decode(errors="replace").rstrip("\n")

    def _hear(self) -> None:
        if not _has_input():
            return  # it was read for a question already
        piece = os.read(sys.stdin.fileno(), _READ_BYTES)
        if not piece:
            self._is_over = True
        *whole, self._left = (self._left + piece).split(b"\n")
        for each in whole:
            line = each.decode(errors="replace")
            if self._answer is not None and not self._answer.done():
                self._is_prompted = False
                self._answer.set_result(line)
            else:
                self._typed.append(line)
        if self._is_over and self._answer is not None and not self._answer.done():
            self._answer.set_result("")
        self._news.set()

    def _catch_up(self) -> None:
        """Take in the lines that were typed and not read yet; one that was only begun is thrown away."""
        while not self._is_over and _has_input():
            self._hear()
        self._left = b""
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def _prompt(self, text: str) -> None:
        if not self._is_terminal or self._is_prompted or sys.stdout is None:
            return
        sys.stdout.write(text)
        sys.stdout.flush()
        self._is_prompted = True


def _has_input() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])
