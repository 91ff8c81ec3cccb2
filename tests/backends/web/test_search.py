"""Every provider is asked as its documentation says, and whatever it answers is read, or told in one sentence."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from toolcrib.backends.web.search import make_provider
from toolcrib.define.errors import ToolError
from toolcrib.define.web import Http, SearchProvider, WebQuery
from toolcrib.testing import FakeHttp

from .search_world import KEYS, Answer, Asked, PlainHttp, Terms, brave, grok, perplexity, serving

pytestmark = pytest.mark.anyio

NUTS = WebQuery(words="nuts & bolts?", count=2)
SERVERS: dict[str, tuple[Callable[[Asked], Answer], Terms, str]] = {
    "brave": (brave, Terms(provider="brave", api_key=KEYS["brave"]), "/res/v1"),
    "direct": (perplexity, Terms(provider="perplexity", api_key=KEYS["direct"]), ""),
    "openrouter": (
        partial(perplexity, is_direct=False),
        Terms(provider="perplexity", api_key=KEYS["openrouter"]),
        "/api/v1",
    ),
    "grok": (grok, Terms(provider="grok", api_key=KEYS["grok"]), "/v1"),
    "searxng": (lambda asked: (200, {"results": []}), Terms(provider="searxng"), ""),
}


def made(terms: Terms, env: dict[str, str] | None = None, http: Callable[[str], Http] = PlainHttp) -> SearchProvider:
    return make_provider(terms, env or {}, http_for=http)


async def ask(
    name: str, query: WebQuery = NUTS, answer: Callable[[Asked], Answer] | None = None, **terms: Any
) -> tuple[dict[str, Any], list[str]]:
    """Ask a provider that answers as it should, or so; return what it found, and the addresses that were asked."""
    honest, told, path = SERVERS[name]
    async with serving(answer or honest) as address:
        http = PlainHttp(f"{address}{path}")
        provider = made(replace(told, base_url=f"{address}{path}/", **terms), http=lambda base: http)
        return await provider.search(query), http.urls


async def complaint(name: str, answer: Answer, query: WebQuery = NUTS) -> ToolError:
    with pytest.raises(ToolError) as caught:
        await ask(name, query, lambda asked: answer)
    assert "\n" not in str(caught.value)
    return caught.value


async def test_brave_is_asked_as_documented_and_its_html_is_read_as_text() -> None:
    full = replace(NUTS, country="de", search_lang="de", ui_lang="de-DE", freshness="2026-01-01to2026-02-01")
    found, urls = await ask("brave", full)
    assert found["results"][0] == {
        "title": "Nuts & nuts & bolts? <1>",
        "url": "https://nuts.test/1",
        "description": "Where nuts grow.",
        "siteName": "nuts.test",
        "published": "2026-11-15T10:00:00",
    }
    assert len(found["results"]) == 2
    assert KEYS["brave"] not in str(urls)


@pytest.mark.parametrize("freshness", ["pd", "pw", "pm", "py"])
@pytest.mark.parametrize("name", ["brave", "direct"])
async def test_both_can_be_asked_for_what_is_new(name: str, freshness: str) -> None:
    assert await ask(name, replace(NUTS, freshness=freshness))


@pytest.mark.parametrize(("name", "model"), [("direct", "sonar-pro"), ("openrouter", "perplexity/sonar-pro")])
async def test_perplexity_is_asked_directly_or_through_openrouter_as_the_key_says(name: str, model: str) -> None:
    found, _ = await ask(name)
    assert found == {
        "model": model,
        "content": "Nuts grow on trees[1], and in the ground[2].",
        "citations": ["https://trees.test/", "https://ground.test/"],
    }
    assert (await ask(name, model="perplexity/sonar"))[0]["model"].endswith("sonar")


async def test_perplexity_takes_two_dates_and_a_country() -> None:
    seen: list[Any] = []

    def note(asked: Asked) -> Answer:
        seen.append(asked.body)
        return perplexity(asked)

    await ask("direct", replace(NUTS, freshness="2026-01-02to2026-02-01", country="de"), note)
    dates = seen[0]["search_after_date_filter"], seen[0]["search_before_date_filter"]
    assert dates == ("01/02/2026", "02/01/2026")
    assert seen[0]["web_search_options"] == {"user_location": {"country": "DE"}}


async def test_grok_answers_with_words_and_each_page_once() -> None:
    found, _ = await ask("grok")
    assert found == {
        "model": "grok-4-1-fast",
        "content": "Nuts grow on trees.",
        "citations": ["https://trees.test/", "https://ground.test/"],
    }


@pytest.mark.parametrize(
    ("name", "freshness"),
    [("grok", "pd"), ("openrouter", "pd"), ("searxng", "2026-01-01to2026-02-01")],
)
async def test_who_cannot_tell_old_from_new_says_so_before_anybody_is_asked(name: str, freshness: str) -> None:
    with pytest.raises(ToolError, match=r"cannot be asked for .*; leave freshness out") as caught:
        await ask(name, replace(NUTS, freshness=freshness), lambda asked: pytest.fail("it was asked"))
    assert caught.value.code == "unsupported_freshness"


# Who is asked


@pytest.mark.parametrize(
    ("terms", "env", "name", "base"),
    [
        (Terms(), {"BRAVE_API_KEY": "a", "XAI_API_KEY": "b"}, "brave", "https://api.search.brave.com/res/v1"),
        (Terms(), {"PERPLEXITY_API_KEY": "pplx-a"}, "perplexity", "https://api.perplexity.ai"),
        (Terms(), {"PERPLEXITY_API_KEY": "odd"}, "perplexity", "https://api.perplexity.ai"),
        (Terms(), {"PERPLEXITY_API_KEY": "sk-or-a"}, "perplexity", "https://openrouter.ai/api/v1"),
        (Terms(), {"OPENROUTER_API_KEY": "odd", "XAI_API_KEY": "b"}, "perplexity", "https://openrouter.ai/api/v1"),
        (Terms(), {"BRAVE_API_KEY": "", "XAI_API_KEY": "xai-a"}, "grok", "https://api.x.ai/v1"),
        (Terms(api_key="xai-a"), {"BRAVE_API_KEY": "a"}, "grok", "https://api.x.ai/v1"),
        (Terms(api_key="PPLX-a"), {}, "perplexity", "https://api.perplexity.ai"),
        (
            Terms(provider="perplexity", api_key="odd"),
            {"OPENROUTER_API_KEY": "b"},
            "perplexity",
            "https://api.perplexity.ai",
        ),
        (Terms(api_key="a"), {}, "brave", "https://api.search.brave.com/res/v1"),
        (Terms(provider="grok"), {"BRAVE_API_KEY": "a", "XAI_API_KEY": "b"}, "grok", "https://api.x.ai/v1"),
        (
            Terms(provider="searxng", base_url="http://10.0.0.5/s"),
            {"BRAVE_API_KEY": "a"},
            "searxng",
            "http://10.0.0.5/s",
        ),
    ],
)
def test_who_is_asked_is_for_the_configuration_to_say_else_for_the_keys(
    terms: Terms, env: dict[str, str], name: str, base: str
) -> None:
    bases: list[str] = []

    def way(base: str) -> Http:
        bases.append(base)
        return FakeHttp()

    assert (made(terms, env, way).name, bases) == (name, [base])


@pytest.mark.parametrize(
    ("provider", "code", "named"),
    [
        ("brave", "missing_brave_api_key", ["BRAVE_API_KEY"]),
        ("perplexity", "missing_perplexity_api_key", ["PERPLEXITY_API_KEY", "OPENROUTER_API_KEY"]),
        ("grok", "missing_xai_api_key", ["XAI_API_KEY"]),
        (None, "missing_brave_api_key", ["BRAVE_API_KEY", "XAI_API_KEY", "provider: searxng", "provider: local"]),
    ],
)
def test_a_missing_key_is_told_with_the_places_where_it_may_be(
    provider: str | None, code: str, named: list[str]
) -> None:
    with pytest.raises(ToolError) as caught:
        made(Terms(provider=provider), {"OTHER_API_KEY": "x"})
    assert caught.value.code == code
    assert all(word in str(caught.value) for word in ["web.search.apiKey", *named])


@pytest.mark.parametrize("key", ["se\ncret", "s\u00e9cret", "se\x00cret"])
def test_what_is_no_key_is_not_sent_and_not_shown(key: str) -> None:
    with pytest.raises(ToolError, match="the API key for grok holds what no key has; check") as caught:
        made(Terms(provider="grok", api_key=key))
    assert "cret" not in str(caught.value)


async def test_a_short_key_does_not_eat_the_words_of_an_answer() -> None:
    row = {"url": "https://a.test/", "title": "a test"}
    found, _ = await ask("brave", answer=lambda asked: (200, {"web": {"results": [row]}}), api_key="t ")
    assert found["results"][0]["title"] == "a test"


# Whatever is answered


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize(
    "value",
    [
        b"<!DOCTYPE html><title>Sign in</title>",
        b"",
        b"[]",
        b"null",
        b'{"web":',
        b"\xff\xfe\x00",
        b'"text"',
        b"[" * 9_999,
    ],
)
async def test_what_is_no_json_object_is_told_so(name: str, value: bytes) -> None:
    said = str(await complaint(name, (200, value)))
    assert said.endswith("answered with something that is no JSON object; check web.search.baseUrl")


@pytest.mark.parametrize("name", ["direct", "openrouter", "grok"])
@pytest.mark.parametrize(
    "value",
    [{}, {"choices": []}, {"choices": [7], "output": [7]}, {"choices": {"a": 1}, "output": "x"},
     {"choices": [{"message": {"content": None}}], "output": [{"content": [{"type": "output_text", "text": 5}]}]}],
)  # fmt: skip
async def test_an_answer_without_words_is_told_so(name: str, value: Any) -> None:
    assert "answered without a word" in str(await complaint(name, (200, value)))


@pytest.mark.parametrize(
    "rows",
    [None, [], {}, "x", [None, 1, "x", []], [{}], [{"url": 5}], [{"url": "javascript:alert(1)"}],
     [{"url": "https://"}], [{"url": "http://[::1"}], [{"url": "https://a.test/ b"}], [{"url": "https://a.test/\n"}],
     [{"url": "https://a.test/" + "a" * 3_000}]],
)  # fmt: skip
@pytest.mark.parametrize("name", ["brave", "searxng"])
async def test_what_is_no_page_of_the_web_is_left_out(name: str, rows: Any) -> None:
    found, _ = await ask(name, answer=lambda asked: (200, {"results": rows, "web": {"results": rows}}))
    assert found == {"results": []}


async def test_wrong_types_in_a_result_leave_its_address() -> None:
    row = {"url": "https://a.test/", "title": ["x"], "description": 5, "age": {}, "page_age": None}
    found, _ = await ask("brave", answer=lambda asked: (200, {"web": {"results": [row]}}))
    assert found == {
        "results": [{"title": "", "url": "https://a.test/", "description": "", "siteName": "a.test"}],
    }


async def test_a_result_is_one_line_each_and_short() -> None:
    row = {"url": "https://a.test/", "title": "a\n2. b\u202e\x1b[31m" + "c" * 999, "content": "d\r\n" * 5_000}
    found, _ = await ask("searxng", answer=lambda asked: (200, {"results": [row] * 50}))
    assert len(found["results"]) == NUTS.count
    first = found["results"][0]
    assert first["title"].startswith("a 2. bccc")
    assert (len(first["title"]), len(first["description"])) == (300, 1_000)
    assert "\n" not in first["title"] + first["description"]


async def test_an_answer_that_is_too_long_is_not_read() -> None:
    assert (await complaint("brave", (200, b" " * (3 << 20)))).code == "too_large"


@pytest.mark.parametrize("name", SERVERS)
@pytest.mark.parametrize(
    ("status", "value", "said"),
    [
        (401, b"", "refused the request (401); check web.search."),
        (401, {"error": {"message": "bad key"}}, "refused the request (401): bad key; check web.search."),
        (429, {"error": {"detail": "slow\n down"}}, "takes no more searches for now (429): slow down; wait before"),
        (500, {"error": "broken"}, "answered 500: broken"),
        (503, b"<html>", "answered 503"),
        (302, b"", "answered 302"),
        (422, {"detail": "q is too long"}, "answered 422: q is too long"),
        (200, {"error": {"message": "no credits", "code": 402}}, "answered 200: no credits"),
    ],
)
async def test_a_failure_is_one_sentence(name: str, status: int, value: Any, said: str) -> None:
    error = await complaint(name, (status, value))
    assert said in str(error)
    assert (error.source is not None) == (": " in said.replace("status: ", ""))


async def test_a_searxng_without_json_is_told_how_to_have_it() -> None:
    assert "add json to search.formats" in str(await complaint("searxng", (403, b"<html>Forbidden</html>")))


async def test_a_searxng_whose_engines_are_silent_has_not_found_nothing() -> None:
    value = {"results": [], "unresponsive_engines": [["google", "CAPTCHA"], ["bing", "timeout"]]}
    assert "no engine of searxng answered: [['google', 'CAPTCHA'], ['bing', 'timeout']]" in str(
        await complaint("searxng", (200, value))
    )


@pytest.mark.parametrize("name", ["brave", "direct", "openrouter", "grok"])
async def test_a_key_that_is_quoted_back_is_not_told(name: str) -> None:
    key = KEYS[name]
    assert key not in str(await complaint(name, (401, {"error": {"message": f"{key} is no key"}})))
    row = {"url": f"https://a.test/{key}", "title": key, "text": key, "type": "output_text"}
    words = {"choices": [{"message": {"content": key}}], "output": [{"content": [row]}], "citations": [row["url"]]}
    found, _ = await ask(name, answer=lambda asked: (200, {"web": {"results": [row]}, **words}))
    assert key not in str(found)


@pytest.mark.parametrize("name", ["brave", "direct", "openrouter", "grok"])
async def test_a_wrong_key_is_told_in_the_providers_words_and_never_shown(name: str) -> None:
    honest, told, path = SERVERS[name]
    async with serving(honest) as address:
        provider = made(replace(told, api_key=f"{KEYS[name]}wrong", base_url=f"{address}{path}"))
        with pytest.raises(ToolError, match=r"(token is invalid|Invalid API key|Incorrect API key)") as caught:
            await provider.search(NUTS)
    assert KEYS[name] not in str(caught.value)


async def test_a_query_that_brave_does_not_take_is_told_in_its_words() -> None:
    with pytest.raises(ToolError, match=r"brave answered 422: Unable to validate request parameter\(s\): q"):
        await ask("brave", replace(NUTS, words="long " * 100))
