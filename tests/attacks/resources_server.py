"""A server for attacks/resources: bombs, endless bodies and heads. It imports nothing of ours, so it starts at once."""

import contextlib
import json
import socket
import sys
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import brotli

Json = Mapping[str, Any]

_PIECE = b"The nuts are in the third drawer. " * 2_000
_WORDS = {"zeros": bytes(1 << 20), "text": _PIECE, "twice": bytes(1 << 20)}


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
