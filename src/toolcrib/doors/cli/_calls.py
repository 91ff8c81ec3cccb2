"""Calls of tools in words, for whoever shows a turn at a terminal: a call on one line, its verdict, its result."""

import re
from collections.abc import Callable, Container, Mapping
from typing import Any

from toolcrib.app import Crib
from toolcrib.backends.stores.sessions_json import to_text
from toolcrib.define.caller import Caller
from toolcrib.define.display import escape_controls
from toolcrib.define.errors import CribError, ToolError
from toolcrib.define.message import Call
from toolcrib.define.result import Image, Result
from toolcrib.define.verdict import Decision, Verdict

from ._show import cut

__all__ = ["Judged", "decided", "flat", "judging", "label", "started", "text_of"]

_PLAIN = re.compile(r"[^\s\"'=]+")  # a value that needs no quotes among others
_LONGEST_NAME, _LONGEST = 64, 2000  # characters of a call that are looked at
_DECISIONS: Mapping[str, Decision] = {"run": "allow", "ask": "ask", "deny": "deny"}

Judged = Callable[[Call], Decision | None]


def flat(text: str) -> str:
    """Return a text as it can stand in one line."""
    return escape_controls(" ".join(text.split()))


def label(call: Call, hidden: Container[str] = ()) -> str:
    """Return a call in one line: one argument alone as it is, several by name, the hidden ones not at all."""
    args = {name: value for name, value in call.args.items() if name not in hidden}
    if len(args) == 1:
        words = _value(next(iter(args.values())))
    else:
        words = " ".join(f"{name}={_among(value)}" for name, value in args.items())
    return flat(f"{call.name[:_LONGEST_NAME]} {words[:_LONGEST]}").rstrip()


def started(call: Call, words: str, said: str, width: int) -> tuple[str, str]:
    """Return the name of a call and what stands behind it, so that the verdict fits on the line with them."""
    name = flat(call.name[:_LONGEST_NAME])
    # what was decided is always seen, however long the arguments are
    return name, cut(words, max(width - len(said), len(name)))[len(name) :]


def decided(call: Call, verdict: Verdict | None, judged: Judged | None) -> tuple[str, str]:
    """Return what was decided about a call, and how that is said behind it.

    The tool that runs commands is everybody's who may run any; what becomes of this very line is what counts.
    """
    decision: str = verdict.decision if verdict else "unknown"
    if decision == "allow" and judged is not None and (own := judged(call)) is not None:
        return own, f"  [{own}]"
    layer = f" at the {verdict.layer} layer" if verdict and verdict.layer and decision == "deny" else ""
    return decision, f"  [{decision}{layer}]"


def judging(crib: Crib, caller: Callable[[], Caller]) -> Judged:
    """Return what says of a command line whether it is allowed, asked about or denied; None of any other call."""

    def judged(call: Call) -> Decision | None:
        line, workdir = call.args.get("command"), call.args.get("workdir") or "."
        if call.name != "exec" or not isinstance(line, str) or not isinstance(workdir, str):
            return None
        try:
            return _DECISIONS[crib.commands.judge(caller(), line, workdir=workdir).decision]
        except (CribError, ToolError):  # the call itself will say what is wrong with it
            return None

    return judged


def text_of(result: Result) -> str:
    """Return a result in words, pictures by what they are."""
    return "\n".join(
        f"[{part.mime}, {len(part.data):,} bytes]" if isinstance(part, Image) else part.text for part in result.content
    )


def _among(value: Any) -> str:
    text = _value(value)
    return text if not isinstance(value, str) or _PLAIN.fullmatch(text) else to_text(text)


def _value(value: Any) -> str:
    return value if isinstance(value, str) else to_text(value)
