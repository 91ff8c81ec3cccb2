"""result_get: page through a result that was cut. The whole was kept as a blob; its key stands where the cut was."""

import json
from typing import Annotated

from pydantic import Field

from toolcrib import Ctx, Result, ToolError, tool


@tool(group="sessions", effects={"read"}, limit=100_000, late="a result was too long to be shown whole")
async def result_get(
    ctx: Ctx,
    key: Annotated[str, "told where it was cut"],
    offset: Annotated[int, Field(ge=0, description="characters to skip")] = 0,
    limit: Annotated[int, Field(ge=1, le=50_000, description="characters to return")] = 8_000,
) -> Result:
    """Read more of a result that was cut."""
    kept = json.loads(await ctx.blobs.get(key.strip()))
    text, source = kept["text"], kept["source"]
    page = text[offset : offset + limit]
    if not page and offset:
        raise ToolError(
            f"the result has {len(text)} characters; offset {offset} is behind its end", code="bad_arguments"
        )
    left = len(text) - offset - len(page)
    more = f"\n[{left} characters are left; go on with offset {offset + len(page)}]" if left else ""
    return Result(content=(*Result.text(page, source=source).content, *(Result.text(more).content if more else ())))
