"""Calls of tools in words: what was called, how far it is, what came of it."""

import re
from collections.abc import Mapping
from typing import Any

from toolcrib.define.log_json import to_text
from toolcrib.define.message import Call
from toolcrib.define.result import Image, Result
from toolcrib.define.verdict import Verdict
from toolcrib.doors.cli._show import cut

from .paper import Paper, Style, flat

__all__ = ["bar", "label", "outcome", "started", "tail", "text_of"]

_STYLES: dict[str, Style] = {"allow": "good", "ask": "ask", "deny": "bad"}
_CHANGES = frozenset({"content", "oldText", "newText", "edits", "input", "replaceAll"})  # a diff says it better
_PLAIN = re.compile(r"[^\s\"'=]+")  # a value that needs no quotes among others
_FAR = re.compile(r"(\d+(?:\.\d+)?) of (\d+(?:\.\d+)?)\b")
_CELLS = 20  # of a bar
_OUTPUT = 8  # lines of what a command printed
_SENTENCE = 6  # lines of what went wrong


def started(call: Call, verdict: Verdict | None, paper: Paper) -> str:
    """Return the line about a call that was taken up, with the verdict on it, however long its arguments are."""
    decision = verdict.decision if verdict else "unknown"
    layer = f" at the {verdict.layer} layer" if verdict and verdict.layer and decision != "allow" else ""
    said, name = f"  [{decision}{layer}]", flat(call.name[:64])
    words = cut(label(call), max(paper.width - 3 - len(said), len(name)))
    mark = paper.styled("●", _STYLES.get(decision, "bad"))
    return f"{mark} {paper.styled(name, 'bold')}{words[len(name) :]}{paper.styled(said, 'dim')}\n"


def label(call: Call) -> str:
    """Return a call in one line: one argument alone as it is, several by name."""
    args = {name: value for name, value in call.args.items() if name not in _CHANGES or "path" not in call.args}
    if len(args) == 1:
        words = _value(next(iter(args.values())))
    else:
        words = " ".join(f"{name}={_among(value)}" for name, value in args.items())
    return flat(f"{call.name[:64]} {words[:2000]}").rstrip()


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


def text_of(result: Result) -> str:
    """Return a result in words, pictures by what they are."""
    return "\n".join(
        f"[{part.mime}, {len(part.data):,} bytes]" if isinstance(part, Image) else part.text for part in result.content
    )


def _far(partial: Result) -> tuple[float, float]:
    details = partial.details
    if isinstance(details, Mapping):
        done, total = details.get("progress"), details.get("total")
        if isinstance(done, int | float) and isinstance(total, int | float):
            return float(done), float(total)
    found = _FAR.match(text_of(partial))
    return (float(found[1]), float(found[2])) if found else (0.0, 0.0)


def _among(value: Any) -> str:
    text = _value(value)
    return text if not isinstance(value, str) or _PLAIN.fullmatch(text) else to_text(text)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else to_text(value)
