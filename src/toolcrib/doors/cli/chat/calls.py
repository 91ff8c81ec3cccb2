"""Calls of tools in words: what was called, how far it is, what came of it."""

import re
from collections.abc import Mapping
from typing import Any

from toolcrib.define.message import Call
from toolcrib.define.result import Result
from toolcrib.define.verdict import Verdict
from toolcrib.doors.cli._calls import Judged, decided, flat, text_of
from toolcrib.doors.cli._calls import label as plain_label
from toolcrib.doors.cli._calls import started as on_a_line
from toolcrib.doors.cli._show import cut

from .paper import Paper, Style

__all__ = ["bar", "label", "outcome", "started", "tail"]

_STYLES: dict[str, Style] = {"allow": "good", "ask": "ask", "deny": "bad"}
_CHANGES = frozenset({"content", "oldText", "newText", "edits", "input", "replaceAll"})  # a diff says it better
_FAR = re.compile(r"(\d+(?:\.\d+)?) of (\d+(?:\.\d+)?)\b")
_CELLS = 20  # of a bar
_OUTPUT = 8  # lines of what a command printed
_SENTENCE = 6  # lines of what went wrong


def started(call: Call, verdict: Verdict | None, paper: Paper, judged: Judged | None = None) -> str:
    """Return the line about a call that was taken up, with the verdict on it, however long its arguments are."""
    decision, said = decided(call, verdict, judged)
    name, words = on_a_line(call, label(call), said, paper.width - 3)
    mark = paper.styled("●", _STYLES.get(decision, "bad"))
    return f"{mark} {paper.styled(name, 'bold')}{words}{paper.styled(said, 'dim')}\n"


def label(call: Call) -> str:
    """Return a call in one line, without what a diff says better."""
    return plain_label(call, _CHANGES if "path" in call.args else ())


def outcome(call: Call, result: Result, paper: Paper, *, before: str = "", diff: str = "") -> str:
    """Return what came of a call. `before` stands before it when other calls were spoken of since."""
    text = text_of(result).strip()
    if result.status == "error":
        return _failed(call, text, paper, before)
    mark = paper.styled("✓", "good")
    lines = text.splitlines() or ["no output"]
    details: Mapping[str, Any] = result.details if isinstance(result.details, Mapping) else {}
    found = details.get("diff")
    diff = found if isinstance(found, str) and found else diff
    if diff:
        head = cut(f"{before}{flat(lines[0])}", paper.width - 5)
        return f"  {mark} {paper.styled(head, 'dim')}\n{paper.diff(diff)}"
    if call.name == "exec" and len(lines) > 1:
        left = len(lines) - _OUTPUT
        note = [f"… {left} lines before"] if left > 0 else []
        body = paper.lines([*note, *lines[-_OUTPUT:]], "dim", indent=4)
        return f"  {mark} {paper.styled(cut(before.removesuffix(': '), paper.width - 5), 'dim')}".rstrip() + f"\n{body}"
    more = f" … ({len(lines)} lines)" if len(lines) > 1 else ""
    first = cut(f"{before}{flat(lines[0])}", paper.width - 5 - len(more))
    return f"  {mark} {paper.styled(f'{first}{more}', 'dim')}\n"


def _failed(call: Call, text: str, paper: Paper, before: str) -> str:
    """Return what went wrong: of a command, what it printed and then how it ended."""
    said, _, last = text.rpartition("\n")
    if call.name != "exec" or not said.strip():
        return paper.remark(f"✗ {before}{text or 'failed'}", "bad", indent=2, most=_SENTENCE)
    lines = [line for line in said.splitlines() if line.strip()]
    body = paper.lines(lines[-_OUTPUT:], "dim", indent=4)
    return f"{body}{paper.remark(f'✗ {before}{last}', 'bad', indent=2, most=_SENTENCE)}"


def bar(partial: Result) -> str:
    """Return a bar for a partial result that says how much of how much is done, "" for any other."""
    done, total = _far(partial)
    if not 0 <= done <= total or not total:
        return ""
    full = round(_CELLS * done / total)
    return f"[{'#' * full}{'.' * (_CELLS - full)}] {100 * done / total:.0f} %"


def tail(partial: Result, most: int) -> list[str]:
    """Return the last lines of what a call has so far."""
    return [line for line in (flat(line) for line in text_of(partial).splitlines()) if line][-most:]


def _far(partial: Result) -> tuple[float, float]:
    details = partial.details
    if isinstance(details, Mapping):
        done, total = details.get("progress"), details.get("total")
        if isinstance(done, int | float) and isinstance(total, int | float):
            return float(done), float(total)
    found = _FAR.match(text_of(partial))
    return (float(found[1]), float(found[2])) if found else (0.0, 0.0)
