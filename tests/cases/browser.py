"""openclaw-nodes-canvas-browser, as far as it is about the browser: refs, and outlines that are narrowed."""

from collections.abc import Callable
from typing import Any

from toolcrib.backends.browsers.snapshot import Narrowing, build_role_snapshot, parse_role_ref

Json = dict[str, Any]


def _narrow(args: Json) -> Json:
    asked = args["options"]
    wanted = Narrowing(
        interactive=bool(asked.get("interactive")), compact=bool(asked.get("compact")), depth=asked.get("maxDepth")
    )
    found = build_role_snapshot(args["aria"], wanted)
    return {"snapshot": found.text, "refs": found.refs}


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "parseRoleRef": lambda args: parse_role_ref(args["raw"]),
    "roleSnapshot": _narrow,
}
