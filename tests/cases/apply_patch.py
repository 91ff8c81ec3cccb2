"""openclaw-apply-patch on the tool apply_patch."""

from collections.abc import Callable
from typing import Any

from toolcrib.define.errors import ToolError
from toolcrib.define.result import Text
from toolcrib.tools.fs.apply_patch import apply_patch

from .edits import call, files_in, folder_of, given
from .files import expand_texts
from .load import Case
from .outcome import Refused, Same, compare_refusals, is_same

Json = dict[str, Any]


def _patched(args: Json) -> Json:
    with folder_of(args["files"]) as root:
        before = files_in(root)
        work = root / args.get("cwd", ".").replace("{ROOT}", str(root))
        work.mkdir(parents=True, exist_ok=True)
        try:
            result = call(apply_patch, work, {"input": expand_texts(args["patch"])})
        except ToolError:
            assert files_in(root) == before, "a refused patch changed something"
            raise
        files = files_in(root)
    (said,) = result.content
    assert isinstance(said, Text)
    text = said.text.replace("Changed these files:", "Success. Updated the following files:")
    return {"ok": True, "text": text, "summary": result.details["summary"], "files": files}


def _same(case: Case, ours: Any) -> str:
    expected = case.expected["result"]
    if expected["ok"]:
        refused = f"ours is an error: {ours.message}" if isinstance(ours, Refused) else ""
        return refused or ("" if is_same(ours, expected) else "the values differ")
    return compare_refusals(expected["error"], ours, given(case))


ADAPTERS: dict[str, Callable[[Json], Any]] = {"applyPatch": _patched}
SAME: dict[str, Same] = {"applyPatch": _same}
