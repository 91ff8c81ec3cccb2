"""What a conversation was about: as text for whoever summarises it, and the files that it read and changed."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from toolcrib.adapter.cut import cut
from toolcrib.define.message import Call, Message, Thinking
from toolcrib.define.names import canonical
from toolcrib.define.result import Image

__all__ = ["Files", "cut_notice", "file_lists", "files_of", "files_told", "transcript", "without_files"]

_EARLIER_CHARS = 3_000
_MOST_FILES = 200

_READ_HEAD, _CHANGED_HEAD = "Files read:", "Files changed:"
_PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)
_PATHS = ("path", "file_path", "filePath")  # a parameter, and how models spell it
_CUT_NOTICE = (
    "(The beginning of this conversation was cut off, and no summary of it could be made. Ask the user where you need "
    "to know more of it; the log of the session keeps every word.)"
)


class Files(NamedTuple):
    """Files that were read and not changed, and files that were changed, each in order."""

    read: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


def transcript(messages: Iterable[Message], longest: int, *, notes: str = "") -> str:
    """Return a conversation as text, with what was noted before it; no answer has more than `longest` characters.

    Only its own headings stand at the beginning of a line, all else is indented: nobody in it can speak for another.
    """
    before = [f"NOTES FROM BEFORE:\n{_indented(notes)}"] if notes else []
    return "\n".join([*before, *_told(messages, longest)])


def cut_notice(earlier: str = "") -> str:
    """Return what stands for a summary that nobody wrote: that there was more, and what was noted before that."""
    notes = earlier.removeprefix(_CUT_NOTICE).lstrip()
    return f"{_CUT_NOTICE}\n\n{_clipped(notes, _EARLIER_CHARS)}" if notes else _CUT_NOTICE


def file_lists(read: Iterable[str], changed: Iterable[str]) -> Files:
    """Return both lists in order; a file that was changed is not among those read."""
    all_changed = set(changed)
    return Files(tuple(sorted(set(read) - all_changed)), tuple(sorted(all_changed)))


def files_of(messages: Sequence[Message], before: str = "") -> Files:
    """Return the files that the calls of a conversation read and changed, and those the summary `before` it names."""
    known = _files_in(before)
    read, changed = list(known.read), list(known.changed)
    failed = {each.call_id for each in messages if each.role == "tool" and each.status == "error"}
    for message in messages:
        for call in message.calls:
            if call.id in failed:
                continue
            match canonical(call.name):
                case "read":
                    read += _paths(call.args)
                case "write" | "edit":
                    changed += _paths(call.args)
                case "apply_patch":
                    patch = call.args.get("input", call.args.get("patch"))
                    changed += _PATCHED.findall(patch) if isinstance(patch, str) else []
    return file_lists(read, changed)


def files_told(files: Files, most: int = _MOST_FILES) -> str:
    """Return both lists as they stand at the end of a summary, so many of each at most."""
    parts = []
    for head, names in ((_READ_HEAD, files.read), (_CHANGED_HEAD, files.changed)):
        if names:
            more = [f"({len(names) - most} more)"] if len(names) > most else []
            parts.append("\n".join([head, *(f"- {name}" for name in names[:most]), *more]))
    return "\n\n".join(parts)


def without_files(summary: str) -> str:
    """Return a summary without the lists at its end."""
    return summary[: _lists_at(summary)].rstrip()


def _lists_at(summary: str) -> int:
    at = len(summary)
    for head in (_CHANGED_HEAD, _READ_HEAD):
        found = summary.rfind(f"\n{head}\n", 0, at)
        at = found if found >= 0 else at
    return at


def _files_in(summary: str) -> Files:
    """Read back what `files_told` wrote."""
    lists: dict[str, list[str]] = {_READ_HEAD: [], _CHANGED_HEAD: []}
    into: list[str] = []
    for line in summary[_lists_at(summary) :].splitlines():
        if line in lists:
            into = lists[line]
        elif line.startswith("- "):
            into.append(line[2:])
    return Files(tuple(lists[_READ_HEAD]), tuple(lists[_CHANGED_HEAD]))


def _paths(args: Mapping[str, Any]) -> list[str]:
    # a name with a line break in it would forge a list
    found = next((args[name] for name in _PATHS if isinstance(args.get(name), str)), "")
    return [found] if found and found.isprintable() else []


def _told(messages: Iterable[Message], longest: int) -> Iterator[str]:
    names: dict[str, str] = {}
    for message in messages:
        words = _words(message)
        match message.role:
            case "tool":
                failed = " (failed)" if message.status == "error" else ""
                yield f"RESULT of {names.get(message.call_id or '', 'a tool')}{failed}:"
                yield _indented(_clipped(words, longest))
            case "assistant":
                if words.strip():
                    yield f"ASSISTANT:\n{_indented(words)}"
                for call in message.calls:
                    names[call.id] = _flat(call.name, 64)
                    yield f"CALL {names[call.id]} {_arguments(call, longest)}"
            case role:
                yield f"{role.upper()}:\n{_indented(words)}"


def _words(message: Message) -> str:
    pieces = []
    for part in message.content:
        if isinstance(part, Image):
            pieces.append(f"[a picture, {part.mime}]")
        elif not isinstance(part, Thinking):
            pieces.append(part.text)
    return "\n".join(pieces)


def _arguments(call: Call, longest: int) -> str:
    return _flat(json.dumps(dict(call.args), default=str, ensure_ascii=False) if call.args else "", longest)


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())


def _flat(text: str, longest: int) -> str:
    return " ".join(_clipped(text, longest).split())


def _clipped(text: str, longest: int) -> str:
    if len(text) <= longest:
        return text
    kept = cut(text, longest)
    return f"{kept}\n[{len(text) - len(kept):,} more characters]"
