"""A gateway that runs on this machine, as the other commands find it: its address and its token in the state folder."""

import os
import secrets
import stat
from collections.abc import Mapping
from contextlib import AsyncExitStack, closing
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from toolcrib.client import TOKEN_VARIABLE, GatewayClient, connect
from toolcrib.define.errors import CribError, NoAnswerError

from ._log import state_folder

TOKEN_FILE, ADDRESS_FILE = "gateway.token", "gateway.json"
_TOKEN_CHARS = 16
_ANSWER_SECONDS = 2.0


class GatewayAddress(NamedTuple):
    """Where a gateway is, and what it wants to be shown."""

    url: str
    token: str

    def client(self) -> GatewayClient:
        """Return a client that tries once: who waits at a terminal wants to know."""
        return connect(self.url, self.token, tries=0)


def find_gateway(options: Mapping[str, Any]) -> GatewayAddress | None:
    """Return the gateway that a command goes through: the one it names, else the one that runs; None for neither.

    A command about another configuration (--config) is about that file, and goes through no gateway of its own accord.
    """
    named, given, (found, kept) = options.get("gateway"), options.get("token_file"), read_address()
    if named is None and (options.get("config") or found is None):
        return None
    url = str(named or found)
    file = Path(given) if given else Path(kept) if kept and url == found else None
    if file is not None:
        return GatewayAddress(url, read_token(file))
    if token := os.environ.get(TOKEN_VARIABLE, "").strip():
        return GatewayAddress(url, token)
    if named is None:  # its secret is in its configuration, and not ours to guess: the same state is here
        return None
    raise CribError(f"{named} needs a token: name a file that holds it with --token-file, or set {TOKEN_VARIABLE}")


async def enter_gateway(stack: AsyncExitStack, options: Mapping[str, Any]) -> GatewayClient | None:
    """Return a client of the gateway that a command goes through, connected until the stack ends; None for none.

    One that was found and does not answer was killed, and left its address behind.
    """
    if (found := find_gateway(options)) is None:
        return None
    try:
        return await stack.enter_async_context(found.client())
    except NoAnswerError:
        if options.get("gateway"):
            raise
        return None


def read_address() -> tuple[str | None, str | None]:
    """Return where the gateway of this state folder is, None when none runs, and the file that holds its token."""
    try:
        told = orjson.loads((state_folder() / ADDRESS_FILE).read_bytes())
        os.kill(told["pid"], 0)
        return str(told["url"]), told["tokenFile"]
    except (OSError, ValueError, KeyError, TypeError):
        return None, None


def is_answering(url: str) -> bool:
    """Tell whether a gateway answers there; this needs no token."""
    at = urlsplit(url)
    with closing(HTTPConnection(at.hostname or "", at.port, timeout=_ANSWER_SECONDS)) as asking:
        try:
            asking.request("GET", "/health")
            return asking.getresponse().status == 200
        except (OSError, HTTPException):
            return False


def write_address(url: str, token_file: Path | None) -> Path:
    """Tell other commands where this process serves and where its token is; return the file to remove at the end."""
    path = state_folder() / ADDRESS_FILE
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{ADDRESS_FILE}.{os.getpid()}")
    kept = None if token_file is None else os.path.abspath(token_file)  # noqa: PTH100  a link stays one
    fresh.write_bytes(orjson.dumps({"url": url, "pid": os.getpid(), "tokenFile": kept}))
    fresh.replace(path)
    return path


def make_token(path: Path) -> str:
    """Return the token in this file, which is made when it is not there; nobody else may read it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    try:
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(f"{secrets.token_urlsafe(32)}\n")
    except FileExistsError:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise CribError(f"{path} can be read by others; remove it, and another token is made") from None
    return read_token(path)


def read_token(path: Path) -> str:
    """Return the token in a file; raise CribError when there is none that will do."""
    try:
        token = path.expanduser().read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise CribError(f"{path} cannot be read ({error}); write the token into it, and nothing else") from None
    if len(token) < _TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
        raise CribError(f"{path} holds no token; write {_TOKEN_CHARS} or more letters, digits and marks into it")
    return token
