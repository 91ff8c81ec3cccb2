"""web_search: ask whom the configuration names, and read what they found."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from toolcrib import Ctx, Result, ToolError, tool

_DOCS = "docs/web-search.md"
# What the model, or whoever sets it up, can mend; programs read these under `error`.
_MENDABLE = (
    "missing_brave_api_key", "missing_perplexity_api_key", "missing_xai_api_key", "unsupported_freshness",
    "invalid_freshness",
)  # fmt: skip


@tool(group="web", effects={"network"}, requires=("setting:web.search",))
async def web_search(  # noqa: PLR0913  as models know it from elsewhere
    ctx: Ctx,
    query: Annotated[str, Field(min_length=1, max_length=4_000)],
    count: Annotated[int | None, Field(ge=1, le=10, description="results, 5 when left out")] = None,
    country: Annotated[str | None, "where results are from: two letters, like DE"] = None,
    search_lang: Annotated[str | None, "their language, like de"] = None,
    ui_lang: Annotated[str | None, "the language of what stands around them, like de-DE"] = None,
    freshness: Annotated[str | None, "pd, pw, pm, py (past day .. year), or 2026-01-01to2026-01-31"] = None,
) -> Result:
    """Search the web for titles, addresses and snippets, or for an answer with its sources."""
    given = {"country": country, "search_lang": search_lang, "ui_lang": ui_lang, "freshness": freshness}
    params = {name: value for name, value in {**given, "count": count}.items() if value}
    try:
        answer = await ctx.rpc("web.search", {"query": query, **params})
    except ToolError as error:
        if error.code not in _MENDABLE:
            raise
        details = {"error": error.code, "message": str(error), "docs": _DOCS}
        return Result.error(str(error), code=error.code, details=details)
    text = _render_answer(answer) if "content" in answer else _render_results(answer["results"])
    if not text:
        return Result.text("Nothing was found; try other words.", details=answer)
    return Result.text(text, source=f"web_search:{answer['provider']}", details=answer)


def _render_results(results: list[Mapping[str, Any]]) -> str:
    rows = list[str]()
    for number, row in enumerate(results, 1):
        dated = f" ({row['published']})" if row.get("published") else ""
        lines = (f"{number}. {row['title'] or row['url']}{dated}", row["url"], row["description"])
        rows.append("\n   ".join(line for line in lines if line))
    return "\n\n".join(rows)


def _render_answer(answer: Mapping[str, Any]) -> str:
    cited = [f"[{number}] {url}" for number, url in enumerate(answer["citations"], 1)]
    return "\n".join((answer["content"], *(("", *cited) if cited else ())))
