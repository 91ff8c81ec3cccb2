"""openclaw-exec-tool on our exec, run on the bare host as the recordings were."""

import asyncio
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.commands import OPEN, belt_in, said, unfenced
from toolcrib.define.result import Result

from .files import plant
from .load import Case
from .outcome import Refused, Same, compare_refusals

Json = dict[str, Any]

_HOSTS = {"gateway": "host", "sandbox": "host", "node": "host"}


def _exec(args: Json) -> Json | Refused:
    defaults = args.get("defaults") or {}
    settings = {**OPEN, **{name: defaults[name] for name in ("security", "ask", "timeoutSec") if name in defaults}}
    with tempfile.TemporaryDirectory() as name:
        root = Path(name).resolve() / "ws"
        root.mkdir()
        for path, spec in args.get("files", {}).items():
            plant(root.parent / path, spec)
        params = {
            key: value.replace("{ROOT}/ws", str(root)) if isinstance(value, str) else value
            for key, value in args["params"].items()
        }
        result = asyncio.run(_ran(root, settings, params))
    details = result.details
    if "sessionId" not in details:
        return Refused(said(result))
    if result.status == "error":
        return {"ok": False, "message": _reason(unfenced(said(result)), details)}
    if details["status"] == "running":
        return {"ok": True, "status": "running", "tail": details["tail"]}
    return {"ok": True, "status": details["status"], "exitCode": details["exitCode"], "text": said(result)}


async def _ran(root: Path, settings: Json, params: Json) -> Result:
    async with belt_in(root, settings) as belt:
        return await belt.call("exec", params)


def _reason(text: str, details: Json) -> str:
    """Return a failure in the recorded form: the output, a blank line, the reason."""
    output, _, reason = text.rpartition("\n\n")
    if details["exitCode"] is not None:
        reason = f"Command exited with code {details['exitCode']}"
    return reason if output == "(no output)" else f"{output}\n\n{reason}"


def _same(case: Case, ours: Any) -> str:
    recorded = case.expected["result"]
    if not recorded["ok"]:
        return _same_failure(recorded["error"]["message"], case, ours)
    if isinstance(ours, Refused) or not ours["ok"]:
        return f"ours is an error: {ours}"
    details = recorded["value"]["details"]
    if details["status"] != ours["status"]:
        return f"recorded is {details['status']}"
    if details["status"] == "running":
        return "" if details["tail"] == ours["tail"] else "the tails differ"
    text = recorded["value"]["content"][0]["text"]
    same = (text, details["exitCode"]) == (ours["text"], ours["exitCode"])
    return "" if same else "the answers differ"


def _same_failure(message: str, case: Case, ours: Any) -> str:
    """Compare the output and the code of a command that failed; of another failure, what it is about."""
    if not isinstance(ours, Refused) and ours["ok"]:
        return "recorded is an error"
    mine = ours.message if isinstance(ours, Refused) else ours["message"]
    if "Command exited with code" in message:
        return "" if mine == message else "the failures differ"
    return compare_refusals(message, Refused(mine), case.args)


ADAPTERS: dict[str, Callable[[Json], Any]] = {"execTool": _exec}
SAME: dict[str, Same] = {"execTool": _same}
