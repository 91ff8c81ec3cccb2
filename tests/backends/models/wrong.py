"""What servers do wrong, one function each; the table of misbehaviours.py says what must come of it."""

import asyncio
import contextlib
import zlib
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any

from toolcrib.adapter.cards import Api
from toolcrib.define.event import Replied

from .servers import Say, Talk, said
from .spoken import event

Act = Callable[[Talk, Api], Awaitable[None]]
BAD = Say(text="I note naïve 😀 words.", calls=(("call_1", "note", '{"text": "one"}'),))
ELSEWHERE: dict[int, str] = {}  # where a server sends its callers


def joined(api: Api, say: Say = BAD) -> bytes:
    return b"".join(said(api, say))


def streams(make: Callable[[Api], list[bytes]]) -> Act:
    """Return what streams these events to their end."""

    async def act(talk: Talk, api: Api) -> None:
        await talk.stream(make(api))

    return act


def cut(make: Callable[[Api], bytes]) -> Act:
    """Return what sends these bytes and closes the connection."""

    async def act(talk: Talk, api: Api) -> None:
        await talk.head()
        await talk.send(make(api))
        talk.cut()

    return act


def reset(make: Callable[[Api], bytes]) -> Act:
    async def act(talk: Talk, api: Api) -> None:
        await talk.head()
        await talk.send(make(api))
        await asyncio.sleep(0.05)  # a reset overtakes what was sent before it
        talk.reset()

    return act


def held(make: Callable[[Api], bytes]) -> Act:
    async def act(talk: Talk, api: Api) -> None:
        await talk.head()
        await talk.send(make(api))
        await talk.hold()

    return act


def answers(status: int, make: Callable[[Api], Any], kind: str = "application/json", **headers: str) -> Act:
    async def act(talk: Talk, api: Api) -> None:
        await talk.whole(status, make(api), kind, **headers)

    return act


def upto(mark: bytes, more: int = 0, say: Say = BAD) -> Callable[[Api], bytes]:
    """Return the reply up to a mark and so many bytes of it."""

    def make(api: Api) -> bytes:
        whole = joined(api, say)
        assert mark in whole, mark
        return whole[: whole.index(mark) + more]

    return make


def call_announced(api: Api) -> bytes:
    events = said(api, BAD)
    at = next(at for at, each in enumerate(events) if b'"note"' in each)
    return b"".join(events[: at + 1])


def in_arguments(api: Api) -> bytes:
    mark = {"openai": b'"arguments":"{', "anthropic": b'"partial_json":"{', "responses": b'"delta":"{'}
    return upto(mark.get(api, b'"args":{'), 20)(api)


def without_last(api: Api) -> list[bytes]:
    """Return the events without the mark at the end; the reason of the end is told."""
    return said(api, BAD)[: None if api == "gemini" else -1]


def without_reason(api: Api) -> list[bytes]:
    """Return the events without the reason of the end."""
    last = {"openai": 3, "anthropic": 2, "responses": 1, "gemini": 1}
    return said(api, BAD)[: -last[api]]


def changed(before: bytes, after: bytes) -> Callable[[Api], list[bytes]]:
    def make(api: Api) -> list[bytes]:
        return [each.replace(before, after) for each in said(api, BAD)]

    return make


def with_event(made: bytes) -> Callable[[Api], list[bytes]]:
    """Return the events with one more before the reason of the end."""

    def make(api: Api) -> list[bytes]:
        events = said(api, BAD)
        return [*events[:2], made, *events[2:]]

    return make


def reordered(api: Api) -> list[bytes]:
    events = said(api, BAD)
    marks = (b'"arguments":"', b'"partial_json":"', b"arguments.delta")
    pieces = [at for at, each in enumerate(events) if any(mark in each for mark in marks)]
    pieces = [at for at in pieces if b'"arguments":""' not in events[at] and b".done" not in events[at]]
    pieces = [at for at in pieces if b"completed" not in events[at]]
    for at, other in zip(pieces, reversed([events[at] for at in pieces]), strict=True):
        events[at] = other
    return events


def counting(**numbers: str) -> Callable[[Api], list[bytes]]:
    def make(api: Api) -> list[bytes]:
        events = said(api, BAD)
        for name, number in (("input", numbers["all"]), ("output", numbers["all"])):
            fields = {
                "input": (b'"prompt_tokens":20', b'"input_tokens":4', b'"input_tokens":20', b'"promptTokenCount":20'),
                "output": (b'"completion_tokens":7', b'"output_tokens":7', b'"candidatesTokenCount":7'),
            }
            for old in fields[name]:
                new = old[: old.index(b":") + 1] + number.encode()
                events = [each.replace(old, new) for each in events]
        return events

    return make


def odd_counts(replied: Replied, api: Api) -> str:
    usage = replied.usage
    counted = (usage.input, usage.output, usage.cached, usage.written)
    return "" if all(type(number) is int and number >= 0 for number in counted) else f"it counted {counted}"


def calling(count: int, *, id: str = "call_{at}", name: str = "note") -> Say:
    return Say(calls=tuple((id.format(at=at), name, f'{{"text":"{at}"}}') for at in range(count)), piece=64)


def ids_differ(replied: Replied, api: Api) -> str:
    ids = [call.id for call in replied.message.calls]
    return "" if len(set(ids)) == len(ids) and all(ids) else f"the ids are {ids}"


def opened(api: Api, upto: bytes, say: Say = BAD) -> list[bytes]:
    events = said(api, say)
    return events[: next(at for at, each in enumerate(events) if upto in each) + 1]


def more(api: Api, text: str) -> bytes:
    """Return an event with one more piece of arguments."""
    if api == "openai":
        delta: Any = {"tool_calls": [{"index": 0, "function": {"arguments": text}}]}
        return event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    if api == "anthropic":
        delta = {"type": "input_json_delta", "partial_json": text}
        return event({"type": "content_block_delta", "index": 1, "delta": delta}, "content_block_delta")
    told = {"type": "response.function_call_arguments.delta", "output_index": 1, "item_id": "fc_0"}
    return event({**told, "delta": text})


def endless_arguments(piece: int, total: int) -> Act:
    """Return what sends arguments of that many bytes, made while they are sent."""

    async def act(talk: Talk, api: Api) -> None:
        await talk.head()
        for each in opened(api, b'"note"'):
            await talk.send(each)
        await talk.send(more(api, '{"text": "'))
        made = more(api, "x" * piece)
        together = max(1, 65_536 // len(made))
        for _ in range(total // (piece * together)):
            await talk.send(made * together)
        await talk.send(b"".join([more(api, '"}'), *said(api, BAD)[-3:]]))
        await talk.end()

    return act


async def many_calls(talk: Talk, api: Api) -> None:
    events = said(api, calling(10_000))
    await talk.head()
    for at in range(0, len(events), 100):
        await talk.send(b"".join(events[at : at + 100]))
    await talk.end()


async def long_line(talk: Talk, api: Api) -> None:
    await talk.head()
    await talk.send(b"data: ")
    for _ in range(1_600):
        await talk.send(b"x" * 65_536)
    await talk.send(b"\n\n")
    await talk.end()


async def bomb(talk: Talk, api: Api) -> None:
    await talk.head(content_encoding="gzip")
    await talk.send(packed_zeros())
    await talk.end()


@cache
def packed_zeros() -> bytes:
    packer = zlib.compressobj(1, wbits=16 + zlib.MAX_WBITS)
    zeros = (packer.compress(bytes(1_000_000)) for _ in range(100))
    return b"".join([packer.compress(b"data: "), *zeros, packer.flush()])


async def truly_packed(talk: Talk, api: Api) -> None:
    packer = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    await talk.head(content_encoding="gzip")
    await talk.send(packer.compress(joined(api)) + packer.flush())
    await talk.end()


async def packed_lie(talk: Talk, api: Api) -> None:
    await talk.head(content_encoding="gzip")
    await talk.send(joined(api))
    await talk.end()


async def packed_unheard(talk: Talk, api: Api) -> None:
    await talk.head(content_encoding="br")
    await talk.send(joined(api))
    await talk.end()


async def broken_chunks(talk: Talk, api: Api) -> None:
    await talk.head()
    await talk.send(call_announced(api))
    await talk.raw(b"zz\r\nnot a chunk\r\n")
    talk.cut()


async def too_long_told(talk: Talk, api: Api) -> None:
    body = b"".join(without_reason(api))
    await talk.head(content_length=str(len(body) + 100))
    await talk.raw(body)
    talk.cut()


async def too_short_told(talk: Talk, api: Api) -> None:
    body = joined(api)
    await talk.head(content_length=str(len(call_announced(api))))
    with contextlib.suppress(ConnectionError):
        await talk.raw(body)
    talk.cut()


async def loris(talk: Talk, api: Api) -> None:
    await talk.head()
    for byte in b"data: " + b"x" * 100_000:
        await talk.send(bytes([byte]))
        await asyncio.sleep(0.02)


async def alive_and_mute(talk: Talk, api: Api) -> None:
    await talk.head()
    for _ in range(100_000):
        await talk.send(b": still here\n\n")
        await asyncio.sleep(0.02)


async def early_hints(talk: Talk, api: Api) -> None:
    for _ in range(100_000):
        await talk.raw(b"HTTP/1.1 103 Early Hints\r\nlink: nothing\r\n\r\n")
        await asyncio.sleep(0.01)


async def endless_head(talk: Talk, api: Api) -> None:
    await talk.raw(b"HTTP/1.1 200 OK\r\nx-long: ")
    for _ in range(1_000):
        await talk.raw(b"x" * 65_536)


async def no_http(talk: Talk, api: Api) -> None:
    await talk.raw(b"SSH-2.0-OpenSSH_9.6\r\n")
    talk.cut()


async def gone(talk: Talk, api: Api) -> None:
    talk.cut()


async def silent(talk: Talk, api: Api) -> None:
    await talk.hold()


async def redirect(talk: Talk, api: Api) -> None:
    port = int(talk.asked.headers["host"].rpartition(":")[2])
    await talk.whole(307, b"", location=f"{ELSEWHERE[port]}/v1{talk.asked.path}")


async def byte_by_byte(talk: Talk, api: Api) -> None:
    await talk.head()
    whole = b"\xef\xbb\xbf: hello\r" + joined(api).replace(b"\n", b"\r\n")
    for at in range(len(whole)):
        await talk.send(whole[at : at + 1])
    await talk.end()


async def old_http(talk: Talk, api: Api) -> None:
    await talk.head(connection="close")
    await talk.raw(joined(api))


def complaint(message: str, **more: Any) -> Callable[[Api], Any]:
    return lambda api: {"type": "error", "error": {"message": message, "type": "some_error", **more}}


def overloaded(api: Api) -> list[bytes]:
    told = {"openai": {"error": {"message": "Overloaded", "type": "server_error", "code": 529}}}
    told["gemini"] = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
    other = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    return [*without_reason(api)[:-1], event(told.get(api, other), "error")]


def unknown_reason(api: Api) -> list[bytes]:
    pairs = {
        "openai": (b'"finish_reason":"tool_calls"', b'"finish_reason":"moon"'),
        "anthropic": (b'"stop_reason":"tool_use"', b'"stop_reason":"moon"'),
        "gemini": (b'"finishReason":"STOP"', b'"finishReason":"MOON"'),
        "responses": (b'"type":"response.completed"', b'"type":"response.incomplete"'),
    }
    return changed(*pairs[api])(api)
