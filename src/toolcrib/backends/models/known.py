"""Providers that are known by name: where they answer, what they speak, where their key is."""

from collections.abc import Mapping

from toolcrib.adapter.cards import Api
from toolcrib.lazy import dataclass, regex


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider: what it speaks, where, its key, and `first`, the model to begin with where none is named.

    The first of `keys` that is set in the environment is its key; one without keys needs none.
    """

    api: Api
    base_url: str
    keys: tuple[str, ...] = ()
    first: str = ""


_GEMINI_URL = "https://generativelanguage.googleapis.com/v1beta"

# In the order in which one is chosen when several have a key.
KNOWN: Mapping[str, Provider] = {
    "anthropic": Provider("anthropic", "https://api.anthropic.com/v1", ("ANTHROPIC_API_KEY",), "claude-sonnet-4-5"),
    "openai": Provider("openai", "https://api.openai.com/v1", ("OPENAI_API_KEY",), "gpt-5"),
    "openai-responses": Provider("responses", "https://api.openai.com/v1", ("OPENAI_API_KEY",), "gpt-5"),
    "gemini": Provider("gemini", _GEMINI_URL, ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "gemini-2.5-flash"),
    "openrouter": Provider(
        "openai", "https://openrouter.ai/api/v1", ("OPENROUTER_API_KEY",), "anthropic/claude-sonnet-4.5"
    ),
    "mistral": Provider("openai", "https://api.mistral.ai/v1", ("MISTRAL_API_KEY",), "mistral-large-latest"),
    "groq": Provider("openai", "https://api.groq.com/openai/v1", ("GROQ_API_KEY",), "openai/gpt-oss-120b"),
    "xai": Provider("openai", "https://api.x.ai/v1", ("XAI_API_KEY",), "grok-4"),
    "deepseek": Provider("openai", "https://api.deepseek.com/v1", ("DEEPSEEK_API_KEY",), "deepseek-chat"),
    "together": Provider("openai", "https://api.together.xyz/v1", ("TOGETHER_API_KEY",), "openai/gpt-oss-120b"),
    "ollama": Provider("openai", "http://127.0.0.1:11434/v1"),
    "vllm": Provider("openai", "http://127.0.0.1:8000/v1"),
    "lmstudio": Provider("openai", "http://127.0.0.1:1234/v1"),
    "llamacpp": Provider("openai", "http://127.0.0.1:8080/v1"),
}

# Models of OpenAI's that answer to the responses API alone.
_RESPONSES_ONLY = regex(r"codex|^computer-use|deep-research|^o[0-9]+-pro|^gpt-[0-9.]+-pro")


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


def is_oauth_token(key: str) -> bool:
    """Tell whether a key of Anthropic's is a token of a subscription, which serves what calls itself Claude Code."""
    return key.startswith("sk-ant-oat")


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
