"""A provider's name leads to its address, its key and its way to speak; what is missing is said in one sentence."""

from dataclasses import dataclass

import pytest

from toolcrib.adapter.cards import Api, card_for
from toolcrib.backends.models.failures import is_at_home
from toolcrib.backends.models.http import HOME_PATIENCE, PATIENCE, HttpModel, Patience, make_patience, model_for
from toolcrib.backends.models.known import KNOWN, api_for, models_with_keys
from toolcrib.define.errors import CribError
from toolcrib.define.model import no_requests

from . import wrong
from .asking import KEY, PROVIDERS, ended, model_at
from .servers import APIS, Say, answering, serving

SAY = Say(text="Yes.")


def made(provider: str, **options: str) -> HttpModel:
    return model_for(provider, "m", env={}, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize("provider", [name for name, known in KNOWN.items() if known.keys])
def test_a_missing_key_is_told_with_the_variable_and_the_setting(provider: str) -> None:
    with pytest.raises(CribError) as caught:
        made(provider)
    assert KNOWN[provider].keys[0] in str(caught.value)
    assert f"models.{provider}.apiKey" in str(caught.value)


@pytest.mark.parametrize("provider", ["ollama", "vllm", "lmstudio", "llamacpp"])
def test_servers_on_this_machine_need_no_key(provider: str) -> None:
    assert made(provider).card.name == f"{provider}:m"


def test_an_unknown_provider_needs_an_address() -> None:
    with pytest.raises(CribError, match="did you mean 'openai'"):
        made("openia")
    with pytest.raises(CribError, match=r"models\.acme\.baseUrl"):
        made("acme")
    assert made("acme", base_url="https://acme.example/v1").card.provider == "acme"


@pytest.mark.parametrize(
    "url", ["acme", "ftp://acme/v1", "https://", "http://host:99999/v1", "http://h\n/", "http://[::1"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(CribError, match="baseUrl is no address"):
        made("acme", base_url=url)


@pytest.mark.parametrize("key", ["sk-\nkey", "sk-schlüssel"])
def test_a_key_that_no_header_carries_is_refused_and_not_shown(key: str) -> None:
    with pytest.raises(CribError) as caught:
        made("openai", api_key=key)
    assert "models.openai.apiKey" in str(caught.value)
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    ("provider", "model", "base_url", "api"),
    [
        ("openai", "gpt-5", "", "openai"),
        ("openai", "gpt-5-codex", "", "responses"),
        ("openai", "o3-pro", "https://api.openai.com/v1/", "responses"),
        ("openai", "o3-pro", "http://127.0.0.1:1/v1", "openai"),
        ("openai-responses", "gpt-5", "http://127.0.0.1:1/v1", "responses"),
        ("anthropic", "claude", "", "anthropic"),
        ("gemini", "gemini-2.5-pro", "", "gemini"),
        ("ollama", "qwen3", "", "openai"),
        ("acme", "x", "https://acme.example", "openai"),
    ],
)
def test_every_provider_speaks_its_api(provider: str, model: str, base_url: str, api: Api) -> None:
    assert api_for(provider, model, base_url) == api


@dataclass
class Account:
    api_key: str | None = None


def test_what_is_configured_is_found() -> None:
    assert models_with_keys({}) == []
    assert models_with_keys({"OPENAI_API_KEY": " "}) == []
    assert models_with_keys({"OPENAI_API_KEY": "k"}) == ["openai:gpt-5"]
    assert models_with_keys({"GOOGLE_API_KEY": "k"}) == ["gemini:gemini-2.5-flash"]
    both = models_with_keys({"OPENAI_API_KEY": "k"}, {"default": "x:y", "groq": Account("k"), "xai": Account()})
    assert [name.partition(":")[0] for name in both] == ["groq", "openai"]


HEADERS: dict[Api, tuple[str, str]] = {
    "openai": ("authorization", f"Bearer {KEY}"),
    "responses": ("authorization", f"Bearer {KEY}"),
    "anthropic": ("x-api-key", KEY),
    "gemini": ("x-goog-api-key", KEY),
}
PATHS: dict[Api, str] = {
    "openai": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1/models/m:streamGenerateContent?alt=sse",
}


@pytest.mark.anyio
@pytest.mark.parametrize("api", APIS)
async def test_a_request_bears_the_key_and_its_own_headers(api: Api) -> None:
    async with serving(answering(api, SAY)) as server:
        own = {"X-Team": "blue"}
        name = PROVIDERS[api]
        model = model_for(name, "m", base_url=f"{server.base_url}/", api_key=KEY, headers=own, env={})
        assert (await ended(model)).error == ""
        await model.close()
    asked = server.asked[0]
    header, value = HEADERS[api]
    assert (asked.path, asked.headers[header], asked.headers["x-team"]) == (PATHS[api], value, "blue")


@pytest.mark.anyio
async def test_an_anthropic_address_may_stand_without_its_version() -> None:
    async with serving(answering("anthropic", SAY)) as server:
        model = model_at("anthropic", server.origin)
        assert (await ended(model)).error == ""
        await model.close()
    assert server.asked[0].path == "/v1/messages"


@pytest.mark.anyio
async def test_without_leave_only_this_machine_is_asked() -> None:
    async with serving(answering("openai", SAY)) as server:
        near = model_at("openai", server.base_url)
        far = model_at("openai", "http://nobody.invalid/v1", Patience(connect=0.1))
        with no_requests():
            assert (await ended(near)).error == ""
            replied = await ended(far)
        assert (replied.retry, replied.message.finish) == (None, "error")
        assert "forbidden" in replied.error
        assert "cannot be reached" in (await ended(far)).error
        await near.close()
        await far.close()


@pytest.mark.anyio
async def test_a_proxy_of_the_environment_is_used_for_others_and_never_for_this_machine() -> None:
    async with serving(answering("openai", SAY)) as proxy, serving(answering("openai", SAY)) as server:
        env = {"HTTP_PROXY": proxy.origin, "NO_PROXY": "inside.invalid"}
        for base, is_reached in (
            ("http://nobody.invalid/v1", True),
            ("http://deep.inside.invalid/v1", False),
            (server.base_url, True),
        ):
            model = model_for("acme", "m", base_url=base, env=env)
            assert ((await ended(model)).error == "") == is_reached
            await model.close()
    assert [asked.path for asked in proxy.asked] == ["http://nobody.invalid/v1/chat/completions"]
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("host", "is_home"),
    [
        ("127.0.0.1", True), ("localhost", True), ("[::1]", True), ("192.168.1.7", True), ("10.0.0.2", True),
        ("[fd00::7]", True), ("desk.local", True), ("nas.lan", True), ("ollama", True),
        ("8.8.8.8", False), ("api.example.com", False), ("local.example.com", False), ("[2001:4860::1]", False),
    ],
)  # fmt: skip
def test_servers_at_home_get_more_patience(host: str, is_home: bool) -> None:
    assert is_at_home(host.strip("[]")) is is_home
    assert (HOME_PATIENCE.idle, PATIENCE.idle) == (1_800, 120)


@pytest.mark.anyio
async def test_a_request_that_may_still_be_worked_on_is_not_made_again() -> None:
    async with serving(lambda talk: wrong.silent(talk, "openai")) as server:
        model = model_for("desk", "m", base_url=server.base_url, env={}, patience=make_patience(0.5))
        replied = await ended(model)
        await model.close()
    assert (replied.message.finish, replied.retry) == ("error", None)
    assert replied.error == (
        "desk did not begin to answer in 0.5 seconds; it may still be working on it, so it was not asked again; "
        "models.desk.timeoutSec waits longer"
    )


def test_the_window_of_a_model_of_ones_own_is_what_its_owner_says() -> None:
    known = model_for("ollama", "qwen2.5-coder:1.5b", env={}).card
    says = card_for("ollama", "qwen2.5-coder:1.5b", 12_288)
    own = model_for("ollama", "qwen2.5-coder:1.5b", env={}, card=says).card
    assert (known.window, own.window, own.price) == (32_768, 12_288, known.price)
    assert make_patience(7_200).whole == 7_200
