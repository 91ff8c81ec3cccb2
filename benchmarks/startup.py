"""Start-up in fresh processes: importing toolcrib against importing pydantic, `--version` against importing click."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from . import Row, interleaved

__all__ = ["console_command", "measure", "rows_from"]

IMPORT_BAR, VERSION_BAR = 1.3, 1.5

PYDANTIC = "from pydantic import BaseModel, TypeAdapter; import asyncio"
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
        "version": [*version, "--version"],
    }
    for command in commands.values():
        _run(command)  # compiles what is not compiled yet
    works = {name: partial(_run, command) for name, command in commands.items()}
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
    return [*rows, Row(what=what, ours=taken["version"], against="import click", floor=taken["click"], bar=VERSION_BAR)]


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
