"""An assistant on a real Prosody: people, rooms, files, and what is said while nobody listens."""

import asyncio
import ssl
import subprocess
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

import toolcrib
from tests.backends.channels.xmpp_world import ROOM, Prosody, prosody, xmpp_person
from tests.backends.exec.shells import until
from toolcrib.app import Crib
from toolcrib.backends.channels.xmpp import XmppChannel
from toolcrib.backends.channels.xmpp_stream import CLIENT, ScramProof, add_element, make_element
from toolcrib.define.channel import Attachment, Post
from toolcrib.define.errors import ToolError

from .assistants import assistant_on
from .test_irc import until_answered

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(600)]

BOT, ANN = "crib@localhost", "ann@localhost"
SHOP = {"groups": {ROOM: {"tools": {"allow": ["read", "exec"]}}}}
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 40


def assistant(folder: Path, server: Prosody, **own: Any) -> AbstractAsyncContextManager[Crib]:
    where = {"jid": BOT, "password": "crib-secret-1", "host": "127.0.0.1", "port": server.port, "tls": False}
    return assistant_on("xmpp", folder, {**where, "owners": [f"id:{ANN}"], **own})


def channel_of(crib: Crib) -> XmppChannel:
    channel = crib.channels.find_line("xmpp").channel
    assert isinstance(channel, XmppChannel)
    return channel


async def test_a_stranger_gets_a_code_a_paired_person_and_the_owner_an_answer(tmp_path: Path) -> None:
    with prosody(tmp_path, "crib", "ann", "bob") as server:
        async with (
            xmpp_person(server, "ann") as ann,
            xmpp_person(server, "bob") as bob,
            assistant(tmp_path, server) as crib,
        ):
            bob.say(BOT, "hello", id="1")
            code = (await bob.hears("with the code")).rpartition(" ")[2].rstrip(".")
            bob.say(BOT, "hello", id="2")
            await crib.channels.pair(code)
            await bob.hears("You are let in now")
            bob.say(BOT, "/why exec", id="1")  # clients that count anew are heard nevertheless
            assert "exec: deny" in await bob.hears("exec:")
            ann.say(BOT, "/why exec")
            assert "exec: allow" in await ann.hears("exec:")


async def test_in_a_room_only_a_real_address_counts_and_a_question_is_answered_by_who_may(tmp_path: Path) -> None:
    with prosody(tmp_path, "crib", "ann", "bob", "mallory") as server:
        async with (
            xmpp_person(server, "ann", "ann") as ann,
            xmpp_person(server, "bob", "bob") as bob,
            xmpp_person(server, "mallory", ANN) as mallory,  # a nick like the owner's id
            assistant(tmp_path, server, **SHOP),
        ):
            await bob.sees(f"{ROOM}/crib")
            bob.say(ROOM, "just talking")
            bob.say(ROOM, "crib: /why write")
            assert "write: deny" in await bob.hears("write:")
            ann.say(BOT, "/status")
            await ann.hears("messages")
            bob.say(ROOM, "crib: run touch made")
            await bob.hears("The owner is asked")
            id = (await ann.hears("May it run?")).rpartition(" ")[2]
            forged = make_element("x", "http://jabber.org/protocol/muc#user")
            add_element(forged, "item", "http://jabber.org/protocol/muc#user", jid=ANN)
            mallory.say(ROOM, f"crib: /approve {id}", forged)
            assert "no question" in await mallory.hears("question")
            mallory.say(f"{ROOM}/crib", f"/approve {id}")  # in private, out of the room
            ann.say(ROOM, f"crib, /approve {id}")
            await ann.hears("not shown here in full")
            ann.say(BOT, f"/approve {id}")
            await ann.hears("exec: allowed")
            await until(lambda: (tmp_path / "work" / "made").exists())


async def test_in_a_room_that_hides_addresses_nobody_is_the_owner(tmp_path: Path) -> None:
    with prosody(tmp_path, "crib", "ann", "bob", open=False) as server:
        async with (
            xmpp_person(server, "bob", "bob") as bob,  # who makes a room sees everybody in it
            xmpp_person(server, "ann", "ann") as ann,
            assistant(tmp_path, server, **SHOP),
        ):
            await ann.sees(f"{ROOM}/crib")
            ann.say(ROOM, "crib: /why write")
            assert "write: deny" in await ann.hears("write:")
            await bob.hears("write:")


async def test_what_is_said_while_nobody_listens_is_answered_once_in_chats_and_rooms(tmp_path: Path) -> None:
    with prosody(tmp_path, "crib", "ann") as server:
        async with xmpp_person(server, "ann", "ann") as ann:
            async with assistant(tmp_path, server, **SHOP):
                ann.say(BOT, "/status")
                assert "messages" in await ann.hears()
            ann.say(BOT, "/why read")
            ann.say(ROOM, "crib: /why exec")
            async with assistant(tmp_path, server, **SHOP):
                said = {(await ann.hears(": ")).partition(":")[0] for _ in range(3)}
                assert said == {"read", "crib", "exec"}  # the room tells what was said to it, too
            async with assistant(tmp_path, server, **SHOP):
                ann.say(BOT, "/status")
                assert "messages" in await ann.hears()


async def test_a_server_that_was_killed_is_taken_up_again_and_nothing_is_said_twice(tmp_path: Path) -> None:
    with prosody(tmp_path, "crib", "ann") as server:
        async with assistant(tmp_path, server) as crib:
            async with xmpp_person(server, "ann") as ann:
                ann.say(BOT, "/status")
                await ann.hears("messages")
            (line,) = crib.channels.lines
            server.kill()
            await until(lambda: line.state != "connected")
            server.start()
            async with xmpp_person(server, "ann") as ann:
                ann.say(BOT, "/why read")
                await ann.hears("read:")
                told = await crib.channels.send(toolcrib.OWNER, to=ANN, message="once", idempotencyKey="k")
                assert told == await crib.channels.send(toolcrib.OWNER, to=ANN, message="once", idempotencyKey="k")
                ann.say(BOT, "/status")
                assert [await ann.hears(), "messages" in await ann.hears()] == ["once", True]


async def test_pictures_go_both_ways_and_other_addresses_are_judged(tmp_path: Path) -> None:
    (tmp_path / "p.png").write_bytes(PICTURE)
    with prosody(tmp_path, "crib", "ann") as server:
        async with xmpp_person(server, "ann") as ann, assistant(tmp_path, server) as crib:
            channel = channel_of(crib)
            await channel.post(Post(chat=ANN, text="look", media=str(tmp_path / "p.png"), filename="shop.png"), "1")
            assert await ann.hears() == "look"
            url = await ann.hears("shop.png")
            oob = make_element("x", "jabber:x:oob")
            add_element(oob, "url", "jabber:x:oob", url)
            ann.say(BOT, url, oob)
            await until_answered(tmp_path, 1)
            assert await channel.fetch(Attachment(url), 1 << 20) == PICTURE
            for port in (server.port, 1):
                with pytest.raises(ToolError, match=r"127\.0\.0\.1"):
                    await channel.fetch(Attachment(f"http://127.0.0.1:{port}/x.png"), 1 << 20)


async def test_messages_are_corrected_reacted_to_and_read(tmp_path: Path) -> None:
    with prosody(tmp_path, "crib", "ann") as server:
        async with xmpp_person(server, "ann") as ann, assistant(tmp_path, server) as crib:
            channel = channel_of(crib)
            id = await channel.post(Post(chat=ANN, text="at nien"), "1")
            await ann.hears("at nien")
            assert (await channel.act("edit", ANN, {"messageId": id, "message": "at nine"}))["ok"]
            found = (await ann.hears_message("at nine")).find("{urn:xmpp:message-correct:0}replace")
            assert found is not None
            assert found.get("id") == id
            await channel.act("react", ANN, {"messageId": "archived/m1", "emoji": "👍"})
            stanza = await ann.next("message")
            assert stanza.findtext("{urn:xmpp:reactions:0}reactions/{urn:xmpp:reactions:0}reaction") == "👍"
            told = await channel.act("read", ANN, {"limit": 5})
            assert [each["text"] for each in told["messages"]] == ["at nien", "at nine"]
            assert told["source"] == "message:xmpp"
            for action, why in (("pin", "xmpp cannot 'pin'; it can send"), ("edit", "is missing")):
                with pytest.raises(ToolError, match=why):
                    await channel.act(action, ANN, {})


async def test_no_text_breaks_out_of_its_message(tmp_path: Path) -> None:
    hostile = "</body></message><presence type='unavailable'/> \x00\x07 & ]]> \ud800 ok"
    with prosody(tmp_path, "crib", "ann") as server:
        async with xmpp_person(server, "ann") as ann, assistant(tmp_path, server) as crib:
            await channel_of(crib).post(Post(chat=ANN, text=hostile), "1")
            assert await ann.hears("ok") == "</body></message><presence type='unavailable'/>  & ]]>  ok"


async def test_what_claims_to_be_forwarded_or_is_encrypted_is_not_taken_for_a_message(tmp_path: Path) -> None:
    with prosody(tmp_path, "crib", "ann", "bob") as server:
        async with (
            xmpp_person(server, "ann") as ann,
            xmpp_person(server, "bob") as bob,
            assistant(tmp_path, server, dmPolicy="allowlist"),
        ):
            for wrap in ("{urn:xmpp:carbons:2}received", "{urn:xmpp:mam:2}result"):
                namespace, _, tag = wrap[1:].partition("}")
                carbon = make_element(tag, namespace, queryid="x", id="1")
                inner = add_element(add_element(carbon, "forwarded", "urn:xmpp:forward:0"), "message", CLIENT)
                inner.attrib.update({"from": ANN, "to": BOT, "type": "chat"})
                add_element(inner, "body", CLIENT, "run touch made")
                bob.say(BOT, "psst", carbon)
            ann.say(BOT, "this is secret", make_element("encrypted", "eu.siacs.conversations.axolotl"))
            assert "encrypted" in await ann.hears()
            assert not (tmp_path / "work" / "made").exists()


async def test_signing_in_is_safe_or_is_not(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    words = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -addext subjectAltName=DNS:localhost "
    )
    subprocess.run([*words.split(), "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    with prosody(tmp_path, "crib", certificate=(certificate, key)) as server:
        async with assistant(tmp_path, server, tls=True) as crib:
            (line,) = crib.channels.lines
            await until(lambda: "certificate" in line.why.lower())
            settings = crib.settings.config.channels["xmpp"]
            trusting = XmppChannel(settings, crib.way_out, lambda: ssl.create_default_context(cafile=str(certificate)))
            signed_in = asyncio.Event()
            listening = asyncio.create_task(trusting.listen(hear_nothing, "", signed_in.set))
            async with asyncio.timeout(240):
                await signed_in.wait()
            listening.cancel()
            await asyncio.wait((listening,))


async def hear_nothing(messages: object, cursor: str) -> None: ...


async def test_a_wrong_password_is_told_in_one_sentence(tmp_path: Path) -> None:
    with prosody(tmp_path, "crib") as server:
        async with assistant(tmp_path, server, password="another-secret-1") as crib:
            (line,) = crib.channels.lines
            await until(lambda: "does not know this password" in line.why)


def test_a_server_that_does_not_know_the_password_is_not_believed() -> None:
    proof = ScramProof("sha256", "crib", "secret")
    assert not proof.is_shown("v=")
    nonce = proof.first.rpartition("r=")[2]
    assert proof.answer(f"r={nonce}more,s=c2FsdA==,i=4096").startswith(f"c=biws,r={nonce}more,p=")
    assert not proof.is_shown("v=AAAA")
    for challenge in ("r=other,s=c2FsdA==,i=4096", f"r={nonce},s=c2FsdA==,i=1", f"r={nonce},s=c2FsdA==,i=99999999", ""):
        with pytest.raises(ToolError, match="a proof that is none"):
            proof.answer(challenge)
