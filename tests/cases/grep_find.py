"""pi's grep and find on the tools grep and find.

What our answers say at their end is put into the words of the recordings before it is compared; `totalBytes` is not
among what we tell. The recordings list names in any order, ours stand in one.
"""

from collections.abc import Callable
from typing import Any

from toolcrib.define.result import Result, Text
from toolcrib.tools.fs.find import find
from toolcrib.tools.fs.grep import grep

from .files import Json, is_text, run
from .load import Case
from .outcome import Refused, Same, is_same, mentions
from .writes import _standard

_BYTES = 51_200


def _grep(args: Json) -> Json:
    with _standard(args) as root:
        result = run(grep, root, args["call"])
    facts, body = result.details, _body(result)
    notes: list[str] = []
    details: Json = {}
    if facts["more"]:
        details["matchLimitReached"] = facts["matches"]
        notes.append(
            f"{facts['matches']} matches limit reached. Use limit={2 * facts['matches']} for more, or refine pattern"
        )
    if facts["shown"] < facts["lines"]:
        details["truncation"] = _truncation(body, facts)
        notes.append("50.0KB limit reached")
    if facts["cut"]:
        details["linesTruncated"] = True
        notes.append("Some lines truncated to 500 chars. Use read tool to see full lines")
    text = body.replace("… [cut]", "... [truncated]") if facts["lines"] else "No matches found"
    return {"ok": True, "text": _noted(text, notes), "details": details or None}


def _find(args: Json) -> Json:
    with _standard(args) as root:
        result = run(find, root, args["call"])
    facts, body = result.details, _body(result)
    notes: list[str] = []
    details: Json = {}
    if facts["more"]:
        details["resultLimitReached"] = facts["results"]
        notes.append(
            f"{facts['results']} results limit reached. Use limit={2 * facts['results']} for more, or refine pattern"
        )
    if facts["shown"] < facts["results"]:
        details["truncation"] = _truncation(body, facts)
        notes.append("50.0KB limit reached")
    text = body if facts["results"] else "No files found matching pattern"
    return {"ok": True, "text": _noted(text, notes), "details": details or None}


def _body(result: Result) -> str:
    """Return our text without what it says at its end."""
    (text,) = (part.text for part in result.content if isinstance(part, Text))
    head, mark, _ = text.rpartition("\n\n[")
    return head if mark else text


def _noted(text: str, notes: list[str]) -> str:
    return f"{text}\n\n[{'. '.join(notes)}]" if notes else text


def _truncation(body: str, facts: Json) -> Json:
    return {
        "truncated": True, "truncatedBy": "bytes", "totalLines": facts.get("lines", facts.get("results")),
        "outputLines": facts["shown"], "outputBytes": len(body.encode()), "lastLinePartial": False,
        "firstLineExceedsLimit": False, "maxLines": 2**53 - 1, "maxBytes": _BYTES,
    }  # fmt: skip


def _same(case: Case, ours: Any) -> str:
    recorded = case.expected.get("result", case.expected)
    if isinstance(ours, Refused) or not recorded["ok"]:
        return _same_error(case, recorded, ours)
    details = recorded["details"]
    if details and "truncation" in details:
        told = {key: value for key, value in details["truncation"].items() if key != "totalBytes"}
        details = {**details, "truncation": told}
    if not is_same(ours["details"], details):
        return f"the details differ: {ours['details']}"
    if "lines" in recorded:
        text, mark, notice = ours["text"].partition("\n\n[")
        same = sorted(text.split("\n")) == sorted(recorded["lines"]) and (mark + notice).strip() == (
            recorded["notice"] or ""
        )
        return "" if same else "the names differ"
    return "" if is_text(ours["text"], recorded.get("text", recorded)) else "the text differs"


def _same_error(case: Case, recorded: Json, ours: Any) -> str:
    if recorded["ok"] or not isinstance(ours, Refused):
        return "one of the two is an error"
    error = recorded["error"]
    message = error if isinstance(error, str) else error.get("message", "")
    missing = [word for word in mentions(message, case.args["call"]) if word not in ours.message]
    return f"our error does not mention {', '.join(map(repr, missing))}" if missing else ""


def _tree(args: Json) -> None:
    """The tree that other cases call STANDARD: nothing is asked."""


ADAPTERS: dict[str, Callable[[Json], Any]] = {"fixture": _tree, "pi.grep": _grep, "pi.find": _find}
SAME: dict[str, Same] = {"pi.grep": _same, "pi.find": _same}
