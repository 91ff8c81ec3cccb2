"""What went wrong between us and a provider, as one sentence that a person can act on, and whether to ask again.

Also how JSON that a server sent is read, however it is spelled.
"""

import ipaddress
import json
import math
import ssl
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import httpx2
import orjson

from toolcrib.adapter.reply import says_overflow
from toolcrib.adapter.trim import error_text
from toolcrib.adapter.wire import as_list, as_object, as_text
from toolcrib.lazy import dataclass, regex

_AGAIN = frozenset({408, 409, 425, 429})
_MAX_WAIT_SECONDS = 86_400.0  # seconds that a provider may ask for
_CODE = regex(r"[A-Za-z][A-Za-z0-9_.-]{2,60}")
# How providers name failures that pass, in the body of an answer or in the middle of a stream.
_PASSING = frozenset(
    [
        "overloaded_error", "overloaded", "api_error", "timeout_error", "rate_limit_error", "rate_limit_exceeded",
        "server_error", "internal_server_error", "internal_error", "service_unavailable", "timeout",
        "unavailable", "resource_exhausted", "internal", "deadline_exceeded", "aborted",
    ]
)  # fmt: skip
# ... and one that comes with 429 and does not pass without a payment.
_SPENT = frozenset({"insufficient_quota", "billing_hard_limit_reached", "billing_error", "credit_balance_too_low"})


class FailedError(Exception):
    """Asking failed; `retry` is None when asking again would not help, else the seconds to wait first.

    `is_cut` says that the connection, and not what came over it, is at fault: a reply that was whole by then stands.
    """

    def __init__(self, sentence: str, retry: float | None = None, *, is_cut: bool = False) -> None:
        super().__init__(sentence)
        self.sentence, self.retry, self.is_cut = sentence, retry, is_cut


@dataclass(frozen=True, slots=True, kw_only=True)
class ProviderLabel:
    """Who is asked, as sentences name it. `advice` is where its key is set, "" where none is needed."""

    provider: str
    model: str
    base_url: str
    advice: str = ""
    has_key: bool = False
    redact: Callable[[str], str] = str

    @property
    def address(self) -> str:
        """The base URL as it may be shown: without a name and a password in it."""
        return self.redact(_strip_credentials(self.base_url))

    @property
    def setting(self) -> str:
        return f"models.{self.provider}"

    def quote(self, text: str) -> str:
        """Return a text of a server, in one line."""
        return error_text(text, self.redact)


def describe_status(label: ProviderLabel, status: int, headers: Mapping[str, str], body: bytes) -> FailedError:
    """Return what an answer with that status means."""
    who, (complaint, codes) = label.provider, _read_complaint(label, body)
    if status < 400:
        onward = _strip_credentials(headers.get("location", "")) or "nowhere"
        return FailedError(
            f"{label.address} sends requests on to {label.quote(onward)}, and a key is not sent after them; "
            f"set {label.setting}.baseUrl to the address that is meant"
        )
    why = f": {complaint}" if complaint else ""
    if status == 401:
        what = "did not accept the API key" if label.has_key else "wants an API key"
        return FailedError(f"{who} {what}; set {label.advice or f'{label.setting}.apiKey'}")
    if status == 403:
        key = label.advice or f"{label.setting}.apiKey"
        return FailedError(f"{who} does not allow this (403){why}; check what the key in {key} may do")
    if status == 404:
        return FailedError(
            f"{who} knows no model {label.model!r} at {label.address}{why}; check its name, or {label.setting}.baseUrl"
        )
    if status in (400, 413) and not complaint:
        return FailedError(f"{status} (no body): {who} refused the request and did not say why")
    retry = None
    if (status in _AGAIN or status >= 500) and not codes & _SPENT:
        retry = max(_retry_after(headers), _gemini_delay(_find_error(body)))
    return FailedError(f"{who} answered {status}{why or ', and did not say why'}", retry)


def describe_transport(label: ProviderLabel, error: httpx2.HTTPError) -> FailedError:
    """Return what a failure of the connection means."""
    who, causes = label.provider, _causes(error)
    if any(isinstance(cause, ssl.SSLError) for cause in causes):
        why = label.quote(str(error))
        return FailedError(f"no secure connection to {label.address}: {why}; check {label.setting}.baseUrl")
    match error:
        case httpx2.ConnectTimeout():
            return FailedError(f"{who} did not take a connection at {label.address} in time", 0.0)
        case httpx2.ConnectError() | httpx2.ProxyError():
            why = next((each.strerror for each in causes if isinstance(each, OSError) and each.strerror), str(error))
            if any(isinstance(each, ConnectionRefusedError) for each in causes):
                return _describe_refusal(label)
            return FailedError(f"{who} cannot be reached at {label.address}: {label.quote(why)}", 0.0)
        case httpx2.TimeoutException():
            return FailedError(f"{who} did not take the request in time", 0.0)
    why = label.quote(str(error) or type(error).__name__)
    return FailedError(f"the connection to {who} broke off before the end of the reply ({why})", 0.0, is_cut=True)


def describe_silence(label: ProviderLabel, what: str, seconds: float) -> FailedError:
    """Return that an answer did not come in time: asked again, a slow server would have two of it to work on."""
    advice = f"it may still be working on it, so it was not asked again; {label.setting}.timeoutSec waits longer"
    return FailedError(f"{label.provider} {what} {seconds:g} seconds; {advice}", is_cut=True)


def _describe_refusal(label: ProviderLabel) -> FailedError:
    """Return that no server listens; on this machine none will until a person starts it."""
    sentence = f"{label.provider} cannot be reached at {label.address}: nothing listens there"
    if not is_loopback(urlsplit(label.base_url).hostname or ""):
        return FailedError(sentence, 0.0)
    how = " with `ollama serve`" if label.provider == "ollama" else ""
    return FailedError(f"{sentence}; start it{how}, or set {label.setting}.baseUrl to where it listens")


def retry_delay(value: Any) -> float | None:
    """Return whether a failure that a provider sent in its stream, as a value there, is worth another try."""
    body = as_object(value)
    within = as_object(body.get("response")).get("error")
    error = as_object(body.get("error") or within or body)
    if _find_codes(error) & _SPENT:
        return None
    status = error.get("code") if type(error.get("code")) is int else error.get("status")
    passes = type(status) is int and (status in _AGAIN or status >= 500)
    return _gemini_delay(error) if passes or _find_codes(error) & _PASSING else None


def _read_complaint(label: ProviderLabel, body: bytes) -> tuple[str, frozenset[str]]:
    """Return what an error says in one line, and the codes that it bears."""
    text = body.decode(errors="replace").strip()
    if text[:1] not in ("{", "["):
        is_page = text[:1] == "<"
        return ("a web page" if is_page else label.quote(text) if text else ""), frozenset()
    error = _find_error(body)
    message = as_text(error.get("message")) or as_text(error.get("detail")) or as_text(error.get("error")) or text
    codes, quoted = _find_codes(error), label.quote(message)
    code = next(filter(says_overflow, sorted(codes)), "")
    return (f"{quoted} ({code})" if code and not says_overflow(quoted) else quoted), codes


def _find_error(body: bytes) -> Mapping[str, Any]:
    """Return the object in which the body of an answer tells of an error."""
    try:
        value = parse_json(body)
    except NotJsonError:
        return {}
    first = value[0] if isinstance(value, list) and value else value
    head = as_object(first)
    return as_object(head.get("error")) or head


def _find_codes(error: Mapping[str, Any]) -> frozenset[str]:
    named = (as_text(error.get(field)) for field in ("code", "type", "status"))
    return frozenset(name.lower() for name in named if _CODE.fullmatch(name))


def _retry_after(headers: Mapping[str, str]) -> float:
    if milliseconds := headers.get("retry-after-ms", ""):
        return _parse_seconds(milliseconds) / 1_000
    header = headers.get("retry-after", "").strip()
    if not header or _parse_seconds(header):
        return _parse_seconds(header)
    try:
        return _clamp(parsedate_to_datetime(header).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _gemini_delay(error: Mapping[str, Any]) -> float:
    """Return the seconds that Gemini asks to wait, among the details of its error."""
    delays = (as_text(as_object(each).get("retryDelay")) for each in as_list(error.get("details")))
    return max((_parse_seconds(delay.removesuffix("s")) for delay in delays), default=0.0)


def _parse_seconds(text: str) -> float:
    try:
        return _clamp(float(text))
    except ValueError:
        return 0.0


def _clamp(seconds: float) -> float:
    return min(max(seconds, 0.0), _MAX_WAIT_SECONDS) if math.isfinite(seconds) else 0.0


def _strip_credentials(url: str) -> str:
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return ""
    host = parts.hostname or ""
    return urlunsplit((parts.scheme, f"[{host}]{port}" if ":" in host else f"{host}{port}", parts.path, "", ""))


def is_loopback(host: str) -> bool:
    """Tell whether a host is this machine."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_at_home(host: str) -> bool:
    """Tell whether a host is this machine or one of its own network."""
    if is_loopback(host) or host.endswith((".local", ".lan", ".home.arpa")):
        return True
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host


def _causes(error: BaseException) -> list[BaseException]:
    seen: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in seen:
        seen.append(cause)
        cause = cause.__cause__ or cause.__context__
    return seen


# ---- what a server sent, read without trust


class NotJsonError(Exception):
    """A text is no JSON."""


def parse_json(data: bytes) -> Any:
    """Return the value that the bytes spell.

    Some servers write numbers that JSON does not have, or half of a character where a piece ends; both are read.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        try:
            return json.loads(data.decode(), parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            raise NotJsonError from None
