"""What the file tools share: sizes, cuts to whole lines, other spellings of a path, the rows of a search.

A workspace takes a path as it stands. Models copy paths from where people see them: with a no-break space, an
apostrophe in the wrong form, letters composed in the other way, an `@` in front. A file that is not there under the
path as written is looked for under those spellings.
"""

import asyncio
import difflib
import re
import unicodedata
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, TypeVar

from toolcrib import Ctx, ToolError
from toolcrib.files import Find, defuse
from toolcrib.lazy import dataclass, regex
from toolcrib.tools._media import format_size

_GLOB_SIGNS = frozenset("*?[]{}!\\")
_LOOK_SECONDS, _MAX_SAME_NAMES = 2.0, 3


_ROW = regex(r"[^\n]*\n|[^\n]+")


@dataclass(frozen=True, slots=True)
class LineCut:
    """What is left of a text: `count` of its `total` lines, and what ended it. `partial` when it begins in a line."""

    text: str
    count: int
    total: int
    by: Literal["lines", "bytes"] | None = None
    partial: bool = False


def first_lines(text: str, max_lines: int, max_bytes: int) -> LineCut:
    """Return the first whole lines: at most `most`, at most `size` bytes of UTF-8 without the end of the last."""
    rows = _ROW.findall(text)
    count = _count_fitting(rows, max_lines, max_bytes)
    if count == len(rows):
        return LineCut(text, count, count)
    kept = "".join(rows[:count]).removesuffix("\n")
    return LineCut(kept, count, len(rows), "lines" if count >= max_lines else "bytes")


def take_last_lines(text: str, max_lines: int, max_bytes: int) -> LineCut:
    """Return the last whole lines that fit; of a last line that does not fit alone, its end."""
    rows = _ROW.findall(text)
    count = _count_fitting(rows[::-1], max_lines, max_bytes)
    if count == len(rows):
        return LineCut(text, count, count)
    if count or max_lines < 1:
        return LineCut("".join(rows[len(rows) - count :]), count, len(rows), "lines" if count >= max_lines else "bytes")
    end = rows[-1].encode("utf-8", "surrogatepass")[-max_bytes:] if max_bytes > 0 else b""
    return LineCut(end.decode("utf-8", "ignore"), 1, len(rows), "bytes", partial=True)


def shorten_line(line: str, width: int, mark: str) -> str:
    """Return the line, or so many of its characters and the mark."""
    return line if len(line) <= width else line[:width] + mark


def _count_fitting(rows: list[str], max_lines: int, max_bytes: int) -> int:
    """Return how many of the rows fit, counted from the first."""
    left = max_bytes + 1  # the end of one line is free
    for index, row in enumerate(rows[: max(max_lines, 0)]):
        left -= len(row.encode("utf-8", "surrogatepass")) + (not row.endswith("\n"))
        if left < 0:
            return index
    return min(len(rows), max(max_lines, 0))


T = TypeVar("T")

_SPACES = regex("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_CLOCK = regex(r" (AM|PM)\b", re.IGNORECASE)


def require_path(path: str) -> str:
    """Return the path; refuse one that is blank."""
    if not path.strip():
        raise ToolError("the path is empty; name a file in the workspace", code="bad_path")
    return path


def encode_text(name: str, text: str, code: str = "bad_arguments") -> bytes:
    """Return the bytes of a text for a file; refuse one that holds half a character, telling its name."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        what = f"{name} holds half a character at position {error.start}, which no file has; write it whole"
        raise ToolError(what, code=code) from None


def normalize_spaces(path: str) -> str:
    """Return the path with every kind of space as a plain one."""
    return _SPACES.sub(" ", path)


async def use_existing(ctx: Ctx, path: str, use: Callable[[str], Awaitable[T]]) -> tuple[str, T]:
    """Use the path, or the first other spelling of it that exists; say what is near when none does."""
    try:
        return path, await use(require_path(path))
    except ToolError as error:
        if error.code != "not_found":
            raise
        first = error
    # a model that knows the folder's name may write it before the path
    folder = f"{ctx.ports.folder.rpartition('/')[2]}/"
    inside = [path.removeprefix(folder)] if path.startswith(folder) and len(path) > len(folder) else []
    for other in (*_spellings(path), *inside):
        try:
            return other, await use(other)
        except ToolError as error:
            if error.code not in ("not_found", "denied", "bad_path"):
                raise
    raise await _with_names(ctx, path, first)


async def choose_spelling(ctx: Ctx, path: str, known: Collection[str] = ()) -> str:
    """Return the path in the spelling of a file that is there or `known`; with plain spaces when none is."""
    for each in (require_path(path), *_spellings(path)):
        if each in known:
            return each
        with suppress(ToolError):  # not there, or not to be reached: using the path fails with the reason
            await ctx.workspace.stat(each)
            return each
    return normalize_spaces(path)


def escape_name(name: str) -> str:
    """Return a name as it can be printed: on one line, undecodable bytes escaped, nothing that passes for a mark."""
    text = name.encode("utf-8", "backslashreplace").decode()
    return defuse("".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text))


def name_place(path: str) -> str:
    """Return a folder as a headline names it."""
    return "the workspace" if path == "." else escape_name(path)


def count_of(count: int, one: str, many: str) -> str:
    """Return how many of something there are, in words."""
    return f"{count:,} {one if count == 1 else many}"


def attribute_names(names: Iterable[str]) -> str | None:
    """Return what a result with these names has as its source: whoever names files may mean to be read as a mark."""
    shown = "\n".join(names)
    return "file names" if defuse(shown) != shown else None


def _spellings(path: str) -> list[str]:
    """Return the other spellings of a path, likeliest first."""
    plain = normalize_spaces(path).removeprefix("@")
    clock = _CLOCK.sub("\u202f\\1", plain)  # how screenshots are named on a Mac
    composed = [unicodedata.normalize(form, plain) for form in ("NFC", "NFD")]
    curly = [each.replace("'", "\u2019") for each in (plain, *composed)]
    return [each for each in dict.fromkeys((plain, clock, *composed, *curly)) if each and each != path]


async def _with_names(ctx: Ctx, path: str, error: ToolError) -> ToolError:
    """Return the error with the names that are nearest to the one that is missing, or where else its name is."""
    folder, _, name = path.rstrip("/").rpartition("/")
    try:
        listing = await ctx.workspace.list(folder or ("/" if path.startswith("/") else "."), most=2_000)
        names = {entry.name.casefold(): entry.path for entry in listing.entries}
    except ToolError:
        try:
            folder, names, listing = "", {}, await ctx.workspace.list(".", most=2_000)
        except ToolError:
            return error
    stem = name.casefold().partition(".")[0]  # `prices.md` is like `rules.md` in nothing but its ending
    near = [
        each
        for each in difflib.get_close_matches(name.casefold(), names, n=3, cutoff=0.65)
        if difflib.SequenceMatcher(None, stem, each.partition(".")[0]).ratio() >= 0.6
    ]
    sentence = str(error).partition("; ")[0]
    if shown := [names[each] for each in near]:
        message = f"{sentence}; did you mean {' or '.join(map(repr, shown))}?"
        return ToolError(message, code=error.code, source=attribute_names(shown), for_model=_advise(path, shown))
    same = await find_same_name(ctx, name)
    sentence += f"; there is {' and '.join(map(repr, same))}" if same else ""
    where = repr(folder) if folder else "the workspace"
    shown = [entry.name for entry in listing.entries[:8]]
    some = ", ".join(map(escape_name, shown))
    more = f" and {listing.total - 8} more" if listing.total > 8 else ""
    source = attribute_names((*same, *shown))
    held = f"{where} holds {some + more if some else 'nothing'}"
    message = f"{sentence}; {held}"
    advice = _advise(path, same) or f'The path "{path}" does not exist; {held}. Do not try again; tell the user.'
    return ToolError(message, code=error.code, source=source, for_model=advice)


def _advise(path: str, others: Sequence[str]) -> str:
    """Return the advice to a model about a missing path: what to write instead."""
    return f'The path "{path}" does not exist. Use the path "{others[0]}" instead.' if len(others) == 1 else ""


async def find_same_name(ctx: Ctx, name: str) -> tuple[str, ...]:
    """Return where else in the workspace something has this name; nobody waits long for it."""
    if not name or not _GLOB_SIGNS.isdisjoint(name):
        return ()
    try:
        async with asyncio.timeout(_LOOK_SECONDS):
            return (await ctx.workspace.find(Find(pattern=name, limit=_MAX_SAME_NAMES))).paths
    except (ToolError, TimeoutError):
        return ()


MAX_SEARCH_BYTES = 50 << 10
JUDGED_NOTE = "what a rule denies to this call is left out"


def take_fitting(rows: Iterable[str]) -> list[str]:
    """Return the first rows, as many as fit."""
    kept: list[str] = []
    room = MAX_SEARCH_BYTES
    for row in rows:
        room -= len(row.encode("utf-8", "replace")) + (1 if kept else 0)
        if room < 0:
            break
        kept.append(row)
    return kept


def render_rows(rows: list[str], total: int, what: str, notes: Mapping[str, object]) -> str:
    """Return the rows (or `what` stands for none), the word on those that did not fit, and the notes that hold."""
    remarks = [note for note, holds in notes.items() if holds]
    if len(rows) < total:
        remarks.insert(0, f"{format_size(MAX_SEARCH_BYTES)} shown, {len(rows)} of {total} rows; narrow the search")
    text = "\n".join(rows) or f"[{what}]"
    return f"{text}\n\n[{'; '.join(remarks)}]" if remarks else text
