"""grep: lines that match, in the files of a folder."""

from typing import Annotated

from pydantic import Field

from toolcrib import Ctx, Result, tool
from toolcrib.files import Search

from ._text import (
    JUDGED_NOTE,
    MAX_SEARCH_BYTES,
    attribute_names,
    count_of,
    escape_name,
    find_same_name,
    name_place,
    render_rows,
    shorten_line,
    take_fitting,
    use_existing,
)

_WIDTH, _MAX_ROWS = 500, 10_000
_CUT = "… [cut]"


@tool(
    group="fs",
    effects={"read"},
    paths=("path",),
    limit=MAX_SEARCH_BYTES + 2_000,
    aliases={
        "file_path": "path",
        "ignore_case": "ignoreCase",
        "-i": "ignoreCase",
        "-C": "context",
        "head_limit": "limit",
    },
)
async def grep(  # noqa: PLR0913  the parameters of the reference
    ctx: Ctx,
    pattern: Annotated[str, "regular expression"],
    path: Annotated[str, Field(min_length=1, description="folder or file")] = ".",
    glob: Annotated[str | None, "only these files: *.py"] = None,
    ignoreCase: bool = False,  # noqa: N803  as models know it
    literal: Annotated[bool, "pattern is plain text"] = False,
    context: Annotated[int, "lines around each match"] = 0,
    limit: Annotated[int, Field(ge=1)] = 100,
) -> Result:
    """Search the contents of files; shows path:line: text. Skips what .gitignore names. Use find for names."""
    spelled, entry = await use_existing(ctx, path, ctx.workspace.stat)
    cap = min(limit, _MAX_ROWS)
    found = await ctx.workspace.search(
        Search(
            pattern=pattern,
            path=spelled,
            glob=glob or None,
            ignore_case=ignoreCase,
            literal=literal,
            context=max(0, context),
            limit=cap,
        )
    )
    start = 0 if entry.path == "." else len(entry.path) + 1 if entry.kind == "folder" else entry.path.rfind("/") + 1
    rows = take_fitting(
        _row(escape_name(line.path[start:]), line.number, line.text, line.matched) for line in found.lines
    )
    cut = any(len(line.text) > _WIDTH for line in found.lines[: len(rows)])
    matches = sum(line.matched for line in found.lines)
    notes = {
        f"{matches} matches shown and there are more; limit={min(2 * cap, _MAX_ROWS)} shows more of them": found.more,
        f"some lines are cut after {_WIDTH} characters; read shows them whole": cut,
        f"hard-linked files with matches that were left out: {found.linked}": found.linked,
        f"files and folders that could not be read: {found.unreadable}": found.unreadable,
        JUDGED_NOTE: found.judged,
    }
    details = {
        "path": entry.path,
        "matches": matches,
        "files": len({line.path for line in found.lines}),
        "more": found.more,
        "cut": cut,
        "lines": len(found.lines),
        "shown": len(rows),
        "linked": found.linked,
        "unreadable": found.unreadable,
    }
    names = dict.fromkeys(line.path for line in found.lines)
    text = render_rows(rows, len(found.lines), "no matches", notes)
    place, files = name_place(entry.path), len({line.path for line in found.lines})
    head = f"{count_of(matches, 'match', 'matches')} in {count_of(files, 'file', 'files')} of {place}:"
    if not rows:
        same = await find_same_name(ctx, pattern) if entry.kind == "folder" else (entry.path,)
        how = f"Use read to see {escape_name(same[0])}." if same else "Try another word."
        head = f"No line of {place} matches. {how}"
    end = "That is all." if rows and len(rows) == len(found.lines) and not found.more else ""
    return Result.text(text, details=details, source=attribute_names(names), head=head, end=end)


def _row(path: str, number: int, text: str, matched: bool) -> str:
    sign = ":" if matched else "-"
    return f"{path}{sign}{number}{sign} {shorten_line(text, _WIDTH, _CUT)}"
