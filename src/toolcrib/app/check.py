"""Check: one thing that the doctor looked at, and what to say about it."""

import asyncio
import os
import shlex
import shutil
import sys
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["EVERY_TOOL", "Check", "State", "install", "pip_install", "within"]

State = Literal["ok", "missing", "broken"]

EVERY_TOOL = ("*",)
_PATIENCE = 4.0  # seconds that one look may take

# Programs that install packages, with the words that do it.
_INSTALLERS = {
    "apt-get": "apt-get install",
    "dnf": "dnf install",
    "zypper": "zypper install",
    "pacman": "pacman -S",
    "apk": "apk add",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What was found. `tools` do not work until it is mended, `less` is what else is lost, `remedy` what to do.

    Something is broken when what was asked for does not work; what is missing and costs no tool can stay so.
    """

    what: str
    state: State = "ok"
    found: str = ""
    tools: tuple[str, ...] = ()
    less: str = ""
    remedy: str = ""

    @property
    def fails(self) -> bool:
        """Whether something that is needed does not work."""
        return self.state == "broken" or (self.state == "missing" and bool(self.tools))


async def within(what: str, look: Awaitable[Sequence[Check]]) -> Sequence[Check]:
    """Return what a look found; one that takes too long is given up and told."""
    try:
        async with asyncio.timeout(_PATIENCE):
            return await look
    except TimeoutError:
        found = f"gave no answer within {_PATIENCE:g} seconds"
        return [Check(what=what, state="broken", found=found, remedy="see what holds it up, and ask again")]


def install(package: str) -> str:
    """Return the command that installs a package of the system, else words that ask for it."""
    words = next((words for program, words in _INSTALLERS.items() if shutil.which(program)), "")
    if not words:
        return f"install the package {package}"
    return f"{'' if os.geteuid() == 0 else 'sudo '}{words} {package}"


def pip_install(*packages: str) -> str:
    """Return the command that installs packages for the Python that runs here."""
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])
