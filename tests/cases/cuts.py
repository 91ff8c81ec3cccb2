"""pi-truncate and the same functions in openclaw-read-tool: what read, grep and commands leave out.

The recordings count the empty string behind a last newline as a line; the counts here are put in their way.
"""

from collections.abc import Callable
from typing import Any

from toolcrib.tools._media import format_size
from toolcrib.tools.fs._text import LineCut, first_lines, shorten_line, take_last_lines

from .files import Json

_LINES, _BYTES = 2_000, 51_200


def _cut(cut: Callable[[str, int, int], LineCut], args: Json) -> Json:
    text, options = (args["content"], args["options"]) if "content" in args else (args["text"], args)
    lines, most = options.get("maxLines", _LINES), options.get("maxBytes", _BYTES)
    kept = cut(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"), lines, most)
    behind = text.count("\n") + 1 - kept.total  # what they count as a line and we do not
    return {
        "content": kept.text, "truncated": kept.by is not None, "truncatedBy": kept.by,
        "totalLines": kept.total + behind, "totalBytes": len(text.encode("utf-8", "replace")),
        "outputLines": kept.count if kept.by else kept.total + behind,
        "outputBytes": len(kept.text.encode()), "lastLinePartial": kept.partial,
        "firstLineExceedsLimit": cut is first_lines and kept.by == "bytes" and not kept.count,
        "maxLines": lines, "maxBytes": most,
    }  # fmt: skip


def _head(args: Json) -> Json:
    return _cut(first_lines, args)


def _tail(args: Json) -> Json:
    return _cut(take_last_lines, args)


def _line(args: Json) -> Json:
    text = args["line"].encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    made = shorten_line(text, args["max"] if "max" in args else args.get("maxChars", 500), "... [truncated]")
    return {"text": made, "wasTruncated": made != text}


def _size(args: Json) -> str:
    return format_size(args["bytes"])


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "pi.truncateHead": _head,
    "pi.truncateTail": _tail,
    "pi.truncateLine": _line,
    "pi.formatSize": _size,
    "truncateHead": _head,
    "truncateTail": _tail,
    "truncateLine": _line,
    "formatSize": _size,
}
