"""A command leaves nothing in the workspace that the host obeys later, and ordinary work with git is done as ever."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from toolcrib.backends.exec.obeyed import KeptPaths, ObeyedNames
from toolcrib.backends.exec.shells import LocalShells
from toolcrib.backends.files.disk import Terms
from toolcrib.define.shell import Shell

from .shells import opened, ran

pytestmark = pytest.mark.anyio

GIT = "git -c user.name=a -c user.email=a@b.test -c init.defaultBranch=main -c safe.directory='*'"


@pytest.fixture
async def shell(tmp_path: Path) -> AsyncIterator[Shell]:
    async with opened("sandbox", tmp_path / "ws") as shell:
        yield shell


def tree(folder: Path) -> dict[str, str]:
    """Return every file with its content."""
    files = (path for path in folder.rglob("*") if path.is_file() or path.is_symlink())
    return {str(path.relative_to(folder)): path.read_text("latin-1") if path.exists() else "link" for path in files}


MADE = (
    ".mcp.json", ".bashrc", ".profile", ".zshenv", ".gitconfig", "toolcrib.yaml", "toolcrib.json5",
    ".ssh/authorized_keys",
    "a/b/.mcp.json", "a/.bashrc", ".MCP.json", ".config/fish/config.fish", "a/.config/fish/conf.d/x.fish",
    ".git/hooks/post-commit", "a/.git/hooks/pre-push", ".git/config.worktree", ".git/commondir", ".git",
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
        "mkdir -p {folder} && mkfifo {name}",
    ],
)
async def test_what_the_host_would_obey_is_not_left_where_nothing_was(
    shell: Shell, tmp_path: Path, name: str, way: str
) -> None:
    ended, _ = await ran(shell, way.format(name=name, folder=os.path.dirname(name) or "."))  # noqa: PTH120
    assert (name in tree(tmp_path / "ws"), ended.ok) == (False, False)
    assert "would be obeyed outside of this task and was put aside" in ended.sentence()


@pytest.mark.parametrize(
    "line",
    [
        "echo evil >> {name}", "echo evil > x && mv -f x {name}", "rm -rf {name} && echo evil > {name}",
        "sed -i s/^/evil/ {name}", "mv {name} y && echo evil > {name}", "ln -sf /tmp/evil {name}", "chmod 777 {name}",
        "d=$(dirname {name}); [ $d = . ] || {{ mv $d gone && mkdir -p $d && echo evil > {name}; }}; false",
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", [".mcp.json", "a/b/.mcp.json", ".git/config", ".git/hooks/post-commit", "a/.bashrc"])
async def test_what_is_there_is_read_only(shell: Shell, tmp_path: Path, name: str, line: str) -> None:
    place = tmp_path / "ws" / name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text("mine\n")
    ended, text = await ran(shell, line.format(name=name))
    assert not ended.ok
    left = tree(tmp_path / "ws")
    assert left.get(name, "mine\n") == "mine\n", text
    assert "mine\n" in left.values()


async def test_a_repository_is_worked_in_but_not_given_programs_to_run(shell: Shell, tmp_path: Path) -> None:
    ended, text = await ran(shell, f"{GIT} init -q . && echo 1 > f && {GIT} add -A && {GIT} commit -qm one")
    assert ended.ok, text
    before = tree(tmp_path / "ws")
    ended, text = await ran(
        shell,
        f"echo 2 >> f && {GIT} commit -qam two && {GIT} checkout -qb side && {GIT} mv f g && {GIT} commit -qm three"
        f" && {GIT} stash list && {GIT} log --oneline | wc -l && {GIT} status --short && {GIT} gc -q",
    )
    assert (ended.ok, text) == (True, "3\n")
    for line in (
        f"{GIT} config core.pager evil",
        f"{GIT} config core.fsmonitor evil",
        "echo x > .git/hooks/pre-commit",
    ):
        assert not (await ran(shell, line))[0].ok
    after = tree(tmp_path / "ws")
    assert {name for name in before if "hooks" in name} == {name for name in after if "hooks" in name}
    assert after[".git/config"] == before[".git/config"]


@pytest.mark.parametrize(
    "more", ["[alias]\n st = !evil", "[core]\n fsmonitor = evil", "[core]\n\thooksPath=x", "[include]\n path = ../x",
             "[core]\n bare = false\\\n[alias] x = y", "[diff]\n external=evil", '[filter "x"]\n clean = evil'],
)  # fmt: skip
async def test_a_new_repository_that_names_programs_loses_its_settings(shell: Shell, tmp_path: Path, more: str) -> None:
    ended, _ = await ran(shell, f"{GIT} init -q sub && cat >> sub/.git/config <<'X'\n{more}\nX")
    assert (ended.ok, "sub/.git/config" in tree(tmp_path / "ws")) == (False, False)
    assert ended.withheld == ("sub/.git/config",)


async def test_a_pointer_to_another_repository_is_put_aside(shell: Shell, tmp_path: Path) -> None:
    ended, _ = await ran(shell, f"{GIT} init -q --bare plain && mkdir a && echo 'gitdir: ../plain' > a/.git")
    assert (ended.withheld, "a/.git" in tree(tmp_path / "ws")) == (("a/.git",), False)


async def test_a_folder_that_is_moved_takes_its_names_along(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "ws" / "a").mkdir()
    (tmp_path / "ws" / "a" / ".mcp.json").write_text("mine")
    ended, text = await ran(shell, "mv a b && cat b/.mcp.json")
    assert (ended.ok, text, tree(tmp_path / "ws")) == (True, "mine", {"b/.mcp.json": "mine"})


async def test_nothing_is_seen_of_it_in_the_workspace(shell: Shell, tmp_path: Path) -> None:
    ended, text = await ran(shell, "ls -A; touch f")
    assert (ended.ok, text, os.listdir(tmp_path / "ws")) == (True, "", ["f"])  # noqa: PTH208


async def test_a_link_among_the_names_stays_and_what_it_leads_to_is_read_only(shell: Shell, tmp_path: Path) -> None:
    ws = tmp_path / "ws"
    (ws / "dotfiles").mkdir()
    (ws / "dotfiles" / "rc").write_text("mine")
    (ws / ".bashrc").symlink_to("dotfiles/rc")
    assert not (await ran(shell, "echo evil > dotfiles/rc"))[0].ok
    assert not (await ran(shell, "rm .bashrc; echo evil > .bashrc"))[0].ok
    assert ((ws / ".bashrc").is_symlink(), (ws / ".bashrc").read_text()) == (True, "mine")


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
            _, text = await ran(shell, "grep -r CANARY . ; find . -name crib.db; cat conf/settings.yaml")
            assert text == ""
            top = where.partition("/")[0]
            for line in (f"touch {where}/x", f"mv {top} y", f"rm -rf {where}", "rm conf/settings.yaml", "mv conf c",
                         "echo x > conf/settings.yaml", f"chmod 777 {where}; touch {where}/x"):  # fmt: skip
                assert not (await ran(shell, line))[0].ok, line
    finally:
        await shells.close()
    assert ((state / "crib.db").read_text(), (ws / "conf" / "settings.yaml").read_text()) == ("CANARY", "CANARY")


async def test_what_the_owner_protects_is_read_only_but_may_be_made(tmp_path: Path) -> None:
    ws = tmp_path / "ws"
    ws.mkdir()
    (ws / "keep").write_text("mine")
    shells = LocalShells()
    try:
        shell = shells.find("sandbox", Terms(root=ws, state=tmp_path / "state", protected=("keep", "*.lock")))
        assert not (await ran(shell, "echo evil > keep"))[0].ok
        assert (await ran(shell, "echo 1 > made.lock"))[0].ok
        assert not (await ran(shell, "echo 2 > made.lock"))[0].ok
    finally:
        await shells.close()


def test_a_workspace_without_such_names_is_covered_by_nothing(tmp_path: Path) -> None:
    names = ObeyedNames(str(tmp_path), KeptPaths(hidden=("/var/lib/elsewhere", str(tmp_path.parent))))
    assert (dict(names.look()), list(names.mount(names.look(), "/empty"))) == ({}, [])
