"""pi-edit, pi-multiedit and the edits of openclaw-edit-write-ls and gemini-edit-and-output on the tool edit.

Our diff is a unified one. Every answer checks that it is true (it turns the old file into the new one), and it is
compared with the recorded one, which numbers its lines, where that one is true: some recordings show lines that their
file never had.
"""

import asyncio
import json
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from toolcrib.adapter.arguments import parse_arguments
from toolcrib.backends.files.disk import Terms
from toolcrib.backends.files.local import Workspaces
from toolcrib.define.caller import Caller
from toolcrib.define.context import CallState, Ctx, Ports
from toolcrib.define.errors import ToolError
from toolcrib.define.message import Call
from toolcrib.define.result import Result
from toolcrib.define.tool import Tool
from toolcrib.tools.fs.edit import edit

from .files import expand_texts, plant
from .load import Case
from .outcome import Refused, Same, compare_refusals, is_same

Json = dict[str, Any]


class Answer(dict[str, Any]):
    """An answer in the recorded shape; our diff, in the form of the recorded ones, is beside it."""

    diff = ""
    before = ""


@contextmanager
def folder_of(files: Mapping[str, Any]) -> Iterator[Path]:
    """Give a folder with these files and links in it."""
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        for path, content in files.items():
            plant(root / path, content)
        yield root


def files_in(root: Path) -> Json:
    """Return what is in a folder, as the recordings write it."""
    found: Json = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = {"symlink": str(path.readlink())}
        elif path.is_file():
            found[name] = path.read_bytes().decode()
    return found


def call(tool: Tool, root: Path, args: Any) -> Result:
    """Run a tool of the shelf over a folder, its arguments checked first."""
    args = parse_arguments(json.dumps(args))  # as they come from a model
    workspaces = Workspaces()
    with tempfile.TemporaryDirectory() as state:
        workspace = workspaces.open(Terms(root=root, state=Path(state)), "main")
        ctx = Ctx(Call(id="1", name=tool.name, args=args, key="1"), Caller(), CallState(), Ports(workspace=workspace))
        try:
            return asyncio.run(_run(tool, ctx, args))
        finally:
            workspaces.close()


async def _run(tool: Tool, ctx: Ctx, args: Mapping[str, Any]) -> Result:
    return await tool.run(ctx, tool.check(args))


def _edited(files: Mapping[str, Any], args: Any) -> tuple[Result, Answer]:
    with folder_of(files) as root:
        before = files_in(root)
        try:
            result = call(edit, root, args)
        except ToolError:
            assert files_in(root) == before, "a refused edit changed something"
            raise
        after = files_in(root)
    details = result.details
    (path,) = [path for path in after if isinstance(after[path], str) and after[path] != before.get(path)]
    answer = Answer(details={"firstChangedLine": details["firstChangedLine"]}, files=after)
    answer.before = before.get(path, "")
    answer.diff = numbered(details["diff"], answer.before, after[path])
    return result, answer


def _pi(args: Json) -> Answer | Refused:
    call_ = args["call"]
    if args.get("aborted"):
        return _aborted(args["files"], call_)
    result, answer = _edited(args["files"], call_)
    count = result.details["replacements"]
    what = f"{count} block(s)" if "edits" in call_ else "text"
    answer |= {"ok": True, "text": f"Successfully replaced {what} in {result.details['path']}."}
    return answer


def _aborted(files: Mapping[str, Any], args: Any) -> Refused:
    """Cancel the edit before it has begun; what is left of it is that nothing happened."""

    async def cancelled(root: Path) -> bool:
        task = asyncio.ensure_future(asyncio.to_thread(call, edit, root, args))
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    with folder_of(files) as root:
        before = files_in(root)
        assert asyncio.run(cancelled(root)), "the edit went on"
        assert files_in(root) == before, "an aborted edit changed something"
    return Refused("aborted")


def _openclaw(args: Json) -> Answer:
    result, answer = _edited(args["files"], expand_texts(args["params"]))
    text = f"Successfully replaced text in {result.details['path']}."
    files = answer.pop("files")
    value = {"content": [{"type": "text", "text": text}], **answer}
    answer.clear()
    answer |= {"ok": True, "value": value, "files": files}
    return answer


def _gemini(args: Json) -> Json:
    given = {key: args[key] for key in ("old_string", "new_string")} | {"file_path": "f"}
    codes = {"no_match": "edit_no_occurrence_found", "many_matches": "edit_expected_occurrence_mismatch",
             "no_change": "edit_no_change"}  # fmt: skip
    try:
        result, answer = _edited({"f": args["content"]}, {**given, "replace_all": args["allow_multiple"]})
    except ToolError as error:
        count = {"no_match": 0, "no_change": 1}.get(error.code)
        told = count if count is not None else int(re.findall(r" (\d+) times", str(error))[0])
        return {"newContent": args["content"], "occurrences": told, "errorType": codes[error.code]}
    return {"newContent": answer["files"]["f"], "occurrences": result.details["replacements"], "errorType": None}


def _prepared(args: Json) -> Json:
    checked = edit.check(args["input"])
    single = [{"oldText": checked["oldText"], "newText": checked["newText"]}] if "oldText" in checked else []
    several = [{"oldText": each.oldText, "newText": each.newText} for each in checked.get("edits", ())]
    return {"path": checked["path"], "edits": [*several, *single]}


def numbered(unified: str, before: str, after: str) -> str:
    """Return a unified diff with numbered lines, as the recordings have it; fail when it is not true of the files."""
    old, new = _lines(before), _lines(after)
    width = len(str(max(before.count("\n"), after.count("\n")) + 1))
    told: list[str] = []
    at_old = at_new = 0
    for line in unified.split("\n")[2:]:
        header = re.fullmatch(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", line)
        if header:
            start_old, start_new = (int(header[n]) - (header[n + 1] != "0") for n in (1, 3))
            if told:  # the recordings show everything between two changes
                told += [f" {n + 1:>{width}} {old[n]}" for n in range(at_old, start_old)]
            elif start_old:
                told.append(f" {'':>{width}} ...")
            assert old[at_old:start_old] == new[at_new:start_new], "the diff leaves a change out"
            at_old, at_new = start_old, start_new
        elif not line.startswith("\\"):
            mark, text = line[0], line[1:]
            assert mark == "+" or old[at_old] == text, "the diff shows a line that the file did not have"
            assert mark == "-" or new[at_new] == text, "the diff shows a line that the file has not got"
            told.append(f"{mark}{(at_new if mark == '+' else at_old) + 1:>{width}} {text}")
            at_old, at_new = at_old + (mark != "+"), at_new + (mark != "-")
    assert old[at_old:] == new[at_new:], "the diff leaves a change out"
    if at_old < len(old):
        told.append(f" {'':>{width}} ...")
    return "\n".join(told)


def _lines(text: str) -> list[str]:
    lines = text.split("\n")
    return [line.removesuffix("\r") for line in (lines if lines[-1] else lines[:-1])]


def _is_true(diff: str, before: str) -> bool:
    """Tell whether the lines that a recorded diff says were there, were there."""
    old = _lines(before)
    shown = re.findall(r"(?m)^[ -] *(\d+) (.*)$", diff)
    return all(int(number) <= len(old) and old[int(number) - 1] == text for number, text in shown)


def _same(case: Case, ours: Any) -> str:
    expected = case.expected.get("result", case.expected)
    if not expected["ok"]:
        error = expected["error"]
        said = error["message"] if isinstance(error, dict) else error
        return compare_refusals(said, ours, given(case))
    if isinstance(ours, Refused):
        return f"ours is an error: {ours.message}"
    details = (expected.get("value") or expected)["details"]
    diff = details["diff"]
    if _is_true(diff, ours.before) and ours.diff != diff:
        return f"the diffs differ: {ours.diff!r}"
    return "" if is_same(ours, _without_diff(expected)) else "the values differ"


def given(case: Case) -> Json:
    """Return the arguments that a tool is given: that a sandbox is around it is none of them."""
    return {name: value for name, value in case.args.items() if name != "sandbox"}


def _without_diff(expected: Json) -> Json:
    return {
        name: _without_diff(value) if name in ("details", "value") else value
        for name, value in expected.items()
        if name != "diff"
    }


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "editTool": _openclaw,
    "gemini.calculateReplacement": _gemini,
    "pi.edit": _pi,
    "pi.edit.prepareArguments@0.73": _prepared,
    "pi.edit@0.73": _pi,
}
SAME: dict[str, Same] = {"editTool": _same, "pi.edit": _same, "pi.edit@0.73": _same}
