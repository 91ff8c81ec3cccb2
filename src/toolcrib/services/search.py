"""Searches of the web: who is asked is for the configuration to say, and an answer is given again for a while."""

import asyncio
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated, Any

from pydantic import Field

from toolcrib.config.services import SearchSettings
from toolcrib.define.display import quote_short
from toolcrib.define.errors import ToolError
from toolcrib.define.ports import rpc
from toolcrib.define.web import SearchProvider, WebQuery, normalize_freshness

from .feature import Core, Feature

_SECONDS = 30.0
_CACHE_SECONDS, _CACHE_ENTRIES = 900.0, 100
_COUNT, _MAX_COUNT = 5, 10

ProviderMaker = Callable[..., SearchProvider]
ShortWord = Annotated[str, Field(max_length=64)]


def mount(core: Core, *, provider: ProviderMaker) -> Feature:
    """Mount the searches; `provider` makes whom the settings name, and raises ToolError when that is nobody."""
    make = partial(provider, http_for=core.way_out.for_listed)
    return Feature(services=(WebSearches(lambda: core.config.web.search, core.env, make),))


class WebSearches:
    """Asks one provider, as long as the settings name it."""

    def __init__(
        self,
        settings: Callable[[], SearchSettings],
        env: Mapping[str, str],
        make: ProviderMaker,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings, self._env, self._make, self._now = settings, env, make, now
        self._made: tuple[SearchSettings, SearchProvider] | None = None
        self._cache: dict[WebQuery, tuple[float, dict[str, Any]]] = {}

    @rpc("web.search", clients="write", as_tool="web_search")
    async def search(
        self,
        query: Annotated[str, Field(min_length=1, max_length=4_000)],
        count: Annotated[int, Field(ge=1, le=_MAX_COUNT)] | None = None,
        country: ShortWord = "",
        search_lang: ShortWord = "",
        ui_lang: ShortWord = "",
        freshness: ShortWord = "",
    ) -> dict[str, Any]:
        """Search the web: return titles, addresses and snippets, or an answer and the pages that it cites."""
        settings = self._settings()
        provider = self._choose(settings)
        fresh = normalize_freshness(freshness)
        if freshness.strip() and fresh is None:
            what = f"freshness {quote_short(freshness)} is neither pd, pw, pm or py nor like 2026-01-01to2026-01-31"
            raise ToolError(what, code="invalid_freshness")
        if not query.strip():
            raise ToolError("query is blank; say what to search for", code="bad_arguments")
        wanted = WebQuery(
            words=query.strip(),
            count=min(count or settings.max_results or _COUNT, _MAX_COUNT),
            country=country.strip(),
            search_lang=search_lang.strip(),
            ui_lang=ui_lang.strip(),
            freshness=fresh or "",
        )
        now = self._now()
        self._cache = {key: kept for key, kept in self._cache.items() if kept[0] > now}
        if wanted in self._cache:
            return {**self._cache[wanted][1], "cached": True}
        try:
            async with asyncio.timeout(_SECONDS):
                answer = await provider.search(wanted)
        except TimeoutError:
            what = f"{provider.name} did not answer within {_SECONDS:.0f} seconds; try again, or ask for less"
            raise ToolError(what, code="timeout") from None
        result = {
            "sources": [f"web_search:{provider.name}"],
            "query": wanted.words,
            "provider": provider.name,
            "tookMs": round((self._now() - now) * 1_000),
            **answer,
        }
        if "results" in answer:
            result["count"] = len(answer["results"])
        if provider.is_cacheable and self._made is not None and self._made[1] is provider:
            while len(self._cache) >= _CACHE_ENTRIES:
                del self._cache[next(iter(self._cache))]
            self._cache[wanted] = (now + _CACHE_SECONDS, result)
        return result

    def _choose(self, settings: SearchSettings) -> SearchProvider:
        """Return the configured provider; answers of another one leave the cache."""
        if not settings.enabled:
            raise ToolError("searches are switched off: web.search.enabled is false", code="unavailable")
        if self._made is None or self._made[0] != settings:
            self._cache.clear()
            self._made = (settings, self._make(settings, self._env))
        return self._made[1]
