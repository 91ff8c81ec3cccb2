"""A gateway that runs on this machine, as the other commands find it: its address and its token in the state folder."""

import base64
import os
import secrets
import socket
import stat
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

import orjson

from toolcrib.define.errors import CribError, NoAnswerError

from ._log import state_folder

if TYPE_CHECKING:
    from toolcrib.client import GatewayClient

TOKEN_FILE, ADDRESS_FILE = "gateway.token", "gateway.json"
_TOKEN_VARIABLE = "TOOLCRIB_TOKEN"  # noqa: S105  its name
_TOKEN_CHARS = 16
_ANSWER_SECONDS = 2.0
# options that describe somebody else, or something else, than the owner of a gateway
_DESCRIBING = (
    "agent", "model", "channel", "account", "group", "sender", "owner", "sandboxed", "parent", "tools", "read_as",
    "ignore",
)  # fmt: skip


class GatewayAddress(NamedTuple):
    """Where a gateway is, and what it wants to be shown."""

    url: str
    token: str

    def client(self, tries: int = 0) -> "GatewayClient":
        """Return a client that tries once, or so many times more: who waits at a terminal wants to know."""
        from toolcrib.client import connect  # noqa: PLC0415  a call over HTTP does without

        return connect(self.url, self.token, tries=tries)

    def invoke(self, tool: str, args: Mapping[str, Any], session: str) -> dict[str, Any]:
        """Call a tool, by one request over HTTP: a WebSocket takes longer to load than most calls take."""
        body = orjson.dumps({"tool": tool, "args": args, "sessionKey": session})
        with _dial(self.url) as asking:
            try:
                asking.sendall(_head("POST", "/tools/invoke", self.url, self.token, len(body)) + body)
                answer = orjson.loads(_read_answer(asking)[1])
            except (OSError, ValueError) as error:
                raise CribError(f"the gateway hung up, and {tool[:64]} may have run ({error!r:.80})") from None
        if "result" in answer:
            return dict(answer["result"])
        why = answer["error"]
        if why["code"] != "not_found":
            raise CribError(f"the gateway at {self.url} refuses it: {why['message']}")
        return describe_missing(tool, why["message"])


def describe_missing(tool: str, why: str, code: str = "not_found") -> dict[str, Any]:
    """Return what comes of a call of a tool that is not there."""
    details = {"status": "error", "error": why, "code": code, "tool": tool}
    return {"content": [{"type": "text", "text": why}], "details": details, "status": "error", "verdict": None}


def call_plainly(words: Sequence[str]) -> int | None:
    """Call a tool as `toolcrib tools call NAME [JSON] [--json]` does, and return the exit code.

    None means that the full command has to run: other options, a person to ask, or an error in the arguments.
    """
    is_json = words[-1] == "--json"
    name, text = ([*(words[:-1] if is_json else words), "{}", ""])[:2]
    if len(words) - is_json not in (1, 2) or name.startswith("-") or not text.startswith("{"):
        return None
    if not is_json and sys.stdin is not None and sys.stdin.isatty():  # whoever sits there can be asked
        return None
    try:
        gateway = find_gateway({}, here=True)
        answer = gateway.invoke(name, orjson.loads(text), "") if gateway else None
    except (NoAnswerError, OSError, ValueError):  # nothing was sent; the command finds the words for it
        return None
    except CribError as error:
        sys.stderr.write(f"toolcrib: {error}\n")
        return 2
    if answer is None:
        return None
    try:
        if is_json:
            sys.stdout.write(f"{orjson.dumps(answer, option=orjson.OPT_INDENT_2).decode()}\n")
        else:
            show_words(answer)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        sys.stderr.write(f"toolcrib: could not finish ({error.strerror})\n")
        return 2
    return 0 if answer["status"] != "error" else 1


def show_words(answer: Mapping[str, Any]) -> None:
    """Print what came of a call: its words, and a line for each picture."""
    for part in answer["content"]:
        text = part.get("text", "")
        if part["type"] == "image":
            text = f"[{part['mimeType']}, {len(base64.b64decode(part['data']))} bytes]"
        out = sys.stderr if answer["status"] == "error" and part["type"] != "image" else sys.stdout
        code = out.encoding or "utf-8"
        out.write(f"{text.encode(code, 'backslashreplace').decode(code)}\n")


def find_gateway(
    options: Mapping[str, Any], *, here: bool = False, allows: Collection[str] = ()
) -> GatewayAddress | None:
    """Return the gateway that a command goes through: the one it names, else the one that runs; None for neither.

    A command about another configuration (--config), or about another caller than the owner here, goes through no
    gateway of its own accord; nor does one about the files `here` where a gateway works on those of another folder.
    """
    named, given, (found, kept, folder) = options.get("gateway"), options.get("token_file"), read_address()
    words = ((name, options.get(name)) for name in _DESCRIBING if name not in allows)
    other = next((name for name, value in words if value or (name, value) == ("owner", False)), None)
    if named is None and (options.get("config") or other or found is None):
        return None
    if other:
        raise CribError(f"--{other} is a question to a configuration, not to a gateway; leave one of them out")
    if named is None and here and folder not in (None, str(Path.cwd())):
        return None
    url = str(named or found)
    file = Path(given) if given else Path(kept) if kept and url == found else None
    if file is not None:
        return GatewayAddress(url, read_token(file))
    if token := os.environ.get(_TOKEN_VARIABLE, "").strip():
        return GatewayAddress(url, token)
    if named is None:  # its secret is in its configuration, and not ours to guess: the same state is here
        return None
    raise CribError(f"{named} needs a token: name a file that holds it with --token-file, or set {_TOKEN_VARIABLE}")


def find_answering(options: Mapping[str, Any], **how: Any) -> GatewayAddress | None:
    """Return the gateway that a command goes through, as `find_gateway` does; None for one that was killed.

    One that was named is not checked first: connecting to it reports what is wrong.
    """
    found = find_gateway(options, **how)
    return found if found is None or options.get("gateway") or is_answering(found.url) else None


def read_address() -> tuple[str | None, str | None, str | None]:
    """Return where the gateway of this state folder is, None when none runs, the file that holds its token, and its
    folder, None where its configuration names another."""
    try:
        address = orjson.loads((state_folder() / ADDRESS_FILE).read_bytes())
        os.kill(address["pid"], 0)
        return str(address["url"]), address["tokenFile"], address.get("folder")
    except (OSError, ValueError, KeyError, TypeError):
        return None, None, None


def is_answering(url: str) -> bool:
    """Tell whether a gateway answers there; this needs no token."""
    try:
        with _dial(url, _ANSWER_SECONDS) as asking:
            asking.sendall(_head("GET", "/health", url))
            return b" 200 " in _read_answer(asking)[0]
    except (OSError, NoAnswerError):
        return False


# HTTP/1.0 by hand: the library for it takes longer to load than a call takes


def _dial(url: str, seconds: float | None = None) -> socket.socket:
    at = urlsplit(url)
    try:
        dialled = socket.create_connection((at.hostname or "", at.port or (443 if at.scheme == "wss" else 80)), seconds)
        if at.scheme != "wss":
            return dialled
        import ssl  # noqa: PLC0415  only from afar

        return ssl.create_default_context().wrap_socket(dialled, server_hostname=at.hostname)
    except OSError as error:
        raise NoAnswerError(f"no gateway answers at {url} ({error})") from None


def _head(verb: str, path: str, url: str, token: str = "", size: int = 0) -> bytes:
    lines = [f"{verb} {path} HTTP/1.0", f"Host: {urlsplit(url).netloc}", f"Content-Length: {size}"]
    lines += [f"Authorization: Bearer {token}", "Content-Type: application/json"] if token else []
    return "\r\n".join([*lines, "", ""]).encode()


def _read_answer(asking: socket.socket) -> tuple[bytes, bytes]:
    """Return the head and the body of an answer: all that comes until the other side hangs up."""
    head, _, body = b"".join(iter(lambda: asking.recv(1 << 16), b"")).partition(b"\r\n\r\n")
    return head, body


def write_address(url: str, token_file: Path | None, folder: Path | None) -> Path:
    """Tell other commands where this process serves, where its token is and in which folder it works; return the file
    to remove at the end."""
    path = state_folder() / ADDRESS_FILE
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    fresh = path.with_name(f".{ADDRESS_FILE}.{os.getpid()}")
    kept = None if token_file is None else os.path.abspath(token_file)  # noqa: PTH100  a link stays one
    address = {"url": url, "pid": os.getpid(), "tokenFile": kept, "folder": folder and str(folder)}
    fresh.write_bytes(orjson.dumps(address))
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
