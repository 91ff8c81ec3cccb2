"""The loop of a chat: what is typed becomes messages, commands and answers; what happens is shown."""

import asyncio
import contextlib
import hashlib
import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from toolcrib.backends.stores.sessions_json import read_log
from toolcrib.define.errors import CribError
from toolcrib.define.event import ToolFinished
from toolcrib.define.log import Said
from toolcrib.define.message import Call
from toolcrib.define.result import Image
from toolcrib.doors.cli import EXIT_INTERRUPTED
from toolcrib.doors.cli._format import Formatter, Style, truncate
from toolcrib.doors.cli._log import state_folder
from toolcrib.doors.cli._options import wait_for_servers
from toolcrib.doors.cli._talk import AskedTurn, Talk
from toolcrib.doors.cli.approvals import ask_at_terminal

from .commands import ChatCommands
from .screen import ChatScreen
from .session import ChatSession, summarize_session
from .terminal import PlainTerminal, PromptTerminal
from .undo import Undo

log = logging.getLogger("toolcrib")

Surface = PromptTerminal | PlainTerminal

_TICK_SECONDS = 0.5
_FAREWELLS = frozenset({"exit", "quit", "exit()", "quit()", ":q", "logout"})  # as people leave other programs
_RECAP_LINES = 4  # lines of the last message
_ENDINGS = {"image/png": "png", "image/jpeg": "jpg", "image/gif": "gif", "image/webp": "webp"}


class ChatLoop:
    """One person, one session, one surface; at most one turn at a time.

    `talk` is who answers; with nobody `at_terminal` no question is asked here.
    """

    def __init__(self, chat: ChatSession, talk: Talk, *, at_terminal: bool) -> None:
        self._chat, self._talk, self._crib, self._undo = chat, talk, talk.crib, Undo()
        self._questions = talk.questions if at_terminal else None
        self._turn: AskedTurn | None = None
        self._answering: asyncio.Task[None] | None = None
        self._presses = 0
        self._is_over = False
        self._surface: Surface | None = None
        self._screen: ChatScreen | None = None

    # what a surface needs

    def live_lines(self, width: int, max_lines: int) -> list[tuple[Style, str]]:
        """Return what goes on at this moment."""
        if self._screen is None or self._turn is None:
            return []
        if not self._talk.is_reached:
            return [("dim", truncate("… the gateway does not answer; it is tried again", width))]
        return self._screen.live_lines(width, max_lines)

    def interrupt(self) -> None:
        """Stop the turn; with none, throw away what was typed; pressed once more, leave."""
        if self._surface is None or self._screen is None:
            return
        if self._turn is not None:
            self._presses += 1
            if self._presses == 1:
                self._turn.stop()
            else:
                self._is_over = True
                self._surface.leave()
        elif not self._surface.clear():
            self._presses += 1
            if self._presses == 1:
                self._screen.say("Ctrl-C once more, Ctrl-D or /quit leaves.", "dim")
            else:
                self._surface.leave()

    # the whole

    async def run(self, surface: Surface, formatter: Formatter, *, anew: bool = False) -> int:
        """Run until the person leaves; return the exit code."""
        screen = ChatScreen(formatter, surface, diff_of=self._diff_of)

        async def ask(prompt: str) -> str:
            with screen.pause_clock():
                return await surface.ask(prompt)

        self._surface, self._screen = surface, screen
        undo = self._undo if self._crib is not None else None
        commands = ChatCommands(self._chat, screen, undo, lambda: self._turn)
        door = (
            ask_at_terminal(self._questions, ask, lambda text: self._question(text, screen))
            if self._questions is not None
            else contextlib.nullcontext()
        )
        with _signals(self.interrupt, surface.leave):
            async with door:
                await self._chat.open(anew=anew)
                await self._greet(screen)
                try:
                    while (text := await surface.line()) is not None:
                        if await self._dispatch(text, commands, surface, screen) == "leave":
                            break
                finally:
                    await self._shut_down()
                    surface.close()
        return 0

    async def _dispatch(self, text: str, commands: ChatCommands, surface: Surface, screen: ChatScreen) -> str:
        """Do what was typed: a command at once, a message as a turn, or as a word to the turn that runs."""
        if self._turn is None:
            self._presses = 0
        try:
            if self._turn is None and text.strip().lower() in _FAREWELLS:
                return "leave"
            if text.startswith("/"):
                after = await commands.run(text.strip())
                if after == "switched":
                    await self._greet(screen)
                return after
            if not text.strip():
                return "go on"
            if self._turn is not None:
                if (own := await self._turn.steer(text)) is None:
                    screen.say("(heard as soon as the calls under way are done)", "dim")
                elif self._answering is not None:
                    await asyncio.wait([self._answering])  # it is at its end
                    self._follow(own, surface, screen)
                return "go on"
            await self._start_turn(text.strip(), surface, screen)
        except CribError as error:
            screen.say(str(error), "bad")
        return "go on"

    async def _start_turn(self, text: str, surface: Surface, screen: ChatScreen) -> None:
        if self._crib is not None:
            await wait_for_servers(self._crib, lambda words: screen.say(f"({words})", "dim"))
            self._undo.watch(self._crib.belt(self._chat.caller).ports.workspace)
        self._follow(self._chat.start_turn(text), surface, screen)

    def _follow(self, turn: AskedTurn, surface: Surface, screen: ChatScreen) -> None:
        self._turn = turn
        surface.busy(True)
        self._answering = asyncio.create_task(self._show_turn(turn, surface, screen))

    async def _show_turn(self, turn: AskedTurn, surface: Surface, screen: ChatScreen) -> None:
        """Show a turn until it ends, whatever becomes of it."""
        ticking, pictured = asyncio.create_task(_tick_screen(screen)), set[str]()
        try:
            async for event in turn:
                screen.show(event)
                if isinstance(event, ToolFinished) and "[image/" in event.result.plain_text:
                    pictured.add(event.call.id)
            if pictured:
                await self._save_pictures(turn.session, pictured, screen)
        except CribError as error:
            screen.say(str(error), "bad")
        except Exception:  # a door: the chat goes on, and the log tells the rest
            log.exception("a turn failed unexpectedly")
            screen.say("the turn failed unexpectedly; the log has the details", "bad")
        finally:
            ticking.cancel()
            self._turn, self._presses = None, 0
            surface.busy(False)

    async def _shut_down(self) -> None:
        """Stop what still runs and wait for it; a person in a hurry does not wait."""
        if self._is_over:
            # commands end with us, and the next turn finds what was left open
            os._exit(EXIT_INTERRUPTED)
        if self._turn is not None:
            self._turn.stop()
        if self._answering is not None:
            await asyncio.wait([self._answering])

    # what is shown around turns

    async def _greet(self, screen: ChatScreen) -> None:
        chat, formatter = self._chat, screen.formatter
        found = await summarize_session(chat.ask_owner, chat.session)
        screen.say(f"toolcrib chat: {chat.agent}, {await chat.model()}, in {_home(chat.folder)}", "bold")
        if chat.busy_session:
            screen.say(f"Another chat goes on with {chat.busy_session}, so this is a new one.", "dim")
        if found is None or not found.count:
            screen.say("Say what is to be done; /help shows what else there is.", "dim")
            return
        many = "1 message" if found.count == 1 else f"{found.count} messages"
        screen.say(f"Going on with {chat.session} ({many}; /new begins another).", "dim")
        if found.asked:
            screen.put(formatter.remark(f"› {found.asked}", "dim", max_lines=2))
        if found.answered:
            lines = found.answered.splitlines()
            shown = lines if len(lines) <= _RECAP_LINES else [*lines[: _RECAP_LINES - 1], "…"]
            screen.put(formatter.lines(shown, "dim", indent=2))
        elif found.asked:
            screen.say(f"{found.unfinished}; say it again, or something else.", "ask")

    def _question(self, text: str, screen: ChatScreen) -> None:
        if text.strip():
            screen.put(screen.formatter.fold(text.strip("\n"), "ask"))

    def _diff_of(self, call: Call) -> str:
        path = call.args.get("path")
        return self._undo.diff(path) if call.name == "write" and isinstance(path, str) else ""

    async def _save_pictures(self, session: str, calls: set[str], screen: ChatScreen) -> None:
        """Save the pictures that these calls brought, each once; events only say that there are some."""
        texts = await self._chat.ask_owner("sessions.export", {"key": session})
        bodies = [line.body for line in read_log(texts)[1]]
        messages = {each.message.call_id: each.message for each in bodies if isinstance(each, Said)}
        parts = (part for id in calls if id in messages for part in messages[id].content)
        for picture in dict.fromkeys(part for part in parts if isinstance(part, Image)):
            try:
                path = _save_picture(picture, state_folder() / "pictures")
            except OSError as error:
                screen.say(f"a picture ({picture.mime}) could not be saved: {error.strerror}", "bad")
            else:
                screen.say(f"picture: {picture.mime}, {len(picture.data):,} bytes, saved as {path}", "accent")


@contextlib.contextmanager
def _signals(interrupted: Callable[[], None], leave: Callable[[], None]) -> Iterator[None]:
    """Let Ctrl-C interrupt the chat, and the end of the terminal leave it."""
    loop = asyncio.get_running_loop()
    handlers = {signal.SIGINT: interrupted, signal.SIGTERM: leave, signal.SIGHUP: leave}
    for number, handler in handlers.items():
        loop.add_signal_handler(number, handler)
    try:
        yield
    finally:
        for number in handlers:
            loop.remove_signal_handler(number)


async def _tick_screen(screen: ChatScreen) -> None:
    """Let a screen that cannot change what it wrote say from time to time how things go."""
    while True:
        await asyncio.sleep(_TICK_SECONDS)
        screen.tick()


def _home(folder: Path) -> str:
    try:
        return f"~/{folder.relative_to(Path.home())}".removesuffix("/.")
    except (ValueError, RuntimeError):
        return str(folder)


def _save_picture(picture: Image, folder: Path) -> Path:
    """Write a picture beneath a folder under the hash of its content, for nobody else to read; return where it is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    name = hashlib.sha256(picture.data).hexdigest()[:16]
    path = folder / f"{name}.{_ENDINGS.get(picture.mime, 'bin')}"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(picture.data)
    return path
