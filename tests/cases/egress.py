"""openclaw-media-web: which addresses and names are not reached."""

from collections.abc import Callable
from typing import Any

from toolcrib.define.egress import EgressRules, describe_special, read_host
from toolcrib.define.errors import ToolError

_PUBLIC = "93.184.216.34"  # where every name leads, so that only the name is judged


def _is_private(args: dict[str, Any]) -> bool:
    text = args["address"]
    try:
        return bool(describe_special(read_host(f"[{text}]" if ":" in text else text))[0])
    except (ToolError, ValueError):  # a name, and no address
        return False


def _is_blocked(args: dict[str, Any]) -> bool:
    try:
        host = read_host(args["hostname"])
    except ToolError:
        return False
    return EgressRules().judge(host, _PUBLIC, 80) is not None


ADAPTERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "isPrivateIpAddress": _is_private,
    "isBlockedHostname": _is_blocked,
}
