"""attacks/paths on the workspace and the tools of group:fs: what may be touched in a tree with links and traps."""

import asyncio
import json
import os
import re
import tempfile
from collections.abc import Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any

import toolcrib
from tests.backends.files.race import swapping
from tests.doors.gateway.canvas_world import fetch, find_inside
from toolcrib.backends.files.disk import Disk, Terms
from toolcrib.backends.files.local import LocalWorkspace
from toolcrib.backends.stores.commits import Commits
from toolcrib.backends.stores.sessions import SqliteSessions
from toolcrib.backends.stores.sqlite import SqliteFile
from toolcrib.define.caller import Caller
from toolcrib.define.context import CallState, Ctx, Ports
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.log import Labelled, Line, SessionHead
from toolcrib.define.message import Call
from toolcrib.define.result import Result
from toolcrib.define.tool import Tool, tool
from toolcrib.doors.gateway.canvas import CanvasHost
from toolcrib.testing import call
from toolcrib.tools import SHELF

from . import Outcome, archives, broken, kept
from .lateness import Stopwatch

Json = Mapping[str, Any]

_TOOLS = {tool.name: tool for tool in SHELF if tool.has_body}
_VERDICTS = frozenset({"allow", "allow_or_refuse", "any", "refuse"})  # the others say what may be done instead
_MOST_TRIES = 300  # of a race, every day; tests/backends/files/test_race.py tries as often as asked


def judge(case: Json, profiles: Json) -> Outcome:
    """Build the tree, do what is asked, and look at what was said and at what is on disk."""
    profile = profiles[case["setup"].get("profile", "ws")]
    with tempfile.TemporaryDirectory() as name:
        return _World(Path(name), profile, case).judged()


class _World:
    """The tree of one case."""

    def __init__(self, base: Path, profile: Json, case: Json) -> None:
        self.base, self.root = base.resolve(), base.resolve() / profile["root"]
        self.case, self.must, self.escapes = case, case["must"], 0
        self.status = 0  # that the canvas host answered with
        self.names = {"ROOT": profile["root"], "OUT": "outside", "HOME": profile["home"], "STATE": profile["state_dir"]}
        for each in (*profile["tree"], *case["setup"].get("tree_add", ())):
            self._lay(each)
        terms = Terms(root=self.root, protected=tuple(profile.get("protected", ())), state=self.base / "journal")
        self.disk = Disk(terms)
        self.workspace = LocalWorkspace(self.disk)

    def judged(self) -> Outcome:
        asked = self._filled(self.case["input"])
        target = self.root / str(asked.get("path", ""))
        if "mode" in asked and target.is_file():
            target.chmod(int(asked["mode"], 8))
        before = _contents(self.base)
        watch = Stopwatch()
        race = self.case["setup"].get("race")
        try:
            said = self._raced(asked, race) if race else [self._tried(asked)]
        finally:
            self.disk.close()
        took = watch.took
        complaints = [*self._verdict(said[-1], before, target), *self._said(said), *self._left(asked)]
        if "mode" in asked and target.is_file() and str(target.relative_to(self.base)) in before:
            complaints += ["the mode is another"] if target.stat().st_mode & 0o7777 != int(asked["mode"], 8) else []
        if self.must.get("all_or_nothing") and said[-1][0] == "refused" and _contents(self.base) != before:
            complaints.append("the tree is not as it was")
        if took > self.must.get("max_seconds", 60) and not race:
            complaints.append(f"took {took:.1f} s")
        seen = said[-1][1]
        return broken("; ".join(complaints), seen) if complaints else kept(seen)

    def _raced(self, asked: Json, race: Json) -> list[tuple[str, str]]:
        with swapping(self.base / race["path"], race["target"]):
            said = []
            for _ in range(min(race["attempts"], _MOST_TRIES)):
                said.append(self._tried(asked))
                self.escapes += self._is_outside_touched(said[-1][1])
            return said

    def _is_outside_touched(self, told: str) -> bool:
        """Tell whether an attempt told or changed what is outside."""
        is_told = any(each in told for each in self.must.get("no_output", ()))
        return is_told or any(
            not (self.base / path).is_file() or (self.base / path).read_bytes() != content.encode()
            for path, content in self.must.get("unharmed", {}).items()
        )

    def _tried(self, asked: Json) -> tuple[str, str]:
        try:
            return "done", asyncio.run(_STEPS[asked["op"]](self, asked))
        except CribError as error:
            return "refused", str(error)

    def _verdict(self, last: tuple[str, str], before: Mapping[str, bytes], target: Path) -> list[str]:
        wanted = self.must.get("verdict", "any")
        done = last[0] == "done"
        if (wanted == "refuse" and done) or (wanted == "allow" and not done):
            return [f"must {wanted}, was {last[0]}: {last[1][:200]}"]
        if not done and not last[1]:
            return ["refused without a word"]
        if done and wanted not in _VERDICTS:
            return [] if _INSTEAD[wanted](self, before, target) else [f"must {wanted}, and was done"]
        return []

    def _said(self, said: list[tuple[str, str]]) -> list[str]:
        told = "\n".join({text for _, text in said})
        found = [f"the answer holds {each!r}" for each in self.must.get("no_output", ()) if each in told]
        if self.must.get("output_has", "") not in said[-1][1]:
            found.append(f"the answer lacks {self.must['output_has']!r}: {said[-1][1][:200]}")
        return found

    def _left(self, asked: Json) -> list[str]:
        complaints = []
        for path, content in (*self.must.get("unharmed", {}).items(), *self.must.get("present", {}).items()):
            if not (self.base / path).is_file() or (self.base / path).read_bytes() != content.encode():
                complaints.append(f"{path} does not hold what it must")
        complaints += [f"{path} exists" for path in self.must.get("absent", ()) if os.path.lexists(self.base / path)]
        target = self.root / str(asked.get("path", ""))
        if "then_read" in self.must and target.read_bytes() != self.must["then_read"].encode():
            complaints.append(f"{target.name} holds {target.read_bytes()!r}")
        if self.escapes > self.must.get("escapes", 0):
            complaints.append(f"the outside was touched {self.escapes} times")
        if self.status not in self.must.get("status_in", (self.status,)):
            complaints.append(f"the canvas host said {self.status}")
        if "saved_inside" in self.must and not any((self.base / self.must["saved_inside"]).iterdir()):
            complaints.append(f"nothing was saved in {self.must['saved_inside']}")
        if "then_hex" in self.must and target.read_bytes().hex() != self.must["then_hex"]:
            complaints.append(f"{target.name} holds {target.read_bytes().hex()}")
        return complaints

    def _filled(self, value: Any) -> Any:
        if isinstance(value, str):
            for name, folder in self.names.items():
                value = value.replace(f"${{{name}}}", str(self.base / folder))
            return value
        if isinstance(value, dict):
            return {key: self._filled(each) for key, each in value.items()}
        return [self._filled(each) for each in value] if isinstance(value, list) else value

    def _lay(self, each: Json) -> None:
        path, kind = self.base / each["path"], each.get("type", "file")
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "dir":
            path.mkdir(parents=True, exist_ok=True)
        elif kind == "symlink":
            path.symlink_to(self._filled(each["target"]))
        elif kind == "hardlink":
            path.hardlink_to(self.base / self._filled(each["target"]))
        elif kind == "fifo":
            os.mkfifo(path)
        else:
            path.write_bytes(_content(each))

    async def tool(self, name: str, args: Json) -> str:
        """Return what a tool of the shelf says."""
        tool = _TOOLS[name]
        given = {key: value for key, value in args.items() if value is not None}
        if tool.group in ("memory", "web"):
            return await self._ask_crib(name, given)
        if name == "nodes":
            given.setdefault("node", "phone")
        ctx = Ctx(
            call=Call(id="call_1", name=name, args=given, key="call_1"), caller=Caller(), course=CallState(),
            ports=Ports(workspace=self.workspace, rpc=self._answer_tool),
        )  # fmt: skip
        result: Result = await tool.run(ctx, tool.check(given))
        text = result.plain_text
        if result.status == "error":
            raise ToolError(text)
        return text

    async def _ask_crib(self, name: str, args: Json) -> str:
        """Return what a tool says that asks for the memory of this workspace, or for the way out."""
        config = {"workspace": {"root": str(self.root)}, "memory": {"provider": "none"}}
        async with toolcrib.open(config, env={}, state=self.base / "journal") as crib:
            result = await crib.belt(toolcrib.OWNER).call(name, args)
        if result.status == "error":
            raise ToolError(result.plain_text)
        return result.plain_text

    async def _answer_tool(self, method: str, params: Mapping[str, Any], progress: Any = None) -> Json:
        """Answer as the services of nodes and of the browser do, with a file."""
        if method == "channels.message":
            return {"ok": True, "channel": "telegram", "to": "x"}
        if method == "browser.perform":
            return {"url": "https://a.example/", "name": self.case["input"].get("remote_name"), "base64": "Y2xpcA=="}
        return {"node": "phone", "source": "node:phone", "payload": {"format": "mp4", "base64": "Y2xpcA=="}}


async def _write(world: _World, asked: Json) -> str:
    if "hex" in asked:  # no tool takes bytes; the workspace does
        await world.workspace.write(asked["path"], bytes.fromhex(asked["hex"]))
        return ""
    return await world.tool("write", {"path": asked["path"], "content": asked["content"]})


async def _edit(world: _World, asked: Json) -> str:
    return await world.tool("edit", {"path": asked["path"], "oldText": asked["old"], "newText": asked["new"]})


async def _delete(world: _World, asked: Json) -> str:
    await world.workspace.delete(asked["path"], recursive=asked.get("recursive", False))
    return ""


async def _session(world: _World, asked: Json) -> str:
    """Keep a session under that id, and look at it again."""
    key = asked["session_id"]
    commits = Commits(SqliteFile(world.base / world.names["STATE"] / "crib.db"))
    store = SqliteSessions(commits)
    try:
        head = await store.make(SessionHead(key=key, made_at=0.0, changed_at=0.0))
        await store.append(head.key, [Line("a", None, 0.0, Labelled("x"))], at=0)
        return str(await store.lines(key))
    finally:
        commits.close()


async def _look_at_canvas(world: _World, asked: Json) -> str:
    """Ask the canvas host for a path below the folder of a page that is shown."""
    names = world.case["setup"].get("canvas_files", ("index.html",))
    for name in names:
        file = world.root / "canvas" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    config, shown = {"workspace": {"root": str(world.root)}}, {"action": "present", "target": f"canvas/{names[0]}"}
    async with toolcrib.open(config, env={}) as crib:
        host = CanvasHost(crib.canvases, ("127.0.0.1", 0))
        url = json.loads((await crib.belt(toolcrib.OWNER).call("canvas", shown)).plain_text)["url"]
        path = str(asked["http_path"]).replace("/canvas/", await find_inside(url), 1)
        origin = {"Origin": asked["origin"]} if "origin" in asked else {}
        world.status, _, body = await fetch(url, path, **origin)
        await host.close()
    if world.status >= 400 and world.must.get("verdict") == "refuse":
        raise ToolError(f"{world.status} {body}")
    return body


async def _extract(world: _World, asked: Json) -> str:
    return archives.extract(asked, world.root)


async def _mkdir(world: _World, asked: Json) -> str:
    await world.workspace.mkdir(asked["path"])
    return ""


async def _move(world: _World, asked: Json) -> str:
    await world.workspace.move(asked["from"], asked["to"])
    return ""


async def _attach(world: _World, asked: Json) -> str:
    """Fetch the file that `details` of a result would name: a line in a text names none, and attaches nothing."""
    text = asked["text"]
    told = await call(world_says(text))
    assert (told.plain_text, told.details) == (text, None)
    await world.workspace.read(text.removeprefix("MEDIA:"))
    return ""


def world_says(text: str) -> Tool:
    """Return a tool that says this."""

    @tool(effects=set())
    async def say() -> str:
        """Say it."""
        return text

    return say


def _is_distinct(world: _World, before: Mapping[str, bytes], target: Path) -> bool:
    """Tell whether what was written is a file of its own, and all that was there is as it was."""
    after = _contents(world.base)
    return target.is_file() and all(after.get(path) == data for path, data in before.items())


def _is_replaced(world: _World, before: Mapping[str, bytes], target: Path) -> bool:
    """Tell whether there is a file of its own where a link was."""
    return target.is_file() and not target.is_symlink() and target.stat().st_nlink == 1


def _is_unlinked(world: _World, before: Mapping[str, bytes], target: Path) -> bool:
    return not os.path.lexists(str(target).rstrip("/"))


def _is_sanitised(world: _World, before: Mapping[str, bytes], target: Path) -> bool:
    """Tell whether what is new lies in a folder of the workspace, under a plain name."""
    new = _contents(world.base).keys() - before.keys()
    folder = re.escape(f"{world.root.name}/{world.case['input']['dest']}/")
    return bool(new) and all(re.fullmatch(folder + r"\w[\w.-]*", each) for each in new)


_INSTEAD: Mapping[str, Callable[[_World, Mapping[str, bytes], Path], bool]] = {
    "refuse_or_distinct_file": _is_distinct,
    "refuse_or_replace": _is_replaced,
    "refuse_or_sanitised_inside": _is_sanitised,
    "refuse_or_unlink": _is_unlinked,
}
_STEPS: Mapping[str, Callable[[_World, Json], Coroutine[Any, Any, str]]] = {
    "read": lambda world, asked: world.tool("read", {key: asked.get(key) for key in ("path", "offset", "limit")}),
    "write": _write,
    "edit": _edit,
    "list": lambda world, asked: world.tool("ls", {"path": asked["path"]}),
    "grep": lambda world, asked: world.tool("grep", {"path": asked["path"], "pattern": asked["pattern"]}),
    "patch": lambda world, asked: world.tool("apply_patch", {"input": asked["text"]}),
    "memory_get": lambda world, asked: world.tool(
        "memory_get", {key: asked.get(key) for key in ("path", "from", "lines")}
    ),
    "tool_params": lambda world, asked: world.tool(asked["tool"], asked["params"]),
    "canvas": _look_at_canvas,
    "download": lambda world, asked: world.tool("browser", {"action": "download"}),
    "delete": _delete,
    "mkdir": _mkdir,
    "move": _move,
    "session": _session,
    "extract": _extract,
    "media": _attach,
}


def _content(each: Json) -> bytes:
    if "hex" in each:
        return bytes.fromhex(each["hex"])
    if "repeat" in each:
        unit, times = each["repeat"]
        return str(unit).encode() * int(times)
    return str(each["content"]).encode()


def _contents(base: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(base)): path.read_bytes()
        for path in base.rglob("*")
        if path.is_file() and not path.is_symlink() and path.relative_to(base).parts[0] != "journal"
    }
