"""git runs unasked only where the repository it finds can make it start nothing, and then starts nothing."""

import os
import subprocess
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.commands import belt_in, said

from toolcrib.backends.files.beneath import Beneath
from toolcrib.define.result import Result
from toolcrib.policy.command.programs_git import find_unsafe_setting
from toolcrib.services.exec.repository import explain_odd_repository

pytestmark = pytest.mark.anyio

GIT = {"readOnly": ["git"]}


def git(folder: Path, *words: str) -> str:
    env = {
        "PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1", "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b.test", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b.test",
    }  # fmt: skip
    return subprocess.run(["git", *words], cwd=folder, env=env, check=True, capture_output=True, text=True).stdout


def make_repository(folder: Path) -> Path:
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    (folder / "a.txt").write_text("one\n")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    (folder / "a.txt").write_text("two\n")
    (folder / "canary").write_text(f"#!/bin/sh\necho > {folder}/started; echo PWNED; cat\n")
    (folder / "canary").chmod(0o755)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_repository(tmp_path / "ws")


async def run(root: Path, command: str, settings: Mapping[str, Any] = GIT, **args: Any) -> Result:
    async with belt_in(root, settings) as belt:
        return await belt.call("exec", {"command": command, **args})


@pytest.mark.parametrize("shell", ["sandbox", "host"])
@pytest.mark.parametrize(
    "command", ["git status", "git diff", "git log -p", "git show", "git stash list", "git blame a.txt", "git grep two"]
)
async def test_an_ordinary_repository_is_shown_unasked(root: Path, shell: str, command: str) -> None:
    git(root, "config", "user.name", "me")
    git(root, "remote", "add", "origin", "https://example.test/a.git")
    git(root, "config", "branch.main.remote", "origin")
    result = await run(root, command, {**GIT, "host": shell})
    assert result.status == "ok", said(result)


SETTINGS = {
    "diff.external": ("./canary", "git diff"),
    "diff.odd.command": ("./canary", "git diff"),
    "diff.odd.textconv": ("./canary", "git diff"),
    "filter.odd.clean": ("./canary", "git status"),
    "filter.odd.smudge": ("./canary", "git status"),
    "filter.odd.process": ("./canary", "git status"),
    "core.fsmonitor": ("./canary", "git status"),
    "core.pager": ("./canary", "git log"),
    "pager.log": ("./canary", "git log"),
    "core.sshCommand": ("./canary", "git log"),
    "core.hooksPath": (".", "git status"),
    "core.worktree": ("/", "git status"),
    "core.attributesFile": ("odd", "git diff"),
    "credential.helper": ("!./canary", "git log"),
    "alias.st": ("!./canary", "git status"),
    "gpg.program": ("./canary", "git log"),
    "log.showSignature": ("true", "git log"),
    "format.pretty": ("%G?", "git log"),
    "pretty.odd": ("%G?", "git log --pretty=odd"),
    "include.path": ("../a.txt", "git log"),
    "includeIf.gitdir:/.path": ("../a.txt", "git log"),
    "remote.origin.promisor": ("true", "git show"),
    "remote.origin.uploadpack": ("./canary", "git show"),
    "extensions.partialClone": ("origin", "git show"),
    "protocol.ext.allow": ("always", "git show"),
    "submodule.a.update": ("!./canary", "git status"),
    "submodule.a.ignore": ("none", "git status"),
    "url.ext::./canary.insteadOf": ("https://", "git show"),
    "trace2.eventTarget": ("/tmp/started", "git log"),
}


@pytest.mark.parametrize("name", SETTINGS)
async def test_a_repository_whose_settings_may_bring_a_program_is_asked_about(root: Path, name: str) -> None:
    value, command = SETTINGS[name]
    (root / ".gitattributes").write_text("* diff=odd filter=odd\n")
    git(root, "config", name, value)
    result = await run(root, command)
    assert (result.status, result.details["code"]) == ("error", "not_approved"), said(result)
    assert name.lower().partition(".")[0] in said(result).lower()
    assert "which may bring a program" in said(result)


def in_the_configuration_of_a_worktree(root: Path) -> str:
    git(root, "config", "extensions.worktreeConfig", "true")
    git(root, "config", "--worktree", "diff.external", "./canary")
    return "."


def in_a_linked_worktree(root: Path) -> str:
    git(root, "worktree", "add", "-q", "other")
    git(root, "config", "diff.external", "./canary")
    return "other"


def make_far_repository(root: Path) -> Path:
    """Make one whose settings name a program, and a folder elsewhere; return where that would have its own."""
    make_repository(root / "far")
    git(root / "far", "config", "diff.external", "./canary")
    (root / "near").mkdir()
    return root / "near/.git"


def behind_a_file_that_names_the_repository(root: Path) -> str:
    make_far_repository(root).write_text("gitdir: ../far/.git\n")
    return "near"


def behind_a_link(root: Path) -> str:
    make_far_repository(root).symlink_to("../far/.git")
    return "near"


def above_a_folder_that_is_no_repository(root: Path) -> str:
    git(root, "config", "diff.external", "./canary")
    (root / "sub/.git").mkdir(parents=True)
    return "sub"


def in_a_repository_outside(root: Path) -> str:
    make_repository(root.parent / "outside")
    (root / "near").mkdir()
    (root / "near/.git").write_text(f"gitdir: {root.parent}/outside/.git\n")
    return "near"


def in_a_bare_repository_that_the_model_wrote(root: Path) -> str:
    for name in ("evil/objects", "evil/refs"):
        (root / name).mkdir(parents=True)
    (root / "evil/HEAD").write_text("ref: refs/heads/main\n")
    (root / "evil/config").write_text(
        "[core]\n\tbare = true\n\trepositoryformatversion = 0\n[diff]\n\texternal = ./canary\n"
    )
    return "evil"


def with_objects_of_another(root: Path) -> str:
    (root / ".git/objects/info").mkdir(exist_ok=True)
    (root / ".git/objects/info/alternates").write_text("/somewhere\n")
    return "."


def in_a_configuration_that_is_a_pipe(root: Path) -> str:
    (root / ".git/config").unlink()
    os.mkfifo(root / ".git/config")
    return "."


@pytest.mark.parametrize(
    "place",
    [
        in_the_configuration_of_a_worktree, in_a_linked_worktree, behind_a_file_that_names_the_repository,
        behind_a_link, above_a_folder_that_is_no_repository, in_a_repository_outside,
        in_a_bare_repository_that_the_model_wrote, with_objects_of_another, in_a_configuration_that_is_a_pipe,
    ],
    ids=lambda place: place.__name__,
)  # fmt: skip
async def test_settings_are_found_wherever_git_would_find_them(root: Path, place: Callable[[Path], str]) -> None:
    workdir = place(root)
    result = await run(root, "git diff", workdir=workdir)
    assert (result.status, result.details["code"]) == ("error", "not_approved"), said(result)


@pytest.mark.parametrize("shell", ["sandbox", "host"])
async def test_git_looks_no_further_up_than_the_workspace(tmp_path: Path, shell: str) -> None:
    above = make_repository(tmp_path / "above")
    (above / "ws").mkdir()
    result = await run(above / "ws", "git log", {**GIT, "host": shell})
    assert "not a git repository" in said(result)


@pytest.mark.parametrize("shell", ["sandbox", "host"])
async def test_git_runs_nothing_in_submodules(root: Path, shell: str) -> None:
    make_repository(root / "sub")
    git(root, "add", "sub")
    git(root, "commit", "-q", "-m", "a submodule")
    (root / "sub/.gitattributes").write_text("* filter=odd\n")
    git(root / "sub", "config", "filter.odd.clean", str(root / "sub/canary"))
    (root / ".gitmodules").write_text('[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n')
    for command in ("git status", "git diff", "git diff HEAD", "git status -v"):
        result = await run(root, command, {**GIT, "host": shell})
        assert (result.status, "PWNED" in said(result)) == ("ok", False), said(result)
    assert not list(root.rglob("started"))
    for command in (
        "git status --ignore-submodules=none",
        "git diff --submodule=diff",
        "git grep --recurse-submodules x",
    ):
        assert (await run(root, command)).details["code"] == "not_approved", command


async def test_variables_of_git_are_not_a_calls_to_set_unasked(root: Path) -> None:
    for name in (
        "GIT_EXTERNAL_DIFF",
        "GIT_DIR",
        "GIT_CONFIG_GLOBAL",
        "GIT_SSH_COMMAND",
        "GIT_PAGER",
        "GIT_ATTR_SOURCE",
    ):
        assert (await run(root, "git diff", env={name: "./canary"})).details["code"] == "not_approved", name
        assert (await run(root, f"{name}=./canary git diff")).details["code"] == "not_approved", name


@pytest.mark.parametrize(
    ("text", "odd"),
    [
        ("", ""),
        ("[core]\n\tbare = false\n\tFileMode = true\r\n# x\n; y\n[branch.main]\nremote=a\n", ""),
        ('[remote "a \\" b"]\n\turl = x\n', ""),
        ("[core] pager = x", "[core] pager = x"),
        ("[core]\nbare\npager", "core.pager"),
        ("[core]\nbare = a\\\npager = x", "bare = a\\"),
        ("[diff.x]\ncommand=y", "diff.x.command"),
        ('[diff "context"]\ncommand=y', "diff.context.command"),
        ('[branch "x"]\n[core]\nEditor = x', "core.editor"),
        ('[remote "a.url"]\nuploadpack = x', "remote.a.url.uploadpack"),
        ('[remote "x"] ; y\nurl = x', '[remote "x"] ; y'),
        ("bare = x", "bare = x"),
        ("\ufeff[core]\nbare=1", "\ufeff[core]"),
        ("[core]\nbare = 1\v\npager = x", "core.pager"),
        ("[core]\nbare\vpager = x", "bare\vpager = x"),
    ],
)  # fmt: skip
def test_only_plain_settings_that_are_known_to_be_harmless_pass(text: str, odd: str) -> None:
    assert find_unsafe_setting(text) == odd


def test_the_way_up_ends_where_the_workspace_is_the_whole_disk(tmp_path: Path) -> None:
    def open_inside(path: str) -> int:
        with closing(Beneath("/")) as beneath:
            return beneath.open(path, os.O_PATH)

    assert explain_odd_repository(open_inside, "/", str(tmp_path)) == ""
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text("[core]\n\tpager = sh\n")
    assert "pager" in explain_odd_repository(open_inside, "/", str(tmp_path))
