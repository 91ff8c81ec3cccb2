"""pi-session-compaction on agent/session_log.py, agent/compact.py and backends/stores/sessions_json.py.

An entry of theirs is a line of ours: a message is said, and so is what a plugin adds for the model; what it keeps for
itself is noted, and so is the level of thinking, which is no part of our log.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from toolcrib.agent.compact import Cut, cut_point, file_lists, files_of, is_due, render_files, transcript
from toolcrib.agent.session_log import recall
from toolcrib.backends.stores.sessions_json import read_log, write_log
from toolcrib.define.log import Body, Labelled, Line, Noted, Said, SessionHead, Shortened, Switched
from toolcrib.define.message import Call, Finish, Message, Part, Thinking, join_text
from toolcrib.define.model import estimate
from toolcrib.define.result import Image, Text

from .load import Case
from .outcome import Refused, Same

Json = dict[str, Any]

_FINISHES: dict[str, Finish] = {"stop": "stop", "toolUse": "calls", "length": "length", "aborted": "aborted"}
_LONGEST = 2_000  # characters of an answer
_SPEAKERS = re.compile(
    r"(?ms)^\[(User|Assistant|Assistant thinking|Assistant tool calls|Tool result)\]: (.*?)(?=\n\n\[[A-Z]|\Z)"
)
_SPOKEN_BY = {"User": "USER", "Assistant": "ASSISTANT", "Assistant tool calls": "CALL", "Tool result": "RESULT"}
_SPOKEN = {"custom_message": "custom", "branch_summary": "branchSummary"}


def _part(block: Json) -> Part:
    match block["type"]:
        case "image":
            return Image(block.get("data", "").encode(), block.get("mimeType", "image/png"))
        case "thinking":
            return Thinking(block["thinking"])
        case _:
            return Text(block["text"])


def _message(said: Json) -> Message:
    """Return a message of theirs as ours; what only they have is in words of a user."""
    content = said.get("content", said.get("summary", said.get("command", "") + said.get("output", "")))
    blocks: list[Json] = [{"type": "text", "text": content}] if isinstance(content, str) else content
    parts = tuple(_part(block) for block in blocks if block["type"] != "toolCall")
    calls = tuple(Call(each["id"], each["name"], each["arguments"]) for each in blocks if each["type"] == "toolCall")
    match said["role"]:
        case "assistant":
            by = f"{said['provider']}/{said['model']}" if "model" in said else ""
            finish = _FINISHES.get(said.get("stopReason", "stop"), "error")
            return Message(role="assistant", content=parts, calls=calls, finish=finish, by=by)
        case "toolResult":
            return Message(role="tool", content=parts, call_id=said["toolCallId"])
        case _:
            return Message(role="user", content=parts)


def _body(entry: Json) -> Body:
    match entry["type"]:
        case "message":
            return Said(_message(entry["message"]))
        case "branch_summary" if not entry["summary"]:
            return Noted("branch_summary", entry)
        case "custom_message" | "branch_summary":
            return Said(_message({"role": "user", **entry}))
        case "compaction":
            return Shortened(entry["summary"], entry["firstKeptEntryId"], entry["tokensBefore"])
        case "model_change":
            return Switched(f"{entry['provider']}:{entry['modelId']}")
        case "session_info":
            return Labelled(entry["name"])
        case "thinking_level_change":
            return Noted("thinking", entry["thinkingLevel"])
        case kind:
            return Noted(kind, entry)


def _lines(entries: Sequence[Json]) -> list[Line]:
    return [Line(entry["id"], entry.get("parentId"), 0.0, _body(entry)) for entry in entries]


def _role(entry: Json) -> str:
    return _SPOKEN.get(entry["type"]) or str(entry["message"]["role"])


def _context(args: Json) -> Json:
    entries = {entry["id"]: entry for entry in args["entries"]}
    leaf = args.get("leafId", "") or ("" if "leafId" in args else None)
    found = recall(_lines(args["entries"]), leaf)
    told = [f"compactionSummary:{found.summary}"] if found.summary else []
    for id, message in zip(found.ids[len(told) :], found.history.since(len(told)), strict=True):
        if id:  # what is said in place of a lost answer is no entry
            told.append(f"{_role(entries[id])}:{join_text(message)}")
    thinking, model = "off", None
    for line in found.path:  # theirs is the model that was chosen or has answered last
        match line.body:
            case Noted(name="thinking", data=level):
                thinking = level
            case Switched(model=name):
                model = name.split(":", 1)
            case Said(message=message) if message.by:
                model = message.by.split("/", 1)
    return {
        "roles": told,
        "thinkingLevel": thinking,
        "model": model and {"provider": model[0], "modelId": model[1]},
    }


def _parsed(args: Json) -> list[str]:
    """Read a file of theirs: each entry is written as ours is, what is none stays as it is."""
    texts: list[str] = []
    kinds: list[str] = []
    for text in args["text"].split("\n"):
        if not text.strip():
            continue
        try:
            entry = json.loads(text)
        except ValueError:
            entry = None
        if not isinstance(entry, dict):
            texts.append(text)
            continue
        kinds.append(entry["type"])
        head, *lines = write_log(
            SessionHead(key="agent:main:main", made_at=0.0, changed_at=0.0),
            [] if entry["type"] == "session" else _lines([entry]),
        )
        texts += lines or [head]
    _, lines_read = read_log(texts)
    return kinds if len(lines_read) == len(kinds) - 1 else []


def _cut(entries: Sequence[Json], start: int, end: int, keep: int) -> tuple[Cut, int]:
    """Return our cut as places of entries, and the first entry to stay: one that is no message goes with the next."""
    places = [at for at in range(start, end) if isinstance(_body(entries[at]), Said)]
    messages = [body.message for at in places if isinstance(body := _body(entries[at]), Said)]
    if not messages:
        return Cut(start, start), start
    found = cut_point(messages, keep)
    at = first = places[found.at]
    while first > start and first - 1 not in places and entries[first - 1]["type"] != "compaction":
        first -= 1
    return Cut(at, places[found.turn]), first


def _cut_point(args: Json) -> Json:
    cut, first = _cut(args["entries"], args["start"], args["end"], args["keepRecentTokens"])
    return {
        "firstKeptEntryIndex": first,
        "turnStartIndex": cut.turn if cut.is_inside else -1,
        "isSplitTurn": cut.is_inside,
    }


def _prepared(args: Json) -> Json | None:
    entries = args["entries"]
    if not entries or entries[-1]["type"] == "compaction":
        return None
    start = recall(_lines(entries)).start
    cut, first = _cut(entries, start, len(entries), args["keepRecentTokens"])
    return {
        "firstKeptEntryId": entries[first]["id"],
        "summarise": _roles(entries[start : cut.turn]),
        "prefix": _roles(entries[cut.turn : cut.at]),
        "split": cut.is_inside,
    }


def _roles(entries: Sequence[Json]) -> list[str]:
    return [_role(entry) for entry in entries if isinstance(_body(entry), Said)]


def _due(args: Json) -> bool:
    settings = args["settings"]
    return is_due(args["tokens"], args["window"], settings["reserveTokens"], enabled=settings["enabled"])


def _files(args: Json) -> Json:
    files = file_lists(args["read"], [*args["written"], *args["edited"]])
    return {"readFiles": files.read, "modifiedFiles": files.changed}


def _listed(args: Json) -> str:
    """Write both lists at the end of a summary, read them back, and put them into the recorded words."""
    files = files_of((), f"what was done\n\n{render_files(file_lists(args['readFiles'], args['modifiedFiles']))}")
    parts = [
        f"<{name}>\n{chr(10).join(names)}\n</{name}>"
        for name, names in (("read-files", files.read), ("modified-files", files.changed))
        if names
    ]
    return "".join(f"\n\n{part}" for part in parts)


def _serialized(args: Json) -> str:
    return transcript(map(_message, args["messages"]), _LONGEST)


def _same_conversation(case: Case, ours: Any) -> str:
    """Compare who speaks when, and that every word of theirs is in ours; thoughts are not repeated by us."""
    if isinstance(ours, Refused):
        return f"ours is an error: {ours.message}"
    theirs = [(who, text) for who, text in _SPEAKERS.findall(case.expected) if who != "Assistant thinking"]
    spoken = re.findall(r"(?m)^(USER|ASSISTANT|CALL|RESULT)\b", ours)
    wanted = [
        _SPOKEN_BY[who]
        for who, text in theirs
        for _ in range(len(re.findall(r"\w+\(", text)) if who == "Assistant tool calls" else 1)
    ]
    if spoken != wanted:
        return f"ours has {spoken} where {wanted} speak"
    words = [word for _, text in theirs for word in re.findall(r"\w+", text)]
    missing = [word for word in words if word not in ours]
    return f"ours lacks {missing}" if missing else ""


def _migrated(args: Json) -> Any:
    """Read the entries as a session of ours: that is what we would do with such a file."""
    return [line.id for line in read_log(map(json.dumps, args["entries"]))[1]]


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "pi.buildSessionContext": _context,
    "pi.computeFileLists": _files,
    "pi.estimateTokens": lambda args: estimate(_message(args["message"])),
    "pi.findCutPoint": _cut_point,
    "pi.formatFileOperations": _listed,
    "pi.migrateSessionEntries": _migrated,
    "pi.parseSessionEntries": _parsed,
    "pi.prepareCompaction": _prepared,
    "pi.serializeConversation": _serialized,
    "pi.shouldCompact": _due,
}
SAME: dict[str, Same] = {"pi.serializeConversation": _same_conversation}
