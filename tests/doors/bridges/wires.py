"""What the fake providers have in common. Each stands behind a real client: a reply with calls, then a closing one.

Every request is checked against the client's own types. A provider answers whole or streamed, as asked.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import httpx2
from pydantic import TypeAdapter
from typing_extensions import TypedDict, get_type_hints, is_typeddict

__all__ = ["Asked", "Heard", "Told", "checked", "provider", "stream"]


class Asked(NamedTuple):
    """A call as the model writes it: arguments are a text, or an object where the wire has no texts."""

    name: str
    args: str = "{}"
    id: str = "call_1"


class Told(NamedTuple):
    """An answer as the provider got it; the flag is whatever its wire has for one."""

    id: str
    text: str
    failed: bool = False
    pictures: int = 0


class Heard(NamedTuple):
    """What a provider heard: the tools by name, and the answers to its calls in order."""

    offered: dict[str, Any]
    told: list[Told]


def checked(kind: Any, value: Any) -> Any:
    """Check a value against a type of a client's requests: no key is unknown, and every list is read to its end."""
    return TypeAdapter(_closed(kind)).validate_python(value)


@cache
def _closed(kind: Any) -> Any:
    """Return a type with every `Iterable` in it a list, which is looked into, and every TypedDict closed."""
    if is_typeddict(kind):
        fields = {name: _closed(inner) for name, inner in get_type_hints(kind, include_extras=True).items()}
        make: Any = TypedDict
        made = make(kind.__name__, fields, total=kind.__total__)
        made.__pydantic_config__ = {"extra": "forbid", "arbitrary_types_allowed": True}
        return made
    origin, inner = get_origin(kind), get_args(kind)
    if origin is None or origin is Literal:
        return kind
    if origin is Annotated:
        return Annotated[(_closed(inner[0]), *inner[1:])]
    if origin is Iterable or origin.__name__ == "SequenceNotStr":
        return list[_closed(inner[0])]  # type: ignore[misc]  # made while running
    parts = tuple(_closed(each) for each in inner)
    return (Union if origin is UnionType else origin)[parts[0] if len(parts) == 1 else parts]


def provider(*replies: Any) -> tuple[httpx2.AsyncClient, list[dict[str, Any]]]:
    """Return a client's transport that gives these replies (JSON, or the text of a stream), and what it was sent."""
    sent: list[dict[str, Any]] = []
    left = iter(replies)

    def handle(request: httpx2.Request) -> httpx2.Response:
        sent.append(json.loads(request.content))
        reply = next(left)
        if isinstance(reply, str):
            return httpx2.Response(200, text=reply, headers={"content-type": "text/event-stream"})
        return httpx2.Response(200, json=reply)

    return httpx2.AsyncClient(transport=httpx2.MockTransport(handle)), sent


def stream(events: Sequence[Any], *, named: bool = False, closed: bool = False) -> str:
    """Return events as the text of a stream."""
    lines = [(f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join([*lines, "data: [DONE]\n\n"] if closed else lines)
