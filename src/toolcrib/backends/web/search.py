"""Whom web_search asks: each provider says how a query becomes a request, and how its answer is read.

Keys travel in headers alone. What a provider says is outside text: errors that quote it name their source.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from datetime import date
from html import unescape
from pathlib import Path
from typing import Any, ClassVar, Protocol
from urllib.parse import urlencode, urlsplit

import orjson

from toolcrib.define.display import strip_to_line
from toolcrib.define.errors import ToolError
from toolcrib.define.web import Http, Page, SearchProvider, WebQuery
from toolcrib.lazy import regex

from .folder import FolderSearch, refuse_freshness

_ANSWER_BYTES, _CONTENT_CHARS = 2 << 20, 100_000
_KEY_CHARS = 8  # anything shorter stands in ordinary words, too
_LINE_CHARS, _DESCRIPTION_CHARS, _URL_CHARS, _MAX_CITATIONS = 300, 1_000, 2_000, 50
_TAG = regex(r"</?[A-Za-z][^<>]*>")
_SPANS = {"pd": "day", "pw": "week", "pm": "month", "py": "year"}


class SearchTerms(Protocol):
    """What the configuration says about searches, under `web.search`."""

    @property
    def provider(self) -> str | None: ...
    @property
    def api_key(self) -> str | None: ...
    @property
    def base_url(self) -> str | None: ...
    @property
    def model(self) -> str | None: ...
    @property
    def folder(self) -> str | None: ...


def make_provider(terms: SearchTerms, env: Mapping[str, str], *, http_for: Callable[[str], Http]) -> SearchProvider:
    """Return the provider that the configuration names, else the first that there is a key for.

    `http_for` gives the way to one address, which is the operator's: nothing that an answer says leads elsewhere.
    """
    name = terms.provider or _find_provider(terms.api_key, env)
    if name == "local":
        return FolderSearch(Path(os.path.expanduser(terms.folder or ".")))  # noqa: PTH111  Path's own raises
    kind = _PROVIDERS[name]
    variable = "" if terms.api_key else next((each for each in kind.variables if env.get(each)), "")
    key = (terms.api_key or env.get(variable, "")).strip()
    if kind.variables and not key:
        raise ToolError(f"{name} needs an API key: set {kind.advise()}", code=f"missing_{kind.key_name}_api_key")
    if not (key.isascii() and key.isprintable()):
        raise ToolError(f"the API key for {name} holds what no key has; check {kind.advise()}", code="bad_key")
    base = terms.base_url or kind.choose_base(key, variable)
    return kind(base.rstrip("/"), key, terms.model or "", http_for(base))


def _find_provider(key: str | None, env: Mapping[str, str]) -> str:
    if key:
        return "perplexity" if infer_perplexity_base(key) else "grok" if key.startswith("xai-") else "brave"
    for name, kind in _PROVIDERS.items():
        if any(env.get(each) for each in kind.variables):
            return name
    variables = ", ".join(each for kind in _PROVIDERS.values() for each in kind.variables)
    raise ToolError(
        f"nobody is there to ask: set one of {variables}, or web.search.provider with web.search.apiKey; without a key "
        "there are provider: searxng with baseUrl, your own SearXNG, and provider: local with folder, files of yours",
        code="missing_brave_api_key",
    )


class HttpProvider(ABC):
    """A provider behind HTTP. `variables` are where its key may be in the environment."""

    name: ClassVar[str]
    key_name: ClassVar[str] = ""
    base_url: ClassVar[str] = ""
    variables: ClassVar[tuple[str, ...]] = ()
    is_cacheable = True

    def __init__(self, base: str, key: str, model: str, http: Http) -> None:
        self.base, self.key, self.model, self._http = base, key, model, http

    @classmethod
    def choose_base(cls, key: str, variable: str) -> str:
        """Return the address that a key is for; `variable` is where it was found, "" in the configuration."""
        return cls.base_url

    @classmethod
    def advise(cls) -> str:
        """Return what to look at when it is refused: where the key is set, or the address where there is none."""
        return " or ".join(("web.search.apiKey", *cls.variables)) if cls.variables else "web.search.baseUrl"

    @abstractmethod
    async def search(self, query: WebQuery, /) -> dict[str, Any]:
        """Ask for it, and return what the answer holds."""

    async def _get(self, path: str, headers: Mapping[str, str], params: Mapping[str, str]) -> Mapping[str, Any]:
        given = {name: value for name, value in params.items() if value}
        url = f"{self.base}{path}?{urlencode(given)}"
        sent = {"accept": "application/json", **headers}
        return self._read(await self._http.get(url, headers=sent, most=_ANSWER_BYTES))

    async def _post(self, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
        headers = {"authorization": f"Bearer {self.key}", "content-type": "application/json"}
        url, packed = f"{self.base}{path}", orjson.dumps(body)
        return self._read(await self._http.send("POST", url, headers=headers, body=packed, most=_ANSWER_BYTES))

    def _read(self, page: Page) -> Mapping[str, Any]:
        """Return the object that a page holds; an answer that quotes the key is read without it."""
        text = page.text.replace(self.key, "…") if len(self.key) >= _KEY_CHARS else page.text
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            value = None
        error = _dig(value, "error")
        if not 200 <= page.status < 300 or error:
            words = (error, *(_dig(error or value, name) for name in ("message", "detail", "code")))
            raise self._describe_failure(page.status, next(filter(None, map(_read_line, words)), ""))
        if not isinstance(value, dict):
            raise ToolError(f"{self.name} answered with something that is no JSON object; check web.search.baseUrl")
        return value

    def _describe_failure(self, status: int, complaint: str) -> ToolError:
        detail = f": {complaint}" if complaint else ""
        text = f"{self.name} answered {status}{detail}"
        if status in (401, 403):
            text = f"{self.name} refused the request ({status}){detail}; check {self.advise()}"
        elif status == 429:
            text = f"{self.name} takes no more searches for now (429){detail}; wait before you try again"
        return ToolError(text, source=f"web_search:{self.name}" if detail else None)


class BraveSearch(HttpProvider):
    """The Brave Search API."""

    name, key_name = "brave", "brave"
    base_url = "https://api.search.brave.com/res/v1"
    variables = ("BRAVE_API_KEY",)

    async def search(self, query: WebQuery, /) -> dict[str, Any]:
        """Return the results of the web, without those of videos, news and places."""
        params = {
            "q": query.words,
            "count": str(query.count),
            "country": query.country.upper(),
            "search_lang": query.search_lang,
            "ui_lang": query.ui_lang,
            "freshness": query.freshness,
        }
        answer = await self._get("/web/search", {"x-subscription-token": self.key}, params)
        found = (
            _make_result(row, _strip_tags(row.get("title")), _strip_tags(row.get("description")), row.get("page_age"))
            for row in _list_rows(_dig(answer, "web", "results"))
        )
        return {"results": [each for each in found if each][: query.count]}


class SearxngSearch(HttpProvider):
    """A SearXNG of one's own; it has to offer JSON."""

    name = "searxng"

    async def search(self, query: WebQuery, /) -> dict[str, Any]:
        """Return the first results of those that its engines found."""
        span = _SPANS.get(query.freshness, "")
        if query.freshness and not span:
            raise refuse_freshness(self.name, "two dates; it knows pd, pw, pm and py")
        params = {"q": query.words, "format": "json", "language": query.search_lang, "time_range": span}
        answer = await self._get("/search", {}, params)
        found = (
            _make_result(row, row.get("title"), row.get("content"), row.get("publishedDate"))
            for row in _list_rows(answer.get("results"))
        )
        results = [each for each in found if each][: query.count]
        if not results and (silent := answer.get("unresponsive_engines")):
            what = f"no engine of searxng answered: {_read_line(str(silent))}"
            raise ToolError(what, code="unavailable", source=f"web_search:{self.name}")
        return {"results": results}

    def _describe_failure(self, status: int, complaint: str) -> ToolError:
        if status == 403 and not complaint:
            return ToolError("searxng answers no JSON (403); add json to search.formats in its settings.yml")
        return super()._describe_failure(status, complaint)


class PerplexitySearch(HttpProvider):
    """Perplexity's models, asked directly or through OpenRouter, as the key says."""

    name, key_name = "perplexity", "perplexity"
    base_url = "https://api.perplexity.ai"
    open_router = "https://openrouter.ai/api/v1"
    variables = ("PERPLEXITY_API_KEY", "OPENROUTER_API_KEY")

    @classmethod
    def choose_base(cls, key: str, variable: str) -> str:
        """Return the address that a key is for: by how it begins, else by where it was found."""
        route = infer_perplexity_base(key) or ("openrouter" if variable == "OPENROUTER_API_KEY" else "direct")
        return cls.base_url if route == "direct" else cls.open_router

    async def search(self, query: WebQuery, /) -> dict[str, Any]:
        """Return the model's answer and the pages that it cites."""
        is_direct = infer_perplexity_base(self.key) != "openrouter" and self.base != self.open_router
        model = self.model or "perplexity/sonar-pro"
        model = model.removeprefix("perplexity/") if is_direct else model
        body: dict[str, Any] = {"model": model, "messages": [{"role": "user", "content": query.words}]}
        if query.freshness and not is_direct:
            raise refuse_freshness("perplexity behind OpenRouter")
        if span := _SPANS.get(query.freshness):
            body["search_recency_filter"] = span
        elif query.freshness:
            first, last = map(date.fromisoformat, query.freshness.split("to"))
            body["search_after_date_filter"] = first.strftime("%m/%d/%Y")
            body["search_before_date_filter"] = last.strftime("%m/%d/%Y")
        if query.country and is_direct:
            body["web_search_options"] = {"user_location": {"country": query.country.upper()}}
        answer = await self._post("/chat/completions", body)
        message = _dig(answer, "choices", 0, "message")
        noted = [each.get("url_citation") for each in _list_rows(_dig(message, "annotations"))]
        pages = answer.get("citations") or answer.get("search_results") or noted
        return _make_answer(self.name, model, _dig(message, "content"), pages)


class GrokSearch(HttpProvider):
    """xAI's models with their own search."""

    name, key_name = "grok", "xai"
    base_url = "https://api.x.ai/v1"
    variables = ("XAI_API_KEY",)

    async def search(self, query: WebQuery, /) -> dict[str, Any]:
        """Return the model's answer and the pages that it cites."""
        if query.freshness:
            raise refuse_freshness(self.name)
        model = self.model or "grok-4-1-fast"
        asked = [{"role": "user", "content": query.words}]
        body = {"model": model, "input": asked, "tools": [{"type": "web_search"}], "store": False}
        answer = await self._post("/responses", body)
        parts = [part for each in _list_rows(answer.get("output")) for part in _list_rows(each.get("content"))]
        texts = [part.get("text") for part in parts if part.get("type") == "output_text"]
        noted = [note for part in parts for note in _list_rows(part.get("annotations"))]
        content = "\n".join(text for text in texts if isinstance(text, str))
        return _make_answer(self.name, model, content, answer.get("citations") or noted)


_PROVIDERS: dict[str, type[HttpProvider]] = {
    kind.name: kind for kind in (BraveSearch, PerplexitySearch, GrokSearch, SearxngSearch)
}


def infer_perplexity_base(key: str) -> str | None:
    """Return whose key begins like this: `direct` for Perplexity's own, `openrouter`, None when it does not say."""
    lowered = key.strip().lower()
    return "direct" if lowered.startswith("pplx-") else "openrouter" if lowered.startswith("sk-or-") else None


# What is read of an answer: every field may be missing, or something else.


def _dig(value: Any, *path: str | int) -> Any:
    """Return what stands at a path, None where there is nothing."""
    for step in path:
        try:
            value = value[step]
        except (LookupError, TypeError):
            return None
    return value


def _list_rows(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _make_result(row: Mapping[str, Any], title: Any, description: Any, published: Any) -> dict[str, str] | None:
    """Return one result, None for what is no page of the web."""
    url = _read_address(row.get("url"))
    found = {"title": _read_line(title), "url": url, "description": _read_line(description, _DESCRIPTION_CHARS)}
    more = {"siteName": urlsplit(url).hostname or "", "published": _read_line(published) or _read_line(row.get("age"))}
    return {**found, **{name: each for name, each in more.items() if each}} if url else None


def _make_answer(name: str, model: str, content: Any, pages: Any) -> dict[str, Any]:
    if not isinstance(content, str) or not content.strip():
        raise ToolError(f"{name} answered without a word; ask in another way")
    listed = pages if isinstance(pages, list) else []
    urls = dict.fromkeys(_read_address(each if isinstance(each, str) else _dig(each, "url")) for each in listed)
    return {
        "model": model,
        "content": content[:_CONTENT_CHARS],
        "citations": [url for url in urls if url][:_MAX_CITATIONS],
    }


def _read_line(value: Any, max_chars: int = _LINE_CHARS) -> str:
    """Return a text as one line, "" for anything else."""
    line = " ".join(strip_to_line(value).split()) if isinstance(value, str) else ""
    return line if len(line) <= max_chars else f"{line[: max_chars - 1]}…"


def _read_address(value: Any) -> str:
    """Return an address of the web, "" for anything else."""
    try:
        is_web = isinstance(value, str) and urlsplit(value).scheme in ("http", "https") and urlsplit(value).hostname
    except ValueError:
        return ""
    return value if is_web and len(value) <= _URL_CHARS and value.isprintable() and " " not in value else ""


def _strip_tags(value: Any) -> str:
    """Return the text that a piece of HTML shows: Brave marks the words of the query in it."""
    return unescape(_TAG.sub("", value)) if isinstance(value, str) else ""
