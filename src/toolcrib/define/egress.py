"""Which addresses may be reached: what a URL names, and what may be dialled for it. No input or output.

    there = read_url("http://0x7f.1/")             # Destination("http", "127.0.0.1", 80, ...): as it would be dialled
    rules.judge(there.host, "127.0.0.1", 80)       # EgressError: its address is this machine

Global unicast is reached, minus the special ranges of IANA's registries; the operator may open more by address.
"""

import re
from collections.abc import Mapping
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from socket import inet_aton
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote, unquote

from toolcrib.lazy import dataclass, regex

from .errors import ToolError

Address = IPv4Address | IPv6Address

_MAX_URL_CHARS = 8_192
_URL = regex(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(\?[^#]*)?(?:#.*)?", re.DOTALL)
_HOST = regex(r"(?=.{1,253}\Z)[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})*")
_PORT = regex(r"[0-9]{1,5}")
_SCHEME = regex(r"[A-Za-z][A-Za-z0-9+.-]*")
_DEFAULT_PORTS = {"http": 80, "https": 443}
_PLAIN = "!#$%&'()*+,/:;=?@[]~"  # of a path and a query, what stands as it is
# Ports of other protocols, whose servers could take lines of a request for orders; browsers refuse most of them, too.
_OTHER_PORTS = frozenset(
    (*range(1, 80), *range(87, 94), *range(95, 440), 465, 512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556,
     563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6379, 6566,
     *range(6665, 6670), 6679, 6697, 9100, 10080, 11211)
)  # fmt: skip
_INTERNAL_NAMES = (".localhost", ".local", ".internal", ".localdomain", ".home.arpa", ".intranet", ".lan")

_HERE, PRIVATE = "this machine", "in a private network"
_UNLISTED = "the rules of this crib do not let out to it"
_LINK = "on the local link, where clouds give out credentials"
_RESERVED = "reserved, and nobody's on the internet"
_SPECIAL: Mapping[str, str] = MappingProxyType(
    {
        "0.0.0.0/8": _HERE, "10.0.0.0/8": PRIVATE, "100.64.0.0/10": PRIVATE, "127.0.0.0/8": _HERE,
        "168.63.129.16/32": "a cloud's own, which gives out credentials", "169.254.0.0/16": _LINK,
        "172.16.0.0/12": PRIVATE, "192.0.0.0/24": _RESERVED, "192.0.2.0/24": _RESERVED, "192.31.196.0/24": _RESERVED,
        "192.52.193.0/24": _RESERVED, "192.88.99.0/24": _RESERVED, "192.168.0.0/16": PRIVATE,
        "192.175.48.0/24": _RESERVED, "198.18.0.0/15": _RESERVED, "198.51.100.0/24": _RESERVED,
        "203.0.113.0/24": _RESERVED, "224.0.0.0/4": "for many at once", "240.0.0.0/4": _RESERVED,
        "::/128": _HERE, "::1/128": _HERE, "fc00::/7": PRIVATE, "fe80::/10": _LINK, "fec0::/10": PRIVATE,
        "ff00::/8": "for many at once", "2001::/23": _RESERVED, "2001:db8::/32": _RESERVED, "3fff::/20": _RESERVED,
        "2002::/16": "one of IPv4 in disguise (6to4)", "64:ff9b:1::/48": "one of IPv4 in disguise (NAT64)",
        "2620:4f:8000::/48": _RESERVED,
    }
)  # fmt: skip
_GLOBAL = IPv6Network("2000::/3")  # all that was ever given out of IPv6
_NAT64 = IPv6Network("64:ff9b::/96")  # how machines without IPv4 reach all of it
_LOCAL_NAT64 = IPv6Network("64:ff9b:1::/48")  # the same, as one network sets it up
_WRAPS = (IPv6Network("::ffff:0:0/96"), _NAT64)
_OLD_WRAPS = (IPv6Network("::/96"), IPv6Network("::ffff:0:0:0/96"))  # compatible and translated ones
_SIX_TO_FOUR = IPv6Network("2002::/16")
_LAST_32 = 0xFFFF_FFFF


class EgressError(ToolError):
    """A rule refused a host. A model reads what kind of thing it is; who can change the rule also reads which."""

    def __init__(self, host: str, why: str, rule: str) -> None:
        super().__init__(
            f"{host} is refused: {why} ({rule})",
            code="denied",
            for_model=f"{host} is refused: {why}. No other spelling of it is let through; tell the user.",
        )


class Destination(NamedTuple):
    """Where a URL leads: `host` is an address or a name in lower case, as it is dialled; `target` path and query."""

    scheme: str
    host: str
    port: int
    target: str = "/"
    credentials: str = ""

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    @property
    def url(self) -> str:
        """The address in its plain form, without credentials."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == _DEFAULT_PORTS[self.scheme] else f":{self.port}"
        return f"{self.scheme}://{host}{port}{self.target}"


def read_url(url: str) -> Destination:
    """Return where a URL leads, however it is spelled; raise ToolError when that is not certain."""
    text = url.strip()
    found = _URL.fullmatch(text)
    if len(text) > _MAX_URL_CHARS:
        raise _bad(f"it is longer than {_MAX_URL_CHARS:,} characters")
    if found is None or not found[2]:
        raise _bad("write it whole, like https://example.com/page")
    if any(char < " " or char == "\x7f" for char in text) or "\\" in (found[2] + found[3]):
        raise _bad("it holds a backslash or a control character, which not everybody reads alike")
    scheme = found[1].lower()
    if scheme not in _DEFAULT_PORTS:
        raise _bad(f"{scheme[:40]!r} is no scheme of web pages; http and https are")
    credentials, _, place = found[2].rpartition("@")
    if "@" in credentials:
        raise _bad("it has more than one @ before its path, which not everybody reads alike")
    host, port = _split_port(place, _DEFAULT_PORTS[scheme])
    target = quote(found[3] or "/", safe=_PLAIN) + quote(found[4] or "", safe=_PLAIN)
    return Destination(scheme, host, port, target, unquote(credentials))


def read_place(place: str) -> tuple[str, int]:
    """Return the host and the port of `host:port`, as a tunnel is asked for; raise ToolError when it names none."""
    host, port = _split_port(place, 0)
    if not port:
        raise _bad("a tunnel needs a port")
    return host, port


def fold_origin(text: str) -> str:
    """Return an origin as browsers send it, "" for what is none.

    In lower case and punycode, an address in its one form, without the port that goes without saying and a dot at the
    end; `null` is `null`.
    """
    scheme, mark, place = text.partition("://")
    if not mark or "%" in place or place.endswith(":") or not _SCHEME.fullmatch(scheme):
        return "null" if text == "null" else ""
    scheme = scheme.lower()
    try:
        host, port = _split_port(place, 0)
    except ToolError:
        return ""
    host = f"[{host}]" if ":" in host else host
    return f"{scheme}://{host}" + (f":{port}" if port and port != _DEFAULT_PORTS.get(scheme) else "")


def is_origin_of(origin: str, host: str) -> bool:
    """Tell whether an origin is that of the page at what a request calls our host, over TLS or not."""
    folded = fold_origin(origin)
    return folded not in ("", "null") and folded in (fold_origin(f"http://{host}"), fold_origin(f"https://{host}"))


def _split_port(place: str, default: int) -> tuple[str, int]:
    host, mark, port = place.rpartition(":")
    if not mark or place.endswith("]"):
        host, port = place, ""
    if port and (not _PORT.fullmatch(port) or not 0 < int(port) < 65_536):
        raise _bad("its port is no number from 1 to 65535")
    return read_host(host), int(port or default)


def decode_fully(text: str) -> str:
    """Return a text without percent signs that stand for something, however often it was encoded."""
    while "%" in text and (plain := unquote(text)) != text:
        text = plain
    return text


def read_host(host: str) -> str:
    """Return a host as it is dialled: an address in its one form, or a name in lower case and ASCII."""
    if host.startswith("[") and host.endswith("]"):
        return _read_address(host[1:-1])
    name = decode_fully(host)
    if not name.isascii():
        name = _to_ascii(name)
    name = name.lower().removesuffix(".")
    if not _HOST.fullmatch(name):
        raise _bad("its host is no name and no address")
    last = name.rpartition(".")[2]
    is_number = last.isdigit() or (last.startswith("0x") and all(char in "0123456789abcdef" for char in last[2:]))
    return _read_number(name) if is_number else name


def _read_address(text: str) -> str:
    try:
        found = ip_address(text)
    except ValueError:
        found = None
    if found is None or "%" in text or ":" not in text:
        raise _bad("what stands in brackets is no address")
    return str(_unwrap(found))


def _read_number(name: str) -> str:
    """Return the address that numbers spell, in as many parts and to as many bases as C libraries take."""
    try:
        return str(IPv4Address(inet_aton(name)))
    except OSError:
        raise _bad("its host ends in a number and is no address") from None


def _to_ascii(name: str) -> str:
    import idna  # noqa: PLC0415  only names beyond ASCII pay for its tables

    try:
        return idna.encode(name, uts46=True, transitional=False).decode()
    except (idna.IDNAError, UnicodeError):
        raise _bad("its host is no name that the web knows") from None


def _bad(why: str) -> ToolError:
    return ToolError(f"that is no address of a web page: {why}", code="bad_address")


def _unwrap(address: Address) -> Address:
    """Return the IPv4 address that an IPv6 address only wraps, mapped or for a translator (NAT64), else itself."""
    if not isinstance(address, IPv6Address):
        return address
    return IPv4Address(int(address) & _LAST_32) if address in _NAT64 else address.ipv4_mapped or address


def _list_forms(address: Address) -> tuple[Address, ...]:
    """Return what lists of hosts may call an address: of one that holds another, for a local translator, both."""
    plain = _unwrap(address)
    if not isinstance(plain, IPv6Address):
        return (plain,)
    bits = int(plain)
    if plain in _SIX_TO_FOUR or any(plain in each for each in _OLD_WRAPS):
        return plain, IPv4Address((bits >> 80 if plain in _SIX_TO_FOUR else bits) & _LAST_32)
    if plain not in _LOCAL_NAT64:
        return (plain,)
    ahead = (bits >> 64 & 0xFFFF) << 16 | bits >> 40 & 0xFFFF  # RFC 6052: eight bits are left out in the middle
    return plain, IPv4Address(bits & _LAST_32), IPv4Address(ahead)


@cache
def _special_ranges() -> tuple[tuple[IPv4Network | IPv6Network, str], ...]:
    return tuple((ip_network(text), what) for text, what in _SPECIAL.items())


def describe_special(text: str) -> tuple[str, str]:
    """Return what a special address is and the range that says so; both empty for an address of the internet."""
    address = _unwrap(ip_address(text.partition("%")[0]))
    for network, what in _special_ranges():
        if address.version == network.version and address in network:
            return what, str(network)
    if isinstance(address, IPv6Address) and address not in _GLOBAL:
        return _RESERVED, "all but 2000::/3"
    return "", ""


class Opening(NamedTuple):
    """What the operator opened: addresses, all their ports where `port` is None."""

    network: IPv4Network | IPv6Network
    port: int | None = None

    @classmethod
    def read(cls, text: str) -> "Opening":
        """Read `10.0.0.7`, `10.0.0.0/24`, `10.0.0.7:8080` or `[fd00::7]:8080`; raise ValueError for anything else."""
        plain, port = text.strip(), None
        place, mark, digits = plain.rpartition(":")
        if mark and digits.isdigit() and (place.count(":") == 0 or (place[:1], place[-1:]) == ("[", "]")):
            plain, port = place.strip("[]"), int(digits)
            if not 0 < port < 65_536 or "/" in plain:
                raise ValueError(text)
        return cls(ip_network(plain, strict=False), port)


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressRules:
    """What the configuration says about the way out.

    `opened` are addresses beyond the internet; `allow` and `deny` name hosts, `*.example.com` all beneath one, or
    addresses and networks. Nothing but what is allowed is reached once there is an `allow`.
    """

    opened: tuple[Opening, ...] = ()
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()

    def judge_host(self, host: str) -> EgressError | None:
        """Return why a host is refused before its address is looked up, None when it is not."""
        if any(names_host(each, host) for each in self.deny):
            return EgressError(host, _UNLISTED, "tools.hosts.deny names it")
        is_listed = self.allow is None or any(_matches(each, host) or is_network(each) for each in self.allow)
        return None if is_listed else EgressError(host, _UNLISTED, "tools.hosts.allow does not name it")

    def judge_listed(self, host: str, address: str) -> EgressError | None:
        """Return why the lists of hosts do not let out to an address that a host has, None when they do."""
        found, *others = _list_forms(ip_address(address.partition("%")[0]))
        if any(_holds(each, (found, *others)) for each in self.deny):
            return EgressError(host, _UNLISTED, f"tools.hosts.deny names {found}")
        if self.allow is not None and not any(_matches(each, host) or _holds(each, (found,)) for each in self.allow):
            return EgressError(host, _UNLISTED, f"tools.hosts.allow does not name {found}")
        return None

    def judge(self, host: str, address: str, port: int) -> EgressError | None:
        """Return why an address that a host has is not dialled, None when it may be."""
        if refused := self.judge_listed(host, address):
            return refused
        found = _unwrap(ip_address(address.partition("%")[0]))
        if any(found in each.network and each.port in (None, port) for each in self.opened):
            return None
        what, range = describe_special(address)
        if what:
            return EgressError(host, f"its address is {what}", f"{found} is of {range}; web.ssrf.allowPrivate opens it")
        if host == "localhost" or host.endswith(_INTERNAL_NAMES):
            return EgressError(host, "it is a name of inner networks", f"web.ssrf.allowPrivate opens {found}")
        return None


def judge_port(host: str, port: int) -> EgressError | None:
    """Return why no page is asked for at a port, None when it may be."""
    why = "no page is asked for at a port of another protocol"
    return EgressError(host, why, f"port {port}") if port in _OTHER_PORTS else None


def names_host(entry: str, host: str) -> bool:
    """Tell whether an entry names a host as it is dialled: by name, `*.x` for all beneath x, or by network."""
    return _matches(entry, host) or (is_network(host) and _holds(entry, _list_forms(ip_address(host))))


def is_network(entry: str) -> bool:
    """Tell whether an entry is an address or a network."""
    try:
        ip_network(entry, strict=False)
    except ValueError:
        return False
    return True


def _holds(entry: str, forms: tuple[Address, ...]) -> bool:
    if not is_network(entry):
        return False
    network = ip_network(entry, strict=False)
    if isinstance(network, IPv6Network) and any(map(network.subnet_of, _WRAPS)):  # as its addresses are unwrapped
        network = IPv4Network((int(network.network_address) & _LAST_32, network.prefixlen - 96))
    return any(each in network for each in forms)


def _matches(entry: str, host: str) -> bool:
    """Tell whether an entry of a list names a host: itself, or `*.x` all that is beneath x."""
    plain = entry.strip().lower().removesuffix(".")
    return host.endswith(plain[1:]) and len(host) > len(plain) - 1 if plain.startswith("*.") else host == plain
