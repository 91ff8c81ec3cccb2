"""Spellings of a path that name the same file to a person, and what to say when none of them does.

A workspace takes a path as it stands. Models copy paths from where people see them: with a no-break space, an
apostrophe in the wrong form, letters composed in the other way, an `@` in front. A file that exists under the spelling
given is always meant; another spelling is tried only when there is none.
"""

import difflib
import re
import unicodedata
from collections.abc import Awaitable, Callable
from typing import TypeVar

from toolcrib import Ctx, ToolError

__all__ = ["existing", "named", "shown", "spaced"]

T = TypeVar("T")

_SPACES = re.compile("[\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000]")
_CLOCK = re.compile(r" (AM|PM)\b", re.IGNORECASE)


def named(path: str) -> str:
    """Return the path; refuse one that is blank."""
    if not path.strip():
        raise ToolError("the path is empty; name a file in the workspace", code="bad_path")
    return path


def spaced(path: str) -> str:
    """Return the path with every kind of space as a plain one."""
    return _SPACES.sub(" ", path)


async def existing(ctx: Ctx, path: str, use: Callable[[str], Awaitable[T]]) -> tuple[str, T]:
    """Use the path, or the first other spelling of it that exists; say what is near when none does."""
    try:
        return path, await use(named(path))
    except ToolError as error:
        if error.code != "not_found":
            raise
        first = error
    for other in _spellings(path):
        try:
            return other, await use(other)
        except ToolError as error:
            if error.code not in ("not_found", "denied", "bad_path"):
                raise
    raise await _with_names(ctx, path, first)


def shown(name: str) -> str:
    """Return a name as it can be printed: on one line, undecodable bytes escaped."""
    text = name.encode("utf-8", "backslashreplace").decode()
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


def _spellings(path: str) -> list[str]:
    """Return the other spellings of a path, likeliest first."""
    plain = spaced(path).removeprefix("@") if path.startswith("@") else spaced(path)
    clock = _CLOCK.sub("\u202f\\1", plain)  # how screenshots are named on a Mac
    composed = [unicodedata.normalize(form, plain) for form in ("NFC", "NFD")]
    curly = [each.replace("'", "\u2019") for each in (plain, *composed)]
    return [each for each in dict.fromkeys((plain, clock, *composed, *curly)) if each and each != path]


async def _with_names(ctx: Ctx, path: str, error: ToolError) -> ToolError:
    """Return the error with the names that are nearest to the one that is missing."""
    folder, _, name = path.rstrip("/").rpartition("/")
    try:
        listing = await ctx.workspace.list(folder or ("/" if path.startswith("/") else "."), most=2_000)
    except ToolError:
        return error
    names = {entry.name.casefold(): entry.path for entry in listing.entries}
    near = difflib.get_close_matches(name.casefold(), names, n=3, cutoff=0.65)
    sentence = str(error).partition("; ")[0]
    if near:
        return ToolError(
            f"{sentence}; did you mean {' or '.join(repr(names[each]) for each in near)}?", code=error.code
        )
    where = repr(folder) if folder else "the workspace"
    some = ", ".join(shown(entry.name) for entry in listing.entries[:8])
    more = f" and {listing.total - 8} more" if listing.total > 8 else ""
    return ToolError(f"{sentence}; {where} holds {some + more if some else 'nothing'}", code=error.code)
