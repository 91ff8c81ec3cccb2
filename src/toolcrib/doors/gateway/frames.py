"""Frames of the protocol: what clients send is taken apart strictly, what they are sent is written here.

A frame is one JSON object in a text message. What is no request is refused with a sentence, and costs no more than
reading it: its size, depth and keys are looked at first.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import orjson

from toolcrib.define.errors import ToolError
from toolcrib.define.gateway import PROTOCOL, ErrorCode
from toolcrib.define.parts import MAX_FRAME_BYTES
from toolcrib.define.schema.check import check_of_schema

MAX_BUFFERED_BYTES = 1_572_864  # that a client has not read yet
MAX_STRANGER_BYTES = 65_536  # of what is sent before anybody is known
TICK_SECONDS = 30.0
MAX_FRAME_DEPTH = 64
_MAX_ID_CHARS, _MAX_METHOD_CHARS = 256, 128
_REQUEST_KEYS = frozenset({"type", "id", "method", "params"})
_NOTHING: Mapping[str, Any] = {}


class FrameError(Exception):
    """What was sent is no frame of this protocol; `id` is the request's, where it has one."""

    def __init__(self, sentence: str, id: str | None = None) -> None:
        super().__init__(sentence)
        self.id = id


class FrameRequest(NamedTuple):
    """A request: which method is asked for, with what, and the id that its answer carries."""

    id: str
    method: str
    params: Mapping[str, Any]


def parse_request(text: str | None, max_bytes: int = MAX_FRAME_BYTES) -> FrameRequest:
    """Return the request in a text message; raise FrameError when it is none."""
    if text is None or len(text) > max_bytes:
        raise FrameError(f"a message is text of at most {max_bytes:,} bytes")
    try:
        value = orjson.loads(text)
    except (ValueError, RecursionError):
        raise FrameError("this is no JSON") from None
    if not isinstance(value, dict):
        raise FrameError("a frame is an object")
    id, method, params = value.get("id"), value.get("method"), value.get("params", _NOTHING)
    if not isinstance(id, str) or not 0 < len(id) <= _MAX_ID_CHARS:
        raise FrameError(f"at /id: a request has an id of 1 to {_MAX_ID_CHARS} characters")
    if value.get("type") != "req":
        raise FrameError("at /type: a client sends requests (type req) and nothing else", id)
    if not isinstance(method, str) or not 0 < len(method) <= _MAX_METHOD_CHARS:
        raise FrameError("at /method: a request names its method", id)
    if not value.keys() <= _REQUEST_KEYS:
        raise FrameError(f"at root: unexpected property {min(value.keys() - _REQUEST_KEYS)[:64]!r}", id)
    if params is None:
        params = _NOTHING
    if not isinstance(params, dict) and params is not _NOTHING:
        raise FrameError("at /params: the parameters are an object", id)
    # brackets count the depth from above, and in most frames there are few
    if (
        len(text) > 2 * MAX_FRAME_DEPTH
        and text.count("{") + text.count("[") > MAX_FRAME_DEPTH
        and is_deeper(params, MAX_FRAME_DEPTH - 1)
    ):
        raise FrameError(f"the parameters are nested more than {MAX_FRAME_DEPTH} deep", id)
    return FrameRequest(id, method, params)


def is_deeper(value: Any, left: int) -> bool:
    """Tell whether lists and objects are nested deeper than so many levels."""
    if not isinstance(value, (dict, list)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return left == 0 or any(is_deeper(each, left - 1) for each in inner)


_TEXT = {"type": "string", "maxLength": 4096}
_NAME = {"type": "string", "minLength": 1, "maxLength": 256}
_WORDS = {"type": "array", "items": _TEXT, "maxItems": 256}


def _strict(properties: dict[str, Any], *required: str) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


CONNECT_SCHEMA = _strict(
    {
        "minProtocol": {"type": "integer", "minimum": 1},
        "maxProtocol": {"type": "integer", "minimum": 1},
        "client": _strict(
            {"id": _NAME, "version": _NAME, "platform": _NAME, "mode": _NAME}
            | dict.fromkeys(("displayName", "deviceFamily", "modelIdentifier", "instanceId"), _TEXT),
            *("id", "version", "platform", "mode"),
        ),
        "caps": _WORDS,
        "commands": _WORDS,
        "permissions": {"type": "object", "additionalProperties": {"type": "boolean"}},
        "pathEnv": _TEXT,
        "role": _NAME,
        "scopes": _WORDS,
        "device": _strict(
            {"id": _NAME, "publicKey": _NAME, "signature": _NAME, "signedAt": {"type": "integer"}, "nonce": _NAME},
            *("id", "publicKey", "signature", "signedAt"),
        ),
        "auth": _strict({"token": _TEXT, "password": _TEXT, "page": _TEXT}),
        "locale": _TEXT,
        "userAgent": _TEXT,
    },
    *("minProtocol", "maxProtocol", "client"),
)
"""What a client says first. Any name of a client will do: nothing follows from it."""

_check_connect = check_of_schema(CONNECT_SCHEMA)


def check_connect(request: FrameRequest) -> Mapping[str, Any]:
    """Return the parameters of `connect`; raise FrameError when they are not what it takes."""
    if request.method != "connect":
        raise FrameError("the first request is connect", request.id)
    try:
        params = _check_connect(request.params)
    except ToolError as error:
        raise FrameError(f"connect: {error}", request.id) from None
    if not params["minProtocol"] <= PROTOCOL <= params["maxProtocol"]:
        raise ProtocolMismatchError(f"this gateway speaks protocol {PROTOCOL}", request.id)
    return params


class ProtocolMismatchError(FrameError):
    """The client speaks other versions only."""


def write_answer(id: str, payload: Any) -> str:
    """Return the frame that answers a request."""
    return _write({"type": "res", "id": id, "ok": True, "payload": payload})


def write_error(id: str, code: ErrorCode, message: str, details: Any = None, *, retryable: bool = False) -> str:
    """Return the frame that says why a request was not answered."""
    error: dict[str, Any] = {"code": code, "message": message}
    if details is not None:
        error["details"] = details
    if retryable:
        error["retryable"] = True
    return _write({"type": "res", "id": id, "ok": False, "error": error})


def write_event(event: str, payload: Any, seq: int) -> str:
    """Return the frame that tells of an event."""
    return _write({"type": "event", "event": event, "payload": payload, "seq": seq})


def _write(frame: dict[str, Any]) -> str:
    return orjson.dumps(frame, default=str, option=orjson.OPT_NON_STR_KEYS).decode()


def code_of(error: ToolError) -> ErrorCode:
    """Return the protocol's code for an error of a service."""
    return "UNAVAILABLE" if error.code in ("unavailable", "busy", "not_built", "timeout") else "INVALID_REQUEST"
