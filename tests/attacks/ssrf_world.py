"""A small internet, for a process in a network namespace where every address is its own.

Each line that is read is a case; each line that is written tells what came of it, and who was dialled.
"""

import asyncio
import base64
import datetime as dt
import gzip
import hashlib
import ipaddress
import json
import os
import re
import socket
import ssl
import struct
import sys
import tempfile
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import toolcrib
from toolcrib import OWNER, Ctx, Result, Text, tool
from toolcrib.define.egress import describe_special
from toolcrib.doors.gateway.canvas import CanvasHost

Json = dict[str, Any]

_PORT = re.compile(r"[\]\w]:(\d{1,5})\b")
_KEY = ec.generate_private_key(ec.SECP256R1())
_IP_PKTINFO = 8  # which address a datagram was sent to; Python does not name it
_NAME = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a small internet")])


# A page that tries every way to an address, and one that goes there; each says in its title when it is done.
_EMBEDS = """<body><script>
const url = $URL, tries = [], hosts = [new URL(url).hostname];
for (const [name, key] of [["img", "src"], ["iframe", "src"], ["script", "src"], ["video", "src"], ["embed", "src"],
                           ["object", "data"], ["link", "href"]]) {
  const each = document.createElement(name);
  if (name == "link") each.rel = "stylesheet";
  tries.push(new Promise(done => { each.onload = each.onerror = done; }));
  each[key] = url;
  document.body.append(each);
}
for (const rel of ["preconnect", "dns-prefetch", "prefetch", "preload", "prerender"]) {
  const each = document.createElement("link");
  each.rel = rel; each.href = url;
  document.head.append(each);
}
tries.push(fetch(url, {mode: "no-cors"}).catch(String), fetch(url, {method: "POST", body: "x"}).catch(String));
navigator.sendBeacon(url, "x");
try {
  const socket = new WebSocket(url.replace(/^http/, "ws"));
  tries.push(new Promise(done => { socket.onopen = socket.onerror = done; }));
} catch {}
const events = new EventSource(url);
tries.push(new Promise(done => { events.onopen = events.onerror = done; }));
const stun = hosts.flatMap(host => [`stun:${host}:3478`, `turn:${host}:3478?transport=udp`]);
const peer = new RTCPeerConnection({iceServers: [{urls: stun, username: "a", credential: "b"}]});
peer.createDataChannel("x");
tries.push((async () => {
  const other = new RTCPeerConnection();
  await peer.setLocalDescription(await peer.createOffer());
  await other.setRemoteDescription(peer.localDescription);
  await peer.setRemoteDescription(await other.createAnswer());
  for (const host of hosts)
    await peer.addIceCandidate({candidate: `candidate:1 1 udp 2113937151 ${host} 3478 typ host`, sdpMid: "0"});
})().catch(String));
const pause = new Promise(done => setTimeout(done, 4000));
Promise.race([Promise.all(tries), pause]).then(() => setTimeout(() => { document.title = "done"; }, 1000));
</script>"""
_LEAVES = (
    "<script>setTimeout(() => { location = $URL; }, 10); setTimeout(() => { document.title = 'done'; }, 2000)</script>"
)


class World:
    """The names and the pages of one case, and what was done there."""

    def __init__(self, case: Json) -> None:
        self._names, self._pages = case["setup"].get("resolver", {}), dict(case["setup"].get("http", {}))
        asked = case.get("input", {})
        self.leads_to = asked.get("page_embeds") or asked.get("page_navigates_to") or ""
        if self.leads_to:
            body = (_EMBEDS if "page_embeds" in asked else _LEAVES).replace("$URL", json.dumps(self.leads_to))
            self._pages[asked["url"]] = {"status": 200, "headers": {"content-type": "text/html"}, "body": body}
        self.asked_for = set[str]()
        self._asked: dict[tuple[str, int], int] = {}
        self.hangs_up = "first_dial" in case.get("input", {})
        self.dialled: list[str] = []
        self.headers: Json = {}
        self.requests = self.bytes_sent = 0
        self.is_over = threading.Event()

    def resolve(self, name: str, kind: int) -> list[str]:
        """Return the answer to the next look-up of a name."""
        by_name = {key if key.isascii() else key.encode("idna").decode(): value for key, value in self._names.items()}
        answers = by_name.get(name.lower(), [[]])
        at = self._asked.get((name, kind), 0)
        self._asked[name, kind] = at + 1
        version = 4 if kind == 1 else 6
        return [each for each in answers[min(at, len(answers) - 1)] if ipaddress.ip_address(each).version == version]

    def answer(self, method: str, url: str) -> Json:
        """Return the page of a URL."""
        self.asked_for.add(url.rstrip("/"))
        found: Json = self._pages.get(f"{method} {url}") or self._pages.get(url) or {"status": 200, "body": "ok"}
        return found


class Internet:
    """Answers names at port 53 and pages at every port that a case names, wherever it is dialled."""

    def __init__(self) -> None:
        self.world = World({"setup": {}})
        self._ports = set[int]()
        dns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        dns.bind(("127.0.0.1", 53))
        threading.Thread(target=self._serve_names, args=(dns,), daemon=True).start()
        stun = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        stun.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        stun.bind(("", 3478))
        threading.Thread(target=self._watch_datagrams, args=(stun,), daemon=True).start()

    def open(self, world: World, ports: set[int]) -> None:
        """Be the internet of a case."""
        self.world = world
        for port in ports - self._ports:
            self._ports.add(port)
            for family, any_address in ((socket.AF_INET, ""), (socket.AF_INET6, "::")):
                listener = socket.socket(family)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind((any_address, port))
                listener.listen(100)
                threading.Thread(target=self._accept, args=(listener,), daemon=True).start()

    def _watch_datagrams(self, stun: socket.socket) -> None:
        while True:
            _, about, _, _ = stun.recvmsg(2_048, 256)
            self.world.dialled += [str(ipaddress.IPv4Address(data[8:12])) for *_, data in about]

    def _serve_names(self, dns: socket.socket) -> None:
        while True:
            query, who = dns.recvfrom(2_048)
            labels, at = [], 12
            while query[at]:
                labels.append(query[at + 1 : at + 1 + query[at]])
                at += 1 + query[at]
            (kind,) = struct.unpack("!H", query[at + 1 : at + 3])
            found = self.world.resolve(b".".join(labels).decode(), kind) if kind in (1, 28) else []
            known = [ipaddress.ip_address(each).packed for each in found]
            head = query[:2] + struct.pack("!HHHHH", 0x8180, 1, len(known), 0, 0)
            rows = b"".join(b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 0, len(each)) + each for each in known)
            dns.sendto(head + query[12 : at + 5] + rows, who)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=self._serve, args=(connection, self.world), daemon=True).start()

    def _serve(self, connection: socket.socket, world: World) -> None:
        world.dialled.append(str(ipaddress.ip_address(connection.getsockname()[0])))
        with connection:
            if world.hangs_up:
                world.hangs_up = False
                return
            try:
                scheme = "https" if connection.recv(1, socket.MSG_PEEK) == b"\x16" else "http"
                stream = _tls().wrap_socket(connection, server_side=True) if scheme == "https" else connection
                with stream:
                    self._answer(stream, scheme, world)
            except OSError:
                return  # whoever dialled has hung up

    def _answer(self, stream: socket.socket, scheme: str, world: World) -> None:
        head = b""
        while b"\r\n\r\n" not in head and (piece := stream.recv(65_536)):
            head += piece
        if not head:
            return
        lines = head.partition(b"\r\n\r\n")[0].decode("latin-1").split("\r\n")
        method, target = lines[0].split(" ")[:2]
        world.headers = dict(line.split(": ", 1) for line in lines[1:])
        host = next(value for name, value in world.headers.items() if name.lower() == "host")
        world.requests += 1
        page = world.answer(method, f"{scheme}://{host}{target}")
        _send(stream, page, world)


def _send(stream: socket.socket, page: Json, world: World) -> None:
    body = str(page.get("body", "ok")).encode() if page["status"] not in (204, 304) else b""
    headers = {"content-type": "text/plain", **page.get("headers", {})}
    if "location" in page:
        headers["location"] = page["location"]
    if page.get("gzip"):
        body, headers["content-encoding"] = gzip.compress(body), "gzip"
    drip = page.get("drip") or {"bytes_per_s": 0, "total": page.get("size") or page.get("bytes") or 0}
    headers["content-length"] = str(drip["total"] or len(body))
    lines = [f"HTTP/1.1 {page['status']} said", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    stream.sendall("\r\n".join(lines).encode())
    piece = b"x" * (drip["bytes_per_s"] or 65_536)
    while drip["total"] and world.bytes_sent < drip["total"] and not world.is_over.is_set():
        stream.sendall(piece)
        world.bytes_sent += len(piece)
        if drip["bytes_per_s"]:
            world.is_over.wait(1)
    if not drip["total"]:
        stream.sendall(body)


@cache
def _tls() -> ssl.SSLContext:
    """Return a server's side that shows, for whatever name it is asked, a certificate of our own authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    folder = Path(tempfile.mkdtemp())

    def show(stream: ssl.SSLObject | ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        stream.context = _certified(folder, name or "")

    context.sni_callback = show
    return context


@cache
def _certified(folder: Path, name: str) -> ssl.SSLContext:
    context, file = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), folder / f"{len(list(folder.iterdir()))}.pem"
    key = _KEY.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(_sign(name).public_bytes(serialization.Encoding.PEM) + key)
    context.load_cert_chain(file)
    return context


def _sign(name: str = "") -> x509.Certificate:
    """Return a certificate for a name, of the authority itself where there is none."""
    now = dt.datetime.now(dt.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:60])]) if name else _NAME
    made = x509.CertificateBuilder(_NAME, subject, _KEY.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - dt.timedelta(1)).not_valid_after(now + dt.timedelta(9))
    made = made.add_extension(x509.BasicConstraints(ca=not name, path_length=None), critical=True)
    if name:
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    return made.sign(_KEY, hashes.SHA256())


@tool(effects={"network"})
async def probe(ctx: Ctx, url: str, method: str, headers: dict[str, str] | None = None) -> Result:
    """Go out as a plugin does, with a method and headers of its own."""
    page = await ctx.http.send(method, url, headers=headers or {})
    return Result.text(page.text, details={"status": page.status, "length": len(page.body)})


async def play(case: Json, internet: Internet) -> Json:
    """Fetch the URL of a case, and tell what came of it."""
    asked, policy = case["input"], case["setup"].get("policy", {})
    url = asked["url"] if isinstance(asked["url"], str) else _join(asked["url"]["$concat"])
    world, text = (
        World(case),
        json.dumps([case["setup"], url, asked.get("page_embeds"), asked.get("page_navigates_to")]),
    )
    internet.open(world, {80, 443, 8080, *(int(port) for port in _PORT.findall(text) if 0 < int(port) < 65_536)})
    os.environ.update(asked.get("process_env", {}))
    config: Json = {"web": {"ssrf": {"allowPrivate": policy.get("allow_private", [])}}}
    config["browser"] = {"executable": str(_chromium())}
    config["workspace"] = {"root": tempfile.mkdtemp()}
    if "allow_hosts" in policy:
        config["tools"] = {"hosts": {"allow": policy["allow_hosts"]}}
    began = time.monotonic()
    async with toolcrib.open(config, tools=[probe]) as crib:
        belt = crib.belt(OWNER)
        if asked["surface"] == "browser":
            said = await belt.call("browser", {"action": "open", "targetUrl": url})
            if world.leads_to and said.status == "ok":
                is_done = {
                    "kind": "wait",
                    "fn": "() => document.title == 'done' || innerWidth && !document.scripts.length",
                }
                await belt.call("browser", {"action": "act", "request": is_done})
        elif asked["surface"] == "canvas":
            host = CanvasHost(crib.canvases, ("127.0.0.1", 0))
            said = await belt.call("canvas", {"action": "navigate", "url": url})
            if said.status == "ok":
                said = await belt.call("canvas", {"action": "snapshot"})
            await host.close()
        elif asked["surface"] == "gateway_url":
            said = await belt.call("nodes", {"action": "status", "gatewayUrl": url})
        elif asked["surface"] == "web_fetch" and not {"method", "headers"} & set(asked) and not _looks_inside(case):
            said = await belt.call("web_fetch", {"url": url})
        else:
            args = {"url": url, "method": asked.get("method", "GET"), "headers": asked.get("headers", {})}
            said = await belt.call("probe", args)
    world.is_over.set()
    for name in asked.get("process_env", {}):
        del os.environ[name]
    details: Json = said.details if isinstance(said.details, dict) else {}
    is_error = said.status == "error"
    is_refused = is_error and not str(details.get("code", "")).startswith("http_")
    if world.leads_to:
        is_refused = world.leads_to.rstrip("/") not in world.asked_for
    return {
        "is_refused": is_refused,
        "said": " ".join(part.text for part in said.framed if isinstance(part, Text))[:400] if is_error else "",
        "dialled": world.dialled,
        "forbidden": sorted({each for each in world.dialled if _is_forbidden(each, policy)}),
        "hidden": [each for answers in case["setup"].get("resolver", {}).values() for answer in answers
                   for each in answer if describe_special(each)[0] and each not in url],
        "last_headers": world.headers,
        "requests": world.requests,
        "bytes_sent": world.bytes_sent,
        "seconds": time.monotonic() - began,
        "status": details.get("status", 0),
        "body": said.plain_text if said.status == "ok" else "",
        "body_len": details.get("length", 0),
    }  # fmt: skip


@cache
def _chromium() -> Path:
    """Return a program that starts Chromium with trust in our own authority."""
    spki = _KEY.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    known = base64.b64encode(hashlib.sha256(spki).digest()).decode()
    program = Path(tempfile.mkdtemp()) / "chromium"
    program.write_text(f'#!/bin/sh\nexec chromium --ignore-certificate-errors-spki-list={known} "$@"\n')
    program.chmod(0o700)
    return program


def _looks_inside(case: Json) -> bool:
    return bool({"status", "body_len"} & set(case["must"]))


def _is_forbidden(address: str, policy: Json) -> bool:
    is_opened = any(address in entry or "/" in entry for entry in policy.get("allow_private", ()))
    return bool(describe_special(address)[0]) and not is_opened


def _join(parts: list[Any]) -> str:
    return "".join(part if isinstance(part, str) else part["$repeat"][0] * part["$repeat"][1] for part in parts)


def main() -> None:
    """Play the cases that come."""
    with tempfile.NamedTemporaryFile("wb") as authority, tempfile.TemporaryDirectory() as workspace:
        authority.write(_sign().public_bytes(serialization.Encoding.PEM))
        authority.flush()
        os.environ["SSL_CERT_FILE"] = authority.name
        os.chdir(workspace)
        internet = Internet()
        for line in sys.stdin:
            sys.stdout.write(json.dumps(asyncio.run(play(json.loads(line), internet))) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
