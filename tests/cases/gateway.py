"""openclaw-gateway on the scope table, the credentials, the frames and the methods of the gateway.

Of a shape that is checked, what is compared is the verdict, and that our sentence names what the recorded one names.
The recorded secrets are shorter than a configuration here takes them, so each goes in longer and comes out as it was.
"""

import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import toolcrib
from toolcrib.config.load import load
from toolcrib.define.device import device_payload
from toolcrib.define.errors import ConfigError, ToolError
from toolcrib.define.gateway import EVENTS, NEEDED, explain_forbidden
from toolcrib.doors.gateway.credentials import Credentials, Mode, RefusedError
from toolcrib.doors.gateway.frames import FrameError, FrameRequest, check_connect, parse_request
from toolcrib.doors.gateway.server import GatewayServer

from .load import Case
from .outcome import Absent, SaidError, Same

Json = dict[str, Any]

_LONGER = "-9f2c1d7be84a4f0f"
_SECRETS = ("token", "password")


@cache
def _server() -> GatewayServer:
    return GatewayServer(toolcrib.open({}, env={}), Credentials())


def _authorize(args: Json) -> Json:
    """Ask as somebody who is connected in this role; or, where nobody is, as a stranger's first request."""
    method = _server().methods.get(args["method"])
    own = None if method is None else method.mark.clients
    why = explain_forbidden(args["method"], args.get("role") or "operator", args.get("scopes") or (), own)
    if args.get("noConnect"):
        try:
            check_connect(FrameRequest("1", args["method"], {}))
        except FrameError as error:
            why = str(error)
    return {"ok": False, "error": {"code": "INVALID_REQUEST", "message": why}} if why else {"ok": True}


def _same_methods(case: Case, ours: Any) -> str:
    """Compare that nothing they have is unknown here: each has its scope, whether it is built yet or not."""
    strange = sorted(set(_names_in(case.expected)) - set(ours))
    return f"nobody knows {', '.join(strange)}" if strange else ""


def _names_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _names_in(each)


def _connect(args: Json) -> Json:
    auth = args["auth"]
    mode: Mode = auth.get("mode") or "token"
    try:
        Credentials(mode, auth.get(mode)).admit(args.get("connectAuth") or {})
    except RefusedError as error:
        return {"ok": False, "reason": str(error)}
    return {"ok": True, "method": mode}


def _resolve(args: Json) -> Json:
    """Read a configuration with these words. Nobody is ever let in by the network they come from."""
    given = {key: value for key, value in (args.get("authConfig") or {}).items() if key != "allowTailscale"}
    longer = {key: f"{value}{_LONGER}" if key in _SECRETS else value for key, value in given.items() if value}
    try:
        gateway = load({"gateway": {"auth": longer} if longer else {}}, args.get("env") or {}).config.gateway
    except ConfigError as error:
        raise SaidError(str(error)) from None
    auth = gateway.auth if gateway else None
    found = {key: getattr(auth, key).removesuffix(_LONGER) for key in _SECRETS if auth and getattr(auth, key)}
    return {"mode": auth.mode if auth else "token", **found, "allowTailscale": False}


def _validate(args: Json) -> Any:
    schema, value = args["schema"], args["value"]
    try:
        if schema == "RequestFrame":
            parse_request(json.dumps(value))
        elif schema == "ConnectParams":
            check_connect(FrameRequest("1", "connect", value))
        elif (method := _server().methods.get(_method_of(schema))) is not None:
            _server().check_params(method.name, value)
            method.shape.check(value)
        else:
            return Absent(f"there is no {_method_of(schema)} here")
    except (FrameError, ToolError) as error:
        return {"ok": False, "errors": str(error)}
    return {"ok": True}


def _method_of(schema: str) -> str:
    """Return the method whose parameters a schema of theirs describes: `ChatSendParams` are those of `chat.send`."""
    return ".".join(re.findall(r"[A-Z][a-z]*", schema.removesuffix("Params"))).lower()


def _same_verdict(case: Case, ours: Any) -> str:
    recorded = case.expected["result"]
    if isinstance(ours, Absent):
        return ours.message
    if ours["ok"] != recorded["ok"]:
        return f"recorded: {recorded}"
    named = re.findall(r"at /([\w/]+):|property '(\w+)'", recorded.get("errors", ""))
    missing = [word for pair in named for word in "/".join(pair).split("/") if word not in ours.get("errors", "")]
    return f"our sentence does not name {', '.join(missing)}: {ours['errors']}" if missing else ""


ADAPTERS: dict[str, Callable[[Json], Any]] = {
    "authorizeGatewayConnect": _connect,
    "buildDeviceAuthPayload": device_payload,
    "gatewayAuthorize": _authorize,
    "gatewayMethods": lambda args: sorted({*NEEDED, *EVENTS, *_server().methods, "connect"}),
    "resolveGatewayAuth": _resolve,
    "validateProtocol": _validate,
}
SAME: dict[str, Same] = {"gatewayMethods": _same_methods, "validateProtocol": _same_verdict}
