"""What is written in a picture, read by the program tesseract.

It gets the picture on its input and no name of a file, a small environment, a deadline and limits on memory and
processes, and the supervisor ends it with the call and with us: a picture that is made to hang or to fill memory costs
its reader alone.
"""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from toolcrib.define.errors import ToolError
from toolcrib.threads import in_thread

from .exec.host import run_to_end
from .exec.supervisor import Spawn, SupervisorClient, open_memory

_SECONDS = 20.0
_MEMORY_BYTES, _MAX_PROCESSES = 1 << 30, 16
_MAX_PROGRAMS, _MAX_WAITING = 2, 16
_TEXT_BYTES = 200_000


class Tesseract:
    """Reads with all languages that are installed as its default; `find` says where a program is."""

    def __init__(self, find: Callable[[str], str | None] = shutil.which, seconds: float = _SECONDS) -> None:
        self._find, self._seconds = find, seconds
        self._supervisor = SupervisorClient(most=_MAX_PROGRAMS, waiting=_MAX_WAITING)

    async def read(self, picture: bytes, /) -> str | None:
        """Return the text in a picture, "" for none; None where tesseract is not installed."""
        env = {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "OMP_THREAD_LIMIT": "1"}
        if (program := self._find("tesseract")) is None:
            return None
        given = await in_thread(open_memory, picture)
        try:
            with tempfile.TemporaryFile() as out, Path(os.devnull).open("wb") as nowhere:
                fds = {"stdin": given, "out": out.fileno(), "err": nowhere.fileno()}
                argv = ("tesseract", "stdin", "stdout", "--psm", "3")
                limits = {"memory": _MEMORY_BYTES, "pids": _MAX_PROCESSES}
                await self._run(
                    Spawn(program=program, argv=argv, env=env, fds=fds, seconds=self._seconds, limits=limits)
                )
                out.seek(0)
                return out.read(_TEXT_BYTES).decode(errors="replace").replace("\f", "\n").strip()
        finally:
            os.close(given)

    async def close(self) -> None:
        """End what still runs."""
        await self._supervisor.close()

    async def _run(self, spawn: Spawn) -> None:
        """Run the program to its end; ToolError when that is no good one."""
        ended = await run_to_end(self._supervisor, spawn)
        if ended.reason != "exit" or ended.code != 0:
            why = f"it took longer than {self._seconds:g} s" if ended.reason == "timeout" else "it cannot be read"
            raise ToolError(f"tesseract read no text in it: {why}", code="failed")
