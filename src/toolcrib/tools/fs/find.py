"""find: files and folders by name."""

from typing import Annotated

from pydantic import Field

from toolcrib import Ctx, Result, ToolError, tool
from toolcrib.files import Find

from ._text import (
    JUDGED_NOTE,
    MAX_SEARCH_BYTES,
    attribute_names,
    count_of,
    escape_name,
    name_place,
    render_rows,
    take_fitting,
    use_existing,
)

_MAX_NAMES = 100_000


@tool(
    group="fs",
    effects={"read"},
    aliases={"glob": "pattern", "file_path": "path"},
    paths=("path",),
    limit=MAX_SEARCH_BYTES + 2_000,
)
async def find(
    ctx: Ctx,
    pattern: Annotated[str, "glob: *.py"],
    path: Annotated[str, Field(min_length=1)] = ".",
    limit: Annotated[int, Field(ge=1)] = 1_000,
) -> Result:
    """Find files and folders by name. Skips what .gitignore names. Use grep for contents."""
    if not pattern.strip():
        raise ToolError("the pattern is empty; give a glob such as *.py", code="bad_arguments")
    spelled, entry = await use_existing(ctx, path, ctx.workspace.stat)
    cap = min(limit, _MAX_NAMES)
    found = await ctx.workspace.find(Find(pattern=pattern, path=spelled, limit=cap))
    start = 0 if entry.path == "." else len(entry.path) + 1
    rows = take_fitting(escape_name(name[start:]) for name in found.paths)
    notes = {
        f"{cap} results shown and there are more; limit={min(2 * cap, _MAX_NAMES)} shows more of them": found.more,
        f"folders that could not be read: {found.unreadable}": found.unreadable,
        JUDGED_NOTE: found.judged,
    }
    details = {
        "path": entry.path,
        "results": len(found.paths),
        "shown": len(rows),
        "more": found.more,
        "unreadable": found.unreadable,
    }
    text = render_rows(rows, len(found.paths), "nothing has such a name", notes)
    place, end = name_place(entry.path), ""
    head = f"{count_of(len(found.paths), 'name', 'names')} found in {place}:"
    if not rows:
        head = f"No name in {place} matches. Use grep to search what files hold."
    elif len(rows) == len(found.paths) and not found.more:
        end = "That is all. Use read to see what a file holds."
    return Result.text(text, details=details, source=attribute_names(found.paths), head=head, end=end)
