"""ls: what is in a folder."""

from typing import Annotated

from pydantic import Field

from toolcrib import Ctx, Result, ToolError, tool
from toolcrib.files import Entry

from ._text import MAX_SEARCH_BYTES, attribute_names, count_of, escape_name, name_place, take_fitting, use_existing


@tool(group="fs", effects={"read"}, aliases={"file_path": "path"}, paths=("path",), limit=MAX_SEARCH_BYTES + 1_000)
async def ls(
    ctx: Ctx,
    path: Annotated[str, Field(min_length=1)] = ".",
    limit: Annotated[int, Field(ge=1, le=10_000)] = 500,
) -> Result:
    """List a folder. Use find to search below it."""
    try:
        found, listing = await use_existing(ctx, path, lambda each: ctx.workspace.list(each, most=limit))
    except ToolError as error:
        if error.code == "not_folder":
            raise ToolError(f"{path!r} is not a folder; use read for a file", code="not_folder") from None
        raise
    rows = take_fitting(map(_row, listing.entries))
    left = listing.total - len(rows)
    details = {"path": found, "entries": len(rows), "left": left}
    if not listing.total:
        return Result.text("[the folder is empty]", details=details)
    if left:
        fits = len(rows) == len(listing.entries)
        how = f"limit={min(listing.total, 10_000)} shows more" if fits else "use find to see those of a name"
        rows.append(f"\n[{len(rows)} of {listing.total} entries shown; {how}]")
    names = (f"{entry.name}\n{entry.target or ''}" for entry in listing.entries)
    head = f"{name_place(found)} has {count_of(listing.total, 'entry', 'entries')}:"
    end = "" if left else f"That is all of {name_place(found)}."
    return Result.text("\n".join(rows), details=details, source=attribute_names(names), head=head, end=end)


def _row(entry: Entry) -> str:
    name = escape_name(entry.name)
    if entry.kind == "folder":
        return f"{name}/"
    if entry.kind == "link":
        return f"{name} -> {escape_name(entry.target or '')} (leads nowhere inside the workspace)"
    return f"{name} (a pipe, socket or device)" if entry.kind == "other" else name
