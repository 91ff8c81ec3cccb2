"""Providers that are known by name: where they answer, what they speak, where their key is."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from toolcrib.adapter.cards import Api


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider. The first of `keys` that is set in the environment is its key; one without keys needs none.

    `first` is the model to begin with where none is named.
    """

    api: Api
    base_url: str
    keys: tuple[str, ...] = ()
    first: str = ""


# In the order in which one is chosen when several have a key.
KNOWN: Mapping[str, Provider] = {
    "anthropic": Provider(
        api="anthropic",
        base_url="https://api.anthropic.com/v1",
        keys=("ANTHROPIC_API_KEY",),
        first="claude-sonnet-4-5",
    ),
    "openai": Provider(api="openai", base_url="https://api.openai.com/v1", keys=("OPENAI_API_KEY",), first="gpt-5"),
    "openai-responses": Provider(
        api="responses", base_url="https://api.openai.com/v1", keys=("OPENAI_API_KEY",), first="gpt-5"
    ),
    "gemini": Provider(
        api="gemini",
        base_url="https://generativelanguage.googleapis.com/v1beta",
        keys=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        first="gemini-2.5-flash",
    ),
    "openrouter": Provider(
        api="openai",
        base_url="https://openrouter.ai/api/v1",
        keys=("OPENROUTER_API_KEY",),
        first="anthropic/claude-sonnet-4.5",
    ),
    "mistral": Provider(
        api="openai",
        base_url="https://api.mistral.ai/v1",
        keys=("MISTRAL_API_KEY",),
        first="mistral-large-latest",
    ),
    "groq": Provider(
        api="openai",
        base_url="https://api.groq.com/openai/v1",
        keys=("GROQ_API_KEY",),
        first="openai/gpt-oss-120b",
    ),
    "xai": Provider(api="openai", base_url="https://api.x.ai/v1", keys=("XAI_API_KEY",), first="grok-4"),
    "deepseek": Provider(
        api="openai",
        base_url="https://api.deepseek.com/v1",
        keys=("DEEPSEEK_API_KEY",),
        first="deepseek-chat",
    ),
    "together": Provider(
        api="openai",
        base_url="https://api.together.xyz/v1",
        keys=("TOGETHER_API_KEY",),
        first="openai/gpt-oss-120b",
    ),
    "ollama": Provider(api="openai", base_url="http://127.0.0.1:11434/v1"),
    "vllm": Provider(api="openai", base_url="http://127.0.0.1:8000/v1"),
    "lmstudio": Provider(api="openai", base_url="http://127.0.0.1:1234/v1"),
    "llamacpp": Provider(api="openai", base_url="http://127.0.0.1:8080/v1"),
}

# Models of OpenAI's that answer to the responses API alone.
_RESPONSES_ONLY = re.compile(r"codex|^computer-use|deep-research|^o[0-9]+-pro|^gpt-[0-9.]+-pro")


def api_for(provider: str, model: str, base_url: str) -> Api:
    """Return what a provider speaks. OpenAI speaks chat completions, except to models that only know responses.

    A server of another address under the name of `openai` is a compatible one, and those speak chat completions.
    """
    known = KNOWN.get(provider)
    if known is None:
        return "openai"
    is_own = not base_url or base_url.rstrip("/") == known.base_url
    if provider == "openai" and is_own and _RESPONSES_ONLY.search(model):
        return "responses"
    return known.api


def models_with_keys(env: Mapping[str, str], models: Mapping[str, object] = {}) -> list[str]:
    """Return the models to begin with, as `provider:model`, of every provider that has a key, the likeliest first.

    `models` is that section of the configuration: a provider whose key stands there goes before those of `env`.
    """
    settled = [name for name in KNOWN if getattr(models.get(name), "api_key", None)]
    found = [name for name in KNOWN if key_in(env, KNOWN[name])]
    names = dict.fromkeys([*settled, *found])
    return [f"{name}:{KNOWN[name].first}" for name in names if KNOWN[name].first and name != "openai-responses"]


def key_in(env: Mapping[str, str], known: Provider | None) -> str:
    """Return the key that the environment has for a provider."""
    return next((key for name in (known.keys if known else ()) if (key := env.get(name, "").strip())), "")
