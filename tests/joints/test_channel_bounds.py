"""What is there for how many? Places, codes and letters go by who writes; strangers count together, owners apart."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import toolcrib
from tests.backends.models.servers import Say
from tests.joints.asking_world import PersonWorld, person_world, until
from toolcrib import OWNER, Caller, Sender
from toolcrib.backends.channels.email import EmailChannel
from toolcrib.backends.channels.mail_wire import MailRoute
from toolcrib.channels import HeardMessage

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

HOLD = Say(calls=(("a", "hold", "{}"),))
MAY = {"groups": {"*": {"tools": {"allow": ["*"]}}}, "direct": {"tools": {"allow": ["*"]}}}


def put(world: PersonWorld, who: str, text: str, thread: str = "", group: str = "") -> None:
    kind: Any = "group" if group else "dm"
    about: dict[str, Any] = {"chat": group or who, "thread": thread, "kind": kind, "group": group, "is_for_us": True}
    world.box.heard.put_nowait(HeardMessage(id=f"{who}{thread}{text}", sender=Sender(id=who), text=text, **about))


def said_to(world: PersonWorld, chat: str) -> list[str]:
    return [each.text for each in world.box.posts if each.chat == chat]


@asynccontextmanager
async def box(
    folder: Path, *acts: Say, tools: Any = None, most_jobs: int = 10, **own: Any
) -> AsyncIterator[PersonWorld]:
    config = {"box": {**MAY, "owners": ["id:ann"], **own}, "tools": tools or {}, "cron": {"maxConcurrent": most_jobs}}
    async with person_world(folder, *acts, config=config) as world:
        yield world


@pytest.mark.parametrize("group", ["", "g"])
@pytest.mark.parametrize("who", ["kim", "stranger"])
async def test_whoever_fills_all_places_leaves_the_owners_and_others_free(who: str, group: str, tmp_path: Path) -> None:
    count = 8 if who == "kim" else 16
    own: dict[str, Any] = {"allowFrom": ["id:kim", "id:lee"]}
    policy = "allowlist" if who == "kim" else "open"
    async with box(tmp_path, *([HOLD] * 200), dmPolicy=policy, **own) as world:
        for at in range(80):
            put(world, who, "hold it", f"t{at}", group)
        await until(lambda: world.held.begun >= count)
        put(world, "ann", "hello")
        put(world, "lee", "hello")
        await until(lambda: world.held.begun >= count + 2)
        store = world.crib.channels.store
        async with asyncio.timeout(60):
            while len(left := await store.list_unanswered("box")) != 66:  # of eighty, sixty-four wait
                await asyncio.sleep(0.02)
        assert {each.message.sender.id for each in left} == {who, "ann", "lee"}
        too_many = 16 if who == "kim" else 0  # strangers are told nothing
        await until(lambda: sum("wait already" in each.text for each in world.box.posts) == too_many)
        assert world.held.begun == count + 2


async def test_a_turn_that_waits_for_a_person_holds_no_place(tmp_path: Path) -> None:
    own: dict[str, Any] = {"allowFrom": ["id:kim"], "dmPolicy": "allowlist"}
    tools = {"ask": ["hold"]}
    async with box(tmp_path, *([HOLD] * 200), tools=tools, **own) as world:
        for at in range(20):  # more than one person has places
            put(world, "kim", "hold it", f"t{at}")
        async with asyncio.timeout(60):
            while len(await world.crib.ask("approvals.list", {}, caller=toolcrib.OWNER)) < 20:
                await asyncio.sleep(0.05)
        assert world.held.begun == 0


async def have_done(world: PersonWorld, who: str, count: int) -> None:
    """Have somebody make so many jobs that are due."""
    caller = (
        OWNER if who == "owner" else Caller(channel="box", sender=Sender(id=who), session=f"agent:main:box:dm:{who}")
    )
    for _ in range(count):
        payload = {"kind": "agentTurn", "message": "hold it", "deliver": False}
        job = {"schedule": {"kind": "at", "atMs": int(time.time() * 1000)}, "payload": payload}
        assert (await world.crib.belt(caller).call("cron", {"action": "add", "job": job})).status == "ok"


async def test_the_jobs_of_others_leave_the_owners_a_place(tmp_path: Path) -> None:
    async with box(tmp_path, *([HOLD] * 9), allowFrom=["id:kim"], most_jobs=1) as world:
        await have_done(world, "kim", 3)
        world.crib.cron.start()
        await until(lambda: world.held.begun == 1)
        await have_done(world, "owner", 1)
        await until(lambda: world.held.begun == 2)
        world.held.go.set()

        # each of the four jobs is a turn of its own: what a model is asked before it has said anything
        def count_turns() -> int:
            return sum("assistant" not in {m["role"] for m in each.body["messages"]} for each in world.server.asked)

        await until(lambda: count_turns() >= 4)
        assert count_turns() == 4


async def test_a_job_that_waits_for_a_person_holds_no_place(tmp_path: Path) -> None:
    async with box(tmp_path, *([HOLD] * 9), tools={"ask": ["hold"]}, allowFrom=["id:kim"], most_jobs=1) as world:
        await have_done(world, "kim", 2)
        await have_done(world, "owner", 2)
        world.crib.cron.start()
        async with asyncio.timeout(120):
            while len(await world.crib.ask("approvals.list", {}, caller=OWNER)) < 4:
                world.crib.cron.clock.poke()
                await asyncio.sleep(0.05)
        assert world.held.begun == 0


@pytest.mark.parametrize(("who", "group"), [("stranger", "g"), ("kim", "")])
async def test_commands_without_end_hold_up_nobody_else(who: str, group: str, tmp_path: Path) -> None:
    async with box(tmp_path, allowFrom=["id:kim"], dmPolicy="allowlist") as world:
        kind: Any = "group" if group else "dm"
        about: dict[str, Any] = {"chat": group or who, "kind": kind, "group": group, "is_for_us": True}
        many = [HeardMessage(id=str(at), sender=Sender(id=who), text=f"/approve {at}", **about) for at in range(200)]
        store = world.crib.channels.store
        await store.hear("box", many, "")  # all at once
        put(world, "ann", "/status")
        await until(lambda: said_to(world, "ann"), 120)
        assert len(said_to(world, group or who)) < 100  # most of them wait still
        async with asyncio.timeout(240):
            while await store.list_unanswered("box") or await store.outgoing("box"):
                await asyncio.sleep(0.05)
        assert len({*said_to(world, group or who)}) == len(said_to(world, group or who)) == 200  # each is answered once


async def test_the_questions_of_nobodies_leave_room_for_the_owners(tmp_path: Path) -> None:
    async with box(tmp_path, tools={"ask": ["hold"], "guests": "full"}) as world:

        async def ask(caller: toolcrib.Caller) -> toolcrib.Result:
            return await world.crib.belt(caller).call("hold")

        async def count() -> int:
            return len(await world.crib.ask("approvals.list", {}, caller=toolcrib.OWNER))

        going = [asyncio.ensure_future(ask(toolcrib.Caller(session=f"agent:main:web:{at}"))) for at in range(70)]
        async with asyncio.timeout(60):
            while sum(each.done() for each in going) < 6:  # of seventy, sixty-four wait
                await asyncio.sleep(0.05)
        going.append(asyncio.ensure_future(ask(toolcrib.OWNER)))
        async with asyncio.timeout(60):
            while await count() < 65:
                assert not going[-1].done(), going[-1].result()
                await asyncio.sleep(0.05)
        for each in going:
            each.cancel()
        await asyncio.gather(*going, return_exceptions=True)


async def test_three_strangers_do_not_hold_all_codes(tmp_path: Path) -> None:
    async with box(tmp_path) as world:
        for who in ("eve", "mallory", "trudy", "bob"):
            put(world, who, "let me in")
        await until(
            lambda: all("with the code" in str(said_to(world, who)) for who in ("eve", "mallory", "trudy", "bob"))
        )
        for at in range(80):
            put(world, f"eve{at}", "let me in")
        await until(lambda: said_to(world, "eve79"))
        people = (await world.crib.ask("channels.people", {}, caller=toolcrib.OWNER))["people"]
        assert len(people) == 64  # the oldest gave way
        put(world, "zoe", "let me in")
        await until(lambda: said_to(world, "zoe"))
        await world.crib.channels.pair(said_to(world, "zoe")[0].rpartition(" ")[2].rstrip("."))


async def test_the_owner_is_told_once_an_hour_that_strangers_write(tmp_path: Path) -> None:
    async with box(tmp_path, Say(text="hello Ann"), Say(text="hello again")) as world:
        put(world, "ann", "hello")
        await until(lambda: said_to(world, "ann"))
        for who in ("eve", "mallory", "trudy"):
            put(world, who, "let me in")
            await until(lambda who=who: said_to(world, who))  # type: ignore[misc]
        put(world, "ann", "and on")
        await until(lambda: len(said_to(world, "ann")) == 3)
        assert ["stranger" in each for each in said_to(world, "ann")] == [False, True, False]


class Box:
    """A mailbox over IMAP, as far as a channel reads one."""

    def __init__(self) -> None:
        self.letters, self.writers = list[bytes](), list[asyncio.StreamWriter]()

    def put(self, who: str, *, vouched: bool) -> None:
        results = "Authentication-Results: mx.test; dmarc=pass header.from=x.test\r\n" if vouched else ""
        head = f"{results}From: {who}\r\nMessage-ID: <{len(self.letters)}@x>\r\nSubject: hi\r\n\r\n"
        self.letters.append(f"{head}letter {len(self.letters)}\r\n".encode())

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(ConnectionError):  # the other end went in the midst of an answer
            await self._answer(reader, writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"* OK hi\r\n")
        while line := (await reader.readline()).decode().split():
            tag, verb, rest = line[0], line[1].upper(), " ".join(line[2:])
            if verb == "AUTHENTICATE":
                writer.write(b"+ go\r\n")
                await reader.readline()
            elif verb == "EXAMINE":
                writer.write(b"* OK [UIDVALIDITY 7] ok\r\n* OK [UIDNEXT 1] ok\r\n")
            elif verb == "UID" and "SIZE" in rest:
                first = int(rest.split()[1].split(":")[0])
                for at, each in enumerate(self.letters[first - 1 :], first):
                    writer.write(f"* {at} FETCH (UID {at} RFC822.SIZE {len(each)})\r\n".encode())
            elif verb == "UID":
                data = self.letters[int(rest.split()[1]) - 1]
                writer.write(f"* 1 FETCH (UID 1 BODY[] {{{len(data)}}}\r\n".encode() + data + b")\r\n")
            elif verb == "CAPABILITY":
                writer.write(b"* CAPABILITY IMAP4rev1 IDLE\r\n")
            elif verb == "IDLE":
                writer.write(b"+ idling\r\n* 1 EXISTS\r\n")
                await reader.readline()
                await asyncio.sleep(0.02)
            writer.write(f"{tag} OK done\r\n".encode())


async def test_forged_letters_put_off_nobody_and_what_is_too_much_comes_later(tmp_path: Path) -> None:
    mailbox, now, heard, cursors = Box(), [1_000.0], list[HeardMessage](), list[str]()
    server = await asyncio.start_server(mailbox.serve, "127.0.0.1", 0)
    imap = SimpleNamespace(
        host="127.0.0.1", port=server.sockets[0].getsockname()[1], tls=False, user="crib", password="p"
    )
    settings = SimpleNamespace(address="crib@x.test", auth_serv="mx.test", imap=imap, smtp=None)

    def read() -> "asyncio.Task[None]":
        async def hear(messages: Any, cursor: str) -> None:
            heard.extend(messages)
            cursors.append(cursor)

        channel = EmailChannel(settings, MailRoute(asyncio.open_connection), now=lambda: now[0])
        return asyncio.create_task(channel.listen(hear, cursors[-1] if cursors else "", lambda: None))

    async with server:
        task = read()
        await until(lambda: cursors)
        for _ in range(40):
            mailbox.put("ann@x.test", vouched=False)
        for _ in range(35):
            mailbox.put("ann@x.test", vouched=True)
        await until(lambda: cursors[-1].startswith("7:75"))
        by = [each.sender.id for each in heard]
        assert (by.count("~ann@x.test"), by.count("ann@x.test")) == (30, 30)
        task.cancel()
        await asyncio.wait((task,))
        now[0] += 3_601
        task = read()  # after a restart too
        await until(lambda: len(heard) == 75)
        assert len({each.id for each in heard}) == 75
        assert cursors[-1] == "7:75"
        task.cancel()
        await asyncio.wait((task,))
        for each in mailbox.writers:
            each.close()
            with contextlib.suppress(ConnectionError):  # the other end went in the midst of an answer
                await each.wait_closed()
