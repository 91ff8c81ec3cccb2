"""Who makes vectors: chosen by name, asked in the provider's own shape, and patient with what passes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from tests.backends.memory.memory_world import WordEmbedder
from tests.backends.web.search_world import Answer, Asked, PlainHttp, serving

from toolcrib.backends.memory.embedders import Embedder, OpenAIEmbedder, StaticEmbedder, make_embedder, normalize_rows
from toolcrib.define.errors import ToolError
from toolcrib.define.web import Http

pytestmark = pytest.mark.anyio

KEY = "sk-qqqqqqqq"


@dataclass(frozen=True)
class Terms:
    base_url: str | None = None
    api_key: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


def vector_of(text: str) -> list[float]:
    return [float(len(text)), 1.0, 0.0]


def openai(asked: Asked) -> Answer:
    """Answer as OpenAI's embeddings do, in an order of its own."""
    if (asked.method, asked.path) != ("POST", "/v1/embeddings"):
        return 404, {"error": {"message": "no such path"}}
    if asked.headers.get("authorization") != f"Bearer {KEY}":
        return 401, {"error": {"message": f"Incorrect API key provided: {asked.headers.get('authorization')}"}}
    assert set(asked.body) == {"model", "input"}
    assert asked.body["model"] == "text-embedding-3-small"
    rows = [
        {"object": "embedding", "index": at, "embedding": vector_of(each)}
        for at, each in enumerate(asked.body["input"])
    ]
    return 200, {"object": "list", "data": rows[::-1], "model": asked.body["model"], "usage": {"total_tokens": 5}}


def gemini(asked: Asked) -> Answer:
    """Answer as Gemini's batchEmbedContents does."""
    if asked.path != "/v1beta/models/gemini-embedding-001:batchEmbedContents" or asked.method != "POST":
        return 404, {"error": {"message": "no such path"}}
    assert asked.headers["x-goog-api-key"] == KEY
    assert asked.params == {}
    texts = [each["content"]["parts"][0]["text"] for each in asked.body["requests"]]
    assert {each["model"] for each in asked.body["requests"]} == {"models/gemini-embedding-001"}
    return 200, {"embeddings": [{"values": vector_of(each)} for each in texts]}


def choose(
    name: str | None, base: str = "", *, env: dict[str, str] | None = None, path: str = "/v1"
) -> Embedder | None:
    models = {"openai": Terms(), "mine": Terms(), "gemini": Terms()}
    if base:
        models[(name or "").partition(":")[0]] = Terms(f"{base}{path}", KEY)
    http: Callable[[str], Http] = PlainHttp
    return make_embedder(name, models, env or {}, http_for=http)


@pytest.mark.parametrize(
    ("name", "answer", "path"), [("openai", openai, "/v1"), ("mine", openai, "/v1"), ("gemini", gemini, "/v1beta")]
)
async def test_texts_become_rows_of_length_one_in_their_order(
    name: str, answer: Callable[[Asked], Answer], path: str
) -> None:
    async with serving(answer) as base:
        embedder = choose(name, base, path=path)
        assert embedder is not None
        made = await embedder.embed(["a", "four", "one more"])
    assert made.dtype == np.float32
    assert np.allclose(made, normalize_rows(np.array([vector_of("a"), vector_of("four"), vector_of("one more")], "f4")))


@pytest.mark.parametrize(
    ("name", "provider", "model"),
    [
        (None, "local", "wordllama-256"),
        ("local", "local", "wordllama-256"),
        ("ollama", "ollama", "nomic-embed-text"),
        ("ollama:bge-m3", "ollama", "bge-m3"),
        ("mistral", "mistral", "mistral-embed"),
    ],
)
def test_a_name_says_who_makes_vectors(name: str | None, provider: str, model: str) -> None:
    embedder = choose(name, env={"MISTRAL_API_KEY": KEY})
    assert embedder is not None
    assert (embedder.provider, embedder.model) == (provider, model)


def test_none_is_nobody() -> None:
    assert choose("none") is None


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("openai", "openai needs an API key to make vectors; set OPENAI_API_KEY or models.openai.apiKey"),
        ("anthropic", "memory.provider 'anthropic' makes no vectors"),
        ("nobody", "memory.provider 'nobody' makes no vectors; set it to local, openai, gemini or ollama"),
    ],
)
def test_who_cannot_be_asked_is_told_with_what_to_do(name: str, sentence: str) -> None:
    with pytest.raises(ToolError, match=sentence):
        choose(name)


async def test_what_passes_is_asked_again_and_what_does_not_is_told_without_the_key() -> None:
    answers: list[Answer] = [(503, b"busy"), (429, {"error": "slow down"})]
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    def answer(asked: Asked) -> Answer:
        return answers.pop() if answers else openai(asked)

    async with serving(answer) as base:
        patient = OpenAIEmbedder("openai", "text-embedding-3-small", f"{base}/v1", KEY, {}, PlainHttp(base), sleep)
        assert len(await patient.embed(["a"])) == 1
        assert waits == [0.5, 2.0]
        wrong = OpenAIEmbedder("openai", "m", f"{base}/v1", "sk-another-key", {}, PlainHttp(base), sleep)
        with pytest.raises(ToolError, match=r"openai made no vectors \(401: .*; check models.openai.apiKey") as told:
            await wrong.embed(["a"])
        assert "sk-another-key" not in str(told.value)
        assert len(waits) == 2


@pytest.mark.parametrize(
    "value",
    [
        b"<html>", {}, {"data": 5}, {"data": []}, {"data": [{"index": 0}]}, {"data": [{"index": 0, "embedding": "x"}]},
        {"data": [{"index": 0, "embedding": []}]}, {"data": [{"index": 0, "embedding": [None]}]},
        {"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]},
        {"data": [{"index": 0, "embedding": [[1.0]]}]}, {"data": [{"index": 0, "embedding": [1e999]}]}, [], "x",
    ],
)  # fmt: skip
async def test_what_is_no_vectors_is_told_in_one_sentence(value: Any) -> None:
    async with serving(lambda asked: (200, value)) as base:
        embedder = choose("mine", base)
        assert embedder is not None
        with pytest.raises(ToolError, match="mine answered with something that is no vectors"):
            await embedder.embed(["a"])


async def test_static_vectors_know_words_of_one_meaning_and_take_any_text() -> None:
    made = await StaticEmbedder().embed(["car", "automobile", "banana", "", "\0", "😀" * 500, "молоко", "x" * 100_000])
    assert made.shape == (8, 256)
    assert made.dtype == np.float32
    assert made[0] @ made[1] > made[0] @ made[2] + 0.2
    lengths = np.linalg.norm(made, axis=1)
    assert np.allclose(lengths[lengths > 0], 1, atol=1e-4)
    assert lengths[3] == 0


async def test_the_embedder_of_tests_makes_rows_of_length_one() -> None:
    made = await WordEmbedder().embed(["a b", ""])
    assert np.allclose(np.linalg.norm(made, axis=1), [1, 0])
