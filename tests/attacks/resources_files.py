"""attacks/resources, the rows about files: tools of group:fs over what is generated on the spot, with their bounds."""

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import toolcrib
from toolcrib.backends.files.disk import Terms
from toolcrib.backends.files.local import Workspaces
from toolcrib.define.caller import Caller
from toolcrib.define.context import CallState, Ctx, Ports
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.ports import Rpc
from toolcrib.define.result import Result
from toolcrib.tools import SHELF

from . import Outcome, broken, kept, resources
from .lateness import Lateness, Stopwatch

Json = Mapping[str, Any]

TOOLS = {tool.name: tool for tool in SHELF if tool.has_body}
_NO_RPC = Ports().rpc
_NAMES = {"old": "oldText", "new": "newText", "glob": "pattern", "patch": "input"}


def judge(case: Json, profiles: Json) -> Outcome:
    """Generate what the case describes, run the tool over it, and measure."""
    asked, must = case["input"], case["must"]
    with tempfile.TemporaryDirectory() as name:
        root = Path(name) / "ws"
        root.mkdir()
        args = _generated(root, asked)
        before = resources.measure_held(begins=True)
        watch = Stopwatch()
        done, said, late = asyncio.run(_watched(root, Path(name) / "state", asked["tool"], args))
        took = watch.took
        after = resources.measure_held()
    complaints = _verdict(must, done, said)
    complaints += resources.measure({**must, "alive_during": False}, took, before, after)
    if must.get("alive_during") and late:
        complaints.append(late)
    seen = {"done": done, "said": said[:200]}
    return broken("; ".join(complaints), seen) if complaints else kept(seen)


def _verdict(must: Json, done: bool, said: str) -> list[str]:
    wanted = must["verdict"]
    if (wanted == "allow" and not done) or (wanted == "reject" and done):
        return [f"must {wanted}: {said[:200]}"]
    if must.get("output_has", "") not in said:
        return [f"the result lacks {must['output_has']!r}: {said[:200]}"]
    if must.get("matches") and "f.txt:1:" not in said:
        return [f"found nothing: {said[:200]}"]
    if len(said) > must.get("result_chars", 60_000):
        return [f"the result has {len(said)} characters"]
    return [] if done or 0 < len(said) <= 400 else [f"the error has {len(said)} characters"]


async def _watched(root: Path, state: Path, name: str, args: Json) -> tuple[bool, str, str]:
    """Return whether the tool did it, what it said, and whether nothing else could be done meanwhile."""
    if TOOLS[name].group != "memory":
        return await _run(root, state, name, args)
    config = {"workspace": {"root": str(root)}, "memory": {"provider": "none"}}
    async with toolcrib.open(config, env={}, state=state / "crib") as crib:
        return await _run(root, state, name, args, crib.rpc_for(toolcrib.OWNER, {"read"}))


async def _run(root: Path, state: Path, name: str, args: Json, rpc: Rpc = _NO_RPC) -> tuple[bool, str, str]:
    workspaces = Workspaces()
    ctx = Ctx(
        Call(id="1", name=name, args=args, key="1"), Caller(), CallState(),
        Ports(workspace=workspaces.open(Terms(root=root, state=state), "main"), rpc=rpc),
    )  # fmt: skip
    lateness, tool = Lateness(), TOOLS[name]
    try:
        async with lateness:
            result: Result = await tool.run(ctx, tool.check(args))
        said = result.plain_text
        return result.status == "ok", said, lateness.complaint
    except ToolError as error:
        return False, str(error), lateness.complaint
    finally:
        workspaces.close()


def _generated(root: Path, asked: Json) -> Json:
    """Lay out the files and return the arguments."""
    args = {_NAMES.get(key, key): value for key, value in asked.get("args", {}).items()}
    if asked["tool"] == "grep":
        args = {**asked.get("args", {})}
    if "file_gen" in asked:
        _file(root / ("MEMORY.md" if TOOLS[asked["tool"]].group == "memory" else "f.txt"), asked["file_gen"])
        if asked["tool"] in ("read", "edit", "write"):
            args = {"path": "f.txt", **args}
    if "tree_gen" in asked:
        _tree(root, asked["tree_gen"])
    if "patch_gen" in asked:
        args = {"input": _patch(root, asked["patch_gen"])}
    if "args_gen" in asked:
        size = asked["args_gen"].get("content_bytes", asked["args_gen"].get("bytes", 0))
        args = {"path": "f.txt", "content": "x" * size, **args}
    return args


def _file(path: Path, how: Json) -> None:
    with path.open("wb") as file:
        if "lines" not in how:  # so many bytes, mostly holes
            file.truncate(int(how["sparse"]))
            return
        if "line_bytes" in how:
            block = b"a" * 1_000_000
            for _ in range(how["lines"]):
                for _ in range(how["line_bytes"] // len(block)):
                    file.write(block)
                file.write(b"\n")
            return
        file.write((how["line"] + "\n").encode() * how["lines"])


def _tree(root: Path, how: Json) -> None:
    if "memory_files" in how:
        (root / "memory").mkdir()
        for number in range(how["memory_files"]):
            (root / "memory" / f"{number}.md").write_text(f"# {number}\n\nlorem ipsum x\n")
        if how.get("memory_symlink_loop"):
            (root / "memory" / "loop").symlink_to(".")
        return
    if "files" in how:
        filler = "lorem ipsum\n" * (how.get("bytes_each", 12) // 12)
        for number in range(how["files"]):
            (root / f"f{number}.txt").write_text(filler)
        (root / f"f{how['files'] // 2}.txt").write_text(filler + how.get("one_has", "") + "\n")
        return
    folders = [root]
    for depth in range(how["depth"]):
        below = [folder / f"d{number}" for folder in folders for number in range(how["width"])]
        for folder in below:
            folder.mkdir()
            (folder / f"a{depth}.txt").touch()
            (folder / "m.py").touch()
        folders = below
        if len(folders) * how["width"] > 600:  # more of the same would only take longer to lay out
            break


def _patch(root: Path, how: Json) -> str:
    if "hunks" in how:
        (root / "f.txt").write_text("".join(f"line {number}\nbetween\n" for number in range(how["hunks"])))
        hunks = "".join(f"@@\n-line {number}\n+row {number}\n between\n" for number in range(how["hunks"]))
        return f"*** Begin Patch\n*** Update File: f.txt\n{hunks}*** End Patch"
    context = [f"same {number % 7}" for number in range(how["context_lines"])]
    rows = [f"same {number % 7}" for number in range(how["file_lines"])]
    (root / "f.txt").write_text("\n".join(rows) + "\n")
    body = "".join(f" {row}\n" for row in context)
    return f"*** Begin Patch\n*** Update File: f.txt\n@@\n{body}-never there\n+x\n*** End Patch"
