"""Whoever is started in a folder that holds the system or a home does not work on it unless it was named."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from toolcrib.app.terms import terms_of
from toolcrib.backends.exec.profile import profile
from toolcrib.backends.exec.shells import LocalShells
from toolcrib.backends.files.disk import Terms
from toolcrib.backends.files.local import Workspaces
from toolcrib.config.load import load
from toolcrib.define.caller import Caller
from toolcrib.define.errors import ToolError
from toolcrib.define.shell import Command, CommandLimits

pytestmark = pytest.mark.anyio


def terms_in(folder: Path, monkeypatch: pytest.MonkeyPatch, **workspace: str) -> Terms:
    monkeypatch.chdir(folder)
    return terms_of(load({"workspace": workspace}))(Caller())


@pytest.mark.parametrize("folder", ["/", "/usr", "/etc", "/var", "/home", "/proc", "/dev", "/tmp", "home", "above"])
async def test_a_folder_that_was_not_meant_is_refused_for_files_and_commands(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "above" / "home").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "above" / "home"))
    named = {"home": "above/home"}.get(folder, folder)
    terms = terms_in(tmp_path / named, monkeypatch)
    shells = LocalShells()
    for asked in (
        Workspaces().open(terms, "main").read("x"),
        shells.find("sandbox", terms).start(Command(line="true"), CommandLimits()),
        shells.find("host", terms).start(Command(line="true"), CommandLimits()),
    ):
        with pytest.raises(
            ToolError, match=r": no workspace by itself; start in another folder, or name it in workspace\.root"
        ):
            await asked
    await shells.close()


async def test_a_folder_that_the_configuration_names_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "x").write_text("1")
    assert terms_in(tmp_path, monkeypatch).refusal
    terms = terms_in(tmp_path, monkeypatch, root=str(tmp_path))
    workspaces = Workspaces()
    assert await workspaces.open(terms, "main").read("x") == b"1"
    workspaces.close()


def test_an_ordinary_folder_is_a_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert terms_in(tmp_path, monkeypatch).refusal == ""


@pytest.mark.parametrize(
    "root", ["/", "/usr", "/etc", "/proc", "/proc/1", "/sys/kernel", "/dev", "/run", "/var", "/tmp", "/lib"]
)
def test_no_sandbox_is_made_that_the_workspace_would_cover(root: str) -> None:
    with pytest.raises(ToolError, match=r"no sandbox can be made around .* set workspace\.root"):
        list(profile(root=root, access="rw", folders=(), settings="/x", home="/home/me", limits=CommandLimits()))


@pytest.mark.parametrize(
    "root", ["/home/me", "/usr/src/app", "/var/lib/work", "/srv/x", "/tmp/x", "/workspace", os.sep + "etcetera"]
)
def test_an_ordinary_root_is_bound(root: str) -> None:
    args = list(profile(root=root, access="rw", folders=(), settings="/x", home="/home/me", limits=CommandLimits()))
    assert ["--bind", root, root] == args[args.index("--bind") : args.index("--bind") + 3]


def test_a_server_that_was_started_at_the_root_says_so_and_serves_neither_files_nor_commands(tmp_path: Path) -> None:
    pytest.importorskip("mcp", reason="the package mcp is not installed")
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    asked: list[dict[str, Any]] = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "ls", "arguments": {"path": "/etc"}}},
    ]
    env = {**os.environ, "HOME": str(tmp_path), "TOOLCRIB_STATE": str(tmp_path / "state")}
    with subprocess.Popen(
        [sys.executable, "-m", "toolcrib", "mcp", "serve"], cwd="/", env=env,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        answers: dict[Any, Any] = {}
        for message in asked:
            process.stdin.write(json.dumps(message) + "\n")
            process.stdin.flush()
            while "id" in message and message["id"] not in answers:
                answer = json.loads(process.stdout.readline())
                answers[answer.get("id")] = answer
        process.stdin.close()
        told = process.stderr.read()
    names = {tool["name"] for tool in answers[2]["result"]["tools"]}
    assert names & {"read", "write", "edit", "ls", "find", "grep", "exec", "process", "apply_patch"} == set()
    assert "session_status" in names
    assert "Tools for files and commands are not served" in told
    assert "passwd" not in json.dumps(answers[3])
