"""An assistant with a mailbox on a real Dovecot, behind a real OpenSMTPD."""

import asyncio
import ssl
import subprocess
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.channels.mail_world import MailServers, letter, mail_servers
from tests.backends.exec.shells import until
from toolcrib.app import Crib
from toolcrib.backends.channels.email import EmailChannel
from toolcrib.backends.channels.mail_wire import MailRoute
from toolcrib.define.channel import HeardMessage, Post
from toolcrib.define.errors import ToolError

from .assistants import assistant_on
from .test_irc import until_answered

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

ANN, BOB = "ann@mail.test", "bob@mail.test"
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40


def assistant(folder: Path, servers: MailServers, **own: Any) -> AbstractAsyncContextManager[Crib]:
    return assistant_on("email", folder, servers.settings(owners=[f"id:{ANN}"], **own))


async def test_a_stranger_gets_a_code_a_paired_person_an_answer_in_the_thread(tmp_path: Path) -> None:
    with mail_servers(tmp_path) as servers:
        async with assistant(tmp_path, servers) as crib:
            first = letter(BOB, "hello", "When do you open?")
            await servers.send(first, vouched=True)
            told = await servers.hears("bob", "with the code")
            assert told["In-Reply-To"] == first["Message-ID"]
            assert told["Subject"] == "Re: When do you open?"
            assert told["Auto-Submitted"] == "auto-replied"
            (waits,) = (await crib.channels.people())["people"]
            assert waits["sender"] == BOB
            await crib.channels.pair(waits["code"])
            await servers.hears("bob", "You are let in now")
            await servers.send(letter(BOB, "/why exec\n\nOn Monday crib wrote:\n> hello\n", answers=told), vouched=True)
            answer = await servers.hears("bob", "exec: deny")
            assert str(answer["References"]).split()[0] == first["Message-ID"]


async def test_the_owner_is_who_the_server_vouches_for_and_nobody_else(tmp_path: Path) -> None:
    forged = "mail.test; dmarc=pass header.from=mail.test"
    with mail_servers(tmp_path) as servers:
        async with assistant(tmp_path, servers, dmPolicy="allowlist"):
            await servers.send(letter(ANN, "/why exec"))  # nobody vouches
            await servers.send(letter(ANN, "/why exec", Authentication_Results=f"evil.test; {forged}"))
            await servers.send(letter(f'"{ANN}" <bob@mail.test>', "/why exec"), vouched=True)
            await until_answered(tmp_path, 3)
            assert servers.read("ann") == servers.read("bob") == []
            await servers.send(letter(ANN, "/why exec"), vouched=True)
            await servers.hears("ann", "exec: allow")


async def test_a_question_is_answered_by_the_owner_in_a_letter(tmp_path: Path) -> None:
    with mail_servers(tmp_path) as servers:
        async with assistant(tmp_path, servers):
            await servers.send(letter(ANN, "run touch made", ""), vouched=True)
            asked = await servers.hears("ann", "May it run?")
            id = asked.get_content().strip().rpartition(" ")[2]
            await servers.send(letter(ANN, f"/approve {id}", answers=asked))  # nobody vouches
            await servers.send(letter(ANN, f"/approve {id}\n\n> May it run?", answers=asked), vouched=True)
            await until(lambda: (tmp_path / "work" / "made").exists())


async def test_what_came_while_nobody_listened_is_answered_once_also_after_a_cut(tmp_path: Path) -> None:
    with mail_servers(tmp_path) as servers:
        await servers.send(letter(ANN, "/why write"), vouched=True)  # before the first time: not answered
        async with assistant(tmp_path, servers):
            await servers.send(letter(ANN, "/status"), vouched=True)
            await servers.hears("ann", "messages")
        await servers.send(letter(ANN, "/why read"), vouched=True)
        async with assistant(tmp_path, servers) as crib:
            await servers.hears("ann", "read:")
            (line,) = crib.channels.lines
            servers.kill()
            await until(lambda: line.state != "connected")
            servers.start()
            await servers.send(letter(ANN, "/why exec"), vouched=True)
            await servers.hears("ann", "exec:")
            told = await crib.channels.send(toolcrib.OWNER, to=BOB, message="once", idempotencyKey="k")
            assert told == await crib.channels.send(toolcrib.OWNER, to=BOB, message="once", idempotencyKey="k")
        async with assistant(tmp_path, servers):
            await servers.send(letter(ANN, "/status"), vouched=True)
            await servers.hears("ann", "messages")
            assert servers.read("ann") == []
            assert len(servers.read("bob")) == 1


async def test_pictures_go_both_ways(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(PICTURE)
    heard = list[HeardMessage]()
    with mail_servers(tmp_path) as servers:
        async with assistant(tmp_path, servers) as crib:
            channel = crib.channels.find_line("email").channel
            picture = Post(chat=ANN, text="look", media=str(tmp_path / "p.png"), filename="shop.png")
            await channel.post(picture, "1")
            (part,) = (await servers.hears("ann", "look")).iter_attachments()
            assert (part.get_content(), part.get_filename()) == (PICTURE, "shop.png")
            mail = letter(ANN, "what is it?")
            mail.add_attachment(PICTURE, maintype="image", subtype="png", filename="it.png")

            async def hear(messages: Sequence[HeardMessage], cursor: str) -> None:
                heard.extend(messages)

            connected = asyncio.Event()
            listening = asyncio.create_task(channel.listen(hear, "", connected.set))
            await connected.wait()
            await servers.send(mail, vouched=True)
            await until(lambda: bool(heard))
            listening.cancel()
            (file,) = heard[0].attachments
            assert (file.name, file.mime, file.size) == ("it.png", "image/png", len(PICTURE))
            assert await channel.fetch(file, 1 << 20) == PICTURE
            with pytest.raises(ToolError, match="100 is the most"):
                await channel.fetch(file, 100)


async def test_machines_are_not_answered(tmp_path: Path) -> None:
    with mail_servers(tmp_path) as servers:
        async with assistant(tmp_path, servers, dmPolicy="open"):
            for marks in (
                {"Auto_Submitted": "auto-replied"},
                {"Precedence": "bulk"},
                {"List_Id": "<news.mail.test>"},
                {"Return_Path": "<>"},
            ):
                await servers.send(letter(BOB, "/status", **marks), vouched=True)
            await servers.send(letter("crib@mail.test", "/status"), vouched=True)
            await servers.send(letter("MAILER-DAEMON@mail.test", "/status"), vouched=True)
            await servers.send(letter(ANN, "/status"), vouched=True)
            await servers.hears("ann", "messages")
            assert servers.read("bob") == []


async def test_it_goes_over_tls_and_only_to_who_is_trusted(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=mail.test -addext subjectAltName=IP:127.0.0.1"
    subprocess.run([*words.split(), "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    with mail_servers(tmp_path, (certificate, key)) as servers:
        told = servers.settings()
        told["imap"] |= {"port": servers.imaps, "tls": True}
        async with assistant_on("email", tmp_path, told) as crib:
            (line,) = crib.channels.lines
            await until(lambda: "certificate" in line.why.lower())
            settings = crib.settings.config.channels["email"]
            route = MailRoute(crib.way_out.dial_own, lambda: ssl.create_default_context(cafile=str(certificate)))
            signed_in = asyncio.Event()

            async def hear(messages: Sequence[HeardMessage], cursor: str) -> None: ...

            listening = asyncio.create_task(EmailChannel(settings, route).listen(hear, "", signed_in.set))
            async with asyncio.timeout(240):
                await signed_in.wait()
            listening.cancel()
            await asyncio.wait((listening,))
