"""openclaw-tool-results on adapter/trim.py, as far as it is about the text of results and errors."""

import hashlib
import math
from collections.abc import Callable
from typing import Any

from toolcrib.adapter.cut import cut, page
from toolcrib.adapter.trim import for_watchers, reason, result_text
from toolcrib.define.errors import ToolError
from toolcrib.define.result import Result, Text

from .load import Case
from .outcome import Refused, Same, compare, is_same

Json = dict[str, Any]

_CUT = "\n…(truncated)…"


def _watched(args: Json) -> Json:
    given = _made(args.get("result"))
    if not isinstance(given, dict):
        raise ToolError("a result is an object")
    shown = for_watchers(Result.from_json(given)).to_json()
    return {"content": _with_note(shown["content"]), **({"details": shown["details"]} if "details" in given else {})}


def _with_note(blocks: list[Json]) -> list[Json]:
    """Write our sentence about what was left out as the original does: behind the text."""
    if len(blocks) < 2 or not blocks[-1]["text"].startswith("[cut: "):
        return blocks
    return [*blocks[:-2], {**blocks[-2], "text": blocks[-2]["text"] + _CUT}]


def _reason(args: Json) -> str | None:
    given = _made(args.get("result"))
    if not isinstance(given, dict):
        return None
    # our results have no fields of their own beside details
    root = {key: value for key, value in given.items() if key not in ("content", "details")}
    told = (Result(details=given.get("details")), Result(details=root), Result(content=_texts(given)))
    return next(filter(None, map(reason, told)), None)


def _words(args: Json) -> str | None:
    return result_text(Result(content=_texts(_made(args.get("result"))))) or None


def _texts(given: Any) -> tuple[Text, ...]:
    blocks = given.get("content") if isinstance(given, dict) else None
    kept = (block for block in blocks or () if isinstance(block, dict) and block.get("type") == "text")
    return tuple(Text(block["text"]) for block in kept if isinstance(block.get("text"), str))


def _truncate(args: Json) -> str:
    return cut(args["text"], math.floor(args["max"]))


def _slice(args: Json) -> str:
    text = args["text"]
    first, last = sorted(slice(args["start"], args.get("end")).indices(len(text))[:2])
    return page(text, first, last - first)


def _made(value: Any) -> Any:
    """Expand {"repeat", "times"} and {"concat"}."""
    match value:
        case {"repeat": str(unit), "times": int(times)}:
            return unit * times
        case {"concat": list(parts)}:
            return "".join(map(_made, parts))
        case dict():
            return {key: _made(each) for key, each in value.items()}
        case list():
            return [_made(each) for each in value]
    return value


def _same_with_digests(case: Case, ours: Any) -> str:
    """Compare where the recording holds digests of long texts."""
    if isinstance(ours, Refused) or not isinstance(case.expected, dict):
        return compare(case, ours)
    recorded = case.expected.get("result")
    return "" if is_same(_digested(ours, recorded), recorded) else "the values differ"


def _digested(ours: Any, recorded: Any) -> Any:
    """Return our answer with the recorded digest in place of each text that has it."""
    match ours, recorded:
        case str(), {"digest": {"sha256": str(known)}} if hashlib.sha256(ours.encode()).hexdigest() == known:
            return recorded
        case dict(), dict():
            return {key: _digested(each, recorded.get(key)) for key, each in ours.items()}
        case list(), list() if len(ours) == len(recorded):
            return list(map(_digested, ours, recorded))
    return ours


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "extractToolErrorMessage": _reason,
    "extractToolResultText": _words,
    "sanitizeToolResult": _watched,
    "sliceUtf16Safe": _slice,
    "truncateUtf16Safe": _truncate,
}
SAME: dict[str, Same] = {"sanitizeToolResult": _same_with_digests}
