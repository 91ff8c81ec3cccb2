"""memory_get: read lines of a file that memory_search named."""

from collections.abc import Mapping
from posixpath import normpath
from typing import Any

from toolcrib import Ctx, Result, ToolError, tool

# `from` is a word of Python's, so the parameters are written as the schema that models see.
_PARAMETERS: Mapping[str, Any] = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "as memory_search names it"},
        "from": {"type": "integer", "minimum": 1, "description": "first line, from 1"},
        "lines": {"type": "integer", "minimum": 1, "description": "how many, at most 2000"},
    },
    "required": ["path"],
}


@tool(group="memory", effects={"read"}, requires=("setting:memory",), parameters=_PARAMETERS, paths=("path",))
async def memory_get(ctx: Ctx, args: Mapping[str, Any]) -> Result:
    """Read a note that memory_search found, or MEMORY.md, whole or some lines of it."""
    path = str(args["path"])
    if ctx.workspace.is_shut(normpath(path.strip().replace("\\", "/"))):  # as memory takes it
        raise ToolError(f"a rule about this call keeps it from {path[:200]!r}", code="denied")
    asked = {"path": path, "first": args.get("from"), "lines": args.get("lines")}
    try:
        note = await ctx.rpc("memory.get", {name: value for name, value in asked.items() if value is not None})
    except ToolError as error:
        if error.code != "unavailable":
            raise
        details = {"path": path, "text": "", "disabled": True}
        return Result.error(str(error), code=error.code, details=details)
    if not note["text"]:
        return Result.text("There is nothing there.", details=note)
    end = f"More follows from line {note['next']}." if "next" in note else ""
    details = {name: each for name, each in note.items() if name != "origin"}
    return Result.text(note["text"], source=note.get("origin", f"memory:{note['path']}"), details=details, end=end)
