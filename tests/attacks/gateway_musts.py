"""What came of a row of attacks/gateway, and what must have: each demand by its name."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.types import Receive, Scope, Send

from toolcrib.define.gateway import GatewayEvent, explain_forbidden
from toolcrib.doors.gateway.server import GatewayServer

from .gateway_wire import Peer, statuses_in

Json = dict[str, Any]


class Far(GatewayServer):
    """A gateway whose peers are where the row says they are."""

    remotes: dict[int, str]
    addresses: list[str]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("client"):
            host, port = scope["client"]
            scope = {**scope, "client": (self.remotes.get(port, host), port)}
            self.addresses.append(self.address_of(scope))
        await super().__call__(scope, receive, send)


@dataclass
class Play:
    """A row that is being played, and what came of it."""

    server: Far
    port: int
    case: Json
    profile: Json
    peers: list[Peer] = field(default_factory=list)
    heard: list[bytes] = field(default_factory=list)  # answers over HTTP, each connection's
    stack: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    runs: int = 0
    effects: set[str] = field(default_factory=set)
    complaints: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)  # why it was refused, one for each time
    took: float = 0.0
    kept_open: int = 0
    invoked: dict[str, str] = field(default_factory=dict)  # what a node was asked for: the row's word, and its id

    @property
    def token(self) -> str:
        """The owner's, as the profile has it."""
        return str(self.profile["auth"][self.profile["auth"]["mode"]])

    def tell(self, told: GatewayEvent) -> None:
        """Take note of what the gateway says that it does."""
        stream, phase = told.payload.get("stream"), told.payload.get("data", {}).get("phase")
        if told.event == "agent" and phase == "start":
            self.runs += stream == "lifecycle"
            self.effects.add("run" if stream == "lifecycle" else str(told.payload["data"].get("name")))


# what must be, one by one; each says what is not as it must be, "" where all is


def _closed(play: Play, wanted: bool) -> str:
    ends = [peer for peer in play.peers if not (peer.is_closed or peer.status >= 400)]
    if wanted and ends:
        return f"{len(ends)} of {len(play.peers)} are open still"
    return "" if wanted or len(ends) == len(play.peers) else "it was ended"


def _close_in(play: Play, wanted: float) -> str:
    return "" if play.took <= wanted else f"it took {play.took:.1f} s"


def _authenticated(play: Play, wanted: bool) -> str:
    is_in = play.peers[-1].hello is not None if wanted else any(peer.hello for peer in play.peers)
    return "" if is_in is wanted else f"let in: {is_in} ({play.reasons[-1:]})"


def _answers(play: Play) -> dict[str, Json]:
    return {id: each for peer in play.peers for id, each in peer.answers.items() if peer.asked.get(id) != "connect"}


def _answered(play: Play, wanted: list[str]) -> str:
    told = _answers(play)
    missing = {id: told.get(id, {}).get("error") for id in wanted if not _is_served(play, told.get(id, {}))}
    return f"not served: {missing}" if missing else ""


def _is_served(play: Play, answer: Json) -> bool:
    """Tell whether a request was served; a row about scopes sends every method the same, and is about rights alone."""
    is_about_scopes = play.case["class"] == "scopes"
    message = answer.get("error", {}).get("message", "")
    return answer.get("ok") is True or (is_about_scopes and message.startswith("there is no parameter"))


def _answered_all(play: Play, wanted: int) -> str:
    count = sum(
        each["ok"] for peer in play.peers for id, each in peer.answers.items() if peer.asked.get(id) != "connect"
    )
    return "" if count >= wanted else f"{count} were served"


def _denied(play: Play, wanted: bool) -> str:
    if wanted and play.peers[-1].hello is None:
        return f"nobody was let in: {play.reasons}"
    served = [id for id, each in _answers(play).items() if each["ok"]]
    return "" if bool(served) is not wanted else f"served: {served}"


def _was_taken(answer: Json) -> bool:
    payload = answer.get("payload")
    return bool(answer["ok"]) and not (isinstance(payload, dict) and payload.get("ignored"))


def _effects(play: Play) -> set[str]:
    """Return what was done: runs, tools, other credentials, and methods that change something or tell a secret."""
    methods, readers = play.server.methods, {"operator.read"}
    asked = {peer.asked[id] for peer in play.peers for id, each in peer.answers.items() if _was_taken(each)}
    asked -= {"connect"}
    did = {
        name
        for name in asked
        if name in methods and explain_forbidden(name, "operator", readers, methods[name].mark.clients)
    }
    return play.effects | did


def _effect_none(play: Play, wanted: bool) -> str:
    return f"it did {sorted(_effects(play))}" if wanted and _effects(play) else ""


def _effect_none_of(play: Play, wanted: list[str]) -> str:
    did = _effects(play)
    if any("operator.admin" in each.scopes for each in play.server.credentials.devices.values()):
        did |= {"admin"}
    return f"it did {sorted(did & set(wanted))}" if did & set(wanted) else ""


def _error_id_echo(play: Play, wanted: str) -> str:
    found = _answers(play).get(wanted)
    return "" if found is not None and not found["ok"] else f"the answer to {wanted} is {found}"


def _error_or_closed(play: Play, wanted: bool) -> str:
    is_so = any(peer.is_refused for peer in play.peers)
    return "" if is_so is wanted else "neither an error nor an end"


def _status_in(play: Play, wanted: list[int]) -> str:
    told = [status for each in play.heard for status in statuses_in(each)[-1:]] or [play.peers[-1].status]
    return "" if told[-1] in wanted else f"the status is {told[-1]}"


def _no_output(play: Play, wanted: list[str]) -> str:
    output = b"".join([*play.heard, *(bytes(peer.heard) for peer in play.peers)]).decode("utf-8", "replace")
    found = [word for word in wanted if word in output]
    return f"{found} was told" if found else ""


def _client_ip(play: Play, wanted: str) -> str:
    hello = play.peers[-1].hello or {}
    rows = hello.get("snapshot", {}).get("presence", [])
    found = rows[-1]["ip"] if rows else None
    return "" if found == wanted else f"it is {found}"


def _locked_after(play: Play, wanted: int) -> str:
    early = [each for each in play.reasons[:wanted] if "rate_limited" in each]
    late = [each for each in play.reasons[wanted : play.case["input"].get("repeat", 1)] if "rate_limited" not in each]
    return f"the reasons are {play.reasons}" if early or late or len(play.reasons) <= wanted else ""


def _last_reason(play: Play, wanted: str) -> str:
    last = play.reasons[-1] if play.reasons else ""
    return "" if wanted in last else f"it is {last!r}"


def _executed_once(play: Play, wanted: bool) -> str:
    return "" if (play.runs == 1) is wanted else f"it ran {play.runs} times"


def _second_not_executed(play: Play, wanted: bool) -> str:
    second = [status for each in play.heard for status in statuses_in(each)[1:] if status < 400]
    return f"it ran {play.runs} times, and was told {second}" if wanted and (play.runs > 1 or second) else ""


def _responses(play: Play, wanted: int) -> str:
    told: list[Any] = [*statuses_in(play.heard[-1])] if play.heard else [*_answers(play)]
    return "" if len(told) == wanted else f"there are {told}"


def _accepted_preauth_max(play: Play, wanted: int) -> str:
    return "" if play.kept_open <= wanted else f"{play.kept_open} are kept"


def _forwarded(play: Play, wanted: bool) -> str:
    is_so = any(_was_taken(each) for each in _answers(play).values())
    return "" if is_so is wanted else f"forwarded: {is_so}"


def _authenticated_all(play: Play, wanted: bool) -> str:
    count = sum(peer.hello is not None for peer in play.peers)
    return "" if (count == len(play.peers)) is wanted else f"{count} of {len(play.peers)} were let in"


def _answered_any(play: Play, wanted: bool) -> str:
    told = _answers(play).values()
    return "" if any(each["ok"] for each in told) is wanted else f"the answers are {[*told][:1]}"


MUST: dict[str, Callable[[Play, Any], str]] = {
    "accepted_preauth_max": _accepted_preauth_max, "answered": _answered, "answered_all": _answered_all,
    "answered_any": _answered_any, "authenticated": _authenticated, "authenticated_all": _authenticated_all,
    "client_ip": _client_ip, "close_in_s": _close_in, "closed": _closed, "closed_after_rotation": _closed,
    "denied": _denied, "effect_none": _effect_none, "effect_none_of": _effect_none_of,
    "error_id_echo": _error_id_echo, "error_or_closed": _error_or_closed, "executed_once": _executed_once,
    "forwarded": _forwarded, "last_reason": _last_reason, "locked_after": _locked_after, "no_output": _no_output,
    "responses": _responses, "second_not_executed": _second_not_executed, "status_in": _status_in,
}  # fmt: skip
ELSEWHERE = frozenset(
    {"alive", "fresh_client_served_s", "log_has_no", "log_lines_per_event", "rss_growth_mb", "treated_local"}
)
