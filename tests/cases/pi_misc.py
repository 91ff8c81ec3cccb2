"""pi-misc on adapter/wire.py, adapter/reply.py and define/schema/annotations.py."""

from collections.abc import Callable
from typing import Any, Literal

from toolcrib.adapter.reply import is_overflow
from toolcrib.adapter.wire import sanitize
from toolcrib.define.event import Replied, Usage
from toolcrib.define.message import Finish, Message
from toolcrib.define.schema.annotations import Field, object_schema

Json = dict[str, Any]

_FINISHES: dict[str, Finish] = {"toolUse": "calls", "stop": "stop", "length": "length", "aborted": "aborted"}


def _overflows(args: Json) -> bool:
    said, usage = args["message"], args["message"].get("usage") or {}
    cached, written = usage.get("cacheRead", 0), usage.get("cacheWrite", 0)
    replied = Replied(
        Message(role="assistant", finish=_FINISHES.get(said["stopReason"], "error")),
        Usage(usage.get("input", 0) + cached + written, usage.get("output", 0), cached, written),
        said.get("errorMessage") or "",
    )
    return is_overflow(replied, args.get("contextWindow") or 0)


def _string_enum(args: Json) -> Any:
    options = args.get("options") or {}
    field = Field(
        name="value",
        annotation=Literal[tuple(args["values"])],
        required=False,
        default=options.get("default"),
        description=options.get("description", ""),
    )
    return object_schema([field])["properties"]["value"]


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "pi.StringEnum": _string_enum,
    "pi.isContextOverflow": _overflows,
    "pi.sanitizeSurrogates": lambda args: sanitize(args["text"]),
}
