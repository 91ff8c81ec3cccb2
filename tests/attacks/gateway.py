"""attacks/gateway on a real server and a real socket: what a row writes goes out as it stands.

Each row has a gateway of its own, with the secrets and devices of its profile. `remote` is put in the place of the
peer's address in front of the gateway, as if the connection came from there; everything behind that is the product's.
"""

import asyncio
import contextlib
import json
import logging
import tempfile
from collections.abc import AsyncIterator, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import toolcrib
from toolcrib.define.caller import OWNER
from toolcrib.define.device import Device, hash_token
from toolcrib.doors.gateway.credentials import Credentials
from toolcrib.doors.gateway.server import GatewayLimits, GatewayServer
from toolcrib.doors.listener import listen_on

from . import LATER, Outcome, UnknownWordError, broken, kept
from .gateway_musts import ELSEWHERE, MUST, Far, Play
from .gateway_wire import SECONDS, Peer, bytes_of, head_of, reach, shake_hands, statuses_in, upgrade
from .lateness import Stopwatch
from .resources import measure_held

Json = dict[str, Any]

_CLIENT = {"id": "cli", "version": "1", "platform": "linux", "mode": "cli"}
_ROTATED = "tok-after-rotation-0f1e2d3c"
_LONGER = "-9f2c1d7be84a4f0f"  # a token of a configuration is longer than the rows' one for hooks
_ALIVE_SECONDS, _PATIENCE = 1.0, 15.0
_CANARY = "CANARY"
_AT_ONCE = 25  # of many connections, fewer than the gateway lets be strangers at once
_SCOPES = ("read", "approvals", "pairing")  # there is a device for each that has nothing else


def judge(case: Json, profiles: Json) -> Outcome:
    """Play a row, and compare what came of it with what must."""
    name = case.get("setup", {}).get("profile", "loopback")
    profile = {**profiles.get(profiles[name].get("extends"), {}), **profiles[name]}
    hook = str(profile.get("hooks_token", ""))
    if hook:
        case, profile = (json.loads(json.dumps(each).replace(hook, hook + _LONGER)) for each in (case, profile))
    with _logged() as lines:
        return asyncio.run(_judge(case, profile, lines))


@contextlib.contextmanager
def _logged() -> Iterator[list[str]]:
    """Keep what is logged by anybody, each event as the log has it."""
    lines = list[str]()

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(self.format(record))

    keeper, root = Keeper(), logging.getLogger()
    root.addHandler(keeper)
    try:
        yield lines
    finally:
        root.removeHandler(keeper)


async def _judge(case: Json, profile: Json, lines: list[str]) -> Outcome:
    asked, must = case["input"], case["must"]
    async with _gateway(case, profile) as play:
        before, held = _state(play.server), measure_held(begins=True)
        watch = Stopwatch()
        if not await _perform(play, asked, must):
            return LATER
        play.took = watch.took
        grown = measure_held()["mb"] - held["mb"]
        addresses = list(play.server.addresses)
        if not case.get("setup", {}).get("rotate_token_after_connect") and _state(play.server) != before:
            play.effects.add("credentials")
        play.effects |= await _tools_called(play.server)
        if must.get("alive", True):
            await _check_alive(play, must)
        why = [*play.complaints, *_complaints(play, must, addresses), *_about_log(must, lines)]
        if grown > must.get("rss_growth_mb", grown):
            why.append(f"the process grew by {grown} MB")
        await play.stack.aclose()
    seen = {"reasons": play.reasons[-1:], "statuses": [statuses_in(each) for each in play.heard[:3]]}
    if why and _is_later(play, must):
        return LATER
    return broken("; ".join(why), seen) if why else kept(seen)


@contextlib.asynccontextmanager
async def _gateway(case: Json, profile: Json) -> AsyncIterator[Play]:
    setup = case.get("setup", {})
    with tempfile.TemporaryDirectory() as folder, contextlib.closing(listen_on(0)) as at:
        root = Path(folder)
        (root / "ws").mkdir()
        (root / "config.json").write_text(_CANARY)
        config: Json = {"workspace": {"root": str(root / "ws")}}
        if "hooks_token" in profile:
            config["hooks"] = {"enabled": True, "token": profile["hooks_token"]}
        allowed = [name for each in profile.get("devices", ()) for name in each.get("commands", ())]
        config["gateway"] = {"nodes": {"allowCommands": allowed}}
        crib = toolcrib.open(config, state=root / "state", env={})
        auth = profile["auth"]
        credentials = Credentials(auth["mode"], auth[auth["mode"]], {each.id: each for each in _devices(profile)})
        if setup.get("rotated_before"):
            credentials.replace_secret("token", _ROTATED)
        patience = profile["limits"]
        limits = GatewayLimits(
            handshake_seconds=patience["handshake_s"],
            strangers_per_address=patience["preauth_connections_per_ip"],
            body_seconds=patience.get("body_s", 25.0),
        )
        sources = {"origins": profile["allowed_origins"], "proxies": profile["trusted_proxies"]}
        server = Far(crib, credentials, limits=limits, **sources)
        server.remotes, server.addresses = {}, []
        play = Play(server, at.getsockname()[1], case, profile)
        serving = asyncio.ensure_future(server.serve(at, head_seconds=limits.handshake_seconds))
        stop_listening = crib.gateway.bus.listen(play.tell)
        try:
            while not server.is_ready and not serving.done():
                await asyncio.sleep(0.01)
            yield play
        finally:
            stop_listening()
            serving.cancel()
            await asyncio.wait([serving])


def _devices(profile: Json) -> Iterator[Device]:
    for each in profile.get("devices", ()):
        role = each.get("role", "operator")
        yield Device(each["id"], hash_token(each["token"]), role, frozenset(each.get("scopes", ())))
    for scope in _SCOPES:
        yield Device(f"only-{scope}", hash_token(f"only-{scope}"), "operator", frozenset({f"operator.{scope}"}))


def _fill_in(play: Play, value: Any) -> Any:
    """Return a connect request in the place of a word such as ${READ_CONNECT}."""
    if not isinstance(value, str) or not value.startswith("${"):
        return value
    who = value.removeprefix("${").removesuffix("CONNECT}").removesuffix("_").lower()
    tokens = {"": play.token, "admin": play.token, **{scope: f"only-{scope}" for scope in _SCOPES}}
    for each in play.profile.get("devices", ()):
        tokens["node" if each.get("role") == "node" else "write"] = each["token"]
    if (token := tokens.get(who)) is None:
        raise UnknownWordError(str(value))
    params: Json = {"minProtocol": 3, "maxProtocol": 3, "client": _CLIENT, "auth": {"token": token}}
    if who == "node":
        nodes = (each for each in play.profile["devices"] if each.get("role") == "node")
        params["commands"] = next(nodes).get("commands", [])
    return {"type": "req", "id": "1", "method": "connect", "params": params}


async def _perform(play: Play, asked: Json, must: Json) -> bool:
    """Do what the row says; False when that is about something that is not built."""
    remotes = asked.get("alternate_remote") or [asked.get("remote")]
    for at in range(asked.get("repeat", 1)):
        remote = remotes[at % len(remotes)]
        if "http" in asked or "raw" in asked:
            await _ask_http(play, asked, remote)
        elif "ws_many" in asked:
            await _come_in_numbers(play, asked, must)
        elif "ws_raw" in asked:
            await _drip(play, asked, asked["ws_raw"]["handshake_drip_bytes_per_s"])
        else:
            await _talk(play, asked.get("ws", ()), asked, remote)
    if "then_ws" in asked:
        await _talk(play, asked["then_ws"], asked, asked.get("remote"))
    return True


async def _talk(play: Play, steps: Any, asked: Json, remote: str | None) -> None:
    """Take the steps on one WebSocket, and wait for what must come of them."""
    must = play.case["must"]
    async with contextlib.AsyncExitStack() as briefly:
        # it stays until everything was looked at, unless there will be many
        stack = play.stack if asked.get("repeat", 1) == 1 else briefly
        peer = await stack.enter_async_context(reach(play.port, play.server.remotes, remote))
        play.peers.append(peer)
        await peer.send(upgrade(_path_of(asked.get("ws_url", "/")), asked.get("headers", {}), play.port))
        if await shake_hands(peer):
            for step in steps:
                if not await _take(play, peer, step):
                    break
            await peer.wait_for(SECONDS, lambda: peer.is_answered)
        if must.get("closed") or must.get("closed_after_rotation"):
            await peer.wait_for(must.get("close_in_s", _PATIENCE) + SECONDS, lambda: peer.is_closed)
        elif must.get("error_or_closed"):
            await peer.wait_for(SECONDS, lambda: peer.is_refused)
        if peer.hello is None:
            play.reasons.append(peer.refusal or f"HTTP {peer.status}")


async def _take(play: Play, peer: Peer, step: Json) -> bool:
    """Take one step; False when nobody listens any more."""
    if "wait_s" in step or "expect_silence_s" in step:
        count = len(peer.answers)
        await asyncio.sleep(float(step.get("wait_s", 0)) + float(step.get("expect_silence_s", 0)))
        if "expect_silence_s" in step and len(peer.answers) != count:
            play.complaints.append("something was said where nothing was to be")
        return True
    if "send_json" in step:
        value = json.dumps(_fill_in(play, step["send_json"]))
        for word, id in play.invoked.items():
            value = value.replace(json.dumps(word), json.dumps(id))
        step = {**step, "send_json": json.loads(value)}
    pending = bytearray()
    for data in bytes_of(step):
        pending += data
        if len(pending) > 65_536:
            if not await peer.send(bytes(pending)):
                return False
            pending.clear()
    _note_request(peer, step)
    if not await peer.send(bytes(pending)):
        return False
    if peer.asked.get("1") == "connect" and len(peer.asked) == 1 and peer.hello is None:
        await peer.wait_for(SECONDS, lambda: "1" in peer.answers)
        if play.case.get("setup", {}).get("rotate_token_after_connect"):
            play.server.credentials.replace_secret("token", _ROTATED)
        word, hello = play.case.get("setup", {}).get("pending_invoke"), peer.hello
        if word and hello is not None and hello["auth"]["role"] == "node":
            await _invoke_node(play, peer, word)
    return True


async def _invoke_node(play: Play, peer: Peer, word: str) -> None:
    """Ask the node that has connected for what it declares; the row calls that request by a word."""
    nodes = play.server.crib.nodes
    for node in [each for each in nodes.list_known() if each.connected_at and each.commands]:
        asking = asyncio.ensure_future(nodes.invoke(toolcrib.OWNER, node.id, node.commands[0], "k"))
        play.stack.callback(asking.cancel)
        await peer.wait_for(SECONDS, lambda: "node.invoke.request" in peer.told)
        play.invoked[word] = peer.told["node.invoke.request"]["id"]


def _note_request(peer: Peer, step: Json) -> None:
    """Keep which method an id asks for, where the step is a request that can be answered."""
    with contextlib.suppress(ValueError, TypeError, KeyError, RecursionError):
        value = step["send_json"] if "send_json" in step else json.loads(step.get("send", "null"))
        if "send_gen" in step:
            value = {"id": step["send_gen"].get("id", "gen"), "method": step["send_gen"]["wrap"]}
        if isinstance(step.get("fragments"), list):
            value = json.loads("".join(step["fragments"]))
        if isinstance(value, dict) and isinstance(value.get("id"), str) and 0 < len(value["id"]) <= 256:
            peer.asked.setdefault(value["id"], str(value.get("method")))
            peer.requests += 1


def _path_of(url: str) -> str:
    """Return the path of an address, whichever host and port stand in it."""
    return f"/{url.partition('://')[2].partition('/')[2]}" if "://" in url else url


async def _come_in_numbers(play: Play, asked: Json, must: Json) -> None:
    many = asked["ws_many"]
    is_one = many.get("from_one_ip", True)

    async def come(at: int) -> None:
        remote = asked.get("remote") if is_one else f"198.51.{at // 250}.{at % 250 + 1}"
        with contextlib.suppress(ConnectionError, OSError):
            await _talk(play, many.get("steps", ()), asked, remote)

    for first in range(0, many["count"], _AT_ONCE):
        await asyncio.gather(*(come(at) for at in range(first, min(first + _AT_ONCE, many["count"]))))
    most = must.get("accepted_preauth_max")
    if most is not None:
        watch = Stopwatch()
        while _open_strangers(play) > most and watch.took < _PATIENCE:
            await asyncio.sleep(0.05)
        play.kept_open = _open_strangers(play)


def _open_strangers(play: Play) -> int:
    return sum(not peer.is_closed and peer.status == 101 and peer.hello is None for peer in play.peers)


async def _drip(play: Play, asked: Json, rate: float) -> None:
    """Send the head of a handshake so slowly that it never ends."""
    async with reach(play.port, play.server.remotes, asked.get("remote")) as peer:
        play.peers.append(peer)
        peer.listen(framed=False)
        for byte in upgrade("/", asked.get("headers", {}), play.port):
            if not await peer.send(bytes([byte])):
                return
            await peer.wait_for(1 / rate, lambda: peer.is_closed)


async def _ask_http(play: Play, asked: Json, remote: str | None) -> None:
    async with reach(play.port, play.server.remotes, remote) as peer:
        peer.listen(framed=False)
        wanted = 2 if asked.get("raw", "").count(" HTTP/1.") > 1 else 1
        for data in [asked["raw"].encode("utf-8", "surrogateescape")] if "raw" in asked else _request(play, asked):
            if not await peer.send(data) or statuses_in(bytes(peer.heard)):
                break
            if (rate := asked.get("http", {}).get("slow_body_bytes_per_s")) and len(data) == 1:
                await peer.wait_for(1 / rate, lambda: peer.is_closed)
        await peer.wait_for(SECONDS, lambda: len(statuses_in(bytes(peer.heard))) >= 1)
        if wanted > 1:  # a second answer may come, or not
            await peer.wait_for(1.0, lambda: len(statuses_in(bytes(peer.heard))) >= wanted)
        if play.case["must"].get("closed"):
            await peer.wait_for(SECONDS, lambda: peer.is_closed)
        play.heard.append(bytes(peer.heard))
        play.peers.append(peer)
        peer.status = statuses_in(bytes(peer.heard))[-1] if statuses_in(bytes(peer.heard)) else 0
        play.reasons.append("rate_limited" if peer.status == 429 else f"HTTP {peer.status}")


def _request(play: Play, asked: Json) -> Iterator[bytes]:
    http = asked["http"]
    headers = {**asked.get("headers", {}), **http.get("headers", {})}
    body = str(http.get("body", "")).encode("utf-8", "surrogatepass")
    made = http.get("body_gen")
    size = int(made.get("bytes", made.get("size", 0))) if made else len(body)
    if http.get("slow_body_bytes_per_s") and not size:
        size = 1_000
    given = {key.lower() for key in headers}
    if http.get("chunked_endless"):
        headers["Transfer-Encoding"] = "chunked"
    elif (size or http["method"] == "POST") and "content-length" not in given and "transfer-encoding" not in given:
        headers["Content-Length"] = str(size)
    yield head_of(http["method"], http["path"], headers, play.port)
    if http.get("chunked_endless"):
        while True:
            yield b"4000\r\n" + b"a" * 16_384 + b"\r\n"
    if http.get("slow_body_bytes_per_s"):
        yield from ((body[at : at + 1] or b" ") for at in range(size))
    elif made:
        piece = str(made.get("char", "a")).encode() * 16_384
        for at in range(0, size, len(piece)):
            yield piece[: size - at]
    else:
        yield body


def _state(server: GatewayServer) -> tuple[Any, ...]:
    return server.credentials.mode, server.credentials.secret, dict(server.credentials.devices)


async def _tools_called(server: GatewayServer) -> set[str]:
    lines = await server.crib.rpc_for(OWNER, {"read"})("audit.tail", {})
    return {str(line["tool"]) for line in lines if line.get("kind") == "result"}


async def _check_alive(play: Play, must: Json) -> None:
    """Have a fresh client served, and say when that takes too long."""
    watch = Stopwatch()
    secret = play.server.credentials.secret
    connect = {"minProtocol": 3, "maxProtocol": 3, "client": _CLIENT, "auth": {"token": secret}}
    async with reach(play.port, play.server.remotes) as peer:
        await peer.send(upgrade("/", {}, play.port))
        if await shake_hands(peer):
            for id, method, params in (("1", "connect", connect), ("2", "status", {})):
                request = {"type": "req", "id": id, "method": method, "params": params}
                await _take(play, peer, {"send_json": request})
            await peer.wait_for(SECONDS, lambda: "2" in peer.answers)
        is_served = peer.answers.get("2", {}).get("ok") is True
    if not is_served or watch.took > must.get("fresh_client_served_s", _ALIVE_SECONDS):
        play.complaints.append(f"a fresh client is {'served late' if is_served else 'not served'} ({watch.took:.1f} s)")


def _is_later(play: Play, must: Json) -> bool:
    """Tell whether what was asked for is a method of a later step."""
    told = [each.get("error", {}) for peer in play.peers for each in peer.answers.values()]
    return bool(must.get("answered") or must.get("forwarded")) and any(
        each.get("code") == "UNAVAILABLE" and "yet" in each.get("message", "") for each in told
    )


def _complaints(play: Play, must: Json, addresses: list[str]) -> Iterator[str]:
    """Say everything that is not as it must be."""
    peers, last = play.peers, play.peers[-1]
    for key, wanted in must.items():
        if key in MUST and (why := MUST[key](play, wanted)):
            yield f"{key}: {why}"
        elif key == "treated_local" and any(_is_local(each) for each in addresses) is not wanted:
            yield f"it is taken for one at {addresses}"
        elif key not in MUST and key not in ELSEWHERE:
            raise UnknownWordError(f"must.{key}")
    answered = {id: each for peer in peers for id, each in peer.answers.items() if peer.asked.get(id) != "connect"}
    if last.hello is None and (must.get("answered") or must.get("answered_all")) and not answered:
        yield f"nobody was let in: {play.reasons[-1:]}"


def _is_local(address: str) -> bool:
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return False


def _about_log(must: Json, lines: list[str]) -> Iterator[str]:
    for word in must.get("log_has_no", ()):
        if any(word in line for line in lines):
            yield f"the log has {word!r}"
    most = must.get("log_lines_per_event", 0)
    if most and (long := [line for line in lines if len(line.splitlines()) > most]):
        yield f"the log has events of more than {most} lines: {long[:1]}"
