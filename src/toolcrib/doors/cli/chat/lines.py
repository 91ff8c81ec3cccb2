"""The chat on any terminal, in a pipe, for a screen reader: lines in, lines out, and the cursor never moves back."""

import asyncio
import os
import select
import sys
import termios
from collections import deque

from toolcrib.threads import in_thread

__all__ = ["Lines"]

_PIECE = 65_536  # bytes read at once


class Lines:
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

    # what the talk needs

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

    def stir(self) -> None:
        """What goes on is told in lines, when it is worth one."""

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
        piece = os.read(sys.stdin.fileno(), _PIECE)
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
