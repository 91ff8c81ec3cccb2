"""Start-up in fresh processes: importing toolcrib against importing pydantic, `--version` against importing click,
and a chat that waits for its first message against importing what it needs.
"""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from . import Row, interleaved

__all__ = ["console_command", "measure", "rows_from"]

IMPORT_BAR, VERSION_BAR, CHAT_BAR = 1.3, 1.5, 1.3

PYDANTIC = "from pydantic import BaseModel, TypeAdapter; import asyncio"
NEEDS = "import click, prompt_toolkit, rich.console, rich.markdown, toolcrib.app"
PROMPT = "›".encode()
AUTHOR = "from toolcrib import tool, Tool, Result"


def measure(rounds: int) -> list[Row]:
    """Return the rows of start-up, measured here and now."""
    version, how = console_command(Path(sys.executable))
    commands = {
        "nothing": _python("pass"),
        "pydantic": _python(PYDANTIC),
        "toolcrib": _python("import toolcrib"),
        "author": _python(f"import toolcrib; {AUTHOR}"),
        "click": _python("import click"),
        "needs": _python(f"{NEEDS}, os; os._exit(0)"),  # a chat that is ready has not tidied up, either
        "version": [*version, "--version"],
    }
    for command in commands.values():
        _run(command)  # compiles what is not compiled yet
    works = {name: partial(_run, command) for name, command in commands.items()}
    with tempfile.TemporaryDirectory() as home:
        works["chat"] = partial(_ready, [*version, "chat"], Path(home))
        works["chat"]()
        return rows_from(interleaved(works, rounds, time.perf_counter), how)


def rows_from(taken: Mapping[str, Sequence[float]], how: str) -> list[Row]:
    """Return the promises about `taken`; of an import, the interpreter's own start is not counted."""

    def imported(name: str) -> list[float]:
        return [whole - bare for whole, bare in zip(taken[name], taken["nothing"], strict=True)]

    floor, against = imported("pydantic"), "pydantic and asyncio"
    rows = [
        Row(what=what, ours=imported(name), against=against, floor=floor, bar=IMPORT_BAR)
        for name, what in (("toolcrib", "import toolcrib"), ("author", AUTHOR))
    ]
    what = f"toolcrib --version, by {how}"
    return [
        *rows,
        Row(what=what, ours=taken["version"], against="import click", floor=taken["click"], bar=VERSION_BAR),
        Row(what="toolcrib chat, ready", ours=taken["chat"], against=NEEDS, floor=taken["needs"], bar=CHAT_BAR),
    ]


def console_command(python: Path) -> tuple[list[str], str]:
    """Return how to start the command line in this interpreter's environment, and in a word which way that is."""
    script = python.with_name("toolcrib")
    if script.exists():
        return [str(script)], "console script"
    return [str(python), "-P", "-m", "toolcrib.doors.cli.main"], "python -m"


def _python(code: str) -> list[str]:
    return [sys.executable, "-P", "-c", code]


def _run(command: list[str]) -> None:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=env)


def _ready(command: list[str], home: Path) -> None:
    """Open a chat on a terminal of its own, and wait until it asks for the first message."""
    kept = {name: value for name, value in os.environ.items() if name not in ("PYTHONDONTWRITEBYTECODE", "NO_COLOR")}
    env = {**kept, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "TOOLCRIB_STATE": str(home), "TERM": "xterm"}
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=home)
    os.close(slave)
    try:
        seen = b""
        while PROMPT not in seen:
            seen += os.read(master, 65_536)
    finally:
        process.kill()
        process.wait()
        os.close(master)
