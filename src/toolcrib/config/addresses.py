"""Addresses in the configuration: where to listen, whom to trust, which pages and servers may be reached."""

import ipaddress
import re
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, StrictInt, StrictStr

from .values import shown

__all__ = ["Bind", "Network", "Origin", "Port", "Url", "is_address", "is_local"]

AnyNetwork = ipaddress.IPv4Network | ipaddress.IPv6Network

Port = Annotated[StrictInt, Field(ge=1, le=65_535)]

_WIDEST = {4: 8, 6: 16}  # the shortest prefix that is still somebody's network, by address version
_OWN = tuple(ipaddress.IPv6Network(text) for text in ("fc00::/7", "fe80::/10"))  # as private as 10.0.0.0/8, and wider
# Ranges of IPv6 that stand for all of IPv4, and how many bits come before the IPv4 address.
_STANDS_FOR_IPV4 = tuple(
    (ipaddress.IPv6Network(text), bits)
    for text, bits in (("::ffff:0:0/96", 96), ("64:ff9b::/96", 96), ("::/96", 96), ("2002::/16", 16))
)
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?|\[[0-9A-Fa-f:.]{2,45}\])"
_ORIGIN = re.compile(
    rf"(?:https?|chrome-extension|moz-extension|vscode-webview|tauri|capacitor|ionic|app)://{_HOST}(?::([0-9]{{1,5}}))?/?"
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
        raise ValueError(f"{shown(text)} is no place to listen; write loopback, lan or an address")
    return text


def _network(text: str) -> str:
    plain = text.strip()
    try:
        network = ipaddress.ip_network(plain, strict=False)
    except ValueError:
        raise ValueError(f"{shown(text)} is no address or network; a name is no address") from None
    if _is_too_wide(network):
        raise ValueError(f"{shown(text)} is far too wide; name the addresses themselves")
    if network.is_multicast or network.network_address.is_unspecified:
        raise ValueError(f"{shown(text)} is nobody's address; name the addresses themselves")
    return plain


def _is_too_wide(network: AnyNetwork) -> bool:
    if isinstance(network, ipaddress.IPv4Network):
        return network.prefixlen < _WIDEST[4]
    if any(network.subnet_of(own) for own in _OWN):
        return False
    for range_, bits in _STANDS_FOR_IPV4:
        if network.subnet_of(range_):
            return network.prefixlen - bits < _WIDEST[4]
    return network.prefixlen < _WIDEST[6]


def _origin(text: str) -> str:
    found = _ORIGIN.fullmatch(text)
    if found is None or int(found[1] or 1) not in range(1, 65_536):
        raise ValueError(f"{shown(text)} is no origin; write https://host or https://host:port")
    return text.removesuffix("/")


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
Origin = Annotated[StrictStr, AfterValidator(_origin)]
Url = Annotated[StrictStr, AfterValidator(_url), Field(max_length=2048)]
