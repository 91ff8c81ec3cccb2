"""Commands of a crib: judged before they run, run as they were judged, in the shell and environment of their caller."""

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests import prestarted
from tests.backends.exec.shells import until
from tests.commands import OPEN, belt_in, cribbed, printed, said

import toolcrib
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.result import Result
from toolcrib.services.exec.judge import build_environment, is_forbidden
from toolcrib.testing import FakeApprover

pytestmark = pytest.mark.anyio

LISTED = {
    "host": "host",
    "allow": [["echo"], ["printenv"]],
    "readOnly": ["cat", "ls"],
    "deny": [["touch"]],
}
SHELLS = ["host", "sandbox"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "job.py").write_text("print(41 + 1)\n")
    return folder


class Asked(FakeApprover):
    """Says yes, after something has happened."""

    def __init__(self, first: Callable[[], object] = lambda: None) -> None:
        super().__init__([True])
        self._first = first

    async def approve(
        self, caller: Caller, call: Call, reason: str, binding: Mapping[str, str] | None = None, /
    ) -> bool:
        self._first()
        return await super().approve(caller, call, reason, binding or {})


async def run(root: Path, command: str, settings: Mapping[str, Any] = LISTED, **args: Any) -> Result:
    approver = args.pop("approver", None)
    async with belt_in(root, settings, approver=approver) as belt:
        return await belt.call("exec", {"command": command, **args})


async def test_a_listed_command_runs_as_its_words_and_no_shell_reads_them(root: Path) -> None:
    result = await run(root, "echo '$(touch PWNED)' \\; '*'")
    assert (result.status, said(result)) == ("ok", "$(touch PWNED) ; *")


async def test_a_program_of_the_workspace_never_stands_in_for_a_listed_one(root: Path) -> None:
    (root / "echo").write_text("#!/bin/sh\ntouch PWNED\n")
    (root / "echo").chmod(0o755)
    assert said(await run(root, "echo hi")) == "hi"
    assert (await run(root, "./echo hi")).status == "error"
    assert not (root / "PWNED").exists()


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("touch PWNED", "touch"),
        ("python3 job.py", "there is nobody to ask"),
        ("cat ../secret", "there is nobody to ask"),
        ("echo hi; python3 job.py", "there is nobody to ask"),
        ("", "command"),
    ],
)
async def test_what_is_not_permitted_does_not_run(root: Path, command: str, words: str) -> None:
    result = await run(root, command)
    assert result.status == "error"
    assert words in said(result)
    assert not (root / "PWNED").exists()


async def test_a_link_out_of_the_workspace_is_not_read_unasked(root: Path) -> None:
    (root.parent / "secret").write_text("outside\n")
    (root / "link").symlink_to("../secret")
    assert (await run(root, "cat link")).details["code"] == "not_approved"


async def test_switched_off_means_off(root: Path) -> None:
    result = await run(root, "echo hi", {**LISTED, "security": "deny"})
    assert "security" in said(result)


async def test_a_yes_is_bound_to_words_directory_environment_and_files(root: Path) -> None:
    approver = Asked()
    result = await run(root, "python3 job.py", approver=approver)
    assert (result.status, printed(result)) == ("ok", "42")
    (bound,) = approver.bound
    assert json.loads(bound["argv"]) == ["python3", "job.py"]
    assert bound["program"].endswith("/python3")
    assert bound["directory"] == str(root)
    assert bound["environment"].startswith("HOME, LANG, ")
    assert "contents of job.py" in bound


async def test_a_script_that_changes_after_the_yes_does_not_run(root: Path) -> None:
    approver = Asked(lambda: (root / "job.py").write_text("open('PWNED', 'w')\n"))
    result = await run(root, "python3 job.py", approver=approver)
    assert (result.status, result.details["code"]) == ("error", "changed")
    assert not (root / "PWNED").exists()


async def test_only_what_can_start_nothing_else_gets_a_lasting_yes(root: Path) -> None:
    async with cribbed(root, {**LISTED, "ask": "always"}, approver=FakeApprover([True, True])) as (belt, commands):
        for key, command, lasts in (("a", "echo hi", True), ("b", "bash -c 'echo hi'", False)):
            call = Call(id=key, name="exec", args={"command": command}, key=key)
            await belt.call_all([call])
            assert (commands.can_lend(call, {}) is None) is lasts
        assert commands.can_lend(Call(id="c", name="exec", key="c"), {}) is not None


async def test_the_environment_is_built_and_not_inherited(root: Path) -> None:
    environ = {"SECRET": "s3cret", "LENT": "yes", "HOME": str(root), "LD_PRELOAD": "x.so"}
    async with cribbed(root, {**OPEN, "env": ["LENT"]}, environ=environ) as (belt, _):
        result = await belt.call("exec", {"command": "env", "env": {"NODE_ENV": "test"}})
    lines = dict(line.split("=", 1) for line in printed(result).splitlines())
    assert (lines["LENT"], lines["NODE_ENV"], lines["HOME"]) == ("yes", "test", str(root))
    assert not {"SECRET", "LD_PRELOAD"} & lines.keys()


@pytest.mark.parametrize(
    "name", ["LD_PRELOAD", "ld_audit", "Path", "BASH_ENV", "BASH_FUNC_ls%%", "NODE_OPTIONS", "ENV"]
)
async def test_a_call_cannot_set_what_changes_what_runs(root: Path, name: str) -> None:
    result = await run(root, "echo hi", OPEN, env={name: "x"})
    assert result.details["code"] == "blocked"
    assert repr(name) in said(result)


def test_ordinary_variables_are_a_calls_to_set() -> None:
    assert not any(map(is_forbidden, ["NODE_ENV", "PATHS", "LANG", "API_BASE", "MY_ENV", "GIT_AUTHOR_NAME"]))


def test_the_basics_are_there_without_an_environment_of_ours() -> None:
    built = build_environment({}, ("/usr/bin", "/bin"), frozenset({"MISSING"}))
    assert built["PATH"] == "/usr/bin:/bin"
    assert "MISSING" not in built


async def test_an_agents_own_settings_hold_for_it(root: Path) -> None:
    agents = {"strict": {"tools": {"exec": {"security": "deny"}}}}
    for agent, status in (("strict", "error"), ("main", "ok")):
        caller = Caller(agent=agent, owner=True)
        async with cribbed(root, OPEN, caller=caller, agents=agents) as (belt, _):
            assert (await belt.call("exec", {"command": "echo hi"})).status == status


async def test_a_sandboxed_session_never_runs_on_the_bare_host(root: Path) -> None:
    tools = {"sandbox": {"tools": {"allow": ["exec"]}}}
    async with cribbed(root, OPEN, caller=Caller(owner=True, sandboxed=True), tools=tools) as (belt, _):
        result = await belt.call("exec", {"command": "hostname"})
    assert said(result) == "sandbox"


async def test_a_program_that_came_with_us_can_be_used(root: Path) -> None:
    for shell in SHELLS:
        result = await run(root, "rg -c print job.py", {"host": shell, "readOnly": ["rg"]})
        assert (result.status, said(result)) == ("ok", "1")


WRITABLE = "find . -maxdepth 0 -writable"


@pytest.mark.parametrize(
    ("settings", "command", "shown"),
    [
        ({"readOnly": ["find"]}, WRITABLE, ""),
        ({"readOnly": ["find"], "safeBins": ["head"]}, f"{WRITABLE} | head; {WRITABLE}", ""),
        ({"readOnly": ["find", "cat"], "allow": [["echo"]]}, f"echo hi && {WRITABLE} && cat job.py", "hi"),
        ({"allow": [["find"]]}, WRITABLE, "."),
        ({"allow": [["find"]], "readOnly": ["head"]}, f"{WRITABLE} | head -n 1", "."),
        ({"security": "full", "readOnly": ["find"]}, WRITABLE, "."),
    ],
)
async def test_what_runs_because_it_only_reads_cannot_write_whatever_it_is_told(
    root: Path, settings: Mapping[str, Any], command: str, shown: str
) -> None:
    (root / "job.py").write_text("")
    result = await run(root, command, {"host": "sandbox", **settings})
    assert (result.status, said(result).strip()) == ("ok", shown or "(no output)")


@pytest.mark.parametrize("reader", ["git status", "find .", "rg x", "sort -u job.py"])
async def test_a_reader_beside_what_may_write_is_asked_about_unless_no_option_of_it_writes(
    root: Path, reader: str
) -> None:
    settings = {"allow": [["make"]], "readOnly": ["git", "find", "rg", "sort", "tail", "uniq"]}
    result = await run(root, f"make && {reader}", settings)
    assert result.details["code"] == "not_approved"
    assert "run it by itself" in said(result)
    (root / "Makefile").write_text("all:\n\t@echo made > made; echo b; echo a\n")
    assert said(await run(root, "make | sort | uniq -c | tail -n 1", settings)).split() == ["1", "b"]
    assert (root / "made").exists()


async def test_no_program_of_the_workspace_is_started_because_it_is_called_like_a_reader(root: Path) -> None:
    (root / "bin").mkdir()
    for name, text in (("cat", "#!/bin/sh\necho PWNED\n"), ("head", "#!/bin/sh\necho PWNED\n")):
        (root / "bin" / name).write_text(text)
        (root / "bin" / name).chmod(0o755)
    (root / "bin" / "tail").symlink_to("/usr/bin/tail")
    settings = {"trustedDirs": [str(root / "bin"), "/usr/bin"], "readOnly": ["cat", "head", "tail", "wc"]}
    for command in ("cat job.py", "wc job.py | head", "tail job.py"):
        result = await run(root, command, settings)
        assert result.details["code"] == "not_approved", command
        assert "lies in the workspace" in said(result)
    assert (await run(root, "wc job.py", settings)).status == "ok"
    shown = await run(root, "wc job.py; printenv PATH", {**settings, "allow": [["printenv"]]})
    assert said(shown).splitlines()[1] == "/usr/bin"


@pytest.mark.parametrize("name", ["touch", "perl", "git"])
async def test_what_is_denied_whole_is_not_started_by_a_permitted_program_in_the_sandbox(root: Path, name: str) -> None:
    (root / "job.py").write_text(
        "import os, pathlib, subprocess, sys\n"
        "path = os.popen(f'command -v {sys.argv[1]}').read().strip() or f'/usr/bin/{sys.argv[1]}'\n"
        "node = os.stat(path).st_ino\n"
        "folders = ('/usr/bin', '/usr/lib/git-core', '/bin')\n"
        "paths = [path, *(str(each) for f in folders if os.path.isdir(f) for each in pathlib.Path(f).iterdir()\n"
        "         if each.exists() and each.stat().st_ino == node)]\n"
        "for each in paths:\n"
        "    try:\n"
        "        print(subprocess.run([each, '--version']).returncode)\n"
        "    except PermissionError:\n"
        "        print('no')\n"
        "print(subprocess.run(['true']).returncode, os.path.getsize(path))\n"
    )
    settings = {"allow": [["python3"]], "deny": [[name], ["docker", "push"]]}
    result = await run(root, f"python3 job.py {name}", settings)
    *tries, last = said(result).splitlines()
    assert (set(tries), last) == ({"no"}, "0 0")
    assert "no" not in said(await run(root, f"python3 job.py {name}", {"allow": [["python3"]]})).splitlines()


async def test_docker_says_that_it_is_not_there(root: Path) -> None:
    result = await run(root, "echo hi", {**OPEN, "host": "docker"})
    assert "not built yet" in said(result)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("command", "args", "words", "code"),
    [
        ("echo out; echo err >&2; exit 7", {}, "out\nerr\n\nThe command exited with code 7.", "exit"),
        ("echo so far; kill -9 $$", {}, "so far\n\nThe command was ended by signal 9 (SIGKILL).", "signal"),
        ("echo so far; sleep 100", {"timeout": 0.5}, "so far\n\nThe command did not end within 0.5 s", "timeout"),
        ("pwd", {"workdir": "nope"}, "no folder 'nope'", "not_found"),
    ],
)
async def test_failures_say_which(root: Path, shell: str, command: str, args: Any, words: str, code: str) -> None:
    result = await run(root, command, {**OPEN, "host": shell}, **args)
    assert (result.status, result.details["code"]) == ("error", code)
    assert words in said(result)


@pytest.mark.parametrize("shell", SHELLS)
async def test_a_command_in_the_background_is_followed_to_its_end(root: Path, shell: str) -> None:
    async with belt_in(root, {**OPEN, "host": shell}) as belt:
        started = await belt.call("exec", {"command": "read line; echo got $line", "background": True})
        id = started.details["sessionId"]
        await belt.call("process", {"action": "submit", "sessionId": id, "data": "hello"})
        seen = ""
        while "exited" not in seen:
            seen += said(await belt.call("process", {"action": "poll", "sessionId": id, "timeoutMs": 5_000}))
    assert "got hello" in seen
    assert "exited with code 0" in seen


@pytest.mark.parametrize("shell", SHELLS)
async def test_a_stopped_call_leaves_no_process(root: Path, shell: str) -> None:
    async with belt_in(root, {**OPEN, "host": shell}) as belt:
        command = "(setsid sleep 4321 &) ; trap '' TERM; echo ready > ready; sleep 4321"
        task = asyncio.ensure_future(belt.call("exec", {"command": command}))
        await until((root / "ready").exists)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not _running("sleep 4321", root)


async def test_a_terminal_shows_a_screen(root: Path) -> None:
    result = await run(root, r"printf '\033[2J\033[3;5Hhere'; tput cols > size", OPEN, pty=True)
    assert printed(result).endswith("    here")
    assert (root / "size").read_text() == "120\n"


async def test_what_was_running_when_the_crib_died_is_told_by_the_next(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    child = prestarted.Popen([sys.executable, "-c", _DYING, str(root)])
    assert child.wait(60) == -signal.SIGKILL
    async with belt_in(root) as belt:
        await belt.call("exec", {"command": "true"})
    assert "a command was running when its crib died: '/usr/bin/sleep 9876'" in caplog.text
    assert not _running("sleep 9876", root)


_DYING = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.commands import belt_in

async def main():
    async with belt_in(Path(sys.argv[1])) as belt:
        result = await belt.call("exec", {"command": "sleep 9876", "background": True})
        assert result.details["status"] == "running"
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def _running(command: str, root: Path) -> list[int]:
    """Return the processes with a command line that ends so, and that work in a folder of the test."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
            if words.endswith(command) and str((path / "cwd").readlink()).startswith(str(root)):
                found.append(int(path.name))
        except OSError:
            continue
    return found


async def test_a_permit_is_for_its_caller_alone(root: Path) -> None:
    async with cribbed(root) as (_, commands):
        with pytest.raises(ToolError, match="nothing was permitted"):
            await commands.processes.start(Caller(), lambda _: None, call="made-up")


async def test_a_subagent_gets_no_command_that_its_parent_lacks(root: Path) -> None:
    config = {
        "workspace": {"root": str(root)},
        "tools": {"exec": {"host": "host", "security": "full", "ask": "off", "network": True}},
        "agents": {
            "main": {"tools": {"exec": {"host": "sandbox", "deny": [["touch"]], "network": False}}},
            "careful": {"tools": {"exec": {"security": "deny"}}},
            "own": {"tools": {"subagents": {"mode": "own"}}},
        },
    }
    crib = toolcrib.open(config)
    alone, child = Caller(agent="helper"), Caller(agent="helper", parents=("main",))
    grandchild = Caller(agent="helper", parents=("careful", "agent:main:x"))
    free = Caller(agent="own", parents=("main",))
    judged = [crib.commands.judge(each, "touch x").decision for each in (alone, child, grandchild, free)]
    assert judged == ["run", "deny", "deny", "run"]
    judged = [crib.commands.judge(each, "ls").decision for each in (alone, child, grandchild, free)]
    assert judged == ["run", "run", "deny", "run"]
    await crib.close()
