"""From `provider` and `model` to a model that can be asked: its address, its key, its way to speak."""

import ipaddress
from collections.abc import Mapping, Sequence
from urllib.parse import SplitResult, urlsplit

from toolcrib.adapter.cards import card_for, target_for
from toolcrib.define.errors import CribError
from toolcrib.define.model import ModelCard
from toolcrib.define.names import nearest

from .failures import Place
from .http import PATIENCE, Endpoint, HttpModel, Patience
from .known import KNOWN, api_for, key_in
from .wires import WIRES

__all__ = ["model_for"]

_SHORTEST_SECRET = 8  # characters; what is shorter stands for no key, and in ordinary words
_HIDDEN = "[hidden]"


def model_for(  # noqa: PLR0913  all of them stand in the configuration, under these names
    provider: str,
    model: str,
    *,
    base_url: str = "",
    api_key: str = "",
    headers: Mapping[str, str] = {},
    env: Mapping[str, str],
    card: ModelCard | None = None,
    patience: Patience = PATIENCE,
) -> HttpModel:
    """Return the model that answers to these names.

    A provider that is not known speaks OpenAI's chat completions, at its `base_url`. `openai` speaks them too, except
    to models that only know the responses API; `openai-responses` speaks that to any. The key is `api_key`, else the
    provider's variable in `env`. Raise CribError, in one sentence that says what to set, when it cannot be asked.
    """
    known = KNOWN.get(provider)
    if known is None and not base_url:
        meant = nearest(provider, KNOWN)
        hint = f"did you mean {meant[0]!r}?" if meant else f"set models.{provider}.baseUrl to where it answers"
        raise CribError(f"no model provider is called {provider!r}; {hint}")
    base = (base_url or (known.base_url if known else "")).rstrip("/")
    parts = _address(provider, base)
    wire = WIRES[api_for(provider, model, base)]
    if wire.api == "anthropic" and not parts.path.rstrip("/"):
        base += "/v1"  # how the base URL of this one is mostly written
    key = (api_key or key_in(env, known)).strip()
    advice = " or ".join([*(known.keys[:1] if known else ()), f"models.{provider}.apiKey"])
    if not key and not headers and not base_url and known and known.keys:
        raise CribError(f"{provider} needs an API key; set {advice}")
    sent = {**_ALWAYS, **wire.headers, **(wire.keyed(key) if key else {}), **headers}
    _refuse_unsendable(provider, sent)
    is_here = _is_here(parts.hostname or "")
    secrets = (key, *(value for value in headers.values()), parts.password or "")
    card = card or card_for(provider, model)
    is_own = known is not None and base == known.base_url  # behind another address is a server that is only compatible
    return HttpModel(
        card,
        target_for(provider if is_own or provider != "openai" else "", model, card, api=wire.api),
        Endpoint(
            url=base + wire.path(model),
            headers=sent,
            is_here=is_here,
            proxy=None if is_here else _proxy(env, parts),
        ),
        Place(
            provider=provider,
            model=model,
            base_url=base,
            advice=advice,
            has_key=bool(key),
            redact=_Redacted([secret for secret in secrets if len(secret) >= _SHORTEST_SECRET]),
        ),
        patience,
    )


_ALWAYS = {
    "Content-Type": "application/json",
    "Accept": "text/event-stream, application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "toolcrib",
}


class _Redacted:
    """Takes secrets out of a text."""

    def __init__(self, secrets: Sequence[str]) -> None:
        self._secrets = sorted(set(secrets), key=len, reverse=True)

    def __call__(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, _HIDDEN)
        return text


def _address(provider: str, base_url: str) -> SplitResult:
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or not base_url.isprintable():
        raise CribError(f"models.{provider}.baseUrl is no address of a server; write one like https://host/v1")
    return parts


def _refuse_unsendable(provider: str, headers: Mapping[str, str]) -> None:
    for name, value in headers.items():
        if not (name + value).isascii() or not (name + value).isprintable():
            what = "apiKey" if name.lower() in _KEYED else f"headers.{name}"
            raise CribError(f"models.{provider}.{what} has characters that no header carries; copy it again")


_KEYED = frozenset({"authorization", "x-api-key", "x-goog-api-key"})


def _is_here(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _proxy(env: Mapping[str, str], parts: SplitResult) -> str | None:
    """Return the proxy that the environment names for an address, None when it names none."""
    host = parts.hostname or ""
    for name in (each.strip().lower().lstrip("*.") for each in _either(env, "no_proxy").split(",")):
        if name and (host == name or host.endswith(f".{name}")):
            return None
    if "*" in map(str.strip, _either(env, "no_proxy").split(",")):
        return None
    found = _either(env, f"{parts.scheme}_proxy") or _either(env, "all_proxy")
    if not found:
        return None
    return found if "://" in found else f"http://{found}"


def _either(env: Mapping[str, str], name: str) -> str:
    return env.get(name) or env.get(name.upper()) or ""
