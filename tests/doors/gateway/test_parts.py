"""Long payloads travel in parts, both ways; who takes no parts gets whole frames, and nobody is hung up on."""

import asyncio
import json

import pytest

pytest.importorskip("websockets", reason="the extra gateway is not installed")

import toolcrib
from toolcrib.backends.stores.sessions_json import write_log
from toolcrib.define.log import Line, Said, SessionHead
from toolcrib.define.message import Message
from toolcrib.define.parts import MAX_FRAME_BYTES, MAX_REQUEST_BYTES, FrameAssembler, split_frame
from toolcrib.define.result import Text

from .world import TOKEN, client_of, gateway_of, until_closed

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

KEY = "agent:main:long"


def long_session() -> list[str]:
    """Return a session of three megabytes, as export writes it."""
    said = [Said(Message(role="user", content=(Text(f'{at} "ü\\😀' * 4_000),))) for at in range(60)]
    lines = [Line(f"a{at}", f"a{at - 1}" if at else None, 1.0, body) for at, body in enumerate(said)]
    return list(write_log(SessionHead(key=KEY, made_at=1.0, changed_at=1.0, count=len(lines)), lines))


async def test_what_is_long_is_asked_and_answered_all_the_same() -> None:
    texts = long_session()
    async with gateway_of() as world, toolcrib.connect(world.url, TOKEN) as crib:
        kept = await asyncio.gather(
            *(crib.ask("sessions.import", {"texts": texts, "key": f"{KEY}{n}"}) for n in (1, 2))
        )
        assert [each["lines"] for each in kept] == [60, 60]
        many = await asyncio.gather(*(crib.ask("sessions.export", {"key": f"{KEY}1"}) for _ in range(5)))
        assert all(each[1:] == texts[1:] for each in many)


async def test_who_takes_no_parts_gets_whole_frames_one_after_the_other() -> None:
    async with gateway_of() as world:
        async with toolcrib.connect(world.url, TOKEN) as crib:
            await crib.ask("sessions.import", {"texts": long_session()})
        async with client_of(world) as client:
            frame = {"type": "req", "method": "sessions.export", "params": {"key": KEY}}
            for id in ("a", "b", "c"):
                await client.socket.send(json.dumps({**frame, "id": id}))
            while {"a", "b", "c"} - client.answers.keys():
                assert (await client.hear())["type"] in ("res", "event")
        async with client_of(world, caps=["parts"]) as client:
            await client.socket.send(json.dumps({**frame, "id": "d"}))
            joiner, whole = FrameAssembler(1 << 28), None
            while whole is None or json.loads(whole)["type"] == "event":
                text = str(await client.socket.recv())
                assert len(text.encode()) <= MAX_FRAME_BYTES
                whole = joiner.take(text)
            assert json.loads(whole)["id"] == "d"


async def test_parts_without_end_are_ended() -> None:
    part = split_frame("x" * 200_000)[0]
    async with gateway_of() as world, client_of(world) as client:
        for _ in range(MAX_REQUEST_BYTES // 120_000 + 1):
            await client.socket.send(part)
        _, code = await until_closed(client.socket)
        assert code == 1008
        async with client_of(world) as other:
            await other.socket.send('{"type":"part","text":7}')
            frames, code = await until_closed(other.socket)
            assert ([each for each in frames if each["type"] != "event"], code) == ([], 1008)
