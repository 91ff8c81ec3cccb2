"""What the doctor says of models: which one answers, whether its key is there, which servers of this machine answer."""

import asyncio
import http.client
import ipaddress
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from toolcrib.backends.providers.known import KNOWN
from toolcrib.config.settings import ProviderSettings
from toolcrib.define.errors import CribError
from toolcrib.define.model import model_name
from toolcrib.define.threads import in_thread

from . import Crib
from .check import Check
from .models import OFFLINE

__all__ = ["model_checks"]

_PATIENCE = 1.0  # seconds for a server of this machine
_LONGEST = 1 << 20  # bytes of its answer
_MOST_NAMED, _LONGEST_NAME = 3, 80


@dataclass(frozen=True, slots=True)
class _Answer:
    """Whether something answers at `url`, and the models it lists: none when it knows nothing of models."""

    url: str
    is_there: bool = False
    models: tuple[str, ...] = ()


async def model_checks(crib: Crib, env: Mapping[str, str]) -> Sequence[Check]:
    """Look who would answer each agent. No key is sent, and nobody is asked who is not on this machine."""
    names, places = _names(crib), _places(crib)
    answers = await asyncio.gather(*(in_thread(_asked, *each) for each in places.values()))
    here = dict(zip(places, answers, strict=True))
    checks = [_check(crib, name, agents, here, env) for name, agents in names.items()]
    wanted = {model_name(name)[0] for name in names}
    for provider, answer in here.items():
        if provider not in wanted and answer.models:
            checks.append(Check(what=provider, found=f"answers at {answer.url} with {_listed(answer.models)}"))
    return checks


def _names(crib: Crib) -> dict[str, list[str]]:
    """Return the models that would answer, each with the agents it answers for."""
    names: dict[str, list[str]] = {}
    for agent in crib.config.agent_ids():
        names.setdefault(crib.models.name_for(agent), []).append(agent)
    return names


def _check(crib: Crib, name: str, agents: Sequence[str], here: Mapping[str, _Answer], env: Mapping[str, str]) -> Check:
    what = "model" if "main" in agents else f"model of {agents[0]}"
    if name == OFFLINE:
        return _offline(what, here)
    provider, model = model_name(name)
    try:
        crib.models.get(name)
    except CribError as error:
        return _silent(what, f"{name}: {error}", "set what it asks for, or name another in models.default")
    answer = here.get(provider)
    if answer is None:
        return Check(what=what, found=f"{name}, {_key(crib, provider, env)}")
    if not answer.is_there:
        remedy = _START.get(provider, "start it, or name another in models.default")
        return _silent(what, f"{name}: nothing answers at {answer.url}", remedy)
    if answer.models and not {model, f"{model}:latest"} & set(answer.models):
        other = f"set models.default: {provider}:{answer.models[0]}"
        remedy = f"ollama pull {model}" if provider == "ollama" else other
        return _silent(what, f"{name}: {answer.url} has no such model, only {_listed(answer.models)}", remedy)
    return Check(what=what, found=f"{name} answers at {answer.url}")


def _silent(what: str, found: str, remedy: str) -> Check:
    return Check(what=what, state="broken", found=found, less="every answer", remedy=remedy)


_START = {"ollama": "ollama serve", "lmstudio": "lms server start"}


def _offline(what: str, here: Mapping[str, _Answer]) -> Check:
    """Say that rules answer, because nobody has a key: enough to try the tools, so nothing is broken."""
    local = next((f"{provider}:{answer.models[0]}" for provider, answer in here.items() if answer.models), "")
    return Check(
        what=what,
        state="missing",
        found="no provider has a key, so the offline model answers, by rules",
        less="answers to what its rules do not know",
        remedy=f"set models.default: {local}" if local else "export ANTHROPIC_API_KEY=..., or another provider's",
    )


def _key(crib: Crib, provider: str, env: Mapping[str, str]) -> str:
    """Return where the key comes from; never the key."""
    given, known = crib.config.models.get(provider), KNOWN.get(provider)
    if isinstance(given, ProviderSettings) and given.api_key:
        return "with the key of the configuration"
    named = next((name for name in (known.keys if known else ()) if env.get(name, "").strip()), "")
    return f"with the key in {named}" if named else "without a key"


def _places(crib: Crib) -> dict[str, tuple[str, int, str]]:
    """Return where on this machine a provider may answer: host, port and path, without anybody's password."""
    found: dict[str, tuple[str, int, str]] = {}
    for provider in dict.fromkeys([*KNOWN, *crib.config.models]):
        given, known = crib.config.models.get(provider), KNOWN.get(provider)
        own = given.base_url if isinstance(given, ProviderSettings) else None
        if place := _loopback((own or (known.base_url if known else "")).rstrip("/")):
            found[provider] = place
    return found


def _loopback(url: str) -> tuple[str, int, str] | None:
    """Return the parts of an address, None when it leads off this machine, needs TLS, or is none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        is_here = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return None
    return (host, port or 80, parts.path) if is_here and parts.scheme == "http" else None


def _asked(host: str, port: int, path: str) -> _Answer:
    """Ask a server which models it has."""
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
    connection = http.client.HTTPConnection(host, port, timeout=_PATIENCE)
    try:
        connection.request("GET", f"{path}/models", headers={"Accept": "application/json"})
        said = connection.getresponse().read(_LONGEST)
    except (OSError, http.client.HTTPException):
        return _Answer(url)
    finally:
        connection.close()
    try:
        models = tuple(str(each["id"])[:_LONGEST_NAME] for each in json.loads(said)["data"])
    except (ValueError, LookupError, TypeError):
        return _Answer(url, is_there=True)
    return _Answer(url, is_there=True, models=models)


def _listed(models: Sequence[str]) -> str:
    more = f" and {len(models) - _MOST_NAMED} more" if len(models) > _MOST_NAMED else ""
    return f"{', '.join(models[:_MOST_NAMED])}{more}"
