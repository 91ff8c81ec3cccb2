"""Webhooks: what another program posts to /hooks/<name> is looked at by an agent, as a caller of its own.

They have a token of their own, which opens nothing else. The body is from outside and is fenced; the caller is the
hook, never the owner, in the session `hook:<name>`.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from starlette.types import Receive, Scope

from toolcrib.config.settings import HookSettings
from toolcrib.define.caller import Caller, Sender

from .credentials import Principal, matches
from .http import Gate, HttpError, HttpRoute, ask, read_body, read_header, secret_from

PREFIX = "/hooks/"

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_TOKEN_HEADERS = (b"x-toolcrib-token", b"x-openclaw-token")


def routes(server: Gate, settings: Callable[[], HookSettings]) -> Mapping[str, HttpRoute]:
    """Return what is answered below /hooks/; the settings are asked for with every request."""

    async def run(scope: Scope, receive: Receive) -> tuple[int, Any]:
        principal = _admit(settings(), scope)
        text = (await read_body(receive)).decode("utf-8", "replace")
        name = str(principal.caller.session).rpartition(":")[2]
        key = read_header(scope, b"idempotency-key")
        params = {"name": name, "text": text, "idempotencyKey": key and f"{name}:{key}"}
        return 202, {"ok": True, **await ask(server, principal, "hooks.run", params)}

    return {PREFIX: ("POST", run)}


def _admit(settings: HookSettings, scope: Scope) -> Principal:
    """Return the hook that is meant, when its token is shown."""
    name = scope["path"].removeprefix(PREFIX)
    if not settings.enabled or settings.token is None:
        raise HttpError(404, "not_found", "there is nothing here")
    given = secret_from(scope["headers"]) or next(
        filter(None, (read_header(scope, each) for each in _TOKEN_HEADERS)), ""
    )
    if not given or not matches(given, settings.token):
        raise HttpError(
            401, "unauthorized", "show the token of hooks, Authorization: Bearer TOKEN; never in the address"
        )
    if not _NAME.fullmatch(name):
        raise HttpError(404, "not_found", "a hook's name is made of a-z, 0-9, _ and -")
    home = f"agent:{settings.agents.get(name, 'main')}:hook:{name}"
    caller = Caller(channel="hook", sender=Sender(id=f"hook:{name}"), owner=False, session=home)
    return Principal(f"hook:{name}", "operator", frozenset({"operator.write"}), caller)
