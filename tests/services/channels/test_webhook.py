"""A service of one's own as a channel: signed both ways, told twice and heard once."""

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.exec.shells import until
from tests.sockets import serving
from toolcrib.app import Crib
from toolcrib.define.channel import Attachment, InboundAnswer, InboundRequest, Post
from toolcrib.define.errors import ToolError

from .assistants import assistant_on

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

SECRET = "0123456789abcdef0123"
OWNER, STRANGER = "ann", "bob"
PICTURE = b"\x89PNG\r\n\x1a\n" + b"0" * 20


def sign(stamp: str, body: bytes, secret: str = SECRET) -> str:
    return "sha256=" + hmac.new(secret.encode(), f"{stamp}.".encode() + body, hashlib.sha256).hexdigest()


def signed(told: Any, *, at: float | None = None, secret: str = SECRET) -> InboundRequest:
    body = told if isinstance(told, bytes) else json.dumps(told).encode()
    stamp = str(int(time.time() if at is None else at))
    headers = {"x-toolcrib-timestamp": stamp, "x-toolcrib-signature": sign(stamp, body, secret)}
    return InboundRequest("POST", {}, headers, body)


def said_by(who: str, text: str, id: str = "1", **more: Any) -> dict[str, Any]:
    return {"id": id, "chat": who, "sender": {"id": who}, "text": text, **more}


@dataclass
class Service:
    """What was taken, each key once; `fails` are statuses that come before that."""

    url: str = ""
    taken: dict[str, dict[str, Any]] = field(default_factory=dict)
    fails: list[int] = field(default_factory=list)
    asked: int = 0

    def said(self, chat: str) -> list[str]:
        return [each["text"] for each in list(self.taken.values()) if each["chat"] == chat]


@contextmanager
def service() -> Iterator[Service]:
    world = Service()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body, stamp = self.rfile.read(int(self.headers["content-length"])), self.headers["x-toolcrib-timestamp"]
            world.asked += 1
            status = world.fails.pop(0) if world.fails else 200
            if self.headers["x-toolcrib-signature"] != sign(stamp, body) or abs(time.time() - int(stamp)) > 300:
                status = 403
            if status in (0, 200):  # 0: it is taken, and the answer is lost
                world.taken.setdefault(self.headers["idempotency-key"], json.loads(body))
            if status == 0:
                self.close_connection = True
                return
            data = b'{"id": "m1"}'
            self.send_response(status)
            self.send_header("content-length", str(len(data)))
            self.send_header("retry-after", "0")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None: ...

    with serving(Handler) as origin:
        world.url = f"{origin}/in"
        yield world


def assistant(folder: Path, there: Service, **own: Any) -> AbstractAsyncContextManager[Crib]:
    return assistant_on("webhook", folder, {"url": there.url, "secret": SECRET, "owners": [f"id:{OWNER}"], **own})


async def tell(crib: Crib, request: InboundRequest) -> InboundAnswer:
    answer = await crib.channels.receive("webhook", request)
    assert answer is not None
    return answer


async def test_the_owner_is_answered_and_a_stranger_gets_a_code(tmp_path: Path) -> None:
    with service() as there:
        async with assistant(tmp_path, there) as crib:
            assert (await tell(crib, signed(said_by(OWNER, "hello")))).status == 202
            await until(lambda: any("six verbs" in each for each in there.said(OWNER)))
            stranger = {**said_by(STRANGER, "hello"), "sender": {"id": STRANGER, "name": OWNER}}
            await tell(crib, signed(stranger))
            await until(lambda: any("with the code" in each for each in there.said(STRANGER)))
            (waits,) = (await crib.channels.people())["people"]
            await crib.channels.pair(waits["code"])
            await tell(crib, signed(said_by(STRANGER, "hello", id="2")))
            await until(lambda: any("six verbs" in each for each in there.said(STRANGER)))


async def test_a_group_gets_its_own_tools_and_a_replay_nothing(tmp_path: Path) -> None:
    groups = {"shop": {"tools": {"allow": ["read"]}}}
    with service() as there:
        async with assistant(tmp_path, there, groups=groups) as crib:
            asked = signed(said_by(STRANGER, "/why exec", group="shop", mentioned=True))
            for _ in range(3):
                assert (await tell(crib, asked)).status == 202
            await tell(crib, signed(said_by(STRANGER, "/why exec", id="2", group="shop")))
            await tell(crib, signed(said_by(STRANGER, "/why read", id="3", group="shop", mentioned=True)))
            # neither waits for the other
            await until(lambda: {each[:6] for each in there.said(STRANGER)} >= {"exec: ", "read: "})
            assert [each[:10] for each in there.said(STRANGER) if "exec" in each] == ["exec: deny"]


@pytest.mark.parametrize(
    ("request_", "status", "why"),
    [
        (lambda: signed(said_by(OWNER, "hi"), secret="another-secret-of-it"), 403, "this is not signed"),
        (lambda: signed(said_by(OWNER, "hi"))._replace(headers={}), 403, "this is not signed"),
        (lambda: signed(said_by(OWNER, "hi"))._replace(body=b"{}"), 403, "this is not signed"),
        (lambda: signed(said_by(OWNER, "hi"), at=1_700_000_000), 403, "seconds off"),
        (lambda: signed(said_by(OWNER, "hi"), at=9_999_999_999), 403, "seconds off"),
        (lambda: signed(b"nonsense"), 400, "the body: Invalid JSON"),
        (lambda: signed([]), 400, "the body: Input should be an object"),
        (lambda: signed({"id": "1", "chat": "c"}), 400, "sender: Field required"),
        (lambda: signed({**said_by(OWNER, "hi"), "id": 7}), 400, "id: Input should be a valid string"),
        (lambda: signed({**said_by(OWNER, "hi"), "owner": True}), 400, "owner: Extra inputs are not permitted"),
        (
            lambda: signed({**said_by(OWNER, "hi"), "sender": {"id": ""}}),
            400,
            "sender.id: String should have at least 1",
        ),
        (lambda: signed({**said_by(OWNER, "hi"), "files": [{"data": "%%%"}]}), 400, "files: data is base64"),
        (lambda: signed(b'{"id":' * 100_000), 400, "the body: Invalid JSON"),
    ],
)
async def test_what_is_not_right_is_refused_and_not_heard(
    tmp_path: Path, request_: Callable[[], InboundRequest], status: int, why: str
) -> None:
    with service() as there:
        async with assistant(tmp_path, there) as crib:
            answer = await tell(crib, request_())
            assert answer.status == status
            assert why in answer.body
            assert await crib.channels.store.list_unanswered("webhook") == ()


async def test_a_question_has_buttons_and_only_the_owners_counts(tmp_path: Path) -> None:
    with service() as there:
        async with assistant(tmp_path, there) as crib:
            await tell(crib, signed(said_by(OWNER, "run touch made")))
            await until(lambda: any(each["buttons"] for each in list(there.taken.values())))
            yes = next(each["buttons"][0][0]["data"] for each in there.taken.values() if each["buttons"])
            await tell(crib, signed(said_by(STRANGER, "", pressed=yes)))
            assert not (tmp_path / "work" / "made").exists()
            await tell(crib, signed(said_by(OWNER, "", id="2", pressed=yes)))
            await until(lambda: (tmp_path / "work" / "made").exists())


async def test_what_was_not_taken_is_posted_again_and_taken_once(tmp_path: Path) -> None:
    with service() as there:
        async with assistant(tmp_path, there) as crib:
            there.fails = [429, 503, 0]
            told = await crib.channels.send(toolcrib.OWNER, to=OWNER, message="hi", idempotencyKey="é")
            assert told["messageId"] == "m1"
            assert (there.said(OWNER), there.asked) == (["hi"], 4)
            there.fails = [404]
            with pytest.raises(ToolError, match="the webhook answered 404; what it takes is in docs"):
                await crib.channels.send(toolcrib.OWNER, to=OWNER, message="hi", idempotencyKey="2")


async def test_files_go_both_ways_within_bounds(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(PICTURE)
    with service() as there:
        async with assistant(tmp_path, there) as crib:
            channel, data = crib.channels.find_line("webhook").channel, base64.b64encode(PICTURE).decode()
            assert await channel.fetch(Attachment(data), 1_000) == PICTURE
            with pytest.raises(ToolError, match="more than 10 bytes"):
                await channel.fetch(Attachment(data), 10)
            await channel.post(Post(chat=OWNER, media=str(tmp_path / "out"), filename="a.png", text="look"), "k")
            (taken,) = there.taken.values()
            assert taken["file"] == {"name": "a.png", "mime": "image/png", "data": data, "voice": False}
            (tmp_path / "out").write_bytes(b"0" * (6 << 20))
            with pytest.raises(ToolError, match="files of at most 5,242,880 bytes"):
                await channel.post(Post(chat=OWNER, media=str(tmp_path / "out")), "k2")
            with pytest.raises(ToolError, match="webhook cannot 'edit'; it can send, broadcast, reply"):
                await channel.act("edit", OWNER, {})


async def test_a_short_secret_is_refused(tmp_path: Path) -> None:
    config = {"channels": {"webhook": {"url": "http://127.0.0.1:1/", "secret": "short"}}}
    async with toolcrib.open(config, state=tmp_path) as crib:
        await crib.channels.open()
        (row,) = (await crib.channels.status())["channels"]
        assert row["problem"] == "the secret of a webhook has at least 16 characters: `openssl rand -hex 32`"
