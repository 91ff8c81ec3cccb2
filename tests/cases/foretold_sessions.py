"""What is kept of a session and where it is cut by our rules, told in a few lines: for differences/*.toml."""

import json
from typing import Any

__all__ = ["all_said", "answered", "counts_more", "cut", "ends_in_results", "is_no_session", "prepared"]

Json = dict[str, Any]

_SPOKEN = {"custom_message": "custom", "branch_summary": "branchSummary"}


def _role(entry: Json) -> str:
    """Return who speaks in an entry, "" where nobody does."""
    return _SPOKEN.get(entry["type"], "") or str(entry.get("message", {}).get("role", ""))


def _blocks(entry: Json) -> list[Json]:
    said = entry.get("message", entry)
    content = said.get("content", said.get("summary", said.get("command", "") + said.get("output", "")))
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _text(entry: Json) -> str:
    return "".join(block.get("text", "") for block in _blocks(entry))


def _size(entry: Json) -> int:
    if not _role(entry):
        return 0
    pictures = sum(1 for block in _blocks(entry) if block["type"] == "image")
    return 1200 * pictures + (len(_text(entry)) + 3) // 4


# Where a session is cut


def _cut(entries: list[Json], start: int, end: int, keep: int) -> tuple[int, int, int]:
    """Return where what is kept begins, the first message of it, and where the turn of that begins."""
    said = [at for at in range(start, end) if _role(entries[at])]
    if not said:
        return start, start, start
    whole = [at for at in said if _role(entries[at]) != "toolResult"]
    enough = [at for at in said if sum(_size(entries[i]) for i in range(at, end)) >= keep]
    after = max(enough, default=said[0])
    at = min([i for i in whole if i >= after], default=max(whole, default=said[0]))
    asking = [i for i in said if i <= at and _role(entries[i]) not in ("assistant", "toolResult")]
    first = at
    while first > start and not _role(entries[first - 1]) and entries[first - 1]["type"] != "compaction":
        first -= 1
    return first, at, max(asking, default=at)


def cut(args: Json) -> Json:
    """Return where a stretch of entries is cut: before a question or a reply, never between a call and its answer."""
    first, at, turn = _cut(args["entries"], args["start"], args["end"], args["keepRecentTokens"])
    return {"firstKeptEntryIndex": first, "turnStartIndex": turn if turn < at else -1, "isSplitTurn": turn < at}


def prepared(args: Json) -> Json:
    """Return what is summarised: from where the last compaction kept, or all when nobody knows that place."""
    entries, ids = args["entries"], [entry["id"] for entry in args["entries"]]
    kept = [entry["firstKeptEntryId"] for entry in entries if entry["type"] == "compaction"][-1:]
    start = ids.index(kept[0]) if kept and kept[0] in ids else 0
    first, at, turn = _cut(entries, start, len(entries), args["keepRecentTokens"])
    return {
        "firstKeptEntryId": ids[first],
        "summarise": [_role(entry) for entry in entries[start:turn] if _role(entry)],
        "prefix": [_role(entry) for entry in entries[turn:at] if _role(entry)],
        "split": turn < at,
    }


def counts_more(args: Json) -> bool:
    """Tell whether others than the user, the model and its tools speak."""
    return any(entry["type"] in _SPOKEN for entry in args["entries"])


def ends_in_results(args: Json) -> bool:
    """Tell whether answers of tools at the end are all that would be kept."""
    entries = args["entries"]
    end = last = int(args.get("end", len(entries)))
    while last > 0 and _role(entries[last - 1]) == "toolResult":
        last -= 1
    return last < end and sum(_size(entry) for entry in entries[last:end]) >= int(args["keepRecentTokens"])


# What a session says


def all_said(args: Json) -> list[str]:
    """Return every message of a session with one line of parents."""
    return [f"{_role(entry)}:{_text(entry)}" for entry in args["entries"] if _role(entry)]


def answered(args: Json) -> list[str]:
    """Return the ids of the calls in a session."""
    return [
        block["id"]
        for entry in args["entries"]
        if _role(entry) == "assistant"
        for block in _blocks(entry)
        if block["type"] == "toolCall"
    ]


def is_no_session(text: str) -> bool:
    """Tell whether a file is anything but one head and objects behind it."""
    lines = [line for line in text.split("\n") if line.strip()]
    try:
        heads = [json.loads(line).get("type") == "session" for line in lines]
    except (ValueError, AttributeError):
        return True
    return heads[:1] != [True] or any(heads[1:])
