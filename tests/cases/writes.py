"""pi-write, the writes and lists of openclaw-edit-write-ls, pi's ls and its reading of paths."""

import json
import os
import posixpath
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from toolcrib.backends.files.disk import Disk, Terms
from toolcrib.define.errors import ToolError
from toolcrib.define.files import join_parts, parts_of, plain
from toolcrib.define.result import Text
from toolcrib.tools.fs._text import normalize_spaces
from toolcrib.tools.fs.ls import ls
from toolcrib.tools.fs.write import write

from .edits import given
from .files import Json, expand_texts, folder_of, is_text, run
from .load import Case, folders_from_environment
from .outcome import Refused, Same, compare_refusals, is_same


def _files(root: Path) -> Json:
    files = (path for path in sorted(root.rglob("*")) if path.is_file())
    return {path.relative_to(root).as_posix(): path.read_bytes().decode("utf-8", "surrogateescape") for path in files}


def _written(files: Json, args: Any) -> tuple[str, Json]:
    with folder_of(files) as root:
        before = _files(root)
        try:
            details = run(write, root, expand_texts(args)).details
        except ToolError:
            assert _files(root) == before, "a refused write changed something"
            raise
        return f"Successfully wrote {details['bytes']} bytes to {details['path']}", _files(root)


def _pi_write(args: Json) -> Json:
    text, files = _written(args["files"], args["call"])
    return {"ok": True, "text": text, "files": files}


def _openclaw_write(args: Json) -> Json:
    text, files = _written(args["files"], args["params"])
    return {"ok": True, "value": {"content": [{"type": "text", "text": text}]}, "files": files}


def _listed(root: Path, args: Any) -> tuple[str, int]:
    """Return our listing in the recorded words, and how many entries were left out."""
    result = run(ls, root, args)
    (text,) = (part.text for part in result.content if isinstance(part, Text))
    if not result.details["entries"]:
        return "(empty directory)", 0
    left = result.details["left"]
    if not left:
        return text, 0
    shown = result.details["entries"]
    return (
        f"{text.rpartition(chr(10) + '[')[0]}\n[{shown} entries limit reached. Use limit={shown * 2} for more]",
        shown,
    )


def _pi_ls(args: Json) -> Json:
    with _standard(args) as root:
        text, reached = _listed(root, args["call"])
    return {"ok": True, "text": text, "details": {"entryLimitReached": reached} if reached else None}


def _standard(args: Json) -> Any:
    if args.get("tree") == "STANDARD":
        fixture = _fixture()
        return folder_of(fixture["files"], fixture.get("dirs"), fixture.get("symlinks"))
    files = args["files"]
    if "generated" in files:  # "501 empty files f0000..f0500"
        count = int(files["generated"].split()[0])
        files = {f"f{number:04}": "" for number in range(count)}
    return folder_of(files, args.get("dirs"), args.get("symlinks"))


@cache
def _fixture() -> Json:
    """Return the tree that the recordings call STANDARD: the first entry of their own file."""
    folder = folders_from_environment(os.environ).cases
    cases = json.loads((folder / "pi-grep-find-ls.json").read_bytes())
    tree: Json = next(case["args"] for case in cases if case["fn"] == "fixture")
    return tree


def _openclaw_ls(args: Json) -> Json:
    with folder_of(args["files"]) as root:
        text, _ = _listed(root, args["params"])
    return {"ok": True, "value": {"content": [{"type": "text", "text": text}]}}


def _resolved(args: Json) -> str:
    parts = plain(parts_of(normalize_spaces(args["path"]), args["cwd"]))
    if parts is None:
        return _refused_outside(args["path"])
    return posixpath.normpath(posixpath.join(args["cwd"], join_parts(parts)))


def _refused_outside(path: str) -> str:
    """Ask for a path that leads out of a folder, which is refused."""
    with folder_of({}) as root:
        disk = Disk(Terms(root=root, state=root.parent / "state"))
        try:
            return "/".join(disk.spell(path))
        finally:
            disk.close()


def _same(case: Case, ours: Any) -> str:
    result = case.expected.get("result", case.expected)
    if not result["ok"]:
        error = result["error"]
        return compare_refusals(error if isinstance(error, str) else error["message"], ours, given(case))
    if isinstance(ours, Refused):
        return f"ours is an error: {ours.message}"
    recorded = {key: value for key, value in result.items() if key in ours}
    if "sha256" in result:
        return (
            "" if is_text(ours["text"], result) and is_same(ours["details"], result["details"]) else "the text differs"
        )
    return "" if is_same(ours, recorded) else "the answers differ"


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "pi.write": _pi_write,
    "writeTool": _openclaw_write,
    "pi.ls": _pi_ls,
    "lsTool": _openclaw_ls,
    "pi.resolveToCwd": _resolved,
}
SAME: dict[str, Same] = {"pi.write": _same, "writeTool": _same, "pi.ls": _same, "lsTool": _same}
