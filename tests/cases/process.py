"""openclaw-process on what stands behind our process: keys, names, logs, output that is kept."""

from collections.abc import Callable
from typing import Any

from toolcrib.backends.exec.pty import Screen
from toolcrib.backends.exec.running import Output
from toolcrib.define.display import strip_unseen
from toolcrib.define.shell import Limits
from toolcrib.services._keys import encoded, pasted
from toolcrib.services._labels import duration, short_name, shortened
from toolcrib.services._printed import log_lines, plain
from toolcrib.services.processes import clamped

from .files import content_of
from .load import Case
from .outcome import Same

Json = dict[str, Any]


def _keys(args: Json) -> Json:
    data, warnings = encoded(args.get("keys") or (), args.get("hex") or (), args.get("literal") or "")
    return {"data": _text(data), "warnings": warnings}


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:  # bytes in hex need not be text; the recording writes each as a character
        return data.decode("latin-1")


def _log(args: Json) -> Json:
    lines = log_lines(args["text"], args.get("offset"), args.get("limit"))
    return {"slice": lines.text, "totalLines": lines.total, "totalChars": len(args["text"])}


def _requests(args: Json) -> Json:
    answers: list[bytes] = []
    screen = Screen((80, 24), answers.append)
    screen.add(args["text"].replace("\x1b[?6n", "\x1b[6n").encode())
    return {"cleaned": plain(args["text"].encode()), "requests": b"".join(answers).count(b"R")}


def _registry(args: Json) -> Json:
    """Print the chunks, whichever stream they are for: we keep the order in which they came."""
    output = Output(Limits(output=args["maxOutputChars"], whole=0))
    for chunk in args["chunks"]:
        if "text" in chunk:
            text = chunk["text"]
            output.add(memoryview(text.encode() if isinstance(text, str) else content_of(text)))
    kept = output.tail().decode()
    return {"aggregated": kept, "tail": kept[-2000:], "total": output.total}


def _same_keys(case: Case, ours: Any) -> str:
    """Compare what is typed, and of the warnings that each is about the same."""
    recorded = case.expected["result"]
    if recorded["data"] != ours["data"]:
        return "the data differ"
    return "" if len(recorded["warnings"]) == len(ours["warnings"]) else "the warnings differ"


def _same_registry(case: Case, ours: Any) -> str:
    """Compare what is kept; what is pending is a place in it with us, and not a second copy by stream."""
    recorded = case.expected["result"]
    return "" if all(recorded[key] == ours[key] for key in ours) else "what is kept differs"


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "encodeKeySequence": _keys,
    "encodePaste": lambda args: pasted(args["text"], bracketed=args.get("bracketed", True)).decode(),
    "deriveSessionName": lambda args: short_name(args["command"]) or None,
    "truncateMiddle": lambda args: shortened(args["text"], args["max"]),
    "formatDuration": lambda args: duration(args["ms"]),
    "clampNumber": lambda args: clamped(args["value"], args["def"], args["min"], args["max"]),
    "sliceLogLines": _log,
    "sanitizeBinaryOutput": lambda args: strip_unseen(args["text"]),
    "stripDsrRequests": _requests,
    "processRegistry": _registry,
}
SAME: dict[str, Same] = {"encodeKeySequence": _same_keys, "processRegistry": _same_registry}
