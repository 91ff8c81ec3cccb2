"""pi-bash on our exec, run on the bare host as the recordings were."""

import asyncio
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.commands import belt_in, said, unfenced
from toolcrib.define.result import Result

from .load import Case
from .outcome import Refused, SaidError, Same

Json = dict[str, Any]

_NOTICE = re.compile(r"\[Showing lines (\d+)-(\d+) of (\d+)")
_OURS = re.compile(r"\[the last ([\d,]+) of ([\d,]+) lines are shown[^\]]*\]\n")


def _bash(args: Json) -> Json:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve() / "ws"
        root.mkdir()
        result = asyncio.run(_ran(root, args["call"]))
    details, text = result.details, unfenced(said(result))
    if "sessionId" not in details:
        raise SaidError(text)
    code, reason = details["exitCode"], ""
    if result.status == "error":
        text, _, reason = text.rpartition("\n\n")
    cut = _OURS.match(text)
    lines = [int(number.replace(",", "")) for number in cut.groups()] if cut else None
    output = _OURS.sub("", text) if cut else text
    return {"ok": result.status == "ok", "output": output, "reason": reason, "code": code, "lines": lines}


async def _ran(root: Path, call: Json) -> Result:
    async with belt_in(root) as belt:
        return await belt.call("exec", {**call, "yieldMs": 120_000})


def _same(case: Case, ours: Any) -> str:
    """Compare success, the reason of a failure and the output; a last newline is no line of its own with us."""
    recorded = case.expected
    if isinstance(ours, Refused):
        return "" if not recorded["ok"] else f"ours is an error: {ours.message}"
    if recorded["ok"] != ours["ok"]:
        return "one of the two is a failure"
    body = recorded if recorded["ok"] else recorded["error"]
    text = body.get("text", body.get("tail", ""))
    if shown := _NOTICE.search(text):
        total = int(shown[3]) - 1
        first = ours["output"].partition("\n")[0]
        kept = ours["lines"] == [2_000, total] and first == str(int(shown[1]) - 1)
        return "" if kept and _code(text) == ours["code"] else "other lines are shown"
    if not recorded["ok"]:
        return _same_failure(text, ours)
    return "" if text.rstrip("\n") == ours["output"] else "the outputs differ"


def _same_failure(text: str, ours: Json) -> str:
    limit = re.search(r"timed out after ([\d.]+) seconds", text)
    if limit:
        return "" if f"within {limit[1]} s" in ours["reason"] else "the time is not told"
    output = text.rpartition("Command exited")[0].rstrip("\n")
    same = _code(text) == ours["code"] and output in (ours["output"], "")
    return "" if same else "the failures differ"


def _code(text: str) -> int:
    found = re.search(r"Command exited with code (\d+)$", text)
    return int(found[1]) if found else 0


ADAPTERS: dict[str, Callable[[Json], Any]] = {"pi.bash": _bash}
SAME: dict[str, Same] = {"pi.bash": _same}
