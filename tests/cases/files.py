"""Folders as the recordings describe them, the tools of group:fs run over them, and long texts as digests."""

import asyncio
import base64
import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolcrib.adapter.arguments import parse_arguments
from toolcrib.backends.files.disk import Terms
from toolcrib.backends.files.local import Workspaces
from toolcrib.define.caller import Caller
from toolcrib.define.context import CallState, Ctx, Ports
from toolcrib.define.message import Call
from toolcrib.define.result import Result
from toolcrib.define.tool import Tool

Json = dict[str, Any]


def content_of(spec: Any) -> bytes:
    """Return the bytes that a recording's description of a file stands for."""
    if isinstance(spec, str):
        return spec.encode("utf-8", "surrogatepass")
    if "base64" in spec:
        return base64.b64decode(spec["base64"])
    if "concat" in spec:
        return b"".join(content_of(each) for each in spec["concat"])
    if "repeat" in spec:
        return str(spec.get("head", "") + spec["repeat"] * spec["times"] + spec.get("tail", "")).encode()
    line = spec.get("template", spec.get("prefix", "line ") + "{i}" + "." * spec.get("pad", 0))
    ends = spec.get("trailing", "template" in spec) if "trailingNewline" not in spec else spec["trailingNewline"]
    eol = str(spec.get("eol", "\n"))
    text = eol.join(line.replace("{i}", str(number)) for number in range(1, spec["lines"] + 1))
    return (text + eol * bool(ends)).encode()


def expand_texts(value: Any) -> Any:
    """Return arguments with the texts in them that a recording only describes."""
    match value:
        case {"repeat": str(), "times": int()} | {"concat": list()} | {"lines": int(), "template": str()}:
            return content_of(value).decode()
        case dict():
            return {key: expand_texts(each) for key, each in value.items()}
    return value


def plant(target: Path, spec: Any) -> None:
    """Make a file, a link, a folder or a program as a recording describes it."""
    target.parent.mkdir(parents=True, exist_ok=True)
    match spec:
        case {"symlink": goal}:
            target.symlink_to(goal)
        case {"dir": True}:
            target.mkdir(exist_ok=True)
        case {"exec": text}:
            target.write_text(text)
            target.chmod(0o755)
        case _:
            target.write_bytes(content_of(spec))


@contextmanager
def folder_of(files: Mapping[str, Any], dirs: list[str] | None = None, links: Json | None = None) -> Iterator[Path]:
    """Give a folder with these files, empty folders and links."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve() / "ws"
        root.mkdir()
        for path in dirs or ():
            (root / path).mkdir(parents=True, exist_ok=True)
        for path, spec in files.items():
            plant(root / path, spec)
        for path, goal in (links or {}).items():
            (root / path).symlink_to(goal)
        yield root


def run(tool: Tool, root: Path, args: Any) -> Result:
    """Run a tool of the shelf over a folder, its arguments checked first."""
    args = parse_arguments(json.dumps(args))  # as they come from a model
    workspaces = Workspaces()
    workspace = workspaces.open(Terms(root=root, state=root.parent / "state"), "main")
    ctx = Ctx(Call(id="1", name=tool.name, args=args, key="1"), Caller(), CallState(), Ports(workspace=workspace))
    try:
        return asyncio.run(_run(tool, ctx, args))
    finally:
        workspaces.close()


async def _run(tool: Tool, ctx: Ctx, args: Mapping[str, Any]) -> Result:
    return await tool.run(ctx, tool.check(args))


def is_text(text: str, recorded: Any) -> bool:
    """Tell whether a text is the recorded one, which may be written as a digest."""
    if isinstance(recorded, str):
        return text == recorded
    digest = recorded.get("digest", recorded)
    return bool(hashlib.sha256(text.encode()).hexdigest() == digest["sha256"])
