"""A command leaves nothing in the workspace that the host obeys later, and ordinary work is done as ever."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from toolcrib.backends.exec import tree as processes
from toolcrib.backends.exec.instruction_files import InstructionFiles
from toolcrib.backends.exec.shells import LocalShells
from toolcrib.backends.exec.supervisor import end_leftovers
from toolcrib.backends.files.disk import Terms
from toolcrib.define.shell import Shell

from .shells import ENV, opened, ran, started, until

pytestmark = pytest.mark.anyio

GIT = "git -c user.name=a -c user.email=a@b.test -c init.defaultBranch=main -c safe.directory='*'"


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with opened("sandbox", tmp_path / "ws") as shell:
        yield shell


def tree(folder: Path) -> dict[str, str]:
    """Return every file with its content."""
    files = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return {str(path.relative_to(folder)): path.read_text("latin-1") if path.is_file() else "link" for path in files}


MADE = (
    ".mcp.json", ".bashrc", ".profile", ".zshenv", ".gitconfig", "toolcrib.yaml", "toolcrib.json5",
    ".ssh/authorized_keys", ".config/fish/config.fish", ".git/hooks/post-commit", ".git/config.worktree",
    ".git/commondir", ".git/config", ".git",
)  # fmt: skip


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize(
    "way",
    [
        "mkdir -p {folder} && echo evil > {name}",
        "mkdir -p {folder} && echo evil > x && mv x {name}",
        "mkdir -p {folder} && echo evil > x && ln x {name}",
        "mkdir -p made/{folder} && echo evil > made/{name} && cp -r made/. . && rm -r made",
        "mkdir -p {folder} && echo evil > x && ln -s $PWD/x {name}",
        "mkdir -p elsewhere/{folder} && echo evil > elsewhere/{name} && ln -s elsewhere/{first} {first}",
        "mkdir -p {folder} && echo evil > {name} && chmod 500 {folder} && chmod 500 .",
    ],
)
async def test_what_the_host_would_obey_is_not_left_where_nothing_was(
    shell: Shell, tmp_path: Path, name: str, way: str
) -> None:
    words = {"name": name, "folder": os.path.dirname(name) or ".", "first": name.partition("/")[0]}  # noqa: PTH120
    ended, text = await ran(shell, way.format(**words))
    (tmp_path / "ws").chmod(0o700)
    assert (os.path.lexists(tmp_path / "ws" / name), ended.ok) == (False, False), text
    assert "would be obeyed outside of this task, so what it made there was put aside" in ended.sentence()


@pytest.mark.parametrize(
    "line",
    [
        "echo evil >> {name}", "echo evil > x && mv -f x {name}", "rm -rf {name} && echo evil > {name}",
        "sed -i s/^/evil/ {name}", "mv {name} y && echo evil > {name}", "ln -sf /tmp/evil {name}", "chmod 777 {name}",
        "ln {name} y && echo evil > y",
        "d=$(dirname {name}); [ $d = . ] || {{ mv $d gone && mkdir -p $d && echo evil > {name}; }}; false",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "name", [".mcp.json", ".git/config", ".git/hooks/post-commit", ".config/fish/config.fish", ".git"]
)
async def test_what_is_there_is_read_only(shell: Shell, tmp_path: Path, name: str, line: str) -> None:
    place = tmp_path / "ws" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("mine\n")
    ended, text = await ran(shell, line.format(name=name))
    assert not ended.ok
    assert place.read_text() == "mine\n", text


async def test_a_repository_is_worked_in_but_not_given_programs_to_run(shell: Shell, tmp_path: Path) -> None:
    ended, text = await ran(shell, f"{GIT} init -q . && echo 1 > f && {GIT} add -A && {GIT} commit -qm one")
    assert ended.ok, (ended, text)
    before = tree(tmp_path / "ws")
    ended, text = await ran(
        shell,
        f"echo 2 >> f && {GIT} commit -qam two && {GIT} checkout -qb side && {GIT} mv f g && {GIT} commit -qm three"
        f" && {GIT} checkout -q main && {GIT} merge -q side && echo 3 > h && {GIT} stash -qu && {GIT} stash pop -q"
        f" && {GIT} tag v1 && {GIT} log --oneline | wc -l && {GIT} status --short && {GIT} gc -q",
    )
    assert (ended.ok, text.endswith("3\n?? h\n")) == (True, True), text
    for line in (
        f"{GIT} config core.pager evil",
        f"{GIT} config core.fsmonitor evil",
        "echo x > .git/hooks/pre-commit",
        f"{GIT} -c core.hooksPath=/dev/null config --worktree core.pager evil",
    ):
        assert not (await ran(shell, line))[0].ok
    after = tree(tmp_path / "ws")
    assert {name for name in before if "hooks" in name} == {name for name in after if "hooks" in name}
    assert after[".git/config"] == before[".git/config"]


DEEPER = f"""
{GIT} init -q . && echo 1 > f && {GIT} add -A && {GIT} commit -qm one && {GIT} clone -q . libs/near/one
{GIT} -c protocol.file.allow=always submodule --quiet add $PWD/libs/near/one two && {GIT} worktree add -q tree
{GIT} init -q --bare bare && mkdir -p apps/web/hooks && echo mine > apps/web/.mcp.json
"""


@pytest.mark.parametrize(
    "name",
    [
        "libs/near/one/.git/hooks/pre-commit", "libs/near/one/.git/config", "libs/near/one/.git/config.worktree",
        "libs/near/one/.git/commondir", ".git/modules/two/hooks/pre-commit", ".git/modules/two/config", "two/.git",
        "tree/.git", ".git/worktrees/tree/commondir", "bare/config", "bare/hooks/post-receive", "apps/web/.mcp.json",
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "line",
    ["echo evil >> {name}", "echo evil > x; mv -f x {name}", "mv libs lost; mkdir -p $(dirname {name}); ln x {name}"],
)
async def test_what_lies_deeper_is_read_only_too(tmp_path: Path, name: str, line: str) -> None:
    (tmp_path / "ws").mkdir()
    made = subprocess.run(["sh", "-ec", DEEPER], cwd=tmp_path / "ws", capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr
    place = tmp_path / "ws" / name
    before = place.read_bytes() if place.is_file() else None
    async with opened("sandbox", tmp_path / "ws") as shell:
        _, text = await ran(shell, f"echo evil > x; {line.format(name=name)}")
    assert (place.read_bytes() if place.is_file() else None) == before, text
    assert (tmp_path / "ws/libs/near").is_dir()


async def test_a_repository_that_a_command_made_deeper_can_be_taken_away_again(shell: Shell, tmp_path: Path) -> None:
    for line in (f"{GIT} init -q a/b && cd a/b && echo 1 > f && {GIT} add f && {GIT} commit -qm one", "rm -r a"):
        ended, text = await ran(shell, line)
        assert ended.ok, text
    assert not (tmp_path / "ws/a").exists()


@pytest.mark.parametrize(
    "line",
    [
        "python3 -m venv --without-pip venv && venv/bin/python -c 'print(6)' > out",
        f"{GIT} init -q --bare there && {GIT} clone -q there here && {GIT} clone -q there/. again",
        f"{GIT} init -q && {GIT} remote add origin there && {GIT} config user.name me",
        "mkdir -p node_modules/.bin .config/other .github/workflows && echo 1 > .config/other/x && echo 2 > .env",
        "printf 'all:\\n\\techo made > made\\n' > Makefile && make",
    ],
)
async def test_ordinary_work_at_the_root_is_done_and_stays(shell: Shell, tmp_path: Path, line: str) -> None:
    ended, text = await ran(shell, line)
    assert ended.ok, (ended, text)
    assert tree(tmp_path / "ws")


@pytest.mark.parametrize(
    "more", ["[alias]\n st = !evil", "[core]\n fsmonitor = evil", "[core]\n\thooksPath=x", "[include]\n path = ../x",
             "[core]\n bare = false\\\n[alias] x = y", "[diff]\n external=evil", '[filter "x"]\n clean = evil',
             "[core] bare = false [alias] st = !evil", "[CORE]\nSSHCOMMAND = evil", "[extensions]\nworktreeConfig=1"],
)  # fmt: skip
async def test_a_new_repository_that_names_programs_loses_its_settings(shell: Shell, tmp_path: Path, more: str) -> None:
    ended, _ = await ran(shell, f"{GIT} init -q && cat >> .git/config <<'X'\n{more}\nX")
    assert (ended.withheld, ".git/config" in tree(tmp_path / "ws")) == ((".git/config",), False)


async def test_a_second_name_of_new_settings_is_no_way_to_them(shell: Shell, tmp_path: Path) -> None:
    await ran(shell, f"{GIT} init -q && ln .git/config second")
    await ran(shell, "echo '[alias] st = !evil' >> second")
    assert "evil" not in tree(tmp_path / "ws").get(".git/config", "")


async def test_nothing_is_seen_of_it_in_the_workspace(shell: Shell, tmp_path: Path) -> None:
    running = await started(shell, "ls -A; touch f; cat", stdin=None)
    await until(lambda: (tmp_path / "ws" / "f").exists())
    assert os.listdir(tmp_path / "ws") == ["f"]  # noqa: PTH208
    await running.close_stdin()
    assert ((await running.wait()).ok, running.tail(), os.listdir(tmp_path / "ws")) == (True, b"", ["f"])  # noqa: PTH208


async def test_a_link_among_the_names_stays_and_what_it_leads_to_is_read_only(shell: Shell, tmp_path: Path) -> None:
    ws = tmp_path / "ws"
    (ws / "dotfiles").mkdir()
    (ws / "dotfiles" / "rc").write_text("mine")
    (ws / ".bashrc").symlink_to("dotfiles/rc")
    (ws / ".zshrc").symlink_to("/nowhere")
    assert not (await ran(shell, "echo evil > dotfiles/rc"))[0].ok
    assert not (await ran(shell, "rm .bashrc; echo evil > .bashrc"))[0].ok
    assert ((ws / ".bashrc").is_symlink(), (ws / ".bashrc").read_text()) == (True, "mine")


async def test_what_a_command_makes_is_taken_away_while_it_runs(shell: Shell, tmp_path: Path) -> None:
    planted = tmp_path / "ws" / ".mcp.json"
    running = await started(shell, "echo evil > .mcp.json; echo made; cat", stdin=None)
    await until(lambda: b"made" in running.tail() and not planted.exists())
    await running.close_stdin()
    assert (await running.wait()).withheld == (".mcp.json",)


async def test_a_command_that_runs_cannot_make_the_next_one_mount_what_lies_outside(
    shell: Shell, tmp_path: Path
) -> None:
    """The first swaps a folder it made for a link and back, as quickly as it can."""
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "key").write_text("CANARY")
    swap = f"""
import ctypes, os
from contextlib import suppress
call = ctypes.CDLL(None).renameat2
while True:  # whatever is put aside is made again
    with suppress(OSError):
        os.makedirs("x/hooks", exist_ok=True)
        open("x/config", "w").close()
        os.rename("x", ".git")
    with suppress(OSError):
        os.symlink({str(tmp_path / "secret")!r}, "link")
    open("ready", "w").close()
    while not call(-100, b".git", -100, b"link", 2): pass
"""
    (tmp_path / "ws" / "swap.py").write_text(swap)
    first = await started(shell, "exec /usr/bin/python3 swap.py")
    await until(lambda: (tmp_path / "ws" / "ready").exists())
    for _ in range(40):
        _, text = await ran(shell, "cat .git/key link/key 2>/dev/null")
        assert "CANARY" not in text
    assert [path.name for path in (tmp_path / "secret").iterdir()] == ["key"]
    await first.stop()


async def test_what_is_left_when_all_of_us_are_killed_is_taken_away_at_the_next_start(tmp_path: Path) -> None:
    ws, state = tmp_path / "ws", tmp_path / "state"
    ws.mkdir()
    child = f"""
import anyio, os, sys
from toolcrib.backends.exec.bubblewrap import Bubblewrap
from toolcrib.backends.exec.supervisor import SupervisorClient
from toolcrib.define.shell import Command, CommandLimits
async def main():
    supervisor = SupervisorClient({str(state)!r})
    shell = Bubblewrap({str(ws)!r}, supervisor)
    line = "touch ready; while :; do echo evil > .mcp.json; done"
    running = await shell.start(Command(line=line, env={ENV!r}), CommandLimits())
    print(supervisor._pid, flush=True)
    await running.wait()
anyio.run(main)
"""
    async with await anyio.open_process([sys.executable, "-c", child]) as process:
        assert process.stdout is not None
        supervisor = int(await process.stdout.receive())
        await until(lambda: (ws / "ready").exists() and (ws / ".mcp.json").exists())
        keepers = [supervisor, *processes.children(supervisor)]
        processes.send(keepers, signal.SIGSTOP)  # they would take it away, were they given the time
        process.kill()
        processes.send(keepers, signal.SIGKILL)
        await process.wait()
    (ws / ".mcp.json").write_text("evil")
    assert [json.loads(path.read_bytes())["command"] for path in state.glob("command-*")] != []
    end = time.monotonic() + 60
    while end_leftovers(str(state)):
        assert time.monotonic() < end
    assert not (ws / ".mcp.json").exists()


@pytest.mark.parametrize("where", ["state", "deep/er/state"])
async def test_state_and_configuration_in_the_workspace_are_not_seen(tmp_path: Path, where: str) -> None:
    ws = tmp_path / "ws"
    state = ws / where
    state.mkdir(parents=True)
    (state / "crib.db").write_text("CANARY")
    (ws / "conf").mkdir()
    (ws / "conf" / "settings.yaml").write_text("CANARY")
    shells = LocalShells()
    try:
        for access in ("rw", "ro"):
            terms = Terms(root=ws, state=state, own=(ws / "conf" / "settings.yaml",), access=access)
            shell = shells.find("sandbox", terms)
            _, text = await ran(shell, "grep -r CANARY . ; find . -name crib.db; cat conf/settings.yaml 2>/dev/null")
            assert ("CANARY" in text, "crib.db" in text) == (False, False)
            assert (await ran(shell, f"touch {where}/../x"))[0].ok is (access == "rw")
            top = where.partition("/")[0]
            for line in (f"touch {where}/x", f"mv {top} y", f"rm -rf {where}", "rm conf/settings.yaml", "mv conf c",
                         "echo x > conf/settings.yaml", f"chmod 777 {where}; touch {where}/x",
                         "chmod 777 conf/settings.yaml; cat conf/settings.yaml"):  # fmt: skip
                assert not (await ran(shell, line))[0].ok, line
    finally:
        await shells.close()
    assert ((state / "crib.db").read_text(), (ws / "conf" / "settings.yaml").read_text()) == ("CANARY", "CANARY")


async def test_a_workspace_that_is_only_read_stays_so_where_such_names_are(tmp_path: Path) -> None:
    (tmp_path / "ws" / ".git" / "hooks").mkdir(parents=True)
    for access, only_reads in (("ro", False), ("rw", True)):
        async with opened("sandbox", tmp_path / "ws", access=access) as shell:
            for line in ("touch .git/x", "touch .git/hooks/x", "touch x", "touch .mcp.json"):
                assert not (await ran(shell, line, only_reads=only_reads))[0].ok
    assert [path.name for path in (tmp_path / "ws").rglob("*")] == [".git", "hooks"]


async def test_what_the_owner_protects_by_name_is_read_only(tmp_path: Path) -> None:
    ws = tmp_path / "ws"
    (ws / "infra").mkdir(parents=True)
    (ws / "infra" / "prod.yaml").write_text("mine")
    shells = LocalShells()
    try:
        terms = Terms(root=ws, state=tmp_path / "state", protected=("infra/prod.yaml", "/deploy/**", "*.lock"))
        shell = shells.find("sandbox", terms)
        for line in ("echo evil > infra/prod.yaml", "mkdir deploy; echo evil > deploy/x"):
            assert not (await ran(shell, line))[0].ok
        assert (await ran(shell, "echo 1 > infra/other"))[0].ok
    finally:
        await shells.close()
    assert tree(ws) == {"infra/prod.yaml": "mine", "infra/other": "1\n"}


def test_a_workspace_without_such_names_is_covered_by_nothing(tmp_path: Path) -> None:
    names = InstructionFiles(str(tmp_path), ("x",), hidden=("/var/lib/elsewhere", str(tmp_path.parent)))
    assert names.cover(names.look(), ())[0] == []
