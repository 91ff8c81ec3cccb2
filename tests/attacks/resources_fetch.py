"""attacks/resources: what a server sends to web_fetch: bombs, bodies and heads without end, odd pages."""

import asyncio
import contextlib
import json
import socket
import sys
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import brotli

import toolcrib
from toolcrib import OWNER, Result

from . import Outcome, broken, kept, resources
from .lateness import Lateness, Stopwatch

Json = Mapping[str, Any]

_PIECE = b"The nuts are in the third drawer. " * 2_000
_WORDS = {"zeros": bytes(1 << 20), "text": _PIECE, "twice": bytes(1 << 20)}


def judge(case: Json, limits: Json) -> Outcome:
    """Serve what the case describes, fetch it, and measure."""
    must = case["must"]
    before, watch = resources.measure_held(begins=True), Stopwatch()
    result, late = asyncio.run(_fetch(case["input"], limits))
    took, after = watch.took, resources.measure_held()
    complaints = [late] if must.get("alive_during") and late else []
    if must["verdict"] == "allow" and result.status != "ok":
        complaints.append(f"refused: {result.plain_text}")
    if must["verdict"] == "reject" and result.status == "ok":
        complaints.append("it was let through")
    if len(result.plain_text) > must.get("result_chars", 60_000):
        complaints.append(f"the result has {len(result.plain_text)} characters")
    complaints += resources.measure({**must, "alive_during": False}, took, before, after)
    seen = {"status": result.status, "text": result.plain_text[:200]}
    return broken("; ".join(complaints), seen) if complaints else kept(seen)


async def _fetch(asked: Json, limits: Json) -> tuple[Result, str]:
    watch, words = Lateness(), (sys.executable, "-m", __name__, json.dumps(dict(asked["gen"])))
    # what makes the bytes is a process of its own: its work is not ours
    server = await asyncio.create_subprocess_exec(*words, stdout=asyncio.subprocess.PIPE)
    assert server.stdout is not None
    place = f"127.0.0.1:{int(await server.stdout.readline())}"
    web = {"ssrf": {"allowPrivate": [place]}, "fetch": {"maxChars": limits["result_chars"]}}
    async with toolcrib.open({"web": web}) as crib, watch:
        result = await crib.belt(OWNER).call("web_fetch", {"url": f"http://{place}/", **asked.get("args", {})})
    server.kill()
    await server.wait()
    return result, watch.complaint


def main() -> None:
    """Answer whoever connects with what is described, until this is killed."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sys.stdout.write(f"{listener.getsockname()[1]}\n")
        sys.stdout.flush()
        while True:
            connection, _ = listener.accept()
            with connection, contextlib.suppress(ConnectionError):
                connection.recv(65_536)
                for piece in _answer(json.loads(sys.argv[1])):
                    connection.sendall(piece)


def _answer(gen: Json) -> Iterator[bytes]:
    """Yield the bytes of an answer."""
    whole = int(gen.get("plain") or gen.get("bytes") or 1_000_000)
    if "http_headers" in gen:
        yield b"HTTP/1.1 200 OK\r\n"
        yield from (b"x-%d: %s\r\n" % (at, b"y" * 900) for at in range(whole // 1_000))
        yield b"\r\nok"
        return
    if "html" in gen:
        many = int(gen.get("depth") or gen.get("count") or 0) or whole // 10
        piece = b"<p>" + _PIECE if gen["html"] == "text" else b"<div><b>" * 1_000 + b"word "
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
        yield from (piece for _ in range(many // 1_000 + 1))
        return
    if "text" in gen:
        text = chr(int(gen["text"][2:], 16)) if gen["text"].startswith("U+") else gen["text"]
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\n\r\n"
        yield from ((text * 10_000).encode() for _ in range(int(gen.get("count") or whole) // 10_000 + 1))
        return
    if "http_chunks" in gen:
        yield b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n"
        yield from (b"1\r\nx\r\n" * 5_000 for _ in range(whole // 5_000))
        yield b"0\r\n\r\n"
        return
    (name,) = (key for key in ("http_gzip", "http_deflate", "http_br") if key in gen)
    yield f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: {name[5:]}\r\n\r\n".encode()
    packers = [_packer(name)] if gen[name] != "twice" else [_packer("http_gzip"), _packer(name)]
    words = _WORDS[gen[name]]
    for at in range(0, whole, len(words)):
        yield _pack(packers, words[: whole - at])
    yield _pack(packers, b"", ends=True)


def _packer(name: str) -> Any:
    if name == "http_br":
        return brotli.Compressor(quality=1)
    return zlib.compressobj(1, wbits=31 if name == "http_gzip" else 15)


def _pack(packers: list[Any], data: bytes, *, ends: bool = False) -> bytes:
    for packer in packers:
        work = packer.process if hasattr(packer, "process") else packer.compress
        finish = packer.finish if hasattr(packer, "finish") else packer.flush
        data = work(data) + (finish() if ends else b"")
    return data


if __name__ == "__main__":
    main()
