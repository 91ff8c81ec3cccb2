"""read: a text file by lines, or a picture. Whole lines, never more than fit, with a word on what is left."""

import asyncio
from typing import Annotated

from pydantic import Field

from toolcrib import Ctx, Image, Result, ToolError, tool
from toolcrib.files import Passage
from toolcrib.tools._media import detect_encoding, file_kind, fit_picture, format_size, is_binary

from ._text import count_of, escape_name, first_lines, use_existing

_MAX_LINES, _MAX_BYTES = 2_000, 50 << 10
_HEAD_BYTES, _MAX_DECODED_BYTES = 8 << 10, 8 << 20
_OTHER_FORMATS = "use exec with a program that knows the format to look inside"


@tool(group="fs", effects={"read"}, aliases={"file_path": "path"}, paths=("path",), limit=_MAX_BYTES + 1_000)
async def read(
    ctx: Ctx,
    path: str,
    offset: Annotated[int | None, "first line, from 1"] = None,
    limit: Annotated[int | None, Field(ge=1, description="lines, at most 2000")] = None,
) -> Result:
    """Read a text file or look at a picture. A long file comes in parts, and says how to go on."""
    workspace = ctx.workspace
    try:
        found, head = await use_existing(ctx, path, lambda each: workspace.read(each, 0, _HEAD_BYTES))
    except ToolError as error:
        if error.code == "is_folder":
            raise ToolError(f"{path!r} is a folder; use ls to see what is in it", code="is_folder") from None
        raise
    mime = Image.mime_of(head)
    if mime is not None:
        return await _picture(ctx, found, mime)
    first, count = max(1, offset or 1), _MAX_LINES if limit is None else min(limit, _MAX_LINES)
    encoding = detect_encoding(head)
    if encoding is not None:
        return await _read_decoded(ctx, found, encoding, first, count, limit)
    if is_binary(head):
        entry = await workspace.stat(found)
        text = f"[{escape_name(found)} is {file_kind(head)}, {format_size(entry.size)}, not text; {_OTHER_FORMATS}]"
        return Result.text(text, details={"path": entry.path, "kind": "binary", "bytes": entry.size})
    passage = await workspace.lines(found, first, count, _MAX_BYTES)
    workspace.note(passage.entry)
    return _text(passage, passage.data.decode("utf-8", "replace"), limit)


async def _picture(ctx: Ctx, path: str, mime: str) -> Result:
    data = await ctx.workspace.read(path)
    try:
        picture = await asyncio.to_thread(fit_picture, data, mime)
    except ToolError as error:
        details = {"path": path, "kind": "image", "bytes": len(data), "shown": False}
        return Result.text(f"[{escape_name(path)} is a picture that cannot be shown: {error}]", details=details)
    width, height = picture.sides
    details = {"kind": "image", "bytes": len(data), "shown": True, "width": width, "height": height}
    return Result.image(picture.data, mime=picture.mime, label=picture.note, path=path, details=details)


async def _read_decoded(ctx: Ctx, path: str, encoding: str, first: int, count: int, limit: int | None) -> Result:
    """Return lines of a file whose line ends are not bytes of their own."""
    entry = await ctx.workspace.stat(path)
    if entry.size > _MAX_DECODED_BYTES:
        raise ToolError(
            f"{path!r} is {encoding.upper()} and has {format_size(entry.size)}; beyond "
            f"{format_size(_MAX_DECODED_BYTES)} only UTF-8 can be read by lines, so convert it first",
            code="too_large",
        )
    text = (await ctx.workspace.read(path)).decode(encoding, "replace")
    rows = text.split("\n")
    rest = "\n".join(rows[first - 1 :])
    cut = first_lines(rest, count, _MAX_BYTES)
    total = len(rows) - (rows[-1] == "")
    passage = Passage(
        data=b"", first=first, count=cut.count, more=cut.by is not None, total=total, entry=entry,
        long=len(rows[first - 1].encode("utf-8", "replace")) if cut.by == "bytes" and not cut.count else None,
    )  # fmt: skip
    ctx.workspace.note(entry)
    return _text(passage, cut.text, limit, encoding)


def _text(passage: Passage, text: str, limit: int | None, encoding: str = "utf-8") -> Result:
    entry, last = passage.entry, passage.first + passage.count - 1
    if not passage.count and not passage.more and passage.first > 1:
        raise ToolError(
            f"{entry.path!r} has {passage.total} lines; offset {passage.first} is behind its end", code="bad_arguments"
        )
    by = _cut_by(passage, limit)
    following = last + 1 if passage.more and passage.long is None else None
    details = {
        "path": entry.path, "kind": "text", "bytes": entry.size, "first": passage.first, "lines": passage.count,
        "total": passage.total, "next": following, "cut": by, "encoding": encoding,
    }  # fmt: skip
    notes = _notes(passage, by, text, encoding)
    gap = "" if not notes or not text else "\n" if text.endswith("\n") else "\n\n"
    text += gap + "\n".join(f"[{note}]" for note in notes)
    end = f"That is all of {escape_name(passage.entry.path)}." if passage.count and not passage.more else ""
    if by == "limit" and passage.total and passage.total <= _MAX_LINES:
        end = "Leave out offset and limit to read all of it at once."
    return Result.text(text, details=details, head=_headline(passage), end=end)


def _headline(passage: Passage) -> str:
    name, last = escape_name(passage.entry.path), passage.first + passage.count - 1
    if not passage.count:
        return f"{name} is empty." if not passage.more else ""
    if passage.first == 1 and not passage.more:
        return f"{name} has {count_of(passage.count, 'line', 'lines')}:"
    return f"Lines {passage.first} to {last} of {passage.total or 'many'} in {name}:"


def _cut_by(passage: Passage, limit: int | None) -> str | None:
    """Return what ended the passage before the file did."""
    if not passage.more:
        return None
    if passage.long is not None:
        return "line"
    if limit is not None and passage.count >= limit:
        return "limit"
    return "lines" if passage.count >= _MAX_LINES else "bytes"


def _notes(passage: Passage, by: str | None, text: str, encoding: str) -> list[str]:
    notes = []
    last, total = passage.first + passage.count - 1, passage.total
    if by == "line":
        notes.append(
            f"line {passage.first} alone has {format_size(passage.long or 0)}, more than the {format_size(_MAX_BYTES)} "
            f"shown at once; go on behind it with offset={passage.first + 1}, or search in it with grep"
        )
    elif by is not None:
        left = "more follow" if total is None else f"{total - last} more" if total - last > 1 else "1 more"
        seen = f"lines {passage.first}-{last}" if passage.count else "no lines"
        why = f" ({format_size(_MAX_BYTES)} at once)" if by == "bytes" else ""
        notes.append(f"{seen} of {total or 'many'} shown{why}, {left}; go on with offset={last + 1}")
    if encoding != "utf-8":
        notes.append(f"the file is {encoding.upper()}, shown here as text")
    elif (bad := text.count("\ufffd")) and by != "line":
        notes.append(f"\ufffd stands for what is not UTF-8 ({bad} times); the file itself keeps its bytes")
    return notes
