"""One finding of the doctor; and its probe of models: which one answers, where its key is, which local servers run."""

import asyncio
import http.client
import ipaddress
import json
from collections.abc import Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlsplit

from toolcrib.app import Crib
from toolcrib.app.models import OFFLINE
from toolcrib.backends.models.known import KNOWN
from toolcrib.config.settings import ProviderSettings
from toolcrib.define.errors import CribError
from toolcrib.define.model import model_name
from toolcrib.lazy import asdict, dataclass
from toolcrib.threads import in_thread

HealthState = Literal["ok", "missing", "broken"]

EVERY_TOOL = ("*",)
_SERVER_SECONDS = 1.0
_ANSWER_BYTES = 1 << 20
_MAX_NAMES, _NAME_CHARS = 3, 80
_START_COMMANDS = {"ollama": "ollama serve", "lmstudio": "lms server start"}


@dataclass(frozen=True, slots=True)
class HealthCheck:
    """What was found. `tools` do not work until it is mended, `less` is what else is lost, `remedy` what to do.

    Something is broken when what was asked for does not work; what is missing and costs no tool can stay so.
    """

    what: str
    state: HealthState
    found: str = ""
    tools: tuple[str, ...] = ()
    less: str = ""
    remedy: str = ""

    @property
    def fails(self) -> bool:
        """Whether something that is needed does not work."""
        return self.state == "broken" or (self.state == "missing" and bool(self.tools))

    def to_json(self) -> dict[str, Any]:
        """Return the row of `--json`."""
        return {**asdict(self), "tools": list(self.tools)}


@dataclass(frozen=True, slots=True)
class _Server:
    """Whether something answers at `url`, and the models it lists: none when it knows nothing of models."""

    url: str
    is_up: bool = False
    models: tuple[str, ...] = ()

    def list_models(self) -> str:
        more = f" and {len(self.models) - _MAX_NAMES} more" if len(self.models) > _MAX_NAMES else ""
        return f"{', '.join(self.models[:_MAX_NAMES])}{more}"


async def check_models(crib: Crib, env: Mapping[str, str]) -> Sequence[HealthCheck]:
    """Look who would answer each agent. No key is sent, and no other machine is asked."""
    agents: dict[str, list[str]] = {}  # by the model that answers for them
    for agent in crib.config.agent_ids():
        agents.setdefault(crib.models.name_for(agent), []).append(agent)
    addresses = _find_local_addresses(crib)
    answers = await asyncio.gather(*(in_thread(_ask_server, *each) for each in addresses.values()))
    servers = dict(zip(addresses, answers, strict=True))
    checks = [_check_model(crib, name, each, servers, env) for name, each in agents.items()]
    wanted = {model_name(name)[0] for name in agents}
    for provider, server in servers.items():
        if provider not in wanted and server.models:
            checks.append(HealthCheck(provider, "ok", f"answers at {server.url} with {server.list_models()}"))
    return checks


def _check_model(
    crib: Crib, name: str, agents: Sequence[str], servers: Mapping[str, _Server], env: Mapping[str, str]
) -> HealthCheck:
    what = "model" if "main" in agents else f"model of {agents[0]}"
    if name == OFFLINE:
        return _check_offline(what, servers)
    provider, model = model_name(name)
    try:
        crib.models.get(name)
    except CribError as error:
        remedy = "set what it asks for, or name another in models.default"
        return HealthCheck(what, "broken", f"{name}: {error}", less="every answer", remedy=remedy)
    server = servers.get(provider)
    if server is None:
        return HealthCheck(what, "ok", f"{name}, {_find_key(crib, provider, env)}")
    if not server.is_up:
        found = f"{name}: nothing answers at {server.url}"
        remedy = _START_COMMANDS.get(provider, "start it, or name another in models.default")
    elif server.models and not {model, f"{model}:latest"} & set(server.models):
        found = f"{name}: {server.url} has no such model, only {server.list_models()}"
        other = f"set models.default: {provider}:{server.models[0]}"
        remedy = f"ollama pull {model}" if provider == "ollama" else other
    else:
        return HealthCheck(what, "ok", f"{name} answers at {server.url}")
    return HealthCheck(what, "broken", found, less="every answer", remedy=remedy)


def _check_offline(what: str, servers: Mapping[str, _Server]) -> HealthCheck:
    """Say that rules answer, because nobody has a key: enough to try the tools, so nothing is broken."""
    local = next((f"{provider}:{each.models[0]}" for provider, each in servers.items() if each.models), "")
    found, less = "no provider has a key, so the offline model answers, by rules", "answers to more than its six verbs"
    remedy = f"set models.default: {local}" if local else "export ANTHROPIC_API_KEY=..., or another provider's"
    return HealthCheck(what, "missing", found, less=less, remedy=remedy)


def _find_key(crib: Crib, provider: str, env: Mapping[str, str]) -> str:
    """Return where the key comes from; never the key."""
    given, known = crib.config.models.get(provider), KNOWN.get(provider)
    if isinstance(given, ProviderSettings) and given.api_key:
        return "with the key of the configuration"
    named = next((name for name in (known.keys if known else ()) if env.get(name, "").strip()), "")
    return f"with the key in {named}" if named else "without a key"


def _find_local_addresses(crib: Crib) -> dict[str, tuple[str, int, str]]:
    """Return where on this machine a provider may answer: host, port and path, without anybody's password."""
    found: dict[str, tuple[str, int, str]] = {}
    for provider in dict.fromkeys([*KNOWN, *crib.config.models]):
        given, known = crib.config.models.get(provider), KNOWN.get(provider)
        own = given.base_url if isinstance(given, ProviderSettings) else None
        if address := _parse_loopback((own or (known.base_url if known else "")).rstrip("/")):
            found[provider] = address
    return found


def _parse_loopback(url: str) -> tuple[str, int, str] | None:
    """Return the parts of an address, None when it leads off this machine, needs TLS, or is none."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
        is_here = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return None
    return (host, port or 80, parts.path) if is_here and parts.scheme == "http" else None


def _ask_server(host: str, port: int, path: str) -> _Server:
    """Ask a server which models it has."""
    url = f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
    connection = http.client.HTTPConnection(host, port, timeout=_SERVER_SECONDS)
    try:
        connection.request("GET", f"{path}/models", headers={"Accept": "application/json"})
        body = connection.getresponse().read(_ANSWER_BYTES)
    except (OSError, http.client.HTTPException):
        return _Server(url)
    finally:
        connection.close()
    try:
        models = tuple(str(each["id"])[:_NAME_CHARS] for each in json.loads(body)["data"])
    except (ValueError, LookupError, TypeError):
        return _Server(url, is_up=True)
    return _Server(url, is_up=True, models=models)
