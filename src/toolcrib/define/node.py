"""Nodes: devices that a gateway has do things. What each platform may be asked for, and which of them a word means."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from toolcrib.lazy import dataclass, field, regex

from .errors import ToolError

RUN, PREPARE, BROWSE = "system.run", "system.run.prepare", "browser.proxy"
MAX_RESULT_BYTES = 64 << 20  # of what a node answers, as the bytes that it stands for
MAX_ANSWER_CHARS = MAX_RESULT_BYTES * 4 // 3 + 65_536  # of the frame that carries it

_CANVAS = (
    "canvas.present canvas.hide canvas.navigate canvas.eval canvas.snapshot "
    "canvas.a2ui.push canvas.a2ui.pushJSONL canvas.a2ui.reset"
)
_SENSES = "camera.list camera.snap camera.clip screen.record location.get"
_SYSTEM = "system.run system.which system.notify system.execApprovals.get system.execApprovals.set browser.proxy"
_BY_PLATFORM: Mapping[str, tuple[str, ...]] = {
    "ios": (*_CANVAS.split(), *_SENSES.split()),
    "android": (*_CANVAS.split(), *_SENSES.split(), "sms.send"),
    "macos": (*_CANVAS.split(), *_SENSES.split(), *_SYSTEM.split()),
    "linux": tuple(_SYSTEM.split()),
    "windows": tuple(_SYSTEM.split()),
}
_SPELLED = {"ios": "ios", "android": "android", "mac": "macos", "darwin": "macos", "win": "windows", "linux": "linux"}
_FAMILIES = {"iphone": "ios", "ipad": "ios", **_SPELLED}
_ALWAYS = {RUN: PREPARE}  # who may be asked to run something may be asked what that would be
_ODD = regex(r"[^a-z0-9]+")
_MIN_PREFIX = 6


@dataclass(frozen=True, slots=True)
class Node:
    """A node as it described itself when it connected, or as it is known from its pairing."""

    id: str
    name: str = ""
    platform: str = ""
    family: str = ""
    version: str = ""
    address: str = ""
    caps: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    permissions: Mapping[str, bool] = field(default_factory=dict)
    connected_at: float = 0.0  # 0 while it is not

    @property
    def shown(self) -> str:
        """What people call it."""
        return self.name or self.id

    @property
    def source(self) -> str:
        """Where words come from that it says."""
        return f"node:{self.id[:12]}"

    def to_json(self) -> dict[str, Any]:
        """Return its row in a list."""
        row = {"nodeId": self.id, "displayName": self.name, "platform": self.platform, "deviceFamily": self.family}
        row |= {"version": self.version, "remoteIp": self.address}
        at = {"connectedAtMs": int(self.connected_at * 1000)} if self.connected_at else {}
        lists = {"caps": list(self.caps), "commands": list(self.commands), "permissions": dict(self.permissions)}
        return {key: value for key, value in row.items() if value} | lists | at | {"connected": bool(at)}


def list_allowed_commands(
    platform: str, family: str = "", allow: Iterable[str] = (), deny: Collection[str] = ()
) -> tuple[str, ...]:
    """Return what a node of this platform may be asked for; of an unknown one, only what is listed."""
    given, about = platform.strip().lower(), family.strip().lower()
    kind = next((kind for word, kind in _SPELLED.items() if given.startswith(word)), None)
    kind = kind or next((kind for word, kind in _FAMILIES.items() if word in about), "")
    out = {each.strip() for each in deny}
    listed = (*_BY_PLATFORM.get(kind, ()), *(each.strip() for each in allow))
    return tuple(dict.fromkeys(each for each in listed if each and each not in out))


def explain_unasked(command: str, declared: Collection[str], allowed: Collection[str]) -> str:
    """Return why a node is not asked for a command, "" when it is."""
    if not (command := command.strip()):
        return "command required"
    if command not in allowed and not any(command == _ALWAYS.get(each) for each in allowed):
        return "command not allowlisted"
    if not declared:
        return "node did not declare commands"
    return "" if command in declared else "command not declared by node"


def find_node(nodes: Sequence[Node], query: str) -> Node:
    """Return the node meant: by id, address, name, or how its id begins; raise ToolError for none, or for many."""
    word = query.strip()
    if not word:
        raise ToolError(f"say which node is meant{_list_names(nodes, 'there are')}", code="bad_arguments")
    plain = _plain(word)
    found = [
        each
        for each in nodes
        if word in (each.id, each.address)
        or (plain and plain == _plain(each.name))
        or (len(word) >= _MIN_PREFIX and each.id.startswith(word))
    ]
    if len(found) == 1:
        return found[0]
    if not found:
        raise ToolError(f"unknown node: {word[:64]}{_list_names(nodes, 'known:')}", code="not_found")
    which = ", ".join(f"{each.shown} {each.id}" for each in found)
    raise ToolError(f"ambiguous node: {word[:64]} (matches: {which}); say its id", code="bad_arguments")


def pick_default_node(nodes: Iterable[Node], cap: str) -> Node | None:
    """Return the one node that can do something, a connected one before others; None when several might be meant."""
    able = [each for each in nodes if cap in each.caps]
    found = [each for each in able if each.connected_at] or able
    if len(found) > 1:
        found = [each for each in found if each.platform.startswith("mac") and each.id.startswith("mac-")]
    return found[0] if len(found) == 1 else None


def _plain(name: str) -> str:
    return _ODD.sub("-", name.lower()).strip("-")


def _list_names(nodes: Iterable[Node], lead: str) -> str:
    names = ", ".join(each.shown for each in nodes)
    return f" ({lead} {names})" if names else ""
