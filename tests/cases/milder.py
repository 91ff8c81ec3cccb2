"""Whether our answer allows what the recorded one does not: a person looks at each such difference.

Answers have many shapes, so this looks for words that permit or refuse wherever they stand. It may list a difference
too many; the answer itself is approved beside it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from .judge import Finding

# from mild to strict; of `1:success` the word after the colon
_ORDERS = (
    ("allow", "ask_user", "deny"),
    ("allow", "ask", "deny"),
    ("full", "allowlist", "deny"),
    ("off", "on-miss", "always"),
    ("success", "cancelled", "error"),
    ("warning", "error"),
)
_PERMITS = frozenset({
    *("allowed", "allowTailscale", "approved", "confirmed", "enabled", "ok", "plain", "satisfied", "success", "valid"),
    *("visible", "withWildcards"),
})  # fmt: skip
_REFUSES = frozenset({
    *("blocked", "denied", "error", "errors", "errorType", "hidden", "isError", "is_error", "rejected", "thrown"),
})  # fmt: skip
_TRUE_IS_STRICT = frozenset({"isPrivateIpAddress", "isExternalHookSession"})
_SAYS_WHY = frozenset({"gemini.SchemaValidator.validate"})  # null is a yes, a text says why not
_OF_TOOLS = frozenset({"openclaw-nodes-canvas-browser", "openclaw-policy"})  # whose lists hold what may be called


def is_milder(finding: Finding) -> bool:
    """Tell whether we answer where an error was recorded, permit what was refused, or show what was hidden."""
    if finding.verdict not in ("different", "noted", "new") or finding.ours is None or "ours" not in finding.ours:
        return False
    case, theirs, ours = finding.case, finding.theirs, finding.ours["ours"]
    if case.fn in _SAYS_WHY:
        return theirs is not None and ours is None
    if case.fn in _TRUE_IS_STRICT:
        return theirs is True and ours is False
    if _is_refused(theirs):
        return not _is_refused(ours)
    if isinstance(theirs, Mapping) and isinstance(ours, bool):
        return ours and theirs.get("allowlistSatisfied") is False
    return _permits(theirs, ours, "allowed" if case.file in _OF_TOOLS or isinstance(ours, bool) else "")


def _is_refused(answer: Any) -> bool:
    return isinstance(answer, Mapping) and answer.get("ok") is False and "error" in answer


def _permits(theirs: Any, ours: Any, key: str) -> bool:
    """Tell whether ours permits more than theirs in a value that stands under this key."""
    if isinstance(theirs, Mapping) and isinstance(ours, Mapping):
        return any(_permits(theirs.get(each), ours.get(each), each) for each in {*theirs, *ours})
    if key in _REFUSES and bool(theirs) and not ours:
        return True
    if key in _PERMITS and theirs is False and ours is True:
        return True
    if _is_list(theirs) and _is_list(ours):
        if key in ("allow", "allowed") and "*" not in theirs:
            return any(each not in theirs for each in ours)
        if key == "deny":
            return any(each not in ours for each in theirs)
        return any(_permits(one, other, "") for one, other in zip(theirs, ours, strict=False))
    one, other = (str(each).rpartition(":")[2] for each in (theirs, ours))
    return any(one in order and other in order and order.index(other) < order.index(one) for order in _ORDERS)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)
