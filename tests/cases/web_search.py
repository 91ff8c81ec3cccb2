"""openclaw-media-web, as far as it is about searches: on define/web.py, backends/web and services/search.py."""

import asyncio
from collections.abc import Callable
from typing import Any

from toolcrib.backends.web.search import infer_perplexity_base
from toolcrib.config.services import SearchSettings
from toolcrib.define.web import WebQuery, normalize_freshness
from toolcrib.services.search import WebSearches

Json = dict[str, Any]


class _Silent:
    """A provider that finds nothing."""

    name = "brave"
    is_cacheable = True

    async def search(self, query: WebQuery, /) -> Json:
        return {"results": []}


def _key(args: Json) -> str:
    """Return how far two spellings are one: in lower case when they are answered alike, else as it is."""

    async def is_shared() -> bool:
        searches = WebSearches(SearchSettings, {}, lambda settings, env: _Silent())
        await searches.search(args["value"])
        return "cached" in await searches.search(args["value"].strip().lower())

    text: str = args["value"].strip()
    return text.lower() if asyncio.run(is_shared()) else text


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "inferPerplexityBaseUrl": lambda args: infer_perplexity_base(args["apiKey"]),
    "normalizeFreshness": lambda args: normalize_freshness(args["value"]),
    "webCacheKey": _key,
}
