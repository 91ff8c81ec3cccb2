"""Who makes vectors of texts: static ones of words, from a wheel and without a key, or a provider behind HTTP."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import orjson

from toolcrib.backends.models.known import KNOWN, key_in
from toolcrib.define.display import strip_to_line
from toolcrib.define.errors import ToolError
from toolcrib.define.web import Http, Page
from toolcrib.threads import in_thread

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors = NDArray[np.float32]

_TRIES, _FIRST_WAIT, _MAX_WAIT_SECONDS = 4, 0.5, 8.0
_SECONDS, _ANSWER_BYTES = 60.0, 32 << 20
_KEY_CHARS, _COMPLAINT_CHARS = 8, 200  # a shorter key stands in ordinary words, too
_STATIC = "wordllama"
_WEIGHTS, _TOKENIZER = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"
_MODELS = {"gemini": "gemini-embedding-001", "ollama": "nomic-embed-text", "mistral": "mistral-embed"}
_OPENAI_MODEL = "text-embedding-3-small"


class Embedder(Protocol):
    """Makes vectors: one row of length 1 for each text. A failure is a ToolError of one sentence."""

    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str: ...

    async def embed(self, texts: Sequence[str], /) -> "Vectors":
        """Return a matrix of float32 with a row for each text."""


class ProviderTerms(Protocol):
    """What the configuration says about a provider, under `models.<name>`."""

    @property
    def base_url(self) -> str | None: ...
    @property
    def api_key(self) -> str | None: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


def make_embedder(
    name: str | None, models: Mapping[str, ProviderTerms], env: Mapping[str, str], *, http_for: Callable[[str], Http]
) -> Embedder | None:
    """Return who `memory.provider` names, None for `none`; without a name, the static vectors where they are installed.

    A provider behind HTTP is written like `openai` or `openai:text-embedding-3-large`. Raise ToolError, in one sentence
    that says what to do, when there is none to be had.
    """
    if name == "none":
        return None
    if find_spec("numpy") is None:
        raise ToolError("searching by meaning needs numpy; install toolcrib[memory-local] or toolcrib[memory]")
    if name in (None, "local"):
        if any(find_spec(each) is None for each in (_STATIC, "safetensors", "tokenizers")):
            raise ToolError("searching by meaning needs vectors; install toolcrib[memory-local] or set memory.provider")
        return StaticEmbedder()
    provider, _, model = name.partition(":")
    known, terms = KNOWN.get(provider), models.get(provider)
    base = ((terms.base_url if terms else None) or (known.base_url if known else "")).rstrip("/")
    if not base or (known is not None and known.api == "anthropic"):
        raise ToolError(f"memory.provider {provider!r} makes no vectors; set it to local, openai, gemini or ollama")
    key = ((terms.api_key if terms else None) or key_in(env, known)).strip()
    headers = dict(terms.headers) if terms else {}
    if known is not None and known.keys and not key and not headers and not (terms and terms.base_url):
        raise ToolError(f"{provider} needs an API key to make vectors; set {known.keys[0]} or models.{provider}.apiKey")
    kind = GeminiEmbedder if known is not None and known.api == "gemini" else OpenAIEmbedder
    return kind(provider, model or _MODELS.get(provider, _OPENAI_MODEL), base, key, headers, http_for(base))


class StaticEmbedder:
    """Means of word vectors that come in a wheel: no key, no network, thousands of texts a second."""

    provider, model = "local", "wordllama-256"

    async def embed(self, texts: Sequence[str], /) -> "Vectors":
        return await in_thread(self._embed, texts)

    def _embed(self, texts: Sequence[str]) -> "Vectors":
        import numpy as np  # noqa: PLC0415  heavy, and optional

        weights, tokenizer = _load_static()
        made = np.zeros((len(texts), weights.shape[1]), np.float32)
        for index, encoded in enumerate(tokenizer.encode_batch(list(texts), add_special_tokens=False)):
            if encoded.ids:
                made[index] = weights[encoded.ids].astype(np.float32).mean(axis=0)
        return normalize_rows(made)


@cache
def _load_static() -> tuple[Any, Any]:
    """Return the vectors of words, and what tells them apart; once for all memories."""
    from safetensors.numpy import load_file  # noqa: PLC0415  heavy, and optional
    from tokenizers import Tokenizer  # noqa: PLC0415  likewise

    found = find_spec(_STATIC)
    if found is None or found.origin is None:
        raise ToolError("the static vectors are gone; install toolcrib[memory-local]")
    folder = Path(found.origin).parent  # its own loader would ask the network for what lies here
    try:
        (weights,) = load_file(folder / _WEIGHTS).values()
        tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
    except Exception as error:  # these two raise anything when a file is not theirs
        raise ToolError(f"the static vectors cannot be read ({error}); install toolcrib[memory-local] anew") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return weights, tokenizer


class OpenAIEmbedder:
    """A provider that speaks as OpenAI does, at any address."""

    def __init__(  # noqa: PLR0913  all of them stand in the configuration
        self,
        provider: str,
        model: str,
        base: str,
        key: str,
        headers: Mapping[str, str],
        http: Http,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.provider, self.model, self.base, self.key = provider, model, base, key
        self._headers, self._http, self._sleep = headers, http, sleep

    async def embed(self, texts: Sequence[str], /) -> "Vectors":
        value = await self._ask("/embeddings", {"model": self.model, "input": list(texts)})
        try:
            rows = sorted(value["data"], key=lambda each: int(each["index"]))
            return self._check([each["embedding"] for each in rows], len(texts))
        except (LookupError, TypeError, ValueError) as error:
            raise self._describe_nonsense() from error

    def _key_headers(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self.key}"} if self.key else {}

    async def _ask(self, path: str, body: Mapping[str, Any]) -> Any:
        """Return what was answered; what may pass is asked again, after a while."""
        headers = {"content-type": "application/json", **self._key_headers(), **self._headers}
        url, packed, wait = f"{self.base}{path}", orjson.dumps(body), _FIRST_WAIT
        for attempt in range(1, _TRIES + 1):
            try:
                page = await self._http.send(
                    "POST", url, headers=headers, body=packed, most=_ANSWER_BYTES, seconds=_SECONDS
                )
            except ToolError as error:
                if attempt == _TRIES or error.code not in ("timeout", "unavailable"):
                    raise
            else:
                if 200 <= page.status < 300:
                    return self._parse(page)
                if attempt == _TRIES or (page.status < 500 and page.status not in (408, 429)):
                    raise self._describe_failure(page)
            await self._sleep(wait)
            wait = min(_MAX_WAIT_SECONDS, wait * 4)
        raise AssertionError("the last try returns or raises")

    def _parse(self, page: Page) -> Any:
        try:
            return orjson.loads(page.body)
        except orjson.JSONDecodeError as error:
            raise self._describe_nonsense() from error

    def _check(self, rows: Sequence[Any], count: int) -> "Vectors":
        """Return what came as vectors of length 1; raise ValueError when it is no matrix of numbers."""
        import numpy as np  # noqa: PLC0415  heavy, and optional

        made = np.array(rows, np.float32)
        if made.ndim != 2 or len(made) != count or not made.shape[1] or not np.isfinite(made).all():
            raise ValueError("no matrix")
        return normalize_rows(made)

    def _describe_nonsense(self) -> ToolError:
        return ToolError(f"{self.provider} answered with something that is no vectors; check models.{self.provider}")

    def _describe_failure(self, page: Page) -> ToolError:
        text = page.text.replace(self.key, "…") if len(self.key) >= _KEY_CHARS else page.text
        complaint = " ".join(strip_to_line(text).split())[:_COMPLAINT_CHARS]
        advice = f"; check models.{self.provider}.apiKey" if page.status in (401, 403) else ""
        return ToolError(f"{self.provider} made no vectors ({page.status}: {complaint}){advice}", source=self.provider)


class GeminiEmbedder(OpenAIEmbedder):
    """Gemini's own shape."""

    async def embed(self, texts: Sequence[str], /) -> "Vectors":
        name = f"models/{self.model}"
        requests = [{"model": name, "content": {"parts": [{"text": text}]}} for text in texts]
        value = await self._ask(f"/{name}:batchEmbedContents", {"requests": requests})
        try:
            return self._check([each["values"] for each in value["embeddings"]], len(texts))
        except (LookupError, TypeError, ValueError) as error:
            raise self._describe_nonsense() from error

    def _key_headers(self) -> dict[str, str]:
        return {"x-goog-api-key": self.key}


def normalize_rows(vectors: "Vectors") -> "Vectors":
    """Return vectors of length 1; one that is all zeros stays as it is."""
    import numpy as np  # noqa: PLC0415  heavy, and optional

    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths == 0, 1, lengths)).astype(np.float32)
