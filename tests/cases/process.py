"""openclaw-process on what stands behind our process: keys, names, logs, output that is kept."""

from collections.abc import Callable
from typing import Any

from toolcrib.backends.exec.pty import PtyScreen
from toolcrib.backends.exec.running import Output
from toolcrib.define.display import strip_unseen
from toolcrib.define.shell import CommandLimits
from toolcrib.services.exec.output import decode_output, encode_keys, encode_paste, page_log
from toolcrib.services.exec.process import cut_middle, format_duration, short_name
from toolcrib.services.exec.processes import clamp

from .files import content_of
from .load import Case
from .outcome import Same

Json = dict[str, Any]


def _keys(args: Json) -> Json:
    data, warnings = encode_keys(args.get("keys") or (), args.get("hex") or (), args.get("literal") or "")
    return {"data": _text(data), "warnings": warnings}


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:  # bytes in hex need not be text; the recording writes each as a character
        return data.decode("latin-1")


def _log(args: Json) -> Json:
    lines = page_log(args["text"], args.get("offset"), args.get("limit"))
    return {"slice": lines.text, "totalLines": lines.total, "totalChars": len(args["text"])}


def _requests(args: Json) -> Json:
    answers: list[bytes] = []
    screen = PtyScreen((80, 24), answers.append)
    screen.add(args["text"].replace("\x1b[?6n", "\x1b[6n").encode())
    return {"cleaned": decode_output(args["text"].encode()), "requests": b"".join(answers).count(b"R")}


def _registry(args: Json) -> Json:
    """Print the chunks, whichever stream they are for: we keep the order in which they came."""
    output = Output(CommandLimits(output=args["maxOutputChars"], whole=0))
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
    "encodePaste": lambda args: encode_paste(args["text"], bracketed=args.get("bracketed", True)).decode(),
    "deriveSessionName": lambda args: short_name(args["command"]) or None,
    "truncateMiddle": lambda args: cut_middle(args["text"], args["max"]),
    "formatDuration": lambda args: format_duration(args["ms"]),
    "clampNumber": lambda args: clamp(args["value"], args["def"], args["min"], args["max"]),
    "sliceLogLines": _log,
    "sanitizeBinaryOutput": lambda args: strip_unseen(args["text"]),
    "stripDsrRequests": _requests,
    "processRegistry": _registry,
}
SAME: dict[str, Same] = {"encodeKeySequence": _same_keys, "processRegistry": _same_registry}
