"""How MCP servers are reached: programs are started by one supervisor and end with us; others have an address."""

import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from toolcrib.backends.exec.supervisor import SupervisorClient
from toolcrib.define.egress import EgressRules
from toolcrib.define.errors import ToolError
from toolcrib.define.mcp import Definition, Link, LinkTerms
from toolcrib.define.tool import Tool
from toolcrib.threads import in_thread

if TYPE_CHECKING:
    from .oauth import OAuth

_LOGIN_SECONDS = 360.0  # for a handshake that a person has a part in
# What a program may take for granted; all else it is given by name, in `env`.
_BASICS = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")


class ServerSettings(Protocol):
    """What the configuration says about a server: a program, or an address."""

    @property
    def command(self) -> str | None: ...
    @property
    def args(self) -> Sequence[str]: ...
    @property
    def env(self) -> Mapping[str, str]: ...
    @property
    def cwd(self) -> str | None: ...
    @property
    def url(self) -> str | None: ...
    @property
    def headers(self) -> Mapping[str, str]: ...
    @property
    def auth(self) -> Any: ...


class McpReach:
    """Connects to servers, and makes tools of what they declare. What only some servers need is loaded with them."""

    def __init__(
        self,
        env: Mapping[str, str],
        terms: LinkTerms | None = None,
        admit: Callable[[Any], Any] = lambda same: same,
        state: Path | None = None,
        rules: Callable[[], EgressRules] = EgressRules,
    ) -> None:
        self._rules, self._env, self._terms, self.admit = rules, env, terms or LinkTerms(), admit
        self._tokens, self._signers = state / "mcp-auth" if state else None, dict[str, "OAuth"]()
        self._seen = dict[str, set[str]]()
        self._supervisor: SupervisorClient | None = None

    async def connect(
        self, name: str, settings: ServerSettings, redact: Callable[[str], str], changed: Callable[..., None], /
    ) -> Link:
        from .peer import ServerPeer  # noqa: PLC0415  only who has servers pays

        make_peer = partial(ServerPeer, name, changed=changed, redact=redact, window=self._terms.window)
        if settings.url is not None:
            from .http import connect_over_http  # noqa: PLC0415  likewise

            signer = self._find_signer(name, settings) if settings.auth else None
            headers, rules = dict(settings.headers), self._rules
            return await connect_over_http(settings.url, headers, self._terms, make_peer, signer, rules)
        from .stdio import Program, connect_over_stdio  # noqa: PLC0415  likewise

        settings = await in_thread(self.admit, settings)
        built = {word: self._env[word] for word in _BASICS if word in self._env} | dict(settings.env)
        cwd = os.path.expanduser(settings.cwd) if settings.cwd else _current_folder()  # noqa: PTH111
        program = Program((settings.command or "", *settings.args), built, cwd)
        self._supervisor = self._supervisor or SupervisorClient()
        return await connect_over_stdio(program, self._supervisor, self._terms, make_peer)

    def _find_signer(self, name: str, settings: ServerSettings) -> "OAuth":
        from .oauth import OAuth  # noqa: PLC0415  likewise

        if settings.url is None or not settings.auth:
            what = f"the MCP server {name!r} is not one that anybody signs in to"
            raise ToolError(f"{what}; write url and auth: oauth for it in the configuration", code="bad_arguments")
        if self._tokens or name not in self._signers:  # where nothing is kept on a disk, the one there is has the token
            auth = None if settings.auth == "oauth" else settings.auth
            self._signers[name] = OAuth(name, settings.url, auth, self._tokens, self._seen.setdefault(name, set()))
            self._signers[name].load()
        return self._signers[name]

    def secrets(self, name: str, /) -> Iterator[str]:
        return iter(sorted(self._seen.get(name, ()), key=len, reverse=True))

    async def sign_in(
        self, name: str, settings: ServerSettings, redact: Callable[[str], str], show: Callable[[str], None], /
    ) -> str:
        signer = self._find_signer(name, settings)
        signer.show = show
        terms = replace(self._terms, handshake=_LOGIN_SECONDS, listing=_LOGIN_SECONDS)
        patient = McpReach(self._env, terms, rules=self._rules)
        patient._signers[name] = signer
        link = await patient.connect(name, settings, redact, lambda *_: None)
        try:
            await link.fetch_offer()  # many name themselves to anyone, and list their tools to no one
            return link.about
        finally:
            signer.show = None
            await link.close()

    def sign_out(self, name: str, settings: ServerSettings, /) -> bool:
        return self._find_signer(name, settings).forget()

    def make_tools(
        self,
        name: str,
        definitions: Mapping[str, Definition],
        call: Callable[..., Awaitable[Any]],
        redact: Callable[[str], str],
        /,
    ) -> tuple[Mapping[str, Tool], Mapping[str, str]]:
        from .tools import tools_from  # noqa: PLC0415  only who has servers pays

        return tools_from(name, definitions, call, redact)

    def make_resource_tools(
        self, name: str, ask: Callable[..., Awaitable[Mapping[str, Any]]], redact: Callable[[str], str], /
    ) -> Sequence[Tool]:
        from .tools import resource_tools  # noqa: PLC0415  likewise

        return resource_tools(name, ask, redact)

    async def close(self) -> None:
        if self._supervisor is not None:
            await self._supervisor.close()


def _current_folder() -> str:
    try:
        return str(Path.cwd())
    except FileNotFoundError:
        return "/"
