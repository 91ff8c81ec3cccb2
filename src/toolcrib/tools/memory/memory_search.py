"""memory_search: find what was noted in earlier conversations."""

from typing import Annotated

from pydantic import Field

from toolcrib import Ctx, Result, Text, ToolError, tool


@tool(group="memory", effects={"read"}, requires=("setting:memory",), paths=("path",))
async def memory_search(
    ctx: Ctx,
    query: Annotated[str, Field(min_length=1, max_length=4_000)],
    maxResults: Annotated[int | None, Field(ge=1, le=50, description="6 when left out")] = None,  # noqa: N803  as models know it
    minScore: Annotated[float | None, Field(ge=0, le=1)] = None,  # noqa: N803
) -> Result:
    """Search notes of earlier conversations (MEMORY.md, memory/*.md) for what is known of people, plans, decisions."""
    asked = {"query": query, "maxResults": maxResults, "minScore": minScore}
    try:
        answer = await ctx.rpc("memory.search", {name: value for name, value in asked.items() if value is not None})
    except ToolError as error:
        if error.code != "unavailable":
            raise
        return Result.error(str(error), code=error.code, details={"results": [], "disabled": True})
    how = "by words alone" if answer["provider"] == "none" else "by words and meaning"
    # a rule by path leaves out what it denies, as in a search of files
    found = [each for each in answer["results"] if not ctx.workspace.is_shut(each["path"])]
    answer = {**answer, "results": found}
    if not found:
        hint = "; try the words that a note would have" if answer["provider"] == "none" else ""
        return Result.text(f"Nothing was found in memory ({how}){hint}.", details=answer)
    content = tuple(
        Text(
            f"{each['path']}, lines {each['startLine']} to {each['endLine']}:\n{each['snippet']}",
            each.get("origin", f"memory:{each['path']}"),
        )
        for each in found
    )
    return Result(content, answer, head=f"Found {how}, the best first; memory_get reads more of a file:")
