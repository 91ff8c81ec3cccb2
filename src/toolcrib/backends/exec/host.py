"""Commands on the bare machine: no sandbox, but a tree that can be ended, limits, and an environment that was built."""

import os

from toolcrib.define.errors import ToolError
from toolcrib.define.shell import Command, Confinement, Limits

from .limits import hierarchies
from .running import GRACE, Process
from .start import argv_of, ended, find_program, folder_of, group_limits, launch, refused, shown
from .supervisor import Keeper, Spawn

__all__ = ["Host"]


class Host:
    """Runs commands as whoever we are, in the folders of a workspace. The operator chose this; nothing is confined."""

    def __init__(self, root: str, keeper: Keeper | None = None) -> None:
        self._root = os.path.realpath(root)
        self._keeper = keeper or Keeper()
        self._owned = keeper is None

    async def start(self, command: Command, limits: Limits, /) -> Process:
        """Return when the command runs."""
        argv = argv_of(command)
        cwd, fd = folder_of(self._root, command.cwd)
        try:
            program = find_program(argv[0], command.env, cwd, lambda _: True)

            def spawn(fds: dict[str, int]) -> Spawn:
                return Spawn(
                    program=program, argv=argv, env={**command.env, "PWD": cwd}, fds={**fds, "cwd": fd},
                    seconds=limits.seconds, grace=GRACE, limits=group_limits(limits), shown=shown(command),
                    tty=os.ttyname(fds["terminal"]) if command.pty else "",
                )  # fmt: skip

            return await launch(self._keeper, command, limits, spawn, ended)
        except OSError as error:
            raise refused(error, argv[0]) from error
        finally:
            os.close(fd)

    async def describe(self) -> Confinement:
        """Return what holds here."""
        if os.uname().sysname != "Linux":
            raise ToolError("commands are run on Linux only", code="unavailable")
        kinds = {kind for place in hierarchies() for kind in place.kinds}
        return Confinement(
            kind="host",
            facts=(
                f"runs as user {os.getuid()} with everything that user may do, network included",
                "the whole tree is ended with its first process, at its deadline, and when this program dies",
                memory_fact(kinds), processes_fact(kinds),
            ),
        )  # fmt: skip

    async def close(self) -> None:
        """End every command that still runs, unless the keeper is shared with others."""
        if self._owned:
            await self._keeper.close()


def memory_fact(kinds: set[str]) -> str:
    """Return how memory is limited."""
    if "memory" in kinds:
        return "memory is limited for the whole tree, by a control group"
    return "memory is limited for each process, not for the tree: no control group can be made here"


def processes_fact(kinds: set[str]) -> str:
    """Return how processes are limited."""
    if "pids" in kinds:
        return "processes are limited for the whole tree, by a control group"
    if os.getuid():
        return "processes are limited together with the others of this user: no control group can be made here"
    return "processes are not limited: root is exempt, and no control group can be made here"
