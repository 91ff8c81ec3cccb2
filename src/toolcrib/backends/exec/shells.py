"""The shells of one crib on this machine: one for each host and workspace, all commands under one supervisor."""

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

from toolcrib.backends.files.beneath import Beneath
from toolcrib.backends.files.disk import Disk, Terms
from toolcrib.backends.files.guard import list_protected_names
from toolcrib.backends.files.tracing import list_below
from toolcrib.backends.web.proxy import GuardedProxy
from toolcrib.define.errors import ToolError
from toolcrib.define.shell import Command, CommandLimits, Confinement, Leftover, RunningCommand, Shell
from toolcrib.define.web import WayOut
from toolcrib.lazy import dataclass
from toolcrib.threads import in_thread

from .bubblewrap import Bubblewrap
from .host import Host, own_programs
from .instruction_files import InstructionFiles
from .supervisor import SupervisorClient, end_leftovers


@dataclass(frozen=True, slots=True)
class NoShell:
    """Stands where commands cannot run, and says why."""

    reason: str

    async def start(self, command: Command, limits: CommandLimits, /) -> RunningCommand:
        raise ToolError(self.reason, code="unavailable")

    async def describe(self) -> Confinement:
        raise ToolError(self.reason, code="unavailable")


class LocalShells:
    """Nothing is started before the first command. What keeps them writes into the state folder of a workspace.

    Where a network is granted, sandboxes go out by `way_out`; without one they do not.
    """

    def __init__(self, way_out: WayOut | None = None) -> None:
        self._proxy = GuardedProxy(way_out.dial) if way_out else None
        self._shells: dict[tuple[object, ...], Shell] = {}
        self._supervisor: SupervisorClient | None = None
        self._folder = Path()
        self._disks: dict[Terms, Disk] = {}

    @property
    def programs(self) -> Mapping[str, str]:
        return own_programs()

    def find(self, host: str, terms: Terms, /) -> Shell:
        root = str(terms.root)
        key = (host, root, terms.access, terms.protected)
        if key not in self._shells:
            if self._supervisor is None:
                self._folder = terms.state / "commands"
                self._supervisor = SupervisorClient(str(self._folder))
            self._shells[key] = _make_shell(host, root, terms, self._supervisor, self._proxy)
        return self._shells[key]

    def open_inside(self, root: str, path: str, /) -> int:
        with closing(Beneath(root)) as beneath:
            return beneath.open(path, os.O_PATH)

    def trace(self, terms: Terms, path: str, /, *, names: bool = False) -> tuple[str, ...]:
        return list_below(self._find_disk(terms), path, names=names)

    def list_foreign(self, terms: Terms, /) -> tuple[str, ...]:
        disk = self._find_disk(terms)
        return tuple(each for each in disk.foreign if os.path.isdir(f"{disk.beneath.path}/{each}"))  # noqa: PTH112

    def list_shut(self, terms: Terms, /) -> tuple[str, ...]:
        disk, found = self._find_disk(terms), list[str]()
        for inbox in disk.inboxes if terms.inbox else ():
            people, own = f"{inbox}/people", f"{inbox.removesuffix('inbox')}{terms.inbox}"
            near = [f"{at}/{name}" for at in (inbox, people) for name in _list_names(f"{disk.beneath.path}/{at}")]
            found += [each for each in near if each not in (people, own)]
        return tuple(found)

    def begin_writing(self, terms: Terms, source: str, /) -> Callable[[], None]:
        return partial(terms.origins.end, terms.origins.begin(str(terms.root), source))

    def _find_disk(self, terms: Terms) -> Disk:
        if terms not in self._disks:
            self._disks[terms] = Disk(terms)
        return self._disks[terms]

    async def sweep(self) -> Sequence[Leftover]:
        return () if self._supervisor is None else tuple(await in_thread(end_leftovers, str(self._folder)))

    async def close(self) -> None:
        for disk in self._disks.values():
            disk.close()
        if self._supervisor is not None:
            await self._supervisor.close()


def _list_names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208
    except OSError:
        return []


def _make_shell(host: str, root: str, terms: Terms, supervisor: SupervisorClient, proxy: GuardedProxy | None) -> Shell:
    if terms.refusal:
        return NoShell(terms.refusal)
    if host == "host":
        return Host(root, supervisor)
    if host == "sandbox":
        obeyed = InstructionFiles(
            os.path.realpath(root),
            list_protected_names(terms.protected),
            hidden=map(str, (*terms.own, terms.state)),
            read_only=map(str, terms.code),
        )
        folders = tuple(own_programs().values())
        return Bubblewrap(root, supervisor, access=terms.access, folders=folders, obeyed=obeyed, proxy=proxy)
    return NoShell("commands in docker are not built yet; use tools.exec.host: sandbox")
