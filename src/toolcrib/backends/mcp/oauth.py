"""A server that wants us to sign in: tokens kept for it alone, renewed in silence, given where a person agreed.

The protocol is the official SDK's. The wire beneath it is ours: each address is judged, each answer is bounded, and no
redirect is followed. The SDK takes two seconds to load, so a token that holds is used without it.
"""

import asyncio
import contextlib
import hashlib
import logging
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import orjson

from toolcrib.adapter.trim import error_text
from toolcrib.backends.files.stage import write_synced
from toolcrib.define.errors import ToolError
from toolcrib.threads import in_thread

from .http import read_pieces
from .signin import CallbackPage, judge_address

_ANSWER_BYTES, _ANSWER_SECONDS = 256 * 1024, 30.0
_CHALLENGE_CHARS = 2_000
_PARTS = ("tokens", "client", "issuer", "resource")
_ours: ContextVar[bool] = ContextVar("signing in", default=False)


class OAuth:
    """Signs what is sent to one server. `show` has a person look at an address; without it, no person is asked.

    `settings` are `auth` of the configuration, None where our client is to register itself. `seen` is given every
    secret that was ever used for the server: it may echo it, and no reader may see it.
    """

    show: Callable[[str], None] | None = None

    def __init__(self, name: str, url: str, settings: Any, folder: Path | None, seen: set[str]) -> None:
        self._name, self._url, self._settings, self._lock, self._seen = name, url, settings, asyncio.Lock(), seen
        self._path = folder / f"{hashlib.sha256(url.encode()).hexdigest()}.json" if folder else None
        self._kept: Mapping[str, Any] = {}

    def load(self) -> None:
        """Take what is kept; what cannot be read counts as missing, so a person signs in again."""
        if self._path is None:
            return
        try:
            kept = orjson.loads(self._path.read_bytes())
        except (OSError, ValueError):
            kept = {}
        is_good = isinstance(kept, dict) and kept.get("url") == self._url
        self._take(kept if is_good and all(isinstance(kept.get(part, {}), dict) for part in _PARTS) else {})

    def _take(self, kept: Mapping[str, Any]) -> None:
        self._kept = kept
        for part, name in (("tokens", "access_token"), ("tokens", "refresh_token"), ("client", "client_secret")):
            self._seen |= {str(value) for value in (kept.get(part, {}).get(name),) if value}

    def forget(self) -> bool:
        """Remove what is kept, and tell whether there was anything."""
        self.load()
        had, self._kept = bool(self._kept.get("tokens")), {}
        if self._path is not None:
            self._path.unlink(missing_ok=True)
        return had

    async def send(self, client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
        """Send a request with the token; where the server refuses that, get another and send it once more."""
        await judge_address(self._url, self._url)
        used, asked = self._sign(request), self._kept.get("challenge") if self.show else None
        if asked:  # since an earlier call was refused for want of rights
            response = httpx2.Response(403, headers={"www-authenticate": asked})
        else:
            response = await client.send(request, stream=True)
            if response.status_code != 401 and not _wants_more(response):
                return response
            await response.aclose()
        async with self._lock:
            await self._renew(client, response, used)
        self._sign(request)
        return await client.send(request, stream=True)

    def _sign(self, request: httpx2.Request) -> str:
        token: str = self._kept.get("tokens", {}).get("access_token", "")
        if token:
            request.headers["authorization"] = f"Bearer {token}"
        return token

    async def _renew(self, client: httpx2.AsyncClient, refused: httpx2.Response, used: str) -> None:
        """Get another token than the one that was used, by whichever way is open; raise ToolError when none is."""
        await in_thread(self.load)
        tokens = self._kept.get("tokens", {})
        if tokens.get("access_token", used) != used:
            return  # another call, or another process, was faster
        is_machine = self._settings is not None and self._settings.grant == "client_credentials"
        if not self.show and not is_machine:
            if _wants_more(refused):
                self._kept = {**self._kept, "challenge": refused.headers["www-authenticate"][:_CHALLENGE_CHARS]}
                await in_thread(self._save)
                raise self._needs_person("wants more rights than it has given")
            if not tokens.get("refresh_token"):
                raise self._needs_person("wants you to sign in")
        async with contextlib.AsyncExitStack() as stack:
            page = None
            if self.show is not None and not is_machine:
                page = await stack.enter_async_context(CallbackPage((self._settings and self._settings.port) or 0))
            provider = await in_thread(self._make_provider, page)
            context = provider.context
            if refused.status_code == 401:
                context.token_expiry_time = 1.0  # whatever the server said: refresh it first, where that is possible
            await self._run(client, provider, refused, may_ask=bool(self.show) or is_machine)
        found = (
            context.current_tokens, context.client_info, context.oauth_metadata, context.protected_resource_metadata
        )  # fmt: skip
        pairs = zip(_PARTS, found, strict=True)
        dumped = {part: value.model_dump(mode="json", exclude_none=True) for part, value in pairs if value}
        self._take({"url": self._url, **dumped})
        await in_thread(self._save)

    def _make_provider(self, page: CallbackPage | None) -> Any:
        """Return the SDK's part, which knows what is kept."""
        try:
            from mcp.client.auth import OAuthClientProvider  # noqa: PLC0415  only who signs in pays
            from mcp.client.auth.extensions import client_credentials as machine  # noqa: PLC0415  likewise
            from mcp.shared import auth  # noqa: PLC0415  likewise
        except ModuleNotFoundError as error:
            words = f"signing in needs the package {error.name}; install it with: pip install 'toolcrib[mcp]'"
            raise ToolError(words, code="unavailable") from None
        logging.getLogger("mcp.client.auth.oauth2").addFilter(_is_not_ours)
        ours, kept = self._settings, self._kept
        tokens = auth.OAuthToken.model_validate(kept["tokens"]) if "tokens" in kept else None
        client = auth.OAuthClientInformationFull.model_validate(kept["client"]) if "client" in kept else None
        back = [page.url] if page else ["http://127.0.0.1/callback"]
        if page and client and [str(each) for each in client.redirect_uris or ()] != back:
            client = None  # registered with another port
        id, secret, issuer = (ours.client_id, ours.client_secret, ours.issuer) if ours else (None, None, None)
        web_id = id if id and not secret and id.startswith("https:") else None
        if id and not web_id:
            method = "client_secret_basic" if secret else "none"
            client = auth.OAuthClientInformationFull(
                client_id=id, client_secret=secret, token_endpoint_auth_method=method, issuer=issuer, redirect_uris=back
            )
        store = _Given(tokens, client)
        if ours and ours.private_key:
            sign = machine.SignedJWTParameters(
                issuer=id or "", subject=id or "", signing_key=ours.private_key,
                signing_algorithm=_find_algorithm(ours.private_key),
            ).create_assertion_provider()  # fmt: skip
            provider: Any = machine.PrivateKeyJWTOAuthProvider(self._url, store, id or "", sign, issuer=issuer)
        elif ours and ours.grant == "client_credentials":
            provider = machine.ClientCredentialsOAuthProvider(self._url, store, id or "", secret or "", issuer=issuer)
        else:
            about = auth.OAuthClientMetadata(redirect_uris=back, client_name="toolcrib")
            provider = OAuthClientProvider(self._url, about, store, client_metadata_url=web_id)
        context = provider.context
        if "issuer" in kept:  # else a refresh would go to the server itself
            context.oauth_metadata = auth.OAuthMetadata.model_validate(kept["issuer"])
        if "resource" in kept:
            context.protected_resource_metadata = auth.ProtectedResourceMetadata.model_validate(kept["resource"])
        if page:
            self._connect_page(context, page, auth.AuthorizationCodeResult)
        return provider

    def _connect_page(self, context: Any, page: CallbackPage, make_answer: Callable[..., Any]) -> None:
        """Have the SDK send a person away and hear them come back."""
        state = ""

        async def send_away(url: str) -> None:
            nonlocal state
            offered = context.oauth_metadata
            if offered is not None and "S256" not in (offered.code_challenge_methods_supported or ()):
                raise ToolError("its authorization server does not offer PKCE (S256), without which nobody signs in")
            await judge_address(url, self._url)
            (state,) = parse_qs(urlsplit(url).query)["state"][-1:]
            if self.show is not None:
                self.show(url)

        async def come_back() -> Any:
            answer = await page.wait(state)
            return make_answer(code=answer.get("code", ""), state=answer["state"], iss=answer.get("iss"))

        context.redirect_handler, context.callback_handler = send_away, come_back

    async def _run(self, client: httpx2.AsyncClient, provider: Any, refused: httpx2.Response, *, may_ask: bool) -> None:
        """Let the SDK ask for what it needs until there is a token; raise ToolError when it gets none."""
        from mcp.client.auth import OAuthFlowError, OAuthRegistrationError, OAuthTokenError  # noqa: PLC0415  loaded

        context, had_id, was_asked = provider.context, False, False
        stands_for = httpx2.Request("POST", self._url)  # what was refused; not sent again from here
        flow, quiet = provider.async_auth_flow(stands_for), _ours.set(True)
        try:
            outgoing = await anext(flow)
            while True:
                if outgoing is stands_for:
                    if was_asked or (refused.status_code == 401 and context.is_token_valid()):
                        return
                    if not may_ask:
                        raise self._needs_person("wants you to sign in again")
                    was_asked, response = True, refused
                else:
                    if had_id and context.client_info is None and self._settings and self._settings.issuer:
                        raise ToolError("it names another authorization server than the issuer in auth", code="denied")
                    response = await self._fetch(client, outgoing)
                had_id = context.client_info is not None
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            raise ToolError("signing in came to no end") from None
        except OAuthRegistrationError:
            advice = "get a client id there, and write it as auth: {clientId: ..}"
            raise ToolError(f"its authorization server does not register clients by itself; {advice}") from None
        except OAuthTokenError:  # its words may hold what we have sent
            raise ToolError("its authorization server gave no token", code="denied") from None
        except OAuthFlowError as error:
            raise ToolError(f"signing in failed: {error_text(str(error))}", code="denied") from None
        except (ValueError, KeyError, httpx2.InvalidURL):
            raise ToolError("what it says about signing in cannot be used") from None
        finally:
            _ours.reset(quiet)
            await flow.aclose()

    async def _fetch(self, client: httpx2.AsyncClient, request: httpx2.Request) -> httpx2.Response:
        """Return an answer, whole; raise ToolError when it is too long, too late, or a failure that may pass."""
        host, body = error_text(request.url.host), bytearray()
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await judge_address(str(request.url), self._url)
                response = await client.send(request, stream=True)
                async with contextlib.aclosing(response):
                    async for piece in read_pieces(response):
                        body += piece
                        if len(body) > _ANSWER_BYTES:
                            words = f"{host} sent more than {_ANSWER_BYTES:,} bytes about signing in"
                            raise ToolError(words, code="too_large")
        except (TimeoutError, httpx2.HTTPError) as error:
            raise ToolError(f"{host} could not be reached ({type(error).__name__})", code="unavailable") from None
        if response.status_code >= 500 and request.method == "POST":
            raise ToolError(f"{host} answered {response.status_code}; try again later", code="unavailable")
        return httpx2.Response(response.status_code, content=bytes(body), request=request)

    def _needs_person(self, why: str) -> ToolError:
        return ToolError(f"it {why}; `toolcrib mcp login {self._name}` does that", code="denied")

    def _save(self) -> None:
        """Keep what there is, for this user alone, in the place of what was."""
        if self._path is None:
            return
        fresh = self._path.with_name(f".{token_hex(8)}")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_synced(fresh, orjson.dumps(self._kept))
            fresh.replace(self._path)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            raise ToolError(f"the token cannot be kept in {self._path.parent} ({error.strerror})") from None


class _Given:
    """What the SDK begins with; what it ends with is taken from it when it has worked."""

    def __init__(self, tokens: Any, client: Any) -> None:
        self._tokens, self._client = tokens, client

    async def get_tokens(self) -> Any:
        return self._tokens

    async def get_client_info(self) -> Any:
        return self._client

    async def set_tokens(self, tokens: Any) -> None: ...

    async def set_client_info(self, client_info: Any) -> None: ...


def _is_not_ours(record: logging.LogRecord) -> bool:
    """Keep the SDK's words about us out of the log: they hold bodies and states."""
    return not _ours.get()


def _wants_more(response: httpx2.Response) -> bool:
    return response.status_code == 403 and "insufficient_scope" in response.headers.get("www-authenticate", "")


def _find_algorithm(pem: str) -> str:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey  # noqa: PLC0415  few have a key
    from cryptography.hazmat.primitives.serialization import load_pem_private_key  # noqa: PLC0415  likewise

    try:
        return "ES256" if isinstance(load_pem_private_key(pem.encode(), None), EllipticCurvePrivateKey) else "RS256"
    except (ValueError, TypeError):
        raise ToolError("auth.privateKey is no private key in PEM without a password", code="bad_arguments") from None
