"""attacks/config on the configuration reader, on a crib that runs and, where a workspace is there, on the command."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import re2

from toolcrib import OWNER, ToolError, run_sync
from toolcrib.app import Crib, open
from toolcrib.define.errors import ConfigError, PluginError
from toolcrib.doors.gateway.credentials import Credentials
from toolcrib.doors.gateway.server import GatewayServer
from toolcrib.policy.lint import Finding

from . import Outcome, UnknownWordError, broken, config_saves, kept
from .jobs import judge_job
from .lateness import Stopwatch
from .policy import neutral
from .resources import measure_held

Json = dict[str, Any]

_SECRETS = {"GATEWAY_TOKEN": "a-long-enough-token-0123456789"}


def judge(case: Json, profiles: Json) -> Outcome:
    """Start with the case's file and compare whether it is taken, refused or warned about."""
    asked, must = case["input"], case["must"]
    if "job" in asked.get("object", {}):
        return judge_job(asked["object"]["job"], must)
    if asked.get("when", "start") != "start" or "patch" in asked:
        return run_sync(_while_it_runs(asked, must, profiles))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        path, env = _file(root, asked, profiles)
        if any(asked.get(key) for key in config_saves.SAVING):
            return config_saves.judge(path, env, asked, must)
        before = path.read_bytes() if path.is_file() else b""
        watch, error, held = Stopwatch(), "", measure_held(begins=True)
        try:
            findings: list[Finding] | None = open(path, env=env, import_plugins=False).lint() if _is_bare(asked) else []
        except ConfigError as problem:
            findings, error = None, str(problem)
        except PluginError:
            findings = []  # the file is in order; that a plugin it names is not installed is told apart from it
        took, grown = watch.took, measure_held()["mb"] - held["mb"]
        is_kept = not path.is_file() or path.read_bytes() == before
        mode = path.stat().st_mode & 0o777 if path.is_file() else 0
        if "workspace_env_file" in asked or "workspace_files" in asked:
            return _in_workspace(root, path, env, asked)
    why = _complaint(must, findings, error) or _slow(must, took) or _probe(must, asked, refused=findings is None)
    why = why or _unnamed(asked, error, path.name)
    if grown > must.get("rss_growth_mb", 1_000):
        why = why or f"the process grew by {grown} MB"
    if not is_kept:  # must.file_unchanged, and nothing at start has a reason to write there
        why = why or "the file is not as it was"
    if mode & ~int(must.get("file_mode_at_most", "777"), 8):
        why = why or f"the file's mode is {mode:o}"
    seen = {"error": error} if findings is None else {"accepted": True}
    return broken(why, seen) if why else kept(seen)


def _is_bare(asked: Json) -> bool:
    return "workspace_env_file" not in asked and "workspace_files" not in asked


def _file(root: Path, asked: Json, profiles: Json) -> tuple[Path, Mapping[str, str]]:
    """Write the configuration and what lies beside it; return its path and the environment."""
    path = root / "toolcrib.json5"
    env = {**(asked.get("env", _SECRETS)), "WORKSPACE": str(root / "workspace")}
    for name, text in asked.get("files", {}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name, goal in asked.get("links", {}).items():
        (root / name).symlink_to(goal)
    if asked.get("path_is") == "directory":
        path.mkdir()
    elif asked.get("path_is") == "fifo":
        os.mkfifo(path)
    elif isinstance(asked.get("raw"), str):
        path.write_bytes(asked["raw"].encode("utf-8", "surrogatepass"))
    elif "raw_hex" in asked:
        path.write_bytes(bytes.fromhex(asked["raw_hex"]))
    elif "raw_gen" in asked:
        path.write_bytes(b"x" * int(asked["raw_gen"]["bytes"]))
    elif asked.get("path_is") in ("absent", "missing"):
        pass
    elif "path_is" in asked:
        raise UnknownWordError(f"a path that is {asked['path_is']}")
    else:
        value = asked.get("object", {})
        merged = _merged(profiles["good"], value) if asked.get("merge", "object" not in asked) else value
        path.write_text(json.dumps(neutral(merged) if isinstance(merged, dict) else merged))
    if path.exists():
        path.chmod(int(str(asked.get("file_mode", "600")), 8) | (0o100 if path.is_dir() else 0))
    return path, env


def _merged(below: Any, above: Any) -> Any:
    if isinstance(below, dict) and isinstance(above, dict):
        return {**below, **{key: _merged(below.get(key), value) for key, value in above.items()}}
    return above


async def _while_it_runs(asked: Json, must: Json, profiles: Json) -> Outcome:
    """Replace or patch the file of a gateway that runs, and compare what counts and what stands there afterwards."""
    with tempfile.TemporaryDirectory() as folder:
        path, env = _file(Path(folder), {"env": asked.get("env", _SECRETS)}, profiles)
        async with open(path, env=env, import_plugins=False, state=Path(folder) / "state") as crib:
            server, before = GatewayServer(crib, Credentials("token", "a-token-of-the-state-folder")), crib.loaded
            if "patch" in asked:
                left, why = path.read_bytes(), await _patch(crib, **asked["patch"], by=asked["by"])
            else:
                _file(Path(folder), asked, profiles)
                left = path.read_bytes()
                server.reload()
                why = crib.settings.problem
            is_refused = must["verdict"].startswith("reject")
            if is_refused != bool(why):
                return broken(why or "accepted", {"error": why})
            if is_refused and (crib.loaded is not before or path.read_bytes() != left):
                return broken("it was refused, and something has changed", {"error": why})
            if not is_refused and crib.loaded is before:
                return broken("it was accepted, and does not count", {})
    return kept({"error": why} if why else {"accepted": True})


async def _patch(crib: Crib, path: str, value: Any, by: str) -> str:
    """Return why a change of one key is refused, "" when it is not; who asks is a person, or a model by its tool."""
    for key in reversed(path.split(".")):
        value = {key: value}
    sent = {"raw": json.dumps(neutral(value)), "baseHash": (await crib.ask("config.get", caller=OWNER))["hash"]}
    if by.startswith("agent_tool"):
        result = await crib.belt(OWNER).call("gateway", {"action": "config.patch", **sent})
        return result.plain_text if result.status == "error" else ""
    try:
        await crib.ask("config.patch", sent, caller=OWNER)
    except ToolError as error:
        return str(error)
    return ""


def _complaint(must: Json, findings: list[Finding] | None, error: str) -> str:
    """Say what is not as it must be, "" when all is."""
    verdict, named = must["verdict"], must.get("warning_names", "")
    warned = findings is not None and any(named in f"{f.kind} {f.origin} {f.message}" for f in findings)
    if verdict == "accept":
        return "" if findings is not None else f"refused: {error}"
    if verdict == "reject":
        return "" if findings is None else "accepted"
    if verdict in ("accept_warn", "accept_warn_or_fix"):
        return "" if warned else error or f"no warning names {named!r}"
    if verdict in ("reject_or_warn", "reject_or_accept_warn", "accept_warn_or_reject"):
        return "" if findings is None or warned else f"accepted, and no warning names {named!r}"
    if verdict in ("reject_or_bounded", "reject_or_clamp"):
        return ""
    return f"the verdict {verdict!r} is not known here"


def _unnamed(asked: Json, error: str, name: str) -> str:
    """Say when a refusal says neither which key is wrong nor where in which file."""
    if not error:
        return ""
    places = {*_keys(asked.get("object", {})), *_keys(asked.get("env", {})), name, *asked.get("files", {})}
    return "" if any(place in error for place in places) else f"the refusal names no place: {error}"


def _keys(value: Any) -> Iterator[str]:
    """Yield the keys of a value at any depth."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield key
            yield from _keys(each)
    elif isinstance(value, list):
        for each in value:
            yield from _keys(each)


def _slow(must: Json, took: float) -> str:
    return f"took {took:.1f} s" if took > must.get("max_seconds", 60) else ""


def _probe(must: Json, asked: Json, *, refused: bool) -> str:
    """Run accepted patterns over the probe the way redaction does, and say when that takes too long."""
    if refused or "probe" not in asked:
        return ""
    patterns = asked["object"].get("logging", {}).get("redactPatterns", ())
    began = time.process_time()
    for pattern in patterns:
        re2.compile(pattern).search(asked["probe"])
    took = time.process_time() - began
    return f"the probe took {took:.1f} s" if took > must.get("probe_seconds_max", 0.5) else ""


def _in_workspace(root: Path, path: Path, env: Mapping[str, str], asked: Json) -> Outcome:
    """Run the command inside a workspace that holds the case's files: nothing there may be read or run."""
    workspace = root / "workspace"
    workspace.mkdir()
    name, _, value = asked.get("workspace_env_file", "").partition("=")
    if name:
        (workspace / ".env").write_text(f"{name}={value}\n")
    for file, text in asked.get("workspace_files", {}).items():
        target = workspace / file
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    # the command tells its own environment at the end, so that a name the file set would show
    tell = (
        "import os, sys; from toolcrib.doors.cli.main import run; "
        f"code = run(['lint', '--config', {str(path)!r}]); print('NAME', os.environ.get({name!r})); sys.exit(code)"
    )
    surroundings = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": os.pathsep.join(sys.path), **env}
    done = subprocess.run(
        [sys.executable, "-c", tell], cwd=workspace, env=surroundings, capture_output=True, text=True, timeout=120
    )
    seen = {"exit": done.returncode}
    if done.returncode not in (0, 1):
        return broken(f"refused: {done.stderr.strip()}", seen)
    if (workspace / "PWNED").exists() or (root / "PWNED").exists():
        return broken("code of the workspace ran", seen)
    if name and f"NAME {value}" in done.stdout:
        return broken(f"{name} came from the workspace", seen)
    return kept(seen)
