"""The way out of a crib: what the configuration says about it, and the guard that obeys."""

import asyncio
from typing import TYPE_CHECKING

from toolcrib.backends.web.http import GuardedHttp, SecretRefs
from toolcrib.config.load import SettingsInForce
from toolcrib.define.egress import EgressRules, Opening, judge_port, read_url

if TYPE_CHECKING:
    from toolcrib.backends.web.guard import Guard


class GuardedWayOut:
    """Every way out of one crib. The rules are read anew for each connection: a file that changed counts at once."""

    def __init__(self, settings: SettingsInForce) -> None:
        self._settings = settings
        self._refs = SecretRefs(lambda: settings.config.secrets)
        self.http = GuardedHttp(self.make_guard, self._refs, lambda: settings.config.web.fetch.timeout_seconds)
        self.secret = self._refs.refer

    def rules(self) -> EgressRules:
        """Return the rules that count now."""
        config = self._settings.config
        hosts = config.tools.hosts
        opened = tuple(Opening.read(each) for each in config.web.ssrf.allow_private)
        return EgressRules(opened=opened, allow=hosts.allow, deny=hosts.deny)

    def make_guard(self) -> "Guard":
        """Return a guard of these rules."""
        from toolcrib.backends.web.guard import Guard  # noqa: PLC0415  HTTP takes longer to load than we do

        proxy = self._settings.config.web.proxy
        return Guard(self.rules(), proxy=read_url(proxy) if proxy else None)

    async def explain(self, url: str, /) -> str:
        """Return a URL as it would be dialled; raise what would be raised then."""
        there = read_url(url)
        if refused := judge_port(there.host, there.port):
            raise refused
        await self.make_guard().check(there.host, there.port)
        return there.url

    def for_own(self, url: str, /) -> GuardedHttp:
        """Return the way to one server that the operator wrote down."""
        return GuardedHttp(lambda: self.make_guard().only_for(read_url(url)))

    async def dial(self, host: str, port: int, /) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Return a connection to an address that was judged."""
        return await self.make_guard().dial(host, port)
