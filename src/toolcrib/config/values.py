"""The kinds of values that several sections use, each checked where it is read and refused in one sentence.

A sentence may show the value; `complain` leaves it out where it came from the environment. Secrets are never shown.
"""

import ipaddress
import re
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Annotated, Any
from urllib.parse import urlsplit

import re2
from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from toolcrib.define.egress import Opening, fold_origin, read_host, read_url
from toolcrib.define.errors import ToolError
from toolcrib.define.names import canonical, fold_name
from toolcrib.lazy import regex
from toolcrib.policy.identities import SENDER_TYPES, is_role, sender_key

Str = Annotated[StrictStr, Field(max_length=65_536)]
Bool = StrictBool
Int = StrictInt
Count = Annotated[StrictInt, Field(ge=0, le=1_000_000_000)]

_MINUTE, _DAY, _YEAR = 60, 86_400, 366 * 86_400
_MAX_SHOWN_CHARS = 60
_MAX_PATTERN_CHARS = 256
_MIN_TOKEN_CHARS, _MIN_PASSWORD_CHARS, _MIN_DISTINCT_CHARS = 16, 8, 5

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_LENGTH = regex(r"([1-9][0-9]{0,6})\s*([smhd]?)")
_E164 = regex(r"\+[0-9]{4,15}")
_ROLE = regex("[a-z0-9_-]{1,64}")


def quote_value(text: str) -> str:
    """Return the value as a sentence may show it: quoted, escaped, and short."""
    return repr(text if len(text) <= _MAX_SHOWN_CHARS else f"{text[:_MAX_SHOWN_CHARS]}…")


def _matching(pattern: str, complaint: str) -> AfterValidator:
    """A check that a text has that form; the value is quoted, then the complaint."""
    form = re.compile(pattern)

    def check(text: str) -> str:
        if not form.fullmatch(text):
            raise ValueError(f"{quote_value(text)}{complaint}")
        return text

    return AfterValidator(check)


def _nonblank(text: str) -> str:
    if not text.strip():
        raise ValueError("is blank; write a value or remove it")
    return text


def _number(value: Any) -> Any:
    # pydantic would complain about each half of the union
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("should be a number")  # noqa: TRY004  pydantic reads ValueError
    return value


def parse_length(text: str) -> int | None:
    """Return the seconds meant by `90`, `30s`, `10m`, `2h` or `1d`; None where that is no length of time."""
    found = _LENGTH.fullmatch(text.strip().lower())
    return None if found is None else int(found[1]) * _UNITS[found[2] or "s"]


def _every(text: str) -> str:
    seconds = parse_length(text)
    if seconds is None or not _MINUTE <= seconds <= _YEAR:
        raise ValueError(f"{quote_value(text)} should be a minute or longer, and a year at the most, like 30m or 2h")
    return text


def _tool_name(text: str) -> str:
    if (meant := canonical(text)) != text:
        hint = f"; write {quote_value(meant)}" if meant else ""
        raise ValueError(f"{quote_value(text)} is no name of a tool; 1 to 64 of a-z, 0-9, _ and -{hint}")
    return text


Words = Annotated[Str, AfterValidator(_nonblank)]
ToolName = Annotated[Str, AfterValidator(_tool_name)]
Seconds = Annotated[StrictInt | StrictFloat, BeforeValidator(_number), Field(gt=0, le=_DAY)]
Every = Annotated[Str, AfterValidator(_every)]
Amount = Annotated[StrictInt | StrictFloat, BeforeValidator(_number), Field(ge=0, le=1_000_000)]


# Names


def _folder(text: str) -> str:
    # a relative folder would lie in whatever workspace the commands run in
    if not text.startswith(("/", "~/")) or ".." in text.split("/"):
        raise ValueError(f"{quote_value(text)} should be a whole path, from / on and without '..'")
    return text


AgentId = Annotated[
    StrictStr,
    _matching(
        "[A-Za-z0-9][A-Za-z0-9 _-]{0,63}", " cannot be an agent's id; use letters, digits, _ and -, 64 at the most"
    ),
]
EnvName = Annotated[
    StrictStr,
    _matching("[A-Za-z_][A-Za-z0-9_]{0,127}", " is no name of an environment variable; use letters, digits and _"),
]
Folder = Annotated[Words, AfterValidator(_folder)]


# People


def check_sender(text: str) -> str:
    """Return `text` if it can be a sender, typed or bare, a role, or `*`; else raise ValueError."""
    if is_role(text) and not _ROLE.fullmatch(fold_name(text.partition(":")[2])):
        raise ValueError(f"{quote_value(text)} names no role; write role: and letters, digits, _ or -")
    key = sender_key(text)
    typed, value = key.kind if key.kind in SENDER_TYPES else "", key.value
    if not value.removeprefix("@"):
        raise ValueError("a blank sender is nobody; write id:123 or e164:+380.., or remove it")
    if typed and value == "*":
        raise ValueError(f"{quote_value(text)}: everybody is written '*', without a type")
    if typed == "e164" and not _E164.fullmatch(value):
        raise ValueError(
            f"{quote_value(text)}: an E.164 number is + and digits, without blanks, like e164:+380441234567"
        )
    return text


def _owner(text: str) -> str:
    if is_role(text):
        raise ValueError(f"{quote_value(text)}: a role makes nobody an owner; list senders by id: or e164:")
    if check_sender(text).strip().lower().startswith(("username:", "name:")):
        raise ValueError(
            f"{quote_value(text)}: an owner is known by id: or e164:, never by a name that anyone can take"
        )
    if text.strip() == "*":
        raise ValueError("'*' would make everybody the owner; list senders by id: or e164:")
    return text


def _member(text: str) -> str:
    if is_role(text) or text.strip() == "*":
        raise ValueError(f"{quote_value(text)} is no sender; a role holds senders, like id:123, and no other roles")
    return check_sender(text)


def _role(text: str) -> str:
    if not _ROLE.fullmatch(fold_name(text)):
        raise ValueError(f"{quote_value(text)} cannot be a role; use letters, digits, _ and -, 64 at the most")
    return text


SenderName = Annotated[Str, AfterValidator(check_sender)]
MemberName = Annotated[Str, AfterValidator(_member)]
RoleName = Annotated[Str, AfterValidator(_role)]
OwnerName = Annotated[Str, AfterValidator(_owner)]


# Secrets

_PLACEHOLDERS = frozenset({
    "undefined", "null", "none", "nil", "nan", "false", "true", "secret", "password", "passwd", "token", "admin",
    "default", "test", "todo", "xxx", "letmein", "gateway-token", "password1", "password12", "password123", "12345678",
    "123456789", "1234567890", "qwertyui", "qwertyuiop",
})  # fmt: skip
# A variable that was not filled in, a template, an object that was printed, or words that ask to be replaced.
_UNFILLED = regex(
    r"\$\w+|\$\(.*\)|%\w+%|\{\{.*\}\}|<.*>|\[object .*\]"
    r"|(?:put|enter|insert|set|use)?[-_ ]?your[-_ ](?:\w+[-_ ])*(?:token|secret|password|key)(?:[-_ ]here)?"
    r"|(?:.*[^a-z])?(?:(?:change|replace)[-_ ]?(?:me|this)|placeholder)(?:[^a-z].*)?"
)


def _is_guessable(text: str) -> bool:
    plain = text.strip().lower()
    return plain in _PLACEHOLDERS or _UNFILLED.fullmatch(plain) is not None or len(set(plain)) < _MIN_DISTINCT_CHARS


def _token(text: str) -> str:
    if _is_guessable(text) or len(text.strip()) < _MIN_TOKEN_CHARS:
        raise ValueError(
            f"a token needs {_MIN_TOKEN_CHARS} characters or more that nobody can guess; "
            "write ${NAME} to take it from the environment"
        )
    if text != text.strip() or any(char.isspace() and char != " " for char in text):
        raise ValueError("a token has no line breaks and no blanks around it; remove them")
    return text


def _password(text: str) -> str:
    if _is_guessable(text) or len(text.strip()) < _MIN_PASSWORD_CHARS:
        raise ValueError(f"a password of {_MIN_PASSWORD_CHARS} characters or more that nobody can guess is needed")
    return text


Token = Annotated[Str, AfterValidator(_token)]
Password = Annotated[Str, AfterValidator(_password)]


def name_mode(auth: object) -> object:
    """Return what opens a gateway with its mode; a password that stands there without one is meant."""
    if isinstance(auth, Mapping) and "mode" not in auth and auth.get("password") is not None:
        return {**auth, "mode": "password"}
    return auth


# Patterns


def _pattern(text: str) -> str:
    # re2 runs in linear time, so no pattern an operator writes can hold the process up
    options = re2.Options()
    options.log_errors = False
    if len(text) > _MAX_PATTERN_CHARS:
        raise ValueError(f"a pattern of {len(text)} characters; {_MAX_PATTERN_CHARS} is the most")
    try:
        compiled = re2.compile(text, options)
    except re2.error as error:
        # what is behind the colon is a piece of the pattern, which may be a secret
        problem = bytes(error.args[0]).decode(errors="replace").partition(":")[0]
        raise ValueError(
            f"is no regular expression that runs in linear time ({problem}); look-around and back-references are not"
        ) from None
    found = compiled.search("a b")
    if compiled.fullmatch("") is not None or (found is not None and found.start() == found.end()):
        raise ValueError("matches the empty text and would redact everything; let it match one character at least")
    return text


Pattern = Annotated[StrictStr, AfterValidator(_pattern)]


Port = Annotated[StrictInt, Field(ge=1, le=65_535)]

_MIN_PREFIX_BITS = {4: 8, 6: 16}  # the shortest prefix that one network has, by address version
_OWN = tuple(ipaddress.IPv6Network(text) for text in ("fc00::/7", "fe80::/10"))  # as private as 10.0.0.0/8, and wider
# Ranges of IPv6 that stand for all of IPv4, and how many bits come before the IPv4 address.
_STANDS_FOR_IPV4 = tuple(
    (ipaddress.IPv6Network(text), bits)
    for text, bits in (("::ffff:0:0/96", 96), ("64:ff9b::/96", 96), ("::/96", 96), ("2002::/16", 16))
)
_ORIGIN_SCHEMES = frozenset(
    ("http", "https", "chrome-extension", "moz-extension", "vscode-webview", "tauri", "capacitor", "ionic", "app")
)


def is_local(bind: str) -> bool:
    """Tell whether only this machine can reach what listens there."""
    return bind == "loopback" or (bind != "lan" and ipaddress.ip_address(bind).is_loopback)


def is_address(text: object) -> bool:
    """Tell whether a program can listen at this address."""
    try:
        address = ipaddress.ip_address(str(text))
    except ValueError:
        return False
    return isinstance(text, str) and not address.is_multicast and address != ipaddress.IPv4Address("255.255.255.255")


def _bind(text: str) -> str:
    if text in ("loopback", "lan", "localhost"):
        return "lan" if text == "lan" else "loopback"
    if not is_address(text):
        raise ValueError(f"{quote_value(text)} is no place to listen; write loopback, lan or an address")
    return text


def _network(text: str) -> str:
    plain = text.strip()
    _check_opening(text)
    if Opening.read(plain).port is not None:
        raise ValueError(f"{quote_value(text)} has a port; write the address alone")
    return plain


def _check_opening(text: str) -> str:
    plain = text.strip()
    try:
        network = Opening.read(plain).network
    except ValueError:
        raise ValueError(f"{quote_value(text)} is no address or network; a name is no address") from None
    if _is_too_wide(network):
        raise ValueError(f"{quote_value(text)} is far too wide; name the addresses themselves")
    if network.is_multicast or network.network_address.is_unspecified:
        raise ValueError(f"{quote_value(text)} is nobody's address; name the addresses themselves")
    return plain


def _is_too_wide(network: ipaddress.IPv4Network | ipaddress.IPv6Network) -> bool:
    if isinstance(network, ipaddress.IPv4Network):
        return network.prefixlen < _MIN_PREFIX_BITS[4]
    if any(network.subnet_of(own) for own in _OWN):
        return False
    for range_, bits in _STANDS_FOR_IPV4:
        if network.subnet_of(range_):
            return network.prefixlen - bits < _MIN_PREFIX_BITS[4]
    return network.prefixlen < _MIN_PREFIX_BITS[6]


def _host_entry(text: str) -> str:
    plain = text.strip()
    try:
        return str(Opening.read(plain).network) if plain[:1] in "0123456789[" or ":" in plain else _host_name(plain)
    except (ValueError, ToolError):
        what = "is no host; write example.com, *.example.com, an address or a network"
        raise ValueError(f"{quote_value(text)} {what}") from None


def _host_name(text: str) -> str:
    beneath = "*." if text.startswith("*.") else ""
    return beneath + read_host(text.removeprefix("*."))


def _proxy(text: str) -> str:
    try:
        is_good = read_url(text).scheme == "http"
    except ToolError:
        is_good = False
    if not is_good:  # never shown: people put credentials into addresses
        raise ValueError("is no address of a proxy; write http://host:port")
    return text


def _origin(text: str) -> str:
    found = fold_origin(text.removesuffix("/"))
    if not text.isascii() or "://-" in text or found.partition("://")[0] not in _ORIGIN_SCHEMES:  # no look-alikes
        raise ValueError(f"{quote_value(text)} is no origin; write https://host or https://host:port")
    return found


def _url(text: str) -> str:
    # never shown: people put credentials into addresses
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or any(char.isspace() for char in text):
        raise ValueError("is no web address; write https://host/path")
    return text


Bind = Annotated[StrictStr, AfterValidator(_bind)]
Network = Annotated[StrictStr, AfterValidator(_network)]
OpenedAddress = Annotated[StrictStr, AfterValidator(_check_opening)]
HostEntry = Annotated[StrictStr, AfterValidator(_host_entry)]
Proxy = Annotated[StrictStr, AfterValidator(_proxy)]
Origin = Annotated[StrictStr, AfterValidator(_origin)]
Url = Annotated[StrictStr, AfterValidator(_url), Field(max_length=2048)]


_PART = r"[a-z0-9]+(?:(?:\.|__?|-+)[a-z0-9]+)*"
_IMAGE = (
    rf"(?=.{{1,256}}\Z)(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::[0-9]{{1,5}})?/)?{_PART}(?:/{_PART})*"
    r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@sha256:[0-9a-f]{64})?"
)
_NETWORK = r"(?!(?i:host)\Z)[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
_NOT_SHARED = ": a sandbox does not share the host's or another container's network; write none or bridge"
_MEMORY = r"(?=.*[1-9])[0-9]{1,9}(?:\.[0-9]{1,3})?(?:[bB]|[kmgKMG](?:i?[bB])?)?"

DockerImage = Annotated[StrictStr, _matching(_IMAGE, " is no container image; write name:tag")]
DockerNetwork = Annotated[StrictStr, _matching(_NETWORK, _NOT_SHARED)]
DockerMemory = Annotated[StrictStr, _matching(_MEMORY, " is no amount of memory; write 512m or 2g")]


# Volumes: what is bound decides, not where it appears


def _paths(words: str) -> tuple[PurePosixPath, ...]:
    return tuple(PurePosixPath(word) for word in words.split())


# The system, its sockets and its secrets: nothing in these is bound.
_SYSTEM = _paths(
    "/bin /boot /dev /efi /etc /lib /lib32 /lib64 /libx32 /proc /run /sbin /sys /usr /var/backups /var/lock /var/mail "
    "/var/run /var/spool /var/lib/apt /var/lib/containerd /var/lib/containers /var/lib/docker /var/lib/dpkg "
    "/var/lib/etcd /var/lib/kubelet /var/lib/libvirt /var/lib/lxc /var/lib/lxd /var/lib/NetworkManager /var/lib/rpm "
    "/var/lib/snapd /var/lib/sudo /var/lib/systemd"
)
# Above them, or a whole home: what is inside may be bound, these themselves hold too much.
_TOO_MUCH = _paths("/ /home /root /Users /var /var/home /var/lib")
_HOMES = _paths("/home /Users /var/home")
# Parts of the system that containers are given every day, for reading only.
_READABLE = _paths(
    "/etc/localtime /etc/timezone /etc/ssl/certs /etc/pki/tls/certs /etc/ca-certificates /usr/share /usr/local/share "
    "/usr/src"
)
_MOUNTED = _paths("/run/media")  # disks that a desktop has mounted
_PRIVATE = frozenset({
    ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".config", ".gcloud", ".netrc", ".pgpass", ".npmrc",
    ".pypirc", ".git-credentials", ".password-store", ".mozilla", ".vault-token", ".toolcrib", ".openclaw", "keyrings",
})  # fmt: skip


def _volume(text: str) -> str:
    source, _, rest = text.partition(":")
    target, _, mode = rest.partition(":")
    # two leading slashes mean one, but not to PurePosixPath
    path = PurePosixPath(f"/{source.lstrip('/')}")
    if not source.startswith("/") or ".." in path.parts:
        raise ValueError(f"{quote_value(text)}: what is bound must be a whole path, from / on and without '..'")
    modes = set(mode.split(",")) if mode else set()
    is_target = target.startswith("/") and target.strip("/") != "" and ".." not in PurePosixPath(target).parts
    if not is_target or not modes <= {"ro", "rw", "z", "Z"} or modes >= {"ro", "rw"}:
        raise ValueError(f"{quote_value(text)}: write source:/target, with :ro or :rw behind it")
    is_socket = path.name.lower().endswith((".sock", ".socket"))
    is_private = not _PRIVATE.isdisjoint(part.lower() for part in path.parts)
    if is_socket or is_private or _is_system(path, readable="ro" in modes):
        raise ValueError(f"{quote_value(text)} would hand the sandbox the system, a control socket or somebody's keys")
    return text


def _is_system(path: PurePosixPath, *, readable: bool) -> bool:
    if path in _TOO_MUCH or path.parent in _HOMES:
        return True
    if any(path.is_relative_to(folder) and path != folder for folder in _MOUNTED):
        return False
    if readable and any(path.is_relative_to(folder) for folder in _READABLE):
        return False
    return any(path.is_relative_to(folder) for folder in _SYSTEM)


Volume = Annotated[StrictStr, AfterValidator(_volume)]
