"""write: create or overwrite a file, folders above it included."""

from typing import Annotated

from toolcrib import Ctx, Result, ToolError, tool

from ._text import encode_text, escape_name, normalize_spaces, require_path


@tool(group="fs", effects={"write"}, exclusive=True, aliases={"file_path": "path"}, paths=("path",))
async def write(
    ctx: Ctx,
    path: str,
    content: Annotated[str, "all that the file is to hold"],
) -> Result:
    """Create or overwrite a file. Use edit to change a part of one."""
    data = encode_text("the content", content)
    entry = await ctx.workspace.write(await _resolve_meant_path(ctx, require_path(path)), data)
    return Result.text(
        f"wrote {entry.size} bytes to {escape_name(entry.path)}", details={"path": entry.path, "bytes": entry.size}
    )


async def _resolve_meant_path(ctx: Ctx, path: str) -> str:
    """Return the path, with plain spaces unless a file has the others in its name."""
    plain = normalize_spaces(path)
    if plain == path:
        return path
    try:
        await ctx.workspace.stat(path)
    except ToolError:
        return plain
    return path
