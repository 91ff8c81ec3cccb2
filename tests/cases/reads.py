"""pi-read and the readTool of openclaw-read-tool on the tool read.

The notice at the end of our answers is put into the words of the recordings before it is compared. They count the
empty string behind a last newline as a line, we do not: the number of lines in the words is theirs.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from toolcrib.backends.files.disk import Disk, Terms
from toolcrib.define.errors import ToolError
from toolcrib.define.result import Image, Result, Text
from toolcrib.tools._media import format_size
from toolcrib.tools.fs._text import normalize_spaces
from toolcrib.tools.fs.read import read

from .edits import given
from .files import Json, folder_of, is_text, run
from .load import Case
from .outcome import Refused, Same, compare_refusals, is_same

_BYTES, _LINES = 51_200, 2_000


class Answer(dict[str, Any]):
    """The facts of an answer; its content and details in the recorded shape are beside them."""

    content: list[Json]
    details: Json | None = None


def _answer(files: Json, args: Any) -> Answer:
    with folder_of(files) as root:
        result = run(read, root, _placed(args, root))
        data = (root / result.details["path"]).read_bytes()
    told = ("kind", "first", "lines", "total", "next", "cut")
    answer = Answer({key: result.details[key] for key in told if key in result.details})
    picture = next((part for part in result.content if isinstance(part, Image)), None)
    if picture is not None:
        encoded = (len(picture.data) + 2) // 3 * 4
        answer.content = [
            {"type": "text", "text": f"Read image file [{picture.mime}]"},
            {"type": "image", "mimeType": picture.mime, "base64Length": encoded},
        ]
    else:
        answer.content = [{"type": "text", "text": _words(result, data)}]
        answer.details = _truncation(result, data)
    return answer


def _placed(args: Any, root: Path) -> Any:
    """Return the arguments with the folder where the recordings have a word for it."""
    if not isinstance(args, dict) or not isinstance(args.get("path"), str):
        return args
    return {**args, "path": args["path"].replace("<CWD>", str(root)).replace("{ROOT}", str(root))}


def _words(result: Result, data: bytes) -> str:
    """Return our text with the notice in the recorded words."""
    (text,) = (part.text for part in result.content if isinstance(part, Text))
    facts = result.details
    if facts["kind"] != "text" or facts["cut"] is None:
        return text.partition("\n\n[\ufffd stands for")[0].partition("\n[\ufffd stands for")[0]
    body = text.rpartition("\n[")[0].removesuffix("\n") if facts["lines"] else ""
    first, last = facts["first"], facts["first"] + facts["lines"] - 1
    assert facts["cut"] == "line" or f"offset={facts['next']}" in text, "our notice does not say how to go on"
    total = facts["total"] + data.endswith(b"\n")
    if facts["cut"] == "limit":
        return f"{body}\n\n[{total - last} more lines in file. Use offset={last + 1} to continue.]"
    if facts["cut"] == "line":
        row = data.split(b"\n")[first - 1]
        assert format_size(len(row)) in text, "our notice does not say how long the line is"
        name = facts["path"]
        return (
            f"[Line {first} is {format_size(len(row))}, exceeds 50.0KB limit. "
            f"Use bash: sed -n '{first}p' {name} | head -c {_BYTES}]"
        )
    why = " (50.0KB limit)" if facts["cut"] == "bytes" else ""
    return f"{body}\n\n[Showing lines {first}-{last} of {total}{why}. Use offset={last + 1} to continue.]"


def _truncation(result: Result, data: bytes) -> Json | None:
    facts = result.details
    if facts.get("cut") not in ("lines", "bytes", "line"):
        return None
    rows = data.split(b"\n")[facts["first"] - 1 :][: facts["lines"]]
    return {
        "truncated": True, "truncatedBy": "lines" if facts["cut"] == "lines" else "bytes",
        "outputLines": facts["lines"], "outputBytes": len(b"\n".join(rows)), "lastLinePartial": False,
        "firstLineExceedsLimit": facts["cut"] == "line", "maxLines": _LINES, "maxBytes": _BYTES,
    }  # fmt: skip


def _pi(args: Json) -> Answer:
    return _answer(args["files"], args["call"])


def _openclaw(args: Json) -> Answer:
    return _answer({path: _ended(spec) for path, spec in args["files"].items()}, args["params"])


def _ended(spec: Any) -> Any:
    """Return a description of a file in pi's words: OpenClaw's lines end with a newline unless they say otherwise."""
    if isinstance(spec, dict) and "lines" in spec:
        return {**spec, "trailingNewline": spec.get("trailing", True)}
    return spec


def _same(case: Case, ours: Any) -> str:
    expected = case.expected
    result = expected.get("result", expected)
    if not result["ok"]:
        message = result["error"] if isinstance(result["error"], str) else result["error"]["message"]
        return compare_refusals(message, ours, given(case))
    if isinstance(ours, Refused):
        return f"ours is an error: {ours.message}"
    recorded = result.get("value", result)
    for mine, theirs in zip(ours.content, recorded["content"], strict=True):
        if mine["type"] != theirs["type"] or not _same_part(mine, theirs):
            return f"the {mine['type']} differs: {str(mine)[-300:]}"
    details = recorded.get("details")
    told = (
        {key: value for key, value in details["truncation"].items() if key in (ours.details or {})} if details else None
    )
    return "" if is_same(ours.details, told) else "the details differ"


def _same_part(mine: Json, theirs: Json) -> bool:
    if mine["type"] == "text":
        return is_text(mine["text"], theirs.get("text", theirs))
    length = theirs.get("base64Length", theirs.get("dataLen"))
    return bool(mine["mimeType"] == theirs["mimeType"] and mine["base64Length"] == length)


def _path(args: Json) -> Json:
    with folder_of(args.get("files", {})) as root:
        disk = Disk(Terms(root=root, state=root.parent / "state"))
        try:
            path = args["filePath"].replace("{ROOT}", str(root))
            try:
                disk.stat(path)
            except ToolError as error:
                if error.code != "not_found":
                    raise
            relative = "/".join(disk.spell(normalize_spaces(path)))
        finally:
            disk.close()
    return {"resolved": f"{{ROOT}}/{relative}".rstrip("/"), "relative": relative}


ADAPTERS: dict[str, Callable[[Json], Any]] = {"pi.read": _pi, "readTool": _openclaw, "assertSandboxPath": _path}
SAME: dict[str, Same] = {"pi.read": _same, "readTool": _same}
